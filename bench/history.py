"""Measure an import of a long history: time, memory, disk, and how long a live session waits in the meantime.

    python bench/history.py TRANSCRIPTS_FOLDER [MEGABYTES]

The script copies the folder under other ids until the history has that size (1,000 MB by default). A daemon reads the
history while `memoryd import --search-only` waits, and a live transcript gets a record every two seconds. The peak of
memory is that of the daemon with all its child processes; shared pages count once (PSS). Linux only.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

MEGABYTES = 1000
PEAK_MAX_MB = 250
WAIT_MAX_SECONDS = 2.0
FIRST = "the live session begins"
_ID = re.compile(r"\b([0-9a-f]{8})(?=-[0-9a-f]{4}-[0-9a-f]{4}-)")


def copy_history(folder: Path, target: Path, size: int) -> int:
    """Copy transcripts under other ids, again and again, until they have `size` bytes; return their size."""
    done = 0
    files = sorted(folder.rglob("*.jsonl"))
    for mark in itertools.count(1):
        for path in files:
            if done >= size:
                return done

            def renamed(found: re.Match[str], mark: int = mark) -> str:
                return f"{int(found[1], 16) ^ mark:08x}"

            name = Path(str(mark), _ID.sub(renamed, str(path.relative_to(folder))))
            data = _ID.sub(renamed, path.read_bytes().decode("latin-1")).encode("latin-1")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)
            os.utime(target / name, (time.time() - 86400 * mark,) * 2)
            done += len(data)
    raise AssertionError


def memory(pid: int) -> list[float]:
    """Return the memory of a process and of each of its child processes, in MB."""
    found = []
    with suppress(OSError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        found.append(int(re.search(r"^Pss: +(\d+)", rollup, re.MULTILINE)[1]) / 1024)  # type: ignore[index]
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += memory(int(child))
    return found


def is_stored(database: Path, text: str) -> bool:
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT 1 FROM turn WHERE text = ?", (text,)).fetchone() is not None
    return False


class Live:
    """Write one record of a live session every two seconds, and measure how long each record waits."""

    def __init__(self, path: Path, database: Path) -> None:
        self.path, self.database = path, database
        self.waits: list[float] = []
        self.asked = ("", 0.0)
        self.count = 0
        self.is_quiet = False  # read once, so that the daemon's start is over

    def look(self) -> None:
        """Write the next record when the last one is stored and two seconds old."""
        text, since = self.asked
        now = time.monotonic()
        if not self.is_quiet:
            self.is_quiet = is_stored(self.database, FIRST)
        elif text and is_stored(self.database, text):
            self.waits.append(now - since)
            self.asked = ("", now)
        elif not text and now - since > 2:
            self.count += 1
            self.asked = (f"live record {self.count}", time.monotonic())
            with self.path.open("a") as file:
                file.write(json.dumps({"role": "user", "content": self.asked[0]}) + "\n")


def main(arguments: list[str]) -> int:
    megabytes = int(arguments[1]) if len(arguments) > 1 else MEGABYTES
    with tempfile.TemporaryDirectory(prefix="memoryd-history-") as scratch:
        place = Path(scratch)
        for name in ("history", "live", "work"):
            (place / name).mkdir()
        size = copy_history(Path(arguments[0]), place / "history", megabytes * 10**6)
        settings = {
            "state_dir": str(place / "state"),
            "agents": [
                {
                    "id": "bench",
                    "workspace": str(place / "work"),
                    "transcripts": [{"path": f"{place}/{name}/**/*.jsonl"} for name in ("history", "live")],
                }
            ],
        }
        (place / "memoryd.yaml").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "memoryd", "--config", str(place / "memoryd.yaml"), "--quiet"]
        live = Live(place / "live" / "live.jsonl", place / "state" / "memoryd.db")
        live.path.write_text(json.dumps({"role": "user", "content": FIRST}) + "\n")
        begun, peak = time.monotonic(), [0.0]
        with subprocess.Popen([*command, "run"], stderr=subprocess.DEVNULL) as daemon:
            while not (place / "state" / "memoryd.sock").exists():
                time.sleep(0.05)
            asked = [*command, "import", "--search-only"]
            with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as importing:
                while importing.poll() is None:
                    live.look()
                    peak = max(peak, memory(daemon.pid), key=sum)
                    time.sleep(0.05)
                assert importing.stdout is not None
                result = importing.stdout.read().strip()
            seconds = time.monotonic() - begun
            daemon.terminate()
        stored = sum(path.stat().st_size for path in (place / "state").glob("memoryd.db*"))
        indexed = sum(path.stat().st_size for path in (place / "state").glob("index.db*"))
    print(f"history: {result}")
    print(f"history: {size / 1e6:.0f} MB in {seconds:.0f} s, {size / 1e6 / seconds:.1f} MB/s")
    each = " + ".join(f"{one:.0f}" for one in peak)
    print(f"history: peak {sum(peak):.0f} MB of all processes together ({each}; at most {PEAK_MAX_MB})")
    print(f"history: {stored / size:.2f} bytes of database and {indexed / size:.2f} of index for a byte of transcript")
    worst = max(live.waits, default=0.0)
    middle = statistics.median(live.waits or [0.0])
    print(f"history: {len(live.waits)} live records, seen after {middle:.1f} s, at most {worst:.1f} s")
    return int(sum(peak) > PEAK_MAX_MB or worst > WAIT_MAX_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
