"""What a record says, before it is numbered into turns: the last step every line format shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memoryd.transcripts.fields import arguments, block_text, has_words, is_output, mappings, output_text, word
from memoryd.transcripts.injected import strip
from memoryd.transcripts.turn import Kind, Origin, Role, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Said(NamedTuple):
    """One text of a record."""

    role: Role
    origin: Origin
    kind: Kind
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


def message(text: str, *, program: bool) -> Said:
    """Return a text in the user's name: the agent program's own words, or the person's."""
    if program:
        return Said(Role.SYSTEM, Origin.SYSTEM, Kind.MESSAGE, text)
    return Said(Role.USER, Origin.USER, Kind.MESSAGE, text)


def tool_call(name: object, given: object, call: str | None) -> Said:
    """Return the call of a tool."""
    tool = word(name)
    return Said(Role.ASSISTANT, Origin.ASSISTANT, Kind.TOOL_CALL, arguments(tool, given), call, tool)


def tool_result(text: str, call: str | None, tool: str | None = None) -> Said:
    """Return what a tool gave back."""
    return Said(Role.TOOL, Origin.TOOL, Kind.TOOL_RESULT, text, call, tool)


def of_blocks(content: object, typed: Callable[[str], list[Said]]) -> list[Said]:
    """Return what blocks in the user's name say: texts and markers, as `typed` parts them; what was only handed over.

    The results of tools come in the user's name as well.
    """
    said: list[Said] = []
    for block in mappings(content):
        kind = block.get("type")
        if is_output(kind):
            said.append(tool_result(output_text(block), word(block.get("tool_use_id"))))
        elif has_words(block) and not (kind == "text" and type(block.get("text")) is str):
            said.append(Said(Role.SYSTEM, Origin.UNKNOWN, Kind.MESSAGE, block_text([block])))
        else:
            said += typed(block_text([block]))
    return said


_PAIRED = frozenset({Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.COMPACTION})
_SPOKEN = frozenset({Origin.USER, Origin.ASSISTANT})


def turns_of(said: Iterable[Said], envelope: Envelope, usage: int | None = None) -> list[Turn]:
    """Return the turns of one record.

    Parts that memoryd injected become turns of their own; blank texts are dropped unless they pair a tool call with its
    result; what is said on a side chain is a subagent's. The usage goes on the first turn, an empty one if need be.
    """
    record_id, at, sidechain, message_id, model = envelope
    turns: list[Turn] = []

    def add(role: Role, origin: Origin, kind: Kind, text: str, call: str | None, tool: str | None) -> None:
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
            add(Role.SYSTEM, Origin.INJECTED, Kind.MESSAGE, part, None, None)
    if usage is not None and not turns:
        add(Role.ASSISTANT, Origin.SUBAGENT if sidechain else Origin.ASSISTANT, Kind.MESSAGE, "", None, None)
    return turns
