"""The ledger as rows: read back as written, audited in the same transaction, append-only."""

import contextlib
import json
import secrets
from datetime import timedelta

import pytest
from scratch import STARTED, Scratch, filler, in_process, said

from memoryd.daemon.once import run_once
from memoryd.database import audit, memories, schema, sqlite
from memoryd.ledger import audit as chain
from memoryd.ledger.erosion import Drop
from memoryd.ledger.memory import Ending, MemoryKind, hash_of, to_json
from memoryd.ledger.operation import Add, Delete, Merge, Protect, Update, apply

NOW = "2026-03-04T09:45:00.000Z"


@pytest.fixture
def engine(tmp_path):
    engine = schema.open_database(tmp_path / "memoryd.db", now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        for agent_id in ("a", "b"):
            connection.exec_driver_sql("INSERT INTO agent VALUES (?, '/w', 1, 0, ?)", (agent_id, NOW))
    yield engine
    engine.dispose()


def change(engine, operations, agent_id="a", actor="memoryd", run_id=None, known=()):
    with sqlite.begin_write(engine) as connection:
        taken = memories.TakenIds(connection)
        changes = apply(
            memories.by_ids(connection, agent_id, known),
            operations,
            agent_id=agent_id,
            now=NOW,
            new_hex=lambda: secrets.token_hex(4),
            taken=taken,
        )
        audit.record(connection, changes, chain.AuditStamp(NOW, agent_id, actor, run_id))
    return [one.memory_id for one in changes]


def problems(engine, agent_id="a"):
    with sqlite.begin_read(engine) as connection:
        return list(chain.check(audit.read_entries(connection, agent_id)))


def test_a_memory_is_read_back_as_it_was_written_and_as_it_is_audited(engine):
    (memory_id,) = change(
        engine, [Add(MemoryKind.FACT, "Ottilie prefers tabs", category="preference", confidence=0.5, tags=("a", "b"))]
    )
    change(engine, [Protect(memory_id), Update(memory_id, heading="H", position=7)], known=[memory_id])
    with sqlite.begin_read(engine) as connection:
        (memory,) = memories.read_live(connection, "a", MemoryKind.FACT)
        states = chain.replay(audit.read_entries(connection, "a"), audit.make_text_reader(connection))
        assert memories.by_text(connection, "a", MemoryKind.FACT, hash_of("ottilie  PREFERS tabs")) == [memory]
        assert memories.by_ids(connection, "b", [memory_id]) == {}
    assert (memory.constitutional, memory.tags, memory.position) == (True, ("a", "b"), 7)
    assert states == {memory_id: to_json(memory)}
    assert problems(engine) == []


def test_chains_of_two_agents_do_not_mix(engine):
    for number in range(3):
        change(engine, [Add(MemoryKind.FACT, f"fact {number}")], agent_id="ab"[number % 2])
    assert problems(engine, "a") == problems(engine, "b") == []
    with sqlite.begin_read(engine) as connection:
        assert [len(list(audit.read_entries(connection, one))) for one in "ab"] == [2, 1]


@pytest.mark.parametrize("sql", ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"])
def test_the_audit_is_append_only(engine, sql):
    change(engine, [Add(MemoryKind.FACT, "a fact")])
    with pytest.raises(Exception, match="append-only"), sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql(sql)


def test_a_chain_cannot_fork(engine):
    change(engine, [Add(MemoryKind.FACT, "a fact")])
    with pytest.raises(Exception, match="UNIQUE"), sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql(
            "INSERT INTO audit (at, agent_id, actor, operation, memory_id, prev_hash, hash)"
            " SELECT at, agent_id, actor, operation, memory_id, prev_hash, hash FROM audit"
        )


def test_a_transaction_that_fails_leaves_neither_row_nor_entry(engine):
    with contextlib.suppress(RuntimeError), sqlite.begin_write(engine) as connection:
        changes = apply({}, [Add(MemoryKind.FACT, "x")], agent_id="a", now=NOW, new_hex=lambda: secrets.token_hex(4))
        audit.record(connection, changes, chain.AuditStamp(NOW, "a", "memoryd"))
        raise RuntimeError
    with sqlite.begin_read(engine) as connection:
        assert memories.read_live(connection, "a", MemoryKind.FACT) == []
        assert list(audit.read_entries(connection, "a")) == []
        assert connection.exec_driver_sql("SELECT count(*) FROM content").scalar_one() == 0


def test_what_has_no_row_goes_on_from_its_last_state(engine):
    with sqlite.begin_write(engine) as connection:
        for seq in (3, 7):
            state = chain.dump_state(seq=seq)
            audit.note(connection, [("watermark", "watermark:s:sleep", state)], chain.AuditStamp(NOW, "a", "m"))
    assert problems(engine) == []
    with sqlite.begin_read(engine) as connection:
        first, second = audit.read_entries(connection, "a")
        assert (first.before, second.before) == (None, first.after)
        assert audit.make_text_reader(connection)(second.after) == chain.dump_state(seq=7)


def test_tombstones_are_what_was_forgotten_on_purpose_and_losses_what_a_person_did_not_do(engine):
    ids = change(engine, [Add(MemoryKind.CORE, f"text {number}") for number in range(4)])
    change(engine, [Delete(ids[0]), Delete(ids[1], Ending.ARCHIVED)], known=ids)
    change(engine, [Delete(ids[2])], known=ids, actor="human")
    change(engine, [Delete(ids[3], Ending.UNDONE)], known=ids)
    with sqlite.begin_read(engine) as connection:
        assert set(memories.read_tombstones(connection, "a")) == {hash_of("text 0"), hash_of("text 2")}
        lost = audit.list_drops(connection, "a", "2026-03-01", but="human")
        assert lost == [Drop(NOW, "text 0"), Drop(NOW, "text 1")]
        assert audit.list_drops(connection, "a", NOW, but="human") == []


def test_what_was_let_go_is_told_with_what_stood_for_it_then(engine):
    ids = change(engine, [Add(MemoryKind.CORE, f"text {number}") for number in range(5)])
    (law, *_) = change(engine, [Merge((ids[0], ids[1]), "law")], known=ids)
    change(engine, [Update(law, "less"), Update(ids[2], heading="H"), Protect(ids[2])], known=[law, ids[2]])
    change(engine, [Update(law, "least")], known=[law], actor="human")
    change(engine, [Delete(ids[3], Ending.MERGED, (law,)), Update(law, "last")], known=[ids[3], law])
    change(engine, [Delete(ids[4], Ending.SUPERSEDED, (law,))], known=[ids[4], law])
    change(engine, [Delete(law)], known=[law])
    with sqlite.begin_read(engine) as connection:
        assert audit.list_drops(connection, "a", "2026-03-01", but="human") == [
            Drop(NOW, "text 0", ("law",)),
            Drop(NOW, "text 1", ("law",)),
            Drop(NOW, "law", ("less",)),
            Drop(NOW, "text 3", ("least",)),
            Drop(NOW, "least", ("last",)),
            Drop(NOW, "text 4", ("last",), is_superseded=True),
            Drop(NOW, "last"),
        ]
        audit.erase_states(connection, "a", ids[0])  # as a redaction does
        assert [one.said for one in audit.list_drops(connection, "a", "2026-03-01", but="human")][:2] == [
            "text 0",
            "text 1",
        ]
        later = "2026-03-31T00:00:00.001Z"
        assert audit.list_drops(connection, "a", later, but="human") == []


def test_what_stands_in_the_file_is_what_lives_in_its_order(engine):
    ids = change(engine, [Add(MemoryKind.CORE, f"text {at}", heading="H", position=at) for at in (3, None, 1, 2)])
    change(engine, [Add(MemoryKind.FACT, "no bullet"), Delete(ids[3])], known=ids)
    with sqlite.begin_read(engine) as connection:
        live = memories.read_live(connection, "a", MemoryKind.CORE)
        standing = memories.read_places(connection, "a")
    assert [one.position for one in standing] == [1, 3, None]
    assert standing == [(one.id, one.content, one.heading, one.position) for one in live]


def test_an_intent_of_version_0_1_0_is_carried_through(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    scratch.append([*said(), filler()])
    now = STARTED + timedelta(minutes=45)

    class Stopped(BaseException):
        pass

    def stop(name):
        if name == "after:intent":
            raise Stopped

    with pytest.raises(Stopped), in_process(scratch, lambda: now, stop) as app:
        run_once(app)
    ((plan,),) = scratch.query("SELECT plan FROM intent")
    scratch.change("UPDATE intent SET plan = ?", older(plan))
    with in_process(scratch, lambda: now) as app:
        run_once(app)
        assert problems(app.engine, "demo") == []
    rows = scratch.query("SELECT content FROM memory WHERE sources <> '[]' ORDER BY content")
    assert rows
    assert all(f"- {content}\n" in scratch.core for (content,) in rows)


def older(plan):
    """The plan as version 0.1.0 wrote it: it kept no log, and told no session of its files."""
    intent = json.loads(plan)
    del intent["log"], intent["rows"]["told"]
    return json.dumps(intent)
