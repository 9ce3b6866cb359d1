"""Memories and operations: what each does, that a list is done as a whole, and that nothing ever goes away."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import AGENT, World, core_memory, operations, source, time_of, worlds

from memoryd.errors import StateError
from memoryd.ledger.memory import (
    Ending,
    MemoryKind,
    draw_id,
    dump_canonical,
    from_json,
    hash_of,
    source_of,
    sources_from_json,
    sources_to_json,
    to_json,
)
from memoryd.ledger.operation import (
    Add,
    Delete,
    Merge,
    OperationError,
    Protect,
    Restore,
    Unprotect,
    Update,
    apply,
    ids_of,
)


def world_of(*contents, **values):
    world = World()
    world.memories = {
        memory.id: memory for number, text in enumerate(contents) for memory in [core_memory(number, text, **values)]
    }
    return world


A, B, C = (f"core_{number:08x}" for number in range(3))


def test_an_id_that_is_taken_is_drawn_again():
    drawn = iter(["00000000", "00000001", "00000002"])
    assert draw_id(MemoryKind.JOURNAL, lambda: next(drawn), {"jrnl_00000000", "jrnl_00000001"}) == "jrnl_00000002"
    with pytest.raises(StateError, match="no free id"):
        draw_id(MemoryKind.FACT, lambda: "00000000", {"fact_00000000"})


@given(worlds())
def test_the_state_of_a_memory_comes_back_from_its_json(drawn):
    world, _ = drawn
    for memory in world.memories.values():
        text = to_json(memory)
        assert from_json(text) == memory
        assert to_json(from_json(text)) == text
        assert ": " not in text.split('"content"')[0]


def test_the_json_of_a_memory_is_canonical():
    assert dump_canonical({"b": "ü", "a": [1, None]}) == '{"a":[1,null],"b":"ü"}'
    text = to_json(core_memory(1, "tea", sources=(source(1),)))
    assert from_json(text).sources == (source(1),)
    for broken in (
        "",
        "[]",
        "{}",
        '{"kind":"core"}',
        text.replace('"core"', '"other"'),
        text.replace("record_id", "x"),
    ):
        with pytest.raises(StateError):
            from_json(broken)


def test_sources_are_read_as_they_were_written_before_the_ledger():
    old = (
        '[{"at": "2026-01-01T00:00:00Z", "first_byte": 0, "last_byte": 9, "origin": "user", "part": 0,'
        ' "record_id": "r1", "seq": 3, "session": "sess_1", "sha256": "ab", "transcript": "/a.jsonl"}]'
    )
    (found,) = sources_from_json(old)
    assert (found.record_id, found.seq, found.origin, found.transcript) == ("r1", 3, "user", "/a.jsonl")
    assert sources_from_json(sources_to_json([found])) == (found,)
    assert source_of(asdict(found) | {"later": 1}) == found
    with pytest.raises(StateError):
        sources_from_json('[{"seq": 1}]')


def test_an_addition_takes_its_time_from_what_it_cites():
    world = World()
    (change,) = world.do("r", Add(MemoryKind.FACT, "tea", cites=(source(1), source(2), source(1)), tags=("a", "a")))
    memory = change.after
    assert memory.id.startswith("fact_")
    assert memory.sources == (source(1), source(2))
    assert memory.origin_at == time_of(2)
    assert memory.tags == ("a",)
    assert memory.content_hash == hash_of(" TEA")
    assert len(memory.salt) == 32
    assert change.before is None


def test_a_source_of_ids_is_asked_again_for_an_id_that_was_given_before():
    hexes = iter(["00000000"] * 2 + ["00000001"] + ["5a17f00d"] * 4)
    memories = {A: core_memory(0, "x")}
    (change,) = apply(
        memories,
        [Add(MemoryKind.CORE, "y")],
        agent_id=AGENT,
        now="now",
        new_hex=lambda: next(hexes),
        taken={"core_00000000"},
    )
    assert change.memory_id == "core_00000001"


def test_an_update_changes_only_what_it_names():
    world = world_of("tea", category="preference", sources=(source(1),))
    (change,) = world.do("r", Update(A, content="green tea", cites=(source(1), source(2))))
    before = change.before
    assert change.after == replace(
        before,
        content="green tea",
        content_hash=hash_of("green tea"),
        sources=(source(1), source(2)),
        updated_at=change.after.updated_at,
    )
    assert change.after.updated_at > before.updated_at
    assert world.do("r", Update(A, content="green tea", category="preference")) == []


def test_a_merge_keeps_the_earliest_origin_and_all_sources():
    world = World()
    world.memories = {
        A: core_memory(0, "tea", origin_at=time_of(9), sources=(source(1),), tags=("a",), importance=0.2),
        B: core_memory(1, "green", origin_at=time_of(3), sources=(source(2),), tags=("b",), derived_from=(C,)),
    }
    new, one, two = world.do("r", Merge((A, B, A), "green tea", cites=(source(3),)))
    assert new.after.origin_at == time_of(3)
    assert new.after.sources == (source(1), source(2), source(3))
    assert new.after.derived_from == (A, B, C)
    assert (new.after.tags, new.after.importance, new.after.heading) == (("a", "b"), 0.2, "")
    for change, memory_id in ((one, A), (two, B)):
        assert change.memory_id == memory_id
        assert (change.after.ended_as, change.after.successors) == (Ending.MERGED, (new.memory_id,))
        assert change.after.content == change.before.content
    assert {change.operation for change in (new, one, two)} == {"merge"}


def test_what_ends_keeps_its_text_and_comes_back_as_it_was():
    world = world_of("tea")
    before = world.memories[A]
    (ended,) = world.do("r", Delete(A))
    assert not ended.after.is_live
    assert ended.after.ended_as is Ending.DELETED
    assert ended.after.content == "tea"
    (back,) = world.do("r", Restore(A))
    assert back.after == replace(before, updated_at=back.after.updated_at)


def test_what_is_erased_has_no_text_left_and_stays_gone():
    world = world_of("tea", tags=("t",), sources=(source(1),), heading="H")
    world.do("r", Delete(A))
    salt = world.memories[A].salt
    (change,) = world.do("r", Delete(A, Ending.ERASED))
    left = change.after
    assert (left.content, left.tags, left.sources, left.heading) == ("", (), (), None)
    assert left.content_hash == hash_of("tea")
    assert left.salt != salt
    assert world.do("r", Delete(A, Ending.ERASED)) == []
    with pytest.raises(OperationError, match="erased"):
        world.do("r", Restore(A))


def test_protection_is_given_and_taken():
    world = world_of("tea")
    assert world.do("r", Protect(A))[0].after.constitutional
    assert world.do("r", Protect(A)) == []
    assert not world.do("r", Unprotect(A))[0].after.constitutional


@pytest.mark.parametrize(
    ("operation", "ids"),
    [
        (Update("core_ffffffff", content="x"), ("core_ffffffff",)),
        (Update(C, content="x"), (C,)),
        (Update(A, content=" \n"), (A,)),
        (Merge((A, A), "x"), (A,)),
        (Merge((A, C), "x"), (C,)),
        (Merge((A, "fact_00000009"), "x"), (A, "fact_00000009")),
        (Merge((A, B), "x", id="fact_00000005"), ("fact_00000005",)),
        (Merge((A, B), "x", id=C), (C,)),
        (Delete(C), (C,)),
        (Delete("core_00000008"), ("core_00000008",)),
        (Delete(A, Ending.SUPERSEDED), (A,)),
        (Delete(A, Ending.MERGED), (A,)),
        (Delete(A, Ending.SUPERSEDED, (A,)), (A,)),
        (Delete(A, Ending.SUPERSEDED, (C,)), (C,)),
        (Delete(A, Ending.ARCHIVED, ("core_ffffffff",)), ("core_ffffffff",)),
        (Protect(C), (C,)),
        (Restore(A), (A,)),
        (Add(MemoryKind.CORE, ""), ()),
        (Add(MemoryKind.CORE, "x", id=A), (A,)),
    ],
)
def test_what_cannot_be_done_names_its_ids_and_nothing_of_its_list_is_done(operation, ids):
    world = world_of("tea", "coffee", "milk")
    world.memories[C] = replace(world.memories[C], deleted_at="then", ended_as=Ending.DELETED)
    world.memories["fact_00000009"] = core_memory(9, "f", id="fact_00000009", kind=MemoryKind.FACT)
    world.memories["core_00000008"] = core_memory(8, "theirs", agent_id="other")
    before = dict(world.memories)
    with pytest.raises(OperationError) as caught:
        world.do("r", Update(B, content="changed"), operation)
    assert caught.value.memory_ids == ids
    assert world.memories == before
    assert world.entries == []


def test_a_successor_may_itself_have_been_succeeded_but_not_in_a_ring():
    world = world_of("tea", "green", "milk")
    world.do("r", Delete(A, Ending.SUPERSEDED, (B,)), Delete(B, Ending.SUPERSEDED, (C,)))
    world = world_of("tea", "green", "milk")
    with pytest.raises(OperationError, match="successor"):
        world.do("r", Delete(A, Ending.SUPERSEDED, (B,)), Delete(B, Ending.SUPERSEDED, (A,)))


@given(worlds(), st.data())
def test_no_operation_destroys_a_memory(drawn, data):
    world, _ = drawn
    before = dict(world.memories)
    drawn_operations = data.draw(operations(world.memories))
    try:
        changes = world.do("run", *drawn_operations)
    except OperationError:
        assert world.memories == before
        return
    assert set(before) <= set(world.memories)
    for memory_id, old in before.items():
        new = world.memories[memory_id]
        assert (new.id, new.kind, new.created_at, new.agent_id) == (old.id, old.kind, old.created_at, old.agent_id)
        assert new.content == old.content or any(
            memory_id in ids_of(one) and (isinstance(one, Update) or getattr(one, "ended_as", None) is Ending.ERASED)
            for one in drawn_operations
        )
        assert new.is_live == (new.ended_as is None)
        assert new.content_hash == hash_of(new.content) or new.ended_as is Ending.ERASED
    states = dict(before)
    for change in changes:
        assert states.get(change.memory_id) == change.before
        assert change.after != change.before
        states[change.memory_id] = change.after
    assert states == world.memories


def test_a_note_goes_with_the_words_it_is_of():
    world = world_of("uses tabs", "likes tea")
    (added,) = world.do("r", Add(MemoryKind.CORE, "yes", note="asked: use tabs?"))
    assert (added.after.note, added.after.content) == ("asked: use tabs?", "yes")
    assert from_json(to_json(added.after)) == added.after
    (same,) = world.do("r", Update(added.memory_id, importance=0.9))
    assert same.after.note == "asked: use tabs?"
    (noted,) = world.do("r", Update(added.memory_id, note="of the shop"))
    assert (noted.after.note, noted.after.content) == ("of the shop", "yes")
    (other,) = world.do("r", Update(added.memory_id, content="no"))
    assert other.after.note is None
    (both,) = world.do("r", Update(added.memory_id, content="yes and no", note="of the yard"))
    assert both.after.note == "of the yard"
    merged, *_ = world.do("r", Merge((A, added.memory_id), "uses tabs, yes", note="of both"))
    assert merged.after.note == "of both"
    (gone,) = world.do("r", Delete(merged.memory_id, Ending.ERASED))
    assert gone.after.note is None


def test_what_a_merge_is_known_to_lose_is_told_by_the_memory_that_ends_until_it_is_back():
    world = world_of("uses tabs", "likes tea", "likes figs")
    world.do("r", Merge((A, B, C), "uses tabs, likes tea and figs", lost={A: 3, B: 0}))
    assert [world.memories[one].lost for one in (A, B, C)] == [3, 0, None]
    assert from_json(to_json(world.memories[B])).lost == 0
    (back,) = world.do("r", Restore(A))
    assert back.after.lost is None
