"""Answer the questions of all hosts: take a task, reserve its cost, ask the model, and store the reply.

A worker runs anywhere near the model. A question names only the model, and the worker alone has its address and key. A
reply is stored before its task is acknowledged, so a question is not asked twice if a worker is killed after that. If a
worker is killed during a call, `retry_stalled` gives its task to the others and releases the agent's lock. Once an
hour, a worker deletes the old rows of the fleet's tables. Their times are those of PostgreSQL.
"""

import asyncio
import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memoryd.clock import text_of
from memoryd.config import Settings
from memoryd.errors import MemorydError, RefusedError, StateError, describe
from memoryd.files.log import Log
from memoryd.fleet import budget
from memoryd.fleet.connection import Database, FleetAwayError, connect_options
from memoryd.fleet.extra import procrastinate
from memoryd.fleet.questions import ANSWERS, QUESTIONS, QUEUE, TASK, FleetQuestion, channel_of
from memoryd.fleet.sealing import Seal, read_seal
from memoryd.jobs.job import Reply
from memoryd.llm.endpoint import OPENAI_URL, Endpoint
from memoryd.llm.failure import BUSY_SECONDS, Failure, Trouble
from memoryd.reading.scrubbing import Scrubber
from memoryd.running.answering import compute_cost, redact_reply
from memoryd.worker.client import ClosedError, Worker
from memoryd.worker.pool import Pool

HEARTBEAT_SECONDS = 5.0
# A worker without a heartbeat for this many seconds counts as killed.
STALLED_SECONDS = 20.0
# Seconds between two searches for tasks. A task that waited for its agent's lock is not announced.
LOOK_SECONDS = 1.0
AGAIN_SECONDS = 2.0  # seconds between two attempts to reach the database
# Seconds to wait for a busy server. The host does longer waits.
PATIENCE_SECONDS = 10.0
# Attempts to store a paid reply while the database is away (ten minutes).
KEPT_TRIES = 300
LAST_TRIES = 3  # attempts of a worker that is stopped
# This makes a task due at once, whatever this host's clock says.
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
# Longer than a host is usually away. A question is deleted as soon as its host has the reply.
QUESTIONS_KEPT = timedelta(days=7)
SPEND_KEPT = timedelta(days=7)  # for single calls; the sums of each day stay longer
_AGED = {"fleet_question": ("asked_at", QUESTIONS_KEPT), "fleet_spend": ("at", SPEND_KEPT)}
_KEPT = {"fleet_request": "asked_at", "fleet_day": "day", "fleet_lease": "until"}


@dataclass(slots=True)
class FleetWorker:
    """Answer questions on several threads until `stopped` is set."""

    settings: Settings
    log: Log
    concurrency: int
    database: Database
    seal: Seal
    models: Pool
    scrubber: Scrubber
    stopped: threading.Event = field(default_factory=threading.Event)

    # --- one question -------------------------------------------------------------------------------------------------

    def answer(self, question_id: str) -> None:
        """Answer a question and store the reply, unless it has a reply or its host has deleted it."""
        sql = "SELECT host, body, reply IS NOT NULL FROM fleet_question WHERE id = %s"
        rows = self.database.fetch(sql, question_id)
        if not rows or rows[0][2]:
            return
        host, body, _ = rows[0]
        try:
            asked = QUESTIONS.validate_python(self.seal.unwrap(f"question {question_id}", body))
        except (RefusedError, ValueError) as error:
            self.log.warning("question refused", question=question_id, host=host, why=describe(error))
            return
        if asked.model not in self.list_models():
            what = f"no worker of the fleet may ask {asked.model}; add it to fleet.models of the workers"
            self._store(question_id, host, Failure(Trouble.BLOCKED, what))
            return
        result, reservation = self._ask_patiently(asked)
        self._store(question_id, host, result)
        self._settle(asked, result, reservation)

    def _ask_patiently(self, asked: FleetQuestion) -> tuple[Reply | Failure, int | None]:
        """Return an answer and its reservation, which is None if there was no reservation.

        If the model's server or the limits ask for a short wait, wait and try again.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            reserved = self._reserve(asked)
            result = reserved if isinstance(reserved, Failure) else self._ask(asked)
            reservation = None if isinstance(reserved, Failure) else reserved
            if not isinstance(result, Failure) or result.trouble is not Trouble.BUSY:
                return result, reservation
            wait = result.retry_after or BUSY_SECONDS
            if time.monotonic() + wait > until or self.stopped.wait(wait):
                return result, reservation
            self._settle(asked, result, reservation)

    def list_models(self) -> set[str]:
        """Return the models that this worker may ask."""
        llm, fleet = self.settings.llm, self.settings.fleet
        return {name for name in (llm.model, llm.verifier, *fleet.models) if name is not None}

    def _reserve(self, asked: FleetQuestion) -> int | Failure:
        with self.database.begin() as connection:
            reservation = budget.reserve(connection, asked, self.settings.fleet)
        if isinstance(reservation, Failure):
            return reservation
        with self.database.begin() as connection:
            if budget.confirm(connection, reservation):
                return reservation
        return Failure(Trouble.BUSY, "the server lost the reservation", retry_after=1.0, is_told=True)

    def _ask(self, asked: FleetQuestion) -> Reply | Failure:
        llm = self.settings.llm
        timeout, output = min(asked.timeout, llm.timeout.total_seconds()), min(asked.output, llm.max_output_tokens)
        endpoint = Endpoint(llm.base_url or OPENAI_URL, asked.model, llm.api_key_env, timeout, output)
        try:
            with self.models.one() as worker:
                result = worker.answer_of(endpoint, asked.ask)
            return redact_reply(self.scrubber, result) if isinstance(result, Reply) else result
        except ClosedError:
            raise
        # Nobody knows what was paid, so the reservation counts as spent.
        except MemorydError as error:
            self.log.warning("no answer", why=describe(error), model=asked.model)
            spent = asked.tokens - asked.output, asked.output
            return Failure(Trouble.UNAVAILABLE, error.what, None, *spent, billed=True)

    def _store(self, question_id: str, host: str, result: Reply | Failure) -> None:
        """Store a reply and notify its host. During an outage, try again."""
        text = self.seal.wrap(f"answer {question_id}", ANSWERS.dump_python(result, mode="json"))
        sql = "UPDATE fleet_question SET reply = %s, replied_at = clock_timestamp() WHERE id = %s AND reply IS NULL"
        for tried in range(KEPT_TRIES):
            try:
                with self.database.begin() as connection:
                    connection.execute(sql, [text, question_id])
                    connection.execute("SELECT pg_notify(%s, %s)", [channel_of(host), question_id])
            except FleetAwayError:
                if self.stopped.wait(AGAIN_SECONDS) and tried + 1 >= LAST_TRIES:
                    break
            else:
                return
        self.log.error("a reply could not be stored", question=question_id)

    def _settle(self, asked: FleetQuestion, result: Reply | Failure, reservation: int | None) -> None:
        """Record the cost and the outcome of a call, if there was one. If that fails, the reservation stays counted."""
        if reservation is None:
            return
        cost, _ = compute_cost(result, asked.tokens - asked.output, asked.output)
        try:
            with self.database.begin() as connection:
                # The model's row is locked before the day's rows, as in `reserve`.
                budget.note(connection, asked.model, result)
                budget.settle(connection, reservation, *cost)
        except FleetAwayError as error:
            self.log.warning("not settled", why=error.what)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer questions until `SIGTERM` or `SIGINT`, and start again after each outage of the database.

        Raises:
            RefusedError: the configuration does not allow it.
            StateError: the schema cannot be used.
        """
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(self.concurrency + 2, thread_name_prefix="answer"))
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        waiting = asyncio.ensure_future(stop.wait())
        while not stop.is_set():
            working = asyncio.ensure_future(self._work())
            await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                self._let_go()
                working.cancel()
            try:
                await working
            except asyncio.CancelledError:
                break
            # An outage ends procrastinate's worker with many kinds of exceptions.
            except Exception as error:
                if isinstance(error, RefusedError | StateError) and not isinstance(error, FleetAwayError):
                    raise
                place, kind = self.database.place, type(error).__name__
                self.log.warning("the database of the fleet is away", database=place, error_type=kind)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), AGAIN_SECONDS)
        self._let_go()

    def _let_go(self) -> None:
        """End the current model calls. Their hosts ask other workers."""
        self.stopped.set()
        self.models.close()

    async def _work(self) -> None:
        await asyncio.to_thread(budget.renew, self.database)
        async with _build_tasks(self).open_async() as tasks:
            await tasks.run_worker_async(
                queues=[QUEUE],
                concurrency=self.concurrency,
                delete_jobs="always",
                install_signal_handlers=False,
                fetch_job_polling_interval=LOOK_SECONDS,
                update_heartbeat_interval=HEARTBEAT_SECONDS,
                stalled_worker_timeout=STALLED_SECONDS,
            )


def _build_tasks(worker: FleetWorker) -> Any:
    """Return procrastinate's app with the tasks of a worker."""
    # A crash of the server may undo the start or the end of a task. Then it runs again and finds its question answered.
    options = connect_options("worker", is_lazy=True)
    connector = procrastinate.PsycopgConnector(conninfo=worker.database.url, min_size=1, max_size=4, kwargs=options)
    tasks = procrastinate.App(connector=connector)

    async def retry_stalled(timestamp: int) -> None:
        del timestamp
        await free_stalled(tasks.job_manager, worker.log)

    def tidy(timestamp: int) -> None:
        del timestamp
        prune(worker.database, worker.settings.fleet.keep)

    tasks.task(name=TASK, queue=QUEUE)(worker.answer)
    often = tasks.task(name="memoryd.retry_stalled", queue=QUEUE, queueing_lock="memoryd.retry_stalled")(retry_stalled)
    tasks.periodic(cron="*/1 * * * * */10")(often)
    hourly = tasks.task(name="memoryd.tidy", queue=QUEUE, queueing_lock="memoryd.tidy")(tidy)
    tasks.periodic(cron="17 * * * *")(hourly)
    return tasks


async def free_stalled(manager: Any, log: Log) -> None:
    """Give the tasks of lost workers to other workers, which releases the locks of their agents.

    The host may have queued a question again. Then a task with the same name waits already, and the lost one is
    deleted, because two tasks with one name cannot wait.
    """
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
        log.warning("a worker was lost; its task is done by another", job=job.id)
        try:
            await manager.retry_job(job, retry_at=_LONG_AGO)
        except procrastinate.exceptions.UniqueViolation:
            await manager.finish_job(job, status=procrastinate.jobs.Status.FAILED, delete_job=True)
        except procrastinate.exceptions.ConnectorException as error:  # another worker was faster
            log.info("a task is no longer lost", job=job.id, error_type=type(error).__name__)


def serve(settings: Settings, log: Log, concurrency: int) -> None:
    """Answer questions until a signal stops the process.

    Raises:
        RefusedError: no fleet or no model is configured.
        StateError: the key or the schema of the fleet cannot be used.
    """
    if settings.llm.provider != "openai" or settings.llm.model is None:
        raise RefusedError("a worker needs a model to ask", "llm", "set provider: openai, model and base_url")
    database = Database(settings, most=concurrency + 2)
    scrubber = Scrubber(Worker(settings.state_dir, name="scanner"), log.bind(part="scrub"))
    models = Pool(lambda: Worker(settings.state_dir, name="model"))
    worker = FleetWorker(settings, log, concurrency, database, read_seal(settings.fleet.key_file), models, scrubber)
    database.open()
    try:
        log.info("worker started", models=sorted(worker.list_models()), concurrency=concurrency)
        asyncio.run(worker.run())
    finally:
        models.close()
        scrubber.close()
        database.close()
        log.info("worker stopped")


def prune(database: Database, keep: timedelta) -> int:
    """Delete old rows, and return their number.

    A host that was not seen for the time `keep` loses its rows as well.
    """
    deleted: int = 0
    with database.begin() as connection:
        for table, (column, age) in (_AGED | {table: (column, keep) for table, column in _KEPT.items()}).items():
            sql = f"DELETE FROM {table} WHERE {column} < clock_timestamp() - %s"  # noqa: S608 - names from above
            deleted += connection.execute(sql, [age]).rowcount
        (now,) = connection.execute("SELECT clock_timestamp()").fetchone()
        sql = "DELETE FROM fleet_run WHERE finished_at < %s"
        deleted += connection.execute(sql, [text_of(now - keep)]).rowcount
        gone = connection.execute(
            "DELETE FROM fleet_host WHERE seen_at < clock_timestamp() - %s RETURNING host", [keep]
        ).fetchall()
        deleted += len(gone)
        # Only rows of the hosts deleted here are searched. A search for all rows without a host reads the whole table.
        sql = "DELETE FROM fleet_run WHERE host = ANY(%s)"
        deleted += connection.execute(sql, [[host for (host,) in gone]]).rowcount
    return deleted
