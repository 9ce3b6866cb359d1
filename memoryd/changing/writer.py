"""Hold the tools that every change of an agent's memory needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine

from memoryd.config import FactsSettings
from memoryd.ledger.guards import GuardLimits


@dataclass(frozen=True, slots=True)
class Writer:
    """Hold the database, the workspace, the clock, the source of ids and the limits for a commit."""

    engine: Engine
    workspace: Path
    now: Callable[[], str]
    new_id: Callable[[], str]  # returns eight random hex digits
    step: Callable[[str], None] = lambda _name: None  # called with a name around each change, for tests
    limits: GuardLimits = field(default_factory=GuardLimits)
    settle_seconds: float = 0.0  # a file that has not changed for this time counts as complete
    redact: Callable[[Sequence[str]], list[str]] = list
    facts: FactsSettings = field(default_factory=FactsSettings)
