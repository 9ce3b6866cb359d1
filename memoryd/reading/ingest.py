"""Read transcripts: check them, read new bytes, and store each record once, without its secrets.

While one batch is scanned for secrets, the next one is read. Turns and cursor are stored in one transaction, so after a
crash only the last part is read again. A record whose id is already stored is not new, even if it comes from another
file.
"""

import json
import math
import os
import traceback
from collections import ChainMap, Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from memoryd.agent_choice import is_nearer_to_another
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import query, sqlite
from memoryd.errors import MemorydError, NotFoundError, StateError, describe, is_disk_trouble
from memoryd.files import ranges, sources, trust
from memoryd.files.log import Log
from memoryd.reading import cursor as reading
from memoryd.reading import drift, store, unreadable_paths
from memoryd.reading.backlog import Backlog, WaitingTranscript
from memoryd.reading.cursor import Cursor, FoundTurn
from memoryd.reading.cursors import Cursors
from memoryd.reading.databases import Databases
from memoryd.reading.documents import PRIVATE, Documents
from memoryd.reading.foreign_database import observe_with_log
from memoryd.reading.scrubbing import Scrubber, UnscannedError
from memoryd.reading.sources import SourcePattern, sources_of
from memoryd.reading.store import FLUSH_BYTES, IngestBatch
from memoryd.reading.unreadable_paths import UnreadablePaths
from memoryd.reading.unscanned_turns import UnscannedTurns
from memoryd.text.private import is_private
from memoryd.transcripts import now_file, registry
from memoryd.transcripts.fate import READ_AGAIN
from memoryd.transcripts.format import UNHEARD, Identity, LineFormat, Unsupported
from memoryd.transcripts.lines import clean
from memoryd.transcripts.messages import Messages
from memoryd.worker.client import ClosedError

LONGEST_PATH = 4096
_LINES = (".jsonl", ".json", ".md")  # files with these endings are not databases
READ_LIMIT = 1 << 19  # bytes of one transcript, after which a more recently changed transcript comes first
QUIET_SECONDS = 60.0
POISON_SECONDS = 600.0
HELD_SECONDS = 90.0  # pause after a failed scan; longer than the patience of `daemon/once.py`, so that no command waits
CLOCK_TICK_SECONDS = 0.05  # older kernels have coarser file times than this machine's clock
QUIET_FATES = frozenset({"appended", "touched", "unfinished"})
_KNOW = (
    "INSERT INTO agent (id, workspace, enabled, paused, seen_at) VALUES (?, ?, ?, 0, ?)"
    " ON CONFLICT (id) DO UPDATE SET workspace = excluded.workspace, enabled = excluded.enabled"
)


class _Pause(NamedTuple):
    """Hold how long a transcript is skipped because it cannot be stored, or because its ids cannot be scanned."""

    until: float  # monotonic time
    seconds: float
    stat: ranges.Stat | None = None  # if given, the pause ends when the file changes


class Ingest:
    """Read all transcripts of all agents. Only one thread may use an object."""

    def __init__(
        self, engine: Engine, settings: Settings, clock: Clock, log: Log, files: ranges.OpenFiles, scrubber: Scrubber
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.log = log
        self.files = files
        self.scrubber = scrubber
        self.documents = Documents(self)
        self.databases = Databases(self)
        self.cursors = Cursors()
        self.unreadable = UnreadablePaths(engine, clock, log, scrubber)
        self.unscanned = UnscannedTurns(self)
        self.batch = IngestBatch()
        self._frozen: IngestBatch | None = None  # the batch that is complete, but not scanned yet
        self.changed: set[str] = set()  # sessions with new turns; the caller takes them from here
        self.unread: set[str] = set()  # sessions with a transcript that is not read to its end
        self.backlog = Backlog()
        self.stopping = False
        self.again: dict[str, float] = {}  # path → monotonic time of its next check
        self.restored: store.Restore | None = None
        self._stale = False
        self._looking: set[tuple[str, str]] = set()
        # Called after each check of a file, and after each part of a scan for secrets.
        self.progress: Callable[[], None] = lambda: None
        self._pauses: dict[tuple[str, str], _Pause] = {}  # by (agent, path)
        sqlite.read(engine, self.unreadable.load)
        self.configure(settings)
        self._stale = False  # nothing is cached yet

    def configure(self, settings: Settings) -> None:
        """Apply new settings: replace agents and patterns, and keep the cursors."""
        if self.scrubber.configure(settings):
            self.forget()  # documents compare lines in redacted form, and the policy has changed
        self.settings = settings
        self.sources = sources_of(settings)
        now = self.clock.text()
        with sqlite.begin_write(self.engine) as connection:
            for agent in settings.agents:
                query.run(connection, _KNOW, agent.id, str(agent.workspace), agent.enabled, now)
                self.cursors.load(connection, agent.id)
        self.databases.forget()
        for cursor in self.cursors.all():
            if cursor.note is not None:
                cursor.unfinished = True  # the new settings may want what the old ones did not

    def forget_documents(self, session_ids: set[str]) -> None:
        """Forget the state of the documents and databases of these sessions, so that they are read again."""
        self.documents.forget(session_ids)
        self.databases.forget(session_ids)

    def forget(self) -> None:
        """Drop cached cursors and sessions, so that the next check reloads them. Any thread may call this."""
        self._stale = True

    def _remember(self) -> None:
        """Reload the cursors that may have changed in the database."""
        self.cursors.find_again(self.engine)
        if self._stale:
            self._stale = False
            self._pauses.clear()
            # Results that are not stored yet refer to the old ids, so they are dropped and read again.
            self._lose_rest()
            self._lose_place(IngestBatch(cursors={id(cursor): cursor for cursor in self.cursors.all()}))
            self.cursors.find_again(self.engine)

    # --- looking --------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Check all transcripts and read what is new. This finds every change; events of the watcher are only hints."""
        self.find()
        self.read_waiting()

    def find(self) -> None:
        """Find all transcripts and put them into the backlog for `read_waiting`."""
        self._remember()
        self.backlog.clear()
        seen: set[tuple[str, str]] = set()
        refused: set[tuple[str, str]] = set()
        for source in self.sources:
            found = sources.walk(source.pattern)
            printable = [path for path in found.paths if unreadable_paths.make_printable(path) == path]
            self.scrubber.names({*printable, *(Path(path).stem for path in printable)}, self.progress)  # all at once
            for path in found.paths:
                if (source.agent.id, path) not in seen:
                    seen.add((source.agent.id, path))
                    self.wait(source, path)
            for path, why in found.refused:
                refused.add((source.agent.id, path))
                self.unreadable.report(source.agent.id, path, f"{path}: {why}")
        if not self.stopping:
            self._look_at_missing(seen)
            self.unreadable.review(seen | refused)

    def read_waiting(self, seconds: float = math.inf, since: float = -math.inf) -> None:
        """Read waiting transcripts for about `seconds`, the last written first. Store the results when none is left.

        Transcripts that have not changed since `since` (seconds since 1970) are left in the backlog.
        """
        until = self.clock.monotonic() + seconds
        while not self.stopping and (waiting := self.backlog.pop(since)) is not None:
            self.look(*waiting)
            if self.backlog and self.clock.monotonic() >= until:
                return
        self.flush()
        if not self.stopping:
            self.unscanned.retry()

    def wait(self, source: SourcePattern, path: str) -> None:
        """Add a transcript to the backlog, ordered by its last change."""
        try:
            stat = ranges.observe(Path(path))
            if stat is not None and source.format in {"auto", *registry.DATABASES} and not path.endswith(_LINES):
                stat = observe_with_log(Path(path), stat)
        except MemorydError:
            stat = None  # the reading will report the error
        self.backlog.add(source, path, *((stat.mtime_ns, stat.size) if stat else (0, 0)))

    def list_unread(self) -> dict[WaitingTranscript, int]:
        """Return the waiting transcripts that are not read to their end, with the number of unread bytes."""
        found = {}
        for waiting in self.backlog:
            cursor = self.cursors.find(waiting.agent_id, waiting.path)
            if left := waiting.size - (0 if cursor is None else cursor.offset):
                found[waiting] = max(0, left)
        return found

    def _look_at_missing(self, seen: set[tuple[str, str]]) -> None:
        """Check the known transcripts that match no pattern now: they were rotated, moved or deleted."""
        for cursor in self.cursors.all():
            if (cursor.agent_id, cursor.path) not in seen and not (cursor.is_gone or cursor.is_part):
                source = self._source_of(cursor, cursor.path)
                if source is not None:
                    self.look(source, cursor.path)

    def hint(self, path: str) -> None:
        """Check a path that the watcher reported, for each agent to which it belongs or belonged."""
        self._remember()
        path = self.databases.find_main(path)
        for source in self._sources_of(path):
            self.look(source, path)

    def means(self, path: str) -> bool:
        """Return True if a path may be a transcript."""
        return bool(self._sources_of(path) or self._sources_of(self.databases.find_main(path)))

    def _sources_of(self, path: str) -> list[SourcePattern]:
        """Return one source for each agent to which a path belongs, by a pattern or by an existing cursor."""
        found: dict[str, SourcePattern] = {}
        for source in self.sources:
            if source.pattern.matches(path):
                found.setdefault(source.agent.id, source)
        for agent_id in dict.fromkeys(source.agent.id for source in self.sources):
            cursor = None if agent_id in found else self.cursors.find(agent_id, path)
            follower = None if cursor is None else self._source_of(cursor, path)
            if follower is not None:
                found[agent_id] = follower
        return list(found.values())

    def _claims(self, agent_id: str, path: str) -> list[SourcePattern]:
        """Return the agent's sources that match a path, or else those that cover its folder.

        A rotated file matches no pattern, but its folder is still covered.
        """
        own = [source for source in self.sources if source.agent.id == agent_id]
        return [source for source in own if source.pattern.matches(path)] or [
            source for source in own if source.format != now_file.NAME and source.pattern.covers(path)
        ]

    def _source_of(self, cursor: Cursor, path: str) -> SourcePattern | None:
        """Return the source for a known transcript at a path, which may be new; None if it must not be read there."""
        source = next(iter(self._claims(cursor.agent_id, path)), None)
        if source is None or source.pattern.matches(path):
            return source
        if self.documents.is_one(cursor):
            return None  # a copy of a document is a backup
        project = source.project if cursor.session_id is None else None  # a session was already accepted
        return replace(source, format=cursor.format or source.format, project=project)

    def look(self, source: SourcePattern, path: str) -> None:
        """Check one path and read its new bytes. Errors of the transcript are reported, not raised."""
        key = source.agent.id, path
        if key in self._looking:
            return  # two files have exchanged names, so this check is already under way
        self._looking.add(key)
        try:
            self._look(source, path)
        except NotFoundError:
            self.look_again(path, 0)  # the file disappeared while it was opened: the next check records that
        except ClosedError:
            raise  # the process is ending
        except (MemorydError, OSError) as error:
            self.unreadable.report(source.agent.id, path, describe(error))
        except Exception as error:
            if _is_trouble(error):
                raise
            self._give_up(source.agent.id, path, error)
        finally:
            self._looking.discard(key)
        if self.batch.is_full():
            self.pass_on()
        self.progress()

    def _give_up(self, agent_id: str, path: str, error: Exception) -> None:
        """Report an unexpected error in a transcript and skip it, so that other transcripts are still read."""
        cursor = self.cursors.find(agent_id, path)
        if cursor is not None:
            cursor.meetings = None  # it may have counted lines whose turns were not taken
        self.unreadable.report(agent_id, path, f"{path}: cannot be read: {_place(error)}")

    def _has_good_name(self, source: SourcePattern, path: str) -> bool:
        """Return False if the name cannot be scanned now.

        Raises:
            StateError: a transcript with this name is not read.
        """
        if unreadable_paths.make_printable(path) != path:
            raise StateError("its name is not text", unreadable_paths.make_printable(path), "rename it")
        if (name := self.scrubber.names([path])[path]) is None:
            self.look_again(path, HELD_SECONDS)
            self.unreadable.report_waiting(source.agent.id, path)
            return False
        if name != path:
            raise StateError("its name holds a secret, so it is not read", path, "rename it")
        return True

    def _look(self, source: SourcePattern, path: str) -> None:
        if not self._has_good_name(source, path) or self.databases.is_beside(path):
            return
        stat = ranges.observe(Path(path))
        cursor = self.cursors.find(source.agent.id, path)
        pause = self._pauses.get((source.agent.id, path))
        if pause is not None and self.clock.monotonic() < pause.until and pause.stat in {None, stat}:
            return
        if stat is None:
            self.unreadable.take_back(source.agent.id, path)
            if cursor is not None and not cursor.is_gone:
                self._look_for(source, cursor)
        elif self.databases.is_one(source, cursor, path):
            _require_trusted(source, path, is_new=cursor is None or cursor.is_gone)
            if self.databases.look(source, path, cursor, stat):
                self.unreadable.take_back(source.agent.id, path)
        elif cursor is None or self._is_unread(cursor, path, stat):
            _require_trusted(source, path, is_new=cursor is None or cursor.is_gone)
            self._look_closer(source, path)
            self.unreadable.take_back(source.agent.id, path)

    def _is_unread(self, cursor: Cursor, path: str, stat: ranges.Stat) -> bool:
        seen = self.documents.observe_all(cursor, path, stat)
        return not cursor.is_as_read(seen) or self._has_rested(cursor, stat)

    def _look_closer(self, source: SourcePattern, path: str) -> None:
        with self.files.borrow(Path(path)) as handle:
            cursor = self.cursors.find(source.agent.id, path)
            if cursor is not None and not cursor.is_gone and (cursor.device, cursor.inode) != (handle.dev, handle.ino):
                cursor = self._part(source, cursor, handle)
            stat = handle.observe()
            known = self.cursors.of_file(source.agent.id, stat)
            if known is not None and known is not cursor and known.path != path:
                if _still_there(known):
                    self._leave(source, cursor)
                    return  # it is another name of a file that is read under its first name
                if known.offset and reading.is_same(known, handle):
                    self._leave(source, cursor)
                    cursor = known
            if cursor is None:
                is_named_after = known is not None and Path(path).name.startswith(Path(known.path).stem)
                if not (source.pattern.matches(path) or is_named_after):
                    return  # an unrelated file has the inode of an old transcript
                cursor = Cursor(source.agent.id, path, stat.dev, stat.ino, fate_at=self.clock.text())
            self._read(source, path, stat, cursor, handle)

    def _part(self, source: SourcePattern, cursor: Cursor, handle: ranges.Handle) -> Cursor | None:
        """Decide which file keeps the cursor when a path has a new file; return the cursor of the path, or None.

        If the new file begins with the bytes that were read, or is a document, it is the transcript, and the old file
        is a backup. Otherwise the old file was rotated: it keeps its cursor and is read to its end, under its new name
        if it has one.
        """
        path = cursor.path
        rewritten = self.documents.is_one(cursor) or (cursor.offset and reading.is_same(cursor, handle))
        if not rewritten:
            self._follow(cursor)
        left = self.cursors.find(cursor.agent_id, path)
        if left is cursor:
            self._drain(source, cursor)
        return left

    def _leave(self, source: SourcePattern, cursor: Cursor | None) -> None:
        """Read the rest of the old file of a path, and mark it as deleted, because the path has another file."""
        if cursor is not None and not cursor.is_gone:
            self._drain(source, cursor)
            self.set_fate(cursor, "deleted")

    def look_again(self, path: str, seconds: float) -> None:
        """Schedule another check of a path in `seconds`."""
        self.again[path] = self.clock.monotonic() + seconds

    def _look_for(self, source: SourcePattern, cursor: Cursor) -> None:
        """Handle a missing file: find its new path, or else read its last bytes if it is still open."""
        path = cursor.path
        self._follow(cursor)
        if cursor.path == path:
            self._drain(source, cursor, last=True)
            self.set_fate(cursor, "deleted")
            self.files.forget(cursor.device, cursor.inode)

    def _follow(self, cursor: Cursor) -> None:
        """Check a missing file at its new path, if it was renamed within its folder."""
        moved_to = sources.find_inode(str(Path(cursor.path).parent), cursor.device, cursor.inode)
        source = None if moved_to is None else self._source_of(cursor, moved_to)
        if moved_to is not None and source is not None:
            self.look(source, moved_to)

    def _drain(self, source: SourcePattern, cursor: Cursor, *, last: bool = False) -> None:
        """Read what was appended to a file before it was removed, if the file is still open here."""
        with self.files.borrow_known(cursor.device, cursor.inode) as handle:
            if handle is None or self.documents.is_one(cursor):
                return
            if not cursor.offset and str(handle.path) != cursor.path:
                return  # nothing proves that this is the transcript: its inode may be reused
            size = handle.observe().size
            if size <= cursor.offset or not reading.is_same(cursor, handle):
                return
            if self._prepare(source, cursor, handle, size):
                cursor.unfinished = True
                cursor.size = size  # `verify` compares it with the offset, and the file cannot be checked later
                while cursor.unfinished:
                    self._read_on(cursor, handle, size)
                if last:
                    self._collect_reading(cursor, partial(reading.take_unended, cursor, handle, size))

    def _has_rested(self, cursor: Cursor, stat: ranges.Stat) -> bool:
        """Return True if a file has been quiet for a while and was not checked again since."""
        if cursor.rested or self.clock.now().timestamp() - stat.mtime_ns / 1e9 < QUIET_SECONDS:
            return False
        return cursor.since_verified > 0 or cursor.offset < stat.size

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(self, source: SourcePattern, path: str, stat: ranges.Stat, cursor: Cursor, handle: ranges.Handle) -> None:
        if self.documents.wants(source, cursor, path, handle):
            self.documents.read(source, path, cursor, handle, stat)
            return
        rested = self.clock.now().timestamp() - stat.mtime_ns / 1e9 >= QUIET_SECONDS
        cursor.doubtful = cursor.doubtful or (rested and not cursor.rested and cursor.since_verified > 0)
        fate = reading.examine(cursor, path, stat, handle)
        if fate in READ_AGAIN and fate != "new":
            self.flush()  # stored rows must keep the generation in which they were read
        self.place(cursor, path, stat, same=fate == "unchanged")
        self.set_fate(cursor, fate)
        if fate in READ_AGAIN:
            cursor.generation += fate != "new"  # the file was replaced or rewritten
            reading.start(cursor)
        if stat.size > cursor.offset and self._prepare(source, cursor, handle, stat.size):
            self._read_on(cursor, handle, stat.size)
            if cursor.unfinished:
                self.backlog.add(source, path, stat.mtime_ns, stat.size)
            if rested and not cursor.unfinished:
                self._collect_reading(cursor, partial(reading.take_unended, cursor, handle, stat.size))
                if fate == "new":
                    cursor.meetings = None  # saves memory during an import; rebuilt if the file grows
        elif stat.size == cursor.offset:
            cursor.unfinished = False  # it was read to its end, perhaps by an earlier process
        cursor.rested = rested

    def _read_on(self, cursor: Cursor, handle: ranges.Handle, size: int) -> None:
        self._collect_reading(cursor, partial(reading.read_on, cursor, handle, size, READ_LIMIT))
        self.cursors.keep_open(cursor)
        if cursor.session_id is not None:
            (self.unread.add if cursor.unfinished else self.unread.discard)(cursor.session_id)

    def _collect_reading(self, cursor: Cursor, read: Callable[[reading.CursorReading], None]) -> None:
        """Add the results of a reading to the batch, even if the reading fails on the way."""
        result = reading.CursorReading()
        try:
            read(result)
        finally:
            try:
                self.take(cursor, result)
            except BaseException:  # the cursor is ahead of the stored turns: reset it, and drop later turns
                self.batch.cursors[id(cursor)] = cursor
                self._lose_rest()
                self.look_again(cursor.path, QUIET_SECONDS)  # an immediate retry would probably fail as well
                raise

    def place(self, cursor: Cursor, path: str, stat: ranges.Stat, *, same: bool = False) -> None:
        """Record where a transcript is, and its size and times. With `same`, the row need not be stored."""
        self.cursors.place(cursor, path, stat)
        cursor.doubtful = abs(self.clock.now().timestamp() - stat.ctime_ns / 1e9) < CLOCK_TICK_SECONDS
        if not same:
            self.batch.cursors[id(cursor)] = cursor

    def set_fate(self, cursor: Cursor, name: str) -> None:
        """Record the fate of a transcript, such as `appended`, and log unusual ones."""
        if name == "unchanged":
            return
        if name not in QUIET_FATES:
            self.log.info("transcript", fate=name, agent=cursor.agent_id, path=cursor.path)
        cursor.fate, cursor.fate_at = name, self.clock.text()
        self.batch.cursors[id(cursor)] = cursor

    def _prepare(self, source: SourcePattern, cursor: Cursor, handle: ranges.Handle, size: int) -> bool:
        """Find format and session of a transcript; return False if they are unknown, or if it must not be read."""
        if cursor.reader is None or cursor.identity is None:
            before, cursor.note = cursor.note, None
            told = self._tell(source, cursor, handle, size, reading.HEAD_READ)
            if not told and cursor.note is None and size > reading.HEAD_READ:
                told = self._tell(source, cursor, handle, size, reading.HEAD_READ_MAX)
            if not told:
                cursor.unfinished = False
                cursor.note = cursor.note or drift.NOT_KNOWN
                self.batch.cursors[id(cursor)] = cursor
                if cursor.note != before:
                    self.log.info("transcript not read", agent=cursor.agent_id, path=cursor.path, why=cursor.note)
                return False
        if cursor.meetings is None:
            cursor.meetings = reading.Meetings(cursor.session_id or "", cursor.offset)
        return True

    def _tell(self, source: SourcePattern, cursor: Cursor, handle: ranges.Handle, size: int, limit: int) -> bool:
        head = reading.head_records(handle, size, limit)
        first = handle.read(0, registry.HEAD_BYTES)
        if is_private("", first):
            self.pass_over(cursor, PRIVATE)
            return False
        reader = _reader(source.format, head, cursor, first)
        if reader is None:
            return False
        if isinstance(reader, Unsupported):
            self.pass_over(cursor, f"{reader.name}: {reader.why}")
            return False
        identity = reader.identify(head.whole + head.salvaged, PurePosixPath(cursor.path))
        if identity is not None and identity.cwd is None:
            identity = identity._replace(cwd=self._read_root(source, reader, cursor.path))
        if identity is None or not self.is_wanted(source, cursor, identity):
            return False
        identity = self.without_secrets(identity)
        cursor.reader, cursor.identity, cursor.format = reader, identity, reader.name
        if not reader.many_sessions:
            cursor.session_id = cursor.session_id or self.session_for(cursor, identity)
        return True

    def _read_root(self, source: SourcePattern, reader: LineFormat, path: str) -> str | None:
        """Return the project folder that a file beside a transcript names; None if there is none.

        Lists of messages never name a folder; they belong to the project of their source.
        """
        if isinstance(reader, Messages):
            return None if source.project is None else str(source.project)
        root_file = reader.root_file(PurePosixPath(path))
        if root_file is None:
            return None
        try:
            with self.files.borrow(Path(root_file)) as handle:
                return handle.read(0, LONGEST_PATH).decode("utf-8", "replace").strip() or None
        except (MemorydError, OSError):
            return None

    def without_secrets(self, identity: Identity) -> Identity:
        """Return the identity of a session with secrets in its ids and path redacted."""
        session, parent, cwd = identity.session_id, identity.parent_session_id, identity.cwd and clean(identity.cwd)
        self.scrubber.names({session, parent or session, cwd or session})  # all at once
        return identity._replace(
            session_id=self.scrubber.name(session),
            parent_session_id=parent and self.scrubber.name(parent),
            cwd=cwd and self.scrubber.redact_path(cwd),
        )

    def is_wanted(self, source: SourcePattern, cursor: Cursor, identity: Identity) -> bool:
        """Return True if a source that matches the file wants the session.

        It does if it has no project, or if the session's recorded folder is in its project and no other agent is
        closer.
        """
        projects = {source.project, *(other.project for other in self._claims(cursor.agent_id, cursor.path))}
        if None in projects:
            return True
        if identity.cwd is None:
            return False
        folders = _both_forms(identity.cwd)
        wanted = [form for project in projects if project is not None for form in _both_forms(str(project))]
        within = any(folder.is_relative_to(project) for folder in folders for project in wanted)
        if within and not is_nearer_to_another(self.settings, source.agent, identity.cwd):
            return True
        self.pass_over(cursor, "recorded in another project")
        return False

    def pass_over(self, cursor: Cursor, why: str) -> None:
        """Note why a transcript is skipped and log it once, so that a person who misses a session finds the reason."""
        if cursor.note != why:
            self.log.info("transcript not read", agent=cursor.agent_id, path=cursor.path, why=why)
        cursor.note = why

    def take(self, cursor: Cursor, result: reading.CursorReading) -> None:
        """Add the results of a reading to the batch."""
        self.batch.found.extend(self._with_sessions(cursor, result.found))
        own = cursor.agent_id, cursor.session_id or ""
        self.batch.live |= {(*own, name): is_live for name, is_live in result.live.items()}
        self.batch.bad.extend((cursor, span) for span in result.bad)
        self.batch.size += sum(len(one.turn.text) for one in result.found)
        self.batch.cursors[id(cursor)] = cursor
        if self.batch.size > FLUSH_BYTES // 2 * (1 + len(self.batch.scans)):
            self.batch.scan(self.scrubber)  # before the batch is complete

    def _with_sessions(self, cursor: Cursor, found: list[FoundTurn]) -> list[FoundTurn]:
        """Return the turns with their sessions, for a file that holds many sessions. The cursor gets the last one.

        Such a file records only when a session began. So the messages of the last session get the time of the file.
        """
        if cursor.reader is None or not cursor.reader.many_sessions:
            return found
        known: dict[Identity | None, str] = {}
        owners = [owner for owner in dict.fromkeys(one.owner or cursor.identity for one in found) if owner is not None]
        self.scrubber.names(owner.session_id for owner in owners)  # all at once
        for owner in owners:
            known[owner] = cursor.session_id = self.session_for(cursor, self.without_secrets(owner))
        last = found[-1].owner if found and not cursor.unfinished else None
        return [
            one._replace(
                session_id=known[one.owner or cursor.identity],
                turn=one.turn._replace(at=None) if one.owner == last else one.turn,
            )
            for one in found
        ]

    # --- storing --------------------------------------------------------------------------------------------------

    def session_for(self, cursor: Cursor, identity: Identity) -> str:
        """Return the id of a transcript's session, and create the session if needed.

        A copied or moved file joins its original.
        """
        waiting = [batch for batch in (self._frozen, self.batch) if batch is not None]
        return store.session_for(self.engine, waiting, cursor, identity, self.clock.text())

    def flush(self) -> None:
        """Scan and store everything that was read so far."""
        self.pass_on()
        self.finish()

    def pass_on(self) -> None:
        """Begin to scan the current batch in the background, and store the previous one."""
        batch, self.batch = self.batch, IngestBatch()
        self.finish(batch)

    def finish(self, following: IngestBatch | None = None) -> None:
        """Store the batch that is being scanned, if there is one.

        Before that, begin the scan of the following batch.
        """
        frozen, self._frozen = self._frozen, None
        try:
            if following is not None and not following.is_empty():
                following.freeze()
                following.scan(self.scrubber)
                self._frozen = following
            if frozen is not None:
                self._store_scanned(frozen, self._await_scan(frozen))
        except BaseException:  # reset the cursors of both batches, and those that have advanced since
            for batch in filter(None, (frozen, following)):
                self._lose_place(batch)
            self._lose_rest()
            raise

    def _lose_rest(self) -> None:
        """Drop the turns of batches that are not being stored, and reset their cursors."""
        lost = self._frozen, self.batch
        self.batch, self._frozen = IngestBatch(), None
        for batch in filter(None, lost):
            self._lose_place(batch)

    def _await_scan(self, batch: IngestBatch) -> set[str]:
        """Wait for the scans of a batch and put the results into it; return the ids that could not be scanned."""
        results = [scan.result(self.progress) for scan in batch.scans]
        names = dict(ChainMap(*(names for _, names in results)))
        batch.take_scanned([one for texts, _ in results for one in texts], names)
        unscanned = {name for name, kept in names.items() if kept is None}
        return unscanned and unscanned & batch.names()  # a skipped record of such a name is only counted as `other`

    def _store_scanned(self, batch: IngestBatch, unscanned: set[str]) -> None:
        """Store a batch in one transaction; if that fails, store its transcripts one by one."""
        try:
            if unscanned:
                raise UnscannedError("ids could not be scanned for secrets")  # noqa: TRY301 - `_store_apart` finds them
            self._store(batch)
        except Exception as error:
            if _is_trouble(error):
                raise
            # Turns that were read later may depend on turns that cannot be stored.
            self._lose_rest()
            if self._stale:
                self._lose_place(batch)  # the session ids have changed
                return
            self._store_apart(batch, unscanned)
        self.unscanned.note(batch)

    def _store_apart(self, batch: IngestBatch, unscanned: set[str]) -> None:
        """Store the transcripts of a batch one by one, and report those that cannot be stored."""
        for part in store.split_batch(batch):
            if unscanned and unscanned.intersection(part.names()):
                batch.sessions.update(part.sessions)
                self._hold(part)
                continue
            try:
                self._store(part)
            except Exception as error:
                if _is_trouble(error):
                    raise
                self._lose_place(part)
                batch.sessions.update(part.sessions)
                for cursor in part.cursors.values():
                    self.again.pop(cursor.path, None)
                    key = cursor.agent_id, cursor.path
                    stat = ranges.Stat(cursor.device, cursor.inode, cursor.size, cursor.mtime_ns, cursor.ctime_ns)
                    self._pauses[key] = _Pause(self.clock.monotonic() + POISON_SECONDS, POISON_SECONDS, stat)
                    self.unreadable.report(*key, f"{cursor.path}: cannot be stored: {_place(error)}")

    def _hold(self, batch: IngestBatch) -> None:
        """Schedule transcripts to be read again later, because an id that was not scanned must not be stored."""
        self._lose_place(batch)
        for cursor in batch.cursors.values():
            key = cursor.agent_id, cursor.path
            before = self._pauses.get(key)
            # A pause with a `stat` has another cause: the file could not be stored.
            wait = min(2 * before.seconds, POISON_SECONDS) if before and before.stat is None else HELD_SECONDS
            self._pauses[key] = _Pause(self.clock.monotonic() + wait, wait)
            self.look_again(cursor.path, wait)
            self.unreadable.report_waiting(*key)

    def _store(self, batch: IngestBatch) -> None:
        stored = store.store(self.engine, batch, self.clock.text(), self.restored)
        self.changed.update(stored.sessions)
        if stored.resumed:
            self.unscanned.expect()
        for cursor in batch.cursors.values():
            self._pauses.pop((cursor.agent_id, cursor.path), None)
            self.unreadable.stop_waiting(cursor.agent_id, cursor.path)
        if stored.turns or stored.bad:
            self.log.debug("turns stored", turns=stored.turns, read=len(batch.found), bad_spans=len(stored.bad))
        first_of = {id(cursor): (cursor, span) for cursor, span in reversed(stored.bad)}
        count_of = Counter(id(cursor) for cursor, _ in stored.bad)
        for cursor, span in first_of.values():
            self.log.warning(
                "bytes that are not a record", agent=cursor.agent_id, path=cursor.path, first_byte=span.first_byte,
                last_byte=span.last_byte, why=span.reason, places=count_of[id(cursor)],
            )  # fmt: skip
        self._tell_unheard(batch)

    def _tell_unheard(self, batch: IngestBatch) -> None:
        """Log once for each transcript that messages of unknown roles, or parts of unknown types, are skipped."""
        for key, cursor in batch.cursors.items():
            skipped = json.loads(batch.rows[key]["skipped"])
            roles = {name: count for name, count in skipped.items() if name.startswith(UNHEARD)}
            if roles and not cursor.unheard:
                self.log.warning("messages passed over", agent=cursor.agent_id, path=cursor.path, roles=roles)
                cursor.unheard = True

    def _lose_place(self, batch: IngestBatch) -> None:
        """Reset the cursors of a batch to their stored state after a failed transaction."""
        self.documents.forget({cursor.session_id for cursor in batch.cursors.values() if cursor.session_id})
        self.databases.forget()
        self.cursors.lose(batch.cursors.values())
        for cursor in batch.cursors.values():
            self.look_again(cursor.path, 0)


def _require_trusted(source: SourcePattern, path: str, *, is_new: bool) -> None:
    with suppress(FileNotFoundError):  # if it disappeared, the reading records that
        trust.require_source(Path(path), source.pattern.root, source.agent.folder, source.agent.owners)
        if is_new:  # a session that was read from its start on stays the user's, even if git tracks it later
            trust.require_untracked(Path(path), source.agent.folder)


def _is_trouble(error: BaseException) -> bool:
    """Return True if the machine or the database is at fault, not the transcript."""
    return isinstance(error, OperationalError) or is_disk_trouble(error)


def _place(error: BaseException) -> str:
    """Return the error's type and place in the code. Its message is left out, because it may quote the transcript."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return " ".join([type(error).__name__, *(f"at {Path(frame.filename).name}:{frame.lineno}" for frame in last)])


def _both_forms(folder: str) -> set[Path]:
    """Return a folder as written and with links resolved, because programs record either form."""
    folder = clean(folder)
    forms = {Path(os.path.normpath(folder))}
    return forms | {Path(os.path.realpath(folder))} if Path(folder).is_absolute() else forms


def _still_there(cursor: Cursor) -> bool:
    try:
        stat = ranges.observe(Path(cursor.path))
    except MemorydError:
        return False
    return stat is not None and (stat.dev, stat.ino) == (cursor.device, cursor.inode)


def _reader(name: str, head: reading.Head, cursor: Cursor, begin: bytes) -> LineFormat | Unsupported | None:
    path = PurePosixPath(cursor.path)
    if name != "auto":
        return registry.find_side_file(path) or registry.find_foreign_schema(name, begin) or registry.by_name(name)
    reader = registry.detect(head.whole, path, begin)
    if reader is None and (reader := registry.detect(head.salvaged, path)) and reader.name != cursor.format:
        # A damaged record of another format can look like a generic message.
        return None if reader.name == Messages.name else reader
    return reader
