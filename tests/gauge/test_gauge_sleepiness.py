"""When a session sleeps, at every bound."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.config import SleepSettings
from memoryd.gauge.sleepiness import Reason, Situation, decide_sleep

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POLICY = SleepSettings(threshold=0.8, cooldown=timedelta(minutes=5), min_messages=2, rearm=0.1)
FULL = Situation(tokens=160_000, window=200_000, messages=2, added=160_000, watermark=0, compaction=0, slept_at=None)
SLEPT = FULL._replace(watermark=40, added=20_000, slept_at=NOW - timedelta(minutes=5))


def why(situation: Situation, policy: SleepSettings = POLICY) -> Reason:
    return decide_sleep(policy, situation, NOW)


def test_the_threshold_is_inclusive() -> None:
    assert why(FULL) is Reason.FULL
    assert why(FULL._replace(tokens=159_999)) is Reason.BELOW


@given(st.integers(1, 100), st.integers(1, 3_000_000))
def test_a_decimal_threshold_is_met_exactly(percent: int, window: int) -> None:
    bound = -(-percent * window // 100)
    policy = replace(POLICY, threshold=percent / 100)
    assert why(FULL._replace(tokens=bound, window=window), policy) is Reason.FULL
    assert why(FULL._replace(tokens=bound - 1, window=window), policy) is Reason.BELOW


def test_enough_messages() -> None:
    assert why(FULL._replace(messages=1)) is Reason.FEW
    assert why(FULL._replace(messages=0), replace(POLICY, min_messages=0)) is Reason.FULL


@pytest.mark.parametrize(
    ("ago", "reason"),
    [
        (timedelta(minutes=5), Reason.FULL),
        (timedelta(minutes=5) - timedelta(microseconds=1), Reason.COOLDOWN),
        (timedelta(0), Reason.COOLDOWN),
        (-timedelta(microseconds=1), Reason.FULL),  # the clock was set back
    ],
)
def test_the_cooldown(ago: timedelta, reason: Reason) -> None:
    assert why(SLEPT._replace(slept_at=NOW - ago)) is reason


@pytest.mark.parametrize(
    ("added", "compaction", "reason"),
    [
        (20_000, 0, Reason.FULL),
        (19_999, 0, Reason.DISARMED),
        (0, 41, Reason.FULL),
        (0, 40, Reason.DISARMED),
        (0, 39, Reason.DISARMED),
    ],
)
def test_rearming(added: int, compaction: int, reason: Reason) -> None:
    assert why(SLEPT._replace(added=added, compaction=compaction)) is reason
