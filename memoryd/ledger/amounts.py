"""Amounts: the numbers of a text with the units they stand with, so that 5 GB is not 5 MB and 30 % is not 30."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# One line for each unit: its ways of being written. A single letter is told apart by its case (m and M are two units).
_UNIT_LISTS = """
% percent prozent pct
b byte bytes
kb kilobyte kilobytes
mb megabyte megabytes
gb gigabyte gigabytes gig gigs
tb terabyte terabytes
pb petabyte petabytes
kib
mib
gib
tib
kbit kbps
mbit mbps
gbit gbps
ns
µs
ms millisecond milliseconds millis
s sec secs second seconds sekunde sekunden segundos secondes
min mins minute minutes minuten minutos
h hr hrs hour hours stunde stunden heures horas
day days tag tage tagen jours días
week weeks woche wochen semaines semanas
month months monat monate monaten mois meses
year years yr yrs jahr jahre jahren ans años
mg
g gram grams gramm
kg kilo kilos kilogram kilograms kilogramm
lb lbs pound pounds
oz
mm
cm
m meter meters metre metres
km kilometer kilometers kilometre kilometres
mi mile miles
ft foot feet
inch inches
l liter liters litre litres
ml
w watt watts
kw
kwh
v volt volts
hz
khz
mhz
ghz
px pixel pixels
rpm
°c celsius
°f fahrenheit
€ eur euro euros
$ usd dollar dollars
£ gbp
¥ jpy yen
k
M million millions mio
bn billion billions
token tokens
"""
_UNITS = {way: ways.split()[0] for ways in _UNIT_LISTS.strip().splitlines() for way in ways.split()}
_NUMBER = re.compile(r"(?<![A-Za-z0-9_])(?<!\d[.,:])\d+(?:[.,:]\d+)*(?![A-Za-z_]+\d)")
_WIDE_UNITS = (
    "分钟|分鐘|小时|小時|時間|个月|個月|ヶ月|毫秒|公里|公斤|秒|分|时|"
    "天|日|周|週|年|万|萬|亿|億|元|円|人|个|個|岁|歳|次|回"
)
_AFTER = re.compile(rf"[ -]?({_WIDE_UNITS}|(?:%|€|\$|£|¥|°[CF]|[^\W\d_]+)(?![^\W_]))")
_BEFORE = re.compile(r"([€$£¥])\s?\Z")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_UNITS |= {unit: unit for unit in _WIDE_UNITS.split("|")}
_WORD_LIST = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_COUNTED = {word: str(n) for n, word in enumerate(_WORD_LIST.split(), 2)}
_COUNTED |= {"eighteen": "18", "nineteen": "19", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50"}
_COUNTED |= {"sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
_WORDS = re.compile(rf"(?<![^\W_])(?:{'|'.join(_COUNTED)})(?![^\W_])", re.IGNORECASE)


class Amount(NamedTuple):
    """A number as written, thousands marks off, and its unit; one without a unit just counts something."""

    start: int
    end: int
    number: str
    unit: str


def find(text: str) -> Iterator[Amount]:
    """Yield the amounts of `text`, numbers written as English words from two to ninety among them."""
    for match in _NUMBER.finditer(text):
        number = match[0].replace(",", "") if _THOUSANDS.fullmatch(match[0]) else match[0]
        yield _with_unit(text, match, number)
    for match in _WORDS.finditer(text):
        yield _with_unit(text, match, _COUNTED[match[0].casefold()])


def _with_unit(text: str, match: re.Match[str], number: str) -> Amount:
    after = _AFTER.match(text, match.end())
    unit = _unit(after[1]) if after else ""
    if after and unit:
        return Amount(match.start(), after.end(), number, unit)
    before = _BEFORE.search(text, max(0, match.start() - 2), match.start())
    return Amount(match.start(), match.end(), number, _unit(before[1]) if before else "")


def _unit(word: str) -> str:
    return _UNITS.get(word, "") if len(word) == 1 else _UNITS.get(word.casefold(), "")
