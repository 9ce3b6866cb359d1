"""What somebody meets in the first hour: mistyped paths, a broken configuration, transcripts that are over already."""

import json
import subprocess

import forks
import pytest
from admin_world import free_port
from scratch import Scratch, said

from memoryd import config
from memoryd.counted import count_noun


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """An agent whose only session was over long before memoryd came, read once."""
    scratch = Scratch(tmp_path_factory.mktemp("first") / "scratch")
    scratch.append(said())
    return scratch, scratch.run("run", "--once")


@pytest.mark.parametrize(("number", "told"), [(0, "0 turns"), (1, "1 turn"), (2, "2 turns"), (1234, "1,234 turns")])
def test_one_is_no_plural(number, told):
    assert count_noun(number, "turn") == told
    assert count_noun(number, "memory", "memories").endswith("memory" if number == 1 else "memories")


def test_sessions_that_were_over_are_told_of_with_the_way_to_have_them_written(old):
    scratch, first = old
    assert first.stdout.splitlines()[0] == "read 6 new turns, carried out 0 runs"
    told = "1 session ended before memoryd first saw it: indexed, but not written to memory"
    for text in (first.stdout, scratch.run("status").stdout):
        assert told in text
        assert "memoryd import --agent demo" in text or "memoryd import writes" in text
        assert "ingest.history: flush" in text
    assert scratch.json("status")["agents"][0]["left_as_history"] == 1
    skipped = scratch.json("job", "run", "sleep")
    assert skipped["state"] == "skipped"
    assert skipped["why"].endswith("--force takes 1 session that is over")
    assert scratch.dailies() == {}

    scratch.write_config(modes={"facts": "off", "sleep": "off"})
    assert scratch.json("status")["agents"][0]["left_as_history"] == 0, "nobody waits for what is switched off"
    scratch.write_config(modes={"facts": "off"})
    (session,) = scratch.json("session", "list")
    ended = scratch.run("session", "end", session["id"]).stdout
    assert ended.startswith(
        "the session is over; what it said since its last sleep is in MEMORY.md, memory/2026-03-04.md"
    )
    again = scratch.run("session", "end", session["id"]).stdout
    assert again == "the session is over; it said nothing since its last sleep, so nothing was written\n"
    assert scratch.json("status")["agents"][0]["left_as_history"] == 0
    assert "over when" not in scratch.run("run", "--once").stdout + scratch.run("status").stdout
    assert "--force" not in scratch.json("job", "run", "sleep")["why"]


def test_a_broken_configuration_hides_neither_log_nor_runs_nor_the_state_of_the_machine(old):
    scratch, _ = old
    sound = scratch.config.read_text(encoding="utf-8")
    scratch.json("job", "run", "sleep")  # is skipped, or not: a run to list
    logged = len(scratch.json("logs"))
    listed = len(scratch.json("job", "list"))
    scratch.config.write_text(f"state_dir: {scratch.state}\nunknown: 1\n", encoding="utf-8")
    try:
        for command, rows in ((["logs"], logged), (["job", "list"], listed)):
            done = scratch.run("--json", *command)
            answer = json.loads(done.stdout)
            assert (done.returncode, answer["error"]["code"], len(answer["data"]["rows"])) == (2, "config", rows)
            done = scratch.run(*command)
            assert done.returncode == 2
            assert len(done.stdout.splitlines()) >= rows > 0
            assert "unknown" in done.stderr
        assert scratch.run("logs", "-f").returncode == 2
        checks = json.loads(scratch.run("--json", "doctor").stdout)["data"]
        assert checks["ok"] is False
        levels = [(check["name"], check["level"]) for check in checks["checks"]]
        assert levels[0] == ("configuration", "fail")
        assert any("unknown" in check["text"] for check in checks["checks"])
        assert ("sqlite", "ok") in levels
        assert ("database", "ok") in levels
        # Without a state folder to look at, there is nothing but the error.
        scratch.config.write_text("- no mapping\n", encoding="utf-8")
        for command in (["logs"], ["job", "list"], ["doctor"]):
            assert scratch.json(*command, code=2)["code"] == "config"
    finally:
        scratch.config.write_text(sound, encoding="utf-8")


def test_an_agent_that_there_is_not_is_told_of(old):
    scratch, _ = old
    for command in (["logs"], ["job", "list"], ["session", "list"]):
        assert scratch.json(*command, "--agent", "zz", code=3)["hint"] == "configured: demo"


def test_a_path_that_leads_nowhere_comes_with_what_to_do(old):
    scratch, _ = old
    assert "make its folder first" in scratch.json("backup", str(scratch.root / "none" / "b.tar"), code=1)["hint"]
    assert "not a folder" in scratch.json("backup", str(scratch.config / "b.tar"), code=1)["hint"]
    done = scratch.run("--config", str(scratch.root), "status", config=False)
    assert done.returncode == 2
    assert "is a folder" in done.stderr
    assert f"such as {scratch.root / 'memoryd.yaml'}" in done.stderr


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("agents: [\n  - id: a\nlog: {}\n", 1, "the [ is never closed, or line 2 is not part of it"),
        ("log: {}\nagents: [1, 2\nsleep: {}\n", 2, "the [ is never closed, or line 3 is not part of it"),
        ("log: {level: info\n", 1, "the { is never closed"),
        ("log:\n  level: [", 2, "the [ is never closed"),
        ("log: {level: a: b}\n", 1, "expected"),
    ],
)
def test_an_open_bracket_is_told_of_where_it_opens(tmp_path, text, line, what):
    path = tmp_path / "memoryd.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(config.SettingsError) as refused:
        config.load(path)
    (problem,) = refused.value.problems
    assert problem.where == f"{path}:{line}"
    assert what in problem.what
    assert problem.hint


def test_what_could_not_be_written_is_said_by_the_run_that_could_not(tmp_path):
    """Nor does it stop what other agents have to do, in a daemon either."""
    scratch, other = Scratch(tmp_path / "scratch"), Scratch(tmp_path / "other")
    scratch.agents.append(Scratch.agent("other", other.workspace))
    scratch.write_config(ingest={"history": "flush"}, modes={"facts": "off"})
    (scratch.workspace / ".continuum").write_text("no folder")
    scratch.append(said())
    other.append(said())
    told = scratch.run("run", "--once").stdout
    assert "sleep of demo failed: " in told
    assert f"{scratch.workspace / '.continuum'}: is not a folder" in told
    assert "of other failed" not in told
    assert other.dailies()
    with scratch.daemon() as process:
        assert scratch.is_up(process.pid)


def test_a_command_about_an_agent_says_how_to_get_the_first(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    scratch.agents.clear()
    scratch.write_config()
    assert scratch.json("pause", code=2)["hint"].startswith("memoryd init --project .")


def test_the_admin_page_needs_no_daemon_to_have_run_before(tmp_path):
    scratch = Scratch(tmp_path / "scratch", admin={"listen": f"127.0.0.1:{free_port()}"})
    assert not scratch.state.exists()
    with forks.start(
        ["-m", "memoryd", "--config", str(scratch.config), "admin"], stdout=subprocess.PIPE, text=True
    ) as page:
        assert "/enter/" in page.stdout.readline()
        page.terminate()
