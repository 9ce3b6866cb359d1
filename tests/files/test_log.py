"""The log: one safe line per record, content-blind, private, rotating; never a fault of its caller."""

import io
import json
import logging
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import orjson
import pytest
from _pytest.logging import LogCaptureHandler
from hypothesis import given
from hypothesis import strategies as st
from scratch import until

from memoryd.errors import StateError
from memoryd.files import log, log_line
from memoryd.files.log import (
    bind_values,
    clean,
    configure,
    get_logger,
    log_path,
    name_rotated,
    on_record,
    render_record,
)
from memoryd.files.log_reader import LogFilter, follow, read
from memoryd.files.open_folder import open_folder


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens the log of `tmp_path/state` and closes it at the end."""
    closers = []

    def open_log(max_bytes=log_line.MAX_BYTES, **options):
        monkeypatch.setattr(log_line, "MAX_BYTES", max_bytes)
        root = logging.getLogger()
        for handler in [each for each in root.handlers if isinstance(each, LogCaptureHandler)]:
            root.removeHandler(handler)  # pytest's own, until the end of the test: xdist carries no surrogate
        closers.append(configure(tmp_path / "state", **options).close)
        return log_path(tmp_path / "state")

    yield open_log
    for close in reversed(closers):
        close()


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- one record, one safe line ---


def test_a_process_with_a_log_does_not_load_rich_but_can(tmp_path):
    """It takes 4 MB, and structlog would load it for tracebacks in color."""
    script = (
        "import sys, pathlib; from memoryd.files import log\n"
        f"with log.configure(pathlib.Path({str(tmp_path)!r})):\n"
        "    print('structlog' in sys.modules, 'rich' in sys.modules)\n"
        "import rich.console"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout == "True False\n"


def test_a_record_has_time_level_logger_event_and_values(opened):
    path = opened()
    get_logger("memoryd.running").bind(agent="demo").info("read", turns=5, path=Path("/x"), took=timedelta(seconds=1.5))
    (record,) = records(path)
    assert list(record) == ["at", "level", "logger", "event", "agent", "turns", "path", "took"]
    at = datetime.strptime(record.pop("at"), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert list(record.values()) == ["info", "memoryd.running", "read", "demo", 5, "/x", 1.5]


def test_times_are_utc(opened):
    path = opened()
    get_logger("memoryd.a").info("x", when=datetime(2026, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=2))))
    assert records(path)[0]["when"] == "2025-12-31T23:00:00.000000Z"


NASTY = "\x1b[31m\r\n<3>{}\x00\x7f\x9b\u0085\u2028\u2029\u202e\u200b\u2066\ufeff\udcff end"


@pytest.mark.parametrize("where", ["event", "logger", "value", "key", "path", "stdlib"])
def test_nothing_breaks_out_of_its_line(opened, where):
    path = opened(text=True, terminal=(terminal := io.StringIO()))
    match where:
        case "event":
            get_logger("memoryd.a").info(NASTY)
        case "logger":
            get_logger(f"memoryd.{NASTY}").info("x")
        case "value":
            get_logger("memoryd.a").info("x", name=NASTY, names=[NASTY], named={NASTY: NASTY})
        case "key":
            get_logger("memoryd.a").info("x", **{NASTY: 1})
        case "path":
            get_logger("memoryd.a").info("x", path=Path(NASTY.replace("\0", "")))
        case "stdlib":
            logging.getLogger("watchdog").warning("%s", NASTY.replace("\udcff", ""))  # xdist carries no surrogate
    data = path.read_bytes()
    assert data.count(b"\n") == 1
    assert len(records(path)) == 1
    decoded = json.dumps(records(path), ensure_ascii=False)
    for text in (decoded, terminal.getvalue().removesuffix("\n")):
        assert all(character.isprintable() for character in text)
        assert "end" in text


@given(st.text(max_size=100))
def test_clean_text_is_printable_to_a_terminal_and_cleaning_twice_changes_nothing(text):
    cleaned = clean(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", cleaned)
    assert clean(cleaned) == cleaned
    assert cleaned.encode().decode() == cleaned


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
    | st.datetimes() | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
))  # fmt: skip
def test_any_value_can_be_logged(value):
    json.loads(orjson.dumps(log._mask_value(value)))


@pytest.mark.parametrize("name", ["at", "level", "logger", "exc_info", "timestamp", "name"])
def test_no_value_name_collides(opened, name):
    path = opened()
    get_logger("memoryd.a").info("x", **{name: "mine"})
    (record,) = records(path)
    assert (record["level"], record["logger"], record["event"]) == ("info", "memoryd.a", "x")
    assert record["at"].endswith("Z")


def test_what_is_bound_to_the_context_is_in_all_records_of_the_thread(opened):
    path = opened()
    with bind_values(agent="demo", run="r"):
        get_logger("memoryd.a").info("own", run="mine")
        logging.getLogger("watchdog").warning("a library's")
    get_logger("memoryd.a").info("after")
    seen = [(each["event"], each.get("agent"), each.get("run")) for each in records(path)]
    assert seen == [("own", "demo", "mine"), ("a library's", "demo", "r"), ("after", None, None)]


# --- content-blind ---


CANARY = "the user's own words"


def fail_twice():
    try:
        {}[CANARY]
    except KeyError as error:
        raise ValueError(CANARY) from error


class Holder:
    def __repr__(self):
        return CANARY


def test_objects_are_logged_as_their_type_and_long_text_is_cut(opened):
    path = opened()
    get_logger("memoryd.a").info(
        "x", it=Holder(), raw=CANARY.encode(), deep={"a": {"b": CANARY}}, many=[[CANARY]], long="y" * 5000
    )
    assert CANARY not in path.read_text()
    (record,) = records(path)
    assert (record["it"], record["raw"], record["deep"]) == ("<Holder>", "<bytes>", {"a": "<1 values>"})
    assert len(record["long"]) == 1025


def test_an_exception_is_logged_without_its_message(opened):
    path = opened()
    try:
        fail_twice()
    except ValueError:
        get_logger("memoryd.a").error("failed", exc_info=True)
    assert CANARY not in path.read_text()
    (record,) = records(path)
    assert (record["error"], record["cause"]) == ("ValueError", "KeyError")
    assert record["frames"][-1].startswith("files/test_log.py:")


def test_our_own_and_the_systems_messages_are_kept(opened, tmp_path):
    path = opened()
    get_logger("memoryd.a").error("x", exc_info=StateError("cannot be written", "/x", "free the disk"))
    try:
        (tmp_path / "gone").read_bytes()
    except OSError:
        get_logger("memoryd.a").error("y", exc_info=True)
    first, second = records(path)
    assert first["reason"] == "/x: cannot be written (free the disk)"
    assert second["reason"] == f"No such file or directory: {tmp_path / 'gone'}"


def test_an_unknown_library_is_logged_without_its_arguments(opened):
    path = opened(level="debug")
    logging.getLogger("sqlalchemy.engine").warning("params %s", CANARY)
    logging.getLogger("sqlalchemy.engine").info("params %s", "below a warning")
    logging.getLogger("other").warning("bad %d", CANARY, stack_info=True)
    logging.getLogger("other").warning(ValueError(CANARY))
    try:
        fail_twice()
    except ValueError:
        logging.getLogger("other").exception("broken")
    assert CANARY not in path.read_text()
    assert [(each["event"], each["level"]) for each in records(path)] == [
        ("params %s", "warning"),
        ("bad %d", "warning"),
        ("<ValueError>", "warning"),
        ("broken", "error"),
    ]
    assert "stack_info" not in path.read_text()


# --- the libraries' own logging ---


def test_the_standard_librarys_logging_ends_in_the_same_stream(opened):
    path = opened(level="info")
    logging.getLogger("apscheduler.scheduler").error('Job "%s" raised', "tick")
    logging.getLogger("apscheduler.scheduler").info("noise")
    logging.getLogger("memoryd.database").info("migrated to %d", 3)
    logging.getLogger("memoryd.database").debug("hidden")
    logging.getLogger("watchdog").log(37, "odd level")
    logging.getLogger("watchdog").critical("worst")
    seen = [(each["logger"], each["level"], each["event"]) for each in records(path)]
    assert seen == [
        ("apscheduler.scheduler", "error", 'Job "tick" raised'),
        ("memoryd.database", "info", "migrated to 3"),
        ("watchdog", "warning", "odd level"),
        ("watchdog", "error", "worst"),
    ]


def test_closing_puts_the_standard_librarys_logging_back(tmp_path):
    root = logging.getLogger()
    root.setLevel(logging.ERROR)
    before = (root.level, list(root.handlers), logging.getLogger("memoryd").level)
    close = configure(tmp_path / "state", level="debug").close
    assert (root.level, list(root.handlers), logging.getLogger("memoryd").level) != before
    close()
    assert (root.level, list(root.handlers), logging.getLogger("memoryd").level) == before
    root.setLevel(logging.WARNING)
    get_logger("memoryd.a").error("after the end")
    assert not log_path(tmp_path / "state").exists()


@pytest.mark.parametrize("level", ["debug", "error"])
def test_on_record_hears_what_a_library_logs_whatever_the_level_of_the_log(opened, level):
    opened(level=level)
    heard = []
    stop = on_record("watchdog", "warning", heard.append)
    logging.getLogger("watchdog.observers").warning("queue overflowed below %r", "/x")
    logging.getLogger("watchdog.observers").info("nothing")
    stop()
    logging.getLogger("watchdog.observers").warning("again")
    assert heard == ["queue overflowed below '/x'"]


def test_a_callback_that_fails_does_not_reach_the_library(opened):
    opened()
    stop = on_record("watchdog", "warning", lambda _: 1 / 0)
    logging.getLogger("watchdog").warning("x")
    stop()


# --- levels, terminal ---


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_records_below_the_level_are_not_written(opened, level, count):
    path = opened(level=level)
    for name in log.LEVELS:
        getattr(get_logger("memoryd.a"), name)(name)
    assert [each["level"] for each in records(path)] == list(log.LEVELS)[-count:]


@pytest.mark.parametrize(
    ("text", "terminal", "shown"),
    [(False, io.StringIO, False), (True, io.StringIO, True), (False, Terminal, True), (True, Terminal, True)],
)
def test_standard_error_gets_lines_on_a_terminal_or_when_asked(opened, text, terminal, shown):
    stream = terminal()
    opened(text=text, terminal=stream)
    get_logger("memoryd.b").warning("seen", agent="demo", why="two words", n=[1])
    expected = r'\S+Z warning memoryd\.b: seen agent=demo why="two words" n=\[1\]\n' if shown else ""
    assert re.fullmatch(expected, stream.getvalue())


PRIORITIES = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>"}


@pytest.mark.parametrize("is_journal", [True, False])
def test_a_journal_gets_priorities_that_nobody_can_forge(tmp_path, is_journal):
    """In a real process, whose standard error is a socket, as journald's is."""
    script = f"""
import sys
from pathlib import Path
from memoryd.files.log import configure, get_logger
close = configure(Path({str(tmp_path / "state")!r}), level="debug", text={not is_journal}, terminal=sys.stderr).close
for level in ("debug", "info", "warning", "error"):
    getattr(get_logger("memoryd.a"), level)("x", path="\\n<0>forged", **{{"\\n<1>": "\\r<2>\\x1b[31m"}})
close()
"""
    ours, theirs = socket.socketpair()
    status = os.fstat(theirs.fileno())
    wrong = 0 if is_journal else 1
    environ = os.environ | {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino + wrong}"}
    with ours, theirs:
        subprocess.run([sys.executable, "-c", script], stderr=theirs, check=True, env=environ)
        theirs.close()
        told = b"".join(iter(lambda: ours.recv(65536), b"")).decode()
    lines = told.splitlines()
    assert len(lines) == 4
    for line, (level, priority) in zip(lines, PRIORITIES.items(), strict=True):
        assert re.match(r"(<\d>)?\d{4}-", line)[1] == (priority if is_journal else None)
        assert f" {level}" in line
        assert line.isprintable()


@pytest.mark.skipif(shutil.which("tail") is None, reason="there is no tail")
def test_tail_follows_over_rotations(opened, tmp_path):
    """`tail -F` looks once a second: a file that is renamed twice in between is a file it never saw."""
    path = opened(max_bytes=2000)
    log = get_logger("memoryd.a")
    log.info("x", number=0)
    seen = tmp_path / "seen"
    with seen.open("wb") as out:
        tail = subprocess.Popen(
            ["tail", "-n", "+1", "-s", "0.02", "---disable-inotify", "-F", str(path)],  # an event may come too early
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
    try:
        for number in range(1, 100):
            log.info("x", number=number)
            until(lambda want=number: f'"number":{want}}}' in seen.read_text(encoding="utf-8"), why="tail has it")
    finally:
        tail.kill()
        tail.wait()
    assert [record["number"] for record in records(seen)] == list(range(100))
    assert name_rotated(path, 4).exists()


def test_a_closed_terminal_stops_nothing(opened):
    stream = Terminal()
    path = opened(terminal=stream)
    stream.close()
    get_logger("memoryd.a").info("x")
    assert len(records(path)) == 1


def test_nothing_is_imported_or_written_before_it_is_configured(tmp_path):
    code = (
        "import sys; from memoryd.files.log import get_logger; get_logger('memoryd.a').error('x');"
        "print('structlog' in sys.modules, 'asyncio' in sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ, cwd=tmp_path
    )
    assert (done.stdout, done.stderr, [*tmp_path.iterdir()]) == ("False False\n", "", [])


# --- the file ---


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_files_and_folders_are_private_also_after_rotation(opened):
    path = opened(max_bytes=300)
    for number in range(20):
        get_logger("memoryd.a").info("x", number=number)
    assert mode(path.parent) == mode(path.parent.parent) == 0o700
    assert {each.name: mode(each) for each in path.parent.iterdir()} == {
        "memoryd.jsonl": 0o600,
        **{f"memoryd.jsonl.{number}": 0o600 for number in range(1, 5)},
    }


def test_a_log_that_was_open_to_others_is_closed(opened, tmp_path):
    path = log_path(tmp_path / "state")
    path.parent.mkdir(parents=True, mode=0o755)
    path.touch(mode=0o644)
    path.chmod(0o644)
    opened()
    get_logger("memoryd.a").info("x")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)


def test_rotation_keeps_five_files_of_the_size_and_the_newest_records(opened):
    path = opened(max_bytes=1000)
    for number in range(100):
        get_logger("memoryd.a").info("x", number=number)
    files = [name_rotated(path, number) for number in range(4, 0, -1)] + [path]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert not name_rotated(path, 5).exists()
    numbers = [record["number"] for file in files for record in records(file)]
    assert numbers == list(range(numbers[0], 100))
    assert len(numbers) > 30


def test_a_log_moved_or_removed_by_someone_else_is_made_anew(opened):
    path = opened()
    get_logger("memoryd.a").info("one")
    path.rename(path.with_name("moved"))
    get_logger("memoryd.a").info("two")
    path.unlink()
    get_logger("memoryd.a").info("three")
    assert [each["event"] for each in records(path)] == ["three"]
    assert [each["event"] for each in records(path.with_name("moved"))] == ["one"]


def test_a_line_that_is_written_while_the_log_is_exchanged_goes_to_the_new_one(opened, tmp_path):
    path = opened()
    get_logger("memoryd.a").info("one")
    with open_folder(path.parent) as folder:
        with log.at_rest(folder / path.name):
            writer = threading.Thread(target=get_logger("memoryd.a").info, args=("two",))
            writer.start()
            # The writer has the old file open; without the lock its line would be in there by now.
            writer.join(0.05)
            assert b"two" not in path.read_bytes()
            (path.parent / "new").write_bytes(path.read_bytes())
            (path.parent / "new").rename(path)
        writer.join()
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["one", "two"]


def test_a_torn_last_line_does_not_take_the_next_one_with_it(opened, tmp_path):
    path = log_path(tmp_path / "state")
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"event": "torn')
    opened()
    get_logger("memoryd.a").info("whole")
    assert path.read_bytes().count(b"\n") == 2
    assert [each["event"] for each in read(path, LogFilter())] == ["whole", "damaged log lines were skipped"]


@pytest.mark.parametrize("obstacle", ["file", "link", "fifo", "folder"])
def test_a_log_that_cannot_be_opened_raises_nothing_and_blocks_nothing(opened, tmp_path, obstacle):
    path = log_path(tmp_path / "state")
    path.parent.mkdir(parents=True)
    other = tmp_path / "other"
    other.write_text("untouched")
    match obstacle:
        case "file":
            path.parent.rmdir()
            path.parent.write_text("in the way")
        case "link":
            path.symlink_to(other)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    opened(text=True, terminal=(terminal := io.StringIO()))
    get_logger("memoryd.a").error("heard anyway")
    assert "heard anyway" in terminal.getvalue()
    assert other.read_text() == "untouched"


def test_lost_lines_are_counted_and_told_once_there_is_room_again(opened, tmp_path):
    path = log_path(tmp_path / "state")
    path.mkdir(parents=True)
    opened()
    for _ in range(3):
        get_logger("memoryd.a").info("lost")
    path.rmdir()
    get_logger("memoryd.a").info("back")
    get_logger("memoryd.a").info("on")
    seen = records(path)
    assert [each["event"] for each in seen] == ["log lines were lost", "back", "on"]
    assert (seen[0]["level"], seen[0]["count"]) == ("error", 3)


FULL_DISK = """
import json, resource, signal, sys
from pathlib import Path
from memoryd.files.log import configure, get_logger, log_path
state = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (250, resource.RLIM_INFINITY))
close = configure(state).close
for number in range(5):
    get_logger("memoryd.a").info("x", number=number)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
get_logger("memoryd.a").info("room")
close()
"""


def test_a_full_disk_raises_nothing_and_loses_only_what_did_not_fit(tmp_path):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path / "state")], check=True, env=environ)
    seen = list(read(log_path(tmp_path / "state"), LogFilter()))
    assert [each["event"] for each in seen[-3:]] == ["log lines were lost", "room", "damaged log lines were skipped"]
    whole = [each["number"] for each in seen if each["event"] == "x"]
    assert whole == list(range(len(whole)))
    assert seen[-3]["count"] + len(whole) == 5


def test_threads_write_whole_lines(opened):
    path = opened(max_bytes=20_000)

    def talk(name):
        for number in range(100):
            get_logger(f"memoryd.{name}").info("x", number=number)

    threads = [threading.Thread(target=talk, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [(each["logger"], each["number"]) for each in read(path, LogFilter())]
    assert sorted(seen) == [(f"memoryd.t{thread}", number) for thread in range(4) for number in range(100)]


# --- reading back ---


def line(event="x", level="info", **values):
    return orjson.dumps({"at": "2026-01-01T00:00:00Z", "level": level, "logger": "a", "event": event, **values}) + b"\n"


def events(found):
    return [each["event"] for each in found]


def test_read_goes_through_the_rotated_files_oldest_first(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    for number in (4, 3, 1):
        name_rotated(path, number).write_bytes(line(f"r{number}"))
    path.write_bytes(line("live"))
    assert events(read(path, LogFilter())) == ["r4", "r3", "r1", "live"]


def test_no_log_is_no_records(tmp_path):
    assert list(read(tmp_path / "gone", LogFilter())) == []


def test_level_agent_and_run_select(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(
        line("a", "debug") + line("b", "info", agent="x") + line("c", "error", agent="x", run="r")
        + line("d", "warning") + line("e", "unheard-of")
    )  # fmt: skip
    assert events(read(path, LogFilter())) == ["a", "b", "c", "d", "e"]
    assert events(read(path, LogFilter(level="warning"))) == ["c", "d", "e"]
    assert events(read(path, LogFilter(agent="x"))) == ["b", "c"]
    assert events(read(path, LogFilter(agent="x", run="r"))) == ["c"]


def test_damaged_lines_are_skipped_and_counted(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(line("a") + b'{"x": \n[1]\n\xff\xfe\n\n' + line("b") + b'{"torn')
    *found, damage = read(path, LogFilter(level="error"))
    assert found == []
    assert damage["count"] == 4
    assert render_record(damage).endswith("damaged log lines were skipped count=4")


def steps(*actions):
    """A wait function that does one thing each time it is called, and then ends."""
    waiting = iter(actions)

    def wait():
        action = next(waiting, None)
        if action is not None:
            action()
        return action is not None

    return wait


def append(path, data):
    def act():
        with path.open("ab") as file:
            file.write(data)

    return act


def rotate(path):
    def act():
        for number in range(4, 1, -1):
            if name_rotated(path, number - 1).exists():
                name_rotated(path, number - 1).replace(name_rotated(path, number))
        path.replace(name_rotated(path, 1))

    return act


def both(*actions):
    def act():
        for action in actions:
            action()

    return act


def test_follow_goes_over_rotation_truncation_and_torn_lines(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(line("a"))
    whole = line("c")
    wait = steps(
        append(path, line("b") + whole[:10]),
        append(path, whole[10:]),
        both(append(path, line("d")), rotate(path), append(path, line("e"))),
        rotate(path),
        append(path, line("f")),
        lambda: os.truncate(path, 0),
        append(path, line("j")),
        append(path, line("unfinished")[:9]),
        both(lambda: os.truncate(path, 0), append(path, line("!", at=None)[:9])),
        append(path, line("!", at=None)[9:]),
        append(path, line("k")),
    )
    *found, damage, last, behind = follow(path, LogFilter(), wait)
    assert events([*found, last, behind]) == list("abcdefj!k")
    assert damage["count"] == 1


def test_follow_loses_no_line_written_just_before_a_rotation(tmp_path, monkeypatch):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(line("a"))
    really_read, at_end = os.read, [both(append(path, line("b")), rotate(path), append(path, line("c")))]

    def read_and_then_rotate(file, size):
        data = really_read(file, size)
        if not data and at_end:
            at_end.pop()()
        return data

    monkeypatch.setattr(os, "read", read_and_then_rotate)
    assert events(follow(path, LogFilter(), steps(lambda: None, lambda: None))) == ["a", "b", "c"]


def test_follow_waits_for_a_log_that_is_not_there_yet_and_tells_damage(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    wait = steps(lambda: None, append(path, line("a") + b"junk\n"), append(path, line("b")))
    assert events(follow(path, LogFilter(), wait)) == ["a", "damaged log lines were skipped", "b"]


def test_follow_begins_with_the_last_records(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(b"".join(line(str(number)) for number in range(2000)))
    found = events(follow(path, LogFilter(), lambda: False))
    assert found == [str(number) for number in range(2000 - len(found), 2000)]
    assert 100 < len(found) < 2000


def test_follow_begins_with_as_many_records_as_wanted(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(b"".join(line(str(number)) for number in range(5000)) + line("half")[:10])
    wait = steps(append(path, line("half")[10:]), append(path, line("new")))
    assert events(follow(path, LogFilter(), wait, 3)) == ["4997", "4998", "4999", "half", "new"]
    assert events(follow(path, LogFilter(), steps(append(path, line("newer"))), 0)) == ["newer"]


@given(st.lists(st.sampled_from(["append", "half", "rest", "rotate"]), max_size=25))
def test_following_gives_every_record_once_whatever_rotates(tmp_path_factory, actions):
    path = tmp_path_factory.mktemp("log") / "memoryd.jsonl"
    path.touch()
    written, pending, acts = [], [], []
    for number, action in enumerate(actions):
        data = line(str(number))
        if action == "append" and not pending:
            written.append(str(number))
            acts.append(append(path, data))
        elif action == "half" and not pending:
            pending.append((str(number), data[20:]))
            acts.append(append(path, data[:20]))
        elif action == "rest" and pending:
            name, rest = pending.pop()
            written.append(name)
            acts.append(append(path, rest))
        elif action == "rotate" and not pending:
            acts.append(both(rotate(path), path.touch))
            acts.append(lambda: None)  # a look, so that no file is renamed twice between two of them
    assert events(follow(path, LogFilter(), steps(*acts))) == written


def test_a_forged_record_cannot_reach_the_terminal(tmp_path):
    path = tmp_path / "memoryd.jsonl"
    path.write_bytes(orjson.dumps({"event": "\x1b]0;owned\x07", "x\n": ["\x1b"], "level": 5}) + b"\n")
    (told,) = map(render_record, read(path, LogFilter()))
    assert told.isprintable()
