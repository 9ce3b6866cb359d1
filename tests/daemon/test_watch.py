"""Watching: hints come quickly where they can, and where they cannot, somebody says so and the scan finds all."""

from __future__ import annotations

import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import forks
import pytest
from ingest_world import claude
from places import ROOT, WORLDS

from memoryd.daemon import watch
from memoryd.daemon.watch import Watcher
from memoryd.database.library import load_library
from memoryd.files import sources
from memoryd.files.log import get_logger

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
PATIENCE = 600.0 if SOAK else 60.0
MISSED = 20_000 if SOAK else 150  # files written while nobody reads the queue
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
RESCAN = "rescan"


class Source(NamedTuple):
    pattern: sources.Pattern


class Watching:
    """A watcher whose hints can be waited for."""

    def __init__(self, *patterns: str, policy: str = "auto") -> None:
        self.heard: queue.Queue[str] = queue.Queue()
        self.watcher = Watcher(get_logger("memoryd.test"), self.heard.put, lambda: self.heard.put(RESCAN))
        self.watcher.configure([Source(sources.make_pattern(text)) for text in patterns], policy)

    def hears(self, wanted: object) -> None:
        while self.heard.get(timeout=PATIENCE) != str(wanted):
            pass

    def tends_until_rescan(self) -> None:
        """Tend as the daemon does, again and again: the thread of a dead watch may still be ending."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self.watcher.tend()
            with suppress(queue.Empty):
                if self.heard.get(timeout=0.1) == RESCAN:
                    return
        raise AssertionError("no watch for the new folder")

    def forget(self) -> None:
        while not self.heard.empty():
            self.heard.get()


@contextmanager
def watching(*patterns: object, policy: str = "auto"):
    made = Watching(*map(str, patterns), policy=policy)
    try:
        yield made
    finally:
        made.watcher.stop()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def test_files_and_folders_that_come_later_are_heard_of(root):
    with watching(f"{root}/**/*.jsonl") as one:
        assert one.watcher.method in {"inotify", "fsevents"}
        (root / "a.jsonl").write_bytes(b"x")
        one.hears(root / "a.jsonl")
        (root / "sub").mkdir()
        one.hears(f"{root}/sub/")
        with (root / "sub" / "b.jsonl").open("ab") as file:
            file.write(b"x")
        one.hears(root / "sub" / "b.jsonl")


def test_an_atomic_save_names_the_file_that_was_saved(root):
    with watching(f"{root}/*.md") as one:
        (root / ".NOW.tmp").write_bytes(b"x")
        (root / ".NOW.tmp").replace(root / "NOW.md")
        one.hears(root / "NOW.md")


def test_a_moved_folder_is_heard_of_under_its_new_name(root):
    (root / "old").mkdir()
    (root / "old" / "a.jsonl").touch()
    with watching(f"{root}/**/*.jsonl") as one:
        (root / "old").rename(root / "new")
        one.hears(f"{root}/new/")
        with (root / "new" / "a.jsonl").open("ab") as file:
            file.write(b"x")
        one.hears(root / "new" / "a.jsonl")


def test_a_root_that_is_missing_is_watched_once_it_is_there(tmp_path):
    root = tmp_path / "later" / "root"
    with watching(f"{root}/*.jsonl") as one:
        assert one.watcher.polling_why is None
        one.watcher.tend()
        assert one.heard.empty()
        root.mkdir(parents=True)
        one.watcher.tend()
        one.hears(RESCAN)
        (root / "a.jsonl").touch()
        one.hears(root / "a.jsonl")


@pytest.mark.parametrize("number", range(3))
def test_a_root_that_is_made_anew_is_watched_again(root, number):
    with watching(f"{root}/*.jsonl") as one:
        one.hears(RESCAN)
        shutil.rmtree(root)
        one.hears(f"{root}/")
        root.mkdir()
        one.tends_until_rescan()
        (root / f"{number}.jsonl").touch()
        one.hears(root / f"{number}.jsonl")
        assert one.watcher.method == "inotify" or sys.platform == "darwin"


def test_a_root_that_was_swapped_for_another_folder_is_watched_in_its_place(root, tmp_path):
    with watching(f"{root}/*.jsonl") as one:
        one.hears(RESCAN)
        root.rename(tmp_path / "old")
        root.mkdir()
        one.watcher.tend()
        one.hears(RESCAN)
        (root / "a.jsonl").touch()
        one.hears(root / "a.jsonl")


def test_a_lost_event_is_a_reason_to_look_at_everything(root):
    with watching(f"{root}/*.jsonl") as one:
        one.hears(RESCAN)
        logging.getLogger("watchdog.observers.inotify_c").warning(
            "Inotify queue overflowed; filesystem events were lost"
        )
        one.hears(RESCAN)


def test_polling_is_a_choice_and_says_so(root):
    with watching(f"{root}/*.jsonl", policy="always") as one:
        assert (one.watcher.method, one.watcher.polling_why) == ("polling", "set by ingest.polling")
        one.watcher.tend()
        one.watcher.check_limits()
        one.watcher.configure([Source(sources.make_pattern(f"{root}/*.jsonl"))], "auto")
        assert one.watcher.polling_why is None


@pytest.mark.parametrize(("kind", "remote"), [("nfs4", True), ("fuse.sshfs", True), ("ext4", False), ("tmpfs", False)])
def test_network_file_systems_are_polled(root, monkeypatch, kind, remote):
    monkeypatch.setattr(watch.mounts, "read_mounts", lambda: {Path("/"): "ext4", root: kind})
    with watching(f"{root}/*.jsonl") as one:
        assert (one.watcher.method == "polling") == remote
    with watching(f"{root}/*.jsonl", policy="never") as one:
        assert one.watcher.method != "polling"


def test_a_root_inside_a_deep_one_is_watched_once():
    patterns = [sources.make_pattern(text) for text in ("/a/**/*.jsonl", "/a/b/*.md", "/c/*.x", "/c/d/*.x")]
    assert watch.roots_of(patterns) == {Path("/a"): True, Path("/c"): False, Path("/c/d"): False}


LIMITED = """
    import sys
    from pathlib import Path
    from test_watch import RESCAN, watching
    root = Path(sys.argv[1])
    for number in range(int(sys.argv[2])):
        (root / str(number)).mkdir()
    with watching(f"{root}/**/*.jsonl", policy=sys.argv[3]) as one:
        one.watcher.check_limits()
        before = one.watcher.method
        one.watcher.tend()
        one.watcher.tend()
        print(before, one.watcher.method, one.watcher.polling_why, sep="|")
"""


def limited(tmp_path: Path, setting: str, value: int, *arguments: str) -> str:
    script = tmp_path / "limited.py"
    script.write_text(textwrap.dedent(LIMITED))
    root = tmp_path / "root"
    root.mkdir()
    command = f'echo {value} > /proc/sys/user/{setting} || exit 77; exec "$@"'
    places = os.pathsep.join([str(Path(__file__).parent), str(WORLDS), str(ROOT)])
    try:
        done = subprocess.run(
            ["unshare", "-Ur", "sh", "-c", command, "sh", sys.executable, script, root, *arguments],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": places},
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("folders", [25, 300])
def test_too_few_watches_lead_to_polling_which_says_why(tmp_path, folders):
    before, after, why = limited(tmp_path, "max_inotify_watches", 20, str(folders), "auto").split("|")
    assert (before, after) == ("inotify", "polling")
    assert f"of {folders + 1} folders are watched" in why


def test_enough_watches_are_enough(tmp_path):
    assert limited(tmp_path, "max_inotify_watches", 50, "25", "auto") == "inotify|inotify|None"


def test_no_inotify_at_all_leads_to_polling_which_says_why(tmp_path):
    assert limited(tmp_path, "max_inotify_instances", 0, "1", "auto").startswith("polling|polling|the system refuses")


def test_who_never_wants_polling_does_not_get_it(tmp_path):
    assert limited(tmp_path, "max_inotify_instances", 0, "1", "never") == "inotify|inotify|None"


# --- the daemon ----------------------------------------------------------------


class Daemon:
    """`memoryd run` over one folder of sessions, scanning so rarely that only hints and alarms can be the reason."""

    def __init__(self, folder: Path, polling: str = "auto") -> None:
        self.sessions = folder / "sessions"
        self.sessions.mkdir()
        (folder / "work").mkdir()
        self.config = folder / "memoryd.yaml"
        self.config.write_text(
            f"state_dir: {folder}/state\nagents:\n  - id: ann\n    workspace: {folder}/work\n    transcripts:\n"
            f"      - path: {self.sessions}/**/*.jsonl\ningest: {{rescan: 1h, settle: 50ms, polling: {polling}}}\n"
            "modes: {sleep: 'off'}\n"
        )
        self.database = folder / "state" / "memoryd.db"
        words = ["-m", "memoryd", "--config", self.config, "run"]
        self.process = forks.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until(lambda: self.count("daemon") == 1)

    def count(self, table: str) -> int:
        try:
            with closing(load_library().connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
                return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608
        except load_library().OperationalError:
            return 0

    def until(self, holds) -> None:
        pause, turns, last = threading.Event(), 0, time.monotonic()
        while time.monotonic() < last + PATIENCE:
            assert self.process.poll() is None, "the daemon has ended"
            if holds():
                return
            if turns < (turns := self.count("turn")):
                last = time.monotonic()  # a busy machine may take as long as there is progress
            pause.wait(0.05)
        pytest.fail(f"no progress for {PATIENCE} s: {turns} turns")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(PATIENCE)


@contextmanager
def daemon(folder: Path, polling: str = "auto"):
    made = Daemon(folder, polling)
    try:
        yield made
    finally:
        made.stop()


def write(folder: Path, first: int, last: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(first, last + 1):
        (folder / f"{number}.jsonl").write_bytes(claude(number, f"text {number}") + b"\n")


@pytest.mark.parametrize("polling", ["auto", pytest.param("always", marks=pytest.mark.soak)])
def test_a_daemon_that_was_stopped_while_files_were_written_reads_them_all(tmp_path, polling):
    with daemon(tmp_path, polling) as one:
        write(one.sessions, 1, 3)
        one.until(lambda: one.count("turn") == 3)
        one.process.send_signal(signal.SIGSTOP)
        write(one.sessions, 4, 60)
        write(one.sessions / "new", 61, 100)
        one.process.send_signal(signal.SIGCONT)
        one.until(lambda: one.count("turn") == 100)


def test_a_queue_that_overflowed_costs_time_and_no_turn(tmp_path):
    usual = QUEUE.read_text() if QUEUE.exists() else ""
    try:
        QUEUE.write_text("64")
    except OSError:
        pytest.skip("needs leave to make the kernel's queue short")
    try:
        one = Daemon(tmp_path)
    finally:
        QUEUE.write_text(usual)
    try:
        write(one.sessions, 1, 1)
        one.until(lambda: one.count("turn") == 1)
        one.process.send_signal(signal.SIGSTOP)
        write(one.sessions, 2, MISSED)
        one.process.send_signal(signal.SIGCONT)
        one.until(lambda: one.count("turn") == MISSED)
        log = "".join(path.read_text() for path in (tmp_path / "state" / "log").iterdir())
        assert "overflowed" in log
    finally:
        one.stop()
