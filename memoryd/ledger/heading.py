"""Headings: the check that a heading above memories only names a theme.

The agent reads a heading like the memories below it, but no source supports a heading. So it may state nothing, order
nothing and identify nothing.
"""

from __future__ import annotations

import re

from memoryd.ledger import steering
from memoryd.ledger.disguise import fold
from memoryd.ledger.floor import TokenKind, find_tokens
from memoryd.text.content import list_content_words
from memoryd.text.neutral import neutralize

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
    if heading != neutralize(heading) or len(heading) > _LONGEST or len(heading.split()) > _MOST_WORDS:
        return False
    exact = (one for one in find_tokens(heading) if one.kind is not TokenKind.NAME)
    is_exact = any(one.kind is not TokenKind.MARK or "/" not in one.text for one in exact)  # CI/CD is a theme
    if is_exact or _SAYS.search(heading) or len(list_content_words(heading)) > _MOST_CONTENT:
        return False
    said = fold(heading)
    return any(map(str.isalpha, heading)) and not steering.is_instruction(said) and not steering.is_preference(said)
