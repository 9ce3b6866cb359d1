"""The first audit entries of what was remembered before there was an audit."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from memoryd.database import audit, memories
from memoryd.ledger.memory import draw_salt
from memoryd.ledger.operation import Change

if TYPE_CHECKING:
    from sqlalchemy import Connection

ACTOR = "memoryd"


def write(connection: Connection) -> None:
    """Give each memory its salt and the entry that says how it began; part of the transaction of its migration.

    The entry's time is that of the memory, so that the audit of a day shows what was remembered on it.
    """
    for (memory_id,) in connection.exec_driver_sql("SELECT id FROM memory WHERE salt = ''").all():
        salt = draw_salt(lambda: secrets.token_hex(4))
        connection.exec_driver_sql("UPDATE memory SET salt = ? WHERE id = ?", (salt, memory_id))
    rows = connection.exec_driver_sql("SELECT * FROM memory ORDER BY agent_id, created_at, id").mappings().all()
    for row in rows:
        memory = memories.of_row(row)
        audit.record(
            connection,
            [Change("add", memory.id, None, memory)],
            at=memory.created_at,
            agent_id=memory.agent_id,
            actor=ACTOR,
            run_id=None,
        )
