"""Find out which parts of a person's message are their own words, and which parts they pasted.

People paste pages, mails, logs, chats and code. A transcript does not mark such text, but it is not a wish of the
person. Only its form shows it. Blocks with marks around them (fences, tags, comments) are found first, then single
lines. `voice.txt` has the forms. If the form does not decide, a part is unclear and never counts as the person's own:
- The person's words are on one side of the pasted text: above it, or below it if there are none above.
- After words that announce another person's text, or after the head of a mail, no line is surely the person's.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

from memoryd.text import prose
from memoryd.text.word_lists import list_words, read_patterns


class Voice(StrEnum):
    """Name the voices that a part of a message can have."""

    OWN = "own"
    PASTED = "pasted"
    UNCLEAR = "unclear"


class VoiceSpan(NamedTuple):
    """Hold a part of a text, `text[start:end]`, that has one voice."""

    start: int
    end: int
    voice: Voice


_VOICES = (Voice.OWN, Voice.UNCLEAR, Voice.PASTED)  # by mark: 0, 1, 2; where spans overlap, the higher mark counts
_OWN, _UNCLEAR, _PASTED = range(3)
_RUN = re.compile(rb"\x00+|\x01+|\x02+")
_Mark = tuple[int, int, int]  # start, end, and the mark as an index of `_VOICES`

_SELF = frozenset(["i", "we", "ich", "wir", "je", "nous", "yo", "nosotros", "io", "noi", "eu", "nós", "я", "мы"])
_PATTERNS = read_patterns(
    __name__,
    "voice.txt",
    labels="|".join(list_words("own labels")),
    foreign="|".join(list_words("foreign texts")),
    headers="|".join(list_words("mail headers")),
    persons="|".join(sorted(_SELF)),
)
_FEWEST_QUOTED = 4  # words of a quotation that is a statement, not a name or a phrase
_FEWEST_WIDE = 8  # characters of a script without spaces, for the same purpose
_PAGE = 60  # this many words below a question about "this" are a page, not part of the question
# Also a name in Matrix, but no address in the head of a mail.
_TAG = re.compile(r"<(@\w[\w.-]{0,40}:|[^\W\d_][\w-]{0,40})\b(?![\w.+-]*@)[^<>]{0,4000}>")
_CLOSING_TAG = re.compile(r"</([^\W\d_][\w-]{0,40})\s*>")
_COMMENT = re.compile(_PATTERNS["comment"], re.DOTALL)
_FENCE = re.compile(_PATTERNS["fence"], re.MULTILINE)
_QUOTE = re.compile(_PATTERNS["quote"])
# Single quotes are paired by hand. A pattern would search for the end again at each apostrophe, which is slow.
_QUOTE_OPENS, _QUOTE_ENDS = re.compile(r"(?<!\w)'"), re.compile(r"'(?!\w)")
_LONGEST_QUOTED = 600
_LONGEST_READ = 400_000  # characters of a message that are searched for its author's words; the rest is left out
# Spaces and line ends that browsers and word processors copy. Each is replaced by one character, so offsets stay.
_PLAIN = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
_PLAIN |= dict.fromkeys([0x0B, 0x0C, 0x85, 0x2028, 0x2029], "\n")
_OPENS = re.compile(r"(?:(?:[^\"\n]|\"[^\"\n]*\")*[ \t(:])?[\"“„«「『](?=\S|$)[^\"“”„«»「」『』\n]*$")
_CLOSES = re.compile(r"[^\"“„«「『\n]*[\"”“»」』](?!\w)")
_OBJECT = re.compile(_PATTERNS["object"], re.MULTILINE)
_CITED = re.compile(r"[ \t]*[>|]")
_LISTED = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_OWN_LABEL, _SPEAKER, _GREETS = (re.compile(_PATTERNS[it], re.IGNORECASE) for it in ("own label", "speaker", "greets"))
_WHEN, _CLOCKED, _STAMP = (re.compile(_PATTERNS[name]) for name in ("when", "clocked", "stamp"))
_ANNOUNCES, _SHOWN, _SAYS = (re.compile(_PATTERNS[name], re.IGNORECASE) for name in ("announces", "shown", "says"))
_ABOUT_THIS, _HANDS_OVER, _STANDS, _HANDED, _LEADS_IN = (
    re.compile(_PATTERNS[name], re.IGNORECASE) for name in ("about this", "hands over", "stands", "handed", "leads in")
)
_LONGEST_LEAD = 160  # characters of a line that introduces another person's text
_MINE, _HEAD, _HEAD_LABEL = (re.compile(_PATTERNS[name], re.IGNORECASE) for name in ("mine", "head", "head label"))
_SECTION = re.compile(r"[ \t]*\d{1,2}\.\d{1,2}\.?(?:[ \t]+\S+){6}")  # a paragraph of a contract or a policy
_FEWEST_SECTIONS = 2
_CLOCK = re.compile(r"\(\d\d?:\d\d")
# Two lines with a speaker and a time are a chat. Three different labels are a form, because people in a conversation
# speak more than once.
_FEWEST_STAMPS, _FEWEST_FIELDS = 2, 3
_HEADER, _BYLINE, _REPEATS, _ME = (re.compile(_PATTERNS[name]) for name in ("header", "byline", "repeats", "me"))
_NAMED, _TIMED, _NICKNAMED, _PLANNED = (re.compile(_PATTERNS[it]) for it in ("named", "timed", "nicknamed", "planned"))
_MACHINE = re.compile(_PATTERNS["machine"])
# Lines filled with spaces come from a terminal. A symbol before words is a heading of a page.
_FILLED = re.compile(r".*\S {4,}$")
_SYMBOL = re.compile(r"[\u2190-\u2bff\U0001f000-\U0001faff]\ufe0f? ")
_TABLE = re.compile(r"[^\n\t]*\t[^\n\t]+\t")
_FEWEST_FILLED, _FEWEST_ROWS = 3, 3
_HUNK = re.compile(r"@@ -\d")
_CHANGED = re.compile(r"[-+ ]")
# A terminal wraps and indents its output. People indent only list items and code.
_WRAPPED = re.compile(r"(?: {2,8}|\t)(?![-*+•]|\d{1,3}[.)])\S.{40}")
_FEWEST_WRAPPED = 3


def find_spans(text: str) -> tuple[VoiceSpan, ...]:
    """Return the parts of a message with their voices; the parts cover the whole text, in order."""
    marks = _marks(text.translate(_PLAIN))
    return tuple(VoiceSpan(found.start(), found.end(), _VOICES[found[0][0]]) for found in _RUN.finditer(marks))


@lru_cache(maxsize=32)  # cached, because a job asks for the same messages at each step
def keep_own_words(text: str) -> str:
    """Return the first part of `text` without what is not surely the author's own; line breaks stay."""
    parts = ((text[start:end], voice) for start, end, voice in find_spans(text[:_LONGEST_READ]))
    return "".join(part if voice is Voice.OWN else "\n" if "\n" in part else " " for part, voice in parts)


def _marks(text: str) -> bytearray:
    """Return one byte for each character: the index of its voice in `_VOICES`."""
    blocks, left = list[_Mark](), text
    for find in (partial(_find_all, _COMMENT), _find_fenced, _find_tagged, partial(_find_all, _OBJECT)):
        found = list(find(left))
        left = _mask_blocks(left, found)
        blocks += found
    marks = bytearray(len(text))
    for start, end, mark in sorted(
        [*blocks, *_strays(left), *_by_line(left), *_find_quoted(left)], key=lambda one: one[2]
    ):
        marks[start:end] = bytes((mark,)) * (end - start)
    return marks


def _mask_blocks(text: str, blocks: Sequence[_Mark]) -> str:
    """Return `text` with spaces in place of blocks, so that offsets and lines stay the same."""
    parts, at = [], 0
    for start, end, _ in blocks:
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _lines(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line.rstrip("\r\n"))
        at += len(line)


def _find_fenced(text: str) -> list[_Mark]:
    """Return the fenced blocks.

    A fence alone on its line ends at the next one alone on its line. Any other fence ends at the next fence. A page
    pasted between fences may contain fences itself: one with a language opens an inner block. After an unclosed fence,
    the person may have continued.
    """
    begin, mark, is_block, inner = -1, "", False, 0
    blocks = list[_Mark]()
    for found in _FENCE.finditer(text):
        has_line = found["lead"] is not None and found["rest"] is not None
        if begin < 0:
            begin, mark, is_block, inner = found.start("mark"), found["mark"], has_line, 0
        elif not found["mark"].startswith(mark):
            continue
        elif is_block and has_line and found["rest"].strip():
            inner += 1
        elif inner and has_line:
            inner -= 1
        elif not is_block or has_line:
            blocks.append((begin, found.end("mark"), _PASTED))
            begin = -1
    if begin >= 0:
        # A page with a fence of its own may have closed the person's fence, so the text between may be the page's.
        between = [(one[1], two[0], _UNCLEAR) for one, two in pairwise([*blocks, (begin, begin, _UNCLEAR)])]
        blocks = sorted([*blocks, *(between if is_block else ()), (begin, len(text), _UNCLEAR)])
    return blocks


def _find_all(pattern: re.Pattern[str], text: str) -> Iterator[_Mark]:
    """Yield the comments, or the whole printed objects, such as JSON."""
    yield from ((found.start(), found.end(), _PASTED) for found in pattern.finditer(text))


def _find_tagged(text: str) -> Iterator[_Mark]:
    """Yield the text between tags; of an unclosed tag after a word, only the tag.

    An unclosed tag at the beginning of a line opens a block: everything after it may be inside.
    """
    ends: dict[str, list[int]] = defaultdict(list)
    for closing in _CLOSING_TAG.finditer(text):
        ends[closing[1].casefold()].append(closing.end())
    begins: dict[str, list[int]] = defaultdict(list)
    for tag in _TAG.finditer(text):
        begins[tag[1].casefold()].append(tag.start())
    done, is_line_bare = 0, True
    for tag in _TAG.finditer(text):
        if tag.start() < done:
            continue
        before = text[done : tag.start()]
        rest = before.rpartition("\n")[2]
        is_line_bare = (is_line_bare or rest != before) and not any(map(str.isalnum, rest))
        end = _find_closing(tag.start(), begins[tag[1].casefold()], ends[tag[1].casefold()], is_page=is_line_bare)
        done = end if end is not None else len(text) if is_line_bare else tag.end()
        is_line_bare |= "\n" in text[tag.start() : done]
        yield tag.start(), done, _PASTED


def _find_closing(start: int, begins: Sequence[int], ends: Sequence[int], *, is_page: bool) -> int | None:
    """Return the end of the element whose opening tag is at `start`; None if it is not closed.

    Nested elements are counted. A pasted page may contain a closing tag of its own. Then there is one closing tag too
    many, and the last one counts.

    Args:
        start: where the opening tag begins.
        begins: where the opening tags of this name begin, in order.
        ends: where its closing tags end, in order.
        is_page: whether the tag begins a line, and not just a word in a sentence about tags.
    """
    first = bisect_right(ends, start)
    if first == len(ends):
        return None
    opened = bisect_right(begins, start)
    if is_page and len(ends) > len(begins):
        return ends[-1]
    places = range(first, len(ends))
    matching = (at for at in places if at - first >= bisect_left(begins, ends[at]) - opened)
    return ends[next(matching, len(ends) - 1)]


def _strays(text: str) -> Iterator[_Mark]:
    """Yield the text after a closing tag without an opening one, to the end of the paragraph.

    It may have been inside.
    """
    done = 0
    for closing in _CLOSING_TAG.finditer(text):
        if closing.start() >= done:
            end = text.find("\n\n", closing.end())
            done = end if end >= 0 else len(text)
            yield closing.start(), done, _UNCLEAR


def _find_quoted(text: str) -> Iterator[_Mark]:
    """Yield the longer quotations, and the text after words such as "Eve says:" in the same line."""
    for found in _QUOTE.finditer(text):
        inside = next(group for group in found.groups() if group is not None)
        if _is_statement(inside):
            yield found.start(), found.end(), _PASTED
    for start, end in _lines(text):
        yield from _single_quoted(text, start, end)
        says = _SAYS.search(text, start, end)
        if says and (says["who"] or "").casefold() not in _SELF:
            yield says.end(), end, _PASTED


def _single_quoted(text: str, begin: int, stop: int) -> Iterator[_Mark]:
    """Yield the longer quotations in straight single quotes in a line."""
    ends = [end.start() for end in _QUOTE_ENDS.finditer(text, begin, stop)]
    done = begin
    for opening in _QUOTE_OPENS.finditer(text, begin, stop) if ends else ():
        first = opening.end()
        at = bisect_left(ends, first + 2)
        if opening.start() < done or at == len(ends) or ends[at] - first > _LONGEST_QUOTED:
            continue
        done = ends[at] + 1
        if _is_statement(text[first : done - 1]):
            yield opening.start(), done, _PASTED


def _is_statement(quoted: str) -> bool:
    wide = sum(1 for char in quoted if prose.is_wide(char))
    return len(quoted.split()) >= _FEWEST_QUOTED or wide >= _FEWEST_WIDE


def _by_line(text: str) -> Iterator[_Mark]:
    """Yield the lines that are not surely the person's, each with its line feed and its mark."""
    places = list(_lines(text))
    marks = _MessageLines([text[start:end] for start, end in places]).read()
    for (start, _), (stop, _), mark in zip(places, [*places[1:], (len(text), 0)], marks, strict=False):
        if mark:
            yield start, stop, mark


class _MessageLines:
    """Find the voice of each line of a message."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._machine = self._by_machine()
        self._odd = {at for at, line in enumerate(lines) if prose.by_machine(line)}
        self._first_wrapped = self._find_wrapped()
        mine = [at for at, line in enumerate(lines) if line[:1].islower() and _ME.match(line)]
        talk = set[int]().union(*(range(a, b) for a, b in pairwise(mine) if all(map(str.strip, lines[a:b]))))
        self._names = [None if self._machine[at] else _speaker(it, is_dialog=at in talk) for at, it in enumerate(lines)]
        self._marks = [_OWN] * len(lines)

    def read(self) -> list[int]:
        """Return the mark of each line, as an index of `_VOICES`."""
        for at, line in enumerate(self._lines):
            if self._machine[at] or _CITED.match(line):
                self._marks[at] = _PASTED
            elif at in self._odd or (at >= self._first_wrapped and line.startswith(("  ", "\t"))):
                self._marks[at] = _UNCLEAR
        for at in range(self._first_wrapped - 1, -1, -1):  # the wrapped text begins where its paragraph begins
            if self._first_wrapped == len(self._lines) or not self._lines[at].strip():
                break
            self._marks[at] = max(self._marks[at], _UNCLEAR)
        self._chat()
        self._mark_below_authors()
        self._mark_documents()
        self._mark_around()
        self._mark_quoted()
        at, end = self._find_announced()
        for place in range(at, len(self._lines)):
            self._marks[place] = max(self._marks[place], _PASTED if place < end else _UNCLEAR)
        for place in range(1, len(self._lines) - 1):
            if not self._lines[place].strip():
                self._marks[place] = min(self._marks[place - 1], max(self._marks[place + 1], self._marks[place]))
        return self._marks

    def _find_wrapped(self) -> int:
        """Return the index of the first line that a terminal wrapped and indented; without one, the number of lines."""
        wrapped = [at for at, line in enumerate(self._lines) if _WRAPPED.match(line)]
        return wrapped[0] if len(wrapped) >= _FEWEST_WRAPPED else len(self._lines)

    def _by_machine(self) -> list[bool]:
        """Return, for each line, True if it is output of a program, or code."""
        logged = prose.mark_log_lines(self._lines)
        found = [logged[at] or _MACHINE.match(line) is not None for at, line in enumerate(self._lines)]
        for pattern, sign, fewest in ((_FILLED, _FILLED, _FEWEST_FILLED), (_TABLE, _SYMBOL, _FEWEST_ROWS)):
            if sum(pattern.match(line) is not None for line in self._lines) >= fewest:
                found = [one or sign.match(line) is not None for one, line in zip(found, self._lines, strict=True)]
        is_hunk = False
        for at, line in enumerate(self._lines):
            is_hunk = _HUNK.match(line) is not None or (is_hunk and _CHANGED.match(line) is not None)
            found[at] |= is_hunk
        return found

    def _chat(self) -> None:
        """Mark the lines of a chat.

        Lines with a name and a time are pasted, and so are names that occur again; other names are unclear. A name only
        at the very beginning may come from a bridge to another chat, which adds it to all messages of its user.
        """
        is_chat = self._is_chat()
        if is_chat is None:
            return
        for at, name in enumerate(self._names):
            if name:
                mark = _PASTED if is_chat or _STAMP.match(self._lines[at]) else _UNCLEAR
                self._marks[at] = max(self._marks[at], mark)
            elif at and self._names[at - 1] and self._lines[at].strip():
                self._marks[at] = max(self._marks[at], _UNCLEAR)
                self._names[at] = self._names[at - 1]  # a message may continue on further lines

    def _is_chat(self) -> bool | None:
        """Return True if the lines with names are a chat, and False if this is unclear.

        Return None if the names are clearly not those of speakers.
        """
        times = Counter(filter(None, self._names))
        named = [line for name, line in zip(self._names, self._lines, strict=True) if name]
        stamps = sum(_STAMP.match(line) is not None for line in named)
        is_plan = _is_plan(times, named)
        if not is_plan and (stamps >= _FEWEST_STAMPS or (len(times) > 1 and max(times.values()) > 1)):
            return True
        is_form = is_plan or (len(times) >= _FEWEST_FIELDS and not stamps)
        is_bridge = set(self._names[1:]) <= {None, *self._names[:1]} and not any(map(_ME.match, self._lines[1:]))
        return None if is_form or is_bridge else False

    def _mark_quoted(self) -> None:
        """Mark a quotation over several lines, from the line that opens it to the line that closes it."""
        begin = None
        for at, line in enumerate(self._lines):
            if begin is not None and _CLOSES.match(line):
                self._marks[begin : at + 1] = [_PASTED] * (at + 1 - begin)
                begin = None
            elif begin is None and _OPENS.match(line):
                begin = at

    def _mark_around(self) -> None:
        """Mark words between pasted parts as unclear.

        The person's own words are only on one side of pasted text.
        """
        odd = self._odd if len(self._odd) > 1 else ()
        marked = [at for at, mark in enumerate(self._marks) if mark is _PASTED and not _CITED.match(self._lines[at])]
        pasted = sorted({*odd, *marked})
        if not pasted:
            return
        first, last = pasted[0], pasted[-1]
        is_asked = any(map(str.strip, self._lines[:first]))
        stop = len(self._lines) if is_asked else self._find_blank(last + 1)
        for at in range(first, stop):
            self._marks[at] = max(self._marks[at], _UNCLEAR)

    def _mark_below_authors(self) -> None:
        """Mark each paragraph from a line with an author and a time on."""
        end = 0
        nicknamed = {at: line for at, line in enumerate(self._lines) if _NICKNAMED.match(line)}
        are_authors = len(nicknamed) > 1 and not any(at + 1 in nicknamed for at in nicknamed)  # texts are between them
        are_authors &= not _is_plan({line.split()[0] for line in nicknamed.values()}, [*nicknamed.values()])
        for at in range(len(self._lines)):
            if at >= end and (self._is_byline(at) or (are_authors and at in nicknamed)):
                end = self._find_blank(at)
                self._marks[at:end] = [_PASTED] * (end - at)

    def _mark_documents(self) -> None:
        """Mark each paragraph with the head of a document, or with numbered sections of one."""
        at = 0
        while at < len(self._lines):
            end = self._find_blank(at)
            if self._is_document(self._lines[at:end]):
                self._marks[at:end] = [_PASTED] * (end - at)
            at = max(end, at) + 1

    def _is_document(self, lines: Sequence[str]) -> bool:
        head = lines[0] if lines and _HEAD.match(lines[0]) else ""
        labels = sum(_HEAD_LABEL.match(line) is not None for line in lines[:3])
        sections = sum(_SECTION.match(line) is not None for line in lines)
        return (bool(head) and (labels > 0 or "|" in head)) or labels > 1 or sections >= _FEWEST_SECTIONS

    def _find_blank(self, begin: int) -> int:
        """Return the index of the first blank line from `begin` on; the number of lines if there is none."""
        return next((at for at in range(begin, len(self._lines)) if not self._lines[at].strip()), len(self._lines))

    def _is_byline(self, at: int) -> bool:
        """Return True for a line with an author and a time, or with an author above a line with a time."""
        below = self._lines[at + 1 : at + 2]
        is_split = _NAMED.match(self._lines[at]) is not None and any(map(_TIMED.match, below))
        return is_split or _BYLINE.match(self._lines[at]) is not None

    def _find_handed(self, at: int) -> int | None:
        """Return the index of the line where the text begins that line `at` asks to work on; None without one."""
        line, below = self._lines[at], self._lines[at + 1 : at + 2]
        is_colon = line.rstrip().endswith((":", "\uff1a"))
        is_apart = bool(below) and not below[0].strip()
        if len(line) > _LONGEST_LEAD or _HANDS_OVER.search(line) is None or _STANDS.search(line) or _MINE.search(line):
            return None
        if not (is_colon or (is_apart and _HANDED.search(line))):
            return None
        begin = next((one for one in range(at + 1, len(self._lines)) if self._lines[one].strip()), None)
        return begin if begin is not None and self._is_bare(begin) else None

    def _find_led_in(self, at: int) -> int | None:
        """Return the index of the line where another person's text begins; None if line `at` announces none."""
        line, around = self._lines[at], (*self._lines[max(0, at - 1) : at], *self._lines[at + 1 : at + 2])
        is_alone = at + 2 < len(self._lines) and not any(map(str.strip, around))
        if not is_alone or len(line) > _LONGEST_LEAD or _MINE.search(line) or not _LEADS_IN.search(line):
            return None
        return at + 2 if self._lines[at + 2].strip() and self._is_bare(at + 2) else None

    def _is_bare(self, at: int) -> bool:
        """Return False for a line whose form shows where foreign text ends: a citation, item, quotation or fence."""
        line = self._lines[at]
        return not (_CITED.match(line) or _LISTED.match(line) or _QUOTE.fullmatch(line.strip()) or _FENCE.match(line))

    def _is_above_page(self, at: int) -> bool:
        """Return True for a blank line between a question about "this" and a text as long as a page."""
        is_asked = at > 0 and not self._lines[at].strip() and _ABOUT_THIS.search(self._lines[at - 1]) is not None
        return is_asked and sum(len(one.split()) for one in self._lines[at:]) >= _PAGE

    def _find_announced(self) -> tuple[int, int]:
        """Return the index of the first line that is not surely the person's, and the end of the pasted lines."""
        lines = self._lines
        for at, line in enumerate(lines):
            if _ANNOUNCES.search(line):
                begin = next((one for one in range(at + 1, len(lines)) if lines[one].strip()), len(lines))
                if _SHOWN.search(line):
                    return begin, self._find_blank(begin)
                is_own = _OWN_LABEL.match(line.strip()) is not None
                if not is_own and not (begin < len(lines) and _LISTED.match(lines[begin])):
                    return begin, begin
            if _HEADER.match(line) and at + 1 < len(lines) and _HEADER.match(lines[at + 1]):
                return at, len(lines)
            if _GREETS.fullmatch(line.strip()) and any(one.strip() for one in lines[:at]):
                return at, at
            if handed := self._find_handed(at) or self._find_led_in(at):
                return handed, self._find_blank(handed)
            if _REPEATS.match(line) or self._is_above_page(at):
                return at, at
        return len(lines), len(lines)


def _is_plan(names: Collection[str], lines: Sequence[str]) -> bool:
    """Return True for a timetable: each line has a quarter of an hour and another word in small letters."""
    return len(names) == len(lines) and all(map(_PLANNED.match, lines))


def _speaker(line: str, *, is_dialog: bool) -> str | None:
    """Return the speaker of a chat line: up to three words before a colon; None if there is none.

    One or two words in small letters are a name only in a dialog, which stands between two lines such as `me: …`.
    """
    found = _SPEAKER.match(line)
    if found is None:
        return None
    said = re.sub(r"\([^)]*\)", "", _WHEN.sub("", found[0], count=1)).replace("\uff1a", ":").partition(":")[0]
    names = said.split()
    if names and names[-1].isdigit() and _CLOCK.search(found[0]):  # a record of a call: "Speaker 2 (00:14): …"
        names.pop()
        return said.strip() if names else None
    is_cased = all(name[0].isupper() or not name[0].isascii() for name in names)
    is_named = is_cased or _CLOCKED.match(line) or (is_dialog and len(names) < 3)
    return " ".join(names) if names and is_named else None
