"""A real disk that is full, of bytes or of names, under a daemon: it waits, says so, and goes on.

The disk is a small tmpfs in a mount namespace of its own; the tests steer the daemon from outside it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import forks
import pytest
from scratch import Scratch, filler, message, recent, said, until

SIZE = "size=3m,nr_inodes=120"
BALLAST = "ballast"
ALL = "SELECT state, error, scheduled_for, attempt FROM job_run"
# Lives inside: from out here SQLite would follow /proc/PID/root to a folder of this namespace.
READER = """
import json, sys
from memoryd.database.library import load_library
print("mounted", flush=True)
for line in sys.stdin:
    try:
        path, sql = json.loads(line)
        connection = load_library().connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        try:
            found = connection.execute(sql).fetchall()
        finally:
            connection.close()
    except Exception:
        found = []
    print(json.dumps(found), flush=True)
"""
# memoryd in the mount namespace of another process.
ENTERING = """
import ctypes, os, sys
from memoryd.interfaces.cli import main
with open(f"/proc/{sys.argv.pop(1)}/ns/mnt") as namespace:
    if ctypes.CDLL(None).setns(namespace.fileno(), 0):
        sys.exit("the namespace cannot be entered")
main()
"""


class Disk:
    """A mount namespace that one process holds open; commands and files in it by way of that process."""

    def __init__(self, place: Path, mount: str | None = None) -> None:
        place.mkdir()
        self.place = place
        script = f'{mount or f"mount -t tmpfs -o {SIZE} tmpfs {place}"} && exec "$@"'
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", READER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.mounted = self.holder.stdout.readline() == "mounted\n"

    @property
    def inside(self) -> Path:
        """The disk, seen from out here."""
        return Path(f"/proc/{self.holder.pid}/root{self.place}")

    def enter(self) -> list[str]:
        return ["nsenter", "-m", "-t", str(self.holder.pid), "--"]

    def fill_bytes(self) -> None:
        with contextlib.suppress(OSError), (self.inside / BALLAST).open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def fill_names(self) -> None:
        folder = self.inside / BALLAST
        folder.mkdir()
        with contextlib.suppress(OSError):
            for number in range(1000):
                (folder / str(number)).touch()

    def free(self) -> None:
        ballast = self.inside / BALLAST
        shutil.rmtree(ballast) if ballast.is_dir() else ballast.unlink()

    def query(self, database: Path, sql: str) -> list[tuple]:
        """The rows of a query inside; none where it fails."""
        self.holder.stdin.write(json.dumps([str(database), sql]) + "\n")
        self.holder.stdin.flush()
        return [tuple(row) for row in json.loads(self.holder.stdout.readline())]

    def close(self) -> None:
        self.holder.kill()
        self.holder.communicate()


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "mount"))):
        pytest.skip("only root may mount a small disk")
    made = Disk(tmp_path / "disk")
    try:
        if not made.mounted:
            pytest.skip("mounting is not allowed here")
        yield made
    finally:
        made.close()


class Daemon:
    """A daemon whose state and memory lie on the small disk, and whose transcripts lie on a healthy one."""

    def __init__(self, root: Path, disk: Disk, state: Path | None = None) -> None:
        self.disk = disk
        self.state = state or disk.place / "state"  # on the disk unless it is said where
        self.scratch = Scratch(root, ingest={"settle": "20ms", "rescan": "1s"}, log={"level": "warning"})
        agent = Scratch.agent("demo", disk.place / "workspace")
        agent["transcripts"] = [{"path": str(self.scratch.sessions / "*.jsonl"), "format": "messages"}]
        self.scratch.agents = [agent]
        (disk.inside / "workspace").mkdir()
        self.scratch.write_config(state_dir=str(self.state))
        self.workspace = disk.inside / "workspace"
        self.words = ["-c", ENTERING, str(disk.holder.pid), "--config", str(self.scratch.config)]
        self.said = root / "stderr.txt"
        self.start()

    def start(self) -> None:
        with self.said.open("wb") as errors:
            files = {"stdout": subprocess.DEVNULL, "stderr": errors}
            self.process = forks.start([*self.words, "run"], start_new_session=True, **files)

    def rows(self, sql: str) -> list[tuple]:
        return self.disk.query(self.state / "memoryd.db", sql)

    def status(self) -> dict:
        done = forks.run([*self.words, "--json", "status"])
        return json.loads(done.stdout)["data"] if done.returncode == 0 else {"alarms": [], "daemon": None}

    def alarms(self) -> set[str]:
        return {alarm["kind"] for alarm in self.status()["alarms"]}

    def turns(self) -> int:
        return (self.rows("SELECT count(*) FROM turn") or [(-1,)])[0][0]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture
def daemon(tmp_path, disk):
    made = Daemon(tmp_path / "scratch", disk)
    try:
        up = until(lambda: made.process.poll() is not None or made.rows("SELECT pid FROM daemon"), why="it is up")
        assert made.process.poll() is None, (up, made.said.read_text())
        made.scratch.append(said(at=recent()), "first")
        until(lambda: made.turns() == len(said()), why="the first turns are stored")
        yield made
    finally:
        made.stop()


TOPICS = ("invoices", "telemetry", "payroll", "vacation")


def read_on(daemon):
    """Some long sessions, each of which says something new; the number of turns there are then."""
    for topic in TOPICS:
        told = f"We decided to keep {topic} in the {topic} archive because the {topic} audit needs it."
        answer = filler(words=3000, at=recent())
        answer["content"] = f"{topic}: {answer['content']}"
        daemon.scratch.append([message("user", told, at=recent()), answer], topic)
    return len(said()) + 2 * len(TOPICS)


def check_well_again(daemon, turns):
    until(lambda: daemon.turns() == turns, why="all turns are stored, once each", seconds=60)
    # A run that met the full disk is tried again after half a minute, and an agent's runs follow each other.
    runs = "SELECT count(*) FROM job_run WHERE state = 'succeeded'"
    until(
        lambda: daemon.rows(runs) == [(len(TOPICS),)],
        why=f"each full session has slept: {daemon.rows(ALL)}",
        seconds=100,
    )
    until(lambda: not daemon.alarms(), why="no alarm is left", seconds=60, every=1)
    text = "".join(path.read_text() for path in (daemon.workspace / "memory").glob("*.md"))
    assert text.count("## Trimmed Context") == len(TOPICS)
    core = (daemon.workspace / "MEMORY.md").read_text()
    assert [core.count(f"keep {topic} in") for topic in TOPICS] == [1] * len(TOPICS)
    assert daemon.rows("PRAGMA integrity_check") == [("ok",)]
    assert [path for path in daemon.workspace.rglob("*") if ".memoryd-" in path.name] == []
    assert daemon.process.poll() is None


def test_a_disk_full_of_bytes_holds_ingest_up_and_loses_nothing(daemon, disk):
    disk.fill_bytes()
    turns = read_on(daemon)
    until(lambda: "disk" in daemon.alarms(), why="status says so", seconds=60, every=1)
    assert daemon.process.poll() is None
    disk.free()
    check_well_again(daemon, turns)


@pytest.mark.soak
def test_a_disk_full_of_names_holds_memory_up_and_loses_nothing(daemon, disk):
    disk.fill_names()
    turns = read_on(daemon)
    until(lambda: daemon.alarms() & {"waiting", "settle", "disk"}, why="status says so", seconds=60, every=1)
    assert daemon.process.poll() is None
    disk.free()
    check_well_again(daemon, turns)
