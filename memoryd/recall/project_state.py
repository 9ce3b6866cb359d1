"""Render the state of a project in a few lines: the last requests, the state of the work and the open points.

The lines come from the summary of the last session. For the time since its last sleep, they come from the last requests
and the last answer. These may repeat a page, so foreign tokens are replaced (`ledger/foreign.py`). Open points matter
most to the next session, so other sentences of the answer are cut first. What the last session does not tell comes from
earlier sessions, with its date.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import NamedTuple

from memoryd.ledger import unfinished
from memoryd.recall.injection import TOP, Part
from memoryd.text import prose
from memoryd.text.neutral import neutralize
from memoryd.tiers.session_summary import Section, SessionSummary, SummaryPoint, state_key

ASKED = 3  # the number of last requests that are quoted
CHARACTERS = 700  # the most characters of all lines together
LINE_CHARACTERS = 280  # the most characters of a line, except the answer
ANSWER_CHARACTERS = 360
OPEN_CHARACTERS = 240  # the most characters of the open points, if the answer is too long
UNWRITTEN = "not in a daily file yet"
_READ = (Section.STATE, Section.OPEN, Section.FILES)
# What stays true if a later session edits files, and what shows that a session has changed the work.
_LASTING = frozenset({"Branch", "Last commit", "Pull request", "Pushed"})
_MOVING = frozenset({"Last commit", "Pull request", Section.FILES})
_NAMED = re.compile(r"(?:Branch|Last commit|Pull request): `?([^\s`]+)`?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")  # noqa: RUF001
_ENDS = ".!?:;。！？"  # noqa: RUF001


class SpokenMessage(NamedTuple):
    """Hold one message of a session, and whether the user wrote it."""

    by_user: bool
    text: str


class _MessageText(NamedTuple):
    text: str  # a sentence of an answer
    is_left: bool  # it is about an open point or the state of the work


class LastSession(NamedTuple):
    """Hold what the database has about a project's last session."""

    id: str
    program: str | None  # the agent program; None if the transcript does not name it
    last: datetime  # local time of the last message
    summary: SessionSummary
    spoken: Sequence[SpokenMessage]  # last requests and answers since its last sleep, in order
    remove_foreign: Callable[[str], str]  # replaces tokens that only outside text has


def make_part(session: LastSession, today: date, before: Sequence[tuple[date, SessionSummary]] = ()) -> Part | None:
    """Return the state in which a session left its project, for an injection; None if it has nothing to show.

    `before` are the sessions before it, newest first, each with the day of its end.
    """
    new, (answer, is_left) = _list_new_requests(session), _read_last_answer(session)
    asked = [_cut(one, LINE_CHARACTERS) for one in (*session.summary.texts(Section.ASKED)[-1:], *new)][-ASKED:]
    earlier, last = [f"Asked: {one}" for one in asked[:-1]], [f"Last request: {one}" for one in asked[-1:]]
    left = [f"Last answer: {answer}"] if answer else []
    for one in _list_points(((session.last.date(), session.summary), *before), is_left=is_left):
        left += [] if _is_named(one, left) else [_cut(one, LINE_CHARACTERS)]
    room, kept = CHARACTERS, set[str]()
    for line in (*last, *left, *reversed(earlier)):
        if len(line) <= room:
            room -= len(line)
            kept.add(line)
    if not any((*asked, answer, *session.summary.texts(Section.STATE), *session.summary.texts(Section.OPEN))):
        return None
    when = (session.last.strftime("%Y-%m-%d"), _count_days(session.last, today))
    told = filter(None, (*when, session.program, UNWRITTEN if new or answer else None))
    lines = "\n".join(f"- {line}" for line in (*earlier, *last, *left) if line in kept)
    name = f"State of this project ({', '.join(told)})"
    return Part(name, lines, whole=f"session:{session.id}", plain=frozenset({TOP}))


def _list_points(ended: Sequence[tuple[date, SessionSummary]], *, is_left: bool) -> Iterator[str]:
    """Yield the state of the work and the open points, as far as no later session contradicts them.

    Args:
        ended: the sessions, newest first.
        is_left: whether the last answer tells what is left; then it stands for the state of the last session.
    """
    keys = {Section.FILES, Section.OPEN, *dict(_read_points(ended[0][1]))} if is_left else set[str]()
    branch = None  # of the last session that worked; the usual branch is not in a summary
    for day, summary in ended:
        points = _read_points(summary)
        texts = {key: one.text for key, one in points}
        here = texts.get("Branch", "")
        if branch is None and texts.keys() - {Section.OPEN}:
            branch = here
        for key, one in points:
            is_other = one.section is Section.STATE and here != branch
            is_over = key in {Section.FILES, *keys} or (key not in _LASTING and not _MOVING.isdisjoint(keys))
            if not (is_other or is_over):
                yield _label_open(one) if day == ended[0][0] else f"{_label_open(one)} ({day})"
        keys |= texts.keys()


def _read_points(summary: SessionSummary) -> list[tuple[str, SummaryPoint]]:
    """Return the points about state, open points and files, each with its key or its section."""
    points = (one for section in _READ for one in summary.points if one.section is section)
    return [(state_key(one) or one.section, one) for one in points]


def _is_named(point: str, before: Sequence[str]) -> bool:
    """Return True if the point is a branch, a commit or a pull request that one of the lines already names."""
    names = _NAMED.match(point)
    named = re.compile(rf"(?<![\w/.-]){re.escape(names[1])}(?![\w/-])") if names else None
    return named is not None and any(map(named.search, before))


def _list_new_requests(session: LastSession) -> list[str]:
    said = [one.text for one in session.spoken if one.by_user and neutralize(one.text)]
    return [neutralize(session.remove_foreign(text)) for text in said[-ASKED:]]


def _read_last_answer(session: LastSession) -> tuple[str, bool]:
    answers = (_read(session.remove_foreign(one.text)) for one in reversed(session.spoken) if not one.by_user)
    return next((found for found in answers if found[0]), ("", False))


def _count_days(last: datetime, today: date) -> str:
    days = (today - last.date()).days
    return f"{days} days ago" if days > 1 else "yesterday" if days == 1 else f"today {last:%H:%M}"


def _label_open(point: SummaryPoint) -> str:
    is_plain = point.section is Section.OPEN and not unfinished.find_label(point.text)
    return f"Open: {point.text}" if is_plain else point.text


def _read(answer: str) -> tuple[str, bool]:
    """Return the part of an answer to inject, and True if the answer says something about the state of the work."""
    told = _split_texts(answer)
    whole, is_left = _join_plain(told), any(one.is_left for one in told)
    if len(whole) <= ANSWER_CHARACTERS:
        return whole, is_left
    left = _cut(_join_plain([one for one in told if one.is_left]), OPEN_CHARACTERS)
    rest = _cut(_join_plain([one for one in told if not one.is_left]), ANSWER_CHARACTERS - len(left) - 3)
    return neutralize(f"{rest} {left}"), is_left


def _split_texts(text: str) -> list[_MessageText]:
    told = []
    is_list = False  # a line that is only a label introduces open points
    for line in prose.list_lines(unfinished.with_labels(text)):
        is_open = is_list
        for sentence in _SENTENCE.split(line):
            is_open = is_open or unfinished.find_label(sentence) is not None
            item = f"{sentence};" if is_list and sentence[-1:] not in _ENDS else sentence
            told.append(_MessageText(item, is_open or unfinished.is_left(sentence)))
            is_list = is_list or unfinished.is_label(sentence)
    return told


def _join_plain(told: Sequence[_MessageText]) -> str:
    return neutralize(" ".join(one.text for one in told)).removesuffix(";")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"
