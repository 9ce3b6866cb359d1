"""Evaluate whether consolidated memory answers the user's questions better than the daily files do, at equal cost.

The questions are the user's own later questions whose answers the user did not correct. The evidence of an answer is
its words, names and numbers that the question lacks and that memory had when the session began. Each has a weight by
its rarity (inverse document frequency, Spärck Jones 1972). A question whose answer was not in memory does not count. A
question is a hit if half of the weight of its evidence is retrieved, like recall by nuggets (Voorhees 2003).

Two retrievals have the same budget of tokens: a search in the daily files, and the core with a search in the remaining
budget. The core alone is reported too. Both get the same questions, so a sign test on the questions that only one of
them answers decides which is better (McNemar 1947).

Three more figures do not concern dreams: how many questions an injected line answers, how many one of the first three
hits in all memory answers, and how many injected lines are noise. The injected text has the last sessions, newest
first, and the core. A line is noise if none of its rarest words occurs in the session or a later one.

The evaluation has limits. Words are compared by stems, so an answer in other words is missed. An answer counts as right
if the user did not object. The search ranks only by the words of the question. The injected text is taken from the
daily files, which have more about a session than `RECENT.md`.
"""

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from memoryd.gauge.estimate import estimate
from memoryd.text.content import list_content_words
from memoryd.text.voice import keep_own_words
from memoryd.text.wording import find_stem

MOST_EVIDENCE = 12  # the most words of one answer that count as evidence, the rarest ones
FEWEST_EVIDENCE = 2  # an answer with fewer words is not counted, because a share of them means nothing
HIT = 0.5  # a hit has this share of the weight of the evidence
FEWEST = 5  # a verdict needs this many questions
DOUBT = 0.1  # there is no verdict if chance explains the difference with a higher probability
MOST_TERMS = 8  # the most words of a question that are searched, the rarest ones
MOST_RARE = 5  # the most words of an injected line that are looked at, the rarest ones
HITS = 3  # the number of hits of a search in all memory that count
LEAST_TEXT = 3  # tokens; with less room left, no text is added
LEAST_BUDGET = 400  # the least budget in tokens, so that a very short core does not limit the search
_ASKS = re.compile(
    r"[?\uff1f\u061f]\s*(?:$|\s|[\"')\]])"
    r"|^(?:what|which|who|whose|when|where|why|how|was|wer|wann|wo|wie|warum|welche\w*|que|quel\w*|quand|où|comment|"
    r"pourquoi|qué|cuál|quién|cuándo|dónde|cómo|cosa|quale|quando|dove|come|perché|qual|quem|onde|wat|wie|wanneer|waar|"
    r"hoe|что|кто|когда|где|как|почему|какой)\b",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """Hold a question of the user, the accepted answer, and the start of its session (UTC, ISO 8601)."""

    question: str
    answer: str
    since: str


@dataclass(frozen=True, slots=True)
class DatedEntry:
    """Hold one entry of a daily file with its time (UTC, ISO 8601) and its session, if it has one."""

    text: str
    at: str
    session: str = ""


@dataclass(slots=True)
class RetrievalTally:
    """Hold the sums of one retrieval over all questions."""

    hits: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Evaluation:
    """Hold the result of an evaluation."""

    asked: int = 0
    counted: int = 0  # questions whose answer was in memory
    days: RetrievalTally = field(default_factory=RetrievalTally)  # a search in the daily files
    # The core, and a search in the remaining budget.
    consolidated: RetrievalTally = field(default_factory=RetrievalTally)
    core: RetrievalTally = field(default_factory=RetrievalTally)  # the core alone
    wins: int = 0  # questions that only `consolidated` answers
    losses: int = 0  # questions that only `days` answers
    injected: RetrievalTally = field(default_factory=RetrievalTally)  # answers by the injected lines
    found: RetrievalTally = field(default_factory=RetrievalTally)  # answers by the first hits in all memory
    lines: int = 0  # lines injected at the starts of the sessions
    untouched: int = 0  # the injected lines that are noise

    @property
    def verdict(self) -> str:
        """Return `loses`, `helps`, or `undecided` if there are too few questions or the difference is too small."""
        if self.counted < FEWEST:
            return "undecided"
        most, of = max(self.wins, self.losses), self.wins + self.losses
        # One-sided sign test: the probability of a difference at least as large by chance.
        chance = sum(math.comb(of, count) for count in range(most, of + 1)) / 2**of
        if self.wins == self.losses or chance > DOUBT:
            return "undecided"
        return "loses" if most == self.losses else "helps"


def is_question(text: str) -> bool:
    """Return True if a message of the user has a question in the user's own words."""
    return bool(_ASKS.search(keep_own_words(text).strip()))


@lru_cache(maxsize=1 << 15)
def list_terms(text: str) -> frozenset[str]:
    """Return the stems of a text's content words, and its numbers."""
    return frozenset([*map(find_stem, list_content_words(text)), *_NUMBER.findall(text)])


def evaluate(
    questions: Iterable[tuple[PastQuestion, Sequence[str]]],
    days: Sequence[DatedEntry],
    most_tokens: int,
    recent_sessions: int,
    last_said: Mapping[str, str],
) -> Evaluation:
    """Return the evaluation of memory by questions, each with the memory at the start of its session.

    Args:
        questions: the questions, each with the texts of the core at that time.
        days: the entries of all daily files, in order.
        most_tokens: the largest budget of a retrieval.
        recent_sessions: the number of sessions that are injected.
        last_said: the start of the last session in which each word was said, by word.
    """
    told = Evaluation()
    all_days = _Days(days)
    starts = set[str]()
    for asked, core in questions:
        told.asked += 1
        memory = _MemoryIndex(all_days, asked.since, core)
        injected = memory.inject(recent_sessions, most_tokens)
        if asked.since not in starts:
            starts.add(asked.since)
            told.lines += len(injected)
            told.untouched += sum(memory.is_noise(line, asked.since, last_said) for line in injected)
        evidence = memory.evidence(asked)
        if len(evidence) < FEWEST_EVIDENCE:
            continue
        told.counted += 1
        found = memory.retrieve(asked, most_tokens)
        held = [frozenset[str]().union(*map(list_terms, texts)) for texts in found]
        hits = [_is_hit(one, evidence) for one in held]
        for tally, texts, hit in zip((told.days, told.consolidated, told.core), found, hits, strict=True):
            tally.hits += hit
            tally.tokens += sum(map(estimate, texts))
        for tally, texts in ((told.injected, injected), (told.found, memory.find(asked))):
            # Each line counts by itself, because many lines together have rare words of almost any answer.
            tally.hits += any(_is_hit(list_terms(text), evidence) for text in texts)
            tally.tokens += sum(map(estimate, texts))
        told.wins += hits[1] and not hits[0]
        told.losses += hits[0] and not hits[1]
    return told


def _is_hit(terms: Collection[str], evidence: Mapping[str, float]) -> bool:
    """Return True if these words have enough of an answer's evidence."""
    return sum(weight for term, weight in evidence.items() if term in terms) >= HIT * sum(evidence.values())


class _Days:
    """Index the entries of the daily files by their words; each query uses only the entries up to a time."""

    def __init__(self, days: Sequence[DatedEntry]) -> None:
        self.at = [one.at for one in days]
        self.texts = [one.text for one in days]
        self._sessions = [one.session for one in days]
        self._places = _by_term(self.texts)

    def places(self, term: str, count: int) -> Sequence[int]:
        """Return the indexes of those among the first `count` entries that contain a word."""
        found = self._places.get(term, [])
        return found if not found or found[-1] < count else found[: bisect_left(found, count)]

    def tell_sessions(self, most: int, count: int) -> list[str]:
        """Return the texts of the last `most` sessions among the first `count` entries, newest session first."""
        found: dict[str, list[str]] = {}
        for place in reversed(range(count)):
            name = self._sessions[place]
            if name in found or (name and len(found) < most):
                found.setdefault(name, []).append(self.texts[place])
        return [text for said in found.values() for text in reversed(said)]


class _MemoryIndex:
    """Hold the memory as it was at one time, indexed by words."""

    def __init__(self, days: _Days, since: str, core: Sequence[str]) -> None:
        self.days, self.core = days, list(core)
        self.count = bisect_left(days.at, since)
        self._in_core = _by_term(self.core)

    def weight(self, term: str) -> float:
        """Return the weight of a word; 0 if no text contains it."""
        holding = len(self.days.places(term, self.count)) + len(self._in_core.get(term, ()))
        return math.log(1 + (self.count + len(self.core)) / holding) if holding else 0.0

    def evidence(self, asked: PastQuestion) -> dict[str, float]:
        """Return the evidence of an answer: its rarest words that the question lacks, with weights."""
        return self._rarest(list_terms(asked.answer) - list_terms(asked.question), MOST_EVIDENCE)

    def _rarest(self, given: Iterable[str], most: int) -> dict[str, float]:
        weights = {term: weight for term in given if (weight := self.weight(term))}
        return dict(sorted(weights.items(), key=lambda one: (-one[1], one[0]))[:most])

    def inject(self, recent_sessions: int, most_tokens: int) -> list[str]:
        """Return the lines that are injected at the start of a session, each once: last sessions, then the core."""
        texts = [*self.days.tell_sessions(recent_sessions, self.count), *self.core]
        return _fit_budget(dict.fromkeys(texts), most_tokens)

    def is_noise(self, line: str, since: str, last_said: Mapping[str, str]) -> bool:
        """Return True if none of a line's rarest words is said in a session that begins at `since` or later."""
        return all(last_said.get(term, "") < since for term in self._rarest(list_terms(line), MOST_RARE))

    def find(self, asked: PastQuestion) -> list[str]:
        """Return the first hits of a search in all memory."""
        wanted = self._rarest(list_terms(asked.question), MOST_TERMS)
        places = {
            term: [*self.days.places(term, self.count), *(self.count + one for one in self._in_core.get(term, ()))]
            for term in wanted
        }
        ranked = _rank_places(places, wanted, newest_first=True)
        texts = (self.days.texts[one] if one < self.count else self.core[one - self.count] for one in ranked)
        return list(islice(dict.fromkeys(texts), HITS))

    def retrieve(self, asked: PastQuestion, most_tokens: int) -> tuple[list[str], list[str], list[str]]:
        """Return the texts of three retrievals: from the daily files, with the core, and from the core alone."""
        wanted = self._rarest(list_terms(asked.question), MOST_TERMS)
        found = _rank_places({term: self.days.places(term, self.count) for term in wanted}, wanted, newest_first=True)
        days = list(dict.fromkeys(self.days.texts[place] for place in found))
        size = sum(map(estimate, self.core))
        budget = min(max(2 * size, LEAST_BUDGET), most_tokens)
        first = self.core
        if size > budget // 2:
            places = {term: self._in_core.get(term, []) for term in wanted}
            first = [self.core[place] for place in _rank_places(places, wanted, newest_first=False)]
        core = _fit_budget(first, budget // 2)
        told = set(core)
        rest = _fit_budget((one for one in days if one not in told), budget - sum(map(estimate, core)))
        return _fit_budget(days, budget), [*core, *rest], core


def _by_term(texts: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for term in list_terms(text):
            found[term].append(place)
    return found


def _rank_places(places: Mapping[str, Sequence[int]], weights: Mapping[str, float], *, newest_first: bool) -> list[int]:
    """Return the places of the texts that match, best first; equal ones are ordered by place."""
    scores: dict[int, float] = defaultdict(float)
    for term, held in places.items():
        for place in held:
            scores[place] += weights[term]
    order = -1 if newest_first else 1
    return sorted(scores, key=lambda place: (-scores[place], order * place))


def _fit_budget(texts: Iterable[str], budget: int) -> list[str]:
    """Return the texts that fit into the budget, in order; a text that is too long is skipped."""
    found, left = [], budget
    for text in texts:
        if left < LEAST_TEXT:
            break
        if (size := estimate(text)) <= left:
            found.append(text)
            left -= size
    return found
