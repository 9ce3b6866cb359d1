"""Consent: whether an agent said yes to refining its memory. What is not a clear yes is none.

The first word that decides decides: models put reasons behind their answer, and some a greeting or bold marks before.
"""

from __future__ import annotations

import re
import unicodedata

_YES_LIST = """
yes yeah yep yup yea aye sure ok okay absolutely certainly definitely affirmative agreed agree accept accepted approve
approved consent proceed true gladly ja jawohl gerne oui si sí sì sim tak да はい 是 是的 好 好的 同意 예 네
"""
_NO_LIST = """
no nope nah not never decline declined refuse refused reject rejected disagree don't dont won't cannot can't shouldn't
wouldn't later skip false without nein non nee nie нет いいえ 不 否 아니요
"""
_YES = frozenset(_YES_LIST.split())
_NO = frozenset(_NO_LIST.split())
_PHRASE = re.compile(
    r"(?:go ahead|go for it|i do|please do|do it|of course|by all means|sounds good|i'm ready|i am ready|"
    r"(?:let's|lets|please|i want to|i'd like to|i would like to) (?:do|begin|start|refine|condense))\b(?! not\b)"
)
_NO_OBJECTION = re.compile(r"\b(?:no (?:problem|objections?|worries)|why not|(?:do not|don't) mind)\b")
_TAKEN_BACK = re.compile(r"\b(?:but|except)\b.{0,30}\b(?:not|no|don't|never|later)\b|\bnot (?:now|yet|today)\b")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_LEAD = 12  # words within which an answer must come


def is_given(text: str) -> bool:
    """Whether a reply consents: a clear yes in any wording or formatting, before any no."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").strip()
    if folded.endswith("?") and "\n" not in folded:
        return False
    words = _WORD.findall(_NO_OBJECTION.sub(" yes ", folded))[:_LEAD]
    lead = " ".join(words)
    for at, word in enumerate(words):
        if word in _NO:
            return False
        if word in _YES or _PHRASE.match(" ".join(words[at:])):
            return not _NO.intersection(words[at + 1 : at + 2]) and _TAKEN_BACK.search(lead) is None
    return False
