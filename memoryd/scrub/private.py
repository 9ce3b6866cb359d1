"""What somebody has put between `<private>` and `</private>`: taken out, whatever the policy says of secrets.

Tags are read, not matched as pairs: a tag may be in any case, have attributes or spaces, be escaped for HTML, JSON or a
URL. Tags nest; a part that is never closed goes on to the end of the message. Whatever begins like an opening tag is
one, even where its end is missing; a closing tag has to be whole. A closing tag alone is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memoryd.scrub.finding import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memoryd.scrub.finding import Place

KEYWORD = b"private"
RULE = "private"

_OPEN = rb"(?:<|&lt;|&#0*60;|&#x0*3c;|\\+u003c|\\+x3c|%3c)"
_CLOSE = rb"(?:>|&gt;|&#0*62;|&#x0*3e;|\\+u003e|\\+x3e|%3e)"
_BEFORE = re.compile(_OPEN + rb"\s{0,8}(?P<slash>(?:\\*/|%2f|&#47;)?)\s{0,8}\Z", re.IGNORECASE)
_AFTER_OPENING = re.compile(rb"(?=[\s/>&%\\\"']|\Z)(?:[^<>&%\\]{0,400}?" + _CLOSE + rb")?", re.IGNORECASE)
_AFTER_CLOSING = re.compile(rb"[^<>&%\\\w][^<>&%\\]{0,200}?" + _CLOSE + rb"|" + _CLOSE, re.IGNORECASE)
_REACH = 40  # how far before its name a tag may begin


def find(places: Iterable[Place]) -> Iterator[Span]:
    """The private parts, given every place of the keyword in order."""
    depth = start = 0
    inside: Place | None = None
    for place in places:
        if inside is not None and place.begin != inside.begin:
            yield Span(start, inside.end, RULE)
            inside, depth = None, 0
        begin = max(place.begin, place.first - _REACH)
        before = _BEFORE.search(place.buffer[begin : place.first])
        if before is None:
            continue
        closing = bool(before["slash"])
        tag = (_AFTER_CLOSING if closing else _AFTER_OPENING).match(place.buffer, place.last, place.end)
        if tag is None:
            continue
        if not closing:
            if inside is None:
                inside, start = place, begin + before.start()
            depth += 1
        elif inside is not None:
            depth -= 1
            if depth == 0:
                yield Span(start, tag.end(), RULE)
                inside = None
    if inside is not None:
        yield Span(start, inside.end, RULE)
