"""Find corrections: points of a session's earlier sleeps that a later sleep ends.

Such a point is removed from the session's summary. The daily file is only appended to, so it gets a line `Corrected: …`
before the line that holds now.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from memoryd.jobs.duplicates import KnownTexts
from memoryd.jobs.pieces import Pieces
from memoryd.jobs.reply import SummaryLine, SupersededPoint
from memoryd.ledger.lane import Lane
from memoryd.text.content import strip_label
from memoryd.tiers.session_summary import CORRECTED, SummaryPoint


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
