"""The inputs of a dream: a frozen snapshot, so that the same inputs and replies give the same core."""

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

UNSURE = "unsure"  # tag of a memory whose author is unknown
UNKNOWN_ORIGIN = "unknown"  # of an entry whose author is unknown


@dataclass(frozen=True, slots=True)
class EarlierMemory:
    """Hold a live core memory as it was shown to the model."""

    id: str  # "m3"
    memory: Memory
    said_on: date  # local day
    local_at: str | None = None  # YYYY-MM-DDTHH:MM; None if it has no date

    @property
    def said_at(self) -> str:
        """Return when it was said, UTC; empty if it came with the first import of a file, which counts as oldest."""
        return self.memory.origin_at or ""

    @property
    def lane(self) -> Lane:
        """Return whose words it is; the tag keeps the lane of a memory that was reworded without its label."""
        return Lane.UNKNOWN if UNSURE in self.memory.tags else lane_of_memory(self.memory)


@dataclass(frozen=True, slots=True)
class DailyEntry:
    """Hold one entry of a daily file as it was shown to the model.

    Attributes:
        id: "d7".
        text: one or more lines, without the bullet mark.
        origin: user, assistant, report; hand: a person wrote it into the file; agent: the agent's own tools wrote it
            there; unknown: the author is unknown.
        day: of the file.
        clock: HH:MM of its block; None in a block that somebody else wrote.
        at: day and clock as a moment, UTC, ISO 8601 with `Z`; without a clock the end of the day.
        session: the session of its block; None for an entry written by hand.
        path: of the file.
        at_work: an assistant worked in its session, so that its block has sections.
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
        today: the local day.
        clock: HH:MM.
        max_bullets: the most bullets of the core.
        unmentioned: what happens to a memory that the reply does not mention.
        refuses_ungrounded: one bullet without support in its sources refuses the whole reply.
        context: the input of the guards: the live core, and all forgotten memories.
        file: `MEMORY.md`.
        places: the places of the memories among its bullets.
        now: UTC, ISO 8601 with `Z`.
        new_id: draws a free id of a core memory.
        new_hex: draws eight random hex digits.
        taken: ids that are already used.
        sources_of: returns the records that support an entry.
        judges: judge the claims of the reply.
        behind_of: returns the sentences of a session that an entry paraphrases, each with its turn.
        told: further values of the run report.
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
    file: bytes
    places: Mapping[str, int]
    now: str
    new_id: Callable[[], str]
    new_hex: Callable[[], str]
    taken: Container[str]
    sources_of: Callable[[DailyEntry], tuple[Source, ...]]
    judges: Judges
    behind_of: Callable[[DailyEntry], tuple[tuple[Piece, tuple[int, ...]], ...]] = lambda _entry: ()
    told: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = ""
