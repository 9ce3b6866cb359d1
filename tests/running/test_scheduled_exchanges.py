"""What a scheduler asks of an agent is stored and counted, and reaches no file, fact or injected text."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from scratch import Model, Scratch, message, recent

import memoryd
from memoryd import app
from memoryd.interfaces import python_api as doors
from memoryd.worker import client


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch", modes={"facts": "auto", "rollover": "auto"}, facts={"debounce": "0s"})

    def model(*_, **__):
        return Model(made.root / "asked")

    with (
        patch.object(app, "Worker", model),
        patch.object(client, "Worker", model),
        patch.object(doors, "Worker", model),
    ):
        yield made


@pytest.mark.long
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_scheduled_exchange_stays_out_of_memory(scratch, in_parts):
    at = recent()
    talk = [
        message("user", "I prefer tabs over spaces in all Makefiles.", at=at),
        message("assistant", "Noted.", at=at),
        message("user", "[SCHEDULED] I prefer quaggas over zebras. We decided to weigh each quagga daily.", at=at),
        message("assistant", "We decided to weigh the quaggas on Monday.", at=at),
        message("user", "We decided to ship the parser on Monday, because the Friday build failed.", at=at),
        message("assistant", "The parser ships on Monday.", at=at),
    ]
    for part in [talk[:3], talk[3:4], talk[4:]] if in_parts else [talk]:
        scratch.append(part)
        scratch.json("run", "--once")
        memory = memoryd.Memory(scratch.workspace, scratch.config)
        assert "quagga" not in memory.context().text  # which tells what was said last, before a session sleeps
        for kind in ("sleep", "facts"):
            scratch.run("job", "run", kind, "--force")
        assert "quagga" not in memory.context().text
    for kind in ("rollover", "dream"):
        scratch.run("job", "run", kind, "--force")
    (session,) = scratch.json("session", "list")
    assert session["turns"] == len(talk)
    assert "quagga" in str(scratch.query("SELECT text FROM turn"))
    files = [path.read_text("utf-8") for path in scratch.workspace.rglob("*.md")]
    assert "tabs over spaces" in "".join(files)
    assert "ship the parser" in "".join(files)
    assert "quagga" not in "".join(files)
    for sql in (
        "SELECT content FROM memory",
        "SELECT summary FROM session_summary",
        "SELECT text FROM profile_section",
    ):
        assert "quagga" not in str(scratch.query(sql))
    assert "Makefiles" in str(scratch.json("facts", "list"))
    assert scratch.json("status")["agents"][0]["sessions"][0]["turns"] == len(talk)


def test_what_was_over_when_it_was_first_seen_is_summed_up_without_it(scratch):
    at = recent(minutes_ago=3 * 24 * 60)
    talk = [
        message("user", "[SCHEDULED] We decided to weigh each quagga daily.", at=at),
        message("assistant", "We decided to weigh the quaggas on Monday.", at=at),
        message("user", "We decided to ship the parser on Monday, because the Friday build failed.", at=at),
        message("assistant", "The parser ships on Monday.", at=at),
    ]
    scratch.append(talk)
    scratch.json("run", "--once")
    scratch.run("job", "run", "rollover")
    text = (scratch.workspace / ".continuum" / "memory" / "RECENT.md").read_text("utf-8")
    assert "ship the parser" in text
    assert "quagga" not in text
