"""Where the line of content-word support lies, and what grounding refuses that it should not.

    python bench/grounding.py EVAL_FOLDER

LoCoMo has, for each turn of its talks, observations that a model wrote about it. Each is asked of the turn it cites
(with the turns beside it, which it often needs) and of a turn of another talk: the first should pass, the second not.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger.grounding import Ground, Source

if TYPE_CHECKING:
    from collections.abc import Iterator


class Observed(NamedTuple):
    """What a model wrote about a turn, with that turn and the two around it."""

    talk: int
    text: str
    sources: tuple[Source, ...]


def observed(folder: Path) -> Iterator[Observed]:
    """Yield the observations of all talks."""
    for number, talk in enumerate(json.loads((folder / "data/locomo/locomo10.json").read_text(encoding="utf-8"))):
        turns: dict[str, Source] = {}
        held = talk["conversation"]
        for key, rows in held.items():
            if isinstance(rows, list):
                day = datetime.strptime(held[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").date()  # noqa: DTZ007
                turns |= {row["dia_id"]: _source(row, day) for row in rows}
        order = list(turns)
        for session in talk["observation"].values():
            for text, cited in (row for rows in session.values() for row in rows):
                for one in [cited] if isinstance(cited, str) else cited[:1]:
                    if one in turns:
                        at = order.index(one)
                        yield Observed(number, text, tuple(turns[near] for near in order[max(0, at - 1) : at + 2]))


def _source(row: dict[str, str], day: date) -> Source:
    return Source(f"{row['text']} {row.get('blip_caption', '')}", day, row["speaker"])


def main() -> None:
    """Print how often each share of support is reached, and what is missing where something is."""
    found = list(observed(Path(sys.argv[1])))
    draw = random.Random(1)
    true, false = Counter[int](), Counter[int]()
    kinds, wrong = Counter[str](), Counter[str]()
    for one in found:
        other = draw.choice([each for each in found if each.talk != one.talk])
        for sources, shares, lacks in ((one.sources, true, kinds), (other.sources, false, wrong)):
            ground = Ground(sources)
            missing = ground.missing(one.text)
            lacks[missing.kind if missing else "grounded"] += 1
            held, asked = ground.support(one.text)
            shares[10 * held // asked if asked else 10] += 1
    print(f"{len(found)} observations")
    print("share of content words held | of the turn cited | of a turn of another talk")
    for share in range(11):
        above = [sum(n for at, n in shares.items() if at >= share) / len(found) for shares in (true, false)]
        print(f"at least {share / 10:.1f} | {above[0]:.3f} | {above[1]:.3f}")
    print("of the turn cited:", dict(kinds.most_common()))
    print("of another talk's:", dict(wrong.most_common()))


if __name__ == "__main__":
    main()
