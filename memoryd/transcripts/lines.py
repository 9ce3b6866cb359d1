r"""Divide bytes into lines and lines into records: the first step of every reader, and the slowest part of an import.

A transcript is divided at `\n` bytes only. JSON strings may contain U+2028 and U+0085, which text-mode line splitting
would take for line ends. Most lines are one JSON object and take the fast path. Crashes, full disks and careless
writers leave other lines: two records on one line, half a record before a whole one, NUL bytes, broken UTF-8. Their
records are read. All other bytes are reported as `BadSpan`, so that no byte is lost unnoticed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar, cast

import orjson

from memoryd.transcripts.injected import strip
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

_State = TypeVar("_State")

NOT_JSON = "not JSON"
NOT_AN_OBJECT = "not an object"
NUL_BYTES = "NUL bytes"
MANY_PLACES = "many places that are not records"
TOO_DEEP = "nested too deeply"

# For a longer string of digits, int() takes quadratic time, and Python refuses it by default.
_DIGITS_MAX = 4000
# The most text that the search for a record after a broken one may read, as a multiple of the line's length. This keeps
# a line from taking minutes. A failed attempt costs more than what it parsed, because the decoder's error counts lines.
_SEARCH_EFFORT = 8
_SPANS_MAX = 20  # of one line
_SEARCH_MIN = 100_000
_DEEP_COST = 10_000
_ERROR_COST = 100
_ERROR_COST_SHIFT = 6
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_OBJECT_START = re.compile(r"\{[ \t\r]*\"")
_NOT_NUL = re.compile(r"[^\0]")
_BOM = "\ufeff"


class Record(NamedTuple):
    """Hold one JSON object of a transcript, and the bytes that it was read from."""

    value: dict[str, Any]
    first_byte: int
    last_byte: int  # exclusive
    data: bytes

    def sha256(self) -> str:
        """Return the SHA-256 of the record's own bytes, in hex."""
        return sha256(self.data).hexdigest()


class BadSpan(NamedTuple):
    """Hold the position of bytes that are not a record. They are counted and reported, and no model sees them."""

    first_byte: int
    last_byte: int  # exclusive
    sha256: str
    reason: str


class FileCut(NamedTuple):
    """Hold the records and bad spans of whole lines, in order.

    The records may be an iterator, because it is faster to use each one before the next is decoded. Then `bad` is
    complete after the last one.
    """

    records: Iterable[Record]
    bad: Sequence[BadSpan]
    consumed: int  # bytes; the rest belongs to an incomplete record


@dataclass(slots=True)
class Pass:
    """Hold the state of one reading of a transcript, from its first byte on.

    It counts how often each line without a time or an id has occurred. So the second of two equal lines gets its own
    id, which stays the same when the file is read again. A lost pass is rebuilt by reading from byte 0.
    """

    session: str  # the session's own id, because equal lines of two sessions are two turns
    seen: dict[str, int] = field(default_factory=dict)  # by the short hash of a line, how often it occurred
    state: Any = None  # the state of a reader (`recall`)

    def count_next(self, digest: str) -> int:
        """Count one more line with this hash, and return its number, from 1."""
        # If two short hashes collide, only the count is too high. The id still contains the whole hash.
        key = digest[:16]
        count = self.seen.get(key, 0) + 1
        self.seen[key] = count
        return count

    def recall(self, make: Callable[[], _State]) -> _State:
        """Return the reader's state in this pass; `make` creates it at the beginning.

        A reader may use it to report that earlier records are no longer valid. The turns of a record must depend on the
        record alone, because it may be read again by itself.
        """
        if self.state is None:
            self.state = make()
        return cast("_State", self.state)


def cut(data: bytes, base: int, *, last: bool) -> FileCut:
    """Divide bytes of a file into lines, and lines into records. Never raises.

    Args:
        data: Bytes that begin at the start of a line.
        base: The offset of `data` in the file.
        last: Whether nothing follows. A last line without a line end is then read if it is a whole record, because
            some agents never write the last line end.
    """
    consumed = data.rfind(b"\n") + 1
    if last and is_record(data[consumed:]):
        consumed = len(data)
    bad: list[BadSpan] = []
    return FileCut(_iter_records(data[:consumed], base, bad), bad, consumed)


def _iter_records(data: bytes, first: int, bad: list[BadSpan]) -> Iterator[Record]:
    for line in data.split(b"\n"):
        if line.strip():
            found, broken = decode(line, first)
            bad += broken
            yield from found
        first += len(line) + 1


def is_record(line: bytes) -> bool:
    """Return True if a line is one JSON object. Otherwise it may still be being written."""
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def decode(line: bytes, first: int) -> tuple[Sequence[Record], Sequence[BadSpan]]:
    """Return the records in a line, and the spans that are not records. `first` is its first byte in the file."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _Salvage(line, first).run()
    if type(value) is dict:
        return (Record(value, first, first + len(line), line),), ()
    return (), (BadSpan(first, first + len(line), sha256(line).hexdigest(), NOT_AN_OBJECT),)


def clean(text: str) -> str:
    """Return the text with U+FFFD for NUL and lone surrogates, which SQLite does not return unchanged."""
    text = text.replace("\0", "\ufffd") if "\0" in text else text
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def derived_id(record: Record, meetings: Pass, *, stamped: bool) -> str:
    """Return an id for a record whose format gives it none.

    Args:
        record: The record.
        meetings: The pass over this file.
        stamped: Whether the record has something unique, such as a time. Equal bytes are then the same record, here or
            in a copy of the file. Without it, a second "yes" is a second turn.
    """
    digest = record.sha256()
    if stamped:
        return f"sha256:{digest}"
    seed = f"{meetings.session}\n{digest}\n{meetings.count_next(digest)}".encode("utf-8", "replace")
    return f"sha256:{sha256(seed).hexdigest()}"


_WORD_ENDS = re.compile(rb"[\s\"',;:{}()\[\]]")


def oversize_turn(head: bytes, tail: bytes, length: int, digest: str) -> Turn:
    """Return the turn of a line that is too long to parse, with an excerpt as its text.

    Args:
        head: The first bytes of the line.
        tail: The last bytes of the line; they do not overlap the head.
        length: The length of the whole line, in bytes.
        digest: The SHA-256 of the whole line, in hex.
    """
    # Half a word at the cut may be half a secret.
    head = head[: max((one.end() for one in _WORD_ENDS.finditer(head)), default=0)]
    tail = tail[begin.start() :] if (begin := _WORD_ENDS.search(tail)) else b""
    left_out = length - len(head) - len(tail)
    excerpt = f"{head.decode(errors='replace')}\n… [{left_out:,} bytes left out] …\n{tail.decode(errors='replace')}"
    rest, _ = strip(clean(excerpt))
    return Turn(f"sha256:{digest}", 0, Role.SYSTEM, Origin.UNKNOWN, TurnKind.OVERSIZE, rest)


_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS_MAX else float(digits))


class JsonScanner:
    """Read JSON values from bytes, one after the other, with the position of each.

    The text is decoded with surrogateescape, so that every position can be turned into a byte offset. `clean` later
    replaces bytes that were not UTF-8 by U+FFFD. Positions must be asked for in ascending order.
    """

    def __init__(self, data: bytes, first_byte: int) -> None:
        self.text = data.decode("utf-8", "surrogateescape")
        self.start = 1 if self.text.startswith(_BOM) else 0
        self._data = data
        self._first_byte = first_byte
        self._mark = (0, 0)  # a position in the text and its byte offset

    def skip_space(self, at: int) -> int:
        """Return the next position that is not white space, or the length of the text."""
        found = _NOT_SPACE.search(self.text, at)
        return found.start() if found else len(self.text)

    def parse(self, at: int) -> tuple[object, int]:
        """Return the JSON value at a position, and its end.

        Raises:
            json.JSONDecodeError: There is no value.
        """
        return _DECODER.raw_decode(self.text, at)

    def record(self, value: dict[str, Any], at: int, end: int) -> Record:
        """Return a record for a value that is between two positions."""
        return Record(value, *self._span(at, end))

    def make_bad_span(self, at: int, end: int, reason: str) -> BadSpan:
        """Return the bytes between two positions as a bad span."""
        first, last, data = self._span(at, end)
        return BadSpan(first, last, sha256(data).hexdigest(), reason)

    def _span(self, at: int, end: int) -> tuple[int, int, bytes]:
        first, last = self._byte(at), self._byte(end)
        return self._first_byte + first, self._first_byte + last, self._data[first:last]

    def _byte(self, at: int) -> int:
        position, offset = self._mark
        offset += len(self.text[position:at].encode("utf-8", "surrogateescape"))
        self._mark = (at, offset)
        return offset


class _Salvage:
    """Find the records in a line that is not exactly one record."""

    def __init__(self, line: bytes, first: int) -> None:
        self.line, self.first = line, first
        self.scanner = JsonScanner(line, first)
        self.text = self.scanner.text
        self.budget = _SEARCH_EFFORT * len(self.text) + _SEARCH_MIN

    def run(self) -> tuple[list[Record], list[BadSpan]]:
        spans: list[tuple[int, int, dict[str, Any] | str]] = []  # start, end, and a record or why there is none
        at = self.scanner.start
        while (at := self.scanner.skip_space(at)) < len(self.text):
            end, found = self._take(at)
            at = spans.pop()[0] if spans and spans[-1][2] == found and isinstance(found, str) else at
            spans.append((at, end, found))
            at = end
        records: list[Record] = []
        bad: list[BadSpan] = []
        for at, end, found in spans:
            if isinstance(found, str):
                bad.append(self.scanner.make_bad_span(at, end, found))
            else:
                records.append(self.scanner.record(found, at, end))
        return records, self._bound_spans(bad)

    def _bound_spans(self, bad: list[BadSpan]) -> list[BadSpan]:
        """Return the bad spans. If there are too many, the last one includes all the rest."""
        if len(bad) <= _SPANS_MAX:
            return bad
        first, last = bad[_SPANS_MAX - 1].first_byte, bad[-1].last_byte
        digest = sha256(self.line[first - self.first : last - self.first]).hexdigest()
        return [*bad[: _SPANS_MAX - 1], BadSpan(first, last, digest, MANY_PLACES)]

    def _take(self, at: int) -> tuple[int, dict[str, Any] | str]:
        """Return the end of what begins at a position, and the record there or the reason why there is none."""
        if self.text[at] == "\0":
            behind = _NOT_NUL.search(self.text, at)
            return behind.start() if behind else len(self.text), NUL_BYTES
        value, end, reason = self._parse(at)
        if type(value) is dict:
            return end, value
        if reason is None and self._at_boundary(end):
            return end, NOT_AN_OBJECT
        return self._next_start(at), reason or NOT_JSON

    def _parse(self, at: int) -> tuple[object, int, str | None]:
        try:
            value, end = self.scanner.parse(at)
        except RecursionError:
            self.budget -= _DEEP_COST
            return None, at, TOO_DEEP
        except json.JSONDecodeError as error:
            self.budget -= error.pos - at + _ERROR_COST + (error.pos >> _ERROR_COST_SHIFT)
            return None, at, NOT_JSON
        self.budget -= end - at
        return value, end, None

    def _next_start(self, at: int) -> int:
        """Return the position where the next record begins after a broken one.

        This is a brace whose object is followed by the end of the line or by another record. An object inside the
        broken record is followed by a comma or a bracket.
        """
        while self.budget > 0 and (found := _OBJECT_START.search(self.text, at + 1)):
            at = found.start()
            value, end, _ = self._parse(at)
            if type(value) is dict and self._at_boundary(end):
                return at
        return len(self.text)

    def _at_boundary(self, end: int) -> bool:
        after = self.scanner.skip_space(end)
        return after == len(self.text) or self.text[after] in "{\0"
