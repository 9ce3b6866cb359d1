"""The grammar of a sleep reply: what models do to it without harm, and what makes a reply unusable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.job import MemoryType, NewMemory, RejectedReply, Reply
from memoryd.jobs.reply import NOTHING, ParsedSleepReply, SummaryLine, parse, render
from memoryd.text.neutral import neutralize

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


TOLD = st.builds(lambda cites, text: SummaryLine(turns_of(cites), text, cites), CITED, LINES)
MEMORIES = st.builds(
    lambda kind, importance, text, cites: NewMemory(kind, importance / 100, text, turns_of(cites), cites),
    st.sampled_from(MemoryType), st.integers(0, 100), LINES, CITED,
)  # fmt: skip


@given(st.lists(TOLD), st.lists(MEMORIES))
def test_what_is_rendered_is_read_back(summary, memories):
    assert parse(said(render(summary, memories))) == ParsedSleepReply(tuple(summary), tuple(memories))


@given(st.text(), st.sampled_from(["stop", "length"]))
def test_no_text_raises(text, finish):
    assert isinstance(parse(said(text, finish)), ParsedSleepReply | RejectedReply)


@given(
    st.lists(
        st.sampled_from(
            ["[SUMMARY]", "[MEMORIES]", "- [t1] a", "- [t] a", "- fact 0.5 [t1] b", "```", "x", "- fact 5 [t1] b", ""]
        )
    )
)
def test_no_mixture_of_lines_raises(lines):
    assert isinstance(parse(said("\n".join(lines))), ParsedSleepReply | RejectedReply)
