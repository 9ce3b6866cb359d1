"""Excerpts: lines of files, never of anything outside of the workspace."""

import os
import threading

import pytest
from recall_world import World

from memoryd.errors import ConfigError, MemorydError, NotFoundError, RefusedError, StateError
from memoryd.finding.excerpt import LineRange, get, strip_workspace
from memoryd.ledger.facts import NewFact

SECRET = "outside of the workspace"  # noqa: S105


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    made.write("MEMORY.md", "one\ntwo\nthree\nfour")
    (tmp_path / "outside.md").write_text(SECRET)
    (tmp_path / "workspace-demo-evil").mkdir()
    (tmp_path / "workspace-demo-evil" / "x.md").write_text(SECRET)
    yield made
    made.close()


def read(world, path, first=1, count=None, redact=list):
    return get(world.agent, path, LineRange(first, count), database=world.database, redact=redact)


@pytest.mark.parametrize(
    ("first", "count", "lines", "text"),
    [
        (1, None, (1, 4), "one\ntwo\nthree\nfour"),
        (2, 2, (2, 3), "two\nthree\n"),
        (4, 10, (4, 4), "four"),
        (1, 1, (1, 1), "one\n"),
    ],
)
def test_lines_are_those_that_are_there(world, first, count, lines, text):
    found = read(world, "MEMORY.md", first, count)
    assert (found.first_line, found.last_line, found.total_lines, found.text) == (*lines, 4, text)


def test_the_ends_are_clear(world):
    with pytest.raises(NotFoundError, match="it has 4 lines"):
        read(world, "MEMORY.md", 5)
    for first, count in ((0, None), (-1, None), (1, 0), (1, -5)):
        with pytest.raises(ConfigError):
            read(world, "MEMORY.md", first, count)
    world.write("memory/empty.md", "")
    empty = read(world, "memory/empty.md")
    assert (empty.first_line, empty.last_line, empty.total_lines, empty.text) == (1, 0, 0, "")
    assert read(world, "./MEMORY.md").path == "MEMORY.md"


def test_lines_of_a_private_part_are_blank(world):
    world.write("MEMORY.md", "one\n<private>\n- two\n</private>\n- three\n")
    assert read(world, "MEMORY.md", 3, 1).text.split() == []
    assert read(world, "MEMORY.md").text.split() == ["one", "-", "three"]


@pytest.mark.parametrize(
    "path",
    ["../outside.md", "/etc/passwd", "memory//../../outside.md", "memory/../MEMORY.md", "..", "", ".",
     "MEMORY.md\0.txt", "../workspace-demo-evil/x.md", "a" * 4096, "notes.private", "x.PRIVATE/a.md",
     "memory/.private", ".env", "README.md", ".git/config", "memory/.hidden.md", "memory/.git/x.md", "memory/key.pem",
     "memory", ".continuum/memory/backup/run-1/MEMORY.md", ".continuum/MEMORY.md", "memory.md", "memory-evil/x.md",
     "memory/proposals/run-1.md", "memory/Proposals/run-2.md",
     "src/MEMORY.md", "MEMORY.md.private", "Memory/x.md", "memory/x.md/..", "memory/x"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(world, path):
    """Also where there is such a file: a workspace is often a project, with keys and settings."""
    for name in ("notes.private", ".env", "README.md", ".git/config", "memory/.hidden.md", "memory/key.pem",
                 "memory/.git/x.md", "src/MEMORY.md", ".continuum/memory/backup/run-1/MEMORY.md",
                 "memory/proposals/run-1.md", "memory/Proposals/run-2.md",
                 ".continuum/MEMORY.md"):  # fmt: skip
        (world.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (world.workspace / name).write_text(SECRET)
    with pytest.raises(RefusedError) as refused:
        read(world, path)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    ["%2e%2e/outside.md", "..\\outside.md", "MEMORY.md ", "MEMORY.md.", "\uff0e\uff0e/outside.md", "memory/no.md",
     "MEMORY.md/x", "session:", "fact:", "session:none", "fact:none", "memory/" + "b" * 300],
)  # fmt: skip
def test_a_path_to_nothing_is_an_error(world, path):
    with pytest.raises(MemorydError):
        read(world, path)


def test_only_regular_files_of_one_name_are_read(world):
    outside = world.workspace.parent / "outside.md"
    memory = world.workspace / "memory"
    memory.mkdir(exist_ok=True)
    (memory / "link.md").symlink_to(outside)
    (memory / "folder").symlink_to(world.workspace.parent)
    os.link(outside, memory / "hard.md")
    os.mkfifo(memory / "fifo.md")
    (memory / "dir.md").mkdir()
    for name in ("link.md", "folder/outside.md", "hard.md", "fifo.md", "dir.md"):
        path = f"memory/{name}"
        with pytest.raises(StateError) as refused:
            read(world, path)
        assert SECRET not in str(refused.value)


def test_a_link_swapped_in_during_the_call_leads_nowhere(world):
    outside = world.workspace.parent / "outside.md"
    folder = world.workspace / "memory"
    (folder / "day.md").write_text("inside\n")
    elsewhere = world.workspace.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "day.md").write_text(SECRET)
    link, ready = world.workspace / "swap", threading.Event()

    def swap():
        while not ready.is_set():
            for there in (outside, elsewhere):
                link.symlink_to(there)
                if there is outside:
                    (folder / "day.md").rename(folder / "kept")
                    link.rename(folder / "day.md")
                    (folder / "kept").replace(folder / "day.md")
                else:
                    folder.rename(world.workspace / "aside")
                    link.rename(folder)
                    folder.unlink()
                    (world.workspace / "aside").rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(1500):
            try:
                seen.add(read(world, "memory/day.md").text)
            except MemorydError:
                seen.add(None)
    finally:
        ready.set()
        thread.join()
    assert seen <= {"inside\n", None}
    assert "inside\n" in seen


def test_turns_of_a_session_are_its_lines(world):
    for role, text in (("user", "first"), ("assistant", "second\nof two lines"), ("user", "third")):
        world.turn(text, role=role)
    found = read(world, "session:s1", 2, 1)
    assert (found.first_line, found.last_line, found.total_lines) == (2, 2, 3)
    assert found.text == "[2] assistant: second\n    of two lines\n"
    assert read(world, "session:s1").text.count("\n") == 4
    assert read(world, "session:s1:2-2") == read(world, "session:s1:2") == found, "as the list of hits names it"
    with pytest.raises(NotFoundError):
        read(world, "session:s1", 4)


def test_a_session_or_fact_of_another_agent_is_not_there(tmp_path):
    world = World(tmp_path, "a", "b")
    world.turn("of b", session="s-b", agent="b")
    fact = world.facts("b").create([NewFact("of b", "context", 0.9)]).outcomes[0].fact
    for path in ("session:s-b", f"fact:{fact.id}"):
        with pytest.raises(NotFoundError):
            read(world, path)
    assert get(world.agents["b"], f"fact:{fact.id}", LineRange(), database=world.database, redact=list).text == "of b"
    world.facts("b").delete(fact.id)
    with pytest.raises(NotFoundError):
        get(world.agents["b"], f"fact:{fact.id}", LineRange(), database=world.database, redact=list)
    world.close()


def test_secrets_are_taken_out(world):
    world.write("MEMORY.md", "the password is hunter2\n")
    found = read(world, "MEMORY.md", redact=lambda texts: [text.replace("hunter2", "[REDACTED:x]") for text in texts])
    assert found.text == "the password is [REDACTED:x]\n"


@pytest.mark.parametrize("path", ["memory/dreams/2026-05-03.md", ".continuum/memory/RECENT.md", "memory/my notes.md"])
def test_what_is_memory_is_read(world, path):
    (world.workspace / path).parent.mkdir(parents=True, exist_ok=True)
    (world.workspace / path).write_text("remembered\n")
    assert read(world, path).text == "remembered\n"


def test_a_path_is_named_from_the_workspace_on():
    assert strip_workspace("memory//2026-05-03.md") == "memory/2026-05-03.md"
    assert strip_workspace("./MEMORY.md") == "MEMORY.md"
