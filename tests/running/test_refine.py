"""Refinements in all that surrounds them: when they are due, how they are stopped, told and taken back."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta

import pytest
from chat_server import ChatServer, refuse
from refine_world import (
    LAW,
    POSTGRES,
    PROMISE,
    TEXTS,
    CrashError,
    Template,
    World,
    by_words,
    call,
    crash,
    done,
    end_process,
    ids,
    in_text,
    is_verify,
    ledger,
    native,
    plays,
)

from memoryd.changing import ledger_runs
from memoryd.daemon import scheduled_times
from memoryd.database import runs, sqlite
from memoryd.errors import RefusedError, StateError
from memoryd.gauge.estimate import estimate
from memoryd.ledger.memory import MemoryKind
from memoryd.requests import context, waiting
from memoryd.running import refining


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("refine"))


@pytest.fixture
def fresh(template):
    return template.fresh


def merging(*places, text=POSTGRES):
    return lambda r: [call("consolidate_memories", ids_to_merge=ids(r, *places), new_content=text)]


GOOD = plays(merging(0, 1), merging(2, 3, text=LAW), [done("I merged four memories into two.")])


def talk(server):
    """The requests of the conversation, without those to the second reader."""
    return [one for one in server.requests if not is_verify(one)]


def refinements(world):
    return world.scratch.query(
        "SELECT trigger, state, why FROM job_run WHERE kind = 'refine' ORDER BY created_at, rowid"
    )


def alarms(world):
    return [row[0] for row in world.scratch.query("SELECT text FROM alarm WHERE kind = 'core' AND cleared_at IS NULL")]


def run_all(world):
    while world.app.runner.run_next() is not None:
        pass


# --- the offline backend ----------------------------------------------------------------------------------------------

SAME = (
    "The shop runs on Postgres 16 in Frankfurt",
    "The shop runs on Postgres 16 in Frankfurt.",
    "The user keeps two cats, Mia and Tom. They live in the house by the lake",
    "the user keeps two cats, Mia and Tom.",
    "User: never deploy on a Friday",
    "User: deploy on a Friday",
    "The colour of the door is purple",
    "The colour of the door is cyan",
    "I keep the letters of Anna private",
)


def test_offline_only_identical_memories_become_one(tmp_path):
    world = World.made(tmp_path / "scratch", (SAME[0], *SAME), protected=())
    with world.open():
        row = world.refine(force=True)
        assert row["why"] == "1 duplicates ended; only a model can condense what is left"
        assert [memory.content for memory in world.live()] == list(SAME)


def test_duplicates_go_first_and_a_small_core_is_left_alone(tmp_path):
    world = World.made(tmp_path / "scratch", ("one and the same", "one and the same", "another"), protected=())
    with world.open():
        row = world.refine()
        assert row["state"] == "succeeded"
        assert row["why"].startswith("1 duplicates ended; the core has")
        assert [memory.content for memory in world.live()] == ["one and the same", "another"]


# --- who answers ------------------------------------------------------------------------------------------------------


def test_the_agents_own_model_is_asked_with_its_guide_and_no_other_steps_in(fresh):
    with ChatServer(GOOD) as own, ChatServer(refuse("500 Oh")) as other:
        world = fresh(other.url)
        guide = world.scratch.root / "guide.md"
        guide.write_text("Keep the tone of the sea.", encoding="utf-8")
        world.scratch.agents[0] |= {"model": "own-1", "base_url": own.url, "guide": str(guide)}
        world.configure()
        world.scratch.write_config(llm=world.scratch.settings["llm"] | {"fallback": "offline"})
        with world.open():
            assert world.refine()["state"] == "succeeded"
        assert not other.requests
        assert {request.json["model"] for request in own.requests} == {"own-1"}
        assert all("Keep the tone of the sea." in request.json["messages"][0]["content"] for request in talk(own))
        asked = own.requests[1].json["messages"][1]["content"]
        assert "Current core:" in asked
        assert "target: 20" in asked
        assert "[CONSTITUTIONAL]" in asked


def test_a_guide_that_is_private_goes_to_no_model(fresh):
    with ChatServer(GOOD) as own:
        world = fresh(own.url)
        guide = world.scratch.root / "guide.md"
        guide.write_text("---\nprivate: true\n---\nKeep the tone of the sea.", encoding="utf-8")
        world.scratch.agents[0] |= {"guide": str(guide)}
        world.configure()
        with world.open():
            row = world.refine()
        assert "the agent's guide is private" in row["error"]
        assert not own.requests


@pytest.mark.long
def test_a_conversation_passes_unharmed_through_the_child_that_asks(fresh):
    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        with world.open(child=True):
            before = world.all()
            row = world.refine()
            world.check(before, row)
            assert (row["state"], len(world.live())) == ("succeeded", len(TEXTS) - 2)


def test_a_model_that_fails_is_waited_for_and_answers_are_paid_once(fresh):
    part = plays(merging(0, 1), [done()])
    with ChatServer(part) as server:
        world = fresh(server.url)
        world.configure()
        world.scratch.write_config(llm=world.scratch.settings["llm"] | {"fallback": "offline"})
        with world.open():
            server.part = lambda connection, request: (
                part(connection, request) if len(server.requests) == 1 else refuse("503 Busy")(connection, request)
            )
            row = world.refine()
            assert (row["state"], len(server.requests)) == ("queued", 2)
            server.part = part
            world.now += timedelta(hours=1)
            world.app.runner.answerer.renew()
            world.app.runner.run_next(only=row["id"])
            row = world.row(row["id"])
            assert row["state"] == "succeeded"
            consents = [one for one in talk(server) if "tools" not in one.json]
            assert len(consents) == 1
            assert world.scratch.query("SELECT count(*) FROM spend") == [(len(server.requests),)]


def test_a_model_that_only_a_person_can_help_is_not_stood_in_for(fresh):
    with ChatServer(refuse("401 Unauthorized")) as server:
        world = fresh(server.url)
        world.configure()
        world.scratch.write_config(llm=world.scratch.settings["llm"] | {"fallback": "offline"})
        with world.open():
            row = world.refine()
            assert (row["state"], len(world.live())) == ("blocked", len(TEXTS))


def test_searches_find_by_words_and_days_among_what_is_live(fresh):
    world = fresh()
    with world.open():
        core = world.live()
        found = refining.search(core, "lemon trees in the garden", None, None)
        assert {memory.content for memory in core if memory.id in found[:2]} == {TEXTS[6], TEXTS[7]}
        assert len(refining.search(core, "", "2025-01-03", "2025-01-05")) == 3
        assert refining.search(core, "lemon", "2025-01-10", None) == []
        assert [refining.search(core, sign, None, None) for sign in ("%", "???")] == [[], []]
        assert set(refining.search(core, "_", None, None)) == {one.id for one in core if "_" in one.content}


def test_a_server_without_tools_is_asked_in_text_and_remembered(fresh):
    script = plays(merging(0, 1), merging(2, 3, text=LAW), [done()], how=in_text)

    def part(connection, request):
        if "tools" in request.json:
            connection.error("400 Bad Request", "tiny-1 does not support tools")
        else:
            script(connection, request)

    with ChatServer(part) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            row = world.refine()
            assert (row["state"], len(world.live())) == ("succeeded", len(TEXTS) - 2)
        assert sum("tools" in request.json for request in server.requests) == 1
        last = server.requests[-1].json["messages"]
        assert "consolidate_memories: Replace" in last[0]["content"]
        assert '{"tool": "consolidate_memories", "arguments": {"ids_to_merge"' in last[2]["content"]
        assert last[3]["content"].startswith('result 1 {"ok": true')


def test_a_ledger_that_does_not_fit_is_shown_in_batches(fresh):
    seen = []

    def part(connection, request):
        if "tools" not in request.json:
            in_text(connection, (), "yes")
            return
        shown = [text for _, text in ledger(request)]
        if len(shown) > 5:
            connection.error("400 Bad Request", "This model's maximum context length is 1024 tokens")
            return
        seen.append(shown)
        native(connection, [*(merging(0, 1)(request) if shown[0] == TEXTS[0] else []), done(f"part {len(seen)}.")])

    with ChatServer(part) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            before = world.all()
            row = world.refine()
            world.check(before, row)
            assert row["state"] == "succeeded"
            assert [text for shown in seen for text in shown] == list(TEXTS)
            assert f'"{"part 1. part 2. part 3."}"' in world.live(MemoryKind.JOURNAL)[0].content


def test_a_rehearsal_changes_nothing_and_asks_nobody(fresh):
    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        (told,) = world.scratch.json("job", "run", "refine", "--dry-run")["runs"]
        assert (told["state"], server.requests) == ("asks", [])
        assert told["asks"]["model"].startswith("tiny-1 at ")
    world.url = None
    world.configure(target_tokens=10_000)
    (told,) = world.scratch.json("job", "run", "refine", "--dry-run")["runs"]
    assert (told["state"], told["would"]) == ("skipped", [])
    assert "the target is 10,000" in told["why"]
    with world.open():
        assert refinements(world) == []


# --- stopped ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unfinished", ["keep", "rollback"])
def test_cancelled_in_the_middle_it_ends_in_good_order(fresh, unfinished):
    with ChatServer(plays(merging(0, 1), merging(2, 3, text=LAW), [done()])) as server:
        world = fresh(server.url)
        world.configure(unfinished=unfinished)
        with world.open():
            run_id = world.queue("refine", key="refine:demo")
            part = server.part

            def cancelling(connection, request):
                if len(talk(server)) == 3:
                    runs.cancel(world.app.engine, run_id, world.app.clock.text())
                part(connection, request)

            server.part = cancelling
            before = world.all()
            world.app.runner.run_next(only=run_id)
            row = world.row(run_id)
            world.check(before, row)
            assert (row["state"], len(talk(server))) == ("cancelled", 3)
            assert len(world.live()) == len(TEXTS) - (unfinished == "keep")
            assert "cancelled by hand" in world.live(MemoryKind.JOURNAL)[0].content


@pytest.fixture
def dies(monkeypatch):
    """Carries a refinement out up to its end, where its process ends or fails."""

    def die(world, how=crash):
        run_id = world.queue("refine", key="refine:demo")
        with monkeypatch.context() as patched, contextlib.suppress(CrashError):
            patched.setattr(refining.Refiner, "finish", how)
            world.app.runner.run_next(only=run_id)
        end_process(world)
        return run_id

    return die


def test_a_guard_that_broke_it_takes_all_back_though_the_process_ends_first(fresh, dies):
    with ChatServer(plays(merging(0, 1), lambda r: [call("delete_memory", id=one) for one, _ in ledger(r)])) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            text = world.text()
            run_id = dies(world)
            assert world.text() != text
        asked = len(server.requests)
        with world.open():
            world.app.runner.run_next(only=run_id)
            row = world.row(run_id)
            assert (row["state"], row["receipt"]["refine"]["ended"]) == ("failed", "breaker")
            assert row["why"].startswith("the guard stopped it (erosion: too much")
            assert (world.text(), world.problems(), len(server.requests)) == (text, [], asked)


@pytest.mark.long
@pytest.mark.parametrize("unfinished", ["keep", "rollback"])
def test_cancelled_or_given_up_behind_its_changes_it_still_ends_in_good_order(fresh, dies, unfinished):
    def refuse_all(*_):
        raise StateError("no")

    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure(unfinished=unfinished)
        with world.open():
            text = world.text()
            run_id = dies(world)
            with sqlite.begin_write(world.app.engine) as connection:
                connection.exec_driver_sql("UPDATE job_run SET attempt = 99 WHERE id = ?", (run_id,))
        with world.open():  # its attempts are used up, its changes are there
            assert world.row(run_id)["state"] == "interrupted"
            assert runs.cancel(world.app.engine, run_id, world.app.clock.text()) == "interrupted"
            assert world.row(run_id)["state"] == "queued"
            world.app.runner.run_next(only=run_id)
            row = world.row(run_id)
            assert (row["state"], row["receipt"]["refine"]["ended"]) == ("cancelled", "cancelled by hand")
            assert (world.text() == text) is (unfinished == "rollback")
            assert "cancelled by hand" in world.live(MemoryKind.JOURNAL)[0].content
            if unfinished == "rollback":
                run_id = dies(world, refuse_all)
                with sqlite.begin_write(world.app.engine) as connection:
                    connection.exec_driver_sql("UPDATE job_run SET attempt = 99 WHERE id = ?", (run_id,))
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(refining.Refiner, "finish", refuse_all)
                    world.now += timedelta(hours=2)
                    world.app.runner.run_next(only=run_id)
                assert world.row(run_id)["state"] == "queued"
                runs.hurry_run(world.app.engine, run_id, world.app.clock.text())
                world.app.runner.run_next(only=run_id)
                assert (world.row(run_id)["state"], world.text(), world.problems()) == ("failed", text, [])


@pytest.mark.long
@pytest.mark.parametrize("at", [2, 3], ids=["a change", "the end"])
def test_cancelled_in_the_midst_of_a_commit_it_ends_in_good_order(fresh, monkeypatch, at):
    commit, commits = refining.committing.commit, []

    def cancelling(*given, **more):
        commits.append(given)
        if len(commits) == at:
            runs.cancel(world.app.engine, run_id, world.app.clock.text())
        return commit(*given, **more)

    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            run_id = world.queue("refine", key="refine:demo")
            before = world.all()
            monkeypatch.setattr(refining.committing, "commit", cancelling)
            world.app.runner.run_next(only=run_id)
            row = world.row(run_id)
            world.check(before, row)
            assert (row["state"], row["receipt"]["refine"]["counted"]["into"]) == ("cancelled", at - 1)
            assert "cancelled by hand" in world.live(MemoryKind.JOURNAL)[0].content


def test_asked_for_by_hand_one_that_waits_becomes_what_is_asked_for(fresh):
    world = fresh()
    with world.open():
        engine, clock, key = world.app.engine, world.app.clock, "refine:demo"
        queued = world.queue("refine", key=key, actor="memoryd")
        for mode in ("dedup", "strict"):
            assert waiting.request(engine, clock, "demo", "refine", {"mode": mode, "force": False}, key=key) == queued
            assert world.row(queued)["options"] == {"mode": mode, "force": False}
        run = runs.claim_run(engine, owner="x", now=clock.text(), agents=["demo"], only=queued)
        assert run.options["mode"] == "strict"
        for options in ({"mode": "strict", "force": False}, {"force": False}):
            assert waiting.request(engine, clock, "demo", "refine", options, key=key) == queued
        with pytest.raises(RefusedError, match=f"{queued}.*other options|other options.*{queued}"):
            waiting.request(engine, clock, "demo", "refine", {"mode": "dedup", "force": False}, key=key)
        assert world.row(queued)["options"] == {"mode": "strict", "force": False}


def test_its_time_is_limited(fresh):
    with ChatServer(plays(merging(0, 1), merging(2, 3, text=LAW), [done()])) as server:
        world = fresh(server.url)
        world.configure(max_time="60s")
        with world.open():
            ticks = iter([0.0, *[1.0] * 6, *[100.0] * 99])
            world.app.runner.clock = type(world.app.clock)(lambda: world.now, lambda: next(ticks))
            row = world.refine()
            assert row["why"].startswith("it was cut short (out of time)")
            assert world.problems() == []


def test_its_tokens_are_limited(fresh):
    endless = [lambda r, n=n: [call("search_memories", query=f"lemon {n}")] for n in range(50)]
    with ChatServer(plays(merging(0, 1), *endless)) as server:
        world = fresh(server.url)
        world.configure()
        world.scratch.write_config(
            llm=world.scratch.settings["llm"] | {"run_tokens": 12_000, "max_output_tokens": 4096}
        )
        with world.open():
            row = world.refine()
            assert (row["state"], row["receipt"]["refine"]["mutations"]) == ("succeeded", 1)
            assert "llm.run_tokens" in row["why"]
            assert world.scratch.query("SELECT kind FROM alarm WHERE cleared_at IS NULL") == []
            assert 3 <= len(server.requests) < 20


def test_two_never_wait_or_run_at_once(fresh):
    world = fresh()
    with world.open(), sqlite.begin_write(world.app.engine) as connection:
        now = world.app.clock.text()
        row = {"kind": "refine", "agent_id": "demo", "actor": "human", "trigger": "manual", "created_at": now}
        row |= {"key": "refine:demo", "scheduled_for": now}
        assert runs.enqueue(connection, row | {"id": "one"})
        assert not runs.enqueue(connection, row | {"id": "two"})


def test_an_edit_by_a_person_meanwhile_is_not_overwritten(fresh):
    edited = POSTGRES.replace("since 2019", "since 2021")
    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        part = server.part

        def editing(connection, request):
            if len(server.requests) == 2:
                world.path.write_text(world.text().replace(POSTGRES, edited), encoding="utf-8")
            part(connection, request)

        server.part = editing
        with world.open():
            row = world.refine()
            assert world.problems() == []
            assert edited in world.text()
            verdicts = [one["verdict"] for one in row["receipt"]["refine"]["timeline"]]
            assert verdicts[0] not in {"done", "breaker"}
            assert verdicts[1] == "done"


# --- told and taken back ----------------------------------------------------------------------------------------------


def test_the_journal_is_told_for_seven_days_and_kept(fresh):
    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            world.refine()
            settings = world.app.settings
            for days, told in ((0, True), (6, True), (8, False)):
                parts = context.gather(settings, world.agent, world.now + timedelta(days=days)).parts
                assert any("Compressed 4 → 2" in part.text for part in parts) is told
            assert len(world.live(MemoryKind.JOURNAL)) == 1


def test_a_refinement_is_rolled_back_whole_and_its_agent_told(fresh):
    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            text = world.text()
            row = world.refine()
            assert world.text() != text
            undone = world.run(ledger_runs.ROLLBACK, run=row["id"])
            assert (undone["state"], world.text()) == ("succeeded", text)
            first, second = sorted(memory.content for memory in world.live(MemoryKind.JOURNAL))
            assert "Compressed 4 → 2" in first
            assert f"the refinement {row['id']}. 6 memories changed back" in second
            assert not any(text[:20] in json.dumps(undone) for text in TEXTS)
            assert world.problems() == []
            assert world.run(ledger_runs.ROLLBACK, run=row["id"])["why"] == "it was rolled back before"


def test_one_change_of_a_refinement_is_rolled_back(fresh):
    with ChatServer(GOOD) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            text = world.text()
            row = world.refine()
            undone = world.run(ledger_runs.ROLLBACK, run=row["id"], memory=world.id_of(LAW))
            assert undone["state"] == "succeeded"
            live = {memory.content for memory in world.live()}
            assert live == (set(TEXTS) - {TEXTS[1]})
            assert world.problems() == []
            assert any("one change of the refinement" in memory.content for memory in world.live(MemoryKind.JOURNAL))
            again = world.run(ledger_runs.ROLLBACK, run=row["id"], memory=world.id_of(TEXTS[2]))
            assert again["why"] == "everything is already in that state"
            assert world.run(ledger_runs.ROLLBACK, run=row["id"])["state"] == "succeeded"
            assert (world.text(), world.problems()) == (text, [])


# --- when it is due ---------------------------------------------------------------------------------------------------


def test_weekly_it_asks_again_after_a_no_and_not_before(fresh):
    with ChatServer(plays(consent="no")) as server:
        world = fresh(server.url)
        world.configure(schedule="0 4 * * sun")
        with world.open():
            for _ in range(16):
                world.now += timedelta(days=1)
                for slot in scheduled_times.schedule.list_due(world.app.settings, world.now):
                    scheduled_times.queue(world.app, slot, "schedule", world.app.settings)
                scheduled_times.look_at_cores(world.app)
                run_all(world)
            asked = [one[:2] for one in refinements(world)]
            assert asked == [("threshold", "declined"), *[("schedule", "declined")] * 3]
            scheduled_times.look_at_cores(world.app)
            (alarm,) = alarms(world)
            assert "the agent declined" in alarm


def test_a_core_that_grows_too_large_is_refined_once_until_it_is_due_again(fresh):
    with ChatServer(plays([done("Nothing is safe to condense.")])) as server:
        world = fresh(server.url)
        world.configure(schedule=None)
        with world.open():
            for _ in range(9):
                scheduled_times.look_at_cores(world.app)
                run_all(world)
                world.now += timedelta(days=1)
            assert [one[:2] for one in refinements(world)] == [("threshold", "skipped")] * 2
        world.configure(trigger_tokens=10_000)
        with world.open():
            world.now += timedelta(days=30)
            scheduled_times.look_at_cores(world.app)
            assert len(refinements(world)) == 2


def test_where_it_is_off_an_alarm_recommends_it_until_the_core_is_small(fresh):
    world = fresh()
    world.scratch.write_config(modes=world.scratch.settings["modes"] | {"refine": "off"})
    world.configure()
    with world.open():
        scheduled_times.look_at_cores(world.app)
        assert "refine" not in scheduled_times.schedule.list_triggers(world.app.settings)
        (alarm,) = alarms(world)
        assert "modes.refine is off" in alarm
        scheduled_times.look_at_cores(world.app)
    world.configure(trigger_tokens=10_000)
    with world.open():
        scheduled_times.look_at_cores(world.app)
        assert alarms(world) == []
        assert refinements(world) == []


def test_paused_and_disabled_agents_are_skipped_but_by_hand(fresh):
    world = fresh()
    world.configure(schedule="0 4 * * sun")
    with world.open():
        with sqlite.begin_write(world.app.engine) as connection:
            runs.set_paused(connection, "demo", paused=True)
        world.now += timedelta(days=9)
        for _ in range(2):
            slots = {one.kind: one for one in scheduled_times.schedule.list_due(world.app.settings, world.now)}
            scheduled_times.queue(world.app, slots["refine"], "schedule", world.app.settings)
        scheduled_times.look_at_cores(world.app)
        assert not world.scratch.query("SELECT 1 FROM job_run WHERE state = 'queued'")
        assert [one[1:] for one in refinements(world) if one[0] == "schedule"] == [("skipped", "the agent is paused")]
        assert world.refine()["state"] in {"succeeded", "skipped"}


# --- for ever ---------------------------------------------------------------------------------------------------------

WEEKS = 12


def deletes(known):
    return [call("delete_memory", id=memory_id) for memory_id, _ in known]


def merges(known):
    """Makes memories that have nothing to do with each other one of them, word for word."""
    longest = max((text for _, text in known), key=len, default="")
    return [call("consolidate_memories", ids_to_merge=[memory_id for memory_id, _ in known], new_content=longest)]


def greedy(way, limit):
    """Lets go in one way four fifths of what it is told that it may, or of what the core may shrink by."""

    def turn(request):
        known = [one for one in ledger(request) if one[1] != PROMISE]
        spare = int(request.json["messages"][1]["content"].split(f"{limit} ")[1].split()[0]) * 4 // 5
        chosen = []
        for memory_id, text in sorted(known, key=lambda one: len(one[1])):
            if estimate(text) <= spare:
                spare -= estimate(text)
                chosen.append((memory_id, text))
        return [*way(chosen), done()]

    return turn


WITHIN, BEYOND = "may delete", "may shrink by"
GREEDY = [(way, limit) for limit in (WITHIN, BEYOND) for way in (merges, deletes)]


def strict(question):
    """Name each memory as lost that the claim does not say word for word."""
    verdict, _ = by_words(question)
    texts = {line["id"]: line["text"] for line in question["evidence"]}
    replaced = [texts.get(one, one) for one in question.get("replaces", ())]
    return verdict, [one for one in replaced if one != question["claim"]]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("verify", ["off", "model"])
@pytest.mark.parametrize("weeks", [WEEKS, pytest.param(100, marks=pytest.mark.soak)])
def test_a_greedy_model_never_gets_beyond_the_erosion_budget(fresh, weeks, verify):
    """Whichever way it lets go, and whatever it calls that."""
    ended, cores = set(), []
    with ChatServer(refuse("500")) as server:
        world = fresh(server.url)
        world.configure(consent=False, target_tokens=1)
        world.scratch.write_config(llm=world.scratch.settings["llm"] | {"verify": verify})
        with world.open():
            for week in range(weeks):
                world.now += timedelta(days=7)
                way, limit = GREEDY[week % len(GREEDY)]
                server.part = plays(greedy(way, limit), reads=strict)
                before, tokens, eroded = world.all(), world.tokens(), world.eroded()
                cores.append([one.content for one in world.live()])
                row = world.refine()
                world.check(before, row)
                ended.add((way, limit, row["state"]))
                assert world.eroded() <= eroded or world.eroded() * 100 <= 25 * (tokens + eroded)
                world.require_kept(cores[-4:])
                text = f"In week {week} the user planted {week + 2} roses beside the well of garden {week}"
                world.path.write_text(world.text() + f"- {text}\n", encoding="utf-8")
                world.take()
            assert world.id_of(PROMISE)
            if verify == "model":  # without a reader, little is deleted, and nothing merged that says something else
                assert {(way, BEYOND, "failed") for way in (merges, deletes)} <= ended
                assert {(way, WITHIN, "succeeded") for way in (merges, deletes)} <= ended
