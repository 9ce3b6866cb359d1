"""The audit: every tampering is named, and what it leads to is the ledger as it is."""

from __future__ import annotations

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st
from ledger_world import World, worlds

from memoryd.ledger import audit
from memoryd.ledger.audit import AuditEvent, ErasedState
from memoryd.ledger.memory import Ending, MemoryKind, from_json, to_json
from memoryd.ledger.operation import Add, Delete

EVENT = AuditEvent("2026-01-01T00:00:00Z", "demo", "dream", "run_1", "add", "core_00000001", None, "ab")


def test_the_hash_of_an_entry_is_that_of_the_documented_list():
    (entry,) = audit.link_events([EVENT], last_hash="prev", first_id=7)
    listed = json.dumps(["prev", *EVENT], separators=(",", ":"), ensure_ascii=False)
    assert entry.hash == hashlib.sha256(listed.encode()).hexdigest()
    assert (entry.id, entry.prev_hash) == (7, "prev")
    (first,) = audit.link_events([EVENT], last_hash=None, first_id=1)
    assert first.prev_hash == audit.make_genesis("demo") != audit.make_genesis("other")


@given(worlds())
def test_the_replayed_audit_is_the_ledger(drawn):
    world, _ = drawn
    assert list(audit.check(world.entries)) == []
    replayed = audit.replay(world.entries, world.texts.get)
    assert {
        memory_id: from_json(text) for memory_id, text in replayed.items() if ":" not in memory_id
    } == world.memories
    assert {key: text for key, text in replayed.items() if ":" in key} == world.other


@given(worlds(), st.data())
def test_tampering_with_one_entry_is_named(drawn, data):
    world, runs = drawn
    if not runs:
        return
    index = data.draw(st.integers(0, len(world.entries) - 1))
    name = data.draw(st.sampled_from(audit.AuditEntry._fields[1:]))
    entry = world.entries[index]
    tampered = list(world.entries)
    tampered[index] = entry._replace(**{name: (getattr(entry, name) or "") + "0"})
    problems = list(audit.check(tampered))
    assert problems[0].entry_id == entry.id
    if name not in {"agent_id", "prev_hash", "hash"}:
        assert {problem.entry_id for problem in problems if "hash" in problem.what} == {entry.id}


@given(worlds(), st.data())
def test_an_entry_dropped_put_in_or_moved_is_named(drawn, data):
    world, _ = drawn
    entries = world.entries
    if len(entries) < 2:
        return
    index = data.draw(st.integers(0, len(entries) - 2))
    dropped = [*entries[:index], *entries[index + 1 :]]
    assert next(audit.check(dropped)).entry_id == entries[index + 1].id
    twice = [*entries[: index + 1], *entries[index:]]
    assert next(audit.check(twice)).entry_id == entries[index].id
    moved = [*entries[:index], entries[index + 1], entries[index], *entries[index + 2 :]]
    assert next(audit.check(moved)).entry_id == entries[index + 1].id


def test_a_forged_entry_with_a_right_hash_is_given_away_by_the_next():
    entries = list(audit.link_events([EVENT, EVENT._replace(before="ab", after="cd")], last_hash=None, first_id=1))
    forged = list(audit.link_events([EVENT._replace(actor="human")], last_hash=None, first_id=1))
    (problem,) = audit.check([*forged, entries[1]])
    assert (problem.entry_id, problem.memory_id) == (2, EVENT.memory_id)


def test_a_state_that_is_not_the_one_it_was_left_in_is_named():
    other = EVENT._replace(memory_id="core_00000002")
    entries = list(audit.link_events([EVENT, other, EVENT._replace(before="xx")], last_hash=None, first_id=1))
    (problem,) = audit.check(entries)
    assert (problem.entry_id, problem.what) == (3, "its state before is not the last recorded state")


def test_chains_of_several_agents_do_not_mix():
    mine = list(audit.link_events([EVENT, EVENT._replace(before="ab")], last_hash=None, first_id=1))
    theirs = list(audit.link_events([EVENT._replace(agent_id="other")] * 1, last_hash=None, first_id=3))
    assert list(audit.check([mine[0], theirs[0], mine[1]])) == []


def test_an_erased_text_leaves_the_chain_whole_and_is_told_as_erased():
    world = World()
    (change,) = world.do("r", Add(MemoryKind.CORE, "secret"))
    world.do("forget", Delete(change.memory_id, Ending.ERASED))
    erased = world.entries[0].after
    assert "secret" in world.texts.pop(erased)
    assert list(audit.check(world.entries)) == []
    assert audit.replay(world.entries, world.texts.get) == world.memories | {
        change.memory_id: to_json(world.memories[change.memory_id])
    }
    assert audit.replay(world.entries[:1], world.texts.get) == {change.memory_id: ErasedState.ERASED}


def test_states_of_no_memory_come_back():
    assert audit.values_of(audit.dump_state(seq=3, run=None)) == {"seq": 3, "run": None}
    names = audit.name_watermark("sess_1", "sleep"), audit.FILE + "MEMORY.md", audit.RUN + "run_1"
    assert names == ("watermark:sess_1:sleep", "file:MEMORY.md", "run:run_1")
