"""The summary of a session: its text gives it back, and more of a session adds to it without losing what was so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.neutral import neutralize
from memoryd.tiers.session_summary import (
    BY_USER,
    HEADINGS,
    Section,
    SummaryPoint,
    merge_points,
    parse_points,
    render_points,
    shorten_points,
)

ODD = ["### Asked", "- - a", "-", "## x", "User: x", "\u2028### Decided", "a\n### Found out\n- b", "```", "[SUMMARY]"]
TEXTS = (st.sampled_from(ODD) | st.text(max_size=20)).map(neutralize).filter(bool)
POINTS = st.lists(st.builds(SummaryPoint, st.sampled_from(Section), TEXTS), max_size=12)


def by_section(points):
    return tuple(point for section in Section for point in points if point.section is section)


def of(points, section):
    return [point.text for point in points if point.section is section]


@given(POINTS)
def test_what_is_rendered_is_read_back_by_section(points):
    text = render_points(points)
    assert parse_points(text).points == by_section(points)
    assert render_points(parse_points(text).points) == text
    headings = [line for line in text.splitlines() if not line.startswith("- ")]
    assert headings == ([f"### {one.value}" for one in Section if of(points, one)])


@given(st.text() | st.lists(st.sampled_from([*HEADINGS, *ODD, "- User: a", "- b", "c", ""])).map("\n".join))
def test_any_text_is_read_as_points_that_are_read_the_same_again(text):
    points = parse_points(text).points
    assert all(point.text == neutralize(point.text) for point in points)
    assert parse_points(render_points(points)).points == by_section(points)


def test_a_text_without_headings_is_what_was_asked_and_found_out():
    told = parse_points("- User: wants a parser.\n- The parser is slow.\n\n- Assistant: made it fast.")
    assert told.texts(Section.ASKED) == ["wants a parser."]
    assert told.texts(Section.FOUND) == ["The parser is slow.", "Assistant: made it fast."]


@pytest.mark.parametrize(
    ("point", "by_user"),
    [
        (SummaryPoint(Section.ASKED, "A parser."), True),
        (SummaryPoint(Section.DECIDED, f"{BY_USER}No cache."), True),
        (SummaryPoint(Section.DECIDED, "No cache, as the User: said."), False),
        (SummaryPoint(Section.STATE, "31 tests pass."), False),
    ],
)
def test_whose_words_a_point_has(point, by_user):
    assert point.by_user is by_user


@given(POINTS, POINTS)
def test_merging_keeps_all_but_what_the_state_says_anew(earlier, later):
    merged = merge_points(earlier, later)
    is_told = any(point.section is Section.STATE for point in later)
    assert set(merged) == {point for point in earlier if not is_told or point.section is not Section.STATE} | set(later)
    asked = of(later, Section.ASKED) or of(earlier, Section.ASKED)
    assert of(merged, Section.ASKED)[-1:] == asked[-1:]
    assert merge_points(merged, later) == merged


def test_what_the_state_names_is_replaced_by_its_name_alone():
    def state(*texts: str) -> tuple[SummaryPoint, ...]:
        return tuple(SummaryPoint(Section.STATE, text) for text in texts)

    earlier = state("Branch: `login`", "Pull request: https://git.example/a/pull/7", "All is red.")
    told = merge_points(earlier, state("Branch: `logout`", "All 42 tests pass."))
    assert set(told) == set(
        state("Branch: `logout`", "Pull request: https://git.example/a/pull/7", "All 42 tests pass.")
    )
    assert state("Branch: `login`")[0] not in merge_points(earlier, state("Branch: nothing"))
    kept = (SummaryPoint(Section.FOUND, "What the cache keeps: nothing"),)
    assert merge_points((), kept) == kept


@given(POINTS, POINTS)
def test_of_what_is_merged_the_newer_comes_first(earlier, later):
    merged = merge_points(earlier, later)
    new = set(later)
    for section in set(Section) - {Section.ASKED}:
        is_new = [point in new for point in merged if point.section is section]
        assert is_new == sorted(is_new, reverse=True)


@given(POINTS, st.integers(1, 4))
def test_shortening_keeps_the_first_of_each_section_and_the_last_request(points, room):
    kept = shorten_points(points, dict.fromkeys(Section, room))
    assert kept == by_section(kept)
    for section in Section:
        held = of(points, section)
        expected = [*held[: room - 1], held[-1]] if section is Section.ASKED and held else held[:room]
        assert of(kept, section) == (expected if len(held) > room else held)
