"""Find words with the meaning of a searched word, in a small thesaurus of software work and everyday life.

The thesaurus is in `synonyms.txt`. Its authors knew neither the texts nor the questions of the benchmarks.
"""

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache

from memoryd.recall.query import Term, TermKind
from memoryd.text.wording import find_stem


def list_synonyms(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return terms for the synonyms of the words among these terms, without words that are searched already.

    Words of names and phrases have none.
    """
    names = " ".join(term.text for term in terms if term.kind is not TermKind.WORD)
    plain = (term.text for term in terms if term.kind is TermKind.WORD and term.text not in names)
    words = dict.fromkeys(find_stem(one.lower()) for one in plain)
    groups = _read_groups()
    found = dict.fromkeys(one for stem in words for one in groups.get(stem, ()) if find_stem(one) not in words)
    return tuple(Term(TermKind.WORD, one, f'"{one}"') for one in found)


@cache
def _read_groups() -> Mapping[str, list[str]]:
    """Return the words of all groups that a word is in, by the stem of the word."""
    found: dict[str, list[str]] = {}
    for line in (pkgutil.get_data(__name__, "synonyms.txt") or b"").decode().splitlines()[1:]:
        group = line.split()
        for word in group:
            found.setdefault(find_stem(word), []).extend(group)
    return found
