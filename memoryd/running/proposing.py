"""Store proposals: the decision of a run waits for a person's answer, and is shown in `memory/proposals/RUN.md`.

The edits are stored like replies of models, so `scrub` redacts them. `forget` withdraws all open proposals of the
agent, because nobody can tell which texts a decision is based on.

The answer is a run too. Accepting carries out the edits on the present state, with all guards. Rejecting only moves the
watermarks, so that the same turns are not proposed again.

The file is not memory: it is never indexed, injected or shown to a model. It is deleted if its run has been answered or
never became a proposal.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.changing.commit import RunOutcome, commit, enter, preview_run
from memoryd.changing.plan import OutdatedError, Preview
from memoryd.changing.writer import Writer
from memoryd.clock import moment_of
from memoryd.database import memories, runs, sqlite, turns
from memoryd.database.runs import ACCEPT, Run
from memoryd.errors import AwayError, RefusedError, StateError
from memoryd.files import durable, folders, regular
from memoryd.files.workspace import lock_workspace
from memoryd.jobs import dream, stored_edits
from memoryd.jobs.job import Done, EditFacts, JobEdit, MoveWatermark, Operate, RewriteCore
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Change
from memoryd.running import proposed_refining
from memoryd.running.proposed_refining import KIND as REFINE
from memoryd.tiers import diary
from memoryd.tiers import proposal as tier
from memoryd.tiers.proposal import FileDiff

PROPOSE = "propose"
KINDS = tuple(runs.ANSWERS)
ALARM = "proposals"  # raised when proposals cannot be withdrawn
FORGOTTEN = "something was forgotten meanwhile: it is decided again"


class ProposalDraft(NamedTuple):
    """Hold a proposal before it is stored."""

    data: bytes  # content of its file
    row: dict[str, str | None]  # columns of its row: the edits, and digests of the edits and of the input
    told: dict[str, Any]  # values of the run report, without texts


def draft_proposal(writer: Writer, run: Run, done: Done, tz: tzinfo) -> ProposalDraft | None:
    """Return a run's decision as a proposal for a person; None if it would change no memory."""
    planned = preview_run(writer, run, done.edits)
    if changes_nothing(planned, done.edits):
        return None
    files = [
        FileDiff(path, None if old is None else old.decode(errors="replace"), (new or b"").decode(errors="replace"))
        for path, old, new in planned.files
        if old != new
    ]
    operations = [*map(_describe_change, planned.changes), *_sections(done.edits)]
    shown = tier.Proposal(
        run_id=run.id,
        kind=run.kind,
        made_at=f"{moment_of(writer.now()).astimezone(tz):%Y-%m-%d %H:%M}",
        files=files,
        operations=operations,
        refused=[(str(one.guard), one.why) for one in planned.refusals],
        told=proposed_refining.told_of(done, planned, get_today(writer, tz)) if REFINE in done.receipt else "",
    )
    with sqlite.begin_read(writer.engine) as connection:
        marks = list(_marks(connection, done.edits))
    kept = {"edits": stored_edits.dump(done.edits), "marks": marks, "receipt": done.receipt, "summary": done.summary}
    counted = dict(Counter(what for what, _, _ in operations))
    told = {"path": tier.path_of(run.id), "files": [one.path for one in files], "operations": counted}
    row = {"kept": json.dumps(kept), "input_hash": stored_edits.compute_digest(done.edits), "made_from": done.made_from}
    return ProposalDraft(tier.render(shown), row, told | {"refused": len(shown.refused)})


def changes_nothing(planned: Preview, edits: Sequence[JobEdit]) -> bool:
    """Return True if no memory would change. A diary is not memory."""
    written = [path for path, before, after in planned.files if before != after]
    is_diary_alone = all(path.startswith(f"{diary.FOLDER}/") for path in written)
    return is_diary_alone and not planned.changes and not any(_sections(edits))


def get_today(writer: Writer, tz: tzinfo) -> str:
    """Return the local day as YYYY-MM-DD."""
    return moment_of(writer.now()).astimezone(tz).date().isoformat()


def _describe_change(change: Change) -> tuple[str, str, str]:
    before, after = change.before, change.after
    if not after.is_live:
        return str(after.ended_as or change.operation), str(after.kind), f"{after.id} {after.content}"
    known = "" if before is None else f"{after.id} "
    category = f"{after.kind} {after.category}" if after.kind is MemoryKind.FACT else str(after.kind)
    return change.operation, category, f"{known}{after.content}"


def _sections(edits: Sequence[JobEdit]) -> Iterator[tuple[str, str, str]]:
    for edit in edits:
        if isinstance(edit, EditFacts):
            yield from (("rewrite", f"profile {one.section}", one.text) for one in edit.sections)


def _marks(connection: Connection, edits: Sequence[JobEdit]) -> Iterator[tuple[str, str, int]]:
    """Yield (session, consumer, watermark) for the watermarks that the edits move, in their present state."""
    for edit in edits:
        if isinstance(edit, MoveWatermark):
            yield edit.session_id, edit.consumer, turns.read_watermark(connection, edit.session_id, edit.consumer)


def store(writer: Writer, run: Run, drafted: ProposalDraft, outcome: RunOutcome, notes: Sequence[JobEdit] = ()) -> None:
    """Write the file of a proposal, and end its run as proposed.

    The file comes first. A file without its row is deleted later, but a row without its file would never be seen.

    Raises:
        AwayError: the file cannot be written, for example because a folder is a link or has another owner.
        StaleRunError: another claim owns the run now.
    """
    path = tier.path_of(run.id)
    try:
        with lock_workspace(writer.workspace) as place, folders.made_way(place.workspace, path) as entry:
            old = regular.read(entry)
            if old != drafted.data:
                durable.exchange(entry, old, drafted.data, writer.step)
    except StateError as error:  # the reply is already paid for, so the run waits until a person has fixed the cause
        raise AwayError(error.what, error.where, error.hint) from error
    commit(writer, run, notes, replace(outcome, state=runs.PROPOSED, row={**outcome.row, **drafted.row}))


def decide(engine: Engine, run: Run, now: str) -> Done:
    """Return the edits of an answer: all edits of the proposal, or only its watermarks if it is rejected.

    Rejecting a refinement also adds a journal entry for its agent.

    Raises:
        RefusedError: the proposal was answered or withdrawn, or the turns that it is about were processed meanwhile.
    """
    proposal_id = str(run.options["run"])
    with sqlite.begin_read(engine) as connection:
        found = runs.find_proposal(connection, proposal_id)
        if found is None or found.kept is None:
            raise RefusedError(
                "this is not a proposal that waits for an answer", proposal_id, "memoryd status lists them"
            )
        kept = json.loads(found.kept)
        try:
            edits = stored_edits.load(kept["edits"])
        except ValueError as error:
            hint = "reject it: it is decided again"
            raise RefusedError("was made by another version of memoryd", proposal_id, hint) from error
        sessions = {one.session_id for one in edits if isinstance(one, MoveWatermark)}
        if any(turns.session_row(connection, one) is None for one in sessions):
            raise RefusedError("its session is known by another name by now", proposal_id, "it is decided again")
        if run.kind == ACCEPT and [list(one) for one in _marks(connection, edits)] != kept["marks"]:
            hint = "memoryd job reject drops it"
            raise RefusedError("what it is about was written meanwhile", proposal_id, hint)
    if run.kind == ACCEPT:
        return Done(edits, kept["receipt"] | {"accepts": proposal_id}, summary=kept.get("summary"))
    rest: list[JobEdit] = [one for one in edits if isinstance(one, MoveWatermark)]
    if found.kind == REFINE:
        text = f"The refinement {proposal_id} was rejected on {now[:10]}: nothing of it was done."
        rest.append(proposed_refining.make_entry(text, now))
    return Done(tuple(rest), {"rejects": proposal_id})


def preview_proposal(writer: Writer, run: Run, step: Done, tz: tzinfo) -> tuple[Done, Preview]:
    """Return (decision, effect) of accepting a proposal now. The decision has the edits to carry out and the report."""
    if REFINE in step.receipt:
        step = proposed_refining.measure_against(
            step, sqlite.read(writer.engine, memories.read_live, run.agent_id, MemoryKind.CORE)
        )
        planned = preview_run(writer, run, step.edits)
        now, how = writer.now(), f"it was proposed as {step.receipt['accepts']} and is accepted"
        return proposed_refining.as_passed(step, planned, get_today(writer, tz), now, how), planned
    try:
        return step, preview_run(writer, run, step.edits)
    except OutdatedError:  # the core has changed, so the operations of the dream are judged one by one
        edits = (
            Operate(edit.operations, edit.caller, edit.seen) if isinstance(edit, RewriteCore) else edit
            for edit in step.edits
        )
        step = replace(step, edits=tuple(edits))
    planned = preview_run(writer, run, step.edits)
    return dream.as_passed(step, planned.changes, planned.refusals, get_today(writer, tz)), planned


def is_refused(planned: Preview, step: Done) -> bool:
    """Return True if the guards refuse the whole proposal."""
    if not planned.refusals:
        return False
    is_broken = REFINE in step.receipt and proposed_refining.is_refused(planned.refusals)
    return is_broken or changes_nothing(planned, step.edits)


def take_back(writer: Writer, agent_id: str, why: str, kinds: Sequence[str] | None = None) -> int:
    """Withdraw an agent's open proposals, of some kinds or of all; return how many.

    Their files are deleted first. A proposal stays if its answer has begun to change files. A withdrawn refinement is
    reported to its agent.
    """
    with sqlite.begin_read(writer.engine) as connection:
        answered = runs.being_answered(connection, agent_id)
        found = [one for one in runs.list_proposals(connection, agent_id) if kinds is None or one.kind in kinds]
    count = 0
    for one in found:
        if one.id in answered:
            continue
        _clear_away(writer.workspace, one.id)
        with sqlite.begin_write(writer.engine) as connection:
            if one.id not in runs.being_answered(connection, agent_id):
                taken = runs.take_proposal_back(connection, one.id, why)
                if taken and one.kind == REFINE:
                    now = writer.now()
                    text = f"was reversed on {now[:10]} ({why}): nothing of it was done."
                    entry = proposed_refining.make_entry(f"The refinement {one.id} {text}", now)
                    enter(connection, writer, agent_id, entry, one.id)
                count += taken
    return count


def tidy(engine: Engine, workspace: Path, agent_id: str) -> None:
    """Delete proposal files without an open proposal. Other files in the folder belong to people."""
    try:
        names = sorted(path.stem for path in (workspace / tier.FOLDER).glob("*.md"))
    except OSError:
        return
    known = sqlite.read(engine, runs.read_states, agent_id, names)
    for run_id in names:
        if run_id in known and known[run_id] not in {runs.PROPOSED, *runs.OPEN}:
            _clear_away(workspace, run_id)


def _clear_away(workspace: Path, run_id: str) -> None:
    path = tier.path_of(run_id)
    if not (workspace / path).exists():
        return
    with lock_workspace(workspace) as place, folders.made_way(place.workspace, path) as entry:
        old = regular.read(entry)
        if old is not None:
            durable.remove(entry, regular.compute_digest(old))
