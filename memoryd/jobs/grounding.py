"""Grounding: whether what a text claims stands in the turns it cites.

Deterministic and first of all checks: each name, number, date, path, address, identifier and quotation of the text
must occur in its sources. Ordinary words are free, so that a model may put things in its own words; for preferences
and instructions they are not (`quotes`), since those steer what an agent does.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass
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
a after agent all also always an and any are as ask asked asks assistant at be because been before both but by can
changed could decision did dislikes do does done each event every failed for from had has hates have he her his how
i if in is it its just learned like liked likes more most must my never no not of on only open or our please prefer
prefered preferred prefers remember remembers report said says she should since so some tells than that the their
then there these they this those to today told use used user users uses using very want wanted wants was we were
what when where which who why will with would yesterday you your
"""
_FRAMING = frozenset(_FRAMING_LIST.split())
_VERBAL = re.compile(r"^\w+(?:ed|ing|ly|ion|ions|ment|ity)$")
_STEM = 4  # letters two forms of one word share at least


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
            ("path", (found.strip(".:!?") for found in _MARKED.findall(body))),
            ("number", _NUMBER.findall(body)),
        )
        for kind, found in checks:
            if any(_fold(one) not in self.folded for one in found):
                return kind
        return "name" if any(not self._has_name(found) for found in _NAME.finditer(body)) else None

    def quotes(self, text: str) -> bool:
        """Say whether `text` says what one sentence of the sources says: all its words, and as many negations."""
        body = _ISO.sub(" ", _LABEL.sub("", text, count=1))
        asked = _wide_pairs(body) | {
            word for word in map(_plain, _WORD.findall(_fold(body))) if word not in _FRAMING and not _is_wide(word)
        }
        if not asked:
            return False
        for source in self.sources:
            for stated in _statements(source.text):
                held = _wide_pairs(stated) | {_plain(word) for word in _WORD.findall(stated)}
                if all(_in(word, held) for word in asked) and negations(body) == negations(stated):
                    return True
                if _fold(body).strip(" .!。") in stated:
                    return True
        return False

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


def _is_wide(word: str) -> bool:
    return prose.is_wide(word)


def _wide_pairs(text: str) -> set[str]:
    runs = (word for word in _WORD.findall(text) if _is_wide(word))
    return {run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))}


def _statements(text: str) -> list[str]:
    folded = _fold(neutral(text))
    parts = [part.strip() for part in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", folded)]  # noqa: RUF001 - full-width marks
    return [*parts, *(f"{one} {two}" for one, two in itertools.pairwise(parts))]


def _in(word: str, held: Iterable[str]) -> bool:
    if word in held:
        return True
    if len(word) < _STEM or word.isdigit():
        return False
    least = max(_STEM, len(word) - 3)
    return any(other[:least] == word[:least] and abs(len(other) - len(word)) <= 3 for other in held)
