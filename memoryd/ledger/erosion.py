"""Measure erosion: count the tokens that the core loses when memories end, are merged or are reworded.

If a second reader accepted a merge or a rewording, only the details that it reported as lost count (`Memory.lost`).
Otherwise each clause of the old text is compared with the successors of the memory:

- If a clause lost a number, a name, or more than a quarter of its words, the whole clause counts as lost. Otherwise a
  successor with another number would count as almost equal.
- In any other clause, only the missing words count.
- Words without content do not count.
- A clause that another memory repeats in full counts only when that memory is lost too.
- A number or a name that was replaced by a newer value is not lost.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from memoryd.ledger.memory import Ending, Memory, MemoryKind
from memoryd.ledger.operation import Change
from memoryd.text.wording import CLAUSE, STOP, find_stem, fold, list_units, normalize

WINDOW = timedelta(days=30)
_HELD = Fraction(3, 4)  # a clause that keeps this share of its words counts as reworded, not as lost
_SHARED = 2  # a memory about the same subject shares at least this many words
_NAME = re.compile(r"(?<=[\w,;)] )[^\W\d_a-z][\w'-]*")  # a capitalised word within a sentence
# A rollback or a person's own decision is no loss.
_NO_LOSS = frozenset({Ending.UNDONE, Ending.ERASED})


class Drop(NamedTuple):
    """Hold a text of the core that a job ended or reworded."""

    at: str  # UTC, ISO 8601
    said: str
    successors: tuple[str, ...] = ()  # the texts of its successors
    is_superseded: bool = False  # the successors have other values for the numbers and names of the text
    counted: int | None = None  # the tokens that a second reader counted as lost; None if the loss is measured


def find_drop(at: str, before: Memory, after: Memory, successors: Iterable[Memory]) -> Drop | None:
    """Return the text that a change ended or replaced; None if the change loses nothing.

    Args:
        at: the time of the change, UTC, ISO 8601.
        before: the memory before the change.
        after: the memory after the change.
        successors: the successors of the memory at that time, see `list_successors`.
    """
    if not before.is_live or before.kind is not MemoryKind.CORE or after.ended_as in _NO_LOSS:
        return None
    if after.is_live and after.content_hash == before.content_hash:
        return None
    texts = tuple(one.content for one in successors)
    if after.lost is not None and texts:  # without a successor, the whole text is lost
        return Drop(at, before.content, texts, counted=after.lost)
    is_superseded = after.ended_as is Ending.SUPERSEDED and bool(texts)
    is_mended = after.is_live and _changes_values(before.content, after.content)
    return Drop(at, before.content, texts, is_superseded or is_mended)


def _changes_values(before: str, after: str) -> bool:
    """Return True if a rewording only replaces values: numbers by numbers, and names by names."""
    gone = [*map(str.isalpha, _exact(before) - _forms(after))]
    new = [*map(str.isalpha, _exact(after) - _forms(before))]
    return bool(new) and set(gone) <= set(new)


def _exact(text: str) -> frozenset[str]:
    return frozenset[str]().union(*(clause.exact for clause in _clauses(text)))


def list_successors(memory_id: str, state: Callable[[str], Memory | None]) -> list[Memory]:
    """Return the live core memories that replace a memory: the memory itself if it is live, else its last successors.

    Args:
        memory_id: the id of the memory.
        state: returns the state of a memory by id; None if the id is unknown.
    """
    found: list[Memory] = []
    passed: set[str] = set()
    ahead = [memory_id]
    for one in ahead:  # the loop extends this list
        memory = state(one) if one not in passed else None
        passed.add(one)
        if memory is not None and not memory.is_live:
            ahead += memory.successors
        elif memory is not None and memory.kind is MemoryKind.CORE:
            found.append(memory)
    return found


def drops_of(changes: Sequence[Change], after: Mapping[str, Memory], at: str) -> list[tuple[str, Drop]]:
    """Return the losses of changes, in order, as (id of the memory, loss).

    Args:
        changes: the changes, in the order in which they were made.
        after: the memories after all changes, by id: the changed memories and their successors.
        at: the time of the changes, UTC, ISO 8601.
    """
    states = dict(after)
    found = []
    for change in reversed(changes):
        if change.before is not None:
            successors = list_successors(change.memory_id, states.get)
            found.append((change.memory_id, find_drop(at, change.before, change.after, successors)))
            states[change.memory_id] = change.before
    return [(memory_id, drop) for memory_id, drop in reversed(found) if drop is not None]


def select_window(drops: Iterable[Drop], now: str) -> list[Drop]:
    """Return the losses of the 30 days before `now` (ISO 8601); a loss exactly 30 days ago is left out."""
    start = datetime.fromisoformat(now) - WINDOW
    return [drop for drop in drops if datetime.fromisoformat(drop.at) > start]


def count_lost(drops: Sequence[Drop], live: Iterable[str], count_tokens: Callable[[str], int]) -> int:
    """Count lost tokens: those that survive neither in a successor nor in another text of the core.

    Args:
        drops: the losses, oldest first.
        live: the texts of the live core.
        count_tokens: returns the number of tokens of a text.
    """
    if not drops:
        return 0
    others = _Others([drop.said for drop in drops], live)
    total = Fraction(0)
    for at, drop in enumerate(drops):
        if drop.counted is not None:
            total += drop.counted
            continue
        clauses = _clauses(drop.said)
        asked = frozenset[str]().union(*(clause.words for clause in clauses))
        held = frozenset[str]().union(*map(_forms, drop.successors))
        count = _Clause.count_unsaid if drop.is_superseded else _Clause.count_missing
        missing = [(clause, count(clause, held)) for clause in clauses]
        gone = sum(words for clause, words in missing if words and not others.hold(clause, asked, at))
        total += Fraction(count_tokens(drop.said) * gone, sum(len(clause.words) for clause in clauses))
    return math.ceil(total)


class _Clause(NamedTuple):
    words: frozenset[str]  # stems; exact words unchanged
    exact: frozenset[str]  # numbers and names

    def count_missing(self, held: frozenset[str]) -> int:
        """Count the words of the clause that are lost if only the words in `held` are left."""
        gone = self.words - held
        is_gone = self.exact & gone or len(gone) > (1 - _HELD) * len(self.words)
        return len(self.words) if is_gone else len(gone)

    def count_unsaid(self, held: frozenset[str]) -> int:
        """Count the words of the clause that are not in `held`, without numbers and names."""
        return len(self.words - self.exact - held)


class _Others:
    """Index the dropped texts, oldest first, and then the live core, by their words."""

    def __init__(self, dropped: Iterable[str], live: Iterable[str]) -> None:
        self._forms = [_forms(text) for text in (*dropped, *live)]
        self._by_form: defaultdict[str, list[int]] = defaultdict(list)
        for at, forms in enumerate(self._forms):
            for form in forms:
                self._by_form[form].append(at)

    def hold(self, clause: _Clause, asked: frozenset[str], behind: int) -> bool:
        """Return True if a text behind the position `behind` has all words of a clause and the same subject.

        `asked` holds the words of the dropped text. A text that shares enough of them has the same subject.
        """
        rarest = min((self._by_form.get(word, ()) for word in clause.words), key=len, default=())
        least = min(_SHARED, len(asked))
        later = (self._forms[at] for at in rarest if at > behind)
        return any(clause.words <= forms and len(asked & forms) >= least for forms in later)


@lru_cache(maxsize=8192)
def _clauses(text: str) -> tuple[_Clause, ...]:
    said = normalize(text)
    names = {unit for name in _NAME.findall(said) for unit in list_units(name.casefold())}
    found = tuple(clause for part in CLAUSE.split(said) if (clause := _clause(part, names)).words)
    whole = frozenset(list_units(said.casefold())) or frozenset({said.casefold()})
    return found or (_Clause(whole, frozenset()),)


def _clause(part: str, names: set[str]) -> _Clause:
    said = [unit for unit in list_units(part.casefold()) if unit not in STOP]
    exact = frozenset(unit for unit in said if unit in names or not unit.isalpha())
    return _Clause(frozenset(unit if unit in exact else find_stem(unit) for unit in said), exact)


@lru_cache(maxsize=8192)
def _forms(text: str) -> frozenset[str]:
    folded = fold(text)
    found = list_units(folded)
    return frozenset((folded, *found, *map(find_stem, found)))
