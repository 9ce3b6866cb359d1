"""Honest nights: a canary that flies the whole way, and dreams that come to nothing are told."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from scratch import Model, Scratch, in_process

from memoryd.daemon import schedule, scheduled_times
from memoryd.database import reads, runs, spend, sqlite
from memoryd.jobs.job import Reply
from memoryd.reading import recording
from memoryd.running import self_test
from memoryd.running.alarms import review

NIGHT = datetime(2026, 3, 5, 3, 30, tzinfo=UTC)


class World:
    def __init__(self, root, **settings):
        self.scratch = Scratch(root, **settings)
        self.now = NIGHT

    def open(self):
        self.app = in_process(self.scratch, lambda: self.now)
        return self.app

    def queue(self, kind, **more):
        run_id = runs.new_run_id(self.app.clock.now())
        now = self.app.clock.text()
        row = {"id": run_id, "kind": kind, "agent_id": "demo", "actor": "memoryd", "trigger": "schedule"}
        with sqlite.begin_write(self.app.engine) as connection:
            assert runs.enqueue(connection, row | {"created_at": now, "scheduled_for": now} | more)
        return run_id

    def carry_out(self, run_id):
        self.app.runner.run_next(only=run_id)
        with reads.open_reader(self.app.database) as reader:
            return reads.job_run(reader, run_id)

    def alarms(self):
        return self.scratch.query("SELECT kind, text FROM alarm WHERE cleared_at IS NULL ORDER BY id")

    def strays(self):
        return [path.name for path in self.scratch.state.iterdir() if path.name.startswith("trial-")]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "scratch")
    with made.open() as app:
        app.ingest.scan()
        app.ingest.flush()
        yield made


# --- the canary ---


def test_a_fact_goes_the_whole_way_and_leaves_nothing(world):
    before = sorted(path for path in world.scratch.workspace.rglob("*"))
    row = world.carry_out(world.queue(self_test.KIND))
    assert row["state"] == "succeeded", row["error"]
    assert [one["stage"] for one in row["receipt"]["canary"]["stages"]] == [
        "transcript", "ingest", "sleep", "dream", "search",
    ]  # fmt: skip
    assert world.alarms() == world.strays() == []
    assert sorted(path for path in world.scratch.workspace.rglob("*")) == before
    assert world.scratch.query("SELECT count(*) FROM turn") == [(0,)]
    assert not recording.list_paths(world.scratch.state, "demo")
    assert "Kestrel" not in json.dumps(world.scratch.log())
    assert not world.app.worker.closed  # what it borrowed is still at work


OFFLINE = Model.answer


def nothing_at_night(model, ask, backend, deadline):
    return (
        Reply("[NOTHING]\n[DREAM]\nx", "stop", "offline")
        if ask.job == "dream"
        else OFFLINE(model, ask, backend, deadline)
    )


BREAKS = {
    "transcript": lambda patch: patch.setattr(
        self_test.recording, "record", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
    ),
    "ingest": lambda patch: patch.setattr("memoryd.reading.ingest.Ingest.scan", lambda _: None),
    "sleep": lambda patch: patch.setattr(Model, "answer", lambda *_: Reply("", "stop", "offline")),
    "dream": lambda patch: patch.setattr(Model, "answer", nothing_at_night),
    "search": lambda patch: patch.setattr("memoryd.finding.recall.Recall.search", lambda *_, **__: []),
}


@pytest.mark.long
@pytest.mark.parametrize("stage", BREAKS)
def test_the_stage_that_breaks_is_named_until_a_fact_comes_through_again(world, stage):
    with pytest.MonkeyPatch.context() as patch:
        BREAKS[stage](patch)
        row = world.carry_out(world.queue(self_test.KIND))
    assert (row["state"], row["receipt"]["canary"]) == ("failed", {"model": "offline", "fell": stage}), row
    ((kind, text),) = world.alarms()
    assert kind == "canary"
    assert f"did not come through the {stage}" in text
    assert world.strays() == []
    world.app.close()
    assert f"did not come through the {stage}" in world.scratch.run("status").stdout
    with world.open():
        assert world.carry_out(world.queue(self_test.KIND))["state"] == "succeeded"
        assert world.alarms() == []


def test_a_stop_ends_it_without_an_alarm(world, monkeypatch):
    monkeypatch.setattr("memoryd.running.self_test._sleep", lambda *_: setattr(world.app.runner, "stopping", True))
    row = world.carry_out(world.queue(self_test.KIND))
    assert (row["state"], world.alarms(), world.strays()) == ("interrupted", [], [])


def test_no_reader_is_tested_anew_for_a_canary(world, monkeypatch):
    row = "INSERT INTO reader VALUES ('http://x', ?, 'v', 20, 20, 20, 20, '2026')"
    with sqlite.begin_write(world.app.engine) as connection:
        connection.exec_driver_sql(row, ("known",))
    fly, seen = self_test._sleep, []

    def sleep(shadow, fact):
        with sqlite.begin_write(shadow.engine) as connection:
            seen.extend(connection.exec_driver_sql("SELECT model FROM reader").scalars())
            connection.exec_driver_sql(row, ("found",))
        fly(shadow, fact)

    monkeypatch.setattr(self_test, "_sleep", sleep)
    assert world.carry_out(world.queue(self_test.KIND))["state"] == "succeeded"
    assert seen == ["known"]
    assert world.scratch.query("SELECT model FROM reader ORDER BY model") == [("found",), ("known",)]


def test_its_tokens_are_counted_and_none_are_taken_that_are_not_there(world, monkeypatch):
    llm = dataclasses.replace(
        world.app.settings.llm,
        provider="openai",
        model="m",
        base_url="http://localhost:9/v1",
        fallback="offline",
        verify="off",
    )
    world.app.runner.settings = dataclasses.replace(world.app.settings, llm=llm)
    asked = []

    def answer_of(_self, endpoint, ask):
        asked.append((endpoint.model, ask.job))
        text = OFFLINE(world.app.worker, ask, "offline", None).text
        return Reply(text, "stop", "openai", "m", tokens_in=300, tokens_out=40)

    monkeypatch.setattr(Model, "answer_of", answer_of, raising=False)
    monkeypatch.setattr("memoryd.app.Worker", lambda *_, **__: Model(world.scratch.root / "asked"))
    row = world.carry_out(world.queue(self_test.KIND))
    assert row["state"] == "succeeded", row
    assert asked == [("m", "sleep"), ("m", "dream")]
    day = NIGHT.date().isoformat()
    with sqlite.begin_read(world.app.engine) as connection:
        assert spend.of_day(connection, day) == 680
    world.app.runner.settings = dataclasses.replace(
        world.app.runner.settings, llm=dataclasses.replace(llm, daily_tokens=1000)
    )
    for number in range(self_test.MOST_GROUNDED):
        assert world.alarms() == [], number  # one night may have been a busy one
        world.now += timedelta(minutes=1)
        row = world.carry_out(world.queue(self_test.KIND))
        assert (row["state"], "daily_tokens, 1,000, is below the 30,000" in row["why"]) == ("skipped", True)
    assert len(asked) == 2
    ((kind, text),) = world.alarms()
    assert (kind, "3 in a row could not be made" in text, "dream.canary: false" in text) == ("canary", True, True)
    world.app.runner.settings = dataclasses.replace(world.app.runner.settings, llm=llm)
    assert world.carry_out(world.queue(self_test.KIND))["state"] == "succeeded"
    assert world.alarms() == []


@pytest.mark.long
def test_its_alarm_is_of_a_model_and_over_with_it_or_where_no_test_is_to_be_made(world):
    """Another agent that is answered by the same model clears it; so does whoever switches canaries off."""
    settings = world.app.settings
    agents = (*settings.agents, dataclasses.replace(settings.agents[0], id="other"))

    def of(**more):
        world.app.runner.settings = dataclasses.replace(settings, agents=agents, **more)

    for over in (
        lambda: world.carry_out(world.queue(self_test.KIND, agent_id="other")),
        lambda: of(dream=dataclasses.replace(settings.dream, canary=False)),
        lambda: of(modes=dataclasses.replace(settings.modes, dream="off")),
        lambda: of(llm=dataclasses.replace(settings.llm, provider="openai", model="m")),
        lambda: of(llm=dataclasses.replace(settings.llm, provider="openai")),
    ):
        of()
        world.scratch.change(
            "INSERT OR IGNORE INTO agent (id, workspace, enabled, paused, seen_at) VALUES ('other', 'x', 1, 0, 'x')"
        )
        with pytest.MonkeyPatch.context() as patch:
            BREAKS["search"](patch)
            world.carry_out(world.queue(self_test.KIND))
        review(world.app.runner)
        assert [kind for kind, _ in world.alarms()] == ["canary"]
        over()
        review(world.app.runner)
        assert world.alarms() == []


def test_each_night_has_one_behind_its_dreams_unless_it_is_switched_off(world):
    slot = next(one for one in schedule.list_due(world.app.settings, world.now) if one.kind == "dream")
    world.scratch.change("UPDATE agent SET seen_at = '2026-01-01T00:00:00Z'")
    for _ in range(2):
        scheduled_times.queue(world.app, slot, "schedule", world.app.settings)
    assert set(world.scratch.json("status")["agents"][0]["next"]) == {"dedup", "dream", "refine"}
    kinds = "SELECT kind FROM job_run WHERE kind IN ('dream', 'canary') ORDER BY scheduled_for"
    assert world.scratch.query(kinds) == [("dream",), ("canary",)]
    dream = dataclasses.replace(world.app.settings.dream, canary=False)
    world.app.settings = dataclasses.replace(world.app.settings, dream=dream)
    later = dataclasses.replace(slot, at=slot.at + timedelta(days=1))
    world.scratch.change("UPDATE job_run SET state = 'succeeded' WHERE kind = 'dream'")
    scheduled_times.queue(world.app, later, "schedule", world.app.settings)
    assert world.scratch.query(kinds) == [("dream",), ("dream",), ("canary",)]


def test_agents_of_a_fleet_share_one_for_their_model_though_each_dreams_at_its_own_time(world):
    settings, names = world.app.settings, ("demo", "other", "third", "fourth")
    for name in names[1:]:
        world.scratch.change(
            "INSERT INTO agent (id, workspace, enabled, paused, seen_at) VALUES (?, 'x', 1, 0, '')", name
        )
    world.scratch.change("UPDATE agent SET seen_at = '2026-01-01T00:00:00Z'")
    agents = tuple(dataclasses.replace(settings.agents[0], id=name) for name in names)
    fleet = dataclasses.replace(settings.fleet, database="postgresql://db/memoryd", host="host-a")
    world.app.settings = dataclasses.replace(settings, agents=agents, fleet=fleet)
    slot = next(one for one in schedule.list_due(world.app.settings, world.now) if one.kind == "dream")
    for minutes in range(0, 121, 5):
        world.now = slot.at + timedelta(minutes=minutes)
        scheduled_times.queue_ready(world.app, slot)
    dreamt = world.scratch.query("SELECT agent_id FROM job_run WHERE kind = 'dream' ORDER BY agent_id")
    assert dreamt == [(name,) for name in sorted(names)]
    assert world.scratch.query("SELECT count(*) FROM job_run WHERE kind = 'canary'") == [(1,)]


# --- nights ---


INPUT = {
    "dream": {
        "dailies": {"memory/2026-03-04.md": "x"},
        "dispositions": {"kept": 3},
        "added": 0,
        "refusals": {"grounding": 1},
    }
}
NOTHING = {"dream": {"dailies": {}}}


def night(world, number, state, receipt):
    slot = f"dream:demo:2026-03-{number:02}T03:00"
    world.scratch.change(
        "INSERT INTO job_run (id, kind, agent_id, actor, trigger, state, slot, created_at, scheduled_for, attempt,"
        " fence, cancel_requested, tokens_in, tokens_out, receipt, options)"
        " VALUES (?, 'dream', 'demo', 'memoryd', 'schedule', ?, ?, 'x', '2999', 0, 0, 0, 0, 0, ?, '{}')",
        f"run-{number}", state, slot, json.dumps(receipt),
    )  # fmt: skip
    review(world.app.runner)
    return [kind for kind, _ in world.alarms()]


def changed(**more):
    return {"dream": INPUT["dream"] | more}


@pytest.mark.long
@pytest.mark.parametrize(
    ("state", "receipt"),
    [
        ("succeeded", changed(added=1)),
        ("succeeded", changed(dispositions={"kept": 2, "merged": 1})),
        ("succeeded", changed(refusals={})),  # all was in memory already
        ("succeeded", changed(refusals={}, claims={"kept": 2})),
        ("proposed", changed()),
        ("skipped", NOTHING),
        ("skipped", {"waits_for": "run-x"}),
        ("succeeded", changed() | {"proposal": {}}),
        ("cancelled", {}),
    ],
)
def test_three_nights_that_came_to_nothing_are_told_until_one_did(world, state, receipt):
    assert night(world, 1, "succeeded", INPUT) == []
    assert night(world, 2, "dead", {}) == []
    assert night(world, 3, "skipped", {}) == ["nights"]  # an earlier night was still in the way
    assert "run-3, run-2, run-1" in world.alarms()[0][1]
    assert night(world, 4, "declined", INPUT) == ["nights"]
    assert night(world, 5, "queued", {}) == ["nights"]  # is not over
    world.scratch.change("DELETE FROM job_run WHERE id = 'run-5'")
    assert night(world, 6, state, receipt) == []
    assert night(world, 7, "succeeded", INPUT) == []


def test_a_dream_by_hand_that_succeeds_ends_the_alarm(world):
    refused = {"dream": INPUT["dream"] | {"refusals": {}, "claims": {"refused by cites": 2}}}
    for number in (1, 2, 3):
        found = night(world, number, "succeeded", refused)
    assert found == ["nights"]
    assert night(world, 4, "succeeded", changed(refusals={})) == []
    world.scratch.change("UPDATE job_run SET slot = NULL, state = 'dead' WHERE id = 'run-4'")
    review(world.app.runner)
    assert [kind for kind, _ in world.alarms()] == ["nights"]
    world.scratch.change("UPDATE job_run SET state = 'succeeded' WHERE id = 'run-4'")
    review(world.app.runner)
    assert world.alarms() == []


def test_nights_on_which_the_agent_is_paused_are_no_barren_ones(world):
    world.scratch.change("UPDATE agent SET seen_at = '2026-01-01T00:00:00Z'")
    slot = next(one for one in schedule.list_due(world.app.settings, world.now) if one.kind == "dream")
    scheduled_times.queue(world.app, slot, "schedule", world.app.settings)
    assert world.scratch.query("SELECT count(*) FROM job_run WHERE state = 'queued'") == [(2,)]
    world.scratch.change("UPDATE agent SET paused = 1")
    for number in range(1, 6):
        later = dataclasses.replace(slot, at=slot.at + timedelta(days=number))
        scheduled_times.queue(world.app, later, "schedule", world.app.settings)
        assert world.scratch.query("SELECT count(*) FROM job_run WHERE state = 'queued'") == [(2,)]
        review(world.app.runner)
        assert world.alarms() == []
    found = world.scratch.query("SELECT DISTINCT state, why FROM job_run WHERE slot LIKE 'dream:%' AND why IS NOT NULL")
    assert found == [("skipped", "the agent is paused")]


@pytest.mark.parametrize(
    ("state", "alarmed"), [("dead", True), ("blocked", True), ("queued", True), ("skipped", False)]
)
def test_a_night_whose_sleep_did_not_bring_its_day_had_something_to_dream_of(world, state, alarmed):
    told = {"dream": {"dailies": {}, "flushed": {"run-a": "succeeded", "run-b": state}}}
    for number in (1, 2, 3):
        found = night(world, number, "skipped", told)
    assert found == (["nights"] if alarmed else [])


def test_no_night_is_missed_in_the_hour_that_a_clock_change_repeats(world):
    zone = ZoneInfo("Europe/Berlin")
    settings = world.app.settings
    dream = dataclasses.replace(settings.dream, schedule="30 2 * * *")
    world.app.settings = dataclasses.replace(settings, zone=zone, dream=dream)
    world.scratch.change("UPDATE agent SET seen_at = '2026-01-01T00:00:00Z'")
    for day in (24, 25, 26, 28):
        at = datetime(2026, 10, day, 2, 30, tzinfo=zone)
        world.now = at.astimezone(UTC) + timedelta(minutes=1)
        world.scratch.change("UPDATE job_run SET state = 'cancelled' WHERE state = 'queued'")
        scheduled_times.queue(world.app, schedule.Due("dream", at), "schedule", world.app.settings)
    rows = "SELECT json_extract(options, '$.missed_slots') FROM job_run WHERE kind = 'dream' ORDER BY slot"
    assert world.scratch.query(rows) == [(0,), (0,), (0,), (1,)]


def test_a_night_in_between_that_had_nothing_to_dream_of_begins_the_count_anew(world):
    for number, (state, receipt) in enumerate(
        [("succeeded", INPUT), ("succeeded", INPUT), ("skipped", NOTHING), ("succeeded", INPUT), ("dead", {})], 1
    ):
        assert night(world, number, state, receipt) == []
    assert night(world, 6, "blocked", {}) == ["nights"]


def test_a_night_whose_sleeps_came_to_nothing_had_something_to_dream_of(world):
    quiet = {"dream": NOTHING["dream"] | {"flushed": {"run-a": "skipped", "run-b": "succeeded"}}}
    died = {"dream": NOTHING["dream"] | {"flushed": {"run-a": "skipped", "run-b": "dead"}}}
    tried = {"dream": NOTHING["dream"] | {"flushed": {"run-a": "queued"}}}
    nights = [died, tried, quiet, died, tried]
    for number, receipt in enumerate(nights, 1):
        assert night(world, number, "skipped", receipt) == []
    assert night(world, 6, "skipped", died) == ["nights"]
