"""Declare the inputs of a dream as a frozen snapshot, so that the same inputs and replies give the same core."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from memoryd.jobs.claims import Judges
from memoryd.jobs.pieces import Piece
from memoryd.ledger.accounting import Unmentioned
from memoryd.ledger.guards import Context
from memoryd.ledger.lane import Lane, lane_of_memory
from memoryd.ledger.memory import Memory, Source

UNSURE = "unsure"  # the tag of a memory whose author is unknown
UNKNOWN_ORIGIN = "unknown"  # the origin of an entry whose author is unknown


@dataclass(frozen=True, slots=True)
class EarlierMemory:
    """Hold a live core memory as it was shown to the model."""

    id: str  # "m3"
    memory: Memory
    said_on: date  # the local day
    local_at: str | None = None  # YYYY-MM-DDTHH:MM; None if it has no date

    @property
    def said_at(self) -> str:
        """Return when the memory was said, UTC; empty if it came with the first import of a file.

        An empty time counts as older than any other.
        """
        return self.memory.origin_at or ""

    @property
    def lane(self) -> Lane:
        """Return the lane of the memory.

        A memory that was reworded without its label keeps the lane `unknown` by its tag `unsure`.
        """
        return Lane.UNKNOWN if UNSURE in self.memory.tags else lane_of_memory(self.memory)


@dataclass(frozen=True, slots=True)
class DailyEntry:
    """Hold one entry of a daily file as it was shown to the model.

    Attributes:
        id: the id under which the entry is shown, such as "d7".
        text: one or more lines, without the bullet mark.
        origin: `user`, `assistant` or `report`; `hand` if a person wrote it into the file; `saved` if a person saved it
            with the command; `agent` if the agent's own tools wrote it there; `unknown` if the author is unknown.
        day: the day of the file.
        clock: HH:MM of its block; None in a block that somebody else wrote.
        at: day and clock as a moment, UTC, ISO 8601 with `Z`; without a clock, the end of the day.
        session: the session of its block; None for an entry written by hand.
        path: the path of the file.
        at_work: True if an assistant worked in its session, so that its block has sections.
    """

    id: str
    text: str
    origin: str
    day: date
    clock: str | None
    at: str
    session: str | None = None
    path: str = ""
    at_work: bool = False


@dataclass(frozen=True, slots=True)
class DreamInputs:
    """Hold a frozen snapshot of everything that one dream depends on.

    Attributes:
        earlier: the live core as it was shown to the model, in the order of the file.
        entries: the entries of the daily files, in order of time.
        today: the local day of the dream.
        clock: the local time of the dream, HH:MM.
        max_bullets: the largest number of bullets of the core.
        unmentioned: what happens to a memory that the reply does not mention.
        refuses_ungrounded: True if one bullet without support in its sources refuses the whole reply.
        context: what the guards need: the live core, and all forgotten memories.
        now: the time of the dream, UTC, ISO 8601 with `Z`.
        new_id: draws a free id for a core memory.
        new_hex: draws eight random hex digits.
        taken: ids that are already used.
        sources_of: returns the records that support an entry.
        judges: holds the cues and instructions with which claims are judged.
        behind_of: returns the sentences of a session that an entry paraphrases, each with its turn.
        told: further values for the run report.
        instructions: the text of dream.md.
    """

    earlier: tuple[EarlierMemory, ...]
    entries: tuple[DailyEntry, ...]
    today: date
    clock: str
    max_bullets: int
    unmentioned: Unmentioned
    refuses_ungrounded: bool
    context: Context
    now: str
    new_id: Callable[[], str]
    new_hex: Callable[[], str]
    taken: Container[str]
    sources_of: Callable[[DailyEntry], tuple[Source, ...]]
    judges: Judges
    behind_of: Callable[[DailyEntry], tuple[tuple[Piece, tuple[int, ...]], ...]] = lambda _entry: ()
    told: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = ""
