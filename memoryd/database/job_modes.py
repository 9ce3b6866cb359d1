"""Kinds of jobs that are held back for an agent, whatever the configuration says, until a person lets them go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection


def held(connection: Connection, agent_id: str, kind: str) -> str | None:
    """The mode that a kind of job is held to; None where it is not."""
    mode: str | None = connection.exec_driver_sql(
        "SELECT mode FROM job_mode WHERE agent_id = ? AND kind = ?", (agent_id, kind)
    ).scalar_one_or_none()
    return mode


def hold(connection: Connection, agent_id: str, kind: str, mode: str, *, now: str, why: str) -> None:
    """Hold a kind of job to a mode."""
    connection.exec_driver_sql(
        "INSERT INTO job_mode (agent_id, kind, mode, since, why) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (agent_id, kind) DO UPDATE SET mode = excluded.mode, why = excluded.why",
        (agent_id, kind, mode, now, why),
    )


def let_go(connection: Connection, agent_id: str, kind: str) -> bool:
    """Let a kind of job go on as configured; False where it was not held."""
    result = connection.exec_driver_sql("DELETE FROM job_mode WHERE agent_id = ? AND kind = ?", (agent_id, kind))
    return result.rowcount == 1
