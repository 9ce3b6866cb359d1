"""Measure how fast memoryd reads transcripts, compared with `json.loads` on the same lines, and its peak of memory.

    python bench/backfill.py TRANSCRIPTS_FOLDER

Both run in one process, in turns. Reading includes the database and redaction; the scanner of secrets is a second
process whose rules are already loaded. The figure is the median of five. The peak of memory is that of a process that
reads the folder once, and then ten copies of it with other record ids.

    python bench/backfill.py --formats TRANSCRIPTS_FOLDER

prints one row for each subfolder, which holds the files of one agent program. Decoding is then `json.loads` of each
line or file and of each JSON column of a database, and UTF-8 decoding of other text.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.clock import Clock
from memoryd.config import Agent, Settings, TranscriptSource
from memoryd.database import schema, sqlite
from memoryd.files.log import get_logger
from memoryd.files.ranges import OpenFiles
from memoryd.reading.ingest import Ingest
from memoryd.reading.scrubbing import Scrubber
from memoryd.scrub.policy import Policy
from memoryd.worker.client import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

REPEATS = 5
COPIES = 10
RATIO_MIN = 0.25
PEAK_MAX_MB = 150
SUFFIXES = frozenset({".jsonl", ".json", ".db", ".md"})
_UUID = re.compile(rb'("(?:uuid|parentUuid|logicalParentUuid|leafUuid)":")([0-9a-f]{8})')


def parse(files: list[Path]) -> None:
    for path in files:
        with path.open("rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    json.loads(line)


def decode(files: list[Path]) -> None:
    """Decode the files of a program: lines, whole files, a database."""
    for path in files:
        if path.suffix == ".jsonl":
            parse([path])
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".db":
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                for table in ("message", "part"):
                    for (data,) in connection.execute(f"SELECT data FROM {table}"):  # noqa: S608
                        json.loads(data)
        else:
            path.read_bytes().decode()


def compare_formats(folder: Path) -> None:
    """Print how fast memoryd reads the files of each program."""
    with scanning() as scanner:
        for own in sorted(path for path in folder.iterdir() if path.is_dir()):
            files = sorted(path for path in own.rglob("*") if path.suffix in SUFFIXES)
            size = sum(path.stat().st_size for path in files) / 1e6
            pairs = [(seconds(decode, files), seconds(ingest, own, scanner, "**/*")) for _ in range(REPEATS)]
            bare, whole = (size / statistics.median(values) for values in zip(*pairs, strict=True))
            turns = ingest(own, scanner, "**/*")
            speeds = f"{bare:.0f} | {whole:.1f} | {whole / bare:.3f}"
            print(f"| {own.name} | {size:.2f} | {len(files)} | {turns} | {speeds} |", flush=True)


def ingest(folder: Path, scanner: Worker, pattern: str = "**/*.jsonl") -> int:
    """Read a folder into a new database, as if for the first time; return the number of turns."""
    with tempfile.TemporaryDirectory() as state:
        workspace = Path(state, "work")
        workspace.mkdir()
        source = TranscriptSource(path="", root=folder, pattern=pattern)
        settings = Settings(
            state_dir=Path(state), agents=(Agent(id="bench", workspace=workspace, transcripts=(source,)),)
        )
        clock, files = Clock(), OpenFiles()
        engine = schema.open_database(Path(state, "memoryd.db"), now=clock.text()).engine
        log = get_logger("memoryd.bench")
        reader = Ingest(engine, settings, clock, log, files, Scrubber(scanner, log))
        reader.scan()
        while reader.again:
            paths = list(reader.again)
            reader.again.clear()
            for path in paths:
                reader.hint(path)
            reader.flush()
        with sqlite.begin_read(engine) as connection:
            turns = int(connection.exec_driver_sql("SELECT count(*) FROM turn").scalar_one())
        files.close()
        engine.dispose()
    return turns


@contextlib.contextmanager
def scanning() -> Iterator[Worker]:
    """Start a scanner and load its rules."""
    with tempfile.TemporaryDirectory() as state, Worker(Path(state)) as scanner:
        scanner.scan(["to be ready"], Policy())
        yield scanner


def seconds(work: object, *arguments: object) -> float:
    assert callable(work)
    gc.collect()
    begun = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begun


def multiply(folder: Path, target: Path) -> None:
    """Copy the folder ten times, with other record ids in each copy."""
    for copy in range(1, COPIES + 1):

        def renamed(found: re.Match[bytes], mark: int = copy) -> bytes:
            return found[1] + b"%08x" % (int(found[2], 16) ^ mark)

        for path in sorted(folder.rglob("*.jsonl")):
            copied = target / str(copy) / path.relative_to(folder)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(_UUID.sub(renamed, path.read_bytes()))


def peak(folder: Path) -> tuple[float, int]:
    """Return the peak memory in MB of a process that reads the folder, and the number of turns."""
    done = subprocess.run([sys.executable, __file__, "--peak", folder], check=True, capture_output=True, text=True)
    megabytes, turns = done.stdout.split()
    return float(megabytes), int(turns)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--peak"]:
        with scanning() as scanner:
            turns = ingest(Path(arguments[1]), scanner)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, turns)
        return 0
    if arguments[:1] == ["--formats"]:
        compare_formats(Path(arguments[1]))
        return 0
    folder = Path(arguments[0])
    files = sorted(folder.rglob("*.jsonl"))
    size = sum(path.stat().st_size for path in files) / 1e6
    parse(files)
    with scanning() as scanner:
        pairs = [(seconds(parse, files), seconds(ingest, folder, scanner)) for _ in range(REPEATS)]
    ratio = statistics.median(bare / whole for bare, whole in pairs)
    bare, whole = (statistics.median(values) for values in zip(*pairs, strict=True))
    speeds = f"json.loads {size / bare:.0f} MB/s, ingest {size / whole:.0f} MB/s"
    print(f"backfill: {size:.1f} MB in {len(files)} files; {speeds}")
    print(f"backfill: ingest at {ratio:.2f} of the speed of json.loads (at least {RATIO_MIN})")
    once = peak(folder)
    with tempfile.TemporaryDirectory() as target:
        multiply(folder, Path(target))
        often = peak(Path(target))
    for times, (megabytes, turns) in ((1, once), (COPIES, often)):
        print(f"backfill: peak {megabytes:.0f} MB for {turns} turns, the folder {times} times (at most {PEAK_MAX_MB})")
    return int(ratio < RATIO_MIN or max(once[0], often[0]) > PEAK_MAX_MB)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
