"""Declare the arguments of the tools as schemas. Every text and number has limits."""

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

LONGEST_QUERY = 1_000  # characters, like the next four limits
LONGEST_PATH = 1_024
LONGEST_NOTE = 20_000
LONGEST_MEMORY = 1_200
LONGEST_CORE = 200_000
MOST_HITS = 50
MOST_LINES = 2_000


def _day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError("this is not a day: write 2026-03-04") from None
    return text


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_day)]


class Arguments(BaseModel):
    """Hold the arguments of a tool, and refuse unknown ones.

    For some tools, the docstring of the subclass is the description that an agent reads (`McpTool.describe`).
    """

    model_config = ConfigDict(extra="forbid")


def _text(most: int, description: str, default: Any = ...) -> Any:
    """Declare a text argument of 1 to `most` characters. Without a default, it is required."""
    return Field(default, min_length=1, max_length=most, description=description)


class SearchArguments(Arguments):
    """Search earlier sessions: decisions, preferences, facts, notes and messages."""

    query: str = _text(
        LONGEST_QUERY, 'Any text: words, "phrases", prefix*, names such as snake_case, src/app.py or E1234.'
    )
    tier: Literal["core", "daily", "recent", "archive", "fact", "session"] | None = Field(
        default=None, description="Only texts of this tier; all tiers by default."
    )
    tags: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        default_factory=list, max_length=16, description="Only with all of these tags, such as #so."
    )
    after: Day | None = Field(default=None, description="Not older than this day, such as 2026-03-04.")
    before: Day | None = Field(default=None, description="Not younger than this day.")
    limit: int = Field(default=10, ge=1, le=MOST_HITS, description="Most hits.")


class GetArguments(Arguments):
    """Read lines of a memory file, turns of session:ID, or fact:ID, as memory_search names them.

    The text is as remembered, except for what looks like markup or a role.
    """

    path: str = _text(
        LONGEST_PATH, "A memory file, such as MEMORY.md or memory/2026-03-04.md; session:ID, fact:ID; the id of a hit."
    )
    first_line: int = Field(default=1, ge=1, le=1_000_000_000, description="The first line; of a session, the turn.")
    lines: int = Field(default=200, ge=1, le=MOST_LINES, description="How many lines at most.")


class SaveArguments(Arguments):
    """Write a note into today's file. Secrets in it are masked."""

    text: str = _text(
        LONGEST_NOTE, "What happened or was learned, in sentences that can be understood without this conversation."
    )


class UpdateArguments(Arguments):
    """Add one memory to MEMORY.md (append), or replace its whole text (replace).

    Or give mode (append or replace) and content.

    A rule, or a statement about the user, must be a sentence that the user typed, letter by letter; otherwise it
    becomes a note. `memoryd rollback` restores the old text.
    """

    append: str | None = _text(LONGEST_MEMORY, "One memory that MEMORY.md is to have as well.", None)
    replace: str | None = _text(
        LONGEST_CORE, "All of MEMORY.md as it is to be, in Markdown. What it leaves out ends, guards permitting.", None
    )

    mode: Literal["append", "replace"] | None = Field(default=None, description="What to do with content.")
    content: str | None = _text(LONGEST_CORE, "One memory, or all of MEMORY.md, as mode says.", None)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.mode is None) != (self.content is None):
            raise ValueError("give mode and content together")
        if [self.append, self.replace, self.mode].count(None) != 2:
            raise ValueError("give either append or replace, or mode with content")
        if self.mode == "append" and len(self.content or "") > LONGEST_MEMORY:
            raise ValueError(f"content is longer than {LONGEST_MEMORY} characters: one memory is a sentence or two")
        return self

    def list_texts(self) -> dict[str, str | None]:
        """Return the arguments `append` and `replace`; exactly one is a text."""
        given = {"append": self.append, "replace": self.replace}
        return given if self.mode is None else given | {self.mode: self.content}


class RolloverArguments(Arguments):
    """Write what sessions said to RECENT.md and the archive."""


class ConsentArguments(Arguments):
    """Without arguments: list who asks to read this memory, why and for how long, and who may read it now.

    With request and answer: allow that person to read it for that time, or refuse. It is your own choice.
    """

    request: str | None = Field(default=None, pattern=r"^grant_[0-9a-f]{8}$", description="The id of a request.")
    answer: Literal["yes", "no"] | None = Field(
        default=None, description="Whether the person may read; no also ends a yes."
    )

    @model_validator(mode="after")
    def _require_both(self) -> Self:
        if (self.request is None) != (self.answer is None):
            raise ValueError("give both request and answer, or neither to list what is asked")
        return self


MemoryId = Annotated[str, Field(min_length=1, max_length=64, description="An id, as search_memories gives it.")]
Line = Annotated[str, Field(min_length=1, max_length=LONGEST_MEMORY)]


class SearchMemoriesArguments(Arguments):
    """Hold the arguments of search_memories."""

    query: str = Field(default="", max_length=LONGEST_QUERY, description="Words; may be left out where days are given.")
    after: Day | None = Field(default=None, alias="from", description="First said on this day or later.")
    before: Day | None = Field(default=None, alias="to", description="First said on this day or earlier.")


class ConsolidateArguments(Arguments):
    """Hold the arguments of consolidate_memories."""

    ids_to_merge: list[MemoryId] = Field(min_length=2, max_length=500, description="Two or more different ids.")
    new_content: Line = Field(description="One shorter line, true to all of them.")
    dropped: list[Line] = Field([], max_length=100, description="Details that are left out on purpose.")


class UpdateMemoryArguments(Arguments):
    """Hold the arguments of update_memory."""

    id: MemoryId
    content: Line = Field(description="The memory in fewer words, with nothing in them that it does not hold.")


class OneMemoryArguments(Arguments):
    """Hold the arguments of delete_memory and protect_memory."""

    id: MemoryId


class CompleteArguments(Arguments):
    """Hold the arguments of complete_refinement."""

    summary: str = _text(2_000, "What you have done; it is shown beside the counts.")
