"""Store alarms: conditions that a person must know about until they end."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, sqlite

DAMAGE = "damage"  # the kind of the alarm about files of the state folder
_OPEN = "WHERE kind = ? AND agent_id = ? AND subject = ? AND cleared_at IS NULL"  # an index allows only one


class Alarm(NamedTuple):
    """Hold an alarm: a condition that a person must know about. It is cleared when it ends, but never deleted."""

    id: int
    kind: str
    agent_id: str  # empty if the alarm belongs to no agent
    subject: str
    since: str  # UTC, ISO 8601
    text: str
    cleared_at: str | None  # None while the alarm is open
    told: str | None  # the result of the configured alarm command; None until it has run


def list_open(connection: Connection) -> list[Alarm]:
    """List the open alarms, oldest first."""
    # The unary plus keeps SQLite from using the primary key, so that it uses the index of open alarms.
    sql = f"SELECT {', '.join(Alarm._fields)} FROM alarm WHERE cleared_at IS NULL ORDER BY +id"  # noqa: S608
    return [Alarm(*row) for row in query.fetch_rows(connection, sql)]


def note_told(connection: Connection, alarm_id: int, told: str) -> None:
    """Record the result of the configured alarm command for an alarm."""
    query.run(connection, "UPDATE alarm SET told = ? WHERE id = ?", told, alarm_id)


def clear_of_sessions(connection: Connection, sessions: Sequence[str], now: str) -> None:
    """Close the alarms about runs over these sessions. They are forgotten, so nothing is left to do."""
    sql = (
        "UPDATE alarm SET cleared_at = ? WHERE cleared_at IS NULL AND subject IN"
        ' (SELECT "key" FROM job_run WHERE session_id IN (SELECT value FROM json_each(?)))'
    )
    query.run(connection, sql, now, tuple(sessions))


def raise_alarm(
    connection: Connection, *, kind: str, text: str, now: str, agent_id: str = "", subject: str = ""
) -> bool:
    """Open an alarm and return True. If it is already open, replace its text and return False."""
    # Not with OR IGNORE: the index that allows only one may be missing. A second row would prevent its repair.
    sql = "INSERT INTO alarm (kind, agent_id, subject, since, text) SELECT ?, ?, ?, ?, ? WHERE NOT EXISTS"
    sql += f" (SELECT 1 FROM alarm {_OPEN})"  # noqa: S608
    if query.change_one(connection, sql, kind, agent_id, subject, now, text, kind, agent_id, subject):
        return True
    sql = f"UPDATE alarm SET text = ? {_OPEN} AND text <> ?"  # noqa: S608
    query.run(connection, sql, text, kind, agent_id, subject, text)
    return False


def clear_alarm(connection: Connection, *, kind: str, now: str, agent_id: str = "", subject: str = "") -> None:
    """Close an alarm if it is open."""
    query.run(connection, f"UPDATE alarm SET cleared_at = ? {_OPEN}", now, kind, agent_id, subject)  # noqa: S608


def set_alarm(engine: Engine, kind: str, text: str | None, now: str, agent_id: str = "", subject: str = "") -> bool:
    """Keep an alarm open with this text, or closed if the text is None; return True if the alarm was opened.

    Nothing is written if nothing changes.
    """
    if text is not None:
        return sqlite.write(engine, raise_alarm, kind=kind, text=text, now=now, agent_id=agent_id, subject=subject)
    # Most calls find no alarm to clear. The read needs a transaction, so that it sees what other threads have written.
    is_there = f"SELECT 1 FROM alarm {_OPEN}"  # noqa: S608
    if sqlite.read(engine, query.has_row, is_there, kind, agent_id, subject):
        sqlite.write(engine, clear_alarm, kind=kind, now=now, agent_id=agent_id, subject=subject)
    return False
