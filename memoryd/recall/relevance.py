"""Decide whether a hit is worth injecting after a prompt; most of a prompt is conversation, not a query."""

from memoryd.recall.query import Query, TermKind
from memoryd.recall.snippet import find_held

_WORDS = 2
_TELLING = frozenset({TermKind.NAME, TermKind.PHRASE})


def is_about(text: str, prompt: Query) -> bool:
    """Return True if a text has two words of a prompt, or one name or quoted phrase of it; stop words do not count."""
    own = set(find_held(text, [term.text for term in prompt.terms]))
    return len(own) >= _WORDS or any(term.text in own for term in prompt.terms if term.kind in _TELLING)
