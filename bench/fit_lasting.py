"""Fit the weights by which the offline backend sees that a user's statement lasts, and write them.

    .venv/bin/python bench/fit_lasting.py [OUT]

The data are the labelled messages of the sets `FITTED` in `bench/statements/`. Each sentence of a message is an
example. It lasts if it is the marked part of a message that lasts. The method is logistic regression with a penalty on
large weights. Stochastic gradient descent fits them, with a step for each weight (AdaGrad, Duchi and others, 2011).
Rare features and small weights are dropped. The same data always give the same file.

The sets `aside`, `aside_mixed`, `aside_natural`, `languages_aside` and `passing` are never used here.
`bench/statements.py` counts what the model keeps of them.
"""

import json
import math
import random
import sys
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memoryd.offline.lasting_model import list_features
from memoryd.offline.sentences import split_sentences

FOLDER = Path(__file__).parent / "statements"
OUT = Path(__file__).parents[1] / "memoryd" / "offline" / "lasting_weights.txt"
FITTED = (
    "persons", "chats", "daily_life", "momentary", "coding", "languages", "ordinary",
    "software", "professions", "private", "many_languages", "requests", "backends", "infrastructure",
    "choices", "lives", "languages_at_work", "long_messages",
)  # fmt: skip
_FEWEST = 3  # sentences; a feature of fewer is dropped
_ROUNDS, _STEP, _PENALTY = 12, 0.12, 32.0
_LEAST = 0.2  # a smaller weight is dropped
_WIDTH = 118
_HEAD = """\
# Weights of words and pairs of words that show whether a user's statement lasts (`lasting_model`). Each line has a
# weight and its features, with two spaces between them. `^` marks the beginning of a statement, and `#` stands for a
# number. Brackets are for its signs, and for its length in steps of five words. Written by `bench/fit_lasting.py`.
"""

Example = tuple[set[str], bool]


def read_examples(names: tuple[str, ...] = FITTED) -> list[Example]:
    """Return the features of each sentence of the sets, and whether it lasts."""
    found: list[Example] = []
    for name in names:
        for line in (FOLDER / f"{name}.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            found += [
                (list_features(one, row["text"]), row["lasts"] and any(map(partial(is_about, one), _list_keys(row))))
                for one in split_sentences(row["text"])
            ]
    return found


def _list_keys(row: dict[str, Any]) -> list[str]:
    """Return the marked words of a message: the most important ones, and others of a long message."""
    return [row["key"], *row.get("more", ())]


def is_about(sentence: str, key: str) -> bool:
    """Return True if a sentence has the marked words or their beginning, or the other way round."""
    said, marked = (" ".join(text.replace("’", "'").lower().split()).rstrip(".!") for text in (sentence, key))  # noqa: RUF001
    return bool(marked) and (marked in said or said in marked or marked[:30] in said or said[:30] in marked)


def fit(examples: list[Example], seed: int = 1) -> dict[str, float]:
    """Return the weight of each feature; the weight of the empty feature counts for every statement."""
    counted = Counter(feature for features, _ in examples for feature in features)
    rows = [("", *sorted(feature for feature in features if counted[feature] >= _FEWEST)) for features, _ in examples]
    weights: dict[str, float] = defaultdict(float)
    squares: dict[str, float] = defaultdict(lambda: 1e-6)
    order = list(range(len(rows)))
    shuffled = random.Random(seed)
    for _ in range(_ROUNDS):
        shuffled.shuffle(order)
        for at in order:
            odds = sum(weights[feature] for feature in rows[at])
            error = 1 / (1 + math.exp(-odds)) - examples[at][1]
            for feature in rows[at]:
                slope = error + (_PENALTY / len(rows) * weights[feature] if feature else 0.0)
                squares[feature] += slope * slope
                weights[feature] -= _STEP * slope / math.sqrt(squares[feature])
    return weights


def write(weights: dict[str, float], out: Path) -> None:
    """Write the weights, the highest first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for feature, weight in weights.items():
        if not feature or abs(weight) >= _LEAST:
            groups[f"{weight:+.1f}"].append(feature)
    lines = []
    for weight in sorted(groups, key=float, reverse=True):
        line = weight
        for feature in sorted(groups[weight]):
            if len(line) + len(feature) > _WIDTH:
                lines.append(line)
                line = weight
            line += f"  {feature}"
        lines.append(line)
    out.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(fit(read_examples()), Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
