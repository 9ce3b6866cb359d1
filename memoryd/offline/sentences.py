"""Sentences: the sentences of prose in a message, whole, each with the number by which a reply cites it."""

from __future__ import annotations

from typing import NamedTuple

from memoryd.text import prose
from memoryd.text.sentences import Kind, split

_NO_PROSE = frozenset({Kind.CODE, Kind.HEADING})


class Sentence(NamedTuple):
    """One sentence, without list mark and emphasis."""

    number: int  # from 1, as `text.sentences` parts the message
    text: str


def numbered(text: str) -> list[Sentence]:
    """Return the sentences of the prose in `text`, in order; what a machine wrote and a person pasted is left out."""
    given = text.splitlines()
    logged = {line.strip() for line, is_log in zip(given, prose.logged(given), strict=True) if is_log}
    found = []
    for number, part in enumerate(split(text), 1):
        lines = [line.strip() for line in part.text.splitlines() if line.strip()]
        said = prose.lines(part.text) if part.kind not in _NO_PROSE and not logged.issuperset(lines) else []
        if said and len(said) == len(lines):  # a sentence of which a part is code is none to repeat
            found.append(Sentence(number, " ".join(said)))
    return found


def sentences(text: str) -> list[str]:
    """Return the sentences of the prose in `text`, in order."""
    return [one.text for one in numbered(text)]


def is_question(sentence: str) -> bool:
    """Return True if `sentence` asks."""
    return sentence.rstrip("\"'”’)] 」』").endswith(("?", "？", "؟", ";?"))  # noqa: RUF001 - full-width mark
