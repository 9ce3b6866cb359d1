"""Decide whether and when a failed run is retried. This module is pure."""

from dataclasses import dataclass
from datetime import timedelta

from memoryd.errors import AwayError, is_disk_trouble
from memoryd.llm.failure import Failure, ModelError, Trouble
from memoryd.reading.scrubbing import SecretError

FIRST_DELAY = timedelta(seconds=30)
LONGEST_DELAY = timedelta(hours=1)
JITTER_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Retry the run after `delay`. With `refund`, the attempt does not count, because it could not have succeeded."""

    delay: timedelta
    refund: bool
    is_told: bool = False  # True: no alarm is needed, because the failure may pass or another alarm reports it


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Block the run, because a person must fix the cause, and retry it after `delay`. The attempt does not count."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the run as failed for good. Only a person can start it again."""


def decide(error: BaseException, *, attempt: int, attempts: int, jitter: float = 0.0) -> RetryAfter | GiveUp | BlockRun:
    """Return what to do with a run that failed with `error` in its `attempt`-th attempt of `attempts`.

    `jitter` is between 0 and 1 and differs for each run, so that runs that failed together are not retried together.
    """
    delay = min(FIRST_DELAY * 2 ** min(attempt - 1, 16), LONGEST_DELAY)
    if isinstance(error, AwayError) or is_disk_trouble(error):
        return RetryAfter(delay, refund=True)
    if isinstance(error, SecretError):
        return BlockRun(LONGEST_DELAY)
    if isinstance(error, ModelError):
        return _about_model(error.failure, delay, attempt >= attempts, jitter)
    return GiveUp() if attempt >= attempts else RetryAfter(delay, refund=False, is_told=attempt == 1)


def _about_model(failure: Failure, delay: timedelta, last: bool, jitter: float) -> RetryAfter | GiveUp | BlockRun:  # noqa: FBT001
    asked_for = timedelta(seconds=min(failure.retry_after or 0.0, LONGEST_DELAY.total_seconds()))
    if failure.trouble is Trouble.BLOCKED:
        return BlockRun(asked_for or LONGEST_DELAY)
    if failure.trouble is Trouble.EXHAUSTED:
        return RetryAfter(LONGEST_DELAY, refund=True)
    # The jitter is added, because a retry must not come sooner than the server asks.
    delay = max(delay, asked_for) * (1 + JITTER_SHARE * jitter)
    if failure.trouble is Trouble.BUSY:
        return RetryAfter(delay, refund=True, is_told=failure.is_told)
    return GiveUp() if last else RetryAfter(delay, refund=False, is_told=True)
