"""Run due runs: take them from the job table, carry them out, commit their results, and handle failures.

The runner does not know single kinds of runs: `kinds.KINDS` has a function for each kind. The row of a run has its
state, reason, error (without content) and report.
"""

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from memoryd.changing import commit as committing
from memoryd.changing import ledger_runs, plan, restore
from memoryd.changing.writer import Writer
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import alarms, query, runs, spend, sqlite
from memoryd.database.runs import Run
from memoryd.errors import AwayError, MemorydError, NotFoundError, RefusedError, StateError, describe
from memoryd.files import regular
from memoryd.files.journal import Journal
from memoryd.files.log import Log, bind_values
from memoryd.jobs import facts, job
from memoryd.jobs.job import Done, JobEdit, NothingToDo, Reply
from memoryd.jobs.reader import ReaderAnswer
from memoryd.ledger.guards import GuardLimits
from memoryd.ledger.operation import OperationError, texts_of
from memoryd.reading.scrubbing import Scrubber, SecretError, redacted_json, strings_of
from memoryd.running import modes, owner, proposing, rejection, retry, sleeping
from memoryd.running.answering import Answerer
from memoryd.running.hooks import HookResult, run_hook
from memoryd.tiers import daily
from memoryd.worker.client import ClosedError, Worker

SETTLE_AGAIN_SECONDS = 30.0
UNTOLD_MAX = 20
PROTECTED = "constitutional"  # alarm about an edit that removed a protected memory …
EMPTIED = "emptied"  # … and about one that removed most of the core
_WORDED = (job.AppendDaily, job.AddMemories, job.EditFacts, job.KeepSummary)  # edits with texts that can be redacted
REFUSALS = (RefusedError, NotFoundError, OperationError)
REDECIDED_MAX = 5  # attempts to commit while the core changes; then the run is retried later


class StoppingError(MemorydError):
    """Report that the process is stopping. The run continues after the next start."""


class CancelledError(MemorydError):
    """Report that a person has asked the run to stop."""


@dataclass(frozen=True, slots=True)
class RunKind:
    """Describe one kind of run.

    Attributes:
        carry_out: carries out and ends a run.
        declines: True if a refusal is an answer to the person or tool that asked; for other kinds it is a failure.
        tells: True if `hooks.on_summary` gets the text that the run adds to daily files.
    """

    carry_out: Callable[["Runner", Run], None]
    declines: bool = False
    tells: bool = True


@dataclass(slots=True)
class Runner:
    """Carry runs out. Safe to use from several threads; each run is carried out by one thread."""

    engine: Engine
    settings: Settings
    worker: Worker
    scrubber: Scrubber
    answerer: Answerer
    clock: Clock
    owner: str
    log: Log
    journal: Journal
    kinds: Mapping[str, RunKind]
    new_id: Callable[[], str]
    step: Callable[[str], None] = lambda _name: None
    renamed: Callable[[], None] = lambda: None  # called when ids change that other code may have cached
    erase_index: Callable[[str | None], None] = lambda _agent_id: None  # for one agent; None: for all
    renew_copies: Callable[[], None] = lambda: None  # called after text was erased, because old copies still have it
    active: dict[str, Run] = field(default_factory=dict)
    settle_lock: threading.Lock = field(default_factory=threading.Lock)
    claim_lock: threading.Lock = field(default_factory=threading.Lock)
    unsettled: dict[str, float] = field(default_factory=dict)  # agent → monotonic time of the next attempt
    stopping: bool = False
    proposes: bool = True  # False in a dry run, which shows what would be written
    # Opens a `sandbox.Sandbox` for a self-test; None if this runner is itself in a sandbox.
    opened: Callable[[Settings], AbstractContextManager[Any]] | None = None

    def recover(self) -> None:
        """Recover after a start: queue runs of ended processes again, complete intents, and complete the journal."""
        for run in runs.recover_orphans(
            self.engine, alive=owner.is_elsewhere, attempts=self.settings.jobs.attempts, now=self.clock.text()
        ):
            self.log.warning("run recovered", run=run.id, kind=run.kind, agent=run.agent_id, state=run.state)
            if run.state == "dead":
                self._alarm_dead(run)
        self.answerer.renew()
        self.settle()
        restore.reconcile(self.engine, self.journal, self.clock.text())
        self.tend_proposals()

    def tend_proposals(self) -> None:
        """Withdraw proposals that need no answer any more because the configuration has changed."""
        for agent in self.settings.agents:
            why = "its job runs by itself now" if agent.privacy != "silo" else "the agent is in private mode now"
            over = [
                kind
                for kind in modes.KINDS
                if agent.privacy == "silo" or modes.mode_of(self.engine, self.settings, agent.id, kind) == modes.AUTO
            ]
            try:
                count = proposing.take_back(self.writer(agent.workspace), agent.id, why, over)
                proposing.tidy(self.engine, agent.workspace, agent.id)
            except (MemorydError, OSError) as error:
                self.set_alarm(proposing.ALARM, f"proposals cannot be withdrawn: {describe(error)}", agent.id)
                continue
            self.set_alarm(proposing.ALARM, None, agent.id)
            if count:
                self.log.info("proposals withdrawn", agent=agent.id, count=count, why=why)

    def settle(self) -> None:
        """Complete the remaining intents. If that fails, it is retried later, and the runs of the agent wait."""
        with self.settle_lock:
            stuck: set[str] = set()
            for run_id, agent_id in committing.open_intents(self.engine):
                if run_id in self.active or agent_id in stuck:
                    continue
                if self.clock.monotonic() < self.unsettled.get(agent_id, 0) or not self._settle_one(run_id, agent_id):
                    stuck.add(agent_id)
            self.unsettled = {agent_id: at for agent_id, at in self.unsettled.items() if agent_id in stuck}

    def _settle_one(self, run_id: str, agent_id: str) -> bool:
        agent = self.settings.find_agent(agent_id)
        if agent is None:
            return False
        try:
            done = committing.settle(self.writer(agent.workspace), run_id)
        except (OSError, MemorydError) as error:
            self.unsettled[agent_id] = self.clock.monotonic() + SETTLE_AGAIN_SECONDS
            self.set_alarm("settle", f"run {run_id} cannot be completed: {describe(error)}", agent_id, run_id)
            return False
        self.set_alarm("settle", None, agent_id, run_id)
        if done.run is not None:
            self.clear_alarms_of(done.run)
            self.record_watermarks(done.run)
            self.log.info(
                "intent completed", run=run_id, agent=agent_id, files=list(done.files), memories=done.memories
            )
        return True

    def is_unsettled_due(self) -> bool:
        """Return True if it is time to retry an intent that could not be completed."""
        return any(at <= self.clock.monotonic() for at in self.unsettled.values())

    def takeable_agents(self) -> list[str]:
        """Return the ids of the agents whose runs may be taken now."""
        agents = [agent for agent in self.settings.agents if agent.held_by is None]
        return [agent.id for agent in agents if agent.id not in self.unsettled]

    def abandon(self) -> list[str]:
        """Queue the running runs for the next start, and return their ids.

        If they still finish, their results are refused.
        """
        return [run.id for run in list(self.active.values()) if runs.interrupt(self.engine, run, self.clock.text())]

    def run_next(self, only: str | None = None) -> Run | None:
        """Take one due run and carry it out; return the run, or None if none is due."""
        if self.stopping:
            return None
        self.settle()
        with self.claim_lock:
            run = runs.claim_run(
                self.engine, owner=self.owner, now=self.clock.text(), agents=self.takeable_agents(), only=only
            )
            if run is None:
                return None
            self.active[run.id] = run
        try:
            with bind_values(agent=run.agent_id, run=run.id):
                self._execute(run)
        finally:
            del self.active[run.id]
        return runs.get_run(self.engine, run.id)

    def beat(self) -> None:
        """Record that the active runs are alive. Queue runs again whose end could not be recorded."""
        with self.claim_lock:
            active = list(self.active)
            lost = runs.release_lost(self.engine, owner=self.owner, active=active, now=self.clock.text())
        if lost:
            self.log.warning("runs given back", runs=lost)
        runs.beat(self.engine, active, self.clock.text())

    # --- one run --------------------------------------------------------------------------------------------------

    def _execute(self, run: Run) -> None:
        self.log.info("run started", run=run.id, kind=run.kind, agent=run.agent_id, attempt=run.attempt)
        try:
            self._carry_out(run)
        except CancelledError:
            self.end(run, "cancelled", why="cancelled by hand")
        except committing.StaleRunError:
            self.log.warning("stale run thrown away", run=run.id)
            if runs.is_cancelled(self.engine, run):
                self.end(run, "cancelled", why="cancelled by hand")
        except Exception as error:  # noqa: BLE001 - an error of a run is recorded on its row, and the daemon continues
            if self.stopping or isinstance(error, ClosedError):
                runs.interrupt(self.engine, run, self.clock.text())  # the stop may also have ended the worker
            elif isinstance(error, REFUSALS) and self.kinds[run.kind].declines:
                # The person who asked for the run gets the refusal as its answer.
                self.end(run, "declined", why=str(error).removeprefix(f"{run.id}: "))
            else:
                self._fail_run(run, error)

    def _carry_out(self, run: Run) -> None:
        if run.kind not in self.kinds:
            raise StateError(f"there is no job kind {run.kind!r}")
        if unanswered := self._find_unanswered(run):
            self.commit(run, unanswered, self.writer(self.workspace_of(run)))
        else:
            self.kinds[run.kind].carry_out(self, run)

    def source(
        self, workspace: Path, known: Callable[[str], ReaderAnswer | None] = lambda _key: None, *, is_up: bool = False
    ) -> sleeping.GatherContext:
        """Return what a job needs to gather its inputs."""
        writer = self.writer(workspace)
        return sleeping.GatherContext(
            self.engine, self.settings, self.worker, self.scrubber, self.clock, workspace, writer, is_up, known
        )

    def is_proposing(self, run: Run) -> bool:
        """Return True if the decision of a run must be a proposal."""
        if not self.proposes or run.kind not in modes.KINDS:
            return False
        return modes.mode_of(self.engine, self.settings, run.agent_id, run.kind) == proposing.PROPOSE

    def _find_unanswered(self, run: Run) -> NothingToDo | None:
        """Return `NothingToDo` if an earlier proposal of the same job is still open; otherwise None."""
        if run.session_id is not None or not self.is_proposing(run):
            return None
        waiting = sqlite.read(self.engine, runs.proposal_of, run.agent_id, run.kind)
        why = f"{waiting} waits for an answer: memoryd job accept, or reject"
        return None if waiting is None else NothingToDo(why, receipt={"waits_for": waiting})

    def unless_stopping(self) -> None:
        """Raise StoppingError if the process is stopping."""
        if self.stopping:
            raise StoppingError("memoryd is stopping")

    def go_on(self, run: Run) -> None:
        """Raise StoppingError or CancelledError if the run must stop."""
        self.unless_stopping()
        if runs.is_cancelled(self.engine, run):
            raise CancelledError("cancelled", where=run.id)

    def list_stuck(self, agents: Sequence[str] | None) -> list[str]:
        """Complete the intents of these agents (None: all), and return text about those that remain."""
        self.settle()
        return [
            f"{self.engine.url.database}: intent of run {run_id} of {agent_id}"
            for run_id, agent_id in committing.open_intents(self.engine)
            if run_id not in self.active and (agents is None or agent_id in agents)
        ]

    def commit(
        self,
        run: Run,
        step: Done | NothingToDo,
        writer: Writer,
        decided: ledger_runs.LedgerPlan | None = None,
        *,
        reply: Reply | None = None,
        phases: Mapping[str, float] | None = None,
        foreseen: plan.Preview | None = None,
    ) -> None:
        """Write the decision of a run, or propose it, and end the run.

        Args:
            run: the run.
            step: its decision.
            writer: the tools of the commit.
            decided: more about the decision of a ledger run, which may depend on the state at the commit.
            reply: the reply on which the decision is based.
            phases: the phases of the run, each with its monotonic start time.
            foreseen: the effect that the commit must have.

        Raises:
            SecretError: the texts to be written have a secret.
            OutdatedError: the core has changed since the decision.
        """
        step = self._redact_edits(run, step)
        blocks = [edit for edit in step.edits if isinstance(edit, job.AppendDaily) and self.kinds[run.kind].tells]
        outcome = self._outcome(run, step, reply, phases or {}, tells=bool(blocks and self.settings.hooks.on_summary))
        decided = decided or ledger_runs.LedgerPlan(step)
        texts = [*_texts(step.edits, outcome.receipt, outcome.why), *decided.texts]
        self.scrubber.require_clean(texts, f"what run {run.id} would write")
        may_propose = self.is_proposing(run)
        if may_propose and isinstance(step, Done) and not step.declined and self.put(run, step, outcome, writer):
            return
        done = committing.commit(
            writer, run, step.edits, outcome, revise=decided.revise, settled=decided.settled, foreseen=foreseen
        )
        self.note_guards(run, done)
        self.record_watermarks(run)
        self.clear_alarms_of(run)
        if run.kind == ledger_runs.ROLLBACK and outcome.state == "succeeded":
            self.set_alarm(EMPTIED, None, run.agent_id)
        # Counts by reason, without content. A sleep may have learned facts from the same question.
        learned = outcome.receipt.get(facts.CONSUMER, {}).get("dropped")
        told = {"memories": done.memories, "dropped": outcome.receipt.get("dropped"), "dropped_facts": learned}
        self.log_end(run, outcome.state, outcome.why, files=list(done.files), **told)
        if outcome.receipt.get("on_summary"):
            self._tell(run.id, run.agent_id, run.session_id, "\n".join(block.body for block in blocks))

    def _redact_edits(self, run: Run, step: Done | NothingToDo) -> Done | NothingToDo:
        """Return a step with secrets redacted that show only in joined lines, such as "The password is" and "X"."""
        edits = tuple(self.scrubber.redact_value(one) if isinstance(one, _WORDED) else one for one in step.edits)
        if edits == step.edits:
            return step
        self.log.warning("secrets redacted in what a run writes", run=run.id)
        return replace(step, edits=edits)

    def _outcome(
        self, run: Run, step: Done | NothingToDo, reply: Reply | None, phases: Mapping[str, float], *, tells: bool
    ) -> committing.RunOutcome:
        """Return the end of the run with its spent tokens. `tells` means that a hook must get its summary."""
        receipt = {**step.receipt} | ({"on_summary": "pending"} if tells else {})
        spent = spend.spent_by_run(self.engine, run.id)
        tokens_in, tokens_out, instead = spent.tokens_in, spent.tokens_out, None
        if reply is not None:
            tokens_in, tokens_out = tokens_in or reply.tokens_in, tokens_out or reply.tokens_out
            said = reply.text.encode(errors="replace")
            sizes = {"sha256": regular.compute_digest(said), "characters": len(reply.text)}
            receipt |= {"backend": reply.backend, "reply": sizes}
            if reply.instead:
                receipt["fallback"], instead = reply.instead, f"answered offline: {reply.instead}"
        return committing.RunOutcome(
            state="skipped" if isinstance(step, NothingToDo) else "declined" if step.declined else "succeeded",
            why="; ".join(part for part in (step.why, instead) if part) or None,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            receipt=receipt,
            late=lambda: {"phases": self._durations(phases)},
            row={"claims": redacted_json(self.scrubber, step.claims)} if step.claims else {},
        )

    def put(
        self, run: Run, step: Done, outcome: committing.RunOutcome, writer: Writer, notes: Sequence[JobEdit] = ()
    ) -> bool:
        """Propose the decision of a run to a person, and end the run; return False if it would change nothing."""
        drafted = proposing.draft_proposal(writer, run, step, self.settings.zone)
        if drafted is None:
            return False
        self.go_on(run)
        if run.session_id is None and not run.options.get("force"):
            made_from = drafted.row["input_hash"] or ""
            rejected = sqlite.read(self.engine, runs.rejected_like, run.agent_id, run.kind, made_from)
            if rejected is not None:  # a person rejected the result of this input, and nobody has asked for it again
                self.end(run, "skipped", why=rejection.describe_rejection(rejected))
                return True
        receipt = {**outcome.receipt, "proposal": drafted.told}
        receipt.pop("on_summary", None)
        why = "; ".join(part for part in ("waits for an answer", outcome.why) if part)
        proposing.store(writer, run, drafted, replace(outcome, why=why, receipt=receipt), notes)
        self.clear_alarms_of(run)
        self.log_end(run, runs.PROPOSED)
        return True

    def decide_anew(self, run: Run, what: str, attempt: Callable[[], None]) -> None:
        """Repeat `attempt` until its commit succeeds, because others may change the state that it decided on.

        Raises:
            AwayError: the state changed before each commit; `what` says what changes.
        """
        for _ in range(REDECIDED_MAX):
            try:
                attempt()
            except plan.OutdatedError as error:
                self.log.info("decided again", run=run.id, kind=run.kind, agent=run.agent_id, why=error.what)
            else:
                return
        raise AwayError(f"{what} all the time", str(self.workspace_of(run)), "the run is tried again")

    def note_guards(self, run: Run, done: committing.CommitResult) -> None:
        """Report what the guards refused or restored in a commit."""
        if done.put_back:
            text = f"an edit of MEMORY.md touched protected memories, put back: {', '.join(done.put_back)}"
            self.set_alarm(PROTECTED, text, run.agent_id)
        for refusal in done.refused:
            self.log.warning("refused by a guard", run=run.id, agent=run.agent_id, **refusal)

    def _durations(self, phases: Mapping[str, float]) -> list[dict[str, Any]]:
        spans = zip(phases.items(), [*phases.values(), self.clock.monotonic()][1:], strict=True)
        return [{"phase": name, "seconds": round(end - began, 4)} for (name, began), end in spans]

    def record_watermarks(self, run: Run) -> None:
        """Append the watermarks that a run has moved to the journal."""
        try:
            for row in sqlite.read(self.engine, query.fetch_rows, f"{restore.MARKS} WHERE w.run_id = ?", run.id):
                self.journal.append(restore.entry_of(tuple(row)))
        except OSError as error:  # the run is done, and the next start writes the missing entries
            self.log.warning("watermark not in the journal", run=run.id, agent=run.agent_id, why=describe(error))

    # --- the hook ---------------------------------------------------------------------------------------------------

    def tell_pending(self) -> None:
        """Call the hook for runs whose process ended between the commit and the hook."""
        rows = sqlite.read(self.engine, runs.list_unannounced, UNTOLD_MAX)
        for run_id, agent_id, session_id, files in rows:
            if self.stopping or run_id in self.active:
                continue
            agent = self.settings.find_agent(agent_id)
            bodies = [None] if agent is None else block_bodies(agent.workspace, files)
            found = [body for body in bodies if body is not None]
            if len(found) < len(bodies) or not self.settings.hooks.on_summary:
                runs.note_hook(self.engine, run_id, "failed: memoryd was stopped before it")
            else:
                self._tell(run_id, agent_id, session_id, "\n".join(found))

    def _tell(self, run_id: str, agent_id: str, session_id: str | None, text: str) -> None:
        result = self.call_hook("on_summary", text, agent_id, session=session_id or "", run=run_id)
        if not result.stopped:  # otherwise it is called at the next start
            runs.note_hook(self.engine, run_id, result.outcome)

    def call_hook(self, hook: str, text: str, agent_id: str, *, session: str = "", **about: str) -> HookResult:
        """Run the user's command for an event with `text` as its input. A failure is logged with `about`."""
        names = {"MEMORYD_AGENT": agent_id, "MEMORYD_SESSION": session, "MEMORYD_ALARM": about.get("alarm", "")}
        result = run_hook(getattr(self.settings.hooks, hook) or "", text, names, is_stopping=lambda: self.stopping)
        if not result.ok and not result.stopped:
            self.log.warning("hook failed", hook=hook, agent=agent_id, session=session, why=result.why, **about)
        return result

    # --- ends and failures ----------------------------------------------------------------------------------------

    def end(
        self,
        run: Run,
        state: str,
        *,
        why: str | None = None,
        error: str | None = None,
        receipt: Mapping[str, Any] | None = None,
    ) -> bool:
        """End a run that writes no more, with its spent tokens; return False if another claim owns it."""
        values: dict[str, Any] = {"why": why, "error": error} | spend.spent_by_run(self.engine, run.id)._asdict()
        with sqlite.begin_write(self.engine) as connection:
            # A failed run keeps the earlier values of its report.
            values["receipt"] = dict(receipt) if receipt is not None else runs.read_receipt(connection, run.id)
            ended = runs.finish(connection, run, state=state, now=self.clock.text(), values=values)
        if ended:
            self.log_end(run, state, why)
        return ended

    def log_end(self, run: Run, state: str, why: str | None = None, **more: object) -> None:
        """Log how a run ended."""
        self.log.info("run finished", run=run.id, kind=run.kind, agent=run.agent_id, state=state, why=why, **more)

    def _fail_run(self, run: Run, error: Exception) -> None:
        text = describe(error)
        self.log.error("run failed", run=run.id, kind=run.kind, agent=run.agent_id, attempt=run.attempt, error=text)
        jitter = zlib.crc32(f"{run.id} {run.attempt}".encode()) / 2**32  # differs for each run and attempt
        verdict = retry.decide(error, attempt=run.attempt, attempts=self.settings.jobs.attempts, jitter=jitter)
        with sqlite.begin_read(self.engine) as connection:
            has_intent = runs.has_intent(connection, run.id)
            has_to_end = runs.has_to_end(connection, run.id)
        if has_to_end and isinstance(verdict, retry.GiveUp):
            verdict = retry.RetryAfter(retry.LONGEST_DELAY, refund=True)
        if has_intent:  # the files may have changed, so the run must be completed, not restarted
            self.unsettled[run.agent_id] = self.clock.monotonic() + SETTLE_AGAIN_SECONDS
            verdict = retry.RetryAfter(retry.FIRST_DELAY, refund=True)
        if isinstance(verdict, retry.RetryAfter):
            due = self.clock.text(ahead=verdict.delay)
            waits = runs.put_back(self.engine, run, state="queued", due=due, error=text, refund=verdict.refund)
            if waits and not verdict.is_told:
                self.set_alarm("waiting", f"{run.kind} run {run.id} waits: {text}", run.agent_id, run.subject)
        elif isinstance(verdict, retry.BlockRun):
            kind = "secret" if isinstance(error, SecretError) else "config"
            blocked = runs.block(self.engine, run, due=self.clock.text(ahead=verdict.delay), why=f"{kind}: {text}")
            if blocked and kind == "secret":
                self.set_alarm("secret", f"{run.kind} run {run.id} {describe(error)}", run.agent_id, run.subject)
        elif self.end(run, "dead", error=text):
            self.clear_alarms_of(run)  # the run waits for nothing now
            self._alarm_dead(run)

    def _alarm_dead(self, run: Run) -> None:
        text = f"{run.kind} run {run.id} failed {run.attempt} times and is not retried"
        self.set_alarm("dead", text, run.agent_id, run.subject)

    def set_alarm(self, kind: str, text: str | None, agent_id: str = "", subject: str = "") -> None:
        """Keep an alarm open with this text, or closed if it is None; log a new alarm."""
        if alarms.set_alarm(self.engine, kind, text, self.clock.text(), agent_id, subject):
            self.log.error("alarm", kind=kind, agent=agent_id, subject=subject, text=text)

    def clear_alarms_of(self, run: Run) -> None:
        """Clear the alarms about a run that has ended."""
        for one in sqlite.read(self.engine, alarms.list_open):
            if one.kind in {"dead", "waiting", "blocked", "secret"} and one[2:4] == (run.agent_id, run.subject):
                self.set_alarm(one.kind, None, run.agent_id, run.subject)

    def workspace_of(self, run: Run) -> Path:
        """Return the workspace of a run's agent.

        Raises:
            StateError: the agent is not in the configuration.
            AwayError: its folder is gone.
        """
        agent = self.settings.find_agent(run.agent_id)
        if agent is None:
            raise StateError("the agent is not in the configuration", where=run.agent_id)
        if not agent.workspace.is_dir():
            hint = "bring it back; the run is tried again"
            raise AwayError("the workspace is gone", where=str(agent.workspace), hint=hint)
        return agent.workspace

    def writer(self, workspace: Path) -> Writer:
        """Return the tools for commits and imports in a workspace."""
        guards = self.settings.guards
        return Writer(
            self.engine, workspace, self.clock.text, self.new_id, self.step,
            GuardLimits(guards.retention_floor, guards.erosion_percent),
            self.settings.ingest.settle.total_seconds(), self.scrubber.redact, self.settings.facts,
        )  # fmt: skip


def _texts(edits: Sequence[JobEdit], receipt: dict[str, Any], why: str | None) -> list[str]:
    """Return all texts that a commit would write to files and rows."""
    found = [why or "", *strings_of(receipt)]
    for edit in edits:
        match edit:
            case job.AppendDaily():
                found += [edit.reason, edit.body]
            case job.AppendDiary():
                found += [edit.body]
            case job.Operate():
                found += [text for one in edit.operations for text in texts_of(one)]
            case job.AddMemories():
                found += [text for memory in edit.memories for text in (memory.text, memory.note or "")]
            case job.EditFacts():
                found += [text for one in edit.learned for text in (one.content, one.note or "")]
                found += [one.text for one in edit.sections]
            case job.WriteFile():
                there = set((edit.old or b"").splitlines())  # lines that are already in the file may be a person's
                found += [line.decode(errors="replace") for line in (edit.new or b"").splitlines() if line not in there]
            case job.KeepSummary():
                found += [edit.summary, *(message.text for message in edit.messages)]
    return found


def block_bodies(workspace: Path, files: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the bodies of a run's blocks in daily files; None for a block that is no longer there."""
    blocks = daily_blocks(workspace, files)
    return [None if block is None else block.strip("\n").partition("\n\n")[2] for _, block in blocks]


def daily_blocks(workspace: Path, files: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str | None]]:
    """Yield (path, text) of the daily blocks in a run report; the text is None if the block is no longer there."""
    for item in files:
        if "appended" in item:
            data = regular.read_in(workspace, item["path"]) or b""
            at = daily.find_block(data, item["appended"], item["bytes"])
            yield item["path"], None if at is None else data[at : at + item["bytes"]].decode("utf-8", "replace")
