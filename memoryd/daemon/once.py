"""Read everything, run everything that is due, in one thread, and end: `run --once`."""

import threading
import time
from typing import Any

from memoryd.app import App
from memoryd.changing.captures import Captures
from memoryd.changing.core_import import CORE_FILE
from memoryd.config import Agent
from memoryd.daemon import schedule, scheduled_times
from memoryd.database import runs, sqlite
from memoryd.errors import MemorydError
from memoryd.files import regular
from memoryd.running import alarms as alarming
from memoryd.running import extraction, rollover, sleeping
from memoryd.running.core_watch import CoreWatch

PATIENCE_SECONDS = 60.0
SETTLED_SECONDS = 10.0  # how long an edit of MEMORY.md may take to settle
POLL_SECONDS = 0.1


def run_once(app: App) -> dict[str, Any]:
    """Read everything and run until nothing is due. Return the number of new `turns` and the ids of the `runs`."""
    before = sleeping.count_turns(app.engine)
    CoreWatch(app.runner).look_late()
    read_all(app)
    for agent in app.settings.agents:
        if agent.enabled and agent.workspace.is_dir():
            try:
                await_settled(app, agent)
            except (MemorydError, OSError) as error:
                app.log.warning("core file not imported", agent=agent.id, why=type(error).__name__)
    sleeping.end_idle(app.engine, app.settings, app.clock)
    for slot in schedule.list_due(app.settings, app.clock.now()):
        scheduled_times.queue_ready(app, slot, is_late=True)
    scheduled_times.look_at_cores(app)
    app.ingest.changed.update(sleeping.list_unfinished(app.engine, app.settings, app.clock))
    app.runner.tell_pending()
    teller = alarming.AlarmHook(app.runner)
    carried_out: list[str] = []
    while True:
        changed, app.ingest.changed = app.ingest.changed, set()
        for session_id in sorted(changed):
            sleeping.count_or_estimate(app.engine, app.worker, app.log, session_id)
            sleeping.consider(app.engine, app.settings, app.clock, session_id)
            extraction.consider(app.engine, app.settings, app.clock, session_id)
            rollover.consider_asked(app.engine, app.settings, app.clock, session_id)
        rollover.consider_all(app.engine, app.settings, app.clock)
        # This process ends before the sessions are quiet. A run that has to wait again is left to the next process.
        extraction.hurry_questions(app.engine, app.clock, carried_out)
        sqlite.write(app.engine, runs.make_due, rollover.KIND, app.clock.text(), carried_out)
        run = app.runner.run_next()
        if run is None:
            break
        if run.session_id is not None and run.id not in carried_out:  # looking again makes a waiting question due
            app.ingest.changed.add(run.session_id)
        carried_out.append(run.id)
    Captures().write_all(app.engine, app.settings, app.clock)
    app.keeper.keep(app.engine, app.settings, app.clock)
    alarming.review(app.runner)
    _tell_end(app, teller)
    return {"turns": sleeping.count_turns(app.engine) - before, "runs": carried_out}


def _tell_end(app: App, teller: alarming.AlarmHook) -> None:
    """Send the results to the fleet, and the alarms to the user's command."""
    if app.link is not None:
        app.link.tick(app.settings)
    if teller.is_wanted():
        teller.tell()


def await_settled(app: App, agent: Agent) -> None:
    """Import an edit of `MEMORY.md` when it has settled. If it does not settle in time, the runs import it."""
    watch, settle = CoreWatch(app.runner), app.settings.ingest.settle.total_seconds()
    pause = threading.Event()
    began = since = time.monotonic()
    seen = regular.read_in(agent.workspace, CORE_FILE)
    while (now := time.monotonic()) - began < SETTLED_SECONDS:
        data = regular.read_in(agent.workspace, CORE_FILE)
        if data != seen:
            seen, since = data, now
        is_settled = now - since >= 2 * settle  # two checks, which a much shorter file needs
        if watch.take(agent, settled=is_settled) or is_settled:
            return
        pause.wait(min(POLL_SECONDS, settle))


def read_all(app: App) -> None:
    """Read every transcript to its end. Leave a transcript that takes more than a minute to the next call."""
    app.ingest.scan()
    until = app.clock.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while (due := min(app.ingest.again.values(), default=until)) < until:
        pause.wait(max(0.0, due - app.clock.monotonic()))
        now = app.clock.monotonic()
        for path in [path for path, at in app.ingest.again.items() if at <= now]:
            del app.ingest.again[path]
            app.ingest.hint(path)
        app.ingest.read_waiting()
