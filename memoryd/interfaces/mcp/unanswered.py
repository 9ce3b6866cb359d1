"""Track the open requests, so that a server whose input has closed can still answer them.

The SDK's server drops running calls when its input ends. It reports a closed connection, even for a note that is stored
afterwards. Programs that pipe in their calls close the input as soon as they have written them.
"""

import json
from typing import Any, Generic, Self, TypeVar

import anyio
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

Received = SessionMessage | Exception


S = TypeVar("S", bound="ReadStream[Any] | WriteStream[Any]")


class UnansweredRequests:
    """Hold the ids of the requests that wait for an answer."""

    def __init__(self, seconds: float) -> None:
        """Start without requests. `wait` takes at most `seconds`."""
        self._ids: set[str | int | None] = set()
        self._seconds = seconds
        self._changed = anyio.Event()

    def take(self, request: JSONRPCRequest) -> ServerMessageMetadata:
        """Add a request. The returned metadata removes it if it is cancelled and gets no answer."""
        self._ids.add(request.id)

        async def drop_request() -> None:
            self.note_answer(request.id)

        return ServerMessageMetadata(on_request_unanswered=drop_request)

    def note_answer(self, request_id: str | int | None) -> None:
        """Remove a request that was answered or cancelled."""
        self._ids.discard(request_id)
        self._changed.set()

    async def wait(self) -> None:
        """Wait until all requests are answered, or the time is over."""
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
    """Read the incoming stream. Its end is delayed until all requests are answered."""

    async def receive(self) -> Received:
        try:
            found = await self._inner.receive()
        except anyio.EndOfStream:
            await self._unanswered.wait()
            raise
        found = _fix_line(found) if isinstance(found, ValidationError) else found
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
    """Return the message of a line with half a surrogate pair, as JavaScript may write it; otherwise the error.

    The SDK rejects such a line as invalid JSON and would never answer it.
    """
    line = error.errors(include_url=False)[0]["input"]
    try:
        whole = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except (TypeError, ValueError, RecursionError):
        return error


class OutputStream(_Stream["WriteStream[SessionMessage]"]):
    """Write the outgoing stream, and note which requests it answers."""

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._unanswered.note_answer(item.message.id)
