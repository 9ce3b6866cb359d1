"""Plan a rollback: which states to restore, and which later changes prevent it.

A plan compares each object that a run changed (memories, watermarks, files) at three times: before the run, after it,
and now. If the object is still in the state after the run, it returns to the state before it. If a later run changed a
memory, there is a conflict, and nothing is rolled back. A memory that the run added stays as a row, ended as `undone`.
If the run is itself a rollback, there is also a conflict if a later run has processed the same messages again.
Otherwise the restored memories would exist beside those of the later run.

A rollback is a run of its own and is audited like any other. The audit also records it as the state of `run:ID`. A
rollback of the rollback sets this state back. Text that was forgotten after the run stays forgotten.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from memoryd.errors import NotFoundError, RefusedError
from memoryd.ledger import audit, forgetting
from memoryd.ledger.memory import Ending, from_json, to_json

OPERATION = "rollback"  # the name of the operation in the audit

_TELLS_MORE = "run memoryd job show to see it without its text"
_HINTS = {"erased": "what was forgotten cannot be brought back", "was repeated": "so nothing is missing"}
_MOVING = (audit.WATERMARK, audit.FILE)
# The use of a grant, a refused request and a forgotten session cannot be undone.
_STAYS = (audit.ACCESS, audit.GRANT, audit.SESSION)
_NO_MEMORY = (*_MOVING, *_STAYS, audit.RUN, audit.PROPOSAL, audit.PROFILE)
StateTexts = Callable[[str], str | None]  # returns the state of a digest; None if it is erased


@dataclass(frozen=True, slots=True)
class RollbackStep:
    """Move one object from one state to another; states are canonical JSON, or None if there is no object."""

    memory_id: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Report an object that prevents a rollback.

    Attributes:
        memory_id: the id of a memory, or the name of a watermark in the audit.
        why: `changed` by later runs, `needed` as the successor of a memory that a later run ended, `erased`, or `was
            repeated` if it is a watermark and a later run processed the same messages again.
        later: (audit id, run id) of the entries that prevent the return.
    """

    memory_id: str
    why: str
    later: tuple[tuple[int, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Hold the effects of a rollback.

    Attributes:
        steps: in the order in which they are carried out and audited; empty if nothing is left to do.
        conflicts: if there are any, nothing may be done.
        stayed: what later runs changed and does not go back: watermarks, so that nothing is processed twice; files, of
            which only the bullets of the steps are reverted; and memories that were forgotten since.
        there: pairs of a memory whose text would come back, and a live memory that says the same.
        already: True if the run was rolled back before.
        back: the id of the last audit entry before the first change in conflict; 0 if there is none.
    """

    steps: tuple[RollbackStep, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    stayed: tuple[str, ...] = ()
    there: tuple[tuple[str, str], ...] = ()
    already: bool = False
    back: int = 0

    def find_refusal(self) -> RefusedError | None:
        """Return an error that names each conflict and the later runs; None if there are no conflicts."""
        if not self.conflicts:
            return None
        told = "; ".join(name_conflict(one.memory_id, one.why, one.later) for one in self.conflicts)
        later = {at: run for one in self.conflicts for at, run in one.later}
        undo = " && ".join(dict.fromkeys(f"memoryd rollback {later[at]}" for at in sorted(later, reverse=True)))
        is_named = later and None not in later.values()  # an edit by hand is no run
        to = f"memoryd rollback --to {self.back} (check it with --dry-run first)" if self.back else "see memoryd audit"
        hint = f"first revert later changes: {undo if is_named else to}"
        why = {one.why: _HINTS[one.why] for one in self.conflicts if one.why in _HINTS}
        return RefusedError(f"cannot be rolled back: {told}", hint="; ".join(why.values()) or hint)

    def check(self) -> None:
        """Raise the error of `find_refusal` if there is one."""
        if error := self.find_refusal():
            raise error


@dataclass(slots=True)
class _Trace:
    """Hold the states of one object in the audit, as digests.

    "Own" entries are those to revert; all others are "foreign".
    """

    before: str | None  # the state before the first own entry
    after: str | None  # the state after the last own entry
    now: str | None
    is_forgotten: bool = False  # of a watermark: the session was forgotten since
    between: list[tuple[int, str | None]] = field(default_factory=list)  # foreign entries between own ones
    later: list[tuple[int, str | None]] = field(default_factory=list)  # foreign entries after the last own one


def name_conflict(memory_id: str, why: str, later: Iterable[tuple[int, str | None]]) -> str:
    """Return text for people about a conflict and the later changes that caused it.

    The items of `later` are (audit id, run id); an edit by hand has no run.
    """
    by = " and".join(f" by {run or 'an edit'} (audit {at})" for at, run in later)
    return f"{name_object(memory_id)} {why}{by}"


def name_copy(memory_id: str, live: str) -> str:
    """Return text for people about a memory whose text a live memory says already."""
    return f"{memory_id} is not brought back, because {live} has the same text"


def name_object(memory_id: str) -> str:
    """Return words for people about a memory or another object of the audit, such as a watermark."""
    session, _, consumer = memory_id.removeprefix(audit.WATERMARK).rpartition(":")
    return f"the processing of session {session} ({consumer})" if memory_id.startswith(audit.WATERMARK) else memory_id


def plan(
    entries: Sequence[audit.AuditEntry],
    texts: StateTexts,
    *,
    run_id: str,
    now: str,
    only: Collection[int] | None = None,
) -> RollbackPlan:
    """Return the plan that undoes all changes of one run, or some of them.

    Args:
        entries: the whole audit of the run's agent, ordered by id.
        texts: returns the state of a digest; None if it is erased.
        run_id: the run to undo; it may itself be a rollback.
        now: the time, UTC, ISO 8601 with `Z`.
        only: the audit ids of the entries to revert; None means all entries of the run. With it, the run is not marked
            as rolled back, and its other entries count as later changes.

    Raises:
        RefusedError: the run has changed nothing, or forgot something.
    """
    traces: dict[str, _Trace] = {}
    ends: dict[str, audit.AuditEntry] = {}
    mark, marked = audit.RUN + run_id, None
    for entry in entries:
        if entry.run_id == run_id and entry.operation == forgetting.OPERATION:
            raise RefusedError("what a run has forgotten cannot be brought back", where=run_id, hint=_TELLS_MORE)
        if entry.memory_id == mark:
            marked = entry.after
        of_run = entry.run_id == run_id if only is None else entry.id in only
        if traces and not of_run:
            ends[entry.memory_id] = entry
        _note(traces, entry, texts, of_run=of_run)
    if not traces:
        raise RefusedError("the run has changed nothing", where=run_id, hint="memoryd job list names the other runs")
    if marked is not None:
        return RollbackPlan(already=True)
    flag = RollbackStep(mark, None, audit.dump_state(rolled_back=run_id, at=now)) if only is None else None
    planned = _plan(traces, ends, texts, now, flag, is_run=True)
    later = min((at for one in planned.conflicts for at, _ in one.later), default=0)
    return replace(planned, back=_find_entry_before(entries, later))


def operation_of(
    entries: Sequence[audit.AuditEntry], texts: StateTexts, *, run_id: str, memory_id: str
) -> frozenset[int]:
    """Return the audit ids of a run's last operation on a memory; a merge has several entries.

    Args:
        entries: the whole audit of the run's agent, ordered by id.
        texts: returns the state of a digest; None if it is erased.
        run_id: the run.
        memory_id: the memory, or the result of its merge.

    Raises:
        RefusedError: the run has not changed this memory.
    """
    own = [entry for entry in entries if entry.run_id == run_id and not entry.memory_id.startswith(_NO_MEMORY)]
    last = next((entry for entry in reversed(own) if entry.memory_id == memory_id), None)
    if last is None:
        raise RefusedError("the run has not changed this memory", memory_id, f"memoryd audit --run {run_id}")
    made = _find_merged(last, texts)
    return frozenset({last.id} | {entry.id for entry in own if made and _find_merged(entry, texts) == made})


def _find_merged(entry: audit.AuditEntry, texts: StateTexts) -> str | None:
    """Return the id of the memory that a merge created, for any entry of the merge; None for other operations."""
    if entry.operation != "merge":
        return None
    if entry.before is None:
        return entry.memory_id
    state_ = None if entry.after is None else texts(entry.after)
    successors = () if state_ is None else from_json(state_).successors
    return successors[0] if successors else None


BACK, OUT, AS_BEFORE, REWORDED = "brought back", "taken out", "as before", "text as before"


def describe_outcome(before: str | None, after: str | None) -> str:
    """Return the effect of a rollback on a memory, as words for people; the states are those of a `RollbackStep`."""
    was, is_now = (None if one is None else from_json(one) for one in (before, after))
    if is_now is None or not is_now.is_live:
        return OUT if was is not None and was.is_live else AS_BEFORE
    if was is None or not was.is_live:
        return BACK
    return REWORDED if was.content != is_now.content else AS_BEFORE


def last_of_change(entries: Iterable[audit.AuditEntry], audit_id: int) -> int:
    """Return the id of the last entry that was written in the same transaction as the entry `audit_id`.

    All entries of a run belong together. An edit by hand has no run; its last entry is that of the file.
    """
    last: audit.AuditEntry | None = None
    for entry in entries:
        if last is None:
            last = entry if entry.id == audit_id else None
        elif _is_one_change(last, entry):
            last = entry
        else:
            break
    return audit_id if last is None else last.id


def _find_entry_before(entries: Sequence[audit.AuditEntry], audit_id: int) -> int:
    """Return the id of the last entry before the change with the entry `audit_id`; 0 if there is none."""
    ends = [one.id for one, other in pairwise(entries) if other.id <= audit_id and not _is_one_change(one, other)]
    return ends[-1] if ends else 0


def _is_one_change(entry: audit.AuditEntry, following: audit.AuditEntry) -> bool:
    if entry.run_id is not None or following.run_id is not None:
        return entry.run_id == following.run_id
    return entry.at == following.at and not entry.memory_id.startswith(audit.FILE)


def plan_to(entries: Sequence[audit.AuditEntry], texts: StateTexts, *, audit_id: int, now: str) -> RollbackPlan:
    """Return the plan that restores the state right after an entry and the entries written together with it.

    Text that was forgotten after the entry stays forgotten.

    Args:
        entries: the whole audit of one agent, ordered by id.
        texts: returns the state of a digest; None if it is erased.
        audit_id: the last entry that stays.
        now: the time, UTC, ISO 8601 with `Z`.

    Raises:
        NotFoundError: the agent has no such entry.
    """
    traces: dict[str, _Trace] = {}
    forgot = {entry.run_id for entry in entries if entry.operation == forgetting.OPERATION}
    last = last_of_change(entries, audit_id)
    forgotten: dict[str, None] = {}
    for entry in entries:
        if entry.id > last:
            if entry.run_id in forgot and not entry.memory_id.startswith((*_MOVING, *_STAYS)):
                forgotten[entry.memory_id] = None
            _note(traces, entry, texts, of_run=entry.run_id not in forgot)
    if all(entry.id != audit_id for entry in entries):
        raise NotFoundError("the audit has no such entry", where=str(audit_id), hint="list the audit of this agent")
    planned = _mark_runs(_plan(traces, {}, texts, now, None, is_run=False), entries, last, forgot, now)
    back = {*planned.stayed, *(step.memory_id for step in planned.steps)}
    return replace(planned, stayed=(*planned.stayed, *(one for one in forgotten if one not in back)))


def _mark_runs(
    planned: RollbackPlan, entries: Iterable[audit.AuditEntry], last: int, forgot: Collection[str | None], now: str
) -> RollbackPlan:
    """Return the plan with a mark for each run after the entry `last`, so that none of them is rolled back again."""
    own = {entry.run_id for entry in entries if entry.id > last and entry.run_id} - {*forgot}
    marked = {entry.memory_id: entry.after for entry in entries}
    steps = tuple(step for step in planned.steps if step.memory_id.removeprefix(audit.RUN) not in own)
    names = sorted(run_id for run_id in own if steps and marked.get(audit.RUN + run_id) is None)
    marks = (RollbackStep(audit.RUN + one, None, audit.dump_state(rolled_back=one, at=now)) for one in names)
    return replace(planned, steps=(*steps, *marks))


def _note(traces: dict[str, _Trace], entry: audit.AuditEntry, texts: StateTexts, *, of_run: bool) -> None:
    if entry.memory_id.startswith(audit.SESSION) and entry.operation == forgetting.OPERATION:
        # A forgotten session has no turns left to process, so its watermarks must stay.
        for name, marked in traces.items():
            if name.rpartition(":")[0] == f"{audit.WATERMARK}{entry.memory_id.removeprefix(audit.SESSION)}":
                marked.later.append((entry.id, entry.run_id))
                marked.is_forgotten = True
    if entry.memory_id.startswith(_STAYS):
        return
    trace = traces.get(entry.memory_id)
    if trace is None:
        if of_run:
            traces[entry.memory_id] = _Trace(entry.before, entry.after, entry.after)
        return
    if of_run:
        trace.between += trace.later if not _is_alike(entry.memory_id, trace.after, entry.before, texts) else []
        trace.later = []
        trace.after = entry.after
    else:
        trace.later.append((entry.id, entry.run_id))
    trace.now = entry.after


def _plan(
    traces: dict[str, _Trace],
    ends: dict[str, audit.AuditEntry],
    texts: StateTexts,
    now: str,
    flag: RollbackStep | None,
    *,
    is_run: bool,
) -> RollbackPlan:
    steps: list[RollbackStep] = []
    conflicts: list[Conflict] = []
    stayed: list[str] = []
    for memory_id, trace in reversed(traces.items()):
        if is_run and memory_id.startswith(audit.WATERMARK) and _is_repeated(trace, texts):
            conflicts.append(Conflict(memory_id, "was repeated", tuple(trace.later)))
            continue
        if trace.now == trace.before:
            continue
        ended = _ended_as(memory_id, trace.now, texts)
        if trace.before is None and ended is Ending.UNDONE:
            continue
        stands = any(_is_alike(memory_id, trace.now, one, texts) for one in (trace.after, trace.before))
        if trace.between or not stands:
            is_erased = ended is Ending.ERASED
            is_left = is_erased and flag is not None  # of a whole run, the rest goes back
            if memory_id.startswith(_MOVING) or is_left or (not is_run and (is_erased or trace.before is not None)):
                stayed.append(memory_id)
                continue
            if is_run:
                why = "erased" if is_erased else "changed"
                conflicts.append(Conflict(memory_id, why, (*trace.between, *trace.later)))
                continue
        step = _step(memory_id, trace, texts, now)
        if step is None:
            conflicts.append(Conflict(memory_id, "erased"))
        else:
            steps.append(step)
    conflicts += _find_needed({step.memory_id for step in steps if _ends(step)}, ends, texts)
    if conflicts:
        return RollbackPlan(conflicts=tuple(conflicts), stayed=tuple(stayed))
    return RollbackPlan((*steps, flag) if flag is not None else tuple(steps), stayed=tuple(stayed))


def _is_repeated(trace: _Trace, texts: StateTexts) -> bool:
    """Return True if own entries moved a watermark back, and a later run has processed the same messages again."""
    states = [None if state is None else texts(state) for state in (trace.before, trace.after)]
    before, after = (0 if state is None else int(audit.values_of(state).get("seq") or 0) for state in states)
    return after < before and trace.now != trace.after and not trace.is_forgotten


def _is_alike(memory_id: str, one: str | None, other: str | None, texts: StateTexts) -> bool:
    """Return True if two states, given as digests, are equal except for the time of the last change."""
    if one == other or one is None or other is None or memory_id.startswith(_NO_MEMORY):
        return one == other
    states = [texts(one), texts(other)]
    both = [replace(from_json(text), updated_at="") for text in states if text is not None]
    return len(both) == len(states) and both[0] == both[1]


def _ended_as(memory_id: str, known: str | None, texts: StateTexts) -> Ending | None:
    text = None if known is None or memory_id.startswith(_NO_MEMORY) else texts(known)
    return None if text is None else from_json(text).ended_as


def _step(memory_id: str, trace: _Trace, texts: StateTexts, now: str) -> RollbackStep | None:
    """Return the step that restores one object; None if a state that it needs is erased."""
    current = None if trace.now is None else texts(trace.now)
    goal = None if trace.before is None else texts(trace.before)
    if (goal is None) != (trace.before is None) or (current is None) != (trace.now is None):
        return None
    if goal is None and current is not None and not memory_id.startswith(_NO_MEMORY):
        ended = replace(from_json(current), deleted_at=now, updated_at=now, ended_as=Ending.UNDONE, successors=())
        goal = to_json(ended)
    return RollbackStep(memory_id, current, goal)


def _ends(step: RollbackStep) -> bool:
    return not step.memory_id.startswith(_NO_MEMORY) and step.after is not None and not from_json(step.after).is_live


def _find_needed(ending: set[str], ends: dict[str, audit.AuditEntry], texts: StateTexts) -> Iterator[Conflict]:
    """Yield conflicts for memories that would end although they succeed memories that a later run ended."""
    if not ending:
        return
    for memory_id, entry in ends.items():
        text = None if entry.after is None or memory_id.startswith(_NO_MEMORY) else texts(entry.after)
        if text is None or memory_id in ending:
            continue
        for successor in from_json(text).successors:
            if successor in ending:
                yield Conflict(successor, "needed", ((entry.id, entry.run_id),))
