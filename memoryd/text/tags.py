"""Find the tags that people put into a text: `#word`, and the marks `@decision`, `@discovery`, `@pattern`, `@bug`."""

import re

from memoryd.text.fences import without_fences

MARKERS = ("decision", "discovery", "pattern", "bug")
_TAG = re.compile(r"(?<![\w#&/])#([^\W\d_][\w/-]*)")
_SAID = re.compile(rf"(?<![\w@./])@({'|'.join(MARKERS)})\b|{_TAG.pattern}", re.IGNORECASE)
_NOT_SAID = re.compile(r"`[^`\n]+`|^ {0,3}#{1,6}[ \t].*$", re.MULTILINE)
_LONGEST = 64  # characters of a tag


def tags_in(text: str) -> frozenset[str]:
    """Return the `#tags` in a text, in lower case."""
    return frozenset(tag.lower() for tag in _TAG.findall(text))


def find_tags(text: str) -> tuple[str, ...]:
    """Return the tags and marks in a text, in lower case and in order; code and headings are skipped."""
    said = _SAID.finditer(_NOT_SAID.sub(" ", without_fences(text)))
    found = dict.fromkeys((one[1] or one[2]).lower().rstrip("-/") for one in said)
    return tuple(tag for tag in found if len(tag) <= _LONGEST)
