"""Importing an edited file: which bullet is which memory, and what of the file is put back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import AGENT, core_memory

from memoryd.ledger.matching import match
from memoryd.ledger.memory import Ending
from memoryd.ledger.operation import Add, Delete, Update, apply
from memoryd.ledger.projection import STEP, assign_places
from memoryd.text.conflicts import is_conflicted
from memoryd.tiers import core

A, B, C, D = (f"core_{number:08x}" for number in range(4))
TEXTS = [
    "The user prefers green tea over coffee in the morning",
    "Deploys happen on Fridays through the staging cluster",
    "The parser lives in src/reader.py and is tested byte by byte",
    "Anna reviews every change to the database schema",
]


def old_of(*texts, headings=None, **values):
    found = []
    for number, text in enumerate(texts):
        memory = core_memory(number, text, position=(number + 1) * STEP, heading=(headings or {}).get(number, ""))
        found.append(replace(memory, **values.get(memory.id, {})))
    return found


def imported(old, data, first_id=0xA0000000):
    data = data if isinstance(data, bytes) else "".join(f"- {line}\n" for line in data).encode()
    hexes = iter(range(first_id, 0xFFFFFFFF))
    return match(old, core.parse(data).bullets, lambda: f"core_{next(hexes):08x}")


def after(old, found):
    """The live memories in file order, once the operations are done."""
    rows = {memory.id: memory for memory in old}
    changes = apply(rows, found.operations, agent_id=AGENT, now="2026-05-05T00:00:00Z", new_hex=lambda: "5a17f00d")
    rows |= {change.memory_id: change.after for change in changes}
    return sorted((memory for memory in rows.values() if memory.is_live), key=lambda memory: memory.position), rows


def test_an_unchanged_file_is_no_operation():
    assert imported(old_of(*TEXTS), TEXTS).operations == ()


def test_layout_is_no_change_and_letters_are():
    old = old_of("# tea", "Uses uv")
    assert imported(old, b"* \\# tea\n\n+  Uses\n   uv\n").operations == ()
    assert imported(old, b"- \\# tea\n- uses uv\n").operations == (Update(B, content="uses uv"),)


def test_a_reworded_bullet_keeps_its_id():
    new = [TEXTS[0], "Deploys happen on Mondays through the staging cluster", *TEXTS[2:]]
    assert imported(old_of(*TEXTS), new).operations == (Update(B, content=new[1]),)


def test_a_bullet_in_other_words_in_its_old_place_keeps_its_id():
    new = [TEXTS[0], "On Fridays we ship by staging", *TEXTS[2:]]
    assert imported(old_of(*TEXTS), new).operations == (Update(B, content=new[1]),)
    far = [new[1], *TEXTS[2:], TEXTS[0]]
    assert Delete(B) in imported(old_of(*TEXTS), far).operations


def test_a_moved_bullet_keeps_its_id_and_no_other_changes():
    (update,) = imported(old_of(*TEXTS), [TEXTS[3], *TEXTS[:3]]).operations
    assert update == Update(D, position=0)
    data = f"- {TEXTS[0]}\n\n## Later\n\n- {TEXTS[1]}\n".encode()
    assert imported(old_of(*TEXTS[:2]), data).operations == (Update(B, heading="Later"),)


def test_new_and_missing_bullets():
    new = [TEXTS[0], "Something of its own entirely", *TEXTS[2:]]
    found = imported(old_of(TEXTS[0], *TEXTS[2:]), new)
    assert [(type(one), one.content, one.position) for one in found.operations] == [(Add, new[1], STEP + STEP // 4)]
    assert imported(old_of(*TEXTS), TEXTS[:3]).operations == (Delete(D),)
    assert imported(old_of(*TEXTS), b"").operations == tuple(Delete(one) for one in (A, B, C, D))


def test_equal_bullets_are_matched_under_their_heading_and_in_order():
    old = old_of("same", "same", "same", headings={0: "", 1: "H", 2: "H"})
    data = b"## H\n- same\n- same\n"
    assert imported(old, data).operations == (Delete(A),)
    assert imported(old, b"- same\n\n## H\n- same\n").operations == (Delete(C),)


def test_the_parts_of_a_split_bullet_derive_from_it():
    whole = "The user prefers green tea in the morning and the deploys happen on Fridays"
    old = old_of(whole, TEXTS[2])
    new = ["The user prefers green tea in the morning", "the deploys happen on Fridays", TEXTS[2]]
    rows, _ = after(old, imported(old, new))
    assert [(row.id == A, row.derived_from, row.content) for row in rows] == [
        (True, (), new[0]),
        (False, (A,), new[1]),
        (False, (), TEXTS[2]),
    ]


def test_what_joined_bullets_were_is_told():
    old = old_of("The user prefers green tea", TEXTS[2], "Deploys happen on Fridays")
    new = ["The user prefers green tea; deploys happen on Fridays", TEXTS[2]]
    rows, everything = after(old, imported(old, new))
    assert [(row.id, row.derived_from, row.content) for row in rows] == [(A, (C,), new[0]), (B, (), TEXTS[2])]
    assert (everything[C].ended_as, everything[C].successors) == (Ending.MERGED, (A,))


def test_parts_are_found_where_words_are_not_spaced():
    old = old_of("利用者は緑茶を好む。配備は金曜日に行う。")
    rows, _ = after(old, imported(old, ["利用者は緑茶を好む。", "配備は金曜日に行う。"]))
    assert [row.derived_from for row in rows] == [(), (A,)]


PROTECTED = {A: {"constitutional": True}}


def put_back(old, data):
    found = imported(old, data)
    return found, core.edit(core.parse(data), [one.edit for one in found.put_back])


def test_a_protected_bullet_that_was_changed_is_put_back():
    old = old_of(*TEXTS[:2], **PROTECTED)
    data = f"- The user prefers green tea over nothing in the morning\n  - why\n- {TEXTS[1]}\n".encode()
    found, new = put_back(old, data)
    assert found.operations == ()
    assert [(one.memory_id, one.was) for one in found.put_back] == [(A, "changed")]
    assert new == f"- {TEXTS[0]}\n  - why\n- {TEXTS[1]}\n".encode()


def test_a_protected_bullet_that_is_missing_is_put_back_where_it_was():
    old = old_of(*TEXTS[:3], headings={0: "H", 1: "H", 2: "I"}, **PROTECTED)
    found, new = put_back(old, f"## H\n- {TEXTS[1]}\n## I\n- {TEXTS[2]}".encode())
    assert found.operations == ()
    assert [(one.memory_id, one.was) for one in found.put_back] == [(A, "missing")]
    assert new == f"## H\n- {TEXTS[0]}\n- {TEXTS[1]}\n## I\n- {TEXTS[2]}".encode()
    _, new = put_back(old, f"## I\n- {TEXTS[2]}".encode())
    assert new == f"## I\n- {TEXTS[2]}\n\n## H\n\n- {TEXTS[0]}\n".encode()


def test_what_was_joined_with_a_protected_bullet_is_not_lost():
    old = old_of("The user prefers green tea", TEXTS[2], "Deploys happen on Fridays", **PROTECTED)
    data = f"- The user prefers green tea; deploys happen on Fridays\n- {TEXTS[2]}\n".encode()
    found, new = put_back(old, data)
    assert [(one.memory_id, one.was) for one in found.put_back] == [(A, "missing")]
    assert found.operations == (
        Update(C, content="The user prefers green tea; deploys happen on Fridays", position=STEP),
    )
    assert b"- The user prefers green tea; deploys happen on Fridays\n" in new
    assert b"- The user prefers green tea\n" in new


WORDS = st.sampled_from(
    ["tea", "coffee", "green", "Friday", "deploy", "cluster", "parser", "Anna", "schema", "緑茶", "\\#", "-", "1"]
)
LINE = st.lists(WORDS, min_size=1, max_size=7).map(" ".join)
FILE = st.lists(st.tuples(st.sampled_from(["", "## H\n", "## I\n"]), LINE), max_size=9).map(
    lambda rows: "".join(f"{heading}- {line}\n" for heading, line in rows).encode()
)


@given(FILE, FILE, st.sets(st.integers(0, 8)))
def test_the_ledger_and_the_file_agree_after_any_edit(before, edited, protected):
    first = imported([], before, 0xF0000000)
    old, _ = after([], first)
    old = [replace(row, constitutional=index in protected) for index, row in enumerate(old)]
    assert imported(old, before).operations == ()
    found, data = put_back(old, edited)
    rows, everything = after(old, found)
    constitutional = [row for row in old if row.constitutional]
    for row in constitutional:
        assert everything[row.id].content == row.content
        assert everything[row.id].is_live
    bullets = core.parse(data).bullets
    assert sorted(core.normalize(row.content) for row in rows) == sorted(
        core.normalize(bullet.text) for bullet in bullets
    )
    changed = {one.edit.position for one in found.put_back if one.was == "changed"}
    kept = [core.normalize(bullet.text) for bullet in bullets]
    for bullet in core.parse(edited).bullets:
        assert bullet.position in changed or core.normalize(bullet.text) in kept
    again = imported(rows, data)
    assert again.put_back == ()
    assert all(isinstance(one, Update) and one.content is None for one in again.operations)


@given(st.lists(st.none() | st.integers(-3, 12), max_size=12))
def test_places_grow_and_as_many_as_can_be_stay(numbers):
    found = assign_places(numbers)
    assert len(found) == len(numbers)
    assert all(one < two for one, two in pairwise(found))
    longest = 0
    for mask in range(1 << min(len(numbers), 9)):
        chosen = [number for index, number in enumerate(numbers[:9]) if mask >> index & 1]
        if None not in chosen and all(one < two for one, two in pairwise(chosen)):
            longest = max(longest, len(chosen))
    stayed = sum(one == two for one, two in zip(found, numbers, strict=True))
    assert stayed >= longest or found == [STEP * (index + 1) for index in range(len(numbers))]
    assert assign_places(found) == found


def test_places_lie_apart():
    assert assign_places([None, None]) == [STEP, 2 * STEP]
    assert assign_places([None, 5 * STEP, None, 6 * STEP, None]) == [
        4 * STEP,
        5 * STEP,
        5 * STEP + STEP // 4,
        6 * STEP,
        7 * STEP,
    ]
    assert assign_places([4, 1, 2, 3]) == [1 - STEP, 1, 2, 3]
    assert assign_places([1, None, 2]) == [STEP, 2 * STEP, 3 * STEP]
    for count, index in ((60, -1), (12, 1)):  # behind the last memory of a heading, and behind its first one
        numbers = assign_places([None, None])
        for _ in range(count):
            numbers = assign_places([*numbers[:index], None, *numbers[index:]])
        assert (numbers[0], numbers[-1]) == (STEP, 2 * STEP)


@pytest.mark.parametrize(
    ("data", "conflicted"),
    [
        (b"- a\n<<<<<<< HEAD\n- b\n=======\n- c\n>>>>>>> other\n", True),
        (b"<<<<<<< HEAD\r\n- b\r\n||||||| base\r\n=======\r\n- c\r\n>>>>>>> other", True),
        (b"```\n<<<<<<< HEAD\n=======\n>>>>>>> other\n```\n", False),
        (b"- a\n  <<<<<<< HEAD\n  =======\n  >>>>>>> other\n", False),
        (b"Title\n=======\n\n- a\n", False),
        (b">>>>>>> x\n=======\n<<<<<<< y\n", False),
        (b"<<<<<<< HEAD\n>>>>>>> other\n", False),
        (b"", False),
    ],
)
def test_a_merge_left_to_be_solved_is_seen(data, conflicted):
    assert is_conflicted(data) is conflicted
