"""Hold the tools that every change of an agent's memory needs, from the database to the limits of the guards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.changing import guard_check
from memoryd.ledger.facts import FactLimits
from memoryd.ledger.guards import Caller, GuardLimits
from memoryd.ledger.operation import Operation


@dataclass(frozen=True, slots=True)
class Writer:
    """Hold the tools of a commit."""

    engine: Engine
    workspace: Path
    now: Callable[[], str]
    new_id: Callable[[], str]  # draws the eight hex digits of a memory's id
    step: Callable[[str], None] = lambda _name: None  # called before and after each change
    limits: GuardLimits = field(default_factory=GuardLimits)
    settle_seconds: float = 0.0  # a file counts as complete if it has not changed for this time
    redact: Callable[[Sequence[str]], list[str]] = list
    facts: FactLimits = field(default_factory=FactLimits)

    def judge(
        self, connection: Connection, agent_id: str, operations: Sequence[Operation], caller: Caller, **more: Any
    ) -> guard_check.GuardCheckResult:
        """Return the operations that the guards accept, as `guard_check.judge` does."""
        now, new_hex = self.now(), self.new_id
        return guard_check.judge(
            connection, agent_id, operations, caller=caller, now=now, new_hex=new_hex, limits=self.limits, **more
        )
