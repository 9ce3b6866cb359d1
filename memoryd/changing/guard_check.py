"""Run the guard check: read the input of the guards in the transaction that plans a change.

Tokens are estimated from characters, because the guards must give the same result with and without a tokenizer. They
compare only sums of such estimates.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import Connection

from memoryd.changing.writer import Writer
from memoryd.clock import moment_of, text_of
from memoryd.database import audit, memories
from memoryd.errors import RefusedError
from memoryd.gauge.estimate import estimate
from memoryd.ledger import erosion, guards
from memoryd.ledger.accounting import Rewrite
from memoryd.ledger.erosion import Drop
from memoryd.ledger.guards import Caller, Context, Guard, GuardLimits, RefinementStart, Refusal
from memoryd.ledger.memory import Memory, MemoryKind
from memoryd.ledger.operation import Add, Change, Delete, Operation, apply, ids_of

ACTOR = "memoryd"  # actor in the audit: memoryd itself …
HUMAN = "human"  # … a person …
AGENT_TOOL = "agent-tool"  # … or a tool that an agent calls


@dataclass(frozen=True, slots=True)
class GuardCheckResult:
    """Hold the accepted changes and the refusals.

    `allowance` says, for people, how much of the deletion limit is left; it is empty if that limit did not refuse.
    """

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    allowance: str = ""


def judge(
    connection: Connection,
    writer: Writer,
    agent_id: str,
    operations: Sequence[Operation],
    caller: Caller,
    *,
    said_anew: Collection[str] = (),
    seen: Mapping[str, str] | None = None,
    rewrite: Rewrite | None = None,
    begun: RefinementStart | None = None,
) -> GuardCheckResult:
    """Return the changes that the guards accept, and the refusals; write nothing.

    Args:
        connection: the transaction that plans the change.
        writer: the tools of the commit.
        agent_id: the agent.
        operations: the operations, in order.
        caller: the source of the operations.
        said_anew: the hashes of forgotten texts that the user has repeated, as the job found.
        seen: the text of each memory at the time of the decision, by id.
        rewrite: the memories that a rewrite was made from, and those that it mentions.
        begun: the state of the core when a refinement began.

    Raises:
        OperationError: an operation cannot be applied, for example because a memory is missing.
    """
    known: dict[str, Memory] = {}
    if not all(isinstance(operation, Add) for operation in operations):  # additions lose nothing
        known = {memory.id: memory for memory in memories.read_live(connection, agent_id, MemoryKind.CORE)}
    known |= memories.by_ids(connection, agent_id, _list_ids(operations) - known.keys())
    now = writer.now()
    context = context_of(connection, agent_id, known, caller=caller, now=now, limits=writer.limits)
    context = replace(context, said_anew=said_anew, rewrite=rewrite, begun=begun, seen=seen or {})
    judged = guards.judge(context, operations)
    taken = memories.TakenIds(connection)
    changes = apply(known, judged.accepted, agent_id=agent_id, now=now, new_hex=writer.new_id, taken=taken)
    too_much = next((one for one in judged.refusals if one.guard is Guard.EROSION), None)
    return GuardCheckResult(tuple(changes), judged.refusals, "" if too_much is None else _allowance(context, too_much))


def _allowance(context: Context, too_much: Refusal) -> str:
    """Describe for people how much the changes would lose, and when the deletion limit would allow it."""
    lost, used, base, percent = (too_much.numbers[name] for name in ("lost", "before", "base", "percent"))
    most = int(base * percent / 100)
    behind = guards.fits_behind(context, too_much)
    # Round up, because the message shows only minutes.
    ends = None if behind is None else moment_of(behind) + erosion.WINDOW + timedelta(minutes=1)
    when = "it never fits" if ends is None else f"without other losses it fits from {ends:%F %H:%M} UTC on"
    told = f"this loses about {lost:,} tokens; {used:,} of the {most:,} for 30 days ({percent:g} %) are used"
    return f"{told}; {when}"


def context_of(
    connection: Connection, agent_id: str, known: Mapping[str, Memory], *, caller: Caller, now: str, limits: GuardLimits
) -> Context:
    """Return the input of the guards; `known` has the memories that they need, by id."""
    return Context(
        caller=caller,
        agent_id=agent_id,
        memories=known,
        count_tokens=estimate,
        limits=limits,
        drops=_drops(connection, agent_id, now) if known else (),
        tombstones=memories.read_tombstones(connection, agent_id),
        buried=memories.read_forgotten(connection, agent_id) if caller is Caller.REWRITE else {},
    )


def count_eroded(connection: Connection, agent_id: str, now: str) -> int:
    """Return the tokens of the core that were lost in the last 30 days, without the losses by people."""
    live = [one.content for one in memories.read_live(connection, agent_id, MemoryKind.CORE)]
    return erosion.count_lost(_drops(connection, agent_id, now), live, estimate)


def count_deletable(
    connection: Connection, agent_id: str, now: str, percent: float, core: Sequence[Memory], changes: Sequence[Change]
) -> int:
    """Return how many tokens of the core jobs may still delete within the deletion limit.

    Args:
        connection: of the state database.
        agent_id: the agent.
        now: UTC, ISO 8601.
        percent: the limit, `guards.erosion_percent`.
        core: the live core as it is after `changes`.
        changes: changes of the core that are not written yet.
    """
    after = {one.id: one for one in (*(change.after for change in changes), *core)}
    drops = [*_drops(connection, agent_id, now), *(drop for _, drop in erosion.drops_of(changes, after, now))]
    eroded = erosion.count_lost(drops, [one.content for one in core], estimate)
    return max(0, int((guards.core_tokens(core, estimate) + eroded) * percent / 100) - eroded)


def _drops(connection: Connection, agent_id: str, now: str) -> list[Drop]:
    since = text_of(moment_of(now) - erosion.WINDOW)
    return erosion.select_window(audit.list_drops(connection, agent_id, since, but=HUMAN), now)


def _list_ids(operations: Sequence[Operation]) -> set[str]:
    named = {memory_id for operation in operations for memory_id in ids_of(operation)}
    return named | {one for operation in operations if isinstance(operation, Delete) for one in operation.successors}


_HINTS = {
    Guard.CONSTITUTIONAL: "to change it, run memoryd core unprotect first",
    Guard.RETENTION: "remove less at a time, or edit MEMORY.md by hand (guards.retention_floor)",
    Guard.EROSION: "remove less at a time, or edit MEMORY.md by hand (guards.erosion_percent)",
    Guard.TOMBSTONE: "to bring it back, write it into MEMORY.md by hand",
}


def require_passed(passed: GuardCheckResult) -> None:
    """Raise an error if a guard refused anything.

    Raises:
        RefusedError: a guard refused; the error names the guards, the memories and what a person can do.
    """
    if passed.refusals:
        told = {Guard.EROSION: f": {passed.allowance}"}
        why = "; ".join(f"{one.guard}: {one.why}{told.get(one.guard, '')}" for one in passed.refusals)
        named = dict.fromkeys(memory_id for one in passed.refusals for memory_id in one.memory_ids)
        hints = dict.fromkeys(_HINTS[one.guard] for one in passed.refusals if one.guard in _HINTS)
        raise RefusedError(why, ", ".join(named), "; ".join(hints))
