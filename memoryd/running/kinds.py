"""Map each kind of run to the function that carries it out, in `KINDS`."""

from dataclasses import replace

from memoryd.changing import commit as committing
from memoryd.changing import forgetting, ledger_runs, rescrub
from memoryd.database import runs
from memoryd.database.history import KIND as HISTORY
from memoryd.database.runs import Run
from memoryd.errors import NotFoundError
from memoryd.ledger import guards
from memoryd.running import (
    alarms,
    deciding,
    evaluating,
    extraction,
    history,
    proposing,
    refining,
    removal,
    rollover,
    self_test,
)
from memoryd.running.called_refining import carry_out as refine
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


KINDS: dict[str, RunKind] = {
    **dict.fromkeys(deciding.KINDS, RunKind(deciding.carry_out)),
    extraction.KIND: RunKind(deciding.carry_out, tells=False),
    **dict.fromkeys(ledger_runs.KINDS, RunKind(_decide_ledger_run, declines=True, tells=False)),
    **dict.fromkeys(proposing.KINDS, RunKind(_answer_proposal, declines=True)),
    refining.KIND: RunKind(refine),
    HISTORY: RunKind(history.wait),
    rollover.KIND: RunKind(rollover.carry_out),
    self_test.KIND: RunKind(self_test.carry_out),
    evaluating.KIND: RunKind(evaluating.carry_out),
    forgetting.KIND: RunKind(removal.forget, declines=True),
    rescrub.KIND: RunKind(removal.scrub_again),
}


def check_kind(kind: str) -> str:
    """Return `kind` if a person may ask for such a run.

    Raises:
        NotFoundError: there is no such kind; the error lists the kinds.
    """
    kinds = (*deciding.KINDS, rollover.KIND, ledger_runs.DEDUP, refining.KIND, self_test.KIND, evaluating.KIND)
    if kind in kinds:
        return kind
    raise NotFoundError(f"there is no job kind {kind!r}", hint=f"kinds: {', '.join(kinds)}")
