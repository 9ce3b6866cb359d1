"""Run a refinement step by step. Each change of the core passes the guards and is committed at once.

All changes have the id of the run, so one rollback reverts all of them. A rollback happens if a person asks for it, if
a guard has stopped the run, or for an unfinished run with `refine.unfinished: rollback`. If a run finds changes of its
own, an earlier process ended in the middle of it. Such a run does not continue; it only decides whether the changes
stay.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlalchemy import Connection

from memoryd.changing import commit as committing
from memoryd.changing import dedup, guard_check, ledger_runs, time_machine
from memoryd.changing.core_import import CoreImport, take_over
from memoryd.changing.time_machine import RollbackTarget
from memoryd.changing.writer import Writer
from memoryd.config import RefineSettings, Settings
from memoryd.database import audit, memories, query, runs, spend, sqlite
from memoryd.database.runs import Run
from memoryd.errors import RefusedError, StateError
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder
from memoryd.gauge.estimate import estimate
from memoryd.jobs import refine, refinement, refinement_tools, stored_edits, tally
from memoryd.jobs.job import Ask, ChangeResult, Done, NothingToDo, Operate, Reply
from memoryd.jobs.reader import JOB as VERIFY
from memoryd.jobs.refine import Apply, RefineInputs, Steps, Talk
from memoryd.jobs.refinement import RefinementSession
from memoryd.jobs.tally import RefinementTally
from memoryd.ledger import guards
from memoryd.ledger.guards import Guard, GuardLimits, Refusal, core_tokens
from memoryd.ledger.memory import PREFIXES, Memory, MemoryKind, from_json
from memoryd.ledger.operation import Change, text_of
from memoryd.llm.failure import ModelError, Trouble
from memoryd.reading.scrubbing import SecretError, redacted_json
from memoryd.recall.query import parse
from memoryd.recall.snippet import find_held
from memoryd.running import proposing, rejection, sleeping
from memoryd.running.answering import OFFLINE, RunQuestion
from memoryd.running.proposed_refining import PENDING, WAITS, RefinementSandbox, make_entry, with_id
from memoryd.running.runner import Runner
from memoryd.running.second_reader import SecondReader
from memoryd.text.private import is_private
from memoryd.worker.client import ClosedError, WorkerError

T = TypeVar("T")
KIND = ledger_runs.REFINE
AGENT = "agent"  # value of the option `by` if the agent calls the tools; otherwise a model is asked
DEDUP = ledger_runs.DEDUP
READER = "reader"  # key of the second reader's figures in the run report
LONGEST_GUIDE = 20_000  # characters
USUAL_ROOM = 24_000  # tokens of a question, if the limit of the model is unknown
LEAST_ROOM = 500
STOPPED = "memoryd was stopped"


@dataclass(frozen=True, slots=True)
class Refiner:
    """Carry out one refinement.

    Attributes:
        runner: carries the run out.
        source: where the inputs come from.
        writer: the tools of a commit.
        run: the run.
        reader: the second reader of new texts.
        proposes: True if the result is a proposal; otherwise each change is written at once.
        kept: values of the run report that are not about the refinement itself.
        sandbox: the result so far, if the result is a proposal.
    """

    runner: Runner
    source: sleeping.GatherContext
    writer: Writer
    run: Run
    reader: SecondReader
    proposes: bool
    kept: dict[str, Any] = field(default_factory=dict)
    sandbox: RefinementSandbox = field(default_factory=RefinementSandbox)

    def carry_out(self, how: Callable[["Refiner"], None]) -> None:
        """Refine, and end the run. If a person cancels it during a commit, it still ends in the normal way.

        Args:
            how: refines, either by questions to the agent's own model (`ask_model`) or by the agent's own call.

        Raises:
            ModelError: the agent's own model does not answer, and nothing was changed yet.
            StaleRunError: another claim owns the run now, or the run was cancelled without any change.
        """
        try:
            how(self)
        except committing.StaleRunError:
            if not self.tally().changes or not self.heeds_cancel():
                raise
            self.keep()
            self.carry_out(lambda refiner: refiner.finish(refiner.restore_session().end(refinement.CANCELLED)))

    def heeds_cancel(self) -> bool:
        """Return True if a person has cancelled the run. The request then counts as accepted."""
        return runs.heed_cancel(self.writer.engine, self.run)

    def ask_model(self) -> None:
        """Refine by a conversation with the agent's own model."""
        if self.tally().changes:  # an earlier attempt of this run made them
            self.finish(self.restore_session().end(refinement.CANCELLED if self.heeds_cancel() else STOPPED))
            return
        take_over(self.writer, self.run.agent_id)
        inputs = self.begin_run()
        if inputs is None:
            return
        if self.source.settings.llm.provider == OFFLINE:
            self.end("skipped", "only a model can condense what is left")
            return
        talk = self.talk(inputs.session)
        until = self.source.clock.monotonic() + self.source.settings.refine.max_time.total_seconds()
        declined = self.converse(talk, talk.refine(inputs), until)
        if declined is None:
            self.finish(talk.session)
        else:
            self.end("declined", declined)

    def begin_run(self) -> RefineInputs | None:
        """Return the inputs. If there is nothing to refine, end the run and return None."""
        why = self.find_rejection()
        if why is None:
            self.end_duplicates()
            inputs = self.gather()
            why = refine.explain_nothing(inputs)
            if why is None:
                return inputs
        self.end("skipped", why)
        return None

    def find_rejection(self) -> str | None:
        """Return why the refinement must not run: a person rejected its result for the same core. Otherwise None."""
        if not self.proposes or self.run.options.get("force"):
            return None
        found = sqlite.read(self.writer.engine, runs.rejected_like, self.run.agent_id, self.run.kind, self._made_from())
        return None if found is None else rejection.describe_rejection(found)

    def _made_from(self, seen: Collection[str] | None = None) -> str:
        """Return a digest of the input, so that the same input is not proposed again after a rejection.

        Args:
            seen: the ids of the memories in the input; None means all live ones.
        """
        mode = mode_of(self.run, self.source.settings.refine)
        core = [one for one in self._read_live() if seen is None or one.id in seen]
        return hashlib.sha256("\n".join((mode, self._guide(), rejection.core_digest(core))).encode()).hexdigest()

    def first_step(self) -> object:
        """Return the first step of the refinement, for a dry run."""
        inputs = self.gather()
        why = refine.explain_nothing(inputs)
        return next(self.talk(inputs.session).refine(inputs)) if why is None else NothingToDo(why)

    # --- inputs ---------------------------------------------------------------------------------------------------

    def core(self) -> list[Memory]:
        """Return the live core in the order of the file; for a proposal, as it would be after the changes so far."""
        return self.sandbox.apply_to(self._read_live())

    def _read_live(self) -> list[Memory]:
        return sqlite.read(self.writer.engine, memories.read_live, self.run.agent_id, MemoryKind.CORE)

    def gather(self) -> RefineInputs:
        """Return the inputs on the present core."""
        core, settings = self.core(), self.source.settings
        tokens = self.runner.answerer.room_of(settings, self.run.agent_id)
        return RefineInputs(
            core=tuple(core),
            session=self._begin_session(core),
            target=settings.refine.target_tokens,
            may_delete=self._count_deletable(core),
            consent=settings.refine.consent,
            force=bool(self.run.options.get("force")),
            guide=self._guide(),
            judges=sleeping.make_judges(self.source),
            room=USUAL_ROOM if tokens is None else max(LEAST_ROOM, tokens // 2),
            instructions=sleeping.read_instructions(refine.JOB),
            consent_instructions=sleeping.read_instructions(refine.CONSENT),
        )

    def _begin_session(self, core: Sequence[Memory]) -> RefinementSession:
        """Return the state of a new refinement of this core."""
        settings, limits = self.source.settings.refine, self.writer.limits
        tokens = core_tokens(core, estimate)
        return RefinementSession(
            mode=mode_of(self.run, settings),
            tokens=tokens,
            ids=frozenset(memory.id for memory in core),
            floor=math.ceil(limits.retention_floor * tokens),
            most_mutations=limits.max_mutations,
            most_steps=settings.max_steps,
        )

    def _count_deletable(self, core: Sequence[Memory]) -> int:
        args = (self.writer.now(), self.writer.limits.erosion_percent, core, self.sandbox.changes)
        return sqlite.read(self.writer.engine, guard_check.count_deletable, self.run.agent_id, *args)

    def _guide(self) -> str:
        path = self.source.settings.get_agent(self.run.agent_id).guide
        if path is None:
            return ""
        data = regular.read_in(path.parent, path.name)
        if data is None:
            raise StateError("the agent's guide is not there", str(path), f"agents[].guide of {self.run.agent_id}")
        if is_private(path.name, data):
            raise StateError(
                "the agent's guide is private, so no model gets it", str(path), "name another file as guide"
            )
        (clean,) = self.source.scrubber.redact([data.decode("utf-8", "replace")[:LONGEST_GUIDE]])
        return clean

    def end_duplicates(self) -> None:
        """End the duplicates in the core, so that the refinement does not get them."""
        if self.proposes:
            found = dedup.find_duplicates(self.writer.engine, self.run.agent_id, (MemoryKind.CORE,))
        else:
            found = dedup.run(self.writer, self.run)
        self.kept.update(found.receipt)
        for edit in found.edits:
            if isinstance(edit, Operate):
                self._change(edit, {})

    def _change(self, operate: Operate, told: Mapping[str, Any]) -> tuple[Sequence[Change], Sequence[Refusal]]:
        """Let the guards judge a change.

        Write the accepted part, or add it to the proposal; return it with the refusals.

        Args:
            operate: the change; it is judged on the result of the earlier ones.
            told: values of the run report until the next change.
        """
        if self.proposes:
            planned = committing.preview_run(self.writer, self.run, [operate], self.sandbox.changes)
            passed = planned.passed[-1]
            if passed.changes:
                self.sandbox.edits = (*self.sandbox.edits, with_id(operate, passed.changes))
            self.sandbox.changes = planned.changes
            self.runner.note_guards(
                self.run, committing.CommitResult(refused=tuple(guards.describe_refusals(passed.refusals)))
            )
            return passed.changes, passed.refusals
        outcome = committing.RunOutcome(committing.RUNNING, receipt={**self.kept, **told})
        done = committing.commit(self.writer, self.run, [operate], outcome)
        self.runner.note_guards(self.run, done)
        return done.changes, [
            Refusal(Guard(row["guard"]), tuple(row["memories"]), row["why"], row["numbers"]) for row in done.refused
        ]

    # --- steps ----------------------------------------------------------------------------------------------------

    def talk(self, session: RefinementSession) -> Talk:
        """Return the conversation of a refinement, on the present core."""
        return Talk(session, self.core(), sleeping.make_judges(self.source))

    def converse(self, talk: Talk, steps: Steps[T], until: float = math.inf) -> T | None:
        """Carry out the steps, and return their result.

        The result is None if the refinement ends early: a person cancels it, the time `until` (monotonic) is over, or
        the model does not answer. If nothing was changed yet, a cancel or a failed model raises an error instead.
        """
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as over:
                result: T = over.value
                return result
            if self._is_stopped(talk, until):
                return None
            if isinstance(step, Ask):
                answer = self._answer(talk, step)
                if talk.session.ended is not None:
                    return None
            elif isinstance(step, Apply):
                answer = self.apply(step)
            else:
                answer = search(self.core(), step.query, step.after, step.before)

    def _is_stopped(self, talk: Talk, until: float) -> bool:
        if until == math.inf:
            return False
        if self.source.clock.monotonic() > until:
            talk.session = talk.session.end("out of time")
            return True
        if talk.session.mutations and self.heeds_cancel():
            talk.session = talk.session.end(refinement.CANCELLED)
            return True
        self.runner.go_on(self.run)
        return False

    def _answer(self, talk: Talk, step: Ask) -> Reply | None:
        """Return the reply of the agent's own model (never of another one) or of the second reader.

        It is None if the question is too long, or if there is no second reader.
        """
        try:
            if step.job == VERIFY:
                return self.reader.answer(step)
            runner = self.runner
            asked = RunQuestion(self.run, step, runner.settings, refine.merge, runner.step, own_model_only=True)
            return runner.answerer.answer(asked)
        except ClosedError:
            raise
        except (ModelError, WorkerError) as error:
            if is_called(self.run):
                self.runner.log.warning("second reader does not answer", run=self.run.id, why=error.what)
            elif not (isinstance(error, ModelError) and error.failure.trouble is Trouble.OVERFLOW and step.tools):
                if not talk.session.mutations:
                    raise
                talk.session = talk.session.end(f"the model failed: {error.what}")
            return None

    def apply(self, step: Apply) -> ChangeResult:
        """Carry out one change, and return what the guards accepted and refused, with the core after it."""
        texts = [text for one in step.operate.operations if (text := text_of(one)) is not None]
        changes: Sequence[Change] = ()
        try:
            self.source.scrubber.require_clean(texts, f"what run {self.run.id} would write")
        except SecretError as error:
            refusals: Sequence[Refusal] = (Refusal(Guard.TAINT, tuple(step.operate.seen), error.what),)
        else:
            changes, refusals = self.apply_step(step)
        core = self.core()
        return ChangeResult(tuple(changes), tuple(refusals), tuple(core), self._count_deletable(core))

    def apply_step(self, step: Apply) -> tuple[Sequence[Change], Sequence[Refusal]]:
        """Let the guards judge a change, and write what they accept. Until then, the run report names the change."""
        doing = {"tool": step.tool, "ids": list(step.operate.seen)}
        return self._change(step.operate, {KIND: step.session.row() | {"doing": doing}})

    # --- the end --------------------------------------------------------------------------------------------------

    def describe_pending(self) -> dict[str, Any]:
        """Return the changes proposed so far, in stored form, for the agent's next call."""
        return {} if not self.proposes else {PENDING: stored_edits.dump(self.sandbox.edits)}

    def go_on_from(self, kept: Sequence[Any]) -> None:
        """Continue from changes that `describe_pending` has returned.

        Raises:
            ValueError: another version of memoryd stored them.
        """
        if self.proposes:
            self.sandbox.edits = tuple(one for one in stored_edits.load(kept) if isinstance(one, Operate))
            self.sandbox.changes = committing.preview_run(self.writer, self.run, self.sandbox.edits).changes

    def receipt(self) -> dict[str, Any]:
        """Return the report of the run so far."""
        return sqlite.read(self.writer.engine, runs.read_receipt, self.run.id)

    def keep(self) -> None:
        """Copy the figures about duplicates and the second reader from an earlier part of the run's report."""
        self.kept.update({name: value for name, value in self.receipt().items() if name in {DEDUP, READER}})

    def report_reading(self) -> dict[str, Any]:
        """Return the second reader's figures over all parts of the run, for the run report."""
        return {READER: found} if (found := _add_counts(self.kept.get(READER, {}), self.reader.receipt())) else {}

    def restore_session(self) -> RefinementSession:
        """Return the state of the refinement from the run report; a new state if the report has none."""
        receipt = self.receipt()
        return refinement.restore_session(receipt.get(KIND, {}), receipt, self._begin_session(self.core()))

    def tally(self) -> RefinementTally:
        """Return the counts of changes so far, whether they are written or only proposed."""
        if self.proposes:
            return tally.of_changes(self.sandbox.changes)
        return sqlite.read(self.writer.engine, count_changes, self.run)

    def finish(self, session: RefinementSession) -> None:
        """End the refinement: count its changes, revert or propose them if necessary, report them, and end the run."""
        if self.proposes:
            planned = committing.preview_run(self.writer, self.run, self.sandbox.edits)
            session = self.sandbox.judged_again(session, planned)
        done = self.tally()
        after = core_tokens(self.core(), estimate)
        summary = session.summary if session.ended == refinement.COMPLETED else None
        told = session.row() | {"counted": done.row(), "end": {"tokens": after}}
        if summary:
            told["unfounded"] = ["numbers"] if tally.is_miscounted(summary, done, (session.tokens, after)) else []
        if not done.changes and not told.get("unfounded"):
            if session.ended == refinement.COMPLETED:
                self.end("skipped", "nothing could be condensed safely", {KIND: told}, session.claims)
            else:
                state = "cancelled" if session.ended == refinement.CANCELLED else "failed"
                self.end(state, f"nothing was changed: {session.why or session.ended}", {KIND: told}, session.claims)
            return
        undo = session.ended == refinement.BREAKER or (
            session.ended != refinement.COMPLETED and self.source.settings.refine.unfinished == "rollback"
        )
        if done.changes and undo:
            try:
                self.write(session, done, after, {KIND: told | {"rolled_back": True}}, undo=True)
            except RefusedError as error:  # somebody has changed one of the memories since
                self.runner.log.warning("refinement not reversed", run=self.run.id, why=error.what)
                told["conflict"] = error.what
            else:
                return
        self.write(session, done, after, {KIND: told}, undo=False)

    def write(
        self, session: RefinementSession, done: RefinementTally, after: int, receipt: dict[str, Any], *, undo: bool
    ) -> None:
        """Report the changes or their reversal to the agent, and end the run.

        Raises:
            RefusedError: the changes cannot be reverted.
        """
        summary = self.summary(session)
        if self.proposes and (undo or session.ended == refinement.CANCELLED):
            undo, receipt[KIND]["rolled_back"] = True, True
        elif self.sandbox.changes:
            _, why, _ = refinement.describe_end(session, undo=False, changed=True, conflict=False)
            cut = "" if session.ended == refinement.COMPLETED else f"it was cut short ({session.ended}); "
            seen = session.ids | {one.memory_id for one in self.sandbox.changes}
            note = self.note(done, (session.tokens, after), f"{cut}{WAITS}", summary)
            proposed = self._propose_edits(receipt, why, seen, summary)
            self.close([note], runs.PROPOSED, why, receipt, session.claims, proposed=proposed)
            return
        state, why, how = refinement.describe_end(
            session, undo=undo, changed=bool(done.changes), conflict="conflict" in receipt[KIND]
        )
        receipt[KIND]["end"] = {"tokens": session.tokens if undo else after}
        note = self.note(done, (session.tokens, after), how, summary)
        revise = self._revise if undo and not self.proposes else None
        self.close([note], state, why, receipt, session.claims, revise)

    def _propose_edits(
        self, receipt: dict[str, Any], why: str | None, seen: Collection[str] | None = None, summary: str | None = None
    ) -> Done:
        return Done(self.sandbox.edits, receipt, why, summary=summary, made_from=self._made_from(seen))

    def close(
        self,
        edits: Sequence[Operate],
        state: str,
        why: str | None,
        receipt: dict[str, Any],
        claims: Sequence[Mapping[str, Any]],
        revise: committing.Revise | None = None,
        proposed: Done | None = None,
    ) -> None:
        """Write the last edits, or the proposal, and end the run.

        Its row gets the spent tokens and, hidden from people, the verdict on each new text.
        """
        spent = spend.spent_by_run(self.writer.engine, self.run.id)
        row = {"claims": redacted_json(self.source.scrubber, claims)} if claims else {}
        told = {**self.kept, **self.report_reading(), **receipt}
        outcome = committing.RunOutcome(state, why, spent.tokens_in, spent.tokens_out, told, row=row)
        if proposed is not None:
            if self.runner.put(self.run, proposed, outcome, self.writer, edits):
                return
            edits, state, why = (), "failed", "what it came to was changed meanwhile"
            outcome = replace(outcome, state=state, why=why, row={})
        self.runner.note_guards(self.run, committing.commit(self.writer, self.run, edits, outcome, revise=revise))
        self.runner.log_end(self.run, state, why)

    def note(
        self, done: RefinementTally, sizes: tuple[int, int], how: str | None, summary: str | None = None
    ) -> Operate:
        """Return the journal entry that reports the refinement to the agent.

        `sizes` are the tokens before and after.
        """
        today = proposing.get_today(self.writer, self.source.settings.zone)
        return make_entry(tally.write_entry(today, done, sizes, how, summary), self.writer.now())

    def summary(self, session: RefinementSession) -> str | None:
        """Return the model's own summary with secrets redacted; None if there is none."""
        if not session.summary or session.ended != refinement.COMPLETED:
            return None
        (clean,) = self.source.scrubber.redact([session.summary])
        return clean

    def _revise(
        self, connection: Connection, folders: tuple[OpenFolder, OpenFolder], brought: CoreImport
    ) -> time_machine.Revision:
        target = RollbackTarget(self.run.id)
        planned = time_machine.plan(connection, self.run.agent_id, target, self.writer.now())
        planned.check()
        revision = time_machine.revise(connection, self.run.agent_id, target, planned, folders, brought)
        return replace(revision, actor=guard_check.ACTOR)

    def end(
        self, state: str, why: str, receipt: dict[str, Any] | None = None, claims: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """End a run that changed nothing except duplicates."""
        done = self.tally()
        if state == "skipped" and done.duplicates:
            if self.proposes:
                before, after = (core_tokens(core, estimate) for core in (self._read_live(), self.core()))
                note = self.note(done, (before, after), WAITS)
                proposed = self._propose_edits(receipt or {}, why)
                self.close([note], runs.PROPOSED, why, receipt or {}, claims, proposed=proposed)
                return
            state, why = "succeeded", f"{done.duplicates} duplicates ended; {why}"
        if self.proposes:
            self.kept.pop(DEDUP, None)  # the duplicates stay, because nothing is proposed
        self.close([], state, why, receipt or {}, claims)


def _add_counts(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of two reports of the second reader."""
    both = {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other} - {"test"}}
    test = {**one.get("test", {}), **other.get("test", {})}
    return both | ({"test": test} if test else {})


def is_called(run: Run) -> bool:
    """Return True if the agent itself calls the tools of this refinement."""
    return run.options.get("by") == AGENT


def count_changes(connection: Connection, run: Run) -> RefinementTally:
    """Return the counts of a run's changes from the audit, without reverted ones."""
    texts = audit.make_text_reader(connection)
    sql = (
        'SELECT operation, "before", "after" FROM audit WHERE agent_id = ? AND run_id = ? AND memory_id LIKE ?'
        " ORDER BY id"
    )
    rows = query.fetch_rows(connection, sql, run.agent_id, run.id, f"{PREFIXES[MemoryKind.CORE]}%")

    def read_state(digest: str | None) -> Memory | None:
        text = None if digest is None else texts(digest)
        return None if text is None else from_json(text)

    return tally.count_entries((operation, read_state(before), read_state(after)) for operation, before, after in rows)


def limits_of(mode: str, settings: Settings) -> GuardLimits:
    """Return the limits of the guards: the configured ones, or those of a stricter mode."""
    limits, refine_ = settings.guards, settings.refine
    if mode != refinement_tools.STRICT:
        return GuardLimits(limits.retention_floor, limits.erosion_percent, refine_.max_mutations)
    floor = max(limits.retention_floor, refinement_tools.STRICT_FLOOR)
    return GuardLimits(floor, limits.erosion_percent, min(refine_.max_mutations, refinement_tools.STRICT_MUTATIONS))


def mode_of(run: Run, settings: RefineSettings) -> str:
    """Return the mode of a run: the requested mode, or else the configured one."""
    return str(run.options.get("mode") or settings.mode)


def search(core: Sequence[Memory], query: str, after: str | None, before: str | None) -> list[str]:
    """Return the ids of memories that match a query and were first said between two days, best first.

    A query without a word, such as `%` or `_`, is searched as characters.
    """
    words, signs = [term.text for term in parse(query).terms], query.strip()
    found = []
    for memory in core:
        day = refinement.first_said(memory)
        if (after or "") <= day and (before is None or day <= before):
            hits = len(find_held(memory.content, words)) if words else memory.content.count(signs) if signs else 0
            if hits or not signs:
                found.append((-hits, memory.id))
    return [memory_id for _, memory_id in sorted(found)]
