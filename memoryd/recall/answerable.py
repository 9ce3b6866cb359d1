"""Answerable: how many questions, made mechanically from what was known, a search of a memory still answers.

A question is a text with one of its names or numbers taken out, which is the answer; and one is the whole text, whose
answer is most of its words (cloze questions: Taylor 1953). It is answered where one of the first hits of a search for
it holds the answer. The search is given, and is the one that users have.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from datetime import date
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memoryd.ledger.grounding import Ground, Source, content
from memoryd.recall.query import parse
from memoryd.text.wording import fold, occurs, stem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memoryd.recall.query import Query

# Questions that are asked at most: all of a core of the usual size, and what a dream may take of a moment beside it.
# Of more the same part is asked each time, the core's and the days' apart, so that many days do not hide a loss.
MOST_OF_MEMORIES = 160
MOST_OF_DAYS = 40
_MOST_ANSWERS = 4  # of one text
_HITS = 5
_FORGIVEN = 1  # question whose answer is still there, and only slipped out of the first hits
_GIST = 0.6  # share of the words of a text that a hit must hold to say the same
# A number with what hangs on it, an identifier or path, a word written large that does not begin its sentence.
_ANSWER = re.compile(r"\d+(?:,\d{3})+|[\w./:@-]*\d[\w./:@%-]*|\w+(?:[_/]\w+)+|(?<=[\w,;)] )[^\W\d_a-z][\w'-]+")
_NUMBER = re.compile(r"\d+")


class Search(Protocol):
    """Searches one memory."""

    @property
    def texts(self) -> Collection[str]:
        """All that may be found."""

    def __call__(self, query: Query, limit: int) -> Sequence[str]:
        """The texts of the first hits, the best first, with those that are as good as the last of them."""


class Known(NamedTuple):
    """A memory: its texts by id, and how it is searched."""

    texts: Mapping[str, str]
    search: Search


@dataclass(frozen=True, slots=True)
class Score:
    """How much a memory answers, before and after.

    Attributes:
        questions: that were asked.
        before: of them answered by the old memory.
        after: of them answered by the new one.
        unexplained: answered before and not after, and made of nothing that was let go. Where a text that says it is
            still there, and only slipped out of the first hits, as many are taken off as came into them that way, and
            one, since in a small core the rank of a single hit would be more than the drop allowed.
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
    query: Query
    terms: frozenset[str]
    answer: str | None  # None: most of the terms
    source: str | None  # the memory it is made of


def score(old: Known, new: Known, days: Sequence[str], let_go: Collection[str]) -> Score:
    """Ask both memories what the old one and the days know.

    Args:
        old: the memory as it was.
        new: as it is to be.
        days: entries of daily files.
        let_go: ids of old memories that were archived or superseded.
    """
    questions = _drawn([(text, key) for key, text in old.texts.items()], MOST_OF_MEMORIES)
    questions += _drawn([(text, None) for text in days], MOST_OF_DAYS)
    gone = {_folded(old.texts[key]) for key in let_go if key in old.texts}
    before = after = lost = slipped = 0
    for one in questions:
        was, remains = (_Hits(known.search, one) for known in (old, new))
        before += bool(was.answering)
        after += bool(remains.answering)
        if remains.answering and not was.answering:
            slipped -= _is_said(one, old)
        elif was.answering and not remains.answering:
            told = {_folded(text).removeprefix("- ") for text in was.answering}
            if one.source not in let_go and not told <= gone and not remains.say(one):
                is_said = _is_said(one, new)
                slipped += is_said
                lost += not is_said
    return Score(len(questions), before, after, lost + max(0, slipped - _FORGIVEN))


def _is_said(question: _Question, known: Known) -> bool:
    """Whether a text of a memory, found first or not, says what is asked for of what the question is about."""
    least = _GIST * len(question.terms)
    return any(_answers_it(question, one) and len(question.terms & _stems(one)) >= least for one in known.search.texts)


def _drawn(texts: Iterable[tuple[str, str | None]], most: int) -> list[_Question]:
    """The questions of texts; of more than are asked the same ones each time, of as many texts as can be."""
    chosen = nsmallest(most, texts, key=lambda one: _lot(one[0]))
    asked = [(text, answer, key) for text, key in chosen for answer in _answers(text)]
    return [_question(*one) for one in nsmallest(most, asked, key=lambda one: _lot(f"{one[1]}\0{one[0]}"))]


def _lot(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def _answers(text: str) -> Iterator[str | None]:
    """What is asked for of a text; None for most of its words."""
    words = _stems(text)
    if words:
        yield None
    for answer in list(dict.fromkeys(_ANSWER.findall(text)))[:_MOST_ANSWERS]:
        if words - _stems(answer):
            yield answer


def _question(text: str, answer: str | None, source: str | None) -> _Question:
    if answer is None:
        return _Question(parse(text), _stems(text), None, source)
    blanked = _ANSWER.sub(lambda match: " " if match[0] == answer else match[0], text)
    return _Question(parse(blanked), _stems(text) - _stems(answer), fold(answer.rstrip(".:,-")), source)


@functools.lru_cache(maxsize=1 << 15)  # most of a memory is the same before and after
def _stems(text: str) -> frozenset[str]:
    return frozenset(
        (*(stem(unit) for unit in content(text)), *(one.lstrip("0") for one in _NUMBER.findall(text.replace(",", ""))))
    )


_folded = functools.lru_cache(maxsize=1 << 15)(fold)


class _Hits:
    """What a search came to."""

    def __init__(self, search: Search, question: _Question) -> None:
        self._texts = search(question.query, _HITS)
        self.answering = [one for one in self._texts if _answers_it(question, one)]

    def say(self, question: _Question) -> bool:
        """Whether one of the hits has the answer written otherwise: a number or a date."""
        if question.answer is None or not _NUMBER.search(question.answer):
            return False
        return any(Ground([Source(one, date.min)]).missing(question.answer) is None for one in self._texts)


def _answers_it(question: _Question, text: str) -> bool:
    if question.answer is None:
        return len(question.terms & _stems(text)) >= _GIST * len(question.terms)
    return occurs(question.answer, _folded(text))
