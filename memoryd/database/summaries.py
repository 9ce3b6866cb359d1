"""Store the running summary of each session. A sleep replaces it, and a rollback restores the earlier one.

The row before the last change is stored with it. Only one earlier row is stored, because each stored text is one more
text that `forget` must find.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping

from memoryd.database import packing, query

_COLUMNS = ("summary", "messages", "updated_at", "run_id", "slept_at")
_NONE = {"summary": "", "messages": "[]", "updated_at": "", "run_id": None, "slept_at": None}
_WRITTEN = ("session_id", "summary", "messages", "updated_at", "run_id", "earlier")
_WRITE = query.make_upsert("session_summary", _WRITTEN, "session_id")
_SESSIONS = (
    "SELECT s.*, t.summary, t.run_id AS summed_up_by, t.told, coalesce(w.seq, 0) AS slept_upto FROM session s"
    " LEFT JOIN session_summary t ON t.session_id = s.id"
    " LEFT JOIN watermark w ON w.session_id = s.id AND w.consumer = 'sleep' WHERE s.agent_id = ?"
)


def list_last(connection: Connection, agent_id: str, most: int) -> Sequence[RowMapping]:
    """List an agent's last own sessions that have ended or have a summary, newest first, each with its summary."""
    sql = (
        f"{_SESSIONS} AND (s.parent_id IS NULL OR s.format = 'now') AND (s.state = 'ended' OR t.summary <> '')"
        " ORDER BY s.last_turn_at DESC, s.id LIMIT ?"
    )
    return query.fetch_mappings(connection, sql, agent_id, most)


def list_unfiled(connection: Connection, agent_id: str) -> Sequence[RowMapping]:
    """List the ended sessions of NOW files that are not in the archive yet, oldest first."""
    sql = f"{_SESSIONS} AND s.format = 'now' AND s.state = 'ended' AND s.turns > 0 AND t.told IS NULL"
    return query.fetch_mappings(connection, f"{sql} ORDER BY s.last_turn_at", agent_id)


def list_some(connection: Connection, agent_id: str, session_ids: Collection[str]) -> Sequence[RowMapping]:
    """List those of an agent's sessions that have one of these ids, each with its summary."""
    sql = f"{_SESSIONS} AND s.id IN (SELECT value FROM json_each(?)) ORDER BY s.last_turn_at"  # noqa: S608
    return query.fetch_mappings(connection, sql, agent_id, list(session_ids))


def list_changed(connection: Connection, agent_id: str) -> Sequence[RowMapping]:
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


def take_back(connection: Connection, runs: Collection[str], by: str | None, now: str) -> None:
    """Restore the earlier summary and sleep time of each session whose summary is from one of these runs.

    If the earlier summary is also from one of these runs, it is unusable. Then the summary becomes empty, and the next
    sleep starts from the turns.
    """
    sql = (
        "SELECT session_id, plain(CAST(earlier AS BLOB), NULL) FROM session_summary"
        " WHERE run_id IN (SELECT value FROM json_each(?))"
    )
    for session_id, earlier in query.fetch_rows(connection, sql, list(runs)):
        values: dict[str, Any] = _NONE | json.loads(earlier or "{}")
        if values["run_id"] in runs:
            values = dict(_NONE)
        put(connection, session_id, values["summary"], values["messages"], now, by)
        query.run(connection, "UPDATE session SET slept_at = ? WHERE id = ?", values["slept_at"], session_id)


def put(
    connection: Connection, session_id: str, summary: str, messages: str, updated_at: str, run_id: str | None
) -> None:
    """Replace the summary of a session, and store the present one as the earlier one."""
    sql = (
        "SELECT t.summary, plain(CAST(t.messages AS BLOB), NULL), t.updated_at, t.run_id, s.slept_at"
        " FROM session_summary t JOIN session s ON s.id = t.session_id WHERE t.session_id = ?"
    )
    found = query.run(connection, sql, session_id).first()
    held = None if found is None else json.dumps(dict(zip(_COLUMNS, found, strict=True)), ensure_ascii=False)
    earlier = None if held is None else packing.pack(held)
    query.run(connection, _WRITE, session_id, summary, packing.pack(messages), updated_at, run_id, earlier)
