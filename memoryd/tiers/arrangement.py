"""Arrange the core file: its bullets in another order, in other words and under other headings.

Text that is not a bullet keeps its place. Text below a heading moves with the heading, and text below a bullet moves
with the bullet. If that bullet is removed, the text moves below the line above it. Headings of the file keep their
order. A new heading follows the one before it in the sections. A heading that loses all its bullets and has no other
text is removed, but a title stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memoryd.tiers import core
from memoryd.tiers.core import CoreFile, PieceKind
from memoryd.tiers.lines import BOM


@dataclass(frozen=True, slots=True)
class Slot:
    """Hold one bullet of the new file."""

    position: int | None = None  # its position in the old file; None for a new bullet
    text: str | None = None  # its new text; None keeps its bytes
    takes: tuple[int, ...] = ()  # bullets that it replaces; the blocks below them move below it


@dataclass(slots=True)
class _LaidPiece:
    """Hold lines of the new file: a heading or a bullet with its text below, or the text before the first of them."""

    raw: bytes
    kind: PieceKind
    place: int | None = None  # the index of the piece in the old file
    is_touched: bool = False


@dataclass(slots=True, eq=False)
class _FilePart:
    """Hold a part of the new file: a heading with its bullets."""

    key: str
    heading: int | None  # the index of its piece in the old file
    text: str = ""
    held: list[int] = field(default_factory=list)  # the positions of the bullets that the old file has here
    slots: list[Slot] = field(default_factory=list)


def arrange(file: CoreFile, sections: Sequence[tuple[str, Sequence[Slot]]]) -> bytes:
    """Return the file's bytes with exactly the bullets of the sections, in their order.

    An empty heading stands for the part above the first `## `.

    Raises:
        ValueError: a text is blank.
    """
    parts = _fill_parts(_parts(file), sections)
    if all(one.text is None and not one.takes for part in parts for one in part.slots) and all(
        [slot.position for slot in part.slots] == part.held for part in parts
    ):
        return core.render(file)
    data = _join_lines(file, _Layout(file).lay_out(parts))
    meant = [(core.normalize(_get_text(file, slot)), part.key) for part in parts for slot in part.slots]
    # An open fence or comment may hide bullets. Then the old bullets keep their places, and only texts change.
    is_held = [(core.normalize(one.text), core.normalize(one.heading)) for one in core.parse(data).bullets] == meant
    return data if is_held else core.edit(file, list(_edits(file, sections)))


def _get_text(file: CoreFile, slot: Slot) -> str:
    """Return the text that a slot will have in the file."""
    if slot.text is not None:
        return core.escape(slot.text)
    return "" if slot.position is None else file.bullets[slot.position].text


def _edits(file: CoreFile, sections: Sequence[tuple[str, Sequence[Slot]]]) -> Iterator[core.Edit]:
    slots = {slot.position: slot for _, named in sections for slot in named if slot.position is not None}
    for bullet in file.bullets:
        slot = slots.get(bullet.position)
        if slot is None:
            yield core.Remove(bullet.position)
        elif slot.text is not None:
            yield core.Replace(bullet.position, slot.text)
    for heading, named in sections:
        yield from (core.Insert(one.text, heading) for one in named if one.position is None and one.text is not None)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parts(file: CoreFile) -> list[_FilePart]:
    parts = [_FilePart("", None)]
    position = 0
    for place, piece in enumerate(file.pieces):
        if piece.kind is PieceKind.HEADING:
            parts.append(_FilePart(core.normalize(piece.text) if piece.level > 1 else "", place, piece.text))
        elif piece.kind is PieceKind.BULLET:
            parts[-1].held.append(position)
            position += 1
    return parts


def _fill_parts(parts: list[_FilePart], sections: Sequence[tuple[str, Sequence[Slot]]]) -> list[_FilePart]:
    """Return the parts with the slots of the sections, and with new parts for headings that the file lacks."""
    home = {position: part for part in parts for position in part.held}
    before: _FilePart | None = None
    keys = [core.normalize(name) for name, _ in sections]
    following = [next((part for part in parts if key and part.key == key), None) for key in keys]
    for number, (heading, slots) in enumerate(sections):
        key = keys[number]
        found = [part for part in parts if part.key == key]
        if not found:
            found = [_FilePart(key, None, heading)]
            after = next((part for part in following[number:] if part is not None), None)
            at = len(parts) if after is None else parts.index(after)
            parts.insert(at if before is None else parts.index(before) + 1, found[0])
        at = 1 if key == "" and len(found) > 1 and not parts[0].held else 0  # below the title, not above it
        for slot in slots:
            own = None if slot.position is None else home[slot.position]
            if own in found:  # several headings with this name keep their own bullets
                at = max(at, found.index(own))
            found[at].slots.append(slot)
        before = found[at]
    return parts


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Layout:
    """Build the lines of the new file from the pieces of the old file."""

    def __init__(self, file: CoreFile) -> None:
        self._pieces = file.pieces
        self._bullets = [place for place, piece in enumerate(file.pieces) if piece.kind is PieceKind.BULLET]
        self._newline = core.newline_of(core.render(file))

    def lay_out(self, parts: Sequence[_FilePart]) -> list[_LaidPiece]:
        """Return the lines of all parts, in order."""
        used = {one for part in parts for slot in part.slots for one in (slot.position, *slot.takes)}
        found = [_LaidPiece(one.raw, one.kind, at) for at, one in enumerate(self._pieces) if one.kind is PieceKind.TEXT]
        for part in parts:
            lines = self._part(part, used)
            found += [] if part.held and self._is_bare(lines) else lines
        return found

    def _part(self, part: _FilePart, used: set[int | None]) -> list[_LaidPiece]:
        lines: list[_LaidPiece] = []
        if part.heading is not None:
            lines.append(_LaidPiece(self._pieces[part.heading].raw, PieceKind.HEADING, part.heading))
        elif part.key:
            lines.append(_LaidPiece(f"## {part.text}".encode() + self._newline * 2, PieceKind.HEADING))
        lines += [self._bullet(slot) for slot in part.slots]
        at = {line.place: line for line in lines if line.place is not None}
        above = lines[0] if lines and lines[0].kind is PieceKind.HEADING else None
        for position in part.held:
            place = self._bullets[position]
            above = at.get(place, above)
            piece = self._pieces[place]
            orphan = piece.raw[piece.own :]
            if position in used or not orphan.strip():
                continue
            if above is None:
                above = _LaidPiece(orphan, PieceKind.TEXT)
                lines.insert(0, above)
            else:
                above.raw = core.end_last_line(above.raw.rstrip(b"\r\n")) + orphan
            above.is_touched = True
        return lines

    def _bullet(self, slot: Slot) -> _LaidPiece:
        taken = [self._pieces[self._bullets[one]] for one in slot.takes]
        below = b"".join(core.end_last_line(one.raw[one.own :]) for one in taken if one.raw[one.own :].strip())
        if slot.position is None:
            line = core.escape(slot.text or "")
            return _LaidPiece(f"- {line}".encode() + self._newline + below, PieceKind.BULLET, is_touched=True)
        place = self._bullets[slot.position]
        piece = self._pieces[place]
        own = piece.raw[: piece.own] if slot.text is None else core.own_text(piece, slot.text)
        raw = own + piece.raw[piece.own :]
        return _LaidPiece(
            core.end_last_line(raw) + below if below else raw, PieceKind.BULLET, place, is_touched=bool(below)
        )

    def _is_bare(self, lines: Sequence[_LaidPiece]) -> bool:
        """Return True if only a heading is left, which is not the title."""
        if len(lines) != 1 or lines[0].kind is not PieceKind.HEADING or lines[0].place is None:
            return False
        return self._pieces[lines[0].place].level > 1 and not lines[0].raw.partition(b"\n")[2].strip()


def _join_lines(file: CoreFile, laid: Sequence[_LaidPiece]) -> bytes:
    """Return the lines with their old blank lines between them; lines that were not neighbours get the usual ones."""
    newline = core.newline_of(core.render(file))
    laid = [one for one in laid if one.raw]
    out = []
    for line, following in zip(laid, [*laid[1:], None], strict=True):
        body = line.raw.rstrip(b" \t\r\n")
        tail = line.raw[len(body) :]
        end = tail.find(b"\n") + 1
        if line.raw == BOM:
            out.append(BOM)
        else:
            ended = body + tail[:end] if end else line.raw + newline
            out += [ended, _gap(file, line, following, tail[end:] if end else b"", newline)]
    return b"".join(out)


def _gap(file: CoreFile, line: _LaidPiece, following: _LaidPiece | None, blank: bytes, newline: bytes) -> bytes:
    last = None if line.place is None else line.place + 1
    next_kind = file.pieces[last].kind if last is not None and last < len(file.pieces) else None
    if following is None:
        return blank if last == len(file.pieces) else b""
    if next_kind is following.kind and not line.is_touched:
        return blank
    return newline if PieceKind.HEADING in {line.kind, following.kind} or line.kind is PieceKind.TEXT else b""
