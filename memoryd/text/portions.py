"""Divide texts and other items into portions of limited size."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def group_items(items: Iterable[T], sizes: Sequence[int], room: int) -> list[list[T]]:
    """Return items in order, in groups whose sizes add up to at most `room`; a larger item is a group by itself."""
    groups: list[list[T]] = []
    left = 0
    for item, size in zip(items, sizes, strict=True):
        if not groups or size > left:
            groups.append([])
            left = room
        groups[-1].append(item)
        left -= size
    return groups
