"""Whether and when: the one decision about trying again."""

import errno
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.llm.failure import Failure, ModelError, Trouble
from memoryd.running.retry import FIRST_DELAY, LONGEST_DELAY, BlockRun, GiveUp, RetryAfter, decide

SECONDS = st.none() | st.floats(0, 1e18)


@given(st.sampled_from(Trouble), SECONDS, st.integers(1, 40), st.integers(1, 9), st.floats(0, 1))
def test_nothing_waits_longer_than_an_hour_and_a_quarter_or_comes_before_it_may(
    trouble, after, attempt, attempts, jitter
):
    error = ModelError(Failure(trouble, "x", after))
    match decide(error, attempt=attempt, attempts=attempts, jitter=jitter):
        case RetryAfter(delay, refund):
            assert FIRST_DELAY <= delay <= LONGEST_DELAY * 1.25
            assert delay.total_seconds() >= min(after or 0, 3600)
            assert refund == (trouble in {Trouble.BUSY, Trouble.EXHAUSTED})
        case BlockRun(delay):
            assert trouble is Trouble.BLOCKED
            assert timedelta() < delay <= LONGEST_DELAY
        case GiveUp():
            assert attempt >= attempts


def test_a_full_disk_is_no_attempt():
    verdict = decide(OSError(errno.ENOSPC, "full"), attempt=9, attempts=5)
    assert verdict == RetryAfter(LONGEST_DELAY, refund=True)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 30), (2, 60), (3, 120), (9, 3600)])
def test_each_attempt_waits_twice_as_long(attempt, seconds):
    expected = RetryAfter(timedelta(seconds=seconds), refund=False, is_told=attempt == 1)
    assert decide(ValueError(), attempt=attempt, attempts=10) == expected
