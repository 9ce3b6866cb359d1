"""The grammar of a sleep reply: what models do to it without harm, and what makes a reply unusable."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.job import MemoryType, NewMemory, RejectedReply, Reply
from memoryd.jobs.reply import NOTHING, ParsedSleepReply, SummaryLine, SupersededPoint, merge, parse, render
from memoryd.text.neutral import neutralize
from memoryd.tiers.session_summary import Section

PLAIN = "[SUMMARY]\n- [t3] User: asked for a parser.\n[MEMORIES]\n- preference 0.90 [t12,t15.2] User: tabs, always."
MEANT = ParsedSleepReply(
    (SummaryLine((3,), "User: asked for a parser.", ("t3",)),),
    (NewMemory(MemoryType.PREFERENCE, 0.9, "User: tabs, always.", (12, 15), ("t12", "t15.2")),),
)


def said(text: str, finish: str = "stop") -> Reply:
    return Reply(text, finish, "test")


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("[SUMMARY]", "**[Summary]**").replace("[MEMORIES]", "## [memories]:"),
        f"```\n{PLAIN}\n```",
        f"```markdown\n{PLAIN}\n```\n",
        PLAIN.replace("- ", "* "),
        PLAIN.replace("preference", "**Preference**").replace("[t12,t15.2]", "[ T12 , t15.2 ]"),
        PLAIN.replace("\n", "\n\n"),
        f"Here is the memory:\n\n{PLAIN}",
    ],
)
def test_what_models_do_without_harm(text):
    assert parse(said(text)) == MEANT


@pytest.mark.parametrize("finish", ["length", "refusal", "error", "tool_calls", ""])
def test_a_reply_that_did_not_end_is_refused(finish):
    assert isinstance(parse(said(PLAIN, finish)), RejectedReply)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "No.",
        "[SUMMARY]\nfree text",
        "- [t1] no section",
        "[MEMORIES]\n- joy 0.5 [t1] x",
        "[SUMMARY]\n" + "- [t1] x\n" * 3000,
    ],
)
def test_a_reply_without_a_readable_line_is_refused(text):
    assert isinstance(parse(said(text)), RejectedReply)


def test_nothing_and_empty_sections_are_answers():
    assert parse(said(NOTHING)) == ParsedSleepReply()
    assert parse(said("[SUMMARY]\n[MEMORIES]\n")) == ParsedSleepReply()


@pytest.mark.parametrize("number", ["1.01", "-0.5", "nan", "1e3", "", "high", "9" * 400])
def test_an_importance_outside_its_range_loses_its_line(number):
    parsed = parse(said(f"{PLAIN}\n- fact {number} [t1] something"))
    assert isinstance(parsed, ParsedSleepReply)
    assert (parsed.memories, parsed.unreadable) == (MEANT.memories, 1)


# What a reply cites, as it is written, with the turns of that.
CITES = st.lists(st.tuples(st.integers(0, 10**9 - 1), st.none() | st.integers(0, 9999)), min_size=1, max_size=4)
CITED = CITES.map(lambda found: tuple(dict.fromkeys(f"t{seq}" if n is None else f"t{seq}.{n}" for seq, n in found)))
LINES = st.text(min_size=1).map(neutralize).filter(bool)


def turns_of(cites):
    return tuple(dict.fromkeys(int(one[1:].partition(".")[0]) for one in cites))


TOLD = st.builds(
    lambda cites, text, section, is_earlier: SummaryLine(
        turns_of(cites), text, cites, section=section, is_earlier=is_earlier and section is not None
    ),
    CITED, LINES, st.sampled_from([None, *Section]), st.booleans(),
)  # fmt: skip
MEMORIES = st.builds(
    lambda kind, importance, text, cites: NewMemory(kind, importance / 100, text, turns_of(cites), cites),
    st.sampled_from(MemoryType), st.integers(0, 100), LINES, CITED,
)  # fmt: skip


def in_order(summary):
    """Lines in the order in which a reply has them: those without a section first, the others as they came."""
    return tuple(sorted(summary, key=lambda one: one.section is not None))


@given(st.lists(TOLD), st.lists(MEMORIES))
def test_what_is_rendered_is_read_back(summary, memories):
    text = render(summary, memories)
    assert parse(said(text)) == ParsedSleepReply(in_order(summary), tuple(memories))
    headings = [line for line in text.split("\n") if line.startswith("#")]
    assert {line.partition(" (")[0] for line in headings} == {
        f"### {one.section.value}" for one in summary if one.section
    }
    assert all(one != other for one, other in pairwise(headings))


@given(st.lists(st.tuples(st.lists(TOLD, max_size=4), st.lists(MEMORIES, max_size=3)), min_size=1, max_size=4))
def test_the_parts_of_a_reply_are_merged_in_order(parts):
    merged = merge([said(render(*part)) for part in parts])
    assert isinstance(merged, Reply)
    told = in_order([one for summary, _ in parts for one in in_order(summary)])
    assert parse(merged) == ParsedSleepReply(told, tuple(one for _, memories in parts for one in memories))


IN_SECTIONS = "[SUMMARY]\n- [t1] A talk.\n{}\n- [t3] A parser.\n[MEMORIES]\n- fact 0.50 [t3] A fact."


@pytest.mark.parametrize("section", [*Section])
@pytest.mark.parametrize("form", ["### {}", "## {}", "###{}", "**{}**", "**{}:**", "### **{}**", "{}:", "# {} (2)"])
@pytest.mark.parametrize("case", [str, str.upper, str.lower])
def test_a_heading_is_known_in_whatever_form_a_model_writes_it(section, form, case):
    parsed = parse(said(IN_SECTIONS.format(case(form.format(section.value)))))
    assert isinstance(parsed, ParsedSleepReply)
    assert [(one.text, one.section) for one in parsed.summary] == [("A talk.", None), ("A parser.", section)]
    assert (len(parsed.memories), parsed.unreadable) == (1, 0)


@pytest.mark.parametrize(
    "line",
    [
        "- [t9] Asked for a parser.",
        "- [t9] ### Decided",
        "- [t9] Open: the docs",
        "Found that the parser is slow. It is.",
        "### Weather",
        "- fact 0.5 [t9] ### Failed and abandoned",
    ],
)
def test_no_line_is_taken_for_a_heading(line):
    parsed = parse(said(IN_SECTIONS.format(line)))
    assert isinstance(parsed, ParsedSleepReply)
    assert {one.section for one in parsed.summary} == {None}
    assert parsed.summary[-1].text == "A parser."


def test_a_heading_counts_only_in_the_summary():
    parsed = parse(said(f"### Asked\n{PLAIN}\n### Decided\n- fact 0.50 [t3] A fact."))
    assert isinstance(parsed, ParsedSleepReply)
    assert [one.section for one in parsed.summary] == [None]
    assert [one.text for one in parsed.memories] == ["User: tabs, always.", "A fact."]


@given(st.text(), st.sampled_from(["stop", "length"]))
def test_no_text_raises(text, finish):
    assert isinstance(parse(said(text, finish)), ParsedSleepReply | RejectedReply)


@given(
    st.lists(
        st.sampled_from(
            [
                "[SUMMARY]",
                "[MEMORIES]",
                "### Asked",
                "**Found out**",
                "- [t1] a",
                "- [t] a",
                "- fact 0.5 [t1] b",
                "```",
                "x",
                "- fact 5 [t1] b",
                "",
            ]
        )
    )
)
def test_no_mixture_of_lines_raises(lines):
    assert isinstance(parse(said("\n".join(lines))), ParsedSleepReply | RejectedReply)


@given(
    st.lists(TOLD), st.lists(st.builds(lambda n, cites: SupersededPoint(f"s{n}", cites), st.integers(1, 9999), CITED))
)
def test_superseded_points_are_read_back(summary, ended):
    parsed = parse(said(render(summary, [], ended)))
    assert (parsed.superseded, parsed.unreadable) == (tuple(ended), 0)


@pytest.mark.parametrize(
    "line",
    [
        "- superseded [s3] by [t15.1]: another count",
        "- superseded [s3] by [t15.1]",
        "* **Superseded** [S3] by [T15.1] — another count",
    ],
)
def test_a_point_of_the_summary_so_far_is_named_as_superseded_below_any_heading(line):
    text = PLAIN.replace("[MEMORIES]", f"### Open and next step\n{line}\n[MEMORIES]")
    parsed = parse(said(text))
    assert parsed == ParsedSleepReply(MEANT.summary, MEANT.memories, superseded=(SupersededPoint("s3", ("t15.1",)),))
    several = parse(said(text.replace(line, "- superseded [s3, s4] by [t15.1, t16]: both")))
    assert [one.id for one in several.superseded] == ["s3", "s4"]
    assert several.superseded[0].by == ("t15.1", "t16")


@pytest.mark.parametrize("line", ["- superseded [t3] by [t15.1]", "- superseded [s3]: why", "- superseded s3 by t15"])
def test_a_point_that_is_named_otherwise_is_none(line):
    parsed = parse(said(PLAIN.replace("[MEMORIES]", f"{line}\n[MEMORIES]")))
    assert (parsed.superseded, parsed.unreadable) == ((), 1)
