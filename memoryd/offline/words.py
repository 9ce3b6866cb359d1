"""Find content words, which show the subject of a text, as keys that can be counted and compared."""

import re
from functools import lru_cache

from memoryd.text.word_lists import list_words
from memoryd.text.wording import STOP, fold, list_units

_SUFFIX = re.compile(r"(?:'s|’s|s'|ies|ing|ed|es|s)$")  # noqa: RUF001


def list_content_words(text: str) -> list[str]:
    """Return the content words of `text` in order, casefolded and lightly stemmed; wide scripts become pairs."""
    return [key for unit in list_units(fold(text)) if (key := key_of(unit))]


@lru_cache(maxsize=65536)
def key_of(word: str) -> str:
    """Return the key of one word; empty for a word without content."""
    low = word.casefold()
    if not low.isascii():
        return "" if low in STOP else low
    if low in STOP or low.split("'")[0] in STOP or (len(low) < 2 and not low.isdigit()):
        return ""
    stem = _SUFFIX.sub("", low) if len(low) > 4 and not low.isdigit() else low
    return stem if len(stem) >= 3 else low


# Small talk: polite words that are seldom worth keeping, one form of each.
CHATTER_KEYS = frozenset(list_content_words(" ".join(list_words("chatter"))))
