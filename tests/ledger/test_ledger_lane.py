"""Lanes: whose word a sentence is comes from the record that holds it, and nothing in the text ever raises it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.ledger.lane import (
    Lane,
    MemoryClass,
    lane_of_memory,
    lane_of_source,
    lane_of_turn,
    lanes_of_text,
    may_change,
    read_label,
)
from memoryd.ledger.memory import Memory, MemoryKind, Source, hash_of
from memoryd.text.sentences import split
from memoryd.transcripts.turn import Origin
from memoryd.transcripts.turn import TurnKind as Turned

LABELS = ["", "User: ", "user: ", "USER: ", "Assistant: ", "Agent: ", "Report: ", "- User: ", "Human: ", "[user] "]


def lanes(text: str, lane: Lane = Lane.USER, kind: Turned = Turned.MESSAGE) -> list[Lane]:
    return lanes_of_text(text, split(text), lane, kind)


def test_each_origin_has_a_lane_and_only_what_was_typed_is_the_users():
    assert {origin: lane_of_turn(origin) for origin in Origin if lane_of_turn(origin) > Lane.OUTSIDE} == {
        Origin.USER: Lane.USER,
        Origin.ASSISTANT: Lane.ASSISTANT,
    }
    assert lane_of_turn(Origin.INJECTED) is Lane.NONE
    named = ("user", "hand", "assistant", "agent", "daily", "unknown", "injected", "tool")
    assert [lane_of_source(one) for one in named] == [
        Lane.USER, Lane.USER, Lane.ASSISTANT, Lane.ASSISTANT, Lane.ASSISTANT, Lane.UNKNOWN, Lane.NONE, Lane.OUTSIDE,
    ]  # fmt: skip


@given(st.sampled_from(Lane), st.sampled_from(LABELS), st.text(max_size=80), st.sampled_from(Turned))
def test_no_text_raises_the_lane_of_its_record(lane, label, text, kind):
    assert all(one <= lane for one in lanes(f"{label}{text}", lane, kind))


ORIGINS = {
    "user": Lane.USER, "assistant": Lane.ASSISTANT, "tool": Lane.OUTSIDE,
    "unknown": Lane.UNKNOWN, "injected": Lane.NONE,
}  # fmt: skip


@given(st.sampled_from(LABELS), st.text(max_size=80), st.lists(st.sampled_from(sorted(ORIGINS)), max_size=3))
def test_a_memory_has_the_lowest_lane_of_its_sources_and_a_label_may_lower_it(label, text, origins):
    sources = tuple(Source("sess_1", "a.jsonl", "r1", 0, 0, 1, "0" * 64, one) for one in origins)
    content = f"{label}{text}"
    memory = Memory(
        "core_00000001", "demo", MemoryKind.CORE, content, hash_of(content), "2025", "2025", "0" * 32, sources=sources
    )
    assert lane_of_memory(memory) <= min((ORIGINS[one] for one in origins), default=Lane.USER)
    assert lane_of_memory(memory) <= read_label(content) <= Lane.USER


def test_the_labels_that_lower_a_lane():
    assert [read_label(f"{one}: Use tabs.") for one in ("User", "Decision", "Assistant", "Report", "Failed")] == [
        Lane.USER, Lane.USER, Lane.ASSISTANT, Lane.OUTSIDE, Lane.OUTSIDE,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Always use tabs.", [Lane.USER]),
        ("Please summarise this:\n> Always use tabs.", [Lane.USER, Lane.OUTSIDE]),
        ("Fix this file:\n```\n# always use tabs\n```", [Lane.USER, Lane.OUTSIDE]),
        ("Eve says: always use tabs.", None),
        ("What is wrong here?\n2025-03-04T10:00:00Z ERROR always use tabs", [Lane.USER, Lane.OUTSIDE]),
        ("<document>\nAlways use tabs.\n</document>\nSummarise it.", None),
    ],
)
def test_what_a_person_hands_on_is_not_their_word(text, expected):
    found = lanes(text)
    assert expected is None or found == expected
    order = [lane for lane, one in zip(found, split(text), strict=True) if "lways use tabs" in one.text]
    assert order
    assert max(order) <= (Lane.USER if text == "Always use tabs." else Lane.OUTSIDE)


def test_a_choice_in_a_dialog_is_the_users_whole():
    assert set(lanes('asked "Which?\n> tabs", chose "tabs"', kind=Turned.CHOICE)) == {Lane.USER}
    assert set(lanes("asked, chose", Lane.OUTSIDE, Turned.CHOICE)) == {Lane.OUTSIDE}


def test_only_the_user_changes_rules_and_what_is_known_of_persons():
    assert {(lane, kind) for lane in Lane for kind in MemoryClass if may_change(lane, kind)} == {
        *((Lane.USER, kind) for kind in MemoryClass),
        (Lane.ASSISTANT, MemoryClass.PROJECT),
        (Lane.ASSISTANT, MemoryClass.LESSON),
    }
