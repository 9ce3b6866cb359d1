"""Duplicates of the ledger, found by hash alone: no text is looked at, so none can end up in a log or a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Copy(NamedTuple):
    """A live memory of one agent, as far as it is looked at."""

    kind: str
    digest: str  # of the bytes of the content
    constitutional: bool
    created_at: str  # UTC, ISO 8601 with Z, all to the same precision
    id: str


class Redundant(NamedTuple):
    """A memory that goes, and the equal one that stays."""

    id: str
    kept: str


def redundant(copies: Iterable[Copy]) -> Iterator[Redundant]:
    """Which memories say, byte for byte, what another of their kind says: the oldest stays, before all a protected one.

    Protected ones all stay. One row is held at a time.

    Args:
        copies: ordered by kind and digest, within these protected first, then by age, then by id; as rows of the
            database `ORDER BY kind, digest, constitutional DESC, created_at, id`.

    Raises:
        ValueError: they come in another order.
    """
    kept: Copy | None = None
    last: tuple[str, str, bool, str, str] | None = None
    for copy in copies:
        place = (copy.kind, copy.digest, not copy.constitutional, copy.created_at, copy.id)
        if last is not None and place <= last:
            raise ValueError("the copies are not in order")
        last = place
        if kept is None or (copy.kind, copy.digest) != (kept.kind, kept.digest):
            kept = copy
        elif not copy.constitutional:
            yield Redundant(copy.id, kept.id)
