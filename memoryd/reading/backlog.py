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
    def changed_at(self) -> float:
        """Return the time of its last change, in seconds since the epoch."""
        return -self.order / 1e9


@dataclass(slots=True)
class Backlog:
    """Hold the waiting transcripts of all agents, each transcript of an agent once."""

    _heap: list[WaitingTranscript] = field(default_factory=list)
    _sources: dict[WaitingTranscript, SourcePattern] = field(default_factory=dict)
    _known: dict[tuple[str, str], WaitingTranscript] = field(default_factory=dict)  # by agent and path

    def __len__(self) -> int:
        """Count the waiting transcripts."""
        return len(self._known)

    def __iter__(self) -> Iterator[WaitingTranscript]:
        """Yield the waiting transcripts in no order, from a copy, because another thread may call this."""
        return iter(tuple(self._known.values()))

    def add(self, source: SourcePattern, path: str, changed_ns: int, size: int) -> None:
        """Add a transcript, or replace its earlier entry."""
        waiting = WaitingTranscript(-changed_ns, path, source.agent.id, size)
        before = self._known.get((waiting.agent_id, path))
        if before is not None and before != waiting:
            del self._sources[before]
        if before != waiting:
            heapq.heappush(self._heap, waiting)
        self._known[waiting.agent_id, path] = waiting
        self._sources[waiting] = source

    def pop(self, since: float = -math.inf) -> tuple[SourcePattern, str] | None:
        """Remove and return the transcript that was written last.

        It is None if there is none, or if none has changed since `since` (seconds since 1970).
        """
        while self._heap and self._heap[0] not in self._sources:
            heapq.heappop(self._heap)  # a later call of `add` replaced this entry
        if not self._heap or self._heap[0].changed_at < since:
            return None
        waiting = heapq.heappop(self._heap)
        del self._known[waiting.agent_id, waiting.path]
        return self._sources.pop(waiting), waiting.path

    def clear(self) -> None:
        """Remove all transcripts; the next scan finds them again."""
        self._heap.clear()
        self._sources.clear()
        self._known.clear()
