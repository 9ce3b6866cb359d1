"""Commands that run jobs or change state: by the daemon where one runs, else in this process under its lock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from memoryd.app import DATABASE, open_app
from memoryd.daemon.loop import Loop
from memoryd.daemon.once import read_all, run_once
from memoryd.database import reads, runs, sqlite, turns
from memoryd.engine import sleeping
from memoryd.engine.clock import Clock
from memoryd.engine.runner import check_kind
from memoryd.errors import LockedError, NotFoundError, StateError
from memoryd.jobs.sleep import CONSUMER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Engine

    from memoryd.config import Settings

POLL_SECONDS = 0.1
WAITING = ("queued", "running", "interrupted")


def forever(settings: Settings, relog: Callable[[Settings], None]) -> None:
    """Run the daemon until it is told to stop."""
    with open_app(settings) as app:
        Loop(app, relog).run()


def once(settings: Settings) -> dict[str, Any]:
    """Read everything, run everything due, end."""
    with open_app(settings) as app:
        return run_once(app)


def set_paused(settings: Settings, agent_id: str, *, paused: bool) -> None:
    """Pause or resume an agent; a running daemon sees it at its next look at the queue."""

    def change(engine: Engine) -> None:
        with sqlite.writing(engine) as connection:
            connection.exec_driver_sql("UPDATE agent SET paused = ? WHERE id = ?", (paused, agent_id))

    _with_state(settings, change)


def _with_state(settings: Settings, change: Callable[[Engine], None]) -> None:
    """Change the database beside a running daemon, or under its lock where none runs."""
    try:
        with open_app(settings) as app:
            change(app.engine)
    except LockedError:
        engine = _beside(settings)
        change(engine)
        engine.dispose()


def _beside(settings: Settings) -> Engine:
    path = settings.state_dir / DATABASE
    with reads.open_reader(path):
        pass  # refuses a database of another version
    return sqlite.connect(path)


def run_job(
    settings: Settings, kind: str, agent_id: Callable[[], str], *, session_id: str | None, force: bool
) -> list[dict[str, Any]]:
    """Run a job and wait for it; returns the rows of its runs.

    Raises:
        RefusedError: the kind comes with a later version.
        NotFoundError: there is no such kind, agent or session.
    """
    check_kind(kind)
    agent = agent_id()
    try:
        app = open_app(settings)
    except LockedError:
        engine = _beside(settings)
        queued = _queue(engine, Clock(), agent, session_id, force=force)
        engine.dispose()
        return _wait(settings, queued)
    with app:
        read_all(app)
        queued = _queue(app.engine, app.clock, agent, session_id, force=force)
        for run_id in queued:
            app.runner.run_next(only=run_id)
        return _wait(settings, queued, final=True)


def _queue(engine: Engine, clock: Clock, agent_id: str, session_id: str | None, *, force: bool) -> list[str]:
    rows = sleeping.candidates(engine, agent_id, ended=force or session_id is not None)
    if session_id is not None:
        rows = [row for row in rows if row["id"].startswith(session_id)]
    queued = []
    for row in rows:
        with sqlite.reading(engine) as connection:
            mark = turns.watermark(connection, row["id"], CONSUMER)
        reason = sleeping.TRIMMED if row["state"] == "active" else sleeping.NOTES
        run_id = sleeping.request(engine, clock, row, mark, reason=reason, trigger="manual", actor="human")
        queued.append(run_id or sleeping.open_run(engine, row["id"], mark))
    found = [run_id for run_id in queued if run_id is not None]
    return found or [_nothing(engine, clock, agent_id, session_id)]


def _nothing(engine: Engine, clock: Clock, agent_id: str, session_id: str | None) -> str:
    if session_id is not None:
        with sqlite.reading(engine) as connection:
            known = connection.exec_driver_sql(
                "SELECT 1 FROM session WHERE agent_id = ? AND substr(id, 1, length(?)) = ?",
                (agent_id, session_id, session_id),
            ).first()
        if known is None:
            raise NotFoundError(f"there is no session {session_id!r}", hint="memoryd session list shows them")
    run_id = sleeping.new_run_id(clock)
    why = "no session has turns past its watermark" if session_id else "no live session has turns past its watermark"
    with sqlite.writing(engine) as connection:
        runs.skip(connection, run_id, agent_id, "manual", clock.text(), why, actor="human")
    return run_id


def _wait(settings: Settings, run_ids: Sequence[str], *, final: bool = False) -> list[dict[str, Any]]:
    """Wait until runs have ended; one that failed and waits for its next attempt has ended for this command."""
    path = settings.state_dir / DATABASE
    rows: list[dict[str, Any]] = []
    for run_id in run_ids:
        while True:
            with reads.open_reader(path) as reader:
                row = reads.job_run(reader, run_id)
            if final or row["state"] not in WAITING or (row["state"] == "queued" and row["error"]):
                break
            _check_daemon(settings)
            time.sleep(POLL_SECONDS)
        rows.append(row)
    return rows


def _check_daemon(settings: Settings) -> None:
    from memoryd.files.locks import Lock

    if Lock(settings.state_dir / "memoryd.lock").holder() is None:
        raise StateError("the daemon ended before it ran this", hint="the run is queued: memoryd run --once")


def cancel(settings: Settings, run_id: str) -> dict[str, Any]:
    """Cancel a run.

    Raises:
        NotFoundError: there is none with this id.
    """
    path = settings.state_dir / DATABASE
    with reads.open_reader(path) as reader:
        full = reads.job_run(reader, run_id)["id"]
    _with_state(settings, lambda engine: _cancel(engine, full))
    with reads.open_reader(path) as reader:
        return reads.job_run(reader, full)


def _cancel(engine: Engine, run_id: str) -> None:
    runs.cancel(engine, run_id, Clock().text())


def end_session(settings: Settings, session_id: str) -> dict[str, Any]:
    """End a session by hand; what it said since its last sleep is flushed. Returns the run's row, empty if none.

    Raises:
        NotFoundError: there is no such session.
    """
    path = settings.state_dir / DATABASE
    with reads.open_reader(path) as reader:
        row = reads.find_session(reader, session_id)

    def end(engine: Engine) -> None:
        with sqlite.writing(engine) as connection:
            connection.exec_driver_sql(
                "UPDATE session SET state = 'ended', ended_at = last_turn_at WHERE id = ?", (row["id"],)
            )

    _with_state(settings, end)
    if row["parent_id"] is not None:
        return {}
    done = run_job(settings, "sleep", lambda: str(row["agent_id"]), session_id=row["id"], force=True)
    return done[0]
