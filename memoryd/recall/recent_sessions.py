"""Hand-over: what another session of the same agent was about that no daily file tells yet.

What was asked is quoted from its beginning, since it is the person's, and the last answer as far as it is prose. It may
repeat what a page said, so a token that only outside text brought up is replaced in it (`ledger/foreign.py`). What the
answer calls open is what the next session needs: it is not cut for length before the rest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger import unfinished
from memoryd.recall.injection import Part
from memoryd.text import prose
from memoryd.text.neutral import neutralize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from memoryd.ledger.foreign import Foreign

ASKED = 3  # requests that are quoted, the last ones
ASKED_CHARACTERS = 280  # of each
ANSWER_CHARACTERS = 600
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001
OPEN_CHARACTERS = 400  # of them at most for what is open, where the whole is longer
_ENDS = ".!?:;。！？"  # noqa: RUF001


class SpokenMessage(NamedTuple):
    """One message of a session."""

    by_user: bool
    text: str


class _MessageText(NamedTuple):
    text: str  # a sentence of an answer
    is_left: bool  # it tells what is open, or in what state work was left


class OtherSession(NamedTuple):
    """A session, and what was said in it since its last sleep."""

    id: str
    program: str | None  # whose session it was, as people call it; None where its transcript does not tell
    first: datetime  # local time of what was said first
    last: datetime
    spoken: Sequence[SpokenMessage]  # in order; of the user's messages and of the answers the last ones
    foreign: Foreign  # of all its turns


def make_part(other: OtherSession, today: date) -> Part | None:
    """Return the hand-over of a session, as part of an injection; None where nobody asked for anything."""
    lines: list[str] = []
    asked, is_answered = 0, False
    for one in reversed(other.spoken):
        if (one.by_user and asked == ASKED) or (not one.by_user and is_answered):
            continue
        text = other.foreign.remove_tokens(one.text, other.id)
        if one.by_user and (said := neutralize(text)):
            lines.append(f"- the user asked: {_cut(said, ASKED_CHARACTERS)}")
            asked += 1
        elif not one.by_user and (said := _extract_answer(text)):
            lines.append(f"- its last answer: {said}")
            is_answered = True
    if not asked:
        return None
    who = other.program or "another session"
    name = f"{who}, {render_times(other.first, other.last, today)}, not in a daily file yet"
    return Part(name, "\n".join(reversed(lines)), newest_last=True, whole=f"session:{other.id}")


def render_times(first: datetime, last: datetime, today: date) -> str:
    """Say when a session was, on the clock; with the day where that is another."""
    start = first.strftime("%H:%M" if first.date() == today else "%Y-%m-%d %H:%M")
    end = last.strftime("%H:%M" if last.date() == first.date() else "%Y-%m-%d %H:%M")
    return start if start.endswith(end) else f"{start}-{end}"


def _extract_answer(text: str) -> str:
    told = _split_texts(text)
    whole = _join_plain(told)
    if len(whole) <= ANSWER_CHARACTERS:
        return whole
    left = _cut(_join_plain([one for one in told if one.is_left]), OPEN_CHARACTERS)
    rest = _cut(_join_plain([one for one in told if not one.is_left]), ANSWER_CHARACTERS - len(left) - 3)
    return neutralize(f"{rest} {left}")


def _split_texts(text: str) -> list[_MessageText]:
    told = []
    is_list = False  # a line that is only a label begins what is open
    for line in prose.list_lines(unfinished.with_labels(text)):
        is_open = is_list
        for sentence in _SENTENCE.split(line):
            is_open = is_open or unfinished.find_label(sentence) is not None
            told.append(_MessageText(_item(sentence) if is_list else sentence, is_open or unfinished.is_left(sentence)))
            is_list = is_list or unfinished.is_label(sentence)
    return told


def _item(text: str) -> str:
    return text if text[-1:] in _ENDS else f"{text};"


def _join_plain(told: Sequence[_MessageText]) -> str:
    return neutralize(" ".join(one.text for one in told)).removesuffix(";")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"
