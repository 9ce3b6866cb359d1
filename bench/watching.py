"""Measure the cost of watching 1,000 sessions, and the delay until an appended record is in the database.

    python bench/watching.py

A real daemon watches the sessions. The script appends records one after the other, and a separate reader looks for each
row. It prints the median and the 99th percentile of the delay after `settle`, the CPU and the memory of the idle
daemon, and the time of `status --json`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.database.library import load_library

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS = 1000
RECORDS = 20
APPENDS = 200
SETTLE_MS = 200
IDLE_SECONDS = 30
STATUS_RUNS = 5
PATIENCE = 120
LATENCY_MAX_MS, IDLE_MAX_PERCENT, RSS_MAX_MB, STATUS_MAX_S = 100, 0.5, 80, 0.3

CONFIG = """\
state_dir: {folder}/state
agents:
  - id: bench
    workspace: {folder}/work
    transcripts:
      - path: {folder}/projects/*/*.jsonl
ingest: {{settle: {settle}ms}}
"""


def record(session: int, number: int) -> bytes:
    value = {
        "type": "user", "uuid": f"{session:08d}-0000-4000-8000-{number:012d}", "sessionId": f"{session:08d}",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"), "cwd": "/home/ann",
        "message": {"role": "user", "content": f"record {number} " + "of a session that goes on " * 20},
    }  # fmt: skip
    return json.dumps(value).encode() + b"\n"


def session(folder: Path, number: int) -> Path:
    return folder / "projects" / f"project-{number % 50}" / f"{number:08d}.jsonl"


def populate(folder: Path) -> None:
    (folder / "work").mkdir()
    for number in range(SESSIONS):
        path = session(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(record(number, one) for one in range(RECORDS)))
    (folder / "memoryd.yaml").write_text(CONFIG.format(folder=folder, settle=SETTLE_MS))


def memoryd(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "memoryd", "--config", str(folder / "memoryd.yaml"), *arguments]


@contextmanager
def daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(memoryd(folder, "run"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


class Reader:
    """Read the database in the way of any other program."""

    def __init__(self, folder: Path) -> None:
        path = folder / "state" / "memoryd.db"
        self._until(path.exists)
        self.connection: Any = load_library().connect(f"file:{path}?mode=ro", uri=True, timeout=10)

    def wait_for(self, turns: int) -> None:
        self._until(lambda: self._count() >= turns)

    def sees(self, record_id: str) -> bool:
        found = self.connection.execute("SELECT 1 FROM turn WHERE agent_id = 'bench' AND record_id = ?", (record_id,))
        return found.fetchone() is not None

    def _count(self) -> int:
        try:
            return int(self.connection.execute("SELECT count(*) FROM turn").fetchone()[0])
        except load_library().OperationalError:
            return 0

    def _until(self, holds: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                sys.exit("watching: the daemon does not get on")
            time.sleep(0.1)


def latencies(folder: Path, reader: Reader) -> list[float]:
    """Return the milliseconds from each append to its row, without `settle`."""
    chance = random.Random(2)
    found = []
    for number in range(APPENDS):
        time.sleep(chance.uniform(0, 0.05))
        chosen = chance.randrange(SESSIONS)
        data = record(chosen, RECORDS + number)
        record_id = json.loads(data)["uuid"]
        with session(folder, chosen).open("ab") as file:
            file.write(data)
        begun = time.perf_counter()
        while not reader.sees(record_id):
            time.sleep(0.001)
        found.append((time.perf_counter() - begun) * 1000 - SETTLE_MS)
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def idle_percent(pid: int) -> float:
    before = cpu_seconds(pid)
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / IDLE_SECONDS * 100


def status_seconds(folder: Path) -> float:
    found = []
    for _ in range(STATUS_RUNS):
        begun = time.perf_counter()
        subprocess.run(memoryd(folder, "--json", "status"), check=True, capture_output=True)
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def main() -> int:
    if not Path("/proc/self/stat").exists():
        print("watching: skipped, the figures are read from /proc")
        return 0
    with tempfile.TemporaryDirectory(prefix="watching-") as name:
        folder = Path(name)
        populate(folder)
        with daemon(folder) as process:
            reader = Reader(folder)
            reader.wait_for(SESSIONS * RECORDS)
            time.sleep(5)
            found = sorted(latencies(folder, reader))
            median, worst = statistics.median(found), found[int(len(found) * 0.99)]
            time.sleep(5)
            idle, rss = idle_percent(process.pid), rss_mb(process.pid)
            status = status_seconds(folder)
    print(f"watching: {SESSIONS} sessions; append to visible beyond settle: p50 {median:.0f} ms, p99 {worst:.0f} ms")
    print(f"watching: idle {idle:.2f} % of a core over {IDLE_SECONDS} s, {rss:.0f} MB; status --json {status:.2f} s")
    print(f"watching: at most {LATENCY_MAX_MS} ms (p50), {IDLE_MAX_PERCENT} %, {RSS_MAX_MB} MB, {STATUS_MAX_S} s")
    fine = median <= LATENCY_MAX_MS and idle <= IDLE_MAX_PERCENT and rss <= RSS_MAX_MB and status <= STATUS_MAX_S
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
