"""Questions: each is answered once, survives a lost host and a lost worker, and nobody between learns or forges it."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import fleet_world
import pytest
from fleet_world import MODEL, PRIVATE_TEXT, Models, ask
from scratch import until

from memoryd.errors import RefusedError, StateError
from memoryd.jobs.job import Reply
from memoryd.llm.failure import Failure, Trouble

pytestmark = pytest.mark.fleet


@pytest.fixture
def asker(fleet):
    made = fleet.asker("host-a")
    yield made
    made.close()
    made.database.close()


def question(asked=None, agent="host-a/demo", tokens=500):
    from memoryd.fleet.questions import FleetQuestion

    return FleetQuestion(agent, MODEL, asked or ask(), 200, tokens, 5.0)


def waiting(fleet):
    return [
        row[0] for row in fleet.fetch("SELECT args ->> 'question_id' FROM procrastinate_jobs WHERE status = 'todo'")
    ]


def asked_in_thread(asker, question_id, of=None):
    return ThreadPoolExecutor(1).submit(asker.ask, question_id, of or question())


def answered(fleet, asker, worker, question_id="q1", of=None):
    """Ask, and let a worker answer."""
    future = asked_in_thread(asker, question_id, of)
    until(lambda: fleet.fetch("SELECT 1 FROM fleet_question WHERE id = %s", question_id), why="the question is stored")
    worker.answer(question_id)
    return future.result(10)


def test_the_schema_is_applied_once_and_checked_at_start(fleet_server, tmp_path):
    import pg_world

    from memoryd.fleet.connection import Database, list_files, migrate

    uri = pg_world.make_database(fleet_server, "bare")
    made = fleet_world.Fleet(tmp_path, uri)
    database = Database(made.settings("host-a"))
    database.open()
    with pytest.raises(StateError) as refused:
        database.fetch("SELECT 1")
    assert refused.value.hint == "memoryd fleet migrate"
    assert migrate(uri) == [*list_files()]
    assert not migrate(uri)
    assert database.fetch("SELECT 1") == [(1,)]
    made.fetch("INSERT INTO fleet_migration (name) VALUES ('9999_of_later.sql')")
    database.close()
    later = Database(made.settings("host-a"))
    later.open()
    with pytest.raises(StateError, match="newer memoryd"):
        later.fetch("SELECT 1")
    later.close()


def test_a_question_comes_back_as_it_was_asked(fleet, asker):
    models = Models()
    reply = answered(fleet, asker, fleet.worker(models))
    assert reply == Reply("the reply", "stop", "openai", MODEL, 60, 20)
    ((endpoint, got),) = models.asked
    assert got == ask()
    assert (endpoint.base_url, endpoint.output) == ("http://127.0.0.1:1/v1", 200)


def test_a_lost_host_finds_the_reply_and_no_model_is_asked_twice(fleet, asker):
    models = Models()
    worker = fleet.worker(models)
    answered(fleet, asker, worker)  # and the host dies before it keeps the reply
    again = fleet.asker("host-a")
    assert again.ask("q1", question()).text == "the reply"
    for question_id in waiting(fleet):
        worker.answer(question_id)
    assert len(models.asked) == 1
    again.forget("q1")
    assert not fleet.fetch("SELECT 1 FROM fleet_question")
    worker.answer("q1")  # a task that is left over has nothing to do
    assert len(models.asked) == 1
    again.close()


def test_two_workers_with_one_question_store_one_reply(fleet, asker):
    both = threading.Barrier(2)

    def answer(_endpoint, _ask):
        both.wait(10)
        return Reply(f"by {threading.get_ident()}", "stop", "openai", MODEL, 60, 20)

    worker, other = fleet.worker(Models(answer)), fleet.worker(Models(answer))
    future = asked_in_thread(asker, "q1")
    until(lambda: waiting(fleet), why="the question waits")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.answer("q1"), (worker, other)))
    reply = future.result(10)
    assert asker.ask("q1", question()) == reply
    assert fleet.fetch("SELECT sum(tokens) FROM fleet_day WHERE agent = ''") == [(160,)]  # both were paid


def test_no_worker_in_time_is_no_failed_attempt(fleet):
    ticks = iter(range(0, 10_000, 40))
    asker = fleet.asker("host-a", monotonic=lambda: float(next(ticks)))
    failure = asker.ask("q1", question())
    assert (failure.trouble, failure.retry_after) == (Trouble.BUSY, 30.0)
    assert waiting(fleet) == ["q1"]  # it stays, for the next attempt
    fleet.worker(Models()).answer("q1")
    assert asker.ask("q1", question()).text == "the reply"
    asker.close()


def test_a_failure_is_read_once_and_the_next_attempt_asks_anew(fleet, asker):
    answers = iter([Failure(Trouble.UNAVAILABLE, "no answer"), Reply("the reply", "stop", "openai", MODEL, 60, 20)])
    worker = fleet.worker(Models(lambda *_: next(answers)))
    assert answered(fleet, asker, worker).trouble is Trouble.UNAVAILABLE
    assert answered(fleet, asker, worker).text == "the reply"


def test_a_model_that_no_worker_has_is_refused_and_no_address_travels(fleet, asker):
    from dataclasses import replace

    models = Models()
    of = replace(question(), model="dear-9")
    failure = answered(fleet, asker, fleet.worker(models), of=of)
    assert failure.trouble is Trouble.BLOCKED
    assert not models.asked


def test_who_reads_the_database_learns_nothing(fleet, asker):
    answered(fleet, asker, fleet.worker(Models(lambda *_: Reply(PRIVATE_TEXT, "stop", "openai", MODEL, 60, 20))))
    stored = fleet.everything_stored()
    assert "q1" in stored
    assert not [word for word in ("Ottilie", "ledger", "Summarise", "so far") if word in stored]


def test_a_reply_that_was_made_for_another_question_is_refused(fleet, asker):
    worker = fleet.worker(Models())
    answered(fleet, asker, worker, "q1")
    answered(fleet, asker, worker, "q2")
    fleet.fetch("UPDATE fleet_question SET reply = (SELECT reply FROM fleet_question WHERE id = 'q1') WHERE id = 'q2'")
    failure = asker.ask("q2", question())
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.UNAVAILABLE
    assert fleet.fetch("SELECT id FROM fleet_question") == [("q1",)]  # the next attempt asks anew


def test_a_forged_question_is_not_asked(fleet):
    models = Models()
    worker = fleet.worker(models)
    from memoryd.fleet.questions import OF_HOST, QUESTIONS
    from memoryd.fleet.sealing import Seal

    body = Seal([]).wrap("question q1", QUESTIONS.dump_python(question(), mode="json", exclude=OF_HOST))
    fleet.fetch("INSERT INTO fleet_question (id, host, body) VALUES ('q1', 'host-a', %s)", body)
    worker.answer("q1")
    assert not models.asked


def test_a_key_that_others_may_read_is_refused(fleet):
    from memoryd.fleet.sealing import read_seal

    path = fleet_world.make_key(fleet.root)
    path.chmod(0o644)
    with pytest.raises(StateError, match="others may read"):
        read_seal(path)


def test_an_old_key_still_opens_and_another_does_not(fleet, tmp_path):
    from cryptography.fernet import Fernet

    from memoryd.fleet.sealing import Seal

    old, new = (Fernet.generate_key().decode() for _ in range(2))
    text = Seal([old]).wrap("answer q", 1)
    assert Seal([new, old]).unwrap("answer q", text) == 1
    with pytest.raises(RefusedError):
        Seal([new]).unwrap("answer q", text)
    assert Seal([new]).name("a", "b") != Seal([old]).name("a", "b")


def test_a_host_name_that_is_an_order_stays_a_name(fleet):
    from memoryd.fleet.questions import channel_of

    asker = fleet.asker("host-a")
    asker.database.host = 'x"; DROP TABLE fleet_question; --'
    assert channel_of(asker.database.host).replace("_", "").isalnum()
    future = asked_in_thread(asker, "q1")
    until(lambda: waiting(fleet), why="the question waits")
    fleet.worker(Models()).answer("q1")
    assert future.result(10).text == "the reply"
    asker.close()


def test_a_short_wait_is_waited_by_the_worker_and_a_long_one_by_the_host(fleet, asker):
    answers = iter(
        [
            Failure(Trouble.BUSY, "too many", retry_after=1.0),
            Reply("the reply", "stop", "openai", MODEL, 60, 20),
            Failure(Trouble.BUSY, "too many", retry_after=60.0),
        ]
    )
    worker = fleet.worker(Models(lambda *_: next(answers)))
    assert answered(fleet, asker, worker).text == "the reply"
    assert fleet.fetch("SELECT tokens FROM fleet_day WHERE agent = ''") == [(80,)]  # who is refused pays nothing
    assert answered(fleet, asker, worker, "q2").retry_after == 60.0


def test_a_lost_worker_keeps_no_agent_waiting_though_its_question_was_handed_over_again(fleet, asker):
    """A task that is stuck and its successor have one name, and only one of a name may wait."""
    import asyncio

    from memoryd.files.log import get_logger
    from memoryd.fleet.worker import _build_tasks, free_stalled

    fleet.fetch("INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 h')")
    for question_id, agent in (("q1", "host-a/one"), ("q2", "host-a/two"), ("q3", "host-a/three")):
        asked_in_thread(asker, question_id, question(agent=agent))
        until(lambda name=question_id: name in waiting(fleet), why="the question waits")
    fleet.fetch("UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM procrastinate_workers)")
    with asker.database.begin() as connection:
        asker._defer(connection, "q1", question(agent="host-a/one"))

    async def free():
        async with _build_tasks(fleet.worker(Models())).open_async() as tasks:
            await free_stalled(tasks.job_manager, get_logger())

    asyncio.run(free())
    assert sorted(waiting(fleet)) == ["q1", "q2", "q3"]
    assert fleet.fetch("SELECT count(*) FROM procrastinate_jobs WHERE status <> 'todo'") == [(0,)]


def test_a_worker_that_is_stopped_does_not_wait_for_the_database(fleet, monkeypatch):
    from memoryd.fleet.connection import AWAY, FleetAwayError

    tried = []

    @contextlib.contextmanager
    def begin():
        tried.append(1)
        raise FleetAwayError(AWAY)
        yield

    worker = fleet.worker(Models())
    monkeypatch.setattr(worker.database, "begin", begin)
    worker.stopped.set()
    worker._store("q1", "host-a", Reply("paid for", "stop", "openai", MODEL, 60, 20))
    worker.database.close()
    assert 1 < len(tried) < 10


def test_a_reply_that_is_paid_outlasts_an_outage_of_the_database(fleet, fleet_server, asker):
    from memoryd.fleet import worker as module

    def answer(*_):
        fleet_server.kill()
        threading.Thread(target=fleet_server.start).start()
        return Reply("paid for", "stop", "openai", MODEL, 60, 20)

    models = Models(answer)
    of = question()
    future = asked_in_thread(asker, "q1", of)
    until(lambda: waiting(fleet), why="the question waits")
    worker = fleet.worker(models)
    worker.answer("q1")
    assert module.KEPT_TRIES * module.AGAIN_SECONDS >= 600
    future.cancel()
    until(lambda: fleet.fetch("SELECT 1 FROM fleet_question WHERE reply IS NOT NULL"), why="the reply is stored")
    assert asker.ask("q1", of).text == "paid for"
    assert len(models.asked) == 1
