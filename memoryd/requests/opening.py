"""Open the state of memoryd for a request: beside a running daemon, or under the daemon's lock."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from memoryd.app import App, open_app
from memoryd.changing import ledger_runs
from memoryd.changing.core_import import CORE_FILE, digest_of
from memoryd.changing.recovery import Keeper
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.database import alarms, audit, reads, runs, sqlite
from memoryd.errors import LockedError, MemorydError, NotFoundError, RefusedError
from memoryd.files import regular
from memoryd.files.log import get_logger
from memoryd.ledger import audit as chain
from memoryd.reading.scrubbing import Scrubber
from memoryd.requests import daemon_client
from memoryd.requests.scanner import open_scrubber
from memoryd.running.alarms import HELD
from memoryd.running.core_watch import CoreWatch
from memoryd.running.queueing import agent_key

RELOAD = "reload it: SIGHUP, or stop and start it"
POLL_SECONDS = 0.1
MADE_SECONDS = 10.0
T = TypeVar("T")


@contextmanager
def open_to_change(settings: Settings) -> Iterator[tuple[Engine, App | None]]:
    """Open the database for a change. Yields the engine and, if no daemon runs, the app, which then holds the lock."""
    try:
        app = open_app(settings)
    except LockedError:
        with open_beside(settings) as engine:
            yield engine, None
    else:
        with app:
            yield app.engine, app


@contextmanager
def open_beside(settings: Settings) -> Iterator[Engine]:
    """Open the database while another process holds the lock. A database that is being created is waited for."""
    path = reads.database_path(settings)

    def connect() -> Engine:
        with reads.open_reader(path):  # raises for a database of another version
            return sqlite.connect(path, Keeper(settings.state_dir, get_logger(part="recovery")).tell)

    engine = retry(connect, reads.NotMadeError, MADE_SECONDS)  # the holder of the lock may be creating the database
    try:
        yield engine
    finally:
        engine.dispose()


def retry(function: Callable[[], T], error: type[MemorydError], seconds: float) -> T:
    """Call a function until it does not raise `error`, for at most so many seconds; then raise the error."""
    late = time.monotonic() + seconds
    while True:
        try:
            return function()
        except error:
            if time.monotonic() > late:
                raise
            time.sleep(POLL_SECONDS)


@contextmanager
def open_connection(settings: Settings) -> Iterator[Connection]:
    """Open a read transaction on the database. Another process may hold the lock."""
    with open_beside(settings) as engine, sqlite.begin_read(engine) as connection:
        yield connection


def catch_up(settings: Settings, agent: Agent) -> None:
    """Import an agent's edits of `MEMORY.md`, by the daemon or here. Wait while the file is being saved."""
    path = reads.database_path(settings)
    if not path.exists():
        return
    known = reads.ask(path, reads.read_agreed_hash, agent.id)
    data = regular.read_in(agent.workspace, CORE_FILE)
    if known == digest_of(data) or (known is None and not data):
        return
    try:
        with open_app(settings) as app:
            CoreWatch(app.runner).take(agent, settled=False)
            waiting = sqlite.read(app.engine, runs.open_by_key, agent_key(ledger_runs.IMPORT, agent.id))
            if waiting is not None:
                app.runner.run_next(only=waiting)
    except LockedError:
        daemon_client.ask(settings.state_dir, "import", agent=agent.id)


@contextmanager
def open_state(settings: Settings, agent: Agent) -> Iterator[tuple[Engine, Scrubber]]:
    """Open the database and the scrubber, beside a running daemon or under its lock.

    Use this only for changes that fit into one transaction.
    """
    with open_to_change(settings) as (engine, app):
        require_known(engine, agent.id)
        with nullcontext(app.scrubber) if app else open_scrubber(settings) as scrubber:
            yield engine, scrubber


def require_known(engine: Engine, agent_id: str) -> None:
    """Check that the database knows an agent.

    Raises:
        NotFoundError: The daemon has not read the configuration that names the agent.
    """
    if not sqlite.read(engine, runs.knows_agent, agent_id):
        raise NotFoundError(f"the daemon does not know the agent {agent_id!r} yet", hint=RELOAD)


def note(settings: Settings, agent: Agent, operation: str, name: str, actor: str, **state: Any) -> None:
    """Audit an act of a person or an agent that changes no memory. The time is added to `state`."""
    now = Clock().text()
    with open_to_change(settings) as (engine, _):
        require_known(engine, agent.id)
        with sqlite.begin_write(engine) as connection:
            states = [(operation, chain.ACCESS + name, chain.dump_state(**state, at=now))]
            audit.note(connection, states, chain.AuditStamp(now, agent.id, actor))


def require_here(engine: Engine, agent_id: str) -> None:
    """Check that this host carries out the runs of an agent.

    Raises:
        NotFoundError: The database does not know the agent.
        RefusedError: Another host of the fleet works on the agent's workspace, so a run would wait for it.
    """
    require_known(engine, agent_id)
    held = [one for one in sqlite.read(engine, alarms.list_open) if (one.kind, one.agent_id) == (HELD, agent_id)]
    if held:
        raise RefusedError(held[0].text, agent_id, "do it there; memoryd fleet status shows the host")
