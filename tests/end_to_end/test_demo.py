"""The demonstration is the product's first impression, so it is run as a user runs it: a real daemon, a real file."""

import json
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from memoryd.errors import StateError
from memoryd.interfaces import demo
from memoryd.interfaces.output import Output


def test_the_sample_holds_what_must_not_be_remembered() -> None:
    text = resources.files("memoryd.interfaces").joinpath("demo_session.jsonl").read_text("utf-8")
    assert all(phrase in text for phrase in demo.PLANTED)


@pytest.fixture
def waiting(tmp_path, monkeypatch):
    """A demo without its daemon, which gives up after a fifth of a second without a trace."""
    monkeypatch.setattr(demo, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(demo, "POLL_SECONDS", 0.02)
    waiting = demo.Demo(Output(quiet=True), tmp_path)
    waiting.log.parent.mkdir(parents=True)
    return waiting


def answers_after(calls, work):
    """A probe that answers at last, and before that does a piece of work each time it is called."""
    left = iter(range(calls, -1, -1))

    def probe():
        work()
        return None if next(left) else "an answer"

    return probe


@pytest.mark.parametrize("name", ["log", "database", "errors"])
def test_the_demo_waits_as_long_as_the_daemon_leaves_traces(waiting, name):
    def write():
        with getattr(waiting, name).open("ab") as file:
            file.write(b"x")

    assert waiting.wait_for("an answer", answers_after(40, write)) == "an answer"


def test_the_demo_fails_where_the_daemon_has_done_nothing_for_long(waiting):
    with pytest.raises(StateError, match=r"waited for an answer, but the daemon has done nothing for 0\.2 s"):
        waiting.wait_for("an answer", answers_after(40, lambda: None))


def test_the_demo_says_that_its_files_stay_and_how_to_remove_them(waiting):
    waiting.output, waiting.run, waiting.session_id = Output(), {"id": "run-1"}, "one"
    first, *_, last = waiting.places().splitlines()
    assert first.endswith("These files stay until the last command below:")
    assert last == f"  rm -r {waiting.folder}"


def test_the_demo_kills_a_daemon_that_does_not_stop(waiting):
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(flush=True)\nsignal.pause()"
    waiting.daemon = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    with waiting.daemon as daemon:
        daemon.stdout.readline()
        with pytest.raises(StateError, match="waited for the daemon to stop"):
            waiting.stop()
        assert daemon.returncode == -signal.SIGKILL


@pytest.mark.timeout(400)
def test_a_session_becomes_memory_under_a_live_daemon(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memoryd", "demo", "--json", "--keep", str(folder)],
        capture_output=True,
        check=False,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert answer["ok"]
    memory = "".join(path.read_text("utf-8") for path in folder.rglob("*.md"))
    assert "# Daily Memory: " in memory
    assert "# Memory" in memory
    assert not any(phrase in memory for phrase in demo.PLANTED)
