"""Find relative dates ("yesterday", "last week") and compute the days that they mean."""

import re
from datetime import date, timedelta
from typing import NamedTuple

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: n for n, word in enumerate(_COUNTED)}
_NUMBERS |= {"a": 1, "an": 1}
# Only words with one meaning: "morgen" and "mañana" can be "tomorrow" or "morning".
_SAME_DAY_LISTS = {
    -2: "vorgestern|anteayer|前天|一昨日",
    -1: "yesterday|last night|gestern|hier soir|ayer|昨天|昨日|어제",
    0: "today|tonight|heute|今天|今日",
    1: "tomorrow|明天|明日|내일",
    2: "übermorgen",
}
_SAME_DAY = {word: days for days, words in _SAME_DAY_LISTS.items() for word in words.split("|")}
_LATIN = "|".join(
    sorted((word for word in _SAME_DAY if word[0].isalpha() and ord(word[0]) < 0x250), key=len, reverse=True)
)
_WIDE = "|".join(word for word in _SAME_DAY if ord(word[0]) >= 0x250)
_RELATIVE = re.compile(
    rf"\b(?P<day>{_LATIN})\b(?:['’]s\b)?|(?<!一)(?P<wide>{_WIDE})"  # noqa: RUF001
    rf"|\b(?P<way>last|next|past)\s+(?P<unit>weekend|week|month|year|{'|'.join(_WEEKDAYS)})\b"
    rf"|\b(?P<n>\d{{1,3}}|{'|'.join(_NUMBERS)})\s+(?P<ago>day|week|month|year)s?\s+ago\b",
    re.IGNORECASE,
)
# Forms in which "today" means "nowadays": the words before it, or the words after it at the beginning of a sentence.
_AS_NOW_BEFORE = re.compile(
    r"\b(?:as of|than|even|like|as it (?:is|stands)|(?:it|this|that|which) (?:already |only )?works"
    r"|(?:exists?|behaves?|supports?|supported|available|possible|implemented)(?: \w+)?"
    r"|(?:as|like|than|how|what|which) (?:we|it|they|this|that|the \w+) (?:is|are|has|have|works?|looks?|uses?"
    r"|runs?))\s+$",
    re.IGNORECASE,
)
_AS_NOW_BEHIND = re.compile(
    r",? (?:(?:the|each|every|this|that|there|no|all|both|only)\b(?: [\w`./-]+){0,3}? (?:is|are|has|have|does|do|can"
    r"|cannot|only|always|never|reads?|writes?|uses?|runs?|works?|returns?|needs?|stores?|shows?|means?|exists?|holds?)"
    r"|(?:we|you|they|users?) (?:only |still |just |always |never )?(?:allow|need|do(?:n't| not)|use|support|can"
    r"|cannot|can't|must|rely|assume|store|read|write|keep|require|treat|handle|have (?:to|no|only)))\b",
    re.IGNORECASE,
)
_AS_NOW_OWNS = re.compile(
    r" (?:current |default )?(?:behaviou?r|code|state|status quo|implementation|version|design|setup|format|api|models?"
    r"|standards?|defaults?|world|logic|schema|limits?|tools?|technology|parser|code ?base|architecture)\b",
    re.IGNORECASE,
)
# A cheap check first: each relative date contains one of these strings, and most texts contain none.
_HINT = re.compile(rf"ago|last|next|past|{_LATIN}|{_WIDE}", re.IGNORECASE)
_LONGEST_AGO = {"day": 60, "week": 8, "month": 24, "year": 120}  # a larger number with "ago" is an estimate, not a date


_ANNOTATED = re.compile(rf"({_RELATIVE.pattern}) \(\d{{4}}(?:-\d\d){{0,2}}(?:/\d\d)?\)", re.IGNORECASE)


class RelativeDate(NamedTuple):
    """Hold a relative date found in a text."""

    end: int  # the offset in the text just behind the date
    iso: str  # YYYY-MM-DD, YYYY-MM-DD/DD (a span of days), YYYY-MM or YYYY


def find(text: str, said_on: date) -> list[RelativeDate]:
    """Return the relative dates of `text` with their meaning on `said_on`, without estimates such as "90 days ago"."""
    found = []
    for match in _RELATIVE.finditer(text) if _HINT.search(text) else ():
        iso = None if _is_as_now(match) else _resolve_match(match, said_on)
        if iso:
            found.append(RelativeDate(match.end(), iso))
    return found


def annotate(text: str, said_on: date) -> str:
    """Return `text` with absolute dates in parentheses after its relative dates.

    If several relative dates mean the same day, only the first gets a date.
    """
    seen: set[str] = set()
    out, last = [], 0
    for end, iso in find(text, said_on):
        if iso not in seen and not text[end:].lstrip().startswith("("):
            out += [text[last:end], f" ({iso})"]
            last = end
        seen.add(iso)
    return "".join([*out, text[last:]])


def remove_days(text: str) -> str:
    """Return `text` without the dates that `annotate` added."""
    return _ANNOTATED.sub(r"\1", text) if "(" in text else text


def _is_as_now(match: re.Match[str]) -> bool:
    """Return True if the match is a "today" that means "nowadays"."""
    if (match["day"] or "").lower() != "today":
        return False
    text, start, end = match.string, match.start(), match.end()
    if end > match.end("day"):
        return _AS_NOW_OWNS.match(text, end) is not None
    head = text[max(0, start - 60) : start]
    begins = not head.strip() or head.rstrip()[-1] in ".!?:;(-"
    return bool(_AS_NOW_BEFORE.search(head) or (begins and _AS_NOW_BEHIND.match(text, end)))


def _resolve_match(match: re.Match[str], said_on: date) -> str | None:
    try:
        if match["day"] or match["wide"]:
            return (said_on + timedelta(days=_SAME_DAY[(match["day"] or match["wide"]).lower()])).isoformat()
        if match["ago"]:
            return _ago(match["n"].lower(), match["ago"].lower(), said_on)
        return _find_beside(match["unit"].lower(), 1 if match["way"].lower() == "next" else -1, said_on)
    except (OverflowError, ValueError):  # before year 1 or after 9999
        return None


def _ago(number: str, unit: str, said_on: date) -> str | None:
    n = _NUMBERS.get(number, -1) if not number.isdigit() else int(number)
    return None if n > _LONGEST_AGO[unit] else _shift(unit, said_on, -n)


def _find_beside(unit: str, way: int, said_on: date) -> str:
    if unit == "weekend":
        to_saturday = (5 - said_on.weekday()) if way > 0 else -((said_on.weekday() - 5) % 7 or 7)
        saturday = said_on + timedelta(days=to_saturday if way < 0 or to_saturday > 0 else to_saturday + 7)
        return f"{saturday.isoformat()}/{(saturday + timedelta(days=1)).day:02d}"
    if unit in _WEEKDAYS:
        distance = (_WEEKDAYS.index(unit) - said_on.weekday()) % 7 or 7
        return (said_on + timedelta(days=distance if way > 0 else distance - 7 or -7)).isoformat()
    return _shift(unit, said_on, way)


def _shift(unit: str, said_on: date, way: int) -> str:
    """Return the day, week, month or year that is `way` units after that of a day."""
    if unit == "day":
        return (said_on + timedelta(days=way)).isoformat()
    if unit == "week":
        monday = said_on + timedelta(days=7 * way - said_on.weekday())
        return f"{monday.isoformat()}/{(monday + timedelta(days=6)).day:02d}"
    if unit == "year":
        return f"{date(said_on.year + way, 1, 1).year:04d}"
    month = said_on.year * 12 + said_on.month - 1 + way
    return date(month // 12, month % 12 + 1, 1).isoformat()[:7]
