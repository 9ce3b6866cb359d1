"""Check that a rewrite of the core accounts for each earlier memory, so that no memory is lost unnoticed."""

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
        earlier: ids of the live core memories before the rewrite.
        mentioned: ids of the earlier memories that the rewrite mentions in any way.
        unmentioned: what happens to the other earlier memories.
    """

    earlier: Collection[str]
    mentioned: Collection[str]
    unmentioned: Unmentioned = Unmentioned.KEEP


def list_archivals(rewrite: Rewrite, operations: Sequence[Operation]) -> list[Operation]:
    """Return operations that archive the memories that the rewrite does not mention.

    The list is empty if `rewrite.unmentioned` is `KEEP`.
    """
    if rewrite.unmentioned is Unmentioned.KEEP:
        return []
    spoken = {memory_id for operation in operations for memory_id, _ in _claims(operation)}
    left = [memory_id for memory_id in rewrite.earlier if memory_id not in rewrite.mentioned]
    return [Delete(memory_id, Ending.ARCHIVED) for memory_id in left if memory_id not in spoken]


def find_dispositions(rewrite: Rewrite, operations: Sequence[Operation]) -> dict[str, Disposition]:
    """Return the disposition of each earlier memory, by id, without the memories of `list_unaccounted`."""
    bad = set(list_unaccounted(rewrite, operations))
    found = {memory_id: Disposition.KEPT for memory_id in rewrite.earlier if memory_id not in bad}
    for operation in operations:
        for memory_id, disposition in _claims(operation):
            if memory_id in found and disposition is not None:
                found[memory_id] = disposition
    return found


def list_unaccounted(rewrite: Rewrite, operations: Sequence[Operation]) -> list[str]:
    """Return the ids of earlier memories that do not end in exactly one disposition, in order.

    A memory is unaccounted for in each of these cases:

    - It ended in a way that is not a disposition (deleted, evicted …).
    - More than one operation reworded, merged or ended it.
    - The rewrite does not mention it and should keep it, but an operation changed it.
    - The rewrite does not mention it and should archive it, but no operation archived it.
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
    """Return (id, disposition) of each memory that an operation reworded or ended.

    The disposition is None for an ending that is no disposition.
    """
    if isinstance(operation, Update):
        return [] if operation.content is None else [(operation.id, Disposition.REWORDED)]
    if isinstance(operation, Merge):
        return [(memory_id, Disposition.MERGED) for memory_id in dict.fromkeys(operation.ids)]
    return [(operation.id, _ENDS.get(operation.ended_as))] if isinstance(operation, Delete) else []
