"""Find code fences (CommonMark 0.31, section 4.5); every reader of Markdown or of messages uses this scanner.

A closing fence has the character of its opening, is at least as long, and has no other text. Both are indented by at
most three spaces, counted from the text of their list item. An unclosed fence runs to the end.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r"(?P<mark>`{3,}+(?=[^`]*$)|~{3,}+)(?P<info>[^\r\n]*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+(?=\S)")
_DEEPEST = 3  # columns by which a fence may be indented


class Fence(NamedTuple):
    """Hold a fenced block: `text[start:end]` is its lines with the fences, without the last line feed."""

    start: int
    end: int
    info: str  # the text after the opening fence, such as the language
    closed: bool


def find_fences(text: str) -> list[Fence]:
    """Return the fenced blocks of `text`, in order."""
    if "```" not in text and "~~~" not in text:
        return []
    found: list[Fence] = []
    mark, start, info, column = "", 0, "", 0
    for at, line in lines_of(text):
        before = mark
        if not mark:
            column, line = _place_item(line, column)  # noqa: PLW2901 - the line without the mark of its item
        mark = open_after(mark, line, column)
        if mark and not before:
            start, info = at, line.strip().lstrip(mark[0]).strip()
        elif before and not mark:
            found.append(Fence(start, at + len(line.rstrip()), info, closed=True))
    return [*found, Fence(start, len(text), info, closed=False)] if mark else found


def without_fences(text: str) -> str:
    """Return `text` with a line feed in place of each fenced block."""
    parts, at = [], 0
    for fence in find_fences(text):
        parts.append(text[at : fence.start])
        at = fence.end
    return "\n".join([*parts, text[at:]])


def strip_fence(text: str) -> str:
    """Return the text inside a fence that surrounds all of `text`, as models write it; otherwise return `text`.

    Fences inside it do not count. The closing fence may be at the end of the last line.
    """
    first, _, rest = text.strip().partition("\n")
    mark = open_after("", first)
    bare = rest.rstrip(mark[0]) if mark else rest
    return bare.strip("\n") if mark and len(rest) - len(bare) >= len(mark) else text


def open_after(mark: str, line: str, column: int = 0) -> str:
    """Return the mark of the fence that is open after `line`; empty if none is open.

    Args:
        mark: the mark of the fence that is open before the line; empty for none.
        line: the line, without a line feed or with it.
        column: the column at which the text of the surrounding list item begins.
    """
    if "```" not in line and "~~~" not in line:
        return mark
    line = re.sub(r"\r?\n?\Z", "", line, count=1).expandtabs(4)
    bare = line.lstrip(" ")
    if len(line) - len(bare) > column + _DEEPEST or (match := _FENCE.fullmatch(bare)) is None:
        return mark
    if not mark:
        return match["mark"]
    closes = match["mark"][0] == mark[0] and len(match["mark"]) >= len(mark) and not match["info"].strip()
    return "" if closes else mark


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of `text`, each with its offset and without its line feed."""
    at = 0
    for line in text.split("\n"):
        yield at, line
        at += len(line) + 1


def _place_item(line: str, column: int) -> tuple[int, str]:
    """Return the column at which the list item's text begins, and the line with spaces in place of the item's mark."""
    if match := _ITEM.match(line):
        lead = match[0].expandtabs(4)
        return len(lead), " " * len(lead) + line[match.end() :]
    plain = line.expandtabs(4)
    return min(column, len(plain) - len(plain.lstrip(" "))) if plain.strip() else column, line
