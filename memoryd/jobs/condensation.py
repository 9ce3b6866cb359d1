"""Condensation: whether a text says only what some memories say that it is to stand for, and nothing they ask for less.

What memories may say was settled when they were remembered, so they vouch for each other's words; of what they say
nothing may be added, turned round or joined to something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryd.ledger import steering
from memoryd.ledger.grounding import Ground, Source
from memoryd.ledger.relation import relates
from memoryd.ledger.taint import TURNED, UNGROUNDED, UNSAID, Bench, Candidate, Place, Record, Standing, Verdict
from memoryd.text.wording import CLAUSE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

HELD = 0.85  # share of its content words that a text in other words must have of what it stands for, and that of it


def condensed(text: str, memories: Mapping[str, str], said_on: date) -> Verdict:
    """Return whether a text may stand for memories; in the verdict it is in its neutral form.

    Args:
        text: the new one.
        memories: the texts that it is made of, by id.
        said_on: the local day from which the days they name are reckoned.
    """
    ids = tuple(memories)
    bench = Bench([Record(one, Standing.USER, said, said_on) for one, said in memories.items()])
    verdict = bench.tell(Candidate(text, ids))
    if verdict.place is Place.REFUSED:
        return verdict
    if not relates(text, memories.values()):
        return Verdict(Place.REFUSED, why=f"who does what, or which value belongs to what, {UNGROUNDED}")
    if not says_no_more(verdict.text, Ground([Source(said, said_on) for said in memories.values()])):
        return Verdict(Place.REFUSED, why=f"part of it is {UNGROUNDED}")
    told = [(one, bench.tell(Candidate(one, ids))) for one in CLAUSE.split(verdict.text)]
    return next((tried for one, tried in told if tried.why in {TURNED, UNSAID} or _orders(one, tried)), verdict)


def says_no_more(text: str, ground: Ground) -> bool:
    """Return whether each clause of a text stands in its sources but for a word in many."""
    told = (ground.support(clause) for clause in (text, *CLAUSE.split(text)))
    return all(held >= HELD * asked for held, asked in told)


def _orders(clause: str, verdict: Verdict) -> bool:
    """Whether a clause asks for something that was refused: a part of a text that is well founded as a whole."""
    asks = steering.orders(clause) or steering.instructs(clause) or steering.prefers(clause)
    return verdict.place is Place.REFUSED and asks
