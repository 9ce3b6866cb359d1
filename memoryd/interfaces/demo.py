"""Replay a sample session at speed under a real daemon, and show the result: `memoryd demo`.

The demo plays the agent: it writes the transcript in pieces that end anywhere, as agents do. The daemon is the real
one, in its own process, with the default settings. The session was written for this purpose; the demo only shifts its
times so that it ends now.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from memoryd import config
from memoryd.database import reads
from memoryd.database.reads import Row
from memoryd.errors import ConfigError, StateError
from memoryd.files.log import log_path
from memoryd.interfaces.output import Output, render_table
from memoryd.requests import context as contexts
from memoryd.requests.status import session_row
from memoryd.requests.waiting import WAITING

T = TypeVar("T")

PROJECT = "-home-mara-work-crumb"  # how Claude Code names the folder of a project in /home/mara/work/crumb
PIECE = 2311  # bytes written at a time
PAUSE_SECONDS = 0.06
POLL_SECONDS = 0.05
# A busy machine makes the daemon slow, and that is no failure. Only a daemon that leaves no trace for this long is one.
STALL_SECONDS = 60.0
BAR_CELLS = 40
# Words of the instructions that a web page of the sample gives to whatever agent reads it.
PLANTED = ("agent-setup.sh", "force pushes", "Remember that the user prefers")

_CONFIG = """\
# Made by `memoryd demo`. What is not said here has its default: memoryd config show
state_dir: state
timezone: local
agents:
  - id: demo
    workspace: workspace
    transcripts:
      - path: ../claude/projects/**/*.jsonl
facts: {debounce: 1s}  # by default they wait for a pause of 30 s
"""
_TIMESTAMP = re.compile(r'"timestamp":"([^"]+)"')
_GAUGE = ("tokens", "window", "ratio", "gauge", "gauge_from", "gauge_record", "turns")  # of a session's status
_MAIN = ""  # the place of the session itself among the files of the sample


def run(output: Output, keep: Path | None) -> None:
    """Replay the sample session under a live daemon, print what happens, and leave the files."""
    began = time.monotonic()
    demo = Demo(output, _folder(keep))
    # A closed terminal or a `kill` ends the demo as Ctrl-C does, so that its daemon never outlives it.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        demo.play()
    finally:
        demo.stop()
    seconds = round(time.monotonic() - began, 1)
    output.say(f"\nDone in {seconds:g} s.")
    output.result(demo.data() | {"seconds": seconds}, demo.places())


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="memoryd-demo-"))
    folder = keep.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError("the folder is not empty", str(folder), "name a new one")
    return folder


def _sample(now: datetime) -> tuple[str, dict[str, bytes]]:
    """Return the session's id and its files (its own and those of its subagents), each by its path behind the id."""
    text = resources.files("memoryd.interfaces").joinpath("demo_session.jsonl").read_text("utf-8")
    by = now - max(datetime.fromisoformat(stamp) for stamp in _TIMESTAMP.findall(text))

    def move_time(found: re.Match[str]) -> str:
        moment = (datetime.fromisoformat(found[1]) + by).astimezone(UTC).isoformat(timespec="milliseconds")
        return f'"timestamp":"{moment.replace("+00:00", "Z")}"'

    files: dict[str, bytes] = defaultdict(bytes)
    session_id = ""
    for line in _TIMESTAMP.sub(move_time, text).splitlines(keepends=True):
        record = json.loads(line)
        session_id = record.get("sessionId", session_id)
        files[f"/subagents/agent-{record['agentId']}" if record.get("isSidechain") else _MAIN] += line.encode()
    return session_id, files


class Demo:
    """Hold the files of the demo and what it has shown so far."""

    def __init__(self, output: Output, folder: Path) -> None:
        """Prepare the folder; start nothing yet."""
        self.output = output
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.config = folder / "memoryd.yaml"
        self.config.write_text(_CONFIG, "utf-8")
        self.settings = config.load(self.config)
        self.database = self.settings.state_dir / "memoryd.db"
        self.log = log_path(self.settings.state_dir)
        self.errors = folder / "daemon.stderr"
        self.session_id, files = _sample(datetime.now(UTC))
        self.records = files.pop(_MAIN)
        sessions = folder / "claude" / "projects" / PROJECT
        self.transcript = sessions / f"{self.session_id}.jsonl"
        self.subagents = {sessions / f"{self.session_id}{name}.jsonl": data for name, data in files.items()}
        sessions.mkdir(parents=True)
        self.daemon: subprocess.Popen[bytes] | None = None
        self.gauge: list[Row] = []
        self.run: Row = {}

    def play(self) -> None:
        """Play the whole demo."""
        self.output.say(f"Everything happens in {self.folder}\n")
        self.start()
        self.replay()
        self.await_sleep()
        self.show_sleep()
        self.stop()
        self.check_planted()

    def data(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "folder": str(self.folder),
            "config": str(self.config),
            "transcript": str(self.transcript),
            "files": [str(path) for path in self.memory_files()],
            "database": str(self.database),
            "log": str(self.log),
            "session": self.session_id,
            "gauge": self.gauge,
            "run": self.run,
        }

    def places(self) -> str:
        """Print where the files are, and the commands that show them."""
        listed = [("memory", path) for path in self.memory_files()]
        listed += [("transcript", self.transcript), ("database", self.database), ("log", self.log)]
        if self.output.quiet:
            return "\n".join(str(path) for _, path in listed)
        commands = ("status", f"job show {self.run['id']}", f"session messages {self.session_id[:8]} --compressed")
        lines = [f"  {name:11} {path}" for name, path in listed]
        program = Path(sys.executable).with_name("memoryd")  # another one may be on the path, or none
        lines += [f"  {program} --config {self.config} {words}" for words in commands]
        return "\n".join(["Nothing runs any more; all of it is left to look at:", *lines])

    def memory_files(self) -> list[Path]:
        """List the daily files that exist, oldest first, and the core file."""
        return [*sorted(self.workspace.glob("memory/*.md")), *self.workspace.glob("MEMORY.md")]

    # --- the daemon ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the daemon from this package, and wait until it watches."""
        began = time.monotonic()
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        command = [sys.executable, "-P", "-m", "memoryd", "--config", str(self.config), "run"]
        nothing, env = subprocess.DEVNULL, os.environ | {"PYTHONPATH": path}
        with self.errors.open("ab") as errors:
            self.daemon = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=errors, env=env)
        pid = self.daemon.pid

        def read_watching() -> str | None:
            row = self.ask(reads.read_daemon)
            return row["watching"] if row and row["pid"] == pid else None

        how = self.wait_for("the daemon to be up", read_watching)
        self.output.say(f"The daemon is up after {time.monotonic() - began:.1f} s: pid {pid}, watching by {how}.")

    def stop(self) -> None:
        """Stop the daemon if it runs, and wait for its end. Raises StateError if it had to be killed."""
        daemon, self.daemon = self.daemon, None
        if daemon is None:
            return
        daemon.terminate()
        try:
            self.wait_for("the daemon to stop", daemon.poll)
        finally:
            daemon.kill()  # does nothing to one that has ended
            daemon.wait()

    def ask(self, function: Callable[..., T], *arguments: Any, **narrowed: Any) -> T | None:
        """Read from the database; None before the first start has made its tables."""
        try:
            return reads.ask(self.database, function, *arguments, **narrowed)
        except StateError:
            return None

    def session(self) -> Row | None:
        """Find the row of the sample session, with its gauge."""
        rows = self.ask(reads.list_sessions, agent_id="demo", limit=None) or ()
        return next((session_row(row, None) for row in rows if row["id"] == self.session_id), None)

    def wait_for(self, what: str, probe: Callable[[], T | None]) -> T:
        """Call `probe` until it returns an answer.

        Raises:
            StateError: the daemon has ended by itself, or has left no trace for too long.
        """
        idle, seen = 0.0, self._traces()
        while (found := probe()) is None:
            if self.daemon is not None and self.daemon.poll() is not None:
                said = self.errors.read_text("utf-8", "replace").strip().splitlines()
                ended = f"the daemon ended with status {self.daemon.returncode}" + (f": {said[-1]}" if said else "")
                raise StateError(ended, str(self.folder), f"see {self.errors.name} there")
            time.sleep(POLL_SECONDS)
            # Counted in pauses, not by the clock, so that a demo which itself gets no turn does not blame the daemon.
            idle, before, seen = idle + POLL_SECONDS, seen, self._traces()
            if seen != before:
                idle = 0.0
            elif idle > STALL_SECONDS:
                what = f"waited for {what}, but the daemon has done nothing for {STALL_SECONDS:g} s"
                raise StateError(what, str(self.folder), f"see {self.log}, then run the demo again")
        return found

    def _traces(self) -> list[tuple[int, int]]:
        """Return the sizes and times of the files that the daemon writes whatever it does: its log and its database."""
        written = (self.log, self.errors, self.database, self.database.with_name(f"{self.database.name}-wal"))
        return [(info.st_size, info.st_mtime_ns) for info in (path.stat() for path in written if path.exists())]

    # --- the replay and the sleep -------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Write the session as its agent would, and print how its context usage rises."""
        lines, threshold = self.records.count(b"\n"), self.settings.sleep.threshold
        self.output.say(f"An agent works: {lines} records, {len(self.records):,} bytes, in pieces that end anywhere.\n")
        for path, data in self.subagents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        pieces = [self.records[at : at + PIECE] for at in range(0, len(self.records), PIECE)]

        def full() -> float | None:
            self.show_gauge()
            ratio = self.gauge[-1]["ratio"] if self.gauge else 0.0
            return ratio if ratio >= threshold else None

        for piece in pieces:
            with self.transcript.open("ab") as file:
                file.write(piece)
            self.show_gauge()
            time.sleep(PAUSE_SECONDS)
        ratio = self.wait_for("the gauge to reach the threshold", full)
        self.output.say(
            f"\nAll {len(pieces)} pieces are written; a record whose rest was missing waited for it."
            f"\nThe context is {ratio:.0%} full, {threshold:.0%} is the threshold: time to sleep."
        )

    def show_gauge(self) -> None:
        """Print the context usage if it has changed."""
        row = self.session()
        if row is None or (self.gauge and self.gauge[-1]["tokens"] == row["tokens"]):
            return
        self.gauge.append({name: row[name] for name in _GAUGE})
        bar = ("#" * int(row["ratio"] * BAR_CELLS))[:BAR_CELLS].ljust(BAR_CELLS, ".")
        self.output.say(
            f"  [{bar}] {row['ratio']:6.1%}  {row['tokens']:8,} / {row['window']:,} tokens"
            f"  {row['gauge']}, by {row['gauge_from']}"
        )

    def await_sleep(self) -> None:
        """Wait until the session has slept, and its facts are there as well."""

        def find_end(kind: str) -> Row | None:
            row = next(iter(self.ask(reads.job_runs, kind=kind) or ()), None)
            return None if row is None or (row["state"] in WAITING and not row["error"]) else row

        self.run = self.wait_for("the session to sleep", lambda: find_end("sleep"))
        self.wait_for("the facts of the session", lambda: find_end("facts"))
        if self.run["state"] != "succeeded":
            why = self.run["error"] or self.run["why"] or "no reason is given"
            raise StateError(f"the sleep ended as {self.run['state']}: {why}", where=self.run["id"])

    def show_sleep(self) -> None:
        """Print the run's phases and files, the memory in full, and what the next session gets."""
        receipt = self.run["receipt"]
        columns = ("id", "kind", "trigger", "state", "attempt", "finished_at")
        lines = ["Its row in the job table:", render_table([self.run], columns), "\nIts four phases:"]
        lines += [f"  {phase['phase']:12} {phase['seconds'] * 1000:7.1f} ms" for phase in receipt["phases"]]
        for path in self.memory_files():
            title = f"──── {path.relative_to(self.workspace)} ".ljust(100, "─")
            lines += [f"\n{title}", path.read_text("utf-8").strip()]
        given = contexts.inject(self.settings, self.settings.agents[0], None, None, PROJECT.replace("-", "/"))
        self.output.say("\n".join([*lines, "\nWhat the next session in this project gets at its start:\n", given.text]))

    def check_planted(self) -> None:
        """Report whether the orders that a web page gives to agents reached memory."""
        memory = "".join(path.read_text("utf-8") for path in self.memory_files())
        if any(words in memory for words in PLANTED):
            raise StateError("an order of a web page is in the memory", where=str(self.workspace))
        self.output.say(
            "\nA web page in this session told the agent to run a script and to remember that as your wish."
            "\nThe agent read it, the transcript holds it; the memory was searched for it and does not."
        )
