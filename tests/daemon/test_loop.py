"""The daemon's loop, turn by turn in this process: what is due is done though there is much else to do."""

import contextlib
import os
import resource
import signal

import pytest
from scratch import STARTED, Scratch, filler, in_process, message, said
from structlog.testing import capture_logs
from tiny_model import TinyModel, vector

from memoryd.daemon.loop import Loop, Wake
from memoryd.daemon.once import read_all
from memoryd.database import runs, sqlite
from memoryd.errors import StateError
from memoryd.finding import embedding
from memoryd.interfaces import serving
from memoryd.requests import meanings
from memoryd.running import sleeping


@pytest.fixture
def scratch(tmp_path):
    return Scratch(tmp_path / "scratch")


@pytest.fixture
def opened(scratch):
    with in_process(scratch, lambda: STARTED) as app:
        yield app


@pytest.fixture
def loop(opened):
    loop = Loop(opened, lambda _settings: None)
    yield loop
    loop.pool.shutdown()


def heard(scratch, opened, name, start=0):
    """A session with enough to sleep over, read and counted; its id."""
    rule = f"We decided to keep the depot called {name} in Gdansk, because its customs office is open at night."
    scratch.append([*said(start), message("user", rule, start + 20), filler(minute=start + 30)], name)
    opened.ingest.changed.clear()
    read_all(opened)
    (session_id,) = opened.ingest.changed
    sleeping.count_live(opened.engine, opened.worker, session_id)
    return session_id


def ended(loop):
    """How the runs end that the loop has launched."""
    return [future.result(60).state for future in loop.running]


def test_a_run_does_not_wait_for_the_end_of_a_turn(scratch, opened, loop):
    loop._consider([heard(scratch, opened, "one")])
    assert ended(loop) == ["succeeded"]
    loop.running.clear()
    sleeping.consider(opened.engine, opened.settings, opened.clock, heard(scratch, opened, "two", 100))
    loop.queue.at, loop.hints.rescan = 0, True
    scratch.append(said(200), "one")
    loop._ingest(loop.clock.monotonic())
    assert ended(loop) == ["succeeded"]


def test_tokens_are_counted_once_the_history_is_read_and_without_the_scanner_in_memory(
    scratch, opened, loop, monkeypatch
):
    scratch.append([*said(0), filler(minute=30)], "one")
    read_all(opened)
    (session_id,) = opened.ingest.changed
    counted = []
    monkeypatch.setattr(sleeping, "count_or_estimate", lambda *told: counted.append(told[-1]))
    rested = []
    monkeypatch.setattr(opened.scrubber, "tick", rested.append)
    now = loop.clock.monotonic()
    for seconds, is_hooked, ended in ((0.5, False, []), (10, True, []), (10, False, [float("inf")])):
        loop.reads_since, loop.is_hooked = now - seconds, lambda is_hooked=is_hooked: is_hooked
        loop._consider([session_id])
        assert (loop.counts, loop.uncounted) == ({}, {session_id})
        loop._read_changed(now)  # nothing waits to be read any more
        assert rested == ended
    loop._consider(loop._find_changed_keys())
    loop.counts[session_id].result(60)
    assert (counted, loop.uncounted) == ([session_id], set())
    loop.counts.clear()
    loop.reads_since = now - 1000  # after a long read, a live session may be in the backlog
    loop._consider([session_id])
    assert session_id in loop.counts


def test_a_used_scheduled_time_is_not_looked_at_again_until_a_write(loop, monkeypatch):
    asked = []
    monkeypatch.setattr("memoryd.daemon.scheduled_times.queue_ready", lambda _app, slot: asked.append(slot.kind) or 0)
    loop._run_schedules()
    first = len(asked)
    assert first
    loop._run_schedules()
    assert len(asked) == first
    loop._note_start()
    loop._run_schedules()
    assert len(asked) == 2 * first


def test_scheduled_times_are_looked_at_again_after_an_error_and_after_a_reload(loop, monkeypatch):
    asked = []
    monkeypatch.setattr("memoryd.daemon.scheduled_times.queue_ready", lambda _app, slot: asked.append(slot.kind) or 0)
    monkeypatch.setattr("memoryd.daemon.scheduled_times.look_at_cores", lambda _app: asked[10_000])
    for _ in range(2):
        before = len(asked)
        with pytest.raises(IndexError):
            loop._run_schedules()
        assert len(asked) > before
    monkeypatch.setattr("memoryd.daemon.scheduled_times.look_at_cores", lambda _app: 0)
    loop._run_schedules()
    before = len(asked)
    loop._run_schedules()
    assert len(asked) == before
    loop._apply(loop.app.settings)
    loop._run_schedules()
    assert len(asked) > before


def test_a_run_that_becomes_due_by_time_is_launched_without_a_write(scratch, opened, loop, monkeypatch):
    sleeping.consider(opened.engine, opened.settings, opened.clock, heard(scratch, opened, "one"))
    with opened.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE job_run SET scheduled_for = '2999-01-01T00:00:00.000Z'")
    now = loop.clock.monotonic()
    loop._launch(now + 2)
    assert loop.running == set()
    monkeypatch.setattr(type(opened.clock), "text", lambda *_told, **_more: "2999-01-02T00:00:00.000Z")
    launched = []
    monkeypatch.setattr(loop.pool, "submit", lambda *_told: launched.append(1) or loop.counting.submit(int))
    loop._launch(now + 4)
    assert launched == []
    loop._launch(now + 8)
    assert launched == [1]


def test_a_loop_that_stops_launches_nothing_more(scratch, opened, loop):
    loop.stop_asked = True
    loop._consider([heard(scratch, opened, "one")])
    assert loop.running == set()


def test_a_session_whose_run_waits_is_considered_without_waiting_for_who_writes(scratch, opened):
    consider = (opened.engine, opened.settings, opened.clock, heard(scratch, opened, "one"))
    assert runs.get_run(opened.engine, sleeping.consider(*consider).run_id).state == "queued"
    with sqlite.begin_write(opened.engine):
        assert sleeping.consider(*consider).run_id is None


def test_whatever_fails_first_where_the_database_was_taken_away_that_is_told(scratch, opened, loop, monkeypatch):
    def failing():
        (scratch.state / "memoryd.db").unlink()
        raise LookupError

    monkeypatch.setattr(loop, "_listen", lambda: None)  # the signals are this process's
    monkeypatch.setattr(loop, "_note_start", failing)
    with pytest.raises(StateError, match="deleted or replaced"):
        loop.run()


def test_a_daemon_whose_lock_was_deleted_or_replaced_stops(scratch, opened, loop):
    loop._check_files()
    lock = scratch.state / "memoryd.lock"
    lock.unlink()
    with pytest.raises(StateError, match="lock file was deleted"):
        loop._check_files()
    lock.write_text("1\n", encoding="utf-8")
    with pytest.raises(StateError, match="lock file was deleted"), capture_logs() as logs:
        loop._check_files()
    assert [(one["log_level"], one["event"]) for one in logs] == [("error", "stopping")]


def test_without_open_files_it_polls_and_keeps_fewer_open_and_reads_all(scratch, opened, loop):
    for number in range(20):
        scratch.append([message("user", f"Number {number} is in.", number)], f"s{number}")
    loop._configure(opened.settings)
    loop._note_start()
    read_all(opened)
    assert (loop.watcher.polling_why, len(opened.ingest.files)) == (None, 20)
    for number in range(20):
        scratch.append([message("user", f"Number {number} is in as well.", 20 + number)], f"t{number}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.dup(0) for _ in range(100)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare) + 1, hard))
        fill = []
        with contextlib.suppress(OSError):
            while True:
                fill.append(os.dup(0))
        for one in (fill or spare)[:3]:  # the way to a file is opened folder by folder
            os.close(one)
            (fill or spare).remove(one)
        read_all(opened)
        loop._turn()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in {*spare, *fill}:
            os.close(one)
    assert scratch.query("SELECT count(*) FROM turn") == [(40,)]
    assert len(opened.ingest.files) <= 4
    assert scratch.query("SELECT watching, watching_note FROM daemon") == [("polling", loop.watcher.polling_why)]
    assert "no more open files" in loop.watcher.polling_why
    assert scratch.query("SELECT count(*) FROM alarm WHERE kind = 'open-files'") == [(1,)]


def test_texts_are_embedded_beside_the_loop_as_the_settings_say(scratch, opened, loop, monkeypatch):
    monkeypatch.setattr(embedding, "list_missing", list)
    model = opened.embedder.questions = opened.embedder.texts = TinyModel()
    verb = serving._verbs(opened, loop)["embed"]
    (scratch.workspace / "MEMORY.md").write_text("- the automobile is in the shed\n", encoding="utf-8")
    loop._start_embedding()
    assert "embedding" not in loop.tasks, "it is switched off"
    assert verb({"text": "a car"})["why"] == "the daemon searches by words alone"
    scratch.write_config(search={"embeddings": "auto"})
    loop._take_settings()
    loop._index()
    loop._start_embedding()
    loop.tasks["embedding"].result(60)
    assert model.texts == ["- the automobile is in the shed\n"]
    assert [hit.path for hit in opened.recall.search(opened.settings.agents[0], "garage")] == ["MEMORY.md"]
    assert meanings.from_json(verb({"text": "a car"})).vector == vector("car")
    scratch.write_config(search={"embeddings": "off"})
    loop._take_settings()
    assert opened.recall.search(opened.settings.agents[0], "garage") == []


def test_a_chore_that_fails_keeps_none_from_its_turn(loop):
    done = []
    loop.beside[:] = [lambda: done.append(1), lambda: done[5], lambda: done.append(2)]
    with pytest.raises(IndexError):
        loop._look_at_core()
    assert done == [1, 2]


def test_a_core_that_cannot_be_looked_at_keeps_no_chore_from_its_turn(loop, monkeypatch):
    done = []
    loop.beside[:] = [lambda: done.append(1)]
    monkeypatch.setattr(type(loop.core), "look", lambda _core: done[5])
    with pytest.raises(IndexError):
        loop._look_at_core()
    assert done == [1]


def test_no_run_starts_before_what_was_to_be_read_first(loop, monkeypatch):
    monkeypatch.setattr(type(loop.queue), "is_due", lambda *_: pytest.fail("the queue was looked at"))
    loop.read("/")
    loop._launch(loop.clock.monotonic())
    assert loop.queue.at == 0
    monkeypatch.setattr(loop.app.ingest, "find", loop._go_on)
    loop._ingest(loop.clock.monotonic())
    assert (loop.reads_first, loop.is_reading_first) == (False, False)


def test_a_signal_that_interrupts_the_look_at_a_call_does_not_block():
    wake, calls = Wake(), []
    before = signal.signal(signal.SIGALRM, lambda *_: (calls.append(1), wake.set()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        while len(calls) < 2_000:
            wake.wait(0.0001)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    wake.set()
    wake.wait(30)
    wake.wait(-1)
