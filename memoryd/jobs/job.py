"""Define a job as a generator: `decide(inputs)` yields questions, gets their replies, and returns edits.

`drive` carries out the steps of a job and answers each `Ask` with a `Reply`. A refinement also yields changes
(`refine`). No job knows which model answers, and none touches a file, a database or a clock.
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
    """Hold one piece of material that a model sees as data, with the id that its reply cites."""

    id: str  # "t12"
    role: str
    origin: str
    at: str | None
    text: str
    is_acted_on: bool = False  # the agent edits files after this, before the user writes again


@dataclass(frozen=True, slots=True)
class ModelTool:
    """Describe a tool that a model may call instead of answering."""

    name: str
    description: str
    parameters: str  # JSON Schema of its arguments, as text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Hold a tool call as the model made it, unchecked."""

    id: str
    name: str
    arguments: str  # should be a JSON object


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """Hold an earlier answer of the model in the same conversation, and the results of its tool calls."""

    text: str
    calls: tuple[ToolCall, ...]
    results: tuple[str, ...]  # one result for each call; a single one if the model called nothing


@dataclass(frozen=True, slots=True)
class Ask:
    """Hold a question to the model.

    A question has either material, or its whole user message in `text`. A question with `text` is sent unchanged and
    never divided.
    """

    job: str  # "sleep"
    instructions: str  # the text of the job's prompt file
    material: tuple[QuotedPiece, ...]
    context: tuple[tuple[str, str], ...] = ()  # (name, text), such as the running summary and known memories
    tools: tuple[ModelTool, ...] = ()
    earlier: tuple[ModelExchange, ...] = ()  # the conversation so far; a question in a conversation cannot be divided
    text: str = ""  # the user message, verbatim; `instructions` is then the system message, verbatim
    about: object = field(default=None, compare=False, repr=False)  # the batch, if a second reader is asked


OFFLINE = "offline"  # the backend that only quotes


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold a model's reply: plain text in the job's grammar, with its cost."""

    text: str
    finish_reason: str  # stop | length | refusal | error
    backend: str  # offline | openai
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    instead: str | None = None  # the reason why the configured backend did not answer; without content
    calls: tuple[ToolCall, ...] = ()
    in_text: bool = False  # the server has no tool calls, so the text contains the calls

    @property
    def counts(self) -> dict[str, object]:
        """Return the backend, the model and the tokens of the reply, for a run report."""
        return {name: getattr(self, name) for name in ("backend", "model", "tokens_in", "tokens_out")}


class MemoryType(StrEnum):
    """Name the types of memories that a sleep keeps."""

    FACT = "fact"
    PREFERENCE = "preference"
    DECISION = "decision"
    EVENT = "event"
    LEARNING = "learning"


# The heading of `MEMORY.md` for a new memory of each type.
HEADINGS = {
    MemoryType.PREFERENCE: "Preferences",
    MemoryType.DECISION: "Decisions",
    MemoryType.FACT: "Facts",
    MemoryType.LEARNING: "Learnings",
    MemoryType.EVENT: "Events",
}


@dataclass(frozen=True, slots=True)
class NewMemory:
    """Hold a memory to add: its text, with the turns that support it."""

    type: MemoryType
    importance: float  # 0..1
    text: str
    sources: tuple[int, ...]  # numbers (`seq`) of turns of the session
    cites: tuple[str, ...] = ()  # the cited sentences, as the reply names them: "t15.2"
    note: str | None = None  # the question that a quotation answers, where and when it was said


@dataclass(frozen=True, slots=True)
class JobEdit:
    """Describe one change that a job returns. Each subclass is one kind of change."""


@dataclass(frozen=True, slots=True)
class AppendDaily(JobEdit):
    """Append a block to the daily file of a day."""

    day: date
    reason: str  # such as "Trimmed Context"
    clock: str  # "HH:MM"
    body: str


@dataclass(frozen=True, slots=True)
class AppendDiary(JobEdit):
    """Append a block to the dream diary of a day."""

    day: date
    clock: str  # "HH:MM"
    body: str
    reason: str = "Dream"


@dataclass(frozen=True, slots=True)
class AddMemories(JobEdit):
    """Add bullets to `MEMORY.md` and rows to the ledger; memories that already exist stay the same."""

    memories: tuple[NewMemory, ...]


@dataclass(frozen=True, slots=True)
class Operate(JobEdit):
    """Change the memory store and `MEMORY.md` by operations, if the guards allow it.

    `seen` holds, by id, the texts of the memories at the time of the decision. A memory that somebody has changed since
    then stays as it is.
    """

    operations: tuple[Operation, ...]
    caller: Caller
    seen: Mapping[str, str] = field(default_factory=dict)
    begun: RefinementStart | None = None  # the state before the refinement, for the guards that compare with it


@dataclass(frozen=True, slots=True)
class RewriteCore(Operate):
    """Rewrite the core by operations, which are valid only as a whole and only on the memories in `seen`."""

    rewrite: Rewrite = field(kw_only=True)  # the memories shown to the model, and those that its reply mentions


@dataclass(frozen=True, slots=True)
class CompressedMessage:
    """Hold one message of a compressed session."""

    role: str
    text: str
    tokens: int
    seqs: tuple[int, ...]  # the turns that it replaces; empty for the running summary


@dataclass(frozen=True, slots=True)
class KeepSummary(JobEdit):
    """Keep a session's running summary and its compressed message list."""

    session_id: str
    summary: str
    messages: tuple[CompressedMessage, ...]


@dataclass(frozen=True, slots=True)
class WriteFile(JobEdit):
    """Replace a memory file; the edit is valid only for the bytes that it was decided on."""

    path: str  # relative to the workspace
    old: bytes | None
    new: bytes | None  # None if the file is deleted


@dataclass(frozen=True, slots=True)
class NoteTold(JobEdit):
    """Record that the files of the last sessions hold the summary of a session that the run `run_id` wrote.

    If `run_id` is None, the run that carries this edit wrote the summary.
    """

    session_id: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class MoveWatermark(JobEdit):
    """Record that a consumer, such as `sleep`, has processed the session up to and including the turn `seq`."""

    session_id: str
    consumer: str
    seq: int


@dataclass(frozen=True, slots=True)
class LearnedFact:
    """Hold a fact about the user that was learned from a session, with the turns that support it."""

    content: str
    category: str
    confidence: float  # 0..1
    sources: tuple[int, ...]  # numbers (`seq`) of the user's turns
    replaces: tuple[str, ...] = ()  # ids of facts that it supersedes
    said_anew: bool = False  # it was forgotten, and the user has repeated it since then
    note: str | None = None  # the question that a quotation answers, where and when it was said


@dataclass(frozen=True, slots=True)
class LearnedSection:
    """Hold the new text of one section of the profile, with the turns that support its new sentences."""

    section: str  # such as "work"
    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EditFacts(JobEdit):
    """Change the fact store and the profile; facts that already exist stay the same."""

    session_id: str
    learned: tuple[LearnedFact, ...]
    forgotten: tuple[str, ...] = ()  # ids of facts that the user retracted without a replacement
    sections: tuple[LearnedSection, ...] = ()


def edit_of_facts(row: Mapping[str, Any]) -> EditFacts:
    """Return the edit from the dictionary that `dataclasses.asdict` made of it, also after it was stored as JSON."""
    learned = [
        LearnedFact(**one | {name: tuple(one[name]) for name in ("sources", "replaces")}) for one in row["learned"]
    ]
    sections = [LearnedSection(**one | {"sources": tuple(one["sources"])}) for one in row["sections"]]
    return EditFacts(row["session_id"], tuple(learned), tuple(row["forgotten"]), tuple(sections))


@dataclass(frozen=True, slots=True)
class Done:
    """End the job with edits: the runner carries out all of them or none."""

    edits: tuple[JobEdit, ...]
    receipt: dict[str, Any] = field(default_factory=dict)  # the run report: counts and names only, never content
    why: str | None = None
    declined: bool = False  # the guards refused all of it
    summary: str | None = None  # the model's own account, only for the agent's journal
    claims: tuple[Mapping[str, Any], ...] = ()  # the outcome of each claim of the reply, with its text
    made_from: str | None = None  # a digest of the inputs that tells runs apart if the job asks no question
    # decides on other inputs with the same replies
    decide_again: Callable[[Any], Done | RejectedReply] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """End the job without a change; the reason is shown on the run's row. The watermark may still move."""

    why: str
    edits: tuple[JobEdit, ...] = ()
    receipt: dict[str, Any] = field(default_factory=dict)
    claims: tuple[Mapping[str, Any], ...] = ()  # as in `Done`


@dataclass(frozen=True, slots=True)
class RejectedReply:
    """Report that the reply cannot be used, and why; nothing changes."""

    why: str


@dataclass(frozen=True, slots=True)
class EnterPhase:
    """Begin a new phase of the run; the runner records its start."""

    phase: str


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Hold the result of a refinement's change: the changes, the refusals, and the present live core.

    `may_delete` is the number of tokens that the deletion limit still allows.
    """

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    core: tuple[Memory, ...]
    may_delete: int


End = Done | NothingToDo | RejectedReply
Steps = Generator[Ask | EnterPhase, Any, End]  # the generator gets the `Reply` to each `Ask`
T = TypeVar("T")


def ask_model(ask: Ask) -> Generator[Ask, Reply, Reply]:
    """Ask a question as it is, and return the reply."""
    return (yield ask)


def drive(
    steps: Generator[Ask | EnterPhase, Any, T],
    answer: Callable[[Ask], Reply],
    enter: Callable[[str], None] = lambda _phase: None,
) -> T:
    """Carry out the steps of a job and return its end.

    Args:
        steps: the job.
        answer: returns the reply to a question.
        enter: is called with the name of each phase that the job enters.
    """
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
    """Return the first question of a job, or its end if it asks none."""
    try:
        while not isinstance(step := next(steps), Ask):
            pass
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return step
