"""Store the kinds of jobs that are held for an agent, whatever the configuration, until a person releases them."""

from sqlalchemy import Connection

from memoryd.database import query


def read_mode(connection: Connection, agent_id: str, kind: str) -> str | None:
    """Return the mode to which a kind of job is held; None if it is not held."""
    return query.fetch_text(connection, "SELECT mode FROM job_mode WHERE agent_id = ? AND kind = ?", agent_id, kind)


def hold(connection: Connection, agent_id: str, kind: str, mode: str, *, now: str, why: str) -> None:
    """Hold a kind of job to a mode."""
    columns = ("agent_id", "kind", "mode", "since", "why")
    sql = query.make_upsert("job_mode", columns, "agent_id", "kind", kept=("since",))
    query.run(connection, sql, agent_id, kind, mode, now, why)


def let_go(connection: Connection, agent_id: str, kind: str) -> bool:
    """Let a held job continue as configured; return False if it was not held."""
    return query.change_one(connection, "DELETE FROM job_mode WHERE agent_id = ? AND kind = ?", agent_id, kind)
