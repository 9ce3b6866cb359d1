"""Reversal: the words that turn a statement round, so that "never use tabs" is never taken for "use tabs"."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")  # noqa: RUF001
_NOT = re.compile(
    r"^(?:not|no|never|none|without|nicht|kein\w*|nie|niemals|ne|pas|jamais|sans|nunca|jamás|sin|non|mai|senza|"
    r"não|sem|niet|geen|nooit|zonder|не|ни|никогда|без|不|没|沒|別|别)$|n['’]t$"  # noqa: RUF001
)
# Scripts without spaces negate inside a run: "不要用", "使わないで".
_WIDE_NOT = re.compile(r"不|没|沒|別|别|勿|ない|なかった|ません|ず(?:に)?$")
_REVERSES_LIST = "avoid stop stopped except unless without instead rather hate dislike refuse never not no"
REVERSES = frozenset(_REVERSES_LIST.split())


def negations(text: str) -> int:
    """Return how many words of `text` negate."""
    return sum(1 for word in _WORD.findall(text.casefold()) if _NOT.search(word))


def reversals(text: str) -> tuple[int, frozenset[str]]:
    """Return what must be the same in two texts that mean the same: how often they negate, and what else turns them."""
    folded = text.casefold()
    return negations(folded) + len(_WIDE_NOT.findall(folded)), REVERSES.intersection(_WORD.findall(folded))
