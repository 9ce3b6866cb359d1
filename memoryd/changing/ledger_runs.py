"""Decide runs that ask no model: edits by people and tools, restored bullets, duplicates and rollbacks.

`decide` returns what such a run must do. The commit carries it out, as for any other job.
"""

from typing import Any

from sqlalchemy import Connection

from memoryd.changing import dedup, restore, saving, time_machine
from memoryd.changing.core_import import CoreImport, take_over
from memoryd.changing.saving import SavePlan
from memoryd.changing.time_machine import RollbackTarget
from memoryd.changing.writer import Writer
from memoryd.counted import count_noun
from memoryd.database import query, runs, sqlite
from memoryd.database.runs import Run
from memoryd.errors import RefusedError
from memoryd.files.journal import Journal
from memoryd.files.open_folder import OpenFolder
from memoryd.jobs.job import Done, NothingToDo, Operate
from memoryd.ledger.guards import Caller
from memoryd.ledger.memory import PREFIXES, MemoryKind
from memoryd.ledger.operation import Add, Delete, Operation, Protect, Restore, Unprotect, Update
from memoryd.ledger.rollback import RollbackPlan

IMPORT = "import"  # restores protected bullets in MEMORY.md
EDIT = "edit"  # operations of the owner
DEDUP = "dedup"
ROLLBACK = "rollback"
REFINE = "refine"  # not decided here, because a refinement asks a model
_MOST_NAMED = 50
KINDS = (IMPORT, EDIT, DEDUP, ROLLBACK, *saving.KINDS)
VERBS: dict[str, type[Protect | Unprotect | Restore | Delete]] = {
    "protect": Protect,
    "unprotect": Unprotect,
    "restore": Restore,
    "delete": Delete,
}


def decide(writer: Writer, journal: Journal, run: Run, *, at_once: bool = True) -> SavePlan:
    """Return what the commit of a run must do.

    Args:
        writer: the tools of the commit.
        journal: the journal of watermarks, which a rollback changes.
        run: the run.
        at_once: True if changes outside files may be written here, in portions; False if the commit must do everything.

    Raises:
        RefusedError: later runs depend on the changes to revert, or there is nothing to write.
        NotFoundError: there is no such run or entry.
        AwayError: the run removes duplicates, and `MEMORY.md` was edited a moment ago.
    """
    if run.kind == DEDUP:
        take_over(writer, run.agent_id)
        return SavePlan(dedup.run(writer, run) if at_once else dedup.find_duplicates(writer.engine, run.agent_id))
    if run.kind == ROLLBACK:
        return _rollback(writer, journal, run)
    if run.kind in saving.KINDS:
        return saving.decide(writer, run)
    if run.kind == EDIT:
        text = runs.given_text(writer.engine, run)  # options never contain a text, so it is with the replies
        operations = tuple(_operation(verb, memory_id, text) for verb, memory_id in run.options.get("operations", ()))
        if not operations:
            return SavePlan(NothingToDo("there is nothing to do"))
        return SavePlan(Done((Operate(operations, Caller.OWNER),)))
    return SavePlan(Done((Operate((), Caller.FILE),)), settled=True)


def _operation(verb: str, memory_id: str, text: str | None) -> Operation:
    if verb == "edit" and text:
        return Update(memory_id, text)
    if verb not in VERBS:
        raise RefusedError(f"there is no operation {verb!r}", hint=", ".join(VERBS))
    return VERBS[verb](memory_id)


def target_of(options: dict[str, Any]) -> RollbackTarget:
    """Return the target of a rollback from the options of its run."""
    return RollbackTarget(options.get("run"), options.get("to"), options.get("memory"))


def require_done(connection: Connection, target: RollbackTarget) -> None:
    """Check that the run to roll back has itself changed memory.

    Raises:
        RefusedError: the run only made a proposal.
    """
    if target.run_id is None:
        return
    if runs.find_proposal(connection, target.run_id) is not None:
        what = "the proposal of the run is not carried out yet"
        raise RefusedError(what, target.run_id, "memoryd job reject drops it")
    if (answer := runs.answered_by(connection, target.run_id)) is not None:
        hint = f"memoryd rollback {answer} reverses what was accepted"
        raise RefusedError("the run only made a proposal, which another run answered", target.run_id, hint)


def _rollback(writer: Writer, journal: Journal, run: Run) -> SavePlan:
    target = target_of(run.options)
    with sqlite.begin_read(writer.engine) as connection:
        require_done(connection, target)
        plan = time_machine.plan(connection, run.agent_id, target, writer.now())
        refined = _refinements(connection, run.agent_id, target)
    plan.check()
    receipt = {"rollback": time_machine.as_row(plan)}
    if not plan.steps:
        why = "it was rolled back before" if plan.already else "everything is already in that state"
        return SavePlan(NothingToDo(why, receipt=receipt))

    def revise(connection: Connection, folders: tuple[OpenFolder, OpenFolder], brought: CoreImport) -> Any:
        # The plan is rebuilt, because an edit may just have been imported.
        fresh = time_machine.plan(connection, run.agent_id, target, writer.now())
        fresh.check()
        revision = time_machine.revise(connection, run.agent_id, target, fresh, folders, brought)
        # The journal comes before the rows. If the process ends in between, the next start adds the watermarks again.
        for mark in revision.marks:
            seq = 0 if mark.values is None else int(mark.values["seq"])
            restore.retract(connection, journal, run.agent_id, mark.session_id, mark.consumer, seq)
        return revision

    edits = tuple(_told_of(one, plan, target, writer.now()) for one in refined)
    return SavePlan(Done(edits, receipt), revise)


def _refinements(connection: Connection, agent_id: str, target: RollbackTarget) -> list[str]:
    """Return the ids of the reverted runs in which an agent refined its core."""
    sql = (
        "SELECT r.id FROM job_run r JOIN audit a ON a.run_id = r.id WHERE r.agent_id = ?"
        " AND ? IN (r.kind, CASE r.kind WHEN 'accept' THEN json_extract(r.options, '$.of') END)"
        " GROUP BY r.id HAVING r.id = ? OR max(a.id) > ? ORDER BY r.id"
    )
    last = 2**62 if target.audit_id is None else target.audit_id
    return query.fetch_column(connection, sql, agent_id, REFINE, target.run_id, last)


def _told_of(refined: str, plan: RollbackPlan, target: RollbackTarget, now: str) -> Operate:
    """Return the journal entry that tells an agent about the rollback of its refinement, by ids and numbers."""
    back = [step.memory_id for step in plan.steps if step.memory_id.startswith(PREFIXES[MemoryKind.CORE])]
    what = "one change of the refinement" if target.memory_id is not None else "the refinement"
    named = f"{', '.join(back[:_MOST_NAMED])}{' …' if len(back) > _MOST_NAMED else ''}"
    changed = count_noun(len(back), "memory", "memories")
    text = f"Rolled back on {now[:10]}: {what} {refined}. {changed} changed back: {named}."
    return Operate((Add(MemoryKind.JOURNAL, text, tags=("rollback",), origin_at=now),), Caller.JOURNAL)
