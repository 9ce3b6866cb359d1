"""Parse and render the core file, `MEMORY.md`: `- ` bullets under optional headings, by people, agents and memoryd.

The file is kept as pieces, and joined they are the file. A change inserts a piece or changes the text lines of one
bullet, and no other byte, because any text may be somebody's own.

Headings, list items, fences and comments are those of CommonMark 0.31 (sections 4.1, 4.2, 4.5, 4.6, 5.2), with two
limits. A bullet begins in the first or second column. Deeper lines belong to the bullet or heading above, like
paragraphs, code and comments. A line with part of a private part or a private key also belongs to the piece above. YAML
front matter stays one piece.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from memoryd.scrub.finding import SecretSpan
from memoryd.scrub.hidden import find_hidden
from memoryd.scrub.private import KEYWORD
from memoryd.tiers.lines import BOM, FRONT_MATTER, heading_of, lines_of, one_line, open_fence, title

_NEW_TITLE = "# Memory"
_KEPT_TEXTS = 1 << 14

_BULLET = re.compile(rb" ?[-*+][ \t]+([^ \t\r\n].*)", re.DOTALL)
_RULE = re.compile(rb" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*|-+[ \t]*)\r?\n?")
_DEEPER = re.compile(rb"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t\r\n]|$)|[ \t]*(?:`{3}|~{3}|>|\||<!--)")
_INDENTED = re.compile(rb"(?: {2}|\t)")
_HANGING = re.compile(rb"(?:[ \t]*\r?\n)*+(?: {2}|\t)[ \t]*\S")
_BLANK_LINES = re.compile(rb"\A(?:[ \t]*\r?\n)+")
_BEHIND = b"\n\n."  # text put after the file: if it is hidden, a private part is never closed
_COMMENT = re.compile(rb" {0,3}<!--")
# The form of most lines: a plain bullet, if no fence and no comment is open.
_PLAIN = re.compile(rb"- [0-9A-Za-z]")
# Text of a bullet that Markdown would read as a separate block, or that would end the bullet.
_STRUCTURE = re.compile(
    r"[-*+](?=\s|$)|#{1,6}(?=\s|$)|>|`{3}|~{3}|<[!?]|=+$|(?:\*\s*){2,}$|(?:-\s*){1,}$|(?:_\s*){3,}$"
)


class PieceKind(StrEnum):
    """Name the kinds of pieces of the file."""

    TEXT = "text"
    HEADING = "heading"
    BULLET = "bullet"


@dataclass(frozen=True, slots=True)
class CorePiece:
    """Hold a heading, a bullet, or the text before the first of them, with all lines that belong to it."""

    kind: PieceKind
    raw: bytes
    text: str  # the text of the bullet or heading, on one line; empty for TEXT
    level: int  # the level of a heading, 1 to 6; otherwise 0
    own: int  # the number of bytes of `raw` that are a bullet's own text; the rest is below it
    room: int  # the number of bytes of `raw` before the place where a following piece can be inserted


class Bullet(NamedTuple):
    """Hold one memory of the file."""

    text: str  # on one line, with single spaces
    heading: str  # the text of the nearest heading above, from `## ` on; empty without one
    position: int  # 0, 1, … among the bullets of the file


@dataclass(frozen=True)
class CoreFile:
    """Hold the file as its pieces, in order."""

    pieces: tuple[CorePiece, ...]

    @functools.cached_property
    def bullets(self) -> tuple[Bullet, ...]:
        """Return the memories of the file, in order."""
        found: list[Bullet] = []
        heading = ""
        for piece in self.pieces:
            if piece.kind is PieceKind.HEADING:
                heading = piece.text if piece.level > 1 else ""
            elif piece.kind is PieceKind.BULLET:
                found.append(Bullet(piece.text, heading, len(found)))
        return tuple(found)


@functools.lru_cache(maxsize=_KEPT_TEXTS)
def normalize(text: str) -> str:
    """Return the form in which equal bullets are equal: NFC, casefolded, single spaces, without one leading escape."""
    return unescape(unicodedata.normalize("NFC", unicodedata.normalize("NFC", one_line(text)).casefold()))


def unescape(text: str) -> str:
    """Return the text of a bullet without the backslash that `escape` put before it."""
    return text[1:] if text.startswith("\\") and _STRUCTURE.match(text, 1) else text


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=2)  # a run reads the present and the future file several times
def parse(data: bytes) -> CoreFile:
    """Parse any bytes as a core file; `render` returns exactly these bytes."""
    front = FRONT_MATTER.match(data)
    start = front.end() if front else len(BOM) if data.startswith(BOM) else 0
    front_piece = CorePiece(PieceKind.TEXT, data[:start], "", 0, 0, start)
    return CoreFile((front_piece, *(_piece(group) for group in _group_lines(data, start))))


def render(file: CoreFile) -> bytes:
    """Return the bytes of a file."""
    return b"".join(piece.raw for piece in file.pieces)


def is_open(data: bytes) -> bool:
    """Return True if a private part is never closed, so that it hides everything after it."""
    spans = find_hidden(data + _BEHIND)
    return bool(spans) and spans[-1].last > len(data)


class _CoreLine(NamedTuple):
    raw: bytes
    kind: PieceKind  # the kind of the piece that it begins; TEXT if it continues a piece
    open: bool  # text after it would be in a fence, comment or private part
    fence: bytes | None  # the fence that is open after it
    hidden: bool = False  # the line belongs to a private part or to a private key


def _group_lines(data: bytes, start: int) -> list[list[_CoreLine]]:
    groups: list[list[_CoreLine]] = []
    for line in _classify_lines(data, start):
        if line.kind is not PieceKind.TEXT or not groups:
            groups.append([])
        groups[-1].append(line)
    return groups


def _classify_lines(data: bytes, at: int = 0) -> Iterator[_CoreLine]:
    fence: bytes | None = None
    comment = in_item = nested = False
    blank = True
    spans = find_hidden(data + _BEHIND)[::-1]
    for raw in lines_of(data[at:]):
        begin, at = at, at + len(raw)
        if spans and (covering := _find_covering(spans, begin, at)):
            is_open = covering.last > at or comment or (fence is not None and not nested)
            blank = False
            yield _CoreLine(raw, PieceKind.TEXT, open=is_open, fence=fence, hidden=True)
            continue
        if fence is None and not comment and _PLAIN.match(raw):
            in_item, nested, blank = True, False, False
            yield _CoreLine(raw, PieceKind.BULLET, open=False, fence=None)
            continue
        indented = _INDENTED.match(raw) is not None
        if nested and not indented and raw.strip():
            fence = None  # a fence inside a list item ends with the item
        if fence is not None or comment:
            fence, comment = (open_fence(fence, raw), False) if fence else (None, b"-->" not in raw)
            kind = PieceKind.TEXT
        else:
            fence = open_fence(None, raw)
            remark = _COMMENT.match(raw) is not None
            comment = remark and b"-->" not in raw
            kind = PieceKind.TEXT if fence or comment else _kind(raw)
            goes_on = kind is PieceKind.TEXT and (indented or not raw.strip() or not (blank or remark))
            in_item = kind is PieceKind.BULLET or (in_item and goes_on)
            nested = fence is not None and in_item and indented
        blank = not raw.strip()
        yield _CoreLine(raw, kind, open=comment or (fence is not None and not nested), fence=fence)


def _find_covering(spans: list[SecretSpan], first: int, last: int) -> SecretSpan | None:
    """Return the last span with bytes of a line, and remove spans before the line from `spans`.

    `spans` is sorted in reverse.
    """
    found = None
    while spans and spans[-1].first < last:
        if spans[-1].last > first:
            found = spans[-1]
        if spans[-1].last > last:
            break
        spans.pop()
    return found


def _kind(raw: bytes) -> PieceKind:
    if heading_of(raw):
        return PieceKind.HEADING
    return PieceKind.BULLET if _BULLET.fullmatch(raw) and not _RULE.fullmatch(raw) else PieceKind.TEXT


def _piece(lines: list[_CoreLine]) -> CorePiece:
    first = lines[0]
    if len(lines) == 1 and first.kind is PieceKind.BULLET and _PLAIN.match(first.raw):
        return _plain_piece(first.raw)
    raw = b"".join(line.raw for line in lines)
    level, text = (heading_of(first.raw) if first.kind is PieceKind.HEADING else None) or (0, "")
    own = 0
    if first.kind is PieceKind.BULLET:
        text, own = _bullet_text(lines)
    return CorePiece(first.kind, raw, text, level, own, _room(lines))


@functools.lru_cache(maxsize=_KEPT_TEXTS)
def _plain_piece(raw: bytes) -> CorePiece:
    return CorePiece(PieceKind.BULLET, raw, one_line(raw[2:].decode(errors="replace")), 0, len(raw), len(raw))


def _bullet_text(lines: list[_CoreLine]) -> tuple[str, int]:
    """Return the text of a bullet, and the number of bytes of its lines."""
    match = _BULLET.fullmatch(lines[0].raw)
    words = [match[1] if match else b""]
    own = len(lines[0].raw)
    for line in lines[1:]:
        if line.hidden or not line.raw.strip() or _DEEPER.match(line.raw) or _RULE.fullmatch(line.raw):
            break
        words.append(line.raw)
        own += len(line.raw)
    return one_line(b" ".join(words).decode(errors="replace")), own


def _room(lines: list[_CoreLine]) -> int:
    # The place is after the last line with content, but never inside an unclosed fence or comment.
    kept = list(lines)
    while kept and (kept[-1].open or not kept[-1].raw.strip()):
        kept.pop()
    return sum(len(line.raw) for line in kept)


# ── edits ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Replace:
    """Give a bullet another text; its mark and the blocks below it stay.

    With `keeps`, further lines of the bullet that the new text does not contain stay too, as a paragraph below it.
    """

    position: int
    text: str
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a bullet; the blocks below it stay."""

    position: int


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert a bullet before another one, or at the end of a heading's section.

    A missing heading is created before the heading `following`, or at the end of the file. The text below the
    removed bullets `takes` moves below the new one.
    """

    text: str
    heading: str = ""
    before: int | None = None
    following: str = ""
    takes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Move a bullet and the blocks below it as `Insert` places a bullet, and give it another text if there is one."""

    position: int
    heading: str = ""
    before: int | None = None
    following: str = ""
    text: str | None = None


Edit = Replace | Remove | Insert | Move


# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────


def add(file: CoreFile, additions: Sequence[tuple[str, str]]) -> bytes:
    r"""Return the file's bytes with each (heading, text) as a new bullet at the end of its heading's section.

    A bullet that the file already has, under any heading, is not added again. A missing heading is created at the end
    of the file. An empty heading stands for the part above the first `## `. All other bytes stay, and new lines have
    the file's line ends. A text that would be a heading, list or fence gets a backslash (`- \# …`).

    Raises:
        ValueError: a text is blank.
    """
    known = {normalize(bullet.text) for bullet in file.bullets}
    new: dict[str, Insert] = {}
    for heading, text in additions:
        new.setdefault(normalize(escape(text)), Insert(text, heading))
    return edit(file, [insert for text, insert in new.items() if text not in known])


def _append_blocks(file: CoreFile, blocks: Sequence[tuple[Insert | Move, bytes]]) -> CoreFile:
    """Return the file with blocks at the ends of the sections of their headings."""
    sections: dict[str, tuple[Insert | Move, list[bytes]]] = {}  # by the normal form of the heading
    last: list[tuple[Insert | Move, list[bytes]]] = []  # texts that hide everything after them, so they come last
    for one, block in blocks:
        if is_open(block):
            last.append((one, [block]))
        else:
            sections.setdefault(normalize(title(one.heading)), (one, []))[1].append(block)
    file = _insert_blocks(file, list(sections.values()))
    for hiding in last:
        file = _insert_blocks(file, [hiding])
    return file


def escape(text: str) -> str:
    """Return the text of a bullet on one line, with a backslash if it would be a heading, list or fence.

    Raises:
        ValueError: the text is blank.
    """
    line = one_line(text)
    if not line:
        raise ValueError("a bullet needs a text")
    return f"\\{line}" if _STRUCTURE.match(line) else line


def _insert_blocks(file: CoreFile, sections: Sequence[tuple[Insert | Move, Sequence[bytes]]]) -> CoreFile:
    """Return the file with blocks at the ends of sections, with its own line ends; missing headings come last."""
    raws, rooms = [piece.raw for piece in file.pieces], [piece.room for piece in file.pieces]
    newline = newline_of(render(file))
    top = "" if render(file).removeprefix(BOM).strip() else f"{_NEW_TITLE}\n\n"
    found = [(_section_end(file, title(one.heading)), one, blocks) for one, blocks in sections]
    for end, one, blocks in sorted(found, key=lambda item: item[0] is None):
        last = (end or _find_section(file, one.following) or len(raws)) - 1
        before, rest = raws[last][: rooms[last]], raws[last][rooms[last] :]
        above = before or b"".join(raws[:last])
        head = top if end else f"{top}## {title(one.heading)}\n\n"
        lead = _lead(above.removeprefix(BOM), apart=end is None) + head
        top = ""
        # Indented text would belong to the last bullet. An empty comment, which is not rendered, separates them.
        apart = end_block(b"<!-- -->\n", newline) if _HANGING.match(rest) else b""
        new = b"".join(end_block(block, newline) for block in (lead.encode(), *blocks))
        raws[last] = before + new + apart + rest
        rooms[last] += len(new)
    return parse(b"".join(raws))


def newline_of(data: bytes) -> bytes:
    """Return the most frequent line end of a file."""
    return b"\r\n" if data.count(b"\r\n") * 2 > data.count(b"\n") else b"\n"


def end_block(block: bytes, newline: bytes) -> bytes:
    """Return the block with the file's line ends; a block that has carriage returns stays unchanged."""
    return block if b"\r\n" in block else block.replace(b"\n", newline)


def _find_section(file: CoreFile, heading: str) -> int | None:
    """Return the index of the first piece with a heading, or None if there is no such heading."""
    pieces, key = enumerate(file.pieces), normalize(heading)
    return next((place for place, one in pieces if key and one.level > 1 and normalize(one.text) == key), None)


def _section_end(file: CoreFile, heading: str) -> int | None:
    """Return the index after the last piece of a heading's first section, or None if there is no such heading."""
    inside = not heading
    for index, piece in enumerate(file.pieces):
        if piece.kind is not PieceKind.HEADING or (piece.level == 1 and not heading):
            continue
        if inside:
            return index
        inside = piece.level > 1 and normalize(piece.text) == normalize(heading)
    return len(file.pieces) if inside else None


def _lead(before: bytes, *, apart: bool) -> str:
    """Return the line feeds before an insertion: no blank line inside a list, otherwise one."""
    if not before:
        return ""
    last = lines_of(before)[-1]
    listed = _BULLET.fullmatch(last) or _INDENTED.match(last)
    blank = "\n" if last.strip() and (apart or not listed) else ""
    return blank if last.endswith(b"\n") else "\n" + blank


# ── editing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def edit(file: CoreFile, edits: Sequence[Edit]) -> bytes:
    """Return the file's bytes after edits; each position is that of a bullet in `file`, whatever other edits do.

    Only the text lines of the changed bullets change. A blank line below a removed bullet goes if the line above it is
    blank too. The removal of a bullet may turn the text below it into something else. For example, its end closed a
    fence, or a rule becomes the first line and would open front matter. Then a line is added that keeps the meaning.

    Raises:
        ValueError: a text is blank, there is no bullet at a position, or two edits change the same bullet.
    """
    _check(edits, len(file.bullets))
    draft = _Draft(file)
    for one in edits:
        draft.note(one)
    data = render(_append_blocks(draft.file(), draft.ends))
    is_longer = data.endswith((b"\n\n", b"\n\r\n")) and not render(file).endswith((b"\n\n", b"\n\r\n"))
    return data.rstrip(b"\r\n") + newline_of(data) if is_longer else data


def _check(edits: Sequence[Edit], count: int) -> None:
    changed = [one.position for one in edits if not isinstance(one, Insert)]
    named = [*changed, *(one.before for one in edits if isinstance(one, Insert | Move) and one.before is not None)]
    for position in named:
        if not 0 <= position < count:
            raise ValueError(f"there is no bullet {position}")
    if len(set(changed)) < len(changed):
        raise ValueError("two edits change the same bullet")


def drop_emptied(old: CoreFile, data: bytes, headings: frozenset[str]) -> bytes:
    """Return a file's new bytes `data` without those of `headings` that have nothing below them, but had in `old`."""
    pieces, were = parse(data).pieces, {old.pieces[place].text for place in _list_empty(old)}
    going = {place for place in _list_empty(parse(data)) if pieces[place].text in headings - were}
    left = b"".join(piece.raw for place, piece in enumerate(pieces) if place not in going)
    return left.rstrip(b"\r\n") + newline_of(data) if left and len(pieces) - 1 in going else left


def _list_empty(file: CoreFile) -> list[int]:
    """List the places of the headings below the title that have no text, bullet or deeper heading below them."""
    return [
        place
        for place, piece in enumerate(file.pieces)
        if piece.level > 1
        and all(0 < below.level <= piece.level for below in file.pieces[place + 1 : place + 2])
        and len(piece.raw.split(b"\n")[0]) >= len(piece.raw.rstrip())
    ]


def own_text(piece: CorePiece, text: str) -> bytes:
    """Return the lines of a bullet's own text with a new text after the old mark.

    Raises:
        ValueError: the text is blank.
    """
    own = piece.raw[: piece.own]
    match = _BULLET.match(own)
    mark = own[: match.start(1)] if match else b"- "
    return mark + escape(text).encode() + own[len(own.rstrip(b"\r\n")) :]


class _Draft:
    """Apply edits to the pieces of a file."""

    def __init__(self, file: CoreFile) -> None:
        self._given = file
        self._pieces = file.pieces
        self._raws = [piece.raw for piece in file.pieces]
        self._texts = [piece.text if piece.kind is PieceKind.BULLET else None for piece in file.pieces]
        self._leads: list[list[bytes]] = [[] for _ in file.pieces]  # blocks to insert before each piece
        self._lead_texts: list[list[str]] = [[] for _ in file.pieces]
        self._places = [index for index, piece in enumerate(file.pieces) if piece.kind is PieceKind.BULLET]
        self._newline = newline_of(render(file))
        self._cut: set[int] = set()  # the pieces whose bullet was removed
        self.ends: list[tuple[Insert | Move, bytes]] = []  # edits, each with a block for the end of its section

    def note(self, edit: Edit) -> None:
        """Apply an edit; a block for the end of a section is added to `ends`."""
        if isinstance(edit, Insert):
            line = escape(edit.text)
            below = [self._take_below(self._places[position]) for position in edit.takes]
            self._put(b"".join((f"- {line}".encode(), self._newline, *below)), line, edit)
            return
        place = self._places[edit.position]
        piece = self._pieces[place]
        if isinstance(edit, Replace):
            self._texts[place] = escape(edit.text)
            self._raws[place] = self._replace(piece, edit)
            return
        self._cut.add(place)
        self._texts[place] = None
        if isinstance(edit, Remove):
            self._raws[place] = piece.raw[piece.own :]
        elif edit.text is not None:
            self._put(self._end_line(own_text(piece, edit.text)) + self._take_below(place), escape(edit.text), edit)
        else:
            # A blank line between two bullets moves along if the bullet comes before another one again.
            following = [one.kind for one in self._pieces[place + 1 : place + 2]]
            is_loose = edit.before is not None and following == [PieceKind.BULLET]
            self._put(self._take(place, 0, len(piece.raw) if is_loose else piece.room), piece.text, edit)

    def _take_below(self, place: int) -> bytes:
        """Return the text below a bullet, which leaves its place."""
        piece = self._pieces[place]
        self._raws[place] = piece.raw[piece.own :]
        return self._take(place, piece.own, piece.room) if self._raws[place].strip() else b""

    def _take(self, place: int, start: int, end: int) -> bytes:
        """Return the lines of a piece from `start` to `end`, or all of them if text follows; they leave their place."""
        piece = self._pieces[place]
        has_more = bool(piece.raw[end:].strip())
        self._raws[place] = b"" if has_more else piece.raw[end:]
        return self._end_line(self._close_open(piece.raw[start:]) if has_more else piece.raw[start:end])

    def _put(self, block: bytes, text: str, edit: Insert | Move) -> None:
        if edit.before is None:
            self.ends.append((edit, block))
        else:
            place = self._places[edit.before]
            self._leads[place].append(end_block(block, self._newline))
            self._lead_texts[place].append(text)

    def _replace(self, piece: CorePiece, edit: Replace) -> bytes:
        own = own_text(piece, edit.text)
        lines = lines_of(piece.raw[: piece.own])[1:] if edit.keeps else []
        said = f" {normalize(escape(edit.text))} "
        if further := [raw for raw in lines if f" {normalize(raw.decode(errors='replace'))} " not in said]:
            own = own.rstrip(b"\r\n") + self._newline * 2 + b"".join(further)
        return own + piece.raw[piece.own :]

    def file(self) -> CoreFile:
        """Return the edited file; text below a removed bullet keeps its meaning."""
        if not any(self._leads) and all(raw is piece.raw for raw, piece in zip(self._raws, self._pieces, strict=True)):
            return self._given
        file = parse(self._join())
        if [bullet.text for bullet in file.bullets] != self._list_expected():
            for place in self._cut - {len(self._raws) - 1}:
                self._raws[place] = self._close_open(self._raws[place])
            file = parse(self._join())
        return file

    def _list_expected(self) -> list[str]:
        pairs = zip(self._lead_texts, self._texts, strict=True)
        return [text for leads, own in pairs for text in (*leads, own) if text is not None]

    def _join(self) -> bytes:
        lines: list[bytes] = []
        for place, raw in enumerate(self._raws):
            lines += self._leads[place]
            if place in self._cut and not (lines and lines_of(lines[-1])[-1].strip()):
                raw = _BLANK_LINES.sub(b"", raw)  # noqa: PLW2901
            lines += [raw] if raw else []
        data = b"".join(lines)
        front = self._raws[0]
        # A rule that has become the first line would open front matter, which another rule may end later.
        is_first = front in {b"", BOM} and data.removeprefix(front).startswith(b"---")
        return front + self._newline + data.removeprefix(front) if is_first else data

    def _end_line(self, block: bytes) -> bytes:
        """Return the block with a line end at its end."""
        return block if block.endswith(b"\n") else block + self._newline

    def _close_open(self, raw: bytes) -> bytes:
        """Return text with a last line that closes its open private part, fence or comment, if it has one."""
        for _ in range(raw.lower().count(KEYWORD)):  # private parts may nest
            if not is_open(raw):
                break
            raw = self._end_line(raw) + b"</private>" + self._newline
        lines = list(_classify_lines(raw))
        last = lines[-1] if lines else None
        if last is None or not (last.fence or last.open):
            return raw
        return self._end_line(raw) + (b"  " + last.fence if last.fence else b"-->") + self._newline
