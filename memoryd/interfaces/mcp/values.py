"""What the tools take, as the schemas say it, and what they give. Every text and number taken has its bounds."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from memoryd.transcripts.injected import CLOSE, OPEN

LONGEST_QUERY = 1_000  # characters, as all of these
LONGEST_PATH = 1_024
LONGEST_NOTE = 20_000
LONGEST_MEMORY = 1_200
LONGEST_CORE = 200_000
MOST_HITS = 50
MOST_LINES = 2_000

_WELL = frozenset({"succeeded", "proposed", "skipped"})  # how a refinement ends that its agent has completed


def _day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError("this is no day: write 2026-03-04") from None
    return text


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_day)]


class Arguments(BaseModel):
    """What a tool takes; what it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class Search(Arguments):
    """What memory_search takes."""

    query: str = Field(
        min_length=1,
        max_length=LONGEST_QUERY,
        description='Any text: words, "phrases", prefix*, names such as snake_case, src/app.py or E1234.',
    )
    tier: Literal["core", "daily", "recent", "archive", "fact", "session"] | None = Field(
        default=None, description="Only what lies there; everywhere by default."
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        default_factory=list, max_length=16, description="Only with all of these tags, such as #so in a text."
    )
    after: Day | None = Field(default=None, description="Not older than this day, such as 2026-03-04.")
    before: Day | None = Field(default=None, description="Not younger than this day.")
    limit: int = Field(default=10, ge=1, le=MOST_HITS, description="How many hits at most.")


class Get(Arguments):
    """What memory_get takes."""

    path: str = Field(
        min_length=1,
        max_length=LONGEST_PATH,
        description="A memory file, such as MEMORY.md or memory/2026-03-04.md; session:ID, fact:ID; the id of a hit.",
    )
    first_line: int = Field(default=1, ge=1, le=1_000_000_000, description="The first line; of a session, the turn.")
    lines: int = Field(default=200, ge=1, le=MOST_LINES, description="How many lines at most.")


class Save(Arguments):
    """What memory_save takes."""

    text: str = Field(
        min_length=1,
        max_length=LONGEST_NOTE,
        description="What happened or was learned, in sentences that can be understood without this conversation.",
    )


class Update(Arguments):
    """What memory_update takes."""

    append: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_MEMORY,
        description="One memory that MEMORY.md is to have as well.",
    )
    replace: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_CORE,
        description="All of MEMORY.md as it is to be, in Markdown. What it leaves out ends, guards permitting.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.append is None) == (self.replace is None):
            raise ValueError("give either append or replace")
        return self


class Consent(Arguments):
    """What memory_consent takes."""

    request: str | None = Field(default=None, pattern=r"^grant_[0-9a-f]{8}$", description="The id of a request.")
    answer: Literal["yes", "no"] | None = Field(
        default=None, description="Whether the person may read; no also ends a yes."
    )

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.request is None) != (self.answer is None):
            raise ValueError("give both request and answer, or neither to list what is asked")
        return self


MemoryId = Annotated[str, Field(min_length=1, max_length=64, description="An id, as search_memories gives it.")]
Line = Annotated[str, Field(min_length=1, max_length=LONGEST_MEMORY)]


class SearchMemories(Arguments):
    """What search_memories takes."""

    query: str = Field(default="", max_length=LONGEST_QUERY, description="Words; may be left out where days are given.")
    after: Day | None = Field(default=None, alias="from", description="First said on this day or later.")
    before: Day | None = Field(default=None, alias="to", description="First said on this day or earlier.")


class ConsolidateMemories(Arguments):
    """What consolidate_memories takes."""

    ids_to_merge: list[MemoryId] = Field(min_length=2, max_length=500, description="Two or more different ids.")
    new_content: Line = Field(description="One shorter line, true to all of them.")
    dropped: list[Line] = Field([], max_length=100, description="Details that are left out on purpose.")


class UpdateMemory(Arguments):
    """What update_memory takes."""

    id: MemoryId
    content: Line = Field(description="The memory in fewer words, with nothing in them that it does not hold.")


class OneMemory(Arguments):
    """What delete_memory and protect_memory take."""

    id: MemoryId


class CompleteRefinement(Arguments):
    """What complete_refinement takes."""

    summary: str = Field(
        min_length=1, max_length=2_000, description="What you have done; it is shown beside the counts."
    )


class Given(BaseModel):
    """What a tool gives."""

    def is_error(self) -> bool:
        """Whether it says why nothing was done, or was taken back."""
        return False


class Remembered(Given):
    """What holds remembered text: between its first and its last field, which are the mark ingest knows it by.

    The names keep their places also where a program sorts them.
    """

    about: str = OPEN


class Hit(BaseModel):
    """One thing that was found."""

    path: str  # What memory_get takes.
    first_line: int
    last_line: int
    snippet: str
    score: float  # Only comparable within one search.
    tier: str
    why: str  # Which words stand where, and what else raised the score.
    id: str | None  # Of the memory, where it is one.
    day: str | None
    said_by: str | None  # Whose words a turn is; tool: what a tool put out, from outside.


class Found(Remembered):
    """What memory_search gives."""

    hits: list[Hit]  # The most relevant first.
    until: str = CLOSE


class Lines(Remembered):
    """What memory_get gives."""

    path: str
    first_line: int
    last_line: int
    total_lines: int
    text: str
    next_line: int | None  # Where the rest begins, if there is one.
    until: str = CLOSE


class Unsupported(BaseModel):
    """What of a text is not kept as it was given."""

    why: str
    lines: int  # So many are in the day's file in place of MEMORY.md, or there without a word or a label.


class Written(Given):
    """What memory_save and memory_update give."""

    run: str  # What `memoryd rollback` takes.
    state: str
    why: str | None
    files: list[str]
    unsupported: Unsupported | None = None  # Why it is less than was given, if it is.


class Request(BaseModel):
    """A person's request to read what the agent remembers."""

    id: str
    state: str
    uid: int  # The user who asks.
    purpose: str
    seconds: int  # How long they could read from the consent on.
    requested_at: str
    expires_at: str | None


class Requests(Remembered):
    """What memory_consent gives."""

    requests: list[Request]
    until: str = CLOSE


class Refined(Remembered):
    """What a tool of a refinement gives."""

    run: str | None = None  # The refinement, which `memoryd rollback` takes.
    over: bool = False  # It has ended: state and why say how.
    state: str | None = None
    why: str | None = None
    error: str | None = None  # Why nothing was done.
    allowed: str | None = None  # What can be done instead.
    new_ids: list[str] = []
    memories: list[str] = []  # What was found: id, day, tokens, tags, text.
    core_tokens: int | None = None
    may_shrink_by: int | None = None  # Tokens by which the core may shrink further.
    changes_left: int | None = None
    lost_tokens: int | None = None  # Tokens of details that the new text leaves out.
    until: str = CLOSE

    def is_error(self) -> bool:
        """Whether the call was refused, or ended the refinement otherwise than well."""
        return self.error is not None or (self.over and self.state not in _WELL)
