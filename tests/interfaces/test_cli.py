"""The command line: help, exit codes, JSON as the contract has it, errors that say what, where and what to do."""

import errno
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from daily import one_each, one_in
from scratch import Scratch, filler, in_process, recent, said

from memoryd.database import alarms, reads, schema, sqlite
from memoryd.database.library import load_library
from memoryd.errors import NotFoundError, StateError
from memoryd.interfaces import cli as commands
from memoryd.interfaces.cli import _MEANT, _globals_first, cli
from memoryd.requests import jobs_by_hand, waiting

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(scope="module")
def slept(tmp_path_factory):
    """An installation that has read and slept, shared by the tests that only look."""
    scratch = Scratch(tmp_path_factory.mktemp("cli") / "scratch", sleep={"schedule": "0 3 * * *"})
    scratch.append([*said(at=recent()), filler(at=recent())])
    assert scratch.json("run", "--once")["turns"] == 7
    return scratch


def answer(scratch, capsys, *arguments):
    """Run a command in this process: exit code, and what it printed."""
    done = scratch.run(*arguments)
    return done.returncode, done.stdout, done.stderr


def data(scratch, capsys, *arguments, code=0):
    found, out, _ = answer(scratch, capsys, "--json", *arguments)
    assert found == code, out
    body = json.loads(out)
    assert body["ok"] is (code == 0)
    return body["data"] if code == 0 else body["error"]


# --- help and imports ---


def all_commands(group=cli, path=()):
    yield path
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from all_commands(command, (*path, name))


@pytest.mark.parametrize("path", list(all_commands()), ids=" ".join)
def test_every_command_has_help(path, capsys):
    with pytest.raises(SystemExit) as ended:
        commands.main([*path, "--help"])
    assert not ended.value.code
    text = capsys.readouterr().out
    assert text.startswith("Usage: memoryd")
    assert len(text.splitlines()[2].strip()) > 10  # it says what it does


def test_every_command_of_this_version_is_there():
    found = {" ".join(path) for path in all_commands()}
    assert {
        "run", "demo", "status", "pause", "resume", "job run", "job list", "job show", "job cancel",
        "session list", "session messages", "session end", "logs", "config check", "config show", "config default",
    } <= found  # fmt: skip


def loaded(*arguments, cwd=None):
    code = (
        "import sys\nfrom memoryd.interfaces import cli\n"
        "try:\n    cli.main(sys.argv[1:])\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=cwd)
    return {name.partition(".")[0] for name in done.stderr.split()}, set(done.stderr.split())


def test_help_is_quick_because_it_imports_little():
    tops, modules = loaded("--help")
    assert not tops & {"sqlalchemy", "sqlmodel", "pydantic", "yaml", "apscheduler", "watchdog", "tiktoken", "structlog"}
    assert "memoryd.config" not in modules


def test_reads_do_without_the_heavy_libraries(slept):
    tops, _ = loaded("--config", str(slept.config), "status")
    assert not tops & {"sqlalchemy", "sqlmodel", "pydantic", "watchdog", "tiktoken"}
    assert "rich" not in loaded("--config", str(slept.config), "--json", "status")[0]
    tops, _ = loaded("--config", str(slept.config), "job", "list")
    assert not tops & {"sqlalchemy", "sqlmodel", "pydantic", "apscheduler", "watchdog", "tiktoken", "rich"}
    tops, _ = loaded("--config", str(slept.config), "search", "test suite")
    assert not tops & {"sqlalchemy", "sqlmodel", "pydantic", "apscheduler", "watchdog", "tiktoken"}


# --- shapes ---


def object_matches(value, shape, at):
    if not isinstance(value, dict):
        yield f"{at}: no object"
        return
    for key, inner in shape.items():
        if key not in value:
            yield f"{at}.{key} is missing"
        else:
            yield from matches(value[key], inner, f"{at}.{key}")


def matches(value, shape, at="$"):  # noqa: C901 - one case for each kind of shape
    """Whether a JSON value has a shape: a dict of keys, a one-element list, a type, None, or a tuple of choices."""
    if isinstance(shape, tuple):
        if not any(not list(matches(value, one, at)) for one in shape):
            yield f"{at}: {value!r} is none of {shape}"
    elif isinstance(shape, dict):
        yield from object_matches(value, shape, at)
    elif isinstance(shape, list):
        if not isinstance(value, list) or not value:
            yield f"{at}: no list with entries"
        else:
            for number, one in enumerate(value):
                yield from matches(one, shape[0], f"{at}[{number}]")
    elif isinstance(shape, re.Pattern):
        if not isinstance(value, str) or not shape.fullmatch(value):
            yield f"{at}: {value!r}"
    elif shape is None or isinstance(shape, str):
        if value != shape:
            yield f"{at}: {value!r}"
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        yield f"{at}: {value!r} is no {shape.__name__}"


STATES = ("queued", "running", "succeeded", "skipped", "failed", "interrupted", "dead", "cancelled")
RUN = {
    "id": str, "kind": "sleep", "agent_id": "demo", "actor": ("memoryd", "human"), "state": STATES,
    "trigger": ("schedule", "threshold", "session-end", "manual", "hook", "agent", "catch-up", "recovery"),
    "scheduled_for": TIME, "started_at": (TIME, None), "heartbeat_at": (TIME, None), "finished_at": (TIME, None),
    "attempt": int, "input_hash": (str, None), "why": (str, None), "error": (str, None), "tokens_in": int,
    "tokens_out": int, "receipt": {},
}  # fmt: skip
STATUS = {
    "daemon": ({"pid": int, "version": str, "started_at": TIME}, None),
    "watching": ("inotify", "fsevents", "polling", None),
    "agents": [{
        "id": "demo", "workspace": str, "enabled": bool,
        "sessions": [{
            "id": str, "transcript": str, "format": str, "state": ("active", "ended"), "turns": int, "tokens": int,
            "window": int, "ratio": float, "gauge": ("exact", "estimated"), "last_turn_at": TIME,
        }],
        "core": {"count": int, "tokens": int}, "facts": {"count": int},
        "runs": {"sleep": {"run": str, "state": STATES, "why": (str, None), "finished_at": (TIME, None)}},
        "next": {"sleep": TIME},
    }],
    "alarms": list, "spend": {"today_tokens": int, "daily_tokens": (int, None)},
}  # fmt: skip
SESSION = {
    "id": str, "agent": "demo", "format": "messages", "transcript": str, "state": ("active", "ended"),
    "started_at": (TIME, None), "ended_at": (TIME, None), "turns": int, "tokens": int,
}  # fmt: skip
MESSAGE = {
    "seq": int,
    "role": str,
    "origin": str,
    "text": str,
    "tokens": (int, None),
    "at": (str, None),
    "record_id": str,
}


def test_the_shapes_of_the_contract(slept, capsys):
    assert list(matches(data(slept, capsys, "status"), STATUS)) == []
    rows = data(slept, capsys, "job", "list")
    assert list(matches(rows, [RUN])) == []
    assert list(matches(data(slept, capsys, "job", "show", rows[0]["id"]), RUN)) == []
    sessions = data(slept, capsys, "session", "list")
    assert list(matches(sessions, [SESSION])) == []
    messages = data(slept, capsys, "session", "messages", sessions[0]["id"])
    assert list(matches(messages, [MESSAGE])) == []
    assert [one["seq"] for one in messages] == list(range(1, 8))
    compressed = data(slept, capsys, "session", "messages", sessions[0]["id"], "--compressed")
    assert compressed[0]["seqs"] == []  # the running summary comes first
    assert data(slept, capsys, "status")["spend"]["today_tokens"] == 0  # the offline backend costs nothing
    logged = data(slept, capsys, "logs")
    assert all({"at", "level", "event"} <= set(one) for one in logged)
    assert data(slept, capsys, "logs", "-n", "2") == logged[-2:]
    assert list(matches(data(slept, capsys, "config", "show"), {})) == []


def test_the_checker_of_shapes_can_say_no():
    assert list(matches({"a": 1}, {"a": str}))
    assert list(matches({"a": 1}, {"b": int}))
    assert list(matches([], [int]))
    assert list(matches("x", ("y", None)))
    assert list(matches(json.loads("true"), int))
    assert list(matches("yesterday", TIME))


def test_what_is_hidden_stays_hidden(slept, capsys):
    row = data(slept, capsys, "job", "list")[0]
    assert not {"reply", "owner", "fence", "key", "slot", "cancel_requested"} & set(row)


# --- finding, filtering ---


def test_a_unique_beginning_of_an_id_is_enough_and_a_wildcard_is_none(slept, capsys):
    row = data(slept, capsys, "job", "list")[0]
    assert data(slept, capsys, "job", "show", row["id"][:-2])["id"] == row["id"]
    assert data(slept, capsys, "job", "show", "%", code=3)["code"] == "not_found"
    session = data(slept, capsys, "session", "list")[0]["id"]
    assert data(slept, capsys, "session", "messages", session[:6])
    assert data(slept, capsys, "session", "messages", "_", code=3)


def test_a_session_is_to_be_of_the_agent_that_is_named(slept, capsys, tmp_path):
    session = data(slept, capsys, "session", "list", "--agent", "demo")[0]["id"]
    assert data(slept, capsys, "session", "messages", session, "--agent", "demo")
    slept.agents.append({"id": "other", "workspace": str(tmp_path)})
    slept.write_config()
    try:
        for verb in ("messages", "end"):
            error = data(slept, capsys, "session", verb, session, "--agent", "other", code=3)
            assert "this is not the agent 'other''s" in error["message"]
    finally:
        slept.agents.pop()
        slept.write_config()


def test_job_list_says_that_there_are_more_runs(slept, capsys, monkeypatch):
    runs = data(slept, capsys, "job", "list") * 3
    monkeypatch.setattr(reads, "ask", lambda *_, limit, **__: runs[:limit])
    assert data(slept, capsys, "job", "list", "--limit", "2") == runs[:2]
    assert (
        "only the newest 2 are shown: --limit N shows more" in answer(slept, capsys, "job", "list", "--limit", "2")[1]
    )
    assert "--limit" not in answer(slept, capsys, "job", "list", "--limit", "3")[1]


def test_job_list_filters(slept, capsys):
    assert data(slept, capsys, "job", "list", "--kind", "dream") == []
    assert data(slept, capsys, "job", "list", "--kind", "sleep", "--agent", "demo", "--limit", "1")
    assert data(slept, capsys, "job", "list", "--agent", "nobody", code=3)["hint"] == "configured: demo"


def test_a_session_whose_id_begins_anothers_is_meant_by_its_whole_id(tmp_path):
    engine = schema.open_database(tmp_path / "memoryd.db", now="2026").engine
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES ('demo', '/w', 1, 0, '2026')")
        connection.exec_driver_sql("INSERT INTO agent VALUES ('other', '/o', 1, 0, '2026')")
        for name, agent in (("abc", "demo"), ("abc~2", "demo"), ("abd", "other")):
            connection.exec_driver_sql(
                "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
                " gauge, counted_seq) VALUES (?, ?, 'abc', 'messages', 'active', '2026', '2026', 0, 0, '{}', 0)",
                (name, agent),
            )
    find = partial(reads.ask, tmp_path / "memoryd.db", reads.find_session)
    assert find("abc")["id"] == "abc"
    assert find("abc~")["id"] == "abc~2"
    assert find("ab", "other")["id"] == "abd"
    for wanted in ("ab", "%", "_bc", "nothing"):
        with pytest.raises(NotFoundError):
            find(wanted)


# --- exit codes and errors ---


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("job", "run", "slumber"), 3, "not_found"),
        (("job", "run"), 2, "config"),
        (("job", "show", "run-none"), 3, "not_found"),
        (("job", "cancel", "run-none"), 3, "not_found"),
        (("session", "messages", "none"), 3, "not_found"),
        (("session", "end", "none"), 3, "not_found"),
        (("job", "run", "sleep", "--session", "none"), 3, "not_found"),
        (("job", "run", "sleep", "--agent", "none"), 3, "not_found"),
        (("pause", "--agent", "none"), 3, "not_found"),
        (("job", "list", "--limit", "0"), 2, "config"),
        (("job", "list", "--limit", "many"), 2, "config"),
        (("logs", "--level", "loud"), 2, "config"),
        (("logs", "--run", "run-none"), 3, "not_found"),
        (("nonsense",), 2, "config"),
        (("status", "--nonsense"), 2, "config"),
        (("job", "nonsense"), 2, "config"),
    ],
)
def test_exit_codes_and_errors_as_json(slept, capsys, arguments, code, name):
    error = data(slept, capsys, *arguments, code=code)
    assert error["code"] == name
    assert error["message"]
    assert set(error) == {"code", "message", "hint"}
    found, out, err = answer(slept, capsys, *arguments)
    assert (found, out) == (code, "")
    assert err.startswith("memoryd: ")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("sleep",), "memoryd job run sleep"),
        (("undo", "--json"), "memoryd rollback"),
        (("sleeep",), "memoryd --help"),
        (("job", "undo"), "memoryd job --help"),
        (("pause", "demo"), "an agent is named with --agent ID; memoryd pause --help"),
        (("config", "check", "x"), "memoryd config check --help"),
        (("save", "two", "words"), "memoryd save --help"),
    ],
)
def test_a_word_that_is_no_command_names_the_command_that_is_meant(slept, capsys, arguments, hint):
    assert data(slept, capsys, *arguments, code=2)["hint"] == hint


def test_every_command_that_is_meant_exists():
    known = {" ".join(path) for path in all_commands()}
    assert {meant.removesuffix(f" {word}") if "job run" in meant else meant for word, meant in _MEANT.items()} <= known
    assert not known & set(_MEANT)


def test_a_finished_run_cannot_be_cancelled(slept, capsys):
    row = data(slept, capsys, "job", "list")[-1]
    assert data(slept, capsys, "job", "cancel", row["id"], code=4)["code"] == "refused"


def test_a_bad_configuration_is_told_with_its_line_and_a_remedy(tmp_path, capsys):
    scratch = Scratch(tmp_path / "scratch")
    text = scratch.config.read_text(encoding="utf-8").replace('"timezone"', '"timezome"')
    scratch.config.write_text(text, encoding="utf-8")
    error = data(scratch, capsys, "status", code=2)
    assert error["code"] == "config"
    assert re.search(r"memoryd\.yaml:\d+: timezome", error["message"])
    assert "timezone" in error["hint"]


def test_a_tool_that_nobody_knows_is_told_ahead_of_the_question_which_agent(tmp_path, capsys):
    scratch = Scratch(tmp_path / "scratch")
    scratch.agents.append(Scratch.agent("other", tmp_path))
    scratch.write_config()
    error = data(scratch, capsys, "connect", "foo", code=2)
    assert error["message"] == "memoryd does not know 'foo'"


def test_no_configuration_at_all(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "memoryd", "--json", "--config", str(tmp_path / "none.yaml"), "status"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "none.yaml" in json.loads(done.stdout)["error"]["message"]


def test_before_the_first_start_it_says_what_to_do(tmp_path, capsys):
    scratch = Scratch(tmp_path / "scratch")
    for arguments in (("status",), ("job", "list"), ("session", "list")):
        error = data(scratch, capsys, *arguments, code=1)
        assert error["hint"] == "start the daemon: memoryd run"
    assert not scratch.state.exists()


def test_what_nobody_expected_is_told_in_one_line_without_content(slept, capsys, monkeypatch):
    def fail(*_arguments, **_options):
        raise KeyError("the secret words")

    monkeypatch.setattr("memoryd.requests.status.status", fail)
    error = data(slept, capsys, "status", code=1)
    assert error["message"].startswith("KeyError at ")
    assert "secret" not in json.dumps(error)


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (OSError(errno.ENOSPC, "", "/state"), "/state: No space left on device", "free some space on this disk"),
        (
            load_library().OperationalError("database is locked"),
            "another program holds the database",
            "end the program",
        ),
        (load_library().OperationalError("attempt to write a readonly database"), "read-only", "owner and mode"),
        (load_library().OperationalError("database or disk is full"), "the disk is full", "free some space"),
    ],
)
def test_a_trouble_of_the_machine_is_told_as_what_it_is(slept, capsys, monkeypatch, error, message, hint):
    def fail(*_arguments, **_options):
        raise error

    monkeypatch.setattr("memoryd.requests.status.status", fail)
    told = data(slept, capsys, "status", code=1)
    assert (told["code"], message in told["message"], hint in told["hint"]) == ("state", True, True)
    assert "defect" not in json.dumps(told)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "this user's quota"),
        (errno.EROFS, "mount the disk read-write"),
    ],
)
def test_a_session_that_ends_while_the_disk_cannot_be_written_is_told_why_and_what_to_do(
    tmp_path, capsys, monkeypatch, number, hint
):
    scratch = Scratch(tmp_path / "scratch")
    scratch.append([*said(at=recent()), filler(at=recent())])
    scratch.json("run", "--once")
    (session,) = scratch.json("session", "list")

    def fail(**_options):
        raise OSError(number, "")

    monkeypatch.setattr("memoryd.files.folders.tempfile", SimpleNamespace(TemporaryFile=fail))
    told = data(scratch, capsys, "session", "end", session["id"], code=1)
    so = "the last messages are not read yet, so nothing was written; repeat the command when the disk is writable"
    assert told["message"].endswith(f"the state folder cannot be written ({os.strerror(number)}): {so}")
    assert hint in told["hint"]
    (alarm,) = data(scratch, capsys, "status")["alarms"]
    assert (alarm["kind"], hint in alarm["text"]) == ("disk", True)
    with in_process(scratch) as app:  # holds the lock, as a daemon does that waits for the disk
        queued = waiting.request(app.engine, app.clock, "demo", "dream", {})
        with pytest.raises(StateError, match=r"cannot be written .*: the request is stored") as refused:
            waiting.wait(app.settings, [queued], lambda: None)
    assert refused.value.where == queued


def test_a_command_that_waits_tests_the_disk_every_two_seconds(tmp_path, monkeypatch):
    tested, passed = [], [0.0]

    def sleep(seconds):
        passed[0] += seconds
        if passed[0] > 60:
            raise TimeoutError

    scratch = Scratch(tmp_path / "scratch")
    monkeypatch.setattr(waiting, "find_disk_fault", lambda *_, **__: tested.append(passed[0]))
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: passed[0], sleep=sleep))
    with in_process(scratch) as app:
        queued = waiting.request(app.engine, app.clock, "demo", "dream", {})
        with pytest.raises(TimeoutError):
            waiting.wait(app.settings, [queued], lambda: None)
    assert 25 < len(tested) < 31


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_told_on_standard_error(slept):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for options in ([], ["--json"]):
        with Path("/dev/full").open("wb") as full:
            command = [sys.executable, "-m", "memoryd", "--config", str(slept.config), *options, "status"]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert "No space left on device" in done.stderr


@pytest.mark.parametrize("closed", one_in(4, [">&- 2>&- <&-", ">&-", "2>&-", "<&-"]))
def test_closed_standard_streams_change_nothing(slept, closed):
    called = f'"{sys.executable}" -m memoryd --config "{slept.config}" core list {closed}'
    done = subprocess.run(["sh", "-c", called], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "run", "dream", "--lookback-days", "99999999999"),
        ("recover", "--hours", "1e300"),
        ("rollback", "--to", "99999999999999999999999"),
    ],
)
def test_a_number_out_of_range_is_refused_at_once(slept, capsys, arguments):
    assert "is not in the range" in data(slept, capsys, *arguments, code=2)["message"]


def test_an_interrupt_is_130(slept, capsys, monkeypatch):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("memoryd.requests.status.status", interrupt)
    assert answer(slept, capsys, "status")[0] == 130


def test_a_reader_that_has_seen_enough_is_no_error(slept):
    command = f"{sys.executable} -m memoryd --config {slept.config} config default | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- the line ---


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["status", "--json"], ["--json", "status"]),
        (["job", "list", "--json", "--limit", "3"], ["--json", "job", "list", "--limit", "3"]),
        (["status", "--config", "x", "-q"], ["--config", "x", "-q", "status"]),
        (["status", "--config=x"], ["--config=x", "status"]),
        (["job", "show", "--", "--json"], ["job", "show", "--", "--json"]),
        (["status", "--config"], ["--config", "status"]),
        ([], []),
    ],
)
def test_global_options_stand_anywhere(given, meant):
    assert _globals_first(given) == meant


def test_json_after_the_command_is_json(slept, capsys):
    code, out, _ = answer(slept, capsys, "job", "list", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)


def test_for_people_it_is_text(slept, capsys):
    for arguments, word in (
        (("status",), "agent    demo: /"),
        (("job", "list"), "succeeded"),
        (("session", "list"), "messages"),
        (("config", "check"), "memoryd.yaml"),
    ):
        code, out, err = answer(slept, capsys, *arguments)
        assert (code, err) == (0, "")
        assert word in out
        assert "\x1b" not in out


def test_a_redacted_text_is_told_as_such(tmp_path):
    scratch = Scratch(tmp_path / "scratch", scrub={"secrets": "redact"})
    secret = "ghp_" + "aB3xK9mQ7rT2vW5yZ8cD1fG4hJ6kL0nP3sU9"
    for command in (("save",), ("update", "--append")):
        assert "looks like a secret" not in scratch.run(*command, "The build runs at night.").stdout
        told = scratch.run(*command, f"The key is {secret}").stdout
        assert ".md; written without what looks like a secret" in told
        assert ("nobody knows whose words" in told) is (command == ("save",)), "there is no terminal"
        assert secret not in told
    assert secret not in (scratch.workspace / "MEMORY.md").read_text()


def test_a_check_names_a_daemon_that_has_not_read_the_file_yet(slept, capsys, monkeypatch):
    known = {}
    monkeypatch.setattr("memoryd.requests.daemon_client.ask_data", lambda *_, **__: {"pid": 4711})
    monkeypatch.setattr("memoryd.requests.daemon_client.ask_same", lambda *_, **__: known)
    _, out, error = answer(slept, capsys, "config", "check")
    assert "ok; agents: demo" in out
    assert "the daemon has not read it yet: systemctl --user reload memoryd, or kill -HUP 4711" in error
    known["agents"] = []
    assert "not read it yet" not in answer(slept, capsys, "config", "check")[2]


def test_the_agent_is_known_by_the_folder(tmp_path, monkeypatch, capsys):
    scratch, other = Scratch(tmp_path / "scratch"), Scratch(tmp_path / "other")
    scratch.agents.append(Scratch.agent("other", other.workspace))
    scratch.write_config()
    hint = data(scratch, capsys, "pause", code=2)["hint"]
    assert hint.startswith("give --agent ID; configured: demo, other; memoryd init --project . gives this folder")
    monkeypatch.chdir(other.sessions)
    assert data(scratch, capsys, "pause") == {"agent": "other", "paused": True}
    assert [agent["paused"] for agent in data(scratch, capsys, "status")["agents"]] == [False, True]


def test_messages_of_unknown_roles_are_told_of_the_agent_they_are_of_and_logged_once_a_file(tmp_path, capsys):
    scratch, other = Scratch(tmp_path / "scratch"), Scratch(tmp_path / "other")
    scratch.agents.append(Scratch.agent("other", other.workspace))
    scratch.write_config()
    critics = [{"role": "critic", "content": "unheard of"}] * 2
    scratch.append([*said(), *critics])
    (scratch.sessions / "array.jsonl").write_text(
        json.dumps([*said(), {"role": "judge", "content": "unheard of"}]) + "\n"
    )
    for _ in range(2):  # the second one goes on behind what was stored
        assert answer(scratch, capsys, "run", "--once")[0] == 0
        scratch.append(critics)
    told = (
        "WARNING  messages or parts in 5 records are skipped: their role or type is unknown or empty: critic 4, judge 1"
    )
    assert data(scratch, capsys, "status", "--agent", "demo")["agents"][0]["passed_over"] == {"critic": 4, "judge": 1}
    assert told in answer(scratch, capsys, "status", "--agent", "demo")[1].splitlines()
    assert "WARNING" not in answer(scratch, capsys, "status", "--agent", "other")[1]
    assert [one["id"] for one in data(scratch, capsys, "status", "--agent", "other")["agents"]] == ["other"]
    assert data(scratch, capsys, "status", "--agent", "none", code=3)["code"] == "not_found"
    found = json.loads(answer(scratch, capsys, "--json", "doctor")[1])["data"]["checks"]
    (check,) = [one for one in found if one["name"] == "transcripts" and "are skipped" in one["text"]]
    assert check["text"] == f"of demo: {told.removeprefix('WARNING  ')}"
    logged = [one for one in scratch.log() if one["event"] == "messages passed over"]
    assert sorted((one["path"].rsplit("/")[-1], one["roles"]) for one in logged) == [
        ("array.jsonl", {"role/judge": 1}), ("one.jsonl", {"role/critic": 2}),
    ]  # fmt: skip


def test_a_job_that_fails_is_one_object_with_its_row(slept, capsys, monkeypatch):
    row = data(slept, capsys, "job", "list")[-1] | {"receipt": {}, "state": "failed", "error": "no room"}
    monkeypatch.setattr(jobs_by_hand, "run_job", lambda *_: [row, row])
    monkeypatch.setattr(jobs_by_hand, "end_session", lambda *_: row)
    for arguments, more in ((("job", "run", "sleep"), {"also": [row]}), (("session", "end", "one"), {})):
        code, out, _ = answer(slept, capsys, "--json", *arguments)
        told = json.loads(out)
        assert (code, told["ok"], told["data"]) == (1, False, row | more)
        assert told["error"]["message"] == f"{row['id']}: the run ended as failed: no room"
        code, out, err = answer(slept, capsys, *arguments)
        assert (code, f"{row['id']} sleep failed" in out, "no room" in err) == (1, True, True)


def test_one_round_says_which_alarms_are_open_and_what_is_wrong_with_the_configuration(tmp_path, capsys):
    scratch = Scratch(tmp_path / "scratch", discover=["codex"])
    scratch.agents.append(Scratch.agent("gone", tmp_path / "gone"))
    scratch.write_config()
    with in_process(scratch) as app:
        alarms.set_alarm(
            app.engine, "waiting", "sleep run 7 waits: it cannot be written", app.clock.text(), "demo", "7"
        )
    code, out, err = answer(scratch, capsys, "run", "--once")
    assert code == 0
    assert "ALARM demo: sleep run 7 waits: it cannot be written (memoryd status)" in out
    assert f"the folder {tmp_path / 'gone'} does not exist" in err


def test_a_name_of_nothing_is_told_as_neither_a_memory_nor_a_session(tmp_path, capsys):
    scratch = Scratch(tmp_path / "scratch")
    assert answer(scratch, capsys, "run", "--once")[0] == 0
    error = data(scratch, capsys, "forget", "nope", "--yes", code=3)
    assert error["message"] == "there is no memory and no session 'nope'"
    assert "memoryd core list" in error["hint"]
    tried = answer(scratch, capsys, "job", "run", "dream", "--dry-run")[1]
    assert tried.startswith("dream: "), tried


@pytest.mark.parametrize(
    ("line", "flags"),
    one_each(['timezone: "U\\ud83dTC"', '"time\\ud83dzone": UTC', 'state_dir: "/tmp/\\udcff"'], [["--json"], []]),
)
def test_half_a_character_in_the_configuration_is_an_error_of_its_line(tmp_path, flags, line):
    path = tmp_path / "memoryd.yaml"
    path.write_text(f"{line}\n", encoding="utf-8")
    words = [sys.executable, "-m", "memoryd", *flags, "--config", str(path), "status"]
    done = subprocess.run(words, capture_output=True, check=False, env=os.environ | {"PYTHONUTF8": "1"})
    assert done.returncode == 2
    told = json.loads(done.stdout)["error"]["message"] if flags else done.stderr.decode()
    assert f"{path}:1: " in told
