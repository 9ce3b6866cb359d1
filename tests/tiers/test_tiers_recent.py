"""`RECENT.md`: any bytes survive, entries stay compact, and no text of a session forges one."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.content import EARLIER
from memoryd.tiers import recent
from memoryd.tiers.archive import PastSession
from memoryd.tiers.session_summary import Section, SummaryPoint, parse_points, render_points

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
    return recent.write_file(sessions, count, lines).decode()


def test_a_short_entry_has_points_beyond_the_limit_of_their_section_and_a_long_one_has_not():
    few = [SummaryPoint(Section.ASKED, f"Rule {number}: keep the log in English.") for number in range(8)]
    assert recent.choose_points(few, 3000) == tuple(few)
    many = [SummaryPoint(section, f"Point {number}. " + "a " * 110) for section in Section for number in range(8)]
    kept = recent.choose_points(many, 3000)
    assert all(sum(one.section is section for one in kept) <= most for section, most in recent.MOST.items())


def test_what_may_be_overtaken_gives_way_to_what_is_not():
    points = [SummaryPoint(Section.ASKED, f"{EARLIER}The list {number} shows no prices.") for number in range(9)]
    points.append(SummaryPoint(Section.ASKED, "Write the manual of the proxy."))
    kept = recent.choose_points(points, 170)
    assert kept[-1] == points[-1]
    assert 1 < len(kept) < 6
    assert recent.choose_points(points, 3000) == tuple(points)


def test_an_older_entry_keeps_decisions_and_causes_before_requests():
    asked = [f"Please read the log of depot {number} and tell me what it says." * 2 for number in range(4)]
    found = [f"The log of depot {number} has {number}00 lines in nine files." * 2 for number in range(4)]
    text = "\n".join((
        "### Asked", *(f"- {one}" for one in asked), "- Tell Marek.", "### Decided", "- The keys are in Postgres.",
        "### Found out", *(f"- {one}" for one in found), "- Redis drops keys, because its memory is full.",
    ))  # fmt: skip
    points = parse_points(text).points
    told = [one.text for one in recent.choose_points(points, 300, is_newest=False)]
    assert {"The keys are in Postgres.", "Redis drops keys, because its memory is full."} <= set(told)
    assert "Tell Marek." in [one.text for one in recent.choose_points(points, 300)]


def test_an_older_entry_loses_its_files_first_and_a_decision_last():
    decided = [f"Rule {number}: the gateways keep their toolchain, so nothing is bumped." for number in range(4)]
    asked = [f"Tell Marek about gateway {number}." for number in range(2)]
    text = "\n".join((
        "### Asked", *(f"- {one}" for one in asked), "### Decided", *(f"- {one}" for one in decided),
        "### State at the end", f"- {'52 tests pass. ' * 6}", "### Files changed", "- `gateway.py`, `rules.py`",
    ))  # fmt: skip
    points = parse_points(text).points
    told = [one.text for one in recent.choose_points(points, 380, is_newest=False)]
    assert set(decided) <= set(told)
    assert "`gateway.py`, `rules.py`" not in told
    assert asked[0] in told
    assert "`gateway.py`, `rules.py`" in [one.text for one in recent.choose_points(points, 380)]


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
    data = recent.write_file(sessions, 3, 500)
    file = recent.parse(data)
    assert recent.render(file) == data
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


# --- what others wrote ---


def test_an_entry_of_another_stays_in_its_place_by_date():
    old = b"# RECENT\n\n## Session 2025-10-03 night\n\nby hand\n\n## Mine\n\nalso by hand\n"
    newest, oldest = past(parse_points(TEXT), "new"), past(parse_points(TEXT), "old", at=AT - timedelta(days=9))
    file = recent.write_file([newest, oldest], 3, 500, old, known={"new", "old"})
    assert [entry.raw.splitlines()[0] for entry in recent.parse(file).entries] == [
        b"## Session 2025-10-04 afternoon (2.5h)",
        b"## Session 2025-10-03 night",
        b"## Session 2025-09-25 afternoon (2.5h)",
    ]
    assert recent.write_file([newest, oldest], 3, 500, file, known={"new", "old"}) == file


def test_a_sparse_entry_replaces_no_rich_one_and_an_edited_one_stays_while_nothing_is_new():
    rich = recent.write_file([past(parse_points(TEXT))], 3, 500)
    sparse = past(parse_points("### Asked\n- Move the page.\n### Files changed\n- `a.py`"))
    assert recent.write_file([sparse], 3, 500, rich, known={"9e953218"}) == rich
    edited = rich.replace(b"because the build server", b"since the old build server")
    for unchanged, stays in (({"9e953218"}, True), (set(), False)):
        new = recent.write_file([past(parse_points(TEXT))], 3, 500, edited, known={"9e953218"}, unchanged=unchanged)
        assert (b"since the old build server" in new) is stays


def test_a_question_asked_on_the_way_is_left_out_and_one_that_ends_the_session_stays():
    asked = ["Move the page.", "Does this page help?", "这个页面有用吗？", "Is it on main?"]  # noqa: RUF001
    kept = recent.choose_points([SummaryPoint(Section.ASKED, text) for text in asked], 600)
    assert [point.text for point in kept] == [asked[0], asked[-1]]


@pytest.mark.parametrize(
    "answer", ["Yes, but never touch production!", "Take the plain one of both, and do it on Monday. " * 4]
)
def test_the_question_of_a_long_answer_is_cut_and_the_answer_is_not(answer):
    told = f"{answer.strip()} (asked: {'Shall I move the depot of Riga to Lisbon? ' * 5})"
    (kept,) = recent.choose_points([SummaryPoint(Section.DECIDED, told)], 600)
    assert kept.text.startswith(f"{answer.strip()} (asked: Shall I")
    assert kept.text.endswith("…)")
    assert len(kept.text) <= recent.LONGEST


def test_a_short_question_behind_an_answer_that_is_cut_stays_whole():
    told = f"{'Take the plain one of both, and do it on Monday. ' * 9}(asked: Which depot?)"
    (kept,) = recent.choose_points([SummaryPoint(Section.DECIDED, told)], 600)
    assert kept.text.endswith("Monday. (asked: Which depot?)")
