"""Decide runs that ask no model: edits by people and tools, saved texts, restored bullets, duplicates and rollbacks.

`decide` returns what such a run must do. The commit carries it out, as for any other job.

Agents save texts with tools: a note for the day, a new core memory, or a whole `MEMORY.md`. Each call is a run, so it
waits its turn, passes the guards, is audited and can be rolled back. Its text is stored like the reply of a model,
hidden from people, and deleted when the run has ended. A text from an agent's tool counts as the assistant's words,
unless the user typed it in a session that may have called the tool (`jobs/witness`). A text from a person's command
line counts as the owner's words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy import Connection

from memoryd.changing import dedup, guard_check, restore, time_machine
from memoryd.changing.commit import Revise
from memoryd.changing.core_import import CoreImport, bullets_of, take_over
from memoryd.changing.time_machine import Revision, RollbackTarget
from memoryd.changing.writer import Writer
from memoryd.counted import count_noun
from memoryd.database import memories, query, runs, sqlite, turns
from memoryd.database.runs import Run
from memoryd.errors import AwayError, RefusedError
from memoryd.files import regular
from memoryd.files.journal import Journal
from memoryd.files.open_folder import OpenFolder
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.job import AppendDaily, Done, NothingToDo, Operate
from memoryd.jobs.witness import CandidateSession, WeighedText, Witness
from memoryd.ledger.guards import Caller, Guard
from memoryd.ledger.lane import FROM_ASSISTANT
from memoryd.ledger.matching import match
from memoryd.ledger.memory import PREFIXES, Ending, Memory, MemoryKind, Source, draw_id, hash_of
from memoryd.ledger.operation import Add, Delete, Operation, Protect, Restore, Unprotect, Update, text_of
from memoryd.ledger.rollback import RollbackPlan, name_copy
from memoryd.offline.cue_judge import CueJudge
from memoryd.scrub.hidden import find_hidden
from memoryd.text.neutral import neutral_lines, neutralize
from memoryd.tiers import core

IMPORT = "import"  # restores protected bullets in MEMORY.md
EDIT = "edit"  # operations of the owner
DEDUP = "dedup"
ROLLBACK = "rollback"
REFINE = "refine"  # not decided here, because a refinement asks a model
SAVE = "save"  # appends a block to the daily file
UPDATE = "update"  # adds one bullet
REPLACE = "replace"  # replaces all of MEMORY.md
_SAVES = (SAVE, UPDATE, REPLACE)
KINDS = (IMPORT, EDIT, DEDUP, ROLLBACK, *_SAVES)
VERBS: dict[str, type[Protect | Unprotect | Restore | Delete]] = {
    "protect": Protect,
    "unprotect": Unprotect,
    "restore": Restore,
    "delete": Delete,
}
_MOST_NAMED = 50
NOTE = "Note"  # the heading of a note's block in the daily file
SESSIONS = 3  # the most live sessions that may have called the tool
TURNS = 2_000  # the number of last turns that are read of each of these sessions


@dataclass(frozen=True, slots=True)
class LedgerPlan:
    """Hold what the commit of a run must do.

    Attributes:
        step: the decision with its edits.
        revise: computes a new `MEMORY.md` in the transaction; None if the run does not replace the file.
        settled: True if `MEMORY.md` is known to be complete, however short it is.
        texts: texts that the run imports besides its edits, to be checked for secrets.
    """

    step: Done | NothingToDo
    revise: Revise | None = None
    settled: bool = False
    texts: tuple[str, ...] = ()


def decide(writer: Writer, journal: Journal, run: Run, *, at_once: bool = True) -> LedgerPlan:
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
        return LedgerPlan(dedup.run(writer, run) if at_once else dedup.find_duplicates(writer.engine, run.agent_id))
    if run.kind == ROLLBACK:
        return _rollback(writer, journal, run)
    if run.kind in _SAVES:
        return _decide_save(writer, run)
    if run.kind == EDIT:
        text = runs.given_text(writer.engine, run)  # options never contain a text, so it is with the replies
        operations = tuple(_operation(verb, memory_id, text) for verb, memory_id in run.options.get("operations", ()))
        if not operations:
            return LedgerPlan(NothingToDo("there is nothing to do"))
        return LedgerPlan(Done((Operate(operations, Caller.OWNER),)))
    return LedgerPlan(Done((Operate((), Caller.FILE),)), settled=True)


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


def _rollback(writer: Writer, journal: Journal, run: Run) -> LedgerPlan:
    target = target_of(run.options)
    with sqlite.begin_read(writer.engine) as connection:
        require_done(connection, target)
        plan = time_machine.plan(connection, run.agent_id, target, writer.now())
        reverted = time_machine.list_reverted(connection, run.agent_id, target)
    plan.check()
    receipt = {"rollback": time_machine.as_row(plan)}
    if not plan.steps:
        there = "; ".join(name_copy(*one) for one in plan.there)
        why = "it was rolled back before" if plan.already else there or "everything is already in that state"
        return LedgerPlan(NothingToDo(why, receipt=receipt))

    def revise(connection: Connection, folders: tuple[OpenFolder, OpenFolder], brought: CoreImport) -> Any:
        # The plan is rebuilt, because an edit may just have been imported.
        fresh = time_machine.plan(connection, run.agent_id, target, writer.now())
        fresh.check()
        revision = time_machine.revise(connection, run.agent_id, target, fresh, folders, brought)
        # The journal comes before the rows. If the process ends in between, the next start adds the watermarks again.
        for session_id, consumer, values in revision.marks:
            seq = 0 if values is None else int(values["seq"])
            restore.retract(connection, journal, run.agent_id, session_id, consumer, seq)
        return revision

    edits = tuple(_told_of(one, plan, target, writer.now()) for one, kind, _ in reverted if kind == REFINE)
    return LedgerPlan(Done(edits, receipt), revise)


def _told_of(refined: str, plan: RollbackPlan, target: RollbackTarget, now: str) -> Operate:
    """Return the journal entry that tells an agent about the rollback of its refinement, by ids and numbers."""
    back = [step.memory_id for step in plan.steps if step.memory_id.startswith(PREFIXES[MemoryKind.CORE])]
    what = "one change of the refinement" if target.memory_id is not None else "the refinement"
    named = f"{': ' * bool(back)}{', '.join(back[:_MOST_NAMED])}{' …' if len(back) > _MOST_NAMED else ''}"
    changed = count_noun(len(back), "memory", "memories")
    text = f"Rolled back on {now[:10]}: {what} {refined}. {changed} changed back{named}."
    return Operate((Add(MemoryKind.JOURNAL, text, tags=("rollback",), origin_at=now),), Caller.JOURNAL)


# --- saved texts -----------------------------------------------------------------------------------------------------


def _decide_save(writer: Writer, run: Run) -> LedgerPlan:
    """Return what the commit of a run with a saved text must do.

    Raises:
        RefusedError: there is no text to write.
    """
    text = runs.given_text(writer.engine, run) or ""
    if run.kind == REPLACE:
        return LedgerPlan(Done((Operate((), Caller.TOOL),)), _plan_replacement(writer, run, text), texts=(text,))
    clean = neutral_lines(text) if run.kind == SAVE else neutralize(text)
    if not clean:
        raise RefusedError("there is no text to keep", run.id, "write at least one word")
    with sqlite.begin_read(writer.engine) as connection:
        if run.kind == UPDATE and memories.by_text(connection, run.agent_id, MemoryKind.CORE, hash_of(clean)):
            return LedgerPlan(NothingToDo("the core says that already"))
        witness = _witness(connection, run)
    if run.kind == SAVE and _is_last_note(writer, run, clean):
        return LedgerPlan(NothingToDo("the day's file ends with that note already"))
    if witness is None:
        return LedgerPlan(Done((_note(run, clean) if run.kind == SAVE else _make_lasting(clean),)))
    weighed = witness.note(clean) if run.kind == SAVE else witness.memory(clean)
    if not weighed.core:
        # When one of these sessions is forgotten, the text is forgotten too, because it may come from there.
        receipt: dict[str, Any] = {"witnesses": list(witness.sessions)}
        receipt |= {"unsupported": {"why": weighed.why, "lines": weighed.changed}} if weighed.why else {}
        return LedgerPlan(Done((_note(run, weighed.text),), receipt))
    cites = sqlite.read(writer.engine, turns.build_sources, weighed.session or "", weighed.seqs)
    return LedgerPlan(Done((_make_lasting(weighed.text, cites, tags=_tags(weighed)),)))


def _is_last_note(writer: Writer, run: Run, text: str) -> bool:
    """Return True if the daily file already ends with this note, for example because a command was repeated."""
    data = regular.read_in(writer.workspace, f"memory/{run.options['day']}.md") or b""
    last = data.decode(errors="replace").rpartition(f"\n## {NOTE} (")[2]
    return last.partition("\n")[2].strip() == text.strip()


def _note(run: Run, text: str) -> AppendDaily:
    return AppendDaily(date.fromisoformat(run.options["day"]), NOTE, run.options["clock"], text)


def _make_lasting(text: str, cites: tuple[Source, ...] = (), tags: tuple[str, ...] = ()) -> Operate:
    return Operate((Add(MemoryKind.CORE, text, cites=cites, tags=tags),), Caller.TOOL)


def _tags(weighed: WeighedText) -> tuple[str, ...]:
    return () if weighed.is_own else (FROM_ASSISTANT,)


def _witness(connection: Connection, run: Run) -> Witness | None:
    """Return the sessions that may have called the tool; None if a person called it."""
    asked = run.options.get("witness")
    if not asked:
        return None
    sql = (
        "SELECT id, last_seq FROM session WHERE agent_id = ? AND parent_id IS NULL AND state <> 'ended'"
        " AND last_turn_at >= ? ORDER BY last_turn_at DESC, id LIMIT ?"
    )
    heard = [
        CandidateSession(
            session_id, set_aside_scheduled(turns.stored_turns(connection, session_id, after=last_seq - TURNS))
        )
        for session_id, last_seq in query.fetch_rows(connection, sql, run.agent_id, asked["since"], SESSIONS)
    ]
    return Witness(heard, CueJudge())


def _plan_replacement(writer: Writer, run: Run, text: str) -> Revise:
    """Return a function that computes the change of `MEMORY.md` to a new text.

    Memories that the text leaves out end as `REPLACED`, if the guards allow it.
    """
    agent_id = run.agent_id
    data = text.encode(errors="replace")
    bullets = bullets_of(core.parse(data), writer.redact)

    def revise(connection: Connection, _folders: tuple[OpenFolder, OpenFolder], brought: CoreImport) -> Revision:
        if not brought.agrees:
            raise AwayError(
                "MEMORY.md was edited a moment ago", str(writer.workspace), "memoryd imports it first; this call waits"
            )
        if find_hidden(brought.data or b""):  # the agent was never shown this part, so its new text would delete it
            raise RefusedError("has a private part, which no new text has", "MEMORY.md", "append, or edit the file")
        live = memories.read_live(connection, agent_id, MemoryKind.CORE)
        taken = memories.TakenIds(connection)
        found = match(live, bullets, lambda: draw_id(MemoryKind.CORE, writer.new_id, taken))
        if found.put_back:
            why = "; ".join(f"{one.memory_id} is {one.was}" for one in found.put_back)
            raise RefusedError(
                f"constitutional: the memory is protected: {why}",
                "MEMORY.md",
                "to change it, run memoryd core unprotect first",
            )
        witness = _witness(connection, run)
        operations = list(_supersede_omitted(found.operations))
        if witness is not None:
            operations = list(_weigh_operations(witness, operations, {one.id: one for one in live}))
        passed = guard_check.judge(connection, writer, agent_id, operations, Caller.TOOL)
        guard_check.require_passed(passed)
        return Revision(changes=passed.changes, core=data, actor=run.actor)

    return revise


def _weigh_operations(
    witness: Witness, operations: Sequence[Operation], live: Mapping[str, Memory]
) -> Iterator[Operation]:
    """Yield the operations; an operation whose new text is the assistant's gets the tag `from-assistant`.

    Raises:
        RefusedError: only the user may add such a text, or replace the old one.
    """
    unsaid: list[int | None] = []
    for one in operations:
        text = text_of(one) if isinstance(one, Add | Update) else None
        if not isinstance(one, Add | Update) or text is None:
            yield one
            continue
        old = live[one.id] if isinstance(one, Update) else None
        weighed = witness.memory(text, one.heading or (old.heading if old else None) or "")
        if not weighed.core or (old and not weighed.is_own and not witness.memory(old.content, old.heading or "").core):
            unsaid.append(one.position if one.position is not None or old is None else old.position)
        before = {tag for tag in (old.tags if old else ()) if tag != FROM_ASSISTANT}
        yield replace(one, tags=(*sorted(before), *_tags(weighed)))
    if unsaid:
        gone = {one.id for one in operations if isinstance(one, Delete)}
        there = [one.position for one in live.values() if one.id not in gone and one.position is not None]
        there += [one.position for one in operations if isinstance(one, Add | Update) and one.position is not None]
        order = sorted(set(there))
        places = ", ".join(str(order.index(place) + 1) for place in unsaid if place is not None)
        raise RefusedError(
            f"{Guard.TAINT}: bullet {places}: only the user may state a rule, or something about a person",
            "MEMORY.md",
            "append it as a note of the day, or state a fact of the project below a heading such as Project",
        )


def _supersede_omitted(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """Yield the operations, with deletions changed to `REPLACED`, because nobody asked to forget these memories."""
    for one in operations:
        is_left_out = isinstance(one, Delete) and one.ended_as is Ending.DELETED
        yield Delete(one.id, Ending.REPLACED, one.successors) if is_left_out and isinstance(one, Delete) else one
