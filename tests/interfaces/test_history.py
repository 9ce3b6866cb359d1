"""An import of history: newest first, in the background of what is live, to its end after a kill, within its budget."""

import json
import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta

import forks
import pytest
from chat_server import ChatServer, speak, usage
from hypothesis import given
from hypothesis import strategies as st
from opencode_world import OpenCode
from scratch import FILLER, Scratch, in_process, message, recent, until

from memoryd import config
from memoryd.daemon.loop import Loop
from memoryd.database import history, reads
from memoryd.errors import StateError
from memoryd.files import ranges
from memoryd.reading import ingest
from memoryd.reading.backlog import Backlog
from memoryd.requests.history import ImportRequest, run_import

NAMES = ("ada", "ben", "cyn", "dov")


def old(scratch, name, days, more=()):
    """A session that was over so many days ago, with something to remember; at noon, so that it lies in one day."""
    at = (datetime.now(UTC) - timedelta(days=days)).replace(hour=12)
    said = [
        message(
            "user", f"We decided to keep the depot of {name} in Gdansk, because its customs office is open.", at=at
        ),
        message("assistant", f"Noted: the depot of {name} stays in Gdansk.", at=at + timedelta(minutes=1)),
    ]
    path = scratch.append([*said, *more], name)
    os.utime(path, (at.timestamp(),) * 2)
    return path


@pytest.fixture
def scratch(tmp_path):
    """Sessions that ended 10, 20, 30 and 40 days ago, the newest not first by name."""
    scratch = Scratch(tmp_path / "scratch", ingest={"settle": "20ms"})
    for name, days in zip(NAMES, (20, 10, 40, 30), strict=True):
        old(scratch, name, days)
    return scratch


def slept(scratch):
    """The sessions that were written to memory, in their order."""
    sql = "SELECT session_id FROM job_run WHERE kind = 'sleep' AND state = 'succeeded' ORDER BY finished_at, rowid"
    return [name_of(row[0]) for row in scratch.query(sql)]


def name_of(session_id):
    return session_id.rpartition("-")[0]


def result(row):
    return row["receipt"]["history"]["result"]


@pytest.mark.long
@pytest.mark.parametrize("place", ["here", pytest.param("daemon", marks=pytest.mark.soak)])
def test_an_import_waits_for_all_sessions_of_a_large_database(scratch, place):
    scratch.agents[0]["transcripts"].append({"path": "sessions/*.db", "format": "opencode"})
    scratch.write_config()
    program = OpenCode(scratch.workspace / "sessions/opencode.db")
    program.time -= 50 * 86_400_000
    program.run("BEGIN")
    for number in range(6):
        session = program.session(str(number))
        program.prompt(session, 1, f"We decided to keep depot {number} in Gdansk. " + "It is open. " * 10_000)
        program.end_answer(program.begin_answer(session, 2, ""), "Noted.")
        program.time += 86_400_000
    program.run("COMMIT")
    program.close()
    if place == "here":
        (done,) = scratch.json("import")
    else:
        with scratch.daemon():
            (done,) = scratch.json("import")
    assert result(done)["sessions"] == len(NAMES) + 6
    assert len(slept(scratch)) == len(NAMES) + 6


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5), st.integers(0, 2))))
def test_what_waits_comes_once_and_the_last_written_first(mentions):
    source = type("Source", (), {"agent": type("Agent", (), {"id": "demo"})})
    backlog = Backlog()
    for path, changed, size in mentions:
        backlog.add(source, path, changed, size)
    last = {path: changed for path, changed, _ in mentions}
    assert len(backlog) == len(last)
    popped = [backlog.pop()[1] for _ in last]
    assert popped == sorted(last, key=lambda path: (-last[path], path))
    assert backlog.pop() is None


def test_sessions_are_read_and_written_newest_first_and_a_dream_ends_it(scratch):
    (done,) = scratch.json("import")
    read = scratch.query("SELECT session_id FROM turn GROUP BY session_id ORDER BY min(id)")
    assert [name_of(row[0]) for row in read] == ["ben", "ada", "dov", "cyn"]
    assert slept(scratch) == ["ben", "ada", "dov", "cyn"]
    assert len(scratch.dailies()) == 4
    assert "Gdansk" in scratch.core
    (dream,) = scratch.query("SELECT state FROM job_run WHERE kind = 'dream'")
    assert dream == ("succeeded",)
    (core,) = scratch.query("SELECT count(*) FROM memory WHERE kind = 'core' AND deleted_at IS NULL")
    assert (done["state"], result(done)["core"]) == ("succeeded", core[0])


def test_the_last_line_says_what_came_of_it_and_the_log_each_tenth(scratch):
    old(scratch, "eve", 50, [message("user", "ok", at=datetime.now(UTC) - timedelta(days=50))])
    done = scratch.run("import")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"demo: 5 sessions read; \d+ memor(y|ies) written \(\d+ in MEMORY.md, 0 facts\).*", last), last
    tenths = [(one["step"], one["percent"]) for one in scratch.log() if one["event"] == "import"]
    assert {("reading", 100), ("writing", 100), ("dreaming", 100)} <= {*tenths}
    assert len(tenths) == len({*tenths})
    assert "0 memories written" in (again := scratch.run("import").stdout)
    assert again.endswith("; 5 sessions done already\n")
    assert slept(scratch) == ["ben", "ada", "dov", "cyn", "eve"], "nothing is done twice"


def test_a_transcript_that_fails_once_is_read_again_and_one_that_stays_unreadable_is_told(scratch, monkeypatch):
    failing = [scratch.sessions / "cyn.jsonl"]
    (scratch.sessions / "eve.jsonl").symlink_to(scratch.sessions / "ada.jsonl")
    opened = ranges.OpenFiles.borrow

    def borrow(self, path):
        if path in failing:
            failing.remove(path)
            raise StateError("cannot be read: Input/output error", str(path))
        return opened(self, path)

    monkeypatch.setattr(ranges.OpenFiles, "borrow", borrow)
    (row,) = run_import(config.load(scratch.config), ["demo"], ImportRequest(), lambda: None)
    assert (failing, sorted(slept(scratch))) == ([], sorted(NAMES))
    assert "4 sessions read; 1 transcript could not be read: memoryd status says why" in row["why"]


def test_without_an_agent_it_says_how_to_get_one(scratch):
    scratch.agents.clear()
    scratch.write_config()
    done = scratch.run("import")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no agent is configured yet (memoryd init" in done.stderr


def test_only_the_span_is_read_and_written_where_one_is_given(scratch):
    scratch.json("import", "--since", "25d")
    assert slept(scratch) == ["ben", "ada"]
    assert {name_of(row[0]) for row in scratch.query("SELECT session_id FROM turn")} == {"ben", "ada"}
    assert len(scratch.dailies()) == 2


def test_history_that_is_only_searched_is_not_written(scratch):
    told = scratch.run("import", "--search-only").stdout
    assert told == "demo: 4 sessions read; search finds them\n"
    assert scratch.query("SELECT kind FROM job_run") == [("history",)]
    assert (scratch.core, scratch.dailies()) == ("", {})
    assert scratch.json("search", "depot Gdansk cyn")


def test_a_live_record_is_seen_while_history_is_read(scratch, monkeypatch):
    monkeypatch.setattr("memoryd.daemon.loop.SLICE_SECONDS", 0)
    monkeypatch.setattr(ingest, "READ_LIMIT", 1000)
    for days in (5, 6):
        old(scratch, f"long-{days}", days, [message("user", f"{FILLER} {number}") for number in range(2000)])
    live = scratch.append([message("user", "a quiet live session", at=recent())], "live")
    with in_process(scratch) as app:
        loop = Loop(app, lambda _settings: None)
        loop._configure(app.settings)
        until(lambda: loop._turn() or scratch.query("SELECT 1 FROM turn WHERE text LIKE 'a quiet%'"))
        scratch.append([message("user", "a new live record", at=recent())], "live")
        loop.read(str(live))
        until(lambda: loop._turn() or scratch.query("SELECT 1 FROM turn WHERE text LIKE 'a new live%'"))
        left = [waiting.path for waiting in app.ingest.list_unread()]
        assert f"{scratch.sessions}/cyn.jsonl" in left, "history is still waiting"
        app.ingest.read_waiting()
        assert scratch.query("SELECT count(DISTINCT session_id) FROM turn") == [(7,)]
        loop.watcher.stop()
        loop.pool.shutdown()


def test_the_status_shows_how_far_it_is(scratch):
    with in_process(scratch) as app:
        from memoryd.running.history import Importer, request

        app.ingest.find()
        request(app.engine, app.clock, "demo", {"since": "", "search_only": True})
        importer = Importer(app.runner, app.ingest)
        importer.tend()
        app.ingest.look(*app.ingest.backlog.pop())
        importer._noted.clear()
        importer.tend()
        with reads.open_reader(app.database) as reader:
            shown = history.read_progress(reader, "demo")
    assert (shown.step, shown.done, shown.total) == ("reading", 1, 4)
    assert f"import of demo {shown};" in scratch.run("status").stdout
    assert f"import   {shown}" in scratch.run("status", "--agent", "demo").stdout
    assert str(history.ImportProgress("writing", 3, 1200, 250)) == "writing 3/1,200, about 4 min left"


@pytest.mark.long
@pytest.mark.parametrize("has_daemon", [True, False])
def test_it_goes_on_after_a_kill(scratch, has_daemon):
    for number in range(12):
        old(scratch, f"more-{number:02}", 60 + number)
    words = ["-m", "memoryd", "--config", str(scratch.config), "--json", "import"]
    daemon = scratch.start() if has_daemon else None
    with forks.start(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as importing:
        until(lambda: (scratch.state / "memoryd.db").exists() and slept_safely(scratch), why="a session was written")
        (daemon or importing).send_signal(signal.SIGKILL)
        (daemon or importing).wait()
        if has_daemon:
            answer, _ = importing.communicate(timeout=60)  # the command goes on by itself
    done = (json.loads(answer)["data"] if has_daemon else scratch.json("import"))[0]
    assert done["state"] == "succeeded"
    assert scratch.query("SELECT count(*) FROM job_run WHERE kind = 'history'") == [(1,)]
    assert sorted(slept(scratch)) == sorted([*NAMES, *(f"more-{number:02}" for number in range(12))])
    assert result(done)["sessions"] == 16


def slept_safely(scratch):
    try:
        return slept(scratch)
    except Exception:  # noqa: BLE001 - the database is being made
        return []


@pytest.mark.long
def test_a_model_is_not_asked_beyond_the_budget(scratch):
    def answer(line, _request):
        line.head()
        line.send(
            speak(
                "[SUMMARY]\n- [t1] The depot stays in Gdansk.\n\n[MEMORIES]\n",
                counts=usage(prompt_tokens=7900, completion_tokens=100),
            )
        )

    with ChatServer(answer) as server:
        llm = {"provider": "openai", "model": "tiny-1", "base_url": server.url, "verify": "off"}
        scratch.write_config(llm=llm | {"max_output_tokens": 1000})
        (none,) = scratch.json("import", "--tokens", "1000")
        assert (len(server.requests), result(none)["left"]) == (0, 4)
        (one,) = scratch.json("import", "--tokens", "9000")
    assert len(server.requests) == 1
    assert scratch.query("SELECT sum(tokens_in + tokens_out) FROM spend") == [(8000,)]
    assert (slept(scratch), result(one)["left"]) == (["ben"], 3)
    assert one["why"].endswith(
        "3 sessions left for the next memoryd import: too little of the token budget of 9,000 is left (--tokens)"
    )


def test_a_job_without_an_agent_runs_for_all(scratch):
    other = scratch.root / "other"
    other.mkdir()
    scratch.agents.append(scratch.agent("second", other))
    scratch.write_config()
    rows = scratch.json("job", "run", "dedup")
    assert {rows["agent_id"], *(row["agent_id"] for row in rows["also"])} == {"demo", "second"}
