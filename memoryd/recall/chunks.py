"""Split a Markdown file into chunks: parts that a search finds as one, each with its line numbers.

A file is split at headings, bullets and paragraphs. A code fence or front matter is split only if it is too long. Each
line is in exactly one chunk. Headings, fences and bullets are recognised by single lines, as in CommonMark 0.31 (§4.2,
§4.5, §5.2).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from typing import NamedTuple

from memoryd.text.portions import group_items
from memoryd.tiers.lines import FRONT_MATTER, heading_of, lines_of, open_fence

SIZE = 800  # most characters of a chunk of several blocks
LONGEST = 4000  # most characters of a chunk of one block
_BULLET = re.compile(rb" {0,1}(?:[-*+]|\d{1,9}[.)])[ \t]+\S")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hold one chunk of a file."""

    first_line: int  # the number of its first line in the file, from 1
    last_line: int  # the number of its last line in the file
    heading: tuple[str, ...]  # the headings above it, outermost first
    text: str


class _MarkdownBlock(NamedTuple):
    lines: list[bytes]
    heading: tuple[str, ...]
    kind: str  # heading, bullet, text


def split_chunks(data: bytes, *, apart: bool = False) -> list[Chunk]:
    """Return the chunks of a file, in order.

    With `apart`, each bullet is a chunk of its own, because it is a memory of its own.
    """
    found: list[Chunk] = []
    line = 1
    for group in _group_blocks(_blocks(data), apart=apart):
        lines = [raw for block in group for raw in block.lines]
        for part in group_items(lines, [len(raw) for raw in lines], LONGEST):
            text = b"".join(part).decode(errors="replace")
            found.append(Chunk(line, line + len(part) - 1, group[-1].heading, text))
            line += len(part)
    return found


def below_headings(text: str) -> str:
    """Return the text of a chunk without the headings at its beginning; empty if it has only headings."""
    return "\n".join(dropwhile(lambda line: not line.strip() or line.startswith("#"), text.splitlines()))


def _blocks(data: bytes) -> Iterator[_MarkdownBlock]:
    """Yield headings, bullets with everything below them, and paragraphs; blank lines belong to the block above."""
    path: list[tuple[int, str]] = []
    fence: bytes | None = None
    block = _MarkdownBlock([], (), "text")
    blank = False
    front = FRONT_MATTER.match(data)
    front_lines = len(lines_of(front[0])) if front else 0
    for number, raw in enumerate(lines_of(data)):
        is_closed = fence is not None or number < front_lines
        heading = None if is_closed else heading_of(raw)
        begins = None if is_closed else _kind(raw, heading, blank=blank, in_bullet=block.kind == "bullet")
        if begins is not None and block.lines:
            yield block
        if heading is not None:
            path = [one for one in path if one[0] < heading[0]] + [heading]
        if begins is not None:
            block = _MarkdownBlock([], tuple(name for _, name in path if name), begins)
        block.lines.append(raw)
        fence = None if number < front_lines else open_fence(fence, raw)
        blank = not raw.strip()
    if block.lines:
        yield block


def _kind(raw: bytes, heading: tuple[int, str] | None, *, blank: bool, in_bullet: bool) -> str | None:
    """Return the kind of block that begins with this line; None if the line continues the block above."""
    if heading is not None:
        return "heading"
    if _BULLET.match(raw):
        return "bullet"
    if not blank or not raw.strip():
        return None
    return None if in_bullet and raw[:1] in b" \t" else "text"


def _group_blocks(blocks: Iterator[_MarkdownBlock], *, apart: bool) -> Iterator[list[_MarkdownBlock]]:
    """Yield groups of blocks that form a chunk: a heading with its text, and further blocks as long as they fit."""
    group: list[_MarkdownBlock] = []
    size = 0
    for block in blocks:
        length = sum(map(len, block.lines))
        is_head = all(one.kind == "heading" for one in group)
        if not is_head:
            is_apart = apart and "bullet" in {block.kind, group[-1].kind}
            if block.kind == "heading" or size + length > SIZE or is_apart:
                yield group
                group, size = [], 0
        group.append(block)
        size += length
    if group:
        yield group
