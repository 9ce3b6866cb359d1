r"""Render a question as chat messages: first the instructions, then the other texts, one on each line.

    t15 u 2026-11-20 09:12 "The parser fails. |2|Fix it, please."
    t16 a "Done."

A text is a JSON string, so its quotation marks and line breaks are escaped and it cannot end its own quotation. Before
the text are the id for citations, a letter for the speaker, and the part of the time that changed. `|2|` begins the
second sentence of a piece. If a text contains such a mark itself, its bars are escaped. The form is short, because a
session has hundreds of pieces.
"""

import json
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

from memoryd.jobs.job import Ask, ModelExchange, QuotedPiece, ToolCall
from memoryd.text.content import label_of
from memoryd.text.json_values import parse_json
from memoryd.text.sentences import split

_QUOTING, _CALLING = (
    "\n\n" + (pkgutil.get_data(__name__, file) or b"").decode().strip() for file in ("quoting.md", "calling.md")
)
_BAR = re.compile(r"\|(?=\d)|(?<=\d)\|")  # a bar that could be read as part of a mark
# Line breaks that JSON does not escape.
_BREAKS = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "\x7f\x85\u2028\u2029"})
_MEMORY = "memory"  # the role of memories of the core, whose speaker is usually omitted
_OWN = frozenset({_MEMORY, "user"})
_BY_DAY = frozenset({_MEMORY, "daily"})  # roles whose pieces are in order, so that the day is enough
# Short names of the frequent speakers.
_LETTERS = {"user": "u", "assistant": "a", "report": "r", "note": "n", "unknown": "?"}
_YEAR, _DAY, _MINUTE = len("2026-"), len("2026-11-20"), len("2026-11-20 09:12")
_PAUSE = 10  # minutes; a smaller change of time is not shown


def build_messages(ask: Ask, *, native: bool = True) -> list[dict[str, Any]]:
    """Return `ask` as chat messages.

    Args:
        ask: the question.
        native: True if tools are called by the server's own API; otherwise they are called in text.
    """
    if ask.text:
        return [
            {"role": "system", "content": _encodable(ask.instructions)},
            {"role": "user", "content": _encodable(ask.text)},
        ]
    given = [_render_value(name, text) for name, text in ask.context]
    is_cited = bool(ask.material) and not ask.tools  # who calls tools names memories by their ids
    system = ask.instructions.strip() + _QUOTING * is_cited
    if ask.tools and not native:
        told = [f"{tool.name}: {tool.description} Arguments, as JSON Schema: {tool.parameters}" for tool in ask.tools]
        system += _CALLING.format(tools="\n".join(told))
    opening = [
        {"role": "system", "content": _encodable(system)},
        {"role": "user", "content": "\n".join([*given, *_pieces(ask.material, is_cited=is_cited)])},
    ]
    put = _render_calls if native else _render_exchange
    return [*opening, *(message for one in ask.earlier for message in put(one))]


def build_tools(ask: Ask) -> list[dict[str, Any]]:
    """Return the tools of a question in the form of OpenAI's API."""
    given = [{"name": tool.name, "description": tool.description} for tool in ask.tools]
    schemas = [{"parameters": json.loads(tool.parameters)} for tool in ask.tools]
    return [{"type": "function", "function": one | schema} for one, schema in zip(given, schemas, strict=True)]


def _pieces(material: tuple[QuotedPiece, ...], *, is_cited: bool) -> Iterator[str]:
    """Yield one line for each piece of the material; `is_cited` numbers its sentences."""
    write = _number_sentences if is_cited else _escape
    shown = ""  # the last time that was shown
    for piece in material:
        at = (piece.at or "").replace("T", " ")[: _DAY if piece.role in _BY_DAY else _MINUTE]
        when = _show_change(at, shown)
        shown = at if when else shown
        yield _line(" ".join(filter(None, (piece.id, _speaker(piece), when))), write(piece.text))


def _show_change(at: str, shown: str) -> str:
    """Return the part of a time that changed: from the year, the day or the minute on; empty after a few minutes."""
    if not at or at[:_DAY] != shown[:_DAY]:
        return at[_YEAR:] if at[:_YEAR] == shown[:_YEAR] else at
    clock, before = at[_DAY:].strip(), shown[_DAY:].strip()
    return clock if clock and abs(_minutes(clock) - _minutes(before)) >= _PAUSE else ""


def _minutes(clock: str) -> int:
    hour, _, minute = clock.partition(":")
    return 60 * int(hour) + int(minute) if hour.isdecimal() and minute.isdecimal() else -_PAUSE


def _speaker(piece: QuotedPiece) -> str:
    # The kind of a memory or the label of a text already names the speaker. Otherwise the origin says more than the
    # role.
    if (piece.role == _MEMORY and piece.origin in _OWN) or label_of(piece.text) == piece.origin:
        return ""
    return piece.role if piece.origin == "ledger" else _LETTERS.get(piece.origin, piece.origin)


def _render_value(name: str, text: str) -> str:
    """Return a text as one line; a number or a JSON object, such as a tool's result, is not quoted."""
    value = parse_json(text)
    if type(value) is dict or (type(value) is int and str(value) == text):
        return f"{_escape(name)} {_encodable(json.dumps(value, ensure_ascii=False)).translate(_BREAKS)}".lstrip()
    return _line(name, _escape(text))


def _line(name: str, body: str) -> str:
    return f'{_escape(name)} "{body}"'.lstrip()


def _number_sentences(text: str) -> str:
    """Return the inside of a JSON string, with the number of each sentence from the second on."""
    text = _encodable(text)
    parts = []
    behind = 0
    for number, one in enumerate(split(text)[1:], 2):
        parts += [_BAR.sub(r"\\u007c", _escape(text[behind : one.start])), f"|{number}|"]
        behind = one.start
    return "".join([*parts, _BAR.sub(r"\\u007c", _escape(text[behind:]))])


def _escape(text: str) -> str:
    """Return a text as the inside of a JSON string, without line breaks."""
    return json.dumps(_encodable(text), ensure_ascii=False)[1:-1].translate(_BREAKS)


def _render_calls(one: ModelExchange) -> Iterator[dict[str, Any]]:
    """Yield an earlier exchange as messages with the server's own tool calls."""
    if not one.calls:
        yield from _render_exchange(one)
        return
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _object(call)}}
        for call in one.calls
    ]
    yield {"role": "assistant", "content": _encodable(one.text) or None, "tool_calls": calls}
    for call, result in zip(one.calls, one.results, strict=True):
        yield {"role": "tool", "tool_call_id": call.id, "content": _render_value("", result)}


def _render_exchange(one: ModelExchange) -> Iterator[dict[str, Any]]:
    """Yield an earlier exchange as messages with tool calls in text."""
    calls = [f'{{"tool": {json.dumps(call.name)}, "arguments": {_object(call)}}}' for call in one.calls]
    said = "\n".join(part for part in (one.text, *calls) if part)
    yield {"role": "assistant", "content": _encodable(said) or "(nothing)"}
    results = [_render_value(f"result {number}", result) for number, result in enumerate(one.results, 1)]
    yield {"role": "user", "content": "\n".join(results)}


def _object(call: ToolCall) -> str:
    # Servers parse earlier calls again, so a value that is not an object is put into one.
    is_object = isinstance(parse_json(call.arguments), dict)
    return call.arguments if is_object else json.dumps({"malformed": call.arguments})


def _encodable(text: str) -> str:
    # A lone surrogate of a transcript cannot be encoded as UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")
