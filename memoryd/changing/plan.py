"""Plan a run: find out how its edits would change the files, `MEMORY.md` and the memory store; write nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from memoryd.changing import dedup, guard_check
from memoryd.changing.core_import import CORE_FILE, RESOLVE, CoreImport, UnfinishedError
from memoryd.changing.guard_check import ACTOR
from memoryd.changing.time_machine import Revision, encode_append, encode_rewrite
from memoryd.changing.writer import Writer
from memoryd.database import audit, memories, runs, sqlite, turns
from memoryd.database.runs import Run
from memoryd.errors import MemorydError, RefusedError
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder
from memoryd.jobs.job import HEADINGS, AddMemories, AppendDaily, AppendDiary, JobEdit, Operate, RewriteCore, WriteFile
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.guards import Caller, Refusal
from memoryd.ledger.matching import map_places
from memoryd.ledger.memory import Memory, MemoryKind
from memoryd.ledger.operation import Add, Change, Delete, Operation
from memoryd.ledger.projection import Standing, assign_places, edits_of
from memoryd.text.conflicts import is_conflicted
from memoryd.tiers import core, daily, diary


class OutdatedError(MemorydError):
    """Report that the state on which the run decided has changed, so that the run must decide again."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Hold the effect that a commit would have, and the refusals of the guards."""

    rewrites: tuple[dict[str, Any], ...] = ()
    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    passed: tuple[guard_check.GuardCheckResult, ...] = ()  # one result for each list of operations; empty for a rewrite
    # Files that would change: path, bytes before and after; None means that there is no file.
    files: tuple[tuple[str, bytes | None, bytes | None], ...] = ()

    def is_as(self, foreseen: "Preview") -> bool:
        """Return True if the guards accept the same operations as in the preview `foreseen`."""
        both = zip(self.passed, foreseen.passed, strict=False)
        return len(self.passed) >= len(foreseen.passed) and all(_comes_to(a) == _comes_to(b) for a, b in both)


def _comes_to(
    passed: guard_check.GuardCheckResult,
) -> tuple[list[tuple[str | None, str, bool, bool]], list[tuple[str, Sequence[str]]]]:
    """Return the accepted changes and the refusals, without values that differ in each plan: ids, salts, times."""
    changes = [
        (None if one.before is None else one.memory_id, one.after.content, one.after.is_live, one.after.constitutional)
        for one in passed.changes
    ]
    return changes, [(one.guard, one.memory_ids) for one in passed.refusals]


def restore_put_back(brought: CoreImport) -> core.CoreFile:
    """Return `MEMORY.md` as imported, with the protected bullets that an edit had removed or changed put back."""
    file = core.parse(brought.data or b"")
    return core.parse(core.edit(file, [one.edit for one in brought.put_back])) if brought.put_back else file


class PlanBase(NamedTuple):
    """Hold the input of a plan.

    Attributes:
        file: `MEMORY.md` with its protected bullets restored.
        bullets: its bullets, with secrets redacted as in the memory store.
        revision: earlier states to restore; None if there are none.
        ahead: the changes of earlier edits that are not written yet.
    """

    file: core.CoreFile
    bullets: Sequence[core.Bullet]
    revision: Revision | None
    ahead: Sequence[Change] = ()


def plan_core(
    connection: Connection, writer: Writer, run: Run, edits: Sequence[JobEdit], brought: CoreImport, told: PlanBase
) -> Preview:
    """Return how the edits would change the memory store and `MEMORY.md` in their present state.

    Raises:
        OutdatedError: a rewrite was decided on other memories.
    """
    file, revision = told.file, told.revision
    cut = None if revision is None else revision.cut
    changes = list(revision.changes) if revision is not None else []
    passed = _check_edits(connection, writer, run, edits, told)
    changes += told.ahead
    changes += [change for one in passed for change in one.changes]
    refusals = tuple(refusal for one in passed for refusal in one.refusals)
    others = () if revision is None else tuple(encode_rewrite(*one, cut) for one in revision.rewrites)
    if revision is not None and revision.core is not None:
        rewrite = encode_rewrite(CORE_FILE, brought.data, None if revision.core_goes else revision.core)
        return Preview((rewrite, *others), tuple(changes), refusals, passed)
    live = memories.read_places(connection, run.agent_id)
    new = core.edit(file, list(_file_edits(live, changes, told.bullets)))
    if revision is not None:
        own = frozenset(HEADINGS.values()) - revision.headings
        new = core.drop_emptied(file, new if cut is None else cut.of_core(new), own)
    whole = next((edit for edit in edits if isinstance(edit, Operate) and edit.caller is Caller.REWRITE), None)
    if whole is not None:
        is_changed = bool(refusals) or not brought.agrees or {one.id: one.content for one in live} != whole.seen
        if isinstance(whole, RewriteCore) and is_changed:
            raise OutdatedError("the memory store changed meanwhile", str(writer.workspace / CORE_FILE))
        new = core.drop_emptied(file, new, frozenset(one.heading for one in told.bullets))
    if new == (brought.data or b""):
        return Preview(others, tuple(changes), refusals, passed)
    placed = _find_placed(changes, live)
    known = {one.id for one in live}
    lines = [[one.heading or "", one.content] for one in placed.values() if one.id not in known]
    rewrite = encode_rewrite(CORE_FILE, brought.data, new, cut) | {"additions": lines}
    if revision is None:  # a restored memory keeps its position
        changes = list(_place_changes(changes, live, placed, new))
    return Preview((rewrite, *others), tuple(changes), refusals, passed)


def _check_edits(
    connection: Connection, writer: Writer, run: Run, edits: Sequence[JobEdit], told: PlanBase
) -> tuple[guard_check.GuardCheckResult, ...]:
    """Return the result of the guards for each list of operations; each is judged on the result of the earlier ones."""
    passed: list[guard_check.GuardCheckResult] = []
    several = bool(told.ahead) or sum(isinstance(edit, AddMemories | Operate) for edit in edits) > 1
    with sqlite.undo_after(connection) if several else nullcontext():
        audit.record(connection, told.ahead, AuditStamp(writer.now(), run.agent_id, ACTOR, run.id))
        for operations, asked in _operations(connection, run, edits, told.file):
            one = guard_check.judge(
                connection, writer, run.agent_id, operations, asked.caller, seen=asked.seen, begun=asked.begun,
                rewrite=asked.rewrite if isinstance(asked, RewriteCore) else None,
            )  # fmt: skip
            passed.append(one)
            if several:
                audit.record(connection, one.changes, AuditStamp(writer.now(), run.agent_id, ACTOR, run.id))
    return tuple(passed)


def _operations(
    connection: Connection, run: Run, edits: Sequence[JobEdit], file: core.CoreFile
) -> Iterator[tuple[list[Operation], Operate]]:
    """Yield each list of operations with its edit, without additions that are already in the file."""
    there = {core.normalize(bullet.text) for bullet in file.bullets}
    fresh: list[Operation] = []
    for memory in [memory for edit in edits if isinstance(edit, AddMemories) for memory in edit.memories]:
        if core.normalize(memory.text) in there:
            continue
        there.add(core.normalize(memory.text))
        cites = turns.build_sources(connection, run.session_id or "", memory.sources)
        added = Add(
            MemoryKind.CORE, memory.text, cites=cites, category=str(memory.type), importance=memory.importance,
            heading=HEADINGS[memory.type], note=memory.note,
        )  # fmt: skip
        fresh.append(added)
    if fresh:
        yield fresh, Operate((), Caller.EXTRACTION)
    for edit in edits:
        if isinstance(edit, Operate) and edit.caller is Caller.DEDUP:
            deletes = [one for one in edit.operations if isinstance(one, Delete)]
            yield list(dedup.still_same(connection, run.agent_id, deletes)), edit
        elif isinstance(edit, Operate):
            yield list(edit.operations), edit


def _find_placed(changes: Sequence[Change], live: Sequence[Standing]) -> dict[str, Memory]:
    """Return the memories that are added to the file or moved in it, by id, in their final state."""
    last = {change.memory_id: change.after for change in changes if change.after.kind is MemoryKind.CORE}
    was = {one.id: one.position for one in live}
    return {one.id: one for one in last.values() if one.is_live and not (one.id in was and was[one.id] == one.position)}


def _file_edits(
    live: Sequence[Standing], changes: Sequence[Change], bullets: Sequence[core.Bullet]
) -> Iterator[core.Edit]:
    """Yield the edits that make the changes in the file; the file may have bullets that are not in the memory store."""
    at = map_places(live, bullets) if bullets else {}
    order = sorted((one for one in live if one.id in at), key=lambda one: at[one.id])
    slots = [at[one.id] for one in order]
    for edit in edits_of(order, changes):
        if isinstance(edit, core.Insert | core.Move) and edit.before is not None:
            edit = replace(edit, before=slots[edit.before])  # noqa: PLW2901
        yield edit if isinstance(edit, core.Insert) else replace(edit, position=slots[edit.position])


def _place_changes(
    changes: Sequence[Change], live: Sequence[Standing], placed: Mapping[str, Memory], new: bytes
) -> Iterator[Change]:
    """Yield the changes, with the position that each memory of `placed` has in the new file."""
    standing = [*(one for one in live if one.id not in placed), *placed.values()]
    at = map_places(standing, core.parse(new).bullets)
    order = sorted((one for one in standing if one.id in at), key=lambda one: at[one.id])
    numbers = assign_places([None if one.id in placed else one.position for one in order])
    number_of = {one.id: number for one, number in zip(order, numbers, strict=True) if one.id in placed}
    come: set[str] = set()
    for change in changes:
        number = number_of.get(change.memory_id)
        if number is None:
            yield change
            continue
        before = change.before
        if before is not None and change.memory_id in come:
            before = replace(before, position=number)
        come.add(change.memory_id)
        yield replace(change, before=before, after=replace(change.after, position=number))


def plan_appends(workspace: OpenFolder, edits: Sequence[JobEdit]) -> list[dict[str, Any]]:
    """Return the blocks to append, in the form of an intent, for the daily files and diaries."""
    return [_plan_append(workspace, edit) for edit in edits if isinstance(edit, AppendDaily | AppendDiary)]


def plan_writes(workspace: OpenFolder, run: Run, edits: Sequence[JobEdit]) -> list[dict[str, Any]]:
    """Return the whole files to write, in the form of an intent.

    Raises:
        OutdatedError: a file is not the one on which the run decided.
        RefusedError: the same, if the run answers a proposal.
        UnfinishedError: a file has conflict markers.
    """
    writes = [edit for edit in edits if isinstance(edit, WriteFile)]
    for edit in writes:
        _require_solved(edit.path, edit.old)
        if regular.read_below(workspace, edit.path) != edit.old:
            if run.kind in runs.ANSWERS:
                raise RefusedError("what it is about was written meanwhile", edit.path, "memoryd job reject drops it")
            raise OutdatedError("the file was edited meanwhile", edit.path)
    return [encode_rewrite(edit.path, edit.old, edit.new) | {"whole": True} for edit in writes]


def _require_solved(path: str, data: bytes | None) -> None:
    """Check that a file has no conflict markers.

    Text that is added to one side of a conflict could be lost with that side.

    Raises:
        UnfinishedError: the file has conflict markers.
    """
    if is_conflicted(data or b""):
        raise UnfinishedError("holds a merge that nobody has solved yet", path, RESOLVE)


def _plan_append(workspace: OpenFolder, edit: AppendDaily | AppendDiary) -> dict[str, Any]:
    is_daily = isinstance(edit, AppendDaily)
    path = f"{'memory' if is_daily else diary.FOLDER}/{edit.day.isoformat()}.md"
    old = regular.read_below(workspace, path)
    _require_solved(path, old)
    create = daily.new_file(edit.day) if is_daily else diary.new_file(edit.day)
    return encode_append(path, old, daily.block(edit.reason, edit.clock, edit.body).decode(), create.decode())
