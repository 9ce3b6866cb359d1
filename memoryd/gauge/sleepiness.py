"""Decide whether a session should sleep now.

memoryd cannot shrink another program's context: after a sleep the usage stays high until the agent compacts. So a
session that has slept does not sleep again until a compaction follows, or until much has been added since.
"""

from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from memoryd.config import SleepSettings

# 0.55 of 100 is slightly above 55 in binary; a bound written as a decimal is meant as one.
_ROUNDING = 1e-6


class Situation(NamedTuple):
    """Hold the state of the session."""

    tokens: int  # live context
    window: int  # tokens
    messages: int  # user and assistant messages past the watermark
    added: int  # tokens past the watermark
    watermark: int  # seq of the last turn slept on; 0: never slept
    compaction: int  # seq of the last compaction marker; 0: none
    slept_at: datetime | None  # end of the last successful sleep


class Reason(StrEnum):
    """Name why a session sleeps or stays awake."""

    FULL = "the context has reached the threshold"
    BELOW = "the context is below the threshold"
    FEW = "too few messages since the last sleep"
    COOLDOWN = "the last sleep was too short a time ago"
    DISARMED = "slept already; waiting for a compaction or for enough new text"


def decide_sleep(policy: SleepSettings, situation: Situation, now: datetime) -> Reason:
    """Return `FULL` if a session sleeps, or why it stays awake. All bounds are inclusive."""
    if not is_full(policy, situation.tokens, situation.window):
        return Reason.BELOW
    if situation.messages < policy.min_messages:
        return Reason.FEW
    has_compacted = situation.watermark == 0 or situation.compaction > situation.watermark
    if not has_compacted and situation.added < _share(policy.rearm, situation.window):
        return Reason.DISARMED
    return Reason.COOLDOWN if _is_cooling(policy, situation, now) else Reason.FULL


def is_full(policy: SleepSettings, tokens: int, window: int) -> bool:
    """Return True if these tokens of a window reach the threshold."""
    return tokens >= _share(policy.threshold, window)


def _share(part: float, window: int) -> int:
    return ceil(part * window - _ROUNDING)


def _is_cooling(policy: SleepSettings, situation: Situation, now: datetime) -> bool:
    """Return True during the cooldown; the time of a sleep in the future is wrong, and does not count."""
    if situation.slept_at is None:
        return False
    elapsed = now - situation.slept_at
    return policy.cooldown > elapsed and elapsed.total_seconds() >= 0
