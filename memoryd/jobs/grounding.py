"""Grounding: whether what a text claims stands in the turns it cites.

Deterministic and first of all checks: each name, number, date, path, address, identifier and quotation of the text
must occur in its sources. Ordinary words are free, so that a model may put things in its own words; for preferences
and instructions they are not (`quotes`), since those steer what an agent does.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from memoryd.jobs import dates, prose
from memoryd.jobs.duplicates import negations
from memoryd.jobs.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

_LABEL = re.compile(
    r"^(?:User|Assistant|Agent|Report|Decision|Learned|Changed|Failed|Event|Asked|Done|"
    r"Open)\b(?:'s)?:?\s*",
    re.IGNORECASE,
)
_ISO = re.compile(r"\((\d{4}(?:-\d\d(?:-\d\d(?:/\d\d)?)?)?)\)")
_QUOTED = re.compile(r"[\"“「『«`]([^\"”」』»`]{2,})[\"”」』»`]")
_PIECE = re.compile(r"(?<=[.!?…:])\s+")
_MARKED = re.compile(
    r"[^\s()\[\]{}\"'“”‘’,;]*(?:[/\\@_]|\w\.\w|\w::\w)[^\s()\[\]{}\"'“”‘’,;]*|\b[a-z]+[A-Z]\w*|--?[a-z][\w-]+(?<!\w-)"  # noqa: RUF001
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<![^\W_])[^\W\d_a-zß-ÿ][\w'’-]*")  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")  # noqa: RUF001
_FRAMING_LIST = """
a after agent all also an and any are as ask asked asks assistant at be because been before both but by can
changed could decision did dislikes do does done each event failed for from had has hates have he her his how
i if in is it its just learned like liked likes more most my of on open or our please prefer
prefered preferred prefers report said says she should since so some tells than that the their
then there these they this those to today told use used user users uses using very want wanted wants was we were
what when where which who why will with would yesterday you your
"""
_FRAMING = frozenset(_FRAMING_LIST.split())
_REVERSES_LIST = "avoid stop stopped except unless without instead rather hate dislike refuse never not no"
_REVERSES = frozenset(_REVERSES_LIST.split())
_STOPS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001
_VERBAL = re.compile(r"^\w+(?:ed|ing|ly|ion|ions|ment|ity)$")
_STEM = 4  # letters from which a word is compared by its stem
_ENDINGS = ("ings", "ing", "ers", "ed", "es", "er", "ly", "s", "e", "d")


@dataclass(frozen=True, slots=True)
class Source:
    """One turn a text may stand on."""

    text: str
    said_on: date  # local day
    speaker: str = ""


class Ground:
    """The cited turns of one claim, prepared for asking what occurs in them."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        raw = "\n".join(f"{source.speaker}: {source.text}" for source in sources)
        plain = "\n".join(prose.lines(raw))
        self.folded = "\n".join(_fold(form) for form in (raw, neutral(raw), plain, neutral(plain)))
        self.words = frozenset(word.casefold().replace("’", "'") for word in _WORD.findall(self.folded))  # noqa: RUF001

    def missing(self, text: str) -> str | None:
        """Return the kind of the first thing in `text` that no source holds, or None: name number date path quote."""
        body = _LABEL.sub("", text, count=1)
        for stamp in _ISO.findall(body):
            if stamp not in self._days():
                return "date"
        body = _ISO.sub(" ", body)
        checks: tuple[tuple[str, Iterable[str]], ...] = (
            ("quote", (piece.rstrip(".") for quote in _QUOTED.findall(body) for piece in _PIECE.split(quote))),
            ("path", (found.strip(".:!?`*") for found in _MARKED.findall(body))),
            ("number", _NUMBER.findall(body)),
        )
        for kind, found in checks:
            if any(_fold(one) not in self.folded for one in found):
                return kind
        return "name" if any(not self._has_name(found) for found in _NAME.finditer(body)) else None

    def quotes(self, text: str) -> bool:
        """Say whether `text` is what the sources say: its content words in the order of one passage, not turned round.

        A passage is a sentence or two that follow each other. It is not turned round when words that reverse a
        meaning (not, never, avoid, instead …) are the same on both sides.
        """
        body = _fold(_ISO.sub(" ", _LABEL.sub("", text, count=1)))
        asked = [word for word in _units(body) if word not in _FRAMING or word in _REVERSES]
        if not any(word not in _REVERSES for word in asked):
            return False
        return any(
            _reversals(passage) == _reversals(body) and _follows(asked, _units(passage))
            for source in self.sources
            for passage in _passages(source.text)
        )

    def _days(self) -> set[str]:
        days: set[str] = set()
        for source in self.sources:
            days |= {named.iso for named in dates.find(source.text, source.said_on)} | {source.said_on.isoformat()}
        return days | {
            found for source in self.sources for found in re.findall(r"\d{4}(?:-\d\d(?:-\d\d)?)?", source.text)
        }

    def _has_name(self, found: re.Match[str]) -> bool:
        name = found[0].casefold().replace("’", "'").removesuffix("'s").strip("-'")  # noqa: RUF001
        if not name or name in self.words or name in _FRAMING or name in self.folded:
            return True
        begins = found.start() == 0 or found.string[: found.start()].rstrip()[-1:] in ".!?:;"
        return begins and (_VERBAL.match(name) is not None or _in(name, self.words))


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().replace("’", "'").split())  # noqa: RUF001


def _plain(word: str) -> str:
    return word.replace("’", "'").removesuffix("'s")  # noqa: RUF001


def _units(folded: str) -> list[str]:
    """Return the words of a folded text in order, runs of wide characters as overlapping pairs."""
    units: list[str] = []
    for word in _WORD.findall(folded):
        if prose.is_wide(word):
            units += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        else:
            units.append(_plain(word))
    return units


def _reversals(folded: str) -> tuple[int, frozenset[str]]:
    return negations(folded), _REVERSES.intersection(_WORD.findall(folded))


def _follows(asked: Sequence[str], held: Sequence[str]) -> bool:
    rest = iter(held)
    return all(any(_in(word, (other,)) for other in rest) for word in asked)


def _passages(text: str) -> list[str]:
    """Return the sentences of each line and each two that follow each other, folded."""
    parts = [
        part.strip()
        for line in (*text.splitlines(), *prose.lines(text))
        for part in _STOPS.split(_fold(neutral(line)))
        if part.strip()
    ]
    return [*parts, *(f"{one} {two}" for one, two in pairwise(parts))]


def _in(word: str, held: Iterable[str]) -> bool:
    """Say whether one of `held` is `word` or another form of it."""
    return word in held or (len(word) >= _STEM and _stem(word) in {_stem(other) for other in held})


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM - 1:
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > _STEM and word[-1:] == word[-2:-1] else word
