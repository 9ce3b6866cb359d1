"""The commands on sessions in NOW files: also without a daemon, and before one has read them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import forks
import pytest
from scratch import Scratch

import memoryd
from memoryd import config
from memoryd.interfaces.mcp.tools import MemoryTools
from memoryd.interfaces.mcp.values import SearchArguments
from memoryd.tiers import now

ROOT = Path(memoryd.__file__).parents[1]


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    made = Scratch(tmp_path / "scratch")
    monkeypatch.chdir(made.workspace)
    return made


def header(scratch, path):
    return now.parse((scratch.workspace / path).read_bytes()).header


def test_a_session_is_kept_and_shown_without_a_daemon(scratch):
    made = scratch.json("session", "start", "--tags", "login,ui", "--task", "#42", "--task", "x y")
    assert (made["tags"], made["related_tasks"], made["project_path"]) == (
        ["login", "ui"],
        ["#42", "x y"],
        str(scratch.workspace),
    )
    assert scratch.json("session", "append", "user", "Use kumquats.")["session"] == made["session"]
    scratch.json("session", "append", "tool", "ls\n## User: x", "--tool", "shell", "--summary", "lists")
    (listed,) = scratch.json("session", "list")
    assert (listed["id"], listed["state"], listed["turns"], listed["parent"]) == (made["session"], "active", 2, None)
    turns = scratch.json("session", "messages", made["session"][:10])
    assert [(turn["role"], turn["text"]) for turn in turns] == [
        ("user", "Use kumquats."),
        ("tool", "[Tool: shell - lists]\n```\nls\n## User: x\n```"),
    ]
    shown = scratch.json("session", "show", made["session"])
    assert (shown["messages"], shown["texts"]) == (turns, {"kept": 2})
    assert "not slept" in scratch.json("session", "messages", made["session"], "--compressed", code=3)["message"]
    ended = scratch.json("session", "end")
    assert header(scratch, ended["path"]).timestamp_end == ended["ended_at"]
    assert scratch.json("session", "list")[0]["state"] == "ended"
    assert scratch.json("session", "end", code=3)["hint"] == "memoryd session start starts one"
    later = scratch.json("session", "append", "user", "More.")
    assert later["parent_session"] == made["session"]
    assert [row["parent"] for row in scratch.json("session", "list")] == [made["session"], None]
    assert scratch.json("session", "end", later["session"])["ended_at"]


@pytest.mark.parametrize("way", [("end", "--consolidate"), ("append", "user", "/exit --consolidate")])
def test_what_is_said_after_the_end_and_consolidation_is_a_new_session(scratch, way):
    first = scratch.json("session", "append", "user", "We decided to keep the kumquats in PostgreSQL.")
    assert first["project_path"] == str(scratch.workspace)
    ended = scratch.json("session", *way)
    assert (ended["session"], ended["consolidation"]["state"]) == (first["session"], "succeeded")
    document = now.parse((scratch.workspace / first["path"]).read_bytes())
    assert now.is_cleared(document)
    kept = [path.read_text() for path in (scratch.workspace / ".continuum/memory").glob("MEMORY-*.md")]
    assert "keep the kumquats in PostgreSQL" in "".join(kept)
    later = scratch.json("session", "append", "user", "And the plums.")
    assert (later["parent_session"], later["path"] != first["path"]) == (first["session"], True)
    assert b"And the plums." in (scratch.workspace / later["path"]).read_bytes()


def test_text_comes_from_standard_input_as_well(scratch):
    done = scratch.run("session", "append", "agent", cwd=ROOT, input="## User: x\n")
    assert done.returncode == 0, done.stderr
    (row,) = scratch.json("session", "list")
    assert [turn["text"] for turn in scratch.json("session", "messages", row["id"])] == ["## User: x"]


def test_what_is_read_is_known_once_and_a_parent_makes_no_subagent(scratch):
    first = scratch.json("session", "append", "user", "We decided to keep the kumquats in PostgreSQL.")
    scratch.json("session", "end")
    second = scratch.json("session", "append", "user", "Always wash the kumquats before every meal.")
    scratch.json("run", "--once")
    rows = scratch.json("session", "list")
    assert {(row["id"], row["parent"], row["state"]) for row in rows} == {
        (first["session"], None, "ended"),
        (second["session"], first["session"], "active"),
    }
    assert scratch.query("SELECT count(*) FROM session WHERE parent_id IS NOT NULL") == [(0,)]
    assert scratch.json("session", "end", first["session"])["state"] == "skipped"


def test_tags_of_a_now_file_are_found_at_once_and_after_it_was_read(scratch):
    made = scratch.json("session", "start", "--tags", "fruit")
    scratch.json("session", "append", "user", "Kumquats are sour. #citrus")
    scratch.json("session", "append", "agent", "Kumquats go into jam, then.")

    def found(*arguments):
        return [(hit["path"], hit["snippet"]) for hit in scratch.json("search", "kumquats", *arguments)]

    hits = scratch.json("search", "kumquats", "--tags", "fruit")
    lines = (scratch.workspace / made["path"]).read_text(encoding="utf-8").splitlines()
    shown = [lines[hit["first_line"] - 1] for hit in hits]
    assert shown == ["## Agent: Kumquats go into jam, then.", "## User: Kumquats are sour. #citrus"]
    settings = config.load(scratch.config)
    with MemoryTools(settings, settings.agents[0]) as memory:
        told = memory.search(SearchArguments(query="kumquats", tags=["fruit"]))
    assert [hit["snippet"] for hit in told["hits"]] == [hit["snippet"] for hit in hits]
    at_once = found("--tags", "fruit,citrus")
    assert at_once == [(made["path"], "Kumquats go into jam, then."), (made["path"], "Kumquats are sour. #citrus")]
    assert found("--tags", "fruit,other") == found("--tags", "fruit", "--tier", "core") == []
    assert found("--tags", "fruit", "--before", "2001-01-01") == []
    scratch.json("run", "--once")
    read = found("--tags", "fruit,citrus")
    assert {path for path, _ in read} == {f"session:{made['session']}"}
    assert len(read) == 2


def test_what_is_private_is_not_shown(scratch):
    made = scratch.json("session", "start", "--private")
    scratch.json("session", "append", "user", "A secret kumquat #x")
    assert b"\nprivate: true\n" in (scratch.workspace / made["path"]).read_bytes()
    other = scratch.json("session", "start")
    assert [row["id"] for row in scratch.json("session", "list")] == [other["session"]]
    assert "no database" in scratch.json("session", "messages", made["session"], code=1)["message"]
    assert scratch.json("search", "kumquat", "--tags", "x") == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "stop"), [("print(input()); raise SystemExit(7)", None), ("wait", signal.SIGTERM), ("wait", signal.SIGINT)]
)
def test_a_wrapped_command_ends_its_session_and_passes_on_its_exit_code(scratch, code, stop):
    if code == "wait":
        code = "import signal; print('up', flush=True); signal.pause()"
    with forks.start(
        ["-m", "memoryd", "--config", str(scratch.config), "session", "start", "--", sys.executable, "-S", "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        if stop:
            assert process.stdout.readline() == b"up\n"
            os.kill(process.pid, stop)
        out, err = process.communicate(b"hello\n", timeout=60)
    assert (process.returncode, out) == ((7, b"hello\n") if stop is None else (process.returncode, b"")), err
    assert process.returncode in {None: {7}, signal.SIGTERM: {143}, signal.SIGINT: {1, 130}}[stop]
    (row,) = scratch.json("session", "list")
    assert row["state"] == "ended"


def test_a_signal_that_comes_while_a_command_is_being_started_stops_the_command_too(scratch, monkeypatch):
    begun = []

    class SlowStart(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            begun.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", SlowStart)
    done = scratch.run("session", "start", "--", sys.executable, "-S", "-c", "import signal; signal.pause()")
    assert (done.returncode, [process.returncode for process in begun]) == (143, [-signal.SIGTERM])
    assert scratch.json("session", "list")[0]["state"] == "ended"


def test_a_wrapped_command_that_does_not_exist_leaves_no_open_session(scratch):
    assert scratch.json("session", "start", "--", "no-such-command", code=3)["hint"]
    assert scratch.json("session", "list")[0]["state"] == "ended"


def test_entries_in_a_wrapped_shell_go_to_its_session(scratch, monkeypatch):
    first = scratch.json("session", "start")
    scratch.json("session", "start")
    monkeypatch.setenv("MEMORYD_SESSION", first["session"])
    assert scratch.json("session", "append", "user", "mine")["session"] == first["session"]


def test_exit_in_a_file_that_an_agent_writes_ends_its_session(scratch):
    folder = scratch.workspace / ".continuum/memory"
    folder.mkdir(parents=True)
    path = folder / "NOW-2026-03-04T10-00.md"
    path.write_text("## User: Use kumquats in the jam.\n\n## Agent: Yes.\n\n## User: /exit --consolidate\n")
    os.utime(path, (1772618400, 1772618400))
    scratch.json("run", "--once")
    (row,) = scratch.json("session", "list")
    assert (row["state"], row["ended_at"]) == ("ended", "2026-03-04T10:00:00.000Z")
