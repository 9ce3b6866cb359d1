"""List every column that may hold session text, with the kind of its text, and read its rows in portions.

`scrub --again` and `forget` use this to scan everything that is stored. A kept copy of the database may have an older
schema, so missing columns are skipped.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.database import packing, query, sqlite
from memoryd.database.library import load_library
from memoryd.errors import StateError, describe
from memoryd.ledger.memory import hash_of

PORTION = 200  # rows of one transaction


class ColumnKind(StrEnum):
    """Name the kinds of text in a column."""

    TEXT = "text"
    JSON = "json"  # JSON with texts
    NAME = "name"  # an id or a similar distinguishing value
    NAMES = "names"  # JSON with names
    OURS = "ours"  # words of memoryd itself, or values of the configuration
    SESSION = "session"  # the id of a session, from any table


def _kinds(**names: str) -> dict[str, ColumnKind]:
    return {name: ColumnKind(kind) for kind, listed in names.items() for name in listed.split()}


_PACKED = {("turn", "text"), ("session_summary", "messages"), ("session_summary", "earlier")}
COLUMNS: Mapping[str, Mapping[str, ColumnKind]] = {
    "agent": _kinds(ours="id workspace seen_at"),
    "session": _kinds(
        session="id", name="native_id parent_id model branch", names="gauge", text="folder",
        ours="agent_id format state seen_at started_at last_turn_at ended_at slept_at facts_look",
    ),
    "transcript": _kinds(
        session="session_id", names="skipped", text="path note",
        ours="agent_id format version head_sha256 marker_sha256 prefix_sha256 fate fate_at",
    ),
    "turn": _kinds(
        session="session_id", name="record_id tool_call_id tool_name", text="text",
        ours="agent_id record_key role origin kind at withheld",  # `record_id` is computed from this key
    ),
    "forgotten_text": _kinds(session="session_id", ours="text_key agent_id"),
    "bad_span": _kinds(ours="sha256 reason seen_at"),
    "vault_size": _kinds(),
    "watermark": _kinds(session="session_id", ours="consumer moved_at run_id"),
    "session_summary": _kinds(
        session="session_id", text="summary", json="messages earlier", ours="updated_at run_id told"
    ),
    "memory": _kinds(
        names="sources", text="content category heading note", json="tags derived_from",
        ours="id agent_id kind content_hash origin_at created_at updated_at deleted_at ended_as successors salt",
    ),
    "audit": _kinds(ours="at agent_id actor run_id operation memory_id before after prev_hash hash"),
    "content": _kinds(json="text", ours="sha256"),
    "profile_section": _kinds(names="sources", text="text", ours="agent_id section updated_at run_id salt"),
    "grant": _kinds(
        text="purpose person scope", ours="id agent_id requested_at decided_at expires_at state reported_at"
    ),
    "core_file": _kinds(ours="agent_id sha256 agreed_at"),
    "job_run": _kinds(
        session="session_id key", text="why error refused", json="options receipt reply claims",
        ours="id kind agent_id actor trigger state slot created_at scheduled_for started_at heartbeat_at "
        "finished_at owner input_hash",
    ),
    "reader": _kinds(ours="endpoint model version tested_at"),
    "verdict": _kinds(ours="agent_id key verdict read_at"),
    "spend": _kinds(ours="run_id agent_id endpoint day at how"),
    # A run with an intent is completed before a scan. The plan contains whole files, including text that a person has
    # written. If the plan cannot be completed, a person must decide.
    "intent": _kinds(ours="run_id agent_id made_at plan"),
    "alarm": _kinds(text="subject text", ours="kind agent_id since cleared_at told"),
    "job_mode": _kinds(ours="agent_id kind mode since why"),
    "changed_row": _kinds(ours="name pk"),
    "daemon": _kinds(text="watching_note", ours="owner version started_at watching"),
}  # fmt: skip
_LOOKED_AT = frozenset({ColumnKind.TEXT, ColumnKind.JSON, ColumnKind.NAME, ColumnKind.NAMES})


def read_portions(engine: Engine, table: str, agent_id: str | None) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table in portions, with `rowid` and the columns that must be scanned.

    If the table has an agent or session column, only rows of the agent `agent_id` are read; None means all agents.
    """
    last = -1
    while True:
        with sqlite.begin_read(engine) as connection:
            own = "" if agent_id is None else _own(list_columns(connection, table))
            found = _read(connection, table, f"rowid > ?{own}", (last, agent_id) if own else (last,))
        if not found:
            return
        last = found[-1]["rowid"]
        yield found


def _own(there: set[str]) -> str:
    if "agent_id" in there:
        return " AND agent_id IN (?, '')"
    return " AND session_id IN (SELECT id FROM session WHERE agent_id = ?)" if "session_id" in there else ""


def read_rows(engine: Engine, table: str, rowids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the columns that must be scanned of these rows; rows that no longer exist are left out."""
    return sqlite.read(engine, _read, table, "rowid IN (SELECT value FROM json_each(?))", (list(rowids),))


def _read(connection: Connection, table: str, which: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    there = list_columns(connection, table)
    wanted = [name for name, kind in COLUMNS[table].items() if kind in _LOOKED_AT and name in there]
    if not wanted:
        return []
    quoted = ", ".join(f'{_express_column(table, name, there)} AS "{name}"' for name in wanted)
    sql = f'SELECT rowid AS rowid, {quoted} FROM "{table}" WHERE {which} ORDER BY rowid LIMIT {PORTION}'  # noqa: S608
    return query.fetch_mappings(connection, sql, *values)


def _express_column(table: str, name: str, there: set[str]) -> str:
    """Return the SQL expression for the plain content of a column that may be compressed."""
    if (table, name) not in _PACKED:
        return f'"{name}"'
    crc = "text_crc" if "text_crc" in there else "NULL"
    return f'plain(CAST("{name}" AS BLOB), {crc})'


def list_columns(connection: Connection, table: str) -> set[str]:
    """Return the names of a table's columns, including computed ones; empty if there is no such table."""
    return {row[1] for row in query.fetch_rows(connection, f'PRAGMA table_xinfo("{table}")')}  # the computed as well


def change(connection: Connection, table: str, row: Mapping[str, Any], new: Mapping[str, Any], now: str) -> bool:
    """Replace values of a row; return False, without a change, if another writer has changed these values.

    Args:
        connection: a write transaction.
        table: name of the table.
        row: the row as it was read, with its `rowid`.
        new: the new values, by column.
        now: UTC, ISO 8601.
    """
    values, there = dict(new), list_columns(connection, table)
    if table == "alarm" and "subject" in new:
        # Two open alarms may differ only in a redacted secret. Only one of them may stay open.
        sql = (
            "UPDATE alarm SET cleared_at = ? WHERE rowid = ? AND cleared_at IS NULL AND EXISTS (SELECT 1 FROM alarm o"
            " WHERE o.rowid <> alarm.rowid AND o.cleared_at IS NULL AND o.kind = alarm.kind"
            " AND o.agent_id = alarm.agent_id AND o.subject = ?)"
        )
        query.run(connection, sql, now, row["rowid"], new["subject"])
    if table == "content":
        values["text"] = None  # a state must match its digest, so a changed state is erased
    if table == "turn" and "text" in new:
        values["tokens"] = None  # must be counted again
        values |= {"text_crc": packing.compute_crc(new["text"])} if "text_crc" in there else {}
    if table == "turn" and "record_id" in new and "record_key" in there:
        values["record_key"] = packing.pack_id(values.pop("record_id"))
    if table == "memory" and "content" in new:
        values["content_hash"] = hash_of(new["content"])
    sets = ", ".join(f'"{name}" = ?' for name in values)
    same = " AND ".join(f"{_express_column(table, name, there)} IS ?" for name in new)
    sql = f'UPDATE "{table}" SET {sets} WHERE rowid = ? AND {same}'  # noqa: S608
    return query.change_one(connection, sql, *values.values(), row["rowid"], *(row[name] for name in new))


def session_ids(engine: Engine, agents: Sequence[str] | None) -> list[str]:
    """List the ids of the sessions of these agents; None means all agents."""
    sql = "SELECT id FROM session WHERE ?1 IS NULL OR agent_id IN (SELECT value FROM json_each(?1))"
    return sqlite.read(engine, query.fetch_column, sql, None if agents is None else tuple(agents))


def list_intents(engine: Engine) -> list[str]:
    """List the ids of the runs that have an intent."""
    if "intent" not in list_tables(engine):
        return []
    return sqlite.read(engine, query.fetch_column, "SELECT run_id FROM intent ORDER BY run_id")


def rename_session(engine: Engine, old: str, new: str) -> None:
    """Rename a session in all tables, in one transaction."""
    with sqlite.begin_write(engine) as connection:
        query.run(connection, "PRAGMA defer_foreign_keys = ON")
        for table, kinds in COLUMNS.items():
            there = list_columns(connection, table)
            for name in (name for name, kind in kinds.items() if kind is ColumnKind.SESSION and name in there):
                if name == "key":
                    sql = 'UPDATE job_run SET "key" = replace("key", ?1, ?2) WHERE instr("key", ?1)'
                else:
                    sql = f'UPDATE "{table}" SET "{name}" = ?2 WHERE "{name}" = ?1'  # noqa: S608
                query.run(connection, sql, old, new)


def rewrite_file(engine: Engine) -> None:
    """Rewrite the database file, so that no free page and no log contains deleted text.

    Raises:
        StateError: the disk is full or failing, or another program uses the database.
    """
    try:
        with closing(engine.raw_connection()) as raw, closing(raw.cursor()) as cursor:
            cursor.execute("VACUUM")
            busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except load_library().OperationalError as error:
        # SQLite's message says whether the disk is full, the disk fails, or the database is in use.
        hint = "it takes as much room again as the file, and a moment without others"
        raise StateError(f"cannot be rewritten: {describe(error)}", str(engine.url.database), hint) from error
    if busy:  # the cause has SQLite's words for a lock, so callers treat it as temporary
        locked = load_library().OperationalError("database is locked")
        hint = "another program reads it: close that, or wait"
        raise StateError("its log cannot be emptied", str(engine.url.database), hint) from locked


def list_tables(engine: Engine) -> Sequence[str]:
    """List the tables of `COLUMNS` that exist in this database."""
    there = sqlite.read(engine, query.fetch_column, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for name in COLUMNS if name in there]
