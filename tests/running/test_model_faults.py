"""Whole sleeps against a scripted server that plays each fault over real sockets.

After one attempt at each: memory, watermark, job table and spend are what they must be, and the key is nowhere; after
the server has come to its senses the same run remembers the session, once.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from chat_server import FAULTS, ChatServer, good
from daily import one_in
from model_world import KEY, World, queue, rows, the_run, with_llm


@pytest.fixture
def world(tmp_path, workers):
    with ChatServer(good) as server:
        yield World(tmp_path, server.url, workers=workers), server


def test_there_are_enough_of_them():
    assert len(FAULTS) >= 40


def kind_of(name):
    return FAULTS[name].state, FAULTS[name].spent, FAULTS[name].calls


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(3, FAULTS, kind_of))
def test_fault(name, world):
    fault = FAULTS[name]
    world, server = world
    server.part = fault.part
    world.llm = {"timeout": f"{fault.timeout:g}s"}
    with world.open() as app:
        queue(app)
        app.runner.run_next()
        run = the_run(app)
        assert (run["state"], len(server.requests)) == (fault.state, fault.calls), run["error"] or run["why"]
        assert fault.why in (run["error"] or run["why"] or "")
        check_spend(app, fault)
        if fault.state == "succeeded":
            check_remembered(world, app, server)
        else:
            assert not (world.workspace / "memory").exists()
            assert not (world.workspace / "MEMORY.md").exists()
            assert not rows(app, "SELECT * FROM watermark")
            assert run["reply"] is None
            assert run["attempt"] == (fault.attempt if fault.state == "queued" else 0)
            recovered(world, app, server)
        check_key(world, server)


def recovered(world, app, server):
    """The server has come to its senses, and time has passed: an hour is the longest that anything waits."""
    server.part = good
    with_llm(app, timeout=timedelta(seconds=30))
    app.runner.run_next()
    assert the_run(app)["state"] in {"queued", "blocked"}  # not before its time
    world.time.pass_by(timedelta(minutes=90))
    app.runner.answerer.tend(0)
    app.runner.run_next()
    check_remembered(world, app, server)
    assert not rows(app, "SELECT * FROM alarm WHERE cleared_at IS NULL")


def check_remembered(world, app, server):
    run = the_run(app)
    assert (run["state"], run["error"], run["why"]) == ("succeeded", None, None)
    assert world.dailies.count("- User: Our database is Postgres") == 1
    assert (world.workspace / "MEMORY.md").read_text().count("Always run the linter") == 1
    (mark,) = rows(app, "SELECT * FROM watermark WHERE consumer = 'sleep'")
    assert mark["seq"] == rows(app, "SELECT max(seq) AS seq FROM turn")[0]["seq"]
    totals = rows(app, "SELECT sum(tokens_in) AS i, sum(tokens_out) AS o, count(*) AS n FROM spend")[0]
    assert (run["tokens_in"], run["tokens_out"], len(server.requests)) == (totals["i"], totals["o"], totals["n"])


def check_spend(app, fault):
    (spent,) = rows(app, "SELECT * FROM spend")
    if fault.spent == "nothing":
        assert (spent["tokens_in"], spent["tokens_out"]) == (0, 0)
    elif fault.spent == "reported":
        assert (spent["tokens_in"], spent["tokens_out"], spent["how"]) == (700, 60, "usage")
    else:
        assert spent["how"] == "estimate"
        assert 500 < spent["tokens_in"] < 2000
        assert 0 <= spent["tokens_out"] < 200_000
        assert spent["tokens_in"] + spent["tokens_out"] < 110_000


def check_key(world, server):
    assert KEY.encode() not in world.everything_written()
    assert KEY.encode() not in server.everything
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in server.requests)
    assert all(request.line == "POST /v1/chat/completions HTTP/1.1" for request in server.requests)
