"""Memory files as an agent is told them: only what the start of a session has a use for, each line with its number."""

from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.recall.injection import Budget, render
from memoryd.recall.memory_files import find_newest, make_daily, make_recent, remove_bullets

RECENT = """# RECENT - Last 3 Sessions

## Session 2025-10-04 afternoon (12.9h)

**Focus**:
- Move the page.
- Set up rewrites.

**Key decisions**:
- [x] The URL is HTTPS.

**Discoveries**: none

**State**: Branch main. Nothing is pushed.

**Files**:
- `next.config.js`
- `vercel.json`

**Tasks**: 7 of 7 done.

**Link**: [Full details](MEMORY-2025-10-04.md#session-9e953218)

## Session 2025-09-29 evening (0.1h)

**Focus**: Add a margin.

**Files**: `tokenizer.css`

**Link**: [Full details](MEMORY-2025-09-29.md#session-4379d1bf)

## Session 2025-09-28 evening (0.1h)

**Files**: `tokenizer.css`
"""
DAILY = """# Daily Memory: 2026-03-04

## Session Notes (09:30)

From Claude Code, 09:12-09:30, session:9e953218-aaaa-bbbb

### Decided
- The URL is HTTPS.
### Files changed
- `next.config.js`

## Trimmed Context (10:00)

From Codex, 10:00, session:4379d1bf-cccc

### Found out
- Rewrites need a path.

## Note (11:00)

- Call Marek.
### Files changed

# Ideas

- A boat.
"""


def lines(part):
    return [line for line in part.text.split("\n") if line]


def test_of_a_line_that_was_forgotten_nothing_is_told():
    text = RECENT.replace("The URL is HTTPS.", "[forgotten].")
    assert "forgotten" not in make_recent(text, lambda _: True).text


def test_of_recent_what_was_asked_decided_found_and_left_is_told():
    part = make_recent(RECENT, lambda _name: True)
    assert lines(part) == [
        "## Session 2025-10-04 afternoon (12.9h)", "**Focus**:", "- Move the page.", "- Set up rewrites.",
        "**Key decisions**:", "- The URL is HTTPS.", "**State**: Branch main. Nothing is pushed.",
        "**Tasks**: 7 of 7 done.", "## Session 2025-09-29 evening (0.1h)", "**Focus**: Add a margin.",
    ]  # fmt: skip
    assert part.text.split("\n").index("**Tasks**: 7 of 7 done.") == RECENT.split("\n").index("**Tasks**: 7 of 7 done.")
    assert not part.newest_last
    fewer = make_recent(RECENT, lambda name: name != "9e953218")
    assert lines(fewer)[0] == "## Session 2025-09-29 evening (0.1h)"


def test_of_a_day_the_blocks_are_told_with_short_ids():
    part = make_daily("memory/2026-03-04.md", DAILY, lambda _name: True)
    assert lines(part) == [
        "## Session Notes (09:30)", "From Claude Code, 09:12-09:30, session:9e953218", "### Decided",
        "- The URL is HTTPS.", "## Trimmed Context (10:00)", "From Codex, 10:00, session:4379d1bf", "### Found out",
        "- Rewrites need a path.", "## Note (11:00)", "- Call Marek.", "# Ideas", "- A boat.",
    ]  # fmt: skip
    told = render([], [], [make_recent(RECENT, lambda _name: True), part], Budget(9999, 9999), lambda t: [*map(len, t)])
    assert told.text.count("The URL is HTTPS.") == 1
    assert "Session Notes" not in told.text, "nothing is left below it"
    fewer = make_daily("memory/2026-03-04.md", DAILY, lambda name: name != "9e953218-aaaa-bbbb")
    assert lines(fewer)[0] == "## Trimmed Context (10:00)"


def test_the_newest_entry_that_is_told_is_named():
    assert find_newest(RECENT, lambda _name: True) == "9e953218"
    assert find_newest(RECENT, lambda name: name != "9e953218") == "4379d1bf"
    assert find_newest("# RECENT\n", lambda _name: True) == ""


def test_only_bullets_that_are_told_go_and_only_sections_that_are_empty_then():
    text = "## A\r\n\r\n- Told.\r\n\n## B\n\nTold.\n\n## C\n\n#tag\n- Told.\n\n## D\n\n## E\n\n- Kept."
    left = [line for line in remove_bullets(text, {"Told."}).split("\n") if line.strip()]
    assert left == ["## B", "Told.", "## C", "#tag", "## D", "## E", "- Kept."]
    assert remove_bullets("# Memory\n\n## A\n\n- Told.\n", {"Told."}).split("\n") == [""] * 6, "a title says nothing"


pieces = st.sampled_from([*RECENT.splitlines(), *DAILY.splitlines(), "", " ", "```", "\r", "- x", "**State**: y"])


@given(st.lists(pieces | st.text(max_size=40), max_size=30).map("\n".join), st.booleans())
@example("# RECENT - Last 3 Sessions\n- [x] The URL is HTTPS.", False)  # noqa: FBT003
def test_any_text_keeps_the_numbers_of_its_lines_and_gets_no_words(text, is_told):
    for part in (make_recent(text, lambda _name: is_told), make_daily("d", text, lambda _name: is_told)):
        shown = part.text.split("\n")
        assert len(shown) == len(text.split("\n")) == len(remove_bullets(text, {"x"}).split("\n"))
        for new, old in zip(shown, text.split("\n"), strict=True):
            assert new in {"", old, old.replace("- [x] ", "- ", 1)} or (old.startswith(new) and "session:" in new)


def test_what_a_later_line_of_the_day_corrects_is_not_told():
    told = "# Daily Memory: 2026-03-04\n\n## Notes (11:00)\n\n### Asked\n- Call it nightly.\n- Keep the rest.\n"
    later = "\n## Notes (12:00)\n\n### Asked\n- Corrected: Call it nightly.\n- Call it hourly.\n"
    later += "- Corrected: Of before.\n"
    shown = make_daily("memory/2026-03-04.md", told + later, lambda _name: True).text
    lines = [line for line in shown.split("\n") if line.startswith("- ")]
    assert lines == ["- Keep the rest.", "- Call it hourly.", "- Corrected: Of before."]
    assert shown.count("\n") == (told + later).count("\n")
