"""Queue the runs of a request and wait for them. The daemon carries them out, or this process if none runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from memoryd.app import LOCK, App, open_app
from memoryd.changing.guard_check import AGENT_TOOL, HUMAN
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.daemon.once import await_settled, read_all
from memoryd.database import query, reads, runs, sqlite
from memoryd.errors import LockedError, MemorydError, NotFoundError, RefusedError, StateError
from memoryd.files.folders import find_disk_fault
from memoryd.files.locks import Lock
from memoryd.requests import daemon_client, opening
from memoryd.running import queueing

T = TypeVar("T")
KNOWN_SECONDS = 1.0
TEST_SECONDS = 2.0  # between two tests of the disk; each test writes a file
WAITING = ("queued", "running", "interrupted")
UNDONE = frozenset({"failed", "dead", "blocked", "interrupted", "queued", "cancelled"})


def run_now(
    settings: Settings,
    agent_id: str,
    queue: Callable[[Engine, Clock], list[str]],  # adds the runs to the job table; returns their ids
    *,
    fresh: bool = False,  # whether to read the transcripts first
    settled: bool = False,  # whether to import an edit of `MEMORY.md` first; a daemon always does
    # Used instead of `queue` if another process or thread holds the lock.
    beside: Callable[[Engine, Clock], list[str]] | None = None,
) -> list[dict[str, Any]]:
    """Let the daemon or this process carry out runs, and wait; return their rows."""

    def ask_daemon() -> list[str]:
        if fresh:
            daemon_client.ask(settings.state_dir, "read", path="/")  # "/" stands for all folders
        return queue_beside(settings, agent_id, beside or queue)

    def run_here(app: App, queued: list[str]) -> list[str]:
        if not queued:
            if fresh:
                read_all(app)
            opening.require_here(app.engine, agent_id)
            if settled:
                await_settled(app, settings.get_agent(agent_id))
            queued = queue(app.engine, app.clock)
        for run_id in queued:
            app.runner.run_next(only=run_id)
        return queued

    rows = share_work(settings, ask_daemon, run_here)
    if fresh and all(row["state"] == "skipped" for row in rows):
        is_held_up = daemon_client.ask_data(settings.state_dir, "ping").get("waits_for_disk", False)
        so = "the last messages are not read yet, so nothing was written; repeat the command when the disk is writable"
        _require_room(settings, so, is_held_up=is_held_up)
    return rows


def share_work(
    settings: Settings,
    ask_daemon: Callable[[], list[str]],  # queues runs while another process holds the lock; returns their ids
    run_here: Callable[[App, list[str]], list[str]],  # carries out these runs, or queues them first if there are none
    look: Callable[[], None] = lambda: None,  # called while the daemon works
) -> list[dict[str, Any]]:
    """Let the daemon carry out runs, or this process if no daemon runs; return the rows of the runs."""
    queued: list[str] = []
    while True:
        try:
            app = open_app(settings)
        except LockedError:
            if not queued:
                queued = ask_daemon()
                daemon_client.ask(settings.state_dir, "wake")
            if (rows := wait(settings, queued, look)) is not None:
                return rows
            continue  # the holder of the lock is gone and has not done the work: try it in this process
        with app:
            queued = run_here(app, queued)
        return rows_of(settings, queued)


def carried_out(
    settings: Settings,
    agent_id: str,
    kind: str,
    options: dict[str, Any] | None,
    key: str | None = None,
    *,
    fresh: bool = False,
    **more: str | None,
) -> dict[str, Any]:
    """Queue one run with the arguments of `request`, wait as `run_now` does, and return its row."""

    def queue(engine: Engine, clock: Clock) -> list[str]:
        return [request(engine, clock, agent_id, kind, options, key=key, **more)]

    return run_now(settings, agent_id, queue, fresh=fresh)[0]


def failure_of(row: dict[str, Any]) -> MemorydError | None:
    """Return the error for the person who asked for a run, or None if the run ended well."""
    if row["state"] == "declined":
        return RefusedError(str(row["why"]), where=row["id"])
    if row["state"] in UNDONE:
        return MemorydError(f"the run ended as {row['state']}: {row['error'] or row['why']}", where=row["id"])
    return None


def require_done(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a run that ended well. For any other run, raise the error of `failure_of`."""
    if error := failure_of(row):
        raise error
    return row


def require_accepted(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a run that ended well and in which no guard refused anything; otherwise raise."""
    if refused := row["receipt"].get("refused", ()):
        why = row["why"] or "; ".join(f"{one['guard']}: {one['why']}" for one in refused)
        raise RefusedError(str(why), where=row["id"])
    return require_done(row)


def request(
    engine: Engine,
    clock: Clock,
    agent_id: str,
    kind: str,
    options: dict[str, Any] | None = None,
    *,
    key: str | None = None,  # runs with an equal key are the same; by default the kind, if there are no options
    text: str | None = None,  # the redacted text that a tool writes
    session_id: str | None = None,
) -> str:
    """Queue a run for a person or a tool, and return its id. A waiting run with the same key gets the new options.

    Raises:
        RefusedError: The same job is running with other options.
        StateError: The run could not be queued.
    """
    key = key or (queueing.agent_key(kind, agent_id) if options is None else None)
    actor, trigger = (AGENT_TOOL, "agent") if "witness" in (options or {}) else (HUMAN, "manual")
    asked: dict[str, Any] = {"session_id": session_id, "options": options or {}}
    with sqlite.begin_write(engine) as connection:
        if text and (same := runs.hurry_same(connection, agent_id, kind, actor, text, clock.text())) is not None:
            return same
        run_id = queueing.queue(connection, clock, kind, agent_id, key, trigger=trigger, actor=actor, **asked)
        if run_id is None:  # a run with this key is open
            run_id = runs.open_by_key(connection, key or "")
            if run_id is None:
                raise StateError("the run could not be queued", kind, "memoryd verify says whether all is well")
            _require_same(connection, run_id, options or {})
        if text is not None:
            runs.give_text(connection, run_id, text)
    if text is None:
        runs.hurry_run(engine, run_id, clock.text())
    return run_id


def _require_same(connection: Connection, run_id: str, options: Mapping[str, Any]) -> None:
    """Give a waiting run the new options.

    Raises:
        RefusedError: The run is already running with other options.
    """
    waiting = query.fetch_object(connection, "SELECT options FROM job_run WHERE id = ?", run_id)
    # The caller does not set these options, so they are not compared. `flushed` lists earlier sleeps; the run itself
    # stores the others.
    inner = {"flushed", *(runs.PINNED - options.keys())}
    before, asked = (
        {name: one for name, one in some.items() if one and name not in inner} for some in (waiting, options)
    )
    if not runs.ask_anew(connection, run_id, options) and asked and asked != before:
        hint = "wait until it is over, or end it: memoryd job cancel"
        raise RefusedError("the same job is under way, with other options", run_id, hint)


def queue_beside(settings: Settings, agent_id: str, queue: Callable[[Engine, Clock], T]) -> T:
    """Queue runs in the database while another process holds the lock; return the result of `queue`."""
    with opening.open_beside(settings) as engine:
        # The process that has just created the database may not have stored its agents yet.
        opening.retry(lambda: opening.require_here(engine, agent_id), NotFoundError, KNOWN_SECONDS)
        return queue(engine, Clock())


def wait(settings: Settings, run_ids: Sequence[str], look: Callable[[], None]) -> list[dict[str, Any]] | None:
    """Wait until runs have ended, and call `look` meanwhile. Return their rows, or None if the daemon is gone.

    A run that waits for its next attempt, or for the agent's next call, counts as ended.

    Raises:
        StateError: The disk of the state folder cannot be written, and the runs wait for it.
    """
    lock = Lock(settings.state_dir / LOCK)
    tested = time.monotonic()
    while True:
        holder = lock.holder()
        rows = rows_of(settings, run_ids)
        resting = [row for row in rows if row["state"] == "queued" and (row["error"] or row["why"] == runs.WAITS)]
        if not any(row["state"] in WAITING and row not in resting for row in rows):
            return rows
        if holder is None:
            return None
        if time.monotonic() - tested >= TEST_SECONDS:
            so = "the request is stored, and is carried out when the disk can be written"
            _require_room(settings, so, rows[-1]["id"])
            tested = time.monotonic()
        look()
        time.sleep(opening.POLL_SECONDS)


def _require_room(settings: Settings, so: str, where: str = "", *, is_held_up: bool = False) -> None:
    """Raise a StateError if the disk of the state folder cannot be written; `so` says what follows from it."""
    fault = find_disk_fault(settings.state_dir, is_held_up=is_held_up)
    if fault is not None:
        raise StateError(
            f"the state folder cannot be written ({fault[0]}): {so}", where or str(settings.state_dir), fault[1]
        )


def await_read(settings: Settings, agent_id: str, path: str, size: int, until: float) -> str | None:
    """Wait until the holder of the lock has read a transcript up to a byte. It may be another thread of this process.

    Returns the id of the session; None if nobody holds the lock, or if the time is over.
    """
    daemon_client.ask(settings.state_dir, "read", path=path)
    lock = Lock(settings.state_dir / LOCK)
    while True:
        holder = lock.holder()
        read = reads.ask(reads.database_path(settings), reads.read_until, agent_id, path)
        if read is not None and read[1] >= size:
            return read[0]
        if holder is None or time.monotonic() >= until:
            return None
        time.sleep(opening.POLL_SECONDS)


def rows_of(settings: Settings, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of runs, in the given order."""
    with reads.open_reader(reads.database_path(settings)) as reader:
        return [reads.job_run(reader, run_id) for run_id in run_ids]
