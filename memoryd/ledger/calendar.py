"""Find calendar dates in texts, in the many forms that people write.

A date may lack its year or its day. An ambiguous date (3/4/2025) has two readings.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from memoryd.ledger import dates
from memoryd.text.word_lists import list_words

# Month names: English, German, French, Spanish, Italian, Portuguese, Dutch, Russian; with common abbreviations.
_MONTHS = {name: number for number, names in enumerate(list_words("months"), 1) for name in names.split()}
_NAMED = "|".join(sorted(_MONTHS, key=len, reverse=True))
# Only in English does the month come before the day: "im Oktober 17 von 18" contains no day.
_ENGLISH = "january|jan|february|feb|march|mar|april|apr|may|june|jun|july|jul|august|aug|september|sept|sep"
_ENGLISH += "|october|oct|november|nov|december|dec"
_DAY = r"\d{1,2}"
_DATE = re.compile(
    r"(?<!\d)(?P<iy>[12]\d{3})-(?P<im>\d\d)(?:-(?P<id>\d\d)(?:/\d\d(?!\d))?)?(?![\d-]|T\d)"
    rf"|(?<![\d/.])(?P<sy>[12]\d{{3}})[/.](?P<sm>{_DAY})[/.](?P<sd>{_DAY})(?![\d/])"
    rf"|(?<![\d/.])(?P<a>{_DAY})(?P<mark>[/.])(?P<b>{_DAY})(?P=mark)(?P<ny>[12]\d{{3}})(?!\d)"
    rf"|(?<!\d)(?:(?P<cy>[12]\d{{3}}) ?年 ?)?(?P<cm>{_DAY}) ?月(?: ?(?P<cd>{_DAY}) ?[日号號])?"
    rf"|(?<![\w.])(?P<d1>{_DAY})(?:\.|st|nd|rd|th|er|º)?\s+(?:of\s+|de\s+)?(?P<m1>{_NAMED})\b\.?"
    r"(?:,?\s+(?:de\s+)?(?P<y1>[12]\d{3})(?!\d))?"
    rf"|\b(?P<m2>{_ENGLISH})\b\.?\s+(?P<d2>{_DAY})(?:st|nd|rd|th)?(?!\w)(?:,?\s+(?P<y2>[12]\d{{3}})(?!\d))?"
    rf"|\b(?P<m3>{_NAMED})\b\.?,?\s+(?:de\s+)?(?P<y3>[12]\d{{3}})(?!\d)",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<![\d.,/:-])(?:19|20)\d\d(?![\d/:-]|[.,]\d)")
_NEAR = 80  # characters around a date in which a year may complete it
_NEAR_DAYS = 200  # a date without a year means a day at most this many days away


class Day(NamedTuple):
    """Hold the parts of a date; a part that the text does not state is None."""

    year: int | None
    month: int | None
    day: int | None


class WrittenDate(NamedTuple):
    """Hold a date found in a text: its offsets, and its possible readings."""

    start: int
    end: int
    readings: tuple[Day, ...]


def find(text: str) -> Iterator[WrittenDate]:
    """Yield the calendar dates of `text`, in order, without impossible dates such as 31 February."""
    for match in _DATE.finditer(text) if any(map(str.isdigit, text)) else ():  # each form has a digit
        readings = tuple(day for day in _readings(match) if _exists(day))
        if readings:
            yield WrittenDate(match.start(), match.end(), readings)


def find_days(text: str, said_on: date) -> set[Day]:
    """Return the days that `text` can mean if somebody said it on `said_on`.

    These are calendar dates, relative dates, and `said_on` itself. A date without a year also stands for its
    occurrences near `said_on`, and for its day in each year that the text states close to it.
    """
    days = {Day(said_on.year, said_on.month, said_on.day)}
    for written in find(text):
        years = {int(year) for year in _YEAR.findall(text[max(0, written.start - _NEAR) : written.end + _NEAR])}
        for reading in written.readings:
            days |= {reading, *_with_year(reading, said_on)}
            days |= {reading._replace(year=year) for year in years if reading.year is None}
    for named in dates.find(text, said_on):
        parts = [int(part) for part in named.iso.split("/")[0].split("-")]
        days.add(Day(*parts, *[None] * (3 - len(parts))))
    return days


def is_among(readings: Sequence[Day], held: set[Day]) -> bool:
    """Return True if a day in `held` has all parts that one of `readings` states."""
    return any(
        all(one is None or one == other for one, other in zip(reading, day, strict=True))
        for reading in readings
        for day in held
    )


def _readings(match: re.Match[str]) -> Iterator[Day]:
    part = match.groupdict().get
    for year, month, day in (("iy", "im", "id"), ("sy", "sm", "sd"), ("ny", "b", "a"), ("cy", "cm", "cd")):
        if part(month):
            yield Day(_number(part(year)), _number(part(month)), _number(part(day)))
    if part("mark") == "/":
        yield Day(_number(part("ny")), _number(part("a")), _number(part("b")))
    for n in "123":
        if name := part(f"m{n}"):
            yield Day(_number(part(f"y{n}")), _MONTHS[name.casefold()], _number(part(f"d{n}")))


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _exists(day: Day) -> bool:
    try:
        date(day.year or 2024, day.month or 1, day.day or 1)  # 2024 has a 29th of February
    except ValueError:
        return False
    return True


def _with_year(day: Day, said_on: date) -> Iterator[Day]:
    if day.year is None:
        for year in (said_on.year - 1, said_on.year, said_on.year + 1):
            dated = day._replace(year=year)
            if 1 <= year <= 9999 and _exists(dated):
                apart = date(year, day.month or 1, day.day or 15) - said_on
                if abs(apart.days) <= _NEAR_DAYS:
                    yield dated
