"""Store grants as rows, in the caller's transaction, each change audited as `grant:ID`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from memoryd.database import audit, query
from memoryd.ledger import audit as chain

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Grant:
    """Hold a person's permission to see an agent's memory. Times are UTC, ISO 8601 with `Z`."""

    id: str
    agent_id: str
    uid: int  # of the person who asked
    purpose: str
    seconds: int  # how long it lasts from the consent on
    requested_at: str
    decided_at: str | None = None
    expires_at: str | None = None
    state: str = "requested"  # requested | given | declined | revoked

    def is_active(self, uid: int, now: str) -> bool:
        """Return True if this person may read now; False from the moment it expires."""
        return self.state == "given" and self.uid == uid and self.expires_at is not None and now < self.expires_at


_COLUMNS = tuple(one.name for one in fields(Grant))


def of_agent(connection: Connection, agent_id: str) -> list[Grant]:
    """Read an agent's grants, the newest first."""
    sql = f'SELECT {", ".join(_COLUMNS)} FROM "grant" WHERE agent_id = ? ORDER BY requested_at DESC, id'  # noqa: S608
    return [Grant(**row) for row in query.fetch_mappings(connection, sql, agent_id)]


def write(connection: Connection, grant: Grant, operation: str, actor: str, now: str) -> None:
    """Write a grant to its row and audit it."""
    values = asdict(grant)
    sets = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name != "id")
    sql = (
        f'INSERT INTO "grant" ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})'  # noqa: S608
        f" ON CONFLICT (id) DO UPDATE SET {sets}"
    )
    query.run(connection, sql, *values.values())
    _note(connection, grant, operation, actor, now, chain.dump_state(**values))


def note_read(connection: Connection, grant: Grant, what: str, now: str) -> None:
    """Audit that content was read under a grant: by which command and when, never what."""
    _note(connection, grant, "read", "human", now, chain.dump_state(**asdict(grant), read=what, read_at=now))


def _note(connection: Connection, grant: Grant, operation: str, actor: str, now: str, state: str) -> None:
    name = chain.GRANT + grant.id
    audit.note(connection, [(operation, name, state)], at=now, agent_id=grant.agent_id, actor=actor, run_id=None)
