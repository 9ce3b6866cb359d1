"""Places: numbers that keep memories in the order of their file, changed for as few of them as can be.

Only the order of two numbers means something. They lie apart, so that a bullet put in between takes a number of its
own and no other memory changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

STEP = 1024


def assign_places(numbers: Sequence[int | None]) -> list[int]:
    """Return strictly growing numbers for memories in file order; as many as possible keep their number.

    Args:
        numbers: what each has now, None for a new one.
    """
    kept = _find_longest(numbers)
    found: list[int | None] = [None] * len(numbers)
    for index in kept:
        found[index] = numbers[index]
    ends = [-1, *kept, len(numbers)]
    for start, end in pairwise(ends):
        low = None if start < 0 else found[start]
        high = None if end == len(numbers) else found[end]
        gap = end - start - 1
        new = _number_between(low, high, gap)
        if new is None:
            return [STEP * (index + 1) for index in range(len(numbers))]
        found[start + 1 : end] = new
    return [number for number in found if number is not None]


def _number_between(low: int | None, high: int | None, count: int) -> list[int] | None:
    """Return `count` growing numbers between two; None if there is no room for so many."""
    if low is None:
        low = 0 if high is None else high - STEP * (count + 1)
    if high is None:
        high = low + STEP * (count + 1)
    if high - low <= count:
        return None
    return [low + (high - low) * (index + 1) // (count + 1) for index in range(count)]


def _find_longest(numbers: Sequence[int | None]) -> list[int]:
    """Return the indexes of a longest growing part (patience sorting: Fredman, 1975)."""
    tails: list[int] = []  # the smallest last number of a growing part of each length …
    at: list[int] = []  # … and where it is
    previous: dict[int, int] = {}
    for index, number in enumerate(numbers):
        if number is None:
            continue
        length = bisect_left(tails, number)
        if length:
            previous[index] = at[length - 1]
        tails[length : length + 1] = [number]
        at[length : length + 1] = [index]
    found: list[int] = []
    index_or_none: int | None = at[-1] if at else None
    while index_or_none is not None:
        found.append(index_or_none)
        index_or_none = previous.get(index_or_none)
    return found[::-1]
