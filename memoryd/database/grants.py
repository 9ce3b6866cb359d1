"""Store grants in the caller's transaction; each change is audited as `grant:ID`."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields

from sqlalchemy import Connection

from memoryd.database import audit, query
from memoryd.ledger import audit as chain


@dataclass(frozen=True, slots=True)
class Grant:
    """Hold a person's permission to see an agent's memory. Times are UTC, ISO 8601 with `Z`."""

    id: str
    agent_id: str
    uid: int  # of the person who asks
    purpose: str
    seconds: int  # how long it lasts after the consent
    requested_at: str
    decided_at: str | None = None
    expires_at: str | None = None
    state: str = "requested"  # requested | given | declined | revoked
    person: str = ""  # the name of the person; empty in requests of earlier versions
    scope: str = ""  # kinds of memory and ids of runs, separated by spaces; empty: the whole memory
    reported_at: str | None = None  # when the journal told the agent what was read

    def is_active(self, uid: int, now: str, person: str = "") -> bool:
        """Return True if this person may read at this time. At `expires_at` itself, the grant is no longer active."""
        is_theirs = self.uid == uid and self.person in {"", person}
        return self.state == "given" and is_theirs and self.expires_at is not None and now < self.expires_at

    def covers(self, parts: Collection[str]) -> bool:
        """Return True if the grant's scope has one of these kinds of memory or run ids, or is the whole memory."""
        return not self.scope or bool(set(self.scope.split()) & set(parts))

    def is_over(self, now: str) -> bool:
        """Return True if the grant was given and has expired or was revoked."""
        return self.expires_at is not None and (self.state != "given" or self.expires_at <= now)


_COLUMNS = tuple(one.name for one in fields(Grant))


def of_agent(connection: Connection, agent_id: str) -> list[Grant]:
    """Return an agent's grants and requests, newest first."""
    sql = f'SELECT {", ".join(_COLUMNS)} FROM "grant" WHERE agent_id = ? ORDER BY requested_at DESC, id'  # noqa: S608
    return [Grant(**row) for row in query.fetch_mappings(connection, sql, agent_id)]


def list_open(connection: Connection, agent_id: str, since: str) -> list[Grant]:
    """Return the open requests since `since`, oldest first; older ones can no longer be answered."""
    found = of_agent(connection, agent_id)
    return [one for one in reversed(found) if one.state == "requested" and one.requested_at >= since]


def write(connection: Connection, grant: Grant, operation: str, actor: str, now: str) -> None:
    """Write a grant to its row, and audit the operation."""
    values = asdict(grant)
    query.run(connection, query.make_upsert("grant", _COLUMNS, "id"), *values.values())
    _note(connection, grant, operation, actor, now, chain.dump_state(**values))


def note_read(connection: Connection, grant: Grant, what: str, now: str, actor: str = "human") -> None:
    """Audit a read under a grant. `what` names the command or page, and the rows."""
    _note(connection, grant, "read", actor, now, chain.dump_state(**asdict(grant), read=what, read_at=now))


def list_reads(connection: Connection, grant: Grant) -> list[dict[str, str]]:
    """Return what was read under a grant, in order.

    Each item has `at`, `actor`, and `read`: the page or command with its rows.
    """
    sql = (
        "SELECT a.at, a.actor, json_extract(c.text, '$.read') AS read FROM audit a JOIN content c"
        " ON c.sha256 = a.\"after\" WHERE a.agent_id = ? AND a.memory_id = ? AND a.operation = 'read' ORDER BY a.id"
    )
    return query.fetch_mappings(connection, sql, grant.agent_id, chain.GRANT + grant.id)


def _note(connection: Connection, grant: Grant, operation: str, actor: str, now: str, state: str) -> None:
    name = chain.GRANT + grant.id
    audit.note(connection, [(operation, name, state)], chain.AuditStamp(now, grant.agent_id, actor))
