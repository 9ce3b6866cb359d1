"""Find the passage of a hit to show: the sentences of its text that answer the query best, on one line.

The value of a sentence is the sum of the weights of its searched words. Words in neighbouring sentences count less, but
they count, because an answer often does not repeat its question. The form of the sentence is a factor (`answers`). The
best sentence is shown with as many neighbours as fit.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from memoryd.recall.words import STROKES, list_runs, simplify
from memoryd.text.wording import find_stem

LENGTH = 700  # characters
_UNIT = 200  # characters; a longer sentence is split
_LEAST = 12  # characters; a shorter sentence is joined to the next one
_FORMS = 4  # a found word may be longer than the searched one by this many letters
_NEAR = ((-1, 0.3), (0, 1.0), (1, 0.7), (2, 0.5), (3, 0.3))  # (distance in sentences, weight of a word there)
_END = re.compile(r"[.!?]+[\"')\]*_`]*\s+|[。\uff01\uff1f]+[」』”]?\s*|\n\s*")


class Passage(NamedTuple):
    """Hold the part of a text that answers best, and its rating."""

    text: str  # one line; an ellipsis marks omitted text
    best: str  # its best sentence
    worth: float  # the weighted share of the searched words in and near its best sentence, times `form`
    form: float  # the factor for the form of its best sentence
    held: frozenset[str]  # the searched words that the whole text contains


def find_passage(
    text: str,
    weights: Mapping[str, float],
    rate: Callable[[str], float] = lambda _: 1.0,
    most: float = 1.0,
    synonyms: Mapping[str, float] = MappingProxyType({}),
) -> Passage:
    """Return the passage of a text that answers a query best.

    Args:
        text: the text.
        weights: the weight of each searched word.
        rate: returns the factor for the form of a sentence.
        most: the largest such factor.
        synonyms: the weight of each further word that may stand for a searched one.
    """
    units = list(_list_units(text))
    if not units:
        return Passage("", "", 0.0, 1.0, frozenset())
    flat = _flatten(" ".join(units))
    ends = list(accumulate(len(one) + 1 for one in units))
    total = sum(weights.values()) or 1.0
    held: dict[int, dict[str, float]] = {}
    found = set()
    for word, weight in (*synonyms.items(), *weights.items()):
        places = _find_word(flat, ends, word)
        if places and word in weights:
            found.add(word)
        for place in places:
            for step, part in _NEAR:
                parts = held.setdefault(place + step, {})
                parts[word] = max(part * weight, parts.get(word, 0.0))
    sums = {at: sum(parts.values()) for at, parts in held.items() if 0 <= at < len(units)}
    best, worth, form = 0, 0.0, 1.0
    for at in sorted(sums, key=lambda at: (-sums[at], at)):
        if sums[at] * most <= worth:
            break
        rated = rate(units[at])
        if sums[at] * rated > worth:
            best, worth, form = at, sums[at] * rated, rated
    return Passage(_show_around(units, best, sums), units[best], worth / total, form, frozenset(found))


def find_held(text: str, words: Iterable[str]) -> list[str]:
    """Return those of the words that a text contains in any form."""
    flat = _flatten(text)
    return [word for word in words if _find_word(flat, [], word)]


def _list_units(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each on one line; long ones are split, and very short ones joined."""
    start, kept = 0, ""
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        unit = " ".join(text[start:end].split())
        start = end
        unit = f"{kept} {unit}".strip()
        kept = unit if len(unit) < _LEAST and end < len(text) else ""
        if kept:
            continue
        while len(unit) > _UNIT:
            cut = unit.rfind(" ", _UNIT // 2, _UNIT)
            if cut < 0:
                break
            yield unit[:cut]
            unit = unit[cut + 1 :]
        if unit:
            yield unit


def _show_around(units: list[str], best: int, sums: Mapping[int, float]) -> str:
    """Return a sentence with as many neighbours as fit, those with more of the words first."""
    first = last = best
    length = len(units[best])
    while True:
        behind = len(units[last + 1]) + 1 if last + 1 < len(units) else LENGTH
        ahead = len(units[first - 1]) + 1 if first else LENGTH
        fits_behind, fits_ahead = length + behind <= LENGTH, length + ahead <= LENGTH
        is_next = sums.get(last + 1, 0.0) >= sums.get(first - 1, 0.0)
        if fits_behind and (is_next or not fits_ahead):
            last, length = last + 1, length + behind
        elif fits_ahead:
            first, length = first - 1, length + ahead
        else:
            break
    shown = " ".join(units[first : last + 1])
    is_cut = len(shown) > LENGTH
    return ("… " if first else "") + shown[:LENGTH].rstrip() + (" …" if is_cut or last + 1 < len(units) else "")


def _find_word(flat: str, ends: list[int], word: str) -> set[int]:
    """Return the indexes of the sentences that contain all parts of a word, in any form."""
    is_prefix = word.endswith("*")
    found = [
        {bisect_right(ends, at) for at in _find_run(flat, run, stem, is_prefix=is_prefix)}
        for run, stem in _list_parts(word)
    ]
    return set.intersection(*found) if found else set()


@lru_cache(maxsize=512)
def _list_parts(word: str) -> tuple[tuple[str, str], ...]:
    """Return the runs of letters and digits in a word, each with the beginning that all its forms share."""
    runs = list_runs(simplify(word.rstrip("*")))
    return tuple((run, find_stem(run) if run.isascii() else run) for run in runs)


def _find_run(flat: str, run: str, stem: str, *, is_prefix: bool) -> Iterator[int]:
    at = flat.find(stem)
    while at >= 0:
        if not run.isascii() or is_prefix or not flat[at - 1 : at].isalnum() or len(stem) > _FORMS:
            end = at + len(stem)
            most = len(run) + _FORMS
            while end < len(flat) and end - at <= most and flat[end].isalnum():
                end += 1
            if not run.isascii() or is_prefix or end - at <= most:
                yield at
        at = flat.find(stem, at + 1)


def _flatten(line: str) -> str:
    """Return the text in lower case without accents; its length stays the same."""
    return line.lower() if line.isascii() else line.translate(_FLAT)


class _Flat(dict[int, str]):
    """Map each character to lower case without accents, for `str.translate`."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", char).lower())[:1].translate(STROKES)
        self[code] = flat = char.lower() if char < "\x80" else plain or char
        return flat if len(flat) == 1 else char


_FLAT = _Flat()
