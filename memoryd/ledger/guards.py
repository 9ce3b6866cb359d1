"""Guard operations: check them before they are applied, with the same checks for every source of operations.

Some guards refuse one operation, and the operations that depend on it: constitutional, erasure, tombstone, and the
checks that a caller adds. Other guards refuse the whole run: retention, erosion, cap, accounting. Their limits:

- retention: refused if tokens left < floor * tokens at the start. Exactly the floor is allowed.
- erosion: refused if tokens lost > percent of (live tokens + tokens lost before). Exactly the percent is allowed. The
  module `erosion` defines which losses count.
- cap: refused if operations > max. Exactly max is allowed.

Only the constitutional guard refuses an edit by a person (`OWNER`, `FILE`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import count
from typing import Any

from memoryd.ledger import erosion
from memoryd.ledger.accounting import Rewrite, list_unaccounted
from memoryd.ledger.erosion import Drop
from memoryd.ledger.forgetting import buried_since, forgotten_since, is_said_since
from memoryd.ledger.memory import TOMBSTONES, Ending, Memory, MemoryKind, hash_of
from memoryd.ledger.operation import (
    Add,
    Change,
    Delete,
    Merge,
    Operation,
    Protect,
    Restore,
    Unprotect,
    Update,
    apply,
    ids_of,
    text_of,
)
from memoryd.ledger.steering import NO_THEME, is_theme
from memoryd.tiers.core import normalize


class Caller(StrEnum):
    """Name the sources of operations."""

    OWNER = "owner"  # a command of the owner of the workspace
    FILE = "file"  # an imported edit of the file, by any person or program
    TOOL = "tool"  # an agent's tool: save, update, replace
    EXTRACTION = "extraction"  # the sleep and facts jobs
    REWRITE = "rewrite"  # the dream job
    REFINEMENT = "refinement"
    DEDUP = "dedup"
    JOURNAL = "journal"  # memoryd's reports to the agent about changes of its memory


_OWN_HAND = frozenset({Caller.OWNER, Caller.FILE})
# Dedup loses no text, because a copy of each ended memory stays.
_BOUNDED = frozenset(Caller) - _OWN_HAND - {Caller.DEDUP}


class Guard(StrEnum):
    """Name the guards in the form of run reports and logs."""

    CONSTITUTIONAL = "constitutional"
    RETENTION = "retention"
    EROSION = "erosion"
    CAP = "cap"
    ACCOUNTING = "accounting"
    GROUNDING = "grounding"
    TAINT = "taint"
    TOMBSTONE = "tombstone"
    ERASURE = "erasure"
    EDITED = "edited"  # the memory has changed since the decision


@dataclass(frozen=True, slots=True)
class Refusal:
    """Hold the reason why a guard refuses: the guard, memory ids and numbers, but no text of a memory."""

    guard: Guard
    memory_ids: tuple[str, ...]
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefusedOperation(Refusal):
    """Report that one operation is refused; the other operations of the list may still be accepted."""

    operation: Operation = field(kw_only=True)


OperationCheck = Callable[[Operation], RefusedOperation | None]  # returns None if it accepts the operation


@dataclass(frozen=True, slots=True)
class RefusedRun(Refusal):
    """Report that all operations of the list are refused."""


@dataclass(frozen=True, slots=True)
class JudgedOperations:
    """Hold the accepted operations, in order, and the refusals."""

    accepted: tuple[Operation, ...]
    refusals: tuple[RefusedOperation | RefusedRun, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Hold the configured limits (`guards.*`, `refine.max_mutations`)."""

    retention_floor: float = 0.5  # the share of the core's tokens that must remain, 0..1
    erosion_percent: float = 25  # percent of the core's tokens that may be lost within 30 days, 0..100
    max_mutations: int = 25


@dataclass(frozen=True, slots=True)
class RefinementStart:
    """Hold the state of the core when a refinement began.

    The retention guard uses it: memories that other sources added later do not count as remaining.
    """

    tokens: int  # the tokens of the live core at that time
    ids: frozenset[str]  # the ids of the core memories that were live at that time
    mutations: int = 0  # the number of operations of this refinement so far


@dataclass(frozen=True, slots=True)
class Context:
    """Hold the input of the guards.

    Attributes:
        caller: the source of the operations.
        agent_id: the agent whose memories change.
        memories: the memories in their present state, by id: all live ones, and the ended ones that operations name. If
            operations only add memories, the live ones may be left out, because nothing can be lost.
        count_tokens: returns the number of tokens of a text.
        limits: the configured limits.
        begun: the start of the refinement; None if losses are measured against the present core.
        drops: the losses of the core in the last 30 days, without these operations, oldest first.
        tombstones: the time when each deliberately forgotten text was last forgotten, by its hash.
        buried: the same for forgotten texts that are still stored, by text. An added memory may not repeat one in other
            words.
        said_anew: the hashes of texts that a person has repeated since they were forgotten.
        rewrite: the memories that a rewrite mentions; None if the caller is no rewrite.
        seen: the text of each memory at the time of the decision, by id; memories may have changed since then.
    """

    caller: Caller
    agent_id: str
    memories: Mapping[str, Memory]
    count_tokens: Callable[[str], int]
    limits: GuardLimits = GuardLimits()
    begun: RefinementStart | None = None
    drops: Sequence[Drop] = ()
    tombstones: Mapping[str, str] = field(default_factory=dict)
    buried: Mapping[str, str] = field(default_factory=dict)
    said_anew: Collection[str] = frozenset()
    rewrite: Rewrite | None = None
    seen: Mapping[str, str] = field(default_factory=dict)


def core_tokens(memories: Iterable[Memory], count_tokens: Callable[[str], int]) -> int:
    """Count the tokens of the live core, without facts and journal entries."""
    return sum(map(count_tokens, _core_texts(memories)))


def _core_texts(memories: Iterable[Memory]) -> list[str]:
    return [memory.content for memory in memories if memory.kind is MemoryKind.CORE and memory.is_live]


def describe_refusals(refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    """Return refusals in the form of run reports: guard, ids, reason and numbers, without texts of memories."""
    return [
        {"guard": str(one.guard), "memories": list(one.memory_ids), "why": one.why, "numbers": dict(one.numbers)}
        for one in refusals
    ]


def judge(context: Context, operations: Sequence[Operation], checks: Sequence[OperationCheck] = ()) -> JudgedOperations:
    """Return the operations that the guards accept, and the refusals of the others.

    Args:
        context: the state that the guards check against.
        operations: the operations, in order.
        checks: further guards of single operations, for example guards that read the cited texts.

    Raises:
        OperationError: the accepted operations cannot be applied, see `apply`.
    """
    refusals: list[RefusedOperation] = []
    accepted: list[Operation] = []
    barred = {one.id for one in context.memories.values() if one.constitutional and one.is_live}
    for operation in operations:
        refusal = _refuse_operation(context, operation, barred, checks)
        if refusal is not None:
            refusals.append(refusal)
            continue
        accepted.append(operation)
        if isinstance(operation, Protect):
            barred.add(operation.id)
    for _ in operations:  # each round may refuse operations on which others depend
        if not (fallen := _drop_dependent(accepted, refusals)):
            break
        refusals += fallen
        gone = {id(refusal.operation) for refusal in fallen}
        accepted = [operation for operation in accepted if id(operation) not in gone]
    runs = list(_refused_runs(context, accepted))
    return JudgedOperations((), (*refusals, *runs)) if runs else JudgedOperations(tuple(accepted), tuple(refusals))


# ── guards of one operation ──────────────────────────────────────────────────────────────────────────────────────


def _refuse_operation(
    context: Context, operation: Operation, barred: Collection[str], checks: Sequence[OperationCheck]
) -> RefusedOperation | None:
    for guard in (_constitutional, _protection, _erasure, _check_edited, _tombstone, _heading):
        why = guard(context, operation, barred)
        if why is not None:
            return RefusedOperation(why[0], why[1], why[2], operation=operation)
    return next((refusal for check in checks if (refusal := check(operation)) is not None), None)


_Why = tuple[Guard, tuple[str, ...], str] | None


def _constitutional(context: Context, operation: Operation, barred: Collection[str]) -> _Why:
    """Refuse a change of a protected memory; only a person may move it within the file."""
    if not isinstance(operation, Update | Merge | Delete):
        return None
    if isinstance(operation, Update) and _is_place(operation) and context.caller in _OWN_HAND:
        return None
    hit = tuple(memory_id for memory_id in ids_of(operation) if memory_id in barred)
    return (Guard.CONSTITUTIONAL, hit, "the memory is protected") if hit else None


def _is_place(update: Update) -> bool:
    return update == Update(update.id, heading=update.heading, position=update.position)


def _protection(context: Context, operation: Operation, _barred: Collection[str]) -> _Why:
    """Refuse to protect or unprotect a memory, except for the owner; a refinement may protect memories."""
    if not isinstance(operation, Protect | Unprotect) or context.caller is Caller.OWNER:
        return None
    if context.caller is Caller.REFINEMENT and isinstance(operation, Protect):
        return None
    return Guard.CONSTITUTIONAL, (operation.id,), "only the owner may change the protection"


def _erasure(context: Context, operation: Operation, _barred: Collection[str]) -> _Why:
    if isinstance(operation, Delete) and operation.ended_as is Ending.ERASED and context.caller is not Caller.OWNER:
        return Guard.ERASURE, (operation.id,), "only the owner may erase a text"
    return None


def _check_edited(context: Context, operation: Operation, _barred: Collection[str]) -> _Why:
    """Refuse an operation on a memory that has changed or ended since the decision."""
    named = (*ids_of(operation), *(operation.successors if isinstance(operation, Delete) else ()))
    moved = tuple(memory_id for memory_id in named if memory_id in context.seen and _has_moved(context, memory_id))
    return (Guard.EDITED, moved, "it was changed since the decision was made") if moved else None


def _has_moved(context: Context, memory_id: str) -> bool:
    memory = context.memories.get(memory_id)
    return memory is None or not memory.is_live or memory.content != context.seen[memory_id]


def _tombstone(context: Context, operation: Operation, _barred: Collection[str]) -> _Why:
    """Refuse to store a deliberately forgotten text, unless a person restores or repeats it."""
    if context.caller in _OWN_HAND:
        return None
    if isinstance(operation, Restore):
        memory = context.memories.get(operation.id)
        forgotten = memory.content_hash if memory is not None and memory.ended_as in TOMBSTONES else None
        is_forgotten = forgotten is not None and forgotten not in context.said_anew
    else:
        is_forgotten = _is_forgotten(context, operation)
    return (Guard.TOMBSTONE, ids_of(operation), "it was forgotten on purpose") if is_forgotten else None


def _heading(context: Context, operation: Operation, _barred: Collection[str]) -> _Why:
    """Refuse a new heading from a rewrite unless it is a short theme."""
    if context.caller is not Caller.REWRITE or not isinstance(operation, Add | Update | Merge) or not operation.heading:
        return None
    name = normalize(operation.heading)
    if is_theme(operation.heading) or any(normalize(one.heading or "") == name for one in context.memories.values()):
        return None
    return Guard.TAINT, ids_of(operation), NO_THEME


def _is_forgotten(context: Context, operation: Operation) -> bool:
    text = text_of(operation)
    if text is None or hash_of(text) in context.said_anew:
        return False
    since = forgotten_since(text, context.tombstones)
    if since is None and isinstance(operation, Add):
        since = buried_since(text, context.buried)
    return since is not None and not is_said_since(operation, since)


def _drop_dependent(accepted: Sequence[Operation], refusals: Sequence[RefusedOperation]) -> list[RefusedOperation]:
    """Return refusals of operations that depend on refused ones.

    Such an operation names a memory that was not added, or adds the successor of a memory that did not end.
    """
    refused = [(one, one.operation) for one in refusals]
    unmade = {op.id: one for one, op in refused if isinstance(op, Add | Merge) and op.id is not None}
    spared = {new: one for one, op in refused if isinstance(op, Delete) for new in op.successors}
    replacing = {new for op in accepted if isinstance(op, Delete) for new in op.successors}
    fallen = []
    for operation in accepted:
        named = (*ids_of(operation), *(operation.successors if isinstance(operation, Delete) else ()))
        cause = next((unmade[memory_id] for memory_id in named if memory_id in unmade), None)
        if cause is None and isinstance(operation, Add | Merge) and operation.id not in replacing:
            cause = spared.get(operation.id or "")
        if cause is not None:
            why = "it depends on an operation that was refused"
            fallen.append(RefusedOperation(cause.guard, ids_of(operation), why, operation=operation))
    return fallen


# ── guards of the whole run ──────────────────────────────────────────────────────────────────────────────────────


def _refused_runs(context: Context, operations: Sequence[Operation]) -> Iterable[RefusedRun]:
    numbers = count()
    changes = apply(
        context.memories, operations, agent_id=context.agent_id, now="", new_hex=lambda: f"{next(numbers):08x}"
    )
    if context.caller in _BOUNDED:
        yield from _retention(context, _apply_changes(context, changes))
        yield from _erosion(context, changes)
    if context.caller is Caller.REFINEMENT:
        yield from _cap(context, operations)
    if context.rewrite is not None and (lost := list_unaccounted(context.rewrite, operations)):
        why = "earlier memories without exactly one disposition"
        yield RefusedRun(Guard.ACCOUNTING, tuple(lost), why, {"lost": len(lost)})


def _retention(context: Context, after: Mapping[str, Memory]) -> Iterable[RefusedRun]:
    begun = context.begun
    start = begun.tokens if begun else core_tokens(context.memories.values(), context.count_tokens)
    left = core_tokens(_find_descendants(context, after), context.count_tokens)
    floor = _exact(context.limits.retention_floor)
    if left < floor * start:
        numbers = {"start": start, "left": left, "floor": float(floor)}
        yield RefusedRun(Guard.RETENTION, _list_gone(context, after), "too little of the core would be left", numbers)


def _find_descendants(context: Context, after: Mapping[str, Memory]) -> Iterable[Memory]:
    """Return the memories that existed when the refinement began, and memories derived from them."""
    if context.begun is None:
        return after.values()
    start = context.begun.ids
    return [one for one in after.values() if one.id in start or not start.isdisjoint(one.derived_from)]


@dataclass(frozen=True, slots=True)
class Erosion:
    """Hold the effect of operations on the losses within 30 days, in tokens.

    Attributes:
        before: the tokens lost without these operations.
        after: the tokens lost with these operations.
        base: the tokens of the live core plus the tokens lost before.
        budget: the number of tokens of `base` that may be lost.
        drops: the losses by these operations, each with the id of the memory.
    """

    before: int
    after: int
    base: int
    budget: Fraction
    drops: Sequence[tuple[str, Drop]]


def erode(context: Context, changes: Sequence[Change]) -> Erosion:
    """Return the losses that changes cause in the core.

    Args:
        context: the input of the guards, with all of the live core.
        changes: the changes, in order.
    """
    after = _apply_changes(context, changes)
    live = _core_texts(after.values())
    drops = erosion.drops_of(changes, after, "")
    before = erosion.count_lost(context.drops, _core_texts(context.memories.values()), context.count_tokens)
    lost = erosion.count_lost([*context.drops, *(drop for _, drop in drops)], live, context.count_tokens)
    base = core_tokens(context.memories.values(), context.count_tokens) + before
    return Erosion(before, lost, base, _exact(context.limits.erosion_percent) * base / 100, drops)


def fits_behind(context: Context, refused: Refusal) -> str | None:
    """Return when the changes that the erosion guard refused will fit, because enough earlier losses are old enough.

    Args:
        context: the input of the guards.
        refused: a refusal by the erosion guard.

    Returns:
        The time of the loss that must become older than 30 days, UTC, ISO 8601. None if the changes alone exceed the
            limit.
    """
    live = _core_texts(context.memories.values())
    tokens = core_tokens(context.memories.values(), context.count_tokens)
    lost, percent = _exact(refused.numbers["lost"]), _exact(refused.numbers["percent"])
    drops = sorted(context.drops, key=lambda drop: drop.at)
    for gone, drop in enumerate(drops, 1):
        left = erosion.count_lost(drops[gone:], live, context.count_tokens)
        if left + lost <= percent * (tokens + left) / 100:
            return drop.at
    return None


def _apply_changes(context: Context, changes: Iterable[Change]) -> dict[str, Memory]:
    return {**context.memories, **{change.memory_id: change.after for change in changes}}


def _erosion(context: Context, changes: Sequence[Change]) -> Iterable[RefusedRun]:
    told = erode(context, changes)
    if told.after > told.before and told.after > told.budget:
        percent = float(_exact(context.limits.erosion_percent))
        lost = told.after - told.before
        live = _core_texts(_apply_changes(context, changes).values())
        ids = dict.fromkeys(one for one, drop in told.drops if erosion.count_lost([drop], live, context.count_tokens))
        numbers = {"before": told.before, "lost": lost, "base": told.base, "percent": percent}
        yield RefusedRun(Guard.EROSION, tuple(ids), "too much of the core would be lost within 30 days", numbers)


def _cap(context: Context, operations: Sequence[Operation]) -> Iterable[RefusedRun]:
    done = (context.begun.mutations if context.begun else 0) + len(operations)
    if operations and done > context.limits.max_mutations:
        ids = tuple(dict.fromkeys(memory_id for operation in operations for memory_id in ids_of(operation)))
        numbers = {"operations": done, "max": context.limits.max_mutations}
        yield RefusedRun(Guard.CAP, ids, "too many changes in one refinement", numbers)


def _list_gone(context: Context, after: Mapping[str, Memory]) -> tuple[str, ...]:
    live = (one for one in context.memories.values() if one.kind is MemoryKind.CORE and one.is_live)
    return tuple(one.id for one in live if not after[one.id].is_live)


def _exact(number: float) -> Fraction:
    # Use the written form of the configuration, because 0.1 * 30 is not exactly 3 in binary.
    return Fraction(str(number))
