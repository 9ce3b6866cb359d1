"""Headings: the check that a heading above memories only names a theme.

The agent reads a heading like the memories below it, but no source supports a heading. So it may state nothing, order
nothing and identify nothing.
"""

from __future__ import annotations

import re

from memoryd.ledger import steering
from memoryd.ledger.disguise import folded
from memoryd.ledger.floor import TokenKind, tokens
from memoryd.text.content import content
from memoryd.text.neutral import neutral

NO_THEME = "a heading names a theme and says nothing"
_MOST_WORDS = 6
_MOST_CONTENT = 2  # words of content; from three on it can tell who did what
_LONGEST = 60  # characters
_SAYS = re.compile(
    r"[.!?:;…<>\[\]{}|`\\]|[。！？：；、]"  # noqa: RUF001
    r"|\b(?:is|isn't|are|aren't|was|were|be|been|has|have|had|will|would|can|may|should|shall|does|did|says?|said|"
    r"ist|sind|war|waren|hat|haben|wird|est|sont|était|está|són|sono|era)\b",
    re.IGNORECASE,
)


def is_theme(heading: str) -> bool:
    """Return True if a heading is a few neutral words that state nothing, order nobody and name nothing exactly."""
    if heading != neutral(heading) or len(heading) > _LONGEST or len(heading.split()) > _MOST_WORDS:
        return False
    exact = (one for one in tokens(heading) if one.kind is not TokenKind.NAME)
    is_exact = any(one.kind is not TokenKind.MARK or "/" not in one.text for one in exact)  # CI/CD is a theme
    if is_exact or _SAYS.search(heading) or len(content(heading)) > _MOST_CONTENT:
        return False
    said = folded(heading)
    return any(map(str.isalpha, heading)) and not steering.instructs(said) and not steering.prefers(said)
