"""Serve on standard input and output until they close, or until a signal comes."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.stdio import stdio_server

from memoryd.interfaces.mcp.calls import CallKind
from memoryd.interfaces.mcp.unanswered import InputStream, OutputStream, UnansweredRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.lowlevel import Server

    from memoryd.interfaces.mcp.calls import Calls
    from memoryd.reading.scrubbing import Scrubber

GRACE = 5.0  # seconds that what runs may take at the end
TICK = 30.0
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))


async def over_stdio(server: Server[Any], calls: Calls, scrubber: Scrubber, close: Callable[[], None]) -> None:
    """Serve the process that started this one, until it closes the input and has all answers, or a signal comes.

    Standard output belongs to the protocol: everything else that is written there goes to standard error.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_by_signal, calls, close)
        tasks.start_soon(_tick, scrubber)
        async with stdio_server() as (read, write):
            unanswered = UnansweredRequests(CallKind.WRITE.value.seconds)
            options = server.create_initialization_options()
            await server.run(InputStream(read, unanswered), OutputStream(write, unanswered), options)
        await calls.drain(GRACE)
        tasks.cancel_scope.cancel()


async def over_plain_stdio(server: Server[Any]) -> None:
    """Serve the process that started this one until it closes the input; for a server that does nothing."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _end_by_signal(calls: Calls, close: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        async for _ in signals:
            await calls.drain(GRACE)
            close()
            os._exit(0)  # the thread that reads standard input cannot be woken; everything is stored


async def _tick(scrubber: Scrubber) -> None:
    while True:
        await anyio.sleep(TICK)
        scrubber.tick(time.monotonic())
