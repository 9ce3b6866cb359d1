"""What people see of the status: the answer first, what needs them, one line per agent, as wide as their terminal."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import forks
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scratch import Scratch, said

import memoryd
from memoryd import config
from memoryd.clock import text_of
from memoryd.database import reads
from memoryd.database.history import ImportProgress
from memoryd.interfaces import status_view
from memoryd.interfaces.output import render, tell_time
from memoryd.interfaces.timeline import describe_run
from memoryd.requests import status

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
MANY = 20


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Twenty agents with a session each, of which one has an alarm, one is paused and one has a held job."""
    made = Scratch(tmp_path_factory.mktemp("many") / "scratch", ingest={"history": "flush"})
    for number in range(1, MANY):
        workspace = made.root / f"space-{number}"
        (workspace / "sessions").mkdir(parents=True)
        made.agents.append(Scratch.agent(f"coder-with-a-name-{number}", workspace))
    made.write_config()
    made.append(said())
    assert made.run("run", "--once").returncode == 0
    raise_alarm = "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES (?, ?, ?, ?, ?)"
    text = "Codex 9.9: 80 of 100 records are of unknown types and skipped: event_msg/said 80"
    made.change(raise_alarm, "drift", "coder-with-a-name-7", "codex", text_of(datetime.now(UTC)), text)
    made.change("UPDATE agent SET paused = 1 WHERE id = 'coder-with-a-name-2'")
    hold = "INSERT INTO job_mode (agent_id, kind, mode, since, why) VALUES (?, 'dream', 'propose', ?, 'it lost')"
    made.change(hold, "coder-with-a-name-5", "2026-03-04T10:00:00.000Z")
    return made


def on_terminal(scratch, *arguments, width=80, **environment):
    """What a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
    given = {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(Path(memoryd.__file__).parents[1]), **environment}
    words, shown = ["-m", "memoryd", "--config", str(scratch.config), *arguments], b""
    with forks.start(words, stdout=theirs, stderr=theirs, stdin=theirs, env=given) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # Linux reports so that the other end is closed
            while data := os.read(ours, 65536):
                shown += data
    os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")


def test_twenty_agents_fit_on_one_screen_and_who_needs_a_person_comes_first(many):
    code, shown = on_terminal(many, "status", "--check")
    lines = ESCAPE.sub("", shown).splitlines()
    assert code == 1
    assert lines[0] == "Not well: 1 alarm; memoryd is not running: memoryd run."
    assert lines[1].startswith("ALARM coder-with-a-name-7: drift since just now: Codex 9.9: 80 of 100")
    assert "  → update memoryd: git pull in its clone, then install it again" in lines
    table = lines[lines.index(next(line for line in lines if line.startswith("agent "))) :]
    assert [line.split()[0] for line in table[1:3]] == ["coder-with-a-name-7", "coder-with-a-name-5"]
    assert table[-1].startswith("coder-with-a-name-2 ")
    assert len(table) == MANY + 1
    assert max(map(len, lines)) <= 80
    assert len(lines) - lines.index(table[0]) + 2 <= 24, "without the alarm, it is one screen"
    assert "\x1b[1;31m" in shown


@pytest.mark.long
def test_colour_and_width_follow_the_terminal(many):
    narrow = ESCAPE.sub("", on_terminal(many, "status", width=50)[1]).splitlines()
    assert max(map(len, narrow)) <= 50
    assert sum(line.startswith("coder-with") for line in narrow) == MANY - 1
    assert "\x1b" not in on_terminal(many, "status", NO_COLOR="1")[1]
    piped = many.run("status")
    assert (piped.returncode, "\x1b" in piped.stdout) == (0, False)
    assert "skipped: event_msg/said 80\n" in piped.stdout, "a line in a pipe is whole"
    assert "\x1b[" in on_terminal(many, "doctor")[1]


def test_programs_get_the_way_out_of_an_alarm_and_the_same_exit_code(many):
    (alarm,) = many.json("status")["alarms"]
    assert (alarm["kind"], alarm["agent"], alarm["fix"]) == (
        "drift", "coder-with-a-name-7", "update memoryd: git pull in its clone, then install it again",
    )  # fmt: skip
    assert many.run("--json", "status", "--check").returncode == 1
    assert many.run("status", "--check", "--agent", "demo").returncode == 0, "the alarm is another agent's"


def test_a_paused_agent_with_an_alarm_is_shown_as_both(many):
    many.change("UPDATE agent SET paused = 1 WHERE id = 'coder-with-a-name-7'")
    try:
        (row,) = (line for line in many.run("status").stdout.splitlines() if line.startswith("coder-with-a-name-7 "))
    finally:
        many.change("UPDATE agent SET paused = 0 WHERE id = 'coder-with-a-name-7'")
    assert "ALARM drift, paused" in row


def test_each_warning_has_its_reason_in_the_overview(many):
    data = many.json("status")
    next(agent for agent in data["agents"] if agent["id"] == "demo")["is_unknown"] = True
    shown = render(status_view.list_parts(data))
    assert "WARNING demo: the running daemon does not know it yet: systemctl --user reload memoryd" in shown
    data["agents"] = [agent for agent in data["agents"] if agent["id"] == "demo"]
    assert render(status_view.list_parts(data)).count("does not know it yet") == 1


def test_an_alarm_of_an_agent_that_is_not_configured_any_more_is_not_shown(many):
    many.change("INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('dead', 'gone', '', '2026', 'x')")
    try:
        assert [one["agent"] for one in many.json("status")["alarms"]] == ["coder-with-a-name-7"]
    finally:
        many.change("DELETE FROM alarm WHERE agent_id = 'gone'")


@pytest.mark.long
def test_a_daemon_that_is_stopped_is_told_first_and_fails_the_checks(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    scratch.run("run", "--once")
    codes = [scratch.run(name, "--check").returncode for name in ("status", "doctor")]
    told = scratch.run("doctor").stdout
    assert codes == [0, 0], f"nobody has started a daemon, so none is expected: {told}"
    with scratch.daemon():
        assert scratch.run("status", "--check").returncode == 0
    shown = {name: scratch.run(name, "--check") for name in ("status", "doctor")}
    assert [one.returncode for one in shown.values()] == [1, 1]
    stopped = "Not well: the daemon is stopped: memoryd run, or memoryd service install."
    assert shown["status"].stdout.splitlines()[0] == stopped
    assert shown["doctor"].stdout.splitlines()[0].startswith("Not well: 1 failure")
    assert scratch.run("status").returncode == 0


def test_history_that_is_read_without_being_asked_for_has_its_progress(tmp_path):
    scratch = Scratch(tmp_path / "scratch", ingest={"history": "index"})
    for number in range(3):
        scratch.append(said(number), name=f"old{number}")
    scratch.run("run", "--once")
    scratch.write_config(ingest={"history": "flush"})
    settings = config.load(scratch.config)

    def progress(**live):
        with reads.open_reader(reads.database_path(settings)) as reader:
            (agent,) = status.status(settings, reader, everything=False, live=live)["agents"]
        return agent["import"] and ImportProgress(**agent["import"])

    assert str(progress(pid=1, unread={"demo": 2})) == "reading 2/4"
    assert progress(pid=1, unread={}) is None, "no run waits"
    scratch.change(
        "UPDATE job_run SET kind = 'sleep', state = 'queued' WHERE id = ?", scratch.json("job", "run", "dedup")["id"]
    )
    assert str(progress(pid=1, unread={})) == "writing 0/3"
    assert progress() is None, "no daemon runs"


def test_one_agent_is_shown_at_length(many):
    told = many.run("status", "--agent", "coder-with-a-name-5").stdout
    assert "held   dream to propose since 2026-03-04 10:00: it lost" in told
    assert "agent  state" not in told


def test_every_alarm_has_a_way_out_and_is_described():
    """The kinds of the table in docs/troubleshooting.md, which a person finds, are those that are raised."""
    text = (Path(memoryd.__file__).parents[1] / "docs" / "troubleshooting.md").read_text("utf-8")
    described = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    assert described == set(status._FIXES)


@pytest.mark.parametrize(
    ("kind", "subject", "text", "fix"),
    [
        ("dead", "k", "sleep run run-20260304T094500-bb6135 failed", "memoryd job show run-20260304T094500-bb6135"),
        ("unreadable", "/a b.jsonl", "cannot be read", "ls -l '/a b.jsonl'"),
        ("constitutional", "", "put back: core_12345678 was changed",
         "memoryd core unprotect core_12345678 --agent demo, if the edit was meant; then edit again"),
        ("emptied", "", "if not meant: memoryd rollback --to 7 --agent demo", "memoryd rollback --to 7 --agent demo"),
        ("of-tomorrow", "{x}", "{y}", "memoryd doctor"),
    ],
)  # fmt: skip
def test_the_way_out_of_an_alarm_names_what_it_is_about(kind, subject, text, fix):
    alarm = {"kind": kind, "agent": "demo", "subject": subject, "text": text}
    assert status._find_fix(alarm, Path("/state"), Path("/space")) == fix


# --- times and runs ---


@given(
    st.timedeltas(timedelta(days=-400), timedelta(days=400)), st.sampled_from(["UTC", "Asia/Tokyo", "Europe/Berlin"])
)
def test_times_are_relative_within_a_week_and_local_before(away, zone):
    told = tell_time(text_of(NOW + away), ZoneInfo(zone), NOW)
    if round(abs(away).total_seconds()) >= 7 * 86400:
        assert told == f"{(NOW + away).astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"
    else:
        assert re.fullmatch(r"just now|[0-9]{1,2} (min|h|d) ago|in [0-9]{1,2} (min|h|d)", told)
        assert told == "just now" or ("ago" in told) == (away < timedelta())
    assert tell_time(None, ZoneInfo(zone)) == "never"


def test_a_run_is_described_in_a_sentence(tmp_path):
    scratch = Scratch(tmp_path / "scratch", ingest={"history": "flush"})
    scratch.append(said())
    row = scratch.json("job", "run", "sleep", "--force")
    first = scratch.run("job", "show", row["id"]).stdout.splitlines()[0]
    assert first.startswith("The sleep run for agent demo succeeded just now: it wrote MEMORY.md and memory/2026")
    zone = ZoneInfo("Asia/Tokyo")
    refined = {"files": [], "refine": {"mutations": 2, "counted": {"merged": 4, "into": 2}}}
    assert ": Compressed 4 → 2" in describe_run(row | {"kind": "refine", "receipt": refined}, zone, NOW)
    failed = row | {"state": "dead", "attempt": 5, "error": "no\nanswer", "finished_at": "2026-02-01T20:00:00.000Z"}
    assert describe_run(failed, zone, NOW) == (
        "The sleep run for agent demo failed on 2026-02-02 05:00, after 5 attempts, and is not retried: no answer."
    )


def test_nothing_that_is_shown_moves_the_cursor():
    assert render(["a\x1b[2Jb"]) == "a\ufffd[2Jb"
