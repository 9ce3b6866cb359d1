"""Choose the parts of a session's turns that may be remembered, by role and origin, and their form.

The user's typed words come first and whole. The assistant's words come as they were said. Tool output is data from
outside: only short facts are taken from it (the files that an edit changed, the last error of a command, the state of
the work), marked as a report. The last message of a subagent is marked in the same way. The agent's own notes count as
its words if nothing else says the same. Injected text, text of unknown origin and the agent program's own words are
never taken.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, tzinfo

from memoryd.jobs.job import QuotedPiece
from memoryd.jobs.own_notes import find_notes, is_recap
from memoryd.jobs.pieces import Piece, piece_of_text, piece_of_turn
from memoryd.jobs.reports import CHANGED, FAILED, Reports
from memoryd.jobs.work_state import STATE
from memoryd.ledger.lane import Lane
from memoryd.text import prose
from memoryd.text.sentences import split
from memoryd.text.voice import keep_own_words
from memoryd.transcripts.turn import SPOKEN, Origin, Role, StoredTurn, TurnKind

REPORT = "report"  # the origin, in the material, of text that only a tool or a subagent says
NOTE = "note"  # the origin, in the material, of the assistant's own notes, see `own_notes`
# A record's year must be in this range: an unset clock shows 1970, and near the ends of the calendar a time cannot be
# converted to another time zone.
_EARLIEST, _LATEST = 1970, 9000
_FORGED = re.compile(rf"^({CHANGED}|{FAILED}|{STATE})", re.MULTILINE | re.IGNORECASE)
LONGEST_TEXT = 12_000  # characters of one message shown to the model; the middle of a longer one is left out
_LONGEST_OWN = 60_000  # the same limit for the typed words of a longer message, without its pasted parts


@dataclass(frozen=True, slots=True)
class SleepEvidence:
    """Hold the material for the questions of a sleep, with counts."""

    material: tuple[QuotedPiece, ...] = ()
    pieces: tuple[Piece, ...] = ()  # the same material with its sentences
    said_words: int = 0  # words that people and the assistant said, without code
    counts: dict[str, int] = field(default_factory=dict)  # turns used and left out, by origin


def gather(
    turns: Sequence[StoredTurn],
    folder: str | None,
    tz: tzinfo,
    earlier: Sequence[StoredTurn] = (),
    branch: str | None = None,
) -> SleepEvidence:
    """Return the evidence of `turns`.

    Args:
        turns: the turns to sleep on.
        folder: the working folder; paths inside it are shown relative to it.
        tz: the time zone of the times that are shown.
        earlier: the turns of the session before these. The state of the work lists only changes since them, and notes
            only statements that they do not have.
        branch: the branch that the transcript names, if it names one.
    """
    reports = Reports(turns, folder, earlier, branch)
    notes = find_notes(turns, earlier)
    last_of_subagents = _last_words(turns)
    counts: Counter[str] = Counter()
    material: list[QuotedPiece] = []
    pieces: list[Piece] = []
    words = 0
    before: StoredTurn | None = None  # the assistant's last message
    spoken = _list_spoken(turns)
    asked = [turn.seq for turn in turns if is_said(turn) and turn.origin is Origin.USER]
    edits = sorted(reports.edits)
    for turn in turns:
        # A subagent's line must not look like a fact that memoryd found itself.
        report = _FORGED.sub(r"- \1", _shorten(turn.text)) if turn.seq in last_of_subagents else reports.fact(turn)
        told = _quote(turn, report, tz, origin=REPORT) if report else None
        quoted = quote(turn, tz) if turn.seq in spoken else told
        if note := _shorten(notes.get(turn.seq, "")):
            quoted = _quote(turn, f"{report}\n\n{note}" if report else note, tz, origin=NOTE)
        counts[f"{'taken' if quoted else 'aside'}.{turn.origin.value}"] += 1
        if quoted:
            material.append(replace(quoted, is_acted_on=_is_between(edits, turn.seq, asked)))
            pieces.append(piece_of(quoted, turn, before))
            words += sum(map(prose.count_words, prose.list_lines(quoted.text))) if quoted.origin != REPORT else 0
        if is_said(turn):
            before = turn if turn.origin is Origin.ASSISTANT else None
    return SleepEvidence(tuple(material), tuple(pieces), words, dict(sorted(counts.items())))


def piece_of(quoted: QuotedPiece, turn: StoredTurn, before: StoredTurn | None) -> Piece:
    """Return a turn in its shown form with its sentences; text that only a tool reports gets the lane `outside`."""
    if quoted.origin == REPORT:
        found = piece_of_text(quoted.id, quoted.text, Lane.OUTSIDE, "tool", quoted.at or "", turn.at or "")
        return replace(found, seq=turn.seq)
    if quoted.origin == NOTE and quoted.text.startswith(CHANGED):
        found = piece_of_turn(turn, quoted.text, quoted.at or "")
        facts = len(split(quoted.text.partition("\n\n")[0]))
        outside = (replace(line, lane=Lane.OUTSIDE, speaker="tool") for line in found.lines[:facts])
        return replace(found, lines=(*outside, *found.lines[facts:]))
    return piece_of_turn(turn, quoted.text, quoted.at or "", before)


def parse_moment(at: str | None) -> datetime | None:
    """Return a record's time as an aware datetime, or None if it cannot be the time of a message."""
    try:
        parsed = datetime.fromisoformat(at) if at else None
    except ValueError:
        return None
    if parsed is None or not _EARLIEST <= parsed.year <= _LATEST:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def map_days(material: Sequence[QuotedPiece], today: date) -> dict[str, date]:
    """Return the local day of each piece, by its id; a piece without a time counts as said today."""
    return {one.id: date.fromisoformat(one.at[:10]) if one.at else today for one in material}


def is_said(turn: StoredTurn) -> bool:
    """Return True if the user or the assistant said `turn` in the main conversation."""
    spoken = turn.role in {Role.USER, Role.ASSISTANT} and turn.origin in {Origin.USER, Origin.ASSISTANT}
    return spoken and turn.kind in SPOKEN and not turn.sidechain and bool(turn.text.strip())


def _list_spoken(turns: Sequence[StoredTurn]) -> set[int]:
    """Return the numbers of the messages, and of a recap if it is the last text; earlier recaps are outdated."""
    said = {turn.seq for turn in turns if is_said(turn)}
    return said | {turn.seq for turn in turns if is_recap(turn) and turn.seq > max(said, default=0)}


def _is_between(numbers: Sequence[int], first: int, ends: Sequence[int]) -> bool:
    """Return True if a number comes after `first` and before the next item of `ends`, if there is one.

    Both lists are ascending.
    """
    following, end = bisect_right(numbers, first), bisect_right(ends, first)
    return following < len(numbers) and (end == len(ends) or numbers[following] < ends[end])


def quote(turn: StoredTurn, tz: tzinfo) -> QuotedPiece:
    """Return a turn of the user or the assistant as material, a very long one shortened; times in `tz`."""
    return _quote(turn, _shorten_said(turn), tz, origin=turn.origin.value)


def _quote(turn: StoredTurn, text: str, tz: tzinfo, *, origin: str) -> QuotedPiece:
    at = parse_moment(turn.at)
    local = at.astimezone(tz).isoformat(timespec="minutes") if at else None
    role = turn.role if origin != REPORT or turn.role is not Role.USER else Role.ASSISTANT
    role = Role.ASSISTANT if origin in {NOTE, Origin.ASSISTANT.value} else role
    return QuotedPiece(f"t{turn.seq}", role.value, origin, local, text)


def _shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]}\n…\n{text[-longest // 2 :]}"


def _shorten_said(turn: StoredTurn) -> str:
    """Return the text of a turn, shortened if it is long.

    From a long text of the user, pasted parts are removed whole. A cut through the middle could remove only the mark
    that shows a part as pasted.
    """
    is_long = len(turn.text) > LONGEST_TEXT and turn.origin is Origin.USER
    return _shorten(keep_own_words(turn.text).strip(), _LONGEST_OWN) if is_long else _shorten(turn.text)


def _last_words(turns: Sequence[StoredTurn]) -> set[int]:
    """Return the numbers of the turns with a subagent's report.

    A report is a subagent's text that a tool call of the main conversation returned unchanged, or the last text of a
    stretch of subagent turns.
    """
    returned = {turn.text for turn in turns if turn.kind is TurnKind.TOOL_RESULT and not turn.sidechain}
    last: set[int] = set()
    held: int | None = None
    for turn in turns:
        if turn.origin is Origin.SUBAGENT:
            if turn.kind is TurnKind.MESSAGE and turn.role is Role.ASSISTANT and turn.text.strip():
                held = turn.seq
                last |= {held} if turn.text in returned else set()
        elif is_said(turn) and held is not None:
            last.add(held)
            held = None
    return last | ({held} if held is not None else set())
