"""Rank documents by relevance: by their words, and by other knowledge about them.

The words give the score (BM25 with field weights). It is multiplied by factors that decide between two equal hits: how
recent a dated file is, how important a memory is, and how people and agents rated it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from memoryd.recall.documents import Speaker

HALF_LIFE_DAYS = 30.0  # after this time a dated file has lost half of its bonus for being recent …
RECENT = 0.25  # … which is this share of its score
IMPORTANT = 0.3  # difference between a memory of importance 1 and one of 0
VOTE = 1.15  # factor for each "good" above the number of "bad", and its inverse the other way …
MOST_VOTES = 4  # … up to so many
COPY = 0.7  # if better hits show this share of a hit's text, it is a copy …
_THIRD = 0.35  # … or about a third of it, together with its best sentence
_ROW = 3  # words
_WORD = re.compile(r"[^\W_]+")
DATED = frozenset({"daily", "archive", "recent"})
SESSION = "session"
FACT = "fact"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a document that matches."""

    id: int
    score: float  # of BM25; more is better
    path: str
    tier: str
    first_line: int
    last_line: int
    piece: int
    digest: bytes  # of its source text
    day: str | None  # YYYY-MM-DD, if it has one
    shown: str | None  # its text, if it must not be shown in the form of its source
    tags: frozenset[str] = frozenset()
    voice: Speaker = Speaker.DISTILLED


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """Hold the ledger's knowledge of a document that is one memory."""

    memory_id: str
    importance: float | None = None
    votes: int = 0  # good less bad
    tags: frozenset[str] = frozenset()
    day: str | None = None  # when it was first said


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate with its final score, and what raised or lowered it."""

    candidate: Candidate
    score: float
    known: KnownMemory | None = None
    boosts: tuple[str, ...] = field(default=())  # what raised or lowered its score
    # its place among documents with the words, from 1; None if it is not among them, or words were not used
    by_words: int | None = None
    by_meaning: int | None = None  # the same among documents with a similar meaning


def rank(
    candidates: Sequence[Candidate],
    known: Callable[[Candidate], KnownMemory | None],
    today: date,
    quoting: frozenset[int],
    weigh: Callable[[Candidate], float] = lambda _: 1.0,
) -> list[RankedCandidate]:
    """Return the candidates in the order in which they are shown; those with a quoted phrase before all others.

    `weigh` returns the factor of a score for the text itself.
    """
    scored = [_score(one, known(one), today, weigh(one)) for one in candidates]
    return _sort(scored, quoting)


def _sort(found: Iterable[RankedCandidate], quoting: frozenset[int]) -> list[RankedCandidate]:
    """Return candidates, those with a quoted phrase before all others, the best first."""
    return sorted(found, key=lambda one: (one.candidate.id not in quoting, -one.score, one.candidate.id))


def _score(candidate: Candidate, known: KnownMemory | None, today: date, weight: float) -> RankedCandidate:
    score, boosts = candidate.score * weight, []
    if candidate.tier in DATED and candidate.day is not None:
        age = max(0, (today - date.fromisoformat(candidate.day)).days)  # a day in the future counts as today
        new = RECENT * 0.5 ** (age / HALF_LIFE_DAYS)
        score *= 1 - RECENT + new
        if new > RECENT / 2:
            boosts.append("recent")
    if known is not None and known.importance is not None and known.importance > 0.5:
        boosts.append("important")
    if known is not None and known.votes:
        boosts.append(f"feedback {known.votes:+d}")
    return RankedCandidate(candidate, score * compute_boost(known), known, tuple(boosts))


def compute_boost(known: KnownMemory | None) -> float:
    """Return the factor for the score of a memory: its importance and its ratings."""
    if known is None:
        return 1.0
    importance = 0.5 if known.importance is None else min(1.0, max(0.0, known.importance))
    votes = max(-MOST_VOTES, min(MOST_VOTES, known.votes))
    return float((1 + IMPORTANT * (importance - 0.5)) * VOTE**votes)


def iterate_copies_last(
    ranked: Iterable[RankedCandidate], read: Callable[[Candidate], Sequence[str]]
) -> Iterator[RankedCandidate]:
    """Yield the hits, copies last: better hits show most of the passage, or its best sentence and a third of it."""
    told: set[tuple[str, ...]] = set()
    copies = []
    for one in ranked:
        rows, best = map(_list_rows, read(one.candidate))
        share = _THIRD if best and len(best & told) >= COPY * len(best) else COPY
        if rows and len(rows & told) >= share * len(rows):
            copies.append(one)
        else:
            told |= rows
            yield one
    yield from copies


def _list_rows(text: str) -> set[tuple[str, ...]]:
    """Return the words of a text, in groups of three in a row."""
    words = _WORD.findall(text.lower())
    return {tuple(words)} if len(words) < _ROW else set(zip(words, words[1:], words[2:], strict=False))


# ── one order of what was found by words and by meaning ───────────────────────────────────────────────────────────────


# Measured on conversations with known evidence: results differ by less than 1 % from 10 to 20 and from 1.5 to 3.
K = 15
WORDS = 2.0
MEANING = 1.0


def fuse(
    by_words: Sequence[RankedCandidate], by_meaning: Sequence[RankedCandidate], quoting: frozenset[int]
) -> list[RankedCandidate]:
    """Return both orders as one, each document once, the best first; those with a quoted phrase before all others.

    The score is 1 for the first of both orders.
    """
    words = {_get_key(one): place for place, one in enumerate(by_words, 1)}
    meaning = {_get_key(one): place for place, one in enumerate(by_meaning, 1)}
    best = (WORDS + MEANING) / (K + 1)
    fused = []
    for what, one in {_get_key(one): one for one in (*by_meaning, *by_words)}.items():
        places = (words.get(what), meaning.get(what))
        score = sum(weight / (K + at) for weight, at in zip((WORDS, MEANING), places, strict=True) if at is not None)
        fused.append(RankedCandidate(one.candidate, score / best, one.known, one.boosts, *places))
    return _sort(fused, quoting)


def _get_key(one: RankedCandidate) -> tuple[str, int]:
    """Return the document that a candidate is part of: the pieces of a long turn are one document."""
    return one.candidate.path, one.candidate.first_line
