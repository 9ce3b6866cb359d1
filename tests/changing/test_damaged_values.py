"""A value that its column does not declare costs only its row: memoryd names it, repairs it, and goes on."""

import contextlib
import json
import shutil

import pytest
from scratch import Scratch, filler, in_process, recent, said

from memoryd.changing.recovery import ALARM
from memoryd.database import changes, sqlite
from memoryd.database.library import load_library

BYTES = b"\x00\xffA"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("made") / "scratch")
    scratch.append([*said(at=recent()), filler(at=recent())])
    scratch.json("run", "--once")
    scratch.json("facts", "add", "Wears size 43 shoes.")
    scratch.change("INSERT INTO alarm VALUES (NULL, 'mine', '', '', '2026-03-04', 'x', '2026-03-04', NULL)")
    (session,) = scratch.query("SELECT id FROM session")[0]
    scratch.change("INSERT INTO forgotten_text VALUES (?, 'key', 'demo', 1)", session)
    shutil.rmtree(scratch.state / "backups")
    scratch.json("run", "--once")
    shutil.copytree(scratch.root, scratch.root.with_name("pristine"))
    return scratch


@pytest.fixture
def scratch(made):
    return made.copied(made.root.with_name("pristine"))


def damage(scratch, table, column, value):
    """Set a value in the last row of a table, without triggers, as damage does."""
    with contextlib.closing(load_library().connect(scratch.state / "memoryd.db")) as connection, connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        last = f'(SELECT max(rowid) FROM "{table}")'  # noqa: S608
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = {last}', (value,))  # noqa: S608
        for _, sql in triggers:
            connection.execute(sql)


def rows(scratch, *tables):
    return {table: scratch.query(f'SELECT * FROM "{table}" ORDER BY 1') for table in tables}  # noqa: S608


def alarms(scratch):
    return [text for (text,) in scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)]


def repaired(scratch, table, column):
    """Check that `verify` names the row, that a run repairs it with an alarm, and that all agrees afterwards."""
    (problem,) = (one for one in verified(scratch) if one["what"] == "a value of another type than its column")
    assert problem["where"].startswith(f"{table} ")
    assert problem["where"].endswith(f"({column})")
    assert "the daemon repairs it now, or at its next start" in problem["hint"]
    scratch.json("run", "--once")
    assert f"({column})" in alarms(scratch)[0]
    assert verified(scratch) == []
    assert not list(scratch.state.glob("memoryd.db.damaged-*"))


def verified(scratch):

    return json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]


CASES = [
    ("agent", "id", BYTES),
    ("alarm", "text", BYTES),
    ("audit", "before", BYTES),
    ("forgotten_text", "text_key", BYTES),
    ("memory", "content", BYTES),
    ("session", "gauge", "garbage"),
    ("session", "last_turn_at", "garbage"),
    ("session", "turns", "garbage"),
    ("transcript", "skipped", BYTES),
    ("turn", "agent_id", BYTES),
]
KEPT = ("memory", "audit", "content", "turn", "forgotten_text", "agent")


@pytest.mark.parametrize(("table", "column", "value"), CASES, ids=[f"{one[0]}.{one[1]}" for one in CASES])
def test_a_bad_value_is_named_and_repaired_from_the_copy(scratch, table, column, value):
    before = rows(scratch, *KEPT)
    damage(scratch, table, column, value)
    repaired(scratch, table, column)
    after = rows(scratch, *KEPT)
    assert {name: after[name] for name in KEPT if name != "agent"} == {
        name: before[name] for name in KEPT if name != "agent"
    }


@pytest.mark.parametrize(("table", "column"), [("session", "native_id"), ("session", "last_seq"), ("turn", "role")])
def test_without_a_copy_the_row_is_completed_or_read_again(scratch, table, column):
    before = rows(scratch, "turn", "session")
    shutil.rmtree(scratch.state / "backups")
    damage(scratch, table, column, BYTES)
    repaired(scratch, table, column)
    after = rows(scratch, "turn", "session")
    assert len(after["turn"]) == len(before["turn"])
    assert scratch.query("SELECT turns, last_seq FROM session") == scratch.query("SELECT count(*), max(seq) FROM turn")


def test_a_missing_value_costs_the_row_and_not_the_database(scratch):
    with contextlib.closing(load_library().connect(scratch.state / "memoryd.db")) as connection, connection:
        ((sql,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'turn'").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        set_sql = "UPDATE sqlite_master SET sql = ? WHERE name = 'turn'"
        connection.execute(set_sql, (sql.replace("part INTEGER NOT NULL", "part INTEGER"),))
    with contextlib.closing(load_library().connect(scratch.state / "memoryd.db")) as connection, connection:
        connection.execute("UPDATE turn SET part = NULL WHERE id = 2")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(set_sql, (sql,))
    repaired(scratch, "turn", "part")


@pytest.mark.parametrize("column", ["content", "position"])
def test_a_value_that_somebody_wrote_under_a_running_memoryd_does_not_reach_the_journal(scratch, column):
    before = rows(scratch, "memory")
    with in_process(scratch) as app:
        scratch.change(f"UPDATE memory SET {column} = ? WHERE kind = 'fact'", BYTES)  # noqa: S608
        sqlite.write(app.engine, changes.add_missing_agents)  # a write tells the journal
    scratch.json("run", "--once")
    assert rows(scratch, "memory") == before
    assert "\\u0000" not in (scratch.state / "journal.jsonl").read_text(encoding="utf-8")
    assert verified(scratch) == []
