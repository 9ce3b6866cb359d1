"""Find the lasting statements of a conversation, which are the few that belong in the core.

Users of memory systems complain most about junk in the core. So a doubtful statement stays in the daily file.
Preferences and facts come from text that the user typed, by an explicit cue or by all words together
(`lasting_model`). Decisions and lessons also come from the assistant, only by cues. `lasting_cues.txt` has the cues.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from memoryd.jobs.job import MemoryType
from memoryd.offline import lasting_model, words
from memoryd.offline.cues import CUES
from memoryd.offline.sentences import is_question
from memoryd.text.word_lists import read_patterns


class Cue(NamedTuple):
    """Hold one wording that shows that a statement lasts."""

    type: MemoryType
    importance: float
    by_user_only: bool
    at_work_only: bool  # between friends, such words tell a story and are no decision or lesson
    pattern: re.Pattern[str]

    def applies(self, *, by_user: bool, working: bool) -> bool:
        """Return True if the cue counts for words of this speaker in such a session."""
        return (by_user or not self.by_user_only) and (working or not self.at_work_only)


def _read_cues() -> Iterator[Cue]:
    for head, pattern in read_patterns(__name__, "lasting_cues.txt").items():
        kind, importance, *limits = head.split()
        wording = re.compile(pattern, re.IGNORECASE)
        yield Cue(MemoryType(kind), float(importance), "user" in limits, "work" in limits, wording)


_LASTING = tuple(_read_cues())
# The result for a statement that lasts by its words alone.
_NOTED = Cue(MemoryType.FACT, 0.7, by_user_only=True, at_work_only=False, pattern=re.compile(""))
_OF_USER = frozenset({MemoryType.PREFERENCE, MemoryType.FACT})
ASKED_FOR = 0.9  # importance; from this on, the user has explicitly asked to keep a statement
_LECTURES = 2.5  # the assistant lectures if its messages are this many times as long as the user's
_SHORTEST = 3  # content words; a shorter statement says too little
_SHORTEST_OF_SELF = 2  # content words in a statement about the user: "I prefer tea."
_OF_SELF = 0.75  # from this importance on, a cue is about the user
_LONGEST = 320  # characters; a longer text is not a single statement
_NAMES = re.compile(r"\s[A-Z][\w+#.-]+|\w\d|\d\w|\w_\w")  # the object of a decision: "Let's use Redis."


@lru_cache(maxsize=512)  # the steps of a sleep ask for the same sentences again
def find_cue(sentence: str, *, by_user: bool, working: bool, message: str = "", chatting: bool = False) -> Cue | None:
    """Return the cue that shows that `sentence` lasts, or None for most sentences.

    `message` is the user's whole message. With it, a sentence without a cue lasts if its words together show it. In a
    chat (`chatting`), the limit is lower than in a session of work.
    """
    if not _is_statement(sentence):
        return None
    plain = sentence.replace("’", "'")  # noqa: RUF001
    own = lasting_model.drop_quotations(plain) if by_user else plain
    applying = (cue for cue in _LASTING if cue.applies(by_user=by_user, working=working))
    found = next((cue for cue in applying if cue.pattern.search(own) and _stands(plain, cue)), None)
    if found is None:
        return _NOTED if by_user and message and lasting_model.lasts(plain, message, chatting=chatting) else None
    may_pass = found.type in _OF_USER and found.importance < ASKED_FOR
    return None if may_pass and lasting_model.is_at_hand(plain) else found


def _is_statement(sentence: str) -> bool:
    is_whole = len(sentence) <= _LONGEST and not sentence.endswith(":")
    return is_whole and not is_question(sentence) and not CUES["elsewhere"].search(sentence)


def _stands(sentence: str, cue: Cue) -> bool:
    told = sum(1 for key in words.list_content_words(sentence) if key not in words.CHATTER_KEYS)
    if cue.importance >= ASKED_FOR:
        return told >= _SHORTEST_OF_SELF
    is_plain = cue.by_user_only and (cue.importance >= _OF_SELF or cue.type is MemoryType.DECISION)
    least = _SHORTEST_OF_SELF if is_plain else _SHORTEST
    if is_plain and cue.type is MemoryType.DECISION and _NAMES.search(sentence):
        least = 1
    return told >= least and not CUES["passing"].search(sentence)


def is_lecturing(own: Iterable[str], other: Iterable[str]) -> bool:
    """Return True if the assistant's messages are so much longer than the user's that it works for them or teaches.

    In a conversation of equals, statements are stories, not decisions or lessons, and both speakers count the same.
    """
    user, assistant = [len(text) for text in own] or [1], [len(text) for text in other] or [0]
    return sum(assistant) / len(assistant) > _LECTURES * sum(user) / len(user)
