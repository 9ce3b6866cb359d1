"""The demonstration is the product's first impression, so it is run as a user runs it: a real daemon, a real file."""

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

from memoryd.interfaces import demo


def test_the_sample_holds_what_must_not_be_remembered() -> None:
    text = resources.files("memoryd.interfaces").joinpath("demo_session.jsonl").read_text("utf-8")
    assert all(phrase in text for phrase in demo.PLANTED)


def test_a_session_becomes_memory_under_a_live_daemon(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memoryd", "demo", "--json", "--keep", str(folder)],
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert answer["ok"]
    memory = "".join(path.read_text("utf-8") for path in folder.rglob("*.md"))
    assert "# Daily Memory: " in memory
    assert "# Memory" in memory
    assert not any(phrase in memory for phrase in demo.PLANTED)
