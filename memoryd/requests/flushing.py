"""Store the messages of a program as a session, read it, and let it sleep; or only summarize messages, as a sleep does.

Summarizing runs in a sandbox, so nothing is stored.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Engine

from memoryd.app import LOCK, open_app
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.database import reads, runs, sqlite, turns
from memoryd.errors import MemorydError, RefusedError, StateError
from memoryd.files.folders import make_private_dir
from memoryd.files.locked_folder import make_trial
from memoryd.files.locks import Lock
from memoryd.reading import recording
from memoryd.reading.recording import Recording
from memoryd.requests import jobs_by_hand, opening, waiting
from memoryd.running import sandbox, sleeping
from memoryd.running.answering import OFFLINE
from memoryd.running.modes import AUTO
from memoryd.running.runner import block_bodies
from memoryd.transcripts import chat
from memoryd.transcripts.turn import Role

READ_PATIENCE_SECONDS = 60.0  # how long a daemon may take to read the stored messages


@dataclass(frozen=True, slots=True)
class FlushResult:
    """Hold the outcome of `flush`, without texts."""

    session: str | None  # the id of the session; None if there was nothing to store
    added: int  # the number of new messages
    run: str | None  # the id of the sleep; None if there was nothing to store
    # The state in `memoryd job show`: `succeeded`; `skipped` if nothing was new or worth keeping. With any other state,
    # the messages are stored, and memoryd tries again or a person must act.
    state: str
    why: str | None  # the error, or the reason that the run gives
    blocks: int = 0  # the number of new daily blocks
    untold: int = 0  # new blocks that `on_summary` did not get, because somebody changed them meanwhile
    errors: tuple[Exception, ...] = ()  # exceptions of `on_summary`


def flush(
    settings: Settings,
    agent: Agent,
    messages: Sequence[dict[str, Any]],
    on_summary: Callable[[str], object] | None = None,
    reason: str | None = None,
) -> FlushResult:
    """Store messages as a session, and wait until a sleep has processed it, in the daemon or here.

    `on_summary` gets the text of each new daily block. `reason` is the heading of the blocks.

    Raises:
        ValueError: The reason is none of `sleeping.REASONS`.
        RefusedError: The agent is not enabled.
        StateError: The messages are stored, but could not be read in time.
    """
    if reason is not None and reason not in sleeping.REASONS:
        raise ValueError(f"unknown reason {reason!r}; one of {', '.join(sleeping.REASONS)}")
    if not agent.enabled:
        raise RefusedError("the agent is not enabled", agent.id, f"enabled: true in {settings.source}")
    if all(chat.role_of(message) is Role.SYSTEM for message in messages):
        return FlushResult(None, 0, None, "skipped", "no message but the system's")
    with opening.open_state(settings, agent) as (_engine, scrubber):
        recorded = recording.record(settings.state_dir, agent.id, messages, scrubber, Clock())
    path = str(recorded.path)
    database = reads.database_path(settings)
    before = {run["id"] for run in reads.ask(database, reads.runs_over, agent.id, path, jobs_by_hand.SLEEP)}
    rows: list[dict[str, Any]] = []

    def queue(engine: Engine, clock: Clock, patience: float = 0.0) -> list[str]:
        session_id = _read_until(settings, agent.id, recorded, patience)
        if session_id is None:
            return []
        return jobs_by_hand.queue_sleeps(engine, clock, agent.id, session_id, force=True, reason=reason)

    while not rows:  # repeat if the daemon ends before it has read the messages; then this process reads them
        rows = waiting.run_now(
            settings, agent.id, queue, fresh=True, beside=partial(queue, patience=READ_PATIENCE_SECONDS)
        )
    with reads.open_reader(database) as reader:
        read = reads.read_until(reader, agent.id, path)
        runs_since = [
            run for run in reads.runs_over(reader, agent.id, path, jobs_by_hand.SLEEP) if run["id"] not in before
        ]
    bodies = [body for run in runs_since for body in block_bodies(agent.workspace, run["receipt"].get("files", ()))]
    texts = [body for body in bodies if body is not None]
    return FlushResult(
        session=read and read[0],
        added=recorded.added,
        run=rows[0]["id"],
        state=rows[0]["state"],
        why=rows[0]["error"] or rows[0]["why"],
        blocks=len(bodies),
        untold=len(bodies) - len(texts),
        errors=tuple(error for text in texts if on_summary is not None and (error := _call_back(on_summary, text))),
    )


def _call_back(on_summary: Callable[[str], object], text: str) -> Exception | None:
    try:
        on_summary(text)
    except Exception as error:  # noqa: BLE001 - an error of the caller's function; the memory is written
        warnings.warn(f"on_summary raised {type(error).__name__}; the memory is written", RuntimeWarning, stacklevel=5)
        return error
    return None


def _read_until(settings: Settings, agent_id: str, recorded: Recording, patience: float) -> str | None:
    """Wait until a stored session is read; return its id, or None if no process is left to read it.

    Raises:
        StateError: The time is over, although a daemon runs.
    """
    path = str(recorded.path)
    until = time.monotonic() + patience
    session_id = waiting.await_read(settings, agent_id, path, recorded.size, until)
    # An earlier None means that nobody held the lock. A process that took the lock meanwhile is waited for again.
    if session_id is None and time.monotonic() >= until and Lock(settings.state_dir / LOCK).holder() is not None:
        hint = "they are kept, and are read and slept over as soon as they can be; see the log"
        raise StateError("the messages are recorded and could not be read yet", path, hint)
    return session_id


def summarize(settings: Settings, agent: Agent, messages: Sequence[dict[str, Any]]) -> str:
    """Return the summary that a sleep would make of messages; empty if nothing in them is worth keeping.

    Raises:
        RefusedError: Too few tokens are left for the model today.
        MemorydError: The backend did not answer.
    """
    if all(chat.role_of(message) is Role.SYSTEM for message in messages):
        return ""
    make_private_dir(settings.state_dir)
    with _reserve_tokens(settings, agent) as settle, make_trial(settings.state_dir, None) as place:
        tried = sandbox.settings_to_read(settings, agent, place, sleep=AUTO)
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
