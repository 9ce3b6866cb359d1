"""`run --once`: everything there is to read, everything that is due, in one thread, and then the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoryd.daemon import schedule
from memoryd.engine import sleeping

if TYPE_CHECKING:
    from memoryd.app import App


def run_once(app: App) -> dict[str, Any]:
    """Read and run until nothing is due; returns counts and the ids of the runs carried out."""
    before = sleeping.count_turns(app.engine)
    read_all(app)
    sleeping.end_idle(app.engine, app.settings, app.clock)
    for slot in schedule.due(app.settings, app.clock.now()):
        sleeping.flush_live(app.engine, app.settings, app.clock, slot.slot, slot.at, "catch-up")
    app.ingest.changed.update(sleeping.unfinished(app.engine, app.settings))
    app.runner.tell_pending()
    carried_out: list[str] = []
    while True:
        changed, app.ingest.changed = app.ingest.changed, set()
        for session_id in sorted(changed):
            sleeping.count_live(app.engine, app.worker, session_id)
            sleeping.consider(app.engine, app.settings, app.clock, session_id)
        run = app.runner.run_next()
        if run is None:
            break
        carried_out.append(run.id)
        if run.session_id is not None:
            app.ingest.changed.add(run.session_id)
    return {"turns": sleeping.count_turns(app.engine) - before, "runs": carried_out}


def read_all(app: App) -> None:
    """Look at everything and read it to its end."""
    app.ingest.scan()
    while app.ingest.again:
        paths = list(app.ingest.again)
        app.ingest.again.clear()
        for path in paths:
            app.ingest.hint(path)
        app.ingest.flush()
