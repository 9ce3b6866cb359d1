"""Ask the fleet's workers: store a question, wait for its reply, and delete both once the host has the reply.

The id of a question is a hash of its content. So a host that stopped during the wait finds a reply that came meanwhile,
and does not ask again. A reply after the deadline waits for the next attempt of its run. Questions and answers
travel as JSON.
"""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from memoryd.errors import MemorydError, RefusedError
from memoryd.fleet.connection import AWAY, Database, FleetAwayError
from memoryd.fleet.extra import procrastinate, psycopg
from memoryd.fleet.sealing import Seal
from memoryd.jobs.job import Ask, Reply
from memoryd.llm.failure import Failure, Trouble
from memoryd.worker.client import ClosedError

TASK = "memoryd.answer"
QUEUE = "memoryd"
# Seconds to wait for a free worker, besides the model's own time.
WAITS_SECONDS = 60.0
# Seconds between two reads of the table, if no notification comes.
LOOK_SECONDS = 5.0
# Seconds until a question is queued again, because its task may be lost.
DEFER_SECONDS = 30.0
LATE = "no worker of the fleet has answered in time"
# Seconds until a run asks again.
AGAIN_SECONDS = 30.0
# Questions that a live session waits for come first, and those of nightly jobs last.
PRIORITIES: Mapping[str, int] = {"sleep": 30, "joint": 30, "verify": 20, "facts": 10}


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """Hold a question for a worker.

    It lacks the address and the key of the model, because only workers have these.
    """

    agent: str  # HOST/AGENT
    model: str
    ask: Ask
    output: int  # the most tokens of the reply
    tokens: int  # the most tokens that it costs
    timeout: float  # seconds

    @property
    def priority(self) -> int:
        """Return the priority among the questions of all hosts. A higher number is answered earlier."""
        return PRIORITIES.get(self.ask.job, 0)


# They convert from and to JSON values, and raise ValueError for an invalid value.
QUESTIONS = TypeAdapter(FleetQuestion)
ANSWERS: TypeAdapter[Reply | Failure] = TypeAdapter(Reply | Failure)
OF_HOST = {"ask": {"about"}}  # these fields never leave the host


def channel_of(host: str) -> str:
    """Return the PostgreSQL channel that notifies a host of replies.

    It is a safe identifier, whatever the name of the host.
    """
    return f"memoryd_{hashlib.sha256(host.encode()).hexdigest()[:24]}"


class FleetAsker:
    """Send one host's questions to the fleet. It is safe to use from several threads."""

    def __init__(self, database: Database, seal: Seal, monotonic: Callable[[], float]) -> None:
        self.database = database
        self.seal = seal
        self.monotonic = monotonic
        self._waiting: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="fleet-replies", daemon=True)
        self._tasks = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())

    def start(self) -> None:
        """Begin to listen for replies."""
        self._listener.start()

    def close(self) -> None:
        """End all waits with an error. Their runs ask again at the next start."""
        self._stopped.set()
        self._wake_all()
        if self._listener.is_alive():
            self._listener.join(LOOK_SECONDS)

    def ask(self, question_id: str, asked: FleetQuestion) -> Reply | Failure:
        """Return the answer to a question.

        It is a failure if the database is away or no worker answers in time.

        Raises:
            ClosedError: the daemon ends.
        """
        event = threading.Event()
        with self._lock:
            self._waiting[question_id] = event
        try:
            return self._wait(question_id, asked, event)
        except FleetAwayError:
            return Failure(Trouble.BUSY, AWAY, retry_after=AGAIN_SECONDS, is_told=True)
        except RefusedError as error:
            # Somebody has changed the reply. The next attempt stores the question again.
            self.forget(question_id)
            return Failure(Trouble.UNAVAILABLE, error.what)
        finally:
            with self._lock:
                self._waiting.pop(question_id, None)

    def forget(self, question_id: str) -> None:
        """Delete a question whose answer the host has stored or cannot use.

        If that fails, `retention` deletes it later.
        """
        with contextlib.suppress(MemorydError):
            self.database.fetch("DELETE FROM fleet_question WHERE id = %s", question_id)

    def _wait(self, question_id: str, asked: FleetQuestion, event: threading.Event) -> Reply | Failure:
        until, defer_at = self.monotonic() + asked.timeout + WAITS_SECONDS, 0.0
        while not self._stopped.is_set():
            event.clear()
            now = self.monotonic()
            text = self._look(question_id, asked, is_deferred=now < defer_at)
            if text is not None:
                return self._open(question_id, text)
            if now >= until:
                return Failure(Trouble.BUSY, LATE, retry_after=AGAIN_SECONDS, is_told=True)
            if now >= defer_at:
                defer_at = now + DEFER_SECONDS
            event.wait(LOOK_SECONDS)
        raise ClosedError("the fleet is left", "", "memoryd is ending; the work is done at its next start")

    def _look(self, question_id: str, asked: FleetQuestion, *, is_deferred: bool) -> str | None:
        """Return the reply to a question, or None if there is none yet.

        Without a reply, store the question, and queue it for the workers unless `is_deferred`.
        """
        with self.database.begin() as connection:
            row = connection.execute("SELECT reply FROM fleet_question WHERE id = %s", [question_id]).fetchone()
            if row is not None and row[0] is not None:
                return str(row[0])
            if row is None:
                value = QUESTIONS.dump_python(asked, mode="json", exclude=OF_HOST)
                connection.execute(
                    "INSERT INTO fleet_question (id, host, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    [question_id, self.database.host, self.seal.wrap(f"question {question_id}", value)],
                )
            if row is None or not is_deferred:
                self._defer(connection, question_id, asked)
        return None

    def _open(self, question_id: str, text: str) -> Reply | Failure:
        try:
            answer = ANSWERS.validate_python(self.seal.unwrap(f"answer {question_id}", text))
        except ValueError:
            self.forget(question_id)
            raise RefusedError("an answer of the fleet cannot be read", question_id) from None
        if isinstance(answer, Failure):
            self.forget(question_id)  # the next attempt stores it again
        return answer

    def _defer(self, connection: Any, question_id: str, asked: FleetQuestion) -> None:
        """Queue a question for the workers, unless it is already queued.

        The lock lets workers answer only one question of an agent at a time.
        """
        task = self._tasks.configure_task(
            TASK, queue=QUEUE, lock=asked.agent, queueing_lock=question_id, priority=asked.priority,
            connection=connection,
        )  # fmt: skip
        with contextlib.suppress(procrastinate.exceptions.AlreadyEnqueued), connection.transaction():
            task.defer(question_id=question_id)

    # --- replies ----------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Wake the waiters whose reply has come. After a lost connection, wake all, because notices may be lost."""
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self.database.url, autocommit=True, connect_timeout=3) as connection:
                    channel = psycopg.sql.Identifier(channel_of(self.database.host))
                    connection.execute(psycopg.sql.SQL("LISTEN {}").format(channel))
                    self._wake_all()
                    while not self._stopped.is_set():
                        for notice in connection.notifies(timeout=1.0):
                            with self._lock:
                                event = self._waiting.get(notice.payload)
                            if event is not None:
                                event.set()
            except psycopg.Error:
                self._stopped.wait(1.0)

    def _wake_all(self) -> None:
        with self._lock:
            for event in self._waiting.values():
                event.set()
