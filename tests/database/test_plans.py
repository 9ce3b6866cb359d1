# ruff: noqa: S608 - names of tables and columns
"""No statement of a hot path reads all of a table that grows: the plans of what runs at thousands of sessions."""

import os
import re
from datetime import UTC, datetime

import pytest
from scratch import Scratch, filler, in_process, message, said

from memoryd.daemon.loop import Loop
from memoryd.daemon.once import read_all
from memoryd.database import packing
from memoryd.database.library import load_library

SESSIONS = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 2_000
GROWING = (
    "alarm", "audit", "bad_span", "changed_row", "content", "forgotten_text", "job_run", "memory",
    "session", "session_summary", "spend", "transcript", "turn", "verdict", "watermark", "document", "source",
)  # fmt: skip
# Indexes of what is open: they do not grow with what is over.
OPEN = {"alarm_open", "job_run_key", "job_run_one_per_agent", "session_active", "turn_withheld"}
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
SCAN = re.compile(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?")


@pytest.fixture
def statements(monkeypatch):
    """Collect each statement that a connection runs, as SQLite ran it, by the file of its database."""
    found = {}
    module = load_library()
    connect = module.connect

    def tracing(database, *arguments, **options):
        connection = connect(database, *arguments, **options)
        name = "index" if "index.db" in str(database) else "memoryd"
        connection.set_trace_callback(
            lambda sql: SQL.match(sql) and found.setdefault((name, re.sub(r"\d+", "", sql)), sql)
        )
        return connection

    monkeypatch.setattr(module, "connect", tracing)
    return found


def grow(scratch):
    """Copy the rows of the first session until there are many."""
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {SESSIONS})"
    for table, changed in {
        "session": {"id": "'more-' || i", "state": "'ended'"},
        "transcript": {"id": "NULL", "session_id": "'more-' || i", "path": "path || i", "fate": "'deleted'"},
        "turn": {"id": "NULL", "session_id": "'more-' || i", "record_key": "record_id || i"},
        "job_run": {"id": "'run-' || i", "key": "NULL", "slot": "NULL", "state": "'succeeded'"},
    }.items():
        columns = [row[1] for row in scratch.query(f"PRAGMA table_info({table})")]
        values = ", ".join(changed.get(name, f't."{name}"') for name in columns)
        one = f'(SELECT * FROM "{table}" ORDER BY rowid LIMIT 1)'
        scratch.change(f'{numbers} INSERT INTO "{table}" SELECT {values} FROM n, {one} t')
    for consumer in ("sleep", "facts"):  # else all of them would sleep now
        scratch.change(f"{numbers} INSERT INTO watermark SELECT 'more-' || i, '{consumer}', 9999, '2026', NULL FROM n")
    assert scratch.query("SELECT count(*) > ? FROM session", SESSIONS) == [(1,)]


def scans(plan, sql):
    """The growing tables that a plan reads as a whole."""
    names = {alias: table for table, alias in re.findall(r'(?:FROM|JOIN)\s+"?(\w+)"?\s+(?:AS\s+)?(\w+)', sql)}
    for *_, step in plan:
        if (found := SCAN.match(step)) and found[2] not in OPEN:
            table = names.get(found[1], found[1])
            if table in GROWING:
                yield f"{table}: {step}"


def work(scratch, statements, name):
    """Read a session that sleeps, and one message more; index, tick, search and ask for the status."""
    with in_process(scratch) as app:
        statements.clear()  # a start may read what it likes
        loop = Loop(app, lambda _: None)
        for records in ([*said(at=datetime.now(UTC)), filler(at=datetime.now(UTC))], [message("user", "We keep it.")]):
            scratch.append(records, name)
            read_all(app)
            loop._consider(loop._find_changed_keys())
            for counting in [*loop.counts.values()]:
                counting.result()
            loop._consider(loop._find_changed_keys())
            loop._reconsider_all()
            loop.importer.tend()
            loop._tend(1)
            while app.runner.run_next():
                pass
            for agent in app.settings.agents:
                app.recall.indexer.refresh(agent)
            for task in loop.tasks.values():
                task.result()
        loop._stop()
    for command in ("status", "status --check", "context"):
        assert scratch.run(*command.split()).returncode in {0, 1}
    assert scratch.json("search", "PostgreSQL")
    assert scratch.json("search", "tabs", "--tier", "session")


def test_no_hot_statement_reads_a_growing_table(tmp_path, statements):
    scratch = Scratch(tmp_path / "s", modes={"facts": "auto", "rollover": "auto"})
    work(scratch, statements, "one")
    grow(scratch)
    work(scratch, statements, "two")
    ran, bad = dict(statements), []
    for name in ("memoryd", "index"):
        connection = load_library().connect(str(scratch.state / f"{name}.db"))
        packing.register(connection)
        for (where, _), sql in ran.items():
            if where == name:
                plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
                bad += [f"{found}\n    {sql}" for found in scans(plan, sql)]
        connection.close()
    for part in (
        'INSERT INTO "turn"',
        "w.run_id =",
        "MATCH",
        "FROM vault_size",
        "FROM session s WHERE state = 'active'",
    ):
        assert any(part in sql for _, sql in ran), part
    assert not bad, "\n".join(bad)
