"""Content words: the words of a text that carry what it says, in a form in which two texts can be compared."""

from __future__ import annotations

import re
from functools import lru_cache

from memoryd.text.wording import STOP, fold, stem, units

# Who speaks, as a line of memory says it: no part of what is said.
LABELS = "User|Assistant|Agent|Report|Decision|Learned|Changed|Failed|Event|Asked|Done|Open"
_LABEL = re.compile(rf"^(?:[-*+]\s+)?(?:(?:{LABELS}):\s+)+", re.IGNORECASE)
# Words by which a memory reports something of the user: "User asked …", "prefers …".
_FRAMING_LIST = """
a after agent all also an and any are as ask asked asks assistant at be because been before both but by can
changed could decision did dislikes do does done each event failed for from had has hates have he her his how
i if in is it its just learned like liked likes more most my of on open or our please prefer
prefered preferred prefers report said says she should since so some tells than that the their
then there these they this those to today told use used user users uses using very want wanted wants was we were
what when where which who why will with would yesterday you your
"""
_FRAMING = frozenset(_FRAMING_LIST.split())


def unlabelled(text: str) -> str:
    """Return `text` without a label such as `User: ` before it."""
    return _LABEL.sub("", text, count=1)


def label_of(text: str) -> str:
    """Return the label that begins `text`, in lower case without its colon; empty where none does."""
    found = _LABEL.match(text)
    return found[0].strip(" :-*+").partition(":")[0].casefold() if found else ""


def is_label(word: str) -> bool:
    """Return whether a word is such a label."""
    return _LABEL.match(f"{word}: x") is not None


def content(text: str) -> list[str]:
    """Return the content words of `text` in order, runs of wide characters as pairs; numbers are none."""
    found = (unit for unit in units(fold(text)) if unit not in STOP and unit not in _FRAMING)
    return [unit for unit in found if len(unit) > 1 and not unit.isdigit()]


@lru_cache(maxsize=1 << 14)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of `text`; its numbers count as words here."""
    folded = fold(unlabelled(text))
    numbers = (unit for unit in units(folded) if unit.isdigit())
    return frozenset((*map(stem, content(folded)), *numbers))


def overlap(asked: str, held: str) -> float:
    """Return the share, 0..1, of the content words of `asked` that `held` has in some form; 0 without any."""
    words = stems(asked)
    return len(words & stems(held)) / len(words) if words else 0.0
