"""Transcripts that are rewritten as a whole: NOW files in the hands of editors, and JSON arrays that grow."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingest_world import World, message

if TYPE_CHECKING:
    from pathlib import Path

NOW = "NOW-2026-01-02T03-04.md"


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as made:
        folder(made).mkdir(parents=True)
        yield made


def folder(world: World) -> Path:
    return world.root / "ann" / ".continuum" / "memory"


def settled(world: World, seconds: float = 1) -> None:
    world.poll()
    world.later(seconds)
    world.poll()


def now(*entries: str, head: str = "") -> str:
    return head + "".join(f"## User: {entry}\n" for entry in entries)


def truncate_and_write(path: Path, text: str) -> None:
    path.write_text(text)


def rename_over(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_text(text)
    fresh.replace(path)


def backup_by_rename(path: Path, text: str) -> None:
    path.rename(path.with_name(f"{path.name}~"))
    path.write_text(text)


def backup_by_copy(path: Path, text: str) -> None:
    path.with_name(f"{path.name}~").write_bytes(path.read_bytes())
    path.write_text(text)


def delete_and_write(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


SAVES = [truncate_and_write, rename_over, backup_by_rename, backup_by_copy, delete_and_write]


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("looks_between", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_however_an_editor_saves_each_line_is_one_turn(world, save, looks_between, restart):
    path = folder(world) / NOW
    path.write_text(now("one", "yes", "yes"))
    settled(world)
    for number, text in enumerate((now("one", "yes", "yes", "two"), now("zero", "one", "yes", "yes", "two"))):
        if restart:
            world.restart()
        save(path, text)
        if looks_between and number == 0:
            world.poll()
        settled(world)
    world.poll()
    assert world.texts() == ["one", "yes", "yes", "two", "zero"]
    assert len(world.query("SELECT id FROM session")) == 1
    assert world.alarms() == []


def test_a_version_that_is_still_being_saved_is_not_taken(world):
    path = folder(world) / NOW
    path.write_text(now("one"))
    settled(world)
    path.write_text("## Use")
    world.poll()
    path.write_text(now("one", "two"))
    settled(world)
    assert world.texts() == ["one", "two"]


def test_a_file_missing_between_two_saves_stays_the_same_session(world):
    path = folder(world) / NOW
    path.write_text(now("one", "yes"))
    settled(world)
    path.rename(path.with_name(NOW + "~"))
    world.poll()
    assert world.transcripts()[str(path)]["fate"] == "deleted"
    world.restart()
    path.write_text(now("one", "yes"))
    settled(world)
    assert world.transcripts()[str(path)]["fate"] == "returned"
    path.write_text(now("one", "yes", "two"))
    settled(world)
    assert world.texts() == ["one", "yes", "two"]


def test_a_last_line_without_an_end_is_taken_when_nobody_writes_it_any_longer(world):
    path = folder(world) / NOW
    path.write_text(now("one") + "## User: tw")
    settled(world)
    assert world.texts() == ["one"]
    path.write_text(now("one") + "## User: two")
    settled(world)
    assert world.texts() == ["one"]
    world.later(6)
    world.settle()
    assert world.texts() == ["one", "two"]
    world.restart()
    world.poll()
    assert world.texts() == ["one", "two"]


def test_a_file_with_a_time_in_the_future_is_read_once_it_stays_as_it_is(world):
    path = folder(world) / NOW
    path.write_text(now("one"))
    ahead = path.stat().st_mtime + 86400
    os.utime(path, (ahead, ahead))
    world.poll()
    assert world.texts() == []
    world.later(1)
    world.poll()
    assert world.texts() == ["one"]


@pytest.mark.parametrize("edited", [False, True])
def test_a_renamed_file_is_the_same_session(world, edited):
    path = folder(world) / NOW
    head = "---\nsession_id: sess_1\n---\n"
    path.write_text(now("one", "yes", head=head))
    settled(world)
    other = path.rename(path.with_name("NOW-2026-01-02T03-05.md"))
    if edited:
        other.write_text(now("one", "yes", "two", head=head))
    settled(world)
    assert world.texts() == (["one", "yes", "two"] if edited else ["one", "yes"])
    assert [row["id"] for row in world.query("SELECT id FROM session")] == ["sess_1"]


def test_another_now_file_under_a_used_inode_is_another_session(world):
    path = folder(world) / NOW
    path.write_text(now("one"))
    settled(world)
    world.files.close()
    path.unlink()
    path.with_name("NOW-2026-01-03T03-04.md").write_text(now("other", "one"))
    settled(world)
    assert Counter(row.session_id for row in world.rows()) == {NOW[:-3]: 1, "NOW-2026-01-03T03-04": 2}


def test_an_end_in_the_front_matter_ends_the_session_once(world):
    path = folder(world) / NOW
    path.write_text(now("one", head="---\nsession_id: sess_2\ntimestamp_end: 2026-01-02T04:00:00Z\n---\n"))
    settled(world)
    assert world.query("SELECT state, ended_at FROM session") == [
        {"state": "ended", "ended_at": "2026-01-02T04:00:00Z"}
    ]
    world.ingest.changed.clear()
    world.restart()
    settled(world)
    assert world.ingest.changed == set()


lines = st.lists(
    st.text(st.sampled_from("ab <>/#-`[]: \u00e9\u2028\t"), min_size=1, max_size=12).filter(lambda line: line.strip()),
    max_size=5,
)


@given(st.lists(lines, min_size=1, max_size=3))
def test_no_line_is_stored_twice_over_versions_and_restarts(tmp_path_factory, versions):
    with World(tmp_path_factory.mktemp("now")) as world:
        folder(world).mkdir(parents=True)
        path = folder(world) / NOW
        for version in versions:
            path.write_text(now(*(f"x {line}" for line in version)))
            settled(world, 10)
        world.restart()
        settled(world, 10)
        stored = [line for text in world.texts() for line in text.split("\n") if line.startswith("x ")]
        most = Counter()
        for version in versions:
            most |= Counter(f"x {line}" for line in version)
        assert Counter(line.rstrip() for line in stored) == Counter(
            {key: count for key, count in _stripped(most).items() if count}
        )


def _stripped(counted):
    total = Counter()
    for line, count in counted.items():
        total[line.rstrip()] += count
    return total


# --- arrays -------------------------------------------------------------------


def array(*texts: str, **more: str) -> bytes:
    return b"[" + b",\n".join(message(text) for text in texts) + b"]"


def test_an_array_that_grows_gives_each_message_once_with_its_place(world):
    world.write("chat.jsonl", array("one", "yes", "yes"))
    settled(world, 10)
    world.write("chat.jsonl", array("one", "yes", "yes")[:-1])  # half saved
    settled(world, 10)
    assert world.transcript("chat.jsonl")["note"] == "the document is not complete yet"
    world.restart()
    world.write("chat.jsonl", array("zero", "one", "yes", "yes", "two"))
    settled(world, 10)
    assert world.texts() == ["one", "yes", "yes", "zero", "two"]
    assert world.transcript("chat.jsonl")["note"] is None
    world.check_spans()
    assert {row.generation for row in world.rows()} == {world.transcript("chat.jsonl")["generation"]}


def test_a_message_of_an_array_changed_under_its_id_is_stored_once_more_however_often_the_rest_changes(world):
    for count, text in enumerate(("old", "new", "new", "new"), 1):
        records = [{"role": "user", "uuid": "a" * 20, "content": text}]
        records += [{"role": "user", "uuid": "b" * 19 + str(number), "content": "more"} for number in range(count)]
        world.write("chat.jsonl", json.dumps(records).encode())
        settled(world, 10)
    assert Counter(world.texts()) == {"old": 1, "new": 1, "more": 4}


def test_an_array_becomes_lines(world):
    world.write("chat.jsonl", array("one", "yes"))
    settled(world, 10)
    world.write("chat.jsonl", b"".join(message(text) + b"\n" for text in ("one", "yes", "yes")))
    settled(world, 10)
    assert world.texts() == ["one", "yes", "yes"]


@pytest.mark.parametrize("looks", [1, 2])
def test_lines_behind_a_damaged_line_that_begins_like_an_array_are_read(world, looks):
    data = b"[garbage\n" + message("one") + b"\n" + message("two") + b"\n"
    if looks == 2:
        world.write("chat.jsonl", data[:25])
        settled(world, 100)
    world.write("chat.jsonl", data)
    settled(world, 100)
    assert world.texts() == ["one", "two"]


@pytest.mark.parametrize("grown", ["", "## User: more\n"])
def test_a_line_with_an_injected_part_is_known_again_after_a_restart(world, grown):
    path = folder(world) / NOW
    text = now("Hello <memoryd-context>note</memoryd-context> world\nsecond line")
    path.write_text(text)
    settled(world, 10)
    before = world.texts()
    assert before == ["Hello  world\nsecond line", "note"]
    world.restart()
    path.write_text(text + grown)
    settled(world, 10)
    assert world.texts() == before + (["more"] if grown else [])


def test_an_end_that_is_no_time_is_passed_over(world):
    path = folder(world) / NOW
    path.write_text(now("one", head="---\nsession_id: sess_2\ntimestamp_end: a word of mine\n---\n"))
    settled(world)
    assert world.query("SELECT state, ended_at FROM session") == [{"state": "active", "ended_at": None}]
