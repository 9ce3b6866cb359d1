"""Prepare a sandbox: a complete installation in a private folder, where runs cannot change real data.

The self-test sends a made-up fact through an empty sandbox. A dry run carries out a job on copies of an agent's memory.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from sqlalchemy import Engine

from memoryd.clock import Clock
from memoryd.config import Agent, HooksSettings, Settings
from memoryd.database import query, spend, sqlite
from memoryd.files.trial import TrialFolders
from memoryd.finding.recall import Recall
from memoryd.reading.ingest import Ingest
from memoryd.running.answering import endpoint_of
from memoryd.running.runner import Runner


class Sandbox(Protocol):
    """Declare the parts of an installation that a sandbox has."""

    settings: Settings
    clock: Clock
    engine: Engine
    ingest: Ingest
    recall: Recall

    @property
    def runner(self) -> Runner:
        """Return the runner of the sandbox."""


Opener = Callable[[Settings], AbstractContextManager[Sandbox]]


def settings_of(settings: Settings, agent: Agent, place: TrialFolders) -> Settings:
    """Return the settings of a sandbox in `place`: with this agent only, without transcripts and hooks."""
    agents = (replace(agent, workspace=place.workspace, transcripts=()),)
    fleet = replace(settings.fleet, is_trial=True)
    return replace(settings, state_dir=place.state, agents=agents, hooks=HooksSettings(), fleet=fleet)


def carry_out(runner: Runner, run_id: str) -> dict[str, Any]:
    """Carry out a queued run in a sandbox; return its row of `job_run`, whatever its state."""
    runner.run_next(only=run_id)
    (row,) = sqlite.read(runner.engine, query.fetch_mappings, "SELECT * FROM job_run WHERE id = ?", run_id)
    return dict(row)


def reserve(engine: Engine, settings: Settings, clock: Clock, agent_id: str, run_id: str, tokens: int) -> int | None:
    """Reserve `tokens` of the day for a sandbox; return the reservation's id, or None if the day has too few left."""
    day = clock.now().astimezone(settings.zone).date().isoformat()
    wanted = spend.Reservation(run_id, agent_id, endpoint_of(settings, agent_id).name, day, clock.text(), tokens)
    got = spend.reserve(engine, wanted, daily=settings.llm.daily_tokens, per_run=tokens * 100)  # no limit per run
    return got if isinstance(got, int) else None


def settle(engine: Engine, reserved: int, sandbox: Engine) -> None:
    """Replace a reservation by the tokens that the sandbox has spent."""
    sql = "SELECT coalesce(sum(coalesce(tokens_in, reserved)), 0), coalesce(sum(tokens_out), 0) FROM spend"
    (spent,) = sqlite.read(sandbox, query.fetch_rows, sql)
    sqlite.write(engine, spend.settle, reserved, spend.SpentTokens(*spent), "usage")
