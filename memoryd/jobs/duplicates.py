"""Duplicates: whether two texts say the same, told by their words alone.

Texts are equal when they are after NFC, folding of spaces and casefolding; near-equal when nearly all words are shared
*and* numbers, names and negations are the same, so that "the colour is purple" and "the colour is cyan" stay two.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from memoryd.ledger import prose
from memoryd.ledger.reversal import negations

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")  # noqa: RUF001
# A role before a text changes nothing about it; a name does: "Anna: I live in Oslo" is not "Ben: I live in Oslo".
_LABEL = re.compile(r"^(?:[-*]\s+)?(?:(?:User|Assistant|Agent|Report|Decision|Learned|Event):\s+)?", re.IGNORECASE)
_SMALL_LIST = """
a an and are as at be been by for from had has have i in is it its me my of on or our so that the this to us was we
were will with you your
"""
_SMALL = frozenset(_SMALL_LIST.split())
_NEAR = 0.85  # share of all words of two texts that must be shared


def fold(text: str) -> str:
    """Return `text` in the form in which equal texts are equal: NFC, spaces folded, casefolded, bullet mark off."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).removeprefix("- ").removeprefix("* ")


class Known:
    """Texts said before; `says` tells whether another text adds nothing to them."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._folded: set[str] = set()
        self._by_word: dict[str, list[int]] = {}
        self._words: list[frozenset[str]] = []
        self._negations: list[int] = []
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember `text`."""
        folded = _bare(text)
        if not folded or folded in self._folded:
            return
        self._folded.add(folded)
        keys = _keys(text)
        for key in keys:
            self._by_word.setdefault(key, []).append(len(self._words))
        self._words.append(keys)
        self._negations.append(negations(text))

    def says(self, text: str) -> bool:
        """Say whether `text` equals, or nearly equals, one of the texts added."""
        if _bare(text) in self._folded:
            return True
        keys = _keys(text)
        return any(self._near(keys, i) and self._negations[i] == negations(text) for i in self._candidates(keys))

    def _candidates(self, keys: frozenset[str]) -> set[int]:
        """Return the texts that could be near: one must share a word among any `1 - _NEAR` of these keys, and one more.

        That is the prefix filter of similarity joins (Chaudhuri, Ganti and Kaushik 2006), over the rarest words here.
        """
        rarest = sorted(keys, key=lambda key: (len(self._by_word.get(key, ())), key))
        return {i for key in rarest[: int(len(keys) * (1 - _NEAR)) + 1] for i in self._by_word.get(key, ())}

    def _near(self, keys: frozenset[str], i: int) -> bool:
        other = self._words[i]
        shared = len(keys & other)
        if shared / (len(keys) + len(other) - shared) < _NEAR:
            return False
        return not any(_tells_apart(key) for key in keys ^ other)


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
