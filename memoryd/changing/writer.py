"""Hold the tools that every change of an agent's memory needs, from the database to the limits of the guards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine

from memoryd.ledger.facts import FactLimits
from memoryd.ledger.guards import GuardLimits


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
