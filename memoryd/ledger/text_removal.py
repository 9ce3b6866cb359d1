"""Remove forgotten text from other texts, without any other change to them.

The search ignores case, spacing, bold and italic marks, and speaker labels (`User: …`). It finds a forgotten text alone
or inside a longer text, but not inside a word. It also finds a long text that was shortened, and adjacent sentences of
a text that have most of its words, because a job may leave out sentences. A text that is too short to be unique
(`uses Vim`) is found only as a whole line, bullet or sentence. A line with nothing left is removed. Within a longer
line, `[forgotten]` marks the gap.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache, lru_cache
from itertools import accumulate
from posixpath import commonprefix
from typing import Any, NamedTuple

from ahocorasick_rs import AhoCorasick

from memoryd.text import prose
from memoryd.text.content import LABELS, measure_overlap, split_question
from memoryd.text.sentences import list_texts, split
from memoryd.tiers import core, daily

MARK = "[forgotten]"
_FEWEST_WORDS = 4  # shorter texts are ambiguous inside a line, so they must be a whole line or sentence
_FEWEST_WIDE = 5  # the same limit in characters, for scripts without spaces
_LABEL = rf"(?:\b(?:{LABELS}):\s+)"
_LABELLED = re.compile(rf"{_LABEL}(?=\S)", re.IGNORECASE)
_BEFORE = re.compile(rf"{_LABEL}\Z", re.IGNORECASE)
_FARTHEST = 80  # this many characters before the text of a line may be its bullet and label
_LEAST_SHORTENED = 80  # characters; only a text of at least this length is searched in shortened form
_START = 40  # the number of characters of its beginning that are searched first
_MOST_SHORTENED = 400  # the most characters of a shortened text that are compared
_SHORTENED = re.compile(r"[ \t]*(?:\u2026|\.\.\.)")
_LEAD = r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:\*\*[^*\n]{1,30}\*\*:?[ \t]+)?"
_LINE_BEGINS = re.compile(rf"{_LEAD}{_LABEL}?\Z", re.IGNORECASE | re.MULTILINE)
_LINE_ENDS = re.compile(r"[.!?\u3002\uff01\uff1f]*[ \t]*(?:\r?\n|\Z)")
_CLOSING = ".!?\u3002\uff01\uff1f\"')]*_"
_STOPS = ".!?\u3002\uff01\uff1f"
_BETWEEN = f"{_CLOSING}\u2026 \t\r\n"  # characters between adjacent sentences
_GAP = re.compile(f"[{re.escape(_BETWEEN)}]*+")
_BEGUN = re.compile(rf"{_GAP.pattern}([^\n]{{1,400}}?)(?:\u2026|\.\.\.)")  # the beginning of a shortened sentence
_EMPTY = re.compile(
    rf"(?m)^[ \t]*(?:[-*+][ \t]+)?(?:\[[ xX]\][ \t]+)?(?:\[forgotten\][ \t,;:{_STOPS}]*)+(?:\(asked: .*\))?(?:\r?\n|\Z)"
)
# Characters that `neutralize` or typography writes for another character; both are compared as equal. Marks of bold
# and italic text do not count.
_ALIKE = str.maketrans({
    "\u2039": "<", "\u203a": ">", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"', "(": "[",
    "*": "",
})  # fmt: skip


class _Where(IntEnum):
    """Name the places where a forgotten text may be found. A larger value allows more places."""

    PART = 0  # only with other sentences of its text
    LINE = 1  # as a whole line or bullet
    SENTENCE = 2  # as a whole line, bullet or sentence
    INSIDE = 3  # anywhere, except within a word


_Hit = tuple[int, int, str]  # start, end, and the folded text that was found
_Whole = tuple[str, _Where]  # the lines of all folded sentences of a text, and where the text may be found
_Found = tuple[int, int, _Where]  # start, end, and the places where the text may be found


class AppendedBlock(NamedTuple):
    """Identify a block that a run appended to a daily file, by its hash."""

    path: str  # relative to the workspace
    sha256: str
    size: int  # bytes


_Blocks = Iterable[AppendedBlock]


@dataclass(frozen=True, slots=True)
class TextRemoval:
    """Describe the texts to remove.

    Attributes:
        texts: forgotten texts in their stored form, none blank; they are also found inside longer texts.
        blocks: blocks of daily files that are removed as a whole.
        others: blocks that must stay, although they may have the same text.
        lines: texts that are removed only as a whole line or bullet, because a person who quotes them has written a new
            text. Inside the remains of `blocks`, they are searched like `texts`.
        spared: texts that stay even if they contain a forgotten text.
    """

    texts: tuple[str, ...] = ()
    blocks: tuple[AppendedBlock, ...] = ()
    others: tuple[AppendedBlock, ...] = ()
    lines: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()

    def says(self, text: str) -> bool:
        """Return True if `text` contains a forgotten text."""
        return next(_spans(self, text), None) is not None

    def equals(self, text: str) -> bool:
        """Return True if `text` as a whole is a forgotten text."""
        return bool(_build_search(self).keys.get(_strip_text(text)))

    def of_text(self, text: str) -> str:
        """Return `text` without forgotten text."""
        kept: list[str] = []
        end = 0
        for first, last in _spans(self, text):
            kept += [text[end:first], MARK]
            end = last
        return _EMPTY.sub("", "".join((*kept, text[end:]))) if kept else text

    def of_core(self, data: bytes) -> bytes:
        """Return `MEMORY.md` without forgotten text.

        A bullet that has no other text is removed; the lines below it stay.
        """
        file = core.parse(data)
        going = [core.Remove(one.position) for one in file.bullets if one.text and not self.of_text(one.text)]
        return self.of_bytes(core.edit(file, going) if going else data)

    def of_daily(self, path: str, data: bytes) -> bytes:
        """Return a daily file without forgotten text; a block without other text is removed with its heading."""
        new = data
        for block in self.blocks:
            at = daily.find_block(new, block.sha256, block.size) if block.path == path else None
            if at is not None:
                new = new[:at] + new[at + block.size :]
        inside = replace(self, texts=(*self.texts, *self.lines), lines=())
        parts = _split_spans(new, self._find_remains(path, data, new))
        cut = b"".join((inside if is_left else self).of_part(path, part) for part, is_left in parts)
        return new if cut == new else _without_empty(new, cut)

    def of_part(self, path: str, data: bytes) -> bytes:
        """Return a part of a daily file without forgotten text; the blocks in `others` stay unchanged."""
        if self.of_bytes(data) == data:
            return data
        parts = _split_spans(data, self._spans(path, data))
        return b"".join(part if is_others else self.of_bytes(part) for part, is_others in parts)

    def _find_remains(self, path: str, data: bytes, new: bytes) -> list[tuple[int, int]]:
        """Return the (start, end) offsets of `blocks` that somebody has edited.

        Each missing block of `blocks` is assigned to one of the blocks with most forgotten lines.
        """
        missing = sum(daily.find_block(data, one.sha256, one.size) is None for one in self.blocks if one.path == path)
        if not missing or not self.lines:
            return []
        others = self._spans(path, new)
        found: list[tuple[int, int, int]] = []
        for begin, block in daily.parse(new).list_sections():
            held = sum(map(self.equals, block.body.splitlines()))
            if held and block.clock is not None and not any(first <= begin < last for first, last in others):
                found.append((-held, begin, begin + len(block.raw)))
        return sorted((first, last) for _, first, last in sorted(found)[:missing])

    def list_edited_lines(self, path: str, data: bytes) -> list[str]:
        """Return the lines of edited `blocks` that are left in a daily file."""
        left = b"".join(data[first:last] for first, last in self._find_remains(path, data, data))
        bodies = (block.body for block in daily.parse(left).blocks)
        return [line.removeprefix("- ").strip() for body in bodies for line in body.splitlines() if line.strip()]

    def _spans(self, path: str, data: bytes) -> list[tuple[int, int]]:
        """Return the (start, end) offsets of the blocks in `others`, in order; blocks never overlap."""
        found = ((daily.find_block(data, one.sha256, one.size), one) for one in self.others if one.path == path)
        return sorted({(at, at + one.size) for at, one in found if at is not None})

    def of_bytes(self, data: bytes) -> bytes:
        """Return the bytes of a text without forgotten text."""
        return self.of_text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _split_spans(data: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[bytes, bool]]:
    """Yield all parts of `data` in order, each with True if it is one of the spans."""
    end = 0
    for first, last in spans:
        yield data[end:first], False
        yield data[first:last], True
        end = last
    yield data[end:], False


def cut_of_row(row: Mapping[str, Any]) -> TextRemoval:
    """Return the removal that a stored intent describes; `row` has its fields."""
    blocks, others = (tuple(AppendedBlock(*one) for one in row[name]) for name in ("blocks", "others"))
    return TextRemoval(tuple(row["texts"]), blocks, others, tuple(row.get("lines", ())), tuple(row.get("spared", ())))


def cut_of(texts: Iterable[str]) -> TextRemoval:
    """Return a removal of these texts, without blank ones and duplicates."""
    return TextRemoval(_make_unique(texts))


def lines_of(
    texts: Iterable[str], blocks: _Blocks = (), others: _Blocks = (), spared: Iterable[str] = ()
) -> TextRemoval:
    """Return a removal that finds each of these texts only as a whole line."""
    return spare_texts(TextRemoval((), tuple(blocks), tuple(others), _make_unique(texts)), spared)


def spare_texts(cut: TextRemoval, texts: Iterable[str]) -> TextRemoval:
    """Return a copy of `cut` that leaves `texts` in place."""
    return replace(cut, spared=_make_unique(text for text in texts if cut.says(text)))


def _make_unique(texts: Iterable[str]) -> tuple[str, ...]:
    said = {core.normalize(text): " ".join(text.split()) for text in texts if text.strip()}
    return tuple(sorted(said.values(), key=lambda one: (-len(one), one)))


# --- searching --------------------------------------------------------------------------------------------------------


class _TextSearch(NamedTuple):
    """Hold the texts of a removal, prepared for one search for all of them."""

    automaton: AhoCorasick | None
    patterns: Sequence[str]  # the folded texts; empty for a text that stays
    keys: Mapping[str, _Where]  # where each text may be found
    long: Sequence[str]  # texts that may be found shortened, sorted; their beginnings are the last patterns
    parts: Mapping[str, set[_Whole]]  # the texts of each folded sentence
    most: Mapping[str, set[_Whole]]  # the texts of each folded sentence that has most of their words


@lru_cache(maxsize=8)
def _build_search(cut: TextRemoval) -> _TextSearch:
    keys = {_strip_text(text): _Where.LINE for text in cut.lines}
    keys |= {key: _Where.INSIDE if _is_long(key) else _Where.SENTENCE for key in map(_strip_text, cut.texts)}
    parts: dict[str, set[_Whole]] = {key: set() for key in keys}
    for text in (*cut.lines, *cut.texts):
        sentences = [*map(_strip_text, list_texts(split_question(text)[0]))]
        whole = "\n".join(sentences), keys[_strip_text(text)]
        for key in sentences:
            parts.setdefault(key, set()).add(whole)
    most = {key: {one for one in said if 2 * measure_overlap(one[0], key) > 1} for key, said in parts.items()}
    keys = dict.fromkeys(parts, _Where.PART) | keys
    # A text that is both forgotten and spared is in the list twice, so the search reports both.
    spared = list(map(_strip_text, cut.spared))
    long = sorted(key for key in keys if len(key) >= _LEAST_SHORTENED)
    automaton = AhoCorasick([*keys, *spared, *{key[:_START] for key in long}]) if keys else None
    return _TextSearch(automaton, [*keys, *("" for _ in spared)], keys, long, parts, most)


def _is_long(key: str) -> bool:
    """Return True if a folded text is so long that it is unambiguous inside any other text."""
    wide = sum(len(run) for run in prose.wide_runs(key) if prose.is_wide(run))
    return wide >= _FEWEST_WIDE or len(key.split()) >= _FEWEST_WORDS


def _spans(cut: TextRemoval, text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) offsets of forgotten text, in order and without overlaps."""
    searched = _build_search(cut)
    if searched.automaton is None or not searched.automaton.find_matches_as_indexes(_fold(text)):
        return
    hits: list[_Hit] = []
    folded, places = _fold_with_places(text)
    for index, begin, end in searched.automaton.find_matches_as_indexes(folded, overlapping=True):
        first, last = _with_marks(text, places[begin], places[end - 1] + 1)
        if index >= len(searched.patterns):
            hits += _find_shortened(searched, text, folded, places, begin)
        elif _is_apart(text, first, last) and not any(_is_within(folded, places, at) for at in (begin, end)):
            hits.append((first, last, searched.patterns[index]))
    wholes = (_find_whole(text, *one) for one in sorted(_join_parts(searched, text, _list_outside(hits))))
    end = 0
    for first, last in sorted((whole for whole in wholes if whole), key=lambda span: (span[0], -span[1])):
        if last > end:
            yield max(first, end), last
            end = last


def _with_marks(text: str, first: int, last: int) -> tuple[int, int]:
    """Return a span with the asterisks directly before and after it."""
    while first and text[first - 1] == "*":
        first -= 1
    while text[last : last + 1] == "*":
        last += 1
    return first, last


def _find_shortened(searched: _TextSearch, text: str, folded: str, places: Sequence[int], begin: int) -> Iterator[_Hit]:
    """Yield the span of a long text that was shortened.

    The span ends behind an ellipsis, or at the end of a line if at least half of the text is there.
    """
    told = folded[begin : begin + _MOST_SHORTENED]
    at = bisect_right(searched.long, told)
    # In sorted order, the text with the longest common beginning is directly before or after this place.
    size, key = max((len(commonprefix((key, told))), key) for key in searched.long[max(0, at - 1) : at + 1])
    size = len(told[:size].rstrip())
    if size == len(key) or _is_within(folded, places, begin) or _is_word(text[places[begin] - 1 : places[begin]]):
        return
    last = places[begin + size - 1] + 1
    if cut := _SHORTENED.match(text, last):
        yield places[begin], cut.end(), key
    elif 2 * size >= len(key) and _LINE_ENDS.match(text, last):
        # All texts are searched without their full stop, so a spared text covers this span completely.
        yield places[begin], places[begin + len(told[:size].rstrip(_STOPS)) - 1] + 1, key


def _join_parts(searched: _TextSearch, text: str, hits: Sequence[_Hit]) -> Iterator[_Found]:
    """Yield the hits of whole texts, and the spans of adjacent sentences of a text that have most of its words."""
    yield from ((first, last, searched.keys[key]) for first, last, key in hits if searched.keys[key])
    # As in the search for whole texts, a few words count only as a sentence of their own.
    full = (one for one in hits if _is_long(one[2]) or _find_whole(text, one[0], one[1], _Where.SENTENCE))
    for (told, where), own in _group_hits(searched, text, full).items():
        runs: list[tuple[int, int, set[str]]] = []  # start, end, folded sentences
        for first, last, key in sorted(own):
            start, end, parts = runs.pop() if runs and _is_next(text, runs[-1][1], first) else (first, last, set())
            runs.append((start, max(end, last), parts | {key}))
        for run in runs:
            yield from _find_most(told, where, text, *run)


def _group_hits(searched: _TextSearch, text: str, hits: Iterable[_Hit]) -> Mapping[_Whole, set[_Hit]]:
    """Return, for each text, the hits that together may contain most of its words.

    Many texts may share a sentence. So a hit counts only for a text if its sentence has most of the words of the text,
    or if another sentence of the text is beside it.
    """
    near: list[_Hit] = []  # the hits that the next one may be adjacent to
    held: dict[_Whole, set[_Hit]] = {}
    for first, last, key in hits:
        fit = [one for one in near if _is_next(text, one[1], first)]
        again = [one[0] for one in fit if one[2] == key]  # the same sentence repeated counts as one
        near = [one for one in (near if again else fit) if one[2] != key]
        hit, wholes = (min([first, *again]), last, key), searched.parts[key]
        beside = [(one, wholes & searched.parts[one[2]]) for one in near]
        if begun := _read_begun(text, hit[0], last)[0]:
            beside += [(hit, {one for one in wholes if f"\n{begun}" in f"\n{one[0]}"})]
        for other, found in ((hit, searched.most[key]), *beside):
            for whole in found:
                held.setdefault(whole, set()).update((other, hit))
        near.append(hit)
    return held


def _is_next(text: str, end: int, first: int) -> bool:
    """Return True if only punctuation and spaces are between two offsets, or the second one is not behind the first."""
    return first <= end or _GAP.fullmatch(text, end, first) is not None


def _read_begun(text: str, start: int, last: int) -> tuple[str, int]:
    """Return the folded beginning of a shortened sentence behind a span, and its end; no text if there is none."""
    cut = _BEGUN.match(text, last)
    return (_fold(cut[1]), cut.end()) if cut and cut.end() - start >= _START else ("", last)


def _find_most(told: str, where: _Where, text: str, start: int, last: int, parts: set[str]) -> Iterator[_Found]:
    """Yield the span of adjacent sentences that have most words of their text. A shortened sentence may follow."""
    begun, end = _read_begun(text, start, last)
    if begun and (found := re.search(f"^{re.escape(begun)}.*", told, re.MULTILINE)):
        last = end
        parts.add(found[0])
    if 2 * measure_overlap(told, " ".join(parts)) > 1:  # all words of a shortened sentence count
        yield start, last, where if _is_long(_fold(text[start:last])) else min(where, _Where.SENTENCE)


def _is_within(folded: str, places: Sequence[int], at: int) -> bool:
    """Return True if the folded character at `at` belongs to the same original character as the one before it."""
    return 0 < at < len(folded) and (places[at] == places[at - 1] or unicodedata.combining(folded[at]) > 0)


def _list_outside(hits: Iterable[_Hit]) -> list[_Hit]:
    """Return the hits of forgotten texts, in order, that are inside no text that stays."""
    spared = sorted((first, last) for first, last, key in hits if not key)
    starts = [first for first, _ in spared]
    reach = [0, *accumulate((last for _, last in spared), max)]  # for each number of spans, the largest end among them
    return [hit for hit in sorted(hits) if hit[2] and hit[1] > reach[bisect_right(starts, hit[0])]]


def _find_whole(text: str, first: int, last: int, where: _Where) -> tuple[int, int] | None:
    """Return the span of a hit with its speaker label; None if the text is not allowed at this place."""
    near = max(0, first - _FARTHEST)
    begin = label.start() if (label := _BEFORE.search(text, near, first)) else first
    if where is _Where.INSIDE:
        return begin, last
    begins = _LINE_BEGINS.search(text, near, first) is not None
    ends = _LINE_ENDS.match(text, last) is not None
    if where is _Where.SENTENCE:
        starts, stops = _sentences(text)
        begins, ends = begins or begin in starts, ends or last in stops
    return (begin, last) if begins and ends else None


@lru_cache(maxsize=2)  # a text may have many hits
def _sentences(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """Return the offsets where sentences begin in the lines of a text, and where they end without punctuation."""
    found = [(line.start() + one.start, one.text) for line in re.finditer(".+", text) for one in split(line[0])]
    ends = (start + len(told.rstrip(_CLOSING)) for start, told in found)
    return frozenset(start for start, _ in found), frozenset(ends)


def _is_apart(text: str, first: int, last: int) -> bool:
    """Return True if a span begins and ends at word boundaries, which scripts without spaces do not have."""
    before, after = text[first - 1 : first], text[last : last + 1]
    begins = not _is_word(before) or not _is_word(text[first]) or prose.is_wide(text[first])
    return begins and (not _is_word(after) or not _is_word(text[last - 1]) or prose.is_wide(text[last - 1]))


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _strip_text(text: str) -> str:
    """Return the folded text without speaker label, bullet mark and final punctuation."""
    told = text.strip().removeprefix("- ").strip()
    label = _LABELLED.match(told)
    told = told[label.end() if label else 0 :]
    return _fold(told.rstrip(_STOPS).rstrip() or told)


def _fold(text: str) -> str:
    return " ".join("".join(map(_fold_char, text)).split())


def _fold_with_places(text: str) -> tuple[str, list[int]]:
    """Return the folded text, and for each of its characters the offset in `text`."""
    out: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        for one in _fold_char(char):
            if not one.isspace() or (out and out[-1] != " "):
                out.append(" " if one.isspace() else one)
                places.append(place)
    return "".join(out), places


@cache
def _fold_char(given: str) -> str:
    """Return a character in its form for comparison: decomposed, without case, one form for look-alike signs.

    The asterisk is left out, because a job may store a statement without its bold or italic marks.
    """
    char = "\ufffd" if "\ud800" <= given <= "\udfff" else given  # a surrogate stands for a byte that is not UTF-8
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", char).casefold()).translate(_ALIKE)


def _without_empty(old: bytes, new: bytes) -> bytes:
    """Return the daily file `new` without blocks that have lost all their text.

    Blocks that were empty in `old` stay.
    """
    were = Counter(block.raw for block in daily.parse(old).blocks if daily.says_nothing(block.body))
    file = daily.parse(new)
    kept = []
    for block in file.blocks:
        is_empty = block.clock is not None and daily.says_nothing(block.body)
        if not is_empty or were[block.raw]:
            were[block.raw] -= is_empty
            kept.append(block)
    return daily.render(daily.DailyFile(file.title, file.head, tuple(kept)))
