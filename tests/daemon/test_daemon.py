"""The daemon as a process: it reads what grows, sleeps, stops, is killed, reloads, and is told what to do."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import forks
import pytest
from chat_server import ChatServer, good
from scratch import Scratch, filler, message, recent, said, until

from memoryd.files.log import get_logger
from memoryd.interfaces import control
from memoryd.requests import daemon_client

pytestmark = pytest.mark.long

LONG = 20


@pytest.fixture
def scratch(tmp_path):
    return Scratch(tmp_path / "scratch", ingest={"settle": "20ms"})


def full(at=None):
    return [*said(at=at or recent()), filler(at=at or recent())]


def has_slept(scratch, times=1):
    return scratch.query("SELECT count(*) FROM job_run WHERE state = 'succeeded'")[0][0] >= times


def test_what_is_appended_is_read_and_a_full_context_becomes_memory(scratch):
    with scratch.daemon(start=forks.new):
        scratch.append(said(at=recent()))
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="the turns are stored")
        assert scratch.query("SELECT count(*) FROM job_run") == [(0,)]
        scratch.append([filler(at=recent())])
        until(lambda: has_slept(scratch), why="the session has slept")
        assert "window functions" in scratch.core
        assert len(scratch.dailies()) == 1
        status = scratch.json("status")
        session = status["agents"][0]["sessions"][0]
        assert (session["turns"], session["gauge"], session["ratio"] >= 0.8) == (7, "estimated", True)
        assert status["agents"][0]["runs"]["sleep"]["state"] == "succeeded"
        assert status["watching"] in {"inotify", "fsevents", "polling"}


@pytest.mark.parametrize("name", [pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGINT])
def test_it_ends_in_order(scratch, name):
    with scratch.daemon() as process:
        process.send_signal(name)
        process.wait(LONG)
        assert process.returncode == (0 if name == signal.SIGTERM else 130)
    assert scratch.log()[-1]["event"] == "stopped"
    assert scratch.json("status")["daemon"] is None


SLOW_HOOK = "echo started > {0}; sleep 60"


def test_it_ends_in_order_in_the_middle_of_a_run_and_goes_on_at_the_next_start(scratch):
    mark = scratch.root / "hook"
    scratch.write_config(hooks={"on_summary": SLOW_HOOK.format(mark)})
    scratch.append(full())
    with scratch.daemon() as process:
        until(mark.exists, why="the hook runs")
        before = time.monotonic()
        process.terminate()
        process.wait(LONG)
        assert time.monotonic() - before < LONG
        assert process.returncode == 0
    scratch.write_config(hooks={"on_summary": f"cat >> {scratch.root / 'told'}"})
    with scratch.daemon():
        until((scratch.root / "told").exists, why="the hook is told")
    assert scratch.query("SELECT state, attempt FROM job_run") == [("succeeded", 1)]
    assert scratch.core.count("window functions") == 1


def stopped(process, name):
    """The daemon's children of a name, stopped so that whoever waits for them is stuck."""
    found = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", f"{name}$"], capture_output=True, text=True, check=False
    )
    pids = [int(pid) for pid in found.stdout.split()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


@pytest.mark.parametrize("name", ["worker", pytest.param("scanner", marks=pytest.mark.soak)])
def test_it_ends_in_time_though_a_child_hangs(scratch, name):
    scratch.write_config(scrub={"secrets": "redact" if name == "scanner" else "off"})
    with scratch.daemon(start=forks.new) as process:
        scratch.append(said(at=recent()))
        until(lambda: scratch.query("SELECT counted_seq FROM session") == [(6,)], why="the tokens are counted")
        assert stopped(process, name)
        scratch.append([filler(at=recent())])
        if name == "worker":
            until(lambda: scratch.query("SELECT count(*) FROM turn") == [(7,)], why="the turn is stored")
        process.terminate()
        process.wait(LONG)
        assert process.returncode == 0
    with scratch.daemon():
        until(lambda: has_slept(scratch), why="the session has slept")
    assert scratch.query("SELECT count(*), count(withheld) FROM turn") == [(7, 0)]


def test_it_is_killed_and_goes_on(scratch):
    scratch.append(full())
    mark = scratch.root / "hook"
    scratch.write_config(hooks={"on_summary": SLOW_HOOK.format(mark)})
    with scratch.daemon() as process:
        until(lambda: scratch.query("SELECT count(*) FROM job_run WHERE state = 'running'") == [(1,)] or mark.exists())
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    scratch.write_config(hooks={"on_summary": None})
    assert scratch.json("status")["daemon"] is None  # the lock says so, whatever the row does
    scratch.append(
        [message("user", "Please never delete the old archive before I have seen the new one.", at=recent(1))]
    )
    with scratch.daemon():
        until(lambda: has_slept(scratch), why="the session has slept")
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(8,)], why="the turn is stored")
    assert scratch.core.count("window functions") == 1
    assert sum(text.count("## Trimmed Context") for text in scratch.dailies().values()) == 1


def test_a_reload_takes_a_good_file_and_keeps_the_old_settings_over_a_bad_one(scratch, tmp_path):
    with scratch.daemon() as process:
        scratch.config.write_text("agents: [", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        alarm = until(lambda: scratch.query("SELECT text FROM alarm WHERE kind = 'config' AND cleared_at IS NULL"))
        assert "memoryd.yaml" in alarm[0][0]
        scratch.append(said(at=recent()))
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="it still reads")
        other = Scratch(tmp_path / "other")
        other.append(said(at=recent()))
        scratch.agents.append(Scratch.agent("other", other.workspace))
        scratch.write_config()
        assert scratch.run("status").stdout.partition("\nother ")[2].split()[0] == "warning"
        assert "kill -HUP" in scratch.run("status", "--agent", "other").stdout
        process.send_signal(signal.SIGHUP)
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(12,)], why="the new agent is read")
        assert "none needs attention" in scratch.run("status").stdout
        assert scratch.query("SELECT count(*) FROM alarm WHERE cleared_at IS NULL") == [(0,)]


def started(scratch, *more, **options):
    words = ["-m", "memoryd", "--config", str(scratch.config), "run", *more]
    return forks.start(words, start_new_session=True, stderr=subprocess.PIPE, text=True, **options)


def test_a_start_that_may_wait_takes_over_when_the_one_before_has_ended(scratch):
    with scratch.daemon() as first:
        second = started(scratch, "--wait", "60s")
        try:
            until(lambda: "waiting for the state folder" in {one["event"] for one in scratch.log()}, why="it waits")
            assert second.poll() is None
            first.terminate()
            until(lambda: scratch.is_up(second.pid), why="it has taken over")
            assert first.wait(LONG) == 0
        finally:
            second.terminate()
            assert second.wait(LONG) == 0
            second.stderr.close()


def test_a_second_daemon_is_refused_with_the_pid_of_the_first_and_may_be_tried_again_if_it_waited(scratch):
    with scratch.daemon() as first:
        error = scratch.json("run", code=5)
        assert error["code"] == "locked"
        assert str(first.pid) in error["message"]
        assert scratch.json("run", "--once", code=5)["code"] == "locked"
        second = started(scratch, "--wait", "300ms")
        _, told = second.communicate(timeout=LONG)
        assert (second.returncode, f"process {first.pid}" in told) == (75, True)
        assert scratch.json("run", "--wait", "1ms", code=75)["code"] == "locked"
        assert scratch.json("run", "--wait", "0s", code=5)["code"] == "locked"
        assert "not a duration" in scratch.json("run", "--wait", "5", code=2)["message"]


# --- stopped while the model is asked ---------------------------------------------------------------------------------


@pytest.fixture
def asked(scratch):
    """A daemon whose model has been asked, and says nothing; what ends it ends in time."""
    with ChatServer(lambda line, _request: line.stall()) as server:
        llm = {"provider": "openai", "model": "tiny-1", "base_url": server.url, "fallback": "wait"}
        scratch.write_config(llm=llm | {"verify": "off"})
        scratch.append(full())
        with scratch.daemon() as process:
            until(lambda: len(server.requests) == 1, why="the model is asked")
            yield scratch, server, process


def goes_on(scratch, server):
    """The next start asks again, and nothing is remembered twice."""
    assert scratch.query("SELECT state, attempt FROM job_run") == [("interrupted", 0)]
    assert scratch.core == ""
    server.part = good
    with scratch.daemon():
        until(lambda: has_slept(scratch), why="the session has slept")
    assert len(server.requests) == 2
    assert scratch.query("SELECT count(*) FROM spend") == [(2,)]
    assert scratch.core.count("the whole test suite") == 1
    assert sum(text.count("## Trimmed Context") for text in scratch.dailies().values()) == 1


@pytest.mark.parametrize(
    ("name", "code"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)]
)
def test_it_ends_in_order_while_the_model_is_asked(asked, name, code):
    scratch, server, process = asked
    process.send_signal(name)
    assert process.wait(LONG) == code
    goes_on(scratch, server)


PATIENT = """
import sys
from memoryd.daemon import loop
from memoryd.interfaces.cli import main
loop.STOP_SECONDS = 3600.0
main(sys.argv[1:])
"""


def test_told_twice_it_does_not_wait_for_the_model(asked):
    """A daemon that would give its runs an hour ends at once all the same."""
    scratch, server, process = asked
    process.kill()
    process.wait()
    command = [sys.executable, "-c", PATIENT, "--config", str(scratch.config), "run"]
    with subprocess.Popen(command, start_new_session=True) as patient:
        until(lambda: len(server.requests) == 2, why="the model is asked again")
        patient.terminate()
        until(lambda: scratch.log()[-1]["event"] == "stopping", why="it is stopping")
        assert patient.poll() is None
        patient.terminate()
        assert patient.wait(LONG) == 0
    assert scratch.query("SELECT state, error FROM job_run") == [("interrupted", "memoryd was stopped")]


def test_a_reload_does_not_disturb_a_call(asked):
    scratch, server, process = asked
    scratch.write_config(log={"level": "debug"})
    process.send_signal(signal.SIGHUP)
    until(lambda: any(one["event"] == "configuration reloaded" for one in scratch.log()), why="it has reloaded")
    scratch.append([message("user", "And the staging database is called Kilimanjaro.", at=recent())])
    until(lambda: scratch.query("SELECT count(*) FROM turn") == [(8,)], why="it still reads")
    assert scratch.query("SELECT state FROM job_run") == [("running",)]
    assert len(server.requests) == 1


# --- what is seen of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["agents: [", pytest.param("unknown: 1", marks=pytest.mark.soak)])
def test_status_shows_the_daemon_while_its_configuration_is_broken(scratch, broken):
    with scratch.daemon() as process:
        until(lambda: daemon_client.ask(scratch.state, "ping"), why="it listens")
        workspace = str(scratch.workspace)
        assert daemon_client.ask(scratch.state, "context", workspace=workspace) == {"ok": True, "data": {"text": ""}}
        announced = daemon_client.ask(
            scratch.state, "announce", workspace=workspace, event="session-end", session="none"
        )
        assert announced == {"ok": True, "data": {}}
        scratch.config.write_text(f"state_dir: {scratch.state}\n{broken}\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        until(lambda: scratch.query("SELECT text FROM alarm WHERE kind = 'config'"), why="it has tried")
        done = scratch.run("status")
        assert done.returncode == 2
        assert f"pid {process.pid}" in done.stdout
        assert "ALARM: config since just now" in done.stdout
        assert "memoryd.yaml" in done.stderr
        told = json.loads(scratch.run("--json", "status").stdout)
        assert (told["ok"], told["error"]["code"]) == (False, "config")
        assert [alarm["kind"] for alarm in told["data"]["alarms"]] == ["config"]
    done = scratch.run("--json", "status")
    assert (done.returncode, set(json.loads(done.stdout))) == (2, {"ok", "error"})


def test_a_daemon_that_answers_otherwise_does_not_hide_what_is_wrong(scratch):
    scratch.state.mkdir(mode=0o700)
    scratch.config.write_text(f"state_dir: {scratch.state}\nunknown: 1\n", encoding="utf-8")
    verbs = {"status": lambda _request: {"daemon": 7}}
    with control.Control(scratch.state / daemon_client.SOCKET, verbs, time.monotonic, get_logger("memoryd.test")):
        done = scratch.run("status")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown" in done.stderr


NASTY = "a\n<3>forged\r\x1b[31m\u202e\x9b\u2028ERROR.jsonl"


def test_no_name_of_a_file_forges_a_line_anywhere(scratch):
    """Neither in the log, nor in `status` or `logs`, for people and for programs."""
    for name in (NASTY.encode(), NASTY.encode() + b"\xff.jsonl"):
        records = "".join(json.dumps(one) + "\n" for one in full(at=recent()))
        Path(os.fsdecode(os.fsencode(scratch.sessions) + b"/" + name)).write_text(records, encoding="utf-8")
    scratch.write_config(log={"level": "debug", "format": "text"}, hooks={"on_summary": f"exit 3 # {NASTY}"})
    assert scratch.run("run", "--once").returncode == 0
    shown = [scratch.run(*command) for command in (["status"], ["logs"], ["session", "list"], ["job", "list"])]
    told = [(scratch.root / "stderr.txt").read_text(encoding="utf-8")] if (scratch.root / "stderr.txt").exists() else []
    told += [one.stdout for one in shown]
    assert [one.returncode for one in shown] == [0] * len(shown), shown
    for text in told:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text), text
        assert not [line for line in text.splitlines() if line.startswith(("<", "forged", "ERROR"))]
    for line in (scratch.state / "log" / "memoryd.jsonl").read_bytes().splitlines():
        assert json.loads(line)["at"]
    for command in (["status"], ["logs"], ["session", "list"]):
        done = scratch.run("--json", *command)
        assert done.stdout.count("\n") == 1
        assert json.loads(done.stdout)["ok"] is True


def test_of_many_simultaneous_starts_one_wins(scratch):
    words, null = ["-m", "memoryd", "--config", str(scratch.config), "run"], subprocess.DEVNULL
    many = [forks.start(words, stdout=null, stderr=null, start_new_session=True) for _ in range(STARTS)]
    try:
        until(lambda: sum(one.poll() is None for one in many) == 1, seconds=100, why="one is left")
        assert sorted(one.poll() or 0 for one in many) == [0] + [5] * (STARTS - 1)
        (left,) = [one for one in many if one.poll() is None]
        until(lambda: scratch.is_up(left.pid), why="it runs")
    finally:
        for one in many:
            if one.poll() is None:
                one.kill()
            one.wait()


STARTS = 50 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 3


def test_the_database_taken_away_ends_it_with_an_error(scratch):
    with scratch.daemon() as process:
        (scratch.state / "memoryd.db").unlink()
        process.wait(LONG)
        assert process.returncode == 1
    assert "deleted or replaced" in (scratch.root / "stderr.txt").read_text(encoding="utf-8")


def test_another_database_in_its_place_ends_it_and_the_next_start_reads_what_is_missing(scratch):
    scratch.append(said(at=recent()))
    path = scratch.state / "memoryd.db"
    with scratch.daemon() as process:
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="the turns are stored")
        older = scratch.root / "older.db"
        shutil.copy(path, older)  # what is in the log of the database stays behind, as with a careless copy
        older.replace(path)
        process.wait(LONG)
        assert process.returncode == 1
    assert "deleted or replaced" in (scratch.root / "stderr.txt").read_text(encoding="utf-8")
    with scratch.daemon():
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="all turns are there, once")
    assert scratch.query("PRAGMA integrity_check") == [("ok",)]


def test_one_sqlite_and_private_files(scratch):
    scratch.append(full())
    old = os.umask(0)
    try:
        with scratch.daemon() as process:
            until(lambda: has_slept(scratch), why="the session has slept")
            if sys.platform == "linux":
                maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").split("\n")
                loaded = {line.split("/", 1)[-1] for line in maps if "sqlite3" in line}
                assert len({"pysqlite3" in path for path in loaded}) == 1, loaded
            until((scratch.state / "memoryd.sock").exists, why="it listens")
            assert scratch.run("backup", str(scratch.root / "backup")).returncode == 0
            found = [scratch.state, *scratch.state.rglob("*"), scratch.root / "backup"]
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in found}
            wrong = [path for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)]
            assert not wrong, modes
            assert stat.S_ISSOCK((scratch.state / "memoryd.sock").stat().st_mode)
    finally:
        os.umask(old)


def test_a_paused_agent_costs_no_cpu(scratch):
    """A run that may not be taken must not keep the loop turning."""
    scratch.append(said(at=recent()))
    scratch.run("run", "--once")
    scratch.json("pause")
    with scratch.daemon() as process:
        scratch.append([filler(at=recent())])
        until(lambda: scratch.query("SELECT state FROM job_run") == [("queued",)], why="the sleep is queued")
        before = cpu(process.pid)
        end = time.monotonic() + 2
        until(lambda: time.monotonic() > end)
        assert cpu(process.pid) - before < 1.0
        assert scratch.query("SELECT state FROM job_run") == [("queued",)]
        assert scratch.json("status")["agents"][0]["paused"] is True
        scratch.json("resume")
        until(lambda: has_slept(scratch), why="the session has slept")


def cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("beside", [True, False], ids=["beside a daemon", "without one"])
def test_a_job_by_hand_comes_to_the_same(scratch, beside):
    at = datetime(2026, 3, 4, 9, 0, tzinfo=UTC)
    scratch.write_config(sessions={"idle_end": "3650d"})
    scratch.append(said(at=at))
    if beside:
        with scratch.daemon():
            until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="the turns are stored")
            row = scratch.json("job", "run", "sleep")
    else:
        row = scratch.json("job", "run", "sleep")
    assert (row["state"], row["trigger"], row["actor"], row["kind"]) == ("succeeded", "manual", "human", "sleep")
    assert [item["path"] for item in row["receipt"]["files"]] == ["MEMORY.md", "memory/2026-03-04.md"]
    assert scratch.dailies()["2026-03-04.md"].startswith("# Daily Memory: 2026-03-04\n\n## Trimmed Context (09:00)\n")
    rule = "- User: Please always run the whole test suite before every commit in this repository."
    tabs = "- User: My name is Ottilie Brandt and I prefer tabs over spaces in all Makefiles."
    decided = "- User: We decided to keep the orders in PostgreSQL 16 because the reports need window functions."
    found = [line for line in scratch.core.splitlines() if line]
    assert sorted(found) == sorted(["# Memory", "## Preferences", rule, tabs, "## Decisions", decided])
    assert scratch.json("job", "run", "sleep")["state"] == "skipped"


def test_a_session_ended_by_hand_is_written_and_ending_it_again_is_harmless(scratch):
    scratch.append(said(at=recent()))
    with scratch.daemon():
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(6,)], why="the turns are stored")
        session = scratch.json("session", "list")[0]["id"]
        assert scratch.json("session", "end", session)["state"] == "succeeded"
        assert scratch.json("session", "end", session)["state"] == "skipped"
        assert [one["state"] for one in scratch.json("session", "list")] == ["ended"]
    assert ["## Session Notes" in text for text in scratch.dailies().values()] == [True]


def test_a_cancelled_run_is_not_carried_out(scratch):
    scratch.json("pause")
    scratch.append(full())
    scratch.run("run", "--once")
    (row,) = scratch.json("job", "list")
    assert row["state"] == "queued"
    assert scratch.json("job", "cancel", row["id"])["state"] == "cancelled"
    scratch.json("resume")
    scratch.run("run", "--once")
    assert scratch.dailies() == {}


def test_the_log_tells_what_happened_and_can_be_followed(scratch):
    scratch.append(full())
    with scratch.daemon():
        until(lambda: has_slept(scratch), why="the session has slept")
        run_id = scratch.query("SELECT id FROM job_run")[0][0]
        until(lambda: [one for one in scratch.log() if one["event"] == "run finished"])
        events = [one["event"] for one in scratch.json("logs", "--run", run_id)]
        assert "run started" in events
        words = ["-m", "memoryd", "--config", str(scratch.config), "logs", "-f", "--json"]
        follower = forks.start(words, stdout=subprocess.PIPE, text=True)
        try:
            assert json.loads(follower.stdout.readline())["event"]
        finally:
            follower.kill()
            follower.communicate()


def test_an_idle_end_is_noticed_by_the_clock(scratch):
    scratch.write_config(sessions={"idle_end": "1s"})
    with scratch.daemon():
        scratch.append(said(at=datetime.now(UTC)))
        until(lambda: has_slept(scratch), why="the session has ended")
    assert ["## Session Notes" in text for text in scratch.dailies().values()] == [True]
