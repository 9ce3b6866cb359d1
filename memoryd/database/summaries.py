"""Store the running summary of each session. A sleep replaces it, and a rollback restores the earlier one.

The row before the last change is stored with it. A rollback keeps all earlier rows, and so does the next change after
it, so that several rollbacks can be reverted one after the other. Any other change keeps only one, to save room.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection

from memoryd.database import packing, query

_COLUMNS = ("summary", "messages", "updated_at", "run_id", "slept_at")
_NONE: dict[str, Any] = {"summary": "", "messages": "[]", "updated_at": "", "run_id": None, "slept_at": None}
_WRITTEN = ("session_id", "summary", "messages", "updated_at", "run_id", "earlier")
_WRITE = query.make_upsert("session_summary", _WRITTEN, "session_id")
_SESSIONS = (
    "SELECT s.*, t.summary, t.run_id AS summed_up_by, t.told, coalesce(w.seq, 0) AS slept_upto FROM session s"
    " LEFT JOIN session_summary t ON t.session_id = s.id"
    " LEFT JOIN watermark w ON w.session_id = s.id AND w.consumer = 'sleep' WHERE s.agent_id = ?"
)


def list_last(connection: Connection, agent_id: str, most: int) -> Sequence[dict[str, Any]]:
    """List an agent's last own sessions that have ended or have a summary, newest first, each with its summary."""
    sql = (
        f"{_SESSIONS} AND (s.parent_id IS NULL OR s.format = 'now') AND (s.state = 'ended' OR t.summary <> '')"
        " ORDER BY s.last_turn_at DESC, s.id LIMIT ?"
    )
    return query.fetch_mappings(connection, sql, agent_id, most)


def list_unfiled(connection: Connection, agent_id: str) -> Sequence[dict[str, Any]]:
    """List the ended sessions of NOW files that are not in the archive yet, oldest first."""
    sql = f"{_SESSIONS} AND s.format = 'now' AND s.state = 'ended' AND s.turns > 0 AND t.told IS NULL"
    return query.fetch_mappings(connection, f"{sql} ORDER BY s.last_turn_at", agent_id)


def list_some(connection: Connection, agent_id: str, session_ids: Collection[str]) -> Sequence[dict[str, Any]]:
    """List those of an agent's sessions that have one of these ids, each with its summary."""
    sql = f"{_SESSIONS} AND s.id IN (SELECT value FROM json_each(?)) ORDER BY s.last_turn_at"  # noqa: S608
    return query.fetch_mappings(connection, sql, agent_id, list(session_ids))


def list_changed(connection: Connection, agent_id: str) -> Sequence[dict[str, Any]]:
    """List the sessions whose summary has changed since the files of the last sessions were written."""
    return query.fetch_mappings(connection, f"{_SESSIONS} AND t.told IS NOT NULL AND t.told IS NOT t.run_id", agent_id)


def list_told(connection: Connection, run_ids: Collection[str]) -> list[str]:
    """List the sessions whose summary is from one of these runs and is written in the files of the last sessions."""
    sql = "SELECT session_id FROM session_summary WHERE told IS NOT NULL AND run_id IN (SELECT value FROM json_each(?))"
    return query.fetch_column(connection, sql, list(run_ids))


def note_told(connection: Connection, told: Sequence[tuple[str, str | None]]) -> None:
    """Record for each session which run's summary is in the files of the last sessions.

    `told` has pairs of a session and a run. A run of None stands for the run of the session's present summary.
    """
    sql = "UPDATE session_summary SET told = coalesce(?, run_id) WHERE session_id = ?"
    query.change_each(connection, sql, [(run_id, session_id) for session_id, run_id in told])


def take_back(connection: Connection, runs: Collection[str], sessions: Iterable[str], by: str | None, now: str) -> None:
    """Restore the summary and the sleep time that each session had before these runs.

    If the session has got another summary since, that one stays. If no earlier summary is usable, the summary becomes
    empty, and the next sleep starts from the turns.

    Args:
        connection: a write transaction.
        runs: the ids of the reverted runs.
        sessions: other sessions to check: a summary that a rollback restored has the id of that rollback.
        by: the id of the rollback.
        now: UTC, ISO 8601.
    """
    sql = "SELECT session_id FROM session_summary WHERE run_id IN (SELECT value FROM json_each(?))"
    for session_id in sorted({*sessions, *query.fetch_column(connection, sql, list(runs))}):
        versions = list_versions(connection, session_id)
        at = next((at for at, one in enumerate(versions) if one["run_id"] in runs), None)
        if at is None or any(versions[at][name] != versions[0][name] for name in _COLUMNS[:2]):
            continue
        values = next((one for one in versions[at:] if one["run_id"] not in runs), _NONE)
        put(connection, session_id, values["summary"], values["messages"], now, by)
        query.run(connection, "UPDATE session SET slept_at = ? WHERE id = ?", values["slept_at"], session_id)


def list_versions(connection: Connection, session_id: str) -> list[dict[str, Any]]:
    """Return the summary of a session and the stored earlier ones, newest first; empty if it has none."""
    sql = (
        "SELECT t.summary, plain(CAST(t.messages AS BLOB), NULL), t.updated_at, t.run_id, s.slept_at,"
        " plain(CAST(t.earlier AS BLOB), NULL)"
        " FROM session_summary t JOIN session s ON s.id = t.session_id WHERE t.session_id = ?"
    )
    if not (rows := query.fetch_rows(connection, sql, session_id)):
        return []
    (found,) = rows
    earlier = json.loads(found[-1] or "[]")
    earlier = earlier if isinstance(earlier, list) else [earlier]  # memoryd 0.1.0 stored only one
    return [_NONE | one for one in (dict(zip(_COLUMNS, found, strict=False)), *earlier)]


def put(
    connection: Connection, session_id: str, summary: str, messages: str, updated_at: str, run_id: str | None
) -> None:
    """Replace the summary of a session, and store the present one as the earlier one."""
    held = list_versions(connection, session_id)
    by = [run_id, *(one["run_id"] for one in held[:1])]
    sql = "SELECT 1 FROM job_run WHERE kind = 'rollback' AND id IN (SELECT value FROM json_each(?))"
    kept = held if query.has_row(connection, sql, by) else held[:1]
    earlier = packing.pack(json.dumps(kept, ensure_ascii=False)) if kept else None
    query.run(connection, _WRITE, session_id, summary, packing.pack(messages), updated_at, run_id, earlier)
