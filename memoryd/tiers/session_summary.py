"""Hold the summary of a session: the points that a colleague would note, in sections, and their form as text.

One summary is stored for each session. A sleep creates it, and the session's next sleep updates it. The daily block and
the entry in `RECENT.md` are written from it. As text, the summary is a list below each heading:

    ### Asked
    - Keep the old URL working.
    ### Decided
    - The submodule has the HTTPS URL, because the build server has no SSH keys.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memoryd.text.content import label_of
from memoryd.text.neutral import neutralize


class Section(StrEnum):
    """Name the sections of the summary in the order of the text; each value is the heading."""

    ASKED = "Asked"
    DECIDED = "Decided"
    FOUND = "Found out"
    STATE = "State at the end"
    OPEN = "Open and next step"
    FAILED = "Failed and abandoned"
    FILES = "Files changed"


HEADINGS = {f"### {section.value}": section for section in Section}
BY_USER = "User: "
CORRECTED = "Corrected: "  # in a daily file, before an earlier point that no longer holds
_NOTHING = ": nothing"  # ends a point of the state whose key has no value any more
# The keys of the state that memoryd itself reads.
STATE_KEYS = (
    "Branch", "Last commit", "Pull request", "Not committed", "Not pushed", "Tests", "Pushed", "Lint", "Tasks",
    "Earlier commits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SummaryPoint:
    """Hold one point of a summary: a neutral line that can be understood alone."""

    section: Section
    text: str

    @property
    def by_user(self) -> bool:
        """Return True if the point is in the user's own words."""
        is_labelled = label_of(self.text) not in {"", "user"}
        return self.text.startswith(BY_USER) or (self.section is Section.ASKED and not is_labelled)


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """Hold the points of a session's summary."""

    points: tuple[SummaryPoint, ...] = ()

    def texts(self, section: Section) -> list[str]:
        """Return the texts of the points in a section, in order."""
        return [point.text for point in self.points if point.section is section]


def render_points(points: Iterable[SummaryPoint], *, numbered: bool = False) -> str:
    """Return points as text, by section; empty without points. `numbered` puts their number before them: `[s3] …`."""
    held = [(f"[s{number}] " if numbered else "", point) for number, point in enumerate(points, 1)]
    lines = []
    for heading, section in HEADINGS.items():
        texts = [f"{mark}{point.text}" for mark, point in held if point.section is section]
        lines += [heading, *(f"- {text}" for text in texts)] if texts else []
    return "\n".join(lines)


def parse_points(text: str) -> SessionSummary:
    """Parse a summary from text; for text of `render_points`, `render_points(parse_points(x).points) == x`.

    Text of earlier versions has no headings. There, a line of the user counts as asked, and any other line as found
    out.
    """
    section: Section | None = None
    points = []
    for line in text.splitlines():
        if line.strip() in HEADINGS:
            section = HEADINGS[line.strip()]
        elif said := neutralize(line.strip().removeprefix("- ")):
            is_asked = section is None and said.startswith(BY_USER)
            point = section or (Section.ASKED if is_asked else Section.FOUND)
            points.append(SummaryPoint(point, said.removeprefix(BY_USER) if is_asked else said))
    return SessionSummary(tuple(points))


def merge_points(earlier: Iterable[SummaryPoint], later: Iterable[SummaryPoint]) -> tuple[SummaryPoint, ...]:
    """Return the points of a session after a later part of it was read.

    A key of the state, such as "Branch: …", has the value of the later part, and "Branch: nothing" removes it. No other
    point is lost. Newer points come first, but the last request stays last.
    """
    new = list(later)
    # A later text about the state without a key replaces all earlier texts without a key.
    stated = {state_key(point) for point in new if point.section is Section.STATE}
    old = [
        point
        for point in earlier
        if point not in new and not (point.section is Section.STATE and state_key(point) in stated)
    ]
    last = [point for point in new if point.section is Section.ASKED][-1:]
    gone = [point for point in new if state_key(point) and point.text.endswith(_NOTHING)]
    return (*(point for point in (*new, *old) if point not in last and point not in gone), *last)


def state_key(point: SummaryPoint) -> str:
    """Return the key of a point about the state: "Branch" of "Branch: `main`"; empty if it has none."""
    key = point.text.partition(": ")[0]
    return key if point.section is Section.STATE and key in STATE_KEYS else ""


def shorten_points(points: Iterable[SummaryPoint], most: Mapping[Section, int]) -> tuple[SummaryPoint, ...]:
    """Return the first points of each section, up to its limit; of requests, the last one is always included."""
    held = list(points)
    kept: list[SummaryPoint] = []
    for section in Section:
        found, room = [point for point in held if point.section is section], most[section]
        is_long = section is Section.ASKED and len(found) > room > 0
        kept += [*found[: room - 1], found[-1]] if is_long else found[:room]
    return tuple(kept)
