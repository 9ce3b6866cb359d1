"""Any calls in any order, stopped anywhere: what must hold holds, and what was done can be taken back exactly."""

from __future__ import annotations

import contextlib

import pytest
from chat_server import ChatServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refine_world import PROMISE, TEXTS, CrashError, Crashes, Template, ledger, plays

from memoryd.changing import ledger_runs
from memoryd.database import sqlite
from memoryd.ledger.memory import MemoryKind


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("refine"))


MODES = {"facts": "off", "dream": "off", "dedup": "off"}
PLACES = st.integers(0, len(TEXTS) + 1)  # beyond the last: an id that is not there
# A number stands for so much of the replaced memories' own words: the guards let such a text through, lossy as it is.
WORDS = st.integers(1, 3) | st.sampled_from(
    [*TEXTS[:10], "The shop of Berta runs on Oracle", "Two lemon trees in Lisbon", "", "# x"]
)
PARTS = st.lists(PLACES, min_size=2, max_size=4, unique=True) | st.lists(PLACES, min_size=1, max_size=4)
CALLS = st.one_of(
    st.tuples(st.just("consolidate"), PARTS, WORDS),
    st.tuples(st.just("update"), PLACES, WORDS),
    st.tuples(st.just("delete"), PLACES),
    st.tuples(st.just("protect"), PLACES),
    st.tuples(st.just("search"), WORDS),
    st.tuples(st.just("garbage"), st.text(max_size=9)),
    st.just(("complete",)),
)
SCRIPTS = st.lists(st.lists(CALLS, min_size=2, max_size=4), min_size=2, max_size=4)


def made(request, call):
    """A drawn call as the model makes it, on the ids it is shown."""
    known = ledger(request)

    def name(place):
        return known[place][0] if place < len(known) else f"core_{place:08x}"

    def text(words, places):
        own = [known[place][1] for place in places if place < len(known)]
        if isinstance(words, str):
            return words
        return ". ".join(own[:words]) if len(own) > 1 else " ".join("".join(own).split()[: 4 * words])

    match call:
        case ("consolidate", places, words):
            merged = {"ids_to_merge": [name(one) for one in places], "new_content": text(words, places)}
            return "consolidate_memories", merged
        case ("update", place, words):
            return "update_memory", {"id": name(place), "content": text(words, [place])}
        case ("delete" | "protect" as verb, place):
            return f"{verb}_memory", {"id": name(place)}
        case ("search", words):
            return "search_memories", {"query": text(words, [0])}
        case ("garbage", text):
            return "delete_memory", text
    return "complete_refinement", {"summary": "I merged 3 and deleted 7."}


def without_times(memory):
    return (memory.content, memory.constitutional, memory.deleted_at, memory.heading, memory.position, memory.tags)


DRAWN = settings.default.max_examples
CRASHES = st.none() | st.integers(1, 60)


@pytest.mark.timeout(3600)  # a soak draws a thousand
@settings(
    # Each is two processes' lives, an undoing and a verify.
    max_examples=DRAWN if DRAWN >= 1_000 else DRAWN * 3 // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    script=SCRIPTS,
    crash=CRASHES,
    unfinished=st.sampled_from(["keep", "rollback"]),
    answer=st.none() | st.tuples(CRASHES),
)
def test_any_session_ends_well(template, script, crash, unfinished, answer):
    """At once, or proposed and accepted by an answer that may be stopped as well."""
    turns = [lambda request, turn=turn: [made(request, call) for call in turn] for turn in script]
    with ChatServer(plays(*turns)) as server:
        world = template.fresh(server.url)
        world.configure(unfinished=unfinished, consent=False)
        world.scratch.write_config(modes=MODES | {"refine": "auto" if answer is None else "propose"})
        with world.open(Crashes(crash) if crash else None):
            before, text, start = world.all(), world.text(), world.tokens()
            run_id = world.queue("refine", key="refine:demo")
            stopped(world, run_id)
        if answer is not None:
            with world.open(Crashes(answer[0]) if answer[0] else None):
                stopped(world, run_id)
                row = world.row(run_id)
                assert row["state"] in {"proposed", "skipped", "failed", "succeeded"} or answer[0], row
                assert world.text() == text
                if row["state"] == "proposed":
                    run_id = world.queue("accept", run=run_id, of="refine")
                    stopped(world, run_id)
        with world.open():
            while world.app.runner.run_next() is not None:
                pass
            row = world.row(run_id)
            if row["kind"] == "refine" and row["state"] == "proposed":
                run_id = world.queue("accept", run=run_id, of="refine")
                world.app.runner.run_next(only=run_id)
                row = world.row(run_id)
            assert row["state"] in {"succeeded", "skipped", "failed"}, row
            has_written = answer is None or row["kind"] == "accept"
            world.check(before, row if has_written else None)
            assert world.tokens() >= start / 2
            assert world.id_of(PROMISE)
            if row["state"] == "failed":
                assert world.text() == text
            undone = world.run(ledger_runs.ROLLBACK, run=run_id)
            changed = row["receipt"].get("refine", {}).get("counted", {}).get("saved", 0) or row["state"] == "succeeded"
            assert undone["state"] in ({"succeeded", "skipped"} if changed else {"declined", "skipped", "succeeded"})
            assert world.problems() == []
            assert world.text() == text
            after = world.all()
            assert {one: without_times(memory) for one, memory in before.items()} == {
                one: without_times(after[one]) for one in before
            }
            assert all(not after[one].is_live for one in after if one not in before and one.startswith("core_"))
            assert all(memory.is_live for memory in after.values() if memory.kind is MemoryKind.JOURNAL)


def stopped(world, run_id):
    """Carry a run out, as far as it gets."""
    with contextlib.suppress(CrashError):
        world.app.runner.run_next(only=run_id)
    with sqlite.begin_write(world.app.engine) as connection:  # its owner is this process, which lives
        connection.exec_driver_sql("UPDATE job_run SET owner = 'gone' WHERE state = 'running'")


SCRIPT = (
    [("consolidate", [0, 1], TEXTS[0])],
    [("protect", 5), ("consolidate", [6, 7], TEXTS[7])],
    [("complete",)],
)
STEPS = 75  # more than such a session takes


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.soak)])
def test_stopped_at_any_step_it_is_decided_at_the_next_start_and_nobody_is_asked_again(template, every):
    turns = [lambda request, turn=turn: [made(request, call) for call in turn] for turn in SCRIPT]
    seen = set()
    for crash in range(4, STEPS, every):
        unfinished = "keep" if crash % 2 else "rollback"
        with ChatServer(plays(*turns)) as server:
            world = template.fresh(server.url)
            world.configure(unfinished=unfinished, consent=False)
            with world.open(Crashes(crash)):
                before, text = world.all(), world.text()
                run_id = world.queue("refine", key="refine:demo")
                with contextlib.suppress(CrashError):
                    world.app.runner.run_next(only=run_id)
                with sqlite.begin_write(world.app.engine) as connection:
                    connection.exec_driver_sql("UPDATE job_run SET owner = 'gone' WHERE state = 'running'")
            asked = len(server.requests)
            with world.open():  # what was half written is completed here
                has_changed = world.text() != text or any(one.id not in before for one in world.live())
                world.app.runner.run_next(only=run_id)
                row = world.row(run_id)
                world.check(before, row)
                ended = row["receipt"]["refine"]["ended"]
                seen.add(ended)
                if has_changed and row["attempt"] > 1:
                    assert (ended, len(server.requests)) == ("memoryd was stopped", asked)
                if ended != "completed":
                    assert (row["state"] == "failed") is (unfinished == "rollback")
                    assert (world.text() == text) is (unfinished == "rollback")
    assert seen == {"completed", "memoryd was stopped"}
