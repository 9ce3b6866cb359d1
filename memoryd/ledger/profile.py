"""Hold the profile: six short sections of prose about the user and the user's present situation."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memoryd.text.neutral import neutralize


class ProfileSection(StrEnum):
    """Name the sections of the profile, in the order of display."""

    WORK = "work"
    PERSONAL = "personal"
    TOP_OF_MIND = "topOfMind"
    RECENT = "recent"
    EARLIER = "earlier"
    BACKGROUND = "background"


# Sections about the present time. The other sections hold lasting facts.
PASSING = frozenset({ProfileSection.TOP_OF_MIND, ProfileSection.RECENT})
LONGEST = 1000  # characters of a section; the oldest sentences of a longer section are dropped

_TITLES = {
    "User Context:": (
        (ProfileSection.WORK, "Work"),
        (ProfileSection.PERSONAL, "Personal"),
        (ProfileSection.TOP_OF_MIND, "Top of Mind"),
    ),
    "History:": (
        (ProfileSection.RECENT, "Recent"),
        (ProfileSection.EARLIER, "Earlier"),
        (ProfileSection.BACKGROUND, "Background"),
    ),
}


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Hold the text of one section."""

    text: str
    updated_at: str  # UTC, ISO 8601 with Z


def render(profile: Mapping[ProfileSection, ProfileEntry]) -> list[str]:
    """Return the profile as lines for an agent, without sections and titles that have no text.

    Each text is one line that cannot close the block around it or forge a heading, list or tag.
    """
    lines: list[str] = []
    for title, sections in _TITLES.items():
        told = [(name, neutralize(profile[section].text)) for section, name in sections if section in profile]
        shown = [f"- {name}: {text}" for name, text in told if text]
        lines += [title, *shown] if shown else []
    return lines
