"""Match the bullets of an edited file with memories, and find out how each was edited.

First, equal texts are matched, wherever they are now. Then similar texts are matched, by rapidfuzz's `ratio`
(normalised Indel distance) with a small bonus for the same heading and the same neighbours. Then parts are matched. If
all words of a bullet were in one old text, the bullet was split off it. If all words of an old text are in one new
bullet, it was joined to it. The rest was deleted, or is new.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from memoryd.ledger.memory import Ending, Memory, MemoryKind
from memoryd.ledger.operation import Add, Delete, Operation, Update
from memoryd.ledger.projection import Standing, assign_places
from memoryd.tiers import core
from memoryd.tiers.core import Bullet

SIMILAR = 60.0  # of 100: a text with this similarity is the same memory in other words …
SIMILAR_IN_PLACE = 40.0  # … or with this one, if it is alone between the same neighbours
_NEIGHBOURS = 10.0
_HEADING = 5.0
_TRIED = 16  # most similar bullets that are tried for each memory
_PART = 0.8  # a part shares this part of its words with the whole
_PART_WORDS = 2  # fewer words do not show the source

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0fff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class PutBack:
    """Hold a protected memory that the edit removed or changed, and that goes back into the file."""

    memory_id: str
    was: str  # missing | changed
    edit: core.Edit


@dataclass(frozen=True, slots=True)
class FileImport:
    """Describe an outside edit of the file.

    Attributes:
        operations: that bring the ledger to the state of the file.
        put_back: further edits of the file itself.
    """

    operations: tuple[Operation, ...]
    put_back: tuple[PutBack, ...]


def match(old: Sequence[Memory], new: Sequence[Bullet], new_id: Callable[[], str]) -> FileImport:
    """Return the changes that somebody made to the file, as operations.

    A memory keeps its id when it is moved or reworded. If it was split, the most similar part keeps the id, and the
    others are new and derive from it. If memories were joined, the first keeps its id. A protected memory is not
    changed: if the file lacks it or has other words, `put_back` says how the file gets it back.

    Args:
        old: the live core memories, in file order.
        new: the present bullets of the file.
        new_id: draws a free id of a core memory.
    """
    pairing = _Pairing(old, new)
    pairing.pair_equal()
    pairing.pair_similar()
    pairing.pair_parts()
    return _Import(pairing, old, new_id).result()


def map_places(live: Sequence[Standing], bullets: Sequence[Bullet]) -> dict[str, int]:
    """Return the position of each memory among the bullets of a file, by equal texts; missing ones are left out.

    Of equal texts, one under the memory's own heading comes first, then the first in the file.
    """
    pairing = _Pairing(live, bullets)
    pairing.pair_equal()
    return {live[old].id: bullets[new].position for old, new in pairing.new_of.items()}


# ── pairing ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Pairing:
    """Hold the pairs of old memory and new bullet, by index, that are known to be the same."""

    def __init__(self, old: Sequence[Standing], new: Sequence[Bullet]) -> None:
        self.old = old
        self.new = new
        self.old_texts = [core.normalize(memory.content) for memory in old]
        self.new_texts = [core.normalize(bullet.text) for bullet in new]
        self.old_headings = [core.normalize(memory.heading or "") for memory in old]
        self.new_headings = [core.normalize(bullet.heading) for bullet in new]
        self.new_of: dict[int, int] = {}  # old → new
        self.old_of: dict[int, int] = {}  # new → old
        self.split_from: dict[int, int] = {}  # new → the old one it is a part of
        self.joined_to: dict[int, int] = {}  # old → the new one it is a part of

    def pair(self, old: int, new: int) -> None:
        """Note that a bullet is this memory."""
        self.new_of[old] = new
        self.old_of[new] = old

    def _list_unpaired(self) -> tuple[list[int], list[int]]:
        olds = [index for index in range(len(self.old)) if index not in self.new_of and index not in self.joined_to]
        news = [index for index in range(len(self.new)) if index not in self.old_of and index not in self.split_from]
        return olds, news

    def pair_equal(self) -> None:
        """Pair equal texts: first under the same heading, then anywhere, in order."""
        self._pair_by(
            [*zip(self.old_texts, self.old_headings, strict=True)],
            [*zip(self.new_texts, self.new_headings, strict=True)],
        )
        self._pair_by(self.old_texts, self.new_texts)

    def _pair_by(self, old_keys: Sequence[object], new_keys: Sequence[object]) -> None:
        olds, news = self._list_unpaired()
        waiting: dict[object, list[int]] = defaultdict(list)
        for index in reversed(olds):
            waiting[old_keys[index]].append(index)
        for index in news:
            queue = waiting.get(new_keys[index])
            if queue:
                self.pair(queue.pop(), index)

    def pair_similar(self) -> None:
        """Pair similar texts, the most similar pair first."""
        olds, news = self._list_unpaired()
        if not olds or not news:
            return
        from rapidfuzz import fuzz, process  # 3 MB, which an idle daemon does not need

        gaps_old, gaps_new = self._gaps(olds, news)
        texts = {index: self.new_texts[index] for index in news}
        lonely = _find_lonely(gaps_old.values()) & _find_lonely(gaps_new.values())
        found: list[tuple[float, int, int]] = []
        for old in olds:
            for _, score, new in process.extract(
                self.old_texts[old],
                texts,
                scorer=fuzz.ratio,
                processor=None,
                limit=_TRIED,
                score_cutoff=SIMILAR_IN_PLACE,
            ):
                near = gaps_old[old] == gaps_new[new]
                if score >= (SIMILAR_IN_PLACE if near and gaps_old[old] in lonely else SIMILAR):
                    same = self.old_headings[old] == self.new_headings[new]
                    found.append((score + _NEIGHBOURS * near + _HEADING * same, old, new))
        for _, old, new in sorted(found, key=lambda item: (-item[0], item[1], item[2])):
            if old not in self.new_of and new not in self.old_of:
                self.pair(old, new)

    def _gaps(self, olds: Sequence[int], news: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return, for each unpaired index, the new index of the nearest pair above it; -1 for none."""
        pairs = sorted(self.new_of.items())
        old_paired, new_paired = [old for old, _ in pairs], sorted(self.old_of)
        return (
            {one: pairs[at - 1][1] if (at := bisect_left(old_paired, one)) else -1 for one in olds},
            {one: new_paired[at - 1] if (at := bisect_left(new_paired, one)) else -1 for one in news},
        )

    def pair_parts(self) -> None:
        """Pair bullets that are parts of a changed old text, and old texts that are parts of a changed bullet."""
        olds, news = self._list_unpaired()
        changed = [old for old, new in self.new_of.items() if self.old_texts[old] != self.new_texts[new]]
        wholes_old = {index: _words(self.old_texts[index]) for index in (*changed, *olds)}
        wholes_new = {index: _words(self.new_texts[index]) for index in (*(self.new_of[old] for old in changed), *news)}
        for index in news:
            whole = _whole_of(wholes_new[index], wholes_old)
            if whole is not None:
                if whole in self.new_of:
                    self.split_from[index] = whole
                else:
                    self.pair(whole, index)
        for index in olds:
            if index not in self.new_of:
                whole = _whole_of(wholes_old[index], wholes_new)
                if whole is not None and whole not in self.split_from:
                    if whole in self.old_of:
                        self.joined_to[index] = whole
                    else:
                        self.pair(index, whole)


def _find_lonely(gaps: Iterable[int]) -> set[int]:
    return {gap for gap, times in Counter(gaps).items() if times == 1}


def _words(text: str) -> frozenset[str]:
    """Return the words of a text; of a script without spaces, every pair of characters."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        if len(word) > 2 and _UNSPACED.search(word):
            found.update(word[index : index + 2] for index in range(len(word) - 1))
        else:
            found.add(word)
    return frozenset(found)


def _whole_of(part: frozenset[str], wholes: dict[int, frozenset[str]]) -> int | None:
    """Return the index of the whole with most words of a part, the first of equals; None if none has nearly all."""
    if len(part) < _PART_WORDS:
        return None
    shares = {index: len(part & whole) / len(part) for index, whole in wholes.items() if len(whole) > len(part)}
    best = max(shares, key=lambda index: (shares[index], -index), default=None)
    return best if best is not None and shares[best] >= _PART else None


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Import:
    pairing: _Pairing
    old: Sequence[Memory]
    new_id: Callable[[], str]
    operations: list[Operation] = field(default_factory=list)
    put_back: list[PutBack] = field(default_factory=list)

    def result(self) -> FileImport:
        self._release()
        pairing = self.pairing
        numbers = assign_places([self._number(index) for index in range(len(pairing.new))])
        ids = {new: self.old[old].id for new, old in pairing.old_of.items()}
        for index, bullet in enumerate(pairing.new):
            if index in ids:
                self._update(index, bullet, numbers[index])
            else:
                ids[index] = self.new_id()
                self._add(index, bullet, numbers[index], ids[index])
        for index, memory in enumerate(self.old):
            if index in pairing.new_of:
                continue
            if memory.constitutional:
                self._insert(index, memory)
            elif index in pairing.joined_to:
                self.operations.append(Delete(memory.id, Ending.MERGED, (ids[pairing.joined_to[index]],)))
            else:
                self.operations.append(Delete(memory.id))
        return FileImport(tuple(self.operations), tuple(self.put_back))

    def _release(self) -> None:
        """Give the bullet of a protected memory to a memory joined with it: the protected one is put back as it was."""
        pairing = self.pairing
        joined = pairing.joined_to
        pairing.joined_to = {old: new for old, new in joined.items() if not self.old[old].constitutional}
        for old, new in list(pairing.joined_to.items()):
            if self.old[pairing.old_of[new]].constitutional:
                del pairing.new_of[pairing.old_of[new]], pairing.joined_to[old]
                pairing.pair(old, new)

    def _number(self, index: int) -> int | None:
        old = self.pairing.old_of.get(index)
        return None if old is None else self.old[old].position

    def _update(self, index: int, bullet: Bullet, number: int) -> None:
        pairing = self.pairing
        memory = self.old[pairing.old_of[index]]
        text = core.unescape(bullet.text)
        content = None if _show_text(text) == _show_text(memory.content) else text
        if memory.constitutional and content is not None:
            self.put_back.append(
                PutBack(memory.id, "changed", core.Replace(bullet.position, memory.content, keeps=True))
            )
            content = None
        joined = tuple(self.old[old].id for old, new in pairing.joined_to.items() if new == index)
        update = Update(
            memory.id,
            content=content,
            heading=None if bullet.heading == (memory.heading or "") else bullet.heading,
            position=None if number == memory.position else number,
            derived_from=joined,
        )
        if update != Update(memory.id):
            self.operations.append(update)

    def _add(self, index: int, bullet: Bullet, number: int, memory_id: str) -> None:
        whole = self.pairing.split_from.get(index)
        self.operations.append(
            Add(
                MemoryKind.CORE,
                core.unescape(bullet.text),
                heading=bullet.heading,
                position=number,
                derived_from=() if whole is None else (self.old[whole].id,),
                id=memory_id,
            )
        )

    def _insert(self, index: int, memory: Memory) -> None:
        """Put a memory back before the bullet that followed it, if that is still under its heading; else at the end."""
        pairing = self.pairing
        below = index + 1
        while below < len(self.old) and below not in pairing.new_of:
            below += 1
        before = pairing.new_of.get(below)
        if before is not None and core.normalize(pairing.new[before].heading) != core.normalize(memory.heading or ""):
            before = None
        position = None if before is None else pairing.new[before].position
        edit = core.Insert(memory.content, memory.heading or "", position)
        self.put_back.append(PutBack(memory.id, "missing", edit))


def _show_text(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.replace("\0", "\ufffd").split()))
