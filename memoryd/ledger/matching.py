"""Match the bullets of an edited file with memories, and find out how each memory was edited.

There are three passes:

1. Equal texts are paired, wherever they are in the file.
2. Similar texts are paired, by rapidfuzz's `ratio` (normalised Indel distance). The same heading and the same
   neighbours give a small bonus.
3. Parts are paired. A bullet whose words are almost all in one old text was split off it. An old text whose words are
   almost all in one new bullet was joined to it.

A memory without a pair was deleted, and a bullet without a pair is new.
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

SIMILAR = 60.0  # of 100: texts at least this similar are the same memory, reworded …
SIMILAR_IN_PLACE = 40.0  # … or this similar, if the memory and the bullet are each alone between the same neighbours
_NEIGHBOURS = 10.0
_HEADING = 5.0
_TRIED = 16  # this many of the most similar bullets are compared with each memory
_PART = 0.8  # a part has at least this share of its words in common with the whole
_PART_WORDS = 2  # with fewer words, the origin of a part is uncertain

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0fff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class PutBack:
    """Hold a protected memory that an edit removed or changed, and the edit that restores it in the file."""

    memory_id: str
    was: str  # missing | changed
    edit: core.Edit


@dataclass(frozen=True, slots=True)
class FileImport:
    """Describe an edit of the file by somebody else.

    Attributes:
        operations: the operations that bring the ledger to the state of the file.
        put_back: edits of the file that restore protected memories.
    """

    operations: tuple[Operation, ...]
    put_back: tuple[PutBack, ...]


def match(old: Sequence[Memory], new: Sequence[Bullet], new_id: Callable[[], str]) -> FileImport:
    """Return the changes that somebody made to the file, as operations.

    A moved or reworded memory keeps its id. If a memory was split, the most similar part keeps the id, and the other
    parts are new memories that derive from it. If memories were joined, the most similar one keeps its id. A protected
    memory does not change: if the file lacks it or has other words, `put_back` has the edit that restores it.

    Args:
        old: the live core memories, in file order.
        new: the present bullets of the file.
        new_id: returns an unused id of a core memory.
    """
    pairing = _Pairing(old, new)
    pairing.pair_equal()
    pairing.pair_similar()
    pairing.pair_parts()
    return _Import(pairing, old, new_id).result()


def map_places(live: Sequence[Standing], bullets: Sequence[Bullet]) -> dict[str, int]:
    """Return the position of each memory among the bullets of a file, by id, without memories whose text is missing.

    If several bullets have the text, a bullet under the memory's own heading comes first, then the first in the file.
    """
    pairing = _Pairing(live, bullets)
    pairing.pair_equal()
    return {live[old].id: bullets[new].position for old, new in pairing.new_of.items()}


# ── pairing ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Pairing:
    """Hold the pairs of old memories and new bullets, by index."""

    def __init__(self, old: Sequence[Standing], new: Sequence[Bullet]) -> None:
        self.old = old
        self.new = new
        self.old_texts = [core.normalize(memory.content) for memory in old]
        self.new_texts = [core.normalize(bullet.text) for bullet in new]
        self.old_headings = [core.normalize(memory.heading or "") for memory in old]
        self.new_headings = [core.normalize(bullet.heading) for bullet in new]
        self.new_of: dict[int, int] = {}  # by old memory: the bullet with its text
        self.old_of: dict[int, int] = {}  # by new bullet: the memory with its text
        self.split_from: dict[int, int] = {}  # by new bullet: the old memory that it is a part of
        self.joined_to: dict[int, int] = {}  # by old memory: the new bullet that it is a part of

    def pair(self, old: int, new: int) -> None:
        """Record that a bullet is the text of this memory."""
        self.new_of[old] = new
        self.old_of[new] = old

    def _list_unpaired(self) -> tuple[list[int], list[int]]:
        olds = [index for index in range(len(self.old)) if index not in self.new_of and index not in self.joined_to]
        news = [index for index in range(len(self.new)) if index not in self.old_of and index not in self.split_from]
        return olds, news

    def pair_equal(self) -> None:
        """Pair equal texts: first those under the same heading, then the others, in order."""
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
        """Pair similar texts that are not paired yet, the most similar pair first."""
        olds, news = self._list_unpaired()
        if not olds or not news:
            return
        from rapidfuzz import fuzz, process  # imported late: an idle daemon saves 3 MB

        gaps_old, gaps_new = self._gaps(olds, news)
        texts = {index: self.new_texts[index] for index in news}
        lonely = _find_lonely(gaps_old.values()) & _find_lonely(gaps_new.values())
        found: list[tuple[float, int, int]] = []
        for old in olds:
            text = self.old_texts[old]
            near_texts = process.extract(text, texts, scorer=fuzz.ratio, limit=_TRIED, score_cutoff=SIMILAR_IN_PLACE)
            for _, score, new in near_texts:
                near = gaps_old[old] == gaps_new[new]
                if score >= (SIMILAR_IN_PLACE if near and gaps_old[old] in lonely else SIMILAR):
                    same = self.old_headings[old] == self.new_headings[new]
                    found.append((score + _NEIGHBOURS * near + _HEADING * same, old, new))
        for _, old, new in sorted(found, key=lambda item: (-item[0], item[1], item[2])):
            if old not in self.new_of and new not in self.old_of:
                self.pair(old, new)

    def _gaps(self, olds: Sequence[int], news: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return, for each unpaired memory and bullet, the bullet index of the nearest pair above it.

        The index is -1 if there is no pair above.
        """
        pairs = sorted(self.new_of.items())
        old_paired, new_paired = [old for old, _ in pairs], sorted(self.old_of)
        return (
            {one: pairs[at - 1][1] if (at := bisect_left(old_paired, one)) else -1 for one in olds},
            {one: new_paired[at - 1] if (at := bisect_left(new_paired, one)) else -1 for one in news},
        )

    def pair_parts(self) -> None:
        """Pair the remaining texts as parts of longer ones.

        A new bullet can be a part of an old text that changed. An old text can be a part of a bullet that changed.
        """
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
    """Return the words of a text; in scripts without spaces, each pair of adjacent characters counts as a word."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        if len(word) > 2 and _UNSPACED.search(word):
            found.update(word[index : index + 2] for index in range(len(word) - 1))
        else:
            found.add(word)
    return frozenset(found)


def _whole_of(part: frozenset[str], wholes: dict[int, frozenset[str]]) -> int | None:
    """Return the index of the longer text that contains the largest share of a part's words; of equals, the first.

    Return None if no longer text has at least the share `_PART` of the words, or if the part has too few words.
    """
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
        held = {new: self.old[old].position for new, old in pairing.old_of.items()}
        numbers = assign_places([held.get(index) for index in range(len(pairing.new))])
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
        """Undo joins of protected memories, because a protected memory is restored as it was.

        If another memory was joined to a protected one, the other memory gets the bullet.
        """
        pairing = self.pairing
        pairing.joined_to = {old: new for old, new in pairing.joined_to.items() if not self.old[old].constitutional}
        for old, new in list(pairing.joined_to.items()):
            if self.old[pairing.old_of[new]].constitutional:
                del pairing.new_of[pairing.old_of[new]], pairing.joined_to[old]
                pairing.pair(old, new)

    def _update(self, index: int, bullet: Bullet, number: int) -> None:
        pairing = self.pairing
        memory = self.old[pairing.old_of[index]]
        text = core.unescape(bullet.text)
        content = None if _show_text(text) == _show_text(memory.content) else text
        if memory.constitutional and content is not None:
            edit = core.Replace(bullet.position, memory.content, keeps=True)
            self.put_back.append(PutBack(memory.id, "changed", edit))
            content = None
        joined = tuple(self.old[old].id for old, new in pairing.joined_to.items() if new == index)
        heading = None if bullet.heading == (memory.heading or "") else bullet.heading
        position = None if number == memory.position else number
        update = Update(memory.id, content, heading=heading, position=position, derived_from=joined)
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
        """Restore a memory before the bullet that followed it, or at the end of its heading if that one moved."""
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
