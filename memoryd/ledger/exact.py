"""What of a text is exact: quotations, addresses, dates, phone numbers, paths, identifiers, amounts.

Of these no character may differ between a memory and its source: a changed digit in a phone number or a changed letter
in an address is a wrong memory that looks right. They are taken out of the text in order, each stretch only once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from memoryd.ledger import amounts, calendar
from memoryd.text import prose

if TYPE_CHECKING:
    from collections.abc import Callable

    from memoryd.ledger.amounts import Amount
    from memoryd.ledger.calendar import Written


class Kind(StrEnum):
    """What a text claims that its sources must hold."""

    QUOTE = "quote"
    URL = "url"
    EMAIL = "e-mail"
    DATE = "date"
    PHONE = "phone number"
    PATH = "path"
    IDENTIFIER = "identifier"
    NUMBER = "number"
    UNIT = "unit"
    NAME = "name"
    WORDS = "words"


_QUOTED = re.compile(r"([\"`])((?:(?!\1).){2,})\1|[“„]([^”“]{2,})[”“]|«([^»]{2,})»|「([^」]{2,})」|『([^』]{2,})』")
_PIECE = re.compile(r"(?<=[.!?…:])\s+")
# With a scheme, of the web without one, or a host name or number with a path.
_URL = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,12}://|\bwww\.|\b(?:javascript|vbscript|data|file):"
    r"|(?<![a-z0-9./\\_@-])(?:[a-z0-9-]{1,63}\.){1,8}(?:com|net|org|edu|gov|info|xyz|site|online|biz|example|test|top|app|"
    r"dev|club|shop|store|cloud|tech|live|link|click|page|blog|space|website|icu|vip|work|world|zone|[a-z]{2})(?::\d+)?"
    r"(?:/|[?#](?=\S)|:\d+\b)"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?/)[^\s<>\"“”`|]*",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
# Digits in groups, as phone numbers are written; at least seven, with a plus, a bracket, a leading 0 or a sign between.
_PHONE = re.compile(r"(?<![\w.])(?:\+|\(|0|(?=\d+[ -]\d))[\d()]*(?:[ ./-]{1,2}\(?\d+\)?)*(?!\w)")
_FEWEST_DIGITS, _MOST_DIGITS = 7, 15  # ITU-T E.164
_MARKED = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?|"
    r"(?<![^\s()\[\]{}\"'“”‘’,;<>])[^\s()\[\]{}\"'“”‘’,;<>]*(?:[/\\@_]|[^\W\d]\.\w|\w\.[^\W\d]|\w::\w)[^\s()\[\]{}\"'“”‘’,;<>]*"  # noqa: RUF001
    r"|(?<![\w-])--?[a-z][\w-]+(?<!-)"
    r"|[#@]\w+"
)
_LETTER = f"[^\\W\\d_{prose.WIDE_RANGES}]"
_CHAR = f"[^\\W{prose.WIDE_RANGES}]"
_CAMEL = re.compile(
    r"\b[a-z]+[A-Z]\w*"
    rf"|(?<!{_CHAR})(?=(?:{_LETTER}|_)*\d)(?=[\d_]*{_LETTER}){_CHAR}+(?:\.\d+)*(?!{_CHAR})"
)
_UNITED = re.compile(r"\d+[^\W\d_]+")
_ENDS = ".!?,;:`*'\"’”»)…"  # noqa: RUF001


@dataclass(slots=True)
class Exact:
    """The exact parts of one text, and what is left when they are taken out."""

    quotes: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    emails: list[str] = field(default_factory=list)
    dates: list[tuple[str, Written]] = field(default_factory=list)
    phones: list[str] = field(default_factory=list)  # as written
    paths: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)
    amounts: list[tuple[str, Amount]] = field(default_factory=list)
    rest: str = ""


def urls(text: str) -> list[str]:
    """Return the addresses of the web in `text`, signs of the sentence around them taken off."""
    return [trimmed(found) for found in _URL.findall(text)]


def emails(text: str) -> list[str]:
    """Return the e-mail addresses in `text`."""
    return _EMAIL.findall(text)


def phones(text: str) -> list[str]:
    """Return what is written as a phone number in `text`, as it is written."""
    return [found[0] for found in _PHONE.finditer(text) if _FEWEST_DIGITS <= len(digits(found[0])) <= _MOST_DIGITS]


def digits(text: str) -> str:
    """Return the digits of a phone number, a plus before them kept."""
    return ("+" if text.lstrip(" (").startswith("+") else "") + "".join(char for char in text if char.isdigit())


def trimmed(token: str) -> str:
    """Return `token` without what the sentence around it put at its end; a bracket that the token opened stays."""
    while token and token[-1] in _ENDS and not (token[-1] == ")" and token.count("(") >= token.count(")")):
        token = token[:-1]
    return token


def exact(text: str) -> Exact:
    """Return the exact parts of `text`, a text in `wording.plain` form."""
    found = Exact()

    def quote(match: re.Match[str]) -> bool:
        inside = next(group for group in match.groups()[1:] if group)
        found.quotes += [piece.rstrip(".") for piece in _PIECE.split(inside)]
        return True

    def phone(match: re.Match[str]) -> bool:
        is_one = bool(phones(match[0]))
        found.phones += [match[0]] if is_one else []
        return is_one

    def marked(match: re.Match[str]) -> bool:
        token = trimmed(match[0]).lstrip("*`")
        (found.paths if "/" in token or "\\" in token or "." in token else found.identifiers).append(token)
        return True

    def mixed(match: re.Match[str]) -> bool:
        if _UNITED.fullmatch(match[0]) and any(amount.unit for amount in amounts.find(match[0])):
            return False
        found.identifiers.append(match[0])
        return True

    text = _take(_QUOTED, text, quote)
    found.urls, text = urls(text), _URL.sub(_blanks, text)
    found.emails, text = emails(text), _EMAIL.sub(_blanks, text)
    for written in list(calendar.find(text)):
        found.dates.append((text[written.start : written.end], written))
        text = _blank(text, written.start, written.end)
    text = _take(_PHONE, text, phone)
    text = _take(_MARKED, text, marked)
    text = _take(_CAMEL, text, mixed)
    for amount in list(amounts.find(text)):
        found.amounts.append((text[amount.start : amount.end], amount))
        text = _blank(text, amount.start, amount.end)
    found.rest = text
    return found


def _take(pattern: re.Pattern[str], text: str, keep: Callable[[re.Match[str]], bool]) -> str:
    """Return `text` with each match that `keep` takes blanked out."""
    return pattern.sub(lambda match: _blanks(match) if keep(match) else match[0], text)


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _blank(text: str, start: int, end: int) -> str:
    return text[:start] + " " * (end - start) + text[end:]
