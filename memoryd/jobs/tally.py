"""Count a refinement's changes by its audit, and check the numbers that its model states."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from memoryd.gauge.estimate import estimate
from memoryd.ledger.memory import Ending, Memory, MemoryKind
from memoryd.ledger.operation import Change
from memoryd.text.neutral import neutralize


@dataclass(frozen=True, slots=True)
class RefinementTally:
    """Hold the counts of a refinement.

    `saved` is the reduction of the core in tokens, by a rough estimate. `details` are the numbers in the changed texts.
    A summary that names one of them does not state a count.
    """

    merged: int = 0  # memories that were consolidated
    into: int = 0  # memories that replaced them
    updated: int = 0
    deleted: int = 0
    protected: int = 0
    duplicates: int = 0  # identical memories that ended before the model was asked
    saved: int = 0
    details: frozenset[int] = field(default=frozenset(), compare=False, repr=False)

    @property
    def changes(self) -> int:
        """Return the number of memories that the refinement itself has changed."""
        return self.merged + self.updated + self.deleted + self.protected

    def row(self) -> dict[str, int]:
        """Return the counts as a run report shows them."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.compare}

    def describe(self) -> str:
        """Return the counts in words, for the journal, the audit and `job show`."""
        parts = [f"compressed {self.merged} → {self.into}"] if self.merged else []
        parts += [f"reworded {self.updated}"] if self.updated else []
        parts += [f"deleted {self.deleted}"] if self.deleted else []
        parts += [f"saved ~{self.saved} tokens"] if self.saved else []
        parts += [f"protected {self.protected} constitutional memories"] if self.protected else []
        parts += [f"{self.duplicates} duplicates ended"] if self.duplicates else []
        return _capital("; ".join(parts) or "nothing was changed")


def count_entries(entries: Iterable[tuple[str, Memory | None, Memory | None]]) -> RefinementTally:
    """Count the entries that one run has in the audit.

    Args:
        entries: for each entry the operation, and the memory before and after it; None if there is none, or if its text
            is erased.
    """
    counts = Counter[str]()
    details: set[int] = set()
    for operation, before, after in entries:
        if after is None or after.kind is not MemoryKind.CORE:
            continue
        name = _name(operation, is_new=before is None, ended_as=after.ended_as)
        if name is None:
            continue
        counts[name] += 1
        details.update(*(_numbers(side.content) for side in (before, after) if side is not None))
        gone = estimate(before.content) if before is not None and before.is_live else 0
        counts["saved"] += gone - (estimate(after.content) if after.is_live else 0)
    return RefinementTally(**counts, details=frozenset(details))


def of_changes(changes: Iterable[Change]) -> RefinementTally:
    """Count changes that are not in the audit yet."""
    return count_entries((one.operation, one.before, one.after) for one in changes)


def _name(operation: str, *, is_new: bool, ended_as: Ending | None) -> str | None:
    if operation == "merge":
        return "into" if is_new else "merged"
    if operation == "delete":
        return "deleted" if ended_as is Ending.DELETED else "duplicates"
    return {"update": "updated", "protect": "protected"}.get(operation)


# --- the model's summary
# -----------------------------------------------------------------------------------------------

_COUNTED = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+)(?![\w-]|[.,]\d)")
_NEAR = 12  # a stated number may be off by a twelfth, because models round
_SAID = ' It said: "'


def is_miscounted(summary: str, done: RefinementTally, others: Iterable[int] = ()) -> bool:
    """Return True if a summary states a number that is no true count and no detail of a changed text.

    Args:
        summary: the summary as the model wrote it.
        done: the counts.
        others: further true numbers, such as the core's tokens before and after.
    """
    true = [*done.row().values(), *others]
    said = _numbers(summary) - done.details
    return any(not any(abs(number - one) * _NEAR <= max(one, 1) for one in true) for number in said)


def _numbers(text: str) -> set[int]:
    return {int(number.replace(",", "")) for number in _COUNTED.findall(text)}


def write_entry(day: str, done: RefinementTally, tokens: tuple[int, int], how: str | None, summary: str | None) -> str:
    """Return the journal entry of a refinement: the counts, and beside them the model's own words.

    Args:
        day: the local day, YYYY-MM-DD.
        done: the counts.
        tokens: the tokens of the core before and after.
        how: how the refinement ended, if that matters.
        summary: the model's own words; None without any.
    """
    text = f"Refinement of {day}: {done.describe()}."
    text += f" {_capital(how)}." if how else ""
    if not summary:
        return text
    wrong = " Its numbers are not those that were counted." if is_miscounted(summary, done, tokens) else ""
    return f'{text}{_SAID}{neutralize(summary)}"{wrong}'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def strip_model_words(entry: str) -> str:
    """Return a journal entry for injection, without the model's words, which could give the agent orders."""
    return entry.partition(_SAID)[0]
