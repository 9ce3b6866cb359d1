"""Turn the texts of a record into numbered turns: the last step that all formats share."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from memoryd.transcripts.blocks import block_text, has_words, is_output, output_text
from memoryd.transcripts.fields import mappings, read_word, render_arguments
from memoryd.transcripts.injected import strip
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind


class RecordText(NamedTuple):
    """Hold one text of a record, with its author and kind."""

    role: Role
    origin: Origin
    kind: TurnKind
    text: str
    tool_call_id: str | None = None
    tool_name: str | None = None

    @classmethod
    def of_call(cls, name: object, given: object, call: str | None) -> "RecordText":
        """Return the text of a tool call: the tool's name and its arguments. `call` is the id of the call."""
        tool, arguments = read_word(name), render_arguments(name, given)
        return cls(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.TOOL_CALL, arguments, call, tool)

    @classmethod
    def of_result(cls, text: str, call: str | None, tool: str | None = None) -> "RecordText":
        """Return the text of a tool result. `call` is the id of its call, `tool` the name of the tool."""
        return cls(Role.TOOL, Origin.TOOL, TurnKind.TOOL_RESULT, text, call, tool)

    @classmethod
    def of_compaction(cls, summary: str = "") -> list["RecordText"]:
        """Return the mark of a place where the agent cleared its context, and its summary of the cleared text."""
        mark = cls(Role.SYSTEM, Origin.SYSTEM, TurnKind.COMPACTION, "")
        return [mark, cls(Role.SYSTEM, Origin.ASSISTANT, TurnKind.SUMMARY, summary)]


class Envelope(NamedTuple):
    """Hold the values that all turns of one record share. They have the same meaning as in `Turn`."""

    record_id: str
    at: str | None
    sidechain: bool = False
    message_id: str | None = None
    model: str | None = None
    branch: str | None = None


def read_message(text: str, *, program: bool) -> RecordText:
    """Return a text in the user's name as the agent program's own words (`program`) or as the person's."""
    if program:
        return RecordText(Role.SYSTEM, Origin.SYSTEM, TurnKind.MESSAGE, text)
    return RecordText(Role.USER, Origin.USER, TurnKind.MESSAGE, text)


def of_blocks(content: object, typed: Callable[[str], list[RecordText]]) -> list[RecordText]:
    """Return the texts of blocks in the user's name. `typed` divides texts and markers by author.

    Results of tools come in the user's name too. Other blocks with text, such as documents, have an unknown author.
    """
    said: list[RecordText] = []
    for block in mappings(content):
        kind = block.get("type")
        if is_output(kind):
            said.append(RecordText.of_result(output_text(block), read_word(block.get("tool_use_id"))))
        elif has_words(block) and not (kind == "text" and type(block.get("text")) is str):
            said.append(RecordText(Role.SYSTEM, Origin.UNKNOWN, TurnKind.MESSAGE, block_text([block])))
        else:
            said += typed(block_text([block]))
    return said


_PAIRED = frozenset({TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT, TurnKind.COMPACTION})
_PRIVATE = re.compile(r"(?:<|&lt;)\s{0,8}(/?)\s{0,8}private\b", re.IGNORECASE)
_SPOKEN = frozenset({Origin.USER, Origin.ASSISTANT})


def turns_of(said: Iterable[RecordText], envelope: Envelope, usage: int | None = None) -> list[Turn]:
    """Return the turns of one record.

    Parts that memoryd injected become separate turns. Blank texts are dropped, except those that pair a tool call with
    its result. Texts on a side chain are a subagent's. The usage goes to the first turn; without turns, to an empty
    one.
    """
    record_id, at, sidechain, message_id, model, branch = envelope
    parts: list[RecordText] = []
    for one in said:
        rest, injected = strip(one.text)
        if one.kind in _PAIRED or (rest and not rest.isspace()):
            parts.append(one if rest is one.text else one._replace(text=rest))
        parts += [RecordText(Role.SYSTEM, Origin.INJECTED, TurnKind.MESSAGE, part) for part in injected]
    parts = _join_private(parts) if len(parts) > 1 else parts
    if usage is not None and not parts:
        parts.append(RecordText(Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, ""))
    return [
        Turn(
            record_id, number, role, Origin.SUBAGENT if sidechain and spoken in _SPOKEN else spoken, kind, text, at,
            message_id, None if number else usage, model, sidechain, call, tool, None, branch,
        )
        for number, (role, spoken, kind, text, call, tool) in enumerate(parts)
    ]  # fmt: skip


def _join_private(parts: list[RecordText]) -> list[RecordText]:
    """Join the user's texts of one record if a `<private>` part may span several of them."""
    own = [at for at, one in enumerate(parts) if one.origin is Origin.USER and one.kind is TurnKind.MESSAGE]
    if not any(sum(-1 if tag[1] else 1 for tag in _PRIVATE.finditer(parts[at].text)) > 0 for at in own[:-1]):
        return parts
    first, *rest = own
    whole = parts[first]._replace(text="\n".join(parts[at].text for at in own))
    return [whole if at == first else one for at, one in enumerate(parts) if at not in rest]


def turns_with_usage_last(said: Iterable[RecordText], envelope: Envelope, usage: int | None) -> list[Turn]:
    """Return the turns of one record whose usage includes its own text. An empty turn after them carries the usage."""
    turns = turns_of(said, envelope)
    return turns if usage is None else [*turns, turns_of((), envelope, usage)[0]._replace(part=len(turns))]
