"""Lease workspaces, so that only one of several hosts with the same workspace works on it.

A file in the workspace identifies it. So a disk that two hosts mount at different places is one workspace, and a moved
agent keeps its identity. Times are those of PostgreSQL. The lock beside the memory files guards each write. The lease
prevents two hosts from doing the same work twice.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from memoryd.config import Agent
from memoryd.errors import StateError
from memoryd.files.token_file import read_or_make
from memoryd.fleet.connection import Database

FILE = ".workspace-id"
# A person who may write the database can store any text as a name.
_NO_NAME = re.compile(r"[^a-z0-9_-]")
HELD_SECONDS = 90.0
RENEW_SECONDS = 20.0
_TAKE = (
    "INSERT INTO fleet_lease AS l (workspace, host, agent, until)"
    " SELECT workspace, %s, agent, clock_timestamp() + %s * interval '1 s'"
    " FROM unnest(%s::text[], %s::text[]) AS wanted (workspace, agent) ORDER BY workspace"
    " ON CONFLICT (workspace) DO UPDATE SET host = excluded.host, agent = excluded.agent, until = excluded.until"
    " WHERE l.host = excluded.host OR l.until < clock_timestamp()"
)


def name_workspaces(agents: Sequence[Agent]) -> dict[str, str]:
    """Return the id of each agent by the identity of its workspace.

    Agents whose memory no other host can reach are left out.
    """
    found = {}
    for agent in agents:
        if agent.is_wanted and agent.memory != "state" and agent.workspace.is_dir():
            with suppress(StateError, OSError):  # the runs that need the workspace report the error
                found[read_or_make(agent.workspace / ".continuum" / "memory" / FILE, is_secret=False)] = agent.id
    return found


def take(database: Database, workspaces: Mapping[str, str]) -> dict[str, str]:
    """Take or renew the leases of workspaces.

    Return the ids of the agents whose workspace another host holds, with the name of that host.
    """
    with database.begin() as connection:
        connection.execute(_TAKE, [database.host, HELD_SECONDS, [*workspaces], [*workspaces.values()]])
        sql = "SELECT workspace, host FROM fleet_lease WHERE workspace = ANY(%s) AND host <> %s"
        rows = connection.execute(sql, [[*workspaces], database.host]).fetchall()
    return {workspaces[workspace]: _NO_NAME.sub("?", host)[:64] for workspace, host in rows}


def release(database: Database) -> None:
    """Release all leases of this host, so that another host need not wait until they expire."""
    database.fetch("DELETE FROM fleet_lease WHERE host = %s", database.host)
