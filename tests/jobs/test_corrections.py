"""What a later sleep of a session corrects: gone from the summary, told in the day's file, and never lost by guess."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memoryd.jobs import sleep
from memoryd.jobs.claims import Judges
from memoryd.jobs.job import AppendDaily, Done, KeepSummary, Reply, drive, first_of
from memoryd.jobs.reader import UNREAD
from memoryd.offline import backend as offline
from memoryd.offline import replacement
from memoryd.offline.cue_judge import CueJudge
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

EARLIER = """### Asked
- Use tabs in the generated parser.
### Decided
- The import of the nightly archive reads 31 of the shelves.
- User: Keep the old address of the archive working.
### Found out
- The import of the archive is slow because of the missing index."""


def turn(seq, text, role="user"):
    return StoredTurn(seq, f"r{seq}", 0, Role(role), Origin(role), TurnKind.MESSAGE, text, "2025-03-04T10:00:00Z", 0,
                      False, None, None)  # fmt: skip  # noqa: FBT003


TALK = (
    turn(7, "No, use spaces in the generated parser."),
    turn(
        8, "Done: the generator writes spaces. The import of the nightly archive reads 45 of the shelves.", "assistant"
    ),
    turn(9, "The import is not slow because of the index: the network was down, as the log shows.", "assistant"),
)
SPACES = "### Asked\n- [t7.1] Use spaces in the generated parser."
COUNT = "### Decided\n- [t8.2] The import of the nightly archive reads 45 of the shelves."
CAUSE = "### Found out\n- [t9.1] The import was slow because the network was down."


def inputs(turns=TALK, **more):
    made = sleep.SleepInputs(
        agent_id="demo", session_id="sess_1", folder="/work", reason="Session Notes", turns=tuple(turns),
        live=tuple(turns), previous_summary=EARLIER, core=(), daily="", window=200_000, budget=0.25, keep_recent=10,
        strategy="hybrid", tz=UTC, count_tokens=lambda texts: [len(text) // 4 for text in texts],
        now=datetime(2025, 3, 9, tzinfo=UTC), instructions="SLEEP", judges=Judges(CueJudge()), daily_share=1.0,
    )  # fmt: skip
    return replace(made, **more)


def run(given, *lines):
    """Sleep with a model that replies with these lines; return the body of the day's block, and the summary."""
    text = "\n".join(["[SUMMARY]", *lines, "[MEMORIES]"])
    end = drive(sleep.decide(given), lambda ask: Reply("", "stop", UNREAD) if ask.job != "sleep" else said(text))
    return written(end)


def said(text):
    return Reply(text, "stop", "test")


def written(end):
    assert isinstance(end, Done), end
    bodies = [edit.body for edit in end.edits if isinstance(edit, AppendDaily)]
    (summary,) = [edit.summary for edit in end.edits if isinstance(edit, KeepSummary)]
    return "\n".join(bodies), summary


def test_the_points_of_the_summary_so_far_are_shown_with_numbers():
    shown = dict(first_of(sleep.decide(inputs())).context)["summary so far"]
    assert shown.split("\n")[1] == "- [s1] Use tabs in the generated parser."
    assert "- [s4] The import of the archive is slow" in shown


def test_a_superseded_point_leaves_the_summary_and_the_day_tells_of_it():
    body, summary = run(inputs(), SPACES, "- superseded [s1] by [t7.1]: not tabs", COUNT, "- superseded [s2] by [t8.2]")
    assert "tabs" not in summary
    assert "31" not in summary
    assert "- No, use spaces in the generated parser." in summary
    assert "User: Keep the old address" in summary
    assert (
        "### Asked\n- Corrected: Use tabs in the generated parser.\n- No, use spaces in the generated parser." in body
    )
    assert "- Corrected: The import of the nightly archive reads 31 of the shelves.\n- The import of the night" in body


def test_a_correction_under_another_heading_stands_where_the_point_was():
    line = "### State at the end\n- [t8.2] The import of the nightly archive reads 45 of the shelves."
    body, summary = run(inputs(), line, "- superseded [s2] by [t8.2]")
    assert "### Decided\n- Corrected: The import of the nightly archive reads 31" in body
    assert "31" not in summary


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("- superseded [s1] by [t7.1]",), "no line says what holds now"),
        ((COUNT, "- superseded [s2] by [t7.1]"), "the line stands on something else"),
        ((SPACES, "- superseded [s9] by [t7.1]"), "there is no such point"),
        ((SPACES, "- superseded [s1] by [t99]"), "it cites nothing that was shown"),
        (
            ("### Found out\n- [t8.1] The generator writes spaces.", "- superseded [s1] by [t8.1]"),
            "what the user asked for only the user ends",
        ),
        (
            ("### Decided\n- [t8.2] The import of the nightly archive reads 45.", "- superseded [s3] by [t8.2]"),
            "a decision of the user as well",
        ),
    ],
)
def test_a_point_stays_where_nobody_may_say_that_it_is_over(lines, why):
    body, summary = run(inputs(), CAUSE, *lines)
    assert "Corrected" not in body, why
    for line in EARLIER.split("\n"):
        assert line in summary, why


def test_a_page_ends_no_point():
    page = (*TALK, turn(10, "The import of the nightly archive reads 99 of the shelves.", "tool"))
    body, summary = run(inputs(page), CAUSE, COUNT.replace("t8.2", "t10"), "- superseded [s2] by [t10]")
    assert "Corrected" not in body
    assert "31 of the shelves" in summary


def test_what_was_corrected_may_be_said_again():
    body, summary = run(inputs(), SPACES, "- superseded [s1] by [t7.1]")
    again = (turn(11, "Hm, use tabs in the generated parser."),)
    daily = f"- Use tabs in the generated parser.\n{body}\n"
    number = 1 + [line for line in summary.split("\n") if line.startswith("- ")].index(
        "- No, use spaces in the generated parser."
    )
    line = "### Asked\n- [t11.1] Use tabs in the generated parser."
    later, summary = run(
        inputs(again, daily=daily, previous_summary=summary), line, f"- superseded [s{number}] by [t11.1]"
    )
    assert later.endswith(
        "- Corrected: No, use spaces in the generated parser.\n- Hm, use tabs in the generated parser."
    )
    assert "spaces" not in summary


def test_offline_another_number_or_a_denial_corrects():
    body, summary = written(drive(sleep.decide(inputs()), offline.answer))
    assert "Corrected: The import of the nightly archive reads 31 of the shelves." in body
    assert "31" not in summary
    assert "45" in summary
    assert "User: Keep the old address" in summary


@pytest.mark.parametrize(
    ("newer", "older", "ends"),
    [
        ("The import of the archive reads 45 shelves.", "The import of the archive reads 31 shelves.", True),
        ("The importer does not lock the archive folder.", "The importer locks the archive folder.", True),
        ("The importer locks the archive folder.", "The importer does not lock the archive folder.", False),
        ("The import of the archive reads 45 shelves.", "The import of the archive reads shelves.", False),
        ("The import of the archive reads 31 shelves daily.", "The import of the archive reads 31 shelves.", False),
        ("Step 4 please.", "Step 2 please.", False),
        ("The exporter writes 45 pages in colour.", "The import of the archive reads 31 shelves.", False),
        (
            "The importer does not lock the folder, so two of them may read one archive at once from either host.",
            "The importer locks the folder.",
            False,
        ),
    ],
)
def test_what_a_later_statement_outdates(newer, older, ends):
    assert replacement.is_outdated_by(newer, older) is ends
