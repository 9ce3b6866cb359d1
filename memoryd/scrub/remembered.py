"""What a rule said of places before: where the same stands around, it says the same, so repetition costs little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryd.scrub.finding import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memoryd.scrub.finding import Place

    Find = Callable[[Place, bytes], Iterator[Span]]

KEPT = 256  # answers; each is kept with what it was given on
_MARK = 64  # bytes by which it is looked up


class Remembered:
    """A rule that is asked once for each surrounding it meets.

    It is for one scan, since what it remembers is text that nobody has redacted yet.

    Args:
        find: the rule; it is shown no more than what is remembered.
        behind: how many bytes ahead of its keyword it is shown.
        ahead: and how many from the keyword's first.
    """

    def __init__(self, find: Find, behind: int, ahead: int) -> None:
        self._find = find
        self._behind = behind
        self._ahead = ahead
        # What it stood in and what was said, by keyword, place in that, and what follows; hashing all of it is slow.
        self._said: dict[tuple[bytes, int, bytes], tuple[bytes, list[Span]]] = {}

    def find(self, place: Place, keyword: bytes) -> Sequence[Span]:
        """What the rule finds at a place."""
        buffer, first, _, begin, end = place
        begin, end = max(begin, first - self._behind), min(end, first + self._ahead)
        key, around = (keyword, first - begin, buffer[first : first + _MARK]), buffer[begin:end]
        stood_in, said = self._said.get(key, (b"", []))
        if stood_in != around:
            found = self._find(place._replace(begin=begin, end=end), keyword)
            said = [Span(span.first - begin, span.last - begin, span.rule) for span in found]
            if len(self._said) >= KEPT:
                self._said.clear()
            self._said[key] = around, said
        return said and [Span(span.first + begin, span.last + begin, span.rule) for span in said]
