"""Decide by its wording whether a user's statement lasts: a logistic model over its words and pairs of words.

People mostly mention in passing what they want remembered, without a word such as "remember". No single word shows it,
but all words together do. `bench/fit_lasting.py` fits the weights in `lasting_weights.txt` to messages that people
labelled. `bench/statements.py` counts what the model keeps of these messages, and of others that were not used.
"""

import pkgutil
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

from memoryd.offline.cues import CUES
from memoryd.text import prose
from memoryd.text.word_lists import compile_patterns

IN_CHAT, AT_WORK = 1.0, 1.9  # log odds; above, a statement lasts; a session of work has fewer such statements
_SIGNS = compile_patterns(__name__, "lasting_signs.txt")
_SUPPOSED, _PLAYED = _SIGNS.pop("supposed"), _SIGNS.pop("played")  # are searched for in the whole message
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[?!.,:;\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]")
_LONGEST_WIDE = 3  # letters of a feature in scripts without spaces
_LOOKED_AT = 4_000  # characters at the start of a message
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|^[^\"]*\S\"|\"[^\"]*$")


@cache
def _read_weights() -> dict[str, float]:
    text = (pkgutil.get_data(__name__, "lasting_weights.txt") or b"").decode()
    lines = (line.split("  ") for line in text.splitlines() if not line.startswith("#"))
    return {feature: float(weight) for weight, *features in lines for feature in features}


def _list_words(text: str) -> list[str]:
    found: list[str] = []
    for word in _WORD.findall(text.lower().replace("’", "'")):  # noqa: RUF001
        sizes = range(1, _LONGEST_WIDE + 1) if prose.is_wide(word) else (len(word),)
        found += [word[at : at + size] for size in sizes for at in range(len(word) - size + 1)]
    return ["#" if word[0].isdigit() else word for word in found]


def list_features(statement: str, message: str) -> set[str]:
    """Return the features of a statement in its message.

    These are its words, its pairs of adjacent words, its beginning, its length, and its signs.
    """
    words = _list_words(drop_quotations(statement))
    signs = {name for name, sign in _SIGNS.items() if sign.search(statement)} | {str(len(words) // 5)}
    signs |= {"supposed"} if _supposes(message) else set()
    begins = {f"^{' '.join(words[:size])}" for size in (1, 2)}
    return {*words, *map(" ".join, pairwise(words)), *begins, *(f"({sign})" for sign in signs)}


@lru_cache(maxsize=8)
def _supposes(message: str) -> bool:
    return any(one.search(message[:_LOOKED_AT]) for one in (_SUPPOSED, _PLAYED))


def announces(message: str) -> bool:
    """Return True if the next message may have another person's words: a text to work on, or a played role."""
    return any(one.search(message[:_LOOKED_AT]) for one in (CUES["announces"], _PLAYED))


def lasts(statement: str, message: str, *, chatting: bool) -> bool:
    """Return True if a statement of the user's `message` is likely to matter in later weeks.

    A message of several lines may contain pasted text without marks, so nothing of it lasts by its words alone.
    """
    found = sorted(list_features(statement, message)) if "\n" not in message.strip() else []
    return sum(_read_weights().get(feature, 0.0) for feature in ("", *found)) > (IN_CHAT if chatting else AT_WORK)


def drop_quotations(statement: str) -> str:
    """Return a statement without the words in quotation marks, which may be another person's."""
    return _QUOTED.sub(" ", statement)


def is_at_hand(statement: str) -> bool:
    """Return True if a statement is about the text or the choice at hand, or about a supposition."""
    return CUES["at hand"].search(statement) is not None or _supposes(statement)


def takes_itself_back(message: str) -> bool:
    """Return True if a message says that it is not meant seriously."""
    return CUES["takes back"].search(message[:_LOOKED_AT]) is not None


def find_taken_back(messages: Sequence[str]) -> frozenset[int]:
    """Return the indexes of the messages that their author retracts, in themselves or at once in the next one."""
    own = {at for at, text in enumerate(messages) if takes_itself_back(text)}
    return frozenset(own | {at - 1 for at, text in enumerate(messages) if at and CUES["takes back last"].match(text)})
