"""Compute normal forms of text, one for each purpose: texts that are equal for the purpose have an equal form.

Two other forms are elsewhere. `wording.fold` is for matching words. `tiers.core.normalize` identifies a bullet of a
core, and its hashes are stored.
"""

import re
import unicodedata
from functools import lru_cache

# A role before a text does not change its meaning, but a name does: "Anna: I live in Oslo" is not "Ben: I live in
# Oslo".
_BEFORE = re.compile(r"(?:[-*+•]\s+|(?:user|assistant|agent|report|decision|learned|event):\s+)*")
_QUOTES = str.maketrans(dict.fromkeys("‘’‚‛′`‹›", "'") | dict.fromkeys("“”„‟″«»「」『』", '"'))  # noqa: RUF001
_CLOSING = " .!;。！；…"  # noqa: RUF001 - without the question mark, because a question is not the statement


def normalize(text: str) -> str:
    """Return the form in which duplicates are equal, letter by letter; the order of words counts.

    The form is NFC and casefolded, with single spaces, without bullet mark, role label and closing punctuation.
    """
    folded = _fold(text)
    return folded[_BEFORE.match(folded).end() :].rstrip(_CLOSING)  # type: ignore[union-attr]  # it matches any text


@lru_cache(maxsize=1024)  # cached, because each claim of a reply is compared with the same sentences
def normalize_quotation(text: str) -> str:
    """Return the form in which a quotation equals its source.

    Case, white space, the style of quotation marks and closing punctuation are ignored. A question mark is kept.
    """
    return _fold(text).translate(_QUOTES).rstrip(_CLOSING)


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())
