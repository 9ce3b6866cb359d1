"""Recognise wording about unfinished work: what is still to be done, or in what state the work was left.

The next session needs such sentences most. The wording is English and German; labels also cover other languages.
"""

import re

from memoryd.text.word_lists import list_words

_LABEL = rf"(?:{'|'.join(list_words('labels of open work'))})"
_COUNT = r"(?:\s{0,2}\(\d{1,3}\))?"
_LABELLED = re.compile(rf"^(?P<label>{_LABEL}){_COUNT}\s{{0,2}}(?:[:：]|[–—-](?=\s))\s*", re.IGNORECASE)  # noqa: RUF001
_HEADED = re.compile(
    rf"^[ \t]{{0,3}}(?:#{{1,6}}[ \t]+|\*\*)(?P<label>{_LABEL}){_COUNT}[ \t]*:?[ \t]*(?:\*\*)?:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_STILL = re.compile(rf"\b(?:{'|'.join(list_words('left open'))})\b", re.IGNORECASE)
_KEPT = r"(?:committed|pushed|merged|deployed|released|staged|committet|gepusht|gemergt|eingecheckt|übernommen)"
_STATE = re.compile(
    rf"\b(?:nothing|not|none|never|isn't|aren't|hasn't|haven't|wasn't|nichts?|keine?r?)\b[^.;!?\n]{{0,40}}?\b{_KEPT}\b"
    rf"|\b(?:un(?:committed|pushed|merged|staged)|stashed)\b|\bonly (?:local|locally)\b"
    rf"|\b(?:everything|all(?: of it)?|alles)\b[^.;!?\n]{{0,20}}?\b{_KEPT}\b"
    r"|\b(?:the|my|this|der) branch (?:is|heißt|ist)\b|\b(?:on|auf|im) (?:(?:the|dem) )?branch [\w`]"
    r"|\b(?:on|auf) (?:the |dem )?`?[\w.-]+/[\w./-]+`? branch\b|^branch:? [\w`]",
    re.IGNORECASE,
)


def is_open(text: str) -> bool:
    """Return True if the sentence `text` says what still has to be done."""
    return _LABELLED.match(text) is not None or _STILL.search(text) is not None


def is_left(text: str) -> bool:
    """Return True if the sentence `text` says what is open, or in what state the work was left, such as its branch."""
    return is_open(text) or _STATE.search(text) is not None


def find_label(text: str) -> str | None:
    """Return the label of an open item at the beginning of `text`, such as "Open: "; None if there is none."""
    found = _LABELLED.match(text)
    return found[0] if found else None


def is_label(text: str) -> bool:
    """Return True if `text` is only such a label, so that the following text is an open item."""
    return find_label(text) == text


def with_labels(text: str) -> str:
    """Return `text` with headings that are such labels rewritten as lines of prose ("Open:").

    Otherwise the items below such a heading would not be recognised as open.
    """
    return _HEADED.sub(r"\g<label>:", text)
