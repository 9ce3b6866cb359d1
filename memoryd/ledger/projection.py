"""Turn changes of the ledger into edits of `MEMORY.md` that leave the rest of the file untouched."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from memoryd.ledger.memory import Memory, MemoryKind
from memoryd.ledger.operation import Change
from memoryd.tiers import core


class StandingMemory(NamedTuple):
    """Hold a live core memory with only the values that decide its place in the file."""

    id: str
    content: str
    heading: str | None
    position: int | None


Standing = StandingMemory | Memory


def edits_of(order: Sequence[Standing], changes: Iterable[Change]) -> list[core.Edit]:
    """Return the edits that bring a file to the state of its ledger after changes.

    If a memory changed several times, only its last state counts.

    Args:
        order: the live core memories before the changes, one for each bullet of the file, in its order.
        changes: the changes, in order, of memories of any kind.
    """
    places = {memory.id: place for place, memory in enumerate(order)}
    last = {change.memory_id: change.after for change in changes if change.after.kind is MemoryKind.CORE}
    found: list[core.Edit] = []
    coming: list[Memory] = []
    takes: dict[str, list[int]] = defaultdict(list)  # by memory: the bullets that it replaces
    for memory_id, memory in last.items():
        place = places.get(memory_id)
        if place is None:
            coming += [memory] if memory.is_live else []
        elif not memory.is_live:
            found.append(core.Remove(place))
            for successor in memory.successors[:1]:
                takes[successor].append(place)
        elif _get_place(memory) != _get_place(order[place]):
            coming.append(memory)
        elif memory.content != order[place].content:
            found.append(core.Replace(place, memory.content))
    coming.sort(key=lambda memory: (memory.position is None, memory.position or 0))
    gone = {one.position for one in found if isinstance(one, core.Remove)} | {places.get(one.id) for one in coming}
    slots = _Slots((place, one) for place, one in enumerate(order) if place not in gone)
    for memory in coming:
        where = memory.heading or "", *slots.find(memory)
        place = places.get(memory.id)
        if place is None:
            found.append(core.Insert(memory.content, *where, tuple(takes[memory.id])))
        else:
            is_same = memory.content == order[place].content
            found.append(core.Move(place, *where, None if is_same else memory.content))
    return found


def _get_place(memory: Standing) -> tuple[str, int | None]:
    return memory.heading or "", memory.position


class _Slots:
    """Find the slots of memories among the bullets that stay in place."""

    def __init__(self, stays: Iterable[tuple[int, Standing]]) -> None:
        # By heading, and by None for all headings: the bullets, and the highest position up to each of them.
        self._bullets: dict[str | None, list[tuple[int, str]]] = defaultdict(list)
        self._highest: dict[str | None, list[int]] = defaultdict(list)
        for place, one in stays:
            heading = one.heading or ""
            for key in (heading, None) if heading else (heading,):
                if one.position is not None:
                    self._bullets[key].append((place, heading))
                    self._highest[key].append(max([one.position, *self._highest[key][-1:]]))

    def find(self, memory: Memory) -> tuple[int | None, str]:
        """Return the index of the bullet before which a memory belongs, and the heading after its own.

        The index is None for the end of its heading. The second value is for a heading that is not in the file.
        """
        for key in (memory.heading or "", None):
            at = len(self._highest[key])
            if memory.position is not None:
                at = bisect_right(self._highest[key], memory.position)
            for place, heading in self._bullets[key][at : at + 1]:
                return (None, heading) if key is None else (place, "")
        return None, ""


# ── positions: numbers that keep memories in the order of their file ──────────────────────────────────────────────────


STEP = 1 << 32
_SHARE = 4  # new memories take this part of a gap, at its beginning, because most of them come behind the last one


def assign_places(numbers: Sequence[int | None]) -> list[int]:
    """Return strictly growing positions for memories in file order; as many as possible keep their position.

    Args:
        numbers: the present position of each memory; None for a new memory.
    """
    kept = _find_longest(numbers)
    found: list[int | None] = [None] * len(numbers)
    for index in kept:
        found[index] = numbers[index]
    ends = [-1, *kept, len(numbers)]
    for start, end in pairwise(ends):
        low = None if start < 0 else found[start]
        new = _number_between(low, None if end == len(numbers) else found[end], end - start - 1)
        if new is None:
            return [STEP * (index + 1) for index in range(len(numbers))]
        found[start + 1 : end] = new
    return [number for number in found if number is not None]


def _number_between(low: int | None, high: int | None, count: int) -> list[int] | None:
    """Return `count` growing numbers between `low` and `high`; None if they do not fit."""
    if high is None:
        return [(low or 0) + STEP * (index + 1) for index in range(count)]
    if low is None:
        return [high - STEP * (count - index) for index in range(count)]
    if high - low <= count:
        return None
    room = max(count, (high - low) // _SHARE)
    return [low + room * (index + 1) // count for index in range(count)]


def _find_longest(numbers: Sequence[int | None]) -> list[int]:
    """Return the indexes of a longest growing subsequence, ignoring None (patience sorting: Fredman, 1975)."""
    tails: list[int] = []  # the smallest last number of a growing subsequence of each length …
    at: list[int] = []  # … and the index of that number
    previous: dict[int, int] = {}
    for index, number in enumerate(numbers):
        if number is None:
            continue
        length = bisect_left(tails, number)
        if length:
            previous[index] = at[length - 1]
        tails[length : length + 1] = [number]
        at[length : length + 1] = [index]
    found: list[int] = []
    index_or_none: int | None = at[-1] if at else None
    while index_or_none is not None:
        found.append(index_or_none)
        index_or_none = previous.get(index_or_none)
    return found[::-1]
