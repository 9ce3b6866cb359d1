"""Convert a cron line to the fields of a clock that counts weekdays from Monday, or refuse it with a remedy.

Source of the grammar: crontab(5) of Vixie cron. Weekday 0 and 7 are Sunday. A line is refused if cron would read it in
another way than this clock. So an accepted line always has its crontab meaning.
"""

import re
from dataclasses import dataclass

from memoryd.errors import ConfigError

_NICKNAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?P<first>\*|[0-9]{1,4}|[a-z]{3})(?:-(?P<last>[0-9]{1,4}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,4}))?")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, word: str) -> int:
        """Return the value of a number or a name of this field. The first name has the lowest number.

        Raises:
            ConfigError: the word is neither, or is out of range.
        """
        if word in self.names:
            return self.names.index(word) + self.low
        if not word.isdecimal():
            raise ConfigError(f"{word} is no {self.name}", hint=self._range())
        value = int(word)
        if not self.low <= value <= self.high:
            raise ConfigError(f"{self.name} {value} does not exist", hint=self._range())
        return value

    def _range(self) -> str:
        known = f", or {self.names[0]} … {self.names[-1]}" if self.names else ""
        return f"{self.low} to {self.high}{known}"


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of the month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("weekday", 0, 7, _DAYS)


def parse_cron(line: str) -> dict[str, str]:
    """Return the arguments of APScheduler's `CronTrigger` that run at the times of a cron line, without the time zone.

    The line has five fields (minute, hour, day of the month, month, weekday), or is a nickname such as `@daily`.

    Raises:
        ConfigError: the line is not a cron line, or its date never comes. A day of the month together with a weekday is
            also refused: cron runs on either of the two, which APScheduler cannot express.
    """
    fields = _fields(line.strip().lower())
    minute, hour, day, month, weekday = (
        frozenset(number for part in text.split(",") for number in _part(part, field))
        for text, field in zip(fields, (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY), strict=True)
    )
    weekday = frozenset(number % 7 for number in weekday)
    if fields[2] != "*" and fields[4] != "*":
        hint = "restrict one of them and leave * in the other"
        raise ConfigError("day of the month and weekday are both restricted: cron fires on either", hint=hint)
    longest = max(_LONGEST_MONTH[number - 1] for number in month)
    if min(day) > longest:
        raise ConfigError("such a date never comes", hint=f"the longest of these months has {longest} days")
    return {
        "month": _join_numbers(month, 12),
        "day": _join_numbers(day, 31),
        "day_of_week": "*" if len(weekday) == 7 else ",".join(_DAYS[number] for number in sorted(weekday)),
        "hour": _join_numbers(hour, 24),
        "minute": _join_numbers(minute, 60),
        "second": "0",
    }


def _fields(line: str) -> list[str]:
    if line.startswith("@") and line not in _NICKNAMES:
        raise ConfigError(f"{line[:40]} is not known here", hint=f"one of {' '.join(_NICKNAMES)}, or five fields")
    fields = _NICKNAMES.get(line, line).split()
    if len(fields) != 5:
        hint = "minute hour day-of-month month weekday, such as 0 3 * * *"
        raise ConfigError(f"a cron line has five fields, not {len(fields)}", hint=hint)
    return fields


def _part(text: str, field: _Field) -> range:
    match = _PART.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text[:40] or 'nothing'} is no {field.name}", hint="numbers, names, * and , - / are read")
    first, last, step = match["first"], match["last"], int(match["step"] or 1)
    if step == 0:
        raise ConfigError(f"{text}: a step of 0 never moves", hint="leave the step out, or write 1 or more")
    if first == "*":
        if last is not None:
            raise ConfigError(f"{text}: * is the whole range already", hint="write * or the first and last number")
        return range(field.low, field.high + 1, step)
    low = field.number(first)
    if last is None:
        if match["step"] is not None:
            raise ConfigError(f"{text}: a step needs a range", hint=f"write {first}-{field.high}/{step}")
        return range(low, low + 1)
    high = field.number(last)
    if field is _WEEKDAY and high == 0 < low:
        high = 7  # in fri-sun, Sunday is the end of the week
    if high < low:
        hint = f"write {first}-{field.high},{field.low}-{last}"
        raise ConfigError(f"{text}: the range runs backwards", hint=hint)
    return range(low, high + 1, step)


def _join_numbers(numbers: frozenset[int], whole: int) -> str:
    return "*" if len(numbers) == whole else ",".join(str(number) for number in sorted(numbers))
