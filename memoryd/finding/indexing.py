"""Keep the index up to date: files by their state and text, turns by their rows, facts by the audit.

Each step first checks whether anything has changed, which costs almost nothing, and then indexes the changes. It may be
killed at any point, and several processes may run it at once. Changes and progress are written in one transaction, and
their sources are read inside it.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, tzinfo
from typing import Any, NamedTuple

from memoryd.clock import moment_of, utc_now
from memoryd.config import Agent
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader, KeptReader
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.files.log import Log
from memoryd.files.open_folder import FolderEntry, OpenFolder, open_folder
from memoryd.index.database import Index, RebuiltError
from memoryd.index.tables import IndexSource, Progress, Tables
from memoryd.recall import documents
from memoryd.recall.chunks import Chunk, below_headings, split_chunks
from memoryd.recall.documents import IndexDocument, IndexTurn
from memoryd.recall.ranking import FACT, SESSION
from memoryd.scrub.hidden import mask_hidden
from memoryd.text.tags import tags_in
from memoryd.tiers.archive import mask_frame

CORE, DAILY, RECENT, ARCHIVE = "core", "daily", "recent", "archive"
FILES = (CORE, DAILY, RECENT, ARCHIVE)
TIERS = (*FILES, FACT, SESSION)
CORE_FILE = "MEMORY.md"
BATCH = 20_000  # the most turns in one transaction …
BATCH_BYTES = 4_000_000  # … or fewer, if these have more bytes than this in their stored form
MUCH = 1_000_000  # with more bytes than this in one transaction, the merging of segments is put off
SEGMENTS = 8  # the most segments that a search should have to read
AGAIN = 3
_UNSETTLED_NS = 2_000_000_000  # nanoseconds; after a change this recent, another change may have the same file time
_UNSETTLED = "unsettled "
_DAY = re.compile(r"(?:MEMORY-)?(\d{4}-\d\d-\d\d)")
_FRONT_TAGS = re.compile(r"^tags:[ \t]*\[([^\]\n]*)\]|^tags:[ \t]*\n((?:[ \t]*-[ \t]+.*\n)*)", re.MULTILINE)
_TURN = "seq, role, origin, kind, plain(CAST(text AS BLOB), text_crc), at, sidechain"
# An agent's own searches in memory are no knowledge.
_LOOK = "kind = 'tool_call' AND (tool_name LIKE '%memory_search' OR tool_name LIKE '%memory_get')"
_TALK = (
    "kind IN ('message', 'choice', 'summary') AND role IN ('user', 'assistant')"
    " AND origin NOT IN ('tool', 'system', 'injected') AND text <> ''"
)
_TurnRow = tuple[int, str, int, str | None, int]  # the row id, the session, the number, why the text is missing, bytes


class _File(NamedTuple):
    """Hold a file in its form for the index."""

    path: str
    tier: str
    stamp: str
    parts: tuple[tuple[Chunk, bytes], ...]  # each chunk with its key
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Indexer:
    """Keep the index of a state folder up to date."""

    index: Index
    database: KeptReader  # the database may be missing
    zone: tzinfo  # the time zone for the day of a turn
    redact: Callable[[Sequence[str]], list[str]]  # returns texts with their secrets redacted
    log: Log

    def close(self) -> None:
        """Close the index and the database; they are opened again when needed."""
        self.index.close()
        self.database.close()

    def refresh(self, agent: Agent, go_on: Callable[[], bool] = lambda: True) -> None:
        """Index an agent's changes; without changes, this costs a few reads.

        `go_on` is called between portions. If it returns False, the rest is left for the next call.
        """
        for attempt in range(AGAIN):
            try:
                self._files(agent, go_on)
                if self._has_work(agent.id):
                    self._files(agent, go_on)
                    if self.database.path.exists():
                        while go_on() and self._turns(agent.id):
                            pass
                        self._facts(agent.id)
            except RebuiltError:
                if attempt == AGAIN - 1:
                    raise
            else:
                return

    def settle(self, agent: Agent, go_on: Callable[[], bool] = lambda: True) -> None:
        """Merge the segments of a long history step by step, for faster searches; give free space back to the disk."""
        with self.index.begin_read() as tables:
            number = tables.find_number(agent.id)
            is_settled = number is None or tables.segments(number) <= SEGMENTS
            is_tight = is_settled and not tables.is_loose()
        while not is_tight and go_on():
            with self.index.begin_write() as tables:
                is_settled = is_settled or tables.find_number(agent.id) != number or not tables.merge(number or 0)
                is_tight = is_settled and not tables.give_back()

    def _has_work(self, agent_id: str) -> bool:
        """Return True if an agent has rows to index.

        Before that, drop the agent's index if the database is another one, or if too much was removed from the index.
        """
        with self.index.begin_read() as tables, self.database.reading_any() as reader:
            progress = tables.progress(agent_id)
            mark = None if reader is None else _mark(reader, progress.turn_id)
            is_same = not progress.turn_id or mark == progress.turn_mark
            if is_same and not _has_changed(reader, agent_id, progress):
                return False
            if is_same and not tables.is_worn(agent_id):
                return True
        with self.index.begin_write() as tables:
            if tables.progress(agent_id) == progress:
                tables.drop(agent_id)
        return True

    # --- files ----------------------------------------------------------------------------------------------------

    def _files(self, agent: Agent, go_on: Callable[[], bool]) -> None:
        with self.index.begin_read() as tables:
            known = tables.sources(tables.find_number(agent.id), *FILES)
        with ExitStack() as opened:
            found = dict(_list_files(agent, opened))
            gone = known.keys() - found.keys()
            for path, (entry, tier, stamp) in found.items():
                if (path not in known or known[path].stamp != stamp) and go_on():
                    self._file(agent.id, path, entry, tier, known.get(path))
        if gone:
            with self.index.begin_write() as tables:
                number = tables.number(agent.id)
                there = tables.sources(number, *FILES)
                for path in gone & there.keys():
                    tables.remove_source(number, there[path].id)

    def _file(self, agent_id: str, path: str, entry: FolderEntry, tier: str, known: IndexSource | None) -> None:
        """Index the present state of a file; texts that are already indexed stay."""
        file = self._read(path, entry, tier, known)
        for _ in range(AGAIN):
            if file is None:
                return
            with self.index.begin_read() as tables:
                there = tables.sources(tables.find_number(agent_id), tier)
                keys = {one.key for one in tables.list_held(there[path].id)} if path in there else set()
            fresh = list({key: chunk.text for chunk, key in file.parts if key not in keys}.items())
            try:
                shown = dict(zip((key for key, _ in fresh), self.redact([text for _, text in fresh]), strict=True))
            except StateError as error:  # a text could not be scanned for secrets; the next search tries again
                self.log.warning("file not indexed", agent=agent_id, path=path, why=str(error))
                return
            with self.index.begin_write() as tables:
                # The file is checked again, because `forget` may have changed it and erased the index since it was
                # read.
                is_same = _is_as(entry, file.stamp)
                if is_same and self._put(tables, tables.number(agent_id), file, shown):
                    return
            if not is_same:
                file = self._read(path, entry, tier, known)

    def _read(self, path: str, entry: FolderEntry, tier: str, known: IndexSource | None) -> _File | None:
        try:
            # The state is taken before the content, so that a later write is noticed.
            stamp = _stamp(entry.lstat(), settles=True)
            data = mask_hidden(regular.read(entry) or b"")
        except FileNotFoundError:
            return None
        except StateError as error:
            stamp = _stamp(entry.lstat(), settles=False)
            if known is None or known.stamp != stamp:
                self.log.warning("file not indexed", path=path, why=str(error))
            return _File(path, tier, stamp, (), frozenset())
        _, about = _about(entry.name)
        is_own = tier in {RECENT, ARCHIVE}
        found = split_chunks(mask_frame(data) if is_own else data, apart=tier == CORE)
        # memoryd's own headings without a line below them answer nothing.
        says = below_headings if is_own else str
        # Chunks with the same key share one document, wherever they are.
        shown = ((one, "\0".join((one.text, about, *one.heading))) for one in found if says(one.text).strip())
        keyed = tuple((one, documents.digest_of(key)) for one, key in shown)
        return _File(path, tier, stamp, keyed, _front_tags(data))

    def _put(self, tables: Tables, number: int, file: _File, shown: Mapping[bytes, str]) -> bool:
        """Write the documents of a file; return False if a needed text is not in `shown`."""
        source = tables.put_source(number, file.path, file.tier, file.stamp, file.tags)
        held: dict[bytes, list[tuple[int, int, int]]] = {}
        for one in tables.list_held(source):
            held.setdefault(one.key, []).append((one.id, one.first_line, one.last_line))
        moved: list[tuple[int, int, int]] = []
        new: list[tuple[IndexDocument, bytes, str | None]] = []
        day, about = _about(file.path.rpartition("/")[2])
        for chunk, key in file.parts:
            if held.get(key):
                identity, first, last = held[key].pop()
                if (first, last) != (chunk.first_line, chunk.last_line):
                    moved.append((chunk.first_line, chunk.last_line, identity))
            elif key in shown:
                document = documents.of_chunk(chunk, shown[key], about, day)
                new.append((document, key, shown[key] if shown[key] != chunk.text else None))
            else:
                return False
        tables.remove(number, [identity for left in held.values() for identity, _, _ in left])
        tables.move(moved)
        tables.put(number, source, new)
        return True

    # --- turns ----------------------------------------------------------------------------------------------------

    def _turns(self, agent_id: str) -> bool:
        """Index one portion of new turns; return True if there may be more."""
        with self.index.begin_read() as tables, self.database.begin_read() as reader:
            is_done, is_loose = not _turn_work(reader, agent_id, tables.progress(agent_id)), tables.is_loose()
        if is_done:
            if is_loose:  # `settle` does this too, but only the daemon calls it
                with self.index.begin_write() as tables:
                    tables.give_back()
            return False
        with self.index.begin_write() as tables, self.database.begin_read() as reader:
            number = tables.number(agent_id)
            progress = tables.progress(agent_id)
            rows = _new_turns(reader, agent_id, progress)
            tables.expect(number, much=sum(row[4] for row in rows) > MUCH)
            for session_id, (low, high) in _ranges(rows).items():
                self._session(tables, number, reader, session_id, (low, high))
            last = max((row[0] for row in rows if row[0] > progress.turn_id), default=None)
            last = reader.number("SELECT max(id) FROM turn") if last is None else last
            waiting = [row[0] for row in rows if row[3] in ("unscanned", "damaged", "retracted")]
            waiting += [one for one in progress.waiting if one not in {row[0] for row in rows}]
            mark = _mark(reader, last)
            tables.set_progress(agent_id, replace(progress, turn_id=last, turn_mark=mark, waiting=tuple(waiting)))
            return True

    def _session(
        self, tables: Tables, number: int, reader: DatabaseReader, session_id: str, seqs: tuple[int, int]
    ) -> None:
        """Index again a range of a session's turns and their neighbours, because their documents share words."""
        low, high = seqs
        reach = 2 * documents.NEIGHBOURS

        def read(where: str, *values: int) -> list[tuple[Any, ...]]:
            return [*reader.stream(f"SELECT {_TURN} FROM turn WHERE session_id = ? AND {where}", session_id, *values)]  # noqa: S608

        before = read(f"seq < ? AND {_TALK} ORDER BY seq DESC LIMIT ?", low, reach)[::-1]
        between = read(f"seq BETWEEN ? AND ? AND NOT coalesce({_LOOK}, 0) ORDER BY seq", low, high)
        after = read(f"seq > ? AND {_TALK} ORDER BY seq LIMIT ?", high, reach)
        near = {row[0] for row in (*before[-documents.NEIGHBOURS :], *after[: documents.NEIGHBOURS])}
        turns = [self._build_turn(row) for row in (*before, *between, *after)]
        touched = [one for one in documents.of_turns(turns) if low <= one.first_line <= high or one.first_line in near]
        source = tables.put_source(number, f"{SESSION}:{session_id}", SESSION, "")
        spans = [(low, high), *((seq, seq) for seq in near)]
        tables.remove(number, [one.id for span in spans for one in tables.list_held(source, *span)])
        tables.put(number, source, [(one, one.digest, None) for one in touched])
        if not touched and not tables.list_held(source):
            tables.remove_source(number, source)

    def drop_sessions(self, agent_id: str, sessions: Iterable[str]) -> None:
        """Remove sessions and their documents from the index."""
        with self.index.begin_write() as tables:
            number = tables.number(agent_id)
            held = tables.sources(number, SESSION)
            for source in filter(None, (held.get(f"{SESSION}:{one}") for one in sessions)):
                tables.remove_source(number, source.id)

    def _build_turn(self, row: tuple[Any, ...]) -> IndexTurn:
        seq, role, origin, kind, text, at, sidechain = row
        return IndexTurn(seq, role, origin, kind, text, self._day_of(at), bool(sidechain))

    def _day_of(self, at: object) -> date | None:
        try:
            return moment_of(str(at)).astimezone(self.zone).date() if at else None
        except (ValueError, OverflowError):
            return None

    # --- facts ----------------------------------------------------------------------------------------------------

    def _facts(self, agent_id: str) -> None:
        with self.index.begin_read() as tables, self.database.begin_read() as reader:
            if tables.progress(agent_id).audit_mark == _audit_mark(reader, agent_id):
                return
        with self.index.begin_write() as tables, self.database.begin_read() as reader:
            number = tables.number(agent_id)
            known = tables.sources(number, FACT)
            for row in reads.read_live(reader, agent_id, "fact"):
                path = f"{FACT}:{row['id']}"
                stamp = f"{row['updated_at']} {row['content_hash']} {row['category']} {row['tags']}"
                before = known.pop(path, None)
                if before is None or before.stamp != stamp:
                    if before is not None:
                        tables.remove_source(number, before.id)
                    tags = {str(row["category"]).lower(), *tags_in(f"{row['content']}")}
                    source = tables.put_source(number, path, FACT, stamp, tags)
                    day = self._day_of(row["origin_at"] or row["created_at"])
                    fact = documents.of_fact(
                        row["content"], f"fact {row['category']}", None if day is None else day.isoformat()
                    )
                    tables.put(number, source, [(fact, fact.digest, None)])
            for left in known.values():
                tables.remove_source(number, left.id)
            mark = _audit_mark(reader, agent_id)
            tables.set_progress(agent_id, replace(tables.progress(agent_id), audit_mark=mark))

    # --- checks ---------------------------------------------------------------------------------------------------

    def problems(self, agent: Agent) -> list[dict[str, str]]:
        """Return, as problems for `verify`, the sources that are missing in the index or are only there."""
        hint = "delete index.db: memoryd rebuilds it"
        self.refresh(agent)
        if self.index.why_damaged() is not None:
            self.refresh(agent)
        with self.index.begin_read() as tables, self.database.reading_any() as reader, ExitStack() as opened:
            number = tables.find_number(agent.id)
            if number is None:
                return []
            wanted = {path for path, _ in _list_files(agent, opened)}
            if reader is not None:
                wanted |= {f"{FACT}:{row['id']}" for row in reads.read_live(reader, agent.id, "fact")}
                sql = "SELECT DISTINCT session_id FROM turn WHERE agent_id = ? AND text <> '' AND origin <> 'injected'"
                wanted |= {f"{SESSION}:{row[0]}" for row in reader.stream(sql, agent.id)}
            held = tables.sources(number, *TIERS)
            wrong = [(path, "is not in the index") for path in sorted(wanted - held.keys())]
            wrong += [(path, "is in the index, and nowhere else") for path in sorted(held.keys() - wanted)]
        return [{"what": what, "where": path, "hint": hint} for path, what in wrong]

    # --- outdated sources -----------------------------------------------------------------------------------------

    def fix_stale(self, agent_id: str, stale: Iterable[tuple[str, str, int]]) -> None:
        """Prepare sources that a search found outdated, each as (path, tier, first line), to be indexed again."""
        with self.index.begin_write() as tables, self.database.reading_any() as reader:
            number = tables.number(agent_id)
            for path, tier, line in set(stale):
                if tier == SESSION and reader is not None:
                    self._session(tables, number, reader, path.removeprefix(f"{SESSION}:"), (line, line))
                elif tier == FACT:
                    tables.set_progress(agent_id, replace(tables.progress(agent_id), audit_mark=""))
                elif path in (there := tables.sources(number, tier)):
                    tables.remove_source(number, there[path].id)


# --- files ------------------------------------------------------------------------------------------------------------


def _list_files(agent: Agent, opened: ExitStack) -> Iterator[tuple[str, tuple[FolderEntry, str, str]]]:
    """Yield (path, (entry, tier, state)) of the memory files in a workspace, without diaries and backups."""
    try:
        workspace = opened.enter_context(open_folder(agent.workspace))
    except FileNotFoundError:
        return
    yield from _with_stamps("", workspace, {CORE_FILE: CORE})
    daily = _open_below(workspace, opened, "memory")
    if daily is not None:
        names = {name: DAILY for name in daily.names() if name.endswith(".md") and not name.startswith(".")}
        yield from _with_stamps("memory/", daily, names)
    own = _open_below(workspace, opened, ".continuum", "memory")
    if own is not None:
        names = {name: ARCHIVE for name in own.names() if name.startswith("MEMORY") and name.endswith(".md")}
        yield from _with_stamps(".continuum/memory/", own, names | {"RECENT.md": RECENT})


def _open_below(folder: OpenFolder, opened: ExitStack, *names: str) -> OpenFolder | None:
    for name in names:
        try:
            folder = opened.enter_context(folder.folder(name))
        except (FileNotFoundError, StateError):  # a link leads out of the workspace, so it is ignored
            return None
    return folder


def _with_stamps(
    prefix: str, folder: OpenFolder, names: Mapping[str, str]
) -> Iterator[tuple[str, tuple[FolderEntry, str, str]]]:
    for name, tier in names.items():
        entry = folder / name
        try:
            stamp = _stamp(entry.lstat(), settles=False)
        except FileNotFoundError:
            continue
        yield prefix + name, (entry, tier, stamp)


def _stamp(found: os.stat_result, *, settles: bool) -> str:
    """Return a text that describes the state of a file by its status; it differs for two different states."""
    mode, links = found.st_mode, found.st_nlink
    stamp = f"{found.st_dev} {found.st_ino} {mode} {links} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    age = utc_now().timestamp() * 1e9 - max(found.st_ctime_ns, found.st_mtime_ns)
    return _UNSETTLED + stamp if settles and age < _UNSETTLED_NS else stamp


def _is_as(entry: FolderEntry, stamp: str) -> bool:
    """Return True if a file is still in the state `stamp`."""
    try:
        return _stamp(entry.lstat(), settles=False) == stamp.removeprefix(_UNSETTLED)
    except FileNotFoundError:
        return False


def _about(name: str) -> tuple[str | None, str]:
    """Return the day in a file name (YYYY-MM-DD, or None), and words of the name for the index."""
    match = _DAY.match(name)
    try:
        day = date.fromisoformat(match[1]) if match else None
    except ValueError:
        day = None
    return (None, name.removesuffix(".md")) if day is None else (day.isoformat(), documents.day_words(day))


def _front_tags(data: bytes) -> frozenset[str]:
    """Return the tags in the front matter of a file."""
    if not data.startswith(b"---"):
        return frozenset()
    match = _FRONT_TAGS.search(data[3:].partition(b"\n---")[0].decode(errors="replace") + "\n")
    if match is None:
        return frozenset()
    words = match[1].split(",") if match[1] is not None else re.findall(r"-[ \t]+(.*)", match[2])
    return frozenset(word.strip(" \t'\"#").lower() for word in words if word.strip())


# --- rows -------------------------------------------------------------------------------------------------------------


def _has_changed(reader: DatabaseReader | None, agent_id: str, progress: Progress) -> bool:
    """Return True if an agent has turns or facts that are not indexed. Without a database, return True if any are."""
    if reader is None:
        return progress != Progress()
    return _turn_work(reader, agent_id, progress) or progress.audit_mark != _audit_mark(reader, agent_id)


def _turn_work(reader: DatabaseReader, agent_id: str, progress: Progress) -> bool:
    """Return True if an agent has turns to index."""
    newest = reader.number("SELECT max(id) FROM turn")
    return newest != progress.turn_id or bool(_read_waiting(reader, agent_id, progress))


def _mark(reader: DatabaseReader, turn_id: int) -> str:
    row = next(reader.stream("SELECT agent_id, record_id, part FROM turn WHERE id = ?", turn_id), None)
    return "" if row is None else documents.digest_of("\0".join(map(str, row))).hex()


def _read_waiting(reader: DatabaseReader, agent_id: str, progress: Progress) -> list[_TurnRow]:
    """Return indexed turns to index again: those whose missing text has come or never will, and retracted ones."""
    rows = reader.stream(
        "SELECT id, session_id, seq, withheld, octet_length(text) FROM turn"
        " WHERE id IN (SELECT value FROM json_each(?1))"
        " AND (withheld IS NULL OR withheld NOT IN ('unscanned', 'damaged', 'retracted'))"
        " UNION ALL SELECT id, session_id, seq, withheld, 0 FROM turn WHERE withheld = 'retracted' AND agent_id = ?2"
        " AND id <= ?3 AND id NOT IN (SELECT value FROM json_each(?1))",
        f"[{', '.join(map(str, progress.waiting))}]", agent_id, progress.turn_id,
    )  # fmt: skip
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def _new_turns(reader: DatabaseReader, agent_id: str, progress: Progress) -> list[_TurnRow]:
    """Return the next portion of turns to index."""
    found = _read_waiting(reader, agent_id, progress)
    size = 0
    for row in reader.stream(
        # The + keeps SQLite from using the index by agent, with which it would sort all turns for each portion.
        "SELECT id, session_id, seq, withheld, octet_length(text) FROM turn WHERE id > ? AND +agent_id = ?"
        " ORDER BY id LIMIT ?",
        progress.turn_id, agent_id, BATCH,
    ):  # fmt: skip
        found.append((row[0], row[1], row[2], row[3], row[4]))
        size += row[4]
        if size > BATCH_BYTES:
            break
    return found


def _ranges(rows: Iterable[_TurnRow]) -> dict[str, tuple[int, int]]:
    """Return the numbers of the first and the last of these turns, by session."""
    found: dict[str, tuple[int, int]] = {}
    for _, session_id, seq, _, _ in rows:
        low, high = found.get(session_id, (seq, seq))
        found[session_id] = min(low, seq), max(high, seq)
    return found


def _audit_mark(reader: DatabaseReader, agent_id: str) -> str:
    row = next(reader.stream("SELECT hash FROM audit WHERE agent_id = ? ORDER BY id DESC LIMIT 1", agent_id), None)
    return "none" if row is None else str(row[0])
