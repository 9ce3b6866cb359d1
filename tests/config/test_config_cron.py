"""Cron lines mean what cron means: judged by when the clock behind them fires."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st

from memoryd.cron import parse_cron
from memoryd.errors import ConfigError

UTC = ZoneInfo("UTC")
START = datetime(2026, 3, 4, 10, 20, 30, tzinfo=UTC)  # a Wednesday


def fires(line, count=1, start=START, zone=UTC):
    trigger = CronTrigger(timezone=zone, **parse_cron(line))
    times, now = [], start
    for _ in range(count):
        now = trigger.get_next_fire_time(None, now)
        times.append(now)
        now += timedelta(seconds=1)
    return times


def texts(line, count):
    return [when.strftime("%a %d %b %H:%M:%S") for when in fires(line, count)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 3 * * *", ["Thu 05 Mar 03:00:00", "Fri 06 Mar 03:00:00"]),
        ("0 4 * * 0", ["Sun 08 Mar 04:00:00", "Sun 15 Mar 04:00:00"]),
        ("0 4 * * 7", ["Sun 08 Mar 04:00:00", "Sun 15 Mar 04:00:00"]),
        ("0 4 * * SUN", ["Sun 08 Mar 04:00:00", "Sun 15 Mar 04:00:00"]),
        ("0 4 * * 1", ["Mon 09 Mar 04:00:00", "Mon 16 Mar 04:00:00"]),
        ("0 4 * * 5-7", ["Fri 06 Mar 04:00:00", "Sat 07 Mar 04:00:00", "Sun 08 Mar 04:00:00", "Fri 13 Mar 04:00:00"]),
        ("0 4 * * fri-sun", ["Fri 06 Mar 04:00:00", "Sat 07 Mar 04:00:00", "Sun 08 Mar 04:00:00"]),
        ("0 4 * * 0-2", ["Sun 08 Mar 04:00:00", "Mon 09 Mar 04:00:00", "Tue 10 Mar 04:00:00", "Sun 15 Mar 04:00:00"]),
        ("0 4 * * */3", ["Sat 07 Mar 04:00:00", "Sun 08 Mar 04:00:00", "Wed 11 Mar 04:00:00"]),
        ("0 4 * * mon,wed", ["Mon 09 Mar 04:00:00", "Wed 11 Mar 04:00:00"]),
        ("*/20 * * * *", ["Wed 04 Mar 10:40:00", "Wed 04 Mar 11:00:00", "Wed 04 Mar 11:20:00"]),
        ("10-40/15 10 * * *", ["Wed 04 Mar 10:25:00", "Wed 04 Mar 10:40:00", "Thu 05 Mar 10:10:00"]),
        ("5,50 10-11 * * *", ["Wed 04 Mar 10:50:00", "Wed 04 Mar 11:05:00", "Wed 04 Mar 11:50:00"]),
        ("0 0 1 */6 *", ["Wed 01 Jul 00:00:00", "Fri 01 Jan 00:00:00"]),
        ("0 0 31 mar,MAY *", ["Tue 31 Mar 00:00:00", "Sun 31 May 00:00:00"]),
        ("0\t0   29 2 *", ["Tue 29 Feb 00:00:00"]),
        ("@hourly", ["Wed 04 Mar 11:00:00", "Wed 04 Mar 12:00:00"]),
        ("@daily", ["Thu 05 Mar 00:00:00"]),
        ("@midnight", ["Thu 05 Mar 00:00:00"]),
        ("@weekly", ["Sun 08 Mar 00:00:00"]),
        ("@Monthly", ["Wed 01 Apr 00:00:00"]),
        ("@yearly", ["Fri 01 Jan 00:00:00"]),
    ],
)
def test_a_line_fires_when_cron_would(line, expected):
    assert texts(line, len(expected)) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "0 3 * *",
        "0 0 3 * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * funday",
        "jan * * * *",
        "*/0 * * * *",
        "5/15 * * * *",
        "*-5 * * * *",
        "40-10 * * * *",
        "* 22-4 * * *",
        "1,,2 * * * *",
        "-5 * * * *",
        "? * * * *",
        "H * * * *",
        "* * L * *",
        "* * * * 5#2",
        "99999999999 * * * *",
        "٣ * * * *",
        "0 0 31 2 *",
        "0 0 30 feb *",
        "0 0 31 4,6,9,11 *",
        "0 0 13 * fri",
        "0 0 */2 * mon",
        "@reboot",
        "@often",
    ],
)
def test_what_cron_does_not_say_or_the_clock_cannot_is_refused_with_a_hint(line):
    with pytest.raises(ConfigError) as caught:
        parse_cron(line)
    assert caught.value.hint


def naive_match(spec, low, high, number):
    """A field as crontab(5) words it, told without the parser under test."""
    for part in spec.split(","):
        span, _, step = part.partition("/")
        first, last = (low, high) if span == "*" else (int(span.split("-")[0]), int(span.split("-")[-1]))
        if number in range(first, last + 1, int(step or 1)):
            return True
    return False


def field(low, high):
    single = st.integers(low, high).map(str)
    spans = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda two: f"{min(two)}-{max(two)}")
    stepped = st.tuples(spans | st.just("*"), st.integers(1, 9)).map(lambda two: f"{two[0]}/{two[1]}")
    return st.just("*") | st.lists(single | spans | stepped, min_size=1, max_size=3).map(",".join)


@given(field(0, 59), field(0, 23), field(1, 12), field(0, 7), st.integers(0, 3_000_000))
def test_the_next_time_is_the_first_minute_that_matches(minute, hour, month, weekday, offset):
    start = START + timedelta(minutes=offset)
    (when,) = fires(f"{minute} {hour} * {month} {weekday}", start=start)

    def matches(moment):
        day = moment.isoweekday() % 7
        return (
            naive_match(month, 1, 12, moment.month)
            and (naive_match(weekday, 0, 7, day) or (day == 0 and naive_match(weekday, 0, 7, 7)))
            and naive_match(hour, 0, 23, moment.hour)
            and naive_match(minute, 0, 59, moment.minute)
        )

    assert matches(when)
    assert when.second == 0
    # Walking back from it, no earlier minute after the start matches; a day's worth is walked.
    earlier = when - timedelta(minutes=1)
    for _ in range(min(1440, int((when - start).total_seconds() // 60))):
        assert not matches(earlier)
        earlier -= timedelta(minutes=1)


@given(st.text(alphabet="0123456789*/,- abcdefjmnostuw@?#L", max_size=30))
def test_any_text_is_read_or_refused(line):
    try:
        parsed = parse_cron(line)
    except ConfigError:
        return
    assert CronTrigger(timezone=UTC, **parsed).get_next_fire_time(None, START) is not None
