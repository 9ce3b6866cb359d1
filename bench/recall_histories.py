"""Measure search in long histories: what it still finds among many other turns, its time and its memory.

usage: bench/recall_histories.py EVAL_FOLDER [--sizes 5000,100000,1000000] [--every N] [--tuning]

LoCoMo's five conversations are one history, among made-up turns of other people with the word frequencies of LoCoMo.
memoryd, memoryd without a limit on the ranked matches, FTS5 and bm25s answer the same questions, each in a separate
process. --every asks one question in N. The limits were chosen with other made-up turns and with the questions about
the first three conversations. The script asks these with --tuning only.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from bisect import bisect
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
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
    run_apart,
    store,
)
from bench.recall_locomo import make_history as make_talk
from memoryd.index import matches

SIZES = "5000,100000"
TUNED = 3  # of LoCoMo's conversations: the first
A_SESSION = 20
NAMES = [first + last for first in ("Ann", "Bea", "Cor", "Dan", "El", "Fran", "Gus", "Hel", "Iv", "Kat", "Len", "Ol")
         for last in ("a", "ian", "ette", "o", "ine", "us", "is", "ard")]  # fmt: skip


def name_apart(key: str, talk: History) -> History:
    """Give the turns of a conversation unique ids."""
    sessions = [
        Session(f"{key}-{one.id}", one.at, [said._replace(id=f"{key} {said.id}") for said in one.turns])
        for one in talk.sessions
    ]
    asked = [Question(one.text, frozenset(f"{key} {each}" for each in one.evidence)) for one in talk.questions]
    return History(talk.agent_id, sessions, asked)


def make_history(data: list[dict[str, Any]], size: int, *, tuning: bool, every: int) -> History:
    """Return a history of that many turns: LoCoMo's conversations at random places among made-up turns."""
    chance = random.Random(size + tuning)
    talks = [name_apart(one["sample_id"], make_talk(one)) for one in data]
    sessions = [session for talk in talks for session in talk.sessions]
    people = {said.text.partition(":")[0] for session in sessions for said in session.turns}
    frequency = Counter(
        word
        for session in sessions
        for said in session.turns
        for word in said.text.partition(": ")[2].split()
        if not any(name in word for name in people)
    )
    words, reach = list(frequency), list(accumulate(frequency.values()))
    questions = [question for talk in (talks[:TUNED] if tuning else talks[TUNED:]) for question in talk.questions]
    known = sum(len(session.turns) for session in sessions)
    for number in range((size - known) // A_SESSION):
        pair = chance.sample(NAMES, 2)
        at = datetime(2022, 1, 1, 9, tzinfo=UTC) + timedelta(hours=chance.randrange(24 * 900))
        turns = []
        for seq in range(A_SESSION):
            text = " ".join(words[bisect(reach, chance.random() * reach[-1])] for _ in range(chance.randint(8, 42)))
            turns.append(Said(f"{number}.{seq}", ("user", "assistant")[seq % 2], f"{pair[seq % 2]}: {text}"))
        sessions.append(Session(f"made-{number}", at, turns))
    chance.shuffle(sessions)
    return History("long", sessions, questions[::every])


def ask_without_limit(folder: Path, history: History, names: dict[str, dict[tuple[str, int], str]]) -> Tally:
    """Ask memoryd, which ranks all matches."""
    matches.BUDGET = matches.FILTERED_BUDGET = 1 << 40
    return ask_memoryd(folder, [history], names, "memoryd, all matches ranked")


def main() -> int:
    """Print the figures of each size."""
    parser = argparse.ArgumentParser(prog="bench/recall_histories.py")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--tuning", action="store_true")
    given = parser.parse_args()
    if given.folder is None:
        print("recall_histories: skipped, no evaluation folder given (the first argument)")
        return 0
    data = json.loads((given.folder / "data" / "locomo" / "locomo10.json").read_text(encoding="utf-8"))
    for size in map(int, given.sizes.split(",")):
        history = make_history(data, size, tuning=given.tuning, every=given.every)
        print(f"{sum(len(one.turns) for one in history.sessions):,} turns", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            names = store(Path(folder), [history])
            for ask in (partial(ask_memoryd, Path(folder), [history], names),
                        partial(ask_without_limit, Path(folder), history, names)):  # fmt: skip
                tally = run_apart(ask)
                print(tally.tell() if tally else "failed", flush=True)
            print(f"index.db {(Path(folder) / 'index.db').stat().st_size / 1e6:.0f} MB", flush=True)
        for tally in ask_others([history]):
            print(tally.tell(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
