"""The order of statements that may be about the same subject: a person's later one comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.recall.memory_files import put_newer_bullets_first
from memoryd.recall.newer import put_newer_first

OLD = ("We use port 8080 for the API.", "2026-11-24")
NEW = ("Actually the API is on port 9090 now.", "2026-11-26T10:00:00.000Z")
TEA = ("I always drink green tea.", "2026-11-27")


def order(*said):
    return put_newer_first(said, lambda one: one)


def test_a_later_statement_comes_before_an_earlier_one_on_its_subject():
    assert order(OLD, TEA, NEW) == [NEW, OLD, TEA]
    assert order(TEA, NEW, OLD) == [TEA, NEW, OLD]
    newest = ("The API moved to port 7070.", "2026-11-28")
    assert order(OLD, NEW, TEA, newest) == [newest, NEW, OLD, TEA]


@pytest.mark.parametrize(
    "said",
    [
        (OLD, TEA),  # another subject
        (OLD, (NEW[0], "")),  # nobody said it
        ((OLD[0], ""), NEW),
        (OLD, (NEW[0], OLD[1])),  # on the same day
        (("ok", "2026-01-01"), ("Yes!", "2026-01-02")),  # without content words
    ],
)
def test_anything_else_keeps_its_place(said):
    assert order(*said) == list(said)


@pytest.mark.parametrize(("score", "is_first"), [(1.0, True), (0.85, True), (0.7, False), (1.1, False)])
def test_a_later_statement_passes_only_one_of_nearly_its_score(score, is_first):
    scores = {OLD: 1.0, NEW: score}
    assert put_newer_first([OLD, NEW], lambda one: one, scores.__getitem__) == ([NEW, OLD] if is_first else [OLD, NEW])


@given(
    st.lists(st.tuples(st.sampled_from(["port api", "tea cup", "api cup", ""]), st.sampled_from(["", "1", "2", "3"])))
)
def test_nothing_is_lost(said):
    assert sorted(order(*said)) == sorted(said)


def test_bullets_of_a_file_change_places_below_their_heading_only():
    old, new, tea = (f"User: {text}" for text, _ in (OLD, NEW, TEA))
    said_at = {old: OLD[1], new: NEW[1], tea: TEA[1]}
    text = f"# Memory\n\n## A\n\n- {old}\n- {tea}\n- {new}\n\n## B\n\n- {new}\n"
    assert (
        put_newer_bullets_first(text, said_at) == f"# Memory\n\n## A\n\n- {new}\n- {old}\n- {tea}\n\n## B\n\n- {new}\n"
    )
    below = f"- {old}\n- {new}\n  - a part of it\n- {tea}\n"
    assert put_newer_bullets_first(below, said_at) == below, "what is below a bullet stays below it"
    apart = f"- {old}\n- {new}\n\n  A paragraph of it.\n"
    assert put_newer_bullets_first(apart, said_at) == apart
    assert put_newer_bullets_first(below, {}) == below
