"""Hold what every change of an agent's memory works with, from the database to the limits of the guards."""

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
    """Hold what a commit works with."""

    engine: Engine
    workspace: Path
    now: Callable[[], str]
    new_id: Callable[[], str]  # draws the eight hex digits of a memory's id
    step: Callable[[str], None] = lambda _name: None  # told before and after each change
    limits: GuardLimits = field(default_factory=GuardLimits)
    settle_seconds: float = 0.0  # that a file must have been left alone to be taken for whole
    redact: Callable[[Sequence[str]], list[str]] = list
    facts: FactLimits = field(default_factory=FactLimits)

    def judge(
        self, connection: Connection, agent_id: str, operations: Sequence[Operation], caller: Caller, **more: Any
    ) -> guard_check.GuardCheckResult:
        """Return the operations that the guards accept, as `gate.judge` does."""
        now, new_hex = self.now(), self.new_id
        return guard_check.judge(
            connection, agent_id, operations, caller=caller, now=now, new_hex=new_hex, limits=self.limits, **more
        )
