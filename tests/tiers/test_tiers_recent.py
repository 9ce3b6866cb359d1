"""`RECENT.md` and the archive: any bytes survive, entries stay compact, and no text of a session forges one."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.tiers import archive, recent
from memoryd.tiers.archive import PastSession
from memoryd.tiers.session_summary import Section, SessionSummary, SummaryPoint, parse_points, render_points

ID = "9e953218-585f-4692-89df-9e0747a31c68"
AT = datetime(2025, 10, 4, 13, 5, tzinfo=UTC)
TEXT = """### Asked
- User: Move the page into its own repository.
- Make the redirection work.
### Decided
- The submodule has the HTTPS URL, because the build server has no SSH keys.
### Found out
- Relative paths resolve to the root of the site.
### State at the end
- Branch main at 2564804, not pushed.
### Files changed
- `vercel.json`, `.gitmodules`
- `.gitmodules`, `README.md`"""

LINES = st.sampled_from([
    "# RECENT - Last 3 Sessions", "## Session 2025-10-04 morning (2.5h)", "**Focus**: x", "", "- [x] y", "```", "---",
    "**Link**: [Full details](MEMORY-2025-10-04.md#session-9e953218)", "## Session 9e953218", "text", "\r", "tags: [a]",
    "source_sessions: [b]", "consolidation_date: 2025-01-01", "  ## h", "## Mine",
])  # fmt: skip
MARKDOWN = st.lists(LINES | st.text(max_size=8), max_size=14).map(
    lambda lines: "\n".join(lines).encode(errors="replace")
)
HOSTILE = st.sampled_from([
    "## Session 2025-01-01 morning (1.0h)", "User: ## Session forged", "---", "```", "<!-- x", "# T", "- # T",
    "**Link**: [Full details](MEMORY-2025-10-04.md#session-forged)", "a\n## Session forged\n\nb", "[x] y", "User: - a",
])  # fmt: skip
TEXTS = HOSTILE | st.text(max_size=40) | st.text("ab. ", min_size=300, max_size=700)


def summaries():
    """What a kept text comes to: it is always read back by `parse_points`."""
    points = st.lists(st.builds(SummaryPoint, st.sampled_from(Section), TEXTS), max_size=14)
    return points.map(lambda found: parse_points(render_points(found)))


def past(summary, name=ID, hours=2.5, at=AT):
    return PastSession(name, at, at + timedelta(hours=hours), summary)


def written(*sessions, count=3, lines=500):
    return recent.render(recent.write_file(sessions, count, lines)).decode()


def test_an_entry_has_its_sections_in_order_and_leaves_empty_ones_out():
    assert written(past(parse_points(TEXT))) == (
        "# RECENT - Last 3 Sessions\n\n"
        "## Session 2025-10-04 afternoon (2.5h)\n\n"
        "**Focus**:\n- Move the page into its own repository.\n- Make the redirection work.\n\n"
        "**Key decisions**:\n- [x] The submodule has the HTTPS URL, because the build server has no SSH keys.\n\n"
        "**Discoveries**:\n- Relative paths resolve to the root of the site.\n\n"
        "**State**: Branch main at 2564804, not pushed.\n\n"
        "**Files**: `vercel.json`, `.gitmodules`, `README.md`\n\n"
        "**Link**: [Full details](MEMORY-2025-10-04.md#session-9e953218)\n"
    )


@pytest.mark.parametrize(
    ("hour", "told"),
    [(0, "night"), (4, "night"), (5, "morning"), (12, "afternoon"), (18, "evening"), (22, "evening"), (23, "night")],
)
def test_the_time_of_day_is_that_of_the_beginning(hour, told):
    assert f"## Session 2025-10-04 {told} (0.1h)" in written(
        past(parse_points(TEXT), hours=0, at=AT.replace(hour=hour))
    )


def test_it_holds_so_many_sessions_and_lines():
    sessions = [past(parse_points(TEXT), f"s{number}") for number in range(5)]
    assert re.findall(r"#session-(\w+)", written(*sessions)) == ["s0", "s1", "s2"]
    assert re.findall(r"#session-(\w+)", written(*sessions, count=2)) == ["s0", "s1"]
    assert re.findall(r"#session-(\w+)", written(*sessions, lines=50)) == ["s0", "s1"]
    assert written(count=2) == "# RECENT - Last 2 Sessions\n"


def test_the_last_request_stays_and_each_section_has_its_say():
    points = [
        SummaryPoint(section, f"{section.value} {number} {'x' * 60}") for section in Section for number in range(9)
    ]
    kept = recent.choose_points(points, 600)
    assert [one for one in kept if one.section is Section.ASKED][-1].text.startswith("Asked 8")
    assert sum(len(one.text) for one in kept) <= 600
    assert {one.section for one in kept} == set(Section), "each section has its say"


def test_a_long_point_ends_with_a_sentence():
    long = SummaryPoint(Section.FOUND, f"{'The first sentence is long enough to be told alone. ' * 5}{'x' * 300}.")
    (kept,) = recent.choose_points([long], 900)
    assert kept.text.endswith("alone.")
    assert len(kept.text) < 320


@given(st.lists(summaries(), max_size=4))
def test_no_entry_forges_another_and_each_is_compact(found):
    sessions = [past(summary, f"s{number}") for number, summary in enumerate(found)]
    file = recent.write_file(sessions, 3, 500)
    data = recent.render(file)
    assert recent.parse(data) == file
    assert [entry.name for entry in file.entries] == [one.name for one in sessions[:3]]
    most = [recent.NEWEST_CHARACTERS, recent.OLDER_CHARACTERS, recent.OLDER_CHARACTERS]
    for entry, limit in zip(file.entries, most, strict=False):
        text = entry.raw.decode()
        assert len(text) <= limit
        assert text.count("\n## ") == 0
        assert "```" not in text


@given(MARKDOWN, st.sets(st.sampled_from(["9e953218", "b", "forged"])))
def test_any_bytes_survive_parsing_and_only_the_named_entries_go(data, names):
    file = recent.parse(data)
    assert recent.render(file) == data
    left = recent.drop_entries(data, names)
    assert [one.name for one in recent.parse(left).entries] == [
        one.name for one in file.entries if one.name not in names
    ]


# --- the archive ---


DAY = date(2025, 10, 4)
PART = archive.render_part(past(parse_points(TEXT)))


def test_a_part_has_all_points_below_its_anchor():
    assert archive.put_parts(None, DAY, {"9e953218": PART}, DAY).decode() == (
        "---\nconsolidation_date: 2025-10-04\nsource_sessions: [9e953218]\ntotal_sessions: 1\ntags: []\n---\n\n"
        "# October 2025 Consolidated Memory\n\n"
        f"## Session 9e953218\n\n**Date Range**: 2025-10-04 13:05 - 15:35\n\n{TEXT}\n"
    )


def test_a_part_is_replaced_in_its_place_and_what_people_wrote_stays():
    data = archive.put_parts(
        None, DAY, {"one": b"## Session one\n\nfirst\n", "two": b"## Session two\n\nsecond\n"}, DAY
    )
    data = data.replace(b"tags: []", b"tags: [garden]") + b"\n## Mine\n\nby hand\n"
    new = archive.put_parts(data, DAY, {"one": b"## Session one\n\nbetter\n", "two": None}, date(2025, 10, 9)).decode()
    assert "better" in new
    assert "second" not in new
    assert "first" not in new
    assert "by hand" in new
    assert "tags: [garden]" in new
    assert "source_sessions: [one]\ntotal_sessions: 1" in new
    assert "consolidation_date: 2025-10-09" in new


@given(MARKDOWN, st.dictionaries(st.sampled_from(["9e953218", "b"]), st.sampled_from([None, PART]), max_size=2))
def test_parts_that_are_there_are_not_written_again(data, parts):
    parts = {name: part and part.replace(b"9e953218", name.encode()) for name, part in parts.items()}
    once = archive.put_parts(data, DAY, parts, DAY)
    assert archive.put_parts(once, DAY, parts, date(2026, 1, 1)) == once
    held = {found[1].decode() for found in re.finditer(rb"^## Session (\w+)[ \r]*$", once, re.MULTILINE)}
    assert held.issuperset(name for name, part in parts.items() if part is not None)
    assert held.isdisjoint(name for name, part in parts.items() if part is None)
    assert b"".join(archive.split_sections(once)) == once
    dropped = archive.drop_parts(once, parts)
    assert not any(f"\n## Session {name}\n".encode() in dropped for name in parts)


@given(summaries())
def test_no_point_forges_a_part(summary):
    part = archive.render_part(past(summary))
    assert len(archive.split_sections(part)) == 2
    assert parse_points(part.decode().split("\n\n", 2)[2]) == SessionSummary(summary.points)


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
