"""Fit the weights by which the offline backend ranks the lines of a working session, and print them.

    .venv/bin/python bench/fit_work.py

`bench/work_lines.csv` has a row for each of 4,741 lines of 61 sessions. Readers who had not seen the program graded
each line for a person who takes over three days later:

- 3: wanted in any case
- 2: worth its room
- 1: true, but hardly worth its room
- 0: noise
- w: wrong at the end of the session
- u: unclear without its context

`session` has the public repository of a session and a short name. `lasts` tells whether the line is still worth keeping
a month later, and `cost` is its number of words. The other columns are its features, as `memoryd.offline.work` names
them. The texts are not in the repository.

The method is logistic regression with a small penalty, fitted by Newton's method. A line with grade 3 counts twice. The
quality is measured with whole sessions left out in turn: the lines of each session are taken by rank up to 300 words.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "work_lines.csv"
COLUMNS = {
    "assistant": (
        "late", "length", "words", "names", "cause", "final", "hedge", "refuted", "behind", "thin", "last", "passed",
    ),
    "user": ("late", "length", "words", "steers", "passed"),
}  # fmt: skip
USEFUL, SURE = "23", "3"
_ROOM = 300  # words
_FOLDS, _STEPS, _PENALTY = 10, 8, 3.0
_DIGITS = 2


class GradedLine(NamedTuple):
    """Hold one graded line of a session."""

    session: str
    speaker: str  # "user" or "assistant"
    grade: str
    cost: int  # words
    values: list[float]  # its features, in the order of `COLUMNS`, after a constant 1


def read_lines(path: Path = DATA) -> list[GradedLine]:
    """Return the graded lines."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            GradedLine(
                row["session"],
                row["speaker"],
                row["grade"],
                int(row["cost"]),
                [1.0, *(float(row[name]) for name in COLUMNS[row["speaker"]])],
            )
            for row in csv.DictReader(file)
        ]


def fit(lines: Sequence[GradedLine]) -> list[float]:
    """Return the weights of the features of lines of one speaker; the first one is the constant."""
    size = len(lines[0].values)
    weights = [0.0] * size
    for _ in range(_STEPS):
        slope = [_PENALTY * weight if at else 0.0 for at, weight in enumerate(weights)]
        bend = [[_PENALTY * (at == other and at > 0) for other in range(size)] for at in range(size)]
        for line in lines:
            odds = 1 / (1 + math.exp(-rate(line, weights)))
            counts = 2 if line.grade == SURE else 1
            error, spread = counts * (odds - (line.grade in USEFUL)), counts * odds * (1 - odds)
            for at, value in enumerate(line.values):
                slope[at] += error * value
                for other in range(size):
                    bend[at][other] += spread * value * line.values[other]
        weights = [weight - step for weight, step in zip(weights, _solve(bend, slope), strict=True)]
    return weights


def rate(line: GradedLine, weights: Sequence[float]) -> float:
    """Return the weight of a line."""
    return sum(weight * value for weight, value in zip(weights, line.values, strict=True))


def _solve(rows: list[list[float]], right: list[float]) -> list[float]:
    """Solve a system of linear equations by elimination."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for at in range(len(table)):
        best = max(range(at, len(table)), key=lambda row: abs(table[row][at]))
        table[at], table[best] = table[best], table[at]
        table[at] = [value / table[at][at] for value in table[at]]
        for row in range(len(table)):
            if row != at:
                factor = table[row][at]
                table[row] = [value - factor * other for value, other in zip(table[row], table[at], strict=True)]
    return [row[-1] for row in table]


def fit_both(lines: Sequence[GradedLine]) -> dict[str, list[float]]:
    """Return the weights of each speaker's lines."""
    return {speaker: fit([one for one in lines if one.speaker == speaker]) for speaker in COLUMNS}


def take(lines: Sequence[GradedLine], weights: Mapping[str, Sequence[float]]) -> list[GradedLine]:
    """Return the lines that fit into the room of each session, the best first, by the weights of each speaker."""
    taken: list[GradedLine] = []
    room: dict[str, int] = defaultdict(lambda: _ROOM)
    for line in sorted(lines, key=lambda one: rate(one, weights[one.speaker]), reverse=True):
        if line.cost <= room[line.session]:
            room[line.session] -= line.cost
            taken.append(line)
    return taken


def main() -> None:
    """Print the weights, and what lines are taken with them."""
    lines = read_lines()
    sessions = sorted({line.session for line in lines})
    taken: list[GradedLine] = []
    for fold in range(_FOLDS):
        aside = set(sessions[fold::_FOLDS])
        fitted = fit_both([line for line in lines if line.session not in aside])
        taken += take([line for line in lines if line.session in aside], fitted)
    print(f"{len(lines)} lines of {len(sessions)} sessions; taken of sessions left out: {len(taken)}")
    for name, grades in (("useful", USEFUL), ("wrong", "w"), ("unclear", "u")):
        print(f"{name}: {sum(line.grade in grades for line in taken) / len(taken):.0%}")
    kept, wanted = (sum(line.grade == SURE for line in some) for some in (taken, lines))
    print(f"of the {wanted} lines that readers want in any case: {kept / wanted:.0%}")
    for speaker, weights in fit_both(lines).items():
        named = zip(("", *COLUMNS[speaker]), weights, strict=True)
        print(speaker, {name: round(weight, _DIGITS) for name, weight in named})


if __name__ == "__main__":
    main()
