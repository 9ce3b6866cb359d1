"""Divide a conversation into statements, possible lines of memory, and choose those that are worth a line.

A statement is one or a few whole sentences of one message, in order and in their original words. Small talk, narration
and sentences that add little are left out.

The choice is by content and place. The score is a logistic model over features that exist in any conversation. They are
new content words (rare words matter most: idf mass, Spärck Jones 1972), times, numbers, names, quotations, the first
person, small talk, and an answer after a question. `work` rates the statements of a working session. The selection is
greedy, by gain for length, within a budget. Content that is already taken is discounted (maximal marginal relevance,
Carbonell and Goldstein 1998).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

from memoryd.jobs import signals
from memoryd.jobs.duplicates import KnownTexts
from memoryd.ledger import steering
from memoryd.offline import words
from memoryd.offline.cues import CUES
from memoryd.offline.sentences import NumberedSentence, is_question
from memoryd.text import prose
from memoryd.text.portions import group_items

UNIT_WORDS = 40
ENOUGH = 0.75
LABEL_WORDS = 2  # the bullet mark and the speaker's name before each line

REPORTER = "Report"  # the speaker of a message from a subagent
THIN = 3  # content words; an answer with no more needs its question to be understood
_RECENT = 8  # a word in one of this many last messages counts as known
_LONGEST = 800  # characters; a longer text without a full stop is not a sentence
_CHATTER_WEIGHT = 0.3


class ConversationMessage(NamedTuple):
    """Hold one message of the conversation."""

    id: str
    speaker: str  # "User", "Assistant", or the name that begins the message
    by_user: bool
    text: str
    sentences: tuple[NumberedSentence, ...]
    is_acted_on: bool = False  # files were edited after this, before the user wrote again

    @property
    def is_answer(self) -> bool:
        """Return True if the message is the assistant's, and not a subagent's."""
        return not self.by_user and self.speaker != REPORTER


class Statement(NamedTuple):
    """Hold one possible line of memory, with its features."""

    turn: int  # the index of its message
    id: str
    speaker: str
    text: str
    cost: int  # length in words, with its mark, its speaker and its question
    told: frozenset[str]  # content words except small talk
    talk: frozenset[str]  # content words that are small talk
    new: int  # the number of words in `told` that no recent message has
    answers: bool  # the preceding message asks a question
    asked: str = ""  # the question, if the answer is unclear without it
    asked_id: str = ""
    numbers: tuple[int, ...] = ()  # numbers of its sentences


def list_statements(said: Sequence[ConversationMessage], *, unit_words: int = UNIT_WORDS) -> list[Statement]:
    """Return all possible lines, in order.

    Args:
        said: the messages, in order.
        unit_words: a message that is longer than one and a half times this number is divided into pieces of this
            length.
    """
    reading = _ConversationReading(said, unit_words=unit_words)
    return [statement for turn in range(len(said)) for statement in reading.read_message(turn)]


class _SentencePart(NamedTuple):
    number: int
    text: str
    keys: frozenset[str]
    mass: float
    words: int


class _ConversationReading:
    """Read a conversation once, with its rare words and its latest messages."""

    def __init__(self, said: Sequence[ConversationMessage], *, unit_words: int) -> None:
        self._said = said
        self._unit_words = unit_words
        self._names = _names(said)
        self._keys = [[frozenset(words.list_content_words(part.text)) for part in one.sentences] for one in said]
        self._rarity = _rarity(self._keys, self._names)
        self._asserted = KnownTexts()  # the statements of the user's last message

    def read_message(self, turn: int) -> list[Statement]:
        """Return the statements of one message; call it once for each message, in order."""
        known = frozenset().union(*chain.from_iterable(self._keys[max(0, turn - _RECENT) : turn]))
        if self._said[turn].by_user:
            self._asserted = KnownTexts(part.text for part in self._said[turn].sentences if not is_question(part.text))
        found = (self._statement(turn, unit, known) for unit in _units(self._parts(turn, known), self._unit_words))
        return [statement for statement in found if statement]

    def _parts(self, turn: int, known: frozenset[str]) -> list[_SentencePart]:
        one = self._said[turn]
        parts = []
        # A few words behind a question of the same message belong to that question, and answer no other one.
        asks = one.sentences and not one.by_user and is_question(one.sentences[0].text) and self._question(turn)[1]
        for (number, text, _), keys in zip(one.sentences, self._keys[turn], strict=True):
            is_idle = is_question(text) or (asks and len(keys) <= THIN) or self._only_assents(turn, text, known)
            mass = 0.0 if is_idle else sum(map(self._rarity.__getitem__, sorted(keys)))
            parts.append(_SentencePart(number, text, keys, mass, prose.count_words(text)))
        return parts

    def _only_assents(self, turn: int, text: str, known: frozenset[str]) -> bool:
        """Return True if a sentence only confirms or repeats the preceding message, and answers no question."""
        by_user = self._said[turn].by_user
        rest = signals.after_assent(text)
        if not by_user and self._asserted.says((rest or text).strip()):
            return True
        if rest is None or (by_user and self._question(turn)[1]):
            return False
        is_news = by_user or len({*words.list_content_words(rest)} - known) > 1 or self._question(turn)[1]
        return not is_news or signals.says_nothing(text) or self._names.issuperset(words.list_content_words(rest))

    def _statement(self, turn: int, unit: list[_SentencePart], known: frozenset[str]) -> Statement | None:
        one = self._said[turn]
        # The next sentence of the user may limit or revoke an order, so the whole unit is kept.
        is_order = one.by_user and any(steering.is_instruction(part.text) for part in unit)
        kept = unit if is_order else _trim(unit)
        text = " ".join(part.text if part.text[-1:] in prose.ENDS else f"{part.text}." for part in kept)
        own = frozenset().union(*(part.keys for part in kept)) - self._names
        talk = own & words.CHATTER_KEYS
        told = own - talk
        if len(text) > _LONGEST or not _says_enough(text, told, talk):
            return None
        asks_before, question = self._question(turn)
        asked = question if len(told) <= THIN else ""
        return Statement(
            turn, one.id, one.speaker, text,
            cost=prose.count_words(text) + prose.count_words(asked) + LABEL_WORDS,
            told=told, talk=talk, new=len(told - known),
            answers=bool(question), asked=asked, asked_id=asks_before if asked else "",
            numbers=tuple(part.number for part in kept),
        )  # fmt: skip

    def _question(self, turn: int) -> tuple[str, str]:
        """Return the id of the preceding message and its last question; both empty if the same speaker sent it.

        The question alone is empty if the message asks none.
        """
        before = self._said[turn - 1] if turn else None
        if before is None or before.speaker == self._said[turn].speaker:
            return "", ""
        return before.id, next((part.text for part in reversed(before.sentences) if is_question(part.text)), "")


def _says_enough(text: str, told: frozenset[str], talk: frozenset[str]) -> bool:
    return len(told) > 1 or (len(told) == 1 and (not talk or CUES["time"].search(text.lower()) is not None))


def _names(said: Sequence[ConversationMessage]) -> frozenset[str]:
    """Return the keys of the speakers' names, and of names that they call each other by more than once."""
    called = Counter(name for one in said for name in set(CUES["called"].findall(one.text)))
    names = (*(one.speaker for one in said), *(name for name, times in called.items() if times > 1))
    return frozenset(key for name in names for key in words.list_content_words(name))


def _rarity(keys: Iterable[Iterable[frozenset[str]]], names: frozenset[str]) -> dict[str, float]:
    """Return the weight of each word: its inverse message frequency, less for small talk, zero for speakers' names."""
    messages = [frozenset().union(*of_one) for of_one in keys]
    seen = Counter(key for of_one in messages for key in of_one)
    count = len(messages) + 2
    weights = {}
    for key, n in seen.items():
        share = 0.0 if key in names else _CHATTER_WEIGHT if key in words.CHATTER_KEYS else 1.0
        weights[key] = share * math.log(count / (n + 0.5))
    return weights


def _units(parts: list[_SentencePart], longest: int) -> list[list[_SentencePart]]:
    if sum(part.words for part in parts) <= 1.5 * longest:
        return [parts] if parts else []
    return group_items(parts, [part.words for part in parts], longest)


def _trim(unit: list[_SentencePart]) -> list[_SentencePart]:
    """Return the sentences with most of the unit's mass, in order; the densest sentences are chosen first."""
    wanted = sum(part.mass for part in unit) * ENOUGH
    order = sorted(range(len(unit)), key=lambda i: (-unit[i].mass / (unit[i].words + 1) ** 0.7, i))
    chosen: list[int] = []
    for i in order:
        if wanted <= 0:
            break
        chosen.append(i)
        wanted -= unit[i].mass
    return [unit[i] for i in sorted(chosen)]


# Weights of the logistic model, one for each feature. They were set by hand, starting from a regression on half of
# LoCoMo, so that they do not fit that data too closely.
WEIGHTS = (
    -2.6,  # bias
    0.25,  # logarithm of the length
    1.3,  # new content words, in tens
    0.5,  # content words per word
    0.3,  # first person
    0.9,  # times and numbers
    1.5,  # names, divided by three
    0.6,  # quotations
    0.85,  # answers a question
    -1.4,  # share of small talk
)
_LENGTH_COST = 0.55  # exponent of the length: 0 takes the best first, 1 the best per word
_REPEATED = 0.3  # a statement loses up to this share of its worth if its words are already taken


def choose(candidates: Sequence[Statement], budget: int) -> list[Statement]:
    """Return the statements with the most worth for their length, within `budget` words, in their original order.

    Args:
        candidates: the statements, in order.
        budget: the number of words that all chosen statements may have, including marks and speakers.
    """
    values = [rate_statement(one) / one.cost**_LENGTH_COST for one in candidates]
    heap = [(-value, i) for i, value in enumerate(values)]
    heapify(heap)
    taken: list[int] = []
    turns: Counter[int] = Counter()
    seen: set[str] = set()
    while heap and budget > 0:
        _, i = heappop(heap)
        one = candidates[i]
        cost = one.cost - (LABEL_WORDS if turns[one.turn] else 0)
        if cost > budget:
            continue
        gain = values[i] * (1 - _REPEATED * len(one.told & seen) / len(one.told))
        if heap and -gain > heap[0][0]:
            # The discount made it worth less than the next one. Put it back with its new value, which is an upper
            # bound.
            heappush(heap, (-gain, i))
            continue
        taken.append(i)
        turns[one.turn] += cost
        budget -= cost
        seen |= one.told
    return [candidates[i] for i in sorted(taken)]


def rate_statement(statement: Statement) -> float:
    """Return the probability that a person asks for `statement` later, from 0 to 1."""
    score = sum(weight * value for weight, value in zip(WEIGHTS, _features(statement), strict=True))
    return 1 / (1 + math.exp(-score))


def _features(statement: Statement) -> tuple[float, ...]:
    text = statement.text
    low = text.lower()
    length = max(1, statement.cost - LABEL_WORDS)
    own = statement.told | statement.talk
    names = {name for name in CUES["name"].findall(text) if words.key_of(name) in own}
    return (
        1.0,
        math.log1p(length),
        min(2.0, statement.new / 10),
        len(statement.told) / length,
        float(CUES["self"].search(low) is not None),
        float(CUES["time"].search(low) is not None),
        min(3, len(names)) / 3,
        float(CUES["quote"].search(text) is not None),
        float(statement.answers),
        len(statement.talk) / len(own),
    )
