"""`forget`: a memory, or all that a session said, is in no byte any more but the transcript's."""

from __future__ import annotations

import json
import shutil

import pytest
from scratch import Scratch
from test_ledger_runs import World

from memoryd.daemon.once import run_once
from memoryd.engine import forgetting

TABS = "I prefer tabs over spaces in all Makefiles"
POSTGRES = "We decided to keep the orders in PostgreSQL 16"
SUITE = "Please always run the whole test suite before every commit"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An installation that has slept over one session, once for all tests of this module."""
    made = World(tmp_path_factory.mktemp("forget") / "scratch")
    with made.open():
        run_once(made.app)
        made.take()
        made.sleep()
        made.take()
    return made.scratch


@pytest.fixture
def world(tmp_path, template):
    made = object.__new__(World)
    shutil.copytree(template.root, tmp_path / "scratch")
    made.scratch = Scratch.at(tmp_path / "scratch")
    config = made.scratch.config.read_text().replace(str(template.root), str(made.scratch.root))
    made.scratch.config.write_text(config)
    made.path = made.scratch.workspace / "MEMORY.md"
    with made.open():
        yield made


def holders(world, *words):
    """Files that hold one of these words, in any case; the transcripts are the agent's own."""
    return [
        (str(path.relative_to(world.scratch.root)), word)
        for path in sorted(world.scratch.root.rglob("*"))
        if path.is_file() and "/sessions/" not in str(path)
        for word in words
        if word.lower().encode() in path.read_bytes().lower()
    ]


def forget(world, **target):
    row = world.do(forgetting.KIND, **target)
    assert row["state"] == "succeeded", row
    assert world.problems() == []
    return row["receipt"][forgetting.KIND]


def the_session(world):
    return world.scratch.query("SELECT id FROM session ORDER BY seen_at, id")[0][0]


def saying(world, words):
    return next(memory for memory in world.live() if words in memory.content)


def test_look(world):
    print([m.content for m in world.live()])
    print(world.text())
    print(world.scratch.dailies())
    print(holders(world, TABS, "ottilie"))
    m = saying(world, "tabs")
    told = forget(world, memory=m.id)
    print(json.dumps(told, indent=1))
    print([m.content for m in world.live()])
    print(world.text())
    print(world.scratch.dailies())
    print(holders(world, m.content, "ottilie"))
    told = forget(world, session=the_session(world))
    print(json.dumps(told, indent=1))
    print(world.text())
    print(world.scratch.dailies())
    print(holders(world, m.content, "ottilie", "postgresql"))
