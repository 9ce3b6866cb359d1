"""The judge of a sleep reply: which of its lines may be kept, by what they cite and who said it.

Taint goes by origin, never by what a text says of itself: preferences and instructions come only from what the user
typed, in the user's words; what only a tool or a subagent reported stays a report and never enters the core.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from memoryd.jobs.evidence import REPORT
from memoryd.jobs.grounding import Ground, Source
from memoryd.jobs.job import MemoryType, NewMemory
from memoryd.jobs.neutral import neutral
from memoryd.jobs.reply import Told
from memoryd.transcripts.turn import Origin

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from memoryd.jobs.job import Quoted

CORE_IMPORTANCE = 0.7  # a memory from this on goes into the core; the rest lives in the daily file
CORE_TYPES = frozenset({MemoryType.PREFERENCE, MemoryType.DECISION, MemoryType.LEARNING, MemoryType.FACT})
LONGEST_LINE = 1200  # characters; a longer line is a dump, not a memory
LONGEST_CORE = 400
USER = Origin.USER.value

_ASSISTANT_TYPES = frozenset({MemoryType.DECISION, MemoryType.LEARNING})  # an assistant may vouch for these

_FRAMED = re.compile(r"^(?:Report|Changed|Failed)\b", re.IGNORECASE)
_AS_USER = re.compile(r"^(?:the )?user\b", re.IGNORECASE)
_INSTRUCTS = re.compile(
    r"\b(?:always|never|must(?! have)|from now on|do not|don't|make sure|ignore|remember to|you should|be sure to)\b"
    r"|^(?:\w+:\s*)?(?:run|execute|send|upload|download|fetch|open|visit|forward|install|delete)\b"
    r"|必ず|総是|总是|不要|请务必|niemals|immer|jamais|toujours|nunca|siempre",
    re.IGNORECASE,
)


class Judge:
    """Judges the lines of one reply by the material it was given; what is refused is counted by reason."""

    def __init__(self, material: Sequence[Quoted], said_on: date, dropped: Counter[str]) -> None:
        """Prepare for `material`; `said_on` is the local day of what has no time, `dropped` takes the counts."""
        self._origins = {int(quoted.id[1:]): quoted.origin for quoted in material}
        self._sources = {int(quoted.id[1:]): _source(quoted, said_on) for quoted in material}
        self._dropped = dropped
        self._grounds: dict[tuple[int, ...], Ground] = {}

    def line(self, told: Told) -> Told | None:
        """Return the summary line in neutral form, or None where its sources do not hold it."""
        text = neutral(told.text)
        origins = {self._origins.get(seq, "") for seq in told.sources}
        fault = self._fault(text, told.sources)
        if fault is None and _AS_USER.match(text) and USER not in origins:
            fault = "not the user's words"
        if fault:
            self._dropped[fault] += 1
            return None
        return Told(told.sources, f"Report: {text}" if origins == {REPORT} and not _FRAMED.match(text) else text)

    def memory(self, memory: NewMemory) -> NewMemory | None:
        """Return the memory in neutral form, or None where type and origin of its sources do not allow it."""
        text = neutral(memory.text)
        typed = self._typed(memory)
        steers = memory.type is MemoryType.PREFERENCE or _INSTRUCTS.search(text) is not None
        fault = self._fault(text, memory.sources)
        if fault is None and steers and not (typed and self._ground(typed).quotes(text)):
            fault = "not the user's words"
        if fault:
            self._dropped[fault] += 1
            return None
        return NewMemory(memory.type, memory.importance, text, typed if steers else memory.sources)

    def lasts(self, memory: NewMemory) -> bool:
        """Say whether a memory that was kept may go into the core: by type, importance and who stands behind it."""
        fits = memory.importance >= CORE_IMPORTANCE and len(memory.text) <= LONGEST_CORE and memory.type in CORE_TYPES
        if not fits or any(self._origins[seq] == REPORT for seq in memory.sources):
            return False
        typed = self._typed(memory)
        return memory.type in _ASSISTANT_TYPES or (bool(typed) and self._ground(typed).missing(memory.text) is None)

    def _typed(self, memory: NewMemory) -> tuple[int, ...]:
        return tuple(seq for seq in memory.sources if self._origins.get(seq) == USER)

    def _fault(self, text: str, sources: Sequence[int]) -> str | None:
        if any(seq not in self._sources for seq in sources):
            return "unknown source"
        if not text or len(text) > LONGEST_LINE:
            return "empty or too long"
        missing = self._ground(sources).missing(text)
        return f"{missing} not in the source" if missing else None

    def _ground(self, sources: Sequence[int]) -> Ground:
        key = tuple(sources)
        if key not in self._grounds:
            self._grounds[key] = Ground([self._sources[seq] for seq in key])
        return self._grounds[key]


def _source(quoted: Quoted, said_on: date) -> Source:
    speaker = "Report" if quoted.origin == REPORT else quoted.role.capitalize()
    return Source(quoted.text, date.fromisoformat(quoted.at[:10]) if quoted.at else said_on, speaker)
