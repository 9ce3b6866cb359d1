"""The database under several threads and processes: writers wait for each other, and no connection crosses a fork."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import forks
import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from memoryd.database import query, schema, sqlite
from memoryd.database.reads import KeptReader, NotMadeError
from memoryd.errors import StateError

NOW = "2026-03-04T09:00:00.000Z"
ROUNDS = 150
TURNS = 40
# Reads before it writes, in one transaction: begun as a reader it could not become a writer while another one writes.
HAMMER = """
import sys
from pathlib import Path
from memoryd.database import sqlite
engine = sqlite.connect(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    with sqlite.begin_read(engine) as connection:
        connection.exec_driver_sql("SELECT count(*) FROM alarm").scalar_one()
    with sqlite.begin_write(engine) as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM alarm").scalar_one()
        connection.exec_driver_sql(
            "INSERT INTO alarm (kind, subject, since, text, agent_id) VALUES ('hammer', ?, ?, ?, '')",
            (f"{sys.argv[2]}-{number}", "2026", str(found)),
        )
engine.dispose()
"""


def test_two_processes_that_read_and_write_at_once_never_fail_and_never_lose_a_row(tmp_path):
    path = tmp_path / "memoryd.db"
    opened = schema.open_database(path, now=NOW)
    words = ["-c", HAMMER, path]
    both = [forks.start([*words, name, str(ROUNDS)], stderr=subprocess.PIPE, text=True) for name in ("one", "two")]
    assert [(process.communicate()[1], process.returncode) for process in both] == [("", 0)] * 2
    with sqlite.begin_read(opened.engine) as connection:
        found = connection.exec_driver_sql("SELECT text FROM alarm ORDER BY id").scalars().all()
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
    assert found == [str(number) for number in range(2 * ROUNDS)]  # each saw all that came before it
    opened.engine.dispose()


def test_threads_of_one_process_take_turns_and_never_find_the_database_busy(tmp_path):
    engine = schema.open_database(tmp_path / "memoryd.db", now=NOW).engine

    @event.listens_for(engine, "connect")
    def _no_patience(dbapi, _record):
        dbapi.execute("PRAGMA busy_timeout=0")

    def write(name):
        for number in range(TURNS):
            with sqlite.begin_write(engine) as connection:
                connection.exec_driver_sql(
                    "INSERT INTO alarm (kind, subject, since, text, agent_id) VALUES ('turn', ?, '2026', '', '')",
                    (f"{name}-{number}",),
                )
        return name

    engine.dispose()  # the connections that were made with patience
    with ThreadPoolExecutor(len("abc")) as pool:
        assert [*pool.map(write, "abc")] == [*"abc"]
    with sqlite.begin_read(engine) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM alarm").scalar_one() == TURNS * len("abc")
    engine.dispose()


def test_a_transaction_that_fails_gives_its_turn_back(tmp_path):
    engine = schema.open_database(tmp_path / "memoryd.db", now=NOW).engine
    with pytest.raises(ZeroDivisionError), sqlite.begin_write(engine):
        1 / 0  # noqa: B018
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(engine.get_execution_options()["turn"].acquire, timeout=0).result()
    engine.dispose()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_connection_does_not_cross_a_fork(tmp_path):
    opened = schema.open_database(tmp_path / "memoryd.db", now=NOW)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with sqlite.begin_read(opened.engine):
                pass
        except StateError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    opened.engine.dispose()


def agents(kept):
    with kept.begin_read() as reader:
        return [row["id"] for row in reader.rows("SELECT id FROM agent ORDER BY id")]


def database(path, *names):
    engine = schema.open_database(path, now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        for name in names:
            connection.exec_driver_sql("INSERT INTO agent VALUES (?, '/w', 1, 0, ?)", (name, NOW))
    return engine


def test_what_is_kept_open_reads_what_was_written_since_and_another_file_in_its_place(tmp_path):
    path, other = tmp_path / "memoryd.db", tmp_path / "other.db"
    kept = KeptReader(path, stays=True)
    with kept.reading_any() as reader:
        assert reader is None
    with pytest.raises(NotMadeError):
        agents(kept)
    engine = database(path, "ada")
    assert agents(kept) == ["ada"]
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES ('bob', '/w', 1, 0, ?)", (NOW,))
    assert agents(kept) == ["ada", "bob"]
    engine.dispose()
    database(other, "eve").dispose()
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink()
    other.replace(path)
    assert agents(kept) == ["eve"]
    path.unlink()
    with pytest.raises(NotMadeError):
        agents(kept)
    kept.close()


def test_what_is_kept_open_holds_no_state_of_a_question_that_failed(tmp_path):
    engine = database(tmp_path / "memoryd.db", "ada")
    kept = KeptReader(tmp_path / "memoryd.db", stays=True)
    with pytest.raises(LookupError), kept.begin_read():
        raise LookupError
    with pytest.raises(StateError, match="cannot be read"), kept.begin_read() as reader:
        reader.rows("SELECT 1 FROM nowhere")
    with pytest.raises(StateError, match="within a transaction"), kept.begin_read(), kept.begin_read():
        pass
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES ('bob', '/w', 1, 0, ?)", (NOW,))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(agents, [kept] * TURNS)) == [["ada", "bob"]] * TURNS
    kept.close()
    engine.dispose()


def test_nothing_stays_open_beyond_a_question(tmp_path):
    path = tmp_path / "memoryd.db"
    engine = database(path, "ada")
    reading = KeptReader(path)
    assert agents(reading) == agents(reading) == ["ada"]
    engine.dispose()
    assert [one.name for one in tmp_path.glob("memoryd.db-*")] == []  # who closes it last empties its log


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT nothing", OperationalError),
        ("INSERT INTO alarm (kind) VALUES (?)", IntegrityError),
        ("SELECT ?, ?", DBAPIError),
    ],
)
def test_a_query_that_fails_raises_the_error_of_a_change_that_fails(tmp_path, sql, expected):
    engine = schema.open_database(tmp_path / "memoryd.db", now=NOW).engine
    for call in (query.run, query.fetch_rows, query.has_row):
        with pytest.raises(expected) as raised:
            sqlite.write(engine, call, sql, 1)
        assert sql in str(raised.value)
    engine.dispose()


def test_a_full_disk_during_a_trial_is_named_as_what_it_is(tmp_path):
    engine = schema.open_database(tmp_path / "memoryd.db", now=NOW).engine
    insert = query.make_insert("alarm", ("kind", "agent_id", "subject", "since", "text"))

    def fill():
        with sqlite.begin_trial(engine) as connection:
            query.run(connection, f"PRAGMA max_page_count = {query.fetch_number(connection, 'PRAGMA page_count')}")
            for number in range(1_000):
                query.run(connection, insert, f"kind {number}", "", "", NOW, "text " * 1_000)

    with pytest.raises(OperationalError, match="full"):
        fill()
    assert sqlite.read(engine, query.fetch_number, "SELECT count(*) FROM alarm") == 0
    engine.dispose()
