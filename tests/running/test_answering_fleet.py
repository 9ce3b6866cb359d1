"""A run whose questions go to a fleet: what its workers put off is no fault, and only a kept reply is let go of."""

import pytest
from chat_server import ChatServer, good
from model_world import World, queue, rows, the_run, with_llm

from memoryd.jobs.job import Reply
from memoryd.llm.failure import Failure, Trouble

REPLY = "[SUMMARY]\n- [t1] User: Always run the linter before a commit of the parser.\n[MEMORIES]\n"


class Remote:
    """A fleet that answers by a list."""

    def __init__(self, *answers):
        self.answers, self.asked, self.let_go = list(answers), [], 0

    def ask(self, run, endpoint, ask, tokens):
        self.asked.append((endpoint.name, ask, tokens))
        return self.answers.pop(0)

    def forget(self, run, endpoint, ask):
        self.let_go += 1


@pytest.fixture
def app(tmp_path, workers):
    with ChatServer(good) as server, World(tmp_path, server.url, workers=workers).open() as opened:
        with_llm(opened, provider="fleet")
        queue(opened)
        yield opened
        assert not server.requests  # whatever happens, this host asks no model itself


def run(app, *answers):
    app.runner.answerer.remote = Remote(*answers)
    app.runner.run_next()
    return app.runner.answerer.remote


def alarms(app):
    return [(row["kind"], row["subject"]) for row in rows(app, "SELECT * FROM alarm WHERE cleared_at IS NULL")]


def test_a_reply_is_kept_and_then_let_go_of(app):
    remote = run(app, Reply(REPLY, "stop", "openai", "tiny-1", 60, 20))
    assert the_run(app)["state"] == "succeeded"
    assert remote.let_go == 1
    ((name, _, tokens),) = remote.asked
    assert name == "tiny-1 in the fleet"
    assert tokens > 4096


@pytest.mark.parametrize("what", ["the fleet's database cannot be reached", "no worker has answered in time"])
def test_what_the_fleet_puts_off_costs_no_attempt_no_alarm_and_no_reply(app, what):
    remote = run(app, Failure(Trouble.BUSY, what, retry_after=30.0, is_told=True))
    row = the_run(app)
    assert (row["state"], row["attempt"]) == ("queued", 0)
    assert remote.let_go == 0  # a worker may be at it: its reply is for the next attempt
    assert not alarms(app)
    assert app.runner.answerer.is_up(app.settings, "demo")  # the other agents ask on


def test_a_budget_of_the_fleet_that_is_spent_is_one_alarm_until_it_is_not(app):
    run(app, Failure(Trouble.EXHAUSTED, "the fleet has used up fleet.daily_tokens, 9, for today"))
    assert ("spend", "fleet") in alarms(app)
    with app.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE job_run SET scheduled_for = created_at")
    run(app, Reply(REPLY, "stop", "openai", "tiny-1", 60, 20))
    assert the_run(app)["state"] == "succeeded"
    assert ("spend", "fleet") not in alarms(app)


def test_a_model_that_the_workers_refuse_blocks_the_run(app):
    run(app, Failure(Trouble.BLOCKED, "no worker of the fleet may ask tiny-1"))
    assert the_run(app)["state"] == "blocked"
    assert ("model", "tiny-1 in the fleet") in alarms(app)
