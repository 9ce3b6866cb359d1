"""A refinement that proposes: the agent cuts a core that only it sees, and a person's answer decides."""

from __future__ import annotations

import contextlib
import re
from datetime import timedelta
from itertools import count

import pytest
from chat_server import ChatServer
from mcp_world import Agent, door, ids_of
from refine_world import (
    LAW,
    NOW,
    PROMISE,
    TEXTS,
    CrashError,
    Crashes,
    Template,
    call,
    crash,
    done,
    end_process,
    id_in,
    plays,
)

from memoryd import config
from memoryd.changing import commit as committing
from memoryd.changing import forgetting, ledger_runs, plan
from memoryd.daemon import scheduled_times
from memoryd.database import reads, runs, sqlite
from memoryd.errors import RefusedError
from memoryd.jobs.job import Operate
from memoryd.ledger.guards import Caller, RefinementStart
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Delete, Protect, Update
from memoryd.requests import memory_changes, waiting
from memoryd.running import called_refining, refining
from memoryd.running.core_watch import CoreWatch

pytestmark = pytest.mark.long

SUMMARY = "I merged two memories, shortened one and protected one. I deleted 40."


MODES = {"facts": "off", "dream": "off", "dedup": "off", "refine": "propose"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("proposed"))


@pytest.fixture
def fresh(template):
    with contextlib.ExitStack() as stack:

        def make(*turns, consent="yes", **given):
            server = stack.enter_context(ChatServer(plays(*turns, consent=consent)))
            world = template.fresh(server.url)
            world.server = server
            world.scratch.write_config(modes=MODES)
            world.configure(**given)
            stack.enter_context(world.open())
            return world

        yield make


def mode(world, refine):
    world.scratch.write_config(modes=MODES | {"refine": refine})
    world.app.runner.settings = world.app.settings = config.load(world.scratch.config)


def answer(world, verb, run_id):
    with reads.open_reader(world.app.database) as reader:
        row = reads.job_run(reader, run_id)
    options = {**row["options"], "run": run_id, "of": row["kind"]}
    key = f"answer:{run_id}"
    asked = waiting.request(world.app.engine, world.app.clock, "demo", verb, options, key=key)
    world.app.runner.run_next(only=asked)
    return world.row(asked)


def proposal(world, run_id):
    return (world.scratch.workspace / "memory" / "proposals" / f"{run_id}.md").read_text(encoding="utf-8")


def journal(world):
    return [one.content for one in world.live(MemoryKind.JOURNAL)]


def merge(request):
    pair = [id_in(request, TEXTS[2]), id_in(request, TEXTS[3])]
    return [call("consolidate_memories", ids_to_merge=pair, new_content=LAW, dropped=["are copied"])]


def protect_merged(request):
    """Work on what only the shadow holds: the merged memory is found, and protected."""
    told = [one["content"] for one in request.json["messages"] if one["role"] == "tool"][-1]
    (made,) = re.findall(r'"new_ids": \["(core_\w+)"\]', told)
    return [
        call("protect_memory", id=made),
        call("search_memories", query="bucket Frankfurt"),
    ]


def shorten(request):
    return [
        call(
            "update_memory",
            id=id_in(request, TEXTS[0]),
            content="Since 2019 the user runs the shop on Postgres 16 in Frankfurt",
        ),
        call("delete_memory", id=id_in(request, PROMISE)),
    ]


GOOD = (merge, protect_merged, shorten, [done(SUMMARY)])


def test_a_refinement_is_proposed_whole_and_done_when_it_is_accepted(fresh):
    world = fresh(*GOOD)
    before, text = world.all(), world.text()
    row = world.refine()
    told = row["receipt"]["refine"]
    assert (row["state"], row["why"]) == ("proposed", "waits for an answer"), row
    assert world.text() == text
    assert {one: memory for one, memory in world.all().items() if one in before} == before
    assert told["counted"] | {"saved": 0} == {
        "merged": 2, "into": 1, "updated": 1, "deleted": 0, "protected": 1, "duplicates": 0, "saved": 0,
    }  # fmt: skip
    assert told["unfounded"] == ["numbers"]
    verdicts = [(one["tool"], one["verdict"]) for one in told["timeline"]]
    assert verdicts == [
        ("consolidate_memories", "done"),
        ("protect_memory", "done"),
        ("search_memories", "done"),
        ("update_memory", "done"),
        ("delete_memory", "constitutional"),
        ("complete_refinement", "done"),
    ]
    shown = proposal(world, row["id"])
    assert "Compressed 2 → 1; reworded 1" in shown
    assert "I deleted 40" in shown
    assert f"-- {TEXTS[2]}\n" in shown
    assert f"+- {LAW}\n" in shown
    (entry,) = journal(world)
    assert "It waits for a person's answer, and nothing is changed yet." in entry
    asked = len(world.server.requests)
    again = world.refine()  # while it waits nobody is asked
    assert (again["state"], again["receipt"]["waits_for"], len(world.server.requests)) == ("skipped", row["id"], asked)
    early = world.run(ledger_runs.ROLLBACK, run=row["id"])
    assert (early["state"], "is not carried out yet" in early["why"]) == ("declined", True)
    accepted = answer(world, "accept", row["id"])
    assert accepted["state"] == "succeeded", accepted
    world.check(before, accepted)
    assert LAW in world.text()
    assert next(one for one in world.live() if one.content == LAW).constitutional
    assert accepted["receipt"]["refine"]["counted"] == told["counted"]
    assert accepted["receipt"]["refine"]["timeline"] == told["timeline"]
    assert world.row(row["id"])["state"] == "succeeded"
    (told_of,) = [one for one in journal(world) if "is accepted" in one]
    assert "Compressed 2 → 1" in told_of
    assert SUMMARY in told_of
    mistaken = world.run(ledger_runs.ROLLBACK, run=row["id"])  # it has written no more than that it waits
    assert (mistaken["state"], accepted["id"] in mistaken["why"], LAW in world.text()) == ("declined", True, True)
    with pytest.raises(RefusedError, match="only made a proposal"):
        memory_changes.preview_rollback(world.app.settings, world.app.settings.agents[0], {"run": row["id"]})
    undone = world.run(ledger_runs.ROLLBACK, run=accepted["id"])
    assert undone["state"] == "succeeded", undone
    assert world.text() == text
    assert any(one.startswith("Rolled back on") for one in journal(world))
    assert {one.id for one in world.live()} == {one.id for one in before.values() if one.is_live}
    assert world.problems() == []


def test_what_is_rejected_changes_nothing_and_is_not_asked_for_again_until_the_core_is_another(fresh):
    world = fresh(*GOOD)
    before, text = world.all(), world.text()
    row = world.refine()
    rejected = answer(world, "reject", row["id"])
    assert (rejected["state"], world.row(row["id"])["state"]) == ("succeeded", "declined")
    assert world.text() == text
    assert {one: memory for one, memory in world.all().items() if one in before} == before
    assert any("was rejected on" in one for one in journal(world))
    asked = len(world.server.requests)
    again = world.refine(actor="memoryd")
    assert (again["state"], "rejected" in again["why"], len(world.server.requests)) == ("skipped", True, asked)
    by_hand = world.refine(actor="human")
    assert (by_hand["state"], f"rejected as {row['id']}; --force" in by_hand["why"]) == ("skipped", True)
    assert len(world.server.requests) == asked
    assert world.refine(actor="human", force=True)["state"] == "proposed"
    assert answer(world, "reject", "run-000004-refine")["state"] == "succeeded"
    world.path.write_text(f"{text}- The user has a new boat in Setubal\n", encoding="utf-8")
    world.take()
    assert world.refine(actor="memoryd")["state"] == "proposed"
    assert world.problems() == []


def test_a_rejection_that_is_rolled_back_keeps_nothing_from_being_proposed_again(fresh):
    world = fresh(*GOOD)
    scheduled_times.look_at_cores(world.app)
    while world.app.runner.run_next() is not None:
        pass
    ((proposed,),) = world.scratch.query("SELECT id FROM job_run WHERE state = 'proposed'")
    no = answer(world, "reject", proposed)["id"]
    scheduled_times.look_at_cores(world.app)
    assert "not done (rejected" in open_alarms(world)[0]
    back = world.run(ledger_runs.ROLLBACK, run=no)["id"]
    assert world.run(ledger_runs.ROLLBACK, run=back)["state"] == "succeeded"
    assert "rejected" in world.refine(actor="memoryd")["why"]
    before = world.scratch.query("SELECT max(id) FROM audit WHERE run_id = ?", proposed)[0][0]
    assert world.run(ledger_runs.ROLLBACK, to=before)["state"] == "succeeded"
    scheduled_times.look_at_cores(world.app)
    assert open_alarms(world) == []
    assert world.refine(actor="memoryd")["state"] == "proposed"
    assert world.problems() == []


@pytest.mark.parametrize("how", ["by itself again", "forgotten"])
def test_the_agent_is_told_of_a_proposal_that_is_taken_back(fresh, how):
    world = fresh(*GOOD)
    row = world.refine()
    assert any("waits for a person's answer" in one for one in journal(world))
    if how == "forgotten":
        world.run(forgetting.KIND, memory=world.id_of(TEXTS[6]))
    else:
        mode(world, "auto")
        world.app.runner.tend_proposals()
    assert world.row(row["id"])["state"] == "declined"
    why = (
        "something was forgotten meanwhile: it is decided again" if how == "forgotten" else "its job runs by itself now"
    )
    told = f"The refinement {row['id']} was reversed on {NOW:%Y-%m-%d} ({why}): nothing of it was done."
    assert told in journal(world)
    world.app.runner.tend_proposals()
    assert journal(world).count(told) == 1
    assert world.problems() == []


def test_what_came_in_meanwhile_is_not_rejected_with_what_was_shown(fresh):
    """The model never saw it: with it, another refinement may be proposed."""

    def add(request):
        world.path.write_text(f"{world.text()}- The user has a new boat in Setubal\n", encoding="utf-8")
        CoreWatch(world.app.runner).take(world.agent)
        return shorten(request)

    world = fresh(merge, add, [done(SUMMARY)])
    row = world.refine()
    assert (row["state"], "boat" in world.text()) == ("proposed", True), row
    assert answer(world, "reject", row["id"])["state"] == "succeeded"
    again = world.refine(actor="memoryd")
    assert again["state"] == "proposed", again


def test_accepting_goes_by_what_is_there_by_then_and_tells_what_passed(fresh):
    """The owner protects one of the merged: the merge falls, what stands on it falls, the rest is done."""
    world = fresh(*GOOD)
    row = world.refine()
    world.run(ledger_runs.EDIT, operations=[["protect", world.id_of(TEXTS[2])]])
    before = world.all()
    accepted = answer(world, "accept", row["id"])
    assert accepted["state"] == "succeeded", accepted
    world.check(before, accepted)
    told = accepted["receipt"]["refine"]
    assert [one["guard"] for one in accepted["receipt"]["refused"]] == ["constitutional", "edited"]
    assert (told["counted"]["merged"], told["counted"]["updated"], told["counted"]["protected"]) == (0, 1, 0)
    assert told["mutations"] == 1
    assert [one["verdict"] for one in told["timeline"]][:2] == ["constitutional", "edited"]
    (entry,) = [one for one in journal(world) if "is accepted" in one]
    assert "Reworded 1" in entry
    assert "the guards refused 2 of its changes" in entry
    assert LAW not in world.text()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"guards": {"erosion_percent": 0}}, "too much of the core"),
        ({"refine": {"max_mutations": 1}}, "too many changes in one refinement"),  # the first would pass
    ],
)
def test_nothing_is_done_where_a_guard_of_the_whole_refuses_some_of_it_by_then(fresh, limits, why):
    world = fresh(*GOOD)
    row = world.refine()
    world.scratch.write_config(**limits)
    world.app.runner.settings = world.app.settings = config.load(world.scratch.config)
    text = world.text()
    accepted = answer(world, "accept", row["id"])
    assert (accepted["state"], why in accepted["why"]) == ("declined", True), accepted
    assert (world.text(), world.row(row["id"])["state"]) == (text, "proposed")
    assert world.problems() == []


SHORTER = "The user runs the shop on Postgres 16 since 2019"
OTHERS = {
    "another is deleted": (lambda a, b, _c: (Delete(a), Delete(b))),
    "it is reworded otherwise": (lambda a, _b, _c: (Update(a, SHORTER), Update(a, "The user runs the shop"))),
    "it is given a category, not protected": (lambda a, _b, _c: (Protect(a), Update(a, category="learning"))),
    "another is refused": (lambda _a, b, c: (Delete(c), Delete(b))),
}


@pytest.mark.parametrize("how", OTHERS)
def test_what_is_committed_is_what_was_foreseen_and_not_merely_as_much(called, how):
    world = called
    with world.open():
        first, second, law = (world.id_of(text) for text in (TEXTS[0], TEXTS[6], PROMISE))
        looked_at, meant = OTHERS[how](first, second, law)
        # Of the second one the refinement saw another text, so that its guard is the one for edited memories.
        seen = {first: TEXTS[0], second: "edited"} if how == "another is refused" else {}
        begun = RefinementStart(world.tokens(), frozenset(one.id for one in world.live()))
        edits = [[Operate((one,), Caller.REFINEMENT, seen, begun)] for one in (looked_at, meant)]
        run_id, runner = world.queue("dedup"), world.app.runner
        run = runs.claim_run(world.app.engine, owner="me", now=world.app.clock.text(), agents=["demo"], only=run_id)
        writer = runner.writer(world.scratch.workspace)
        foreseen, outcome = committing.preview_run(writer, run, edits[0]), committing.RunOutcome("succeeded")
        meant_to = committing.preview_run(writer, run, edits[1])
        assert [(len(one.changes), len(one.refusals)) for one in foreseen.passed] == [
            (len(one.changes), len(one.refusals)) for one in meant_to.passed
        ]
        text = world.text()
        with pytest.raises(plan.OutdatedError, match="the memory store changed meanwhile"):
            committing.commit(writer, run, edits[1], outcome, foreseen=foreseen)
        assert world.text() == text
        committing.commit(writer, run, edits[0], outcome, foreseen=foreseen)
        assert world.problems() == []


def greedy(request):
    return [call("delete_memory", id=id_in(request, text)) for text in (TEXTS[5], *TEXTS[:4], *TEXTS[6:9])]


def test_a_guard_that_breaks_it_leaves_nothing_to_propose(fresh):
    world = fresh(greedy)
    before, text = world.all(), world.text()
    row = world.refine()
    assert row["state"] == "failed"
    assert "erosion" in row["why"]
    assert [one["verdict"] for one in row["receipt"]["refine"]["timeline"]][-1] == "late"
    assert world.text() == text
    assert {one: memory for one, memory in world.all().items() if one in before} == before
    assert any("all of its changes were reversed" in one for one in journal(world))
    assert not (world.scratch.workspace / "memory" / "proposals" / f"{row['id']}.md").exists()


@pytest.mark.parametrize("unfinished", ["keep", "rollback"])
def test_what_is_cut_short_is_proposed_as_far_as_it_came_or_not_at_all(fresh, unfinished):
    world = fresh(merge, unfinished=unfinished)  # and then the model calls nothing
    text = world.text()
    row = world.refine()
    assert world.text() == text
    if unfinished == "rollback":
        assert (row["state"], row["receipt"]["refine"]["rolled_back"]) == ("failed", True)
        return
    assert row["state"] == "proposed"
    assert "it was cut short (the model calls no tool)" in row["why"]
    assert answer(world, "accept", row["id"])["state"] == "succeeded"
    assert LAW in world.text()


def test_one_that_is_cancelled_proposes_nothing(fresh):
    def cancelling(request):
        world.scratch.change("UPDATE job_run SET cancel_requested = 1 WHERE state = 'running'")
        return [call("search_memories", query="shop")]

    world = fresh(merge, cancelling, [done()])
    text = world.text()
    row = world.refine()
    assert (row["state"], world.text()) == ("cancelled", text)
    assert world.problems() == []


def test_the_guards_judge_the_shadow_as_they_judge_what_is_written(fresh):
    """The same calls, proposed and accepted, and at once: the same verdicts, texts and file."""
    world = fresh(*GOOD)
    row = world.refine()
    accepted = answer(world, "accept", row["id"])
    at_once = fresh(*GOOD)
    mode(at_once, "auto")
    done_ = at_once.refine()

    def seen(told):
        return [(one["tool"], one["verdict"], one.get("before"), one.get("after")) for one in told["timeline"]]

    assert seen(done_["receipt"]["refine"]) == seen(accepted["receipt"]["refine"])
    assert done_["receipt"]["refine"]["counted"] == accepted["receipt"]["refine"]["counted"]
    assert at_once.text() == world.text()


def test_strict_is_strict_when_it_is_accepted_too(fresh):
    world = fresh(merge, lambda request: shorten(request)[:1], [done()])
    row = world.refine(mode="strict")
    assert row["state"] == "proposed", row
    kept = world.scratch.query("SELECT reply FROM job_run WHERE id = ?", row["id"])[0][0]
    # As much as half of the core may go, but not of a strict refinement.
    path = world.scratch.workspace / "MEMORY.md"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    gone = [one for one in lines if any(text in one for text in TEXTS[5:])]
    path.write_text("".join(one for one in lines if one not in gone), encoding="utf-8")
    world.take()
    assert kept
    accepted = answer(world, "accept", row["id"])
    assert (accepted["state"], "too little of the core" in accepted["why"]) == ("declined", True), accepted


def test_duplicates_are_part_of_the_proposal_and_dedup_mode_proposes_ends_alone(fresh):
    world = fresh(
        lambda request: [call("delete_memory", id=id_in(request, TEXTS[6])), *merge(request)], [done("Deleted 1.")]
    )
    world.path.write_text(f"{world.text()}- {TEXTS[0]}\n", encoding="utf-8")
    world.take()
    text = world.text()
    row = world.refine(mode="dedup")
    told = row["receipt"]["refine"]
    assert row["state"] == "proposed", row
    assert (told["counted"]["duplicates"], told["counted"]["deleted"], told["counted"]["merged"]) == (1, 1, 0)
    assert [one["verdict"] for one in told["timeline"]] == ["done", "error", "done"]
    assert world.text() == text
    before = world.all()
    accepted = answer(world, "accept", row["id"])
    world.check(before, accepted)
    assert world.text().count(TEXTS[0]) == 1
    assert TEXTS[6] not in world.text()


def test_one_that_is_declined_tells_of_no_duplicates_that_it_left_as_they_are(fresh):
    world = fresh(*GOOD, consent="no")
    world.path.write_text(f"{world.text()}- {TEXTS[0]}\n", encoding="utf-8")
    world.take()
    text = world.text()
    row = world.refine()
    assert (row["state"], row["receipt"].get("dedup"), world.text()) == ("declined", None, text), row


def test_an_edit_by_a_person_meanwhile_is_not_proposed_away(fresh):
    edited = f"{TEXTS[3]} of Lisbon"

    def edit(request):
        world.path.write_text(world.text().replace(TEXTS[3], edited), encoding="utf-8")
        CoreWatch(world.app.runner).take(world.agent)
        return shorten(request)

    world = fresh(merge, edit, [done(SUMMARY)])
    row = world.refine()
    told = row["receipt"]["refine"]
    assert row["state"] == "proposed", row
    assert (told["counted"]["merged"], told["counted"]["updated"], told["mutations"]) == (0, 1, 1)
    assert [one["verdict"] for one in told["timeline"]][:2] == ["edited", "done"]
    answer(world, "accept", row["id"])
    assert edited in world.text()
    assert world.problems() == []


def test_it_is_proposed_when_it_is_due_once_and_an_alarm_tells_of_a_no(fresh):
    world = fresh(*GOOD)
    for day in range(9):
        scheduled_times.look_at_cores(world.app)
        while world.app.runner.run_next() is not None:
            pass
        assert open_alarms(world) == []
        world.now += timedelta(days=1 if day else 0.1)
    states = world.scratch.query("SELECT state FROM job_run WHERE kind = 'refine' ORDER BY created_at")
    assert [one[0] for one in states] == ["proposed", "skipped"]  # a week later it waits still
    with reads.open_reader(world.app.database) as reader:
        (waiting,) = reads.list_proposals(reader, "demo")
    answer(world, "reject", waiting["run"])
    scheduled_times.look_at_cores(world.app)
    (alarm,) = open_alarms(world)
    assert f"what was proposed on {NOW:%Y-%m-%d} was not done (rejected: " in alarm
    assert alarm.endswith("by hand, or memoryd job run refine --force proposes it again")


def open_alarms(world):
    return [row[0] for row in world.scratch.query("SELECT text FROM alarm WHERE kind = 'core' AND cleared_at IS NULL")]


@pytest.fixture
def called(template):
    world = template.fresh()
    world.scratch.write_config(modes=MODES)
    world.configure()
    return world


def test_an_agent_that_calls_the_tools_itself_proposes_as_well(called):
    world = called
    text = world.text()
    with door(world.scratch) as asked:
        agent = Agent(asked)
        merged = agent("consolidate_memories", ids_to_merge=ids_of(agent, TEXTS[2], TEXTS[3]), new_content=TEXTS[2])
        assert (merged["over"], "error" in merged) == (False, False)
        assert "error" not in agent("protect_memory", id=merged["new_ids"][0])
        assert ids_of(agent, TEXTS[2]) == merged["new_ids"]
        assert agent("delete_memory", id=merged["new_ids"][0])["error"].startswith("protected")
        end = agent("complete_refinement", summary="I merged 2 memories into 1 and protected it.")
        assert (end["over"], end["state"]) == (True, "proposed")
        assert world.text() == text
        assert agent("search_memories", query="shop")["memories"]
        assert "waits for an answer" in agent("delete_memory", id=merged["new_ids"][0])
    with world.open():
        with sqlite.begin_read(world.app.engine) as connection:
            assert called_refining.size_if_due(connection, world.app.settings, "demo", "") is None
        before = world.all()
        accepted = answer(world, "accept", end["run"])
        world.check(before, accepted)
        assert next(one for one in world.live() if one.content == TEXTS[2]).constitutional


def test_what_was_forgotten_meanwhile_ends_an_agents_own_refinement(called):
    world = called
    with door(world.scratch) as asked:
        agent = Agent(asked)
        pair = ids_of(agent, TEXTS[2], TEXTS[3])
        run = agent("consolidate_memories", ids_to_merge=pair, new_content=TEXTS[2])["run"]
    told = world.scratch.json("forget", pair[0], "--yes")
    assert told
    with world.open():
        row = world.row(run)
        assert (row["state"], "forgotten" in row["why"]) == ("cancelled", True)
        assert world.scratch.query("SELECT count(*) FROM job_run WHERE reply LIKE '%bucket%'") == [(0,)]
        assert world.problems() == []


ENDS = {"propose": "proposed", "accept": "succeeded", "reject": "declined"}


def crashed_once(fresh, verb, number):
    """Whether the process was ended at a step of proposing or answering; what the next start makes of it is checked."""
    world = fresh(merge, lambda request: shorten(request)[:1], [done(SUMMARY)])
    before, text = world.all(), world.text()
    run_id = world.queue("refine", key="refine:demo")
    if verb != "propose":
        world.app.runner.run_next(only=run_id)
    world.app.close()
    steps = Crashes(number)
    with world.open(steps):
        with contextlib.suppress(CrashError):
            if verb == "propose":
                world.app.runner.run_next(only=run_id)
            else:
                answer(world, verb, run_id)
        steps.left = 0
        end_process(world)
    with world.open():
        while world.app.runner.run_next() is not None:
            pass
        if verb != "propose" and world.row(run_id)["state"] == "proposed":
            answer(world, verb, run_id)
        assert world.row(run_id)["state"] == ENDS[verb], (number, world.row(run_id))
        assert (world.text() == text) is (verb != "accept")
        assert len(journal(world)) == (1 if verb == "propose" else 2)
        shown = world.scratch.workspace / "memory" / "proposals" / f"{run_id}.md"
        assert shown.exists() is (verb == "propose")
        world.check(before)
    return steps.crashed


def test_one_that_has_written_changes_does_not_say_that_nothing_is_changed(fresh, monkeypatch):
    """Its process ends behind the first change, and refinements are proposed from then on."""
    world = fresh(merge, lambda request: shorten(request)[:1])
    mode(world, "auto")
    before, carried, calls = world.all(), refining.Refiner.apply_step, count()
    run_id = world.queue("refine", key="refine:demo")
    with monkeypatch.context() as patch, contextlib.suppress(CrashError):
        patch.setattr(refining.Refiner, "apply_step", lambda *given: crash() if next(calls) else carried(*given))
        world.app.runner.run_next(only=run_id)
    end_process(world)
    world.app.close()
    world.scratch.write_config(modes=MODES)
    with world.open():
        world.app.runner.run_next(only=run_id)
        row = world.row(run_id)
        assert (row["state"], "memoryd was stopped" in row["why"]) == ("succeeded", True), row
        assert row["receipt"]["refine"]["counted"]["into"] == 1
        assert not any("nothing is changed yet" in one for one in journal(world))
        world.check(before, row)


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("verb", ENDS)
def test_a_stop_at_any_step_leaves_one_question_or_one_answer(fresh, verb, every):
    number = 1
    while crashed_once(fresh, verb, number):
        number += every
    assert number > every
