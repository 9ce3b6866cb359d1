"""Divide a text into sentences that can be cited, and find a person's words around a citation.

A text is first divided into blocks: headings, list items, quoted lines, code, prose. Blocks of words are then divided
at the ends of sentences, in scripts with and without spaces. Each step looks at a limited stretch, so the time is
linear.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from memoryd.text import prose
from memoryd.text.fences import find_fences, lines_of
from memoryd.text.word_lists import list_words


class SentenceKind(StrEnum):
    """Name the kinds of blocks that a sentence can be part of."""

    PROSE = "prose"
    ITEM = "item"
    HEADING = "heading"
    CODE = "code"  # a whole fence, block of indented lines, or table
    QUOTE = "quote"


class Sentence(NamedTuple):
    """Hold one part of a text; its `text` is `text[start:end]` of the whole."""

    text: str
    start: int
    end: int
    paragraph: int  # from 0; blank lines separate paragraphs
    kind: SentenceKind
    lead: int | None  # for an item: the index of the sentence that introduces its list
    item: int  # the number of its list item; the parts between items have numbers of their own


class _Run(NamedTuple):
    """Hold lines that are read together, because a sentence may continue on the next line."""

    kind: SentenceKind
    start: int
    end: int
    paragraph: int
    body: int  # the offset of its text, after the mark of an item
    indent: int  # the column of the item's mark; -1 if the run does not begin an item


_HEADING = re.compile(
    r" {0,3}#{1,6}(?:\s|$)|\s*(?:\*\*[^*]{1,80}(?<![.!?。！？])\*\*|__[^_]{1,80}(?<![.!?。！？])__)[:：]?\s*$"  # noqa: RUF001
)
_RULE = re.compile(r"\s*([-*_=])(?:[ \t]*\1){2,}\s*$")
_QUOTE = re.compile(r" {0,3}>\s?")
_SIGNS = "●○✅❌✓✔✗✘☑⚠🔹🔸"  # these replace the mark of an item
_ITEM = re.compile(
    rf"[ \t]*(?:(?:[-*+•◦▪‣–]|[{_SIGNS}]\ufe0f?|(?P<number>\d{{1,3}})[.)]|[A-Za-z]\)"  # noqa: RUF001
    r"|\((?:\d{1,2}|[a-z])\))(?=\s|$)|\d{1,2}[、．])[ \t]*"  # noqa: RUF001
)
_TABLE = re.compile(r"\s*\|.*\|")
_TAB = 4
_CODE_INDENT = 4
_LONGEST_PARAGRAPH = 1_200  # characters of a paragraph that is quoted whole
_NESTED = 2  # columns by which an inner list is indented

_CLOSERS = "\"'”’»)\\]"  # noqa: RUF001
_WIDE_CLOSERS = f"」』）】》〉{_CLOSERS}"  # noqa: RUF001
_END = re.compile(rf"(?P<wide>[。！？｡]++[{_WIDE_CLOSERS}*_]*+)|(?P<stop>[.!?…؟۔।॥]++)(?P<closers>[{_CLOSERS}*_]*+)")  # noqa: RUF001
_ENDS_LINE = re.compile(rf"[.!?…؟۔।॥。！？｡][{_WIDE_CLOSERS}*_]*\s*$")  # noqa: RUF001
_COLON = re.compile(r"[:：][*_]*\s*$")  # noqa: RUF001
_OPENERS = "\"'“„”«»‘’([{*_`「『（【《¿¡"  # noqa: RUF001
_GOES_ON = tuple(",;:，、；：-–—(/\\+&=")  # noqa: RUF001
_TICKS = re.compile(r"`++")
_WORD = re.compile(r"[^\W_]")
_NEXT = re.compile(r"\S{1,24}")
_WINDOW = 40  # characters before a full stop in which an abbreviation and the word before it are searched
_WRAPS_FROM = 66  # columns; a line this long may be wrapped, and a shorter one was ended by its author
_WRAPS_UNTIL = 100

_TITLES = frozenset(list_words("titles"))
_NEVER_ENDS = frozenset(list_words("abbreviations"))
# Abbreviations that may end a sentence, if the next word begins with a capital.
_MAY_END = frozenset(list_words("abbreviations at ends"))
_BEFORE_NUMBER = frozenset(list_words("abbreviations before numbers"))
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,3}")
_ORDINAL = re.compile(r"(?:\d{1,2}\.?[-–/])?\d{1,2}")  # noqa: RUF001
_ORDINAL_AFTER = frozenset(list_words("words before ordinals"))
# Months of the languages that write the day with a full stop.
_AFTER_DAY = re.compile(
    r"\d{1,2}\.|\d{4}\b|jan|feb|mär|mar[st]|apr|mai\b|maj\b|jun|jul|aug|sep|okt|nov|dez|dec|des(?:\.|ember)|ledn|leden"
    r"|únor|břez|dubn|duben|květ|červ|srp|září|říj|listop|prosin|tammi|helmi|maalis|huhti|touko|kesä|heinä|elok|syys"
    r"|loka|marras|joulu",
    re.IGNORECASE,
)
_SHORT_NEXT = re.compile(r"\d|[^\W\d_]{1,2}\.")


@lru_cache(maxsize=512)  # cached, because a job asks for the same turns at each step
def split(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of `text` in order; every part that is not white space is in exactly one of them."""
    found: list[Sentence] = []
    lists: list[tuple[int, int | None]] = []  # the open lists: indentation, index of the introducing sentence
    heading: int | None = None
    item = 0
    for run in _Reader(text).read():
        item += run.indent >= 0 or not found or run.kind is not found[-1].kind
        if run.indent >= 0:
            _enter(lists, run.indent, found, heading)
        elif run.kind in (SentenceKind.PROSE, SentenceKind.HEADING):
            lists.clear()
        lead = lists[-1][1] if lists and run.kind is SentenceKind.ITEM else None
        for start, end in _parts(text, run):
            found.append(Sentence(text[start:end], start, end, run.paragraph, run.kind, lead, item))
        heading = len(found) - 1 if run.kind is SentenceKind.HEADING else heading
    return tuple(found)


def list_texts(text: str) -> list[str]:
    """Return the sentences of `text` as written."""
    return [one.text for one in split(text)]


def quote_around(
    text: str, numbers: Iterable[int], longest: int = 300, is_own: Callable[[int], bool] | None = None
) -> str:
    """Return a person's words around the sentences with these numbers (from 1), copied whole, as one line.

    The amount of text depends on the length:
    - A text of at most `longest` characters is copied as a whole.
    - From a longer text, the paragraphs of the cited sentences are copied.
    - From a list, the cited items are copied, with the sentence that introduces the list.
    - A sentence with a colon that introduces the paragraph is copied too.
    - From a very long paragraph, only the sentences and their neighbours are copied.

    Unknown numbers add nothing. With `is_own`, only sentences for whose number it returns True are copied, and `…`
    marks the others between them. It also marks whole paragraphs that are left out.
    """
    sentences = split(text)
    cited = sorted({number - 1 for number in numbers if 0 < number <= len(sentences)})
    if not cited:
        return ""
    if len(" ".join(text.split(maxsplit=longest))) <= longest:  # `maxsplit` avoids splitting a long text to its end
        wanted = set(range(len(sentences)))
    else:
        wanted = set(_list_around(sentences, cited))
    left_out = set() if is_own is None else {place for place in wanted if not is_own(place + 1)}
    wanted -= left_out
    items = {place for place in wanted if _begins_item(sentences, place)}
    leads = {sentences[place].lead for place in wanted}
    is_bare = len(items - leads) == 1
    parts: list[str] = []
    end = before = 0
    for place in sorted(wanted):
        one = sentences[place]
        is_apart = place > before + 1 and place not in items and before not in leads  # neither continues a sentence
        if parts and (is_apart or not left_out.isdisjoint(range(before, place))):
            parts.append(" … ")
        elif parts and text[end : one.start].strip():
            parts.append(" ")
        elif parts:
            parts.append(text[end : one.start])
        part = text[one.start : one.end]
        if is_bare and place in items:
            part = part[_mark(part) :] or part  # an item that is only a mark stays
        if is_bare and place in leads and one.kind is SentenceKind.HEADING:
            part = _title(part)
        parts.append(part)
        end, before = one.end, place
    return " ".join("".join(parts).split())


def _list_around(sentences: Sequence[Sentence], cited: Iterable[int]) -> Iterator[int]:
    """Yield the indexes of the sentences that are copied with the cited ones."""
    done: set[range] = set()
    for place in cited:
        one = sentences[place]
        number = attrgetter("item" if one.kind is SentenceKind.ITEM else "paragraph")
        first, end = (search(sentences, number(one), key=number) for search in (bisect_left, bisect_right))
        if sentences[end - 1].end - sentences[first].start > _LONGEST_PARAGRAPH:
            near = one.end - one.start <= _LONGEST_PARAGRAPH  # beside a longer sentence, its neighbours are not copied
            first, end = max(first, place - near), min(end, place + 1 + near)
        if (block := range(first, end)) in done:
            continue
        done.add(block)
        if one.kind is not SentenceKind.ITEM and first and _COLON.search(sentences[first - 1].text):
            yield first - 1
        yield from block
        lead = sentences[first].lead
        while lead is not None:
            yield lead
            lead = sentences[lead].lead


def _begins_item(sentences: Sequence[Sentence], place: int) -> bool:
    before, one = sentences[max(0, place - 1)], sentences[place]
    return one.kind is SentenceKind.ITEM and (before is one or before.item < one.item) and bool(_mark(one.text))


def _mark(item: str) -> int:
    match = _ITEM.match(item)
    return match.end() if match else 0


def _title(heading: str) -> str:
    """Return a heading as words that introduce the following text."""
    plain = heading.strip().strip("#*_").strip()
    return plain if _ENDS_LINE.search(plain) or _COLON.search(plain) else f"{plain}:"


# --- blocks ---


def _enter(lists: list[tuple[int, int | None]], indent: int, found: list[Sentence], heading: int | None) -> None:
    """Make the list of an item with this indentation the innermost open list."""
    closed: tuple[int, int | None] | None = None
    while lists and indent <= lists[-1][0] - _NESTED:
        closed = lists.pop()
    if lists and indent < lists[-1][0] + _NESTED:
        return
    if closed and not lists:
        lists.append((indent, closed[1]))  # its first item is indented more than the others
        return
    before = found[-1] if found else None
    introduces = before and before.kind is not SentenceKind.CODE and (lists or _COLON.search(before.text))
    lists.append((indent, len(found) - 1 if introduces else heading))


class _Reader:
    """Divide a text into runs of lines that are read together."""

    def __init__(self, text: str) -> None:
        self.runs: list[_Run] = []
        self._text = text
        self._paragraph = -1
        self._is_blank = True  # whether a blank line precedes the next line
        self._open = ""  # the kind of lines that continue the last run: words, indented, table; empty for none
        self._column = 0  # the column at which the text of the open list item begins; 0 outside a list
        self._number = 0  # the number of the last numbered item

    def read(self) -> list[_Run]:
        """Return the runs of the text."""
        blocks, behind = iter(find_fences(self._text)), 0
        fence = next(blocks, None)
        for at, line in lines_of(self._text):
            if fence and at == fence.start:
                self._add(SentenceKind.CODE, at, fence.end)
                behind, fence = fence.end, next(blocks, None)
            elif at >= behind and line.strip():
                self._line(at, line)
            elif at >= behind:
                self._is_blank = True
        return self.runs

    def _line(self, start: int, line: str) -> None:
        end, indent = start + len(line), _indent(line)
        last = self.runs[-1] if self.runs and not self._is_blank else None
        self._column = min(self._column, indent) if self._is_blank else self._column
        is_apart = last is None or self._open == "indented"
        if _RULE.match(line):
            self._add(SentenceKind.CODE, start, end)
        elif indent >= self._column + _CODE_INDENT and is_apart and not (self._column and _ITEM.match(line)):
            self._extend(last, SentenceKind.CODE, start, end, "indented")
        elif self._begins_item(line, last):
            self._add(SentenceKind.ITEM, start, end, _mark(line), indent)
            self._open = "words"
        elif _HEADING.match(line):
            self._column = 0
            self._add(SentenceKind.HEADING, start, end)
        elif _TABLE.match(line):
            self._extend(last, SentenceKind.CODE, start, end, "table")
        elif _QUOTE.match(line):
            self._extend(last, SentenceKind.QUOTE, start, end)
        elif self._column and indent >= min(_NESTED, self._column):
            self._extend(last, SentenceKind.ITEM, start, end)
        else:
            self._column = 0
            self._extend(last, SentenceKind.PROSE, start, end)

    def _begins_item(self, line: str, last: _Run | None) -> bool:
        """Return True if the line begins a list item, and store the item's number.

        "3. März" inside a paragraph begins no item.
        """
        item = _ITEM.match(line)
        if item is None:
            return False
        if item["number"]:
            number = int(item["number"])
            if last and last.kind is SentenceKind.PROSE and number not in {1, self._number + 1}:
                return False
            self._number = number
        self._column = max(_NESTED, len(item[0].expandtabs(_TAB)))
        return True

    def _add(self, kind: SentenceKind, start: int, end: int, mark: int = 0, indent: int = -1) -> None:
        self._paragraph += self._is_blank
        self._is_blank, self._open = False, ""
        self.runs.append(_Run(kind, start, end, self._paragraph, start + mark, indent))

    def _extend(self, last: _Run | None, kind: SentenceKind, start: int, end: int, takes: str = "words") -> None:
        """Add a line to the last run if it continues the run; otherwise begin another."""
        goes_on = last is not None and last.kind is kind and self._open == takes
        if last and goes_on and (kind is SentenceKind.CODE or not self._parts(last, self._text[start:end])):
            self.runs[-1] = last._replace(end=end)
        else:
            self._add(kind, start, end)
            self._open = takes

    def _parts(self, last: _Run, line: str) -> bool:
        before = self._text[self._text.rfind("\n", last.start, last.end) + 1 or last.start : last.end]
        if last.kind is SentenceKind.QUOTE:
            before, line = _QUOTE.sub("", before, count=1), _QUOTE.sub("", line, count=1)
        return _are_apart(before.rstrip(), line.lstrip().lstrip(_OPENERS))


def _indent(line: str) -> int:
    plain = line.expandtabs(_TAB)
    return len(plain) - len(plain.lstrip())


def _are_apart(before: str, line: str) -> bool:
    """Return True if a line break ends a sentence without an end mark: after a short line, before a capital letter."""
    first = line[:1]
    if not first.isalpha() or first.islower() or before.endswith(_GOES_ON):
        return False
    word = _NEXT.match(line)
    return not _WRAPS_FROM <= len(before) + 1 + len(word[0] if word else "") <= _WRAPS_UNTIL + 1


# --- ends of sentences ---


def _parts(text: str, run: _Run) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each sentence of a run."""
    start = held = run.start  # the start of the present sentence, and its end so far
    word, has_word = -1, False
    for end in [*_ends(text, run), run.end]:
        if word < held:
            found = _WORD.search(text, held, run.end)
            word = found.start() if found else run.end
        if word < end:
            if has_word:
                yield _strip_span(text, start, held)
                start = held
            has_word = True
        held = end  # marks without words belong to the sentence before them, or to the next one if there is none
    yield _strip_span(text, start, held)


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _ends(text: str, run: _Run) -> list[int]:
    if run.kind in (SentenceKind.CODE, SentenceKind.HEADING):
        return []
    found: list[int] = []
    spans = _code_spans(text, run.body, run.end)
    begins, until = next(spans, (run.end, run.end))
    floor = run.body
    for end in _END.finditer(text, run.body, run.end):
        while until <= end.start() < run.end and begins < run.end:
            begins, until = next(spans, (run.end, run.end))
        if end.start() < begins and _is_end(text, floor, end, run.end):
            floor = end.end()
            found.append(floor)
    return found


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the code spans: text between two equally long rows of backticks."""
    rows = list(_TICKS.finditer(text, start, end))
    last = {len(row[0]): at for at, row in enumerate(rows)}  # the last row of each length
    opening: re.Match[str] | None = None
    for at, row in enumerate(rows):
        if opening is not None and len(row[0]) == len(opening[0]):
            yield opening.start(), row.end()
            opening = None
        elif opening is None and last[len(row[0])] > at:
            opening = row


def _is_end(text: str, floor: int, end: re.Match[str], limit: int) -> bool:
    """Return True if a sentence ends at these marks."""
    if end["wide"]:
        return True
    stop, closers, at = end["stop"], end["closers"], end.end()
    if at < limit and not text[at].isspace():
        return stop[-1] in "!?" and prose.is_wide(text[at])
    following = _NEXT.search(text, at, limit)
    if following is None:
        return True
    first = following[0].lstrip(_OPENERS)[:1]
    if first.islower() and closers.strip("*_"):
        return False
    before = text[max(floor, end.start() - _WINDOW) : end.start()]
    if not stop.strip(".…") and stop != ".":
        return not first.islower() and (stop != ".." or not before[-1:].isspace())
    if stop != ".":
        return True
    if not before or before[-1].isspace() or before[-1] == "=":
        return False  # a stop after a space or "=" is a path: "git add . && git commit", "PATH=. make"
    words = before.split()
    previous = words[-2] if len(words) > 1 else ""
    return not _is_short(words[-1].lstrip(_OPENERS), previous.lstrip(_OPENERS), following[0], first)


def _is_short(word: str, previous: str, following: str, first: str) -> bool:
    """Return True if the full stop after `word` belongs to it: an abbreviation, an initial, an ordinal."""
    folded = word.casefold()
    if folded in _MAY_END or (folded == "al" and previous == "et"):
        return not first.isupper()
    if word in _TITLES:
        return first.isupper()
    if folded in _NEVER_ENDS:
        return not (word.isupper() and word.isalpha())
    if folded in _BEFORE_NUMBER and following[0].isdigit():
        return True
    if _ORDINAL.fullmatch(word):
        # A number alone counts what follows: "1. Build. 2. Test.", or "Next: 1. a purge, 2. an alert."
        is_alone = not previous or previous[-1] in ":,;"
        return is_alone or _AFTER_DAY.match(following) is not None or previous.casefold() in _ORDINAL_AFTER
    is_part = len(previous) == 2 and previous[0].isalpha() and previous[1] == "."
    if _DOTTED.fullmatch(word) or (is_part and len(word) <= 2):
        return True
    if len(word) != 1 or word.lower() == word.upper():
        return False
    if word.islower():
        return _SHORT_NEXT.match(following) is not None
    return word != "I" and first.isupper() and (not previous or previous[0].isupper())
