"""Measure the speed of search over 100,000 turns: indexing, questions, one changed file, and memory.

usage: bench/recall.py [--embeddings]

The texts are made of English words with natural frequencies (in the order of the embedding model's vocabulary, by
Zipf's law), so that questions hold common and rare words. One third of the turns is the user's, one the assistant's,
one tool output. With --embeddings, all turns except tool output also have a vector. These vectors are random, because a
model would take an hour, but the model of the extra `embeddings` embeds the questions.
"""

from __future__ import annotations

import lzma
import random
import resource
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import accumulate
from pathlib import Path
from statistics import quantiles
from typing import cast

from memoryd.config import Agent
from memoryd.database import schema, sqlite
from memoryd.database.reads import KeptReader
from memoryd.files.log import get_logger
from memoryd.finding.embedding import Embedder
from memoryd.finding.indexing import Indexer
from memoryd.finding.recall import Recall
from memoryd.index.database import Index
from memoryd.recall.words import STOP_WORDS
from memoryd.worker.client import Worker
from memoryd.worker.embedder import MODEL

NOW = "2026-01-01T00:00:00.000Z"
TURNS, A_SESSION = 100_000, 100
KINDS = (("user", "message", 30), ("assistant", "message", 80), ("tool", "tool_result", 120))  # words of each
QUESTIONS, CHANGES = 500, 20
SIZE = 384  # of a vector
VECTORS = 4096  # stored at once


class Speaker:
    """Make sentences of random words."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        packed = resources.files("memoryd.worker") / "vocabulary" / "bert-base-uncased.txt.xz"
        words = lzma.decompress(packed.read_bytes()).decode().split("\n")
        self.words = [word for word in words if word.isascii() and word.isalpha() and len(word) > 1]
        self.reach = list(accumulate(1 / rank for rank in range(1, len(self.words) + 1)))

    def say(self, count: int) -> str:
        """Return that many words."""
        ends = self.reach[-1]
        return " ".join(self.words[bisect(self.reach, self.random.random() * ends)] for _ in range(count))


def fill(path: Path, speaker: Speaker) -> float:
    """Store the turns; return the megabytes of their text."""
    engine = schema.open_database(path, now=NOW).engine
    size = 0
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES ('demo', '/w', 1, 0, ?)", (NOW,))
        for start in range(0, TURNS, A_SESSION):
            session = f"s{start // A_SESSION}"
            connection.exec_driver_sql(
                "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
                " gauge, counted_seq) VALUES (?, 'demo', ?, 'messages', 'ended', ?, ?, ?, ?, '{}', 0)",
                (session, session, NOW, NOW, A_SESSION, A_SESSION),
            )
            rows = []
            for seq in range(1, A_SESSION + 1):
                role, kind, words = KINDS[seq % len(KINDS)]
                text = speaker.say(words)
                size += len(text)
                rows.append((session, seq, f"{session}-{seq}", role, role, kind, text, NOW))
            connection.exec_driver_sql(
                "INSERT INTO turn (agent_id, session_id, seq, transcript_id, generation, record_key, part, role,"
                " origin, kind, text, at, sidechain, first_byte, last_byte, sha256)"
                " VALUES ('demo', ?, ?, 1, 1, ?, 0, ?, ?, ?, ?, ?, 0, 0, 0, x'')",
                rows,
            )
    engine.dispose()
    return size / 1e6


class AnyVector:
    """Give texts vectors without a meaning."""

    def __init__(self) -> None:
        self.random = random.Random(8)

    def embed(self, texts: list[str]) -> list[bytes | None]:
        """Return a vector for each text."""
        return [self.random.randbytes(SIZE) for _ in texts]

    def close(self) -> None:
        """Do nothing, because nothing is open."""


def embedded(folder: Path, recall: Recall, agent: Agent) -> tuple[Recall, Embedder]:
    """Search also by meaning, with all texts embedded and the model loaded."""
    embedder = Embedder(
        MODEL, Worker(folder), cast("Worker", AnyVector()), time.monotonic, get_logger("memoryd.bench"), batch=VECTORS
    )
    begun = time.perf_counter()
    embedder.fill(recall.indexer, agent, lambda: True)
    print(f"vectors stored in {time.perf_counter() - begun:.1f} s")
    if embedder.ask("load the model", timedelta(minutes=1))().vector is None:
        sys.exit("recall: --embeddings needs the extra, in the clone: pip install '.[embeddings]'")
    recall = replace(recall, meaning=embedder.ask)
    begun = time.perf_counter()
    recall.search(agent, "load the vectors")
    print(f"vectors read in {time.perf_counter() - begun:.1f} s")
    return recall, embedder


def measured(folder: Path, megabytes: float, *, by_meaning: bool) -> None:
    """Index, search and change in a separate process, so that its memory can be measured."""
    speaker = Speaker()
    agent = Agent(id="demo", workspace=folder / "workspace")
    file = agent.workspace / "memory" / "2026-01-01.md"
    file.parent.mkdir(parents=True)
    index = Index(folder, get_logger("memoryd.bench"))
    indexer = Indexer(index, KeptReader(folder / "memoryd.db", stays=True), UTC, list, get_logger("memoryd.bench"))
    recall = Recall(indexer, lambda: datetime.now(UTC))
    begun = time.perf_counter(), time.process_time()
    recall.indexer.refresh(agent)
    taken, busy = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"index {TURNS:,} turns  {megabytes / taken:8.1f} MB/s, {megabytes / busy:.1f} MB/s of CPU (wanted: 5)")
    begun = time.perf_counter(), time.process_time()
    recall.indexer.settle(agent)
    wall, busy = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"put together afterwards, beside other work, in {wall:.1f} s, {busy:.1f} s of CPU")
    embedder = None
    if by_meaning:
        recall, embedder = embedded(folder, recall, agent)
    for words in (3, 8):
        spread = asked(recall, agent, [speaker.say(words) for _ in range(QUESTIONS)])
        print(f"search {words} words  {told(spread)} (wanted: 10 and 50)")
    telling = [word for word in speaker.words if len(word) > 2 and word not in STOP_WORDS][:10]
    common = asked(recall, agent, [word for word in telling for _ in range(5)])
    print(f"search one of the ten commonest words  {told(common)}")
    wall, busy = [], []
    for number in range(CHANGES):
        text = "".join(f"## Note\n\n{speaker.say(80)}\n\n" for _ in range(200 if not number else 1))
        with file.open("a") as out:
            out.write(text)
        begun = time.perf_counter(), time.process_time()
        recall.indexer.refresh(agent)
        wall.append((time.perf_counter() - begun[0]) * 1000)
        busy.append((time.process_time() - begun[1]) * 1000)
    print(f"one changed file of {file.stat().st_size:,} bytes  {told((wall, busy))} (wanted: 50)")
    indexer.close()
    if embedder is not None:
        embedder.close()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory  {most:.0f} MB (wanted: 200); index.db {(folder / 'index.db').stat().st_size / 1e6:.0f} MB")


def asked(recall: Recall, agent: Agent, questions: list[str]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each question: wall-clock time and CPU time."""
    wall, busy = [], []
    for question in questions:
        begun = time.perf_counter(), time.process_time()
        recall.search(agent, question)
        wall.append((time.perf_counter() - begun[0]) * 1000)
        busy.append((time.process_time() - begun[1]) * 1000)
    return wall, busy


def told(spread: tuple[list[float], list[float]]) -> str:
    """Return the median and the 99th percentile."""
    wall, busy = (quantiles(one, n=100) for one in spread)
    return f"p50 {wall[49]:.1f} ms, p99 {wall[98]:.1f} ms; of CPU {busy[49]:.1f} and {busy[98]:.1f}"


def main() -> None:
    """Fill a database, then measure in another process."""
    flags = [one for one in sys.argv[1:] if one == "--embeddings"]
    given = [one for one in sys.argv[1:] if one not in flags]
    if given:
        measured(Path(given[0]), float(given[1]), by_meaning=bool(flags))
        return
    with tempfile.TemporaryDirectory() as folder:
        size = fill(Path(folder) / "memoryd.db", Speaker())
        subprocess.run([sys.executable, __file__, folder, str(size), *flags], check=True)


if __name__ == "__main__":
    main()
