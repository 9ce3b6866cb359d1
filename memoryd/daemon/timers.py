"""Tell when a periodic task is due, and whether it can find anything: an idle daemon asks every second."""

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
        """Make the task due this long after it last was, if that is sooner."""
        self.at = min(self.at, self.last + seconds)


class LookTimer(Timer):
    """Report when to look into databases: at once where asked (`at` is 0), soon after a write, else at long intervals.

    A commit appends to the write-ahead log or begins it anew, so its size or time changes; a checkpoint changes the
    database. The files tell that without a query. The clock of a file system may be too coarse for two writes, and
    time alone may make something due: hence the intervals.
    """

    def __init__(self, databases: Iterable[Path], seconds: float, now: float, *, anyway: float) -> None:
        """Begin with a look; `seconds` between two looks after writes, `anyway` between two without."""
        super().__init__(seconds, now)
        self._anyway = anyway
        self._looked = now - anyway
        self._paths = [path for one in databases for path in (one, one.with_name(f"{one.name}-wal"))]
        self._seen: list[tuple[int, ...] | None] = []

    def is_due(self, now: float) -> bool:
        """Return True if a look is due and may find something, and set the next time."""
        is_asked = self.at == 0
        if not super().is_due(now):
            return False
        seen, self._seen = self._seen, list(self._observe())  # before the look: what is written during it is new
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
