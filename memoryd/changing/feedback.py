"""Record feedback on a memory, good or bad.

Feedback is audited and affects the ranking, but does not change the memory.
"""

from sqlalchemy import Engine

from memoryd.database import audit, memories, sqlite
from memoryd.errors import NotFoundError, RefusedError
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.memory import to_json


def give(engine: Engine, agent_id: str, memory_id: str, verdict: str, *, actor: str, now: str) -> None:
    """Record a person's rating of a memory: `good` or `bad`.

    Raises:
        NotFoundError: the agent has no such memory.
        RefusedError: the memory has ended.
    """
    with sqlite.begin_write(engine) as connection:
        memory = memories.by_ids(connection, agent_id, [memory_id]).get(memory_id)
        if memory is None:
            raise NotFoundError(f"there is no memory {memory_id!r}", hint="memoryd core list, facts list, search")
        if not memory.is_live:
            raise RefusedError(f"the memory has ended ({memory.ended_as})", memory_id, "memoryd core restore")
        states = [(f"feedback {verdict}", memory_id, to_json(memory))]
        audit.note(connection, states, AuditStamp(now, agent_id, actor))
