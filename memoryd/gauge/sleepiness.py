"""Decide whether a session should sleep now.

memoryd cannot shrink the context of another program, so after a sleep the usage stays high until the agent compacts. A
session that has slept therefore sleeps again only after a compaction, or after much text was added.
"""

from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from memoryd.config import SleepSettings

# 0.55 * 100 is slightly above 55 in binary, but the limit is meant as a decimal number.
_ROUNDING = 1e-6


class Situation(NamedTuple):
    """Hold the values on which the decision about a session depends."""

    tokens: int  # the tokens in the context
    window: int  # the size of the model's context window, in tokens
    messages: int  # the messages of user and assistant after the watermark
    added: int  # the tokens after the watermark
    watermark: int  # the number of the last turn that a sleep has processed; 0 if there is none
    compaction: int  # the number of the turn of the last compaction; 0 if there is none
    slept_at: datetime | None  # the end of the last successful sleep


class Reason(StrEnum):
    """Name the reasons why a session sleeps or stays awake."""

    FULL = "the context has reached the threshold"
    BELOW = "the context is below the threshold"
    FEW = "too few messages since the last sleep"
    COOLDOWN = "the last sleep was too short a time ago"
    DISARMED = "slept already; waiting for a compaction or for enough new text"


def decide_sleep(policy: SleepSettings, situation: Situation, now: datetime) -> Reason:
    """Return `FULL` if the session should sleep; otherwise the reason against it. All limits are inclusive."""
    if not is_full(policy, situation.tokens, situation.window):
        return Reason.BELOW
    if situation.messages < policy.min_messages:
        return Reason.FEW
    has_compacted = situation.watermark == 0 or situation.compaction > situation.watermark
    if not has_compacted and situation.added < _share(policy.rearm, situation.window):
        return Reason.DISARMED
    return Reason.COOLDOWN if _is_cooling(policy, situation, now) else Reason.FULL


def is_full(policy: SleepSettings, tokens: int, window: int) -> bool:
    """Return True if the tokens reach the threshold, a share of the window."""
    return tokens >= _share(policy.threshold, window)


def _share(part: float, window: int) -> int:
    return ceil(part * window - _ROUNDING)


def _is_cooling(policy: SleepSettings, situation: Situation, now: datetime) -> bool:
    """Return True during the cooldown; a last sleep in the future has a wrong time and does not count."""
    if situation.slept_at is None:
        return False
    elapsed = now - situation.slept_at
    return policy.cooldown > elapsed and elapsed.total_seconds() >= 0
