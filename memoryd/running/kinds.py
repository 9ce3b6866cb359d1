"""Map each kind of run to the function that carries it out, in `KINDS`.

The jobs that erase text permanently are here: `forget`, and `scrub --again` for secrets that are found late.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from memoryd.changing import commit as committing
from memoryd.changing import forgetting, ledger_runs, rescrub, restore
from memoryd.database import alarms as alarm_rows
from memoryd.database import runs, sqlite, texts
from memoryd.database.history import KIND as HISTORY
from memoryd.database.runs import Run
from memoryd.errors import NotFoundError
from memoryd.ledger import guards
from memoryd.running import (
    alarms,
    called_refining,
    deciding,
    evaluating,
    extraction,
    history,
    proposing,
    refining,
    rollover,
    self_test,
)
from memoryd.running.runner import RunKind, Runner


def _decide_ledger_run(runner: Runner, run: Run) -> None:
    writer = runner.writer(runner.workspace_of(run))
    decided = ledger_runs.decide(writer, runner.journal, run, at_once=not runner.is_proposing(run))
    runner.commit(run, decided.step, writer, decided)
    if run.kind == ledger_runs.EDIT:  # the edit may have ended a protection that an alarm is about
        alarms.clear_over(runner)


def _answer_proposal(runner: Runner, run: Run) -> None:
    """Carry out a person's answer to a proposal. If the answer is refused, the proposal stays open."""
    workspace = runner.workspace_of(run)
    decided = proposing.decide(runner.engine, run, runner.clock.text())
    writer = runner.writer(workspace)
    if refined := decided.receipt.get(refining.KIND):
        writer = replace(writer, limits=refining.limits_of(refined["mode"], runner.settings))

    def accept() -> None:
        step, planned = proposing.preview_proposal(writer, run, decided, runner.settings.zone)
        if not proposing.is_refused(planned, step):
            runner.commit(run, step, writer, foreseen=planned)
            return
        rows = guards.describe_refusals(planned.refusals)
        runner.note_guards(run, committing.CommitResult(refused=tuple(rows)))
        whys = dict.fromkeys(one.why for one in planned.refusals)
        runner.end(run, "declined", why=f"the guards refuse all of it: {'; '.join(whys)}", receipt={"refused": rows})

    if run.kind == runs.ACCEPT:
        runner.decide_anew(run, "the core changes", accept)
    else:
        runner.commit(run, decided, writer)
    proposing.tidy(runner.engine, workspace, run.agent_id)


def _forget(runner: Runner, run: Run) -> None:
    """Erase the text that a person wants forgotten from files, rows, copies and the search index."""
    workspace = runner.workspace_of(run)
    receipt = sqlite.read(runner.engine, runs.read_receipt, run.id)
    if forgetting.KIND not in receipt:  # otherwise an earlier attempt has already committed
        receipt = _take_out(runner, run, workspace)
    runner.erase_index(run.agent_id)
    restore.tell_forgotten(runner.engine, runner.journal)
    runner.step("before:vacuum")
    texts.rewrite_file(runner.engine)
    runner.renew_copies()
    runner.step("after:vacuum")
    runner.end(run, "succeeded", receipt=receipt)
    runner.clear_alarms_of(run)
    sqlite.write(runner.engine, alarm_rows.clear_of_sessions, receipt[forgetting.KIND]["sessions"], runner.clock.text())
    rollover.request(runner.engine, runner.settings, runner.clock, run.agent_id)


def _take_out(runner: Runner, run: Run, workspace: Path) -> dict[str, Any]:
    writer = runner.writer(workspace)
    proposing.take_back(writer, run.agent_id, proposing.FORGOTTEN)
    called_refining.give_up(runner.engine, run.agent_id, runner.clock.text(), proposing.FORGOTTEN)
    target = forgetting.target_of(run.options)
    forgetter = forgetting.Forgetter(run.agent_id, target, runner.settings.zone, writer.now, writer.new_id)
    planned = forgetter.plan(runner.engine, workspace)
    copies = forgetting.Copies(plan=planned, **_list_scan_tools(runner, run, [run.agent_id]))
    copies.scan_all()
    swept = {name: copies.counts[name] for name in ("rows", "files")}
    told = planned.told | {"copies": swept, "left": copies.left}
    outcome = committing.RunOutcome(committing.RUNNING, receipt={forgetting.KIND: told})
    done = committing.commit(writer, run, planned.edits(), outcome, revise=forgetter.revise)
    runner.record_watermarks(run)
    runner.log.info("forgotten", run=run.id, agent=run.agent_id, files=list(done.files), counts=told["counts"])
    return sqlite.read(runner.engine, runs.read_receipt, run.id)


def _list_scan_tools(runner: Runner, run: Run, agents: Sequence[str] | None) -> dict[str, Any]:
    """Return what a scan of everything that is stored needs, by name; `agents` are ids, or None for all agents."""
    tools: dict[str, Any] = {"engine": runner.engine, "journal": runner.journal, "log": runner.log}
    tools |= {"state_dir": runner.settings.state_dir, "stuck": partial(runner.list_stuck, agents)}
    places = {one.id: one.workspace for one in runner.settings.agents if agents is None or one.id in agents}
    return tools | {"everybody": agents is None, "go_on": partial(runner.go_on, run), "workspaces": places}


def _scrub_again(runner: Runner, run: Run) -> None:
    """Redact what the present rules find in the stored texts of some agents, or of all; then continue blocked runs."""
    tools = _list_scan_tools(runner, run, run.options.get("agents"))
    work = rescrub.Rescrub(scrubber=runner.scrubber, renamed=runner.renamed, **tools)
    try:
        counts = work.run(is_restored=run.trigger == "restore")
    finally:
        runner.erase_index(None)
    runner.renew_copies()
    # Runs that were blocked by a secret can continue.
    runs.unblock(runner.engine, runner.clock.text(), due_only=False)
    runner.end(run, "succeeded", receipt=counts)


KINDS: dict[str, RunKind] = {
    **dict.fromkeys(deciding.KINDS, RunKind(deciding.carry_out)),
    extraction.KIND: RunKind(deciding.carry_out, tells=False),
    **dict.fromkeys(ledger_runs.KINDS, RunKind(_decide_ledger_run, declines=True, tells=False)),
    **dict.fromkeys(proposing.KINDS, RunKind(_answer_proposal, declines=True)),
    refining.KIND: RunKind(called_refining.carry_out),
    HISTORY: RunKind(history.wait),
    rollover.KIND: RunKind(rollover.carry_out),
    self_test.KIND: RunKind(self_test.carry_out),
    evaluating.KIND: RunKind(evaluating.carry_out),
    forgetting.KIND: RunKind(_forget, declines=True),
    rescrub.KIND: RunKind(_scrub_again),
}


def check_kind(kind: str) -> None:
    """Check that a person may ask for such a run.

    Raises:
        NotFoundError: there is no such kind; the error lists the kinds.
    """
    kinds = (*deciding.KINDS, rollover.KIND, ledger_runs.DEDUP, refining.KIND, self_test.KIND, evaluating.KIND)
    if kind not in kinds:
        raise NotFoundError(f"there is no job kind {kind!r}", hint=f"kinds: {', '.join(kinds)}")
