"""Proposals: a job is carried out whole and writes nothing but a question; a person's answer decides."""

import dataclasses
import json
import os
import shutil
from datetime import timedelta

import pytest
from scratch import STARTED, Model, Scratch, filler, in_process, message, said
from sweep import KILLED, Point, forked

from memoryd import config
from memoryd.changing import forgetting, verify
from memoryd.daemon.once import run_once
from memoryd.database import audit, memories, reads, runs, sqlite
from memoryd.errors import ConfigError
from memoryd.jobs.job import Reply
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Add, Delete, Protect, apply
from memoryd.requests import waiting
from memoryd.running import alarms, proposing
from memoryd.running.core_watch import CoreWatch

pytestmark = pytest.mark.long

NOW = STARTED + timedelta(minutes=45)
DAILY = "memory/2026-03-04.md"
HAND = "- a line by hand\n"
LATER = [
    message("user", "We decided to move the archive to Reykjavik in October because the lease in Malmo ends.", 50),
    message("assistant", "I wrote the plan for the move to Reykjavik.", 51),
]
ALL = {"sleep": "propose", "facts": "propose", "dedup": "propose", "dream": "off"}


class World:
    """An installation whose jobs propose; one process, a clock that is set."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.now = NOW
        self.app = None

    @property
    def workspace(self):
        return self.scratch.workspace

    def open(self, step=None):
        self.app = in_process(self.scratch, lambda: self.now, step)
        return self.app

    def mode(self, **modes):
        self.scratch.write_config(modes=ALL | modes)
        if self.app is not None:
            self.app.runner.settings = self.app.settings = config.load(self.scratch.config)

    def once(self):
        return run_once(self.app)["runs"]

    def answer(self, verb, run_id):
        with reads.open_reader(self.app.database) as reader:
            row = reads.job_run(reader, run_id)
        options = {"run": run_id, "of": row["kind"]}
        asked = waiting.request(
            self.app.engine, self.app.clock, "demo", verb, options, key=f"answer:{run_id}",
            session_id=row["session_id"],
        )  # fmt: skip
        self.app.runner.run_next(only=asked)
        return self.run(asked)

    def run(self, run_id):
        with reads.open_reader(self.app.database) as reader:
            return reads.job_run(reader, run_id)

    def states(self, kind="sleep"):
        rows = self.scratch.query("SELECT state FROM job_run WHERE kind = ? ORDER BY created_at, id", kind)
        return [row[0] for row in rows]

    def proposed(self, kind="sleep"):
        rows = self.scratch.query(
            "SELECT id FROM job_run WHERE kind = ? AND state = 'proposed' ORDER BY created_at", kind
        )
        return [row[0] for row in rows]

    def files(self):
        """What people and agents see, but for proposals."""
        return {
            str(path.relative_to(self.workspace)): path.read_text(encoding="utf-8")
            for path in sorted(self.workspace.rglob("*.md"))
            if not any(part in str(path) for part in ("/proposals/", "/backup/", "/.late-"))
        }

    def proposal(self, run_id):
        return (self.workspace / "memory" / "proposals" / f"{run_id}.md").read_text(encoding="utf-8")

    def proposals(self):
        return sorted(path.stem for path in self.workspace.glob("memory/proposals/*.md"))

    def live(self, kind):
        with sqlite.begin_read(self.app.engine) as connection:
            return memories.read_live(connection, "demo", kind)

    def change(self, *operations):
        """Operations of a person on the ledger alone."""
        held = {memory.id: memory for kind in MemoryKind for memory in self.live(kind)}
        now = self.app.clock.text()
        with sqlite.begin_write(self.app.engine) as connection:
            changes = apply(held, operations, agent_id="demo", now=now, new_hex=self.app.runner.new_id)
            audit.record(connection, changes, AuditStamp(now, "demo", "human"))
        return changes

    def problems(self):
        with reads.open_reader(self.app.database) as reader:
            return verify.list_problems(self.app.settings, reader)


def made(folder, **modes):
    scratch = Scratch(folder, modes=ALL | modes, facts={"debounce": "0s"})
    (scratch.workspace / "MEMORY.md").write_text(f"# Notes\n\n{HAND}", encoding="utf-8")
    scratch.append([*said(), filler()])
    return World(scratch)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An installation that has proposed a sleep and facts, once for all tests of this module."""
    world = made(tmp_path_factory.mktemp("proposing") / "scratch")
    with world.open():
        world.once()
    return world.scratch


def copied(template, root):
    shutil.copytree(template.root, root)
    scratch = Scratch.at(root)
    scratch.agents = [Scratch.agent("demo", scratch.workspace)]
    scratch.settings = template.settings | {"state_dir": str(scratch.state)}
    scratch.write_config()
    scratch.change("UPDATE agent SET workspace = ?", str(scratch.workspace))
    scratch.change("UPDATE transcript SET path = replace(path, ?, ?)", str(template.root), str(root))
    return World(scratch)


@pytest.fixture
def world(tmp_path, template):
    found = copied(template, tmp_path / "scratch")
    with found.open():
        yield found


# --- a proposal ---


def test_a_run_that_proposes_writes_a_question_and_nothing_else(world):
    assert world.files() == {"MEMORY.md": f"# Notes\n\n{HAND}"}
    assert world.scratch.query("SELECT count(*) FROM watermark") == [(0,)]
    assert world.live(MemoryKind.FACT) == []
    assert [one.content for one in world.live(MemoryKind.CORE)] in ([], ["a line by hand"])
    (sleep,) = world.proposed()
    (facts,) = world.proposed("facts")
    text = world.proposal(sleep)
    assert text.startswith(f"# Proposal: sleep {sleep} (2026-03-04 09:45)\n")
    for line in (
        f"memoryd job accept {sleep}",
        "+++ b/MEMORY.md",
        "--- /dev/null",
        f"+++ b/{DAILY}",
        " - a line by hand",
    ):
        assert line in text
    assert "+# Daily Memory: 2026-03-04" in text
    assert "PostgreSQL 16" in text
    assert "add fact" in world.proposal(facts)
    row = world.run(sleep)
    assert (row["state"], row["why"]) == ("proposed", "waits for an answer")
    assert row["receipt"]["proposal"]["files"] == ["MEMORY.md", DAILY]
    assert row["receipt"]["proposal"]["operations"]["add"] >= 1
    assert "PostgreSQL" not in json.dumps(row)  # the row shows numbers; what it keeps is out of sight
    assert world.problems() == []


def test_a_question_that_waits_is_not_asked_again(world):
    world.scratch.append(LATER)
    for _ in range(3):
        world.now += timedelta(minutes=90)
        assert world.once() == []
    assert world.states() == world.states("facts") == ["proposed"]
    assert len(world.proposals()) == 2
    (sleep,) = world.proposed()
    world.app.close()
    told = world.scratch.json("status")["agents"][0]["proposals"]
    assert sorted(one["kind"] for one in told) == ["facts", "sleep"]
    assert f"proposal  sleep {sleep} since" in world.scratch.run("status").stdout
    assert world.scratch.json("job", "run", "sleep", "--force")["id"] == sleep
    assert world.states() == ["proposed"]


def test_what_is_accepted_is_what_would_have_been_written_at_once(world, tmp_path):
    other = made(tmp_path / "other", sleep="auto", facts="auto")
    with other.open():
        other.once()
        at_once = other.files()
        facts = sorted((one.content, one.category, one.confidence) for one in other.live(MemoryKind.FACT))
        core = sorted(
            (one.content, one.category, one.importance, len(one.sources)) for one in other.live(MemoryKind.CORE)
        )
    assert len(facts) >= 1
    (sleep,) = world.proposed()
    for run_id in (sleep, *world.proposed("facts")):
        row = world.answer("accept", run_id)
        assert (row["state"], row["receipt"]["accepts"]) == ("succeeded", run_id)
        assert world.run(run_id)["state"] == "succeeded"
    assert world.files() == at_once
    assert sorted((one.content, one.category, one.confidence) for one in world.live(MemoryKind.FACT)) == facts
    assert sorted((o.content, o.category, o.importance, len(o.sources)) for o in world.live(MemoryKind.CORE)) == core
    assert world.proposals() == []
    assert world.once() == []
    assert world.problems() == []
    assert world.scratch.query("SELECT count(*) FROM job_run WHERE reply IS NOT NULL") == [(0,)]
    assert world.answer("accept", sleep)["state"] == "declined"  # answered is answered
    # What was accepted is taken back by either name.
    world.app.close()
    done = world.scratch.json("rollback", sleep)
    assert "PostgreSQL" not in world.files()["MEMORY.md"]
    assert done["receipt"]["rollback"]["memories"]


def test_what_is_rejected_is_not_proposed_again_and_what_comes_later_is(world):
    (sleep,) = world.proposed()
    before = world.files()
    row = world.answer("reject", sleep)
    assert (row["state"], row["receipt"]["rejects"]) == ("succeeded", sleep)
    assert world.run(sleep)["state"] == "declined"
    assert world.files() == before
    assert world.once() == []
    assert world.states() == ["declined"]
    world.scratch.append(LATER)
    world.now += timedelta(hours=3)
    world.once()
    assert world.states() == ["declined", "proposed"]
    text = world.proposal(world.proposed()[0])
    assert "Reykjavik" in text
    assert "PostgreSQL" not in text
    # Even that word can be taken back: then the same turns may be proposed again.
    world.app.close()
    world.scratch.json("rollback", sleep)
    assert world.scratch.query("SELECT count(*) FROM watermark") == [(0,)]


def test_accepting_goes_by_what_the_files_and_guards_say_now(world):
    (sleep,) = world.proposed()
    added = next(op for op in _kept_adds(world, sleep) if "PostgreSQL" in op)
    # A person adds one of the bullets and throws it away again: it is not to come back.
    (made_,) = world.change(Add(MemoryKind.CORE, added))
    world.change(Delete(made_.memory_id))
    (world.workspace / "MEMORY.md").write_text(f"# Notes\n\n{HAND}- another line by hand\n", encoding="utf-8")
    (world.workspace / DAILY).parent.mkdir(exist_ok=True)
    (world.workspace / DAILY).write_text("# Daily Memory: 2026-03-04\n\nmine\n", encoding="utf-8")
    row = world.answer("accept", sleep)
    assert [one["guard"] for one in row["receipt"]["refused"]] == ["tombstone"]
    files = world.files()
    assert "another line by hand" in files["MEMORY.md"]
    assert "tabs over spaces" in files["MEMORY.md"]
    assert "PostgreSQL" not in files["MEMORY.md"]
    assert files[DAILY].startswith("# Daily Memory: 2026-03-04\n\nmine\n\n## ")
    assert world.problems() == []


def _kept_adds(world, run_id):
    ((kept,),) = world.scratch.query("SELECT reply FROM job_run WHERE id = ?", run_id)
    edits = json.loads(kept)["edits"]
    return [one["text"] for edit in edits if edit["$"] == "AddMemories" for one in edit["memories"]]


def test_what_was_written_meanwhile_is_not_written_twice(world):
    (sleep,) = world.proposed()
    session = world.run(sleep)["session_id"]
    with sqlite.begin_write(world.app.engine) as connection:
        connection.exec_driver_sql(
            "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, 'sleep', 3, 'x')", (session,)
        )
    row = world.answer("accept", sleep)
    assert (row["state"], "written meanwhile" in row["why"]) == ("declined", True)
    assert world.run(sleep)["state"] == "proposed"
    assert world.answer("reject", sleep)["state"] == "succeeded"


def test_a_job_that_runs_by_itself_again_takes_its_questions_back(world):
    world.mode(sleep="auto")
    world.app.runner.tend_proposals()
    assert world.states() == ["declined"]
    assert world.proposed("facts") != []
    world.once()
    assert sorted(world.states()) == ["declined", "succeeded"]
    assert "PostgreSQL" in world.files()["MEMORY.md"]
    assert world.proposals() == world.proposed("facts")


def test_what_is_a_silo_now_has_no_open_question(world):
    agent = dataclasses.replace(world.app.settings.agents[0], privacy="silo")
    modes = dataclasses.replace(world.app.settings.modes, sleep="off", facts="off", dedup="off")
    world.app.runner.settings = dataclasses.replace(world.app.settings, agents=(agent,), modes=modes)
    world.app.runner.tend_proposals()
    assert world.states() == world.states("facts") == ["declined"]
    assert world.proposals() == []


def test_a_rehearsal_shows_what_would_be_written_not_that_it_would_be_asked_about(world):
    world.answer("reject", world.proposed()[0])
    world.scratch.append(LATER)
    world.once()
    world.app.close()
    told = world.scratch.json("job", "run", "sleep", "--dry-run", "--force")["runs"]
    assert [one["state"] for one in told] == ["skipped"] or told[0]["would"]


def alarmed(world):
    return world.scratch.query("SELECT kind, text FROM alarm WHERE cleared_at IS NULL")


def moved_behind_a_link(world, tmp_path):
    folder = world.workspace / "memory" / "proposals"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    return folder


def test_a_proposal_that_cannot_be_written_waits_with_an_alarm_and_goes_on(tmp_path):
    """Its folder is a link, which is not followed; a model's answer is not paid for again."""
    world = made(tmp_path / "scratch", facts="off")
    (world.workspace / "memory" / "proposals").mkdir(parents=True)
    folder = moved_behind_a_link(world, tmp_path)
    with world.open():
        for _ in range(world.app.settings.jobs.attempts + 1):
            world.once()
            world.now += timedelta(hours=2)
        assert world.states() == ["queued"]
        ((kind, text),) = alarmed(world)
        assert (kind, f"{folder}: is a symbolic link, not a folder" in text) == ("waiting", True)
        folder.unlink()
        world.once()
        assert (world.states(), alarmed(world)) == (["proposed"], [])
        assert world.proposals() == world.proposed()


def test_a_question_that_cannot_be_taken_back_is_told_and_taken_back_later(world, tmp_path):
    folder = moved_behind_a_link(world, tmp_path)
    world.mode(sleep="auto")
    world.app.runner.tend_proposals()
    assert world.states() == ["proposed"]
    ((kind, text),) = alarmed(world)
    assert (kind, f"{folder}: is a symbolic link, not a folder" in text) == ("proposals", True)
    alarms.review(world.app.runner)
    assert len(alarmed(world)) == 1
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    alarms.review(world.app.runner)
    assert (world.states(), alarmed(world)) == (["declined"], [])
    assert world.proposals() == world.proposed("facts")


@pytest.mark.parametrize("asked", ["reload", "between", "lost"])
def test_an_answer_that_has_begun_to_change_files_is_carried_through(world, monkeypatch, asked):
    """Its disk fails behind the intent; meanwhile the job is set to run by itself, and takes its questions back."""
    (sleep,) = world.proposed()

    def fails(name):
        if name == "after:intent":
            raise OSError(28, "full")

    world.app.close()
    with world.open(fails):
        world.mode(sleep="auto")
        if asked == "between":  # decided upon, taken back, and only then planned
            decide = proposing.decide
            monkeypatch.setattr(proposing, "decide", lambda *of: (decide(*of), world.app.runner.tend_proposals())[0])
            row = world.answer("accept", sleep)
            assert (row["state"], "withdrawn" in row["why"]) == ("declined", True)
            assert "PostgreSQL" not in world.files()["MEMORY.md"]
            return
        assert world.answer("accept", sleep)["state"] == "queued"
        world.app.runner.tend_proposals()
        assert world.run(sleep)["state"] == "proposed"
    if asked == "lost":  # by a version that took it back all the same
        world.scratch.change("UPDATE job_run SET state = 'declined', reply = NULL WHERE id = ?", sleep)
    with world.open():
        assert world.run(sleep)["state"] == "succeeded"
        assert "PostgreSQL" in world.files()["MEMORY.md"]
        assert world.scratch.query("SELECT count(*) FROM intent") == [(0,)]
        assert world.problems() == []


# --- what a proposal holds is looked through like all else ---


def holders(world, *words):
    return [
        (str(path.relative_to(world.scratch.root)), word)
        for path in sorted(world.scratch.root.rglob("*"))
        if path.is_file() and "/sessions/" not in str(path)
        for word in words
        if word.lower().encode() in path.read_bytes().lower()
    ]


@pytest.mark.parametrize("target", ["session", "memory"])
def test_forgetting_takes_every_question_back_that_may_hold_it(world, target):
    words = "orders in PostgreSQL"
    assert {path.rpartition("/")[0] for path, _ in holders(world, words)} >= {"state", "workspace/memory/proposals"}
    if target == "session":
        options = {"session": world.run(world.proposed()[0])["session_id"]}
    else:
        (change,) = world.change(Add(MemoryKind.CORE, "We decided to keep the orders in PostgreSQL 16"))
        options = {"memory": change.memory_id}
    asked = waiting.request(world.app.engine, world.app.clock, "demo", forgetting.KIND, options)
    world.app.runner.run_next(only=asked)
    assert world.run(asked)["state"] == "succeeded", world.run(asked)
    assert world.proposals() == []
    assert holders(world, words) == [] or target == "memory"
    assert not any("proposals" in path for path, _ in holders(world, words))
    assert world.scratch.query("SELECT count(*) FROM job_run WHERE reply IS NOT NULL") == [(0,)]
    assert world.problems() == []


def test_a_secret_that_a_later_rule_knows_goes_out_of_the_file_and_of_what_is_kept(world):
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    (sleep,) = world.proposed()
    path = world.workspace / "memory" / "proposals" / f"{sleep}.md"
    path.write_text(world.proposal(sleep).replace("PostgreSQL 16", secret), encoding="utf-8")
    world.scratch.change("UPDATE job_run SET reply = replace(reply, 'PostgreSQL 16', ?) WHERE id = ?", secret, sleep)
    assert len(holders(world, secret)) >= 2
    world.app.close()
    world.scratch.write_config(scrub={"secrets": "redact"})
    world.scratch.json("scrub", "--again")
    assert holders(world, secret) == []
    world.scratch.json("job", "accept", sleep)
    assert "[REDACTED" in world.files()["MEMORY.md"] + world.files()[DAILY]


def test_a_proposal_is_no_memory(world):
    world.app.close()
    assert world.scratch.json("search", "PostgreSQL", "--tier", "daily") == []
    assert all("proposals" not in hit["path"] for hit in world.scratch.json("search", "PostgreSQL"))
    state, _, memory = world.scratch.json("context")["text"].partition("\nMEMORY.md:\n")
    assert "PostgreSQL" not in memory
    # What a session is told of the last one are the messages that were sent, and nothing that the sleep made of them.
    assert "Decided:" not in state
    assert "not in a daily file yet" in state
    assert world.scratch.query("SELECT count(*) FROM session_summary") == [(0,)]


def test_a_file_that_is_no_question_any_more_is_cleared_away_and_a_persons_is_not(world):
    (sleep,) = world.proposed()
    mine = world.workspace / "memory" / "proposals" / "mine.md"
    mine.write_text("my own\n", encoding="utf-8")
    world.scratch.change("UPDATE job_run SET state = 'declined' WHERE id = ?", sleep)
    world.app.close()
    with world.open():
        assert world.proposals() == ["mine", *world.proposed("facts")]


# --- dedup ---


def test_duplicates_are_proposed_as_one_and_go_when_that_is_accepted(world):
    for run_id in (*world.proposed(), *world.proposed("facts")):
        world.answer("reject", run_id)
    text = f"# Notes\n\n{HAND}- said twice\n- said twice\n"
    (world.workspace / "MEMORY.md").write_text(text, encoding="utf-8")
    assert CoreWatch(world.app.runner).take(world.app.settings.agents[0])
    for _ in range(2):
        world.change(Add(MemoryKind.FACT, "Prefers tea.", category="preference", confidence=0.9))
    before = world.files(), len(world.live(MemoryKind.FACT))
    asked = waiting.request(world.app.engine, world.app.clock, "demo", "dedup")
    world.app.runner.run_next(only=asked)
    assert world.run(asked)["state"] == "proposed"
    assert (world.files(), len(world.live(MemoryKind.FACT))) == before
    told = world.proposal(asked)
    assert "-- said twice" in told
    assert "superseded fact: fact_" in told
    again = waiting.request(world.app.engine, world.app.clock, "demo", "dedup")
    world.app.runner.run_next(only=again)
    assert world.run(again)["state"] == "skipped"
    assert asked in world.run(again)["why"]
    assert world.answer("reject", asked)["state"] == "succeeded"
    by_itself = queue_dedup(world)
    assert (by_itself["state"], asked in by_itself["why"]) == ("skipped", True)
    by_hand = waiting.request(world.app.engine, world.app.clock, "demo", "dedup", {"force": True})
    world.app.runner.run_next(only=by_hand)
    assert world.run(by_hand)["state"] == "proposed"
    no = world.answer("reject", by_hand)["id"]
    # Of two rejections of the same one stands; when both are taken back it is proposed by itself.
    for number, rejection in enumerate((world.run(asked)["receipt"]["rejected_by"], no)):
        done = waiting.request(world.app.engine, world.app.clock, "demo", "rollback", {"run": rejection})
        world.app.runner.run_next(only=done)
        assert world.run(done)["state"] == "succeeded"
        assert f"proposal:{(asked, by_hand)[number]}" in world.run(done)["receipt"]["rollback"]["others"]
        found = queue_dedup(world, slot=str(number))
        assert found["state"] == ("proposed" if number else "skipped"), found
    # And a rejection that is taken back only by mistake is one again.
    assert world.answer("reject", found["id"])["state"] == "succeeded"
    back = waiting.request(world.app.engine, world.app.clock, "demo", "rollback", {"run": no})
    world.app.runner.run_next(only=back)
    assert world.run(back)["why"] == "it was rolled back before"
    by_hand = waiting.request(world.app.engine, world.app.clock, "demo", "dedup", {"force": True})
    world.app.runner.run_next(only=by_hand)
    assert world.answer("accept", by_hand)["state"] == "succeeded"
    assert world.files()["MEMORY.md"] == f"# Notes\n\n{HAND}- said twice\n"
    assert len(world.live(MemoryKind.FACT)) == before[1] - 1
    assert world.problems() == []


def queue_dedup(world, slot="x"):
    row = {"id": runs.new_run_id(world.app.clock.now()), "kind": "dedup", "agent_id": "demo", "actor": "memoryd"}
    now = world.app.clock.text()
    row |= {"trigger": "schedule", "slot": f"dedup:demo:{slot}", "created_at": now, "scheduled_for": now}
    with sqlite.begin_write(world.app.engine) as connection:
        assert runs.enqueue(connection, row)
    world.app.runner.run_next(only=row["id"])
    return world.run(row["id"])


# --- dream ---


class Dreamer:
    """Answers a dream as a model would that keeps all and brings in what the days say of an archive."""

    def __init__(self, monkeypatch):
        self.asked = []
        self.is_quiet = self.is_away = False
        self.let_go = ()
        offline = Model.answer

        def answer(model, ask, backend, deadline):
            is_own = ask.job == "dream" and not self.is_away
            return self.dream(ask) if is_own else offline(model, ask, backend, deadline)

        monkeypatch.setattr(Model, "answer", answer)

    def dream(self, ask):
        self.asked.append(ask)
        gone = [
            one.id for one in ask.material if one.role == "memory" and any(name in one.text for name in self.let_go)
        ]
        kept = [f"- {one.text} [{one.id}]" for one in ask.material if one.role == "memory" and one.id not in gone]
        if self.is_quiet:
            return Reply("\n".join(["[MEMORY]", *kept, "[DREAM]", "Snow."]), "stop", "offline")
        new = next(one for one in ask.material if one.role == "daily" and "Reykjavik" in one.text)
        text = "\n".join(
            ["[MEMORY]", *kept, f"- The archive moves to Reykjavik in October [{new.id}]", "[DREAM]", "Snow."]
            + [f"- archived [{one}]: it is over" for one in gone]
        )
        return Reply(text, "stop", "offline")


@pytest.fixture
def dreaming(tmp_path, monkeypatch):
    """An installation whose sleeps write and whose dreams propose, with a day to dream of."""
    world = made(tmp_path / "scratch", sleep="off", facts="off", dream="propose")
    world.now = NOW.replace(hour=23)
    day = world.workspace / DAILY
    day.parent.mkdir()
    day.write_text("# Daily Memory: 2026-03-04\n\n## Note (10:00)\n\n- The archive moves to Reykjavik in October.\n")
    world.dreamer = Dreamer(monkeypatch)
    with world.open():
        world.once()
        CoreWatch(world.app.runner).take(world.app.settings.agents[0])
        yield world


def dream(world, actor="memoryd", **more):
    run_id = runs.new_run_id(world.app.clock.now())
    now = world.app.clock.text()
    row = {"id": run_id, "kind": "dream", "agent_id": "demo", "actor": actor, "trigger": "schedule"}
    row |= {"key": "dream:demo", "created_at": now, "scheduled_for": now, "options": {"lookback_days": 1}} | more
    with sqlite.begin_write(world.app.engine) as connection:
        assert runs.enqueue(connection, row)
    world.app.runner.run_next(only=run_id)
    return world.run(run_id)


def test_a_dream_is_proposed_answered_and_known_for_dreamt(dreaming):
    world = dreaming
    before = world.files()
    row = dream(world)
    assert (row["state"], row["receipt"]["proposal"]["operations"]) == ("proposed", {"add": 1})
    assert world.files() == before
    text = world.proposal(row["id"])
    assert "+- The archive moves to Reykjavik in October" in text
    assert "+++ b/memory/dreams/2026-03-04.md" in text
    again = dream(world)
    assert (again["state"], again["receipt"]["waits_for"]) == ("skipped", row["id"])
    done = world.answer("accept", row["id"])
    assert (done["state"], done["receipt"].get("refused")) == ("succeeded", None)
    assert world.files()["MEMORY.md"] == (
        f"{before['MEMORY.md']}\n## Preferences\n\n- The archive moves to Reykjavik in October\n"
    )
    assert "Snow." in world.files()["memory/dreams/2026-03-04.md"]
    assert "nothing new since" in dream(world)["why"]
    # Taken back it has not been dreamt, and is proposed anew.
    world.app.close()
    world.scratch.json("rollback", row["id"])
    assert world.files() == before
    with world.open():
        assert dream(world)["state"] == "proposed"
        assert world.problems() == []


def test_a_dream_that_changes_no_memory_is_no_question(dreaming):
    world = dreaming
    world.dreamer.is_quiet = True
    before = world.files()
    row = dream(world)
    assert row["state"] == "succeeded", row
    assert world.files().items() - before.items() == {
        ("memory/dreams/2026-03-04.md", world.files()["memory/dreams/2026-03-04.md"])
    }
    assert world.proposals() == []


def test_a_rejected_dream_is_not_asked_for_again_until_there_is_another_day_or_a_person_wants_it(dreaming):
    world = dreaming
    row = dream(world)
    world.answer("reject", row["id"])
    asked = len(world.dreamer.asked)
    again = dream(world)
    assert (again["state"], row["id"] in again["why"]) == ("skipped", True)
    assert again["why"] == f"the same was rejected as {row['id']}; --force proposes it again"
    for more in ({"actor": "human"}, {"options": {"scheduled": True}}):
        assert dream(world, **more)["why"] == again["why"]
    assert len(world.dreamer.asked) == asked  # nobody was paid for it
    assert dream(world, actor="human", options={"force": True, "lookback_days": 1})["state"] == "proposed"
    (second,) = world.proposed("dream")
    world.answer("reject", second)
    world.app.close()
    world.scratch.json("rollback", row["id"])  # its rejection
    with world.open():
        assert second in dream(world)["why"]
    told = world.scratch.run("rollback", second).stdout
    assert f"what {second} proposed may be proposed again" in told
    world.open()
    assert dream(world)["state"] == "proposed"
    world.answer("reject", world.proposed("dream")[0])
    with (world.workspace / DAILY).open("a", encoding="utf-8") as file:
        file.write("- Another thing was said.\n")
    assert dream(world)["state"] == "proposed"


def test_a_dream_of_the_offline_engine_that_is_rejected_comes_back_when_the_core_is_another(dreaming):
    world = dreaming
    world.dreamer.is_away = True
    with (world.workspace / DAILY).open("a", encoding="utf-8") as file:
        file.write("- Always run the tests before you push.\n")
    for _ in range(2):
        row = dream(world, actor="human")
        assert row["state"] == "proposed"
        world.answer("reject", row["id"])
        again = dream(world, actor="human")
        assert (again["state"], row["id"] in again["why"]) == ("skipped", True)
        path = world.workspace / "MEMORY.md"
        path.write_text(f"{path.read_text(encoding='utf-8')}- one line more by hand\n", encoding="utf-8")
        assert CoreWatch(world.app.runner).take(world.app.settings.agents[0])


def test_a_dream_that_is_accepted_on_another_core_is_judged_one_by_one(dreaming):
    world = dreaming
    row = dream(world)
    path = world.workspace / "MEMORY.md"
    path.write_text(path.read_text(encoding="utf-8").replace(HAND, "- another line by hand\n"), encoding="utf-8")
    os.utime(path, (1, 1))
    done = world.answer("accept", row["id"])
    assert (done["state"], done["receipt"]["dream"]) == ("succeeded", {"changed": 1, "refusals": {}})
    text = world.files()["MEMORY.md"]
    assert "- another line by hand\n" in text
    assert "- The archive moves to Reykjavik in October" in text
    assert HAND not in text
    assert world.problems() == []


def test_what_the_guards_refuse_all_of_is_not_accepted_and_still_waits(dreaming):
    world = dreaming
    row = dream(world)
    (made_,) = world.change(Add(MemoryKind.CORE, "The archive moves to Reykjavik in October"))
    world.change(Delete(made_.memory_id))
    before = world.files()
    done = world.answer("accept", row["id"])
    assert (done["state"], "the guards refuse all of it" in done["why"]) == ("declined", True)
    assert [one["guard"] for one in done["receipt"]["refused"]] == ["tombstone"]
    assert world.files() == before  # no diary tells of a dream that was none
    assert world.proposed("dream") == [row["id"]]
    world.app.close()
    error = world.scratch.json("job", "accept", row["id"], code=4)
    assert "the guards refuse all of it" in error["message"]
    with world.open():
        assert world.answer("reject", row["id"])["state"] == "succeeded"
        assert world.problems() == []


TOWNS = ("Bern", "Turin", "Vienna", "Zurich", "Aarhus", "Malmo", "Porto", "Lyon", "Ghent", "Split")


def test_diary_and_receipt_of_what_is_accepted_in_part_tell_what_passed(dreaming):
    world = dreaming
    lines = [f"- The bridge of {name} is painted anew\n" for name in TOWNS]
    path = world.workspace / "MEMORY.md"
    path.write_text(f"# Notes\n\n{HAND}\n## State of the project\n\n{''.join(lines)}", encoding="utf-8")
    CoreWatch(world.app.runner).take(world.app.settings.agents[0])
    world.dreamer.let_go = ("Bern", "Turin")
    row = dream(world)
    told = row["receipt"]["dream"]
    assert (told["dispositions"]["archived"], told["added"]) == (2, 1), row
    kept, ended = (
        next(one for one in world.live(MemoryKind.CORE) if name in one.content) for name in ("Bern", "Turin")
    )
    world.change(Protect(kept.id))
    done = world.answer("accept", row["id"])
    assert done["state"] == "succeeded"
    assert [one["guard"] for one in done["receipt"]["refused"]] == ["constitutional"]
    assert done["receipt"]["dream"] == {"changed": 2, "refusals": {"constitutional": 1}}
    assert len(world.live(MemoryKind.CORE)) == 11
    diary = world.files()["memory/dreams/2026-03-04.md"]
    passed, _, proposed = diary.partition("- The proposal was:\n")
    assert "- Accepted on 2026-03-04. The memory had changed since. Memories added, changed or ended: 2.\n" in passed
    assert "- Refused: 1 by constitutional.\n" in passed
    assert f"- Refused by constitutional: {kept.id}: " in passed
    assert f"- Archived: {ended.id}: it is over" in proposed
    assert diary.endswith("An impression, see the sources:\n\nSnow.\n")
    assert world.problems() == []


# --- the rest ---


@pytest.mark.parametrize("kind", ["facts", "refine"])
def test_a_silo_is_nobodys_to_review(tmp_path, kind):
    scratch = Scratch(tmp_path / "scratch", modes={kind: "propose"})
    scratch.agents = [Scratch.agent("demo", scratch.workspace, privacy="silo")]
    scratch.write_config()
    with pytest.raises(ConfigError, match=rf"modes\.{kind}: propose shows a person what demo remembers"):
        config.load(scratch.config)


@pytest.mark.parametrize("verb", ["accept", "reject"])
def test_the_command_answers(world, verb):
    (sleep,) = world.proposed()
    world.app.close()
    told = world.scratch.json("job", "show", sleep)
    assert told["state"] == "proposed"
    assert world.scratch.json("job", "cancel", sleep, code=4)["hint"] == "memoryd job reject drops it"
    done = world.scratch.run("job", verb, sleep)
    assert done.returncode == 0, done
    assert ("PostgreSQL" in world.files()["MEMORY.md"]) is (verb == "accept")
    error = world.scratch.json("job", verb, sleep, code=4)
    assert "not a proposal that waits" in error["message"]
    assert world.scratch.json("job", verb, "run-none", code=3)


@pytest.mark.parametrize("every", [14, pytest.param(1, marks=pytest.mark.soak)])
def test_a_stop_at_any_step_leaves_one_question_or_one_answer(template, tmp_path, every):
    """A fork is killed at each step of proposing, accepting and rejecting; the next start goes on."""
    fresh = made(tmp_path / "fresh", facts="off")
    with fresh.open() as app:  # read; nothing is carried out
        sleeping_template(app)
    for verb, start in (("propose", fresh.scratch), ("accept", template), ("reject", template)):
        number = 1
        while killed_once(start, tmp_path / f"{verb}-{number}", verb, number):
            number += every
        assert number > 1, verb


def sleeping_template(app):
    from memoryd.daemon.once import read_all

    read_all(app)


def killed_once(start, root, verb, number):
    world = copied(start, root)

    def act(step=None, then=lambda: None):
        with world.open(step):
            if verb == "propose":
                world.once()
            else:
                found = world.scratch.query("SELECT id FROM job_run WHERE kind = 'sleep'")[0][0]
                if world.run(found)["state"] == "proposed":
                    world.answer(verb, found)
            then()

    def check():
        text = "".join(world.files().values())
        state = "proposed" if verb == "propose" else "succeeded" if verb == "accept" else "declined"
        assert world.states() == [state], (number, point.names[-1:], world.states())
        assert text.count("## Trimmed Context") == (verb == "accept")
        sleep = [one for one in world.proposals() if world.run(one)["kind"] == "sleep"]
        assert len(sleep) == (verb == "propose")
        assert world.problems() == []

    point = Point(number, lambda: None, kill=True)
    code = forked(lambda: act(point))
    act()
    act(then=check)
    shutil.rmtree(root)
    assert code in {0, KILLED}
    return code == KILLED
