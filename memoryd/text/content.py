"""Find content words: the words that carry the meaning of a text, in a form that can be compared."""

import re
from functools import lru_cache

from memoryd.text.word_lists import list_words
from memoryd.text.wording import STOP, find_stem, fold, list_units

# Labels of a speaker or a kind before a line of memory; they do not belong to its text.
LABELS = "User|Assistant|Agent|Report|Decision|Learned|Changed|Failed|Event|Asked|Done|Open|Corrected|Reported earlier"
EARLIER = "Reported earlier: "  # before a fault or a finding that the session has probably overtaken
# The question of the other speaker in brackets, behind an answer that is unclear alone.
_QUESTION = re.compile(r" \(asked: .*\)$", re.DOTALL)
_LABEL = re.compile(rf"^(?:[-*+]\s+)?(?:(?:{LABELS}):\s+)+", re.IGNORECASE)
# Further words that a memory uses to report about the user: "User asked …", "prefers …".
_FRAMING = frozenset(list_words("framing"))


def strip_label(text: str) -> str:
    """Return `text` without a label such as `User: ` before it."""
    return _LABEL.sub("", text, count=1)


def split_question(text: str) -> tuple[str, str]:
    """Return an answer and the question in brackets at its end, as written; the question may be empty."""
    said = _QUESTION.sub("", text)
    return said, text.removeprefix(said)


def label_of(text: str) -> str:
    """Return the label that begins `text`, in lower case and without its colon; empty if there is none."""
    found = _LABEL.match(text.removeprefix(EARLIER))
    return found[0].strip(" :-*+").partition(":")[0].casefold() if found else ""


def is_label(word: str) -> bool:
    """Return True if a word is a label of `LABELS`."""
    return _LABEL.match(f"{word}: x") is not None


def list_content_words(text: str) -> list[str]:
    """Return the content words of `text` in order, without numbers; runs of wide characters become pairs."""
    found = (unit for unit in list_units(fold(text)) if unit not in STOP and unit not in _FRAMING)
    return [unit for unit in found if len(unit) > 1 and not unit.isdigit()]


@lru_cache(maxsize=1 << 14)
def list_stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of `text`, and its numbers."""
    folded = fold(strip_label(text))
    numbers = (unit for unit in list_units(folded) if unit.isdigit())
    return frozenset((*map(find_stem, list_content_words(folded)), *numbers))


def measure_overlap(asked: str, held: str) -> float:
    """Return the share, from 0 to 1, of the content words of `asked` that `held` also has; 0 if `asked` has none."""
    words = list_stems(asked)
    return len(words & list_stems(held)) / len(words) if words else 0.0
