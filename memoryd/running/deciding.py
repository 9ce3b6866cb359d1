"""Carry out the jobs that ask a model or the offline backend, step by step up to the commit.

This module knows no single job. `KINDS` names, for each kind, the function that gathers its inputs and the pure
functions that decide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from memoryd.changing.plan import OutdatedError
from memoryd.database.runs import Run
from memoryd.errors import AwayError, MemorydError
from memoryd.jobs import dream, dream_reply, facts, facts_reply, joint
from memoryd.jobs.job import Ask, Done, End, NothingToDo, RejectedReply, Reply, Steps, drive
from memoryd.jobs.reader import JOB as VERIFY
from memoryd.jobs.repair import REPAIR
from memoryd.running import dreaming, extraction, sleeping
from memoryd.running.answering import OFFLINE, RunQuestion
from memoryd.running.runner import REDECIDED_MAX, Runner
from memoryd.running.second_reader import SecondReader, keep_whole, sum_tokens


class RejectedReplyError(MemorydError):
    """Report that the model's reply cannot be used."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """Describe how one kind of job is carried out."""

    gather: Callable[[sleeping.GatherContext, Run], Any]  # frozen inputs, or why there is nothing to do
    decide: Callable[[Any], Steps]
    merge: Callable[[Sequence[Reply]], Reply | RejectedReply]  # joins the replies to the parts of a divided question
    again: Callable[[sleeping.GatherContext, Run, Any], Any] | None = None  # the inputs on the current state


KINDS: dict[str, JobKind] = {
    "sleep": JobKind(extraction.gather_sleep, joint.decide, joint.merge),
    extraction.KIND: JobKind(extraction.gather, facts.decide, facts_reply.merge),
    dreaming.KIND: JobKind(dreaming.gather, dream.decide, dream_reply.merge, dreaming.ask_again),
}


def carry_out(runner: Runner, run: Run) -> None:
    """Gather a job's inputs, ask, and commit the decision.

    Raises:
        RejectedReplyError: no usable reply came.
        AwayError: the core changed during each of its decisions.
    """
    kind, workspace = KINDS[run.kind], runner.workspace_of(run)
    writer = runner.writer(workspace)
    is_up = runner.answerer.is_up(runner.settings, run.agent_id)
    reader = SecondReader(runner, run, partial(runner.go_on, run))
    source = runner.source(workspace, reader.find_answer, is_up=is_up)
    inputs = kind.gather(source, run)
    if isinstance(inputs, NothingToDo):
        runner.commit(run, inputs, writer)
        return
    deciding = _Decision(runner, run, kind, inputs, reader)
    end: End | None = None
    for _ in range(REDECIDED_MAX):
        end = deciding.decide(end)
        if isinstance(end, RejectedReply):
            raise RejectedReplyError(end.why)
        told = replace(end, receipt=end.receipt | deciding.receipt())
        try:
            runner.commit(run, told, writer, reply=deciding.written, phases=deciding.phases)
        except OutdatedError as error:
            if kind.again is None or not isinstance(end, Done) or end.anew is None:
                raise
            runner.log.info("decided again", run=run.id, kind=run.kind, agent=run.agent_id, why=error.what)
            deciding.inputs = kind.again(source, run, deciding.inputs)
            end = end.anew(deciding.inputs)
        else:
            return
    raise AwayError("the core changes all the time", str(workspace), "the run is tried again")


@dataclass(slots=True)
class _Decision:
    """Decide one run by asking its job step by step."""

    runner: Runner
    run: Run
    kind: JobKind
    inputs: Any  # the frozen snapshot for the decision
    reader: SecondReader
    author: RunQuestion | None = None  # the job's own question, not one about its answer …
    written: Reply | None = None  # … and the answer, for the run report
    phases: dict[str, float] = field(default_factory=dict)  # each with the time when it began
    repairs: list[Reply] = field(default_factory=list)  # answers to its questions about refused claims

    def receipt(self) -> dict[str, Any]:
        """Return the result of the judging, for the run report."""
        found = {"reader": self.reader.receipt()} if self.reader.receipt() else {}
        if self.repairs:
            spent = [(one.tokens_in, one.tokens_out) for one in self.repairs]
            found |= {REPAIR: {"questions": len(spent), **sum_tokens(spent)}}
        return found

    def decide(self, end: End | None) -> End:
        """Carry out a job's steps, unless the result is known; return it, and ask again after a rejected reply."""
        while True:
            end = end or drive(self.kind.decide(self.inputs), self._answer, self._enter)
            self.runner.go_on(self.run)
            author, written = self.author, self.written
            if not (isinstance(end, RejectedReply) and author and written and written.backend != OFFLINE):
                return end
            # This also applies if the reply was rejected because of later questions: only another reply can help.
            self.written = self.runner.answerer.after_rejection(author, written, end.why)
            end = None

    def _enter(self, phase: str) -> None:
        self.runner.go_on(self.run)
        self.phases.setdefault(phase, self.runner.clock.monotonic())

    def _answer(self, ask: Ask) -> Reply:
        """Get the answer to a job's question; for its own, which comes first, the stored answer if there is one."""
        self.runner.go_on(self.run)
        if ask.job == VERIFY:
            return self.reader.answer(ask)
        if ask.job == REPAIR:
            self.repairs.append(self._ask(ask, keep_whole, stand_in=Reply("", "stop", OFFLINE))[1])
            return self.repairs[-1]
        if self.written is None:
            self.author, self.written = self._ask(ask, self.kind.merge)
        return self.written

    def _ask(
        self, ask: Ask, merge: Callable[[Sequence[Reply]], Reply | RejectedReply], stand_in: Reply | None = None
    ) -> tuple[RunQuestion, Reply]:
        runner = self.runner
        asked = RunQuestion(self.run, ask, runner.settings, runner.worker, merge, runner.step, stand_in=stand_in)
        return asked, runner.answerer.answer(asked)
