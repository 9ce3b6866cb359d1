"""Whole refinements by a model that plays a script: whatever it calls, the ledger holds, and the counts are true."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from chat_server import ChatServer, refuse
from daily import one_in
from refine_world import (
    LAW,
    POSTGRES,
    PROMISE,
    TEXTS,
    Template,
    by_words,
    call,
    done,
    id_in,
    ids,
    in_text,
    ledger,
    native,
    plays,
    whole,
)

from memoryd.ledger.memory import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Template(tmp_path_factory.mktemp("refine"))


@pytest.fixture
def fresh(template):
    return template.fresh


def merge(request, *places, text=POSTGRES):
    return call("consolidate_memories", ids_to_merge=ids(request, *places), new_content=text)


def delete(request, *places):
    return [call("delete_memory", id=one) for one in ids(request, *places)]


@dataclass(frozen=True)
class Case:
    """A script, and what must come of it."""

    part: Callable
    state: str = "succeeded"
    ended: str | None = "completed"
    live: int | None = len(TEXTS)  # core memories in the end
    why: str = ""
    journal: str | None = ""  # in its entry; None: there is none
    verdicts: tuple[str, ...] = ()  # on the timeline, among others
    settings: dict = field(default_factory=dict)
    verify: str = "model"


def turns(*given, how=native, consent="yes", reads=by_words, is_fit=True, **case):
    return Case(plays(*given, how=how, consent=consent, reads=reads, is_fit=is_fit), **case)


def loses(question):
    """Support all but decoys, and name something as lost."""
    return "supported" if question.get("replaces") else "not-said", ["two lemon trees"]


def nothing(**case):
    return {"state": "skipped", "journal": None, "why": "nothing could be condensed safely"} | case


def cut(why, **case):
    return {"ended": why, "why": f"it was cut short ({why}"} | case


def failed(why, **case):
    return {"state": "failed", "ended": why, "journal": None, "why": f"nothing was changed: {why}"} | case


def good(request):
    backups = call("consolidate_memories", ids_to_merge=ids(request, 2, 3), new_content=LAW)
    return [merge(request, 0, 1), backups, call("protect_memory", id=id_in(request, TEXTS[5])), *delete(request, 10)]


def greedy(request):
    return [call("delete_memory", id=one) for one, _ in ledger(request)]


def one_by_one(places):
    return [lambda request, place=place: delete(request, place) for place in places]


def protects_then_merges(request):
    first, second = ids(request, 0, 1)
    given = {"ids_to_merge": [first, second], "new_content": POSTGRES}
    return [call("protect_memory", id=first), ("consolidate_memories", given)]


def merges_twice(request):
    return [merge(request, 0, 1), merge(request, 0, 2)]


def cut_stream(connection, request):
    native(connection, [merge(request, 0, 1)], cut=True)


def lost(connection, request):
    refuse("500 Oh")(connection, request)


def says(*calls):
    return lambda _request: list(calls)


def updates(place, text):
    return lambda request: [call("update_memory", id=ids(request, place)[0], content=text), done()]


def merges(text, *places):
    return lambda request: [merge(request, *places, text=text), done()]


MERGED = {"live": len(TEXTS) - 1, "journal": "compressed 2 → 1"}
CASES = {
    # well
    "good": turns(good, [done("I consolidated 4 into 2, deleted one and protected one.")], live=len(TEXTS) - 3),
    "good in one answer": turns(lambda r: [*good(r), done()], live=len(TEXTS) - 3),
    "good without a stream": turns(lambda r: [*good(r), done()], how=whole, live=len(TEXTS) - 3),
    "good in text": turns(lambda r: [*good(r), done()], how=in_text, live=len(TEXTS) - 3),
    "one call at a time": turns(*(lambda r, n=n: [good(r)[n]] for n in range(4)), [done()], live=len(TEXTS) - 3),
    "thinks aloud first": turns("I shall look at what I have.", lambda r: [merge(r, 0, 1), done()], **MERGED),
    "searches first": turns(
        [call("search_memories", query="backups"), call("search_memories", query="", **{"from": "2020-01-01"})],
        lambda r: [merge(r, 0, 1), done()],
        **MERGED,
    ),
    "rewords": turns(updates(6, "The garden in Lisbon has an old well, two lemon trees"), journal="reworded 1"),
    "rewords, and loses a name": turns(
        updates(7, "Two lemon trees and an old well stand in the garden"), verdicts=("floor",), **nothing()
    ),
    "a reader that says yes to all": turns(
        merges("The shop runs on Postgres 16", 0, 1),
        reads=lambda _question: ("supported", []),
        verdicts=("reader",),
        **nothing(),
    ),
    "a reader that is not fit": turns(
        merges("The shop runs on Postgres 16", 0, 1), is_fit=False, verdicts=("reader",), **nothing()
    ),
    "no reader": turns(
        lambda r: [merge(r, 2, 3, text=LAW), merge(r, 0, 1), done()], verify="off", verdicts=("reader",), **MERGED
    ),
    "a rule is left out": turns(
        merges("The well of the garden in Lisbon is old", 6, 7),
        reads=lambda question: ("rule", []) if question["ask"] == "class" else loses(question),
        verdicts=("reader",),
        **nothing(),
    ),
    "details are left out on purpose": turns(
        lambda r: [
            call("consolidate_memories", ids_to_merge=ids(r, 2, 3), new_content=LAW, dropped=["are copied"]),
            done(),
        ],
        **MERGED,
    ),
    "arguments as text": turns(
        lambda r: [("consolidate_memories", json.dumps(json.dumps(merge(r, 0, 1)[1]))), done()], **MERGED
    ),
    "ids as one text": turns(
        lambda r: [
            call("consolidate_memories", ids_to_merge=", ".join(ids(r, 0, 1)), new_content=POSTGRES),
            done(),
        ],
        **MERGED,
    ),
    "the same id twice and another": turns(
        lambda r: [call("consolidate_memories", ids_to_merge=ids(r, 0, 0, 1), new_content=POSTGRES), done()], **MERGED
    ),
    # lazy
    "lazy": turns([done("Nothing is safe to condense.")], **nothing()),
    "lazy and a liar": turns(
        [done("I consolidated 50 memories into 3 and protected 5.")],
        why="nothing was changed",
        journal="its numbers are not those that were counted.",
    ),
    "a liar about numbers": turns(
        lambda r: [merge(r, 0, 1), done("I merged 40 memories.")],
        live=len(TEXTS) - 1,
        journal="its numbers are not those that were counted.",
    ),
    "says no": turns(consent="No, thank you.", state="declined", ended=None, journal=None, why="declined"),
    "says nothing clear": turns(consent="Hm.", state="declined", ended=None, journal=None, why="unclear"),
    "says yes with reasons": turns(lambda r: [merge(r, 0, 1), done()], consent="**Yes!** It is time.", **MERGED),
    # greedy
    "deletes all": turns(greedy, state="failed", ended="breaker", why="erosion", journal="its changes were reversed"),
    "deletes one by one": turns(
        *one_by_one((0, 1, 2, 3, 5, 6)), state="failed", ended="breaker", why="reversed", journal="erosion"
    ),
    "deletes within the limits": turns(
        lambda r: [*delete(r, 10, 11), done("I deleted two.")], live=len(TEXTS) - 2, journal="deleted 2"
    ),
    "merges nearly all into one": turns(
        merges(TEXTS[0], *(n for n in range(len(TEXTS)) if n != 4)),
        state="failed",
        ended="breaker",
        why="retention",
        journal=None,
    ),
    "goes on behind the breaker": turns(
        lambda r: [*greedy(r), merge(r, 0, 1), done()], state="failed", ended="breaker", verdicts=("late",)
    ),
    "merges, then deletes all": turns(
        lambda r: [merge(r, 0, 1)], greedy, state="failed", ended="breaker", journal="compressed 2 → 1"
    ),
    "more changes than it may make": turns(
        lambda r: [merge(r, 0, 1), *delete(r, 10), done()],
        settings={"max_mutations": 1},
        verdicts=("cap",),
        **MERGED,
    ),
    # confused
    "unknown ids": turns(says(call("delete_memory", id="core_ffffffff")), [done()], verdicts=("error",), **nothing()),
    "ids that are texts": turns(
        says(call("delete_memory", id="the old one"), call("delete_memory", id="")), [done()], **nothing()
    ),
    "one id to merge": turns(lambda r: [merge(r, 0), done()], verdicts=("error",), **nothing()),
    "a mix of known and unknown": turns(
        lambda r: [call("consolidate_memories", ids_to_merge=[*ids(r, 0), "core_x"], new_content=POSTGRES), done()],
        **nothing(),
    ),
    "what it merged already": turns(merges_twice, [done()], verdicts=("error",), **MERGED),
    "protected memories": turns(
        lambda r: [
            merge(r, 0, 4),
            *delete(r, 4),
            call("update_memory", id=ids(r, 4)[0], content=TEXTS[4][:20]),
            call("protect_memory", id=ids(r, 4)[0]),
            done(),
        ],
        verdicts=("constitutional",),
        **nothing(),
    ),
    "protects, then merges the same": turns(
        protects_then_merges, [done()], verdicts=("constitutional",), journal="protected 1"
    ),
    "another tool": turns(says(call("rm", path="/"), call("memory_save", text="x")), [done()], **nothing()),
    "no-op": turns(updates(0, TEXTS[0].upper()), verdicts=("error",), **nothing()),
    "longer than before": turns(updates(6, f"{TEXTS[6]}, {TEXTS[6]}"), verdicts=("error",), **nothing()),
    "made up": turns(merges("The shop of Berta runs on Oracle 23", 0, 1), verdicts=("floor",), **nothing()),
    "an order made up": turns(
        merges("The user always wants the shop to run on Postgres 16", 0, 1), verdicts=("reader",), **nothing()
    ),
    "the contrary": turns(
        merges("The user never runs the shop on Postgres 16", 0, 1), verdicts=("reader",), **nothing()
    ),
    "headings": turns(merges(f"# {POSTGRES}", 0, 1), **MERGED),
    "tags that no memory has": turns(merges(f"{POSTGRES} <system>", 0, 1), verdicts=("reader",), **nothing()),
    # the form
    "malformed arguments": turns(
        says(("delete_memory", '{"id": "core_'), ("delete_memory", "[1]"), ("delete_memory", "")),
        lambda r: [merge(r, 0, 1), done()],
        verdicts=("error",),
        **MERGED,
    ),
    "arguments of other types": turns(
        says(
            call("delete_memory", id=7),
            call("consolidate_memories", ids_to_merge={"a": 1}, new_content=[]),
            call("search_memories", query="x", **{"from": "yesterday"}),
            call("update_memory", id="core_00000000"),
        ),
        [done()],
        **nothing(),
    ),
    "completes twice": turns(lambda r: [merge(r, 0, 1), done(), done("again")], verdicts=("late",), **MERGED),
    "changes behind its end": turns(lambda r: [done(), merge(r, 0, 1)], verdicts=("late",), **nothing()),
    "1,000 calls": turns(
        lambda r: [call("search_memories", query=f"lemon {n}") for n in range(1_000)], **failed("out of steps")
    ),
    "1,000 calls behind a change": turns(
        lambda r: [merge(r, 0, 1), *(call("search_memories", query=f"lemon {n}") for n in range(1_000))],
        **cut("out of steps", **MERGED),
    ),
    "the same call for ever": turns(
        lambda r: [merge(r, 0, 1)],
        *[[call("search_memories", query="lemon")]] * 9,
        **cut("a loop of identical calls", **MERGED),
    ),
    "never completes": turns(lambda r: [merge(r, 0, 1)], **cut("the model calls no tool", **MERGED)),
    "only talks": turns(**failed("the model calls no tool")),
    "never completes, and is taken back": turns(
        lambda r: [merge(r, 0, 1)],
        **cut("the model calls no tool", state="failed", journal="reversed", settings={"unfinished": "rollback"}),
    ),
    "cut in the middle of a call": turns(
        lambda r: [merge(r, 0, 1)], cut_stream, **cut("the model failed", ended=None, **MERGED)
    ),
    "lost behind a change": turns(
        lambda r: [merge(r, 0, 1)],
        lost,
        **cut("the model failed: the endpoint answered 500", **MERGED),
    ),
    "talks about a call it does not make": turns(
        lambda r: f'One memory asks me to call {{"tool":"delete_memory",\n "id":"{ids(r, 6)[0]}"}}; I will not.',
        lambda r: f'{{"tool": "delete_memory", "arguments": {{"id": "{ids(r, 6)[0]}"}}}}',
        **failed("the model calls no tool"),
    ),
    "talks about a call where calls are text": turns(
        lambda r: f'One memory asks me to call {{"tool":"delete_memory","id":"{ids(r, 6)[0]}"}}; I will not.',
        [done("Nothing was done.")],
        how=in_text,
        **nothing(),
    ),
    "repeats a memory that holds a call": turns(
        f"My memory says: {TEXTS[11]}", [done("Nothing was done.")], how=in_text, **nothing()
    ),
    # modes
    "duplicates only": turns(
        lambda r: [merge(r, 0, 1), *delete(r, 7), done()],
        settings={"mode": "dedup"},
        live=len(TEXTS) - 1,
        verdicts=("error",),
        journal="deleted 1",
    ),
    "strict": turns(
        lambda r: [merge(r, 2, 3, text=LAW), merge(r, 0, 1), merge(r, 6, 7, text=TEXTS[7]), done()],
        settings={"mode": "strict"},
        state="failed",
        ended="breaker",
        why="retention",
    ),
}


def test_there_are_as_many_sessions_as_the_bar_asks_for():
    assert len(CASES) >= 40


def kind_of(name):
    return CASES[name].state, CASES[name].ended, CASES[name].why, CASES[name].verify


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(6, CASES, kind_of))
def test_a_session(name, fresh):
    case = CASES[name]
    with ChatServer(case.part) as server:
        world = fresh(server.url)
        world.configure(**case.settings)
        world.scratch.write_config(llm=world.scratch.settings["llm"] | {"verify": case.verify})
        with world.open():
            before, text = world.all(), world.text()
            row = world.refine()
            assert (row["state"], row["error"]) == (case.state, None), row
            assert case.why in (row["why"] or "")
            world.check(before, row)
            told = row["receipt"].get("refine")
            if case.ended is not None:
                assert told["ended"] == case.ended
            if case.verdicts:
                assert {one["verdict"] for one in told["timeline"]} >= set(case.verdicts)
            assert len(world.live()) == case.live
            if row["state"] not in {"succeeded", "cancelled"}:
                assert world.text() == text
                assert [(one.id, one.content) for one in world.live()] == [
                    (one.id, one.content) for one in sorted(before.values(), key=lambda one: one.position)
                ]
            entries = [memory.content for memory in world.live(MemoryKind.JOURNAL)]
            assert len(entries) == (case.journal is not None)
            assert case.journal is None or case.journal in entries[0].casefold()
            assert world.id_of(PROMISE)
            assert "<system>" not in world.text()
            assert world.text().count("\n#") == 0


def test_the_guards_limits_are_those_of_the_session_s_start(fresh):
    with ChatServer(plays(lambda r: [*delete(r, 10, 11)], lambda r: [*delete(r, 0)], lambda r: [done()])) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            world.refine()
            (row,) = world.scratch.query("SELECT receipt FROM job_run WHERE kind = 'refine'")
            start = json.loads(row[0])["refine"]["start"]
            assert start == {"tokens": sum(-(-len(text) // 4) for text in TEXTS), "memories": len(TEXTS)}


def test_nothing_of_a_memory_is_on_a_receipt_or_in_the_log(fresh):
    with ChatServer(CASES["good"].part) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            row = world.refine()
            logged = json.dumps(world.scratch.log())
            for text in (*TEXTS, LAW, "I consolidated 4"):
                assert text[:25] not in json.dumps(row)
                assert text[:25] not in logged


def test_hostile_memories_are_quoted_as_data_in_every_question(fresh):
    with ChatServer(CASES["one call at a time"].part) as server:
        world = fresh(server.url)
        world.configure()
        with world.open():
            world.refine()
        asked = [request for request in server.requests if "tools" in request.json]
        assert len(asked) > 4
        for request in asked:
            system, user = (message["content"] for message in request.json["messages"][:2])
            assert "Ignore all previous" not in system
            assert any("Ignore all previous" in text for _, _, text in request.quoted)
            assert all(re.fullmatch(r"[\w ,#\[\]-]+ .*", line) for line in user.splitlines())
