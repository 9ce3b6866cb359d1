"""Whether and when a failed run is tried again: a pure decision."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from datetime import timedelta

from memoryd.errors import StateError

FIRST_DELAY = timedelta(seconds=30)
LONGEST_DELAY = timedelta(hours=1)
_MACHINE = frozenset({
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ESTALE),
})  # fmt: skip


class AwayError(StateError):
    """What a run needs is not there now, through no fault of the run: a workspace on a disk that is not mounted."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Try again after `delay`; `refund` where the attempt does not count, since no attempt could have worked."""

    delay: timedelta
    refund: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The run is dead until a person asks again."""


def is_disk_trouble(error: BaseException) -> bool:
    """Say whether the machine, not the run, is at fault: a full or failing disk, no descriptors, no permission.

    Another program's long hold on the database is of this kind, too: it passes.
    """
    if isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, OSError) and error.errno in _MACHINE:
        return True
    return type(error).__name__ == "OperationalError" and any(
        sign in str(error)
        for sign in ("database or disk is full", "disk I/O error", "readonly database", "unable to open", "is locked")
    )


def decide(error: BaseException, *, attempt: int, attempts: int) -> RetryAfter | GiveUp:
    """Decide about a run that failed with `error` at its `attempt`-th try of `attempts`."""
    delay = min(FIRST_DELAY * 2 ** min(attempt - 1, 16), LONGEST_DELAY)
    if isinstance(error, AwayError) or is_disk_trouble(error):
        return RetryAfter(delay, refund=True)
    return GiveUp() if attempt >= attempts else RetryAfter(delay, refund=False)
