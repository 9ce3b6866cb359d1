"""Run each call of a tool in its own thread, within its time and rate limits."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from memoryd.errors import MemorydError, RefusedError
from memoryd.files.log import Log
from memoryd.requests.rate import Bucket

T = TypeVar("T")
THREADS = 4


@dataclass(frozen=True, slots=True)
class Bound:
    """Limit the calls of one kind: their duration, burst and rate."""

    seconds: float  # how long the caller waits for a result; the call itself continues after that
    burst: int  # calls at once
    per_second: float  # further calls per second after the burst


class CallKind(Enum):
    """List the kinds of calls with their limits."""

    READ = Bound(20, 60, 10)
    WRITE = Bound(60, 20, 1)


class Calls:
    """Run the calls of tools in threads, within the limits of their kinds."""

    def __init__(self, log: Log, bounds: Callable[[CallKind], Bound] = lambda kind: kind.value) -> None:
        """Start without calls. `bounds` replaces the limits of a kind."""
        self._log = log
        self._bounds = bounds
        self._buckets = {kind: Bucket(bounds(kind).burst, bounds(kind).per_second) for kind in CallKind}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mcp")
        self._running: set[Future[Any]] = set()

    async def run(self, what: str, kind: CallKind, function: Callable[[], T]) -> T:
        """Run a call and return its result. `what` names it in the log.

        Raises:
            RefusedError: Too many calls of this kind.
            MemorydError: The call failed, or is not done in time; it may then continue.
        """
        bound = self._bounds(kind)
        if not self._buckets[kind].take():
            self._log.warning("mcp call refused", call=what, why="too many")
            raise RefusedError("too many calls", what, f"{bound.per_second:g} a second are answered")
        job = self._threads.submit(self._carried_out, what, function)
        self._running.add(job)
        job.add_done_callback(self._running.discard)
        waiting = asyncio.wrap_future(job)
        # A late failure is in the log. Reading it here keeps asyncio from reporting it again.
        waiting.add_done_callback(lambda one: one.cancelled() or one.exception())
        try:
            await asyncio.wait({waiting}, timeout=bound.seconds)
        except asyncio.CancelledError:
            job.cancel()
            raise
        if job.done():
            return job.result()
        if job.cancel():
            raise MemorydError("others are still at work, nothing was done", what, "try it again in a while")
        self._log.warning("mcp call late", call=what, seconds=bound.seconds)
        raise MemorydError(f"not done within {bound.seconds:g} seconds", what, "it goes on by itself: do not repeat it")

    def _carried_out(self, what: str, function: Callable[[], T]) -> T:
        begun, ended = time.monotonic(), "done"
        try:
            return function()
        except MemorydError as error:
            ended = error.code
            raise
        except BaseException as error:
            ended = type(error).__name__
            raise
        finally:
            self._log.info("mcp call", call=what, ended=ended, seconds=round(time.monotonic() - begun, 3))

    @property
    def is_idle(self) -> bool:
        """Return True if no call runs."""
        return not self._running

    async def drain(self, seconds: float) -> None:
        """Accept no more calls, and wait at most `seconds` for the running ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if running := {asyncio.wrap_future(job) for job in tuple(self._running)}:
            await asyncio.wait(running, timeout=seconds)
