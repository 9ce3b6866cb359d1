"""Footing: the sentences of a session that a line of its daily file stands on.

A sleep records which sentences each line cites. A line without a record, as of an earlier version, stands on the
sentences that it repeats, else on the turn that has most of its words.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from memoryd.jobs import evidence
from memoryd.jobs.pieces import Pieces
from memoryd.text import normal
from memoryd.text.content import overlap, unlabelled
from memoryd.text.sentences import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from memoryd.jobs.pieces import Piece
    from memoryd.transcripts.turn import StoredTurn

_LEAST = 0.5  # share of a line's words that the best turn has where nothing says what it stands on

Behind = tuple[tuple["Piece", tuple[int, ...]], ...]


def digest_of(line: str) -> str:
    """Return the hash by which a line of a daily file is found in the report of the run that wrote it."""
    return hashlib.sha256(" ".join(line.split()).removeprefix("- ").encode()).hexdigest()[:16]


class Footing:
    """The sentences that the lines of one run's blocks may stand on."""

    def __init__(
        self, turns: Sequence[StoredTurn], folder: str | None, tz: tzinfo, cites: Mapping[str, Sequence[str]]
    ) -> None:
        """Prepare.

        Args:
            turns: those the block was written of.
            folder: the session's working folder.
            tz: the local zone.
            cites: what each line cites, by its digest, as the report of the run has it.
        """
        self._pieces = Pieces.of(evidence.gather(turns, folder, tz).pieces)
        self._cites = cites

    def behind(self, line: str) -> Behind:
        """Return the sentences that a line stands on, each with its turn; none where nothing is near it."""
        recorded = self._cites.get(digest_of(line), ())
        if recorded:
            found, _ = self._pieces.cited(recorded, line)
            return tuple((one.piece, one.numbers) for one in found)
        said = unlabelled(line)
        return self._repeated(said) or self._nearest(said)

    def seqs(self, line: str) -> tuple[int, ...]:
        """Return the numbers of the turns that a line stands on, in order."""
        return tuple(sorted(piece.seq for piece, _ in self.behind(line)))

    def _repeated(self, said: str) -> Behind:
        wanted = {normal.verbatim(one) for one in texts(said)}
        found: list[tuple[Piece, tuple[int, ...]]] = []
        left = set(wanted)
        for piece in self._pieces.by_id.values():
            numbers = [n for n, line in enumerate(piece.lines, 1) if normal.verbatim(line.text) in left]
            if numbers:
                left -= {normal.verbatim(piece.lines[n - 1].text) for n in numbers}
                found.append((piece, tuple(numbers)))
        return tuple(found) if wanted and not left else ()

    def _nearest(self, said: str) -> Behind:
        shares = [(overlap(said, piece.text), piece) for piece in self._pieces.by_id.values()]
        share, piece = max(shares, key=lambda one: one[0], default=(0.0, None))
        if piece is None or share < _LEAST:
            return ()
        found, _ = self._pieces.cited((piece.id,), said)
        return tuple((one.piece, one.numbers) for one in found)
