"""Parse and render the daily file, `memory/YYYY-MM-DD.md`: a title, then blocks that are only appended.

The format is memoryd's own: `# Daily Memory: YYYY-MM-DD`, and for each block a blank line, `## REASON (HH:MM)`, a blank
line and a body. Headings and fenced code blocks are those of CommonMark 0.31, sections 4.2 and 4.5.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from memoryd.tiers.lines import LINE_ENDS, lines_of, open_fence
from memoryd.tiers.session_summary import HEADINGS, Section

PASSING = frozenset({Section.STATE, Section.OPEN, Section.FILES})  # sections that matter only on their day
_BULLET = ("- ", "* ", "+ ")
_TITLE = re.compile(rb"(?:\xef\xbb\xbf)?# Daily Memory: (\d{4}-\d\d-\d\d)[ \t]*\r?\n?")
_BLOCK = re.compile(rb"## (.*)", re.DOTALL)
_REASON = re.compile(rb"(.*?) \(([0-2]\d:[0-5]\d)\)", re.DOTALL)
_ATTRIBUTION = re.compile(r"From [^,\n]{1,80}, [0-2]\d:[0-5]\d(?:-[0-2]\d:[0-5]\d)?(?:, session:(\S+))?")
_UNSAID = re.compile(
    r"(?:\s*(?:<!--(?:(?!-->).)*-->|^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$))+",
    re.DOTALL | re.MULTILINE,
)
_CLOCK = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")

_HEADING = re.compile(r"^( {0,3})(?=#{1,6}(?:[ \t]|$))", re.MULTILINE)
_RULE = re.compile(r"^( {0,3})(?=(?:-+|=+|\++|(?:-[ \t]*){3,})[ \t]*$)", re.MULTILINE)
_HTML = re.compile(r"^( {0,3})<(?=[!?]|/?(?:script|pre|style|textarea)\b)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DailyBlock:
    """Hold one `## ` section, with the bytes that it was read from."""

    reason: str
    clock: str | None  # HH:MM; None for a section that somebody else wrote
    body: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class DailyFile:
    """Hold a daily file; the head is everything before its first block."""

    title: str | None  # YYYY-MM-DD of the title line; None for another first line
    head: bytes
    blocks: tuple[DailyBlock, ...]

    def list_sections(self) -> Iterator[tuple[int, DailyBlock]]:
        """Yield the head, as a block without a heading, and the blocks, each with the offset of its first byte."""
        at = 0
        for one in (DailyBlock("", None, "", self.head), *self.blocks):
            yield at, one
            at += len(one.raw)


def new_file(day: date) -> bytes:
    """Return the first bytes of a day's file."""
    return f"# Daily Memory: {day.isoformat()}\n".encode()


def block(reason: str, clock: str, body: str) -> bytes:
    r"""Return the bytes to append for one block; the body cannot end its block or begin another one.

    The body is changed for this:

    - Line ends of any kind become `\n`, and lone surrogates become `?`.
    - A line that would be a heading or a rule gets a backslash (`\## …`, `\---`), also in code, because some readers
      look only at lines. Headings of a session's sections stay.
    - A line that begins HTML which would hide the following blocks gets `&lt;`.
    - An open code fence is closed.

    The clock is the time of the last turn that the block covers, in the configured timezone.

    Raises:
        ValueError: the reason or the body is blank, the reason has several lines, or the clock is not HH:MM.
    """
    if not body.strip():
        raise ValueError("a block needs a body")
    if not reason.strip() or reason != " ".join(reason.split()):
        raise ValueError(f"a reason is one line: {reason!r}")
    if not _CLOCK.fullmatch(clock):
        raise ValueError(f"not a clock HH:MM: {clock!r}")
    return f"\n## {reason} ({clock})\n\n{_contain(body)}\n".encode(errors="replace")


def _contain(body: str) -> str:
    text = LINE_ENDS.sub("\n", body).replace("\0", "\ufffd").strip("\n")
    text = "\n".join(line if line in HEADINGS else _HEADING.sub(r"\1\\", line) for line in text.split("\n"))
    text = _RULE.sub(r"\1\\", text)
    text = _HTML.sub(r"\1&lt;", text)
    fence = None
    for line in text.encode(errors="replace").split(b"\n"):
        fence = open_fence(fence, line)
    return text if fence is None else f"{text}\n{fence.decode()}"


def attribute_block(program: str, first: str, last: str, session: str) -> str:
    """Return the first line of the body of a block about a session: `From Codex, 09:12-09:40, session:ID`.

    The times are those of the first and the last turn that the block covers. An id with spaces is left out.
    """
    clock = first if first == last else f"{first}-{last}"
    named = f", session:{session}" if session and len(session.split()) == 1 else ""
    return f"From {program}, {clock}{named}"


def session_of(body: str) -> str:
    """Return the session id in the first line of a block's body; empty if there is none."""
    found = _ATTRIBUTION.fullmatch(body.partition("\n")[0])
    return (found[1] or "") if found else ""


def says_nothing(body: str) -> bool:
    """Return True if a block's body has no text besides the name of its session and the headings of sections."""
    lines = (line.strip() for line in body.splitlines() if line.strip())
    return all(line in HEADINGS or _ATTRIBUTION.fullmatch(line) for line in lines)


def split_pieces(raw: bytes) -> Iterator[tuple[int, str]]:
    """Yield the bullets and paragraphs of a section, each with the offset of its first byte.

    Headings, rules, comments and lines that only name a session are left out.
    """
    at, begins, held = 0, 0, list[str]()
    fence: bytes | None = None
    for line in lines_of(raw):
        text = line.decode(errors="replace").rstrip()
        is_code = fence is not None
        fence = open_fence(fence, line)
        begins_new = not is_code and (not text.strip() or text.startswith((*_BULLET, "#")))
        if begins_new and held:
            yield from _piece(begins, held)
            held = []
        if text.strip() and (is_code or not text.startswith("#")):
            begins = at if not held else begins
            held.append(text)
        at += len(line)
    yield from _piece(begins, held)


def is_passing(raw: bytes, at: int) -> bool:
    """Return True if the piece at a byte of a block matters only on its day: a state, an open point, changed files."""
    above = [line for line in raw[:at].decode(errors="replace").split("\n") if line.startswith("#")]
    return bool(above) and HEADINGS.get(above[-1]) in PASSING


def _piece(begins: int, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    text = "\n".join(lines).strip()
    text = text[2:].strip() if text.startswith(_BULLET) else text
    if not says_nothing(text) and not _UNSAID.fullmatch(text):
        yield begins, text


def parse(data: bytes) -> DailyFile:
    """Parse any bytes as a daily file; `render` returns the same bytes. A heading in a code fence begins no block."""
    title = _TITLE.match(data)
    parts: list[list[bytes]] = [[]]
    fence = None
    for line in lines_of(data):
        if fence is None and _BLOCK.fullmatch(line):
            parts.append([])
        fence = open_fence(fence, line)
        parts[-1].append(line)
    day = title[1].decode() if title else None
    return DailyFile(day, b"".join(parts[0]), tuple(_block(b"".join(part)) for part in parts[1:]))


def _block(raw: bytes) -> DailyBlock:
    heading, _, body = raw.partition(b"\n")
    words = heading.removeprefix(b"## ").strip()
    match = _REASON.fullmatch(words)
    reason, clock = (match[1], match[2].decode()) if match else (words, None)
    return DailyBlock(reason.decode(errors="replace").strip(), clock, body.decode(errors="replace").strip(), raw)


def list_framing(file: DailyFile) -> Iterator[str]:
    """Yield memoryd's own lines in its blocks: headings without marks, and lines that name the session."""
    for one in file.blocks:
        if one.clock is not None:
            yield f"{one.reason} ({one.clock})"
            first = one.body.partition("\n")[0]
            if _ATTRIBUTION.fullmatch(first):
                yield first


def find_block(data: bytes, sha256: str, size: int) -> int | None:
    """Return the offset of an appended block, found by its hash, or None if it was changed or removed."""
    # A block begins with a newline: the blank line above its heading, or the end of an unfinished line.
    starts = (found.start() for found in re.finditer(rb"(?=\n\n?## )", data))
    return next((at for at in starts if hashlib.sha256(data[at : at + size]).hexdigest() == sha256), None)


def render(file: DailyFile) -> bytes:
    """Return the bytes of a file."""
    return file.head + b"".join(part.raw for part in file.blocks)


def needs_newline(data: bytes) -> bool:
    """Return True if an append must first end the last line."""
    return bool(data) and not data.endswith(b"\n")


def has_content(file: DailyFile) -> bool:
    """Return True if anything is written below the title."""
    return bool(file.blocks) or bool(_TITLE.sub(b"", file.head, count=1).strip())
