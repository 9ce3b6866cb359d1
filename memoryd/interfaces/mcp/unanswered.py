"""What was asked and is not answered yet: a server whose input has closed goes on until it has answered it.

The SDK's server drops what is under way when its input ends, and says that the connection was closed: of a note that is
stored all the same. Programs that pipe their calls in close the input as soon as they have written them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

if TYPE_CHECKING:
    from typing import Self

    from mcp.shared._stream_protocols import ReadStream, WriteStream

    Received = SessionMessage | Exception

S = TypeVar("S", bound="ReadStream[Any] | WriteStream[Any]")


class UnansweredRequests:
    """The requests that wait for an answer."""

    def __init__(self, seconds: float) -> None:
        """Nothing waits; what does at the end is waited for `seconds` at most."""
        self._ids: set[str | int | None] = set()
        self._seconds = seconds
        self._changed = anyio.Event()

    def take(self, request: JSONRPCRequest) -> ServerMessageMetadata:
        """A request has come; returns what tells when it is never going to be answered, for it was cancelled."""
        self._ids.add(request.id)

        async def drop_request() -> None:
            self.note_answer(request.id)

        return ServerMessageMetadata(on_request_unanswered=drop_request)

    def note_answer(self, request_id: str | int | None) -> None:
        """A request is not waited for any more."""
        self._ids.discard(request_id)
        self._changed.set()

    async def wait(self) -> None:
        """Wait until all are answered, or it has taken too long."""
        with anyio.move_on_after(self._seconds):
            while self._ids:
                self._changed = anyio.Event()
                await self._changed.wait()


class _Stream(Generic[S]):
    def __init__(self, inner: S, unanswered: UnansweredRequests) -> None:
        self._inner = inner
        self._unanswered = unanswered

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class InputStream(_Stream["ReadStream[Received]"]):
    """The stream of what comes, which ends only when all of it is answered."""

    async def receive(self) -> Received:
        try:
            found = await self._inner.receive()
        except anyio.EndOfStream:
            await self._unanswered.wait()
            raise
        if isinstance(found, ValidationError):
            found = _fix_line(found)
        if isinstance(found, SessionMessage) and isinstance(found.message, JSONRPCRequest):
            found.metadata = self._unanswered.take(found.message)
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def _fix_line(error: ValidationError) -> Received:
    """What a line says that has half a character in it, as JavaScript writes where it cuts a text; else its error.

    The SDK takes it for no JSON, and would never answer it.
    """
    line = error.errors(include_url=False)[0]["input"]
    try:
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except (TypeError, ValueError, RecursionError):
        return error


class OutputStream(_Stream["WriteStream[SessionMessage]"]):
    """The stream of what is said, which knows what has been answered."""

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._unanswered.note_answer(item.message.id)
