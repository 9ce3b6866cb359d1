"""Alarms: told once to whom the user names, and gone when what they are about is over."""

import dataclasses
from datetime import timedelta

import pytest
from scratch import STARTED, Scratch, filler, in_process, recent, said, until

from memoryd.changing import forgetting, ledger_runs
from memoryd.clock import Clock
from memoryd.daemon.once import run_once
from memoryd.database import alarms, query, runs, sqlite
from memoryd.requests import waiting
from memoryd.running import alarms as alarming
from memoryd.running import hooks
from memoryd.running.alarms import AlarmHook, review
from memoryd.running.core_watch import CoreWatch

NOW = STARTED + timedelta(minutes=45)


class World:
    def __init__(self, root, **settings):
        self.scratch = Scratch(root, **settings)
        self.now, self.ticks = NOW, 1000.0

    def open(self):
        self.app = in_process(self.scratch, lambda: self.now)
        self.app.runner.clock = Clock(now=lambda: self.now, monotonic=lambda: self.ticks)
        return self.app

    def alarm(self, kind, subject="", agent="", text="something is wrong"):
        with sqlite.begin_write(self.app.engine) as connection:
            return alarms.raise_alarm(
                connection, kind=kind, text=text, now=self.app.clock.text(), agent_id=agent, subject=subject
            )

    def open_ones(self):
        return [row[0] for row in self.scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL ORDER BY id")]

    def queue(self, kind, actor="memoryd", **more):
        run_id = runs.new_run_id(self.app.clock.now())
        now = self.app.clock.text()
        row = {"id": run_id, "kind": kind, "agent_id": "demo", "actor": actor, "trigger": "schedule"}
        with sqlite.begin_write(self.app.engine) as connection:
            assert runs.enqueue(connection, row | {"created_at": now, "scheduled_for": now} | more)
        return run_id


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "scratch")
    with made.open():
        run_once(made.app)
        yield made


def told(world):
    path = world.scratch.root / "told"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def with_hook(world, command):
    hooks = dataclasses.replace(world.app.settings.hooks, on_alarm=command)
    world.app.settings = world.app.runner.settings = dataclasses.replace(world.app.settings, hooks=hooks)


TELL = 'echo "$MEMORYD_AGENT $MEMORYD_ALARM $(cat)" >> {}/told'


# --- telling ---


def test_each_alarm_is_told_once_and_by_whom_it_is(world):
    with_hook(world, TELL.format(world.scratch.root))
    world.alarm("dead", "x", "demo", "it was given up")
    teller = AlarmHook(world.app.runner)
    for _ in range(3):
        teller.tell()
        world.alarm("dead", "x", "demo", "it was given up once more")  # the same one
    assert told(world) == "demo dead dead: it was given up\n"
    with sqlite.begin_write(world.app.engine) as connection:
        alarms.clear_alarm(connection, kind="dead", now="x", agent_id="demo", subject="x")
    world.alarm("dead", "x", "demo", "again")
    AlarmHook(world.app.runner).tell()  # after a restart
    assert told(world).splitlines() == ["demo dead dead: it was given up", "demo dead dead: again"]


def test_what_the_command_fails_at_is_tried_again_and_then_left(world):
    with_hook(world, f"echo x >> {world.scratch.root}/told; exit 3")
    world.alarm("disk")
    teller = AlarmHook(world.app.runner)
    for _ in range(8):
        teller.tell()
        teller.tell()  # not at once
        world.ticks += 3600
    assert told(world) == "x\n" * alarming.TRIES
    assert world.scratch.query("SELECT told FROM alarm") == [("failed: exit code 3",)]


def test_a_stop_cuts_the_telling_short_and_the_next_start_tells(world):
    with_hook(world, "sleep 60")
    world.alarm("disk")
    teller = AlarmHook(world.app.runner)
    world.app.runner.stopping = True
    teller.tell()
    teller._run("disk", "", "x")  # a command under way is ended
    assert world.scratch.query("SELECT told FROM alarm") == [(None,)]
    world.app.runner.stopping = False
    with_hook(world, TELL.format(world.scratch.root))
    AlarmHook(world.app.runner).tell()
    assert told(world) == " disk disk: something is wrong\n"


def test_nobody_waits_for_a_command_that_hangs(world, monkeypatch):
    monkeypatch.setattr(hooks, "TIMEOUT_SECONDS", 0.3)
    with_hook(world, "sleep 60")
    world.alarm("disk")
    AlarmHook(world.app.runner).tell()
    world.ticks += 3600
    AlarmHook(world.app.runner, failed={1: (alarming.TRIES - 1, 0.0)}).tell()
    assert world.scratch.query("SELECT told FROM alarm") == [("failed: took longer than 0.3 s",)]


@pytest.mark.long
def test_a_daemon_tells_and_goes_on(tmp_path):
    """One daemon: a command that hangs holds nothing up; one that disk trouble keeps untold is told all the same."""
    scratch = Scratch(tmp_path / "scratch", ingest={"settle": "20ms", "rescan": "1s"})
    scratch.write_config(hooks={"on_alarm": f'echo "$MEMORYD_ALARM" >> {scratch.root}/told; sleep 30'})
    with scratch.daemon():
        scratch.change("INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('dead', '', 'x', 'x', 'x')")
        until((scratch.root / "told").exists, why="it was told")
        scratch.append([*said(at=recent()), filler(at=recent())])
        until(
            lambda: scratch.query("SELECT 1 FROM job_run WHERE state = 'succeeded'"), why="a session sleeps meanwhile"
        )
    assert (scratch.root / "told").read_text(encoding="utf-8") == "dead\n"
    assert scratch.query("SELECT told FROM alarm WHERE kind = 'dead'") == [(None,)]


def test_what_the_disk_does_not_take_is_told_all_the_same(world):
    with_hook(world, TELL.format(world.scratch.root))
    teller = AlarmHook(world.app.runner, unstored={"disk": "the state folder cannot be written"})
    teller.tell()
    teller.tell()
    assert told(world) == " disk disk: the state folder cannot be written\n"


# --- clearing ---


def test_what_is_over_is_cleared_at_a_look_and_the_rest_stays(world):
    late = world.scratch.workspace / "MEMORY.md.conflict-1"
    late.write_text("x")
    (world.scratch.state / "memoryd.db.damaged-1").write_text("x")
    world.alarm("late-edit", late.name, "demo")
    world.alarm("database", "memoryd.db.damaged-1")
    world.alarm("model", "old-1 at gone.example:443")
    world.alarm("spend", "daily_tokens")
    world.alarm("dead", "sleep:x:0", "gone")
    world.alarm("dead", "sleep:x:0", "demo")
    review(world.app.runner)
    assert world.open_ones() == ["late-edit", "database", "spend", "dead"]
    late.unlink()
    (world.scratch.state / "memoryd.db.damaged-1").unlink()
    world.now += timedelta(days=1)
    review(world.app.runner)
    assert world.scratch.query("SELECT kind, agent_id FROM alarm WHERE cleared_at IS NULL") == [("dead", "demo")]


def test_the_model_that_is_configured_keeps_its_alarm(world):
    llm = dataclasses.replace(world.app.settings.llm, provider="openai", model="m", base_url="http://localhost:1/v1")
    world.app.runner.settings = dataclasses.replace(world.app.settings, llm=llm)
    world.alarm("model", "m at localhost:1")
    world.alarm("model", "other at localhost:1")
    review(world.app.runner)
    assert world.scratch.query("SELECT subject FROM alarm WHERE cleared_at IS NULL") == [("m at localhost:1",)]


def test_a_start_proves_that_the_configuration_and_the_disk_are_well(world):
    world.alarm("config")
    world.alarm("disk")
    world.app.close()
    with world.open():
        assert world.open_ones() == []


def test_a_job_without_a_key_clears_what_an_earlier_one_of_its_kind_came_to(world, monkeypatch):
    monkeypatch.setattr(ledger_runs.dedup, "run", lambda *_, **__: 1 / 0)
    attempts = dataclasses.replace(world.app.settings.jobs, attempts=1)
    world.app.runner.settings = dataclasses.replace(world.app.settings, jobs=attempts)
    world.queue(ledger_runs.DEDUP, slot="1")
    world.app.runner.run_next()
    assert world.open_ones() == ["dead"]
    monkeypatch.undo()
    world.queue(ledger_runs.DEDUP, slot="2")
    world.app.runner.run_next()
    assert world.open_ones() == []


def test_a_run_that_is_given_up_waits_for_nothing_any_more(world):
    run_id = world.queue("sleep", session_id="nobody", key="sleep:nobody:0", state="x")
    world.alarm("waiting", "sleep:nobody:0", "demo")
    run = runs.claim_run(world.app.engine, owner="a", now=world.app.clock.text(), agents=["demo"], only=run_id)
    run = dataclasses.replace(run, attempt=99)
    world.app.runner._fail_run(run, ValueError("x"))
    assert world.open_ones() == ["dead"]


def test_forgetting_a_session_ends_what_its_runs_came_to(world):
    world.scratch.append([*said(), filler()])
    run_once(world.app)
    ((session, key),) = world.scratch.query("SELECT session_id, key FROM job_run WHERE kind = 'sleep'")
    world.alarm("dead", key, "demo")
    asked = waiting.request(world.app.engine, world.app.clock, "demo", forgetting.KIND, {"session": session})
    world.app.runner.run_next(only=asked)
    assert world.open_ones() == []


def test_taking_an_accident_back_ends_its_alarm(world):
    path = world.scratch.workspace / "MEMORY.md"
    path.write_text("".join(f"- memory number {number} of many\n" for number in range(9)), encoding="utf-8")
    watch = CoreWatch(world.app.runner)
    assert watch.take(world.app.settings.agents[0])
    entry = world.scratch.query("SELECT max(id) FROM audit")[0][0]
    path.write_text("", encoding="utf-8")
    assert watch.take(world.app.settings.agents[0])
    assert world.open_ones() == ["emptied"]
    asked = waiting.request(world.app.engine, world.app.clock, "demo", ledger_runs.ROLLBACK, {"to": entry})
    world.app.runner.run_next(only=asked)
    assert path.read_text(encoding="utf-8").count("memory number") == 9
    assert world.open_ones() == []


def test_an_accident_is_told_with_an_entry_of_its_own_agent_and_any_entry_takes_it_back(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    other = tmp_path / "other"
    other.mkdir()
    scratch.agents = [*scratch.agents, {"id": "other", "workspace": str(other)}]
    scratch.write_config()
    path = scratch.workspace / "MEMORY.md"
    text = "".join(f"- memory number {number} of many\n" for number in range(9))
    path.write_text(text, encoding="utf-8")
    with in_process(scratch) as app:
        run_once(app)
        watch = CoreWatch(app.runner)
        demo, apart = app.settings.agents
        assert watch.take(demo)
        own = scratch.query("SELECT max(id) FROM audit")[0][0]
        (other / "MEMORY.md").write_text("- another's\n", encoding="utf-8")
        assert watch.take(apart)
        newest = scratch.query("SELECT max(id) FROM audit")[0][0]
        path.write_text("", encoding="utf-8")
        assert watch.take(demo)
        ((alarm,),) = scratch.query("SELECT text FROM alarm WHERE kind = 'emptied'")
    assert alarm.endswith(f"memoryd rollback --to {own} --agent demo")
    assert newest > own
    # An entry of another's is a moment, too; without --agent it is that other's.
    assert scratch.json("rollback", "--to", str(newest), "--dry-run")["memories"] == []
    first = scratch.query("SELECT min(id) FROM audit WHERE agent_id = 'demo'")[0][0]
    error = scratch.json("rollback", "--to", str(first), "--agent", "other", code=3)
    assert "the agent 'other' had no memory yet" in error["message"]
    back = ("rollback", "--to", str(newest), "--agent", "demo")
    tried = scratch.run(*back, "--dry-run").stdout.splitlines()
    shown = [line for line in tried if line.startswith(" ")]
    assert shown == [f"  + memory number {number} of many" for number in reversed(range(9))]
    told = [line.split(" ", 1)[1] for line in tried if line not in shown]
    assert told == ["would be brought back"] * 9 + ["would be rewritten"]
    done = scratch.run(*back).stdout.splitlines()
    assert [line.split(" ")[-2:] for line in done[1:10]] == [["brought", "back"]] * 9
    assert "MEMORY.md rewritten" in done
    assert path.read_text(encoding="utf-8").count("memory number") == 9
    assert (other / "MEMORY.md").read_text(encoding="utf-8") == "- another's\n"


def test_an_edit_of_what_was_protected_is_over_when_nothing_named_is_protected_any_more(world):
    path = world.scratch.workspace / "MEMORY.md"
    path.write_text("- Deploys happen on Mondays.\n- Tests need Redis.\n", encoding="utf-8")
    assert CoreWatch(world.app.runner).take(world.app.settings.agents[0])
    ((kept,),) = world.scratch.query("SELECT id FROM memory WHERE content LIKE 'Deploys%'")

    def protect(value):
        with sqlite.begin_write(world.app.engine) as connection:
            query.run(connection, "UPDATE memory SET constitutional = ? WHERE id = ?", value, kept)

    for named, left in ((kept, ["constitutional"]), ("core_00000000", [])):
        protect(1)
        world.alarm("constitutional", agent="demo", text=f"an edit touched protected memories: {named} was edited")
        review(world.app.runner)
        assert world.open_ones() == left
        protect(0)
        review(world.app.runner)
        assert world.open_ones() == []
    world.alarm("constitutional", agent="demo", text=f"an edit touched protected memories: {kept} was edited")
    for verb, left in (("protect", ["constitutional"]), ("unprotect", [])):
        options = {"operations": [[verb, kept]]}
        asked = waiting.request(world.app.engine, world.app.clock, "demo", ledger_runs.EDIT, options)
        world.app.runner.run_next(only=asked)
        assert world.open_ones() == left, "at once"
