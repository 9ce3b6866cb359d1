"""Parse a search into terms of an FTS5 expression; every text is a valid query.

A term is always a quoted string (https://sqlite.org/fts5.html, §3.1), so its characters have no meaning for FTS5. A
document is found by any of the terms, and ranked by how many it has and how rare they are.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from memoryd.recall.words import fold, inner_words, is_unspaced, list_runs, make_indexable, signed_names, stop_words

LONGEST = 20_000  # characters of a query that are used …
MOST_TERMS = 64  # … and terms; more of them would hardly change the ranking …
MOST_WORDS = 128  # … with at most this many words, because each common word costs time
_ROW = 16  # the most words of one term; a longer quotation becomes several terms
# Letters of a beginning that may stand for a word, and letters that it may lack at most, which limits the searches.
_LEAST, _MOST_MISSING = 5, 25
# A beginning may lack an ending of at most 2 letters. If it lacks at least 4, it is the first part of a compound.
_ENDING, _REST = 2, 4
_PREFIX = 8  # a prefix counts as this many words, because it matches many words
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"', "\u2019": "'"})
_PART = re.compile(r'"([^"]*)"|([^\s"]+)')
_BROKEN_END, _BROKEN_START = re.compile(r"\s\S{1,200}\Z"), re.compile(r"\A\S{1,200}\s")
_POSSESSIVE = re.compile(r"'s\b", re.IGNORECASE)


class TermKind(StrEnum):
    """Name the kinds of terms."""

    WORD = "word"
    PHRASE = "phrase"  # a quotation; documents that contain it come first
    PREFIX = "prefix"
    NAME = "name"  # adjacent words: an identifier, a path, a word in a script without spaces


_PLAIN = frozenset({TermKind.WORD, TermKind.NAME})


@dataclass(frozen=True, slots=True)
class Term:
    """Hold one term of a search."""

    kind: TermKind
    text: str  # the text as people see it
    match: str  # the expression for FTS5


@dataclass(frozen=True, slots=True)
class Query:
    """Hold the terms of a query, each once, in the order of the text; empty if the text has no word."""

    terms: tuple[Term, ...]
    synonyms: tuple[Term, ...] = ()  # terms that may stand for words of the query

    @property
    def phrases(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.kind is TermKind.PHRASE)


def parse(text: str) -> Query:
    """Return the terms of a text: words, `"phrases"`, `prefix*`, and names such as `snake_case` and `a/path.py`."""
    found: dict[str, Term] = {}
    for term in _terms(_ends(fold(_ends(text))).translate(_QUOTES)):
        found.setdefault(term.match.casefold(), term)
    terms = list(found.values())
    empty = stop_words([term.text for term in terms if term.kind in _PLAIN])
    telling = [term for term in terms if term.kind not in _PLAIN or term.text not in empty] or terms
    # Both ends are used, because an error is often at the end of a pasted text, and a request after its subject.
    order = sorted(range(len(telling)), key=lambda at: min(at, len(telling) - 1 - at))
    words = accumulate(
        _PREFIX if telling[at].kind is TermKind.PREFIX else len(list_runs(telling[at].match)) for at in order
    )
    most = min(bisect_right(list(words), MOST_WORDS), MOST_TERMS)
    return Query(tuple(telling[at] for at in sorted(order[:most])))


def list_beginnings(word: str) -> Iterator[Term]:
    """Yield terms for other forms of a word, the nearest first: its longest beginnings, with any ending.

    If more than an ending is missing, a beginning must be a word of its own, such as `Zahnarzt` for `Zahnarzttermin`.
    """
    for end in range(len(word), max(_LEAST, len(word) - _MOST_MISSING) - 1, -1):
        if len(word) - end <= _ENDING:
            yield _make_term(TermKind.PREFIX, word[:end])
        elif len(word) - end >= _REST and end > _LEAST:
            yield _make_term(TermKind.WORD, word[:end])


def _ends(text: str) -> str:
    """Return the text; of a text that is too long, only its beginning and end, without broken words if possible."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{_BROKEN_END.sub('', text[:half])} {_BROKEN_START.sub('', text[-half + 1 :])}"


def build_expression(terms: tuple[Term, ...]) -> str:
    """Return the FTS5 expression that matches any of the terms."""
    return " OR ".join(term.match for term in terms)


def _terms(text: str) -> Iterator[Term]:
    for match in _PART.finditer(text):
        quoted, word = match.groups()
        if quoted is None:
            yield from _of_word(word)
        else:
            parts = list_runs(quoted)
            rows = _rows(quoted) if len(parts) > 1 or (parts and is_unspaced(parts[0])) else parts
            yield from (_make_term(TermKind.PHRASE, row) for row in rows)


def _of_word(word: str) -> Iterator[Term]:
    bare = _POSSESSIVE.sub(" ", word)
    signed = signed_names(bare)
    yield from (Term(TermKind.NAME, name, _quote_term(one)) for name, one in signed)
    letters = {name[:1] for name, one in signed if not name[1:2].isalnum()}
    # The letter of `C++` is not searched by itself.
    parts = [part for part in list_runs(bare) if part not in letters]
    if parts and word.endswith("*") and len(parts[-1]) > 1 and not is_unspaced(parts[-1]):
        yield _make_term(TermKind.PREFIX, parts[-1])
        parts = parts[:-1]
    elif len(parts) > 1 and "'" not in word:
        name = next(_rows(bare))
        yield Term(TermKind.NAME, name.strip(".,;:!?()[]{}<>"), _quote_term(name))
    for part in parts:
        yield from _of_run(part)


def _of_run(run: str) -> Iterator[Term]:
    if is_unspaced(run):
        row = run[:_ROW]
        yield _make_term(TermKind.NAME if len(row) > 1 else TermKind.WORD, row)
        # Word boundaries are unknown, so each pair of characters may be a word.
        yield from (_make_term(TermKind.NAME, run[at : at + 2]) for at in range(len(run) - 1))
        return
    yield _make_term(TermKind.WORD, run)
    inner = inner_words(run)
    if len(inner) > 1:
        yield Term(TermKind.NAME, "".join(inner[:_ROW]), _quote_term(" ".join(inner[:_ROW])))


def _rows(text: str) -> Iterator[str]:
    """Yield the text, divided into parts if it has too many words for one term."""
    words = list_runs(make_indexable(text))
    parts = (" ".join(words[at : at + _ROW]) for at in range(0, len(words), _ROW))
    yield from [text] if len(words) <= _ROW else parts


def _make_term(kind: TermKind, text: str) -> Term:
    sign = "*" if kind is TermKind.PREFIX else ""
    return Term(kind, text + sign, _quote_term(text) + sign)


def _quote_term(text: str) -> str:
    return '"' + make_indexable(text).replace('"', " ").strip() + '"'
