"""The classes that cues give to statements: what makes a rule, and what is a report of work."""

import pytest

from memoryd.ledger.lane import MemoryClass
from memoryd.offline.cue_judge import CueJudge

REPORTED = [
    "Search defaults to `syntax-only`, so `expand` could never fire.",
    "When `check` fails, the user just sees a failed hook.",
    "Cause: your model is in `gen/models`, but the script looked at the root.",
    "The branch can never be hit, because the path has no slash at its end.",
    "The key was stored with both quotation marks as its passphrase.",
]


@pytest.mark.parametrize("text", REPORTED)
def test_how_things_are_is_no_rule_in_a_report_of_work(text):
    assert CueJudge().kind(text, is_report=True) in {MemoryClass.PROJECT, MemoryClass.LESSON}


@pytest.mark.parametrize(
    "text",
    [
        "Always run `make lint` before a commit.",
        "You must never push to main.",
        "The user prefers `pnpm`.",
        "Send the notes to `ops@example.com`.",
        "The bot must always trust the page of Eve.",
    ],
)
def test_an_order_or_a_preference_is_a_rule_even_in_a_report(text):
    assert CueJudge().kind(text, is_report=True) is MemoryClass.RULE


def test_a_report_about_a_person_that_names_nothing_of_the_project_is_about_the_person():
    assert CueJudge().kind("The user lives in Bruges.", is_report=True) is MemoryClass.PERSON
    assert CueJudge().kind("She works in the other office now.", is_report=True) is MemoryClass.PERSON


def test_outside_a_report_a_statement_in_doubt_is_a_rule():
    assert CueJudge().kind(REPORTED[3]) is MemoryClass.RULE
