"""Days that were dreamt offline because the model failed: the model dreams them again when it is back."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from chat_server import ChatServer, refuse, speak
from model_world import World, rows, with_llm

from memoryd.daemon.once import read_all
from memoryd.database import runs, sqlite
from memoryd.running import dreaming

DOWN = refuse("500 Oh")


def up(connection, _):
    connection.head()
    connection.send(speak("[NOTHING]"))


class Nights:
    """A world in which a day passes, then a night with its scheduled dream."""

    def __init__(self, world, server, app):
        self.world, self.server, self.app = world, server, app

    def pass_by(self, part):
        """Write the daily file of this day, let a night pass, and return the receipt of its dream."""
        today = self.world.time.at.date()
        path = self.world.workspace / f"memory/{today}.md"
        path.write_text(f"# Daily Memory: {today}\n\n## Notes (11:00)\n\n- Crate {today.day} stands in the hall.\n")
        self.world.time.pass_by(timedelta(hours=15))
        self.server.part = part
        app, run_id = self.app, runs.new_run_id(self.app.clock.now())
        row = {"id": run_id, "kind": "dream", "agent_id": "demo", "actor": "memoryd", "trigger": "schedule"}
        row |= {"key": "dream:demo", "options": {"scheduled": True}}
        with sqlite.begin_write(app.engine) as connection:
            assert runs.enqueue(connection, row | {"created_at": app.clock.text(), "scheduled_for": app.clock.text()})
        for _ in range(8):
            app.runner.run_next()
            self.world.time.pass_by(timedelta(minutes=30))
        self.world.time.pass_by(timedelta(hours=5))
        (found,) = rows(app, "SELECT * FROM job_run WHERE id = ?", run_id)
        assert found["state"] in {"succeeded", "skipped"}, found["why"]
        return json.loads(found["receipt"])

    def shown(self):
        """The days that the last question was about."""
        return [day for day in range(1, 31) if f"Crate {day} stands" in self.server.requests[-1].prompt]


@pytest.fixture
def nights(tmp_path, workers):
    with ChatServer(up) as server:
        world = World(tmp_path, server.url, workers=workers, llm={"fallback": "offline"})
        (world.workspace / "memory").mkdir()
        with world.open() as app:
            read_all(app)
            yield Nights(world, server, app)


def test_a_model_that_was_down_one_night_dreams_of_its_days_the_next(nights):
    first = nights.pass_by(up)
    assert (first["backend"], nights.shown()) == ("openai", [4])
    down = [nights.pass_by(DOWN) for _ in range(2)]
    assert [one["backend"] for one in down] == ["offline", "offline"]
    assert all("fallback" in one for one in down)
    back = nights.pass_by(up)
    assert (back["backend"], nights.shown()) == ("openai", [5, 6, 7])
    nights.pass_by(up)
    assert nights.shown() == [8]


def test_days_that_the_model_fails_on_again_and_again_are_left_at_last(nights, monkeypatch):
    monkeypatch.setattr(dreaming, "_MOST_TRIES", 2)
    found = [nights.pass_by(DOWN)["dream"] for _ in range(4)]
    assert [one.get("again", 0) for one in found] == [0, 1, 2, 0]
    assert len({one["from"] for one in found[:3]}) == 1
    assert found[3]["from"] == found[2]["to"]


def test_without_a_model_what_was_dreamt_is_dreamt(nights):
    nights.pass_by(DOWN)
    with_llm(nights.app, provider="offline")
    found = nights.pass_by(DOWN)
    assert (found["dream"]["from"], "again" in found["dream"]) == ("2026-05-05", True)
