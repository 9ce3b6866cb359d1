"""Consent: whether an agent said yes to refining its memory. What is not a clear yes is none.

The answer must begin with its yes; a heading, a label or the braces of JSON may stand before it. A word anywhere in it
that takes back, or asks that the memory stay as it is, makes it a no: nobody is harmed by being asked again.
"""

from __future__ import annotations

import re
import unicodedata

_NO_LIST = """
no nope nah not never neither nor nothing none decline declines declined refuse refused reject rejected disagree cannot
without later skip stop wait false leave leaves keep keeps untouched unchanged unless except however maybe perhaps
rather instead but nein nicht kein keine non ne pas rien nee niet niets nie ничего нет не いいえ 不 否 아니요 아니오
"""
_NO = frozenset(_NO_LIST.split())
_NO_OBJECTION = re.compile(r"\b(?:no (?:problem|objections?|worries)|why not|(?:do not|don't) mind)\b")
# Said of what is asked, these are a yes; said of anything else, they may begin whatever sentence.
_ALONE = re.compile(
    r"^(?:ok|okay|absolutely|definitely|certainly|affirmative|of course|i do|sounds good|i'm ready|i am ready)\b"
    r"[\s,.:!—-]*"
)
_YES = re.compile(
    r"(?:yes|yeah|yep|yup|yea|aye|sure|agreed|accepted|approved|proceed|true|gladly|ja|jawohl|gerne|oui|si|sí|sì|sim|"
    r"tak|da|はい|是的?|好的?|同意|예|네|go ahead|go for it|do it|by all means|(?:consent (?:is )?)?granted|"
    r"i (?:consent|agree|accept|approve)|"
    r"(?:(?:let's|lets|please|i want to|i'd like to|i would like to) "
    r"(?:do (?:it|so)|go ahead|proceed|begin|start|refine|condense)))(?!\w)"
)
_LABEL = re.compile(r"^(?:[\W_]*(?:json\s+)?[\W_]*(?:my )?(?:answer|consent|decision|reply|response)[^\w\n:=]*[\n:=])*")
_LEAD = re.compile(r"^[\W_]*(?:1[.)][\W_]*)?")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def is_given(text: str) -> bool:
    """Whether a reply consents: a clear yes in any wording or formatting, and no word of no."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'").strip()
    if folded.endswith("?"):
        return False
    said = _NO_OBJECTION.sub(" yes ", folded)
    words = _WORD.findall(said)
    if any(word in _NO or word.endswith("n't") or word in {"dont", "wont"} for word in words):
        return False
    said = _LEAD.sub("", _LABEL.sub("", said, count=1), count=1)
    rest = _ALONE.sub("", said, count=1)
    return _YES.match(rest) is not None or (rest != said and not _WORD.search(rest))
