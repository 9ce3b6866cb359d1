"""Rolling back: exactly what was, or a refusal that names what is in the way."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import World, worlds

from memoryd.changing.time_machine import as_row
from memoryd.errors import NotFoundError, RefusedError
from memoryd.interfaces.ledger import _plan_text
from memoryd.ledger import audit, rollback
from memoryd.ledger.memory import Ending, MemoryKind
from memoryd.ledger.operation import Add, Delete, Merge, Protect, Restore, Unprotect, Update
from memoryd.ledger.rollback import Conflict, RollbackPlan


def known(memories):
    """Rows as they count before and after a rollback: one that was undone is none."""
    return {memory_id: memory for memory_id, memory in memories.items() if memory.ended_as is not Ending.UNDONE}


@given(worlds(), st.data())
def test_the_last_run_rolled_back_is_as_if_it_had_not_been(drawn, data):
    world, runs = drawn
    if not runs:
        return
    first = next(entry for entry in world.entries if entry.run_id == runs[-1])
    before = audit.replay([entry for entry in world.entries if entry.id < first.id], world.texts.get)
    plan = world.plan(runs[-1])
    assert not plan.conflicts
    world.carry_out(plan, "undo")
    after = {memory_id: world.state(memory_id) for memory_id in before}
    assert after == before
    fresh = set(world.memories) - set(before)
    assert all(world.memories[memory_id].ended_as is Ending.UNDONE for memory_id in fresh)
    assert list(audit.check(world.entries)) == []
    again = world.plan(runs[-1])
    assert again.already
    assert again.steps == ()


def test_what_came_to_nothing_since_is_not_in_the_way():
    """A memory protected, and not any more: before, behind and among what the run did to it."""
    world = World()
    one, other = "core_0000000a", "core_0000000b"
    world.do("first", Add(MemoryKind.CORE, "the well", id=one), Add(MemoryKind.CORE, "the garden", id=other))
    world.do("second", Update(one, content="the old well"), Protect(other))
    world.do("hand", Protect(one))
    world.do("hand", Unprotect(one), Unprotect(other))
    world.do("second", Update(one, content="a well"))
    world.do("hand", Protect(one))
    assert [step.why for step in world.plan("second").conflicts] == ["changed"]
    world.do("hand", Unprotect(one))
    plan = world.plan("second")
    assert not plan.conflicts
    before = {
        entry.memory_id: world.texts[entry.before]
        for entry in reversed(world.entries)
        if entry.run_id == "second" and entry.before is not None
    }
    world.carry_out(plan, "undo")
    assert {memory_id: world.state(memory_id) for memory_id in before} == before


@given(worlds(), st.data())
def test_any_run_is_rolled_back_exactly_or_names_what_is_in_the_way(drawn, data):
    world, runs = drawn
    if not runs:
        return
    run_id = data.draw(st.sampled_from(runs))
    own = [entry for entry in world.entries if entry.run_id == run_id]
    others = {entry.memory_id for entry in world.entries if entry.id > own[-1].id}
    before, untouched = {}, {}
    for entry in own:
        before.setdefault(entry.memory_id, entry.before)
    for memory_id in world.memories:
        if memory_id not in before:
            untouched[memory_id] = world.state(memory_id)
    plan = world.plan(run_id)
    if plan.conflicts:
        assert plan.steps == ()
        for conflict in plan.conflicts:
            assert conflict.memory_id in before
            assert conflict.memory_id in str(RefusedError("; ".join(one.memory_id for one in plan.conflicts)))
            assert all(at > own[0].id and run != run_id for at, run in conflict.later)
            assert conflict.memory_id in others or conflict.why == "needed"
        with pytest.raises(RefusedError, match=plan.conflicts[0].memory_id):
            plan.check()
        return
    world.carry_out(plan, "undo")
    for memory_id, digest in before.items():
        if digest is not None and memory_id not in plan.stayed:
            assert world.state(memory_id) == world.texts[digest]
        elif ":" not in memory_id:
            assert world.memories[memory_id].ended_as is Ending.UNDONE
    assert {memory_id: world.state(memory_id) for memory_id in untouched} == untouched
    assert all(memory_id.startswith("watermark:") and memory_id in others for memory_id in plan.stayed)
    assert world.plan(run_id).already


@given(worlds(), st.data())
def test_a_rollback_rolled_back_is_as_if_neither_had_been(drawn, data):
    world, runs = drawn
    if not runs:
        return
    run_id = data.draw(st.sampled_from(runs))
    plan = world.plan(run_id)
    if plan.conflicts:
        return
    before = world.snapshot()
    world.carry_out(plan, "undo")
    world.carry_out(world.plan("undo"), "redo")
    assert world.snapshot() == before
    assert not world.plan(run_id).already


@given(worlds(), st.data())
def test_everything_goes_back_to_an_entry(drawn, data):
    world, runs = drawn
    if not runs:
        return
    index = data.draw(st.integers(1, len(world.entries)))
    whole = rollback.last_of_change(world.entries, index)
    states = audit.replay(world.entries[:whole], world.texts.get)
    world.carry_out(world.plan_to(index), "undo")
    now = {memory_id: world.state(memory_id) for memory_id in states}
    assert now == states
    assert set(known(world.memories)) <= set(states)
    assert world.plan_to(index).steps == ()


def test_a_later_change_is_a_conflict_and_names_the_later_run():
    world = World()
    (a, b) = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a"), Add(MemoryKind.CORE, "b")))
    world.do("two", Update(a, content="aa"))
    plan = world.plan("one")
    assert [(one.memory_id, one.why, one.later) for one in plan.conflicts] == [(a, "changed", ((3, "two"),))]
    with pytest.raises(RefusedError, match=rf"{a} changed by two \(audit 3\)"):
        plan.check()
    world.carry_out(world.plan("two"), "undo two")
    world.carry_out(world.plan("one"), "undo one")
    assert known(world.memories) == {}
    assert {world.memories[memory_id].content for memory_id in (a, b)} == {"a", "b"}


def test_a_change_in_the_midst_of_a_run_is_a_conflict():
    world = World()
    (a,) = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a")))
    world.do("two", Update(a, content="b"))
    world.do("one", Update(a, content="c"))
    assert [one.later for one in world.plan("one").conflicts] == [((2, "two"),)]


def test_what_later_runs_did_to_others_stays():
    world = World()
    (a,) = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a")))
    (b,) = (change.memory_id for change in world.do("two", Add(MemoryKind.CORE, "b")))
    world.do("three", Protect(b))
    world.carry_out(world.plan("one"), "undo")
    assert set(world.live()) == {b}
    assert world.memories[b].constitutional
    assert world.memories[a].ended_as is Ending.UNDONE


def test_what_says_a_memory_that_a_later_run_ended_is_needed():
    world = World()
    (a,) = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a")))
    (b,) = (change.memory_id for change in world.do("two", Add(MemoryKind.CORE, "b")))
    world.do("three", Delete(a, Ending.SUPERSEDED, (b,)))
    assert [(one.memory_id, one.why, one.later) for one in world.plan("two").conflicts] == [
        (b, "needed", ((3, "three"),))
    ]
    world.do("four", Restore(a))
    assert world.plan("two").conflicts == ()


def test_flags_dates_and_tombstones_come_back():
    world = World()
    a, b = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a"), Add(MemoryKind.CORE, "b")))
    world.do("two", Protect(b), Delete(a))
    before = dict(world.memories)
    world.do("three", Restore(a), Merge((a, b), "ab"))
    world.carry_out(world.plan("three"), "undo")
    assert known(world.memories) == before
    assert before[a].ended_as is Ending.DELETED


def test_a_watermark_moved_on_stays_and_one_that_was_not_goes_back():
    world = World()
    mark = audit.name_watermark("sess_1", "sleep")
    world.move("one", mark, audit.dump_state(seq=3))
    world.move("two", mark, audit.dump_state(seq=9))
    plan = world.plan("one")
    assert plan.stayed == (mark,)
    world.carry_out(plan, "undo")
    assert world.other[mark] == audit.dump_state(seq=9)
    world.carry_out(world.plan("two"), "undo two")
    assert world.other[mark] == audit.dump_state(seq=3)
    world.move("three", audit.name_watermark("sess_2", "sleep"), audit.dump_state(seq=1))
    world.carry_out(world.plan("three"), "undo three")
    assert world.other[audit.name_watermark("sess_2", "sleep")] is None


def test_a_rollback_is_not_reverted_while_a_later_run_repeats_its_messages():
    world = World()
    mark = audit.name_watermark("sess_1", "sleep")
    world.do("one", Add(MemoryKind.CORE, "a"))
    world.move("one", mark, audit.dump_state(seq=9))
    world.carry_out(world.plan("one"), "undo")
    assert world.other[mark] is None
    for seq in (3, 9):
        world.do(f"again {seq}", Add(MemoryKind.CORE, f"a {seq}"))
        world.move(f"again {seq}", mark, audit.dump_state(seq=seq))
        plan = world.plan("undo")
        assert [(one.memory_id, one.why, one.later[-1][1]) for one in plan.conflicts] == [
            (mark, "was repeated", f"again {seq}")
        ]
        assert plan.steps == ()
        with pytest.raises(RefusedError, match=r"the processing of session sess_1 \(sleep\) was repeated by again 3"):
            plan.check()
    for seq in (9, 3):
        world.carry_out(world.plan(f"again {seq}"), f"undo {seq}")
    world.carry_out(world.plan("undo"), "redo")
    assert [memory.content for memory in world.live().values()] == ["a"]
    assert world.other[mark] == audit.dump_state(seq=9)
    world.move("next", mark, audit.dump_state(seq=12))
    assert world.plan("redo").conflicts == (), "a run of newer messages repeats nothing"
    assert mark in world.plan("redo").stayed


def test_an_erased_state_does_not_come_back():
    world = World()
    (a,) = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a")))
    world.do("two", Update(a, content="b"))
    del world.texts[world.entries[0].after]
    assert [(one.memory_id, one.why) for one in world.plan("two").conflicts] == [(a, "erased")]
    world.do("forget", Delete(a, Ending.ERASED))
    assert (world.plan("two").stayed, world.plan("two").conflicts) == ((a,), ())


def test_a_run_rolled_back_is_rolled_back_even_when_others_went_on():
    world = World()
    (a,) = (change.memory_id for change in world.do("one", Add(MemoryKind.CORE, "a")))
    world.do("two", Update(a, content="b"))
    world.carry_out(world.plan("two"), "undo")
    world.do("three", Update(a, content="c"))
    plan = world.plan("two")
    assert plan.already
    assert plan.steps == ()
    assert world.memories[a] == replace(world.memories[a], content="c")


def test_what_is_not_there_cannot_be_rolled_back():
    world = World()
    world.do("one", Add(MemoryKind.CORE, "a"))
    with pytest.raises(RefusedError, match="nope"):
        world.plan("nope")
    with pytest.raises(NotFoundError, match="99"):
        world.plan_to(99)


def test_what_is_in_the_way_is_named_with_and_without_a_run():
    later = ((30, None), (36, "run-1"))
    plan = RollbackPlan(conflicts=(Conflict("core_00000001", "changed", later),), back=28)
    way = "core_00000001 changed by an edit (audit 30) and by run-1 (audit 36)"
    with pytest.raises(RefusedError, match=re.escape(way)) as caught:
        plan.check()
    assert "rollback --to 28 (" in caught.value.hint
    told = _plan_text(as_row(replace(plan, stayed=("file:README.md",))), {}, is_tried=True).splitlines()
    assert told[0] == "README.md was changed since: nothing would go back in it"
    assert told[1:] == ["nothing would change, because later changes are in conflict:", way]


def test_the_remedy_of_a_refused_rollback_goes_back_behind_the_whole_edit():
    """The edit changed another memory first, so the entry before that of the conflict is one of the same edit."""
    world, one, other = World(), "core_0000000a", "core_0000000b"
    world.do("run_1", Add(MemoryKind.CORE, "tea", id=one))
    world.do("run_2", Add(MemoryKind.CORE, "coffee", id=other))
    world.do(None, Update(one, content="green tea"), Update(other, content="no coffee"))
    world.move(None, audit.FILE + "MEMORY.md", audit.dump_state(path="MEMORY.md", sha256="1"))
    with pytest.raises(RefusedError, match=rf"{other} changed by an edit \(audit 4\)") as refused:
        world.plan("run_2").check()
    assert refused.value.hint == "first revert later changes: memoryd rollback --to 2 (check it with --dry-run first)"
    world.carry_out(world.plan_to(2), "back")
    assert [memory.content for memory in world.live().values()] == ["tea", "coffee"]
    assert world.plan("run_2").conflicts == ()


def test_back_to_an_entry_is_back_to_what_was_written_at_once_with_it():
    world = World()
    world.do("run_1", Add(MemoryKind.CORE, "tea"), Add(MemoryKind.CORE, "coffee"))
    world.move("run_1", audit.FILE + "MEMORY.md", audit.dump_state(path="MEMORY.md", sha256="1"))
    world.do(None, Add(MemoryKind.CORE, "by hand"))
    world.do(None, Add(MemoryKind.CORE, "by hand, later"))
    assert [rollback.last_of_change(world.entries, number) for number in range(1, 6)] == [3, 3, 3, 4, 5]
    undone = [step.memory_id for step in world.plan_to(1).steps]
    assert undone == [step.memory_id for step in world.plan_to(3).steps]
    assert undone == [entry.memory_id for entry in world.entries[:2:-1]]


def test_a_section_of_the_profile_that_a_later_run_rewrote_refuses_by_name_and_goes_back_by_entry():
    world, name = World(), audit.PROFILE + "work"
    world.move("run_0", name, audit.dump_state(text="nurse"))
    for number, text in enumerate(("nurse in Leeds", "nurse in York"), 1):
        world.move(f"run_{number}", name, audit.dump_state(text=text))
    with pytest.raises(RefusedError, match=rf"{name} changed by run_2 \(audit 3\)") as refused:
        world.plan("run_1").check()
    assert refused.value.hint == "first revert later changes: memoryd rollback run_2"
    world.carry_out(world.plan_to(1), "back")
    assert world.other[name] == audit.dump_state(text="nurse")
