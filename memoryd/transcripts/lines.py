r"""Bytes to lines to records: the first step of every reader, and the hot path of a backfill.

A transcript is cut at `\n` bytes only: JSON strings may hold U+2028 and U+0085, which text-mode line splitting would
take for line ends. Most lines are one JSON object and take the fast path. The rest is what crashes, full disks and
careless writers leave behind: two records on one line, half a record before a whole one, NUL holes, broken UTF-8.
Whatever of it is a record is read; whatever is not is reported as a `BadSpan`, so that no byte goes missing unseen.
"""

import json
import re
from collections.abc import Callable, Sequence
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

# A longer string of digits is quadratic work for int(), and Python refuses it by default.
_DIGITS_MAX = 4000
# How much text the search for a record behind a broken one may look at, in multiples of the line's length, so that no
# line takes minutes. A failed attempt costs more than what it parsed: the decoder's error counts lines up to its place.
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
        """Return the hash of the record's own bytes, in hex."""
        return sha256(self.data).hexdigest()


class BadSpan(NamedTuple):
    """Hold the place of bytes that are no record: it is counted and reported, and no model sees the bytes."""

    first_byte: int
    last_byte: int  # exclusive
    sha256: str
    reason: str


class FileCut(NamedTuple):
    """Hold what whole lines of a file contain, in order."""

    records: Sequence[Record]
    bad: Sequence[BadSpan]
    consumed: int  # bytes; the rest belongs to a record that is not complete yet


@dataclass(slots=True)
class Pass:
    """Follow one reading of a transcript, from its first byte and then as the file grows.

    It counts how often each line without time or id was met, so that the second of two equal lines gets another id than
    the first, and gets the same one when the file is read again. A lost pass is rebuilt by reading from byte 0.
    """

    session: str  # the session's native id: equal lines of two sessions are two turns
    seen: dict[str, int] = field(default_factory=dict)  # short hash of a line → how often
    state: Any = None  # a reader's knowledge of the earlier records, see `recall`

    def count_next(self, digest: str) -> int:
        """Count one more meeting with the line of this hash. The first is 1."""
        # A collision of short hashes only makes the count start later, the id still holds the whole hash.
        key = digest[:16]
        count = self.seen.get(key, 0) + 1
        self.seen[key] = count
        return count

    def recall(self, make: Callable[[], _State]) -> _State:
        """Return what the reader remembers of this pass; `make` is called at its beginning.

        A reader may use it to say what is no longer true of earlier records. What a record's own turns say must come
        from the record alone: it may be read once more by itself.
        """
        if self.state is None:
            self.state = make()
        return cast("_State", self.state)


def cut(data: bytes, base: int, *, last: bool) -> FileCut:
    """Cut bytes of a file into lines, and these into records. Never raises.

    Args:
        data: bytes that begin at the start of a line.
        base: offset of `data` in the file.
        last: nothing follows. Then a last line without a line end is taken as well if it is a whole record: some agents
            never write the last line end.
    """
    consumed = data.rfind(b"\n") + 1
    if last and is_record(data[consumed:]):
        consumed = len(data)
    records: list[Record] = []
    bad: list[BadSpan] = []
    first = base
    for line in data[:consumed].split(b"\n"):
        if line and not line.isspace():
            found, broken = decode(line, first)
            records += found
            bad += broken
        first += len(line) + 1
    return FileCut(records, bad, consumed)


def list_lines(data: bytes) -> list[bytes]:
    """Return the lines that are not blank, without their line ends."""
    return [line for line in data.split(b"\n") if line and not line.isspace()]


def is_record(line: bytes) -> bool:
    """Return True if a line is one JSON object; another one may still be in the middle of being written."""
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def decode(line: bytes, first: int) -> tuple[Sequence[Record], Sequence[BadSpan]]:
    """Return the records of a line that begins at this byte of a file, and the spans of it that are none."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _Salvage(line, first).run()
    if type(value) is dict:
        return (Record(value, first, first + len(line), line),), ()
    return (), (BadSpan(first, first + len(line), sha256(line).hexdigest(), NOT_AN_OBJECT),)


def clean(text: str) -> str:
    """Return the text with NUL and lone surrogates replaced by U+FFFD: neither survives a trip through SQLite."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
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
        record: the record.
        meetings: the pass over this file.
        stamped: whether the record itself holds something that tells it from its neighbours, such as a time. The same
            bytes again are then the same record again, here or in a copy of the file; without it, a second "yes" is a
            second turn.
    """
    digest = record.sha256()
    if stamped:
        return f"sha256:{digest}"
    count = meetings.count_next(digest)
    seed = f"{meetings.session}\n{digest}\n{count}".encode("utf-8", "replace")
    return f"sha256:{sha256(seed).hexdigest()}"


def oversize_turn(head: bytes, tail: bytes, length: int, digest: str) -> Turn:
    """Return the turn of a line too long to parse.

    Args:
        head: first bytes of the line.
        tail: last bytes of the line, not overlapping the head.
        length: of the whole line, in bytes.
        digest: SHA-256 of the whole line, in hex.
    """
    left_out = length - len(head) - len(tail)
    excerpt = f"{head.decode(errors='replace')}\n… [{left_out:,} bytes left out] …\n{tail.decode(errors='replace')}"
    rest, _ = strip(clean(excerpt))
    return Turn(f"sha256:{digest}", 0, Role.SYSTEM, Origin.UNKNOWN, TurnKind.OVERSIZE, rest)


_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS_MAX else float(digits))


class JsonScanner:
    """Read JSON values out of bytes, one after the other, with the place of each.

    The text is decoded with surrogateescape, so that every position in it can be turned back into a byte offset; what
    was not UTF-8 becomes U+FFFD later, in `clean`. Positions must be asked for in ascending order.
    """

    def __init__(self, data: bytes, first_byte: int) -> None:
        self.text = data.decode("utf-8", "surrogateescape")
        self.start = 1 if self.text.startswith(_BOM) else 0
        self._data = data
        self._first_byte = first_byte
        self._mark = (0, 0)  # a position in the text and its offset in the bytes

    def skip_space(self, at: int) -> int:
        """Return the next position that is not white space."""
        found = _NOT_SPACE.search(self.text, at)
        return found.start() if found else len(self.text)

    def parse(self, at: int) -> tuple[object, int]:
        """Return the value at a position and its end.

        Raises:
            json.JSONDecodeError: there is none.
        """
        return _DECODER.raw_decode(self.text, at)

    def record(self, value: dict[str, Any], at: int, end: int) -> Record:
        """Return the record of a value between two positions."""
        return Record(value, *self._span(at, end))

    def make_bad_span(self, at: int, end: int, reason: str) -> BadSpan:
        """Return the bytes between two positions as bytes that are no record."""
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
    """Find the records in a line that is not simply one record."""

    def __init__(self, line: bytes, first: int) -> None:
        self.line, self.first = line, first
        self.scanner = JsonScanner(line, first)
        self.text = self.scanner.text
        self.budget = _SEARCH_EFFORT * len(self.text) + _SEARCH_MIN
        self.records: list[Record] = []
        self.bad: list[BadSpan] = []
        self.waiting: tuple[int, int, str] | None = None  # bad, and perhaps followed by more of its kind

    def run(self) -> tuple[list[Record], list[BadSpan]]:
        text, skip_space = self.text, self.scanner.skip_space
        at = self.scanner.start
        while (at := skip_space(at)) < len(text):
            at = self._nuls(at) if text[at] == "\0" else self._value(at)
        self._end_bad()
        return self.records, self._bound_spans()

    def _bound_spans(self) -> list[BadSpan]:
        """Return the bad spans; if there are too many, the last one includes all the rest."""
        if len(self.bad) <= _SPANS_MAX:
            return self.bad
        first, last = self.bad[_SPANS_MAX - 1].first_byte, self.bad[-1].last_byte
        digest = sha256(self.line[first - self.first : last - self.first]).hexdigest()
        return [*self.bad[: _SPANS_MAX - 1], BadSpan(first, last, digest, MANY_PLACES)]

    def _add_bad(self, at: int, end: int, reason: str) -> None:
        if self.waiting is not None and self.waiting[2] == reason:
            at = self.waiting[0]
        else:
            self._end_bad()
        self.waiting = (at, end, reason)

    def _end_bad(self) -> None:
        if self.waiting is not None:
            self.bad.append(self.scanner.make_bad_span(*self.waiting))
            self.waiting = None

    def _nuls(self, at: int) -> int:
        found = _NOT_NUL.search(self.text, at)
        end = found.start() if found else len(self.text)
        self._add_bad(at, end, NUL_BYTES)
        return end

    def _value(self, at: int) -> int:
        value, end, reason = self._parse(at)
        if type(value) is dict:
            self._end_bad()
            self.records.append(self.scanner.record(value, at, end))
            return end
        if reason is None:
            reason = NOT_AN_OBJECT
            if not self._at_boundary(end):
                reason, end = NOT_JSON, self._next_start(at)
        else:
            end = self._next_start(at)
        self._add_bad(at, end, reason)
        return end

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
        """Return where the next record begins behind a broken one.

        That is at a brace whose object is followed by the line's end or another record; an object inside the broken one
        is followed by a comma or a bracket.
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
