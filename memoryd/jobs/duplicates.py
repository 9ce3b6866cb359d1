"""Duplicates: whether two texts say the same, told by their words alone.

Texts are equal when they are after NFC, folding of spaces and casefolding; near-equal when nearly all words are shared
*and* numbers, names and negations are the same, so that "the colour is purple" and "the colour is cyan" stay two.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

from memoryd.ledger.reversal import negations
from memoryd.text import prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")  # noqa: RUF001
# A role before a text changes nothing about it; a name does: "Anna: I live in Oslo" is not "Ben: I live in Oslo".
_LABEL = re.compile(r"^(?:[-*]\s+)?(?:(?:User|Assistant|Agent|Report|Decision|Learned|Event):\s+)?", re.IGNORECASE)
_SMALL_LIST = """
a an and are as at be been by for from had has have i in is it its me my of on or our so that the this to us was we
were will with you your
"""
_SMALL = frozenset(_SMALL_LIST.split())
_KEPT_TEXTS = 1 << 14
_NEAR = 0.85  # share of all words of two texts that must be shared


def fold(text: str) -> str:
    """Return `text` in the form in which equal texts are equal: NFC, spaces folded, casefolded, bullet mark off."""
    return _spaced(text).removeprefix("- ").removeprefix("* ")


class Known:
    """Texts said before; `says` tells whether another text adds nothing to them.

    Thousands are known and few are asked about, so nothing is worked out of a text until another that is asked about
    has its words: what two that say the same must share is looked for as letters first.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._spaced: list[str] = []
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember `text`."""
        self._texts.append(text)
        self._spaced.append(_spaced(text))

    def says(self, text: str) -> bool:
        """Say whether `text` equals, or nearly equals, one of the texts added."""
        bare, keys = _bare(text), _keys(text)
        return bool(bare) and any(_same(text, bare, keys, other) for other in self._candidates(bare, keys))

    def _candidates(self, bare: str, keys: frozenset[str]) -> Iterator[str]:
        """Yield the texts that could say the same: they hold every word that tells apart, and `_NEAR` of all of them.

        Of words that need not all be there, one among any `1 - _NEAR` of them, and one more, must be: the prefix
        filter of similarity joins (Chaudhuri, Ganti and Kaushik 2006), over the longest words, which tend to be rare.
        """
        words = [_letters(key) for key in keys] or [bare]
        needed = sorted({_letters(key) for key in keys if _tells_apart(key)}, key=len, reverse=True)
        places: Iterable[int] = range(len(self._spaced))
        for word in needed:
            places = [place for place in places if word in self._spaced[place]]
        if not needed:
            some = sorted(words, key=len, reverse=True)[: int(len(words) * (1 - _NEAR)) + 1]
            places = [place for place, held in enumerate(self._spaced) if any(word in held for word in some)]
        for place in places:
            if sum(word in self._spaced[place] for word in words) >= _NEAR * len(words):
                yield self._texts[place]


@functools.lru_cache(maxsize=_KEPT_TEXTS)  # the same memory files are known to each run
def _spaced(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _same(text: str, bare: str, keys: frozenset[str], other: str) -> bool:
    """Whether `other` equals, or nearly equals, the text with this bare form and these words."""
    return _bare(other) == bare or (_near(keys, _keys(other)) and negations(other) == negations(text))


def _near(keys: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(keys & other)
    if not shared or shared / (len(keys) + len(other) - shared) < _NEAR:
        return False
    return not any(_tells_apart(key) for key in keys ^ other)


def _letters(key: str) -> str:
    return key.removeprefix("^").casefold()


def _bare(text: str) -> str:
    return fold(_LABEL.sub("", text.strip())).rstrip(" .!;。")


def _keys(text: str) -> frozenset[str]:
    """Return the words of `text`; one that is written large within a sentence is a name and marked so."""
    keys: set[str] = set()
    for i, word in enumerate(_WORD.findall(unicodedata.normalize("NFC", _LABEL.sub("", text.strip())))):
        if prose.is_wide(word):
            keys.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word.casefold() not in _SMALL:
            keys.add(f"^{word.casefold()}" if i and word[0].isupper() and word != "I" else word.casefold())
    return frozenset(keys)


def _tells_apart(key: str) -> bool:
    return any(char.isdigit() for char in key) or key.startswith("^")
