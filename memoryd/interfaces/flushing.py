"""Messages that a program hands over: recorded as a session, read, and slept over."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd.app import LOCK
from memoryd.database import reads
from memoryd.engine import recording
from memoryd.engine.clock import Clock
from memoryd.engine.runner import block_bodies
from memoryd.errors import RefusedError, StateError
from memoryd.files.locks import Lock
from memoryd.interfaces import work
from memoryd.transcripts import chat
from memoryd.transcripts.turn import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from memoryd.config import Agent, Settings
    from memoryd.engine.recording import Recorded

READ_PATIENCE_SECONDS = 60.0  # for a daemon to read what was recorded for it


class Flushed(NamedTuple):
    """What became of messages that a program handed over."""

    session: str | None  # None where nothing was to be recorded
    added: int  # messages that were new
    run: dict[str, Any] | None  # the row of the run that was waited for
    blocks: list[str]  # the bodies of the daily blocks that are new since
    lost: int  # blocks that somebody has changed since they were written


def flush(settings: Settings, agent: Agent, messages: Sequence[dict[str, Any]]) -> Flushed:
    """Record messages as a session, have them read, and let it sleep, by the daemon or here."""
    if not agent.enabled:
        raise RefusedError("the agent is not enabled", agent.id, f"enabled: true in {settings.source}")
    if all(chat.role_of(message) is Role.SYSTEM for message in messages):
        return Flushed(None, 0, None, [], 0)
    with work.state(settings, agent) as (_engine, scrubber):
        recorded = recording.record(settings.state_dir, agent.id, messages, scrubber, Clock())
    path = str(recorded.path)
    with reads.open_reader(work.database(settings)) as reader:
        before = {run["id"] for run in reads.runs_over(reader, agent.id, path, work.SLEEP)}
    rows: list[dict[str, Any]] = []

    def queue(engine: Engine, clock: Clock, patience: float = 0.0) -> list[str]:
        session_id = _read_until(settings, agent.id, recorded, patience)
        return [] if session_id is None else work.queue_sleeps(engine, clock, agent.id, session_id, force=True)

    while not rows:  # nobody was left to read them: then it is done here
        rows = work.run_now(
            settings, agent.id, queue, fresh=True, beside=partial(queue, patience=READ_PATIENCE_SECONDS)
        )
    with reads.open_reader(work.database(settings)) as reader:
        read = reads.read_until(reader, agent.id, path)
        runs_since = [run for run in reads.runs_over(reader, agent.id, path, work.SLEEP) if run["id"] not in before]
    bodies = [body for run in runs_since for body in block_bodies(agent.workspace, run["receipt"].get("files", ()))]
    blocks = [body for body in bodies if body is not None]
    return Flushed(read and read[0], recorded.added, rows[0], blocks, len(bodies) - len(blocks))


def _read_until(settings: Settings, agent_id: str, recorded: Recorded, patience: float) -> str | None:
    """Wait until a recorded session is read; its id, None where nobody is left who would read it."""
    path = str(recorded.path)
    session_id = work.await_read(settings, agent_id, path, recorded.size, time.monotonic() + patience)
    if session_id is None and Lock(settings.state_dir / LOCK).holder() is not None:
        hint = "they are kept, and are read and slept over as soon as they can be; see the log"
        raise StateError("the messages are recorded and could not be read yet", path, hint)
    return session_id
