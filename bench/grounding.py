"""Where the line of content-word support lies, and what grounding refuses that it should not.

    python bench/grounding.py EVAL_FOLDER

LoCoMo has, for each turn of its talks, observations that a model wrote about it. Each is asked of the turn it cites
(with the turns beside it, which it often needs) and of a turn of another talk: the first should pass, the second not.
Of relations it is asked how often an observation is refused that is only shortened or joined to another, and how often
one passes in which two names have changed places, or that has another's subject. And of both, how often they are taken
for turning round what is said: the first should never be.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger.grounding import Ground, Source
from memoryd.ledger.relation import relates, turns_round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Reworded = tuple[str, tuple[str, ...]]
_NAME = re.compile(r"\b(?:[A-Z][a-z]+|\d+)\b")
_TAIL = re.compile(r",? (?:and|because|which|who|while|since|after|to|in|for|with|at) ")


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


def joined(one: str, other: str, _draw: random.Random) -> Reworded:
    """Return two statements as one sentence."""
    return f"{one.rstrip('.')}; {other}", (one, other)


def shortened(one: str, _other: str, _draw: random.Random) -> Reworded:
    """Return a statement without its last part."""
    cuts = list(_TAIL.finditer(one))
    return (one[: cuts[-1].start()] if cuts else one), (one,)


def swapped(one: str, _other: str, draw: random.Random) -> Reworded | None:
    """Return a statement with two of its names in each other's place."""
    names = list(_NAME.finditer(one))
    if len({name[0] for name in names}) < 2:
        return None
    first = draw.choice(names)
    second = draw.choice([name for name in names if name[0] != first[0]])
    first, second = sorted((first, second), key=lambda name: name.start())
    between = one[first.end() : second.start()]
    return f"{one[: first.start()]}{second[0]}{between}{first[0]}{one[second.end() :]}", (one,)


def fused(one: str, other: str, _draw: random.Random) -> Reworded | None:
    """Return the first word of a statement with all but the first of another."""
    subject, rest = one.split(maxsplit=1)[0], other.partition(" ")
    return (f"{subject} {rest[2]}", (one, other)) if subject != rest[0] else None


REWORDINGS: tuple[Callable[[str, str, random.Random], Reworded | None], ...] = (joined, shortened, swapped, fused)


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
    turned = [turns_round(one.text, [(source.speaker, source.text) for source in one.sources]) for one in found]
    print(f"{sum(turned)} of {len(found)} turn round what the turn cited says")
    for reword in REWORDINGS:
        made = [reword(one.text, draw.choice(found).text, draw) for one in found]
        told = [relates(*each) for each in made if each is not None]
        turned = [turns_round(text, [("", one) for one in held]) for text, held in filter(None, made)]
        print(f"{reword.__name__}: {sum(told)} of {len(told)} relate as before, {sum(turned)} turn it round")


if __name__ == "__main__":
    main()
