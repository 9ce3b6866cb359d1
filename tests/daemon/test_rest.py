"""Once nothing is written, the write-ahead logs are emptied, and the next message is read all the same."""

import os

from scratch import Scratch, in_process, message, said

from memoryd.daemon import rest
from memoryd.daemon.loop import Loop
from memoryd.daemon.once import read_all


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
