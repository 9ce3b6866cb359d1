"""Projection: changes of the ledger as edits of `MEMORY.md`, so that no other part of the file moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memoryd.ledger.memory import Memory, MemoryKind
from memoryd.ledger.operation import Change
from memoryd.tiers import core


class StandingMemory(NamedTuple):
    """A live core memory as far as its place in the file goes."""

    id: str
    content: str
    heading: str | None
    position: int | None


Standing = StandingMemory | Memory


def edits_of(order: Sequence[Standing], changes: Iterable[Change]) -> list[core.Edit]:
    """Return the edits that bring a file to the state of its ledger after changes; each memory counts once.

    Args:
        order: the live core memories before the changes, one for each bullet of the file, in its order.
        changes: in order, of memories of any kind.
    """
    places = {memory.id: place for place, memory in enumerate(order)}
    last = {change.memory_id: change.after for change in changes if change.after.kind is MemoryKind.CORE}
    edits: list[core.Edit] = []
    coming: list[Memory] = []
    for memory_id, memory in last.items():
        place = places.get(memory_id)
        if place is None:
            coming += [memory] if memory.is_live else []
            continue
        old = order[place]
        if not memory.is_live:
            edits.append(core.Remove(place))
        elif (memory.heading or "", memory.position) == (old.heading or "", old.position):
            edits += [core.Replace(place, memory.content)] if memory.content != old.content else []
        elif memory.content != old.content:
            edits.append(core.Remove(place))
            coming.append(memory)
        else:
            edits.append(core.Move(place, memory.heading or "", _find_place(order, last, memory)))
    coming.sort(key=lambda memory: (memory.position is None, memory.position or 0))
    return edits + [core.Insert(one.content, one.heading or "", _find_place(order, last, one)) for one in coming]


def _find_place(order: Sequence[Standing], last: dict[str, Memory], memory: Memory) -> int | None:
    """Return the place of the bullet before which a memory goes, the next one that stays; None for the end."""
    if memory.position is None:
        return None
    for place, other in enumerate(order):
        stays = other.id not in last or (last[other.id].is_live and last[other.id].position == other.position)
        is_next = other.position is not None and other.position > memory.position
        if stays and is_next and (other.heading or "") == (memory.heading or ""):
            return place
    return None
