"""Sentences: where one statement of a message ends and the next begins, in scripts with and without spaces."""

from __future__ import annotations

import re

from memoryd.llm import cues
from memoryd.text import prose

_ABBREVIATION_LIST = "dr mr mrs ms prof st vs etc e.g i.e approx fig inc ltd jr sr z.b ca"
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
_END = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡]+[」』”’）]*)\s*")  # noqa: RUF001 - full-width marks
_LONGEST = 60  # words; beyond this a run without a full stop is cut at its clauses
_CLAUSE = re.compile(r"(?<=[;:,，、；])\s+|(?<=[，；])|\s+[—–-]+\s+")  # noqa: RUF001 - full-width marks


def sentences(text: str) -> list[str]:
    """Return the sentences of the prose in `text`, in order; each line of it ends a sentence."""
    return [part for line in prose.lines(text) for sentence in _of_line(line) for part in _short(sentence)]


def is_question(sentence: str) -> bool:
    """Say whether `sentence` asks."""
    return sentence.rstrip("\"'”’)] 」』").endswith(("?", "？", "؟", ";?"))  # noqa: RUF001 - full-width mark


def alone(sentence: str) -> str:
    """Return `sentence` as it reads by itself: without what only joins it to the one before, or eases the talk."""
    body = cues.JOINS.sub("", sentence)
    if body != sentence:
        body = capitalised(body)
    return cues.TAG.sub("", body) or sentence


def capitalised(text: str) -> str:
    """Return `text` with a capital where it begins with a word that has none; code stays as it is."""
    first = text.split(" ", 1)[0].rstrip(",.!;")
    return text[0].upper() + text[1:] if first.islower() and first.replace("'", "").isalpha() else text


def _of_line(line: str) -> list[str]:
    out, start = [], 0
    for end in _END.finditer(line):
        if _ends_here(line, start, end):
            out.append(line[start : end.end()].strip())
            start = end.end()
    out.append(line[start:].strip())
    return [sentence for sentence in out if sentence]


def _ends_here(line: str, start: int, end: re.Match[str]) -> bool:
    if not end[0].startswith("."):
        return True
    word = line[start : end.start()].rsplit(" ", 1)[-1].casefold().strip("(\"'")
    following = line[end.end() : end.end() + 1]
    return word not in _ABBREVIATIONS and not (len(word) == 1 and word.isalpha()) and not following.islower()


def _short(sentence: str) -> list[str]:
    if prose.words(sentence) <= _LONGEST:
        return [sentence]
    out, held = [], ""
    for clause in _CLAUSE.split(sentence):
        joined = f"{held} {clause}".strip()
        if held and prose.words(joined) > _LONGEST // 2:
            out.append(held)
            joined = clause
        held = joined
    return [part for part in [*out, held] if part]
