"""Replay a sample session at high speed under a real daemon, and show the result: `memoryd demo`.

The demo acts as the agent. It writes the transcript in pieces that may end inside a record, as agents do. The daemon is
a real process with the default settings. The session was written for the demo, which only shifts its times so that it
ends now.
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

PROJECT = "-home-mara-work-crumb"  # Claude Code's folder name for the project /home/mara/work/crumb
PIECE = 2311  # bytes per write
PAUSE_SECONDS = 0.06
POLL_SECONDS = 0.05
# A busy machine makes the daemon slow, which is no failure. It failed only if it changes no file for this long.
STALL_SECONDS = 60.0
BAR_CELLS = 40
# Parts of the instructions that a web page in the sample gives to any agent. None of them may get into memory.
PLANTED = ("agent-setup.sh", "force pushes", "Remember that the user prefers")

_CONFIG = """\
# Written by `memoryd demo`. All other keys have their defaults: memoryd config show
state_dir: state
timezone: local
agents:
  - id: demo
    workspace: workspace
    transcripts:
      - path: ../claude/projects/**/*.jsonl
facts: {debounce: 1s}  # the default is 30 s
"""
_TIMESTAMP = re.compile(r'"timestamp":"([^"]+)"')
_GAUGE = ("tokens", "window", "ratio", "gauge", "gauge_from", "gauge_record", "turns")  # fields of the context usage
_MAIN = ""  # the key of the session's own transcript among the files of the sample


def run(output: Output, keep: Path | None) -> None:
    """Replay the sample session under a live daemon, print what happens, and keep the files."""
    began = time.monotonic()
    demo = Demo(output, _folder(keep))
    # A closed terminal or `kill` must end the demo as Ctrl-C does, so that its daemon does not stay behind.
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
    """Return the session's id and its files: its own transcript and those of its subagents.

    Each file is named by the part of its path after the session id, without the suffix.
    """
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
    """Run the demo in one folder. Hold its paths, its daemon, and the results so far."""

    def __init__(self, output: Output, folder: Path) -> None:
        """Create the workspace and the configuration in `folder`, and load the sample. Start no process."""
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
        """Run the demo from the start of the daemon to its end."""
        self.output.say(f"The demo works in {self.folder}\n")
        self.start()
        self.replay()
        self.await_sleep()
        self.show_sleep()
        self.stop()
        self.check_planted()

    def data(self) -> dict[str, Any]:
        """Return the paths, the context usage and the run, as the JSON output of the demo."""
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
        """Return the paths of the files as text, with commands that show them."""
        listed = [("memory", path) for path in self.memory_files()]
        listed += [("transcript", self.transcript), ("database", self.database), ("log", self.log)]
        if self.output.quiet:
            return "\n".join(str(path) for _, path in listed)
        commands = ("status", f"job show {self.run['id']}", f"session messages {self.session_id[:8]} --compressed")
        lines = [f"  {name:11} {path}" for name, path in listed]
        program = Path(sys.executable).with_name("memoryd")  # the `memoryd` of this installation, not one of PATH
        lines += [*(f"  {program} --config {self.config} {words}" for words in commands), f"  rm -r {self.folder}"]
        return "\n".join(["The daemon is stopped. These files stay until the last command below:", *lines])

    def memory_files(self) -> list[Path]:
        """List the daily files that exist, oldest first, and the core file."""
        return [*sorted(self.workspace.glob("memory/*.md")), *self.workspace.glob("MEMORY.md")]

    # --- the daemon ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the daemon from this source tree, and wait until it watches for changes."""
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

        how = self.wait_for("the daemon to start", read_watching)
        self.output.say(f"The daemon started in {time.monotonic() - began:.1f} s: pid {pid}, watching by {how}.")

    def stop(self) -> None:
        """Stop the daemon if it runs, and wait for its end.

        Raises:
            StateError: The daemon left no trace for `STALL_SECONDS` and was killed.
        """
        daemon, self.daemon = self.daemon, None
        if daemon is None:
            return
        daemon.terminate()
        try:
            self.wait_for("the daemon to stop", daemon.poll)
        finally:
            daemon.kill()  # no effect if the process has ended
            daemon.wait()

    def ask(self, function: Callable[..., T], *arguments: Any, **narrowed: Any) -> T | None:
        """Read from the database; return None as long as the daemon has not created its tables."""
        try:
            return reads.ask(self.database, function, *arguments, **narrowed)
        except StateError:
            return None

    def session(self) -> Row | None:
        """Return the status row of the sample session with its context usage, or None if it is not read yet."""
        rows = self.ask(reads.list_sessions, agent_id="demo", limit=None) or ()
        return next((session_row(row, None) for row in rows if row["id"] == self.session_id), None)

    def wait_for(self, what: str, probe: Callable[[], T | None]) -> T:
        """Call `probe` until its result is not None, and return the result.

        Raises:
            StateError: The daemon ended by itself, or changed no file for `STALL_SECONDS`.
        """
        idle, seen = 0.0, self._traces()
        while (found := probe()) is None:
            if self.daemon is not None and self.daemon.poll() is not None:
                said = self.errors.read_text("utf-8", "replace").strip().splitlines()
                ended = f"the daemon ended with status {self.daemon.returncode}" + (f": {said[-1]}" if said else "")
                raise StateError(ended, str(self.folder), f"see {self.errors.name} there")
            time.sleep(POLL_SECONDS)
            # Count pauses, not clock time. If the machine suspends the demo itself, the daemon is not to blame.
            idle, before, seen = idle + POLL_SECONDS, seen, self._traces()
            if seen != before:
                idle = 0.0
            elif idle > STALL_SECONDS:
                what = f"waited for {what}, but the daemon has done nothing for {STALL_SECONDS:g} s"
                raise StateError(what, str(self.folder), f"see {self.log}, then run the demo again")
        return found

    def _traces(self) -> list[tuple[int, int]]:
        """Return sizes and times of the log, the error output and the database.

        Any work of the daemon changes one of them.
        """
        written = (self.log, self.errors, self.database, self.database.with_name(f"{self.database.name}-wal"))
        return [(info.st_size, info.st_mtime_ns) for info in (path.stat() for path in written if path.exists())]

    # --- the replay and the sleep -------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Write the transcript in pieces, as the agent would, and print how the context usage rises."""
        lines, threshold = self.records.count(b"\n"), self.settings.sleep.threshold
        self.output.say(f"The demo writes a transcript: {lines} records, {len(self.records):,} bytes, in pieces.\n")
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
        ratio = self.wait_for("the context usage to reach the threshold", full)
        self.output.say(
            f"\nAll {len(pieces)} pieces are written. memoryd reads a record when it is complete."
            f"\nThe context window is {ratio:.0%} full. The threshold is {threshold:.0%}, so the session sleeps."
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
            f"  {row['gauge']} ({row['gauge_from']})"
        )

    def await_sleep(self) -> None:
        """Wait until the sleep and the facts job of the session have ended.

        Raises:
            StateError: The sleep did not succeed.
        """

        def find_end(kind: str) -> Row | None:
            row = next(iter(self.ask(reads.job_runs, kind=kind) or ()), None)
            return None if row is None or (row["state"] in WAITING and not row["error"]) else row

        self.run = self.wait_for("the session to sleep", lambda: find_end("sleep"))
        self.wait_for("the facts of the session", lambda: find_end("facts"))
        if self.run["state"] != "succeeded":
            why = self.run["error"] or self.run["why"] or "no reason is given"
            raise StateError(f"the sleep ended as {self.run['state']}: {why}", where=self.run["id"])

    def show_sleep(self) -> None:
        """Print the run's phases, the memory files in full, and the text that the next session gets."""
        receipt = self.run["receipt"]
        columns = ("id", "kind", "trigger", "state", "attempt", "finished_at")
        lines = ["The run in the job table:", render_table([self.run], columns), "\nIts four phases:"]
        lines += [f"  {phase['phase']:12} {phase['seconds'] * 1000:7.1f} ms" for phase in receipt["phases"]]
        for path in self.memory_files():
            title = f"──── {path.relative_to(self.workspace)} ".ljust(100, "─")
            lines += [f"\n{title}", path.read_text("utf-8").strip()]
        given = contexts.inject(self.settings, self.settings.agents[0], None, None, PROJECT.replace("-", "/"))
        self.output.say("\n".join([*lines, "\nWhat the next session in this project gets at its start:\n", given.text]))

    def check_planted(self) -> None:
        """Raise a StateError if instructions of the web page got into memory; otherwise print that none did."""
        memory = "".join(path.read_text("utf-8") for path in self.memory_files())
        if any(words in memory for words in PLANTED):
            raise StateError("an order of a web page is in the memory", where=str(self.workspace))
        self.output.say(
            "\nA web page in this session told the agent to run a script and to store that as your wish."
            "\nThe transcript holds this text. The demo searched the memory files: none of them holds it."
        )
