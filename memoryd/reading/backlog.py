"""Hold the transcripts that wait to be read, the last written first, so that live sessions come before history."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from memoryd.reading.sources import SourcePattern


class WaitingTranscript(NamedTuple):
    """Hold a waiting transcript. The order of the tuples is by last change, the latest first."""

    order: int  # negative time of the last change, in nanoseconds
    path: str
    agent_id: str
    size: int  # bytes

    @property
    def key(self) -> tuple[str, str]:
        """Return the agent and the path, which identify the transcript."""
        return self.agent_id, self.path

    @property
    def changed_at(self) -> float:
        """Return the time of its last change, in seconds since the epoch."""
        return -self.order / 1e9


@dataclass(slots=True)
class Backlog:
    """Hold the waiting transcripts of all agents, each transcript of an agent once."""

    _heap: list[WaitingTranscript] = field(default_factory=list)
    _known: dict[tuple[str, str], tuple[WaitingTranscript, SourcePattern]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the waiting transcripts."""
        return len(self._known)

    def __iter__(self) -> Iterator[WaitingTranscript]:
        """Yield the waiting transcripts in no order, from a copy, because another thread may call this."""
        return (waiting for waiting, _ in tuple(self._known.values()))

    def add(self, source: SourcePattern, path: str, changed_ns: int, size: int) -> None:
        """Add a transcript, or replace its earlier entry."""
        waiting = WaitingTranscript(-changed_ns, path, source.agent.id, size)
        if not self._is_current(waiting):
            heapq.heappush(self._heap, waiting)
        self._known[waiting.key] = waiting, source

    def pop(self, since: float = -math.inf) -> tuple[SourcePattern, str] | None:
        """Remove and return the transcript that was written last.

        It is None if there is none, or if none has changed since `since` (seconds since 1970).
        """
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)  # a later call of `add` replaced this entry
        if not self._heap or self._heap[0].changed_at < since:
            return None
        waiting, source = self._known.pop(heapq.heappop(self._heap).key)
        return source, waiting.path

    def clear(self) -> None:
        """Remove all transcripts; the next scan finds them again."""
        self._heap.clear()
        self._known.clear()

    def _is_current(self, waiting: WaitingTranscript) -> bool:
        return waiting.key in self._known and self._known[waiting.key][0] == waiting
