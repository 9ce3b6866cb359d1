"""Serve MCP on standard input and output until they close, or on the loopback until a signal comes.

The SDK's server drops running calls when its input ends. It reports a closed connection, even for a note that is stored
afterwards. Programs that pipe in their calls close the input as soon as they have written them. So the open requests
are tracked, and the end of the input is delayed until they are answered.
"""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import uvicorn
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError
from uvicorn.protocols.http.h11_impl import H11Protocol

from memoryd.files.log import Log
from memoryd.interfaces.mcp.calls import CallKind, Calls
from memoryd.interfaces.mcp.loopback import LARGEST_BODY, PATH, Loopback
from memoryd.reading.scrubbing import Scrubber

GRACE = 5.0  # seconds that running calls get at the end
TICK = 30.0
MOST_SILENT = 256  # silent connections; beyond this, the oldest is closed, because a real client sends at once
MOST_ACCEPTED = 64  # connections accepted at a time, before requests are read
HEAD_SECONDS = 5.0  # for the head of a request, before a silent connection is closed
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
Received = SessionMessage | Exception
Unanswered = dict[str | int | None, anyio.Event]  # request id → event that is set by the answer or the cancellation


async def over_stdio(server: Server[Any], calls: Calls, scrubber: Scrubber, close: Callable[[], None]) -> None:
    """Serve the parent process until it closes the input and has all answers, or until a signal comes.

    Standard output belongs to the protocol. Anything else that is printed goes to standard error.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_by_signal, calls, close)
        tasks.start_soon(_tick, scrubber)
        async with stdio_server() as (read, write):
            unanswered: Unanswered = {}
            into, received = anyio.create_memory_object_stream[Received]()
            outgoing, answers = anyio.create_memory_object_stream[SessionMessage]()
            tasks.start_soon(take_requests, read, into, unanswered, CallKind.WRITE.value.seconds)
            tasks.start_soon(_send_answers, answers, write, unanswered)
            await server.run(received, outgoing, server.create_initialization_options())
        await calls.drain(GRACE)
        tasks.cancel_scope.cancel()


async def over_plain_stdio(server: Server[Any]) -> None:
    """Serve the parent process until it closes the input; for a server without tools."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _end_by_signal(calls: Calls, close: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        async for _ in signals:
            await calls.drain(GRACE)
            close()
            os._exit(0)  # the thread that reads standard input cannot be interrupted


async def _tick(scrubber: Scrubber) -> None:
    while True:
        await anyio.sleep(TICK)
        scrubber.tick(time.monotonic())


async def over_http(
    server: Server[Any], calls: Calls, scrubber: Scrubber, listener: socket.socket, token: str, log: Log
) -> None:
    """Serve clients on this machine with the `token` until a signal comes."""
    inner = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, max_request_body_size=LARGEST_BODY
    )
    config = uvicorn.Config(
        Loopback(inner, listener.getsockname()[1], token, log), http=Impatient, ws="none", log_config=None,
        access_log=False, server_header=False, backlog=MOST_ACCEPTED, timeout_graceful_shutdown=int(GRACE),
    )  # fmt: skip
    web = _Web(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tick, scrubber)
        tasks.start_soon(_stop_by_signal, web)
        await web.serve(sockets=[listener])
        await calls.drain(GRACE)
        tasks.cancel_scope.cancel()


class Impatient(H11Protocol):
    """Close silent connections, or any program on this machine could occupy all of them without a token."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the connection, and close the oldest silent one if there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.loop.call_later(HEAD_SECONDS, self._look, None)
        silent = [one for one in self.connections if isinstance(one, Impatient) and one.is_silent]
        if len(silent) > MOST_SILENT:
            min(silent, key=lambda one: one.since).transport.close()

    @property
    def is_silent(self) -> bool:
        """Return True if no request is pending."""
        asked: Any = self.cycle
        return (asked is None or asked.response_complete) and not self.transport.is_closing()

    def _look(self, answered: object) -> None:
        """Close a connection without a new request or answer since the last call.

        Without this, uvicorn waits forever after any single byte.
        """
        asked: object = self.cycle
        if self.is_silent and asked is answered:
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(HEAD_SECONDS, self._look, asked if self.is_silent else self)


class _Web(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals. Uvicorn would raise them again at its end and so end the process."""
        yield


async def _stop_by_signal(web: uvicorn.Server) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        async for _ in signals:
            web.should_exit = True


async def take_requests(
    read: "ReadStream[Received]", into: ObjectSendStream[Received], unanswered: Unanswered, seconds: float
) -> None:
    """Pass on the incoming messages. Delay the stream's end until all requests are answered, at most for `seconds`."""
    async with into:
        async for found in read:
            message = _fix_line(found) if isinstance(found, ValidationError) else found
            if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCRequest):
                unanswered[message.message.id] = anyio.Event()
                drop = partial(_drop_request, unanswered, message.message.id)
                message.metadata = ServerMessageMetadata(on_request_unanswered=drop)
            await into.send(message)
        with anyio.move_on_after(seconds):
            for answered in [*unanswered.values()]:
                await answered.wait()


async def _drop_request(unanswered: Unanswered, request_id: str | int) -> None:
    """Wait no longer for a request that was cancelled and gets no answer."""
    if answered := unanswered.pop(request_id, None):
        answered.set()


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


async def _send_answers(
    answers: ObjectReceiveStream[SessionMessage], write: "WriteStream[SessionMessage]", unanswered: Unanswered
) -> None:
    """Pass the outgoing messages on, and note which requests they answer."""
    async with write:
        async for item in answers:
            await write.send(item)
            if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id in unanswered:
                unanswered.pop(item.message.id).set()
