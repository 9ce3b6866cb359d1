"""Find the statements of a line that an injected text says already, so that each statement is injected once."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from memoryd.text import normal
from memoryd.text.neutral import neutralize

_FRAMING = re.compile(r"(?:(?:user|assistant|agent|asked|last request|last answer|open|reported earlier): )+")
_MARKS = str.maketrans("", "", '*`"“”„«»')
_DONE = re.compile(r"\[[ xX]\] ")
_STOP = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")  # noqa: RUF001
_CLAUSE = re.compile(r"^|[,;:(–—] ")  # noqa: RUF001
_ENDS_CLAUSE = re.compile(r"$|[,;:)]| [(–—]")  # noqa: RUF001
USER = "\0"  # the kind of a statement of the user; only the user repeats it
CUT = "…"  # ends a sentence that was cut
_NEAR = 24  # characters; a part of an injected statement counts as injected if it has at least this many …
_NEAR_SHARE = 0.6  # … and at least this share of the statement
_MUCH = 100  # characters; if at least this many of a line are already injected, …
_LITTLE_SHARE = 0.35  # … it is left out, as long as the new rest is at most this share of the line


def split_statements(text: str, kind: str = "") -> frozenset[str]:
    """Return the sentences of a line without markup and the name of the speaker, so that they can be compared.

    `kind` goes before each sentence, so that only sentences of the same kind are equal. A sentence that was cut still
    ends with `CUT`.
    """
    bare = _DONE.sub("", neutralize(text), count=1).translate(_MARKS)
    said = ((_FRAMING.sub("", normal.normalize(one)), CUT * one.endswith(f" {CUT}")) for one in _STOP.split(bare))
    return frozenset(f"{kind}{one}{cut}" for one, cut in said if one)


class ToldStatements:
    """Collect the statements injected so far, while a text is built from top to bottom."""

    def __init__(self, said: Mapping[str, str], untold: AbstractSet[str], later: Sequence[frozenset[str]]) -> None:
        """Take the statements said before, each with its line, and the statements of each line that may come later."""
        self.lines = dict(said)  # statement -> first line that says it
        self._longer = [one for one in later if len(one) > 1]
        whole = (one for statements in later for one in statements if not one.endswith(CUT))
        self._later = {one[:_NEAR]: one for one in whole}
        self._untold = untold  # statements whose line does not fit and is not injected
        self._near = {begins: one for one in said for begins in _list_beginnings(one)}

    def find_all(self, statements: frozenset[str]) -> set[str]:
        """Return the injected statements that a line repeats; empty if the line also says much that is new.

        All statements of a line are repeated if a longer line has them too.
        """
        if self._untold.isdisjoint(statements) and any(statements < one for one in self._longer):
            return set(statements)
        found = {
            one: self._find(one) or (None if one.startswith(USER) else self._find(USER + one)) for one in statements
        }
        more = sum(len(one) for one, told in found.items() if not told)
        told = sum(map(len, found)) - more
        is_said = not more or (told >= _MUCH and more <= _LITTLE_SHARE * (told + more))
        return {one for one in found.values() if one} if is_said else set()

    def _find(self, one: str) -> str | None:
        """Return a statement that covers this one: the same words, more clauses, or the whole of a cut sentence."""
        if one in self.lines and one not in self._untold:
            return one
        bare = one.removesuffix(CUT)
        begins, text = bare[:_NEAR], bare.removeprefix(USER)
        whole = self._near.get(begins) or (self._later.get(begins) if bare != one else None)
        if len(bare) < _NEAR or whole is None or whole in self._untold:
            return None
        _, found, rest = whole.partition(text)
        is_whole = bare != one and whole.startswith(bare)
        is_part = found and len(one) >= _NEAR_SHARE * len(whole) and _ENDS_CLAUSE.match(rest)
        return whole if is_whole or is_part else None

    def add(self, statements: frozenset[str], line: str) -> None:
        """Record the statements of an injected line."""
        for one in statements - self.lines.keys():
            self.lines[one] = line
            self._near |= dict.fromkeys(_list_beginnings(one), one)


@lru_cache(maxsize=4096)
def _list_beginnings(one: str) -> tuple[str, ...]:
    """Return the first characters of each clause of a statement, to look up statements that contain another."""
    kind, text = one[: one.startswith(USER)], one.removeprefix(USER)
    return tuple((kind + text[found.end() :])[:_NEAR] for found in _CLAUSE.finditer(text))
