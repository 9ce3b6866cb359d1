"""Account for each earlier memory in a rewrite, so that none is lost because the rewrite does not mention it."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memoryd.ledger.memory import Ending
from memoryd.ledger.operation import Delete, Disposition, Merge, Operation, Update

_ENDS = {
    Ending.SUPERSEDED: Disposition.SUPERSEDED,
    Ending.MERGED: Disposition.MERGED,
    Ending.ARCHIVED: Disposition.ARCHIVED,
}


class Unmentioned(StrEnum):
    """Name what happens to an earlier memory that a rewrite does not mention (`guards.accounting`)."""

    KEEP = "keep"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Describe a rewrite of the core.

    Attributes:
        earlier: ids of the live core memories it was made from.
        mentioned: ids of those that the rewrite mentions, in any way.
        unmentioned: what happens to the others.
    """

    earlier: Collection[str]
    mentioned: Collection[str]
    unmentioned: Unmentioned = Unmentioned.KEEP


def list_archivals(rewrite: Rewrite, operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations that archive memories without a mention; none if such memories are kept."""
    if rewrite.unmentioned is Unmentioned.KEEP:
        return []
    spoken = {memory_id for operation in operations for memory_id, _ in _claims(operation)}
    left = [memory_id for memory_id in rewrite.earlier if memory_id not in rewrite.mentioned]
    return [Delete(memory_id, Ending.ARCHIVED) for memory_id in left if memory_id not in spoken]


def find_dispositions(rewrite: Rewrite, operations: Sequence[Operation]) -> dict[str, Disposition]:
    """Return the disposition of each earlier memory that is accounted for; see `list_unaccounted` for the others."""
    bad = set(list_unaccounted(rewrite, operations))
    found = {memory_id: Disposition.KEPT for memory_id in rewrite.earlier if memory_id not in bad}
    for operation in operations:
        for memory_id, disposition in _claims(operation):
            if memory_id in found and disposition is not None:
                found[memory_id] = disposition
    return found


def list_unaccounted(rewrite: Rewrite, operations: Sequence[Operation]) -> list[str]:
    """Return the ids of earlier memories that do not end in exactly one disposition, in order.

    These are memories that ended without a disposition (deleted, evicted …), and memories that more than one operation
    reworded, merged or ended. They are also unmentioned memories that changed although such are kept, or that stayed
    although such are archived.
    """
    claims = [claim for operation in operations for claim in _claims(operation)]
    counts = Counter(memory_id for memory_id, _ in claims)
    odd = {memory_id for memory_id, disposition in claims if disposition is None}
    archived = {memory_id for memory_id, disposition in claims if disposition is Disposition.ARCHIVED}
    silent = [one for one in rewrite.earlier if one not in rewrite.mentioned]
    archives = rewrite.unmentioned is Unmentioned.ARCHIVE
    odd |= {one for one in silent if (one not in archived if archives else counts[one] > 0)}
    return [one for one in rewrite.earlier if one in odd or counts[one] > 1]


def _claims(operation: Operation) -> list[tuple[str, Disposition | None]]:
    """Return (id, disposition) of each memory that an operation reworded or ended; None for any other ending."""
    if isinstance(operation, Update):
        return [] if operation.content is None else [(operation.id, Disposition.REWORDED)]
    if isinstance(operation, Merge):
        return [(memory_id, Disposition.MERGED) for memory_id in dict.fromkeys(operation.ids)]
    return [(operation.id, _ENDS.get(operation.ended_as))] if isinstance(operation, Delete) else []
