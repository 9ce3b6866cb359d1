"""List every column that may hold session text, with the kind of its text, and read its rows in portions.

This serves scans of everything that is stored: a later rule about texts is applied to the rows as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.database import packing, query, sqlite
from memoryd.database.library import load_library
from memoryd.errors import StateError, describe
from memoryd.ledger.memory import hash_of

PORTION = 200  # rows


class ColumnKind(StrEnum):
    """Name the kinds of text that a column holds."""

    TEXT = "text"
    JSON = "json"  # of texts
    NAME = "name"  # an id or a similar value that distinguishes things
    NAMES = "names"  # JSON of names, one a line
    SESSION = "session"  # the id of a session, in any table


def _kinds(**names: str) -> dict[str, ColumnKind]:
    return {name: ColumnKind(kind) for kind, listed in names.items() for name in listed.split()}


# The content of the columns that may be compressed.
_PACKED = {
    ("turn", "text"): "plain(CAST(text AS BLOB), text_crc)",
    ("session_summary", "messages"): "plain(CAST(messages AS BLOB), NULL)",
    ("session_summary", "earlier"): "plain(CAST(earlier AS BLOB), NULL)",
}
# All other columns of text are written by memoryd in its own words, or taken from the configuration. Rows of `intent`
# belong to a run whose files are being written: it is completed first. A plan holds whole files, with anything that a
# person has written there; a plan that cannot be completed is for a person.
COLUMNS: Mapping[str, Mapping[str, ColumnKind]] = {
    "session": _kinds(session="id", name="native_id parent_id model branch", names="gauge", text="folder"),
    "transcript": _kinds(session="session_id", names="skipped", text="path note"),
    "turn": _kinds(session="session_id", name="record_id tool_call_id tool_name", text="text"),
    "forgotten_text": _kinds(session="session_id"),
    "watermark": _kinds(session="session_id"),
    "session_summary": _kinds(session="session_id", text="summary", json="messages earlier"),
    "memory": _kinds(names="sources", text="content category heading note", json="tags derived_from"),
    "content": _kinds(json="text"),
    "profile_section": _kinds(names="sources", text="text"),
    "grant": _kinds(text="purpose person scope"),
    "job_run": _kinds(session="session_id key", text="why error refused", json="options receipt reply claims"),
    "alarm": _kinds(text="subject text"),
    "daemon": _kinds(text="watching_note"),
}


def read_portions(engine: Engine, table: str, agent_id: str | None) -> Iterator[list[dict[str, Any]]]:
    """Read the columns of a table that must be scanned, each row with its `rowid`, in portions.

    If the table names the agent of a row, only that agent's rows are read.
    """
    last = -1
    while True:
        with sqlite.begin_read(engine) as connection:
            own = "" if agent_id is None else _own(connection, table)
            found = _read(connection, table, f"rowid > ?{own}", (last, agent_id) if own else (last,))
        if not found:
            return
        last = found[-1]["rowid"]
        yield found


def _own(connection: Connection, table: str) -> str:
    there = query.fetch_column(connection, f"SELECT name FROM pragma_table_info('{table}')")  # noqa: S608
    if "agent_id" in there:
        return " AND agent_id IN (?, '')"
    return " AND session_id IN (SELECT id FROM session WHERE agent_id = ?)" if "session_id" in there else ""


def read_rows(engine: Engine, table: str, rowids: Sequence[int]) -> list[dict[str, Any]]:
    """Read the columns of a table that must be scanned, for these rows if they still exist."""
    return sqlite.read(engine, _read, table, "rowid IN (SELECT value FROM json_each(?))", (list(rowids),))


def _read(connection: Connection, table: str, which: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    wanted = [name for name, kind in COLUMNS[table].items() if kind is not ColumnKind.SESSION]
    if not wanted:
        return []
    quoted = ", ".join(f'{_express_column(table, name)} AS "{name}"' for name in wanted)
    sql = f'SELECT rowid AS rowid, {quoted} FROM "{table}" WHERE {which} ORDER BY rowid LIMIT {PORTION}'  # noqa: S608
    return [dict(row) for row in query.fetch_mappings(connection, sql, *values)]


def _express_column(table: str, name: str) -> str:
    return _PACKED.get((table, name), f'"{name}"')


def change(connection: Connection, table: str, row: Mapping[str, Any], new: Mapping[str, Any], now: str) -> bool:
    """Replace values of a row; return False, and change nothing, if others changed it meanwhile."""
    values = dict(new)
    if table == "alarm" and "subject" in new:
        # Without the secret that distinguished two of them they are one, and only one of them may be open.
        query.run(
            connection,
            "UPDATE alarm SET cleared_at = ? WHERE rowid = ? AND cleared_at IS NULL AND EXISTS (SELECT 1 FROM alarm o"
            " WHERE o.rowid <> alarm.rowid AND o.cleared_at IS NULL AND o.kind = alarm.kind"
            " AND o.agent_id = alarm.agent_id AND o.subject = ?)",
            now,
            row["rowid"],
            new["subject"],
        )
    if table == "content":
        values["text"] = None  # a state must match its digest, or have no text
    if table == "turn" and "text" in new:
        values["tokens"] = None  # counted again
        values["text_crc"] = packing.compute_crc(new["text"])
    if table == "turn" and "record_id" in new:
        values["record_key"] = packing.pack_id(values.pop("record_id"))
    if table == "memory" and "content" in new:
        values["content_hash"] = hash_of(new["content"])
    sets = ", ".join(f'"{name}" = ?' for name in values)
    same = " AND ".join(f"{_express_column(table, name)} IS ?" for name in new)
    sql = f'UPDATE "{table}" SET {sets} WHERE rowid = ? AND {same}'  # noqa: S608
    return query.change_one(connection, sql, *values.values(), row["rowid"], *(row[name] for name in new))


def session_ids(engine: Engine, agents: Sequence[str] | None) -> list[str]:
    """List the ids of the sessions of these agents; None: of all."""
    sql = "SELECT id FROM session WHERE ?1 IS NULL OR agent_id IN (SELECT value FROM json_each(?1))"
    return sqlite.read(engine, query.fetch_column, sql, None if agents is None else tuple(agents))


def list_intents(engine: Engine) -> list[str]:
    """List the ids of the runs whose intents are there."""
    return sqlite.read(engine, query.fetch_column, "SELECT run_id FROM intent ORDER BY run_id")


def rename_session(engine: Engine, old: str, new: str) -> None:
    """Rename a session everywhere at once."""
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for table, kinds in COLUMNS.items():
            for name in (name for name, kind in kinds.items() if kind is ColumnKind.SESSION):
                if name == "key":
                    sql = 'UPDATE job_run SET "key" = replace("key", ?1, ?2) WHERE instr("key", ?1)'
                else:
                    sql = f'UPDATE "{table}" SET "{name}" = ?2 WHERE "{name}" = ?1'  # noqa: S608
                query.run(connection, sql, old, new)


def rewrite_file(engine: Engine) -> None:
    """Rewrite the database file, so that no free page and no log keeps the old text."""
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("VACUUM")
        busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        cursor.close()
    except load_library().OperationalError as error:
        # SQLite's own words: a full disk, a failing one, or other users of it.
        hint = "it takes as much room again as the file, and a moment without others"
        raise StateError(f"cannot be rewritten: {describe(error)}", str(engine.url.database), hint) from error
    finally:
        raw.close()
    if busy:  # in SQLite's own words, so that it is known for what passes by itself
        locked = load_library().OperationalError("database is locked")
        hint = "another program reads it: close that, or wait"
        raise StateError("its log cannot be emptied", str(engine.url.database), hint) from locked
