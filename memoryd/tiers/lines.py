"""Read the lines of Markdown files as bytes: front matter, headings and code fences (CommonMark 0.31)."""

import re
from collections import Counter

from memoryd.text import fences

BOM = b"\xef\xbb\xbf"
# Characters that other programs read as the end of a line.
LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
FRONT_MATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_NO_SLUG = re.compile(r"[^\w -]")
_HEADING = re.compile(rb" {0,3}(#{1,6})(?:[ \t]+(.*)|\r?\n?)", re.DOTALL)


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of `data`, divided after each line feed; only the last line may have no line feed."""
    # Not splitlines, which also divides at a lone carriage return.
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def open_fence(fence: bytes | None, line: bytes) -> bytes | None:
    """Return the code fence that is open after `line`, or None; `fence` is the fence that is open before the line."""
    # Fences are ASCII, which Latin-1 keeps for any other encoding.
    return fences.open_after((fence or b"").decode(), line.decode("latin-1")).encode() or None


def heading_of(line: bytes) -> tuple[int, str] | None:
    """Return the level (1 to 6) and the text of a heading line, or None for any other line."""
    found = _HEADING.fullmatch(line)
    return (len(found[1]), title((found[2] or b"").decode(errors="replace"))) if found else None


def title(heading: str) -> str:
    """Return the text of a heading on one line, without closing hashes."""
    line = one_line(heading)
    bare = line.rstrip("#")
    while bare != line and (not bare or bare.endswith(" ")):
        line = bare.rstrip()
        bare = line.rstrip("#")
    return line


def one_line(text: str) -> str:
    """Return `text` with single spaces, and with replacements for characters that UTF-8 or SQLite cannot store."""
    return " ".join(text.encode(errors="replace").decode().replace("\0", "\ufffd").split())


def anchors_of(data: bytes) -> list[str]:
    """Return the anchor of each heading, in order, as GitHub makes it: the second of two equal ones ends in `-1`."""
    seen: Counter[str] = Counter()
    anchors = []
    fence: bytes | None = None
    for line in lines_of(data):
        before, fence = fence, open_fence(fence, line)
        found = None if before or fence else heading_of(line)
        if found is None:
            continue
        slug = _NO_SLUG.sub("", found[1].lower()).replace(" ", "-")
        anchors.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors
