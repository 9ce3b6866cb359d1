"""The first audit entries of what was remembered before there was an audit."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from memoryd.database import audit, memories, query
from memoryd.errors import StateError
from memoryd.ledger.audit import events_of
from memoryd.ledger.memory import draw_salt
from memoryd.ledger.operation import Change

if TYPE_CHECKING:
    from sqlalchemy import Connection

ACTOR = "memoryd"
_LATER = {"note": None, "lost": None}  # columns that the table gets by later migrations


def write(connection: Connection) -> None:
    """Give each memory its salt and the entry that says how it began; part of the transaction of its migration.

    The entry's time is that of the memory, so that the audit of a day shows what was remembered on it.
    """
    for row in query.mappings(connection, "SELECT * FROM memory ORDER BY agent_id, created_at, id"):
        try:
            memory = replace(memories.of_row({**_LATER, **row}), salt=draw_salt(lambda: secrets.token_hex(4)))
        except (ValueError, StateError):
            continue  # no memory that any version wrote: it is left alone, and verify names it
        change, at = Change("add", memory.id, None, memory), memory.created_at
        # The table has no later column yet, so that the row is not written as memories are now.
        query.run(connection, "UPDATE memory SET salt = ? WHERE id = ?", memory.salt, memory.id)
        audit.append(connection, *events_of([change], at=at, agent_id=memory.agent_id, actor=ACTOR, run_id=None))
