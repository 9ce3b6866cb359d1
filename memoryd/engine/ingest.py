"""Ingest: transcripts are looked at, read on, and stored exactly once in effect.

Turns and the cursor that read them move in one transaction, so a kill between any two instructions costs nothing but
reading the last stretch again; and a record whose id is stored already, from this file or a copy of it, is not new.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.database import alarms, sqlite, turns
from memoryd.engine import cursor as reading
from memoryd.engine import store
from memoryd.engine.cursor import Cursor, Found
from memoryd.engine.documents import Documents
from memoryd.engine.store import Batch
from memoryd.errors import MemorydError, NotFoundError
from memoryd.files import ranges, sources
from memoryd.transcripts import registry
from memoryd.transcripts.fate import FATES, Action
from memoryd.transcripts.format import Identity, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

    from memoryd.config import Agent, Settings, TranscriptSource
    from memoryd.engine.clock import Clock
    from memoryd.files.log import Log
    from memoryd.transcripts.format import LineFormat

READ_LIMIT = 8 << 20  # bytes of one transcript before the others have their turn
OPEN_CURSORS = 512
QUIET_SECONDS = 60.0
NOW_PATTERN = ".continuum/memory/NOW-*.md"


@dataclass(frozen=True, slots=True)
class Source:
    """One pattern of one agent."""

    agent: Agent
    pattern: sources.Pattern
    format: str
    project: Path | None


def sources_of(settings: Settings) -> list[Source]:
    """List the patterns of all enabled agents; the agent's NOW files are always among them."""
    found = []
    for agent in settings.agents:
        if not agent.enabled:
            continue
        now_files = sources.pattern(str(agent.workspace / NOW_PATTERN))
        found.append(Source(agent, now_files, "now", None))
        found.extend(_source(agent, source) for source in agent.transcripts)
    return found


def _source(agent: Agent, source: TranscriptSource) -> Source:
    return Source(agent, sources.pattern(str(source.root / source.pattern)), source.format, source.project)


class Ingest:
    """Reads all transcripts of all agents. Used by one thread."""

    def __init__(self, engine: Engine, settings: Settings, clock: Clock, log: Log, files: ranges.OpenFiles) -> None:
        self.engine = engine
        self.clock = clock
        self.log = log
        self.files = files
        self.documents = Documents(self)
        self.batch = Batch()
        self.changed: set[str] = set()  # sessions with new turns since somebody last asked
        self.unread: set[str] = set()  # sessions with a file that has more to read
        self.stopping = False
        self.again: dict[str, float] = {}  # path → when, by the monotonic clock, it wants another look
        self.restored: store.Restore | None = None
        self._by_path: dict[tuple[str, str], Cursor] = {}
        self._by_inode: dict[tuple[str, int, int], Cursor] = {}
        self._open: OrderedDict[int, Cursor] = OrderedDict()
        self._reported: dict[tuple[str, str], str] = {}
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take new settings: agents come and go, patterns change; cursors stay."""
        self.settings = settings
        self.sources = sources_of(settings)
        now = self.clock.text()
        with sqlite.writing(self.engine) as connection:
            for agent in settings.agents:
                connection.exec_driver_sql(
                    "INSERT INTO agent (id, workspace, enabled, paused, seen_at) VALUES (?, ?, ?, 0, ?)"
                    " ON CONFLICT (id) DO UPDATE SET workspace = excluded.workspace, enabled = excluded.enabled",
                    (agent.id, str(agent.workspace), agent.enabled, now),
                )
            for agent in settings.agents:
                if not any(key[0] == agent.id for key in self._by_path):
                    for row in turns.transcripts_of(connection, agent.id):
                        self._index(reading.from_row(row))

    def _index(self, cursor: Cursor) -> None:
        self._by_path[cursor.agent_id, cursor.path] = cursor
        if not cursor.gone:
            self._by_inode[cursor.agent_id, cursor.device, cursor.inode] = cursor

    # --- looking --------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Look at every transcript there is or was: the truth that watcher events only hint at."""
        seen: set[tuple[str, str]] = set()
        for source in self.sources:
            found = sources.walk(source.pattern)
            for path in found.paths:
                if self.stopping:
                    break
                if (source.agent.id, path) not in seen:
                    seen.add((source.agent.id, path))
                    self.look(source, path)
            for link in found.links:
                self._report_link(source, link)
        enabled = {source.agent.id: source for source in self.sources} if not self.stopping else {}
        for (agent_id, path), cursor in list(self._by_path.items()):
            if (agent_id, path) not in seen and agent_id in enabled and not cursor.gone:
                self._look_for(_source_of(enabled[agent_id], cursor), cursor)
        self.flush()

    def hint(self, path: str) -> None:
        """Look at one path a watcher named, where it is or was a transcript."""
        for source in self.sources:
            if source.pattern.matches(path):
                self.look(source, path)
                return
        for source in self.sources:
            cursor = self._by_path.get((source.agent.id, path))
            if cursor is not None:
                self.look(_source_of(source, cursor), path)
                return

    def means(self, path: str) -> bool:
        """Say whether a path is of interest."""
        return any(source.pattern.matches(path) for source in self.sources) or any(
            (agent.id, path) in self._by_path for agent in self.settings.agents
        )

    def look(self, source: Source, path: str) -> None:
        """Look at one path and read what is new in it."""
        try:
            stat = ranges.observe(Path(path))
        except MemorydError as error:
            self._report(source, path, str(error))
            return
        cursor = self._by_path.get((source.agent.id, path))
        if stat is None:
            if cursor is not None and not cursor.gone:
                self._look_for(source, cursor)
            return
        if cursor is not None and _is_as_read(cursor, stat):
            self._look_at_rest(cursor, stat)
            return
        try:
            self._look_closer(source, path, stat, cursor)
            self._take_back_report(source, path)
        except NotFoundError:
            self.look_again(path, 0)  # it went while being opened: the next look tells
        except (MemorydError, OSError) as error:
            self._report(source, path, str(error))
        if self.batch.full():
            self.flush()

    def _look_closer(self, source: Source, path: str, stat: ranges.Stat, cursor: Cursor | None) -> None:
        by_inode = self._by_inode.get((source.agent.id, stat.dev, stat.ino))
        if cursor is not None and not cursor.gone and (cursor.device, cursor.inode) != (stat.dev, stat.ino):
            cursor = self._follow_old(source, cursor, path)
        if cursor is None and by_inode is not None and by_inode.path != path:
            if _still_there(by_inode):
                return  # a second name of a file that is read under its first
            cursor = by_inode
        with self.files.borrow(Path(path)) as handle:
            stat = handle.observe()
            if cursor is None:
                cursor = self._new_cursor(source, path, stat)
            self._read(source, path, stat, cursor, handle)

    def _follow_old(self, source: Source, cursor: Cursor, path: str) -> Cursor | None:
        """The path names another file now. A rotated one keeps its cursor under its new name; else it is drained."""
        moved_to = sources.find_inode(str(Path(path).parent), cursor.device, cursor.inode)
        if moved_to is not None:
            del self._by_path[cursor.agent_id, cursor.path]
            self.look(source, moved_to)
            return None
        self._drain(cursor)
        return cursor

    def look_again(self, path: str, seconds: float) -> None:
        """Ask for another look at a path, some seconds from now."""
        self.again[path] = self.clock.monotonic() + seconds

    def _look_for(self, source: Source, cursor: Cursor) -> None:
        """Outside the patterns or gone: find where the file went, or read its last bytes while it is still open."""
        if _still_there(cursor):
            self.look(source, cursor.path)
            return
        moved_to = sources.find_inode(str(Path(cursor.path).parent), cursor.device, cursor.inode)
        if moved_to is not None and moved_to != cursor.path:
            self.look(source, moved_to)
            if cursor.path == moved_to:
                return
        self._drain(cursor)
        self._by_inode.pop((cursor.agent_id, cursor.device, cursor.inode), None)
        self.set_fate(cursor, "deleted")
        self.files.forget(cursor.device, cursor.inode)

    def _drain(self, cursor: Cursor) -> None:
        with self.files.borrow_known(cursor.device, cursor.inode) as handle:
            if handle is None or cursor.hasher is None or cursor.reader is None:
                return
            size = handle.observe().size
            while size > cursor.offset:
                before = cursor.offset
                self._take(cursor, reading.read_on(cursor, handle, size, READ_LIMIT))
                if cursor.offset == before:
                    return

    def _new_cursor(self, source: Source, path: str, stat: ranges.Stat) -> Cursor:
        cursor = Cursor(source.agent.id, path, stat.dev, stat.ino, fate_at=self.clock.text())
        self._index(cursor)
        return cursor

    def _look_at_rest(self, cursor: Cursor, stat: ranges.Stat) -> None:
        """Nothing changed. A last line without a line end is taken when the file has been left alone."""
        if (
            cursor.offset >= stat.size
            or cursor.note
            or self.clock.now().timestamp() - stat.mtime_ns / 1e9 < QUIET_SECONDS
        ):
            return
        if cursor.reader is None or cursor.hasher is None:
            return
        with contextlib.suppress(MemorydError), self.files.borrow(Path(cursor.path)) as handle:
            reading.take_unended(cursor, handle, stat.size, result := reading.Reading([], []))
            self._take(cursor, result)

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(self, source: Source, path: str, stat: ranges.Stat, cursor: Cursor, handle: ranges.Handle) -> None:
        if self.documents.wants(source, cursor, handle):
            self.documents.read(source, path, cursor, handle, stat)
            return
        what = reading.examine(cursor, path, stat, handle)
        if what.name == "moved-edited":
            self.set_fate(cursor, "deleted")
            self._by_path[cursor.agent_id, cursor.path] = cursor
            cursor = self._new_cursor(source, path, stat)
            what = FATES["new"]
        self.place(cursor, path, stat)
        self.set_fate(cursor, what.name)
        if what.action is Action.READ_AGAIN:
            (reading.start if what.name == "new" else reading.rewind)(cursor)
        if what.action in {Action.READ_AGAIN, Action.READ_ON} and stat.size > cursor.offset:
            if not self._prepare(source, cursor, handle, stat):
                return
            self._keep_open(cursor)
            self._take(cursor, reading.read_on(cursor, handle, stat.size, READ_LIMIT))

    def place(self, cursor: Cursor, path: str, stat: ranges.Stat) -> None:
        """Record where the transcript lies and how it looked."""
        if cursor.path != path:
            if self._by_path.get((cursor.agent_id, cursor.path)) is cursor:
                del self._by_path[cursor.agent_id, cursor.path]
            cursor.path = path
        self._by_inode.pop((cursor.agent_id, cursor.device, cursor.inode), None)
        cursor.device, cursor.inode = stat.dev, stat.ino
        cursor.size, cursor.mtime_ns, cursor.ctime_ns = stat.size, stat.mtime_ns, stat.ctime_ns
        self._by_path[cursor.agent_id, path] = cursor
        self._by_inode[cursor.agent_id, stat.dev, stat.ino] = cursor
        self.batch.cursors[id(cursor)] = cursor

    def set_fate(self, cursor: Cursor, name: str) -> None:
        """Record what became of a transcript."""
        if name != "unchanged":
            if name not in {"appended", "touched"}:
                self.log.info("transcript", fate=name, agent=cursor.agent_id, path=cursor.path)
            cursor.fate, cursor.fate_at = name, self.clock.text()
        self.batch.cursors[id(cursor)] = cursor

    def _keep_open(self, cursor: Cursor) -> None:
        self._open[id(cursor)] = cursor
        self._open.move_to_end(id(cursor))
        while len(self._open) > OPEN_CURSORS:
            # Closed, not forgotten: the next look hashes its prefix again.
            _, closed = self._open.popitem(last=False)
            if closed.id is not None:
                reading.seal(closed)
                closed.hasher, closed.meetings = None, None

    def _prepare(self, source: Source, cursor: Cursor, handle: ranges.Handle, stat: ranges.Stat) -> bool:
        """Know the format and the session before the first turn; False while they cannot be told."""
        if cursor.reader is None or cursor.identity is None:
            records = reading.head_records(handle, stat.size)
            reader = _reader(source.format, records, cursor.path)
            if reader is None or isinstance(reader, Unsupported):
                self._cannot_read(cursor, reader)
                return False
            identity = reader.identify(records, reading.posix(cursor.path))
            if identity is None:
                cursor.note = "whose session this is cannot be told yet"
                return False
            if not self._is_wanted(source, cursor, identity):
                return False
            cursor.reader, cursor.identity, cursor.format, cursor.note = reader, identity, reader.name, None
            cursor.session_id = cursor.session_id or self.session_for(cursor, identity)
        if cursor.meetings is None:
            assert cursor.session_id is not None  # noqa: S101 - set just above
            cursor.meetings = self._meetings(cursor, handle)
        return True

    def _meetings(self, cursor: Cursor, handle: ranges.Handle) -> reading.LazyPass:
        upto, path = cursor.offset, handle.path

        def rebuild() -> Mapping[str, int]:
            if not upto:
                return {}
            with self.files.borrow(path) as again:
                return reading.rebuild_counts(cursor, again, upto)

        return reading.LazyPass(cursor.session_id or "", rebuild)

    def _is_wanted(self, source: Source, cursor: Cursor, identity: Identity) -> bool:
        """Whether the session's recorded folder lies in the source's project."""
        if source.project is None:
            return True
        if identity.cwd is None:
            cursor.note = "the folder it was recorded in is not known yet"
            return False
        if Path(identity.cwd).is_relative_to(source.project):
            return True
        cursor.note = "recorded in another project"
        return False

    def _cannot_read(self, cursor: Cursor, reader: Unsupported | None) -> None:
        note = "its format cannot be told yet" if reader is None else f"{reader.name}: {reader.why}"
        if note != cursor.note:
            cursor.note = note
            self.log.info("transcript not read", agent=cursor.agent_id, path=cursor.path, why=note)

    def take(self, cursor: Cursor, found: list[Found]) -> None:
        """Put turns to what is to be stored."""
        self.batch.found.extend(found)
        self.batch.size += sum(len(one.turn.text) for one in found)
        self.batch.cursors[id(cursor)] = cursor

    def _take(self, cursor: Cursor, result: reading.Reading) -> None:
        self.batch.found.extend(result.found)
        self.batch.bad.extend((cursor, span) for span in result.bad)
        self.batch.size += result.text_bytes
        self.batch.cursors[id(cursor)] = cursor
        if cursor.session_id is not None:
            (self.unread.add if result.more else self.unread.discard)(cursor.session_id)
        if result.more:
            self.look_again(cursor.path, 0)

    # --- reporting ------------------------------------------------------------------------------------------------

    def _report(self, source: Source, path: str, why: str) -> None:
        if self._reported.get((source.agent.id, path)) == why:
            return
        self._reported[source.agent.id, path] = why
        with sqlite.writing(self.engine) as connection:
            alarms.raise_alarm(
                connection, kind="unreadable", text=why, now=self.clock.text(), agent_id=source.agent.id, subject=path
            )
        self.log.warning("transcript cannot be read", agent=source.agent.id, path=path, why=why)

    def _take_back_report(self, source: Source, path: str) -> None:
        if self._reported.pop((source.agent.id, path), None) is not None:
            with sqlite.writing(self.engine) as connection:
                alarms.clear_alarm(
                    connection, kind="unreadable", now=self.clock.text(), agent_id=source.agent.id, subject=path
                )

    def _report_link(self, source: Source, path: str) -> None:
        self._report(source, path, f"{path}: is a symbolic link, which is not followed")

    # --- storing --------------------------------------------------------------------------------------------------

    def session_for(self, cursor: Cursor, identity: Identity) -> str:
        """Find or make the session of a transcript; a copy or a moved file joins the one it is of."""
        return store.session_for(self.engine, self.batch, cursor, identity, self.clock.text())

    def flush(self) -> None:
        """Store everything read so far: turns, cursors and sessions in one transaction."""
        batch, self.batch = self.batch, Batch()
        if not (batch.found or batch.cursors or batch.bad):
            return
        try:
            stored = store.store(self.engine, batch, self.clock.text(), self.restored)
        except BaseException:
            self._lose_place(batch)
            raise
        self.changed.update(stored.sessions)
        if stored.turns or batch.bad:
            self.log.debug("turns stored", turns=stored.turns, read=len(batch.found), bad_spans=len(batch.bad))
        for cursor, span in batch.bad:
            self.log.warning(
                "bytes that are no record",
                agent=cursor.agent_id,
                path=cursor.path,
                first_byte=span.first_byte,
                last_byte=span.last_byte,
                why=span.reason,
            )

    def _lose_place(self, batch: Batch) -> None:
        """The transaction failed: what these cursors consumed is not stored, so they go back to what is."""
        self.documents.forget({cursor.session_id for cursor in batch.cursors.values() if cursor.session_id})
        with sqlite.reading(self.engine) as connection:
            stored = {
                row["id"]: row for agent in self.settings.agents for row in turns.transcripts_of(connection, agent.id)
            }
        for cursor in batch.cursors.values():
            self._by_path.pop((cursor.agent_id, cursor.path), None)
            self._by_inode.pop((cursor.agent_id, cursor.device, cursor.inode), None)
            self._open.pop(id(cursor), None)
            if cursor.id in stored:
                self._index(reading.from_row(stored[cursor.id]))
            self.look_again(cursor.path, 0)


def _source_of(source: Source, cursor: Cursor) -> Source:
    """The source by which a transcript outside all patterns, as after a rotation, is read on."""
    return replace(source, format=cursor.format or "auto", project=None)


def _is_as_read(cursor: Cursor, stat: ranges.Stat) -> bool:
    return (
        not cursor.gone
        and cursor.hasher is not None
        and (cursor.device, cursor.inode, cursor.size, cursor.mtime_ns, cursor.ctime_ns) == tuple(stat)
    )


def _still_there(cursor: Cursor) -> bool:
    try:
        stat = ranges.observe(Path(cursor.path))
    except MemorydError:
        return False
    return stat is not None and (stat.dev, stat.ino) == (cursor.device, cursor.inode)


def _reader(name: str, records: list[dict[str, Any]], path: str) -> LineFormat | Unsupported | None:
    if name == "auto":
        return registry.detect(records, reading.posix(path))
    return registry.by_name(name)
