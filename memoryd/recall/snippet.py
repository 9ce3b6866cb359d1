"""The snippet of a hit: the part of its text in which most of what was looked for stands, on one line."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from memoryd.recall.words import STROKES, list_runs, simplify

if TYPE_CHECKING:
    from collections.abc import Iterable

LENGTH = 240  # characters
_LEAD = 60  # of them ahead of the first word that was looked for
_ENDING = 3  # letters at most in which two forms of a word differ


def cut_snippet(text: str, words: Iterable[str]) -> str:
    """Return the part of `text` that tells most about `words`; an ellipsis stands where something was left out."""
    line = " ".join(text.split())
    if len(line) <= LENGTH:
        return line
    start = _find_window(_flatten(line), frozenset(stem for word in words for stem in _stems(word)))
    if start:
        start = line.rfind(" ", 0, start) + 1 or start
    end = start + LENGTH
    if end < len(line):
        end = max(line.rfind(" ", start, end), start + LENGTH // 2)
    return ("… " if start else "") + line[start:end].strip() + (" …" if end < len(line) else "")


def find_held(text: str, words: Iterable[str]) -> list[str]:
    """Return those of the words that stand in a text, in whatever form."""
    flat = _flatten(text)
    return [word for word in words if all(stem in flat for stem in _stems(word))]


def _find_window(flat: str, stems: frozenset[str]) -> int:
    """Return where a window begins that holds most different words, the first of equals."""
    if not stems:
        return 0
    places = [(match.start(), match[0]) for match in _any_of(stems).finditer(flat)]
    best, most = 0, 0
    for at, (start, _) in enumerate(places):
        held = set()
        for place, stem in places[at:]:
            if place > start + LENGTH - _LEAD:
                break
            held.add(stem)
        if len(held) > most:
            best, most = start, len(held)
        if most == len(stems):
            break
    return max(0, min(best - _LEAD, len(flat) - LENGTH))


@lru_cache(maxsize=64)
def _any_of(stems: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(stem) for stem in sorted(stems, key=len, reverse=True)))


@lru_cache(maxsize=512)
def _stems(word: str) -> tuple[str, ...]:
    """Return what each run of a word begins with in all of its forms."""
    return tuple(run[: max(3, len(run) - _ENDING)] if run.isascii() else run for run in list_runs(simplify(word)))


def _flatten(line: str) -> str:
    """Lower case without accents, each character in its place."""
    if line.isascii():
        return line.lower()
    return "".join(char.lower() if char < "\x80" else _base(char) for char in line)


def _base(char: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFKC", char).lower())[:1].translate(STROKES) or char
