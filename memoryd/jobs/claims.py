"""Describe claims, the statements that a job wants to write, and their outcome after the judging."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Protocol

from memoryd.jobs.pieces import CitableSentence, Citation, Piece
from memoryd.jobs.reader import ReaderAnswer
from memoryd.ledger import dates
from memoryd.ledger.lane import Lane, MemoryClass
from memoryd.text import prose
from memoryd.text.content import split_question
from memoryd.text.neutral import neutralize
from memoryd.text.sentences import quote_around
from memoryd.tiers.session_summary import Section

_LONGEST_TOLD = 600  # characters of the user's words in a line of a daily file
_LONGEST_ANSWER = 30  # words; a longer message of the user rarely only answers a question
LONGEST_CLAIM = 1_200  # characters; a longer text is a dump, not a memory


class ClaimStep(StrEnum):
    """Name the step of the judging that decided about a claim."""

    LANE = "lane"
    QUOTE = "quote"
    FLOOR = "floor"
    READER = "reader"
    GUARD = "guard"


class ClaimOutcome(StrEnum):
    """Name the outcome of a claim."""

    KEPT = "kept"
    QUOTED = "quoted"  # the words that it cites are stored instead of its own text
    REFUSED = "refused"


# The closed list of reasons. A reason goes back to the author of a claim, so it repeats no word of the material.
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
STAYS = "it would delete a rule, a preference or a promise"
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
    """Hold a memory that a claim would change.

    Attributes:
        id: the id under which the memory was shown, such as "m3".
        text: the text of the memory.
        kind: its class; None if nobody has labelled it.
        said_at: when it was said, UTC; empty for an undated memory, which counts as oldest.
        guessed: the reply does not declare this change; the reader is asked because both are about the same subject.
    """

    id: str
    text: str
    kind: MemoryClass | None = None
    said_at: str = ""
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold one statement that a job wants to write.

    Attributes:
        id: the id of the claim in the reply.
        text: the statement in the author's words.
        cites: the ids of the pieces and sentences that it cites.
        core: True if the claim is meant for the core or for the facts.
        verbatim_only: True if it may be stored only in the user's own words.
        user_only: True if it is about the user, so that only the user's words support it.
        kind: its class, from its place in the reply; None if the reader decides.
        olds: the memories that it rewrites.
        ends: the memories that its reply declares superseded by it, or that it may contradict.
        repaired: True if its author has reworded it after a refusal.
        origin: a value of the job; the judging uses only its `section`, if it has one.
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
    """Hold a claim with its outcome.

    Attributes:
        claim: the claim.
        outcome: kept, quoted or refused.
        text: the text to write; empty if the claim is refused.
        core: True if it may go into the core; otherwise it may go only into the daily file.
        cited: the citations that support it.
        lane: the lowest lane among the cited sentences.
        why: the reason for a refusal or a restriction, from the closed list.
        step: the step that decided.
        token: the token that the material lacks, for people who may see content.
        kind: the class of the memory.
        changes: the ids of the memories that it may change.
        lost: details of those memories that the reader names as lost.
        newer: True if the reader says that it gives a newer value of the replaced memory.
        ends_why: the reason why a memory that it was to supersede stays.
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
        """Return the cited sentences."""
        return tuple(line for one in self.cited for line in one.lines)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the cited sentences."""
        return tuple(line.id for line in self.lines)

    @property
    def seqs(self) -> tuple[int, ...]:
        """Return the numbers of the cited turns, each once."""
        return tuple(dict.fromkeys(one.piece.seq for one in self.cited))

    @property
    def is_quoted(self) -> bool:
        """Return True if the text to write consists of the words that the claim cites."""
        return self.step is ClaimStep.QUOTE or self.outcome is ClaimOutcome.QUOTED

    @property
    def user_words(self) -> str:
        """Return the user's words among the citations, as whole quotations; empty if the claim cites none."""
        own = [one for one in self.cited if any(line.lane is Lane.USER for line in one.evidence)]
        return " … ".join(dict.fromkeys(text for one in own if (text := one.quotation())))

    def row(self) -> dict[str, Any]:
        """Return the claim as a row of the run report, for people who may see content."""
        why = f"{self.why}: {self.token}" if self.token else self.why
        if why and self.claim.core and not self.core and self.outcome is not ClaimOutcome.REFUSED:
            why = f"it stays in the daily file: {why}"
        return {
            "claim": self.claim.text,
            "cites": list(self.ids or self.claim.cites),
            "verdict": str(self.outcome),
            "why": why,
            "step": str(self.step),
            "repaired": self.claim.repaired,
        }


class Cues(Protocol):
    """Judge texts by their wording, in place of a second reader."""

    def stands(self, text: str) -> bool:
        """Return True if a person's words should hold in later sessions."""

    def asks(self, text: str) -> bool:
        """Return True if a user's words only ask an assistant for something, and state nothing that lasts."""

    def kind(self, text: str, heading: str = "", *, is_report: bool = False) -> MemoryClass:
        """Return the class of a statement; in case of doubt, a rule. `is_report`: the assistant reports its work."""

    def kind_below(self, heading: str) -> MemoryClass | None:
        """Return the class of the bullets below a heading; None if the heading does not name one."""


def quote_told(judged: JudgedClaim) -> JudgedClaim:
    """Return a daily line that tells what the user said in the user's words, because no reader checks other ones.

    These are the sentences that the line cites, and the user's words around them, which may take them back. If that is
    too long, it is only the sentences. Outside the requests, a line that cites others as well loses the user's label
    instead, unless it shows the question that the user answered.
    """
    own = tuple(one for cited in judged.cited if (one := _keep_own(cited)).numbers)
    is_asked = getattr(judged.claim.origin, "section", None) is Section.ASKED
    is_answer = bool(split_question(judged.text)[1])
    if not own or not (is_asked or is_answer or judged.lane is Lane.USER):
        return judged
    text = neutralize(" … ".join(dict.fromkeys(one.quotation() for one in own)))
    if len(text) > _LONGEST_TOLD:
        cited = (quote_around(one.piece.text, one.numbers, 0, one.numbers.__contains__) for one in own)
        text = neutralize(" … ".join(cited))
    cut = text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD].rstrip()} …"
    return replace(judged, text=cut, outcome=ClaimOutcome.QUOTED, cited=own, lane=Lane.USER, step=ClaimStep.QUOTE)


def _keep_own(cited: Citation) -> Citation:
    """Return a citation with only the user's sentences of a message."""
    is_message = not cited.piece.id.startswith("m")
    own = (number for number in cited.numbers if is_message and cited.piece.lines[number - 1].lane is Lane.USER)
    return replace(cited, numbers=tuple(own))


def has_new_evidence(cited: Sequence[Citation]) -> bool:
    """Return True if a claim cites anything besides memories."""
    return any(not one.piece.id.startswith("m") for one in cited)


def is_newer(cited: Sequence[Citation], old: Old) -> bool:
    """Return True if a citation was said after a memory; undated memories count as oldest."""
    return _last_said(cited, old) > old.said_at


def is_older(cited: Sequence[Citation], old: Old) -> bool:
    """Return True if all citations were said before a memory."""
    return _last_said(cited, old) < old.said_at


def _last_said(cited: Sequence[Citation], old: Old) -> str:
    others = [one for one in cited if one.piece.id != old.id]
    # A citation of another memory does not make the claim newer, so new entries decide if there are any.
    entries = [one for one in others if not one.piece.id.startswith("m")]
    return max((one.said_at for one in entries or others), default="")


_ANY_DAY = re.compile(
    r"[`\"]|\b(?:always|never|every|each|whenever|if|when|before yesterday|last \w+ of|immer|nie|jede[rns]?|wenn|falls"
    r"|toujours|jamais|chaque|siempre|nunca|cada|всегда|никогда|каждый)\b|总是|每|永远",
    re.IGNORECASE,
)


def add_day(judged: JudgedClaim) -> JudgedClaim:
    """Return a judged claim whose text has the date beside relative words such as "yesterday", as daily files have it.

    Only a new core memory whose evidence is all from one day gets the date. A rule or a command may mean every
    yesterday, so its text stays as it is.
    """
    days = {line.at[:10] for one in judged.cited if not one.piece.id.startswith("m") for line in one.evidence}
    is_dated = judged.core and not judged.claim.olds and not _ANY_DAY.search(judged.text)
    if not is_dated or len(days) != 1 or not (day := days.pop()):
        return judged
    return replace(judged, text=dates.annotate(judged.text, date.fromisoformat(day)))


def note_of(judged: JudgedClaim, folder: str | None = None) -> str | None:
    """Return the context that makes a quotation understandable; None if there is none.

    The note holds the question that the quotation answers, the name of the project folder, and the day. The note of a
    statement in other words is the day alone.
    """
    at = max((line.at[:10] for line in judged.lines if line.at), default="")
    if not judged.is_quoted:
        return at or None
    cited = [one for one in judged.cited if not one.answer()]
    places = (place for one in cited for place in ((one.piece, one.numbers), *one.piece.behind))
    asked = next(filter(None, (_find_answered(piece, numbers) for piece, numbers in places)), "")
    project = PurePosixPath(folder).name if folder else ""
    parts = [f'asked: "{neutralize(asked)}"' if asked else "", neutralize(project), at]
    return "; ".join(part for part in parts if part) or None


def _find_answered(piece: Piece, numbers: Sequence[int]) -> str:
    """Return the question that the sentences answer; empty if the message is long, because it is rarely an answer."""
    is_answer = piece.answers or prose.count_words(piece.text) <= _LONGEST_ANSWER
    return piece.find_question(numbers) if is_answer else ""


def count_claims(judged: Sequence[JudgedClaim]) -> dict[str, int]:
    """Return the number of claims by outcome, and of refused claims by step, for a run report, without content."""
    found = Counter(
        f"{one.outcome}" if one.outcome is not ClaimOutcome.REFUSED else f"refused by {one.step}" for one in judged
    )
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Judges:
    """Hold what a job needs to have its claims judged.

    Attributes:
        cues: judges texts by their wording if no reader decides.
        verify: the instructions of the second reader.
        repair: the instructions of the question that sends refused claims back.
        known: returns the answer that the reader gave to a question in an earlier run, by the question's key.
    """

    cues: Cues
    verify: str = ""
    repair: str = ""
    known: Callable[[str], ReaderAnswer | None] = lambda _key: None
