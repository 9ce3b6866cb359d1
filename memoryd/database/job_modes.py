"""Store which kinds of jobs must run in a given mode for an agent.

Such a mode overrides the configuration until a person releases the kind.
"""

from sqlalchemy import Connection

from memoryd.database import query


def read_mode(connection: Connection, agent_id: str, kind: str) -> str | None:
    """Return the mode to which a kind of job is held; None if the configuration applies."""
    return query.fetch_text(connection, "SELECT mode FROM job_mode WHERE agent_id = ? AND kind = ?", agent_id, kind)


def hold(connection: Connection, agent_id: str, kind: str, mode: str, *, now: str, why: str) -> None:
    """Hold a kind of job to a mode, such as `propose`. A repeated call keeps the time of the first one."""
    columns = ("agent_id", "kind", "mode", "since", "why")
    sql = query.make_upsert("job_mode", columns, "agent_id", "kind", kept=("since",))
    query.run(connection, sql, agent_id, kind, mode, now, why)


def let_go(connection: Connection, agent_id: str, kind: str) -> bool:
    """Let the configuration apply to a kind of job again; return False if the kind was not held."""
    return query.change_one(connection, "DELETE FROM job_mode WHERE agent_id = ? AND kind = ?", agent_id, kind)
