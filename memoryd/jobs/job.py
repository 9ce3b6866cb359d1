"""A job is a generator: `decide(inputs)` yields questions, gets their replies, and returns what is to be done.

Who carries its steps out (`drive`) answers each `Ask` with a `Reply`. A refinement yields changes as well (`refine`).

No job knows which model answers, and none touches a file, a database or a clock.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from memoryd.ledger.accounting import Rewrite
    from memoryd.ledger.guards import Caller, RefinementStart, Refusal
    from memoryd.ledger.memory import Memory
    from memoryd.ledger.operation import Change, Operation


@dataclass(frozen=True, slots=True)
class QuotedPiece:
    """One piece of material shown to the model as data, with the id its reply cites."""

    id: str  # "t12"
    role: str
    origin: str
    at: str | None
    text: str


@dataclass(frozen=True, slots=True)
class ModelTool:
    """What a model may call instead of answering."""

    name: str
    description: str
    parameters: str  # JSON Schema of its arguments, as text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model made it; nothing of it is checked."""

    id: str
    name: str
    arguments: str  # meant to be a JSON object


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """What a model said before in the same conversation, and what it was told."""

    text: str
    calls: tuple[ToolCall, ...]
    results: tuple[str, ...]  # one for each call; one for all it said where it called nothing


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the model.

    It has either material, or its whole user message in `text`: such a question is sent as it is, and never divided.
    """

    job: str  # "sleep"
    instructions: str  # the text of the job's prompt file
    material: tuple[QuotedPiece, ...]
    context: tuple[tuple[str, str], ...] = ()  # (name, text): the running summary, known memories …
    tools: tuple[ModelTool, ...] = ()
    earlier: tuple[ModelExchange, ...] = ()  # the conversation so far; such a question cannot be asked in parts
    text: str = ""  # the user message, verbatim; then the instructions are the system message, verbatim
    about: object = field(default=None, compare=False, repr=False)  # the batch of a second reader's question


OFFLINE = "offline"  # the backend that only quotes


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: plain text in the job's grammar."""

    text: str
    finish_reason: str  # stop | length | refusal | error
    backend: str  # offline | openai
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    instead: str | None = None  # why this backend answered and not the configured one; without content
    calls: tuple[ToolCall, ...] = ()
    in_text: bool = False  # its server has no way of its own to call tools: what it calls stands in the text

    @property
    def counts(self) -> dict[str, object]:
        """Return whose it is and what it cost, for a run report."""
        return {
            "backend": self.backend,
            "model": self.model,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }


class MemoryType(StrEnum):
    """Types of what sleep keeps."""

    FACT = "fact"
    PREFERENCE = "preference"
    DECISION = "decision"
    EVENT = "event"
    LEARNING = "learning"


# The heading of `MEMORY.md` under which a new memory of each type goes.
HEADINGS = {
    MemoryType.PREFERENCE: "Preferences",
    MemoryType.DECISION: "Decisions",
    MemoryType.FACT: "Facts",
    MemoryType.LEARNING: "Learnings",
    MemoryType.EVENT: "Events",
}


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory to add: text with the turns it stands on."""

    type: MemoryType
    importance: float  # 0..1
    text: str
    sources: tuple[int, ...]  # seq of the turns of the session
    cites: tuple[str, ...] = ()  # the sentences, as the reply cites them: "t15.2"
    note: str | None = None  # what a quotation answers, where and when it was said


@dataclass(frozen=True, slots=True)
class AppendDaily:
    """Append a block to the daily file of a day."""

    day: date
    reason: str  # "Trimmed Context" …
    clock: str  # "HH:MM"
    body: str


@dataclass(frozen=True, slots=True)
class AppendDiary:
    """Append a block to the dream diary of a day."""

    day: date
    clock: str  # "HH:MM"
    body: str
    reason: str = "Dream"


@dataclass(frozen=True, slots=True)
class AddMemories:
    """Add bullets to `MEMORY.md` and rows to the ledger. Ones already there are left alone."""

    memories: tuple[NewMemory, ...]


@dataclass(frozen=True, slots=True)
class Operate:
    """Change the memory store and `MEMORY.md` by operations, if the guards allow it.

    `seen` holds the texts, by id, on which the decision was made: a memory that somebody has changed since stays as it
    is.
    """

    operations: tuple[Operation, ...]
    caller: Caller
    seen: Mapping[str, str] = field(default_factory=dict)
    begun: RefinementStart | None = None  # of a refinement: what it is measured against


@dataclass(frozen=True, slots=True)
class RewriteCore:
    """Make the core another: the ledger by operations that the guards let through, `MEMORY.md` with these very bytes.

    It holds for the file and the ledger that it was decided on, and for no other.
    """

    operations: tuple[Operation, ...]
    rewrite: Rewrite  # the memories it was made from, and those it mentions
    seen: Mapping[str, str]  # texts by id of the memories it was decided on
    old: bytes  # of the file
    new: bytes


@dataclass(frozen=True, slots=True)
class CompressedMessage:
    """One message of a compressed session."""

    role: str
    text: str
    tokens: int
    seqs: tuple[int, ...]  # the turns it stands for; empty for the running summary


@dataclass(frozen=True, slots=True)
class KeepSummary:
    """Keep a session's running summary and its compressed message list."""

    session_id: str
    summary: str
    messages: tuple[CompressedMessage, ...]


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Make a memory file another; it holds for the bytes that it was decided on, and for no other."""

    path: str  # in the workspace
    old: bytes | None
    new: bytes | None  # None: the file goes


@dataclass(frozen=True, slots=True)
class NoteTold:
    """Record that the files of the last sessions hold a run's summary of a session; None: this run's."""

    session_id: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class MoveWatermark:
    """This consumer has consumed the session up to and including `seq`."""

    session_id: str
    consumer: str
    seq: int


@dataclass(frozen=True, slots=True)
class LearnedFact:
    """A fact about the user that a session gave, with the turns it stands on."""

    content: str
    category: str
    confidence: float  # 0..1
    sources: tuple[int, ...]  # seq of the user's turns
    replaces: tuple[str, ...] = ()  # ids of facts that it supersedes
    said_anew: bool = False  # it was forgotten once, and the user has said it since
    note: str | None = None  # what a quotation answers, where and when it was said


@dataclass(frozen=True, slots=True)
class LearnedSection:
    """The new text of one section of the profile, with the turns its new sentences stand on."""

    section: str  # "work" …
    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EditFacts:
    """Change the fact store and the profile: facts that are there already stay as they are."""

    session_id: str
    learned: tuple[LearnedFact, ...]
    forgotten: tuple[str, ...] = ()  # ids of facts that the user took back, with nothing in their place
    sections: tuple[LearnedSection, ...] = ()


def edit_of_facts(row: Mapping[str, Any]) -> EditFacts:
    """Return the edit that `dataclasses.asdict` made a row of, also one that went through JSON."""
    learned = [
        LearnedFact(**one | {name: tuple(one[name]) for name in ("sources", "replaces")}) for one in row["learned"]
    ]
    sections = [LearnedSection(**one | {"sources": tuple(one["sources"])}) for one in row["sections"]]
    return EditFacts(row["session_id"], tuple(learned), tuple(row["forgotten"]), tuple(sections))


Edit = (
    AppendDaily
    | AppendDiary
    | AddMemories
    | Operate
    | RewriteCore
    | EditFacts
    | WriteFile
    | NoteTold
    | KeepSummary
    | MoveWatermark
)


@dataclass(frozen=True, slots=True)
class Done:
    """End the job with edits: the runner carries out all of them or none."""

    edits: tuple[Edit, ...]
    receipt: dict[str, Any] = field(default_factory=dict)  # counts and names only, never content
    why: str | None = None
    declined: bool = False  # the guards let nothing of it through
    summary: str | None = None  # what the model says it did, for the agent's journal alone
    claims: tuple[Mapping[str, Any], ...] = ()  # what became of each claim of the reply, with its text
    made_from: str | None = None  # a digest of its input, where no question tells one input from another
    anew: Callable[[Any], Done | RejectedReply] | None = field(
        default=None, compare=False, repr=False
    )  # on other inputs


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Nothing worth a change; the reason is shown on the run's row. The watermark may still move."""

    why: str
    edits: tuple[Edit, ...] = ()
    receipt: dict[str, Any] = field(default_factory=dict)
    claims: tuple[Mapping[str, Any], ...] = ()  # as of `Done`


@dataclass(frozen=True, slots=True)
class RejectedReply:
    """The reply cannot be used; nothing changes."""

    why: str


@dataclass(frozen=True, slots=True)
class EnterPhase:
    """A new phase begins; the runner notes its start."""

    phase: str


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What became of a refinement's change: what was changed, what was refused, and the live core as it is now."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    core: tuple[Memory, ...]


End = Done | NothingToDo | RejectedReply
Steps = Generator[Ask | EnterPhase, Any, End]  # it gets the `Reply` to an `Ask`
T = TypeVar("T")


def drive(
    steps: Generator[Ask | EnterPhase, Any, T],
    answer: Callable[[Ask], Reply],
    enter: Callable[[str], None] = lambda _phase: None,
) -> T:
    """Carry out the steps of a job, whose questions `answer` answers, and return what they come to."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Ask):
                step = steps.send(answer(step))
            else:
                enter(step.phase)
                step = next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def first_of(steps: Generator[Ask | EnterPhase, Any, T]) -> Ask | T:
    """Return the first question of a job, or its end where it has none."""
    try:
        while not isinstance(step := next(steps), Ask):
            pass
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return step
