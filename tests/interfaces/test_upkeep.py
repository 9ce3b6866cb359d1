"""`validate`, `repair recent` and `archive FILE` over files that real sessions left."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rolled_world import World

from memoryd.tiers import recent, validation
from memoryd.tiers.archive import FOLDER

pytestmark = pytest.mark.long
FAULTS = {
    "NOW-2026-01-01T00-00.md": (
        "---\nsession_id: x\ntimestamp_end: never\ntimestamp_start: null\nduration_minutes: long\n---\n",
        {
            1: "no project_path",
            2: "session_id",
            3: "timestamp_end is not a time",
            5: "duration_minutes is not a number",
        },
    ),
    "RECENT.md": (
        (
            "# Recent\n\n## Session 2026-01-01 morning\n\n## Session 2026-01-02 night\n\n"
            "**Link**: [Full details](MEMORY-2026-01-01.md#session-gone)\n"
        ),
        {1: "no title", 3: "without **Link**", 5: "newer than", 7: "a link to #session-gone"},
    ),
    "MEMORY-2026-01-01.md": (
        (
            "---\nconsolidation_date: soon\ntotal_sessions: many\ntags: []\n---\n\n"
            "## T\n\n### Session a\n\n### Session a\n"
        ),
        {1: "no source_sessions", 2: "is not a date", 3: "is not a number", 11: "a second part"},
    ),
    "MEMORY.md": (
        "# Index\n\n## Architecture Decisions\n\n- [T](MEMORY-2026-01-01.md#nowhere) - x\n- [T] y\n",
        {1: "no title", 5: "a link to #nowhere", 6: "another form"},
    ),
    "consolidation.log": ("[2026-01-01 00:00:00 UTC] ACTION: x\n  Files:\njunk\n", {3: "another form"}),
    "MEMORY-2026-01-02.md": (
        (
            "---\nconsolidation_date: 2026-01-02\nsource_sessions: []\ntotal_sessions_consolidated: 0\ntags: []\n---\n"
            "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n"
        ),
        {7: "a merge conflict that is not resolved"},
    ),
}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "scratch")
    for topic in ("billing", "search"):
        made.session(topic)
        made.now = made.now.replace(day=made.now.day + 1)
    return made


def test_what_memoryd_writes_is_valid(world):
    assert world.scratch.json("validate") == {"ok": True, "problems": []}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_in_its_line(name):
    text, faults = FAULTS[name]
    around = {"MEMORY-2026-01-01.md": b"## T\n"} | {name: text.encode()}
    found = [one for one in validation.find_problems(around) if one.path == name]
    assert {one.line for one in found} == set(faults)
    for line, what in faults.items():
        assert any(what in one.what for one in found if one.line == line), (line, found)


def test_a_private_file_is_not_read_and_a_fault_ends_with_one(world):
    (world.folder / "NOW-2026-01-01T00-00.md").write_text("---\nprivate: true\nsession_id: x\n---\n")
    assert world.scratch.json("validate")["ok"] is True
    (world.folder / "NOW-2026-01-02T00-00.md").symlink_to(world.folder / "RECENT.md")
    (world.folder / "MEMORY.md").write_text("junk\n")
    done = world.scratch.run("validate")
    assert done.returncode == 1
    assert "MEMORY.md:1: no title" in done.stdout
    assert "NOW-2026-01-02T00-00.md:1: is a symbolic link" in done.stdout


def test_recent_is_put_in_order_once_and_loses_nothing(world):
    path = world.folder / "RECENT.md"
    head, newest, oldest = re.split(r"(?m)^(?=## )", path.read_text())
    broken = "# Mine\n\n" + oldest + newest.replace("MEMORY-2026-03-05", "MEMORY-2020-01-01") + oldest
    path.write_text(broken)
    assert "-# Mine" in world.scratch.run("repair", "recent", "--dry-run").stdout
    assert path.read_text() == broken
    world.scratch.run("repair", "recent")
    assert path.read_text() == head + newest.rstrip("\n") + "\n\n" + oldest.rstrip("\n") + "\n"
    assert world.scratch.json("repair", "recent")["changed"] is False
    assert broken in [one.read_text() for one in world.folder.glob("backup/*/RECENT.md")]
    assert "RECENT repaired" in world.text("consolidation.log")
    world.check()


ENTRIES = st.lists(
    st.sampled_from([
        "## Session 2026-01-01 night\n\na\n", "## Session 2026-01-03 night\n\nb\n", "## Mine\n\nc\n", "junk\n",
        "## Session 2026-01-02 night\n\n**Link**: [Full details](MEMORY-2026-01-02.md#session-x)\n",
    ]),
    max_size=6,
)  # fmt: skip


@given(ENTRIES)
def test_a_repair_repeated_changes_nothing(entries):
    once = recent.repair("".join(entries).encode(), 3, {"x": "MEMORY-2026-02-02.md"})
    assert recent.repair(once, 3, {"x": "MEMORY-2026-02-02.md"}) == once
    assert b"MEMORY-2026-01-02" not in once


def test_a_file_moves_with_its_links_and_its_sessions_stay_there(world):
    name = "MEMORY-2026-03-04.md"
    before = world.text(name)
    told = world.scratch.json("archive", f"{FOLDER}/{name}")
    assert (told["moved"], told["path"]) == (True, f"{FOLDER}/archive/{name}")
    assert world.text(f"archive/{name}") == before
    assert not (world.folder / name).exists()
    assert f"](archive/{name}#" in world.text()
    assert f"](archive/{name}#" in world.text("MEMORY.md")
    assert world.scratch.json("validate") == {"ok": True, "problems": []}
    assert world.scratch.json("archive", name)["moved"] is False
    assert name not in world.scratch.run("consolidate", "--dry-run").stdout, "a dry run sees the moved file"
    again = world.now
    world.now = again.replace(day=4)
    world.speak("billing", "billing")
    world.now = again
    world.once(0.1)
    world.once(3)
    assert not (world.folder / name).exists(), "its sessions stay with it"
    assert world.scratch.json("validate") == {"ok": True, "problems": []}
    assert world.scratch.run("archive", "RECENT.md").returncode == 4
    assert world.scratch.run("archive", "MEMORY-1999-01-01.md").returncode == 3
