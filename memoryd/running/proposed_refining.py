"""Run a refinement on a copy of the core. Its result waits for a person's answer.

The guards judge each call on the result of the earlier calls, in a transaction that is rolled back. At the end, the
accepted calls become one proposal. If a guard stopped the refinement or a person cancelled it, there is no proposal.

Accepting is one commit on the present core. A memory that somebody has changed meanwhile stays, and so do the steps
that depend on it. If too little would remain, nothing is changed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from memoryd.changing import ledger_runs
from memoryd.changing.guard_check import GuardCheckResult
from memoryd.changing.plan import Preview
from memoryd.gauge.estimate import estimate
from memoryd.jobs import tally
from memoryd.jobs.job import Done, JobEdit, Operate
from memoryd.jobs.refinement import BREAKERS, RefinementSession, rejudge_timeline
from memoryd.ledger.guards import Caller, Guard, RefinementStart, Refusal, core_tokens
from memoryd.ledger.memory import Memory, MemoryKind
from memoryd.ledger.operation import Add, Change, Delete, Merge

WAITS = "it waits for a person's answer, and nothing is changed yet"
WHOLE = BREAKERS | {Guard.CAP}
KIND = ledger_runs.REFINE
TAG = "refinement"  # tag of the journal entries about refinements
PENDING = "edits"  # key of the changes so far, between two calls


@dataclass(slots=True)
class RefinementSandbox:
    """Hold the result of a refinement so far: the accepted operations, and the changes that they would make."""

    edits: tuple[Operate, ...] = ()
    changes: tuple[Change, ...] = ()

    def apply_to(self, live: list[Memory]) -> list[Memory]:
        """Return the core with these changes, in the order of the file."""
        if not self.changes:
            return live
        held = {one.id: one for one in live}
        held |= {one.memory_id: one.after for one in self.changes if one.after.kind is MemoryKind.CORE}
        left = (one for one in held.values() if one.is_live)
        return sorted(left, key=lambda one: (one.position is None, one.position or 0, one.created_at, one.id))

    def judged_again(self, session: RefinementSession, planned: Preview) -> RefinementSession:
        """Return the session with the verdicts of a second check of all operations; refused ones are dropped here."""
        refused = refused_by(self.edits, planned.passed)
        self.edits = tuple(edit for edit, passed in zip(self.edits, planned.passed, strict=True) if passed.changes)
        self.changes = planned.changes
        timeline = rejudge_timeline(session.timeline, refused)
        return replace(session, timeline=timeline, mutations=session.mutations - sum(map(bool, refused)))


def make_entry(text: str, now: str) -> Operate:
    """Return the edit that adds a report about a refinement to the journal."""
    return Operate((Add(MemoryKind.JOURNAL, text, tags=(TAG,), origin_at=now),), Caller.JOURNAL)


def with_id(operate: Operate, changes: Sequence[Change]) -> Operate:
    """Return a merge with the id of the new memory, so that later operations can name that memory."""
    made = next((one.memory_id for one in changes if one.before is None), None)
    named = (replace(one, id=made) if isinstance(one, Merge) else one for one in operate.operations)
    return operate if made is None else replace(operate, operations=tuple(named))


def refused_by(edits: Sequence[JobEdit], passed: Sequence[GuardCheckResult]) -> list[Guard | None]:
    """Return the guard that refuses each operation of a refinement, in order; None for an accepted one."""
    both = zip((edit for edit in edits if isinstance(edit, Operate)), passed, strict=False)
    found = [one for edit, one in both if edit.caller is Caller.REFINEMENT]
    return [one.refusals[0].guard if one.refusals else None for one in found]


# --- the answer -------------------------------------------------------------------------------------------------------


def is_refused(refusals: Iterable[Refusal]) -> bool:
    """Return True if a guard refuses the refinement as a whole, so that no part of it is carried out."""
    return any(one.guard in WHOLE for one in refusals)


def measure_against(done: Done, core: Sequence[Memory]) -> Done:
    """Return a proposal with the limits of its guards measured on the core on which it is carried out.

    Args:
        done: the proposed decision.
        core: the live core.
    """
    gone = {
        one.id
        for edit in done.edits
        if isinstance(edit, Operate) and edit.caller is Caller.DEDUP
        for one in edit.operations
        if isinstance(one, Delete)
    }
    start = [one for one in core if one.id not in gone]
    tokens, ids = core_tokens(start, estimate), frozenset(one.id for one in start)
    before = count()
    edits = (
        replace(edit, begun=RefinementStart(tokens, ids, next(before)))
        if isinstance(edit, Operate) and edit.caller is Caller.REFINEMENT
        else edit
        for edit in done.edits
    )
    told = done.receipt[KIND] | {"start": {"tokens": tokens, "memories": len(start)}}
    return replace(done, edits=tuple(edits), receipt=done.receipt | {KIND: told})


def as_passed(done: Done, planned: Preview, day: str, now: str, how: str) -> Done:
    """Return the part of a proposal that the guards accept, with a report and a journal entry for the agent.

    Args:
        done: the decision that `measure_against` returned.
        planned: its effect.
        day: local day, YYYY-MM-DD.
        now: UTC, ISO 8601 with `Z`.
        how: why it was carried out, for the journal entry.
    """
    told = done.receipt[KIND]
    counts = tally.of_changes(planned.changes)
    refused = refused_by(done.edits, planned.passed)
    sizes = (told["start"]["tokens"], told["start"]["tokens"] - counts.saved)
    told = told | {
        "counted": counts.row(),
        "end": {"tokens": sizes[1]},
        "timeline": list(rejudge_timeline(told["timeline"], refused)),
        "mutations": len(refused) - sum(map(bool, refused)),
    }
    if done.summary:
        told["unfounded"] = ["numbers"] if tally.is_miscounted(done.summary, counts, sizes) else []
    if left_out := sum(map(bool, refused)):
        how = f"{how}; the guards refused {left_out} of its changes"
    edits = (*done.edits, make_entry(tally.write_entry(day, counts, sizes, how, done.summary), now))
    return replace(done, edits=edits, receipt=done.receipt | {KIND: told})


def told_of(done: Done, planned: Preview, day: str) -> str:
    """Return the counts and the summary of a proposed refinement, for the person who decides about it."""
    counts, start = tally.of_changes(planned.changes), done.receipt[KIND]["start"]["tokens"]
    return tally.write_entry(day, counts, (start, start - counts.saved), None, done.summary)
