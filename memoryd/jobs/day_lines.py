"""Turn the judged claims of a sleep into the lines of the day.

Each line names its speaker, unless its section already shows who spoke.

A correction ends a point of the session's earlier sleeps. The point is removed from the session's summary. The daily
file is only appended to, so it gets a line `Corrected: …` before the line that holds now.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from memoryd.jobs import claims as reasons
from memoryd.jobs import job, reply
from memoryd.jobs.claims import ClaimOutcome, ClaimStep, JudgedClaim
from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.pieces import Pieces
from memoryd.jobs.reply import SummaryLine, SupersededPoint
from memoryd.jobs.reports import CHANGED, FAILED
from memoryd.jobs.work_state import STATE
from memoryd.ledger.foreign import Foreign
from memoryd.ledger.lane import Lane
from memoryd.text import normal
from memoryd.text.content import label_of, measure_overlap, split_question, strip_label
from memoryd.text.neutral import neutralize
from memoryd.tiers.session_summary import BY_USER, CORRECTED, Section, SummaryPoint

REPORTS = frozenset({"report", "changed", "failed"})  # labels of lines whose words nobody in the session said
# The section of the daily file for a memory that is no line of the summary.
_SECTIONS = {
    job.MemoryType.PREFERENCE: Section.DECIDED,
    job.MemoryType.DECISION: Section.DECIDED,
    job.MemoryType.LEARNING: Section.FOUND,
    job.MemoryType.FACT: Section.FOUND,
    job.MemoryType.EVENT: Section.STATE,
}


def list_day_lines(judged: Sequence[JudgedClaim], foreign: Foreign) -> tuple[reply.SummaryLine, ...]:
    """Return the lines for the day: those of the summary, and further statements of the memories.

    A line with the text of a memory that the reader refused is left out.
    """
    judged = _without_false(judged)
    told = [one for one in judged if not isinstance(one.claim.origin, job.NewMemory)]
    # A plain conversation has no requests, decisions or findings, so its lines name their speaker instead of a section.
    in_sections = any(_section_of(one.claim.origin) for one in told)
    found = [(one, line) for one in judged if (line := _line(one, foreign, in_sections=in_sections))]
    cited = {cite for one, _ in found if one in told for cite in one.claim.cites}
    kept = [line for one, line in found if one in told or line.required or not cited.issuperset(one.claim.cites)]
    return _require_last_request(kept)


def _without_false(judged: Sequence[JudgedClaim]) -> list[JudgedClaim]:
    """Return the claims without the lines that repeat a memory which the reader has read and refused."""
    memories = [one for one in judged if isinstance(one.claim.origin, job.NewMemory) and one.step is ClaimStep.READER]
    refused = [one for one in memories if one.outcome is ClaimOutcome.REFUSED and one.why != reasons.NOT_READ]
    false = {normal.normalize(one.claim.origin.text) for one in refused}
    return [one for one in judged if one.claim.core or normal.normalize(split_question(one.claim.text)[0]) not in false]


def _require_last_request(lines: Sequence[reply.SummaryLine]) -> tuple[reply.SummaryLine, ...]:
    """Return the lines with the last request marked as required, because the next session continues with it."""
    last = max((at for at, line in enumerate(lines) if line.section is Section.ASKED), default=None)
    return tuple(replace(line, required=True) if at == last else line for at, line in enumerate(lines))


def _line(judged: JudgedClaim, foreign: Foreign, *, in_sections: bool) -> reply.SummaryLine | None:
    """Return the line that a claim adds to the daily file; None if it adds none.

    If a claim for the core is refused, the user's own words stay, so that no requirement is lost.
    """
    seqs, ids = judged.seqs, judged.ids
    section = _section_of(judged.claim.origin) if in_sections else None
    if judged.outcome is ClaimOutcome.REFUSED:
        words = neutralize(judged.user_words) if judged.claim.core else ""
        return reply.SummaryLine(seqs, f"{BY_USER}{words}", ids, required=True, section=section) if words else None
    is_said = all(line.lane >= Lane.ASSISTANT for line in judged.lines)
    text = judged.text if is_said else split_question(judged.text)[0]  # the question may come from a page
    if judged.is_quoted and label_of(text) != "user":
        text = f"{BY_USER}{text}"
    outside = all(one.lane is Lane.OUTSIDE for one in judged.cited)
    is_of_tool = outside and all(one.piece.text.startswith((CHANGED, FAILED, STATE)) for one in judged.cited)
    shown = _by_speaker(foreign.remove_tokens(text), judged)
    said = without_speaker(shown, section, is_of_tool=is_of_tool)
    is_earlier = getattr(judged.claim.origin, "is_earlier", False)
    return reply.SummaryLine(seqs, said, ids, section=section, is_earlier=is_earlier)


def _section_of(origin: object) -> Section | None:
    if isinstance(origin, job.NewMemory):
        return _SECTIONS[origin.type]
    return origin.section if isinstance(origin, reply.SummaryLine) else None


def without_speaker(text: str, section: Section | None, *, is_of_tool: bool = False) -> str:
    """Return a line without the label of its speaker, if its section shows the speaker.

    Only the user asks, and the agent does everything else. A change or a failure that memoryd itself reads from a
    tool's result needs no label. Lines of a page or a subagent keep their own label.
    """
    if section is None:
        return text
    of_agent = {"assistant", *(REPORTS if is_of_tool else ())}
    return strip_label(text) if label_of(text) in ({"user"} if section is Section.ASKED else of_agent) else text


def _by_speaker(text: str, judged: JudgedClaim) -> str:
    """Return a daily line with the label of its speaker: the one whose cited sentence is most similar.

    The question that an answer quotes in brackets is another speaker's, so it does not count. The judging has checked
    that a line with the user's label is in the user's words.
    """
    label, said = label_of(text), strip_label(text)
    answer, question = split_question(said)
    if question and label_of(judged.claim.text) == "user" and any(line.lane is Lane.USER for line in judged.lines):
        return f"User: {said}"  # the judging removed the label because the claim also cites the question
    words = set(normal.normalize_quotation(answer).split())
    nearest = max(judged.lines, key=lambda line: (_share_words(answer, words, line.text), -line.lane))
    if nearest.lane < Lane.ASSISTANT:
        return text if label in REPORTS else f"Report: {said}"
    return f"Assistant: {said}" if label in {"", "user"} and nearest.lane is Lane.ASSISTANT else text


def _share_words(text: str, words: Collection[str], line: str) -> float:
    """Return the share, 0..1, of the words of `text` that `line` contains; 1 only for equal texts, even without words.

    Words without content ("not", "before") also count a little, so that they decide between lines with the same
    content. `words` holds all words of `text`, which may be much longer than a line.
    """
    one, other = normal.normalize_quotation(text), normal.normalize_quotation(line)
    if one == other:
        return 1.0
    others = set(other.split())
    shared = sum(word in words for word in others)
    return 0.9 * measure_overlap(text, line) + 0.09 * shared / max(1, len(words) + len(others) - shared)


class CorrectingLines(NamedTuple):
    """Hold the lines of a sleep, and pairs of an earlier point that no longer holds and the line that replaces it."""

    lines: tuple[SummaryLine, ...]
    corrected: tuple[tuple[SummaryPoint, SummaryLine], ...]

    def keep_others(self, earlier: Iterable[SummaryPoint]) -> list[SummaryPoint]:
        """Return the earlier points that still hold."""
        gone = {point for point, _ in self.corrected}
        return [point for point in earlier if point not in gone]

    def for_day(self) -> Iterator[SummaryLine]:
        """Yield the lines, each after the points that it corrects, in the section of these points."""
        for line in self.lines:
            gone = [point for point, by in self.corrected if by is line]
            for point in gone:
                section = point.section if line.section else None
                yield SummaryLine(line.sources, f"{CORRECTED}{point.text}", required=True, section=section)
            yield replace(line, required=True) if gone else line


def find_corrected(
    earlier: Sequence[SummaryPoint],
    pieces: Pieces,
    superseded: Sequence[SupersededPoint],
    lines: tuple[SummaryLine, ...],
) -> CorrectingLines:
    """Return the lines with the points that they correct; only points that the reply calls superseded can be corrected.

    A point ends only if a line cites the same piece. The user's own point ends only through the user's words.
    """
    by_id = {f"s{number}": point for number, point in enumerate(earlier, 1)}
    found = {}
    for one in superseded:
        point = by_id.get(one.id)
        about = {cite.partition(".")[0] for cite in one.by}
        near = [line for line in lines if about & {cite.partition(".")[0] for cite in line.cites}]
        line = max(near, key=lambda line: len({*one.by} & {*line.cites}), default=None)
        if point is None or line is None or KnownTexts([point.text]).says(line.text):
            continue
        cited, _ = pieces.find_cited(one.by, line.text)
        lane = min((one.lane for one in cited), default=Lane.NONE)
        if lane >= (Lane.USER if point.by_user else Lane.ASSISTANT):
            found[point] = line
    return CorrectingLines(lines, tuple(found.items()))


def collect_known(lines: Iterable[str]) -> KnownTexts:
    """Return the texts that lines already hold, without their speakers.

    A text that was corrected does not count as known, so that it may be said again.
    """
    held = [line.removeprefix("- ") for line in lines]
    gone = KnownTexts(line.removeprefix(CORRECTED) for line in held if line.startswith(CORRECTED))
    return KnownTexts(said for line in held if not gone.says(said := strip_label(line)))
