"""A daemon and a worker as their users start them: questions go round, an outage costs time, orders are heeded."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from chat_server import ChatServer, good
from fleet_world import MODEL
from scratch import Scratch, said, until

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


def ended_session(fleet, host, **settings):
    scratch = fleet.scratch(host, sessions={"idle_end": "1s"}, ingest={"history": "flush"}, **settings)
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
