"""Report when a periodic task is due. An idle daemon asks often, so `LookTimer` first checks whether a file changed."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class Timer:
    """Report when a periodic task is due."""

    def __init__(self, seconds: float, now: float, *, first: float = 0) -> None:
        self.seconds = seconds
        self.at = now + first
        self.last = now

    def is_due(self, now: float) -> bool:
        """Return True if the task is due, and set its next time."""
        if now < self.at:
            return False
        self.at, self.last = now + self.seconds, now
        return True

    def hurry(self, seconds: float) -> None:
        """Make the task due this long after its last time, if that is earlier."""
        self.at = min(self.at, self.last + seconds)


class LookTimer(Timer):
    """Report when to check databases: at once if `at` is 0, soon after a write, otherwise at long intervals.

    A commit changes the size or the time of the write-ahead log, and a checkpoint changes the database file. The file
    status shows both without a query. Checks at intervals are still needed: two writes may get the same file time, and
    time alone may make something due.
    """

    def __init__(self, databases: Iterable[Path], seconds: float, now: float, *, anyway: float) -> None:
        """Make the first check due at once.

        Args:
            databases: The files to observe; other files than databases work too.
            seconds: The least time between checks.
            now: The monotonic time.
            anyway: The longest time without a check.
        """
        super().__init__(seconds, now)
        self._anyway = anyway
        self._looked = now - anyway
        self._paths = [path for one in databases for path in (one, one.with_name(f"{one.name}-wal"))]
        self._seen: list[tuple[int, ...] | None] = []

    def is_due(self, now: float) -> bool:
        """Return True if a check is due and may find something, and set the next time."""
        is_asked = self.at == 0
        if not super().is_due(now):
            return False
        # Observed before the check, so that a write during the check counts as new.
        seen, self._seen = self._seen, list(self._observe())
        is_due = is_asked or seen != self._seen or now - self._looked >= self._anyway
        if is_due:
            self._looked = now
        return is_due

    def _observe(self) -> Iterator[tuple[int, ...] | None]:
        for path in self._paths:
            try:
                found = os.stat(path)  # noqa: PTH116 - a `Path` takes three times as long
            except OSError:
                yield None
            else:
                yield found.st_ino, found.st_size, found.st_mtime_ns
