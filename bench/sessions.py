# ruff: noqa: E402
"""Measure sessions in NOW files: a rollover of a long one against reading it, and `status` of many.

usage: python bench/sessions.py [TURNS] [SESSIONS]

Prints seconds and ratios of one run: reading and parsing a NOW file of TURNS entries (5,000), its rollover with the
summary of its sleep, and `memoryd status --json` as a process with SESSIONS sessions (1,000).
"""

import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / "worlds")]

from scratch import Scratch, in_process, message

from memoryd.daemon.once import read_all, run_once
from memoryd.database import runs, sqlite
from memoryd.tiers import now
from memoryd.transcripts import now_file


def main(turns: int, sessions: int) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder) / "s", modes={"facts": "off", "rollover": "off"})
        path = scratch.workspace / ".continuum/memory" / f"NOW-{datetime.now(UTC):%Y-%m-%dT%H-%M}.md"
        path.parent.mkdir(parents=True)
        said = [
            now.render_entry("user" if n % 2 else "agent", f"Entry {n} of the mill: the wheel is repaired.")
            for n in range(turns)
        ]
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        header = now.render_header(now.NowHeader("sess_bench", at, at, 0))
        path.write_bytes(header + b"".join(said))
        later = datetime.now(UTC) + timedelta(seconds=5)
        with in_process(scratch, lambda: later) as app:
            begun = time.perf_counter()
            parsed = len(now_file.parse(path.read_bytes(), closed=True).entries)
            read_all(app)
            reading = time.perf_counter() - begun
            begun = time.perf_counter()
            run_once(app)
            sleeping = time.perf_counter() - begun
            row = {"id": runs.new_run_id(app.clock.now()), "kind": "rollover", "agent_id": "demo", "actor": "human"}
            row |= {"trigger": "manual", "created_at": app.clock.text(), "scheduled_for": app.clock.text()}
            with sqlite.begin_write(app.engine) as connection:
                runs.enqueue(connection, row | {"options": {"before": app.clock.text()}})
            begun = time.perf_counter()
            app.runner.run_next(only=row["id"])
            rolling = time.perf_counter() - begun
        assert now.is_cleared(now.parse(path.read_bytes()))
        print(f"{parsed} entries: read in {reading:.2f} s, slept over in {sleeping:.2f} s")
        print(f"rolled over in {rolling:.2f} s, {rolling / reading:.2f} times as long as reading")
        for number in range(sessions):
            scratch.append([message("user", f"Say {number}.", number)], f"one-{number}")
        with in_process(scratch, lambda: later) as app:
            read_all(app)
        begun = time.perf_counter()
        words = [sys.executable, "-m", "memoryd", "--config", str(scratch.config), "--json", "status"]
        done = subprocess.run(words, capture_output=True, check=True)
        print(f"status of {sessions} sessions: {time.perf_counter() - begun:.2f} s, {len(done.stdout):,} bytes")


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:3], *("5000", "1000")[len(sys.argv) - 1 :]]))
