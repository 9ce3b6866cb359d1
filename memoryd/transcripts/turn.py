"""Define the turn: one message or tool exchange of a transcript, for all readers and all consumers."""

from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """Name the speakers, with the words of the chat protocols."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Origin(StrEnum):
    """Name the author of a text. It depends only on fields of the record, never on the text itself."""

    USER = "user"  # typed by the person
    ASSISTANT = "assistant"
    TOOL = "tool"  # output of a tool: web pages, files, shells
    SYSTEM = "system"  # the agent program itself
    SUBAGENT = "subagent"
    INJECTED = "injected"  # added by a hook or by memoryd; never new evidence
    UNKNOWN = "unknown"


class TurnKind(StrEnum):
    """Name the kind of a turn, besides its role."""

    MESSAGE = "message"
    CHOICE = "choice"  # the person's choice in a dialog; the assistant wrote the question and the option
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    COMPACTION = "compaction"  # the agent cleared its context here
    SUMMARY = "summary"  # the agent's own summary of cleared text
    OVERSIZE = "oversize"  # a line too long to parse, kept as an excerpt


# Messages from one person or agent to another. All other kinds are tool traffic or marks.
SPOKEN = frozenset({TurnKind.MESSAGE, TurnKind.CHOICE})


class Turn(NamedTuple):
    """Hold one turn as a reader returns it. It is a NamedTuple for speed, because ingest builds one per record.

    `record_id` is the format's own id of the record, or `sha256:…` if the format has none. A turn with a known
    `record_id` and `part` was read before.
    """

    record_id: str
    part: int  # 0, 1, … if one record has several turns
    role: Role
    origin: Origin
    kind: TurnKind
    text: str
    at: str | None = None  # UTC in ISO 8601 with Z, from the record
    message_id: str | None = None  # the id of the model's response, whose usage counts once
    usage: int | None = None  # tokens of the live context that the agent recorded with this turn
    model: str | None = None
    sidechain: bool = False  # whether it is outside the main conversation's context
    tool_call_id: str | None = None  # pairs a call with its result and with the person's answer in its dialog
    tool_name: str | None = None  # for an answer in a dialog, the tool of its call (`dialogs`)
    window: int | None = None  # tokens of the context window, if the agent records them
    branch: str | None = None  # the git branch in the record; empty for no branch, None if not recorded


class StoredTurn(NamedTuple):
    """Hold one turn as the database returns it."""

    seq: int  # 1, 2, … within its session, in file order
    record_id: str
    part: int
    role: Role
    origin: Origin
    kind: TurnKind
    text: str
    at: str | None = None
    tokens: int = 0
    sidechain: bool = False
    tool_call_id: str | None = None
    tool_name: str | None = None
