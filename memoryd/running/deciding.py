"""Carry out jobs that ask a model or the offline backend, step by step up to the commit.

This module does not know single jobs. `KINDS` has, for each kind, the function that gathers the inputs and the pure
functions that decide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from memoryd.database.runs import Run
from memoryd.errors import MemorydError
from memoryd.jobs import dream, dream_reply, facts, facts_reply, joint
from memoryd.jobs.job import Ask, Done, End, NothingToDo, RejectedReply, Reply, Steps, drive
from memoryd.jobs.reader import JOB as VERIFY
from memoryd.jobs.repair import REPAIR
from memoryd.running import dreaming, extraction, sleeping
from memoryd.running.answering import OFFLINE, RunQuestion
from memoryd.running.runner import Runner
from memoryd.running.second_reader import SecondReader, keep_whole, sum_tokens


class RejectedReplyError(MemorydError):
    """Report that the model's reply is unusable."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """Describe how a kind of job is carried out."""

    gather: Callable[[sleeping.GatherContext, Run], Any]  # returns the inputs, or the reason why there is nothing to do
    decide: Callable[[Any], Steps]
    merge: Callable[[Sequence[Reply]], Reply | RejectedReply]  # joins the replies to the parts of a question
    again: Callable[[sleeping.GatherContext, Run, Any], Any] | None = None  # gathers again for a changed core


KINDS: dict[str, JobKind] = {
    "sleep": JobKind(extraction.gather_sleep, joint.decide, joint.merge),
    extraction.KIND: JobKind(extraction.gather, facts.decide, facts_reply.merge),
    dreaming.KIND: JobKind(dreaming.gather, dream.decide, dream_reply.merge, dreaming.ask_again),
}


def carry_out(runner: Runner, run: Run) -> None:
    """Gather the inputs of a job, ask its questions, and commit its decision.

    Raises:
        RejectedReplyError: there was no usable reply.
        AwayError: the core changed before each commit.
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

    def attempt() -> None:
        if isinstance(deciding.end, Done) and deciding.end.decide_again and kind.again:  # the core has changed
            deciding.inputs = kind.again(source, run, deciding.inputs)
            deciding.end = deciding.end.decide_again(deciding.inputs)
        end = deciding.decide()
        if isinstance(end, RejectedReply):
            raise RejectedReplyError(end.why)
        told = replace(end, receipt=end.receipt | deciding.receipt())
        runner.commit(run, told, writer, reply=deciding.written, phases=deciding.phases)

    runner.decide_anew(run, "the core changes", attempt)


@dataclass(slots=True)
class _Decision:
    """Decide one run: drive its job, and answer its questions."""

    runner: Runner
    run: Run
    kind: JobKind
    inputs: Any  # frozen snapshot of the inputs
    reader: SecondReader
    author: RunQuestion | None = None  # the job's first question, which writes the result …
    written: Reply | None = None  # … and the reply to it, for the run report
    phases: dict[str, float] = field(default_factory=dict)  # phase → time when it began, monotonic
    repairs: list[Reply] = field(default_factory=list)  # replies to questions about refused claims
    end: End | None = None  # the decision; its commit may have failed, because the core has changed

    def receipt(self) -> dict[str, Any]:
        """Return values for the run report: what the second reader and the repairs did and cost."""
        found = {"reader": self.reader.receipt()} if self.reader.receipt() else {}
        if self.repairs:
            spent = [(one.tokens_in, one.tokens_out) for one in self.repairs]
            found |= {REPAIR: {"questions": len(spent), **sum_tokens(spent)}}
        return found

    def decide(self) -> End:
        """Return the decision in `end`; if there is none, decide. If a reply is rejected, ask for another reply."""
        while True:
            end = self.end = self.end or drive(self.kind.decide(self.inputs), self._answer, self._enter)
            self.runner.go_on(self.run)
            author, written = self.author, self.written
            if not (isinstance(end, RejectedReply) and author and written and written.backend != OFFLINE):
                return end
            # Even if a later question caused the rejection, only another reply to the first question can help.
            self.written = self.runner.answerer.after_rejection(author, written, end.why)
            self.end = None

    def _enter(self, phase: str) -> None:
        self.runner.go_on(self.run)
        self.phases.setdefault(phase, self.runner.clock.monotonic())

    def _answer(self, ask: Ask) -> Reply:
        """Return the reply to a question of the job. The reply to its first question is asked for only once."""
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
        asked = RunQuestion(self.run, ask, runner.settings, merge, runner.step, stand_in=stand_in)
        return asked, runner.answerer.answer(asked)
