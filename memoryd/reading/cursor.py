"""Read one transcript: check the file, find out what happened to it (appended, rewritten, rotated …), and read on.

Nothing here writes: the results go to an `IngestBatch`. When a cursor is opened, the bytes that were read before are
hashed once. Then the cursor updates the hash as it reads. It hashes the file again whenever the file does not look as
if text was only appended (transcripts/fate.py).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar, cast

from memoryd.files.ranges import Handle, Stat
from memoryd.transcripts import lines as splitting
from memoryd.transcripts.fate import HEAD_BYTES, MARKER_BYTES, FateEvidence, find_fate, needs_prefix
from memoryd.transcripts.format import UNHEARD, Identity, LineFormat
from memoryd.transcripts.lines import BadSpan, Record
from memoryd.transcripts.turn import Turn
from memoryd.transcripts.whole import FoundRecord

T = TypeVar("T")
CHUNK = 256 << 10
MOST_TURNS = 2000  # most turns of one reading; short lines take many times their size in memory
LONGEST_LINE = 8 << 20
EXCERPT_BYTES = 4096
HEAD_LINES = 60
HEAD_LINES_MAX = 2000
HEAD_READ = 64 << 10
HEAD_READ_MAX = LONGEST_LINE


@dataclass(slots=True)
class Cursor:
    """Hold how far a transcript has been read, and the hashes and numbers that identify its file."""

    agent_id: str
    path: str
    device: int
    inode: int
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    id: int | None = None
    session_id: str | None = None
    format: str | None = None
    head_length: int = 0
    head_sha256: str = ""
    offset: int = 0
    marker_sha256: str = ""
    prefix_sha256: str = ""
    generation: int = 1
    fate: str = "new"
    fate_at: str = ""
    note: str | None = None
    records: int = 0
    version: str | None = None  # version of the program that last wrote it
    skipped: Counter[str] = field(default_factory=Counter)
    # Only in memory, not in the row:
    hasher: Any = None
    since_verified: int = 0
    reader: LineFormat | None = None
    identity: Identity | None = None
    meetings: Meetings | None = None
    unfinished: bool = True  # until this process has read every byte after the offset
    doubtful: bool = False  # changed within a clock tick of the last check: another change could be invisible
    rested: bool = False  # it was checked after a quiet time
    unheard: bool = False  # it was already reported that messages with unknown roles are skipped

    @property
    def context(self) -> tuple[LineFormat, Identity, Meetings]:
        """Return how to read the transcript. A cursor is read only once its format and session are known."""
        return cast("tuple[LineFormat, Identity, Meetings]", (self.reader, self.identity, self.meetings))

    @property
    def is_gone(self) -> bool:
        """Return True if the file was missing at the last check."""
        return self.fate == "deleted"

    @property
    def is_part(self) -> bool:
        """Return True if this is a session in a database, not a file of its own."""
        return not self.inode

    def is_as_read(self, stat: Stat) -> bool:
        """Return True if the file has not changed since it was completely read."""
        seen = self.device, self.inode, self.size, self.mtime_ns, self.ctime_ns
        return not (self.is_gone or self.unfinished or self.doubtful) and seen == tuple(stat)

    def row(self) -> dict[str, Any]:
        """Return the cursor as its row of `transcript`."""
        return {name: getattr(self, name) for name in _COLUMNS} | {"skipped": json.dumps(self.skipped, sort_keys=True)}


_COLUMNS = [one.name for one in fields(Cursor)]
_COLUMNS = _COLUMNS[: _COLUMNS.index("skipped")]


def from_row(row: dict[str, Any]) -> Cursor:
    """Return the cursor of a row. Its file is not opened yet."""
    known = {name: value for name, value in row.items() if name != "skipped"}
    skipped = json.loads(row["skipped"])
    return Cursor(**known, skipped=Counter(skipped), unheard=any(name.startswith(UNHEARD) for name in skipped))


class FoundTurn(NamedTuple):
    """Hold one turn, and the place in the transcript from which it was read."""

    cursor: Cursor
    turn: Turn
    first_byte: int
    last_byte: int
    sha256: bytes
    withheld: str | None = None  # why its text is missing: unscanned, skipped …
    owner: Identity | None = None  # the session of the turn, if the file holds many
    session_id: str | None = None  # the stored session, if it is not the cursor's


def list_turns(cursor: Cursor, found: Iterable[FoundRecord]) -> list[FoundTurn]:
    """Return the turns of records that were read from a whole file or a database."""
    return [FoundTurn(cursor, turn, one.first_byte, one.last_byte, one.sha256) for one in found for turn in one.turns]


def examine(cursor: Cursor, path: str, stat: Stat, handle: Handle) -> str:
    """Return the fate of the transcript since the last check, such as `appended` or `rewritten`.

    Only the necessary bytes are hashed. Afterwards the cursor is open, unless the bytes that it had read have changed.
    """
    opened = cursor.hasher is not None
    evidence = _evidence(cursor, path, stat)
    if needs_prefix(evidence, opened=opened, since_verified=cursor.since_verified):
        evidence = replace(evidence, same_prefix=is_same(cursor, handle))
    elif opened and stat.size > cursor.offset and not _same_ends(cursor, handle):
        evidence = replace(evidence, same_prefix=False)
    if not cursor.offset and not opened:
        start(cursor)
    return find_fate(evidence)


def _evidence(cursor: Cursor, path: str, stat: Stat) -> FateEvidence:
    return FateEvidence(
        known=cursor.id is not None or cursor.hasher is not None,
        was_gone=cursor.is_gone,
        same_path=path == cursor.path,
        same_inode=(stat.dev, stat.ino) == (cursor.device, cursor.inode),
        size=stat.size,
        offset=cursor.offset,
        same_stat=(stat.size, stat.mtime_ns, stat.ctime_ns) == (cursor.size, cursor.mtime_ns, cursor.ctime_ns),
        doubtful=cursor.doubtful,
        unfinished=cursor.unfinished,
    )


def is_same(cursor: Cursor, handle: Handle) -> bool:
    """Return True if the file still begins with the bytes that were read before. If so, open the cursor."""
    hasher = hashlib.sha256()
    left = cursor.offset
    for piece in handle.chunks(0, cursor.offset):
        hasher.update(piece)
        left -= len(piece)
    expected = cursor.prefix_sha256 if cursor.hasher is None else cursor.hasher.hexdigest()
    if left or hasher.hexdigest() != expected:
        return False
    cursor.hasher = hasher
    cursor.since_verified = 0
    return True


def _same_ends(cursor: Cursor, handle: Handle) -> bool:
    begin = max(0, cursor.offset - MARKER_BYTES)
    is_head = handle.sha256_range(0, cursor.head_length) == cursor.head_sha256
    return not cursor.offset or (is_head and handle.sha256_range(begin, cursor.offset - begin) == cursor.marker_sha256)


def start(cursor: Cursor) -> None:
    """Set the cursor to byte 0, with nothing read."""
    cursor.offset = 0
    cursor.hasher = hashlib.sha256()
    cursor.since_verified = 0
    cursor.head_length, cursor.head_sha256, cursor.marker_sha256 = 0, "", ""
    cursor.skipped, cursor.records = Counter(), 0
    cursor.reader, cursor.identity, cursor.meetings = None, None, None


def close(cursor: Cursor) -> None:
    """Drop the hash of the open cursor; the next check of the file hashes the bytes again."""
    seal(cursor)
    cursor.hasher, cursor.meetings = None, None


def seal(cursor: Cursor) -> None:
    """Copy the running hash into the field that is stored."""
    cursor.prefix_sha256 = cursor.hasher.hexdigest() if cursor.hasher is not None else cursor.prefix_sha256


class Head(NamedTuple):
    """Hold the first records of a file, by how reliable they are."""

    whole: list[dict[str, Any]]  # from lines that are completely valid
    salvaged: list[dict[str, Any]]  # from damaged lines; such a record may be only a part of the real one


def head_records(handle: Handle, size: int, limit: int) -> Head:
    """Return the first records of a file, from about `limit` bytes, to find its format and its session."""
    head = Head([], [])
    at = cost = 0
    most = HEAD_LINES if limit <= HEAD_READ else HEAD_LINES_MAX
    while at < size and cost < limit and len(head.whole) < most:
        stretch = next_stretch(handle, at, size, limit)
        if stretch is None:
            tail = handle.read(at, LONGEST_LINE) if size - at <= LONGEST_LINE else b""
            data, at = (tail if splitting.is_record(tail) else b""), size
        else:
            data, at = stretch.data, stretch.end
        cost += len(stretch.data) if stretch is not None and stretch.data else CHUNK
        for line in [*filter(bytes.strip, data.split(b"\n"))][:most]:
            records, bad = splitting.decode(line, 0)
            (head.salvaged if bad else head.whole).extend(record.value for record in records)
    return head


class FileStretch(NamedTuple):
    """Hold the bytes of one step: whole lines, or the position of a line that is too long, or of a gap of NUL bytes."""

    data: bytes  # whole lines with their line ends; empty for a long line or a gap
    end: int  # offset after the bytes
    hole: bool = False


def next_stretch(handle: Handle, first: int, size: int, limit: int = 0) -> FileStretch | None:
    """Return the next bytes, about `limit` (default `CHUNK`) at most; None if only an unfinished line is left.

    Whether a line is too long depends only on the line, so a second reading splits the file in the same way.
    """
    pending = b""
    while first + len(pending) < size:
        begin = first + len(pending)
        chunk = handle.read(begin, min(limit or CHUNK, CHUNK, size - begin))
        if not chunk:
            return None
        # If a line spans several chunks, stop at its end; the next call reads the rest of the chunk again.
        cut = (chunk.find(b"\n") if pending else chunk.rfind(b"\n")) + 1
        pending += chunk
        if cut and begin - first + cut - 1 <= LONGEST_LINE:
            return FileStretch(pending[: begin - first + cut], begin + cut)
        if len(pending) > LONGEST_LINE:
            return _long_stretch(handle, first, size)
    return None


def _long_stretch(handle: Handle, first: int, size: int) -> FileStretch | None:
    """Return a long line; if NUL bytes are before it, return only these as a gap.

    NUL bytes occur when a file is truncated while its writer keeps its old offset.
    """
    at = first
    for piece in handle.chunks(first, size - first):
        rest = piece.lstrip(b"\0")
        if rest:
            at += len(piece) - len(rest)
            break
        at += len(piece)
    if at > first:
        return FileStretch(b"", at, hole=True) if at < size else None
    for piece in handle.chunks(first, size - first):
        found = piece.find(b"\n")
        if found >= 0:
            return FileStretch(b"", at + found + 1)
        at += len(piece)
    return None


class Meetings(splitting.Pass):
    """Count repeated lines during one pass over a file.

    After a restart, the counts of earlier bytes are rebuilt from the file, but only if a record needs them because it
    has no id of its own.
    """

    __slots__ = ("handle", "upto")

    def __init__(self, session: str, upto: int) -> None:
        super().__init__(session)
        self.upto = upto  # bytes that were read before this pass; their lines are not counted yet
        self.handle: tuple[Cursor, Handle] | None = None  # the file that is being read now

    def count_next(self, digest: str) -> int:
        """Count one more occurrence of the line with this hash, and return the new count."""
        self._catch_up()
        return super().count_next(digest)

    def recall(self, make: Callable[[], T]) -> T:
        """Return the state that the format's reader keeps for the file; `make` creates it the first time."""
        self._catch_up()
        return super().recall(make)

    def _catch_up(self) -> None:
        if self.upto and self.handle is not None:
            before = _read_again(*self.handle, self.session, self.upto)
            self.upto, self.state = 0, before.state
            self.seen.update(before.seen)


def _read_again(cursor: Cursor, handle: Handle, session: str, upto: int) -> splitting.Pass:
    reader, identity, _ = cursor.context
    meetings = splitting.Pass(session)
    at = 0
    while at < upto:
        stretch = next_stretch(handle, at, upto)
        data = handle.read(at, upto - at) if stretch is None else stretch.data
        end = upto if stretch is None else stretch.end
        cut = reader.cut(data, at, last=end == upto)
        for record in cut.records:
            reader.turns(record, identity, meetings)
        at = at + cut.consumed if data and cut.consumed else end
    return meetings


@dataclass(slots=True)
class CursorReading:
    """Hold the turns and damaged spans of one reading."""

    found: list[FoundTurn] = field(default_factory=list)
    bad: list[BadSpan] = field(default_factory=list)
    live: dict[str, bool] = field(default_factory=dict)  # record id → True if last resumed, False if retracted


def read_on(cursor: Cursor, handle: Handle, size: int, limit: int, result: CursorReading) -> None:
    """Read whole lines from the cursor's offset towards `size`, about `limit` bytes at most, into `result`.

    If the disk fails in between, `result` holds exactly the records up to the cursor's offset.
    """
    meetings = cursor.context[2]
    meetings.handle = cursor, handle
    stop = min(size, cursor.offset + limit)
    cursor.unfinished = True
    while (
        cursor.offset < stop
        and len(result.found) < MOST_TURNS
        and (stretch := next_stretch(handle, cursor.offset, size)) is not None
    ):
        if not stretch.data:
            _consume_long(cursor, handle, stretch, result)
        elif not _consume(cursor, handle, stretch.data, result):
            # A record of several lines may still be incomplete at the end; one that fills a whole chunk is split.
            if size - cursor.offset <= CHUNK:
                break
            _consume(cursor, handle, stretch.data, result, last=True)
    cursor.unfinished = cursor.offset < size and (stop <= cursor.offset or len(result.found) >= MOST_TURNS)
    meetings.handle = None


def take_unended(cursor: Cursor, handle: Handle, size: int, result: CursorReading) -> None:
    """Read the last line if it is a whole record without a line end. The caller knows that the file is at rest."""
    meetings = cursor.context[2]
    if not 0 < size - cursor.offset <= LONGEST_LINE:
        return
    meetings.handle = cursor, handle
    _consume(cursor, handle, handle.read(cursor.offset, size - cursor.offset), result, last=True)
    meetings.handle = None


def _consume(cursor: Cursor, handle: Handle, data: bytes, result: CursorReading, *, last: bool = False) -> int:
    """Read the lines in `data` and return the number of consumed bytes.

    Everything that can fail comes before the first change of the cursor.
    """
    cut = cursor.context[0].cut(data, cursor.offset, last=last)
    if not cut.consumed:
        return 0
    data = data[: cut.consumed]
    ends = _ends(cursor, handle, cursor.offset + len(data), data)
    taken = _take(cursor, cut.records)
    cursor.hasher.update(data)
    _move(cursor, cursor.offset + len(data), ends)
    result.found += taken.found
    result.bad += cut.bad
    result.live |= taken.live
    return len(data)


def _take(cursor: Cursor, records: Iterable[Record]) -> CursorReading:
    """Convert records to turns. An import of history spends most of its time here."""
    reader, identity, meetings = cursor.context
    sha256, result = hashlib.sha256, CursorReading()
    found, turns_of, version_of = result.found, reader.turns, reader.version_of
    for record in records:
        cursor.records += 1
        cursor.version = version_of(record.value) or cursor.version
        turns, skipped, retracted, resumed, owner = turns_of(record, identity, meetings)
        if turns:
            _, first, last, data = record
            digest = sha256(data).digest()
            found += [FoundTurn(cursor, turn, first, last, digest, None, owner) for turn in turns]
        if skipped:
            cursor.skipped[skipped] += 1
        if retracted or resumed:
            result.live |= dict.fromkeys(retracted, False) | dict.fromkeys(resumed, True)
    return result


def _consume_long(cursor: Cursor, handle: Handle, stretch: FileStretch, result: CursorReading) -> None:
    """Skip a line that is too long to parse, and keep an excerpt of it as a turn. A gap is only reported."""
    first = cursor.offset
    last = stretch.end if stretch.hole else stretch.end - 1
    running, digest = cursor.hasher.copy(), hashlib.sha256()
    for piece in handle.chunks(first, last - first):
        running.update(piece)
        digest.update(piece)
    if not stretch.hole:
        running.update(b"\n")
    ends = _ends(cursor, handle, stretch.end, b"")
    if stretch.hole:
        result.bad.append(splitting.BadSpan(first, last, digest.hexdigest(), splitting.NUL_BYTES))
    else:
        head, tail = handle.read(first, EXCERPT_BYTES), handle.read(last - EXCERPT_BYTES, EXCERPT_BYTES)
        turn = splitting.oversize_turn(head, tail, last - first, digest.hexdigest())
        result.found.append(FoundTurn(cursor, turn, first, last, digest.digest()))
    cursor.hasher = running
    _move(cursor, stretch.end, ends)


def _ends(cursor: Cursor, handle: Handle, offset: int, consumed: bytes) -> tuple[int, str, str]:
    """Return the marks that identify a file: length and hash of its head, and hash of the bytes before `offset`."""
    head_length, head_sha256 = cursor.head_length, cursor.head_sha256
    if head_length < HEAD_BYTES:
        head_length = min(offset, HEAD_BYTES)
        head_sha256 = handle.sha256_range(0, head_length) or ""
    tail = consumed[-MARKER_BYTES:]
    if len(tail) < MARKER_BYTES:
        tail = handle.read(max(0, offset - MARKER_BYTES), min(offset, MARKER_BYTES))
    return head_length, head_sha256, hashlib.sha256(tail).hexdigest()


def _move(cursor: Cursor, offset: int, ends: tuple[int, str, str]) -> None:
    cursor.since_verified += offset - cursor.offset
    cursor.offset = offset
    cursor.head_length, cursor.head_sha256, cursor.marker_sha256 = ends
