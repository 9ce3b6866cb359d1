"""Footing: the turns of a session that a line of its daily file stands on, found by what the line says."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from memoryd.jobs import evidence
from memoryd.jobs.judge import record_of
from memoryd.ledger.grounding import Ground, Source, content
from memoryd.text.wording import stem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from memoryd.transcripts.turn import StoredTurn

_MOST = 4  # turns that one line may stand on together
_LEAST = 0.5  # share of the line's words that the best turn has where no few turns hold all of the line


class Footing:
    """The turns a session's lines may stand on."""

    def __init__(self, turns: Sequence[StoredTurn], folder: str | None, tz: tzinfo) -> None:
        """Prepare.

        Args:
            turns: those the block was written of.
            folder: the session's working folder.
            tz: the local zone.
        """
        self._found = []
        for quoted in evidence.gather(turns, folder, tz).material:
            record = record_of(quoted, date.min)
            words = frozenset(stem(unit) for unit in content(record.text))
            self._found.append((int(quoted.id[1:]), Source(record.text, record.said_on, record.speaker), words))

    def seqs(self, line: str) -> tuple[int, ...]:
        """Return the numbers of the fewest turns that hold `line`, of equals the first; none where none do."""
        asked = frozenset(stem(unit) for unit in content(line))
        ranked = sorted(self._found, key=lambda one: (-len(one[2] & asked), one[0]))
        near = [one for one in ranked if one[2] & asked][: 4 * _MOST]
        for one in near:
            if Ground([one[1]]).missing(line) is None:
                return (one[0],)
        for count in range(2, _MOST + 1):
            if Ground([one[1] for one in near[:count]]).missing(line) is None:
                return tuple(sorted(one[0] for one in near[:count]))
        is_near = near and asked and len(near[0][2] & asked) >= _LEAST * len(asked)
        return (near[0][0],) if is_near else ()
