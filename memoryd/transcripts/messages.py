"""Read generic `{role, content}` transcripts: the messages of the chat protocols, which have no standard file format.

The files are JSON lines of one message each, lines `{"messages": […]}`, or one JSON array of messages. Content is a
string or a list of blocks, in the formats of OpenAI's Chat Completions and Responses and of Anthropic's Messages. The
`usage` of a message counts input and output. It is the size of the context *after* the message, so an empty turn after
the message carries it.
"""

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from memoryd.transcripts.blocks import block_text, has_words, is_output, output_text
from memoryd.transcripts.fields import first_word, mappings, read_time, read_tokens, read_word, type_name
from memoryd.transcripts.format import UNHEARD, Identity, LineFormat, RecordTurns, Values, first_of
from memoryd.transcripts.lines import Pass, Record, derived_id, is_record
from memoryd.transcripts.record_text import Envelope, RecordText, turns_with_usage_last
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

SPEAKERS = {
    "system": (Role.SYSTEM, Origin.SYSTEM),
    "developer": (Role.SYSTEM, Origin.SYSTEM),
    "user": (Role.USER, Origin.USER),
    "human": (Role.USER, Origin.USER),
    "assistant": (Role.ASSISTANT, Origin.ASSISTANT),
    "model": (Role.ASSISTANT, Origin.ASSISTANT),
    "tool": (Role.TOOL, Origin.TOOL),
    "function": (Role.TOOL, Origin.TOOL),
}
_TIMES = ("timestamp", "ts", "created_at", "time")
_IDS = ("tool_call_id", "tool_use_id", "call_id")
_UNSPOKEN = frozenset({"thinking", "redacted_thinking", "reasoning"})
CALLS = frozenset({"tool_use", "function_call"})
_WORDLESS = re.compile(
    r"image|audio|video|(?<![a-z])file(?![a-z])|document|tool.(?:use|call|result)$|^step.(?:start|finish)$"
)
_SPEECH = frozenset({"text", "input_text", "output_text", "refusal"})
_ID_CHARS_MIN = 16  # a shorter id may be a counter that restarts in every session
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
COUNTS = (*_INPUTS, "prompt_tokens", "completion_tokens", "output_tokens", "total_tokens")  # the members of a usage


class Messages(LineFormat):
    """Read the messages. A session is identified by its file name and a hash of the folder."""

    name = "messages"

    def is_own(self, value: dict[str, Any]) -> bool:
        """Return True if a record is a message or has a list of them.

        Records of other formats may match too, so ask this last.
        """
        return _speaks(value) or bool(_list_messages(value))

    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Identify the session by its path."""
        folder = sha256(str(path.parent).encode("utf-8", "replace")).hexdigest()[:8]
        cwd, started = first_of(self.cwd_of, records), first_of(time_of, records)
        return Identity(f"{path.stem}-{folder}", None, cwd, sidechain=False, started_at=started)

    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one message, or of all messages in a line that holds many."""
        value = record.value
        messages = _list_messages(value) or ([value] if _speaks(value) else [])
        if not messages:
            return RecordTurns((), _find_unknown(value, ()) or type_name(value.get("type")))
        if messages[0] is value:
            turns = _message_turns(value, value, _record_id(record, meetings))
            return RecordTurns(_number_turns(turns), _find_unknown(value, messages))
        # Such a line is rewritten with each message. So each message has its own id, and equal ones are counted in the
        # line.
        within = Pass(meetings.session)
        known: dict[str, bytes] = {}
        turns = []
        for message in messages:
            inner = record._replace(value=message, data=_canonical(message, record.data))
            record_id = _record_id(inner, within)
            if known.setdefault(record_id, inner.data) != inner.data:
                record_id = derived_id(inner, within, stamped=False)  # two messages have this id
            turns += _number_turns(_message_turns(message, value, record_id))
        return RecordTurns(turns, _find_unknown(value, messages))


def is_document(head: bytes) -> bool:
    """Return True if a file with this beginning is one JSON array, not lines."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def is_lines(data: bytes) -> bool:
    """Return True if a file that begins like a JSON array is JSON lines with a damaged first line.

    In an array, a line that is a whole object follows a comma, a bracket or a colon.
    """
    before = b"["
    for piece in data.split(b"\n")[:-1]:
        line = piece.strip()
        is_apart = line[:1] + line[-1:] == b"{}" and not before.endswith((b",", b"[", b":"))
        if is_apart and is_record(line):
            return True
        before = line or before
    return False


def _record_id(record: Record, meetings: Pass) -> str:
    value = record.value
    uuid = read_word(value.get("uuid")) or ""
    is_stamped = len(read_word(value.get("id")) or "") >= _ID_CHARS_MIN or time_of(value) is not None
    return uuid if len(uuid) >= _ID_CHARS_MIN else derived_id(record, meetings, stamped=is_stamped)


def _canonical(message: dict[str, Any], line: bytes) -> bytes:
    try:
        return json.dumps(message, sort_keys=True).encode()
    except RecursionError:
        return line


def _number_turns(turns: list[Turn]) -> list[Turn]:
    return [turn._replace(part=part) for part, turn in enumerate(turns)] if len(turns) > 1 else turns


def _speaks(value: dict[str, Any]) -> bool:
    role = value.get("role")
    return type(role) is str and role.lower() in SPEAKERS and ("content" in value or "tool_calls" in value)


def _find_unknown(value: dict[str, Any], messages: Sequence[dict[str, Any]]) -> str | None:
    """Return the name under which a message of an unknown role, or a part of an unknown type, is skipped, or None."""
    names = [type_name(one["role"]) for one in (value, *_objects(value)) if "role" in one and not _speaks(one)]
    for one in messages:
        parts = filter(_is_unknown, mappings(one.get("content")))
        names += [f"{type_name(one['role'])}/{type_name(part.get('type'))}" for part in parts]
    return f"{UNHEARD}{names[0]}" if names else None


def _is_unknown(part: dict[str, Any]) -> bool:
    """Return True if a part of a message shows as a marker at most, and is of no type that holds no words."""
    kind = type_name(part.get("type"))
    return not (has_words(part) or kind in _UNSPOKEN | CALLS or is_output(kind) or _WORDLESS.search(kind))


def _list_messages(value: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in _objects(value) if _speaks(message)]


def _objects(value: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if "role" in value else mappings(value.get("messages"))


def time_of(value: dict[str, Any]) -> str | None:
    """Return the time of a message, UTC in ISO 8601 with Z, or None if it has none."""
    return next((found for found in (read_time(value.get(key)) for key in _TIMES) if found), None)


def _message_turns(message: dict[str, Any], line: dict[str, Any], record_id: str) -> list[Turn]:
    at = time_of(message) or time_of(line)
    model = read_word(message.get("model")) or read_word(line.get("model"))
    usage = _context(message.get("usage"))
    message_id = (read_word(message.get("id")) or record_id) if usage else None
    envelope = Envelope(record_id, at, sidechain=False, message_id=message_id, model=model)
    return turns_with_usage_last(_read_texts(message), envelope, usage)


def _read_texts(message: dict[str, Any]) -> list[RecordText]:
    speaker, origin = SPEAKERS[message["role"].lower()]
    content = message.get("content")
    if speaker is Role.TOOL:
        return [RecordText.of_result(block_text(content), first_word(message, *_IDS), read_word(message.get("name")))]
    blocks = content if type(content) is list else [content]
    said = [one for one in (_block(block, speaker, origin) for block in blocks) if one is not None]
    return said + [_call(call) for call in mappings(message.get("tool_calls"))]


def _block(block: object, speaker: Role, origin: Origin) -> RecordText | None:
    kind = block.get("type") if isinstance(block, dict) else None
    if isinstance(block, dict) and type(kind) is str:
        if kind in _UNSPOKEN:
            return None
        if kind in CALLS:
            return _call(block)
        if is_output(kind):
            return RecordText.of_result(output_text(block), first_word(block, *_IDS))
    text = block_text([block])
    is_speech = type(kind) is str and kind in _SPEECH
    if isinstance(block, dict) and not is_speech and has_words(block) and block.keys() != {"text"}:
        speaker, origin = Role.SYSTEM, Origin.UNKNOWN  # for example a document, which the speaker only passed on
    return RecordText(speaker, origin, TurnKind.MESSAGE, text) if text else None


def _call(call: dict[str, Any]) -> RecordText:
    function = call.get("function")
    named = function if type(function) is dict else call
    given = named.get("arguments", named.get("input"))
    return RecordText.of_call(named.get("name"), given, first_word(call, "id", *_IDS))


def _context(usage: object) -> int | None:
    """Return the tokens of prompt and completion, in either protocol. Anthropic counts cached input separately."""
    if type(usage) is not dict:
        return None
    prompt = read_tokens(usage.get("prompt_tokens")) or sum(read_tokens(usage.get(key)) for key in _INPUTS)
    completion = read_tokens(usage.get("completion_tokens")) or read_tokens(usage.get("output_tokens"))
    return (prompt + completion if prompt else read_tokens(usage.get("total_tokens"))) or None
