"""Claims: the statements that a job wants to write, and what became of each when it was judged."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Protocol

from memoryd.jobs.pieces import CitableSentence, Citation
from memoryd.jobs.reader import ReaderAnswer
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text.neutral import neutralize

LONGEST_CLAIM = 1_200  # characters; a longer text is a dump, not a memory


class ClaimStep(StrEnum):
    """The step that decided about a claim."""

    LANE = "lane"
    QUOTE = "quote"
    FLOOR = "floor"
    READER = "reader"
    GUARD = "guard"


class ClaimOutcome(StrEnum):
    """What became of a claim."""

    KEPT = "kept"
    QUOTED = "quoted"  # the words that it cites are stored in its place
    REFUSED = "refused"


# Reasons, from a closed list: they go back to the author of a claim, so none holds a word of the material.
NOTHING_CITED = "it cites nothing that was shown"
NO_WORD = "it shares no word with the sentences that it cites"
MISSING = "a name, number, date or quotation in it does not occur in the material"
NOT_USER = "only the user's own words can say that"
OUTSIDE_WORD = "only a tool, a page or somebody else says that"
UNSURE = "the author of the line that it cites is unknown"
INJECTED = "it cites text that memoryd or a hook injected, which is not evidence"
FOREIGN = "it contains a command, package, host or address that occurs only in outside text"
EMPTY = "it is empty, longer than 1,200 characters, or contains [forgotten]"
NOT_READ = "no second reader has confirmed it"
LOSES = "it would lose a part of what it replaces"
NOT_STANDING = "the words are not meant to hold in later sessions"
OLDER = "the sentences that it cites are older than the memory that it would replace"
NOT_NEWER = "it gives no newer value for the memory that it would replace"
REASONS = {
    "reversed": "the evidence says the opposite",
    "other-subject": "the evidence says it about another person or thing",
    "condition-dropped": "a condition or a limit is missing",
    "only-planned": "the evidence only plans, proposes or asks it",
    "not-said": "the evidence does not say that",
}


@dataclass(frozen=True, slots=True)
class Old:
    """A memory that a claim would change.

    Attributes:
        id: "m3".
        text: of it.
        kind: its class; None where nobody has labelled it.
        said_at: when it was said, UTC; empty for what is undated, which is older than all that is dated.
        guessed: nobody says that the claim changes it: the reader is asked, because both are about the same.
    """

    id: str
    text: str
    kind: MemoryClass | None = None
    said_at: str = ""
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement that a job wants to write.

    Attributes:
        id: of it in its reply.
        text: as the author words it.
        cites: ids of pieces and sentences.
        core: it is meant for the core, or for the facts.
        verbatim_only: it may stand in the user's own words alone.
        user_only: it says something of the user, so only the user's word counts.
        kind: the class it has by its place in the reply; None where the reader says it.
        olds: the memories that it rewrites.
        ends: the memories that its reply declares superseded by it, or that it may contradict.
        repaired: its author has reworded it.
        origin: what the job makes of it; nothing here looks at that.
    """

    id: str
    text: str
    cites: tuple[str, ...]
    core: bool = True
    verbatim_only: bool = False
    user_only: bool = False
    kind: MemoryClass | None = None
    olds: tuple[Old, ...] = ()
    ends: tuple[Old, ...] = ()
    repaired: bool = False
    origin: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """What became of a claim.

    Attributes:
        claim: the claim.
        outcome: kept, quoted or refused.
        text: as it may be written; empty where it is refused.
        core: it may go into the core; else only into the daily file.
        cited: the sentences it stands on.
        lane: the lowest among these.
        why: from a closed list.
        step: that decided.
        token: the token that the material lacks, for people who may see content.
        kind: the class of the memory.
        changes: ids of the memories that it may change, with what of each is lost by that.
        lost: facts of those memories that the reader names as lost.
        newer: the reader says that it gives a newer value of what it replaces.
        ends_why: why a memory that it was to supersede stays.
    """

    claim: Claim
    outcome: ClaimOutcome
    text: str = ""
    core: bool = False
    cited: tuple[Citation, ...] = ()
    lane: Lane = Lane.NONE
    why: str = ""
    step: ClaimStep = ClaimStep.LANE
    token: str = ""
    kind: MemoryClass | None = None
    changes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    newer: bool = False
    ends_why: str = ""

    @property
    def lines(self) -> tuple[CitableSentence, ...]:
        """Return the sentences cited."""
        return tuple(line for one in self.cited for line in one.lines)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the sentences cited."""
        return tuple(line.id for line in self.lines)

    @property
    def seqs(self) -> tuple[int, ...]:
        """Return the numbers of the turns cited, each once."""
        return tuple(dict.fromkeys(one.piece.seq for one in self.cited))

    @property
    def is_quoted(self) -> bool:
        """Return whether its text is the words that it cites."""
        return self.step is ClaimStep.QUOTE or self.outcome is ClaimOutcome.QUOTED

    @property
    def user_words(self) -> str:
        """Return the user's words among what a refused claim cites, copied whole; empty where there are none."""
        own = [one for one in self.cited if any(line.lane is Lane.USER for line in one.evidence)]
        return " … ".join(dict.fromkeys(text for one in own if (text := one.quotation())))

    def row(self) -> dict[str, Any]:
        """Return it as a run report shows it to people who may see content."""
        why = f"{self.why}: {self.token}" if self.token else self.why
        return {
            "claim": self.claim.text,
            "cites": list(self.ids or self.claim.cites),
            "verdict": str(self.outcome),
            "why": why,
            "step": str(self.step),
            "repaired": self.claim.repaired,
        }


class Cues(Protocol):
    """Decides by wording what a second reader would decide, where there is none."""

    def stands(self, text: str) -> bool:
        """Return whether a person's words are meant to hold in later sessions."""

    def kind(self, text: str, heading: str = "") -> MemoryClass:
        """Return the class of a statement; a rule where that is in doubt."""

    def kind_below(self, heading: str) -> MemoryClass | None:
        """Return the class of what stands below a heading; None where the heading does not say."""


def has_new_evidence(cited: Sequence[Citation]) -> bool:
    """Return whether something is cited besides memories."""
    return any(not one.piece.id.startswith("m") for one in cited)


def is_newer(cited: Sequence[Citation], old: Old) -> bool:
    """Return whether something that is cited was said after a memory; undated ones are older than all."""
    others = [one for one in cited if one.piece.id != old.id]
    # Another memory beside an entry makes that entry no newer.
    entries = [one for one in others if not one.piece.id.startswith("m")]
    return any(one.said_at > old.said_at for one in entries or others)


def note_of(judged: JudgedClaim, folder: str | None = None) -> str | None:
    """Return what makes a quotation understandable by itself: the question it answers, the project, the day."""
    cited = [one for one in judged.cited if not one.answer()]
    pieces = (piece for one in cited for piece in (one.piece, *(behind for behind, _ in one.piece.behind)))
    asked = next((piece.asked for piece in pieces if piece.asked), "")
    at = max((line.at[:10] for line in judged.lines if line.at), default="")
    project = PurePosixPath(folder).name if folder else ""
    parts = [f'asked: "{neutralize(asked)}"' if asked else "", neutralize(project), at]
    return "; ".join(part for part in parts if part) or None


def count_claims(judged: Sequence[JudgedClaim]) -> dict[str, int]:
    """Return how many claims ended how, by outcome and step, for a run report: no content."""
    found = Counter(
        f"{one.outcome}" if one.outcome is not ClaimOutcome.REFUSED else f"refused by {one.step}" for one in judged
    )
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Judges:
    """What a job is given to have its claims judged.

    Attributes:
        cues: decide where no reader does.
        verify: the instructions of the second reader.
        repair: the instructions of the question that sends refused claims back.
        known: gives the reader's answer to a question of an earlier run by its key.
    """

    cues: Cues
    verify: str = ""
    repair: str = ""
    known: Callable[[str], ReaderAnswer | None] = lambda _key: None
