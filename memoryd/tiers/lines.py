"""Lines of Markdown as bytes, and which of them lie in a code fence (CommonMark 0.31, section 4.5)."""

from __future__ import annotations

import re

_FENCE = re.compile(rb" {0,3}(`{3,}(?=[^`]*$)|~{3,})([^\r\n]*)\r?\n?")


def lines_of(data: bytes) -> list[bytes]:
    """All of `data`, cut behind each line feed; only the last line may have none."""
    # Not splitlines, which breaks at a lone carriage return as well.
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def open_fence(fence: bytes | None, line: bytes) -> bytes | None:
    """The code fence that is open after `line`, given the one open before it; None for none."""
    match = _FENCE.fullmatch(line)
    if match is None:
        return fence
    if fence is None:
        return match[1]
    closes = match[1][:1] == fence[:1] and len(match[1]) >= len(fence) and not match[2].strip()
    return None if closes else fence
