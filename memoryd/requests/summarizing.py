"""Summarize messages with the configured backend, as a sleep does. It runs in a sandbox, so nothing is stored."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine

from memoryd.app import open_app
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.database import runs, sqlite, turns
from memoryd.errors import MemorydError, RefusedError
from memoryd.files import trial
from memoryd.files.folders import make_private_dir
from memoryd.reading import recording
from memoryd.requests import jobs_by_hand, opening
from memoryd.running import sandbox
from memoryd.running.answering import OFFLINE
from memoryd.running.modes import AUTO
from memoryd.transcripts import chat
from memoryd.transcripts.turn import Role


def summarize(settings: Settings, agent: Agent, messages: Sequence[dict[str, Any]]) -> str:
    """Return the summary that a sleep would make of messages; empty if nothing in them is worth keeping.

    Raises:
        RefusedError: Too few tokens are left for the model today.
        MemorydError: The backend did not answer.
    """
    if all(chat.role_of(message) is Role.SYSTEM for message in messages):
        return ""
    make_private_dir(settings.state_dir)
    with _reserve_tokens(settings, agent) as settle, trial.make_folders(settings.state_dir, None) as place:
        tried = sandbox.settings_of(settings, replace(agent, enabled=True), place)
        tried = replace(
            tried,
            ingest=replace(settings.ingest, settle=timedelta(0)),
            jobs=replace(settings.jobs, attempts=1),
            modes=replace(settings.modes, sleep=AUTO),
        )
        with open_app(tried) as app:
            try:
                recording.record(tried.state_dir, agent.id, messages, app.scrubber, app.clock)
                app.ingest.scan()
                app.ingest.flush()
                (run_id,) = jobs_by_hand.queue_sleeps(app.engine, app.clock, agent.id, None, force=True)
                row = sandbox.carry_out(app.runner, run_id)
            finally:
                settle(app.engine)
            if row["state"] not in {"succeeded", "skipped"}:
                raise MemorydError(f"the messages could not be summed up: {row['error'] or row['why']}")
            return sqlite.read(app.engine, turns.running_summary, str(row["session_id"])) or ""


@contextmanager
def _reserve_tokens(settings: Settings, agent: Agent) -> Iterator[Callable[[Engine], None]]:
    """Reserve the tokens that a summary may cost. Yield a function that books what a sandbox has spent.

    Raises:
        RefusedError: Too few tokens are left today.
    """
    if settings.llm.provider == OFFLINE:
        yield lambda _: None
        return
    clock = Clock()
    with opening.open_to_change(settings) as (engine, _):
        tokens = min(settings.llm.run_tokens, settings.llm.daily_tokens)
        reserved = sandbox.reserve(engine, settings, clock, agent.id, runs.new_run_id(clock.now()), tokens)
        if reserved is None:
            what = f"less than {tokens:,} tokens of llm.daily_tokens are left today"
            raise RefusedError(what, agent.id, "give a summary of your own, or another strategy")
        yield lambda sandbox_engine: sandbox.settle(engine, reserved, sandbox_engine)
