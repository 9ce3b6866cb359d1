"""Time as memoryd sees it: one value passed down from `app`, so that tests and replays set it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def utc_now() -> datetime:
    """Tell the time of the machine, aware, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock for what is recorded, the monotonic one for what is waited for."""

    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic

    def text(self, *, ahead: timedelta = timedelta()) -> str:
        """Tell the time as the database writes it: UTC, ISO 8601, milliseconds, `Z`."""
        return text_of(self.now() + ahead)


def text_of(moment: datetime) -> str:
    """Write an aware time as the database does. Texts of equal length, so they compare as times do."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    """Read a time as the database or a transcript writes it; a time without a zone is UTC.

    Raises:
        ValueError: the text is no ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
