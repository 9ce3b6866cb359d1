"""Evaluation: whether consolidated memory answers the user's own questions better than the days alone, at equal cost.

What was asked later is the test that nobody had to write: a question the user put to the agent, and the answer they let
stand. The evidence of an answer are its words, names and numbers that the question does not hold and that some memory
held when the session began; each weighs as much as it is rare among what was remembered (inverse document frequency,
Spärck Jones 1972). A question whose answer no memory held tells nothing and is not counted. It is a hit where half of
the weight of its evidence is in what is retrieved, the measure of recall by nuggets (Voorhees 2003).

Two retrievals have the same budget of tokens: what a search finds in the daily files, and the core with what a search
finds in the rest of the budget. The core alone is told beside. Whether one is better is the sign test on the questions
that only one of them answers (McNemar 1947), since both are asked the same.

Limits: words are compared by their stems, so an answer in other words is not seen; an answer that the user did not
object to counts as right; and a search here ranks by the words of the question alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from memoryd.gauge.estimate import estimate
from memoryd.ledger.grounding import content
from memoryd.ledger.voice import own
from memoryd.ledger.wording import stem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_EVIDENCE = 12  # of one answer: the rarest
FEWEST_EVIDENCE = 2  # below which a share says nothing
HIT = 0.5  # of the weight of an answer's evidence
FEWEST = 5  # questions that a verdict takes
DOUBT = 0.1  # chance of as many losses by luck above which there is no verdict
LEAST_BUDGET = 400  # tokens; a core of three lines must not decide how much a search may find
_ASKS = re.compile(
    r"[?\uff1f\u061f]\s*(?:$|\s|[\"')\]])"
    r"|^(?:what|which|who|whose|when|where|why|how|was|wer|wann|wo|wie|warum|welche\w*|que|quel\w*|quand|où|comment|"
    r"pourquoi|qué|cuál|quién|cuándo|dónde|cómo|cosa|quale|quando|dove|come|perché|qual|quem|onde|wat|wie|wanneer|waar|"
    r"hoe|что|кто|когда|где|как|почему|какой)\b",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of the user, the answer they let stand, and when its session began (UTC, ISO 8601)."""

    question: str
    answer: str
    since: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a daily file says, and when it was there (UTC, ISO 8601)."""

    text: str
    at: str


class Held(NamedTuple):
    """What memory held when a session began."""

    days: Sequence[Entry]
    core: Sequence[str]


@dataclass(slots=True)
class Tally:
    """What one retrieval came to."""

    hits: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Evaluation:
    """What came of all questions.

    Attributes:
        asked: questions that were put.
        counted: those whose answer some memory held.
        days: a search in the daily files alone.
        consolidated: the core, and such a search in the rest of the same budget.
        core: the core alone.
        wins: questions that only `consolidated` answers.
        losses: questions that only `days` answers.
    """

    asked: int = 0
    counted: int = 0
    days: Tally = field(default_factory=Tally)
    consolidated: Tally = field(default_factory=Tally)
    core: Tally = field(default_factory=Tally)
    wins: int = 0
    losses: int = 0

    @property
    def chance(self) -> float:
        """How likely at least as many losses among those are by luck: a sign test to one side."""
        return _tail(self.losses, self.wins + self.losses)

    @property
    def verdict(self) -> str:
        """`loses`, `helps`, or `undecided`: too few questions, or too little between the two."""
        if self.counted < FEWEST:
            return "undecided"
        if self.losses > self.wins and self.chance <= DOUBT:
            return "loses"
        is_better = self.wins > self.losses and _tail(self.wins, self.wins + self.losses) <= DOUBT
        return "helps" if is_better else "undecided"


def _tail(least: int, of: int) -> float:
    return float(sum(math.comb(of, count) for count in range(least, of + 1)) / 2**of)


def asks(text: str) -> bool:
    """Whether a message of the user asks something, in their own voice."""
    return bool(_ASKS.search(own(text).strip()))


@lru_cache(maxsize=1 << 15)
def terms(text: str) -> frozenset[str]:
    """The content words of a text by their stems, and its numbers."""
    return frozenset([*map(stem, content(text)), *_NUMBER.findall(text)])


def evaluate(questions: Iterable[tuple[Asked, Held]], most_tokens: int) -> Evaluation:
    """Answer each question from both memories.

    Args:
        questions: each with what memory held when its session began.
        most_tokens: of a budget; it is twice the core, so that half of it is left for a search.
    """
    told = Evaluation()
    for asked, held in questions:
        told.asked += 1
        pool = [*(one.text for one in held.days), *held.core]
        weights = _weights(pool)
        evidence = _evidence(asked, weights)
        if len(evidence) < FEWEST_EVIDENCE:
            continue
        told.counted += 1
        wanted = terms(asked.question)
        days = _ranked([one.text for one in reversed(held.days)], wanted, weights)
        core = sum(map(estimate, held.core))
        budget = min(max(2 * core, LEAST_BUDGET), most_tokens)
        whole = (
            _within(held.core, budget)
            if core <= budget // 2
            else _within(_ranked(held.core, wanted, weights), budget // 2)
        )
        rest = budget - sum(map(estimate, whole))
        seen = set(whole)
        found = (
            _within(days, budget),
            [*whole, *_within([one for one in days if one not in seen], rest)],
            whole,
        )
        hits = [_is_hit(texts, evidence, weights) for texts in found]
        for tally, texts, hit in zip((told.days, told.consolidated, told.core), found, hits, strict=True):
            tally.hits += hit
            tally.tokens += sum(map(estimate, texts))
        told.wins += hits[1] and not hits[0]
        told.losses += hits[0] and not hits[1]
    return told


def _weights(pool: Sequence[str]) -> dict[str, float]:
    held = Counter(term for text in pool for term in terms(text))
    return {term: math.log(1 + len(pool) / count) for term, count in held.items()}


def _evidence(asked: Asked, weights: dict[str, float]) -> frozenset[str]:
    known = sorted(
        (term for term in terms(asked.answer) - terms(asked.question) if term in weights),
        key=lambda term: (-weights[term], term),
    )
    return frozenset(known[:MOST_EVIDENCE])


def _ranked(texts: Sequence[str], wanted: frozenset[str], weights: dict[str, float]) -> list[str]:
    """The texts that hold something of a question, the most telling first; of equals the earlier given."""
    scored = [(sum(weights[term] for term in wanted & terms(text)), text) for text in dict.fromkeys(texts)]
    return [text for score, text in sorted(scored, key=lambda one: -one[0]) if score > 0]


def _within(texts: Sequence[str], budget: int) -> list[str]:
    """The first texts that fit; one that is too long does not keep the next from fitting."""
    found, left = [], budget
    for text in texts:
        if (size := estimate(text)) <= left:
            found.append(text)
            left -= size
    return found


def _is_hit(texts: Sequence[str], evidence: frozenset[str], weights: dict[str, float]) -> bool:
    held = frozenset[str]().union(*map(terms, texts))
    return sum(weights[term] for term in evidence & held) >= HIT * sum(weights[term] for term in evidence)
