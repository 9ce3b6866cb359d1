"""Compare the statements of a working session, to find repeated, changed and outdated ones.

Only the words are compared, not their order. Cues show that a statement reports a change.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import NamedTuple

from memoryd.offline.cues import WORK_CUES
from memoryd.offline.statements import ConversationMessage
from memoryd.text import prose
from memoryd.tiers.session_summary import Section

_REVISITED = 0.4  # a line may be overtaken if later answers hold more than this share of its words
_MOST_AFTER = 4  # it may be overtaken only if the user wrote more messages than this after it
_SAME = 0.7  # a line repeats another if it shares this part of the words
_CHANGED = 0.6  # a later change makes a line obsolete if it shares this part of the words
_MOST = 100  # a word that more changes share is skipped, which limits the time


class WorkStatement(NamedTuple):
    """Hold one possible line of a working session."""

    turn: int  # the index of its message
    id: str  # the id of its message
    numbers: tuple[int, ...]  # the numbers of its sentences
    speaker: str  # "User", "Assistant", or `REPORTER`
    text: str
    section: Section
    keys: frozenset[str]  # content words
    weight: float
    is_wish: bool = False  # the user says what they want, or agrees with it
    is_guess: bool = False  # it is hedged, rejected by the user, or acted upon at once
    is_passed: bool = False  # the session went on and may have overtaken it
    asked: str = ""  # the question, if the answer is unclear without it
    asked_id: str = ""

    @property
    def by_user(self) -> bool:
        """Return True if the user made the statement."""
        return self.speaker == "User"

    @property
    def cost(self) -> int:
        """Return the number of words that the line takes, with its question and the mark before it."""
        return prose.count_words(self.text) + prose.count_words(self.asked) + 1


class LaterAnswers:
    """Tell whether the rest of a session may have overtaken a line of an answer."""

    def __init__(
        self, said: Sequence[ConversationMessage], keys: Sequence[AbstractSet[str]], rarity: Mapping[str, float]
    ) -> None:
        """Take the messages, the words of each of them, and the weight of each word."""
        self._rarity = rarity
        self._asked = [at for at, is_theirs in enumerate(one.by_user for one in said) if is_theirs]
        answers = (at for at, one in enumerate(said) if one.speaker == "Assistant")
        self._newest = {key: at for at in answers for key in keys[at]}

    def overtake(self, turn: int, keys: AbstractSet[str]) -> bool:
        """Return True if the user said much after a line with these words, and later answers have many of the words."""
        next_asked = bisect_right(self._asked, turn)
        if len(self._asked) - next_asked <= _MOST_AFTER:
            return False
        mass = sum(self._rarity.get(key, 0.0) for key in sorted(keys))
        again = [key for key in sorted(keys) if self._newest.get(key, 0) > self._asked[next_asked]]
        return sum(self._rarity.get(key, 0.0) for key in again) > _REVISITED * mass


def repeats(one: WorkStatement, other: WorkStatement) -> bool:
    """Return True if a line adds little to another one; a request and its answer never repeat each other."""
    shared = len(one.keys & other.keys)
    # The same answer to two questions counts as two answers.
    is_same = one.by_user is other.by_user and one.asked == other.asked
    # What a user adds to a shorter line is news.
    size = len(one.keys) if one.by_user else min(len(one.keys), len(other.keys))
    return is_same and 0 < shared >= _SAME * size


def drop_changed(found: Sequence[WorkStatement]) -> list[WorkStatement]:
    """Return the statements without findings about things that the assistant later says it changed."""
    changes = [one for one in found if not one.by_user and WORK_CUES["changes"].search(one.text)]
    by_key: dict[str, list[int]] = defaultdict(list)
    for at, change in enumerate(changes):
        for key in change.keys:
            by_key[key].append(at)

    def is_changed(one: WorkStatement) -> bool:
        if one.by_user or one.section is not Section.FOUND or WORK_CUES["stays"].search(one.text):
            return False
        # A word in many changes does not distinguish them, and comparing all of them takes long.
        shared = Counter(chain.from_iterable(by_key[key] for key in one.keys if len(by_key.get(key, ())) <= _MOST))
        return any(_changes(changes[at], one) for at, count in shared.items() if count > 1)

    return [one for one in found if not is_changed(one)]


def _changes(later: WorkStatement, one: WorkStatement) -> bool:
    if later.turn <= one.turn or one.keys <= later.keys:
        return False
    return len(one.keys & later.keys) >= max(2, _CHANGED * min(len(one.keys), len(later.keys)))
