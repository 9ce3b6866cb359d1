"""One question for a sleep and the facts of its turns: what each makes of its part is what it makes of it alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs import facts, job, joint, sleep
from memoryd.jobs.claims import Judges
from memoryd.jobs.job import AppendDaily, Ask, Done, EditFacts, MoveWatermark, NothingToDo, RejectedReply, Reply, drive
from memoryd.jobs.reader import UNREAD
from memoryd.offline.cue_judge import CueJudge
from memoryd.tiers import daily
from memoryd.transcripts.turn import Origin, Role, StoredTurn, TurnKind

NOW = datetime(2025, 3, 9, tzinfo=UTC)


def turn(seq, text, role="user"):
    return StoredTurn(seq, f"r{seq}", 0, Role(role), Origin(role), TurnKind.MESSAGE, text, "2025-03-04T10:00:00Z", 0,
                      False, None, None)  # fmt: skip  # noqa: FBT003


TALK = (
    turn(1, "I prefer pytest over unittest. My manager Ben lives in Bergen."),
    turn(2, "Noted. The suite runs with pytest, because the fixtures need it.", "assistant"),
    turn(3, "Rename the runner to nightly today, please."),
    turn(4, "The runner is called nightly now.", "assistant"),
)
SUMMARY = """[SUMMARY]
### Found out
- [t2.2] The suite runs with pytest, because the fixtures need it.
### Open and next step
- [t3.1] Rename the runner to nightly.
[MEMORIES]
"""
LEARNED = {
    "new": [
        {"content": "I prefer pytest.", "category": "preference", "confidence": 0.9, "cites": ["t1.1"]},
        {"content": "Wants it renamed at noon.", "category": "goal", "confidence": 0.9, "cites": ["t3.1"]},
    ],
    "profile": {"work": {"text": "My manager Ben lives in Bergen.", "cites": ["t1.2"]}},
}
WHOLE = f"{SUMMARY}[FACTS]\n{json.dumps(LEARNED)}"


def of_sleep(turns=TALK, **more):
    made = sleep.SleepInputs(
        agent_id="demo", session_id="sess_1", folder="/work", reason="Session Notes", turns=tuple(turns),
        live=tuple(turns), previous_summary=None, core=(), daily="", window=2000, budget=0.25, keep_recent=10,
        strategy="hybrid", tz=UTC, count_tokens=lambda texts: [len(text) // 4 for text in texts], now=NOW,
        instructions="SLEEP", judges=Judges(CueJudge()), daily_share=1.0, program="Codex",
    )  # fmt: skip
    return replace(made, **more)


def of_facts(turns=TALK, **more):
    made = facts.FactsInputs(
        agent_id="demo", session_id="sess_1", turns=tuple(turns), earlier=(), folder="/work", program="Codex",
        known=(), said_at={}, profile={}, tombstones={}, core=(), daily="", min_confidence=0.5, drain=True, tz=UTC,
        now=NOW, instructions="FACTS", judges=Judges(CueJudge()),
    )  # fmt: skip
    return replace(made, **more)


def both(slept=None, learned=None):
    return joint.JointInputs(slept or of_sleep(), learned or of_facts(), "JOINT")


def run(steps, text):
    """Answer the job's own question with this, and nobody reads claims; return the questions and the end."""
    asked: list[Ask] = []

    def answer(ask):
        asked.append(ask)
        return Reply("", "stop", UNREAD) if ask.job in {"verify", "repair"} else Reply(text, "stop", "test", None, 7, 3)

    return asked, drive(steps, answer)


def alone(inputs, text):
    return run((sleep if isinstance(inputs, sleep.SleepInputs) else facts).decide(inputs), text)[1]


def without_blocks(step):
    return [edit for edit in step.edits if not isinstance(edit, AppendDaily)]


def test_the_conversation_is_shown_once_and_both_jobs_end_as_they_do_alone():
    asked, end = run(joint.decide(both()), WHOLE)
    assert isinstance(end, Done)
    assert [one.id for one in asked[0].material] == ["t1", "t2", "t3", "t4"]
    assert asked[0].instructions == "SLEEP\n\nJOINT\n\nFACTS"
    slept, learned = alone(of_sleep(), SUMMARY), alone(of_facts(), json.dumps(LEARNED))
    assert without_blocks(end) == [*without_blocks(slept), *without_blocks(learned)]
    assert [edit.consumer for edit in end.edits if isinstance(edit, MoveWatermark)] == ["sleep", "facts"]
    assert end.claims == (*slept.claims, *learned.claims)
    assert end.receipt["claims"] == slept.receipt["claims"]
    assert end.receipt["facts"]["claims"] == learned.receipt["claims"]
    assert end.receipt["summarize"]["tokens_in"] == 7
    assert "reply" not in end.receipt["facts"]
    assert end.receipt["cites"] == {**learned.receipt["cites"], **slept.receipt["cites"]}


def test_what_is_not_meant_to_last_stands_in_the_one_block_of_the_day_before_its_sections():
    _, end = run(joint.decide(both()), WHOLE)
    (block,) = [edit for edit in end.edits if isinstance(edit, AppendDaily)]
    lines = block.body.split("\n")
    assert lines[:3] == ["From Codex, 10:00, session:sess_1", "- User: Rename the runner to nightly today, please.", ""]
    assert lines[3] == "### Found out"
    assert daily.parse(daily.block(block.reason, block.clock, block.body))


def test_what_the_sleep_writes_the_facts_do_not_write_again():
    line = "- [t3.1] Rename the runner to nightly today, please.\n"
    _, end = run(joint.decide(both()), WHOLE.replace("- [t3.1] Rename the runner to nightly.\n", line))
    (block,) = [edit for edit in end.edits if isinstance(edit, AppendDaily)]
    assert block.body.count("Rename the runner") == 1


@pytest.mark.parametrize("told", ["", "[FACTS]", "[FACTS]\nnone", '[FACTS]\n{"new": [', "[FACTS]\n[]"])
def test_a_reply_without_usable_facts_is_a_reply_to_the_sleep(told):
    _, end = run(joint.decide(both()), SUMMARY + told)
    assert end == replace(alone(of_sleep(), SUMMARY), receipt=end.receipt)
    assert not any(isinstance(edit, MoveWatermark) and edit.consumer == "facts" for edit in end.edits)


def test_facts_that_are_all_made_up_leave_the_watermark_of_the_facts():
    made_up = {"new": [{"content": "Owns 7 llamas.", "category": "context", "confidence": 0.9, "cites": ["t4"]}]}
    _, end = run(joint.decide(both()), f"{SUMMARY}[FACTS]\n{json.dumps(made_up)}")
    assert [edit.consumer for edit in end.edits if isinstance(edit, MoveWatermark)] == ["sleep"]


def test_a_rejected_sleep_takes_no_facts():
    _, end = run(joint.decide(both()), WHOLE.replace("t2.2", "t99").replace("t3.1", "t99"))
    assert isinstance(end, RejectedReply)


def test_facts_are_kept_where_the_sleep_has_nothing_to_say():
    _, end = run(joint.decide(both()), f"[NOTHING]\n[FACTS]\n{json.dumps(LEARNED)}")
    assert isinstance(end, Done)
    assert [len(edit.learned) for edit in end.edits if isinstance(edit, EditFacts)] == [1]
    _, end = run(joint.decide(both()), '[NOTHING]\n[FACTS]\n{"new": []}')
    assert isinstance(end, NothingToDo)
    assert [edit.consumer for edit in end.edits] == ["sleep", "facts"]


def test_without_facts_that_are_due_the_sleep_is_asked_as_ever():
    for inputs in (joint.JointInputs(of_sleep()), both(learned=of_facts(()))):
        asked, end = run(joint.decide(inputs), SUMMARY)
        assert asked[0] == job.first_of(sleep.decide(of_sleep()))
        assert end == alone(of_sleep(), SUMMARY)


def test_facts_that_were_extracted_in_between_are_asked_for_from_there():
    asked, end = run(joint.decide(both(learned=of_facts(TALK[2:]))), WHOLE)
    assert dict(asked[0].context)["facts from"] == "t3"
    assert not [edit for edit in end.edits if isinstance(edit, EditFacts)]  # t1 was not asked about


def test_the_program_is_told_once():
    asked, _ = run(joint.decide(both(learned=of_facts(program="Codex"))), WHOLE)
    assert [text for name, text in asked[0].context if name == "agent"] == ["Codex"]


def test_facts_that_lag_behind_are_shown_what_the_sleep_has_seen_already_where_that_is_less():
    asked, _ = run(joint.decide(both(of_sleep(TALK[1:]))), WHOLE)
    assert [one.id for one in asked[0].material] == ["t1", "t2", "t3", "t4"]
    assert dict(asked[0].context)["summary from"] == "t2"
    asked, _ = run(joint.decide(both(of_sleep(TALK[3:]))), SUMMARY.replace("t2.2", "t4"))
    assert [one.id for one in asked[0].material] == ["t4"]
    assert asked[0].instructions == "SLEEP"


def test_a_space_at_the_end_of_a_message_does_not_part_the_questions():
    spaced = (turn(1, "I prefer pytest over unittest,  \n"), *TALK[1:])
    asked, _ = run(joint.decide(both(of_sleep(spaced), of_facts(spaced))), SUMMARY)
    assert asked[0].instructions.startswith("SLEEP\n\n")


def test_texts_that_the_two_jobs_show_differently_are_asked_about_apart():
    upload = (turn(1, "<uploaded_files>\na.pdf\n</uploaded_files>\nI prefer pytest over unittest."), *TALK[1:])
    asked, _ = run(joint.decide(both(of_sleep(upload), of_facts(upload))), SUMMARY)
    assert asked[0].instructions == "SLEEP"


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE.replace("\n", "\r\n"),
        f"```\n{WHOLE}\n```",
        WHOLE.replace("[FACTS]\n", "**[facts]:**\n\n```json\n") + "\n```",
        WHOLE.replace("[FACTS]\n", "[FACTS] "),
        f"[FACTS]\n{json.dumps(LEARNED, indent=1)}\n{SUMMARY}",
        WHOLE.replace("[FACTS]", '[FACTS]\n{"new": []}\n[FACTS]'),
    ],
)
def test_what_models_do_to_the_parts_without_harm(text):
    _, end = run(joint.decide(both()), text)
    assert [edit.learned[0].content for edit in end.edits if isinstance(edit, EditFacts)] == [TALK[0].text]
    assert sum(edit.body.count("### ") for edit in end.edits if isinstance(edit, AppendDaily)) == 2


@given(st.lists(st.sampled_from(["[SUMMARY]", "[FACTS]", "[MEMORIES]", "- [t1] a", '{"new": []}', "```", "x", ""])))
def test_no_mixture_of_lines_raises(lines):
    _, end = run(joint.decide(both()), "\n".join(lines))
    assert isinstance(end, Done | NothingToDo | RejectedReply)


def test_the_replies_to_parts_are_one_with_facts_only_where_each_has_them():
    def said(text):
        return Reply(text, "stop", "test", None, 10, 2)

    one = said('[SUMMARY]\n- [t1] a\n[FACTS]\n{"new": [{"content": "x", "cites": ["t1"]}]}')
    two = said('[SUMMARY]\n- [t3] b\n[FACTS]\n{"new": [{"content": "y", "cites": ["t3"]}]}')
    whole = joint.merge([one, two])
    assert (whole.tokens_in, whole.tokens_out) == (20, 4)
    slept, learned = joint.split_reply(whole)
    assert slept.text.split("\n")[:3] == ["[SUMMARY]", "- [t1] a", "- [t3] b"]
    assert [item["content"] for item in json.loads(learned.text)["new"]] == ["x", "y"]
    for other in ("[SUMMARY]\n- [t3] b", "[SUMMARY]\n- [t3] b\n[FACTS]\nno"):
        assert joint.split_reply(joint.merge([one, said(other)]))[1] is None
    assert joint.merge([one]) == one
    assert isinstance(joint.merge([one, said("no")]), RejectedReply)
