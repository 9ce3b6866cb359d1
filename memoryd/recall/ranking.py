"""Rank documents by the words of a search, and by what else is known about them.

The score of the words (BM25 with weights of the columns) is multiplied by factors that decide between equal hits: how
recent a dated file is, how important a memory is, and how people and agents rated it.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from memoryd.recall.answers import QUESTION
from memoryd.recall.documents import Speaker

HALF_LIFE_DAYS = 30.0  # days after which a dated file has half of its bonus for being recent …
RECENT = 0.25  # … which is this share of its score
IMPORTANT = 0.3  # difference of the factors for importance 1 and 0
VOTE = 1.15  # factor for each surplus good rating; its inverse for each surplus bad one …
MOST_VOTES = 4  # … up to this number
COPY = 0.7  # a hit is a copy if better hits show this share of its passage …
_THIRD = 0.35  # … or this share of it, and its best sentence
_ROW = 3  # adjacent words that are compared together
_WORD = re.compile(r"[^\W_]+")
DATED = frozenset({"daily", "archive", "recent"})
SESSION = "session"
FACT = "fact"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a document that matches a search."""

    id: int
    score: float  # the BM25 score; a higher score is better
    path: str
    tier: str
    first_line: int
    last_line: int
    piece: int
    digest: bytes  # the digest of its source text
    day: str | None  # YYYY-MM-DD, if it has one
    shown: str | None  # the text to show, if it differs from the source text
    tags: frozenset[str] = frozenset()
    voice: Speaker = Speaker.DISTILLED


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """Hold what the ledger has about a document that is a memory."""

    memory_id: str
    importance: float | None = None
    votes: int = 0  # good ratings minus bad ones
    tags: frozenset[str] = frozenset()
    day: str | None = None  # YYYY-MM-DD; when it was first said


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """Hold a candidate with its final score and the reasons for it."""

    candidate: Candidate
    score: float
    known: KnownMemory | None = None
    boosts: tuple[str, ...] = field(default=())  # for people: what raised or lowered the score
    # Place in the order by words, from 1; None if it is not in that order.
    by_words: int | None = None
    by_meaning: int | None = None  # the same for the order by meaning


def rank(
    candidates: Sequence[Candidate],
    known: Callable[[Candidate], KnownMemory | None],
    today: date,
    quoting: frozenset[int],
    weigh: Callable[[Candidate], float] = lambda _: 1.0,
) -> list[RankedCandidate]:
    """Return the candidates with their final scores, best first; those with a quoted phrase come before all others.

    Args:
        candidates: the documents that match.
        known: returns what the ledger has about a candidate; None if it is no memory.
        today: the local day.
        quoting: ids of the documents with a quoted phrase.
        weigh: returns the factor of a candidate's score that depends on its text.
    """
    return _sort([_score(one, known(one), today, weigh(one)) for one in candidates], quoting)


def _sort(found: Iterable[RankedCandidate], quoting: frozenset[int]) -> list[RankedCandidate]:
    """Return candidates by falling score; those with a quoted phrase come before all others."""
    return sorted(found, key=lambda one: (one.candidate.id not in quoting, -one.score, one.candidate.id))


def _score(candidate: Candidate, known: KnownMemory | None, today: date, weight: float) -> RankedCandidate:
    score, boosts = candidate.score * weight, []
    if candidate.tier in DATED and candidate.day is not None:
        age = max(0, (today - date.fromisoformat(candidate.day)).days)  # a future day counts as today
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
    """Return the factor for a memory's importance and ratings."""
    if known is None:
        return 1.0
    importance = 0.5 if known.importance is None else min(1.0, max(0.0, known.importance))
    votes = max(-MOST_VOTES, min(MOST_VOTES, known.votes))
    return float((1 + IMPORTANT * (importance - 0.5)) * VOTE**votes)


def iterate_copies_last(
    ranked: Iterable[RankedCandidate], read: Callable[[Candidate], Sequence[str]], asked: str = ""
) -> Iterator[RankedCandidate]:
    """Yield the hits, with copies of better hits last, and earlier questions with the words of `asked`.

    A hit is a copy if better hits show most of its passage, or a third of it and its best sentence.
    """
    told: set[tuple[str, ...]] = set()
    copies = []
    for one in ranked:
        texts = read(one.candidate)
        rows, best = map(_list_rows, texts)
        share = _THIRD if best and len(best & told) >= COPY * len(best) else COPY
        known = told | _list_rows(asked) if any(map(QUESTION.search, texts)) else told
        if rows and len(rows & known) >= share * len(rows):
            copies.append(one)
        else:
            told |= rows
            yield one
    yield from copies


def _list_rows(text: str) -> set[tuple[str, ...]]:
    """Return the groups of three adjacent words in a text."""
    words = _WORD.findall(text.lower())
    return {tuple(words)} if len(words) < _ROW else set(zip(words, words[1:], words[2:], strict=False))


# ── one order from the orders by words and by meaning ─────────────────────────────────────────────────────────────────


# Both values were measured on conversations with known evidence and on questions about sessions with coding agents.
# Results hardly change if `OF_MEANING` is between 2 and 3.
OF_MEANING = 2.5  # a hit whose cosine is higher by 0.1 has a score that is 28 % higher
LEAST_OF_WORDS = 0.1  # the least score by words, as a share of the best one


def fuse(
    by_words: Sequence[RankedCandidate],
    by_meaning: Sequence[RankedCandidate],
    cosines: Mapping[int, float],
    quoting: frozenset[int],
) -> list[RankedCandidate]:
    """Return one order made from the orders by words and by meaning, best first.

    The score by words, as a share of the best one, is multiplied by a factor that grows exponentially with the cosine.
    The score is 1 for the best document by words if its meaning is that of the question. Each document occurs once.
    Those with a quoted phrase come before all others.

    Args:
        by_words: candidates with their scores by words.
        by_meaning: candidates whose scores are cosines, multiplied by the same factors as the scores by words.
        cosines: the cosine of each document, by the candidate's id; others count as the least of these.
        quoting: ids of the documents with a quoted phrase.
    """
    words = {_get_key(one): (place, one.score) for place, one in enumerate(by_words, 1)}
    meaning = {_get_key(one): place for place, one in enumerate(by_meaning, 1)}
    nearest = {_get_key(one): cosines[one.candidate.id] for one in by_meaning}
    top = max((score for _, score in words.values()), default=0.0) or 1.0
    least = min(cosines.values(), default=0.0)
    fused = []
    for what, one in {_get_key(one): one for one in (*by_meaning, *by_words)}.items():
        cosine = nearest.get(what, least)
        place, score = words.get(what) or (None, 0.0)
        floor = LEAST_OF_WORDS * min(1.0, one.score / cosine) if place is None else LEAST_OF_WORDS
        score = max(score / top, floor) * math.exp(OF_MEANING * (cosine - 1))
        fused.append(RankedCandidate(one.candidate, score, one.known, one.boosts, place, meaning.get(what)))
    return _sort(fused, quoting)


def _get_key(one: RankedCandidate) -> tuple[str, int]:
    """Return the key of a document; the pieces of a long turn are one document."""
    return one.candidate.path, one.candidate.first_line
