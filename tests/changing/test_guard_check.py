"""The gate on real rows: what was forgotten, what was lost within 30 days, and what a receipt tells of a refusal."""

import secrets
from datetime import timedelta
from pathlib import Path

import pytest
from scratch import STARTED, Scratch, filler, in_process, message, said

from memoryd.changing import guard_check
from memoryd.changing.writer import Writer
from memoryd.clock import text_of
from memoryd.daemon.once import run_once
from memoryd.database import audit, memories, schema, sqlite
from memoryd.ledger import guards
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.guards import Caller, GuardLimits
from memoryd.ledger.memory import Ending, MemoryKind, Source
from memoryd.ledger.operation import Add, Delete, Protect, apply
from memoryd.running.core_watch import CoreWatch

NOW = STARTED
TEXT = "Ottilie likes her tea with honey"


@pytest.fixture
def engine(tmp_path):
    engine = schema.open_database(tmp_path / "memoryd.db", now=text_of(NOW)).engine
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES ('a', '/w', 1, 0, 'now')")
    yield engine
    engine.dispose()


def new_hex():
    return secrets.token_hex(4)


def change(engine, *operations, days=0, actor="memoryd"):
    at = text_of(NOW - timedelta(days=days))
    with sqlite.begin_write(engine) as connection:
        known = {one.id: one for one in memories.read_live(connection, "a", MemoryKind.CORE)}
        changes = apply(known, operations, agent_id="a", now=at, new_hex=new_hex)
        audit.record(connection, changes, AuditStamp(at, "a", actor))
    return [one.memory_id for one in changes]


def judged(engine, *operations, caller=Caller.EXTRACTION, limits=None):
    writer = Writer(engine, Path(), lambda: text_of(NOW), new_hex, limits=limits or GuardLimits())
    with sqlite.begin_read(engine) as connection:
        return guard_check.judge(connection, writer, "a", operations, caller)


def record(origin, minutes):
    at = text_of(NOW + timedelta(minutes=minutes))
    return Source("s", "/t.jsonl", "r", 0, 0, 1, "0" * 64, origin, at)


def test_what_was_forgotten_comes_back_only_by_a_persons_younger_word(engine):
    change(
        engine, Add(MemoryKind.CORE, "Something else entirely, and long enough to be most of the core of this agent")
    )
    (memory_id,) = change(engine, Add(MemoryKind.CORE, TEXT))
    change(engine, Delete(memory_id), actor="human")
    for cite, passes in ((record("user", -1), False), (record("assistant", 1), False), (record("user", 1), True)):
        passed = judged(engine, Add(MemoryKind.CORE, TEXT.upper(), cites=(cite,)))
        assert (len(passed.changes), len(passed.refusals)) == ((1, 0) if passes else (0, 1)), cite
        assert all(refusal.guard == "tombstone" for refusal in passed.refusals)


def test_what_ended_otherwise_is_no_tombstone(engine):
    (memory_id, kept) = change(engine, Add(MemoryKind.CORE, TEXT), Add(MemoryKind.CORE, "another"))
    change(engine, Delete(memory_id, Ending.SUPERSEDED, (kept,)))
    assert judged(engine, Add(MemoryKind.CORE, TEXT)).refusals == ()


@pytest.mark.parametrize(
    ("days", "actor", "passes"), [(29, "memoryd", False), (31, "memoryd", True), (29, "human", True)]
)
def test_erosion_counts_what_runs_let_go_within_30_days(engine, days, actor, passes):
    ids = change(engine, *(Add(MemoryKind.CORE, f"text number {number:04} of ten") for number in range(10)), days=60)
    change(engine, *(Delete(one, Ending.ARCHIVED) for one in ids[:2]), days=days, actor=actor)
    passed = judged(
        engine, Delete(ids[2], Ending.ARCHIVED), caller=Caller.REWRITE, limits=GuardLimits(erosion_percent=25)
    )
    assert (passed.refusals == ()) is passes
    assert [refusal.guard for refusal in passed.refusals] == ([] if passes else ["erosion"])


def test_a_refusal_is_told_by_guard_ids_and_numbers_without_a_text(engine):
    (memory_id,) = change(engine, Add(MemoryKind.CORE, TEXT))
    change(engine, Protect(memory_id))
    (row,) = guards.describe_refusals(judged(engine, Delete(memory_id)).refusals)
    assert (row["guard"], row["memories"]) == ("constitutional", [memory_id])
    assert "tea" not in str(row)


def test_a_forgotten_bullet_stays_out_and_the_receipt_says_why(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    minutes = [45]
    with in_process(scratch, lambda: STARTED + timedelta(minutes=minutes[0])) as app:
        scratch.append([*said(), filler()])
        run_once(app)
        forgotten = next(line for line in scratch.core.splitlines() if "tabs" in line)
        path = scratch.workspace / "MEMORY.md"
        path.write_text(scratch.core.replace(forgotten + "\n", ""), encoding="utf-8")
        CoreWatch(app.runner).take(app.settings.agents[0])
        # A transcript that is older than the forgetting says it again.
        old = STARTED - timedelta(days=1)
        records = [message(one["role"], one["content"], at=old) for one in said()]
        scratch.append([*records, message("assistant", filler()["content"], at=old)], "two")
        minutes[0] += 300
        scratch.write_config(ingest={"history": "flush"})
    with in_process(scratch, lambda: STARTED + timedelta(minutes=minutes[0])) as app:
        run_once(app)
    assert forgotten not in scratch.core
    told = scratch.query("SELECT json_extract(receipt, '$.refused') FROM job_run WHERE receipt LIKE '%tombstone%'")
    assert len(told) == 1
    assert "tabs" not in told[0][0]
