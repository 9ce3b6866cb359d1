"""Second readers that answer by a rule: an honest one, and those that say the same to everything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memoryd.jobs.job import Ask, Reply
from memoryd.jobs.reader import UNREAD
from memoryd.text.content import measure_overlap

if TYPE_CHECKING:
    from collections.abc import Callable

Verdict = str
SAYS_NO = {"support": "not-said", "scope": "unclear", "class": "unclear"}
LAST = {"support": "only-planned", "scope": "unclear", "class": "unclear"}  # of those that CONTRACT §7 lists


def questions_of(ask: Ask) -> list[dict[str, Any]]:
    """Return what a reader is shown in one batch."""
    before, fenced, after = ask.text.split("```")
    assert not before
    assert not after
    found = json.loads(fenced.removeprefix("json"))
    assert isinstance(found, list)
    return found


def reads(judge: Callable[[dict[str, Any]], Verdict]) -> Callable[[Ask], Reply]:
    """Return a reader that answers each question by `judge`."""

    def answer(ask: Ask) -> Reply:
        lines = [json.dumps({"id": one["id"], "verdict": judge(one)}) for one in questions_of(ask)]
        return Reply("\n".join(lines), "stop", "openai", "reader-1")

    return answer


def unread(_: Ask) -> Reply:
    """Answer as if there is no fit reader."""
    return Reply("", "stop", UNREAD)


def honest(question: dict[str, Any]) -> Verdict:
    """Support what has most of its words in its evidence, and take each quotation for one that stands."""
    if question["ask"] != "support":
        return {"scope": "standing", "class": "project"}[question["ask"]]
    if measure_overlap(question["claim"], " ".join(line["text"] for line in question["evidence"])) < 0.6:
        return "not-said"
    return "newer-value" if question.get("replaces") else "supported"


def says_yes(question: dict[str, Any]) -> Verdict:
    """Agree with everything, the decoy too."""
    if question["ask"] == "support":
        return "newer-value" if question.get("replaces") else "supported"
    return {"scope": "standing", "class": "project"}[question["ask"]]


def says_no(question: dict[str, Any]) -> Verdict:
    """Agree with nothing."""
    return SAYS_NO[question["ask"]]


def last_label(question: dict[str, Any]) -> Verdict:
    """Answer with the last verdict that its instructions list."""
    return LAST[question["ask"]]
