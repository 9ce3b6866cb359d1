# ruff: noqa: E402, SLF001 - a tick is what the loop does
"""Measure every command and every tick of the daemon as the number of sessions grows.

usage: python bench/growth.py [SESSIONS ...]

Builds a state with each number of sessions (1,000, 4,000 and 16,000 by default), each with four turns, and prints a
table of milliseconds of CPU time. A command is a separate process; its figure is the least of three. A tick is one call
of the daemon's loop; its figure is the least of five. The last column is the growth from the first size to the last.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / "worlds")]

from scratch import Scratch, in_process, message

from memoryd.daemon.loop import Loop
from memoryd.daemon.once import read_all
from memoryd.database import query, sqlite
from memoryd.running import alarms as alarming
from memoryd.running import retention, rollover, sleeping

if TYPE_CHECKING:
    from collections.abc import Callable

    from memoryd.app import App

SIZES = (1000, 4000, 16_000)
COMMANDS = (
    "status", "status --all", "status --check", "doctor", "session list", "session messages one-00007",
    "session show one-00007", "search kumquat", "get session:one-00007", "context", "core list", "facts list", "audit",
    "job list", "verify", "recover", "validate", "logs", "eval", "backup {state}.tar.gz",
)  # fmt: skip
_RUNS = (  # one sleep of each session
    'INSERT INTO job_run (id, kind, agent_id, session_id, actor, "trigger", state, options, created_at, scheduled_for,'
    " started_at, finished_at, attempt, fence, cancel_requested, tokens_in, tokens_out, receipt)"
    " SELECT 'run-' || replace(id, 'one-', ''), 'sleep', agent_id, id, 'memoryd', 'threshold', 'succeeded', '{}',"
    " seen_at, seen_at, seen_at, seen_at, 1, 0, 0, 0, 0, '{\"turns\": 4}' FROM session"
)
SLACK = 1.5  # a figure of one run of a busy machine may be off by this much
WORDS = ("orchard", "kumquat", "ledger", "mill", "wheel", "harbour", "lantern", "quarry", "saddle", "thicket")


def build(scratch: Scratch, sessions: int) -> None:
    """Write transcripts, one for each minute; the newest is a few minutes old."""
    newest = datetime.now(UTC) - timedelta(minutes=5)
    for number in range(sessions):
        at = newest - timedelta(minutes=sessions - number)
        word = WORDS[number % len(WORDS)]
        scratch.append(
            [
                message("user", f"How is the {word} number {number} today?", at=at),
                message("assistant", f"The {word} {number} was repaired by the crew of shift {number % 97}.", at=at),
                message("user", f"We decided to keep the {word} {number} in the old place.", at=at),
                message("assistant", "Noted, it stays where it is.", at=at),
            ],
            f"one-{number:05}",
        )


def commands(scratch: Scratch) -> dict[str, float]:
    """Return the CPU milliseconds of each command."""
    found = {}
    for line in COMMANDS:
        words = line.format(state=scratch.state).split()
        command = [sys.executable, "-m", "memoryd", "--config", str(scratch.config), *words]
        least = float("inf")
        for _ in range(3):
            Path(f"{scratch.state}.tar.gz").unlink(missing_ok=True)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode > 1:
                sys.exit(f"{line}: {done.stderr.decode()}")
            least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        found[line.split(" {")[0]] = least * 1000
    return found


def ticks(scratch: Scratch, app: App) -> dict[str, float]:
    """Return the milliseconds of each task of the loop, without changes and after a message of one session."""
    loop = Loop(app, lambda _: None)
    numbers = count(1)

    def refresh() -> None:
        for agent in app.settings.agents:
            app.recall.indexer.refresh(agent)

    def read_message() -> None:
        at = datetime.now(UTC)
        path = scratch.append([message("user", f"One more time: {next(numbers)}.", at=at)], f"one-{sessions - 1:05}")
        app.ingest.hint(str(path))
        app.ingest.flush()

    sessions = len(list(scratch.sessions.iterdir()))
    work: dict[str, Callable[[], object]] = {
        "scan of all transcripts": app.ingest.scan,
        "first look at all sessions": loop._reconsider_all,
        "end of idle sessions": partial(sleeping.end_idle, app.engine, app.settings, app.clock),
        "a message": read_message,
        "sessions that changed": lambda: loop._consider(loop._find_changed_keys()),
        "index": refresh,
        "queue": lambda: (setattr(loop.queue, "at", 0), loop._launch(1)),
        "imports": loop.importer.tend,
        "schedules": loop._run_schedules,
        "look at MEMORY.md": loop._look_at_core,
        "alarms": partial(alarming.review, app.runner),
        "captures": lambda: loop.captures.write_all(app.engine, app.settings, app.clock),
        "rollovers": partial(rollover.consider_all, app.engine, app.settings, app.clock),
        "retention": lambda: retention.prune(
            app.engine, app.settings, app.clock, app.log, app.recall.indexer.drop_sessions
        ),
        "daily check and copy": lambda: app.keeper.keep(app.engine, app.settings, app.clock),
    }
    found = {}
    for name, chore in work.items():
        least = float("inf")
        for _ in range(1 if "daily" in name else 5):
            begun = time.process_time()
            chore()
            least = min(least, time.process_time() - begun)
        found[f"tick: {name}"] = least * 1000
    return found


def measure(sessions: int) -> dict[str, float]:
    """Return all figures of a state with that many sessions."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "s")
        build(scratch, sessions)
        begun = time.process_time()
        with in_process(scratch) as app:
            read_all(app)
            sqlite.write(app.engine, query.run, _RUNS)
            found = {"tick: first read": (time.process_time() - begun) * 1000}
            begun = time.process_time()
            for agent in app.settings.agents:
                app.recall.indexer.refresh(agent)
            found["tick: first index"] = (time.process_time() - begun) * 1000
            found |= ticks(scratch, app)
        return commands(scratch) | found


def main(sizes: list[int]) -> int:
    """Print the table; fail if a figure grows faster than the sessions."""
    columns = {}
    for size in sizes:
        columns[size] = measure(size)
        print(size, json.dumps({name: round(value, 1) for name, value in columns[size].items()}), flush=True)
    print("| what | " + " | ".join(f"{size:,}" for size in sizes) + " | growth |")
    print("|---" * (len(sizes) + 2) + "|")
    steep = []
    for name, first in columns[sizes[0]].items():
        row = [columns[size][name] for size in sizes]
        print(f"| {name} | " + " | ".join(f"{value:,.1f}" for value in row) + f" | {row[-1] / first:.1f} |")
        if row[-1] > SLACK * first * sizes[-1] / sizes[0]:
            steep.append(name)
    for name in steep:
        print(f"growth: {name} grows faster than the sessions")
    return int(bool(steep))


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or list(SIZES)))
