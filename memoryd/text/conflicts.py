"""Find the conflicts that a git merge left in a file, and resolve them.

The format is that of git-merge(1): `<<<<<<< `, the own side, `=======`, the other side, `>>>>>>> `. In the style
`diff3`, the common ancestor follows `||||||| ` before the other side. Markers in a code fence are an example and do not
count.
"""

from enum import StrEnum
from typing import NamedTuple

from memoryd.text import fences

_OURS, _BASE, _MIDDLE, _THEIRS = b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> "


class Side(StrEnum):
    """Name the possible results of a resolution: one side, or both."""

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"


class MergeConflict(NamedTuple):
    """Hold one conflict: the offsets of its bytes with the markers, its first line (from 1), and both sides."""

    first: int
    last: int
    line: int
    ours: bytes
    theirs: bytes


def find_conflicts(data: bytes) -> tuple[MergeConflict, ...]:
    """Return the conflicts of a file, in order; incomplete markers do not count."""
    found: list[MergeConflict] = []
    fence = ""
    begun: tuple[int, int] | None = None  # the first byte and the line number of the open conflict
    sides: list[list[bytes]] = []
    at = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        end = min(at + len(line) + 1, len(data))
        if line.startswith(_OURS) and not fence:
            begun, sides = (at, number), [[]]
        elif begun is None:
            fence = fences.open_after(fence, line.decode("latin-1"))  # fences are ASCII, so latin-1 is enough
        elif line.startswith(_BASE) or (line.rstrip() == _MIDDLE and len(sides) < _MOST_SIDES):
            sides.append([])
        elif line.startswith(_THEIRS) and len(sides) > 1:
            ours, theirs = b"".join(sides[0]), b"".join(sides[-1])
            found.append(MergeConflict(begun[0], end, begun[1], ours, theirs))
            begun = None
        else:
            sides[-1].append(data[at:end])
        at = end
    return tuple(found)


_MOST_SIDES = 3  # including the common ancestor


def is_conflicted(data: bytes) -> bool:
    """Return True if the file has a conflict that nobody has resolved."""
    return _OURS in data and bool(find_conflicts(data))


def resolve(data: bytes, side: Side) -> bytes:
    """Return a file with one side of each conflict, or with both; a line of both sides then occurs once."""
    pieces, at = [], 0
    for one in find_conflicts(data):
        pieces += [data[at : one.first], _take(one, side)]
        at = one.last
    return b"".join([*pieces, data[at:]])


def _take(one: MergeConflict, side: Side) -> bytes:
    if side is not Side.BOTH:
        return one.ours if side is Side.OURS else one.theirs
    held = set(one.ours.split(b"\n"))
    lead = one.ours if one.ours.endswith(b"\n") or not one.ours else one.ours + b"\n"
    return lead + b"".join(line for line in one.theirs.splitlines(keepends=True) if line.rstrip(b"\n") not in held)
