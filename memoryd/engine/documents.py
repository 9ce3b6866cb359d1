"""Transcripts that are rewritten as a whole: NOW files, and files that are one JSON array.

They are read only when they have been left alone for `settle`, so that no half-saved version is taken; what was read
before is known by its lines or records, not by an offset.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from memoryd.database import sqlite, turns
from memoryd.engine import cursor as reading
from memoryd.engine.cursor import Found
from memoryd.transcripts import messages, now_file, registry
from memoryd.transcripts.lines import Pass

if TYPE_CHECKING:
    from memoryd.engine.cursor import Cursor
    from memoryd.engine.ingest import Ingest, Source
    from memoryd.files.ranges import Handle, Stat
    from memoryd.transcripts.turn import Turn

LARGEST = 64 << 20
QUIET_SECONDS = 5.0
HEAD = 64


class Documents:
    """Reads documents for `Ingest`."""

    def __init__(self, ingest: Ingest) -> None:
        self.ingest = ingest
        self._lines: dict[str, Counter[str]] = {}

    def wants(self, source: Source, cursor: Cursor, handle: Handle) -> bool:
        """Say whether this transcript is a document."""
        if now_file.NAME in {cursor.format, source.format}:
            return True
        if source.format == "auto" and now_file.is_now_path(reading.posix(cursor.path)):
            return True
        return source.format in {"auto", "messages"} and messages.is_document(handle.read(0, HEAD))

    def read(self, source: Source, path: str, cursor: Cursor, handle: Handle, stat: Stat) -> None:
        """Read the document as it is now, if it has settled."""
        ingest = self.ingest
        age = ingest.clock.now().timestamp() - stat.mtime_ns / 1e9
        settle = ingest.settings.ingest.settle.total_seconds()
        if 0 <= age < settle:
            ingest.look_again(path, settle)
            return
        if stat.size > LARGEST:
            cursor.note = f"larger than {LARGEST} bytes"
            ingest.place(cursor, path, stat)
            return
        data = handle.read(0, stat.size)
        if handle.observe() != stat or len(data) != stat.size:
            ingest.look_again(path, settle)
            return
        closed = age >= QUIET_SECONDS
        if not closed and data and not data.endswith(b"\n"):
            ingest.look_again(path, QUIET_SECONDS)
        self._take(source, path, cursor, stat, data, closed=closed)

    def _take(self, source: Source, path: str, cursor: Cursor, stat: Stat, data: bytes, *, closed: bool) -> None:
        ingest = self.ingest
        known = cursor.hasher is not None or cursor.id is not None
        unchanged = known and hashlib.sha256(data).hexdigest() == cursor.prefix_sha256 and not cursor.note
        ingest.place(cursor, path, stat)
        cursor.hasher = hashlib.sha256(data)
        cursor.offset = stat.size
        if unchanged and not closed:
            return
        taken = self._now(cursor, data, closed=closed) if self._is_now(source, cursor) else self._array(cursor, data)
        if taken is None:
            cursor.note = "the document is not complete yet"
            return
        cursor.note = None
        if not unchanged:
            ingest.set_fate(cursor, "edited" if known else "new")
            cursor.generation += int(known)
        digest = hashlib.sha256(data).digest()
        ingest.take(cursor, [Found(cursor, turn, 0, stat.size, digest) for turn in taken])

    def _is_now(self, source: Source, cursor: Cursor) -> bool:
        return now_file.NAME in {source.format, cursor.format} or now_file.is_now_path(reading.posix(cursor.path))

    def _now(self, cursor: Cursor, data: bytes, *, closed: bool) -> list[Turn]:
        now = now_file.parse(data, closed=closed)
        cursor.format = now_file.NAME
        if cursor.session_id is None:
            cursor.session_id = self.ingest.session_for(cursor, now_file.identify(now, reading.posix(cursor.path)))
        seen = self._lines.get(cursor.session_id)
        if seen is None:
            seen = self._lines_of(cursor.session_id)
        fresh, self._lines[cursor.session_id] = now_file.new_turns(now.entries, seen, cursor.session_id)
        ended = now.front_matter.get("timestamp_end", "")
        if ended and ended not in {"null", "~"}:
            self.ingest.batch.ended[cursor.session_id] = ended
        return fresh

    def _lines_of(self, session_id: str) -> Counter[str]:
        """Which lines of a session are stored: rebuilt from its turns after a start."""
        lines: Counter[str] = Counter()
        with sqlite.reading(self.ingest.engine) as connection:
            for turn in turns.stored_turns(connection, session_id):
                lines.update(now_file.line_key(turn.role, line) for line in turn.text.split("\n") if line.strip())
        return lines

    def _array(self, cursor: Cursor, data: bytes) -> list[Turn] | None:
        records = messages.document_records(data)
        if records is None:
            return None
        reader = registry.by_name(messages.Messages.name)
        identity = reader.identify([record.value for record in records], reading.posix(cursor.path))
        if identity is None:
            return None
        cursor.format = reader.name
        cursor.session_id = cursor.session_id or self.ingest.session_for(cursor, identity)
        meetings = Pass(cursor.session_id)
        return [turn for record in records for turn in reader.turns(record, identity, meetings).turns]

    def forget(self, session_ids: set[str]) -> None:
        """Drop what was remembered of sessions whose turns could not be stored."""
        for session_id in session_ids:
            self._lines.pop(session_id, None)
