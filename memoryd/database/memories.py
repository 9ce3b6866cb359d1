"""Read and write memories as rows. They are written in batches, in the caller's transaction."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection

from memoryd.database import query
from memoryd.errors import StateError
from memoryd.gauge.estimate import CHARACTERS_PER_TOKEN
from memoryd.ledger.memory import (
    TOMBSTONES,
    Ending,
    Memory,
    MemoryKind,
    dump_canonical,
    sources_from_json,
    sources_to_json,
)
from memoryd.ledger.projection import Standing, StandingMemory

COLUMNS = tuple(one.name for one in fields(Memory))
_LISTS = ("tags", "derived_from", "successors")
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM memory"  # noqa: S608
_IN_FILE = "position IS NULL, position, created_at, id"
_WRITE = query.make_upsert("memory", COLUMNS, "id", kept=("agent_id", "kind"))


def of_row(row: dict[str, Any]) -> Memory:
    """Return the memory that a row with all columns holds."""
    values = {name: row[name] for name in COLUMNS} | {name: tuple(json.loads(row[name])) for name in _LISTS}
    values |= {"kind": MemoryKind(row["kind"]), "constitutional": bool(row["constitutional"])}
    ended_as = None if row["ended_as"] is None else Ending(row["ended_as"])
    return Memory(**values | {"sources": sources_from_json(row["sources"]), "ended_as": ended_as})


def is_sound(row: dict[str, Any]) -> bool:
    """Return False for a damaged row. The next check of the database repairs it, so readers leave it out."""
    try:
        return bool(of_row(row))
    except (StateError, ValueError, TypeError):
        return False


def of_sound_rows(rows: Iterable[dict[str, Any]]) -> list[Memory]:
    """Return the memories that rows with all columns hold, without those of damaged rows."""
    return [of_row(row) for row in rows if is_sound(row)]


def list_damaged(connection: Connection) -> list[str]:
    """Return the ids of live memories whose row is damaged."""
    rows = query.fetch_mappings(connection, f"{_SELECT} WHERE deleted_at IS NULL")
    return [row["id"] for row in rows if not is_sound(row)]


def _values(memory: Memory) -> tuple[Any, ...]:
    values = {name: getattr(memory, name) for name in COLUMNS}
    values |= {name: dump_canonical(values[name]) for name in _LISTS}
    return tuple((values | {"sources": sources_to_json(memory.sources)}).values())


def read_places(connection: Connection, agent_id: str) -> list[Standing]:
    """Return the places of an agent's live core memories, in the order of the file.

    This is faster than `read_live`, because it leaves out sources and other columns.
    """
    sql = (
        f"SELECT {', '.join(StandingMemory._fields)} FROM memory WHERE agent_id = ? AND kind = ? AND deleted_at IS NULL"  # noqa: S608
        f" ORDER BY {_IN_FILE}"
    )
    return [StandingMemory(*row) for row in query.fetch_rows(connection, sql, agent_id, str(MemoryKind.CORE))]


def read_live(connection: Connection, agent_id: str, kind: MemoryKind) -> list[Memory]:
    """Return an agent's live memories of a kind, in the order of the file."""
    sql = f"{_SELECT} WHERE agent_id = ? AND kind = ? AND deleted_at IS NULL ORDER BY {_IN_FILE}"
    return [of_row(row) for row in query.fetch_mappings(connection, sql, agent_id, str(kind))]


def core_tokens(connection: Connection, agent_id: str) -> int:
    """Estimate the tokens of an agent's live core, rounded up for each memory."""
    sql = (
        "SELECT sum((length(content) + ?1 - 1) / ?1) FROM memory WHERE agent_id = ?2 AND kind = ?3"
        " AND deleted_at IS NULL"
    )
    return query.fetch_number(connection, sql, CHARACTERS_PER_TOKEN, agent_id, str(MemoryKind.CORE))


def by_ids(connection: Connection, agent_id: str, ids: Iterable[str]) -> dict[str, Memory]:
    """Return an agent's memories with these ids, by id, live and ended.

    Unknown ids and those of other agents are left out.
    """
    sql = f"{_SELECT} WHERE agent_id = ? AND id IN (SELECT value FROM json_each(?))"  # noqa: S608
    return {row["id"]: of_row(row) for row in query.fetch_mappings(connection, sql, agent_id, sorted(set(ids)))}


def of_agent(connection: Connection, agent_id: str) -> dict[str, Memory]:
    """Return all memories of an agent by id, of every kind, live and ended."""
    rows = query.fetch_mappings(connection, f"{_SELECT} WHERE agent_id = ? ORDER BY created_at, id", agent_id)
    return {row["id"]: of_row(row) for row in rows}


def by_text(connection: Connection, agent_id: str, kind: MemoryKind, content_hash: str) -> list[Memory]:
    """Return an agent's live memories of a kind with this text, oldest first."""
    which = "agent_id = ? AND kind = ? AND content_hash = ? AND deleted_at IS NULL"
    sql = f"{_SELECT} WHERE {which} ORDER BY created_at, id"
    return [of_row(row) for row in query.fetch_mappings(connection, sql, agent_id, str(kind), content_hash)]


def list_later_copies(connection: Connection, agent_id: str, memory_id: str) -> list[str]:
    """Return the ids of live memories that have the text of an ended one, and did not have it when that one ended."""
    sql = (
        "SELECT m.id FROM memory e JOIN memory m USING (agent_id, kind, content_hash) WHERE agent_id = ?1 AND e.id = ?2"
        " AND m.deleted_at IS NULL AND (SELECT json_extract(text, '$.content_hash', '$.deleted_at') IS NOT"
        ' json_array(m.content_hash, NULL) FROM audit LEFT JOIN content ON sha256 = "before" WHERE agent_id = ?1 AND'
        " memory_id = m.id AND id > (SELECT max(id) FROM audit WHERE agent_id = ?1 AND memory_id = ?2) ORDER BY id"
        " LIMIT 1)"
    )
    return query.fetch_column(connection, sql, agent_id, memory_id)


def read_tombstones(connection: Connection, agent_id: str) -> dict[str, str]:
    """Return the hashes of the deliberately forgotten texts, each with the time when it was last forgotten."""
    sql = (
        "SELECT content_hash, max(deleted_at) FROM memory WHERE agent_id = ? AND deleted_at IS NOT NULL"
        " AND ended_as IN (SELECT value FROM json_each(?)) GROUP BY content_hash"
    )
    return {row[0]: row[1] for row in query.fetch_rows(connection, sql, agent_id, sorted(map(str, TOMBSTONES)))}


def read_forgotten(connection: Connection, agent_id: str) -> dict[str, str]:
    """Return the deliberately forgotten core texts that are still stored, each with the time of its last end."""
    sql = (
        "SELECT content, max(deleted_at) FROM memory WHERE agent_id = ? AND kind = ? AND ended_as = ?"
        " AND deleted_at IS NOT NULL GROUP BY content"
    )
    rows = query.fetch_rows(connection, sql, agent_id, str(MemoryKind.CORE), str(Ending.DELETED))
    return {row[0]: row[1] for row in rows}


def write(connection: Connection, states: Iterable[Memory]) -> None:
    """Write memories to their rows. If a memory occurs several times, its last state is written."""
    query.change_each(connection, _WRITE, map(_values, {memory.id: memory for memory in states}.values()))


class TakenIds:
    """Answer `id in taken_ids`: True if a memory of any agent, live or ended, has this id."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __contains__(self, item: object) -> bool:
        return query.has_row(self._connection, "SELECT 1 FROM memory WHERE id = ?", item)


def read_agreed_hash(connection: Connection, agent_id: str) -> str | None:
    """Return the sha256 of `MEMORY.md` when it and the memory store last agreed; None if they never have."""
    return query.fetch_text(connection, "SELECT sha256 FROM core_file WHERE agent_id = ?", agent_id)


def set_agreed(connection: Connection, agent_id: str, sha256: str, now: str) -> None:
    """Record that `MEMORY.md` with this sha256 and the memory store agree."""
    sql = query.make_upsert("core_file", ("agent_id", "sha256", "agreed_at"), "agent_id")
    query.run(connection, sql, agent_id, sha256, now)
