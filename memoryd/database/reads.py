"""Read for the command line, with plain SQL on a read-only connection. It works with or without a daemon.

SQLAlchemy is not used here, because its import alone takes longer than all of these queries.
"""

from __future__ import annotations

import json
import threading
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from memoryd.database import packing
from memoryd.database.library import as_trouble, connect, file_id, load_library, read_mappings
from memoryd.errors import NotFoundError, StateError
from memoryd.gauge.estimate import estimate
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from sqlmodel import Session

    from memoryd.config import Settings

P = ParamSpec("P")
T = TypeVar("T")
Row = dict[str, Any]
DATABASE = "memoryd.db"


def database_path(settings: Settings) -> Path:
    """Return the path of the state database."""
    return settings.state_dir / DATABASE


class DatabaseReader:
    """Hold one read transaction: all queries in it see the same state."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return all rows of a query as dictionaries."""
        return read_mappings(self._connection.execute(sql, values))

    def stream(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query as tuples, read while the caller iterates."""
        return iter(self._connection.execute(sql, values))

    def row(self, sql: str, *values: object) -> Row | None:
        """Return the first row of a query; None if there is none."""
        return next(iter(self.rows(sql, *values)), None)

    def number(self, sql: str, *values: object) -> int:
        """Return the first column of the first row as a number; 0 if there is no row or the value is NULL."""
        found = self._connection.execute(sql, values).fetchone()
        return int(found[0] or 0) if found else 0

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session that reads rows as objects of the classes in `tables`, in this same transaction.

        It is for `verify` and tests. The import of SQLModel is too slow for other reads.
        """
        from sqlalchemy.pool import StaticPool
        from sqlmodel import Session, create_engine

        engine = create_engine(
            "sqlite://", creator=lambda: self._connection, module=load_library(), poolclass=StaticPool
        )
        # `DatabaseReader` owns the transaction, so the session must not roll it back.
        engine.dialect.do_rollback = lambda dbapi_connection: None  # type: ignore[method-assign] # noqa: ARG005
        with Session(engine, autoflush=False) as session:
            yield session


@cache
def newest_schema() -> int:
    """Return the number of the newest migration that this version knows."""
    folder = resources.files("memoryd.database").joinpath("migrations")
    return max(int(entry.name[:4]) for entry in folder.iterdir() if entry.name.endswith(".sql"))


class NotMadeError(StateError):
    """Report that there is no database, or one of an older schema. The daemon may be about to create or migrate it."""


def open_reader(path: Path) -> AbstractContextManager[DatabaseReader]:
    """Open the database for reading.

    Raises:
        StateError: it cannot be read, or a newer memoryd wrote it.
        NotMadeError: there is no database, or its schema is older than this memoryd.
    """
    return KeptReader(path).begin_read()


def ask(path: Path, question: Callable[Concatenate[DatabaseReader, P], T], *args: P.args, **named: P.kwargs) -> T:
    """Return the result of `question`, called in a read transaction of its own; raises like `open_reader`."""
    with open_reader(path) as reader:
        return question(reader, *args, **named)


def ask_for_list(
    settings: Settings, question: Callable[Concatenate[DatabaseReader, P], list[T]], *args: P.args, **named: P.kwargs
) -> list[T]:
    """Ask one question for a list, as `ask` does. If there is no database yet, the list is empty."""
    path = database_path(settings)
    return ask(path, question, *args, **named) if path.exists() else []


class KeptReader:
    """Open the database for several reads in a row. Safe to use from several threads."""

    def __init__(self, path: Path, *, stays: bool = False) -> None:
        """Store the settings; the first read opens the file.

        Args:
            path: path of the database.
            stays: keep the connection open between reads. An open connection keeps the write-ahead log in place, so
                this is only for a process that also writes the database.
        """
        self.path = path
        self._lock = threading.RLock()
        self._stays = stays
        self._connection: Any = None
        self._file: tuple[int, int] | None = None

    @contextmanager
    def begin_read(self) -> Iterator[DatabaseReader]:
        """Open one read transaction. A thread may have only one open transaction of this object."""
        with self._lock:
            file = file_id(self.path)
            if self._connection is None or self._file != file:  # another file was put in its place
                self.close()
                self._connection, self._file = _connect(self.path), file
            try:
                with _begin_read(self._connection, self.path) as reader:
                    yield reader
            except StateError:
                self.close()
                raise
            finally:
                if not self._stays:
                    self.close()
                elif self._connection is not None and self._connection.in_transaction:
                    self._connection.rollback()

    @contextmanager
    def reading_any(self) -> Iterator[DatabaseReader | None]:
        """Open one read transaction like `begin_read`; yield None if there is no database yet."""
        if not self.path.exists():
            yield None
            return
        with self.begin_read() as reader:
            yield reader

    def close(self) -> None:
        """Close the connection; the next read opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


def _connect(path: Path) -> Any:
    if not path.exists():
        if path.with_name("backups").exists():  # only a database that was there has copies
            raise NotMadeError("the database is gone", str(path), "its copy and journal restore it: memoryd run --once")
        raise NotMadeError("there is no database yet", where=str(path), hint="start the daemon: memoryd run")
    try:
        connection = connect(path, "?mode=ro")
    except load_library().Error as error:
        raise as_trouble(error, "the database cannot be opened", path) from error
    packing.register(connection)
    return connection


@contextmanager
def _begin_read(connection: Any, path: Path) -> Iterator[DatabaseReader]:
    try:
        connection.execute("BEGIN")
        number = connection.execute("PRAGMA user_version").fetchone()[0]
        if number != newest_schema():
            raise (NotMadeError if number < newest_schema() else StateError)(
                f"the database has schema {number}, this memoryd reads {newest_schema()}",
                where=str(path),
                hint="start this version's daemon once" if number < newest_schema() else "use the newer memoryd",
            )
        yield DatabaseReader(connection)
    except load_library().DatabaseError as error:
        raise as_trouble(error, "the database cannot be read; see memoryd verify", path) from error


# --- runs -------------------------------------------------------------------------------------------------------------

_RUN_HIDDEN = ("reply", "refused", "claims", "owner", "fence", "key", "slot", "cancel_requested")


def job_run(reader: DatabaseReader, run_id: str) -> Row:
    """Return one run; a unique beginning of its id is enough.

    Raises:
        NotFoundError: no run, or several runs, have such an id.
    """
    return _shown_run(_get_beginning(reader, "job_run", run_id, "run", "runs", "memoryd job list shows them"))


def _get_beginning(
    reader: DatabaseReader, table: str, begin: str, one: str, several: str, hint: str, agent_id: str | None = None
) -> Row:
    rows = reader.rows(
        f"SELECT * FROM {table} WHERE id >= ?1 AND id <= ?1 || char(1114111) AND (?2 IS NULL OR agent_id = ?2)"  # noqa: S608
        " ORDER BY id <> ?1, id LIMIT 2",
        begin, agent_id,
    )  # fmt: skip
    if not begin or not rows or (len(rows) > 1 and rows[0]["id"] != begin):
        what = f"{begin!r} begins several {several}' ids" if rows else f"there is no {one} {begin!r}"
        raise NotFoundError(what, hint=hint)
    return rows[0]


def read_claims(reader: DatabaseReader, run_id: str) -> list[Row]:
    """Return the outcome of each claim in a run's reply. This is content: only for people who may see it."""
    row = reader.row("SELECT claims FROM job_run WHERE id = ?", run_id)
    return [] if row is None or row["claims"] is None else list(json.loads(row["claims"]))


def read_readers(reader: DatabaseReader) -> dict[tuple[str, str, str], Row]:
    """Return the results of second readers on the calibration set, by (server, model, version)."""
    return {(row["endpoint"], row["model"], row["version"]): row for row in reader.rows("SELECT * FROM reader")}


def runs_over(reader: DatabaseReader, agent_id: str, path: str, kind: str) -> list[Row]:
    """Return the succeeded runs of a kind over the session of a transcript, in the order in which they ended."""
    rows = reader.rows(
        "SELECT r.* FROM job_run r JOIN transcript t ON t.session_id = r.session_id"
        " WHERE t.agent_id = ? AND t.path = ? AND r.kind = ? AND r.state = 'succeeded' ORDER BY r.finished_at, r.id",
        agent_id, path, kind,
    )  # fmt: skip
    return [_shown_run(row) for row in rows]


def read_until(reader: DatabaseReader, agent_id: str, path: str) -> tuple[str, int] | None:
    """Return (session, byte): the session of a transcript, and how far it is read; None if it has no session yet."""
    sql = 'SELECT session_id, "offset" FROM transcript WHERE agent_id = ? AND path = ? AND session_id IS NOT NULL'
    return next(reader.stream(sql, agent_id, path), None)


def job_runs(reader: DatabaseReader, /, *, limit: int = 20, start: int = 0, **wanted: str | None) -> list[Row]:
    """Return the newest runs, newest first. `wanted` may have `agent_id`, `kind` and `state`."""
    agent_id, kind, state = (dict.fromkeys(("agent_id", "kind", "state")) | wanted).values()  # no other name
    rows = reader.rows(
        "SELECT * FROM job_run WHERE (?1 IS NULL OR agent_id = ?1) AND (?2 IS NULL OR kind = ?2)"
        " AND (?3 IS NULL OR state = ?3) ORDER BY created_at DESC, id DESC LIMIT ?4 OFFSET ?5",
        agent_id, kind, state, limit, start,
    )  # fmt: skip
    return [_shown_run(row) for row in rows]


def _shown_run(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if name not in _RUN_HIDDEN}
    text = row["refused"]
    # A refused reply is content, so only its length and hash are shown; `read_claims` is for people who may see
    # content.
    about = None if text is None else {"characters": len(text), "sha256": sha256(text.encode()).hexdigest()}
    return shown | {name: json.loads(row[name]) for name in ("options", "receipt")} | {"refused": about}


# --- sessions ---------------------------------------------------------------------------------------------------------


def list_sessions(reader: DatabaseReader, *, agent_id: str | None = None, limit: int | None = None) -> list[Row]:
    """Return sessions, newest first, each with the path of a transcript and the number of forgotten turns.

    A transcript file may hold other sessions as well.
    """
    which = "WHERE ?1 IS NULL" if agent_id is None else "WHERE s.agent_id = ?1"
    return reader.rows(
        "SELECT s.*, coalesce((SELECT t.path FROM transcript t WHERE t.session_id = s.id ORDER BY t.id LIMIT 1),"  # noqa: S608
        " (SELECT t.path FROM turn u JOIN transcript t ON t.id = u.transcript_id WHERE u.session_id = s.id LIMIT 1))"
        " AS transcript, (SELECT count(*) FROM turn t WHERE t.session_id = s.id AND t.withheld = 'forgotten'"
        f" AND t.text = '') AS forgotten FROM session s {which} ORDER BY s.last_turn_at DESC, s.id LIMIT ?2",
        agent_id, -1 if limit is None else limit,
    )  # fmt: skip


def list_session_ids(reader: DatabaseReader) -> set[str]:
    """Return the ids of all sessions of all agents."""
    return {row["id"] for row in reader.rows("SELECT id FROM session")}


def session_count(reader: DatabaseReader, agent_id: str) -> int:
    """Count the sessions of an agent."""
    return reader.number("SELECT count(*) FROM session WHERE agent_id = ?", agent_id)


_OWN = "FROM session WHERE agent_id = ? AND parent_id IS NULL"  # no subagents


def list_folders(reader: DatabaseReader, agent_id: str) -> list[str]:
    """Return the folders of an agent's sessions, the last used first.

    An empty string stands for sessions without a folder.
    """
    sql = f"SELECT coalesce(folder, '') AS folder {_OWN} GROUP BY 1 ORDER BY max(last_turn_at) DESC"
    return [row["folder"] for row in reader.rows(sql, agent_id)]


def folders_by_session(reader: DatabaseReader, agent_id: str, limit: int) -> dict[str, str]:
    """Return the folder of each of an agent's last sessions, by session id."""
    sql = f"SELECT id, coalesce(folder, '') {_OWN} ORDER BY last_turn_at DESC LIMIT ?"
    return dict(reader.stream(sql, agent_id, limit))


def last_sessions(reader: DatabaseReader, agent_id: str, folders: Sequence[str] | None, limit: int) -> list[Row]:
    """Return an agent's last sessions in these folders (None: in all), newest first.

    Each row has `summary`, and as `mark` the last turn that a sleep has processed.
    """
    sql = (
        "SELECT id, format, folder, branch, last_turn_at,"  # noqa: S608
        " (SELECT summary FROM session_summary WHERE session_id = id)"
        " AS summary, coalesce((SELECT seq FROM watermark WHERE session_id = id AND consumer = 'sleep'), 0) AS mark"
        f" {_OWN} AND (? IS NULL OR coalesce(folder, '') IN (SELECT value FROM json_each(?)))"
        " ORDER BY last_turn_at DESC, id LIMIT ?"
    )
    wanted = None if folders is None else json.dumps(folders)
    return reader.rows(sql, agent_id, wanted, wanted, limit)


def read_messages(reader: DatabaseReader, session_id: str, origin: str, after: int, limit: int) -> list[Row]:
    """Return the last messages of the user or the assistant in a session's main conversation, newest first.

    Only messages after the turn number `after` count. `origin` is `user` or `assistant`.
    """
    return reader.rows(
        "SELECT seq, plain(CAST(text AS BLOB), text_crc) AS text FROM turn WHERE session_id = ? AND seq > ?"
        " AND kind IN ('message', 'choice')"
        " AND sidechain = 0 AND origin = ? AND role = origin AND text <> '' ORDER BY seq DESC LIMIT ?",
        session_id, after, origin, limit,
    )  # fmt: skip


def read_length(reader: DatabaseReader, session_id: str) -> tuple[int, int]:
    """Return (last turn, bytes): the number of a session's last turn, and the stored bytes of its texts.

    If the session changes, one of the two numbers changes.
    """
    sql = "SELECT coalesce(max(seq), 0), coalesce(sum(octet_length(text)), 0) FROM turn WHERE session_id = ?"
    ((last, size),) = reader.stream(sql, session_id)
    return last, size


_TEXT = "plain(CAST(text AS BLOB), text_crc) AS text"
STORED = ", ".join(_TEXT if name == "text" else name for name in StoredTurn._fields)
_STORED_AS: dict[str, Callable[[Any], Any]] = {
    "role": Role, "origin": Origin, "kind": TurnKind, "sidechain": bool, "tokens": lambda tokens: tokens or 0,
}  # fmt: skip


def build_turn(row: Row) -> StoredTurn:
    """Return the turn of a row with the columns in `STORED`."""
    return StoredTurn(
        *(_STORED_AS[name](row[name]) if name in _STORED_AS else row[name] for name in StoredTurn._fields)
    )


def stored_turns(reader: DatabaseReader, session_id: str) -> list[StoredTurn]:
    """Read all turns of a session, in order."""
    rows = reader.rows(f"SELECT {STORED} FROM turn WHERE session_id = ? ORDER BY seq", session_id)  # noqa: S608
    return [build_turn(row) for row in rows]


def list_formats(reader: DatabaseReader, agent_id: str) -> list[str]:
    """Return the names of the transcript formats of an agent's sessions."""
    rows = reader.rows("SELECT DISTINCT format FROM session WHERE agent_id = ? ORDER BY format", agent_id)
    return [str(row["format"]) for row in rows]


def find_session(reader: DatabaseReader, session_id: str, agent_id: str | None = None, what: str = "session") -> Row:
    """Return one session by its id, or by a beginning of its id that no other session has except its own subagents.

    Args:
        reader: a read transaction.
        session_id: the id or its beginning.
        agent_id: search only this agent's sessions; None means all.
        what: the name of the missing thing in the error.

    Raises:
        NotFoundError: no session, or several sessions, have such an id.
    """
    rows = reader.rows(
        "SELECT * FROM session WHERE id >= ?1 AND id <= ?1 || char(1114111)"  # the last Unicode character
        " AND (?2 IS NULL OR agent_id = ?2) ORDER BY id <> ?1, parent_id IS NOT NULL, id LIMIT 2",
        session_id, agent_id,
    )  # fmt: skip
    if not rows:
        lists = "session list" if what == "session" else "session list, memoryd core list and memoryd facts list"
        raise NotFoundError(f"there is no {what} {session_id!r}", hint=f"see memoryd {lists}")
    first, *others = rows
    if first["id"] != session_id and any((one["parent_id"] is None) == (first["parent_id"] is None) for one in others):
        raise NotFoundError(f"{session_id!r} begins several sessions' ids", hint="memoryd session list shows them")
    return first


def read_turns(reader: DatabaseReader, session_id: str, *, after: int = 0, upto: int | None = None) -> list[Row]:
    """Return the turns of a session with a text and with `after` < seq ≤ `upto`, in order."""
    return reader.rows(
        "SELECT seq, role, origin, kind, plain(CAST(text AS BLOB), text_crc) AS text, tokens, at, record_id, part,"
        " sidechain, tool_name"
        " FROM turn WHERE session_id = ? AND seq > ? AND seq <= ? AND text <> '' ORDER BY seq",
        session_id, after, 2**62 if upto is None else upto,
    )  # fmt: skip


def read_compressed(reader: DatabaseReader, session_id: str) -> list[Row]:
    """Return the message list into which a session's last sleep compressed the session.

    Raises:
        NotFoundError: the session has not slept, or the stored messages are damaged.
    """
    sql = "SELECT plain(CAST(messages AS BLOB), NULL) AS messages FROM session_summary WHERE session_id = ?"
    row = reader.row(sql, session_id)
    if row is None or row["messages"] in {"[]", ""}:
        raise NotFoundError("this session has not slept yet, or its messages are damaged", where=session_id)
    listed: list[Row] = json.loads(row["messages"])
    return listed


# --- the ledger -------------------------------------------------------------------------------------------------------

AUDIT = 'id, at, agent_id, actor, run_id, operation, memory_id, "before", "after", prev_hash, hash'


def core_memories(reader: DatabaseReader, agent_id: str) -> list[Row]:
    """Return an agent's live core memories, in the order of the file, each with estimated `tokens`."""
    columns = "id, content, heading, tags, constitutional, importance, origin_at, created_at, note"
    rows = read_live(reader, agent_id, "core", columns)
    rows = [row | {"tags": json.loads(row["tags"]), "tokens": estimate(row["content"])} for row in rows]
    return [row | {"constitutional": bool(row["constitutional"])} for row in rows]


def read_live(reader: DatabaseReader, agent_id: str, kind: str, columns: str = "*", since: str = "") -> list[Row]:
    """Return an agent's live memories of a kind that are newer than `since`, in the order of the file.

    Facts and journal entries have no place in the file, so the oldest comes first.
    """
    return reader.rows(
        f"SELECT {columns} FROM memory WHERE agent_id = ? AND kind = ? AND deleted_at IS NULL AND created_at > ?"  # noqa: S608
        " ORDER BY position IS NULL, position, created_at, id",
        agent_id, kind, since,
    )  # fmt: skip


def profile_rows(reader: DatabaseReader, agent_id: str) -> list[Row]:
    """Return the profile of an agent's user, one row for each section."""
    return reader.rows("SELECT section, text, updated_at FROM profile_section WHERE agent_id = ?", agent_id)


def find_memory(reader: DatabaseReader, agent_id: str, memory_id: str) -> Row:
    """Return one memory of an agent, live or ended; a unique beginning of its id is enough.

    Raises:
        NotFoundError: no memory, or several memories, have such an id.
    """
    hint = "memoryd core list and memoryd facts list show them"
    return _get_beginning(reader, "memory", memory_id, "memory", "memories", hint, agent_id)


def find_fact(reader: DatabaseReader, agent_id: str, fact_id: str) -> Row:
    """Return one live fact of an agent; ids and errors as in `find_memory`."""
    live = "(SELECT * FROM memory WHERE kind = 'fact' AND deleted_at IS NULL)"
    return _get_beginning(reader, live, fact_id, "fact", "facts", "memoryd facts list", agent_id)


def read_history(reader: DatabaseReader, agent_id: str, memory_id: str) -> list[Row]:
    """Return the audited changes of a memory, in order, each with the resulting state; ids as in `find_memory`."""
    rows = reader.rows(
        "SELECT a.id, a.at, a.actor, a.run_id, a.operation, c.text FROM audit a"
        ' LEFT JOIN content c ON c.sha256 = a."after" WHERE a.agent_id = ? AND a.memory_id = ? ORDER BY a.id',
        agent_id, find_memory(reader, agent_id, memory_id)["id"],
    )  # fmt: skip
    told = []
    for row in rows:
        state = json.loads(row.pop("text") or "{}")
        shown = ("content", "heading", "constitutional", "deleted_at", "ended_as", "successors", "note")
        told.append(row | {name: state.get(name) for name in shown})
    return told


def audit_rows(
    reader: DatabaseReader, *, agent_id: str | None = None, run_id: str | None = None, since: str | None = None
) -> list[Row]:
    """Return audit entries, in order, with two more columns: `by` (owner, agent or daemon) and `trigger` of the run.

    `trigger` is None without a run: for an edit of the file, or a request that was answered at once.
    """
    columns = ", ".join(f"a.{name}" for name in AUDIT.split(", "))
    return reader.rows(
        f"SELECT {columns}, CASE coalesce(r.actor, a.actor) WHEN 'human' THEN 'owner'"  # noqa: S608
        " WHEN 'agent' THEN 'agent' WHEN 'agent-tool' THEN 'agent' ELSE 'daemon' END AS \"by\", r.\"trigger\""
        " FROM audit a LEFT JOIN job_run r ON r.id = a.run_id"
        " WHERE (? IS NULL OR a.agent_id = ?) AND (? IS NULL OR a.run_id = ?) AND (? IS NULL OR a.at >= ?)"
        " ORDER BY a.id",
        agent_id, agent_id, run_id, run_id, since, since,
    )  # fmt: skip


def audit_upto(reader: DatabaseReader, audit_id: int, agent_id: str | None) -> tuple[int, str]:
    """Return (audit id, agent): the newest entry of an agent that is not after a given entry.

    Args:
        reader: a read transaction.
        audit_id: the entry that stands for a moment.
        agent_id: the agent; None means the agent of the entry.

    Raises:
        NotFoundError: there is no such entry, or the agent had no entry at that time.
    """
    entry = reader.row("SELECT agent_id FROM audit WHERE id = ?", audit_id)
    if entry is None:
        raise NotFoundError("the audit has no such entry", where=str(audit_id), hint="memoryd audit")
    chosen = str(agent_id or entry["agent_id"])
    found = reader.row("SELECT max(id) AS id FROM audit WHERE agent_id = ? AND id <= ?", chosen, audit_id)
    if found is None or found["id"] is None:
        hint = "memoryd audit --agent lists its entries"
        raise NotFoundError(f"the agent {chosen!r} had no memory yet", where=str(audit_id), hint=hint)
    return int(found["id"]), chosen


def states_of_run(reader: DatabaseReader, run_id: str) -> list[Row]:
    """Return what a run has changed, in order, with the states `before` and `after`.

    A state is None if there was none, or if it was erased.
    """
    return reader.rows(
        'SELECT a.memory_id, a.operation, b.text AS "before", c.text AS "after" FROM audit a'
        ' LEFT JOIN content b ON b.sha256 = a."before" LEFT JOIN content c ON c.sha256 = a."after"'
        " WHERE a.run_id = ? ORDER BY a.id",
        run_id,
    )


def list_unsummarized(reader: DatabaseReader, run_id: str) -> list[str]:
    """Return the watermarks of sleeps that a run has changed, of sessions without a running summary."""
    sql = "SELECT memory_id FROM audit JOIN session_summary ON memory_id = 'watermark:' || session_id || ':sleep'"
    return [row["memory_id"] for row in reader.rows(f"{sql} WHERE audit.run_id = ? AND summary = ''", run_id)]


def list_beside(reader: DatabaseReader, run: Row) -> dict[str, list[str]]:
    """Return the live memories that other runs have added for the session of a run: ids, by run."""
    rows = reader.rows(
        "SELECT r.id, json_group_array(m.id) AS ids FROM job_run r JOIN audit a ON a.run_id = r.id"
        ' JOIN memory m ON m.id = a.memory_id WHERE r.session_id = ? AND r.id <> ? AND a."before" IS NULL'
        " AND m.deleted_at IS NULL GROUP BY r.id",
        run["session_id"], run["id"],
    )  # fmt: skip
    return {row["id"]: json.loads(row["ids"]) for row in rows}


def count_votes(reader: DatabaseReader, agent_id: str, memory_ids: Sequence[str]) -> dict[str, int]:
    """Return the ratings of memories by `feedback`, as good minus bad, by id. Memories without ratings are left out."""
    sql = (
        "SELECT memory_id, sum(CASE operation WHEN 'feedback good' THEN 1 ELSE -1 END) FROM audit"
        " WHERE agent_id = ? AND memory_id IN (SELECT value FROM json_each(?))"
        " AND operation IN ('feedback good', 'feedback bad') GROUP BY memory_id"
    )
    return dict(reader.stream(sql, agent_id, json.dumps(list(memory_ids))))


def core_by_hash(reader: DatabaseReader, agent_id: str, hashes: Sequence[str]) -> dict[str, Row]:
    """Return the live core memories that have one of these text hashes, by hash."""
    rows = reader.rows(
        "SELECT id, content_hash, importance, tags, origin_at, created_at FROM memory WHERE agent_id = ?"
        " AND kind = 'core' AND deleted_at IS NULL AND content_hash IN (SELECT value FROM json_each(?))",
        agent_id, json.dumps(list(hashes)),
    )  # fmt: skip
    return {row["content_hash"]: row for row in rows}


def turn_texts(
    reader: DatabaseReader, agent_id: str, places: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], tuple[str, str]]:
    """Return (text, origin) of an agent's turns, by (session, turn number). Turns without a text are left out."""
    rows = reader.stream(
        "SELECT t.session_id, t.seq, plain(CAST(t.text AS BLOB), t.text_crc), t.origin FROM json_each(?) p"
        " CROSS JOIN turn t ON t.session_id = p.value ->> 0 AND t.seq = p.value ->> 1 WHERE t.agent_id = ?",
        json.dumps(places),
        agent_id,
    )
    return {(session, seq): (str(text), str(origin)) for session, seq, text, origin in rows if text}


def read_agreed_hash(reader: DatabaseReader, agent_id: str) -> str | None:
    """Return the sha256 of `MEMORY.md` when it and the memory store last agreed; None if they never have."""
    row = reader.row("SELECT sha256 FROM core_file WHERE agent_id = ?", agent_id)
    return None if row is None else str(row["sha256"])


# --- status -----------------------------------------------------------------------------------------------------------


def read_daemon(reader: DatabaseReader) -> Row | None:
    """Return the row of the daemon that runs, or that ran last; None if none ever ran."""
    return reader.row("SELECT * FROM daemon")


def read_agents(reader: DatabaseReader) -> dict[str, Row]:
    """Return the rows of all agents, by id."""
    return {row["id"]: row for row in reader.rows("SELECT * FROM agent")}


def last_runs(reader: DatabaseReader, agent_id: str) -> dict[str, Row]:
    """Return an agent's last run of each kind, by kind: the open run, or the one that ended last."""
    # The recursive query reads one row for each kind from the index, because there may be thousands of runs of a kind.
    rows = reader.rows(
        "WITH RECURSIVE k(kind) AS (SELECT min(kind) FROM job_run WHERE agent_id = ?1 UNION ALL SELECT (SELECT"
        " min(kind) FROM job_run WHERE agent_id = ?1 AND kind > k.kind) FROM k WHERE k.kind IS NOT NULL)"
        " SELECT k.kind, r.id AS run, r.state, r.why, r.finished_at,"
        " coalesce(r.finished_at, r.started_at, r.created_at) AS at"
        " FROM k JOIN job_run r ON r.agent_id = ?1 AND r.kind = k.kind AND (r.finished_at IS NULL OR"
        " r.finished_at = (SELECT max(finished_at) FROM job_run WHERE agent_id = ?1 AND kind = k.kind))"
        " ORDER BY at",
        agent_id,
    )
    return {row["kind"]: {name: row[name] for name in ("run", "state", "why", "finished_at")} for row in rows}


def count_unsure(reader: DatabaseReader, agent_id: str) -> int:
    """Return how many lines of daily files the last dream skipped because their author is unknown."""
    return reader.number(
        "SELECT json_extract(receipt, '$.dream.unsure') FROM job_run WHERE agent_id = ? AND kind = 'dream'"
        " AND json_extract(receipt, '$.dream.unsure') IS NOT NULL ORDER BY finished_at DESC LIMIT 1",
        agent_id,
    )


def list_proposals(reader: DatabaseReader, agent_id: str) -> list[Row]:
    """Return an agent's proposals that wait for an answer, oldest first."""
    return reader.rows(
        "SELECT id AS run, kind, finished_at AS since, json_extract(receipt, '$.proposal.path') AS path FROM job_run"
        " WHERE agent_id = ? AND state = 'proposed' ORDER BY finished_at, id",
        agent_id,
    )


def held_jobs(reader: DatabaseReader, agent_id: str) -> list[Row]:
    """Return the kinds of jobs that are held for an agent, each with mode, time and reason."""
    return reader.rows("SELECT kind, mode, since, why FROM job_mode WHERE agent_id = ? ORDER BY kind", agent_id)


def core_counts(reader: DatabaseReader, agent_id: str) -> Row:
    """Return `count` and estimated `tokens` of an agent's live core memories."""
    tokens = [estimate(row["content"]) for row in read_live(reader, agent_id, "core", "content")]
    return {"count": len(tokens), "tokens": sum(tokens)}


def list_alarms(reader: DatabaseReader) -> list[Row]:
    """Return the open alarms, oldest first."""
    return reader.rows(
        "SELECT kind, nullif(agent_id, '') AS agent, subject, since, text FROM alarm"
        " WHERE cleared_at IS NULL ORDER BY +id"  # the plus makes SQLite use the index of open alarms
    )


def transcript_counts(reader: DatabaseReader, agent_id: str) -> Mapping[str, int]:
    """Return the numbers of an agent's `transcripts`, of those `not_read`, and of `bad_spans`, which are no records."""
    return reader.row(
        "SELECT count(*) AS transcripts, coalesce(sum(note IS NOT NULL), 0) AS not_read,"
        " (SELECT count(*) FROM bad_span b JOIN transcript t ON t.id = b.transcript_id WHERE t.agent_id = ?)"
        " AS bad_spans"
        " FROM transcript WHERE agent_id = ?",
        agent_id, agent_id,
    ) or {}  # fmt: skip


def count_unread(reader: DatabaseReader, agent_id: str) -> dict[str, int]:
    """Return how many of an agent's transcripts are not read, by reason, the most frequent reason first."""
    which = "agent_id = ? AND note IS NOT NULL GROUP BY note ORDER BY count(*) DESC, note"
    return dict(reader.stream(f"SELECT note, count(*) FROM transcript WHERE {which}", agent_id))  # noqa: S608


def passed_over(reader: DatabaseReader, agent_id: str, prefix: str) -> dict[str, int]:
    """Return how often records in an agent's transcripts were skipped, by name without `prefix`.

    Only names that begin with `prefix` count.
    """
    rows = reader.rows(
        "SELECT one.key AS name, sum(one.value) AS n FROM transcript t, json_each(t.skipped) one"
        " WHERE t.agent_id = ? AND substr(one.key, 1, length(?)) = ? GROUP BY one.key ORDER BY one.key",
        agent_id, prefix, prefix,
    )  # fmt: skip
    return {row["name"].removeprefix(prefix): row["n"] for row in rows}


def count_history(reader: DatabaseReader, agent_id: str, idle_end: timedelta, now: str) -> tuple[int, int]:
    """Return (unwritten, all) numbers of an agent's sessions that had already ended when memoryd first saw them.

    An unwritten session has turns that no sleep has processed.
    """
    row = reader.row(
        "SELECT coalesce(sum(s.last_seq > coalesce(w.seq, 0)), 0) AS unwritten, count(*) AS every FROM session s"
        " LEFT JOIN watermark w ON w.session_id = s.id AND w.consumer = 'sleep'"
        " WHERE s.agent_id = ? AND s.parent_id IS NULL AND s.last_seq > 0 AND s.seen_at <= ?"
        " AND julianday(s.last_turn_at) <= julianday(s.seen_at) - ? / 86400.0",
        agent_id, now, idle_end.total_seconds(),
    )  # fmt: skip
    return (row["unwritten"], row["every"]) if row else (0, 0)


def count_spent(reader: DatabaseReader, day: str) -> int:
    """Return the tokens of a day (YYYY-MM-DD in the configured zone): spent, and reserved for calls under way."""
    return reader.number("SELECT sum(coalesce(tokens_in + tokens_out, reserved)) FROM spend WHERE day = ?", day)
