"""The last sessions in `RECENT.md` and the archive: when they are written, what stops it, and what goes again."""

import json
import os
import re
import shutil

import pytest
from planted_secrets import planted
from rolled_world import HOUR, ROLLS, World
from scratch import STARTED, message, recent, until
from sweep import KILLED, Point, forked

from memoryd.changing import forgetting, ledger_runs, rescrub
from memoryd.running import rollover
from memoryd.tiers.archive import FOLDER

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
pytestmark = pytest.mark.long

SECRET = next(one for one in planted("told long ago") if one.name == "github-classic").secret


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "scratch")


def test_a_session_is_told_when_it_has_ended_and_its_last_sleep_is_done(world):
    world.speak("billing", "one")
    assert world.once(0.1) == []
    assert world.once(3) == [("sleep", "succeeded"), ("rollover", "succeeded")]
    assert world.topics() == ["billing"]
    assert world.text().startswith("# RECENT - Last 3 Sessions\n\n## Session 2026-03-04 morning (0.1h)\n")
    assert "The billing tests pass." in world.archived()
    world.check()
    told = world.everything()
    assert world.once(1) == world.once(1) == [], "once for each change"
    (row,) = world.scratch.query("SELECT json_extract(receipt, '$.rollover') FROM job_run WHERE kind = 'rollover'")
    assert json.loads(row[0]) == {"sessions": 1, "offline": 0, "files": 3}
    assert world.carry_out(rollover.KIND)["state"] == "skipped"
    assert world.everything() == told


def test_the_last_sessions_are_told_by_count_newest_first_and_brought_up_to_date(world):
    for topic in ("billing", "search", "mail", "login"):
        world.session(topic)
        world.now += 700 * HOUR
    assert world.topics() == ["login", "mail", "search"]
    assert "billing" in world.archived()
    before = world.text()
    assert world.session("metrics", "mail") == [("sleep", "succeeded"), ("rollover", "succeeded")]
    (mail,) = [part for part in world.text().split("\n## ") if "mail" in part]
    assert mail.index("move the mail") < mail.index("move the metrics")
    assert world.text().index("metrics") < world.text().index("login")
    assert before in [path.read_text(encoding="utf-8") for path in world.folder.glob("backup/*/RECENT.md")]
    assert world.parts().count("mail") == 1
    world.check()


def test_a_subagents_session_and_an_empty_one_displace_no_other(world):
    for topic in ("billing", "search", "mail"):
        world.session(topic)
    world.session("login")
    world.scratch.append([message("assistant", "The nightly job has nothing to do.", at=world.now)], "empty")
    world.once(0.1)
    world.once(3)
    world.scratch.change("UPDATE session SET parent_id = ? WHERE id = ?", world.id_of("mail"), world.id_of("login"))
    world.scratch.change("UPDATE session_summary SET told = 'before' WHERE session_id = ?", world.id_of("billing"))
    world.once(1)
    assert world.topics() == ["mail", "search", "billing"]


@pytest.mark.parametrize("told", ["**Files**: `limits.py`", ""])
def test_a_session_counts_though_nothing_was_asked_if_files_were_changed(world, told):
    world.session("billing")
    changed = "\n### Files changed\n- `limits.py`" if told else ""
    summary = f"### Found out\n- The limits are in one file now.{changed}"
    world.scratch.change("UPDATE session_summary SET summary = ?, told = 'before'", summary)
    world.once(1)
    assert (f"- The limits are in one file now.\n\n{told}" in world.text()) == bool(told)


def test_of_history_that_is_only_read_the_last_sessions_are_summed_up_offline(world):
    for topic in ("billing", "search", "mail", "login"):
        world.speak(topic, topic)
        world.now += 30 * HOUR
    assert world.once() == [("rollover", "succeeded")]
    assert world.topics() == ["login", "mail", "search"]
    assert world.scratch.dailies() == {}
    assert world.scratch.query("SELECT count(*) FROM session_summary WHERE summary <> ''") == [(3,)]
    assert world.scratch.query("SELECT count(*) FROM watermark") == [(0,)]
    asked = (world.scratch.root / "asked").read_bytes()
    assert world.once(1) == []
    world.session("metrics")
    assert world.topics() == ["metrics", "login", "mail"]
    assert (world.scratch.root / "asked").read_bytes().count(b"sleep") == asked.count(b"sleep") + 1, "summed up once"
    # One that goes on after all sleeps as if nothing had been kept of it: its day gets the whole session.
    world.session("backup", "mail")
    whole = "".join(world.scratch.dailies().values())
    assert "move the mail" in whole
    assert "move the backup" in whole
    world.check()


@pytest.mark.parametrize("modes", [ROLLS | {"rollover": "off"}, ROLLS | {"sleep": "off"}])
def test_nothing_is_told_where_it_is_off(tmp_path, modes):
    world = World(tmp_path / "scratch", modes=modes)
    world.speak("billing", "one")
    assert [kind for kind, _ in world.once(30)] == []
    world.session("search")
    assert world.text() == ""


def test_it_is_proposed_once_and_written_when_a_person_accepts(tmp_path):
    world = World(tmp_path / "scratch", modes=ROLLS | {"rollover": "propose"})
    assert ("rollover", "proposed") in world.session("billing")
    assert world.text() == ""
    assert world.once(1) == []
    (run_id,) = world.runs_of("rollover")[0]
    proposal = (world.scratch.workspace / "memory" / "proposals" / f"{run_id}.md").read_text(encoding="utf-8")
    assert "+**Focus**: Please move the billing" in proposal
    assert world.carry_out("accept", run=run_id, of="rollover")["state"] == "succeeded"
    assert world.topics() == ["billing"]
    assert world.once(1) == []
    world.session("search")
    (run_id,) = world.runs_of("rollover")[-1]
    (world.folder / "RECENT.md").write_text("mine\n", encoding="utf-8")
    assert "written meanwhile" in world.carry_out("accept", run=run_id, of="rollover")["why"]
    assert world.carry_out("reject", run=run_id, of="rollover")["state"] == "succeeded"
    assert world.once(1) == []
    assert world.text() == "mine\n"


@pytest.mark.parametrize("name", ["RECENT.md", "MEMORY-2026-03-04.md"])
def test_an_edit_by_hand_is_kept_in_the_backup_also_one_in_the_middle_of_a_run(world, name):
    world.session("billing")
    edits = [world.text(name) + "\n## Mine\n\nby hand\n"]
    (world.folder / name).write_text(edits[0], encoding="utf-8")
    world.speak("search", "search")
    world.once(0.1)

    def edit(step):
        if step == "after:intent" and len(edits) == 1 and world.runs_of("rollover")[1:]:
            edits.append(f"{edits[0]}\nanother line\n")
            (world.folder / name).write_text(edits[1], encoding="utf-8")

    assert world.once(3, edit) == [("sleep", "succeeded"), ("rollover", "succeeded")]
    assert world.topics() == ["search", "billing"]
    kept = [path.read_text(encoding="utf-8") for path in world.folder.glob(f"backup/*/{name}*")]
    assert edits[1] in kept
    assert "another line" in world.text(name), "what people wrote beside the parts stays"
    world.check()


def test_the_archive_keeps_the_part_of_each_session_of_a_day(world):
    world.session("billing")
    world.session("search")
    assert world.parts() == ["billing", "search"]
    assert re.search(r"source_sessions: \[billing-\w+, search-\w+\]\ntotal_sessions: 2\n", world.archived())


# --- stopped at any step ---


def stopped(world, pristine, number, edited):
    """Stop a rollover at one of its steps, edit a file if wanted, and start again; the exit code of the first."""
    world.scratch, world.now = world.scratch.copied(pristine), STARTED + 3.2 * HOUR
    names = world.scratch.root / "names"

    def first():
        def step(name):
            if len(world.runs_of("rollover")) == 2:
                point(name)
                names.write_text(json.dumps(point.names))

        point = Point(number, lambda: names.write_text(json.dumps(point.names)), kill=True)
        world.once(3, step)

    code = forked(first)
    world.now += 3 * HOUR
    mine = world.text() + "mine\n"
    is_over = world.scratch.query("SELECT count(*) FROM job_run WHERE state <> 'succeeded'") == [(0,)]
    if edited and not is_over:
        (world.folder / "RECENT.md").write_text(mine, encoding="utf-8")
    assert forked(lambda: world.once(1)) == 0
    world.app = None
    at = (number, edited, json.loads(names.read_text()) if names.exists() else None)
    assert world.topics() == ["search", "billing"], at
    assert world.archived().count("## Session ") == 2, at
    assert ("mine" in world.text()) is (edited and not is_over), at
    assert world.scratch.query("SELECT count(*) FROM intent") == [(0,)], at
    states = {state for (state,) in world.scratch.query("SELECT state FROM job_run")}
    assert states <= {"succeeded", "skipped"}, at
    assert [path for path in world.folder.rglob("*") if ".memoryd-" in path.name] == [], at
    forked(lambda: os._exit(0 if world.once(1) == [] else 1))
    world.check()
    return code


@pytest.mark.timeout(600)
@pytest.mark.parametrize("edited", [False, True])
def test_one_that_is_stopped_at_any_step_comes_to_the_same(tmp_path, edited):
    world, pristine = World(tmp_path / "scratch"), tmp_path / "pristine"
    world.session("billing")
    world.speak("search", "search")
    world.once(0.1)
    assert world.now == STARTED + 3.2 * HOUR
    shutil.copytree(world.scratch.root, pristine)
    number = begun = 1 + 20 * edited
    while stopped(world, pristine, number, edited) == KILLED:
        number += 1 if SOAK else 40  # both cases together stop at every twentieth step
    assert number > begun + 15


# --- what goes again ---


def test_a_forgotten_session_is_told_nowhere_and_the_next_moves_up(world):
    for topic in ("billing", "search", "mail", "login"):
        world.session(topic)
    assert "mail" in world.everything()
    assert world.carry_out(forgetting.KIND, session=world.id_of("mail"))["state"] == "succeeded"
    assert world.topics() == ["login", "search"]
    parts = "".join(path.read_text() for path in world.scratch.workspace.glob(".continuum/memory/MEMORY-*.md"))
    assert parts.count("### Asked") == 3, "the others keep their headings"
    assert "mail" not in world.everything(), "not in a backup either"
    world.once(1)
    assert world.topics() == ["login", "search", "billing"]
    assert "mail" not in world.everything()
    world.check()


def test_a_secret_that_is_found_late_is_told_nowhere(tmp_path):
    world = World(tmp_path / "scratch", scrub={"secrets": "off"})
    world.session(f"key {SECRET}", "one")
    world.session("billing")
    assert SECRET in world.text()
    assert SECRET in world.archived()
    world.scratch.write_config(scrub={"secrets": "redact"})
    assert world.carry_out(rescrub.KIND, agents=["demo"])["state"] == "succeeded"
    world.session("search")
    assert "[REDACTED:" in world.text()
    assert SECRET not in world.everything()
    world.check()


def test_rolling_back_a_sleep_takes_its_session_out_at_once_however_old(world):
    for topic in ("billing", "search", "mail", "login"):
        world.session(topic)
    first, *_, last = [run_id for (run_id,) in world.runs_of("sleep")]
    for run_id in (first, last):
        assert world.carry_out(ledger_runs.ROLLBACK, run=run_id)["state"] == "succeeded"
    assert world.topics() == ["mail", "search"]
    assert world.parts() == ["search", "mail"]
    world.check()


def test_rolling_a_later_sleep_back_tells_what_the_earlier_one_kept(world):
    world.session("billing", "one")
    before = world.text()
    world.session("search", "one")
    (_, (last,)) = world.runs_of("sleep")
    world.carry_out(ledger_runs.ROLLBACK, run=last)
    world.scratch.write_config(modes=ROLLS | {"sleep": "off"})
    world.once(1)
    assert "search" not in world.text()
    assert before.split("\n\n")[2] in world.text()


def test_a_rollover_can_be_rolled_back_and_is_not_repeated(world):
    world.session("billing")
    before = world.text()
    world.session("search")
    first, second = [run_id for (run_id,) in world.runs_of("rollover")]
    assert world.carry_out(ledger_runs.ROLLBACK, run=second)["state"] == "succeeded"
    assert world.text() == before
    assert world.once(1) == []
    assert world.carry_out(ledger_runs.ROLLBACK, run=first)["state"] == "succeeded"
    assert world.text() == world.archived() == ""


# --- the daemon ---


def test_a_daemon_writes_it_when_a_session_ends(tmp_path):
    world = World(tmp_path / "scratch", ingest={"settle": "20ms"}, sessions={"idle_end": "1s"})
    with world.scratch.daemon():
        world.now = recent(0)
        world.speak("billing", "one")
        until(lambda: world.topics() == ["billing"], why="the session is told")
    world.check()
    # On a busy machine, the daemon may look again and find nothing new, which is a skipped run.
    runs = set(world.scratch.query("SELECT kind, state FROM job_run")) - {("rollover", "skipped")}
    assert runs == {("sleep", "succeeded"), ("rollover", "succeeded")}


def test_a_person_may_ask_for_it_and_see_before_what_it_would_write(tmp_path):
    world = World(tmp_path / "scratch", modes=ROLLS | {"rollover": "off"})
    world.session("billing")
    (dry,) = world.scratch.json("job", "run", "rollover", "--dry-run")["runs"]
    names = ("MEMORY-2026-03-04.md", "MEMORY.md", "RECENT.md")
    assert [one["where"] for one in dry["would"]] == [f"{FOLDER}/{name}" for name in names]
    assert "move the billing" in dry["would"][2]["content"]
    assert world.text() == ""
    assert world.scratch.json("job", "run", "rollover")["state"] == "succeeded"
    assert world.topics() == ["billing"]
