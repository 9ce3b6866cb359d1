"""Recognise wording about unfinished work: what is still to be done, or in what state the work was left.

The next session needs such sentences most. The wording is English and German; labels also cover other languages.
"""

import re

from memoryd.text.word_lists import list_words

_LABELS = (
    r"(?:still |currently |noch )?open(?: (?:items?|points?|tasks?|issues?|work|questions?|todos?))?",
    r"(?:still )?to[- ]?dos?|(?:still |left )?to (?:be done|do)|left(?: to do| over| open)?|what(?:'s| is) left",
    r"(?:still )?(?:not|un)[- ]?(?:yet )?(?:done|finished|started|tested|committed|pushed|merged)(?: yet)?",
    r"remaining(?: (?:work|tasks?|steps?|items?|points?|issues?|todos?))?|still remaining|remains|remains to be done",
    r"next(?: (?:steps?|up|tasks?|actions?))?|pending|outstanding|(?:still )?missing|follow-?ups?",
    r"(?:noch |weiterhin )?offen(?:e (?:punkte|aufgaben|fragen)|(?: (?:ist|sind|bleib(?:t|en)|noch))+)?|als nächstes",
    r"nächste[rs]? schritte?|(?:noch )?nicht (?:erledigt|fertig|getestet|committet)|(?:es )?fehlt(?: noch)?|ausstehend",
    r"(?:reste )?à faire|reste|en suspens|(?:queda )?pendientes?|por hacer|falta|(?:ancora )?da fare|in sospeso",
    r"(?:noch )?zu (?:tun|erledigen)|por fazer|pendências|nog te doen",
    r"осталось(?: сделать)?|待办(?:事项)?|待辦|未完成|剩余|剩下|残り|未完了|残作業|남은 작업",
)
_LABEL = rf"(?:{'|'.join(_LABELS)})"
_COUNT = r"(?:\s{0,2}\(\d{1,3}\))?"
_LABELLED = re.compile(rf"^(?P<label>{_LABEL}){_COUNT}\s{{0,2}}(?:[:：]|[–—-](?=\s))\s*", re.IGNORECASE)  # noqa: RUF001
_HEADED = re.compile(
    rf"^[ \t]{{0,3}}(?:#{{1,6}}[ \t]+|\*\*)(?P<label>{_LABEL}){_COUNT}[ \t]*:?[ \t]*(?:\*\*)?:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_STILL = re.compile(
    r"\b(?:to-?dos?(?! lists?\b)|next steps?|still (?:needs?|has|have|must) to|"
    r"still (?:open|missing|fails|failing|red|broken)|remains to be|left to do|not yet|"
    r"(?:noch|weiterhin) (?:offen|nicht)|schl[aä]gt? (?:noch|weiterhin) fehl|"
    rf"{'|'.join(list_words('left open'))})\b",
    re.IGNORECASE,
)
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
