"""Measure how fast memoryd scans texts for secrets, compared with `json.loads` on the lines of these texts.

    python bench/secret_scanning.py TRANSCRIPTS_FOLDER

The texts are those of the turns that memoryd reads. Both run on one core in one process, in turns. The figure is the
median of five, in CPU time of the process, so that it holds on a busy machine; for the worker it is wall-clock time.
The script also scans hostile texts of one megabyte each.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path, PurePosixPath

from memoryd.scrub import scan as rules
from memoryd.scrub.policy import Policy
from memoryd.transcripts.format import Identity
from memoryd.transcripts.lines import Pass, cut
from memoryd.transcripts.registry import by_name, detect
from memoryd.worker.client import Worker
from memoryd.worker.scanner import KnownFormats, cache_folder

REPEATS = 5
SPEED_MIN = 35.0  # MB/s
HOSTILE_MAX = 1.5  # seconds per MB
BATCH = 4_000_000
HOSTILE = {
    "names": "password=" * 111_111,
    "tags": "<private>" * 111_111,
    "urls": "://a:b:c" * 125_000,
    "at signs": "://" + "a:b@" * 250_000,
    "base64": "QUFB" * 250_000,
    "one word": "a" * 1_000_000,
    "escapes": "\\u0041" * 166_666,
    "percent": "%41" * 333_333,
    "colours": "\x1b[0m" * 250_000,
    "quotes": 'token="' * 142_857,
    "keys": "-----BEGIN PRIVATE KEY-----" * 37_000,
    "headers": "Authorization: Bearer " * 45_454,
    "sentences": "my password is the password is " * 32_258,
    "prefixes": "sk-ant-ghp_xoxb-" * 62_500,
    "names in a row": "pwd" * 333_333,
    "names of other scripts": "密码" * 166_666,
    "names and dashes": "key-" * 250_000,
    "users": " -u a:b" * 142_857,
    "heads of columns": "password,password\n" * 55_555,
    "statements": "insert into a(password" * 45_454,
}


def texts_of(folder: Path) -> tuple[list[str], list[bytes]]:
    """Return the text of every turn, and the lines of the transcripts."""
    texts: list[str] = []
    lines: list[bytes] = []
    for path in sorted(folder.rglob("*.jsonl")):
        data = path.read_bytes()
        records = list(cut(data + b"\n", 0, last=True).records)
        lines += [record.data for record in records]
        values = [record.value for record in records]
        reader = detect(values, PurePosixPath(path))
        if reader is None or not hasattr(reader, "turns"):
            reader = by_name("messages")
        meetings, identity = Pass("bench"), Identity("bench")
        for record in records:
            texts += [turn.text for turn in reader.turns(record, identity, meetings).turns if turn.text]
    return texts, lines


def batches(texts: list[str]) -> list[list[str]]:
    made: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size > BATCH:
            made.append([])
            size = 0
        made[-1].append(text)
        size += len(text)
    return made


def parse(lines: list[bytes]) -> None:
    for line in lines:
        with contextlib.suppress(ValueError):
            json.loads(line)


def seconds(work: object, *arguments: object) -> float:
    assert callable(work)
    gc.collect()
    begun = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begun


def own_seconds(work: object, *arguments: object) -> float:
    """Return the CPU time of this process, which also holds on a busy machine."""
    assert callable(work)
    begun = time.process_time()
    work(*arguments)
    return time.process_time() - begun


def main(arguments: list[str]) -> int:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    texts, lines = texts_of(Path(arguments[0]))
    texts *= max(1, int(8e6 / max(1, sum(map(len, texts)))))
    size = sum(len(text.encode()) for text in texts) / 1e6
    line_size = sum(map(len, lines)) / 1e6
    policy = Policy()
    with tempfile.TemporaryDirectory() as state, Worker(Path(state)) as worker:
        begun = time.perf_counter()
        known = KnownFormats(cache_folder(Path(state))).find
        print(f"secret scanning: rules loaded in {time.perf_counter() - begun:.2f} s")
        work = batches(texts)

        def scan() -> None:
            for batch in work:
                rules.scan(batch, policy, known)

        scan()
        worker.scan([""], policy)
        runs = [
            (own_seconds(parse, lines), own_seconds(scan), seconds(worker.scan, texts, policy)) for _ in range(REPEATS)
        ]
        bare, plain, piped = (statistics.median(values) for values in zip(*runs, strict=True))
        speed = size / plain
        speeds = f"json.loads {line_size / bare:.0f} MB/s, scan {speed:.1f} MB/s (at least {SPEED_MIN:g})"
        print(f"secret scanning: {size:.1f} MB of text in {len(texts)} turns; {speeds}")
        print(f"secret scanning: through the worker's pipes {size / piped:.1f} MB/s")
        found = Counter(finding.rule for each in rules.scan(texts, policy, known) for finding in each.findings)
        print(f"secret scanning: {sum(found.values())} findings, {found.most_common(12)}")
        slowest = 0.0
        for name, text in HOSTILE.items():
            took = own_seconds(rules.scan, [text], policy, known) / (len(text.encode()) / 1e6)
            slowest = max(slowest, took)
            print(f"secret scanning: hostile {name}: {took:.2f} s/MB")
    return int(speed < SPEED_MIN or slowest > HOSTILE_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
