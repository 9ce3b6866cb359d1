"""The cursor of one transcript at work: looks at the file, tells its fate, and reads on.

What it learns goes to a `Batch`; nothing here writes. A cursor is opened by hashing the consumed prefix once; from then
on it carries the hash along, and verifies it again whenever the file behaves unlike an append (transcripts/fate.py).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd.transcripts import lines as splitting
from memoryd.transcripts.fate import HEAD_BYTES, MARKER_BYTES, Evidence, Fate, fate, needs_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memoryd.files.ranges import Handle, Stat
    from memoryd.transcripts.format import Identity, LineFormat
    from memoryd.transcripts.lines import BadSpan, Line
    from memoryd.transcripts.turn import Turn

CHUNK = 1 << 20
LONGEST_LINE = 8 << 20
EXCERPT_BYTES = 4096
HEAD_LINES = 60
HEAD_READ = 64 << 10
HEAD_READ_MAX = LONGEST_LINE


@dataclass(slots=True)
class Cursor:
    """How far one transcript has been read, and by what it is known again."""

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
    skipped: Counter[str] = field(default_factory=Counter)
    # Known to this process only:
    hasher: Any = None
    since_verified: int = 0
    reader: LineFormat | None = None
    identity: Identity | None = None
    meetings: splitting.Pass | None = None
    dirty: bool = False

    @property
    def gone(self) -> bool:
        """Whether the file was away at the last look."""
        return self.fate in {"deleted", "still-gone"}

    def row(self) -> dict[str, Any]:
        """The cursor as its row of `transcript`."""
        return {
            "id": self.id,
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "path": self.path,
            "format": self.format,
            "device": self.device,
            "inode": self.inode,
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "ctime_ns": self.ctime_ns,
            "head_length": self.head_length,
            "head_sha256": self.head_sha256,
            "offset": self.offset,
            "marker_sha256": self.marker_sha256,
            "prefix_sha256": self.prefix_sha256,
            "generation": self.generation,
            "fate": self.fate,
            "fate_at": self.fate_at,
            "skipped": json.dumps(self.skipped, sort_keys=True),
            "note": self.note,
        }


def from_row(row: Mapping[str, Any]) -> Cursor:
    """Make a cursor of its row; it is not opened yet."""
    known = {name: value for name, value in row.items() if name != "skipped"}
    return Cursor(**known, skipped=Counter(json.loads(row["skipped"])))


class Found(NamedTuple):
    """One turn with the place it was read from."""

    cursor: Cursor
    turn: Turn
    first_byte: int
    last_byte: int
    sha256: bytes


def examine(cursor: Cursor, path: str, stat: Stat, handle: Handle) -> Fate:
    """Tell what became of the transcript; hashes what must be hashed to know.

    Afterwards the cursor is open (its hash runs on) unless its bytes changed.
    """
    opened = cursor.hasher is not None
    evidence = _evidence(cursor, path, stat)
    if needs_prefix(evidence, opened=opened, since_verified=cursor.since_verified):
        evidence = _evidence(cursor, path, stat, same_prefix=_verify(cursor, handle))
    elif opened and stat.size > cursor.offset and not _same_ends(cursor, handle):
        evidence = _evidence(cursor, path, stat, same_prefix=False)
    return fate(evidence)


def _evidence(cursor: Cursor, path: str, stat: Stat, *, same_prefix: bool | None = None) -> Evidence:
    return Evidence(
        exists=True,
        known=cursor.id is not None or cursor.hasher is not None,
        was_gone=cursor.gone,
        same_path=path == cursor.path,
        same_inode=(stat.dev, stat.ino) == (cursor.device, cursor.inode),
        size=stat.size,
        offset=cursor.offset,
        same_stat=(stat.size, stat.mtime_ns, stat.ctime_ns) == (cursor.size, cursor.mtime_ns, cursor.ctime_ns),
        same_prefix=same_prefix,
    )


def _verify(cursor: Cursor, handle: Handle) -> bool:
    hasher = hashlib.sha256()
    for piece in handle.chunks(0, cursor.offset):
        hasher.update(piece)
    expected = cursor.prefix_sha256 if cursor.hasher is None else cursor.hasher.hexdigest()
    if hasher.hexdigest() != expected:
        return False
    cursor.hasher = hasher
    cursor.since_verified = 0
    return True


def _same_ends(cursor: Cursor, handle: Handle) -> bool:
    return (
        handle.sha256_range(0, cursor.head_length) == cursor.head_sha256
        and handle.sha256_range(max(0, cursor.offset - MARKER_BYTES), min(cursor.offset, MARKER_BYTES))
        == cursor.marker_sha256
    )


def rewind(cursor: Cursor) -> None:
    """Go back to the start: the file is another one, or another version of itself."""
    cursor.generation += 1
    start(cursor)


def start(cursor: Cursor) -> None:
    """Stand at byte 0 with nothing consumed."""
    cursor.offset = 0
    cursor.hasher = hashlib.sha256()
    cursor.since_verified = 0
    cursor.head_length, cursor.head_sha256, cursor.marker_sha256 = 0, "", ""
    cursor.reader, cursor.identity, cursor.meetings = None, None, None


def settle_at(cursor: Cursor, handle: Handle, offset: int, consumed: bytes) -> None:
    """Move the offset past bytes that were just consumed, and keep what the file is known again by."""
    cursor.hasher.update(consumed)
    cursor.since_verified += len(consumed)
    cursor.offset = offset
    if cursor.head_length < HEAD_BYTES:
        cursor.head_length = min(offset, HEAD_BYTES)
        cursor.head_sha256 = handle.sha256_range(0, cursor.head_length) or ""
    tail = consumed[-MARKER_BYTES:]
    if len(tail) < MARKER_BYTES:
        tail = handle.read(max(0, offset - MARKER_BYTES), min(offset, MARKER_BYTES))
    cursor.marker_sha256 = hashlib.sha256(tail).hexdigest()
    cursor.dirty = True


def seal(cursor: Cursor) -> None:
    """Write the running hash down, before the cursor is stored."""
    cursor.prefix_sha256 = cursor.hasher.hexdigest() if cursor.hasher is not None else cursor.prefix_sha256


def head_records(handle: Handle, size: int) -> list[dict[str, Any]]:
    """Read the first records of a file, to tell its format and whose it is."""
    chunk = handle.read(0, min(size, HEAD_READ))
    if b"\n" not in chunk and size > len(chunk):
        chunk = handle.read(0, min(size, HEAD_READ_MAX))
    listed, _ = splitting.split(chunk, 0)
    if len(chunk) == size and (rest := _unended(chunk)) is not None:
        listed.append(rest)
    records: list[dict[str, Any]] = []
    for line in listed[:HEAD_LINES]:
        records.extend(record.value for record in splitting.decode(line).records)
    return records


def _unended(chunk: bytes) -> Line | None:
    begin = chunk.rfind(b"\n") + 1
    return splitting.unterminated(chunk[begin:], begin) if begin < len(chunk) else None


class LazyPass(splitting.Pass):
    """A pass whose counts are rebuilt from the file only if a record without any mark of its own turns up."""

    __slots__ = ("_rebuild",)

    def __init__(self, session: str, rebuild: Callable[[], Mapping[str, int]]) -> None:
        super().__init__(session)
        self._rebuild: Callable[[], Mapping[str, int]] | None = rebuild

    def next(self, digest: str) -> int:
        """Count one more meeting with the line of this hash."""
        if self._rebuild is not None:
            rebuild, self._rebuild = self._rebuild, None
            self.seen.update(rebuild())
        return super().next(digest)


@dataclass(slots=True)
class Reading:
    """What one stretch of reading gave."""

    found: list[Found]
    bad: list[BadSpan]
    text_bytes: int = 0
    more: bool = False


def read_on(cursor: Cursor, handle: Handle, size: int, limit: int) -> Reading:
    """Read from the offset towards `size`, at most about `limit` bytes, whole lines only."""
    result = Reading([], [])
    stop = min(size, cursor.offset + limit)
    pending = b""
    while cursor.offset + len(pending) < stop:
        chunk = handle.read(cursor.offset + len(pending), CHUNK)
        if not chunk:
            break
        pending += chunk
        listed, consumed = splitting.split(pending, cursor.offset)
        if consumed:
            take(cursor, listed, result)
            settle_at(cursor, handle, cursor.offset + consumed, pending[:consumed])
            pending = pending[consumed:]
        elif len(pending) > LONGEST_LINE:
            if not _read_oversize(cursor, handle, size, result):
                break
            pending = b""
    result.more = cursor.offset < size and cursor.offset >= stop
    return result


def take(cursor: Cursor, listed: list[Line], result: Reading) -> None:
    """Turn lines into turns. The hot path of a backfill."""
    assert cursor.reader is not None  # noqa: S101 - a cursor is read only once its format is known
    assert cursor.identity is not None  # noqa: S101
    assert cursor.meetings is not None  # noqa: S101
    turns_of, identity, meetings = cursor.reader.turns, cursor.identity, cursor.meetings
    sha256, decode, found = hashlib.sha256, splitting.decode, result.found
    for line in listed:
        decoded = decode(line)
        for record in decoded.records:
            reading = turns_of(record, identity, meetings)
            if reading.turns:
                digest = sha256(record.data).digest()
                for turn in reading.turns:
                    found.append(Found(cursor, turn, record.first_byte, record.last_byte, digest))
                    result.text_bytes += len(turn.text)
            elif reading.skipped:
                cursor.skipped[reading.skipped] += 1
        if decoded.bad:
            result.bad.extend(decoded.bad)


def _read_oversize(cursor: Cursor, handle: Handle, size: int, result: Reading) -> bool:
    """Consume one line too long to parse: hashed as a stream, kept as an excerpt. False while it has no end yet."""
    first = cursor.offset
    end = _line_end(handle, first, size)
    if end is None:
        return False
    digest = hashlib.sha256()
    for piece in handle.chunks(first, end - first):
        digest.update(piece)
        cursor.hasher.update(piece)
    cursor.hasher.update(b"\n")
    head = handle.read(first, EXCERPT_BYTES)
    tail = handle.read(end - EXCERPT_BYTES, EXCERPT_BYTES)
    turn = splitting.oversize_turn(head, tail, end - first, digest.hexdigest())
    result.found.append(Found(cursor, turn, first, end, digest.digest()))
    result.text_bytes += len(turn.text)
    cursor.since_verified += end + 1 - first
    settle_at(cursor, handle, end + 1, b"")
    return True


def _line_end(handle: Handle, first: int, size: int) -> int | None:
    at = first
    for piece in handle.chunks(first, size - first):
        found = piece.find(b"\n")
        if found >= 0:
            return at + found
        at += len(piece)
    return None


def take_unended(cursor: Cursor, handle: Handle, size: int, result: Reading) -> None:
    """Take a last line without a line end, if it is a whole record: the file has been left alone."""
    if size - cursor.offset > LONGEST_LINE:
        return
    tail = handle.read(cursor.offset, size - cursor.offset)
    line = splitting.unterminated(tail, cursor.offset)
    if line is not None:
        take(cursor, [line], result)
        settle_at(cursor, handle, cursor.offset + len(tail), tail)


def rebuild_counts(cursor: Cursor, handle: Handle, upto: int) -> dict[str, int]:
    """Count again which unmarked lines the consumed prefix holds, by reading it from the start."""
    assert cursor.reader is not None  # noqa: S101
    assert cursor.identity is not None  # noqa: S101
    counts = splitting.Pass(cursor.meetings.session if cursor.meetings else "")
    pending, base = b"", 0
    oversize = False  # such a line has a hash for a name and takes no part in the counting
    for piece in handle.chunks(0, upto):
        listed, consumed = splitting.split(pending + piece, base)
        pending, base = (pending + piece)[consumed:], base + consumed
        for line in listed[1:] if oversize and listed else listed:
            for record in splitting.decode(line).records:
                cursor.reader.turns(record, cursor.identity, counts)
        oversize = oversize and not consumed
        if len(pending) > LONGEST_LINE:
            pending, base, oversize = b"", base + len(pending), True
    return counts.seen


def posix(path: str) -> PurePosixPath:
    """A path as the pure readers take it."""
    return PurePosixPath(path)
