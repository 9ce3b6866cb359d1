"""Parse and render the reply of a sleep; every backend answers in this grammar.

    [SUMMARY]
    ### Asked
    - [t3] The parser is to refuse empty input.
    ### Decided
    - [t5, t9] `parse()` raises on empty input, because callers rely on it.
    - superseded [s3] by [t9]: it returned `None` before
    [MEMORIES]
    - preference 0.90 [t12,t15] User: always run the tests before a commit.

The headings are those of `Section`. A line above the first heading has no section, as in a conversation in which nobody
works. Below `### Asked (earlier)` are faults that the user reported and that are probably gone. A point of the earlier
summary that no longer holds is listed as superseded, below any heading. Each of the two parts may be empty.
`[NOTHING]` alone means that nothing is worth keeping.

The parser accepts changes of form that models make: other letter case, bold, one fence around the whole, CRLF and `*`
bullets. It rejects a reply that was cut off or refused, is empty, or has no readable line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memoryd.jobs.job import MemoryType, NewMemory, RejectedReply, Reply
from memoryd.jobs.parts import TOO_LONG, find_unusable, merge_replies
from memoryd.text.fences import strip_fence
from memoryd.tiers.session_summary import Section


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """Hold one line of the summary and the turns that support it."""

    sources: tuple[int, ...]
    text: str
    cites: tuple[str, ...] = ()  # the citations as the reply has them, with sentences: "t15.2"
    required: bool = False  # the line is never left out for length, such as the user's words of a refused claim
    section: Section | None = None  # None in a conversation in which nobody works
    is_earlier: bool = False  # a fault or a finding that the session has probably overtaken


class SupersededPoint(NamedTuple):
    """Hold a statement of the reply that a point of the earlier summary no longer holds."""

    id: str  # "s3"
    by: tuple[str, ...]  # ids of the turns that say so


@dataclass(frozen=True, slots=True)
class ParsedSleepReply:
    """Hold the parts of a sleep's reply."""

    summary: tuple[SummaryLine, ...] = ()
    memories: tuple[NewMemory, ...] = ()
    unreadable: int = 0  # lines in an unknown form, which are left out
    superseded: tuple[SupersededPoint, ...] = ()


_SECTION = re.compile(r"^[\s#>*_]*\[\s*(SUMMARY|MEMORIES|NOTHING)\s*\][\s:*_]*$", re.IGNORECASE)
_HEADING = re.compile(
    r"^(?:#{1,6}\s*|\*\*\s*)*(?P<word>asked|decided|found|state|open|failed|files)\b[^\[\].!?]{0,30}$", re.IGNORECASE
)
_EARLIER = " (earlier)"
_BY_WORD = {section.value.split()[0].casefold(): section for section in Section}
_ID = r"t\d{1,9}(?:\.\d{1,4})?"
_CITED = rf"\[\s*(?P<ids>{_ID}(?:\s*[,;]\s*{_ID})*)\s*\]"
_TOLD = re.compile(rf"^[-*•]\s+\**{_CITED}\**:?\s*(?P<text>\S.*)$", re.IGNORECASE)
_MEMORY = re.compile(
    rf"^[-*•]\s+\**(?P<type>[A-Za-z]+)\**[\s:|,(]+\**(?P<importance>[-+]?\d+(?:\.\d+)?)\**\)?[\s:|,]+{_CITED}\**:?\s*(?P<text>\S.*)$",
    re.IGNORECASE,
)
_SUPERSEDED = re.compile(
    rf"^[-*•]\s+\**superseded\**:?\s+\[\s*(?P<points>s\d{{1,4}}(?:\s*[,;]\s*s\d{{1,4}})*)\s*\]\**\s+by\s+\**{_CITED}",
    re.IGNORECASE,
)
_MOST_LINES = 2000
NOTHING = "[NOTHING]"


def parse(reply: Reply) -> ParsedSleepReply | RejectedReply:
    """Return the parts of `reply`, or the reason why it cannot be used; never raises."""
    if rejected := find_unusable(reply):
        return rejected
    lines = strip_fence(reply.text.replace("\r\n", "\n").replace("\r", "\n").strip()).split("\n")
    return RejectedReply(TOO_LONG) if len(lines) > _MOST_LINES else _sections(lines)


def render(
    summary: Iterable[SummaryLine], memories: Iterable[NewMemory], superseded: Iterable[SupersededPoint] = ()
) -> str:
    """Return a reply text from which `parse` reads the same parts; each text must be a single line."""
    told = list(_render_summary(summary))
    told += [f"- superseded [{one.id}] by [{','.join(one.by)}]" for one in superseded]
    kept = [f"- {one.type.value} {one.importance:.2f} [{_ids(one)}] {one.text}" for one in memories]
    return NOTHING if not told and not kept else "\n".join(["[SUMMARY]", *told, "[MEMORIES]", *kept])


def _render_summary(lines: Iterable[SummaryLine]) -> Iterator[str]:
    """Yield the lines in order, with a heading before each change of section; lines without a section come first."""
    heading = ""
    for one in sorted(lines, key=lambda one: one.section is not None):
        named = f"### {one.section.value}{_EARLIER * one.is_earlier}" if one.section is not None else ""
        if named != heading:
            heading = named
            yield heading
        yield f"- [{_ids(one)}] {one.text}"


def merge(replies: Sequence[Reply]) -> Reply | RejectedReply:
    """Return one reply from the replies to the parts of a question, with all their lines in order."""

    def join(parts: list[ParsedSleepReply]) -> str:
        lines = [one for part in parts for one in part.summary]
        memories = [one for part in parts for one in part.memories]
        return render(lines, memories, [one for part in parts for one in part.superseded])

    return merge_replies(replies, parse, join)


def _ids(one: SummaryLine | NewMemory) -> str:
    return ",".join(one.cites or (f"t{seq}" for seq in one.sources))


def _sections(lines: list[str]) -> ParsedSleepReply | RejectedReply:
    part, seen = "", set()
    section: Section | None = None
    is_earlier = False
    summary: list[SummaryLine] = []
    superseded: list[SupersededPoint] = []
    memories: list[NewMemory] = []
    unreadable = 0
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            part = heading[1].upper()
            seen.add(part)
        elif part == "SUMMARY" and (named := _HEADING.match(line.strip())):
            section = _BY_WORD[named["word"].casefold()]
            is_earlier = _EARLIER in line.casefold()
        elif line.strip() and part:
            told = _parse_line(line.strip(), section, is_earlier=is_earlier) if part == "SUMMARY" else []
            kept = _parse_memory(line.strip()) if part == "MEMORIES" else []
            ended = _parse_superseded(line.strip()) if part == "SUMMARY" else []
            summary += told
            superseded += ended
            memories += kept
            unreadable += not any((told, ended, kept))
    if not seen:
        return RejectedReply("the reply has none of its sections")
    if unreadable and not summary and not memories:
        return RejectedReply("no line of the reply can be read")
    return ParsedSleepReply(tuple(summary), tuple(memories), unreadable, tuple(superseded))


def _parse_line(line: str, section: Section | None, *, is_earlier: bool) -> list[SummaryLine]:
    found = _TOLD.match(line)
    if found is None:
        return []
    text, ids = found["text"].strip(), found["ids"]
    return [SummaryLine(_sources(ids), text, _cites(ids), section=section, is_earlier=is_earlier)]


def _parse_superseded(line: str) -> list[SupersededPoint]:
    found = _SUPERSEDED.match(line)
    return [SupersededPoint(point, _cites(found["ids"])) for point in _cites(found["points"])] if found else []


def _parse_memory(line: str) -> list[NewMemory]:
    found = _MEMORY.match(line)
    if not found or found["type"].lower() not in set(MemoryType) or not 0 <= float(found["importance"]) <= 1:
        return []
    kind, importance = MemoryType(found["type"].lower()), float(found["importance"])
    ids = found["ids"]
    return [NewMemory(kind, importance, found["text"].strip(), _sources(ids), _cites(ids))]


def _cites(ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip().lower() for one in re.split(r"[,;]", ids)))


def _sources(ids: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(one[1:].partition(".")[0]) for one in _cites(ids)))
