"""Remove what somebody has put between `<private>` and `</private>`, whatever the policy for secrets.

A tag may be in any case, have attributes or spaces, or be escaped for HTML, JSON or a URL. Tags nest. A part without a
closing tag goes on to the end of the message. An opening tag counts even if its end is missing, but not if it holds
more than attributes, as a C++ template does. A closing tag must be complete, and one without an opening tag is left as
it is. A tag in backticks only mentions the tag and hides nothing. There is one exception: if no other tag is open, an
opening tag in backticks hides the text up to a closing tag without backticks.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from memoryd.scrub.finding import KeywordPlace, SecretSpan

KEYWORD = b"private"
RULE = "private"

_OPEN = rb"(?:<|&(?:amp;){0,3}lt;|&#0*60;|&#x0*3c;|\\+u003c|\\+x3c|%3c|\xef\xbc\x9c|\xef\xb9\xa4)"
_CLOSE = rb"(?:>|&(?:amp;){0,3}gt;|&#0*62;|&#x0*3e;|\\+u003e|\\+x3e|%3e|\xef\xbc\x9e|\xef\xb9\xa5)"
_GAP = rb"(?:\s|\xc2\xa0|\xe3\x80\x80|\xe2\x80[\x80-\x8a\xaf])"
_BEFORE = re.compile(
    _OPEN + _GAP + rb"{0,8}(?P<slash>(?:\\*/|%2f|&#47;|\xef\xbc\x8f)?)" + _GAP + rb"{0,8}\Z", re.IGNORECASE
)
_AFTER_OPENING = re.compile(
    rb"(?=[\s/>&%\\\"'\xc2\xe2\xe3\xef]|\Z)(?:(?P<inner>[^<>&%\\]{0,400}?)(?P<close>" + _CLOSE + rb"))?", re.IGNORECASE
)
_ATTRIBUTES = re.compile(
    rb"(?:" + _GAP + rb"{1,40}[\w:.-]{1,80}" + _GAP + rb"{0,8}=" + _GAP + rb"{0,8}(?:\"[^\"]*\"|'[^']*'|[^\s\"']+))*+"
    rb"(?:" + _GAP + rb"|/)*"
)
_AFTER_CLOSING = re.compile(rb"[^<>&%\\\w][^<>&%\\]{0,200}?" + _CLOSE + rb"|" + _CLOSE, re.IGNORECASE)
_REACH = 40  # A tag may begin this many bytes before its name.


class _Tag(NamedTuple):
    first: int
    last: int
    closing: bool
    mention: bool


def find(places: Iterable[KeywordPlace]) -> Iterator[SecretSpan]:
    """Yield the private parts. `places` has every place of the keyword, in order."""
    for (_, end), inside in groupby(places, lambda place: (place.begin, place.end)):
        yield from _parts([tag for place in inside if (tag := _tag(place))], end)


def _parts(tags: list[_Tag], end: int) -> Iterator[SecretSpan]:
    opened: list[int] = []
    mentioned: list[int] = []
    for tag in tags:
        if not tag.closing:
            (mentioned if tag.mention else opened).append(tag.first)
        elif opened and not tag.mention:
            start = opened.pop()
            if not opened:
                yield SecretSpan(start, tag.last, RULE)
        elif mentioned and not tag.mention:
            yield SecretSpan(mentioned.pop(), tag.last, RULE)
    if opened:
        yield SecretSpan(opened[0], end, RULE)


def _tag(place: KeywordPlace) -> _Tag | None:
    buffer = place.buffer
    begin = max(place.begin, place.first - _REACH)
    before = _BEFORE.search(buffer[begin : place.first])
    if before is None:
        return None
    closing = bool(before["slash"])
    tag = (_AFTER_CLOSING if closing else _AFTER_OPENING).match(buffer, place.last, place.end)
    if tag is None or (not closing and tag["close"] and not _ATTRIBUTES.fullmatch(tag["inner"])):
        return None
    first, last = begin + before.start(), tag.end()
    mention = first > place.begin and buffer[first - 1 : first] == b"`" == buffer[last : min(last + 1, place.end)]
    return _Tag(first, last, closing, mention)
