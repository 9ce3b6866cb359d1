"""The judge of a sleep reply: which of its lines may be kept, and where, by what they cite and who said it.

The rules are those of `taint`; what is added here is how weighty a memory must be to last.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from memoryd.jobs.evidence import REPORT
from memoryd.jobs.job import MemoryType, NewMemory
from memoryd.jobs.reply import Told
from memoryd.ledger import taint
from memoryd.ledger.taint import Bench, Candidate, Place, Record, Standing
from memoryd.transcripts.turn import Origin

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Sequence

    from memoryd.jobs.job import Quoted

CORE_IMPORTANCE = 0.7  # a memory from this on goes into the core; the rest lives in the daily file
CORE_TYPES = frozenset({MemoryType.PREFERENCE, MemoryType.DECISION, MemoryType.LEARNING, MemoryType.FACT})
LONGEST_CORE = 400  # characters

# The same memory files are known to each run; what tools say is asked about once and must not push these out.
_own_digest = functools.lru_cache(maxsize=1 << 14)(taint.digest)
_ASSISTANT_TYPES = frozenset({MemoryType.DECISION, MemoryType.LEARNING})  # an assistant may vouch for these


class Judge:
    """Judges the lines of one reply by the material it was given; what is refused is counted by reason."""

    def __init__(
        self,
        material: Sequence[Quoted],
        said_on: date,
        dropped: Counter[str],
        outside: Sequence[Record] = (),
        known: Iterable[str] = (),
    ) -> None:
        """Prepare.

        Args:
            material: what the model was shown.
            said_on: the local day of what has no time.
            dropped: takes the counts.
            outside: what tools and other agents said beside it.
            known: lines of memory, which are no evidence when the assistant repeats them.
        """
        own = frozenset(_own_digest(line) for line in known if line.strip())
        self._bench = Bench([record_of(quoted, said_on) for quoted in material], outside, own)
        self._dropped = dropped

    def line(self, told: Told) -> Told | None:
        """Return the summary line in neutral form, or None where its sources do not hold it."""
        verdict = self._bench.tell(Candidate(told.text, _ids(told.sources)))
        if verdict.place is Place.REFUSED:
            self._dropped[verdict.why] += 1
            return None
        return Told(told.sources, verdict.text)

    def memory(self, memory: NewMemory) -> NewMemory | None:
        """Return the memory in neutral form, or None where type and origin of its sources do not allow it."""
        verdict = self._bench.judge(self._candidate(memory))
        if verdict.place is Place.REFUSED:
            self._dropped[verdict.why] += 1
            return None
        return replace(memory, text=verdict.text, sources=tuple(int(one[1:]) for one in verdict.cites))

    def lasts(self, memory: NewMemory) -> bool:
        """Say whether a memory that was kept may go into the core: by type, importance and who stands behind it."""
        fits = memory.importance >= CORE_IMPORTANCE and len(memory.text) <= LONGEST_CORE and memory.type in CORE_TYPES
        if not fits or self._bench.judge(self._candidate(memory)).place is not Place.CORE:
            return False
        return memory.type in _ASSISTANT_TYPES or self._bench.grounded_by_user(memory.text, _ids(memory.sources))

    def _candidate(self, memory: NewMemory) -> Candidate:
        return Candidate(memory.text, _ids(memory.sources), steers=memory.type is MemoryType.PREFERENCE)


def _ids(sources: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"t{seq}" for seq in sources)


def record_of(quoted: Quoted, said_on: date) -> Record:
    """Material as evidence; `said_on` is the local day of what has no time."""
    outside = quoted.origin == REPORT
    return Record(
        quoted.id,
        Standing.OUTSIDE if outside else taint.standing(Origin(quoted.origin)),
        quoted.text,
        date.fromisoformat(quoted.at[:10]) if quoted.at else said_on,
        "Report" if outside else quoted.role.capitalize(),
    )
