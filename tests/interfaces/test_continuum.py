"""`continuum memory …`: the same commands in a folder that no configuration names."""

import contextlib
import json
import os
import subprocess
import sys

import platformdirs
import pytest
from scratch import called

import memoryd
from memoryd.interfaces import continuum
from memoryd.interfaces.continuum import find_workspace
from memoryd.tiers.archive import FOLDER


class Shell:
    """Runs the command in a folder, under a home of its own."""

    def __init__(self, root):
        self.root, self.folder = root, root / "shop"
        self.folder.mkdir()
        homes = {name: str(root / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        homes["XDG_CACHE_HOME"] = platformdirs.user_cache_dir()  # the rules of the scanner are compiled there
        (root / "home").mkdir()
        kept = {
            name: os.environ[name] for name in ("PATH", "PYTHONPATH", "COVERAGE_PROCESS_START") if name in os.environ
        }
        self.environ = kept | homes

    def run(self, *words, within=".", code=0, fresh=False):
        """What the command answers: in this process, or in a new one."""
        if fresh:
            program = [sys.executable, "-c", "from memoryd.interfaces.continuum import main; main()", "memory", *words]
            done = subprocess.run(
                program, cwd=self.folder / within, env=self.environ, capture_output=True, text=True, check=False
            )
        else:
            with pytest.MonkeyPatch.context() as patch, contextlib.chdir(self.folder / within):
                patch.delenv("MEMORYD_CONFIG", raising=False)
                for name, value in self.environ.items():
                    patch.setenv(name, value)
                done = called(["memory", *words], continuum.main)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def json(self, *words, **more):
        return json.loads(self.run("--json", *words, **more))["data"]


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.mark.long
def test_a_session_becomes_memory_without_any_configuration(shell):
    told = shell.run("append", "user", "x", code=3, fresh=True)
    assert "continuum memory init makes one here" in told
    made = shell.json("init")
    assert (made["made"], shell.json("init")["made"]) == (True, False)
    assert "memoryd init" in made["next"]
    (shell.folder / "below").mkdir()
    first = shell.json(
        "append", "user", "Please keep the old #login page, because the app links to it.", within="below", fresh=True
    )
    assert first["path"].startswith(FOLDER)
    assert shell.json("consolidate")["state"] == "succeeded"
    assert "Please keep the old #login page" in (shell.folder / FOLDER / "RECENT.md").read_text(encoding="utf-8")
    assert [one["action"] for one in shell.json("log")][-1] == "Rollover NOW → RECENT"
    assert shell.run("log", "--tail", "1").count("ACTION:") == 1
    assert [one["id"] for one in shell.json("list")] == [first["session"]]
    assert any("login" in hit["snippet"] for hit in shell.json("search", "login page"))
    assert [agent["workspace"] for agent in shell.json("status")["agents"]] == [str(shell.folder)]
    assert shell.json("recover", "--hours", "0") == {"stale": [], "run": None}


def test_the_workspace_is_the_nearest_folder_upwards(tmp_path):
    inner = tmp_path / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    assert find_workspace(inner) == tmp_path / "repo"
    (tmp_path / "repo" / "a" / ".continuum").mkdir()
    assert find_workspace(inner) == tmp_path / "repo" / "a"


@pytest.mark.long
def test_python_keeps_and_rolls_over_sessions_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", platformdirs.user_cache_dir())
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("MEMORYD_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    memory = memoryd.Memory(tmp_path / "work")
    begun = memory.sessions.start(tags=["login"])
    memory.sessions.append("user", "Please keep the old page, because the app links to it.")
    assert [one["session"] for one in memory.sessions.list()] == [begun["session"]]
    assert memory.consolidate(dry_run=True)["would"]
    assert len(memory.recover(0)["stale"]) == 1
    assert memory.recover(0, consolidate=True)["state"] == "succeeded"
    assert memory.sessions.list()[0]["ended_at"] is not None
    assert memory.recover(0)["stale"] == []


def test_the_status_of_a_folder_without_memory_says_what_to_do(shell):
    config = shell.root / "home" / "memoryd" / "memoryd.yaml"
    config.parent.mkdir(parents=True)
    (shell.root / "other").mkdir()
    config.write_text(json.dumps({"agents": [{"id": "other", "workspace": str(shell.root / "other")}]}))
    shell.run("init")
    told = shell.run("status", code=3)
    assert f"{shell.folder}: nothing is kept for this folder yet" in told
    assert "memoryd init --project . gives the folder an agent" in told


def test_a_configured_folder_needs_no_mark_of_a_workspace(shell):
    config = shell.root / "home" / "memoryd" / "memoryd.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"agents": [{"id": "shop", "workspace": str(shell.folder)}]}))
    (shell.folder / "below").mkdir()
    assert "start the daemon: memoryd run" in shell.run("status", within="below", code=1)
    assert "no workspace here" in shell.run("status", within="..", code=3)
    (shell.folder.parent / ".git").mkdir()
    assert "start the daemon: memoryd run" in shell.run("status", within="below", code=1), "the nearest counts"
