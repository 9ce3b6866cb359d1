"""Read transcripts that are rewritten as a whole: NOW files, and files that are one JSON array.

They are read only when they have been left alone for `settle`, so that no half-saved version is taken; what was read
before is known by its lines or records, not by an offset.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from memoryd.database import erasure, sqlite, turns
from memoryd.reading import cursor as reading
from memoryd.reading.cursor import FoundTurn
from memoryd.reading.scrubbing import UnscannedError
from memoryd.transcripts import messages, now_file, registry
from memoryd.transcripts.fields import read_time
from memoryd.transcripts.lines import Pass

if TYPE_CHECKING:
    from memoryd.files.ranges import Handle, Stat
    from memoryd.reading.cursor import Cursor
    from memoryd.reading.sources import SourcePattern, WholeReading

LARGEST = 16 << 20  # bytes; parsed it takes many times as much
QUIET_SECONDS = 5.0
UNSCANNED_SECONDS = 60.0
HEAD = 64
LINES_HEAD = 1 << 20


class Documents:
    """Read documents for `Ingest`."""

    def __init__(self, ingest: WholeReading) -> None:
        self.ingest = ingest
        self._lines: dict[str, Counter[str]] = {}
        self._ahead: dict[str, Stat] = {}  # files with a time in the future, as they looked when they were met

    def is_one(self, cursor: Cursor) -> bool:
        """Return True if this transcript was read as a document."""
        return cursor.format == now_file.NAME or now_file.is_now_path(reading.to_posix(cursor.path))

    def wants(self, source: SourcePattern, cursor: Cursor, path: str, handle: Handle) -> bool:
        """Return True if this transcript is a document."""
        if now_file.NAME in {cursor.format, source.format}:
            return True
        if source.format == "auto" and now_file.is_now_path(reading.to_posix(path)):
            return True
        if source.format not in {"auto", "messages"} or not messages.is_document(handle.read(0, HEAD)):
            return False
        return not messages.is_lines(handle.read(0, LINES_HEAD))

    def read(self, source: SourcePattern, path: str, cursor: Cursor, handle: Handle, stat: Stat) -> None:
        """Read the current document, if it has settled."""
        ingest = self.ingest
        settle = ingest.settings.ingest.settle.total_seconds()
        age = ingest.clock.now().timestamp() - stat.mtime_ns / 1e9
        if age < 0 and self._ahead.get(path) == stat:
            age = settle  # the clocks differ; between two looks it stayed as it was
        self._ahead.pop(path, None)
        if age < settle:
            if age < 0:
                self._ahead[path] = stat
            ingest.look_again(path, settle)
            return
        if stat.size > LARGEST:
            cursor.note = f"larger than {LARGEST} bytes"
            ingest.place(cursor, path, stat)
            cursor.unfinished = False
            return
        data = handle.read(0, stat.size)
        if handle.observe() != stat or len(data) != stat.size:
            ingest.look_again(path, settle)
            return
        cursor.unfinished = age < QUIET_SECONDS and bool(data) and not data.endswith(b"\n")
        if cursor.unfinished:
            ingest.look_again(path, QUIET_SECONDS)
        self._take(source, path, cursor, stat, data)

    def _take(self, source: SourcePattern, path: str, cursor: Cursor, stat: Stat, data: bytes) -> None:
        ingest = self.ingest
        known = cursor.hasher is not None or cursor.id is not None
        hasher = hashlib.sha256(data)
        unchanged = known and hasher.hexdigest() == cursor.prefix_sha256 and not cursor.note
        gone = cursor.is_gone
        ingest.place(cursor, path, stat)
        cursor.hasher, cursor.offset = hasher, stat.size
        cursor.generation += int(known and not unchanged)
        is_now = source.format == now_file.NAME or self.is_one(cursor)
        try:
            found = self._read_now(cursor, data) if is_now else self._array(cursor, data)
        except UnscannedError:
            reading.start(cursor)
            cursor.unfinished = True
            ingest.look_again(path, UNSCANNED_SECONDS)
            raise
        cursor.note = "the document is not complete yet" if found is None else None
        if found is None:
            reading.start(cursor)  # nothing is consumed, and it may turn out to be lines
        cursor.rested = found is None
        if not unchanged or gone:
            ingest.set_fate(cursor, "new" if not known else "returned" if unchanged else "edited")
        ingest.take(cursor, reading.CursorReading(found or []))

    def _read_now(self, cursor: Cursor, data: bytes) -> list[FoundTurn]:
        now = now_file.parse(data, closed=not cursor.unfinished)
        cursor.format = now_file.NAME
        if cursor.session_id is None:
            identity = now_file.identify(now, reading.to_posix(cursor.path))
            cursor.session_id = self.ingest.session_for(cursor, self.ingest.without_secrets(identity))
        seen = self._lines.get(cursor.session_id)
        if seen is None:
            seen = self._lines_of(cursor.session_id)
        # Lines are compared as they are stored; and what is no secret by itself may be one together with its lines.
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
        if ended:
            self.ingest.batch.ended[cursor.session_id] = ended
        digest = hashlib.sha256(data).digest()
        return [FoundTurn(cursor, turn, 0, len(data), digest) for turn in fresh]

    def _lines_of(self, session_id: str) -> Counter[str]:
        """Return which lines of a session are stored; after a start, rebuild this from its turns."""
        lines: Counter[str] = Counter()
        with sqlite.begin_read(self.ingest.engine) as connection:
            stored = turns.stored_turns(connection, session_id)
            lines.update(erasure.forgotten_of(connection, session_id))
        # What was stored by another version of the rules is known again as well.
        for turn, text in zip(stored, self.ingest.scrubber.redact([turn.text for turn in stored]), strict=True):
            lines.update(now_file.line_key(turn.role, line) for line in text.split("\n") if line.strip())
        return lines

    def _array(self, cursor: Cursor, data: bytes) -> list[FoundTurn] | None:
        records = messages.document_records(data)
        if records is None:
            return None
        reader = registry.by_name(messages.Messages.name)
        identity = reader.identify([record.value for record in records], reading.to_posix(cursor.path))
        if identity is None:
            return None
        identity = self.ingest.without_secrets(identity)
        cursor.format = reader.name
        cursor.session_id = cursor.session_id or self.ingest.session_for(cursor, identity)
        meetings = Pass(cursor.session_id)
        readings = [(record, reader.turns(record, identity, meetings)) for record in records]
        cursor.skipped = Counter(read.skipped for _, read in readings if read.skipped)
        return [
            FoundTurn(cursor, turn, record.first_byte, record.last_byte, hashlib.sha256(record.data).digest())
            for record, read in readings
            for turn in read.turns
        ]

    def forget(self, session_ids: set[str]) -> None:
        """Drop the state of sessions whose turns could not be stored."""
        for session_id in session_ids:
            self._lines.pop(session_id, None)
