"""Limit how often an action may happen, by a token bucket."""

import time
from collections.abc import Callable


class Bucket:
    """Limit a rate: each use takes a token, and tokens return with time."""

    def __init__(self, burst: int, per_second: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start with `burst` tokens."""
        self._burst = burst
        self._per_second = per_second
        self._monotonic = monotonic
        self._left = float(burst)
        self._at = monotonic()

    def is_empty(self) -> bool:
        """Return True if no token is left now."""
        now = self._monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        return self._left < 1

    def take(self) -> bool:
        """Take a token; return False if none is left."""
        if self.is_empty():
            return False
        self._left -= 1
        return True
