"""Read the sessions in another program's SQLite database, while that program writes to it.

The database has one cursor with its last state, or with the reason why it is not read. Each session in it has a cursor
too, whose path is the database's path and the session's id. The offset of a session is the number of the last row that
was completely read; its marker is the id of that row. So turns and cursor are stored in one transaction, as for files.
If the rows get other numbers, the database is read again. The ids of the records then prevent duplicates.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.errors import MemorydError, StateError
from memoryd.files import ranges
from memoryd.files.ranges import Stat
from memoryd.reading import foreign_database as foreign
from memoryd.reading.cursor import Cursor, CursorReading, list_turns
from memoryd.reading.foreign_database import ForeignDatabase
from memoryd.reading.sources import SourcePattern, WholeReading
from memoryd.transcripts import registry
from memoryd.transcripts.lines import Pass
from memoryd.transcripts.whole import DatabaseFormat, SessionStretch, StretchStart

HELD_SECONDS = 60.0
PASSES = 16  # number of sessions for which the state of the last pass is kept
BUSY_SECONDS = 1.0
_PLAIN = re.compile(r"[\w.-]{1,128}")


class _ChangedError(Exception):
    """Report that the file changed while it was read without a lock, so the result is invalid."""


@dataclass(slots=True)
class _DatabaseState:
    """Hold what this process knows about a database."""

    seen: int = 0  # number of the last row that was noticed; its session was read or is in `waiting`
    mark: str | None = None  # id of that row, because SQLite reuses numbers of deleted rows
    waiting: dict[str, frozenset[str]] = field(default_factory=dict)  # sessions to read, with rows already read
    passes: dict[str, tuple[int, Pass]] = field(default_factory=dict)  # for the last read sessions: row number and pass
    unwanted: set[str] = field(default_factory=set)  # sessions of other projects


class Databases:
    """Read databases for `Ingest`."""

    def __init__(self, ingest: WholeReading) -> None:
        self.ingest = ingest
        self._states: dict[tuple[str, str], _DatabaseState] = {}

    def is_one(self, source: SourcePattern, cursor: Cursor | None, path: str) -> bool:
        """Return True if the file at this path must be read as a database."""
        if (source.agent.id, path) in self._states:
            return True
        if source.format not in {"auto", *registry.DATABASES} or path.endswith(foreign.BESIDE):
            return False
        was_lines = cursor is not None and cursor.offset  # it was read as lines before
        return not was_lines and _is_database(path)

    def is_beside(self, path: str) -> bool:
        """Return True if SQLite keeps this file beside a database, such as a write-ahead log."""
        suffix = next(filter(path.endswith, foreign.BESIDE), "")
        main = path.removesuffix(suffix)
        return bool(suffix) and (main in self._list_paths() or _is_database(main))

    def find_main(self, path: str) -> str:
        """Return the database to which a path belongs: a session's path, or that of a log.

        Other paths are returned unchanged.
        """
        known = self._list_paths()
        folder = path.rpartition("/")[0]
        return folder if folder in known else path.removesuffix(foreign.LOG)

    def forget(self, session_ids: Iterable[str] = ()) -> None:
        """Drop the state of all databases, so that they are checked again; read the given sessions from the start."""
        self._states = {key: _DatabaseState() for key in self._states}
        wanted = frozenset(session_ids)
        for cursor in self.ingest.cursors.all() if wanted else ():
            if cursor.is_part and cursor.session_id in wanted:
                cursor.offset, cursor.marker_sha256 = 0, ""
        for _, path in self._states:
            self.ingest.look_again(path, 0)

    def _list_paths(self) -> set[str]:
        return {path for _, path in list(self._states)}  # a copy, because the watcher's thread calls this too

    def look(self, source: SourcePattern, path: str, cursor: Cursor | None, stat: Stat) -> bool:
        """Read the new rows of a database; return False if it has not changed.

        Raises:
            StateError: it cannot be read, or its tables do not have the expected layout.
        """
        stat = foreign.observe_with_log(Path(path), stat)
        state = self._states.get((source.agent.id, path))
        has_more = state is None or bool(state.waiting)
        if cursor is not None and cursor.is_as_read(stat) and not has_more:
            return False
        self._read(source, path, cursor, stat)
        return True

    def _read(self, source: SourcePattern, path: str, cursor: Cursor | None, stat: Stat) -> None:
        ingest = self.ingest
        if cursor is None or (cursor.device, cursor.inode) != (stat.dev, stat.ino):
            self._states.pop((source.agent.id, path), None)
        known = cursor is not None
        if cursor is None:
            cursor = Cursor(source.agent.id, path, stat.dev, stat.ino, fate_at=ingest.clock.text())
        state = self._states.setdefault((source.agent.id, path), _DatabaseState())
        fate = "appended" if known and not cursor.is_gone else "returned" if known else "new"
        ingest.place(cursor, path, stat)
        ingest.set_fate(cursor, fate)
        cursor.hasher, cursor.unfinished, cursor.rested = hashlib.sha256(), False, True
        try:
            with ForeignDatabase(Path(path)) as database:
                try:
                    self._read_open(source, cursor, database, state)
                except StateError:
                    _require_sound(database)
                    raise
        except _ChangedError:
            del self._states[source.agent.id, path]
            ingest.look_again(path, BUSY_SECONDS)
            return
        except StateError as error:
            cursor.note = f"sqlite: {error.what}"
            raise
        if cursor.note is not None and (source.format != "auto" or cursor.format):
            raise StateError(cursor.note, path, "docs/agents.md lists the versions that memoryd reads")
        if state.waiting:
            self._go_on_later(source, path)

    def _go_on_later(self, source: SourcePattern, path: str) -> None:
        if self.ingest.batch.is_full():
            self.ingest.wait(source, path)  # as history: with low priority, and counted by an import
        else:
            self.ingest.look_again(path, HELD_SECONDS)

    def _read_open(
        self, source: SourcePattern, cursor: Cursor, database: ForeignDatabase, state: _DatabaseState
    ) -> None:
        layout = self._find_layout(source, cursor, database)
        _require_sound(database)
        if layout is not None:
            cursor.format = layout.name
            _DatabaseReading(self.ingest, source, cursor, database, layout).read(state)

    def _find_layout(self, source: SourcePattern, cursor: Cursor, database: ForeignDatabase) -> DatabaseFormat | None:
        """Return the reader whose tables exist.

        If there is none, return None and note what is missing in the cursor.
        """
        tables = database.list_tables()
        missing = []
        for layout in registry.DATABASES.values():
            if source.format in {"auto", layout.name}:
                why = _find_missing(layout, tables)
                if why is None:
                    cursor.note = None
                    return layout
                missing.append(f"{layout.program} ({why})")
        self.ingest.pass_over(cursor, f"sqlite: not a database of {' or '.join(missing)}")
        return None


def _require_sound(database: ForeignDatabase) -> None:
    if not database.is_sound():
        raise _ChangedError


def _find_missing(layout: DatabaseFormat, tables: dict[str, frozenset[str]]) -> str | None:
    for table, columns in layout.tables.items():
        if "rowid" in tables.get(table, ()):
            return f"a column rowid in {table}"
        if table not in tables:
            return f"no table {table}"
        if left := columns - tables[table]:
            return f"no column {min(left)} in {table}"
    return None


@dataclass(slots=True)
class _DatabaseReading:
    """Read one database once, for one check."""

    ingest: WholeReading
    source: SourcePattern
    main: Cursor
    database: ForeignDatabase
    layout: DatabaseFormat

    def read(self, state: _DatabaseState) -> None:
        rows, events = self.database.rows, self.layout.events
        top = _number(rows(f"SELECT max(rowid) FROM {events}"))  # noqa: S608 - of this program
        if top < state.seen or self._mark_of(state.seen) != state.mark:
            state.seen = 0  # rows were deleted, or the database was rebuilt
        sql = f"SELECT session_id, max(rowid) FROM {events} WHERE rowid > ? GROUP BY session_id ORDER BY 2 DESC"  # noqa: S608
        found = (one for one, _ in rows(sql, state.seen) if type(one) is str and one and one not in state.unwanted)
        # The last written sessions come first, so that a live session does not wait for old ones.
        state.waiting = dict.fromkeys(found, frozenset[str]()) | state.waiting
        mark = self._mark_of(top)
        _require_sound(self.database)
        state.seen, state.mark = top, mark
        for session_id in list(state.waiting):
            if self.ingest.batch.is_full() or self.ingest.stopping:
                return
            self._read_session(session_id, state)
            self.ingest.progress()

    def _mark_of(self, number: int) -> str | None:
        found = self.database.rows(f"SELECT session_id FROM {self.layout.events} WHERE rowid = ?", number)  # noqa: S608
        return self.layout.mark_of(self.database.rows, found[0][0], number) if found else None

    def _read_session(self, session_id: str, state: _DatabaseState) -> None:
        """Read one session until the batch is full.

        It stays in `waiting` if there is more, or if a record is unfinished.
        """
        ingest, rows = self.ingest, self.database.rows
        cursor = self._find_cursor(session_id, state)
        if cursor is None or cursor.identity is None:
            del state.waiting[session_id]
            return
        if cursor.offset and _hash(self.layout.mark_of(rows, session_id, cursor.offset)) != cursor.marker_sha256:
            cursor.offset, cursor.marker_sha256 = 0, ""
        more, held = True, False
        while more and not ingest.batch.is_full():
            counted, meetings = state.passes.pop(session_id, (0, None))
            if meetings is None or counted != cursor.offset:
                counted, meetings = 0, Pass(session_id)
            done, now = state.waiting[session_id], ingest.clock.now().timestamp()
            start = StretchStart(session_id, cursor.offset, done, now, meetings, counted)
            stretch = self.layout.read(rows, cursor.identity, start)
            _require_sound(self.database)
            self._take(cursor, stretch)
            state.passes[session_id] = stretch.position, meetings
            if len(state.passes) > PASSES:
                del state.passes[next(iter(state.passes))]
            more, held = stretch.more, stretch.records.held
            state.waiting[session_id] = frozenset(stretch.done)
            cursor.unfinished = more
        if cursor.session_id is not None:
            (ingest.unread.add if more else ingest.unread.discard)(cursor.session_id)
        if not (more or held):
            del state.waiting[session_id]

    def _take(self, cursor: Cursor, stretch: SessionStretch) -> None:
        """Add the turns that were read to the batch, together with the new position."""
        records = stretch.records
        found = list_turns(cursor, records.found)
        if not found and stretch.position == cursor.offset:
            return
        self.ingest.set_fate(cursor, "appended" if cursor.id is not None else "new")
        cursor.mtime_ns = self.main.mtime_ns
        cursor.records += len(records.found) + records.skipped.total()
        cursor.skipped.update(records.skipped)
        if stretch.mark:
            cursor.offset, cursor.marker_sha256 = stretch.position, _hash(stretch.mark)
            cursor.size = cursor.offset
        self.ingest.take(cursor, CursorReading(found, live=records.live))

    def _find_cursor(self, session_id: str, state: _DatabaseState) -> Cursor | None:
        """Return the cursor of a session; None if no source covers its project."""
        ingest, main = self.ingest, self.main
        name = session_id if _PLAIN.fullmatch(session_id) else _hash(session_id)
        path = f"{main.path}/{ingest.scrubber.name(name)}"
        cursor = ingest.cursors.find(main.agent_id, path)
        if cursor is None:
            # No file has device and inode 0, so this cursor never matches a file.
            cursor = Cursor(main.agent_id, path, 0, 0, mtime_ns=main.mtime_ns, fate_at=ingest.clock.text())
        if cursor.identity is None:
            identity = self.layout.identify(self.database.rows, session_id)
            # The note of an unwanted session must not go to the database's cursor, because other projects share the
            # database.
            if not ingest.is_wanted(self.source, Cursor(main.agent_id, main.path, 0, 0), identity):
                if identity.cwd is not None:
                    state.unwanted.add(session_id)
                return None
            cursor.identity = ingest.without_secrets(identity)
            cursor.format = self.layout.name
            cursor.session_id = cursor.session_id or ingest.session_for(cursor, cursor.identity)
            ingest.cursors.add(cursor)
        return cursor


def _number(rows: list[tuple[object, ...]]) -> int:
    value = rows[0][0] if rows else None
    return value if type(value) is int else 0


def _hash(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _is_database(path: str) -> bool:
    """Return True if a file begins like an SQLite database."""
    try:
        # It must be closed before SQLite opens the file. Closing it later would release SQLite's locks in this process.
        with ranges.Handle(Path(path)) as handle:
            return handle.read(0, len(foreign.MAGIC)) == foreign.MAGIC
    except MemorydError:  # the following reading reports the error
        return False
