"""What a record says, before it is numbered into turns: the last step every line format shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memoryd.transcripts.fields import (
    block_text,
    has_words,
    is_output,
    mappings,
    output_text,
    read_word,
    render_arguments,
)
from memoryd.transcripts.injected import strip
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class RecordText(NamedTuple):
    """One text of a record."""

    role: Role
    origin: Origin
    kind: TurnKind
    text: str
    tool_call_id: str | None = None
    tool_name: str | None = None


class Envelope(NamedTuple):
    """What all turns of one record share."""

    record_id: str
    at: str | None
    sidechain: bool = False
    message_id: str | None = None
    model: str | None = None


def read_message(text: str, *, program: bool) -> RecordText:
    """Return a text in the user's name: the agent program's own words, or the person's."""
    if program:
        return RecordText(Role.SYSTEM, Origin.SYSTEM, TurnKind.MESSAGE, text)
    return RecordText(Role.USER, Origin.USER, TurnKind.MESSAGE, text)


def tool_call(name: object, given: object, call: str | None) -> RecordText:
    """Return the call of a tool."""
    tool = read_word(name)
    return RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.TOOL_CALL, render_arguments(tool, given), call, tool)


def tool_result(text: str, call: str | None, tool: str | None = None) -> RecordText:
    """Return what a tool gave back."""
    return RecordText(Role.TOOL, Origin.TOOL, TurnKind.TOOL_RESULT, text, call, tool)


def of_blocks(content: object, typed: Callable[[str], list[RecordText]]) -> list[RecordText]:
    """Return what blocks in the user's name say: texts and markers, as `typed` parts them; what was only handed over.

    The results of tools come in the user's name as well.
    """
    said: list[RecordText] = []
    for block in mappings(content):
        kind = block.get("type")
        if is_output(kind):
            said.append(tool_result(output_text(block), read_word(block.get("tool_use_id"))))
        elif has_words(block) and not (kind == "text" and type(block.get("text")) is str):
            said.append(RecordText(Role.SYSTEM, Origin.UNKNOWN, TurnKind.MESSAGE, block_text([block])))
        else:
            said += typed(block_text([block]))
    return said


_PAIRED = frozenset({TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT, TurnKind.COMPACTION})
_SPOKEN = frozenset({Origin.USER, Origin.ASSISTANT})


def turns_of(said: Iterable[RecordText], envelope: Envelope, usage: int | None = None) -> list[Turn]:
    """Return the turns of one record.

    Parts that memoryd injected become turns of their own; blank texts are dropped unless they pair a tool call with its
    result; what is said on a side chain is a subagent's. The usage goes on the first turn, an empty one if need be.
    """
    record_id, at, sidechain, message_id, model = envelope
    turns: list[Turn] = []

    def add(role: Role, origin: Origin, kind: TurnKind, text: str, call: str | None, tool: str | None) -> None:
        written = None if turns else usage
        part = len(turns)
        turns.append(
            Turn(record_id, part, role, origin, kind, text, at, message_id, written, model, sidechain, call, tool)
        )

    for role, spoken, kind, text, call, tool in said:
        origin = Origin.SUBAGENT if sidechain and spoken in _SPOKEN else spoken
        rest, injected = strip(text)
        if kind in _PAIRED or (rest and not rest.isspace()):
            add(role, origin, kind, rest, call, tool)
        for part in injected:
            add(Role.SYSTEM, Origin.INJECTED, TurnKind.MESSAGE, part, None, None)
    if usage is not None and not turns:
        add(Role.ASSISTANT, Origin.SUBAGENT if sidechain else Origin.ASSISTANT, TurnKind.MESSAGE, "", None, None)
    return turns


def turns_with_usage_last(said: Iterable[RecordText], envelope: Envelope, usage: int | None) -> list[Turn]:
    """Return the turns of one record whose usage includes its own text: it comes on an empty turn behind them."""
    turns = turns_of(said, envelope)
    after = turns_of((), envelope, usage)
    return [*turns, *(turn._replace(part=len(turns)) for turn in after)]
