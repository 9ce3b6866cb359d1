"""A refinement that proposes: the agent cuts a core that only it sees, and a person's answer decides."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil

import pytest
from chat_server import ChatServer
from mcp_world import ask, door
from refine_world import (
    PROMISE,
    TEXTS,
    CrashError,
    World,
    call,
    done,
    end_process,
    id_in,
    in_text,
    plays,
)

from memoryd import config
from memoryd.database import reads
from memoryd.engine import called_refining, ledger_runs
from memoryd.engine.core_watch import CoreWatch
from memoryd.interfaces import work
from memoryd.ledger.memory import Kind

LAW = "Each night the backups of the shop go to the bucket of Frankfurt"
SUMMARY = "I merged two memories, shortened one and protected one. I deleted 40."


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("proposed")
    made = World.made(root / "scratch")
    made.scratch.write_config(modes={"facts": "off", "dream": "off", "dedup": "off", "refine": "propose"})
    shutil.copytree(root / "scratch", root / "pristine")
    return made.scratch, root / "pristine"


@pytest.fixture
def fresh(template):
    scratch, pristine = template
    with contextlib.ExitStack() as stack:

        def make(*turns, **given):
            part = {name: given.pop(name) for name in ("consent", "how") if name in given}
            server = stack.enter_context(ChatServer(plays(*turns, **part)))
            world = World(scratch.copied(pristine), server.url)
            world.server = server
            world.configure(**given)
            stack.enter_context(world.open())
            return world

        yield make


def mode(world, refine):
    world.scratch.write_config(modes={"facts": "off", "dream": "off", "dedup": "off", "refine": refine})
    world.app.runner.settings = world.app.settings = config.load(world.scratch.config)


def answer(world, verb, run_id):
    with reads.open_reader(world.app.database) as reader:
        row = reads.job_run(reader, run_id)
    options = {**row["options"], "run": run_id, "of": row["kind"]}
    key = f"answer:{run_id}"
    asked = work.request(world.app.engine, world.app.clock, "demo", verb, options, key=key)
    world.app.runner.run_next(only=asked)
    return world.row(asked)


def proposal(world, run_id):
    return (world.scratch.workspace / "memory" / "proposals" / f"{run_id}.md").read_text(encoding="utf-8")


def journal(world):
    return [one.content for one in world.live(Kind.JOURNAL)]


def merge(request):
    pair = [id_in(request, TEXTS[2]), id_in(request, TEXTS[3])]
    return [call("consolidate_memories", ids_to_merge=pair, new_content=LAW)]


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
        call("update_memory", id=id_in(request, TEXTS[0]), content="The user runs the shop on Postgres 16 since 2019"),
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
    assert told["unfounded"] == ["deleted", "numbers"]
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
    assert "compressed 2 → 1; reworded 1" in shown
    assert "I deleted 40" in shown
    assert f"-- {TEXTS[2]}\n" in shown
    assert f"+- {LAW}\n" in shown
    (entry,) = journal(world)
    assert "It waits for a person's answer, and nothing is changed yet." in entry
    asked = len(world.server.requests)
    again = world.refine()  # while it waits nobody is asked
    assert (again["state"], again["receipt"]["waits_for"], len(world.server.requests)) == ("skipped", row["id"], asked)
    accepted = answer(world, "accept", row["id"])
    assert accepted["state"] == "succeeded", accepted
    assert world.problems() == [], [one for one in world.problems()]
    world.check(before, accepted)
    assert LAW in world.text()
    assert next(one for one in world.live() if one.content == LAW).constitutional
    assert accepted["receipt"]["refine"]["counted"] == told["counted"]
    assert accepted["receipt"]["refine"]["timeline"] == told["timeline"]
    assert world.row(row["id"])["state"] == "succeeded"
    assert "is accepted" in journal(world)[-1]
    assert "compressed 2 → 1" in journal(world)[-1]
    undone = world.run(ledger_runs.ROLLBACK, run=accepted["id"])
    assert undone["state"] == "succeeded", undone
    assert world.text() == text
    assert "Rolled back on" in journal(world)[-1]
    assert {one.id for one in world.live()} == {one.id for one in before.values() if one.is_live}
    assert world.problems() == []
