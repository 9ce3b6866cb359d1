"""Ask the second reader of a run: choose and test the model, and reuse its earlier answers.

Before its first question, a model is tested on the calibration set. There is one test for each server, model and
version (of the prompt and the set). An unfit model is tested again after a day. Without a fit reader, questions are
returned as unread, so that only quotations are kept. Answers are stored by a hash of question and reader, so that no
question is paid for twice.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

from memoryd.clock import moment_of
from memoryd.database import readers, sqlite
from memoryd.database.readers import CalibrationResult
from memoryd.database.runs import Run
from memoryd.jobs import reader
from memoryd.jobs.job import Ask, Reply
from memoryd.jobs.reader import Fitness, QuestionBatch, ReaderAnswer
from memoryd.llm.endpoint import Endpoint, has_reader
from memoryd.running.answering import RunQuestion, endpoint_of
from memoryd.running.runner import Runner
from memoryd.running.sleeping import read_instructions

ALARM = "reader"
AGAIN = timedelta(days=1)  # pause before an unfit reader is tested again; a test costs more than ten thousand tokens
_UNREAD = Reply("", "stop", reader.UNREAD)  # stands in for a reader that cannot be asked


@cache
def _calibration() -> str:
    return resources.files("memoryd.jobs").joinpath("calibration.json").read_text("utf-8")


@cache
def compute_version() -> str:
    """Return a digest of the prompt, the way of building batches, and the calibration set."""
    return sha256(f"{reader.BATCHES}\n{read_instructions(reader.JOB)}\n{_calibration()}".encode()).hexdigest()


def describe_fitness(fitness: Fitness) -> str:
    """Return the test result of a reader as text for people."""
    right = f"{fitness.true_right}/{fitness.true_asked} true, {fitness.false_right}/{fitness.false_asked} false"
    return f"fit: {right} right" if fitness.is_fit else f"unfit: {right} right; MEMORY.md takes only quotations"


def keep_whole(replies: Sequence[Reply]) -> Reply:
    """Return the only reply. Such a question is never divided, and its job uses what it can of an incomplete reply."""
    return replies[0]


@dataclass(slots=True)
class SecondReader:
    """Ask the second reader on behalf of one run.

    Attributes:
        runner: carries the run out.
        run: the run.
        go_on: called before each question of a test; raises an error if the run must stop.
    """

    runner: Runner
    run: Run
    go_on: Callable[[], None]
    _asked: set[str] = field(default_factory=set)  # keys of all questions …
    _answered: set[str] = field(default_factory=set)  # … and of those with a valid answer
    _batches: int = 0
    _fooled: int = 0
    _tokens: list[tuple[int, int]] = field(default_factory=list)
    _test_tokens: list[tuple[int, int]] = field(default_factory=list)

    def answer(self, ask: Ask) -> Reply:
        """Return the reader's reply to a batch of questions. Without a fit reader, its backend is `UNREAD`.

        Raises:
            ModelError: the model has not answered; the run is retried.
            WorkerError: the tokens cannot be counted.
        """
        reply = self._reply(ask) if self._is_fit() else _UNREAD
        if isinstance(ask.about, QuestionBatch):
            self._note(ask.about, reply)
        return reply

    def find_answer(self, key: str) -> ReaderAnswer | None:
        """Return the reader's stored answer to the question with this key; None without one or without a fit reader."""
        if not has_reader(self.runner.settings):
            return None
        endpoint = self._endpoint()
        with sqlite.begin_read(self.runner.engine) as connection:
            result = readers.read_result(connection, endpoint.base_url, endpoint.model, compute_version())
            if result is None or not result.fitness.is_fit:
                return None
            found = readers.read_verdicts(connection, self.run.agent_id, [_make_key(key, endpoint)])
        return next((ReaderAnswer(verdict) for verdict in found.values()), None)

    def receipt(self) -> dict[str, Any]:
        """Return the reader's figures for the run report; empty if nothing was asked."""
        if not self._asked:
            return {}
        found: dict[str, Any] = {
            "questions": len(self._asked),
            "batches": self._batches,
            "fooled": self._fooled,
            "unread": len(self._asked - self._answered),
            **sum_tokens(self._tokens),
        }
        return found | ({"test": sum_tokens(self._test_tokens)} if self._test_tokens else {})

    # --- fitness --------------------------------------------------------------------------------------------------

    def _is_fit(self) -> bool:
        if not has_reader(self.runner.settings):
            self.runner.set_alarm(ALARM, None, self.run.agent_id)
            return False
        endpoint = self._endpoint()
        named = endpoint.base_url, endpoint.model, compute_version()
        result = sqlite.read(self.runner.engine, readers.read_result, *named)
        if result is None or (not result.fitness.is_fit and self.runner.clock.now() - moment_of(result.at) >= AGAIN):
            result = self._test_model(endpoint) or result
        if result is None:
            return False
        is_fit = result.fitness.is_fit
        text = None if is_fit else f"the second reader {endpoint.name} is {describe_fitness(result.fitness)}"
        self.runner.set_alarm(ALARM, text, self.run.agent_id)
        return is_fit

    def _test_model(self, endpoint: Endpoint) -> CalibrationResult | None:
        """Test a model and store the result; return None, and store nothing, if it cannot be asked now."""
        replies = []
        for batch, truth in reader.calibration_batches(json.loads(_calibration())):
            self.go_on()
            reply = self._reply(batch.ask(read_instructions(reader.JOB)))
            if reply.backend == reader.UNREAD:
                return None
            self._test_tokens.append((reply.tokens_in, reply.tokens_out))
            replies.append((batch, truth, reply))
        result = CalibrationResult(reader.measure_fitness(replies), self.runner.clock.text())
        named = endpoint.base_url, endpoint.model, compute_version()
        sqlite.write(self.runner.engine, readers.keep_test, *named, result)
        self.runner.log.info(
            "second reader tested", run=self.run.id, endpoint=endpoint.name, how=describe_fitness(result.fitness)
        )
        return result

    def _endpoint(self) -> Endpoint:
        return endpoint_of(self.runner.settings, self.run.agent_id, reader.JOB)

    # --- questions ------------------------------------------------------------------------------------------------

    def _reply(self, ask: Ask) -> Reply:
        runner = self.runner
        asked = RunQuestion(self.run, ask, runner.settings, keep_whole, runner.step, stand_in=_UNREAD)
        return runner.answerer.answer(asked)

    def _note(self, batch: QuestionBatch, reply: Reply) -> None:
        """Count the questions, and store the answers that contain no text."""
        self._asked |= {one.key for name, one in batch.questions if name != batch.decoy}
        if reply.backend == reader.UNREAD:
            return
        self._batches += 1
        self._tokens.append((reply.tokens_in, reply.tokens_out))
        found = reader.read(batch, reply)
        self._fooled += found.fooled
        self._answered |= found.answers.keys()
        endpoint = self._endpoint()
        verdicts = {_make_key(key, endpoint): one.verdict for key, one in found.answers.items() if not one.lost}
        sqlite.write(self.runner.engine, readers.keep_verdicts, self.run.agent_id, verdicts, self.runner.clock.text())


def _make_key(key: str, endpoint: Endpoint) -> str:
    """Return the hash under which an answer is stored: of the question, the reader and the version."""
    return sha256(f"{key}\n{endpoint.base_url}\n{endpoint.model}\n{compute_version()}".encode()).hexdigest()


def sum_tokens(tokens: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Return the sums of the tokens of questions and of answers, for a run report."""
    return {"tokens_in": sum(one for one, _ in tokens), "tokens_out": sum(one for _, one in tokens)}
