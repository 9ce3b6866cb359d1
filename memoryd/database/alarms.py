"""Store alarms: conditions that a person must know about until they are over."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, sqlite

_OPEN = "WHERE kind = ? AND agent_id = ? AND subject = ? AND cleared_at IS NULL"  # one at most: there is an index


class Alarm(NamedTuple):
    """Hold an open alarm."""

    id: int
    kind: str
    agent_id: str  # empty if it belongs to none
    subject: str
    text: str
    since: str
    told: str | None  # the result of the user's command


def list_open(connection: Connection) -> list[Alarm]:
    """List the open alarms, oldest first."""
    # The sign makes SQLite use the index of the open alarms.
    sql = "SELECT id, kind, agent_id, subject, text, since, told FROM alarm WHERE cleared_at IS NULL ORDER BY +id"
    return [Alarm(*row) for row in query.fetch_rows(connection, sql)]


def note_told(connection: Connection, alarm_id: int, told: str) -> None:
    """Record the result of the user's command for an alarm."""
    query.run(connection, "UPDATE alarm SET told = ? WHERE id = ?", told, alarm_id)


def clear_of_sessions(connection: Connection, sessions: Sequence[str], now: str) -> None:
    """Close the alarms about runs over these sessions, because nothing of them is left to do."""
    sql = (
        "UPDATE alarm SET cleared_at = ? WHERE cleared_at IS NULL AND subject IN"
        ' (SELECT "key" FROM job_run WHERE session_id IN (SELECT value FROM json_each(?)))'
    )
    query.run(connection, sql, now, tuple(sessions))


def raise_alarm(
    connection: Connection, *, kind: str, text: str, now: str, agent_id: str = "", subject: str = ""
) -> bool:
    """Open an alarm; return False if it is already open (its text is refreshed)."""
    sql = "INSERT OR IGNORE INTO alarm (kind, agent_id, subject, since, text) VALUES (?, ?, ?, ?, ?)"
    if query.change_one(connection, sql, kind, agent_id, subject, now, text):
        return True
    sql = f"UPDATE alarm SET text = ? {_OPEN} AND text <> ?"  # noqa: S608
    query.run(connection, sql, text, kind, agent_id, subject, text)
    return False


def clear_alarm(connection: Connection, *, kind: str, now: str, agent_id: str = "", subject: str = "") -> bool:
    """Close an open alarm; return False if none was open."""
    sql = f"UPDATE alarm SET cleared_at = ? {_OPEN}"  # noqa: S608
    return query.change_one(connection, sql, now, kind, agent_id, subject)


def set_alarm(engine: Engine, kind: str, text: str | None, now: str, agent_id: str = "", subject: str = "") -> bool:
    """Keep an alarm open with this text, or closed without one; return True if it was opened. Writes only a change."""
    # Most calls find no alarm to clear. Another thread's change to one is visible only inside a transaction.
    is_there = f"SELECT 1 FROM alarm {_OPEN}"  # noqa: S608
    if text is None and not sqlite.read(engine, query.has_row, is_there, kind, agent_id, subject):
        return False
    with sqlite.begin_write(engine) as connection:
        if text is not None:
            return raise_alarm(connection, kind=kind, text=text, now=now, agent_id=agent_id, subject=subject)
        clear_alarm(connection, kind=kind, now=now, agent_id=agent_id, subject=subject)
        return False
