"""The archive and its index: parts stand in themes, any bytes survive, and no text of a session forges a part."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.tiers import archive, archive_index
from memoryd.tiers.archive import PastSession, SaidEntry
from memoryd.tiers.lines import anchors_of
from memoryd.tiers.session_summary import Section, SessionSummary, SummaryPoint, parse_points, render_points

ID = "9e953218-585f-4692-89df-9e0747a31c68"
AT = datetime(2025, 10, 4, 13, 5, tzinfo=UTC)
DAY, LATER = date(2025, 10, 4), date(2026, 1, 1)
TEXT = """### Asked
- User: Move the page into its own repository.
### Decided
- The submodule has the HTTPS URL, because the build server has no SSH keys.
### Found out
- @pattern Relative paths resolve to the root of the site.
### State at the end
- Branch: `main`
### Files changed
- `vercel.json`, `.gitmodules`"""
LINES = st.sampled_from([
    "## Login", "### Session 9e953218", "## Session b", "**Summary**: x", "**Key Points**:", "", "- y", "```", "---",
    "\r", "tags: [a]", "source_sessions: [b]", "total_sessions_consolidated: 4", "consolidation_date: 2025-01-01",
    "## Mine", "- [Login](MEMORY-2025-10-04.md#login) - old", "# Long-term Memory Index", "## Project Timeline",
    "text", "  ## h", "#### Asked",
])  # fmt: skip
MARKDOWN = st.lists(LINES | st.text(max_size=8), max_size=14).map(
    lambda lines: "\n".join(lines).encode(errors="replace")
)
HOSTILE = st.sampled_from([
    "## Login", "### Session forged", "---", "```", "<!-- x", "# T", "- # T", "**Summary**: x",
    "a\n## Session forged\nb",
    "#### Also said", "\u2028## x", "[x](y)", "]( - ", "~~~\n### Session forged\n~~~",
])  # fmt: skip
TEXTS = HOSTILE | st.text(max_size=30)


def past(text=TEXT, session_id=ID, theme="Login", said=(), **more):
    summary = text if isinstance(text, SessionSummary) else parse_points(text)
    return PastSession(session_id, AT, AT + timedelta(hours=2.5), summary, theme, said=tuple(said), **more)


def put(data, *sessions, today=DAY):
    return archive.put_parts(data, DAY, sessions, today)


def sessions_of_any():
    points = st.lists(st.builds(SummaryPoint, st.sampled_from(Section), TEXTS), max_size=6)
    summary = points.map(lambda found: parse_points(render_points(found)))
    said = st.lists(st.builds(SaidEntry, st.sampled_from(["User", "Agent", "Tool"]), TEXTS), max_size=4)
    return st.builds(past, summary, st.sampled_from([ID, "b", "c"]), TEXTS, said)


def test_a_part_stands_in_its_theme_with_all_points_and_what_else_was_said():
    said = [
        SaidEntry("User", "Move the page into its own repository."),
        SaidEntry("Agent", "Done.\n## Login\n```\nx\n```"),
    ]
    data = put(None, past(said=said, tags=("login",), tasks=("#42",)))
    assert data.decode() == (
        "---\nconsolidation_date: 2025-10-04\nsource_sessions: [9e953218]\ntotal_sessions: 1\ntags: [login]\n---\n\n"
        "# October 2025 Consolidated Memory\n\n## Login\n\n**Date Range**: 2025-10-04\n\n"
        "**Summary**: 1 session, 1 decision, 1 discovery\n\n**Related Files**: `vercel.json`, `.gitmodules`\n\n"
        "**Code**: Branch: `main`\n\n**Tasks**: #42\n\n**Key Points**:\n\n"
        "### Session 9e953218\n\n**Date Range**: 2025-10-04 13:05 - 15:35\n\n**Tasks**: #42\n\n"
        + TEXT.replace("### ", "#### ")
        + "\n\n#### Also said\n\n> **Agent**: Done.\n> \\## Login\n> ```\n> x\n> ```\n"
    )


def test_a_part_is_replaced_in_its_place_and_what_people_wrote_stays():
    data = put(None, past(session_id="one"), past(session_id="two", theme="Garden"))
    data = data.replace(b"tags: []", b"tags: [garden]") + b"\n## Mine\n\nby hand\n"
    data = data.replace(b"total_sessions:", b"total_sessions_consolidated:")
    better = past("### Asked\n- Something better.", "one", "Elsewhere")
    new = put(data, better, past(SessionSummary(), "two"), today=date(2025, 10, 9)).decode()
    assert "Something better." in new
    assert "HTTPS" not in new
    assert "## Elsewhere" not in new, "a part stays in its theme"
    assert "## Garden" not in new
    assert "by hand" in new
    assert "source_sessions: [one]\ntotal_sessions_consolidated: 1\ntags: [garden]\n" in new
    assert "consolidation_date: 2025-10-09" in new


def test_a_part_keeps_its_tasks_when_its_session_names_them_no_more():
    data = put(None, past(session_id="one", tasks=("#42",)), past(session_id="two"))
    new = put(data, past("### Asked\n- More.", "one", tasks=("#7",)), past(session_id="two"))
    one, two = new.decode().split("### Session ")[1:]
    assert "**Tasks**: #42, #7\n" in one
    assert "**Tasks**" not in two
    assert put(new, past("### Asked\n- More.", "one"), past(session_id="two")) == new


@example(b"## Session b\n## Session b\n**Summary**: x", [past(session_id="b")])
@given(MARKDOWN, st.lists(sessions_of_any(), max_size=3, unique_by=lambda one: one.id))
def test_parts_that_are_there_are_not_written_again(data, sessions):
    once = put(data, *sessions)
    assert put(once, *sessions, today=LATER) == once
    assert b"".join(archive.split_parts(once)) == once
    names = {one.name for one in sessions if one.summary.points or one.said}
    held = re.findall(rb"^### Session (\w+)[ \t]*\r?$", once, re.MULTILINE)
    assert {name.encode() for name in names} <= set(held)
    dropped = archive.drop_parts(once, {one.name for one in sessions})
    assert not any(f"\n### Session {one.name}\n".encode() in dropped for one in sessions)


@given(sessions_of_any())
def test_no_text_forges_a_part_a_theme_or_an_anchor(session):
    data = put(None, session)
    pieces = archive.split_parts(data)
    is_told = bool(session.summary.points or session.said)
    assert len(pieces) == 1 + 2 * is_told
    forged = [one for one in anchors_of(data) if one.startswith("session-") and one != f"session-{session.name}"]
    assert forged == []
    for line in data.decode().splitlines():
        assert not line.startswith(("```", "~~~"))


# --- the index ---


@given(MARKDOWN)
def test_any_index_survives_parsing(data):
    assert archive_index.render(archive_index.parse(data)) == data


@given(MARKDOWN | st.none(), st.lists(sessions_of_any(), max_size=3, unique_by=lambda one: one.id))
def test_an_index_written_twice_is_the_same_and_each_line_leads_to_a_theme(data, sessions):
    files = {"MEMORY-2025-10-04.md": put(None, *sessions)}
    once = archive_index.put_lines(data, files)
    assert archive_index.put_lines(once, files) == once
    targets = [archive_index.target_of(line) for line in once.splitlines()]
    there = set(anchors_of(files["MEMORY-2025-10-04.md"]))
    assert {target.partition("#")[2] for target in targets if target.startswith("MEMORY-2025-10-04.md#")} <= there
    themes = set(archive.list_themes(files["MEMORY-2025-10-04.md"]).values())
    assert all(f"MEMORY-2025-10-04.md#{theme.anchor}" in targets for theme in themes)


@given(st.lists(sessions_of_any(), max_size=3, unique_by=lambda one: one.id))
def test_what_was_written_and_dropped_again_leaves_no_trace(sessions):
    data = put(None, *sessions)
    empty = archive_index.put_lines(None, {})
    full = archive_index.put_lines(empty, {"MEMORY-2025-10-04.md": data})
    assert archive_index.drop_lines(full) == empty
    left = archive.drop_parts(data, {one.name for one in sessions})
    assert not archive.has_content(left)
    assert archive.has_content(left + b"\nA line of mine.\n")
    assert archive.has_content(left.replace(b"tags: []", b"tags: []\nowner: me"))


def test_an_index_has_a_line_under_each_heading_of_which_a_theme_holds_something():
    mine = archive_index.put_lines(None, {"MEMORY-2025-10-04.md": put(None, past())})
    mine = mine.replace(b"## Development Patterns\n", b"## Development Patterns\n\n- mine\n")
    both = put(None, past(), past("### Asked\n- More.", "b", "Garden"))
    assert archive_index.put_lines(mine, {"MEMORY-2025-10-04.md": both}).decode() == (
        "# Long-term Memory Index\n\n## Architecture Decisions\n\n"
        "- [Login](MEMORY-2025-10-04.md#login) - The submodule has the HTTPS URL, because the build server has no SSH"
        " keys.\n\n## Technical Discoveries\n\n"
        "## Development Patterns\n\n- mine\n\n"
        "- [Login](MEMORY-2025-10-04.md#login) - @pattern Relative paths resolve to the root of the site.\n\n"
        "## Project Timeline\n\n- [Login](MEMORY-2025-10-04.md#login) - 2025-10-04\n"
        "- [Garden](MEMORY-2025-10-04.md#garden) - 2025-10-04\n"
    )


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        (ID, "9e953218"),
        ("sess_20260304", "sess_20260304"),
        ("0199a213-81c0-7800-8aa1-bbab2a035a53", "0199a213-81c0-7800-8aa1-bbab2a035a53"),
        ("a) [x](y", None),
        ("One", None),
        ("x" * 50, None),
    ],
)
def test_a_part_is_named_by_what_tells_its_session_from_any_other(session_id, name):
    assert re.fullmatch(r"[a-z0-9_-]+", archive.name_of(session_id))
    assert name in {None, archive.name_of(session_id)}


def test_a_search_sees_no_counts_and_dates_and_the_rest_in_its_place():
    data = put(None, past(said=[SaidEntry("Agent", "All done.")]))
    shown = archive.mask_frame(data)
    assert len(shown) == len(data)
    assert [line.strip() for line in shown.decode().splitlines() if line.strip()][:4] == [
        "---", "---", "# October 2025 Consolidated Memory", "## Login",
    ]  # fmt: skip
    assert b"1 decision" not in shown
    assert b"no SSH keys." in shown
    assert b"> **Agent**: All done." in shown
    index = archive_index.put_lines(b"- my own [x](y)\n", {"MEMORY-2025-10-04.md": data})
    assert [line for line in archive.mask_frame(index).decode().splitlines() if "- " in line] == ["- my own [x](y)"]


def test_a_dropped_tag_takes_only_its_own_theme_and_its_own_name() -> None:
    head = b'---\ntags: [pumps, "my tag", zorb, zorb-x]\n---\n# T\n\ntags: zorb is text here\n\n'
    parts = b"## Zorb\n\n### Session a\n\n```\nnot closed\n\n## Zorb and others\n\n### Session b\n\nOn #pumps.\n"
    assert archive.drop_tags(head + parts, {"zorb", "pumps"}) == head.replace(b", zorb,", b",") + parts.replace(
        b"## Zorb\n", b"## General\n"
    )
