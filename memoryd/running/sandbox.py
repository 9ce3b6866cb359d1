"""Prepare a sandbox: a complete installation in a private folder, where runs cannot change real data.

The self-test sends a made-up fact through an empty sandbox. A dry run shows what a job would ask or write, by carrying
it out on copies of an agent's memory. It stops before it asks a model, because that may cost money.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine

from memoryd.clock import Clock
from memoryd.config import Agent, HooksSettings, Settings
from memoryd.database import query, runs, spend, sqlite
from memoryd.database.runs import Run
from memoryd.files import regular
from memoryd.files.locked_folder import TrialFolders
from memoryd.finding.recall import Recall
from memoryd.jobs.job import Ask, NothingToDo, first_of
from memoryd.reading.ingest import Ingest
from memoryd.running import called_refining, refining
from memoryd.running.answering import OFFLINE, endpoint_of
from memoryd.running.deciding import KINDS
from memoryd.running.runner import Runner, daily_blocks
from memoryd.tiers import archive


class Sandbox(Protocol):
    """Declare the parts of an installation that a sandbox has."""

    settings: Settings
    clock: Clock
    engine: Engine
    ingest: Ingest
    recall: Recall
    runner: Runner


Opener = Callable[[Settings], AbstractContextManager[Sandbox]]


def settings_of(settings: Settings, agent: Agent, place: TrialFolders) -> Settings:
    """Return the settings of a sandbox in `place`: with this agent only, without transcripts and hooks."""
    agents = (replace(agent, workspace=place.workspace, transcripts=()),)
    fleet = replace(settings.fleet, is_trial=True)
    return replace(settings, state_dir=place.state, agents=agents, hooks=HooksSettings(), fleet=fleet)


def settings_to_read(settings: Settings, agent: Agent, place: TrialFolders, **modes: str) -> Settings:
    """Return the settings of a sandbox that reads recorded messages at once and tries each run only once."""
    alone = settings_of(settings, replace(agent, enabled=True), place)
    ingest, jobs = replace(settings.ingest, settle=timedelta(0)), replace(settings.jobs, attempts=1)
    return replace(alone, ingest=ingest, jobs=jobs, modes=replace(settings.modes, **modes))


def carry_out(runner: Runner, run_id: str) -> dict[str, Any]:
    """Carry out a queued run in a sandbox; return its row of `job_run`, whatever its state."""
    runner.run_next(only=run_id)
    return sqlite.read(runner.engine, query.fetch_mappings, "SELECT * FROM job_run WHERE id = ?", run_id)[0]


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


def run_dry(runner: Runner, run_id: str, workspace: Path) -> dict[str, Any]:
    """Carry out a run on the copies in a sandbox, and return what it would do.

    The result has `kind`, `session_id`, and the final `state` and `why`. If the run would ask a model, `asks` has the
    model and the tokens. `would` lists what would be written, each with `what`, `where` and `content`.
    """
    run = runs.get_run(runner.engine, run_id)
    told: dict[str, Any] = {"kind": run.kind, "session_id": run.session_id, "why": None, "asks": None, "would": []}
    if run.kind in {*KINDS, refining.KIND} and runner.settings.llm.provider != OFFLINE:
        return told | _question(runner, run, workspace)
    row = carry_out(runner, run_id)
    would = [*_memories(runner, run_id), *_blocks(row["receipt"], workspace)]
    return told | {"state": row["state"], "why": row["why"] or row["error"], "would": would}


def _question(runner: Runner, run: Run, workspace: Path) -> dict[str, Any]:
    step = _first_step(runner, run, workspace)
    if not isinstance(step, Ask):
        return {"state": "skipped", "why": getattr(step, "why", None)}
    asks = {
        "model": endpoint_of(runner.settings, run.agent_id).name,
        "tokens": runner.answerer.measure(step),
        "reply_tokens": runner.settings.llm.max_output_tokens,
        "pieces": len(step.material),
    }
    return {"state": "asks", "asks": asks}


def _first_step(runner: Runner, run: Run, workspace: Path) -> object:
    """Return the first question of a run, or the reason for none."""
    if run.kind == refining.KIND:
        return called_refining.refiner_of(runner, run).first_step()
    kind = KINDS[run.kind]
    is_up = runner.answerer.is_up(runner.settings, run.agent_id)
    inputs = kind.gather(runner.source(workspace, is_up=is_up), run)
    return inputs if isinstance(inputs, NothingToDo) else first_of(kind.decide(inputs))


def _memories(runner: Runner, run_id: str) -> list[dict[str, Any]]:
    """Return the changes that the run made to memories and the profile, in order."""
    memories = (
        'SELECT a.operation AS what, m.kind AS "where", m.content FROM audit a JOIN memory m ON m.id = a.memory_id'
        " WHERE a.run_id = ? ORDER BY a.id"
    )
    sections = (
        "SELECT 'rewrite' AS what, 'profile ' || section AS \"where\", text AS content FROM profile_section"
        " WHERE run_id = ? ORDER BY section"
    )
    with sqlite.begin_read(runner.engine) as connection:
        return [row for sql in (memories, sections) for row in query.fetch_mappings(connection, sql, run_id)]


def _blocks(receipt: str, workspace: Path) -> list[dict[str, Any]]:
    """Return the blocks that were appended to daily files, and the new files of the last sessions."""
    told = json.loads(receipt or "{}").get("files", ())
    return [
        {"what": "append", "where": path, "content": block.strip()}
        for path, block in daily_blocks(workspace, told)
        if block is not None
    ] + [
        {"what": "write", "where": path, "content": (regular.read_in(workspace, path) or b"").decode()}
        for path in [item["path"] for item in told if item["path"].startswith(f"{archive.FOLDER}/")]
    ]
