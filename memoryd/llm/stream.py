"""Build a model's answer from the bytes of a response: server-sent events, or one JSON object.

Events are parsed as in the HTML standard (section 9.2, "Server-sent events"), and chunks as in OpenAI's API reference
of chat completions. The reader is strict where an error could change the content. It rejects bytes that are not UTF-8,
repeated keys, NaN and Infinity (which are not JSON), and an answer without an end.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from memoryd.jobs.job import ToolCall

MOST_CHARACTERS = 400_000  # the most characters of an answer; the longest requested answer has a twentieth of them
_DONE = b"[DONE]"
_ENDS = {
    "stop": "stop", "eos": "stop", "end_turn": "stop", "stop_sequence": "stop",
    "length": "length", "max_tokens": "length", "model_length": "length",
    "content_filter": "refusal", "refusal": "refusal",
}  # fmt: skip
_CALLING = frozenset({"tool_calls", "function_call", "tool_use", "tool-calls"})  # reasons for an end with tool calls
_TEXTS = frozenset({"text", "output_text"})  # types of blocks that are part of the answer
MOST_CALLS = 2_000


class BadReplyError(Exception):
    """Report why the bytes are not an answer, without quoting them; `said` is the server's own error text."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


@dataclass(slots=True)
class _StreamedCall:
    """Hold the part of a tool call that has arrived."""

    index: object  # the server's number of the call; None if it gives none
    id: str
    name: str
    arguments: list[str]


@dataclass(slots=True)
class Assembly:
    """Hold the part of an answer that has arrived."""

    parts: list[str] = field(default_factory=list)
    called: list[_StreamedCall] = field(default_factory=list)
    characters: int = 0
    end: str | None = None  # the server's name for the reason of the end
    refused: bool = False
    model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None

    @property
    def finish_reason(self) -> str:
        """Return the reason why the answer ended: stop, length, refusal or error."""
        if self.refused:
            return "refusal"
        return "stop" if self.called and self.end in _CALLING else _ENDS.get(self.end or "", "error")

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls, in order."""
        return tuple(
            ToolCall(call.id or f"call_{number}", call.name, "".join(call.arguments))
            for number, call in enumerate(self.called)
        )

    def add(self, data: bytes, *, said_in: str) -> None:
        """Add an object of the API.

        `said_in` names the key with the message: `delta` in a chunk, `message` in a whole answer.

        Raises:
            BadReplyError: the data is not such an object, or is an error of the server.
        """
        given = _object(data)
        if given.get("error"):
            raise BadReplyError("the server broke its answer off with an error", json.dumps(given["error"]))
        model = given.get("model")
        self.model = model if isinstance(model, str) else self.model
        self._count(given.get("usage"))
        for choice in _objects(given.get("choices") or [], "choices are not a list of objects"):
            if choice.get("index", 0) == 0:  # memoryd asks for one choice, so others are ignored
                self._take(choice, said_in)

    def _take(self, choice: dict[str, Any], said_in: str) -> None:
        said = choice.get(said_in) or {}
        if not isinstance(said, dict):
            raise BadReplyError("the answer's message is not an object")
        content = _text_of(said.get("content"))
        self.parts.append(content)
        self._say(len(content))
        self._call(said.get("tool_calls") or [])
        self.refused = self.refused or bool(said.get("refusal"))
        end = choice.get("finish_reason")
        self.end = end if isinstance(end, str) else self.end

    def _say(self, characters: int) -> None:
        self.characters += characters
        if self.characters > MOST_CHARACTERS:
            raise BadReplyError("the answer is longer than any answer can be")

    def _call(self, given: object) -> None:
        """Add tool calls or pieces of them; a piece without a name continues the call with its number."""
        for one in _objects(given, "calls are not a list of objects"):
            function = one.get("function") or {}
            if not isinstance(function, dict):
                raise BadReplyError("a tool call of the answer is malformed")
            name, piece, id_ = function.get("name") or "", function.get("arguments"), one.get("id") or ""
            piece = json.dumps(piece) if isinstance(piece, dict) else piece or ""
            if not all(isinstance(text, str) for text in (name, piece, id_)):
                raise BadReplyError("a tool call of the answer is malformed")
            self._say(len(name) + len(piece))
            known = self._find_call(one.get("index"), id_, name)
            if known is None:
                self.called.append(_StreamedCall(one.get("index"), id_, name, [piece]))
            else:
                known.arguments.append(piece)
            if len(self.called) > MOST_CALLS:
                raise BadReplyError("the answer has more calls than any answer can have")

    def _find_call(self, index: object, id_: str, name: str) -> _StreamedCall | None:
        # Some servers number every call 0 and some give no number. Then another id or a name begins another call.
        found = [call for call in self.called if call.index == index]
        if not found or (id_ and found[-1].id and id_ != found[-1].id):
            return None
        return None if name and index is None else found[-1]

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self.tokens_in = _count_of(usage.get("prompt_tokens"), self.tokens_in)
            self.tokens_out = _count_of(usage.get("completion_tokens"), self.tokens_out)


def read_events(chunks: Iterable[bytes], into: Assembly) -> Iterator[None]:
    """Read a stream of events into `into`, and yield after each event, so that the caller notices progress.

    Raises:
        BadReplyError: an event is not part of an answer, or the stream ends before the answer is complete.
    """
    for data in _events(chunks):
        if data.strip() == _DONE:
            break
        into.add(data, said_in="delta")
        yield
    if into.end is None and not into.refused:
        raise BadReplyError("the answer ended before it was finished")


def read_object(chunks: Iterable[bytes], into: Assembly) -> None:
    """Read one whole answer into `into`, from a server that does not stream.

    Raises:
        BadReplyError: the bytes are not a complete answer.
    """
    into.add(b"".join(chunks), said_in="message")
    if into.end is None and not into.refused:
        raise BadReplyError(
            "the answer does not say that it is finished" if into.parts else "the answer has no choices"
        )


def _events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    for line in _lines(chunks):
        if line.startswith(b"data:"):
            held.append(line[5:].removeprefix(b" "))
        elif not line and held:
            yield b"\n".join(held)
            held = []
    if held:  # the standard drops an event without a final blank line, but many servers omit that line
        yield b"\n".join(held)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    for chunk in chunks:
        pieces = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        # A CRLF that is divided between two chunks gives one more empty line, which ends an event that has already
        # ended.
        for piece in pieces[:-1]:
            yield b"".join([*rest, piece])
            rest = []
        rest.append(pieces[-1])
    yield b"".join(rest)


def _object(data: bytes) -> dict[str, Any]:
    try:
        given = json.loads(data.decode("utf-8"), object_pairs_hook=_reject_duplicates, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise BadReplyError("the answer is not UTF-8") from None
    except (ValueError, RecursionError):
        raise BadReplyError("the answer is not JSON") from None
    if not isinstance(given, dict):
        raise BadReplyError("the answer is not a JSON object")
    return given


def _objects(given: object, why: str) -> list[dict[str, Any]]:
    """Return a list of JSON objects, or raise a BadReplyError with `why`."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise BadReplyError(f"the answer's {why}")
    return given


def _text_of(content: object) -> str:
    """Return the text of a message: a string, or the text blocks of a list; blocks of reasoning are left out."""
    blocks = [{"type": "text", "text": content or ""}] if content is None or isinstance(content, str) else content
    blocks = _objects(blocks, "content is not text")
    texts = [block.get("text") for block in blocks if block.get("type") in _TEXTS]
    if not all(isinstance(text, str) for text in texts):
        raise BadReplyError("the answer's content is not text")
    return "".join(map(str, texts))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    given = dict(pairs)
    if len(given) != len(pairs):
        raise BadReplyError("the answer names a thing twice")
    return given


def _refuse_constant(_: str) -> None:
    raise BadReplyError("the answer holds an invalid number")


def _count_of(value: object, before: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else before
