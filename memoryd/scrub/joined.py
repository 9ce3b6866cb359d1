"""Many texts as one buffer of UTF-8, so that each rule runs once, and the way back from a byte to its text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

# No rule's pattern goes over a line end and a control character, and no decoder takes the first bytes for a mark.
BETWEEN = b"\n\x1e\n"


class JoinedTexts:
    """Texts in one buffer; `begins` and `ends` say where each lies."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts
        self.buffer = BETWEEN + BETWEEN.join(parts) + BETWEEN
        gap = len(BETWEEN)
        self.ends = list(accumulate(len(part) + gap for part in parts))
        self.begins = [end - len(part) for end, part in zip(self.ends, parts, strict=True)]

    def find_text(self, place: int) -> int:
        """Return which text a byte of the buffer belongs to."""
        return bisect_right(self.begins, place) - 1
