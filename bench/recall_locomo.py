"""How well search finds the turns that answer a question: LoCoMo's conversations through the real index and search.

usage: bench/recall_locomo.py EVAL_FOLDER [--embeddings]

Each conversation is an agent of its own, each of its sessions a session of turns at its own date. Scored as the
folder's own yardsticks are: recall@5, @10, @20, nDCG@10 and hit@10 over the questions of categories 1 to 4 that name
evidence. With --embeddings also by meaning, with the packages of the extra `embeddings`.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING, Any

from memoryd.config import Agent
from memoryd.database import schema, sqlite
from memoryd.database.reads import KeptReader
from memoryd.files.log import get_logger
from memoryd.finding.embedding import Embedder
from memoryd.finding.indexing import Indexer
from memoryd.finding.recall import Narrowing, Recall
from memoryd.index.database import Index
from memoryd.worker.client import Worker
from memoryd.worker.embedder import MODEL

if TYPE_CHECKING:
    from sqlalchemy import Connection

NOW = "2026-01-01T00:00:00.000Z"
EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")
ADVERSARIAL = 5
DEPTH = 20
PATIENCE = timedelta(minutes=1)


@dataclass(frozen=True)
class Question:
    """A question with the turns that answer it."""

    text: str
    evidence: frozenset[str]


def sessions(conversation: dict[str, Any]) -> list[tuple[int, datetime, list[dict[str, Any]]]]:
    """The sessions of a conversation: number, time, turns."""
    found = []
    for key, rows in conversation.items():
        match = re.fullmatch(r"session_(\d+)", key)
        if match and rows:
            at = datetime.strptime(conversation[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            found.append((int(match[1]), at, rows))
    return sorted(found, key=lambda one: one[0])


def fill(connection: Connection, agent_id: str, conversation: dict[str, Any]) -> dict[tuple[str, int], str]:
    """Store the turns; the id that the questions use for each, by session and number."""
    connection.exec_driver_sql("INSERT INTO agent VALUES (?, '/w', 1, 0, ?)", (agent_id, NOW))
    person = conversation["speaker_a"]
    names: dict[tuple[str, int], str] = {}
    for number, at, rows in sessions(conversation):
        session_id = f"{agent_id}-{number}"
        connection.exec_driver_sql(
            "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
            " gauge, counted_seq) VALUES (?, ?, ?, 'messages', 'ended', ?, ?, ?, ?, '{}', 0)",
            (session_id, agent_id, session_id, NOW, NOW, len(rows), len(rows)),
        )
        for seq, row in enumerate(rows, 1):
            names[session_id, seq] = row["dia_id"]
            text = f"{row['speaker']}: {row.get('text') or ''}"
            text += f" [shares a photo: {row['blip_caption']}]" if row.get("blip_caption") else ""
            role = "user" if row["speaker"] == person else "assistant"
            stamp = (at + timedelta(seconds=seq)).isoformat()
            connection.exec_driver_sql(
                "INSERT INTO turn (agent_id, session_id, seq, transcript_id, generation, record_id, part, role, origin,"
                " kind, text, at, sidechain, first_byte, last_byte, sha256)"
                " VALUES (?, ?, ?, 1, 1, ?, 0, ?, ?, 'message', ?, ?, 0, 0, 0, x'')",
                (agent_id, session_id, seq, f"{session_id}-{seq}", role, role, text, stamp),
            )
    return names


def questions(one: dict[str, Any], ids: set[str]) -> list[Question]:
    """The questions of a conversation that name evidence there is."""
    found = []
    for row in one["qa"]:
        evidence = {f"D{a}:{b}" for item in row.get("evidence", []) for a, b in EVIDENCE.findall(str(item))} & ids
        if evidence and row["category"] != ADVERSARIAL:
            found.append(Question(row["question"], frozenset(evidence)))
    return found


def scores(ranked: list[str], evidence: frozenset[str]) -> dict[str, float]:
    """The measures of one question."""
    at = {k: len(evidence & set(ranked[:k])) for k in (5, 10, 20)}
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(ranked[:10]) if one in evidence)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(evidence))))
    return {f"R@{k}": n / len(evidence) for k, n in at.items()} | {
        "nDCG@10": gain / ideal, "hit@10": float(at[10] > 0)
    }  # fmt: skip


def measure(
    data: list[dict[str, Any]], folder: Path, embedder: Embedder | None
) -> tuple[list[dict[str, float]], list[float]]:
    """The measures of every question, and the milliseconds that each took."""
    engine = schema.open_database(folder / "memoryd.db", now=NOW).engine
    found: list[dict[str, float]] = []
    taken: list[float] = []
    log = get_logger("memoryd.bench")
    index = Index(folder, log)
    meaning = None if embedder is None else lambda text: embedder.ask(text, PATIENCE)
    indexer = Indexer(index, KeptReader(folder / "memoryd.db"), UTC, list, log)
    recall = Recall(indexer, lambda: datetime(2026, 1, 1, tzinfo=UTC), meaning)
    for one in data:
        agent = Agent(id=one["sample_id"].lower(), workspace=folder / "none")
        with sqlite.begin_write(engine) as connection:
            names = fill(connection, agent.id, one["conversation"])
        recall.indexer.refresh(agent)
        if embedder is not None:
            embedder.fill(indexer, agent, lambda: True)
        for question in questions(one, set(names.values())):
            begun = time.perf_counter()
            hits = recall.search(agent, question.text, Narrowing(limit=DEPTH))
            taken.append((time.perf_counter() - begun) * 1000)
            ranked = [names[hit.path.removeprefix("session:"), hit.first_line] for hit in hits]
            found.append(scores(ranked, question.evidence))
    index.close()
    engine.dispose()
    return found, taken


def main() -> int:
    """Print the figures."""
    given = [one for one in sys.argv[1:] if one != "--embeddings"]
    data = Path(given[0]) / "data" / "locomo" / "locomo10.json" if given else None
    if data is None or not data.exists():
        print("recall_locomo: skipped, no evaluation folder given (the first argument)")
        return 0
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder)) as worker:
        embedder = (
            Embedder(MODEL, worker, worker, time.monotonic, get_logger("memoryd.bench"))
            if given != sys.argv[1:]
            else None
        )
        found, taken = measure(json.loads(data.read_text(encoding="utf-8")), Path(folder), embedder)
    told = "  ".join(f"{name} {mean(one[name] for one in found):.3f}" for name in found[0])
    spread = quantiles(taken, n=100)
    print(f"{len(found)} questions  {told}  p50 {spread[49]:.1f} ms  p99 {spread[98]:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
