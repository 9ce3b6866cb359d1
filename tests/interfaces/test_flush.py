"""Messages that a program hands over: recorded without secrets, read as any transcript, slept over once."""

import json
import threading
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from planted_secrets import planted
from scratch import SAID, Model, Scratch

import memoryd
from memoryd import app
from memoryd.errors import LockedError, RefusedError, StateError
from memoryd.files.locks import Lock
from memoryd.interfaces import python_api as doors
from memoryd.reading import recording
from memoryd.requests import daemon_client, flushing, memory_changes, opening, waiting
from memoryd.worker import client

TALK = [{"role": role, "content": text} for role, text in SAID]
LATER = {"role": "user", "content": "We decided to ship the parser on Monday, because the Friday build failed."}
SECRET = next(one for one in planted("said to a program") if one.name == "github-classic").secret


@pytest.fixture
def scratch(tmp_path):
    """One whose model and scanner work in this process."""
    made = Scratch(tmp_path / "scratch", scrub={"secrets": "redact"})

    def model(*_, **__):
        return Model(made.root / "asked")

    with (
        patch.object(app, "Worker", model),
        patch.object(client, "Worker", model),
        patch.object(doors, "Worker", model),
    ):
        yield made


def door(scratch, agent=0):
    return memoryd.Memory(scratch.agents[agent]["workspace"], scratch.config)


def recorded(scratch, agent="demo"):
    folder = scratch.state / "sessions" / agent
    return {path.name: path.read_text("utf-8").splitlines() for path in sorted(folder.glob("*.jsonl"))}


def texts(scratch):
    return [row[0] for row in scratch.query("SELECT text FROM turn WHERE text <> '' ORDER BY session_id, seq")]


def test_the_same_messages_are_stored_and_slept_over_once(scratch):
    told = []
    memory = door(scratch)
    done = memory.flush(TALK, on_summary=told.append)
    assert (done.state, done.added, done.blocks, done.errors) == ("succeeded", len(TALK), 1, ())
    (text,) = told
    (daily,) = scratch.dailies().values()
    assert text in daily
    assert texts(scratch) == [text for _, text in SAID]
    before = scratch.dailies(), scratch.core, recorded(scratch)
    for again in (TALK, [dict(one) for one in TALK], TALK[:2], [{"role": "system", "content": "be brief"}]):
        done = memory.flush(again, on_summary=told.append)
        assert (done.state, done.blocks, len(told)) == ("skipped", 0, 1)
    assert texts(scratch) == [text for _, text in SAID]
    assert (scratch.dailies(), scratch.core) == before[:2]
    assert recorded(scratch) == before[2]
    # What compression left of it, and what came since: only that is new.
    done = memory.flush([*memory.compress(TALK, 60), LATER], on_summary=told.append)
    assert (done.added, done.state, len(told)) == (1, "succeeded", 2)
    assert LATER["content"] in told[1]
    assert texts(scratch) == [*(text for _, text in SAID), LATER["content"]]
    # Another conversation is another session.
    other = memory.flush([{"role": "user", "content": "Shall we ship?"}, LATER])
    assert other.session != done.session
    assert other.added == 2
    assert scratch.json("verify")["ok"]


def test_a_callback_that_raises_undoes_nothing_and_hides_nothing(scratch):
    def raises(_text):
        raise LookupError("mine")

    with pytest.warns(RuntimeWarning, match="LookupError"):
        done = door(scratch).flush(TALK, on_summary=raises)
    assert (done.state, done.blocks, [str(one) for one in done.errors]) == ("succeeded", 1, ["mine"])
    assert len(scratch.dailies()) == 1
    assert scratch.query("SELECT state FROM job_run") == [("succeeded",)]
    assert door(scratch).flush(TALK).state == "skipped"


def test_no_secret_is_recorded(scratch):
    use = {"type": "tool_use", "id": "t1", "name": "login", "input": {"password": "correct-Horse7-battery"}}
    function = {"name": "login", "arguments": json.dumps({"token": SECRET})}
    picture = {"type": "image_url", "image_url": {"url": f"https://x.test/?access_token={SECRET}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": f"here: {SECRET}"}, picture]},
        {"role": "assistant", "content": [use], "api_key": SECRET, "usage": {SECRET: 3, "total_tokens": 7}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": SECRET}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": SECRET, "function": function}]},
        {"role": "tool", "tool_call_id": SECRET, "content": [{"type": "text", "text": f"ok {SECRET}"}]},
        {"role": "user", "content": "<private>mine alone</private> the rest"},
    ]
    assert door(scratch).flush(messages).added == len(messages)
    assert door(scratch).flush(messages).added == 0
    kept = b"".join(path.read_bytes() for path in scratch.root.rglob("*") if path.is_file())
    for hidden in (SECRET, "correct-Horse7-battery", "mine alone"):
        assert hidden.encode() not in kept
    assert scratch.query("SELECT count(*) FROM turn WHERE text LIKE '%REDACTED%'") == [(len(messages),)]


def test_a_secret_found_late_is_taken_out_of_what_is_recorded_and_nothing_is_read_twice(scratch):
    scratch.write_config(scrub={"secrets": "off"})
    memory = door(scratch)
    memory.flush([{"role": "user", "content": f"the key is {SECRET}, keep it"}, LATER])
    assert SECRET in str(recorded(scratch))
    scratch.write_config(scrub={"secrets": "redact"})
    memory_changes.scrub_again(door(scratch)._settings, None)
    assert SECRET not in str(recorded(scratch))
    with app.open_app(door(scratch)._settings) as opened:
        opened.ingest.scan()
    assert len(texts(scratch)) == 2
    assert memory.flush([LATER]).added == 0


def test_messages_of_one_agent_are_no_session_of_another(scratch):
    other = scratch.root / "other"
    other.mkdir()
    scratch.agents.append(scratch.agent("other", other))
    scratch.write_config()
    door(scratch).flush(TALK)
    done = door(scratch, 1).flush(TALK)
    assert (done.added, done.state) == (len(TALK), "succeeded")
    assert [len(recorded(scratch, agent)) for agent in ("demo", "other")] == [1, 1]
    assert scratch.query("SELECT agent_id, count(*) FROM session GROUP BY 1") == [("demo", 1), ("other", 1)]


def test_whoever_may_not_see_content_is_not_told_it(scratch):
    scratch.agents[0]["privacy"] = "silo"
    scratch.write_config()
    with pytest.raises(RefusedError, match="its own"):
        door(scratch).flush(TALK, on_summary=print)
    assert not (scratch.state / "sessions").exists()
    assert door(scratch).flush(TALK).state == "succeeded"


def test_what_cannot_be_recorded_or_read_is_told(scratch):
    with pytest.raises(ValueError, match=r"messages\[1\]: its role"):
        door(scratch).flush([*TALK[:1], {"role": "wizard", "content": "x"}])
    assert not (scratch.state / "sessions").exists()
    with patch.object(Model, "scan", lambda *_: [None]), pytest.raises(StateError, match="could not be scanned"):
        door(scratch).flush(TALK[:1])
    assert recorded(scratch) == {}
    scratch.agents[0]["enabled"] = False
    scratch.write_config()
    with pytest.raises(RefusedError, match="not enabled"):
        door(scratch).flush(TALK)
    assert recorded(scratch) == {}


def test_a_line_torn_by_a_kill_costs_the_line_alone(scratch):
    door(scratch).flush(TALK[:4])
    (path,) = (scratch.state / "sessions" / "demo").glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"role": "user", "content": "half a')
    done = door(scratch).flush(TALK)
    assert done.added == len(TALK) - 4
    assert texts(scratch) == [text for _, text in SAID]


def test_two_threads_that_flush_the_same_record_it_once(scratch):
    settings = door(scratch)._settings
    with app.open_app(settings) as opened:
        threads = [
            threading.Thread(
                target=recording.record, args=(settings.state_dir, "demo", TALK, opened.scrubber, opened.clock)
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(lines) for lines in recorded(scratch).values()] == [len(TALK)]
        folder = recording.folder_of(settings.state_dir, "demo")
        with Lock(folder / ".lock"), patch.object(recording, "PATIENCE", timedelta()), pytest.raises(LockedError):
            recording.record(settings.state_dir, "demo", [*TALK, LATER], opened.scrubber, opened.clock)
    assert [len(lines) for lines in recorded(scratch).values()] == [len(TALK)]


def test_a_thread_that_flushes_waits_for_another_of_its_process(scratch):
    memory, done, asked = door(scratch), [], threading.Event()
    memory.flush(TALK)

    def ask(*args, **kwargs):
        asked.set()
        return daemon_client.ask(*args, **kwargs)

    thread = threading.Thread(target=lambda: done.append(memory.flush([LATER])))
    with patch.object(waiting, "daemon_client", SimpleNamespace(ask=ask)), app.open_app(memory._settings):
        thread.start()
        assert asked.wait(30)
        thread.join(3 * opening.POLL_SECONDS)  # it looks who holds the lock
    thread.join()
    assert [(one.state, one.added) for one in done] == [("succeeded", 1)]


def test_a_lock_taken_as_soon_as_nobody_was_left_is_no_error(scratch):
    settings, what = door(scratch)._settings, SimpleNamespace(path=scratch.root / "x.jsonl", size=1)
    door(scratch).flush(TALK)
    with patch.object(waiting, "await_read", lambda *_: None), Lock(scratch.state / app.LOCK):
        assert flushing._read_until(settings, "demo", what, 60.0) is None
        with pytest.raises(StateError, match="recorded and could not be read yet"):
            flushing._read_until(settings, "demo", what, 0.0)


def test_a_conversation_that_branches_off_brings_nothing_back_that_was_forgotten(scratch):
    memory, asked = door(scratch), {"role": "user", "content": "Which parser do we take?"}
    system = {"role": "system", "content": "You help Albatros Ltd."}
    yes = {"role": "user", "content": "yes"}
    first = memory.flush([system, *TALK, yes])
    memory.forget(first.session)
    branches = ([system, *TALK[:-1], {"role": "assistant", "content": "Another answer."}], [*TALK[2:], asked])
    for branch in branches:
        assert memory.flush(branch).added
    memory.flush([asked, yes])
    lines = [json.loads(line) for name in recorded(scratch) for line in recorded(scratch)[name]]
    said = [line["content"] for line in lines if line["content"]]
    assert sorted(said) == sorted(["Another answer.", asked["content"], "yes"])
    assert sorted(texts(scratch)) == sorted(said)
    assert [path for path in scratch.root.rglob("*") if path.is_file() and b"Albatros" in path.read_bytes()] == []


def test_nothing_is_recorded_while_what_is_recorded_changes(scratch):
    door(scratch).flush(TALK)
    settings = door(scratch)._settings
    (path,) = recording.list_paths(scratch.state, "demo")

    def changed(messages):
        with pytest.raises(LockedError):
            recording.record(settings.state_dir, "demo", [*TALK, LATER], opened.scrubber, opened.clock)
        return [{**messages[0], "content": "another text"}, *messages[1:]]

    with app.open_app(settings) as opened, patch.object(recording, "PATIENCE", timedelta()):
        assert recording.change(path, changed)
        assert not recording.change(path, list)
    assert recorded(scratch)[path.name][0].count("another text") == 1


# --- the real thing ---


@pytest.mark.long
def test_beside_a_daemon(tmp_path):
    scratch = Scratch(tmp_path / "scratch", scrub={"secrets": "redact"})
    told = []
    with scratch.daemon():
        done = door(scratch).flush(TALK, on_summary=told.append)
        assert (done.state, done.added, len(told)) == ("succeeded", len(TALK), 1)
        assert door(scratch).flush(TALK, on_summary=told.append).state == "skipped"
        assert door(scratch).flush([*TALK, LATER], on_summary=told.append).added == 1
    assert len(told) == 2
    assert all(text in next(iter(scratch.dailies().values())) for text in told)
    assert [row[0] for row in scratch.query("SELECT state FROM job_run ORDER BY created_at")] == [
        "succeeded", "skipped", "succeeded",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["session", "memory"])
def test_what_was_flushed_is_forgotten_in_what_was_recorded_too_and_does_not_come_back(scratch, kind):
    memory = door(scratch)
    session = memory.flush(TALK).session
    named = memory.core.list()[0]
    said = [text for _, text in SAID] if kind == "session" else [named["content"]]
    memory.forget(session if kind == "session" else named["id"])
    assert memory.flush(TALK).added == 0
    assert memory.flush([*TALK, LATER]).added == 1
    kept = b"".join(path.read_bytes() for path in scratch.root.rglob("*") if path.is_file())
    assert [text for text in said if text.encode() in kept] == []
    assert LATER["content"].encode() in kept
    assert scratch.json("verify")["ok"]


@pytest.mark.parametrize("reason", ["Context Overflow Recovery", "Daily Summary", "Session Notes"])
def test_a_reason_is_the_heading_of_the_daily_block(scratch, reason):
    assert door(scratch).flush(TALK, reason=reason).state == "succeeded"
    (daily,) = scratch.dailies().values()
    headings = [line for line in daily.splitlines() if line.startswith("## ")]
    assert len(headings) == 1
    assert headings[0].startswith(f"## {reason} (")


@pytest.mark.parametrize("reason", ["", "Lunch", "Daily Summary (10:00)\n\n## Forged", "daily summary"])
def test_an_unknown_reason_is_refused_before_anything_is_recorded(scratch, reason):
    with pytest.raises(ValueError, match="one of Trimmed Context, Context Overflow Recovery, Daily Summary"):
        door(scratch).flush(TALK, reason=reason)
    assert recorded(scratch) == {}
