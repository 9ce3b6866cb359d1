"""Every column that may hold text of others, what kind of text it is, and its rows in portions.

For what looks through all that is stored: a later rule about texts is carried out on the rows as well. The tables may
be those of an older schema, in a database that was kept; a column that is not there is passed over.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from memoryd.database import sqlite
from memoryd.database.library import library
from memoryd.errors import StateError
from memoryd.ledger.memory import hash_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Engine

PORTION = 200  # rows


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    JSON = "json"  # of texts
    NAME = "name"  # an id or the like, which tells things apart
    NAMES = "names"  # JSON of names, one a line
    OURS = "ours"  # written by memoryd of its own words, or taken from the configuration
    SESSION = "session"  # the id of a session, wherever it is referred to


COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "agent": {"id": Kind.OURS, "workspace": Kind.OURS, "seen_at": Kind.OURS},
    "session": {
        "id": Kind.SESSION, "agent_id": Kind.OURS, "native_id": Kind.NAME, "parent_id": Kind.NAME, "format": Kind.OURS,
        "folder": Kind.TEXT, "state": Kind.OURS, "seen_at": Kind.OURS, "started_at": Kind.OURS,
        "last_turn_at": Kind.OURS, "ended_at": Kind.OURS, "model": Kind.NAME, "gauge": Kind.NAMES,
        "slept_at": Kind.OURS, "facts_look": Kind.OURS,
    },
    "transcript": {
        "agent_id": Kind.OURS, "session_id": Kind.SESSION, "path": Kind.TEXT, "format": Kind.OURS,
        "head_sha256": Kind.OURS, "marker_sha256": Kind.OURS, "prefix_sha256": Kind.OURS, "fate": Kind.OURS,
        "fate_at": Kind.OURS, "skipped": Kind.NAMES, "note": Kind.TEXT,
    },
    "turn": {
        "agent_id": Kind.OURS, "session_id": Kind.SESSION, "record_id": Kind.NAME, "role": Kind.OURS,
        "origin": Kind.OURS, "kind": Kind.OURS, "text": Kind.TEXT, "at": Kind.OURS, "message_id": Kind.NAME,
        "model": Kind.NAME, "tool_call_id": Kind.NAME, "tool_name": Kind.NAME, "withheld": Kind.OURS,
    },
    "forgotten_text": {"session_id": Kind.SESSION, "text_key": Kind.OURS, "agent_id": Kind.OURS},
    "bad_span": {"sha256": Kind.OURS, "reason": Kind.OURS, "seen_at": Kind.OURS},
    "watermark": {
        "session_id": Kind.SESSION, "consumer": Kind.OURS, "moved_at": Kind.OURS, "run_id": Kind.OURS,
    },
    "session_summary": {
        "session_id": Kind.SESSION, "summary": Kind.TEXT, "messages": Kind.JSON, "updated_at": Kind.OURS,
        "run_id": Kind.OURS, "earlier": Kind.JSON,
    },
    "memory": {
        "id": Kind.OURS, "agent_id": Kind.OURS, "kind": Kind.OURS, "content": Kind.TEXT, "content_hash": Kind.OURS,
        "category": Kind.TEXT, "tags": Kind.JSON, "origin_at": Kind.OURS, "created_at": Kind.OURS,
        "updated_at": Kind.OURS, "deleted_at": Kind.OURS, "derived_from": Kind.JSON, "sources": Kind.NAMES,
        "heading": Kind.TEXT, "ended_as": Kind.OURS, "successors": Kind.OURS, "salt": Kind.OURS,
    },
    "audit": {
        "at": Kind.OURS, "agent_id": Kind.OURS, "actor": Kind.OURS, "run_id": Kind.OURS, "operation": Kind.OURS,
        "memory_id": Kind.OURS, "before": Kind.OURS, "after": Kind.OURS, "prev_hash": Kind.OURS, "hash": Kind.OURS,
    },
    "content": {"sha256": Kind.OURS, "text": Kind.JSON},
    "profile_section": {
        "agent_id": Kind.OURS, "section": Kind.OURS, "text": Kind.TEXT, "updated_at": Kind.OURS,
        "sources": Kind.NAMES, "run_id": Kind.OURS, "salt": Kind.OURS,
    },
    "grant": {
        "id": Kind.OURS, "agent_id": Kind.OURS, "purpose": Kind.TEXT, "requested_at": Kind.OURS,
        "decided_at": Kind.OURS, "expires_at": Kind.OURS, "state": Kind.OURS,
    },
    "core_file": {"agent_id": Kind.OURS, "sha256": Kind.OURS, "agreed_at": Kind.OURS},
    "job_run": {
        "id": Kind.OURS, "kind": Kind.OURS, "agent_id": Kind.OURS, "session_id": Kind.SESSION, "actor": Kind.OURS,
        "trigger": Kind.OURS, "state": Kind.OURS, "key": Kind.SESSION, "slot": Kind.OURS, "options": Kind.JSON,
        "created_at": Kind.OURS, "scheduled_for": Kind.OURS, "started_at": Kind.OURS, "heartbeat_at": Kind.OURS,
        "finished_at": Kind.OURS, "owner": Kind.OURS, "input_hash": Kind.OURS, "why": Kind.TEXT, "error": Kind.TEXT,
        "receipt": Kind.JSON, "reply": Kind.JSON, "refused": Kind.TEXT,
    },
    "spend": {
        "run_id": Kind.OURS, "agent_id": Kind.OURS, "endpoint": Kind.OURS, "day": Kind.OURS, "at": Kind.OURS,
        "how": Kind.OURS,
    },
    # Of a run whose files are being written: it is carried through first. A plan holds whole files, with whatever a
    # person has put there; one that cannot be carried through is for a person.
    "intent": {"run_id": Kind.OURS, "agent_id": Kind.OURS, "made_at": Kind.OURS, "plan": Kind.OURS},
    "alarm": {
        "kind": Kind.OURS, "agent_id": Kind.OURS, "subject": Kind.TEXT, "since": Kind.OURS, "text": Kind.TEXT,
        "cleared_at": Kind.OURS, "told": Kind.OURS,
    },
    "job_mode": {"agent_id": Kind.OURS, "kind": Kind.OURS, "mode": Kind.OURS, "since": Kind.OURS, "why": Kind.OURS},
    "daemon": {
        "owner": Kind.OURS, "version": Kind.OURS, "started_at": Kind.OURS, "watching": Kind.OURS,
        "watching_note": Kind.TEXT,
    },
}  # fmt: skip
_LOOKED_AT = frozenset({Kind.TEXT, Kind.JSON, Kind.NAME, Kind.NAMES})


def portions(engine: Engine, table: str, agent_id: str | None) -> Iterator[list[dict[str, Any]]]:
    """Read the columns of a table that are to be looked at, each row with its `rowid`, in portions.

    Args:
        engine: the database.
        table: one of `COLUMNS`.
        agent_id: rows of this agent, where the table says whose they are; None: all.
    """
    last = -1
    while True:
        with sqlite.reading(engine) as connection:
            own = "" if agent_id is None else _own(columns(connection, table))
            found = _read(connection, table, f"rowid > ?{own}", (last, agent_id) if own else (last,))
        if not found:
            return
        last = found[-1]["rowid"]
        yield found


def _own(there: set[str]) -> str:
    if "agent_id" in there:
        return " AND agent_id IN (?, '')"
    return " AND session_id IN (SELECT id FROM session WHERE agent_id = ?)" if "session_id" in there else ""


def rows(engine: Engine, table: str, rowids: Sequence[int]) -> list[dict[str, Any]]:
    """Read the columns of a table that are to be looked at, of those of these rows that are there."""
    with sqlite.reading(engine) as connection:
        return _read(connection, table, "rowid IN (SELECT value FROM json_each(?))", (json.dumps(list(rowids)),))


def _read(connection: Connection, table: str, which: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    there = columns(connection, table)
    wanted = [name for name, kind in COLUMNS[table].items() if kind in _LOOKED_AT and name in there]
    if not wanted:
        return []
    quoted = ", ".join(f'"{name}"' for name in wanted)
    found = connection.exec_driver_sql(
        f'SELECT rowid AS rowid, {quoted} FROM "{table}" WHERE {which} ORDER BY rowid LIMIT {PORTION}',  # noqa: S608
        values,
    )
    return [dict(row) for row in found.mappings()]


def columns(connection: Connection, table: str) -> set[str]:
    """The names of a table's columns; none where there is no such table."""
    return {row[1] for row in connection.exec_driver_sql(f'PRAGMA table_info("{table}")')}


def change(connection: Connection, table: str, row: Mapping[str, Any], new: Mapping[str, Any], now: str) -> bool:
    """Put new values in the place of those of a row; False where others changed it meanwhile: it is left alone."""
    values = dict(new)
    if table == "alarm" and "subject" in new:
        # Without the secret that told two apart they are one, and only one of them may be open.
        connection.exec_driver_sql(
            "UPDATE alarm SET cleared_at = ? WHERE rowid = ? AND cleared_at IS NULL AND EXISTS (SELECT 1 FROM alarm o"
            " WHERE o.rowid <> alarm.rowid AND o.cleared_at IS NULL AND o.kind = alarm.kind"
            " AND o.agent_id = alarm.agent_id AND o.subject = ?)",
            (now, row["rowid"], new["subject"]),
        )
    if table == "content":
        values["text"] = None  # a state is what its digest says, or nothing
    if table == "turn" and "text" in new:
        values["tokens"] = None  # counted anew
    if table == "memory" and "content" in new:
        values["content_hash"] = hash_of(new["content"])
    sets = ", ".join(f'"{name}" = ?' for name in values)
    same = " AND ".join(f'"{name}" IS ?' for name in new)
    result = connection.exec_driver_sql(
        f'UPDATE "{table}" SET {sets} WHERE rowid = ? AND {same}',  # noqa: S608
        (*values.values(), row["rowid"], *(row[name] for name in new)),
    )
    return result.rowcount == 1


def session_ids(engine: Engine, agents: Sequence[str] | None) -> list[str]:
    """List the ids of the sessions of these agents; None: of all."""
    whose = "" if agents is None else " WHERE agent_id IN (SELECT value FROM json_each(?))"
    with sqlite.reading(engine) as connection:
        rows = connection.exec_driver_sql(f"SELECT id FROM session{whose}", (json.dumps(agents),) if whose else ())  # noqa: S608
        return [row[0] for row in rows]


def intents(engine: Engine) -> list[str]:
    """List the ids of the runs whose intents are there."""
    if "intent" not in tables(engine):
        return []
    with sqlite.reading(engine) as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT run_id FROM intent ORDER BY run_id")]


def rename_session(engine: Engine, old: str, new: str) -> None:
    """Give a session another id, wherever it is referred to, at once."""
    with sqlite.writing(engine) as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for table, kinds in COLUMNS.items():
            there = columns(connection, table)
            for name in (name for name, kind in kinds.items() if kind is Kind.SESSION and name in there):
                if name == "key":
                    connection.exec_driver_sql(
                        'UPDATE job_run SET "key" = replace("key", ?, ?) WHERE instr("key", ?)', (old, new, old)
                    )
                else:
                    connection.exec_driver_sql(
                        f'UPDATE "{table}" SET "{name}" = ? WHERE "{name}" = ?',  # noqa: S608
                        (new, old),
                    )


def rewrite_file(engine: Engine) -> None:
    """Write the database file anew, so that nothing of what was changed is left in free pages or in the log.

    Raises:
        StateError: the disk is full, or others read or write it all the time.
    """
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("VACUUM")
        busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        cursor.close()
    except library().OperationalError as error:
        # SQLite's own words: a full disk, a failing one, or others who hold it.
        hint = "it takes as much room again as the file, and a moment without others"
        raise StateError(f"cannot be written anew: {error}", str(engine.url.database), hint) from error
    finally:
        raw.close()
    if busy:  # in SQLite's own words, so that it is known for what passes by itself
        locked = library().OperationalError("database is locked")
        hint = "another program reads it: close that, or wait"
        raise StateError("its log cannot be emptied", str(engine.url.database), hint) from locked


def tables(engine: Engine) -> Sequence[str]:
    """List the known tables that are there."""
    with sqlite.reading(engine) as connection:
        there = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in COLUMNS if name in there]
