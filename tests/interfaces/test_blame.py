"""`blame`: the turns that a line of memory came from, with their text, and each change since."""

import copy
import json
import shutil

import pytest
from scratch import SAID, Scratch, filler, said, until

import memoryd
from memoryd.errors import RefusedError

TABS = SAID[4][1]


@pytest.fixture(scope="module")
def slept(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("blame") / "scratch", modes={"facts": "off", "rollover": "auto"})
    made.append([*said(), filler()])
    made.json("run", "--once")
    made.json("job", "run", "sleep", "--force")
    made.json("job", "run", "facts")
    made.json("job", "run", "rollover")
    return made


@pytest.fixture
def scratch(slept, tmp_path):
    """A copy in the place of the first, whose rows name it."""
    before = tmp_path / "before"
    shutil.copytree(slept.root, before)
    given = copy.deepcopy((slept.agents, slept.settings))
    yield slept
    slept.copied(before)
    slept.agents, slept.settings = given


def find_line(scratch, path, words):
    """Return `PATH:LINE` of the first line with these words."""
    lines = (scratch.workspace / path).read_text(encoding="utf-8").splitlines()
    return f"{path}:{next(number for number, line in enumerate(lines, 1) if words in line)}"


def saying(told):
    return [(turn["session"][:4], turn["seq"], turn["speaker"], turn["text"]) for turn in told["turns"]]


@pytest.mark.parametrize("path", ["MEMORY.md", "memory/2026-03-04.md", ".continuum/memory/RECENT.md"])
def test_a_line_shows_the_turn_it_came_from(slept, path):
    told = slept.json("blame", find_line(slept, path, "tabs over"))
    assert saying(told) == [("one-", 5, "user", TABS)]
    (turn,) = told["turns"]
    assert (turn["at"], turn["withheld"], turn["transcript_deleted"]) == ("2026-03-04T09:04:00Z", None, 0)
    assert turn["cited"] == [TABS]
    assert told["changes"][0]["run_id"].startswith("run-")
    shown = slept.run("blame", find_line(slept, path, "tabs over")).stdout
    assert "[5] user, 2026-03-04T09:04:00Z, session one-" in shown
    assert TABS in shown


def test_a_path_in_another_folder_chooses_the_agent(scratch, monkeypatch):
    other = scratch.root / "other"
    other.mkdir()
    scratch.agents.append(scratch.agent("other", other))
    scratch.write_config()
    monkeypatch.chdir(scratch.root)
    line = find_line(scratch, "MEMORY.md", "tabs over")
    for path in (f"{scratch.workspace.name}/{line}", f"{scratch.workspace}/{line}"):
        assert saying(scratch.json("blame", path)) == [("one-", 5, "user", TABS)]
    assert "--agent" in scratch.json("blame", line, code=2)["hint"]
    scratch.agents.pop()
    scratch.write_config()


def test_the_archive_and_a_fact_show_theirs(slept):
    (archive,) = (slept.workspace / ".continuum/memory").glob("MEMORY-*.md")
    assert saying(slept.json("blame", find_line(slept, f".continuum/memory/{archive.name}", "tabs over")))
    fact = next(one for one in slept.json("facts", "list") if "tabs over" in one["content"])
    for name in (fact["id"], f"fact:{fact['id']}", fact["id"][:9]):
        told = slept.json("blame", name)
        assert (told["what"], told["text"], saying(told)) == (fact["id"], fact["content"], [("one-", 5, "user", TABS)])


def test_what_a_person_changes_shows_as_a_change(scratch):
    (scratch.workspace / "MEMORY.md").write_text(
        scratch.core.replace("PostgreSQL 16", "PostgreSQL 17") + "- The office is in Malmö.\n", encoding="utf-8"
    )
    until(lambda: "Malmö" in scratch.run("core", "list").stdout, why="the file has rested")
    told = scratch.json("blame", find_line(scratch, "MEMORY.md", "PostgreSQL 17"))
    assert [(one["actor"], one["operation"]) for one in told["changes"]] == [("memoryd", "add"), ("human", "update")]
    assert "PostgreSQL 16" in told["changes"][0]["content"]
    assert "PostgreSQL 17" in told["changes"][1]["content"]
    told = scratch.json("blame", find_line(scratch, "MEMORY.md", "Malmö"))
    assert (told["turns"], told["by"].startswith("add by human")) == ([], True)
    daily = scratch.workspace / "memory/2026-03-04.md"
    text = daily.read_text(encoding="utf-8")
    daily.write_text(text + "\n## Note (11:00)\n\n- The lift is broken.\n", encoding="utf-8")
    told = scratch.json("blame", find_line(scratch, "memory/2026-03-04.md", "lift"))
    assert (told["turns"], "no run of memoryd wrote" in told["by"]) == ([], True)
    # A line that stayed, in a block that was edited around it, is still known.
    daily.write_text(text.replace("#", "# Mine\n\n#", 1).replace("PostgreSQL", "SQLite"), encoding="utf-8")
    assert saying(scratch.json("blame", find_line(scratch, "memory/2026-03-04.md", "tabs over")))


def test_a_memory_that_was_made_of_another_has_its_turns_and_its_changes(scratch):
    one, other, *_ = (row["id"] for row in scratch.json("core", "list"))
    before = scratch.json("blame", one)
    sql = "UPDATE memory SET sources = '[]', derived_from = ? WHERE id = ?"
    scratch.change(sql, json.dumps([one]), other)
    told = scratch.json("blame", other)
    assert saying(told) == saying(before)
    assert {change["memory"] for change in told["changes"]} == {one, other}


@pytest.mark.parametrize(
    ("target", "code", "why"),
    [
        ("MEMORY.md:999", 3, "is not there: the file has"),
        ("MEMORY.md:0", 3, "is not there"),
        ("memory/2026-03-04.md:2", 3, "is blank"),
        ("memory/2026-03-04.md:1", 3, "is a heading"),
        ("memory/2026-03-09.md:1", 3, "there is no such file"),
        ("../memoryd.yaml:1", 4, "leads out of the workspace"),
        ("sessions/one.jsonl:1", 4, "is not a memory file"),
        ("core_00000000", 3, "there is no memory"),
        ("tabs", 2, "neither a line nor a memory"),
        (f"MEMORY.md:{'9' * 5000}", 2, "neither a line nor a memory"),
    ],
)
def test_what_is_no_line_of_memory_is_refused(slept, target, code, why):
    assert why in slept.json("blame", target, code=code)["message"]


def test_a_memory_whose_session_is_forgotten_or_that_is_private_shows_nothing(scratch):
    place = find_line(scratch, "memory/2026-03-04.md", "tabs over")
    scratch.change("UPDATE turn SET text = '', withheld = 'expired'")
    memory = next(one["id"] for one in scratch.json("core", "list") if "tabs over" in one["content"])
    (turn,) = scratch.json("blame", memory)["turns"]
    assert (turn["seq"], turn["text"], turn["withheld"]) == (5, "", "expired")
    assert "older than retention.turns" in scratch.run("blame", memory).stdout
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    assert scratch.json("blame", place, code=4)
    with pytest.raises(RefusedError):
        memoryd.Memory(scratch.workspace, scratch.config).blame(place)
