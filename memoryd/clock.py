"""Tell the time. `app` passes one clock to all parts, so that tests and replays can set it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


def utc_now() -> datetime:
    """Return the time of the machine as an aware datetime in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Hold the wall clock for records and the monotonic clock for durations."""

    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic

    def text(self, *, ahead: timedelta = timedelta()) -> str:
        """Return the current time plus `ahead` as the database writes it: UTC, ISO 8601, milliseconds, `Z`."""
        return text_of(self.now() + ahead)


def text_of(moment: datetime) -> str:
    """Return an aware time as the database writes it. All such texts have equal length, so they sort like times."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    """Return the time in a text of the database or a transcript. A time without a zone is read as UTC.

    Raises:
        ValueError: the text is not an ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
