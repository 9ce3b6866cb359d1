"""Keep the evidence for memories: the redacted texts of turns stay when an agent deletes its transcripts.

A text is stored only in its row of `turn`, so every redaction and `forget` finds it. A long text is compressed at once
(zlib, RFC 1950), and a shorter one after its session has been quiet for a while. Then SQLite holds a BLOB instead of
TEXT. memoryd's connections have the SQL function `plain`, which returns the text in both cases. Other programs can use
`memoryd session show`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from memoryd.database import history, query
from memoryd.database.packing import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from memoryd.database.reads import DatabaseReader

QUIET = timedelta(days=7)  # after this time a session is rarely read
DAMAGED = "damaged"  # why a text is unreadable: it does not match its checksum
IS_DAMAGED = "text <> '' AND plain(CAST(text AS BLOB), text_crc) = ''"
EXPIRED = "expired"  # why a text is missing: it is older than `retention.turns`
_LEAST = 128  # bytes; compression does not make a shorter text smaller
_PORTION = 500  # turns of one transaction
_OLD = (
    "SELECT t.id, plain(CAST(t.text AS BLOB), t.text_crc) FROM turn t JOIN session s ON s.id = t.session_id"
    " WHERE t.id > ? AND typeof(t.text) = 'text'"
    " AND octet_length(t.text) >= ? AND s.last_turn_at < ? ORDER BY t.id LIMIT ?"
)
_EXPIRED = (
    "SELECT s.agent_id, s.id FROM session s WHERE s.last_turn_at < ? AND s.state <> 'active'"
    " AND EXISTS (SELECT 1 FROM turn t WHERE t.session_id = s.id AND t.text <> '') AND NOT EXISTS (SELECT 1 FROM"
    " job_run r WHERE (r.session_id = s.id OR (r.kind = ? AND r.agent_id = s.agent_id))"
    " AND r.state IN ('queued', 'running', 'interrupted', 'blocked'))"
)
_WITHOUT_TRANSCRIPT = (
    "SELECT count(*) FROM agent a CROSS JOIN session s ON s.agent_id = a.id"  # CROSS: use the index by agent
    " WHERE NOT EXISTS (SELECT 1 FROM transcript p WHERE p.session_id = s.id"
    " AND p.fate <> 'deleted')"
    " AND EXISTS (SELECT 1 FROM turn t WHERE t.session_id = s.id AND t.text <> '')"
)


def pack_portion(connection: Connection, before: str, after: int) -> int | None:
    """Compress texts of sessions that have been quiet since `before`, starting after the turn with the id `after`.

    Returns:
        The id of the last checked turn, for the next call; None if there are no more turns.
    """
    rows = query.fetch_rows(connection, _OLD, after, _LEAST, before, _PORTION)
    packed = ((pack(row[1]), row[0]) for row in rows if row[1])
    query.change_each(connection, "UPDATE turn SET text = ? WHERE id = ?", packed)
    return rows[-1][0] if len(rows) == _PORTION else None


def seal_portion(connection: Connection, after: int) -> int | None:
    """Add checksums to turns of older versions, starting after the turn with the id `after`.

    The checksum of an unreadable text does not match the text, so `mark_damaged` finds it. Returns like `pack_portion`.
    """
    ids = query.fetch_column(
        connection, "SELECT id FROM turn WHERE id > ? AND text_crc IS NULL ORDER BY id LIMIT ?", after, _PORTION
    )
    sql = "UPDATE turn SET text_crc = text_crc(plain(CAST(text AS BLOB), NULL)) WHERE id = ?"
    query.change_each(connection, sql, ((one,) for one in ids))
    return ids[-1] if len(ids) == _PORTION else None


def find_damaged(connection: Connection) -> list[int]:
    """Return the ids of turns whose text does not match its checksum. This reads all texts."""
    return query.fetch_column(connection, f"SELECT id FROM turn WHERE {IS_DAMAGED}")  # noqa: S608


def mark_damaged(connection: Connection, ids: Sequence[int]) -> None:
    """Mark turns as damaged, so that their text is read again.

    A turn with forgotten text keeps its mark, because its record must not be read again.
    """
    sql = f"UPDATE turn SET withheld = coalesce(withheld, ?) WHERE id = ? AND {IS_DAMAGED}"  # noqa: S608
    query.change_each(connection, sql, ((DAMAGED, one) for one in ids))


def empty_damaged(connection: Connection, why: str) -> None:
    """Erase the texts that are damaged beyond recovery, because nobody knows what they contain."""
    query.run(connection, f"UPDATE turn SET text = '', withheld = coalesce(withheld, ?) WHERE {IS_DAMAGED}", why)  # noqa: S608


def mend(connection: Connection, good: str, ids: Sequence[int]) -> int:
    """Restore damaged texts from an attached copy that has them undamaged; return how many were restored.

    Args:
        connection: a write transaction.
        good: the name of the attached copy.
        ids: turns that are damaged but may not be marked yet.
    """
    sql = (
        f"UPDATE main.turn SET text = g.text, text_crc = g.text_crc, withheld = nullif(main.turn.withheld, ?)"  # noqa: S608
        f" FROM {good}.turn g WHERE main.turn.id IN (SELECT value FROM json_each(?) UNION"
        " SELECT id FROM main.turn WHERE withheld = 'damaged') AND g.id = main.turn.id"
        " AND (g.record_id, g.part, g.sha256) = (main.turn.record_id, main.turn.part, main.turn.sha256)"
        " AND plain(CAST(main.turn.text AS BLOB), main.turn.text_crc) = ''"
        " AND plain(CAST(g.text AS BLOB), g.text_crc) <> ''"
    )
    return query.run(connection, sql, DAMAGED, list(ids))


def find_expired(connection: Connection, before: str) -> dict[str, list[str]]:
    """Return the sessions with texts whose last turn is older than `before`, by agent.

    Active sessions, and those that an open run or import uses, are left out.
    """
    found: dict[str, list[str]] = {}
    for agent_id, session_id in query.fetch_rows(connection, _EXPIRED, before, history.KIND):
        found.setdefault(agent_id, []).append(session_id)
    return found


def expire(connection: Connection, sessions: Sequence[str]) -> None:
    """Erase the texts of sessions.

    The summary stays; its message list is erased, because it consists of texts of turns.
    """
    which = "session_id IN (SELECT value FROM json_each(?))"
    query.run(connection, f"UPDATE turn SET text = '', withheld = ? WHERE text <> '' AND {which}", EXPIRED, sessions)  # noqa: S608
    query.run(connection, f"UPDATE session_summary SET messages = '[]', earlier = NULL WHERE {which}", sessions)  # noqa: S608


def measure(reader: DatabaseReader) -> dict[str, int]:
    """Return the sizes of the vault.

    The keys are `turns` (with a text), `bytes` (of these texts as stored), `compressed` (turns), and
    `without_transcript` (sessions with texts whose transcripts are all deleted).
    """
    sizes = reader.row("SELECT turns, bytes, compressed FROM vault_size")
    return {**(sizes or {}), "without_transcript": reader.number(_WITHOUT_TRANSCRIPT)}


def read_evidence(reader: DatabaseReader, session_id: str) -> dict[str, Any]:
    """Return what is stored of a session.

    `transcripts` has their paths, and whether they are deleted. `texts` counts turns with a text (`kept`), and those
    without one by reason.
    """
    transcripts = reader.rows(
        "SELECT path, fate = 'deleted' AS deleted FROM transcript WHERE session_id = ? ORDER BY id", session_id
    )
    counts = reader.rows(
        "SELECT coalesce(withheld, 'kept') AS why, count(*) AS n FROM turn WHERE session_id = ?"
        " AND (text <> '' OR withheld IS NOT NULL) GROUP BY 1 ORDER BY 1",
        session_id,
    )
    return {"transcripts": transcripts, "texts": {row["why"]: row["n"] for row in counts}}
