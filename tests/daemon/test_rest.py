"""Once nothing is written, the write-ahead logs are emptied, and the next message is read all the same."""

import os
from contextlib import ExitStack

from scratch import Scratch, in_process, message, said

from memoryd.daemon import rest
from memoryd.daemon.loop import Loop
from memoryd.daemon.once import read_all
from memoryd.database import sqlite


def test_quiet_logs_are_emptied_and_written_ones_are_left(tmp_path):
    scratch = Scratch(tmp_path / "s")
    scratch.append(said(), "one")
    logs = [scratch.state / f"{name}.db-wal" for name in ("memoryd", "index")]
    with in_process(scratch) as app:
        read_all(app)
        app.recall.indexer.refresh(app.settings.agents[0])
        loop = Loop(app, lambda _: None)
        assert all(log.stat().st_size for log in logs)
        loop._look_at_core()
        assert all(log.stat().st_size for log in logs), "they were written a moment ago"
        before = app.clock.now().timestamp() - rest.QUIET_SECONDS
        for log in logs:
            os.utime(log, (before, before))
        loop._look_at_core()
        assert [log.stat().st_size for log in logs] == [0, 0]
        scratch.append([message("user", "The quince tree bears fruit.")], "one")
        read_all(app)
        hits = app.recall.search(app.settings.agents[0], "quince")
        assert hits[0].first_line == len(said()) + 1


def test_idle_connections_are_closed_one_in_use_goes_on_and_a_new_one_is_set_up_alike(tmp_path):
    scratch = Scratch(tmp_path / "s")
    scratch.append(said(), "one")
    log = scratch.state / "memoryd.db-wal"
    with in_process(scratch) as app:
        read_all(app)
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(sqlite.begin_read(app.engine))
        assert app.engine.pool.checkedin() == 3
        before = app.clock.now().timestamp() - rest.QUIET_SECONDS
        os.utime(log, (before, before))
        with app.engine.connect() as used:
            rest.empty_logs(app)
            assert app.engine.pool.checkedin() == 0
            assert used.exec_driver_sql("SELECT count(*) FROM turn").scalar() == len(said())
        with ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(sqlite.begin_read(app.engine))
        os.utime(log, (before, before))
        rest.empty_logs(app)
        assert app.engine.pool.checkedin() == 0, "also those that have only read"
        with app.engine.connect() as new:
            pragmas = [new.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("secure_delete", "foreign_keys")]
        assert pragmas == [1, 1]
