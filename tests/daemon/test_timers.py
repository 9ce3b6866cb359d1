"""When `LookTimer` reports a look: after a write, on request, and at intervals."""

import pytest

from memoryd.daemon.timers import LookTimer
from memoryd.database.library import load_library


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "some.db"
    connection = load_library().connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE told (text TEXT)")
    yield path, connection
    connection.close()


def test_a_look_is_due_after_each_write_of_another_connection_and_not_otherwise(database):
    path, connection = database
    timer = LookTimer([path], 1, 0, anyway=1000)
    assert timer.is_due(1), "the first look is always due"
    for second in range(2, 50):
        is_written = second % 7 == 0
        if is_written:
            connection.execute("INSERT INTO told VALUES (?)", (f"row {second}",))
        if second % 14 == 0:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert timer.is_due(second) == is_written, second


def test_a_look_is_due_on_request_and_at_intervals_without_a_write(database):
    timer = LookTimer([database[0]], 1, 0, anyway=5)
    due = []
    for half in range(2, 40):
        if half == 15:
            timer.at = 0
        if timer.is_due(half / 2):
            due.append(half / 2)
    assert due == [1, 6, 7.5, 12.5, 17.5]


def test_what_is_written_during_a_look_makes_the_next_one_due(database):
    path, connection = database
    timer = LookTimer([path], 1, 0, anyway=1000)
    assert timer.is_due(1)
    connection.execute("INSERT INTO told VALUES ('behind the look')")
    assert timer.is_due(2)
    assert not timer.is_due(3)


def test_a_database_created_later_makes_a_look_due(tmp_path):
    timer = LookTimer([tmp_path / "none.db"], 1, 0, anyway=1000)
    assert timer.is_due(1)
    assert not timer.is_due(2)
    load_library().connect(tmp_path / "none.db").execute("CREATE TABLE told (text TEXT)").connection.close()
    assert timer.is_due(3)
