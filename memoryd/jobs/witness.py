"""What an agent's own tool wants kept, weighed against what was said in its session, by the rules of `taint`.

The words are the agent's. What its session does not hold may come from a page it read: that is told in the day's file,
as a report, and what would steer the agent or speak for the user is not kept at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from memoryd.jobs import evidence
from memoryd.jobs.judge import record_of
from memoryd.ledger import taint
from memoryd.ledger.taint import Bench, Candidate, Place, Record, Standing, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from memoryd.transcripts.turn import StoredTurn

_BULLET = re.compile(r"-\s+")
_RANK = {Place.REFUSED: 0, Place.DAILY: 1, Place.CORE: 2}


class Heard(NamedTuple):
    """A session that may be the one the tool was called in."""

    id: str
    folder: str | None
    turns: Sequence[StoredTurn]


@dataclass(frozen=True, slots=True)
class Weighed:
    """What may be kept of a text, where, and what it stands on.

    Attributes:
        place: the core, the day's file, or nowhere.
        text: in neutral form; framed as a report where it is only that.
        session: the id of the session that holds it.
        seqs: its turns that do.
        why: what it lacks, without any of its words.
        reported: lines that are only reports.
        left_out: lines that are not kept.
    """

    place: Place
    text: str = ""
    session: str | None = None
    seqs: tuple[int, ...] = ()
    why: str = ""
    reported: int = 0
    left_out: int = 0


class Witness:
    """Weighs texts against sessions."""

    def __init__(
        self, heard: Sequence[Heard], known: Iterable[str], now: datetime, accepted: Sequence[str] = ()
    ) -> None:
        """Prepare.

        Args:
            heard: the sessions, the likeliest first.
            known: lines of memory: said again by the agent they are no evidence.
            now: with the offset of the zone whose days are meant.
            accepted: texts that count as the user's words, because they are memories already.
        """
        self.sessions = tuple(one.id for one in heard)
        own = frozenset(taint.digest(line) for line in known if line.strip())
        zone = timezone(now.utcoffset() or timedelta())
        self._benches = []
        for one in heard:
            material = evidence.gather(one.turns, one.folder, zone).material
            records = [Record(f"m{seq}", Standing.USER, text, now.date(), "User") for seq, text in enumerate(accepted)]
            records += [record_of(quoted, now.date()) for quoted in material]
            bench = Bench(records, evidence.outside(one.turns), own)
            self._benches.append((one, bench, [record.id for record in reversed(records)]))

    def memory(self, text: str) -> Weighed:
        """Weigh what would last."""
        return self._best(text, Bench.judge, narrowed=True)

    def note(self, text: str) -> Weighed:
        """Weigh a note for the day's file, line by line."""
        lines: list[str] = []
        why: list[str] = []
        reported = left_out = 0
        for line in text.splitlines():
            mark = _BULLET.match(line)
            said = line[mark.end() :] if mark else line
            if not said.strip():
                lines.append(line)
                continue
            weighed = self._best(said, Bench.tell)
            why += [weighed.why] if weighed.why else []
            reported += weighed.text.startswith(taint.REPORT)
            if weighed.place is Place.REFUSED:
                left_out += 1
            else:
                lines.append(f"- {weighed.text}" if mark else weighed.text)
        body = "\n".join(lines).strip("\n")
        place = Place.DAILY if body.strip() else Place.REFUSED
        return Weighed(place, body, why="; ".join(dict.fromkeys(why)), reported=reported, left_out=left_out)

    def _best(self, text: str, judge: Callable[[Bench, Candidate], Verdict], *, narrowed: bool = False) -> Weighed:
        best = Weighed(Place.REFUSED, why=taint.UNKNOWN)
        for one, bench, ids in self._benches:
            verdict = judge(bench, Candidate(text, ()))
            if _RANK[verdict.place] > _RANK[best.place] or best.why == taint.UNKNOWN:
                cites = _narrowed(verdict, ids, partial(judge, bench), text) if narrowed else verdict.cites
                best = Weighed(verdict.place, verdict.text, one.id, _seqs(cites), verdict.why)
        if best.place is not Place.REFUSED or not self._benches:
            return best
        told = self._benches[0][1].report(text)
        return Weighed(told.place, told.text, why=told.why if told.place is Place.REFUSED else best.why)


def _seqs(cites: Iterable[str]) -> tuple[int, ...]:
    return tuple(int(cite[1:]) for cite in cites if cite.startswith("t"))


def _narrowed(
    verdict: Verdict, ids: Sequence[str], judge: Callable[[Candidate], Verdict], text: str
) -> tuple[str, ...]:
    """The one record, the latest, that holds a text alone as all of them do; else all."""
    if verdict.place is Place.REFUSED:
        return ()
    for record_id in ids:
        alone = judge(Candidate(text, (record_id,)))
        if (alone.place, alone.text) == (verdict.place, verdict.text):
            return alone.cites
    return verdict.cites
