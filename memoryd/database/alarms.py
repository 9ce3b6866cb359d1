"""Alarms: what a person must know until it is over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from memoryd.database import sqlite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Engine


class Alarm(NamedTuple):
    """An open alarm."""

    id: int
    kind: str
    agent_id: str  # empty where it is of none
    subject: str
    text: str
    since: str
    told: str | None  # what came of telling the user's command


def opened(connection: Connection) -> list[Alarm]:
    """List the open alarms, the oldest first."""
    rows = connection.exec_driver_sql(
        "SELECT id, kind, agent_id, subject, text, since, told FROM alarm WHERE cleared_at IS NULL ORDER BY id"
    )
    return [Alarm(*row) for row in rows]


def note_told(connection: Connection, alarm_id: int, told: str) -> None:
    """Record what came of telling the user's command of an alarm."""
    connection.exec_driver_sql("UPDATE alarm SET told = ? WHERE id = ?", (told, alarm_id))


def clear_of_sessions(connection: Connection, sessions: Sequence[str], now: str) -> None:
    """Close the alarms about runs over these sessions: nothing of them is left to be done."""
    connection.exec_driver_sql(
        "UPDATE alarm SET cleared_at = ? WHERE cleared_at IS NULL AND subject IN"
        ' (SELECT "key" FROM job_run WHERE session_id IN (SELECT value FROM json_each(?)))',
        (now, json.dumps(list(sessions))),
    )


def raise_alarm(
    connection: Connection, *, kind: str, text: str, now: str, agent_id: str = "", subject: str = ""
) -> bool:
    """Open an alarm; False where the same one is open already (its text is refreshed)."""
    result = connection.exec_driver_sql(
        "INSERT OR IGNORE INTO alarm (kind, agent_id, subject, since, text) VALUES (?, ?, ?, ?, ?)",
        (kind, agent_id, subject, now, text),
    )
    if result.rowcount == 1:
        return True
    connection.exec_driver_sql(
        "UPDATE alarm SET text = ?"
        " WHERE kind = ? AND agent_id = ? AND subject = ? AND cleared_at IS NULL AND text <> ?",
        (text, kind, agent_id, subject, text),
    )
    return False


def clear_alarm(connection: Connection, *, kind: str, now: str, agent_id: str = "", subject: str = "") -> bool:
    """Close an open alarm; False where none was open."""
    result = connection.exec_driver_sql(
        "UPDATE alarm SET cleared_at = ? WHERE kind = ? AND agent_id = ? AND subject = ? AND cleared_at IS NULL",
        (now, kind, agent_id, subject),
    )
    return result.rowcount > 0


def set_alarm(engine: Engine, kind: str, text: str | None, now: str, agent_id: str = "", subject: str = "") -> bool:
    """Keep an alarm open with this text, or closed without one; True where it was opened. Only a change is written."""
    with sqlite.reading(engine) as connection:
        was = connection.exec_driver_sql(
            "SELECT text FROM alarm WHERE kind = ? AND agent_id = ? AND subject = ? AND cleared_at IS NULL",
            (kind, agent_id, subject),
        ).scalar_one_or_none()
    if was == text:
        return False
    with sqlite.writing(engine) as connection:
        if text is not None:
            return raise_alarm(connection, kind=kind, text=text, now=now, agent_id=agent_id, subject=subject)
        clear_alarm(connection, kind=kind, now=now, agent_id=agent_id, subject=subject)
        return False
