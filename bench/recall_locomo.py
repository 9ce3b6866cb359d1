"""Measure how well search finds the turns that answer a question, in LoCoMo's conversations.

usage: bench/recall_locomo.py EVAL_FOLDER [--embeddings]

Each conversation is a separate agent, and each of its sessions has its own date. The measures are those of the folder's
own scripts: recall@5, @10, @20, nDCG@10 and hit@10 over the questions of categories 1 to 4 that name evidence. FTS5 and
bm25s answer the same questions. With --embeddings, memoryd also searches by meaning (extra `embeddings`).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._retrieval import (
    History,
    Question,
    Said,
    Session,
    Tally,
    ask_memoryd,
    ask_others,
    list_locomo_evidence,
    list_locomo_sessions,
    open_recall,
    search_turns,
    show_turn,
    store,
)
from memoryd.config import Agent
from memoryd.files.log import get_logger
from memoryd.finding.embedding import Embedder
from memoryd.worker.client import Worker
from memoryd.worker.embedder import MODEL

PATIENCE = timedelta(minutes=1)


def make_history(one: dict[str, Any]) -> History:
    """Return one of LoCoMo's conversations."""
    person = one["conversation"]["speaker_a"]
    sessions = [
        Session(
            str(number),
            at,
            [
                Said(
                    row["dia_id"],
                    "user" if row["speaker"] == person else "assistant",
                    f"{row['speaker']}: {show_turn(row)}",
                )
                for row in rows
            ],
        )
        for number, at, rows in list_locomo_sessions(one["conversation"])
    ]
    known = {said.id for session in sessions for said in session.turns}
    asked = [(text, evidence & known) for text, evidence in list_locomo_evidence(one)]
    return History(one["sample_id"].lower(), sessions, [Question(*each) for each in asked if each[1]])


def ask_by_meaning(
    folder: Path, histories: list[History], names: dict[str, dict[tuple[str, int], str]], worker: Worker
) -> Tally:
    """Ask memoryd with all texts embedded."""
    tally = Tally("memoryd, by meaning too")
    embedder = Embedder(MODEL, worker, worker, time.monotonic, get_logger("memoryd.bench"))
    with open_recall(folder) as recall:
        by_meaning = replace(recall, meaning=lambda text: embedder.ask(text, PATIENCE))
        for one in histories:
            agent = Agent(id=one.agent_id, workspace=folder / "none")
            embedder.fill(recall.indexer, agent, lambda: True)
            tally.ask(partial(search_turns, by_meaning, agent, names[agent.id]), one.questions)
    return tally


def main() -> int:
    """Print the figures."""
    given = [one for one in sys.argv[1:] if one != "--embeddings"]
    data = Path(given[0]) / "data" / "locomo" / "locomo10.json" if given else None
    if data is None or not data.exists():
        print("recall_locomo: skipped, no evaluation folder given (the first argument)")
        return 0
    histories = [make_history(one) for one in json.loads(data.read_text(encoding="utf-8"))]
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder)) as worker:
        names = store(Path(folder), histories)
        print(ask_memoryd(Path(folder), histories, names).tell(), flush=True)
        if given != sys.argv[1:]:
            print(ask_by_meaning(Path(folder), histories, names, worker).tell(), flush=True)
    for tally in ask_others(histories):
        print(tally.tell(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
