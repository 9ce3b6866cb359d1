"""The first audit entries of what was remembered before there was an audit."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from memoryd.database import audit, memories
from memoryd.errors import StateError
from memoryd.ledger.memory import draw_salt
from memoryd.ledger.operation import Change

if TYPE_CHECKING:
    from sqlalchemy import Connection

ACTOR = "memoryd"


def write(connection: Connection) -> None:
    """Give each memory its salt and the entry that says how it began; part of the transaction of its migration.

    The entry's time is that of the memory, so that the audit of a day shows what was remembered on it.
    """
    rows = connection.exec_driver_sql("SELECT * FROM memory ORDER BY agent_id, created_at, id").mappings().all()
    for row in rows:
        try:
            memory = replace(memories.of_row(row), salt=draw_salt(lambda: secrets.token_hex(4)))
        except (ValueError, StateError):
            continue  # no memory that any version wrote: it is left alone, and verify names it
        audit.record(
            connection,
            [Change("add", memory.id, None, memory)],
            at=memory.created_at,
            agent_id=memory.agent_id,
            actor=ACTOR,
            run_id=None,
        )
