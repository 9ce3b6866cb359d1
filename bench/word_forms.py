"""Measure search where question and memory use different forms of a word, in nine languages.

usage: bench/word_forms.py [--misses]

`word_forms.jsonl` has 195 sentences, each with a question that it answers, and 606 other sentences on similar subjects.
In two thirds of the questions, a main word has another form than in the sentence. A compound and a part of it count as
two forms. The questions were written before the code of search was read. Half of them are held out; changes to search
were chosen on the others. Each sentence is one message of a user. The script prints the share of questions whose
sentence is among the first 1, 3 and 10 hits. With --misses, it lists those questions of the half for choosing whose
sentence is not among the first 3.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._retrieval import History, Said, Session, open_recall, search_turns, store
from memoryd.config import Agent

BEGIN = datetime(2025, 6, 1, tzinfo=UTC)
CUTS = (1, 3, 10)


def main() -> int:
    """Print the figures."""
    lines = (Path(__file__).parent / "word_forms.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    order = random.Random(1).sample(rows, len(rows))
    sessions = [
        Session(str(at), BEGIN + timedelta(hours=at), [Said(row["memory"], "user", row["memory"])])
        for at, row in enumerate(order)
    ]
    ranks = defaultdict[tuple[str, str], list[int]](list)
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        names = store(Path(folder), [History("forms", sessions)])["forms"]
        agent = Agent(id="forms", workspace=Path(folder) / "none")
        with open_recall(Path(folder)) as recall:
            recall.search(agent, "open the database")
            for row in (row for row in rows if "question" in row):
                begun = time.process_time()
                found = search_turns(recall, agent, names, row["question"])
                spent.append(time.process_time() - begun)
                rank = found.index(row["memory"]) if row["memory"] in found else len(rows)
                kind = "other form" if row["other_form"] else "same form"
                for group in (row["language"], kind, "all"):
                    ranks[row["half"], group].append(rank)
                if "--misses" in sys.argv and row["half"] == "chosen" and rank >= CUTS[1]:
                    print(f"{rank:4} {row['question']}\n     {row['memory']}")
    for half, group in ranks:
        held = ranks[half, group]
        told = "  ".join(f"@{cut} {mean(rank < cut for rank in held):.3f}" for cut in CUTS)
        print(f"{half:9} {group:11} {len(held):4}  {told}")
    print(f"{mean(spent) * 1000:.1f} ms of processor time for each search")
    return 0


if __name__ == "__main__":
    sys.exit(main())
