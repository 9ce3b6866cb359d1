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

UNSURE = "unsure"  # tag of a memory of which nobody knows who wrote it
UNKNOWN_ORIGIN = "unknown"  # of an entry of which nobody knows who wrote it


@dataclass(frozen=True, slots=True)
class EarlierMemory:
    """A live core memory as it was shown to the model."""

    id: str  # "m3"
    memory: Memory
    said_on: date  # local day
    local_at: str | None = None  # YYYY-MM-DDTHH:MM; None for what is undated

    @property
    def said_at(self) -> str:
        """Return when it was said, UTC; empty for what came with the first import of a file, older than all else."""
        return self.memory.origin_at or ""

    @property
    def lane(self) -> Lane:
        """Return whose word it is; a memory reworded without its label keeps its lane by its tag."""
        return Lane.UNKNOWN if UNSURE in self.memory.tags else lane_of_memory(self.memory)


@dataclass(frozen=True, slots=True)
class DailyEntry:
    """One entry of a daily file as it was shown to the model.

    Attributes:
        id: "d7".
        text: on however many lines, without its bullet mark.
        origin: user, assistant, report; hand: the owner's, in the file they keep; agent: its own tools wrote it there;
            unknown: nobody knows who did.
        day: of the file.
        clock: HH:MM of its block; None in one that somebody else wrote.
        at: both as a moment, UTC, ISO 8601 with `Z`; without a clock the end of the day.
        session: the session it was written of; None for what was written by hand.
        path: of the file.
        at_work: it is of a session in which an assistant worked, so that its block has sections.
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
    """A frozen snapshot of all that one dream depends on.

    Attributes:
        earlier: the live core as it was shown to the model, in the order of the file.
        entries: what the daily files say, in order of time.
        today: the local day.
        clock: HH:MM.
        max_bullets: that the core is to have.
        unmentioned: what becomes of what the reply does not speak of.
        refuses_ungrounded: one bullet that does not stand in what it cites refuses all of them.
        context: what the guards go by, the live core and all that was forgotten with it.
        forgotten: hashes of what was forgotten, each with when.
        file: `MEMORY.md`.
        places: where the memories stand among its bullets.
        now: UTC, ISO 8601 with `Z`.
        new_id: draws a free id of a core memory.
        new_hex: draws eight random hex digits.
        taken: ids that are given.
        sources_of: says on which records an entry stands.
        judges: of the claims of the reply.
        behind_of: gives the sentences of a session that an entry paraphrases, each with its turn.
        told: what else the receipt says.
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
    forgotten: Mapping[str, str]
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
