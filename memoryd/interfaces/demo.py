"""`memoryd demo`: a sample session, replayed at speed under a real daemon, and what becomes of it.

Here the demo plays the agent: it writes the transcript, in pieces that end anywhere, as agents do. Everything else is
the daemon of every day, in a process of its own, with the default settings. The session was written for this purpose;
only its times are moved, so that it ends now.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import memoryd
from memoryd import config
from memoryd.database import reads
from memoryd.errors import ConfigError, StateError
from memoryd.files.log import log_path
from memoryd.interfaces.output import Output, table
from memoryd.interfaces.status import status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from memoryd.config import Settings
    from memoryd.database.reads import Row

T = TypeVar("T")

AGENT = "demo"
PROJECT = "-home-mara-work-crumb"  # how Claude Code names the folder of a project in /home/mara/work/crumb
PIECES = (2311, 97, 5003, 1, 9001, 433, 3007)  # bytes written at a time
PAUSE_SECONDS = 0.06
POLL_SECONDS = 0.05
DEADLINE_SECONDS = 27.0  # for all of it together; it takes about seven
STOP_SECONDS = 20.0  # what the daemon is allowed
BAR_CELLS = 40
SHOWN_MESSAGES = 5
SHOWN_CHARACTERS = 110
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
"""
_TIMESTAMP = re.compile(r'"timestamp":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Stage:
    """The scratch folder."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "memoryd.yaml"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def sessions(self) -> Path:
        return self.folder / "claude" / "projects" / PROJECT

    @property
    def daemon_errors(self) -> Path:
        return self.folder / "daemon.stderr"

    def memory_files(self) -> list[Path]:
        """List the daily files, the oldest first, and the core file, as far as there are any."""
        core = self.workspace / "MEMORY.md"
        return [*sorted((self.workspace / "memory").glob("*.md")), *([core] if core.exists() else [])]


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample session as bytes of files, by their place below the project's folder."""

    session_id: str
    main: bytes
    subagents: dict[str, bytes]
    farewell: bytes  # the last line, said after the sleep


class Daemon:
    """A daemon in a process of its own, running this very package."""

    def __init__(self, stage: Stage) -> None:
        root = str(Path(memoryd.__file__).resolve().parent.parent)
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        command = [sys.executable, "-P", "-m", "memoryd", "--config", str(stage.config), "run"]
        nothing, env = subprocess.DEVNULL, os.environ | {"PYTHONPATH": path}
        self.stage = stage
        with stage.daemon_errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=errors, env=env)

    def check(self) -> None:
        """Raise StateError where it has ended by itself."""
        if self.process.poll() is None:
            return
        said = self.stage.daemon_errors.read_text("utf-8", "replace").strip().splitlines()
        raise StateError(
            f"the daemon ended with status {self.process.returncode}" + (f": {said[-1]}" if said else ""),
            where=str(self.stage.folder),
            hint=f"see {self.stage.daemon_errors.name} there",
        )

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise StateError(f"the daemon had not stopped after {STOP_SECONDS:g} s and was killed") from None


def run(output: Output, keep: Path | None) -> None:
    """Replay the sample session under a live daemon, print what happens, and leave the files."""
    began = time.monotonic()
    stage = _set_up(keep)
    show = Show(output, stage, config.load(stage.config), _sample(datetime.now(UTC)), began + DEADLINE_SECONDS)
    try:
        with _signals_interrupt():
            show.play()
    finally:
        show.stop()
    seconds = round(time.monotonic() - began, 1)
    output.say(f"\nDone in {seconds:g} s.")
    output.result(show.data() | {"seconds": seconds}, _places(show))


def _set_up(keep: Path | None) -> Stage:
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="memoryd-demo-"))
    else:
        folder = keep.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError("the folder is not empty", str(folder), "name a new one")
    stage = Stage(folder)
    stage.workspace.mkdir()
    stage.sessions.mkdir(parents=True)
    stage.config.write_text(_CONFIG, "utf-8")
    return stage


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """A closed terminal or a `kill` ends the demo as Ctrl-C does, so that its daemon never outlives it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- the sample -------------------------------------------------------------------------------------------------------


def _sample(now: datetime) -> Sample:
    text = resources.files("memoryd.interfaces").joinpath("demo_session.jsonl").read_text("utf-8")
    by = now - max(datetime.fromisoformat(stamp) for stamp in _TIMESTAMP.findall(text))
    lines = _TIMESTAMP.sub(lambda found: f'"timestamp":"{_moved(found[1], by)}"', text).splitlines(keepends=True)
    main: list[str] = []
    subagents: dict[str, bytes] = {}
    session_id = ""
    for line in lines:
        record = json.loads(line)
        session_id = record.get("sessionId", session_id)
        if record.get("isSidechain"):
            name = f"{session_id}/subagents/agent-{record['agentId']}.jsonl"
            subagents[name] = subagents.get(name, b"") + line.encode()
        else:
            main.append(line)
    return Sample(session_id, "".join(main[:-1]).encode(), subagents, main[-1].encode())


def _moved(stamp: str, by: timedelta) -> str:
    moved = datetime.fromisoformat(stamp) + by
    return moved.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _pieces(data: bytes) -> Iterator[bytes]:
    at = 0
    for size in cycle(PIECES):
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size


# --- the show ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Show:
    """What is played, and what was seen."""

    output: Output
    stage: Stage
    settings: Settings
    sample: Sample
    until: float  # on the monotonic clock
    daemon: Daemon | None = None
    gauge: list[Row] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    run: Row = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)  # before the restart and after it
    runs: int = 0

    def play(self) -> None:
        """Play the whole of it."""
        self.output.say(f"Everything happens in {self.stage.folder}\n")
        self.start("The daemon")
        self.replay()
        self.await_sleep()
        self.show_sleep()
        self.show_files()
        self.show_compressed()
        self.restart()
        self.check_planted()

    def data(self) -> dict[str, Any]:
        """Give what programs want to know."""
        return {
            "folder": str(self.stage.folder),
            "config": str(self.stage.config),
            "transcript": str(self.transcript),
            "files": [str(path) for path in self.stage.memory_files()],
            "database": str(self.database),
            "log": str(log_path(self.settings.state_dir)),
            "session": self.sample.session_id,
            "gauge": self.gauge,
            "run": self.run,
            "restart": {"turns_before": self.turns[0], "turns_after": self.turns[-1], "runs": self.runs},
        }

    @property
    def transcript(self) -> Path:
        return self.stage.sessions / f"{self.sample.session_id}.jsonl"

    @property
    def database(self) -> Path:
        return self.settings.state_dir / "memoryd.db"

    def start(self, name: str) -> None:
        """Start the daemon and wait until it watches."""
        began = time.monotonic()
        self.daemon = Daemon(self.stage)
        pid = self.daemon.process.pid
        watching = self.wait_for("the daemon to be up", lambda: self._watching(pid))
        self.output.say(f"{name} is up after {time.monotonic() - began:.1f} s: pid {pid}, watching by {watching}.")

    def stop(self) -> None:
        """Stop the daemon, if one runs."""
        daemon, self.daemon = self.daemon, None
        if daemon is not None:
            daemon.stop()

    def check(self) -> None:
        """Raise StateError where the daemon has ended by itself."""
        if self.daemon is not None:
            self.daemon.check()

    def _watching(self, pid: int) -> str | None:
        if not self.database.exists():
            return None
        data = self.look()
        return data["watching"] if data["daemon"] and data["daemon"]["pid"] == pid else None

    def look(self) -> dict[str, Any]:
        """Ask as `memoryd status` does; before the first start has made the tables there is nothing to see."""
        try:
            with reads.open_reader(self.database) as reader:
                return status(self.settings, reader, everything=True)
        except StateError:
            self.check()
            return {"daemon": None, "agents": []}

    def session(self) -> Row | None:
        """Find the row of the sample session in the status."""
        sessions = [one for agent in self.look()["agents"] for one in agent["sessions"]]
        return next((one for one in sessions if one["id"] == self.sample.session_id), None)

    def wait_for(self, what: str, probe: Callable[[], T | None]) -> T:
        """Ask until there is an answer."""
        while (found := probe()) is None:
            self.check()
            if time.monotonic() > self.until:
                hint = f"see {log_path(self.settings.state_dir)}"
                raise StateError(f"waited in vain for {what}", str(self.stage.folder), hint)
            time.sleep(POLL_SECONDS)
        return found

    # --- the replay ---------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Write the session as its agent would, and show the gauge as it climbs."""
        lines = self.sample.main.count(b"\n")
        self.output.say(
            f"An agent works: {lines} records, {len(self.sample.main):,} bytes, in pieces that end anywhere.\n"
        )
        for name, data in self.sample.subagents.items():
            path = self.stage.sessions / name
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
        count = torn = 0
        with self.transcript.open("ab", buffering=0) as file:
            for piece in _pieces(self.sample.main):
                file.write(piece)
                count += 1
                torn += not piece.endswith(b"\n")
                self.show_gauge()
                time.sleep(PAUSE_SECONDS)
        self.wait_for("the gauge to reach the threshold", self._full)
        self.output.say(
            f"\nAll {count} pieces are written; {torn} of them ended inside a record, which waited for its rest.\n"
            f"The context is {self.gauge[-1]['ratio']:.0%} full, {self.settings.sleep.threshold:.0%} is the threshold:"
            " time to sleep."
        )

    def _full(self) -> bool | None:
        self.show_gauge()
        return bool(self.gauge and self.gauge[-1]["ratio"] >= self.settings.sleep.threshold) or None

    def show_gauge(self) -> None:
        """Print the gauge where it has moved."""
        row = self.session()
        self.check()
        if row is None or (self.gauge and self.gauge[-1]["tokens"] == row["tokens"]):
            return
        self.gauge.append(
            {key: row[key] for key in ("tokens", "window", "ratio", "gauge", "gauge_from", "gauge_record", "turns")}
        )
        self.output.say(_gauge_line(self.gauge[-1], self.settings.sleep.threshold))

    # --- the sleep ----------------------------------------------------------------------------------------------------

    def await_sleep(self) -> None:
        """Wait until the session has slept."""
        self.run = self.wait_for("the session to sleep", self._ended_run)
        if self.run["state"] != "succeeded":
            why = self.run["error"] or self.run["why"] or "no reason is given"
            raise StateError(f"the sleep ended as {self.run['state']}: {why}", where=self.run["id"])

    def _ended_run(self) -> Row | None:
        row = next(iter(self._runs()), None)
        if row is None:
            return None
        if row["state"] not in self.states:
            self.states.append(row["state"])
            self.output.say(f"  {row['id']} {row['state']}")
        waits = row["state"] in {"queued", "running", "interrupted"} and not row["error"]
        return None if waits else row

    def _runs(self) -> list[Row]:
        with reads.open_reader(self.database) as reader:
            return reads.job_runs(reader, kind="sleep")

    def show_sleep(self) -> None:
        """Print the run's phases, files, and its row of the job table."""
        receipt = self.run["receipt"]
        self.output.say("\nIts four phases:")
        for phase in receipt["phases"]:
            self.output.say(f"  {phase['phase']:12} {phase['seconds'] * 1000:7.1f} ms")
        self.output.say("\nWhat it changed:")
        for file in receipt.get("files", ()):
            self.output.say(f"  {file['path']}")
        columns = ("id", "kind", "trigger", "state", "attempt", "finished_at")
        self.output.say(f"\nIts row in the job table:\n{table([self.run], columns)}")

    def show_files(self) -> None:
        """Print the memory in full."""
        for path in self.stage.memory_files():
            name = str(path.relative_to(self.stage.workspace))
            self.output.say(f"\n{_ruled(name)}\n{path.read_text('utf-8').strip()}")
        self.output.say(_ruled(""))

    def show_compressed(self) -> None:
        """Print how the compressed session begins."""
        with reads.open_reader(self.database) as reader:
            messages = reads.compressed(reader, self.sample.session_id)
        made = self.run["receipt"]["summarize"]
        self.output.say(
            f"\nThe session in short, for an agent to go on with: {made['messages']} messages of"
            f" {made['live_turns']}, {made['tokens']:,} tokens of {made['budget']:,} allowed. It begins:"
        )
        for message in messages[:SHOWN_MESSAGES]:
            line = " ".join(message["text"].split())
            cut = f"{line[:SHOWN_CHARACTERS]} …" if len(line) > SHOWN_CHARACTERS else line
            self.output.say(f"  {message['role']:9} {cut}")

    # --- the restart --------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Stop the daemon in the middle of a record and start it again: nothing is read or slept twice."""
        before = self._memory()
        row = self.session()
        self.turns.append(row["turns"] if row else 0)
        half = len(self.sample.farewell) // 2
        self._append(self.sample.farewell[:half])
        self.stop()
        self.output.say("\nThe daemon was stopped while its agent wrote; half a record lies there.")
        self.start("A second one")
        self._append(self.sample.farewell[half:])
        self.turns.append(self.wait_for("the rest of the record to be read", self._grown))
        self.stop()
        self.runs = len(self._runs())
        if self.turns[1] != self.turns[0] + 1 or self.runs != 1 or self._memory() != before:
            raise StateError("after the restart something was read or slept twice", where=str(self.stage.folder))
        self.output.say(
            f"It read the whole record once and nothing else again: {self.turns[0]} turns before, {self.turns[1]} now."
            f"\nIt did not sleep on the same turns again: {self.runs} run, and the memory is the same to the byte."
        )

    def _append(self, data: bytes) -> None:
        with self.transcript.open("ab", buffering=0) as file:
            file.write(data)

    def _grown(self) -> int | None:
        row = self.session()
        return int(row["turns"]) if row and row["turns"] > self.turns[0] else None

    def _memory(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.stage.memory_files()}

    def check_planted(self) -> None:
        """Say what became of the instructions that a web page in the session gives to agents."""
        memory = b"".join(self._memory().values()).decode()
        if any(words in memory for words in PLANTED):
            raise StateError("what a web page told the agent to do is in the memory", where=str(self.stage.workspace))
        self.output.say(
            "\nA web page in this session told the agent to run a script and to remember that as your wish."
            "\nThe agent read it, the transcript holds it; the memory was searched for it and does not."
        )


def _gauge_line(row: Row, threshold: float) -> str:
    filled = min(BAR_CELLS, int(row["ratio"] * BAR_CELLS))
    cells = ["#"] * filled + ["."] * (BAR_CELLS - filled)
    cells[int(threshold * BAR_CELLS)] = "|" if filled <= threshold * BAR_CELLS else "+"
    record = f"record {row['gauge_record'][:8]}" if row["gauge_record"] else row["gauge_from"]
    return (
        f"  [{''.join(cells)}] {row['ratio']:6.1%}  {row['tokens']:8,} / {row['window']:,} tokens"
        f"  {row['gauge']}, by {record}"
    )


def _ruled(name: str) -> str:
    return f"──── {name} ".ljust(100, "─") if name else "─" * 100


def _places(show: Show) -> str:
    memories = [("memory", path) for path in show.stage.memory_files()]
    places = (
        *memories,
        ("transcript", show.transcript),
        ("database", show.database),
        ("log", log_path(show.settings.state_dir)),
    )
    if show.output.quiet:
        return "\n".join(str(path) for _, path in places)
    memoryd_here = f"memoryd --config {show.stage.config}"
    commands = ("status", f"job show {show.run['id']}", f"session messages {show.sample.session_id[:8]} --compressed")
    listed = [f"  {name:11} {path}" for name, path in places] + [f"  {memoryd_here} {words}" for words in commands]
    return "Nothing runs any more; all of it is left to look at:\n" + "\n".join(listed)
