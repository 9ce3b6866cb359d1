"""Import history: queue the imports, and wait until the daemon or this process has carried them out."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Engine

from memoryd.app import App
from memoryd.clock import Clock, text_of
from memoryd.config import Settings
from memoryd.daemon.once import await_settled
from memoryd.database import runs, sqlite
from memoryd.requests import daemon_client, waiting
from memoryd.running import history, rollover
from memoryd.running.answering import OFFLINE

SLICE_SECONDS = 0.5  # how long to read before the imports are checked again


class ImportRequest(NamedTuple):
    """Hold what a person asks to import."""

    since: timedelta | None = None  # only sessions with a turn in this last period; None: all
    search_only: bool = False  # index the sessions, but do not write them to memory
    tokens: int | None = None  # the most tokens for models; None: half of `llm.daily_tokens`


def run_import(
    settings: Settings, agents: Sequence[str], asked: ImportRequest, look: Callable[[], None]
) -> list[dict[str, Any]]:
    """Import the history of agents and wait; return the rows of the imports.

    An import that is already running keeps its own options. The daemon does the work if one runs, otherwise this
    process. `look` is called repeatedly meanwhile.
    """

    def ask_daemon() -> list[str]:
        daemon_client.ask(settings.state_dir, "read", path="/")  # "/" stands for all folders
        return [waiting.queue_beside(settings, one, partial(_queue, settings, one, asked)) for one in agents]

    def import_here(app: App, queued: list[str]) -> list[str]:
        queued = queued or [_queue(settings, one, asked, app.engine, app.clock) for one in agents]
        _carry_out(app, look)
        return queued

    return waiting.share_work(settings, ask_daemon, import_here, look)


def _queue(settings: Settings, agent_id: str, asked: ImportRequest, engine: Engine, clock: Clock) -> str:
    since = "" if asked.since is None else text_of(clock.now() - asked.since)
    tokens = asked.tokens if asked.tokens is not None else settings.llm.daily_tokens // 2
    options = {"since": since, "search_only": asked.search_only}
    options |= {} if settings.llm.provider == OFFLINE else {"tokens": tokens}
    return history.request(engine, clock, agent_id, options)


def _carry_out(app: App, look: Callable[[], None]) -> None:
    """Carry out the open imports until they end, or until only runs are left that wait for another attempt."""
    for agent in app.settings.agents:
        if agent.enabled and agent.workspace.is_dir():
            await_settled(app, agent)
    app.ingest.progress = look
    app.ingest.find()
    importer = history.Importer(app.runner, app.ingest)
    while True:
        moved = importer.tend()
        if (since := importer.reads_since()) is not None:
            app.ingest.read_waiting(SLICE_SECONDS, since)
        look()
        run = app.runner.run_next()
        if not (moved or since is not None or run):
            break
    app.ingest.flush()
    rollover.consider_all(app.engine, app.settings, app.clock)
    sqlite.write(app.engine, runs.make_due, rollover.KIND, app.clock.text())
    while app.runner.run_next():
        look()
