"""Hand-over: what another session of the same agent was about that no daily file tells yet.

What was asked is quoted from its beginning, since it is the person's. Of the last answer only sentences are told that
report: it may repeat what a page said, so what orders, praises, or speaks for the user is left out, as are addresses
and code. A sleep weighs the whole of it later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger import prose, steering
from memoryd.ledger.neutral import neutral
from memoryd.ledger.taint import without_addresses
from memoryd.recall.injection import Part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

ASKED = 3  # requests that are quoted, the last ones
ASKED_CHARACTERS = 280  # of each
ANSWER_CHARACTERS = 600
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001
_STEERS = (steering.instructs, steering.binds, steering.prefers, steering.triggers, steering.endorses)


class Spoken(NamedTuple):
    """One message of a session."""

    by_user: bool
    text: str


class Other(NamedTuple):
    """A session, and what was said in it since its last sleep."""

    id: str
    program: str | None  # whose session it was, as people call it; None where its transcript does not tell
    first: datetime  # local time of what was said first
    last: datetime
    spoken: Sequence[Spoken]  # in order; of the user's messages and of the answers the last ones


def part(other: Other, today: date) -> Part | None:
    """The hand-over of a session, as part of an injection; None where nobody asked for anything."""
    lines: list[str] = []
    asked, is_answered = 0, False
    for one in reversed(other.spoken):
        if one.by_user and asked < ASKED and (said := neutral(one.text)):
            lines.append(f"- the user asked: {_cut(said, ASKED_CHARACTERS)}")
            asked += 1
        elif not one.by_user and not is_answered and (said := _answered(one.text)):
            lines.append(f"- its last answer: {_cut(said, ANSWER_CHARACTERS)}")
            is_answered = True
    if not asked:
        return None
    who = other.program or "another session"
    name = f"{who}, {times(other.first, other.last, today)}, not in a daily file yet"
    return Part(name, "\n".join(reversed(lines)), newest_last=True, whole=f"session:{other.id}")


def times(first: datetime, last: datetime, today: date) -> str:
    """Say when a session was, on the clock; with the day where that is another."""
    start = first.strftime("%H:%M" if first.date() == today else "%Y-%m-%d %H:%M")
    end = last.strftime("%H:%M" if last.date() == first.date() else "%Y-%m-%d %H:%M")
    return start if start.endswith(end) else f"{start}-{end}"


def _answered(text: str) -> str:
    told = [sentence for line in prose.lines(text) for sentence in _SENTENCE.split(line) if _reports(sentence)]
    return neutral(without_addresses(" ".join(told)))


def _reports(sentence: str) -> bool:
    return not any(steers(sentence) for steers in _STEERS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"
