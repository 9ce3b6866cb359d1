"""Measure how long an agent waits for a hook, with and without a daemon, compared with a process that does nothing.

usage: bench/hooks.py
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from memoryd.requests.daemon_client import SOCKET, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES = 40
LIMIT_MS = 60.0
PAYLOAD = {"transcript_path": "/t.jsonl", "cwd": "/p", "source": "startup", "prompt": "How did the kumquat orchard do?"}


def milliseconds(command: list[str]) -> tuple[float, bytes]:
    """Return the time of one run of a command in milliseconds, and its output. The run uses a new session."""
    payload = json.dumps(PAYLOAD | {"session_id": uuid4().hex}).encode()
    started = time.perf_counter()
    done = subprocess.run(command, input=payload, capture_output=True, check=True)
    return (time.perf_counter() - started) * 1000, done.stdout


@contextlib.contextmanager
def daemon(config: Path, state: Path) -> Iterator[None]:
    """Run a daemon that answers."""
    process = subprocess.Popen([sys.executable, "-m", "memoryd", "--config", config, "run", "--quiet"])
    try:
        while ask(state, "ping") is None:
            if process.poll() is not None:
                raise SystemExit("the daemon did not start")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def measured(name: str, hook: list[str]) -> float:
    """Print the medians of the hook and of the empty process. They run in turns, under the same load."""
    milliseconds(hook)  # the daemon starts its worker once
    pairs = [(milliseconds(hook), milliseconds([sys.executable, "-I", "-c", "pass"])) for _ in range(TIMES)]
    ours, nothing = (statistics.median(pair[side][0] for pair in pairs) for side in (0, 1))
    size = len(pairs[0][0][1])
    print(
        f"{name:28} {ours:6.1f} ms, python -c pass {nothing:6.1f} ms, ratio {ours / nothing:4.1f}; {size:,} bytes said"
    )
    return ours


def main() -> int:
    """Measure all events of one tool."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        workspace, state = root / "workspace", root / "state"
        workspace.mkdir()
        (workspace / "MEMORY.md").write_text(
            "# Memory\n\n" + "- Orders stay in PostgreSQL 16.\n" * 200, encoding="utf-8"
        )
        (workspace / "memory").mkdir()
        (workspace / "memory" / "2026-01-05.md").write_text("The kumquat orchard did poorly.\n", encoding="utf-8")
        config = root / "memoryd.yaml"
        config.write_text(json.dumps({"state_dir": str(state), "agents": [{"id": "a", "workspace": str(workspace)}]}))
        command = [sys.executable, "-I", "-m", "memoryd", "hook", "claude-code"]
        options = ["--socket", str(state / SOCKET), "--config", str(config)]
        slowest = measured("without a daemon", [*command, "session-start", *options])
        with daemon(config, state):
            for event in ("session-start", "prompt", "pre-compact", "session-end"):
                slowest = max(slowest, measured(event, [*command, event, *options]))
    load = os.getloadavg()[0]
    print(f"limit {LIMIT_MS:g} ms; load {load:.1f} on {os.cpu_count()} cores")
    return int(slowest > LIMIT_MS and load < 1)


if __name__ == "__main__":
    sys.exit(main())
