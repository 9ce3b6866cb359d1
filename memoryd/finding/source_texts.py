"""Read the present texts of the index's documents from their files and rows."""

from collections.abc import Iterable

from memoryd.config import Agent
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader
from memoryd.errors import MemorydError
from memoryd.files import regular
from memoryd.finding.indexing import ARCHIVE, RECENT
from memoryd.recall import documents
from memoryd.recall.ranking import FACT, SESSION, Candidate
from memoryd.scrub.hidden import mask_hidden
from memoryd.tiers.archive import mask_frame
from memoryd.tiers.lines import lines_of


class SourceTexts:
    """Read the present texts of candidates from their sources, each file only once."""

    def __init__(self, agent: Agent, reader: DatabaseReader | None) -> None:
        self._agent = agent
        self._reader = reader
        self._files: dict[str, list[bytes]] = {}
        self._texts: dict[int, str | None] = {}
        self._origins: dict[int, str] = {}
        self._turns: dict[tuple[str, int], tuple[str, str]] = {}

    def read_ahead(self, candidates: Iterable[Candidate]) -> None:
        """Read the turns among the candidates with one query."""
        places = [_get_place(one) for one in candidates if one.tier == SESSION]
        if self._reader is not None and places:
            self._turns |= reads.turn_texts(self._reader, self._agent.id, places)

    def text(self, candidate: Candidate) -> str | None:
        """Return the whole source text of a candidate; None if it has changed or is gone."""
        if candidate.id not in self._texts:
            text = self._text(candidate)
            is_same = text is not None and documents.digest_of(text) == candidate.digest
            self._texts[candidate.id] = text if is_same else None
        return self._texts[candidate.id]

    def origin(self, candidate: Candidate) -> str | None:
        """Return the origin of a turn (a value of `Origin`) once `text` was called for it; None for other documents."""
        return self._origins.get(candidate.id)

    def heading(self, candidate: Candidate) -> str:
        """Return the heading line above a part of a file or at its beginning; empty if there is none."""
        lines = self._lines(candidate.path, candidate.tier)
        at = min(candidate.first_line - 1, len(lines))
        while at < min(candidate.last_line, len(lines)) and (not lines[at].strip() or lines[at].startswith(b"#")):
            at += 1
        above = (line for line in reversed(lines[:at]) if line.startswith(b"#"))
        return next(above, b"").decode(errors="replace")

    def show_text(self, candidate: Candidate) -> str:
        """Return the text to show, without secrets; empty if it is gone.

        Of a long turn, only the candidate's piece is returned.
        """
        text = self.text(candidate)
        if text is None or candidate.shown is not None:
            return "" if text is None else candidate.shown or ""
        return text[candidate.piece * documents.PIECE :][: documents.PIECE] if candidate.tier == SESSION else text

    def _text(self, candidate: Candidate) -> str | None:
        name = candidate.path.partition(":")[2]
        if candidate.tier == SESSION:
            place = _get_place(candidate)
            if place not in self._turns:
                self.read_ahead([candidate])
            text, self._origins[candidate.id] = self._turns.get(place, (None, ""))
            return text
        if candidate.tier == FACT:
            row = None if self._reader is None else self._reader.row(
                "SELECT content FROM memory WHERE agent_id = ? AND id = ? AND kind = 'fact' AND deleted_at IS NULL",
                self._agent.id, name,
            )  # fmt: skip
            return None if row is None else str(row["content"])
        lines = self._lines(candidate.path, candidate.tier)[candidate.first_line - 1 : candidate.last_line]
        return b"".join(lines).decode(errors="replace")

    def _lines(self, path: str, tier: str) -> list[bytes]:
        if path not in self._files:
            # As the index has it; otherwise a part with a masked line would always count as changed.
            mask = mask_frame if tier in {RECENT, ARCHIVE} else bytes
            try:
                self._files[path] = lines_of(mask(mask_hidden(regular.read_in(self._agent.workspace, path) or b"")))
            except MemorydError:
                self._files[path] = []  # an unreadable file counts as empty
        return self._files[path]


def _get_place(candidate: Candidate) -> tuple[str, int]:
    """Return (session, number) of the turn that a candidate names."""
    return candidate.path.partition(":")[2], candidate.first_line
