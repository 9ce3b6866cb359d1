"""Lines of Markdown as bytes, and which of them lie in a code fence (CommonMark 0.31, section 4.5)."""

from __future__ import annotations

from memoryd.text import fences


def lines_of(data: bytes) -> list[bytes]:
    """All of `data`, cut behind each line feed; only the last line may have none."""
    # Not splitlines, which breaks at a lone carriage return as well.
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def open_fence(fence: bytes | None, line: bytes) -> bytes | None:
    """The code fence that is open after `line`, given the one open before it; None for none."""
    # All that fences are told by is ASCII, which Latin-1 keeps in any other encoding's bytes.
    return fences.open_after((fence or b"").decode(), line.decode("latin-1")).encode() or None
