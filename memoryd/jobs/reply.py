"""The grammar of a sleep reply, written once for every backend.

    [SUMMARY]
    - [t3] User: wants the parser to refuse empty input.
    [MEMORIES]
    - preference 0.90 [t12,t15] User: always run the tests before a commit.

Either section may be empty; `[NOTHING]` alone says that nothing was worth keeping. Read with patience for what models
do to a grammar without changing its meaning (letter case, bold, one fence around the whole, CRLF, `*` bullets), and
refused as a whole when it was cut off, refused, empty, or holds no line that can be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoryd.jobs.job import MemoryType, NewMemory, RejectedReply, Reply
from memoryd.jobs.parts import TOO_LONG, find_unusable, merge_replies
from memoryd.text.fences import strip_fence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """Hold one line of the summary and the turns that support it."""

    sources: tuple[int, ...]
    text: str
    cites: tuple[str, ...] = ()  # the same as the reply cites them, sentences among them: "t15.2"
    required: bool = False  # the user's words of a refused claim: never left out for length


@dataclass(frozen=True, slots=True)
class ParsedSleepReply:
    """A reply in its parts."""

    summary: tuple[SummaryLine, ...] = ()
    memories: tuple[NewMemory, ...] = ()
    unreadable: int = 0  # lines in no known form, left out


_SECTION = re.compile(r"^[\s#>*_]*\[\s*(SUMMARY|MEMORIES|NOTHING)\s*\][\s:*_]*$", re.IGNORECASE)
_ID = r"t\d{1,9}(?:\.\d{1,4})?"
_CITED = rf"\[\s*(?P<ids>{_ID}(?:\s*[,;]\s*{_ID})*)\s*\]"
_TOLD = re.compile(rf"^[-*•]\s+\**{_CITED}\**:?\s*(?P<text>\S.*)$", re.IGNORECASE)
_MEMORY = re.compile(
    rf"^[-*•]\s+\**(?P<type>[A-Za-z]+)\**[\s:|,(]+\**(?P<importance>[-+]?\d+(?:\.\d+)?)\**\)?[\s:|,]+{_CITED}\**:?\s*(?P<text>\S.*)$",
    re.IGNORECASE,
)
_MOST_LINES = 2000
NOTHING = "[NOTHING]"


def parse(reply: Reply) -> ParsedSleepReply | RejectedReply:
    """Return the parts of `reply`, or why it cannot be used; never raises."""
    if rejected := find_unusable(reply):
        return rejected
    lines = strip_fence(reply.text.replace("\r\n", "\n").replace("\r", "\n").strip()).split("\n")
    return RejectedReply(TOO_LONG) if len(lines) > _MOST_LINES else _sections(lines)


def render(summary: Iterable[SummaryLine], memories: Iterable[NewMemory]) -> str:
    """Return the reply text that `parse` reads back to these parts; the texts must be single lines."""
    told = [f"- [{_ids(one)}] {one.text}" for one in summary]
    kept = [f"- {one.type.value} {one.importance:.2f} [{_ids(one)}] {one.text}" for one in memories]
    if not told and not kept:
        return NOTHING
    return "\n".join(["[SUMMARY]", *told, "[MEMORIES]", *kept])


def merge(replies: Sequence[Reply]) -> Reply | RejectedReply:
    """Return the reply to a question that was asked in parts: their lines in order, under one heading each."""

    def join(parts: list[ParsedSleepReply]) -> str:
        return render([one for part in parts for one in part.summary], [one for part in parts for one in part.memories])

    return merge_replies(replies, parse, join)


def _ids(one: SummaryLine | NewMemory) -> str:
    return ",".join(one.cites or (f"t{seq}" for seq in one.sources))


def _sections(lines: list[str]) -> ParsedSleepReply | RejectedReply:
    section, seen = "", set()
    summary: list[SummaryLine] = []
    memories: list[NewMemory] = []
    unreadable = 0
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            section = heading[1].upper()
            seen.add(section)
        elif line.strip() and section:
            told = _parse_line(line.strip()) if section == "SUMMARY" else None
            memory = _memory(line.strip()) if section == "MEMORIES" else None
            summary += [told] if told else []
            memories += [memory] if memory else []
            unreadable += not told and not memory
    if not seen:
        return RejectedReply("the reply has none of its sections")
    if unreadable and not summary and not memories:
        return RejectedReply("no line of the reply can be read")
    return ParsedSleepReply(tuple(summary), tuple(memories), unreadable)


def _parse_line(line: str) -> SummaryLine | None:
    found = _TOLD.match(line)
    return SummaryLine(_sources(found["ids"]), found["text"].strip(), _cites(found["ids"])) if found else None


def _memory(line: str) -> NewMemory | None:
    found = _MEMORY.match(line)
    if not found or found["type"].lower() not in set(MemoryType) or not 0 <= float(found["importance"]) <= 1:
        return None
    kind, importance = MemoryType(found["type"].lower()), float(found["importance"])
    ids = found["ids"]
    return NewMemory(kind, importance, found["text"].strip(), _sources(ids), _cites(ids))


def _cites(ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip().lower() for one in re.split(r"[,;]", ids)))


def _sources(ids: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(one[1:].partition(".")[0]) for one in _cites(ids)))
