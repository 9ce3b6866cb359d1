"""Reading goes on when ids are given other names under it: nothing is lost, and nothing is held back for it."""

from __future__ import annotations

import pytest
from ingest_world import World, claude, lines

from memoryd.database import texts

OTHER = "sha256:" + "0" * 64


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as made:
        made.write("one.jsonl", lines([claude(1, "the first")]))
        made.poll()
        yield made


def rename(world: World) -> None:
    (session,) = world.query("SELECT id FROM session")
    texts.rename_session(world.engine, session["id"], OTHER)


def check_all_is_read(world: World) -> None:
    assert world.texts() == ["the first", "the second"]
    assert world.query("SELECT DISTINCT session_id AS id FROM turn") == [{"id": OTHER}]
    assert world.alarms() == []


def test_what_was_read_before_the_renaming_and_not_stored_is_read_again(world):
    world.append("one.jsonl", lines([claude(2, "the second")]))
    world.ingest.hint(str(world.path("one.jsonl")))
    rename(world)
    world.ingest.forget()
    world.hint(world.path("one.jsonl"))
    check_all_is_read(world)


def test_what_was_being_scanned_at_the_renaming_is_read_again(world):
    world.append("one.jsonl", lines([claude(2, "the second")]))
    world.ingest.hint(str(world.path("one.jsonl")))
    world.ingest.pass_on()
    rename(world)
    world.ingest.forget()
    world.ingest.flush()
    world.poll()
    check_all_is_read(world)


def test_what_was_refused_before_the_renaming_was_told_is_not_held_back(world):
    rename(world)
    world.append("one.jsonl", lines([claude(2, "the second")]))
    world.hint(world.path("one.jsonl"))
    world.ingest.forget()
    world.poll()
    check_all_is_read(world)
