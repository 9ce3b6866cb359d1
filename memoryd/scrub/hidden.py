"""Find the parts of a whole Markdown file that no piece of it may show: private parts and private keys.

Both may cross lines, bullets and paragraphs. So they are searched before a file is divided, because a piece of a key
looks like any other text.
"""

import re
from collections.abc import Iterator

from memoryd.scrub import formats, private
from memoryd.scrub.encoded import view_stripped
from memoryd.scrub.finding import JoinedTexts, KeywordPlace, SecretSpan, make_placeholder, merge_spans
from memoryd.text.conflicts import is_conflicted
from memoryd.text.private import is_private

_WORD = re.compile(re.escape(private.KEYWORD), re.IGNORECASE)
_KEY = re.compile(rb"-----(?P<end>BEGIN|END) ", re.IGNORECASE)
_SHOWN = re.compile(rb"[^\r\n]+")


def find_hidden(data: bytes) -> list[SecretSpan]:
    """Return the private parts and private keys of a file, in order and without overlaps.

    A file that is marked private, or has an unfinished merge, is hidden as a whole.
    """
    if is_private("", data) or is_conflicted(data):
        return [SecretSpan(0, len(data), private.RULE)]
    joined = JoinedTexts([data])
    begin = joined.begins[0]
    found = [*_parts(data)]
    for view in view_stripped(joined):
        spans = (view.span(*span) for span in _parts(view.data))
        found += [SecretSpan(first - begin, last - begin, rule) for first, last, rule in spans]
    return merge_spans(found)


def _parts(data: bytes) -> Iterator[SecretSpan]:
    yield from private.find(KeywordPlace(data, *match.span(), 0, len(data)) for match in _WORD.finditer(data))
    for match in _KEY.finditer(data):
        find = formats.find_pem if match["end"].upper() == b"BEGIN" else formats.find_pem_end
        yield from find(KeywordPlace(data, *match.span(), 0, len(data)))


def mask_hidden(data: bytes) -> bytes:
    """Return the file with spaces in place of its hidden parts, and a placeholder where it fits.

    The spaces have the same length, so every other byte keeps its place. A file that is marked private, or has an
    unfinished merge, becomes blank lines without a placeholder.
    """
    if is_private("", data) or is_conflicted(data):
        return _SHOWN.sub(_blank, data)
    pieces, at = [], 0
    for first, last, rule in find_hidden(data):
        mark = make_placeholder(rule).encode()
        blank = _SHOWN.sub(_blank, data[first:last])
        pieces += [data[at:first], mark + blank[len(mark) :] if blank.startswith(b" " * len(mark)) else blank]
        at = last
    return b"".join([*pieces, data[at:]])


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])
