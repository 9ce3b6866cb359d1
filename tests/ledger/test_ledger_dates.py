"""Relative dates: which day a word such as "yesterday" means, told beside it."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.ledger import dates

DAY = date(2025, 3, 4)  # a Tuesday


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("yesterday", "2025-03-03"),
        ("Tomorrow", "2025-03-05"),
        ("last night", "2025-03-03"),
        ("last week", "2025-02-24/02"),
        ("next month", "2025-04"),
        ("last year", "2024"),
        ("last Tuesday", "2025-02-25"),
        ("next Monday", "2025-03-10"),
        ("last weekend", "2025-03-01/02"),
        ("next weekend", "2025-03-08/09"),
        ("three days ago", "2025-03-01"),
        ("2 months ago", "2025-01"),
        ("昨天", "2025-03-03"),
        ("昨日", "2025-03-03"),
        ("gestern", "2025-03-03"),
    ],
)
def test_relative_dates(text, iso):
    assert [found.iso for found in dates.find(text, DAY)] == [iso]
    assert dates.annotate(f"We met {text}.", DAY) == f"We met {text} ({iso})."


@pytest.mark.parametrize(
    "text", ["100 years ago", "200 years ago (1825)", "a while ago", "yesteryear", "500 days ago", "morgen", "at last"]
)
def test_rough_dates_are_left_alone(text):
    assert "(20" not in dates.annotate(text, DAY)


@pytest.mark.parametrize(
    "text",
    [
        "Today we allow only integer pins.",
        "today's behaviour is wrong",
        "This is as it works today.",
        "What exists today is a stub.",
        "as of today",
        "Keep it as it is today.",
        "Today the reader only takes JSON.",
    ],
)
def test_a_today_that_means_as_things_are_is_no_date(text):
    assert dates.annotate(text, DAY) == text


@pytest.mark.parametrize(
    ("text", "dated"),
    [
        ("today's meeting was long", "today's (2025-03-04) meeting was long"),
        ("Today we went to the park.", "Today (2025-03-04) we went to the park."),
        ("The party is today.", "The party is today (2025-03-04)."),
        ("I already ate today.", "I already ate today (2025-03-04)."),
        ("Today, the kids and I went.", "Today (2025-03-04), the kids and I went."),
    ],
)
def test_a_day_on_which_something_happens_is_dated(text, dated):
    assert dates.annotate(text, DAY) == dated
    assert dates.remove_days(f"{dated} It came out in May (2024).") == f"{text} It came out in May (2024)."


@given(st.text(), st.dates())
def test_any_text_on_any_day_can_be_dated(text, day):
    marked = dates.annotate(f"{text} last week, 3 years ago, next weekend", day)
    assert dates.annotate(marked, day).count("(") <= marked.count("(") + 3
