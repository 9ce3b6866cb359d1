"""Alarms: what a person must know until it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection


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


def is_open(connection: Connection, *, kind: str, agent_id: str = "", subject: str = "") -> bool:
    """Say whether this alarm is open."""
    return (
        connection.exec_driver_sql(
            "SELECT 1 FROM alarm WHERE kind = ? AND agent_id = ? AND subject = ? AND cleared_at IS NULL",
            (kind, agent_id, subject),
        ).first()
        is not None
    )
