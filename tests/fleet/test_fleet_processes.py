"""A daemon and a worker as their users start them: questions go round, an outage costs time, orders are heeded."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from chat_server import ChatServer, good
from fleet_world import MODEL
from scratch import Scratch, message, recent, said, until

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(180)]
KEY = {"MEMORYD_TEST_KEY": "sk-canary-0123456789abcdef"}


@contextlib.contextmanager
def worker(fleet, url, name="worker-1", **limits):
    """A worker process near a model server; it alone has the key."""
    llm = {"provider": "openai", "model": MODEL, "base_url": url, "api_key_env": "MEMORYD_TEST_KEY", "timeout": "10s"}
    root = fleet.root / name
    scratch = Scratch.at(root) if root.exists() else Scratch(root, llm=llm, fleet=fleet.fleet | {"host": name} | limits)
    command = [
        sys.executable,
        "-m",
        "memoryd",
        "--config",
        str(scratch.config),
        "fleet",
        "worker",
        "--concurrency",
        "4",
    ]
    with (root / "stderr.txt").open("ab") as errors:
        process = subprocess.Popen(command, stderr=errors, env=os.environ | KEY, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def sleeps(scratch):
    return scratch.query("SELECT state FROM job_run WHERE kind = 'sleep'")


def ended_session(world, host, **settings):
    scratch = world.scratch(host, sessions={"idle_end": "1s"}, ingest={"history": "flush"}, **settings)
    scratch.append(said())
    return scratch


def test_a_question_goes_round_and_nothing_of_it_stays(fleet):
    scratch = ended_session(fleet, "host-a")
    with ChatServer(good) as model:
        with worker(fleet, model.url), scratch.daemon():
            until(lambda: sleeps(scratch) == [("succeeded",)], 60, "the sleep has its reply")
            until(lambda: not fleet.fetch("SELECT 1 FROM fleet_question"), why="the host lets go of the reply")
            until(lambda: not fleet.fetch("SELECT 1 FROM procrastinate_jobs WHERE task_name = 'memoryd.answer'"))
        assert len(model.requests) == 1
    assert fleet.fetch("SELECT count(*) FROM fleet_spend WHERE tokens_in > 0") == [(1,)]
    assert "PostgreSQL 16" in "".join(scratch.dailies().values())
    assert "sk-canary" not in fleet.everything_stored() + json.dumps(scratch.log())


def alarms(scratch):
    return [row[0] for row in scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")]


def test_an_outage_costs_time_raises_one_alarm_and_loses_nothing(fleet, fleet_server):
    scratch = ended_session(fleet, "host-a")
    with ChatServer(good) as model, scratch.daemon():
        until(lambda: fleet.fetch("SELECT 1 FROM fleet_question"), 60, "the question waits for a worker")
        fleet_server.kill()
        until(lambda: alarms(scratch) == ["fleet"], 60, "the outage is told")
        scratch.append([message("user", "We decided to call the parser Marvin.", at=recent())], name="two")
        until(lambda: scratch.query("SELECT 1 FROM session WHERE last_seq = 1"), 30, "transcripts are read")
        assert scratch.json("search", "parser")
        assert scratch.json("context")["text"]
        assert scratch.json("job", "run", "dedup")["state"] in {"succeeded", "skipped"}  # needs no model
        assert alarms(scratch) == ["fleet"]
        fleet_server.start()
        until(lambda: alarms(scratch) == [], 60, "the alarm ends")
        with worker(fleet, model.url):
            until(lambda: ("succeeded",) in sleeps(scratch), 120, "the question was not lost")
            own = scratch.query("SELECT id, state FROM job_run WHERE finished_at IS NOT NULL")
            until(lambda: set(own) <= set(fleet.fetch("SELECT id, state FROM fleet_run")), why="the rows are sent")


def test_a_worker_that_is_killed_while_it_asks_freezes_no_agent(fleet):
    scratch = ended_session(fleet, "host-a")
    stuck = threading.Event()

    def hang_once(connection, request):
        if stuck.is_set():
            good(connection, request)
        else:
            stuck.set()
            connection.stall()

    with ChatServer(hang_once) as model, scratch.daemon():
        with worker(fleet, model.url) as lost:
            assert stuck.wait(60)
            os.killpg(lost.pid, signal.SIGKILL)
        with worker(fleet, model.url, "worker-2"):
            until(lambda: ("succeeded",) in sleeps(scratch), 120, "another worker answers")
        assert len(model.requests) == 2
    # What the killed worker had reserved stays counted.
    assert fleet.fetch("SELECT count(*), count(tokens_in) FROM fleet_spend") == [(2, 1)]


def test_with_a_fallback_a_run_need_not_wait_for_a_fleet_that_stays_away(fleet):
    gone = {"database": "postgresql://nobody@127.0.0.1:1/none", "host": "host-a"}
    llm = {"provider": "fleet", "model": MODEL, "fallback": "offline", "verify": "off"}
    scratch = ended_session(fleet, "host-a", fleet=gone, llm=llm)
    done = scratch.run("run", "--once")
    assert done.returncode == 0, done.stderr
    scratch.change("UPDATE job_run SET created_at = '2020-01-01T00:00:00.000Z', scheduled_for = created_at")
    assert scratch.run("run", "--once").returncode == 0
    assert ("succeeded",) in sleeps(scratch)
    assert scratch.core or scratch.dailies()
