"""Answer a job's question within its limits of tokens: by a model, in parts if necessary, or by the offline backend.

If a reply is cut off, the question is asked again with a higher limit. If that does not help, or if the server refuses
the length, the question is divided, in the end into single pieces of its material. The length that a server accepts is
remembered for each endpoint.

Tokens are reserved before each call. After it, one transaction records the cost and stores the reply on the run's row.
So a crash never pays twice, and a call that may have been paid stays counted. Each endpoint has a circuit breaker.

If no reply comes, a `ModelError` is raised, and only `retry` decides about another attempt. After a temporary failure,
the configuration may let the offline backend answer; the reply then has the reason. A refused request is not temporary:
its run is blocked, and an alarm is raised.
"""

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from sqlalchemy import Connection, Engine

from memoryd.clock import Clock, moment_of
from memoryd.config import Settings
from memoryd.config_sections import PROVIDER as FLEET
from memoryd.database import alarms, runs, spend, sqlite
from memoryd.database.runs import Run
from memoryd.errors import StateError
from memoryd.files.log import Log
from memoryd.gauge import window
from memoryd.jobs import parts as dividing
from memoryd.jobs.job import Ask, RejectedReply, Reply, ToolCall
from memoryd.jobs.reader import JOB as VERIFY
from memoryd.llm import circuit as breaker
from memoryd.llm.circuit import Circuit
from memoryd.llm.endpoint import FLEET_URL, OPENAI_URL, Endpoint
from memoryd.llm.failure import Failure, ModelError, Trouble
from memoryd.reading.scrubbing import Scrubber
from memoryd.worker.client import ClosedError, Worker, WorkerError
from memoryd.worker.pool import Pool

OFFLINE = "offline"
OFFLINE_DEADLINE = timedelta(minutes=10)
PATIENCE = timedelta(hours=1)  # a run with a fallback waits this long for an endpoint that is down or full
MOST_PARTS = 64
TOO_SMALL = "the model's context is too small for this session; choose a model with a larger one"
CUT_OFF = "the model's reply is cut off even to the smallest question; raise llm.max_output_tokens"
BUDGET_SPENT = "the run would spend more than its import has left"
_ROUGH = 0.9  # margin for models that count tokens differently
_LEAST_OUTPUT = 1024  # tokens; the limit of a reply is not lowered below this to make room for the question
_LENGTHS = frozenset({Trouble.OVERFLOW, Trouble.LIMIT})
_SMALLEST_OUTPUT = 256  # tokens; a server that accepts only shorter replies is useless


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """Hold a question of a run, with what is needed to answer it."""

    run: Run
    ask: Ask
    settings: Settings
    merge: Callable[[Sequence[Reply]], Reply | RejectedReply]  # joins the replies to parts; also checks a single reply
    step: Callable[[str], None] = lambda _name: None  # called before and after each answer, and after it is stored
    own_model_only: bool = False  # True: no other model may answer
    stand_in: Reply | None = None  # used in place of the offline backend, if that cannot answer such a question


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """Hold how many tokens an endpoint accepts; None if that is unknown."""

    output: int | None = None  # of a reply
    context: int | None = None  # of a question and its reply
    room: int | None = None  # of a question


class Remote(Protocol):
    """Ask a model through the workers of a fleet."""

    def ask(self, run: Run, endpoint: Endpoint, ask: Ask, tokens: int) -> Reply | Failure:
        """Return the reply to a question, or the failure. `tokens` is the most that the question may cost."""

    def forget(self, run: Run, endpoint: Endpoint, ask: Ask) -> None:
        """Delete a reply from the fleet, because it is stored here or unusable."""


@dataclass(slots=True)
class Answerer:
    """Answer the questions of runs. Safe to use from several threads."""

    engine: Engine
    models: Pool
    worker: Worker  # counts tokens, and runs the offline backend
    scrubber: Scrubber
    clock: Clock
    log: Log
    remote: Remote | None = None  # set in a fleet
    circuits: dict[str, Circuit] = field(default_factory=dict)
    takes: dict[str, EndpointLimits] = field(default_factory=dict)  # known limits, by name of the endpoint
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: RunQuestion) -> Reply:
        """Return the reply to a question; a reply that an earlier attempt of the run has stored is used again.

        Raises:
            ModelError: the model has not answered, and the offline backend may not answer, or not yet.
            WorkerError: the tokens cannot be counted, or the offline backend fails.
        """
        kept = self._load_kept_answers(asked)
        if _offline_key(asked.ask) in kept:
            return _stored_reply(kept[_offline_key(asked.ask)])
        if asked.settings.llm.provider == OFFLINE:
            return self._offline(asked, None)
        try:
            return self._of_model(asked, kept)
        except ModelError as error:
            if not self._may_fall_back(asked, error.failure.trouble):
                raise
            return self._offline(asked, error.what)

    def after_rejection(self, asked: RunQuestion, rejected: Reply, why: str) -> Reply:
        """Return the offline backend's reply, if the run's last attempt got no usable reply from the model.

        Raises:
            ModelError: attempts are left, and the next one will ask the model again.
        """
        runs.forget_reply(self.engine, asked.run)
        self._keep_refused(asked, [rejected])
        if not self._may_fall_back(asked, Trouble.BAD_REPLY):
            raise ModelError(Failure(Trouble.BAD_REPLY, why))
        return self._offline(asked, why)

    def room_of(self, settings: Settings, agent_id: str) -> int | None:
        """Return the largest question to an agent's model, in tokens; None if that is unknown."""
        if settings.llm.provider == OFFLINE:
            return None
        endpoint = endpoint_of(settings, agent_id)
        return self._room(endpoint, self._limit(settings, endpoint))

    def is_up(self, settings: Settings, agent_id: str) -> bool:
        """Return True if an agent has a model and the model is not known to be down."""
        if settings.llm.provider == OFFLINE:
            return False
        with self.lock:
            circuit = self.circuits.get(endpoint_of(settings, agent_id).name, Circuit())
        return breaker.admit(circuit, self.clock.monotonic())[1]

    def measure(self, ask: Ask) -> int:
        """Return the approximate number of tokens of a question."""
        return dividing.measure(ask, self.worker.count)

    def tend(self, now_monotonic: float) -> None:
        """Let idle workers end, and queue blocked runs again whose retry is due."""
        self.models.tick(now_monotonic)
        runs.unblock(self.engine, self.clock.text(), due_only=True)

    def renew(self) -> None:
        """Allow all endpoints again after a start or a change of the configuration, because the cause may be fixed."""
        with self.lock:
            self.circuits.clear()
            self.takes.clear()
        runs.unblock(self.engine, self.clock.text(), due_only=False)

    # --- the offline backend --------------------------------------------------------------------------------------

    def _offline(self, asked: RunQuestion, instead: str | None) -> Reply:
        if asked.stand_in is not None:
            return replace(asked.stand_in, instead=instead)  # not stored, because a later attempt may get a real reply
        if instead is not None:
            self.log.warning("answered offline", run=asked.run.id, agent=asked.run.agent_id, why=instead)
        self._require_clean(asked.ask, asked.run)
        asked.step("before:answer")
        answered = replace(self.worker.answer(asked.ask, OFFLINE, OFFLINE_DEADLINE), instead=instead)
        reply = redact_reply(self.scrubber, answered)
        asked.step("before:reply")
        sqlite.write(self.engine, self._keep, asked, _offline_key(asked.ask), reply)
        asked.step("after:reply")
        return reply

    def _may_fall_back(self, asked: RunQuestion, trouble: Trouble) -> bool:
        """Return True if the offline backend may answer after this failure. It may only after a temporary failure."""
        if asked.stand_in is not None and trouble is Trouble.OVERFLOW:
            return True  # a later attempt would be too long as well
        if asked.stand_in is not None and trouble is Trouble.BAD_REPLY:
            return asked.run.attempt >= asked.settings.jobs.attempts
        is_unknown = bool(asked.ask.text) and asked.stand_in is None  # the offline backend can read only material
        is_barred = asked.own_model_only or asked.settings.llm.fallback != OFFLINE
        if is_unknown or is_barred or trouble is Trouble.BLOCKED:
            return False
        if trouble is Trouble.EXHAUSTED or asked.run.attempt >= asked.settings.jobs.attempts:
            return True
        return self.clock.now() - moment_of(asked.run.created_at) >= PATIENCE

    # --- the model ------------------------------------------------------------------------------------------------

    def _of_model(self, asked: RunQuestion, kept: dict[str, dict[str, Any]]) -> Reply:
        endpoint = endpoint_of(asked.settings, asked.run.agent_id, asked.ask.job)
        room = self._room(endpoint, self._limit(asked.settings, endpoint))
        waiting = deque(self._split_to_fit(asked.ask, room))
        replies: list[Reply] = []
        while waiting:
            part = waiting.popleft()
            stored = kept.get(question_hash(part))
            result = _stored_reply(stored) if stored else self._part(asked, part, endpoint)
            if isinstance(result, Reply):
                replies.append(result)
                continue
            if part.tools or asked.stand_in is not None:  # its job shortens the question, or continues without a reply
                raise ModelError(result, endpoint.name)
            waiting.extendleft(reversed(self._split_smaller(asked, part, endpoint, result)))
            if len(waiting) + len(replies) > MOST_PARTS:
                raise self._make_blocked_error(asked, endpoint, result.what)
        merged = asked.merge(replies)
        if isinstance(merged, RejectedReply):
            self._keep_refused(asked, replies)
            raise ModelError(Failure(Trouble.BAD_REPLY, merged.why), endpoint.name)
        return merged

    def _part(self, asked: RunQuestion, part: Ask, endpoint: Endpoint) -> Reply | Failure:
        """Ask one part of a question.

        If its reply is cut off, the part is asked again with a higher limit; if the length is refused, with a lower
        one.

        Returns:
            A failure of kind OVERFLOW if neither helps. Then the part must be divided.
        """
        limit, cut_at = self._limit(asked.settings, endpoint), 0
        while limit > cut_at:
            result = self._ask(asked, part, replace(endpoint, output=limit))
            if isinstance(result, Reply) and result.finish_reason != "length":
                return result
            if isinstance(result, Reply):
                if cut_at:
                    break
                cut_at, limit = limit, self._raise_limit(part, endpoint, limit)
                continue
            lower = self._lower_limit(self.measure(part), limit, result)
            self._learn(endpoint, result, lower)
            if lower is None and result.trouble is Trouble.LIMIT:
                raise self._make_blocked_error(
                    asked, endpoint, f"{result.what}: the model takes no reply of a useful length"
                )
            if lower is None:
                return Failure(Trouble.OVERFLOW, CUT_OFF if cut_at else TOO_SMALL)
            limit = lower
        return Failure(Trouble.OVERFLOW, CUT_OFF)

    def _ask(self, asked: RunQuestion, part: Ask, endpoint: Endpoint) -> Reply | Failure:
        """Ask one part once, and record cost and reply.

        Only a refused length is returned as a failure; others are raised.
        """
        size = self.measure(part)
        self._require_clean(part, asked.run)
        self._admit(endpoint, by_hand=asked.run.actor == "human")
        reservation = self._reserve(asked, endpoint, size + endpoint.output)
        asked.step("before:answer")
        try:
            result = self._call(asked, part, endpoint, size + endpoint.output)
            if isinstance(result, Reply):
                result = redact_reply(self.scrubber, result)
        except BaseException as error:
            if not isinstance(error, WorkerError) or isinstance(error, ClosedError):
                self._change(endpoint, breaker.release)  # the endpoint is not at fault, as when the process is ending
                raise
            failure = Failure(Trouble.UNAVAILABLE, error.what)
            self._note(endpoint, failure)
            raise ModelError(failure, endpoint.name) from error  # the reservation stays: the call may have been paid
        asked.step("before:reply")
        self._note_result(endpoint, result)
        is_whole = isinstance(result, Reply) and result.finish_reason != "length"
        rejected = asked.merge([result]) if isinstance(result, Reply) and is_whole else None
        spent, how = compute_cost(result, size, endpoint.output)
        with sqlite.begin_write(self.engine) as connection:
            spend.settle(connection, reservation, spent, how)
            if isinstance(result, Reply) and is_whole and not isinstance(rejected, RejectedReply):
                result = replace(result, tokens_in=spent.tokens_in, tokens_out=spent.tokens_out)
                self._keep(connection, asked, question_hash(part), result)
        if isinstance(result, Reply) and endpoint.is_fleet and self.remote is not None:
            self.remote.forget(asked.run, endpoint, part)
        if isinstance(rejected, RejectedReply) and isinstance(result, Reply):
            self._keep_refused(asked, [result])
            raise ModelError(Failure(Trouble.BAD_REPLY, rejected.why), endpoint.name)
        if isinstance(result, Failure) and result.trouble not in _LENGTHS:
            raise ModelError(result, endpoint.name)
        if is_whole:
            asked.step("after:reply")
        return result

    def _call(self, asked: RunQuestion, part: Ask, endpoint: Endpoint, tokens: int) -> Reply | Failure:
        if endpoint.is_fleet and self.remote is not None:
            return self.remote.ask(asked.run, endpoint, part, tokens)
        with self.models.one() as worker:
            return worker.answer_of(endpoint, part)

    # --- secrets --------------------------------------------------------------------------------------------------

    def _require_clean(self, ask: Ask, run: Run) -> None:
        quoted = [text for one in ask.material for text in (one.text, one.at or "")]
        known = [text for pair in ask.context for text in pair]
        before = [text for one in ask.earlier for text in (one.text, *one.results)]
        before += [text for one in ask.earlier for call in one.calls for text in (call.name, call.arguments)]
        told = [ask.instructions, ask.text, *quoted, *known, *before]
        self.scrubber.require_clean(told, f"the question of run {run.id}")

    # --- sizes ----------------------------------------------------------------------------------------------------

    def _context(self, endpoint: Endpoint) -> int | None:
        """Return the largest sum of question and reply that an endpoint accepts, in tokens; None if that is unknown."""
        by_name = window.choose_window(None, endpoint.model, 0)
        known = by_name.tokens if by_name.how == "model" else None
        found = self._takes(endpoint).context
        return min((size for size in (known, found) if size is not None), default=None)

    def _limit(self, settings: Settings, endpoint: Endpoint) -> int:
        """Return the largest reply, in tokens. At least half of the context is left for the question."""
        limits = (settings.llm.max_output_tokens, self._takes(endpoint).output, (self._context(endpoint) or 0) // 2)
        return min(limit for limit in limits if limit)

    def _room(self, endpoint: Endpoint, limit: int) -> int | None:
        """Return the largest question to this endpoint, in tokens; None if that is unknown."""
        context = self._context(endpoint)
        known = None if context is None else int(context * _ROUGH) - limit
        return min((room for room in (known, self._takes(endpoint).room) if room is not None), default=None)

    def _raise_limit(self, part: Ask, endpoint: Endpoint, limit: int) -> int:
        """Return a higher limit after a reply was cut off: the server's known maximum, or twice the old limit."""
        raised = self._takes(endpoint).output or limit * 2
        context = self._context(endpoint)
        return raised if context is None else min(raised, int(context * _ROUGH) - self.measure(part))

    def _lower_limit(self, size: int, limit: int, failure: Failure) -> int | None:
        """Return a lower limit that the server may accept; None if there is no useful one."""
        if failure.trouble is Trouble.LIMIT:
            lower = failure.most if failure.most and failure.most < limit else limit // 2
            return lower if lower >= _SMALLEST_OUTPUT else None
        # The server counts tokens differently, so the size that it accepts is unknown. Halving the limit ends the
        # search.
        room = failure.most - size * 5 // 4 if failure.most else limit if limit > size else 0
        lower = min(limit // 2, room)
        return lower if lower >= _LEAST_OUTPUT else None

    def _learn(self, endpoint: Endpoint, failure: Failure, lower: int | None) -> None:
        """Remember the limit that a server has stated, or the one that is tried next."""
        if failure.trouble is Trouble.LIMIT or not failure.most:
            self._note_limits(endpoint, output=lower or self._takes(endpoint).output)
        else:
            self._note_limits(endpoint, context=failure.most)

    def _takes(self, endpoint: Endpoint) -> EndpointLimits:
        with self.lock:
            return self.takes.get(endpoint.name, EndpointLimits())

    def _note_limits(self, endpoint: Endpoint, **found: int | None) -> None:
        with self.lock:
            self.takes[endpoint.name] = replace(self.takes.get(endpoint.name, EndpointLimits()), **found)

    def _split_to_fit(self, ask: Ask, room: int | None) -> Sequence[Ask]:
        if room is None or not dividing.is_divisible(ask) or self.measure(ask) <= room:
            return [ask]
        return dividing.divide(ask, room, self.worker.count)

    def _split_smaller(self, asked: RunQuestion, part: Ask, endpoint: Endpoint, failure: Failure) -> Sequence[Ask]:
        size = self.measure(part)
        is_cut_off = failure.what == CUT_OFF
        if not dividing.is_divisible(part) or (is_cut_off and len(part.material) < 2):
            raise self._make_blocked_error(asked, endpoint, failure.what)
        divided = dividing.divide(part, size // 2, self.worker.count)
        if max(map(self.measure, divided)) >= size:
            raise self._make_blocked_error(asked, endpoint, failure.what)
        if not is_cut_off:
            self._note_limits(endpoint, room=size // 2)
        return divided

    # --- money ----------------------------------------------------------------------------------------------------

    def _reserve(self, asked: RunQuestion, endpoint: Endpoint, tokens: int) -> int:
        llm = asked.settings.llm
        day = self.clock.now().astimezone(asked.settings.zone).date().isoformat()
        wanted = spend.Reservation(asked.run.id, asked.run.agent_id, endpoint.name, day, self.clock.text(), tokens)
        granted = asked.run.options.get("tokens", llm.run_tokens)  # from the budget of an import
        per_run = min(llm.run_tokens, granted)
        got = spend.reserve(self.engine, wanted, daily=llm.daily_tokens, per_run=per_run)
        if isinstance(got, int):
            self.set_alarm("spend", "daily_tokens", None)
            return got
        self._change(endpoint, breaker.release)
        if got == "run_tokens" and granted < llm.run_tokens:
            text = f"{BUDGET_SPENT}, {granted}"
            raise ModelError(Failure(Trouble.EXHAUSTED, text), endpoint.name)
        if got == "run_tokens":
            text = f"the run would spend more than llm.run_tokens, {llm.run_tokens}"
            if asked.stand_in is not None:  # the run can continue without this reply
                raise ModelError(Failure(Trouble.OVERFLOW, text), endpoint.name)
            raise self._make_blocked_error(asked, endpoint, text)
        text = f"the models have spent llm.daily_tokens, {llm.daily_tokens}, for today"
        self.set_alarm("spend", "daily_tokens", text)
        raise ModelError(Failure(Trouble.EXHAUSTED, text), endpoint.name)

    def _make_blocked_error(self, asked: RunQuestion, endpoint: Endpoint, what: str) -> ModelError:
        """Raise an alarm for a run that only a person can fix, and return the error for the caller to raise."""
        run = asked.run
        self.set_alarm("blocked", run.subject, f"{run.kind} run {run.id} waits: {what}", run.agent_id)
        return ModelError(Failure(Trouble.BLOCKED, what), endpoint.name)

    # --- the circuit ----------------------------------------------------------------------------------------------

    def _admit(self, endpoint: Endpoint, *, by_hand: bool) -> None:
        """Raise a ModelError while calls to the endpoint are paused. A person's run may always try."""
        now = self.clock.monotonic()
        with self.lock:
            circuit, admitted = breaker.admit(self.circuits.get(endpoint.name, Circuit()), now)
            self.circuits[endpoint.name] = circuit
        if not (admitted or by_hand):
            raise ModelError(breaker.refuse(circuit, now, "endpoint"), endpoint.name)

    def _note_result(self, endpoint: Endpoint, result: Reply | Failure) -> None:
        """Record the outcome of a call.

        A question that the fleet returns unanswered is no fault of the shared endpoint.
        """
        trouble = result.trouble if isinstance(result, Failure) else None
        if endpoint.is_fleet and trouble is Trouble.EXHAUSTED and isinstance(result, Failure):
            self.set_alarm("spend", "fleet", result.what)
        if endpoint.is_fleet and trouble in {Trouble.EXHAUSTED, Trouble.BUSY}:
            self._change(endpoint, breaker.release)
            return
        if endpoint.is_fleet and trouble is None:
            self.set_alarm("spend", "fleet", None)
        self._note(endpoint, result)

    def _note(self, endpoint: Endpoint, result: Reply | Failure) -> None:
        """Record the outcome of a call in the endpoint's circuit."""
        now, failure = self.clock.monotonic(), breaker.failure_of(result)
        before = self._change(endpoint, lambda circuit: breaker.note_result(circuit, now, failure))
        if failure is None:
            if before.open_until is not None:
                runs.unblock(self.engine, self.clock.text(), due_only=False)
            self.set_alarm("model", endpoint.name, None)
        elif failure.trouble is Trouble.BLOCKED:
            self.set_alarm("model", endpoint.name, f"{endpoint.name}: {failure.what}")
        elif failure.trouble is Trouble.UNAVAILABLE and breaker.note_failure(before, now).open_until is not None:
            self.set_alarm("model", endpoint.name, f"{endpoint.name}: {failure.what}, again and again")

    def _change(self, endpoint: Endpoint, change: Callable[[Circuit], Circuit]) -> Circuit:
        """Change the circuit of an endpoint; return its earlier state."""
        with self.lock:
            before = self.circuits.get(endpoint.name, Circuit())
            self.circuits[endpoint.name] = change(before)
        return before

    # --- rows -----------------------------------------------------------------------------------------------------

    def _load_kept_answers(self, asked: RunQuestion) -> dict[str, dict[str, Any]]:
        stored = runs.given_text(self.engine, asked.run)
        kept: dict[str, dict[str, Any]] = json.loads(stored or "{}")
        return kept

    def _keep(self, connection: Connection, asked: RunQuestion, key: str, reply: Reply) -> None:
        kept = {**self._load_kept_answers(asked), key: asdict(reply)}
        # The hash on a run's row is that of its own question, not of questions about the reply.
        about = None if asked.stand_in is not None else question_hash(asked.ask)
        runs.keep_reply(connection, asked.run, json.dumps(kept), about)

    def _keep_refused(self, asked: RunQuestion, replies: Sequence[Reply]) -> None:
        """Store refused replies, so that a person can see why they are unusable."""
        runs.keep_refused(self.engine, asked.run, "\n\n".join(reply.text for reply in replies))

    def set_alarm(self, kind: str, subject: str, text: str | None, agent_id: str = "") -> None:
        """Keep an alarm open with this text, or closed if the text is None."""
        if alarms.set_alarm(self.engine, kind, text, self.clock.text(), agent_id, subject):
            self.log.error("alarm", kind=kind, agent=agent_id, subject=subject, text=text)


def endpoint_of(settings: Settings, agent_id: str, job: str = "") -> Endpoint:
    """Return the endpoint for an agent's questions: its own model and server, or else those of `llm`.

    A second reader's question goes to `llm.verifier` if that is configured.

    Raises:
        StateError: no model is configured for the agent.
    """
    llm = settings.llm
    agent = settings.find_agent(agent_id)
    model = (agent.model if agent else None) or llm.model
    model = llm.verifier or model if job == VERIFY else model
    if model is None:
        raise StateError("no model is configured", agent_id, "llm.model names one")
    base_url = (agent.base_url if agent else None) or llm.base_url or OPENAI_URL
    base_url = FLEET_URL if llm.provider == FLEET else base_url
    return Endpoint(base_url, model, llm.api_key_env, llm.timeout.total_seconds(), llm.max_output_tokens)


def question_hash(ask: Ask) -> str:
    """Return the hash that identifies a question: of its job, instructions and material.

    Known facts are left out, because they may change between two attempts.
    """
    asked = [ask.job, ask.instructions, [astuple(quoted) for quoted in ask.material]]
    asked += [[astuple(one) for one in ask.earlier]] if ask.earlier else []
    asked += [ask.text] if ask.text else []
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def redact_reply(scrubber: Scrubber, reply: Reply) -> Reply:
    """Return a reply without secrets. A model may decode redacted text on request, or make up a secret."""
    called = [part for call in reply.calls for part in (call.id, call.name, call.arguments)]
    text, model, *clean = scrubber.redact([reply.text, reply.model or "", *called])
    parts = iter(clean)
    calls = tuple(ToolCall(next(parts), next(parts), next(parts)) for _ in reply.calls)
    return replace(reply, text=text, model=model or None, calls=calls)


def _stored_reply(data: dict[str, Any]) -> Reply:
    """Return the reply from a dictionary that `dataclasses.asdict` made."""
    return Reply(**{**data, "calls": tuple(ToolCall(**call) for call in data.get("calls", ()))})


def _offline_key(ask: Ask) -> str:
    return f"{OFFLINE}:{question_hash(ask)}"


def compute_cost(result: Reply | Failure, size: int, limit: int) -> tuple[spend.SpentTokens, str]:
    """Return the tokens of a call and their source: `usage` of the server if it is plausible, otherwise `estimate`."""
    if isinstance(result, Failure) and not result.billed:
        return spend.SpentTokens(0, 0), "usage"
    received = 0 if isinstance(result, Reply) else result.received
    if isinstance(result, Reply):
        received = len(result.text) + sum(len(call.name) + len(call.arguments) for call in result.calls)
    tokens_in, tokens_out = result.tokens_in or 0, result.tokens_out or 0
    # Tokenizers differ, but never by a factor of ten. Such a count would use up the tokens of the day.
    if 0 < tokens_in <= 10 * size and tokens_out <= 10 * limit and (tokens_out > 0 or not received):
        return spend.SpentTokens(tokens_in, tokens_out), "usage"
    return spend.SpentTokens(size, -(-received // 4)), "estimate"
