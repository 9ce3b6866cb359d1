"""Read transcripts that are rewritten as a whole: NOW files, JSON files of other programs, and arrays of messages.

A document is read only after it has not changed for `settle`, so that no half-saved version is read. Content that was
read before is recognised by its lines or records, not by an offset.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

from memoryd.database import erasure, sqlite, turns
from memoryd.errors import MemorydError
from memoryd.files.ranges import Handle, Stat
from memoryd.reading import cursor as reading
from memoryd.reading.cursor import Cursor, FoundTurn
from memoryd.reading.packed import unpack
from memoryd.reading.scrubbing import UnscannedError
from memoryd.reading.sources import SourcePattern, WholeReading
from memoryd.text.private import is_private
from memoryd.transcripts import messages, now_file, registry
from memoryd.transcripts.fields import read_time
from memoryd.transcripts.format import LineFormat
from memoryd.transcripts.lines import Pass, cut
from memoryd.transcripts.whole import RESTED_SECONDS, DocumentFile, DocumentFormat, parse_document

PRIVATE = "marked private"
LARGEST = 16 << 20  # bytes; parsing takes many times as much memory
QUIET_SECONDS = 5.0
UNSCANNED_SECONDS = 90.0  # as HELD_SECONDS of `ingest`
HEAD = 4096
_SUFFIX = ".json"
PACKED_SUFFIX = ".zst"
PACKED = f".jsonl{PACKED_SUFFIX}"
LARGEST_UNPACKED = 4 * LARGEST
LINES_HEAD = 1 << 20


class Documents:
    """Read documents for `Ingest`."""

    def __init__(self, ingest: WholeReading) -> None:
        self.ingest = ingest
        self._lines: dict[str, Counter[str]] = {}
        self._ahead: dict[str, Stat] = {}  # files with a future time: path → first seen state

    def is_one(self, cursor: Cursor) -> bool:
        """Return True if this transcript was read as a document before."""
        if cursor.format == now_file.NAME or _is_whole(cursor) or cursor.path.endswith(PACKED):
            return True
        return now_file.is_now_path(PurePosixPath(cursor.path))

    def wants(self, source: SourcePattern, cursor: Cursor, path: str, handle: Handle) -> bool:
        """Return True if this transcript must be read as a document."""
        is_now = source.format == "auto" and now_file.is_now_path(PurePosixPath(path))
        if is_now or now_file.NAME in {cursor.format, source.format}:
            return True
        head = handle.read(0, HEAD)
        if path.endswith(PACKED) or _find_reader(source, path, head) is not None:
            return True
        if source.format not in {"auto", "messages"} or not messages.is_document(head):
            return False
        return not messages.is_lines(handle.read(0, LINES_HEAD))

    def observe_all(self, cursor: Cursor | None, path: str, stat: Stat) -> Stat:
        """Return the state of a transcript, combined with the states of its companion files."""
        reader = registry.DOCUMENTS[cursor.format or ""] if cursor is not None and _is_whole(cursor) else None
        names = reader.list_companions(PurePosixPath(path), ()) if reader is not None else ()
        for beside in (Path(path).parent / name for name in names):
            with suppress(OSError):
                found = beside.stat()
                size, mtime_ns = stat.size + found.st_size, max(stat.mtime_ns, found.st_mtime_ns)
                stat = stat._replace(size=size, mtime_ns=mtime_ns, ctime_ns=max(stat.ctime_ns, found.st_ctime_ns))
        return stat

    def read(self, source: SourcePattern, path: str, cursor: Cursor, handle: Handle, stat: Stat) -> None:
        """Read the current document if it has not changed for a while; otherwise schedule another check."""
        ingest = self.ingest
        settle = ingest.settings.ingest.settle.total_seconds()
        age = ingest.clock.now().timestamp() - stat.mtime_ns / 1e9
        if age < 0 and self._ahead.get(path) == stat:
            age = settle  # the clocks differ, but the file did not change between two checks
        self._ahead.pop(path, None)
        if age < settle:
            if age < 0:
                self._ahead[path] = stat
            ingest.look_again(path, settle)
            return
        if stat.size > LARGEST:
            self._leave(cursor, path, stat, f"larger than {LARGEST} bytes")
            return
        data = handle.read(0, stat.size)
        if handle.observe() != stat or len(data) != stat.size:
            ingest.look_again(path, settle)
            return
        if is_private("", data):  # marked inside; a private file name matches no pattern
            self._leave(cursor, path, stat, PRIVATE)
            return
        cursor.unfinished = age < QUIET_SECONDS and bool(data) and not data.endswith(b"\n")
        if cursor.unfinished:
            ingest.look_again(path, QUIET_SECONDS)
        plain = self._read_now if self._is_now(source, path, cursor) else self._array
        read: Callable[[], list[FoundTurn] | None] = partial(plain, cursor, data)
        if path.endswith(PACKED):
            read = partial(self._read_packed, source, path, cursor, data)
        elif (reader := _find_reader(source, path, data[:HEAD])) is not None:
            cursor.format = reader.name
            stat = self.observe_all(cursor, path, stat)
            beside, newest = self._read_companions(reader, path)
            age = ingest.clock.now().timestamp() - max(stat.mtime_ns, newest) / 1e9
            document = DocumentFile(data, PurePosixPath(path), beside, age)
            read = partial(self._read_whole, source, cursor, reader, document)
        self._take(cursor, path, stat, data, read)

    def _leave(self, cursor: Cursor, path: str, stat: Stat, why: str) -> None:
        """Record the state of a document that is not read, and the reason."""
        self.ingest.place(cursor, path, stat)
        cursor.note, cursor.unfinished = why, False

    def _is_now(self, source: SourcePattern, path: str, cursor: Cursor) -> bool:
        return now_file.NAME in {source.format, cursor.format} or now_file.is_now_path(PurePosixPath(path))

    def _read_companions(self, reader: DocumentFormat, path: str) -> tuple[dict[str, bytes], int]:
        """Return the companion files of a transcript by name, and the time of the newest change.

        The time is in nanoseconds since 1970. A file that is missing, too large or not a regular file is left out, as
        if it were not written yet.
        """
        folder, found, newest, size = Path(path).parent, dict[str, bytes](), 0, 0
        for _ in range(2):  # twice, because messages name the files of their parts
            listed = reader.list_companions(PurePosixPath(path), found)
            names = [one for name in listed for one in _list_files(folder, name)]
            for name in names if not found.keys() >= set(names) else ():
                with suppress(MemorydError, OSError), Handle(Path(os.path.normpath(folder / name))) as handle:
                    stat = handle.observe()
                    size += stat.size
                    if size <= LARGEST:
                        found[name] = handle.read(0, stat.size)
                        newest = max(newest, stat.mtime_ns)
        return found, newest

    def _take(
        self, cursor: Cursor, path: str, stat: Stat, data: bytes, read: Callable[[], list[FoundTurn] | None]
    ) -> None:
        ingest = self.ingest
        known = cursor.hasher is not None or cursor.id is not None
        hasher = hashlib.sha256(data)
        unchanged = known and hasher.hexdigest() == cursor.prefix_sha256 and not cursor.note
        gone = cursor.is_gone
        ingest.place(cursor, path, stat)
        cursor.hasher, cursor.offset = hasher, len(data)
        cursor.generation += int(known and not unchanged)
        waiting, cursor.note = cursor.note, None
        try:
            found = read()
        except UnscannedError:
            reading.start(cursor)
            cursor.unfinished = True
            ingest.look_again(path, UNSCANNED_SECONDS)
            cursor.note = waiting
            raise
        if found is None:
            cursor.note = "the document is not complete yet"
            reading.start(cursor)  # nothing counts as read; the file may later prove to hold lines
        cursor.rested = found is None or self.is_one(cursor)
        if not unchanged or gone:
            ingest.set_fate(cursor, "new" if not known else "returned" if unchanged else "edited")
        ingest.take(cursor, reading.CursorReading(found or []))

    def _read_packed(self, source: SourcePattern, path: str, cursor: Cursor, data: bytes) -> list[FoundTurn] | None:
        """Return the turns of a compressed file of lines, as Codex keeps old sessions; None if it is incomplete.

        The records keep their ids, so turns that are already stored are recognised.
        """
        content = unpack(data, LARGEST_UNPACKED)
        if content is None:
            return None
        plain = PurePosixPath(path.removesuffix(PACKED_SUFFIX))
        head = b"\n".join(content.split(b"\n", reading.HEAD_LINES)[: reading.HEAD_LINES])
        values = [record.value for record in cut(head, 0, last=True).records]
        reader = registry.detect(values, plain, content[: registry.HEAD_BYTES])
        identity = reader.identify(values, plain) if isinstance(reader, LineFormat) else None
        if not isinstance(reader, LineFormat) or identity is None:
            cursor.note = "its format, session or folder is not known"
            return []
        cursor.format = reader.name
        if cursor.session_id is None:
            if not self.ingest.is_wanted(source, cursor, identity):
                return []
            cursor.session_id = self.ingest.session_for(cursor, self.ingest.without_secrets(identity))
        meetings = Pass(cursor.session_id)
        return [
            FoundTurn(cursor, turn, 0, 0, hashlib.sha256(record.data).digest())
            for record in reader.cut(content, 0, last=True).records
            for turn in reader.turns(record, identity, meetings).turns
        ]

    def _read_whole(
        self, source: SourcePattern, cursor: Cursor, reader: DocumentFormat, document: DocumentFile
    ) -> list[FoundTurn] | None:
        """Return the turns of another program's file; None if it is incomplete.

        If it has no wanted turns, the list is empty, and the cursor's note says why.
        """
        read = reader.read(document)
        if read is None:
            return None
        if isinstance(read, str):
            cursor.note = f"{reader.name}: {read}"
            return []
        if cursor.session_id is None and read.found:
            if not self.ingest.is_wanted(source, cursor, read.identity):
                return []
            cursor.session_id = self.ingest.session_for(cursor, self.ingest.without_secrets(read.identity))
        cursor.records, cursor.skipped = len(read.found) + read.skipped.total(), read.skipped
        if read.held:
            cursor.unfinished = True
            self.ingest.look_again(cursor.path, RESTED_SECONDS)
        return reading.list_turns(cursor, read.found)

    def _read_now(self, cursor: Cursor, data: bytes) -> list[FoundTurn]:
        now = now_file.parse(data, closed=not cursor.unfinished)
        cursor.format = now_file.NAME
        if now.front_matter.get("memory_type") == now_file.CAPTURE:
            cursor.note = "a copy that memoryd keeps of a session"
            return []
        if cursor.session_id is None:
            identity = now_file.identify(now, PurePosixPath(cursor.path))
            cursor.session_id = self.ingest.session_for(cursor, self.ingest.without_secrets(identity))
        seen = self._lines.get(cursor.session_id)
        if seen is None:
            seen = self._lines_of(cursor.session_id)
        # Lines are compared in their stored form. Entries are scanned whole, because a secret can span several lines.
        said = self.ingest.scrubber.scan(["\n".join(entry.lines) for entry in now.entries], self.ingest.progress)
        if None in said:
            raise UnscannedError("an entry could not be scanned for secrets", cursor.path, "it is tried again")
        entries = [
            entry._replace(lines=tuple(scrubbed.text.split("\n")))
            for entry, scrubbed in zip(now.entries, said, strict=True)
            if scrubbed is not None and not scrubbed.dropped
        ]
        fresh, self._lines[cursor.session_id] = now_file.new_turns(entries, seen, cursor.session_id)
        ended = read_time(now.front_matter.get("timestamp_end"))
        if not ended and now_file.is_exited(now.entries):
            ended = read_time(cursor.mtime_ns / 1e9)
        if ended:
            self.ingest.batch.ended[cursor.session_id] = ended
        digest = hashlib.sha256(data).digest()
        return [FoundTurn(cursor, turn, 0, len(data), digest) for turn in fresh]

    def _lines_of(self, session_id: str) -> Counter[str]:
        """Return the keys of a session's stored lines with their counts, rebuilt from its turns after a start."""
        lines: Counter[str] = Counter()
        with sqlite.begin_read(self.ingest.engine) as connection:
            stored = turns.stored_turns(connection, session_id)
            lines.update(erasure.forgotten_of(connection, session_id))
        # The turns are redacted again, because other rules may have applied when they were stored.
        for turn, text in zip(stored, self.ingest.scrubber.redact([turn.text for turn in stored]), strict=True):
            lines.update(now_file.line_key(turn.role, line) for line in text.split("\n") if line.strip())
        return lines

    def _array(self, cursor: Cursor, data: bytes) -> list[FoundTurn] | None:
        parsed = parse_document(data)
        if parsed is None:
            return None
        records = parsed[1]
        reader = registry.by_name(messages.Messages.name)
        identity = reader.identify([record.value for record in records], PurePosixPath(cursor.path))
        if identity is None:
            return None
        identity = self.ingest.without_secrets(identity)
        cursor.format = reader.name
        cursor.session_id = cursor.session_id or self.ingest.session_for(cursor, identity)
        meetings = Pass(cursor.session_id)
        readings = [(record, reader.turns(record, identity, meetings)) for record in records]
        cursor.records = len(readings)
        cursor.skipped = Counter(read.skipped for _, read in readings if read.skipped)
        return [
            FoundTurn(cursor, turn, record.first_byte, record.last_byte, hashlib.sha256(record.data).digest())
            for record, read in readings
            for turn in read.turns
        ]

    def forget(self, session_ids: set[str]) -> None:
        """Drop the cached lines of sessions whose turns could not be stored."""
        for session_id in session_ids:
            self._lines.pop(session_id, None)


def _is_whole(cursor: Cursor) -> bool:
    """Return True if the cursor belongs to another program's JSON file, and not to a file of JSON lines."""
    return cursor.format in registry.DOCUMENTS and cursor.path.endswith(_SUFFIX)


def _find_reader(source: SourcePattern, path: str, head: bytes) -> DocumentFormat | None:
    """Return the reader of another program's file by its name and first bytes; None if there is none."""
    if not path.endswith(_SUFFIX):
        return None
    if source.format != "auto":
        return registry.DOCUMENTS.get(source.format)
    posix = PurePosixPath(path)
    return next((one for one in registry.DOCUMENTS.values() if one.sniff(head, posix)), None)


def _list_files(folder: Path, name: str) -> list[str]:
    """Return [name] for a file; for a folder (with a slash), the names of the JSON files in it."""
    if not name.endswith("/"):
        return [name]
    return [f"{name}{found.name}" for found in (folder / name).glob("*.json")]
