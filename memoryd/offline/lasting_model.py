"""Decide by its wording whether a user's statement lasts: a logistic model over the signs in `lasting_signs.txt`.

People mostly mention in passing what they want remembered, without a word such as "remember". No single sign shows it,
but many signs together do. The user speaks of themselves or of a project, says how often or how long something is so,
and refers neither to the text at hand nor to the moment.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from memoryd.offline import cues
from memoryd.text.patterns import read_patterns
from memoryd.text.word_lists import list_words

_IN_MESSAGE = frozenset({"text", "supposed"})  # signs that are searched for in the whole message
_BIAS, _SHORT = -1.9, -1.3  # weights of any statement, and of a short one in addition
_FEW = 5  # words; a statement with fewer is short
_LEAST = 0.5  # log odds; at this limit, 13 of the 500 messages that do not last are kept (`bench/statements.py`)
# Signs of the subject: the user, their people, or the project.
_ABOUT = frozenset({"role", "standing", "ours", "kept", "kin"})
_LOOKED_AT = 4_000  # characters at the start of a message
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|^[^\"]*\S\"|\"[^\"]*$")

# A clause of its own that retracts its message: "Answer like a pirate from now on, just kidding."
_TAKES_BACK = re.compile(
    r"(?:^|[,.;:!?()–—-])\s*(?:(?:just|only|i'm|i am|i was just|obviously) )*(?:kidding|joking)\s*(?:[.!)?,;]|$)"  # noqa: RUF001
    r"|\b(?:just|only|i'm|i am) (?:kidding|joking)\s*(?:[.!)]|$)"
    r"|(?:^|[\s(])jk[\s.,;!)]*$|\b(?:nur|war|ist) (?:nur )?(?:ein )?(?:scherz|spaß)\b|\bc'est une blague\b"
    r"|\bes broma\b|\bшучу\b|\bэто (?:была )?шутка\b|(?<![不别])开玩笑|[,.;!(–—-]\s*not really[\s.!)]*$"  # noqa: RUF001
    r"|(?:[.!?,]|\bof course)\s+/s[\s.!)]*$"
    rf"|(?:^|[.!?,;…–—-]\s*)(?:{'|'.join(list_words('retractions'))})(?:,? (?:bitte|please))?[\s.!)]*$",  # noqa: RUF001
    re.IGNORECASE,
)
# The beginning of a message that retracts the message before it.
_TAKES_BACK_LAST = re.compile(
    r"(?:\W|\b(?:(?:ha){2,}h?|(?:he){2,}|lol|nah|ok|okay|oh|sorry|nein|non|нет)\b)*"
    r"(?:(?:(?:i was |that was |i'm )?(?:just |only )?(?:kidding|joking|a joke)|jk"
    r"|(?:das )?war (?:nur )?(?:ein )?(?:scherz|spaß)|nur (?:ein )?(?:scherz|spaß)|c'était une blague"
    r"|era (?:una )?broma|(?:это )?(?:была )?шутка|шучу)(?!\w)|开玩笑)",
    re.IGNORECASE,
)


class Sign(NamedTuple):
    """Hold one sign that a statement stays true for long, or only for the moment."""

    weight: float
    name: str
    pattern: re.Pattern[str]


@cache
def _read_signs() -> tuple[Sign, ...]:
    heads = read_patterns(__name__, "lasting_signs.txt").items()
    signs = ((*head.split(" "), pattern) for head, pattern in heads)
    return tuple(Sign(float(weight), name, re.compile(pattern, re.IGNORECASE)) for weight, name, pattern in signs)


@lru_cache(maxsize=8)
def _find_around(message: str) -> tuple[Sign, ...]:
    return tuple(one for one in _read_signs() if one.name in _IN_MESSAGE and one.pattern.search(message[:_LOOKED_AT]))


def announces(message: str) -> bool:
    """Return True if the next message may have another person's words: a text to work on, or a played role."""
    return cues.ANNOUNCES.search(message) is not None or any(one.name == "supposed" for one in _find_around(message))


def lasts(statement: str, message: str) -> bool:
    """Return True if a statement of the user's `message` is likely to matter in later weeks.

    A message of several lines may contain pasted text without marks, so no sign is trusted there.
    """
    if "\n" in message.strip():
        return False
    found = [one for one in _read_signs() if one.name not in _IN_MESSAGE and one.pattern.search(statement)]
    words = len(statement.split()) if " " in statement else len(statement) / 2
    odds = _BIAS + _SHORT * (words < _FEW) + sum(one.weight for one in (*found, *_find_around(message)))
    is_about = cues.ONESELF.search(statement) is not None or any(one.name in _ABOUT for one in found)
    return is_about and odds > _LEAST


def drop_quotations(statement: str) -> str:
    """Return a statement without the words in quotation marks, which may be another person's."""
    return _QUOTED.sub(" ", statement)


def is_at_hand(statement: str) -> bool:
    """Return True if a statement is about the text or the choice at hand, or about a supposition."""
    return cues.AT_HAND.search(statement) is not None or any(one.name == "supposed" for one in _find_around(statement))


def takes_itself_back(message: str) -> bool:
    """Return True if a message says that it is not meant seriously."""
    return _TAKES_BACK.search(message[:_LOOKED_AT]) is not None


def find_taken_back(messages: Sequence[str]) -> frozenset[int]:
    """Return the indexes of the messages that their author retracts, in themselves or at once in the next one."""
    own = {at for at, text in enumerate(messages) if takes_itself_back(text)}
    return frozenset(own | {at - 1 for at, text in enumerate(messages) if at and _TAKES_BACK_LAST.match(text)})


def is_order(statement: str) -> bool:
    """Return True if a statement begins like an order."""
    return any(one.name == "order" and one.pattern.search(statement) for one in _read_signs())
