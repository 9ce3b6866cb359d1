"""Answerable: how many questions, made mechanically from what was known, a search of a memory still answers.

A question is a text with one of its names or numbers blanked out, which is the answer; and one for the whole text,
whose answer is most of its words (cloze questions: Taylor 1953). It is answered where one of the first hits of a search
for the other words holds the answer. Hits rank by the inverse document frequency of the words they hold (Robertson
2004); memories are short, so how often a word stands in one says nothing.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger.grounding import Ground, Source, content
from memoryd.ledger.wording import fold, occurs, stem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MOST_TEXTS = 800  # that questions are made of; of more, the same part each time
_MOST_ANSWERS = 4  # of one text
_HITS = 5
_TERMS = 8  # the rarest of a question's
_FORGIVEN = 1  # question of a memory that stands as it was, and only slipped behind something new out of the first hits
_GIST = 0.6  # share of the words of a text that a hit must hold to say the same
# A number with what hangs on it, an identifier or path, a word written large that does not begin its sentence.
_ANSWER = re.compile(r"\d+(?:,\d{3})+|[\w./:@-]*\d[\w./:@%-]*|\w+(?:[_/]\w+)+|(?<=[\w,;)] )[^\W\d_a-z][\w'-]+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Score:
    """How much a memory answers, before and after.

    Attributes:
        questions: that were asked.
        before: of them answered by the old memory.
        after: of them answered by the new one.
        unexplained: answered before and not after, and made of nothing that was let go; one is forgiven whose memory
            stands as it was, since in a small core the rank of a single hit would be more than the drop allowed.
    """

    questions: int
    before: int
    after: int
    unexplained: int

    @property
    def drop(self) -> float:
        """The share, 0..1, of what was answered before that is not any more without a reason."""
        return self.unexplained / self.before if self.before else 0.0


class _Question(NamedTuple):
    terms: frozenset[str]
    answer: str | None  # None: most of the terms
    source: str | None  # the memory it is made of


def score(old: Mapping[str, str], new: Mapping[str, str], days: Sequence[str], let_go: Collection[str]) -> Score:
    """Ask both memories what the old one and the days know.

    Args:
        old: texts of the memory as it was, by id.
        new: texts of the memory as it is to be.
        days: entries of daily files.
        let_go: ids of old memories that were archived or superseded.
    """
    texts: list[tuple[str, str | None]] = [
        *((text, key) for key, text in old.items()),
        *((text, None) for text in days),
    ]
    questions = [one for text, key in _chosen(texts) for one in _questions(text, key)]
    earlier, later = _Index(old.values()), _Index(new.values())
    before = [earlier.answers(one) for one in questions]
    after = [later.answers(one) for one in questions]
    lost = [
        one for one, was, remains in zip(questions, before, after, strict=True)
        if was and not remains and one.source not in let_go and not later.says(one)
    ]  # fmt: skip
    stands = {key for key, text in old.items() if new.get(key) == text}
    outranked = sum(1 for one in lost if one.source in stands or (one.source is None and len(stands) == len(old)))
    return Score(len(questions), sum(before), sum(after), len(lost) - min(_FORGIVEN, outranked))


def _chosen(texts: Sequence[tuple[str, str | None]]) -> Sequence[tuple[str, str | None]]:
    if len(texts) <= MOST_TEXTS:
        return texts
    return nsmallest(MOST_TEXTS, texts, key=lambda one: hashlib.sha256(one[0].encode(errors="replace")).digest())


def _questions(text: str, source: str | None) -> Iterator[_Question]:
    words = _stems(text)
    if words:
        yield _Question(words, None, source)
    for answer in list(dict.fromkeys(_ANSWER.findall(text)))[:_MOST_ANSWERS]:
        terms = words - _stems(answer)
        if terms:
            yield _Question(terms, fold(answer.rstrip(".:,-")), source)


@functools.lru_cache(maxsize=1 << 15)  # most of a memory is the same before and after
def _stems(text: str) -> frozenset[str]:
    return frozenset(
        (*(stem(unit) for unit in content(text)), *(one.lstrip("0") for one in _NUMBER.findall(text.replace(",", ""))))
    )


class _Index:
    """The texts of a memory by the stems of their words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        self._folded: list[str] = []
        self._stems: list[frozenset[str]] = []
        self._holding: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts):
            self._folded.append(fold(text))
            self._stems.append(_stems(text))
            for one in self._stems[-1]:
                self._holding[one].append(number)

    def answers(self, question: _Question) -> bool:
        """Whether one of the first hits holds the answer."""
        hits = self._hits(question.terms)
        if question.answer is None:
            return any(len(question.terms & self._stems[one]) >= _GIST * len(question.terms) for one in hits)
        return any(occurs(question.answer, self._folded[one]) for one in hits)

    def says(self, question: _Question) -> bool:
        """Whether one of the first hits has the answer written otherwise: a number or a date."""
        if question.answer is None or not _NUMBER.search(question.answer):
            return False
        return any(
            Ground([Source(self._texts[hit], date.min)]).missing(question.answer) is None
            for hit in self._hits(question.terms)
        )

    def _hits(self, terms: frozenset[str]) -> list[int]:
        known = sorted((one for one in terms if one in self._holding), key=lambda one: (len(self._holding[one]), one))
        scores: dict[int, float] = defaultdict(float)
        for term in known[:_TERMS]:
            weight = math.log(1 + len(self._folded) / len(self._holding[term]))
            for number in self._holding[term]:
                scores[number] += weight
        return [number for number, _ in nlargest(_HITS, scores.items(), key=itemgetter(1))]
