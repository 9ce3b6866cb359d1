"""The tally of a refinement: what its audit says was done, beside what its model says it did."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from memoryd.gauge.estimate import estimate
from memoryd.ledger.memory import Ending, Kind, from_json, to_json
from memoryd.text.neutral import neutral

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memoryd.ledger.operation import Change


class Audited(NamedTuple):
    """One entry of the audit: the states are canonical JSON; None where there was none, or its text is erased."""

    operation: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Tally:
    """What was done. Tokens are the rough estimate; `saved` is how much smaller the core is by it."""

    merged: int = 0  # memories that were consolidated …
    into: int = 0  # … into so many
    updated: int = 0
    deleted: int = 0
    protected: int = 0
    duplicates: int = 0  # ended ahead of it, without looking at what they say
    saved: int = 0

    @property
    def changes(self) -> int:
        """Memories that the refinement itself has changed."""
        return self.merged + self.updated + self.deleted + self.protected

    def row(self) -> dict[str, int]:
        """As receipts show it."""
        return asdict(self)


def tally(entries: Iterable[Audited]) -> Tally:
    """Count the entries of one run."""
    counts = dict.fromkeys(("merged", "into", "updated", "deleted", "protected", "duplicates", "saved"), 0)
    for one in entries:
        after = None if one.after is None else from_json(one.after)
        before = None if one.before is None else from_json(one.before)
        if after is None or after.kind is not Kind.CORE:
            continue
        name = _name(one.operation, is_new=before is None, ended_as=after.ended_as)
        if name is None:
            continue
        counts[name] += 1
        gone = estimate(before.content) if before is not None and before.is_live else 0
        counts["saved"] += gone - (estimate(after.content) if after.is_live else 0)
    return Tally(**counts)


def of_changes(changes: Iterable[Change]) -> Tally:
    """Count changes that no audit tells of yet."""
    return tally(
        Audited(one.operation, None if one.before is None else to_json(one.before), to_json(one.after))
        for one in changes
    )


def _name(operation: str, *, is_new: bool, ended_as: Ending | None) -> str | None:
    if operation == "merge":
        return "into" if is_new else "merged"
    if operation == "delete":
        return "deleted" if ended_as is Ending.DELETED else "duplicates"
    return {"update": "updated", "protect": "protected"}.get(operation)


# --- what the model says ----------------------------------------------------------------------------------------------

_CLAIMS = {
    "merged": re.compile(r"\b(?:consolidat|merg|combin|compress|condens|unif)\w*", re.IGNORECASE),
    "updated": re.compile(r"\b(?:updat|reword|rewrot|rewrit|shorten|rephras)\w*", re.IGNORECASE),
    "deleted": re.compile(r"\b(?:delet|remov|dropp|forg[eo]t|prun)\w*", re.IGNORECASE),
    "protected": re.compile(r"\b(?:protect)\w*", re.IGNORECASE),
}
_DENIED = re.compile(r"\b(?:no|not|nothing|none|never|without|neither|0|zero|cannot|n't)\b|n't\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?;\n]+")
_COUNTED = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+)(?![\w-]|[.,]\d)")
_NEAR = 12  # a share of a number: what is said roughly may be off by a twelfth


def unfounded(summary: str, done: Tally, others: Iterable[int] = ()) -> list[str]:
    """What a summary claims that was not done: names of counts, and `numbers` where it counts otherwise.

    Args:
        summary: as the model wrote it.
        done: what was counted.
        others: further true numbers, such as the core's tokens before and after.
    """
    counts = done.row()
    found = [name for name, cue in _CLAIMS.items() if not counts[name] and _claims(summary, cue)]
    true = [*counts.values(), *others]
    said = [int(number.replace(",", "")) for number in _COUNTED.findall(summary)]
    if any(not any(abs(number - one) * _NEAR <= max(one, 1) for one in true) for number in said):
        found.append("numbers")
    return found


def _claims(summary: str, cue: re.Pattern[str]) -> bool:
    return any(cue.search(one) and not _DENIED.search(one) for one in _SENTENCE.findall(summary))


_SAID = ' It said: "'
_WORDS = {"merged": "consolidated", "updated": "reworded", "deleted": "deleted", "protected": "protected"}


def journal(day: str, done: Tally, tokens: tuple[int, int], how: str | None, summary: str | None) -> str:
    """The entry of the journal: what was counted, and beside it what the model says, with what of that is not so.

    Args:
        day: local, YYYY-MM-DD.
        done: what was counted.
        tokens: of the core before and after.
        how: how it ended, where that is worth telling.
        summary: the model's own; None where it gave none.
    """
    parts = [f"compressed {done.merged} → {done.into}"] if done.merged else []
    parts += [f"reworded {done.updated}"] if done.updated else []
    parts += [f"deleted {done.deleted}"] if done.deleted else []
    parts += [f"saved ~{done.saved:,} tokens ({tokens[0]:,} → {tokens[1]:,})"] if done.saved else []
    parts += [f"protected {done.protected}"] if done.protected else []
    parts += [f"{done.duplicates} duplicates ended"] if done.duplicates else []
    text = f"Refinement of {day}: {'; '.join(parts) or 'nothing was changed'}."
    text += f" {how[0].upper()}{how[1:]}." if how else ""
    if not summary:
        return text
    text += f'{_SAID}{neutral(summary)}"'
    false = unfounded(summary, done, tokens)
    if false:
        wrong = [f"nothing was {_WORDS[name]}" for name in false if name in _WORDS]
        wrong += ["the numbers are others"] if "numbers" in false else []
        text += f" What was counted says otherwise: {', '.join(wrong)}."
    return text


def counted(entry: str) -> str:
    """An entry of the journal as an agent is told it: without the model's words, which could give it orders."""
    return entry.partition(_SAID)[0]
