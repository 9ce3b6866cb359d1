"""Define the turn: one message or tool exchange of a transcript, for all readers and all consumers."""

from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """Name the speakers, in the words of the chat protocols."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Origin(StrEnum):
    """Name the origin of a text, which comes from the record's fields only, never from the text itself."""

    USER = "user"  # typed by the person
    ASSISTANT = "assistant"
    TOOL = "tool"  # output of a tool: web pages, files, shells
    SYSTEM = "system"  # the agent program itself
    SUBAGENT = "subagent"
    INJECTED = "injected"  # put there by a hook or by memoryd; never new evidence
    UNKNOWN = "unknown"


class TurnKind(StrEnum):
    """Name the kind of a turn, besides its role."""

    MESSAGE = "message"
    CHOICE = "choice"  # the person's choice in a dialog; the words of question and option are the assistant's
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    COMPACTION = "compaction"  # the agent cleared its context here; what came before is no longer in it
    SUMMARY = "summary"  # the agent's own summary of cleared text
    OVERSIZE = "oversize"  # a line too long to parse, kept as an excerpt


# Messages from one person or agent to another; all others are tool traffic or marks.
SPOKEN = frozenset({TurnKind.MESSAGE, TurnKind.CHOICE})


class Turn(NamedTuple):
    """Hold one turn as a reader gives it. It is a NamedTuple, because ingest builds one for each record.

    `record_id` is the format's own id of the record, or `sha256:…` made by the line splitter where the format has
    none. A turn with a known `record_id` and `part` was read before.
    """

    record_id: str
    part: int  # 0, 1, … if one record yields several turns
    role: Role
    origin: Origin
    kind: TurnKind
    text: str
    at: str | None = None  # UTC, ISO 8601 with Z, as the record says
    message_id: str | None = None  # id of the model's response; its usage counts once
    usage: int | None = None  # tokens of live context the agent wrote beside this turn
    model: str | None = None
    sidechain: bool = False  # not part of the main conversation's context
    tool_call_id: str | None = None  # pairs a call with its result, and with the person's answer in its dialog
    tool_name: str | None = None  # of an answer: the tool whose call it must belong to, see `dialogs`
    window: int | None = None  # tokens of its context window, where the agent writes that
    branch: str | None = None  # that the agent worked on, where the record says; empty if on none


class StoredTurn(NamedTuple):
    """Hold one turn as the database returns it."""

    seq: int  # 1, 2, … within its session, in file order
    record_id: str
    part: int
    role: Role
    origin: Origin
    kind: TurnKind
    text: str
    at: str | None
    tokens: int
    sidechain: bool
    tool_call_id: str | None
    tool_name: str | None
