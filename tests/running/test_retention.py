"""What a state folder takes of the disk, and what of it may go: by age, by kind, and never anything else."""

import dataclasses
import os
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta

import pytest
from scratch import Scratch, filler, in_process, said

from memoryd.clock import Clock
from memoryd.config import RetentionSettings
from memoryd.daemon.loop import Loop
from memoryd.daemon.once import run_once
from memoryd.database import sqlite
from memoryd.files import state_files
from memoryd.files.log import get_logger
from memoryd.running import retention

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ALL = RetentionSettings(logs=timedelta(days=30), runs=timedelta(days=30), copies=timedelta(days=30))
OLD = "2026-01-02T03:04:05.000Z"


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch")
    made.append([*said(), filler()])
    return made


def laid_out(scratch):
    """Files of each kind, old and new, and such as only look like one."""
    state = scratch.state
    for name in (
        "memoryd.db.damaged-20260102T030405.000Z", "memoryd.db.damaged-20260102T030405.000Z-wal",
        "memoryd.db.damaged-20260531T030405.000Z-2", "memoryd.db.damaged-by-hand", "memoryd.replaced-99999999T999999",
        "my notes.damaged-20260102T030405.000Z",
    ):  # fmt: skip
        (state / name).write_bytes(b"x" * 5000)
    folder = state / "memoryd.replaced-20260102T030405.000Z"
    folder.mkdir()
    (folder / "memoryd.db").write_bytes(b"x" * 5000)
    logs = state / "log"
    logs.mkdir(exist_ok=True)
    for number, age in ((1, 1), (2, 40), (3, 400), (7, 400)):
        path = logs / f"memoryd.jsonl.{number}"
        path.write_bytes(b"{}\n")
        at = (NOW - timedelta(days=age)).timestamp()
        os.utime(path, (at, at))


def names(scratch):
    return {str(path.relative_to(scratch.root)) for path in scratch.root.rglob("*")}


def pruned(scratch, settings, now=NOW):
    with in_process(scratch, lambda: now) as app:
        retention.prune(
            app.engine,
            dataclasses.replace(app.settings, retention=settings),
            Clock(now=lambda: now),
            get_logger("memoryd.test"),
            app.recall.indexer.drop_sessions,
        )


def test_by_default_all_is_kept(scratch):
    scratch.run("run", "--once")
    laid_out(scratch)
    before = names(scratch)
    pruned(scratch, RetentionSettings())
    assert names(scratch) >= before


def test_what_is_old_goes_and_nothing_else(scratch):
    scratch.run("run", "--once")
    laid_out(scratch)
    (scratch.workspace / ".continuum/memory/backup/run-x").mkdir(parents=True)
    before = names(scratch)
    pruned(scratch, ALL)
    assert before - names(scratch) == {
        "state/memoryd.db.damaged-20260102T030405.000Z",
        "state/memoryd.db.damaged-20260102T030405.000Z-wal",
        "state/memoryd.replaced-20260102T030405.000Z",
        "state/memoryd.replaced-20260102T030405.000Z/memoryd.db",
        "state/log/memoryd.jsonl.2",
        "state/log/memoryd.jsonl.3",
    }


def test_a_link_in_the_state_folder_is_removed_itself_and_not_followed(scratch, tmp_path):
    scratch.run("run", "--once")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").write_text("x")
    (scratch.state / "memoryd.replaced-20260102T030405.000Z").symlink_to(mine)
    pruned(scratch, ALL)
    assert (mine / "precious").exists()
    assert not (scratch.state / "memoryd.replaced-20260102T030405.000Z").is_symlink()


def test_only_rows_that_changed_cost_and_settled_nothing_go(scratch):
    with in_process(scratch, lambda: NOW - timedelta(days=60)) as app:
        run_once(app)
        with sqlite.begin_write(app.engine) as connection:
            for name, state, finished, slot in (
                ("old", "skipped", OLD, None), ("older", "cancelled", OLD, None),
                ("new", "skipped", "2026-05-31", None), ("slot", "skipped", OLD, "sleep:2026-01-02"),
                ("dead", "dead", OLD, None), ("paid", "skipped", OLD, None), ("moved", "skipped", OLD, None),
            ):  # fmt: skip
                connection.exec_driver_sql(
                    'INSERT INTO job_run (id, kind, agent_id, actor, "trigger", state, slot, options, created_at,'
                    " scheduled_for, finished_at, attempt, fence, cancel_requested, tokens_in, tokens_out, receipt)"
                    " VALUES (?, 'sleep', 'demo', 'memoryd', 'manual', ?, ?, '{}', ?, ?, ?, 0, 0, 0, 0, 0, '{}')",
                    (name, state, slot, OLD, OLD, finished),
                )
            connection.exec_driver_sql(
                "INSERT INTO spend (run_id, agent_id, endpoint, day, at, reserved, how)"
                " VALUES ('paid', 'demo', 'x', '2026-01-02', ?, 1, 'usage')",
                (OLD,),
            )
            connection.exec_driver_sql(
                "INSERT INTO watermark (session_id, consumer, seq, moved_at, run_id)"
                " SELECT id, 'sleep', 0, ?, 'moved' FROM session",
                (OLD,),
            )
    before = {row[0] for row in scratch.query("SELECT id FROM job_run")}
    pruned(scratch, ALL)
    assert before - {row[0] for row in scratch.query("SELECT id FROM job_run")} == {"old", "older"}


def test_status_tells_the_use_of_each_kind_and_what_is_kept(scratch):
    scratch.run("run", "--once")
    laid_out(scratch)
    scratch.write_config(retention={"copies": "30d"})
    disk = scratch.json("status")["disk"]
    assert disk["state_bytes"] == sum(disk[f"{kind}_bytes"] for kind in state_files.KINDS)
    assert disk["copies_bytes"] >= 5 * 4096
    assert min(disk["database_bytes"], disk["log_bytes"], disk["other_bytes"]) > 0
    assert disk["retention"] == {"logs": None, "runs": None, "copies": "30d", "turns": None, "backups": 7}
    told = scratch.run("status").stdout
    assert "; kept: copies 30d" in told


def test_status_counts_the_backups_of_the_workspaces(scratch):
    (scratch.workspace / "MEMORY.md").write_text("- mine\n", encoding="utf-8")
    scratch.write_config(sessions={"idle_end": "1s"}, ingest={"history": "flush"})
    scratch.run("run", "--once")
    assert scratch.query("SELECT state FROM job_run WHERE state = 'succeeded'") == [("succeeded",)]
    assert scratch.json("status")["disk"]["backup_bytes"] >= 4096


def test_what_is_old_goes_as_soon_as_the_chore_before_is_done(scratch):
    scratch.run("run", "--once")
    laid_out(scratch)
    scratch.write_config(retention={"copies": "1d"})
    old = scratch.state / "memoryd.db.damaged-20260102T030405.000Z"
    with in_process(scratch) as app:
        loop = Loop(app, lambda _settings: None)
        now = loop.prune.at
        loop.tasks["chore"] = before = Future()
        loop._tend(now)
        assert old.exists()
        before.set_result(None)
        loop._tend(now + 5)
        loop.pool.shutdown()
        assert not old.exists()
