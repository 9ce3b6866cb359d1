"""Commands that a running daemon answers: the same answer, in a process that loads little."""

import subprocess
import sys
import time

import pytest
from scratch import Scratch, in_process, said

from memoryd.daemon.loop import Loop
from memoryd.daemon.once import read_all
from memoryd.errors import RefusedError, StateError
from memoryd.files.log import get_logger
from memoryd.finding.recall import Narrowing
from memoryd.interfaces import serving
from memoryd.interfaces.control import Control
from memoryd.requests import context as contexts
from memoryd.requests import daemon_client, searching

NARROWING = {"tier": None, "tags": [], "after": None, "before": None, "limit": 10}


@pytest.fixture
def served(tmp_path):
    """A scratch installation whose daemon's socket answers, with its app."""
    scratch = Scratch(tmp_path / "s")
    scratch.append(said(), "one")
    with in_process(scratch) as app:
        read_all(app)
        loop = Loop(app, lambda _: None)
        verbs = serving._verbs(app, loop)
        with Control(scratch.state / daemon_client.SOCKET, verbs, time.monotonic, get_logger("memoryd.test")):
            yield scratch, app, verbs


def test_a_daemon_answers_search_and_status(served, monkeypatch):
    scratch, app, _ = served
    with searching.open_recall(app.settings, app.scrubber) as recall:
        agent = app.settings.agents[0]
        alone = searching.search_with(recall, app.scrubber, agent, "PostgreSQL", Narrowing(tier="session"))
    monkeypatch.setattr(searching, "search", None)
    hits = scratch.json("search", "PostgreSQL", "--tier", "session")
    assert [hit["path"] for hit in hits] == [hit.path for hit in alone]
    found = scratch.run("search", "PostgreSQL", "--after", "2026-01-01").stdout
    assert "PostgreSQL" in found
    assert "no text holds much of the query" not in found
    weak = scratch.run("search", "Which violet walrus of the harbour mill ate PostgreSQL with unicorns?").stdout
    assert weak.startswith("no text holds much of the query; the nearest:\n")
    assert scratch.json("status", "--all")["agents"][0]["sessions"][0]["turns"] == len(said())


def test_a_daemon_shows_what_a_session_gets(served, monkeypatch):
    scratch, _, _ = served
    (scratch.workspace / "MEMORY.md").write_text("# Memory\n\n- The mill runs on PostgreSQL.\n")
    for more in ([], ["--query", "PostgreSQL"], ["--max-tokens", "10"]):
        with monkeypatch.context() as alone:
            alone.setattr(daemon_client, "ask_same", lambda *_, **__: {})
            own = scratch.json("context", *more)
        assert own["text"] or own["left_out"]
        with monkeypatch.context() as asked:
            asked.setattr(contexts, "inject", None)
            told = scratch.json("context", *more)
        assert {**told, "tokens": 0} == {**own, "tokens": 0}  # here an app counts characters


def test_what_a_daemon_refuses_the_command_says_itself(served):
    scratch, _, verbs = served
    asked = {"agent": "demo", "text": "mill", "narrowing": NARROWING}
    with pytest.raises(StateError, match="other settings"):
        verbs["search"](asked | {"same": {"version": "0", "settings": []}})
    assert "no word" in scratch.json("search", "...", code=2)["message"]
    scratch.agents[0]["context_window"] = 5000
    scratch.write_config()  # which the daemon has not loaded yet
    assert scratch.json("status")["agents"][0]["sessions"][0]["window"] == 5000


def test_a_request_without_a_field_or_with_a_wrong_one_is_told_its_name(served):
    scratch, _, _ = served
    search = {"agent": "demo", "text": "mill", "narrowing": NARROWING}
    inject = {"agent": "demo", "query": None, "folder": None, "max_tokens": None}
    for verb, good, wrong in (("search", search, 5), ("inject", inject, [])):
        assert daemon_client.ask(scratch.state, verb, **good)["ok"]
        for name in good:
            for bad in ({**good, name: wrong}, {one: good[one] for one in good if one != name}):
                message = daemon_client.ask(scratch.state, verb, **bad)["error"]["message"]
                assert message == f"{name}: the request lacks this field, or its type is wrong"
    for name in NARROWING:
        told = daemon_client.ask(scratch.state, "search", **search | {"narrowing": {**NARROWING, name: {}}})
        assert told["error"]["message"].startswith(f"{name}: ")


def test_a_daemon_shows_nobody_an_agent_in_private_mode(tmp_path):
    scratch = Scratch(tmp_path / "s", privacy_default="silo")
    with in_process(scratch) as app:
        verbs = serving._verbs(app, Loop(app, lambda _: None))
        with pytest.raises(RefusedError):
            verbs["search"]({"agent": "demo", "text": "mill", "narrowing": NARROWING})
        with pytest.raises(RefusedError):
            verbs["inject"]({"agent": "demo", "max_tokens": None, "query": None, "folder": None})


def test_the_version_loads_no_library():
    code = "import sys; sys.argv[1:] = ['--version']; from memoryd.__main__ import main; main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, modules = done.stdout.splitlines()
    assert version.startswith("memoryd ")
    assert not {"click", "json", "memoryd.config"} & set(modules.split())


def test_damage_that_verify_finds_is_inspected_by_the_daemon_at_once(served):
    scratch, app, _ = served
    app.keeper.keep(app.engine, app.settings, app.clock)
    app.keeper.is_asked = False
    scratch.json("verify")
    assert not app.keeper.is_asked  # all agrees
    scratch.change("UPDATE turn SET text = 'something else' WHERE seq = 1")
    assert scratch.run("verify").returncode == 1
    assert app.keeper.is_asked
    app.keeper.keep(app.engine, app.settings, app.clock)
    assert "damaged" in scratch.query("SELECT text FROM alarm WHERE kind = 'damage'")[0][0]
