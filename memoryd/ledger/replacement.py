"""Replacement: whether a newer statement says in so many words that something an older one says is so no longer.

Only by wording that leaves no doubt, and only for the same subject and attribute: "we moved the queue from X to Y" ends
"the queue runs on X"; "my favourite editor is now Y" ends "my favourite editor is X"; "I live in Y" ends "I live in X".
What merely tells of another thing (a second sister, another tool for another purpose) ends nothing: a memory that is
stale is seen by its date, one that was wrongly let go is gone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from memoryd.ledger.grounding import content, sentences
from memoryd.ledger.reversal import distances, negations, reversals
from memoryd.text.wording import plain, stem

_NAME = r"[^\W\d_][\w'.-]*(?: [^\W\d_][\w'.-]*){0,2}"
_LABEL = re.compile(rf"^(?:(?:User|Assistant|Agent|Decision|Learned|Event)|({_NAME})):\s+")
_STAMP = re.compile(r"\s*\(\d{4}[-\d/]*\)")
_NEWS = re.compile(r"\b(?:just|recently|finally|already|currently)\s+", re.IGNORECASE)
_VALUE = r"(?:[^\s,;:.!?()]|\.(?=\S))(?:[^,;:.!?()]|\.(?=\S)){0,58}?"
_END = (
    r"(?= (?:because|since|as|for|when|after|before|so|and|but|with|last|this|on|in|at|now|today|due|to)\b|[,;:.!?(]|$)"
)
_WE = r"(?P<who>i|we)(?:'ve| have)? "
_MOVED = r"(?:moved|switched|migrated|changed|upgraded|downgraded|relocated)"
_DOES = r"(?:use|run|live|work)s?(?: on| in| at| with)?"
_FROM_TO = rf"(?:over )?from (?P<old>{_VALUE}) (?:over )?to (?P<new>{_VALUE}){_END}"
_WHAT = r"[^,;:.!?()]{1,60}?"
_CHANGES = (
    re.compile(rf"\b{_WE}{_MOVED}(?P<what>(?: {_WHAT})?) {_FROM_TO}", re.IGNORECASE),
    re.compile(
        rf"\b(?P<who>the|our|my) (?P<what>{_WHAT}) (?:was|were|has been|have been) {_MOVED} {_FROM_TO}", re.IGNORECASE
    ),
    re.compile(rf"\b{_WE}replaced (?P<what>)(?P<old>{_VALUE}) (?:with|by) (?P<new>{_VALUE}){_END}", re.IGNORECASE),
    re.compile(
        rf"\b(?P<who>i|we) no longer (?P<what>){_DOES} (?P<old>{_VALUE})(?:,| but|, but| and|;) (?:(?:we|i) )?"
        rf"(?:now )?{_DOES} (?P<new>{_VALUE}){_END}",
        re.IGNORECASE,
    ),
)
_IS = re.compile(
    r"(?P<who>my|our|the|user's) (?P<what>[^,;:.!?()]{1,60}?)(?: is| are)(?P<now> now)? "
    r"(?P<value>[^,;:!?()]{1,80}?)(?P<late> now| these days)?[.!]?",
    re.IGNORECASE,
)
_HOME = re.compile(
    r"(?:i|(?:the )?user)(?:'ve| have)? (?:now )?(?:lives? in|moved to) (?P<value>[^,;:.!?()]{1,60}?)(?: now)?[.!]?",
    re.IGNORECASE,
)
# Attributes of which a person has one at a time; of any other a newer value must say that it is so now.
_SINGLE = re.compile(
    r"(?:name|(?:favou?rite|preferred|default|main) [\w -]+|(?:home |work )?address|(?:work )?e-?mail(?: address)?|"
    r"phone number|birthday|time ?zone|job title|username|editor|pronouns|native language|password manager)",
    re.IGNORECASE,
)
_GENERIC_LIST = """
use uses using used run runs running live lives living lived base based host hosts hosted deploy deployed store stored
keep kept stay currently over
"""
_GENERIC = frozenset(map(stem, _GENERIC_LIST.split()))
# Nouns that only say of what kind a value is.
_KINDS_LIST = """
database db editor shell ide browser bundler framework linter formatter compiler cloud hosting provider registry home
"""
_KINDS = frozenset(map(stem, _KINDS_LIST.split()))
_PURPOSE = re.compile(r" (?:for|in|on|at) (?P<of>[^,;:.!?()]{1,80}?)(?= (?:because|since|as|so|and|but)\b|[,;:.!?(]|$)")
_TIME = re.compile(
    r"\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|today|yesterday|"
    r"week|weekend|month|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday|spring|summer|autumn|winter)\b",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"\b(?:was|were|used to|had|he|she|they|his|her|their|born|work|works)\b")
_PLANNED_LIST = "will would could should might may can to not never almost nearly if wish hope before until"
_PLANNED = frozenset(_PLANNED_LIST.split())
_TURNS = frozenset({"no", "former"})  # belong to the wording of a change


class Claim(NamedTuple):
    """What one statement says is so, or is so no longer."""

    speaker: str  # a name, folded; empty for the user
    who: str  # "i", "we", "my", "our", "the" …; "home" for where the speaker lives
    what: frozenset[str]  # content words of the attribute
    value: str  # folded
    old: str = ""  # folded: what it replaces, where it says so
    ends: bool = False  # it says that the value is the one there is now


def claims(text: str) -> list[Claim]:
    """Return what `text` claims in a form that can be replaced or replaces; nothing that is asked, supposed or told."""
    speaker, body = _told(text)
    found = (_claim(sentence) for sentence in sentences(body))
    return [claim._replace(speaker=speaker) for claim in found if claim]


def is_replaced(older: str, newer: str) -> bool:
    """Say whether the statement `newer`, known to be the newer one, says that `older` is so no longer."""
    return any(replaces(claim, older) for claim in claims(newer))


def replaces(newer: Claim, older: str) -> bool:
    """Say whether what `newer` claims makes the statement `older` one of the past."""
    if newer.old:
        return _tells_the_old(older, newer)
    return (
        newer.ends
        and len(sentences(_told(older)[1])) == 1
        and any(_same_attribute(newer, claim) for claim in claims(older))
    )


def _told(text: str) -> tuple[str, str]:
    """Return who says a text, by the name before it, and what is said."""
    label = _LABEL.match(plain(text))
    return (label[1] or "").casefold() if label else "", plain(text)[label.end() if label else 0 :]


def _claim(sentence: str) -> Claim | None:
    said = " ".join(_NEWS.sub("", _STAMP.sub("", sentence)).split())
    if distances(said) or reversals(said)[1] - _TURNS:
        return None
    for pattern in _CHANGES:
        found = pattern.search(said)
        if found:
            return None if _is_planned(said, found) else _change(said, found)
    if negations(said):
        return None
    if found := _HOME.fullmatch(said):
        return Claim("", "home", frozenset(), found["value"].casefold(), ends=True)
    found = _IS.fullmatch(said)
    what = _attribute(found["what"]) if found else frozenset()
    if not found or not what:
        return None
    who = "my" if found["who"].casefold() == "user's" else found["who"].casefold()
    is_new = found["now"] or found["late"] or (who == "my" and _SINGLE.fullmatch(found["what"]))
    return Claim("", who, what, found["value"].casefold().rstrip("."), ends=bool(is_new))


def _is_planned(said: str, found: re.Match[str]) -> bool:
    """Whether what was found is planned, denied, or said of somebody else."""
    before = said[: found.start()].casefold().split()
    inside = found[0].casefold().replace("no longer", "")
    return bool(
        negations(inside) or negations(" ".join(before)) or _PLANNED.intersection((*before[-4:], *inside.split()[:3]))
    )


def _change(said: str, found: re.Match[str]) -> Claim | None:
    old, new = found["old"].casefold().strip(), found["new"].casefold().strip()
    purpose = _PURPOSE.match(said, found.end())
    of = purpose["of"] if purpose and not _TIME.search(purpose["of"]) else ""
    who = found["who"].casefold().strip()
    return Claim("", who, _attribute(found["what"]) | _attribute(of), new, old, ends=True) if old != new else None


def _attribute(text: str) -> frozenset[str]:
    return frozenset(map(stem, content(text))) - _GENERIC


def _same_attribute(newer: Claim, older: Claim) -> bool:
    same = (newer.speaker, newer.who, newer.what) == (older.speaker, older.who, older.what)
    return same and not older.old and newer.value != older.value


def _tells_the_old(older: str, newer: Claim) -> bool:
    """Whether `older` says, of the thing that changed and of nothing else, that it is what it no longer is."""
    speaker, body = _told(older)
    folded = _STAMP.sub("", body).casefold()
    if len(sentences(folded)) != 1 or reversals(folded) != (0, frozenset()):
        return False
    if _stands(newer.value, folded) or not _stands(newer.old, folded) or _ELSEWHERE.search(folded):
        return False
    if re.match(r"(?:i|my)\b", folded) and (newer.speaker != speaker or newer.who not in {"i", "my"}):
        return False
    rest = _attribute(re.sub(r"^(?:the )?user(?:'s)?\b", "", folded.replace(newer.old, " ")))
    return rest == newer.what or rest - _KINDS == newer.what - _KINDS


def _stands(value: str, folded: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-])(?!\.\w)", folded) is not None
