"""Read the current text of each candidate, and find the passage in it that answers a search best.

Also compute the factors of the score that depend on the text or the passage.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from memoryd.config import Agent
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader
from memoryd.errors import MemorydError
from memoryd.files import regular
from memoryd.finding.indexing import ARCHIVE, RECENT
from memoryd.ledger.lane import Lane, lanes_of_text
from memoryd.recall import answers, documents
from memoryd.recall.chunks import below_headings
from memoryd.recall.documents import Speaker
from memoryd.recall.ranking import FACT, SESSION, Candidate
from memoryd.recall.snippet import Passage, find_passage
from memoryd.recall.words import is_stop_word
from memoryd.scrub.hidden import mask_hidden
from memoryd.text.sentences import split
from memoryd.tiers.archive import mask_frame
from memoryd.tiers.lines import lines_of
from memoryd.transcripts.turn import Origin

_BESIDE = 0.5  # the weight of a word beside a text, such as in a neighbouring turn, relative to a word in it
_OF_SYNONYM = 0.2  # the weight of a synonym in a passage, relative to its weight as a searched word
_TYPED = 20_000  # characters; a longer message counts as pasted
PASTED = "user (pasted)"  # the author of a passage that a person has pasted, at least partly
CALL = "assistant (tool call)"  # the author of the call of a tool, which is no speech


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


class Passages:
    """Find the passages of candidates in their present texts, each once."""

    def __init__(
        self, sources: SourceTexts, weights: Mapping[str, float], synonyms: Mapping[str, float], question: str
    ) -> None:
        self.sources = sources
        self.near: dict[int, float] = {}  # the similarity of meaning, by candidate id
        self._weights = weights
        self._synonyms = {word: weight * _OF_SYNONYM for word, weight in synonyms.items()}
        self._wanted = answers.list_wanted(question)
        self.asked = answers.find_asked(question)  # the speaker whose words the question asks for
        self._found: dict[int, Passage] = {}

    def get(self, candidate: Candidate) -> Passage:
        """Return the best passage of a candidate; an empty one if its text is gone or has changed."""
        if candidate.id not in self._found:
            by_user = candidate.voice is Speaker.PERSON
            rate = partial(answers.weigh_form, wanted=self._wanted, by_user=by_user)
            text, weights = self.read(candidate), self._weights
            self._found[candidate.id] = find_passage(text, weights, rate, answers.FITS, self._synonyms)
        return self._found[candidate.id]

    def read(self, candidate: Candidate) -> str:
        """Return the text of a candidate as it is shown; a part of a file comes without its headings."""
        text = self.sources.show_text(candidate)
        return text if candidate.tier in {SESSION, FACT} else below_headings(text) or text

    def find_speaker(self, candidate: Candidate) -> str | None:
        """Return the author of a turn's passage: a value of `Origin`, `PASTED` or `CALL`; None for other documents."""
        origin = CALL if candidate.voice is Speaker.CALL else self.sources.origin(candidate) or None
        if origin != Origin.USER:
            return origin
        text = candidate.shown or self.sources.text(candidate) or ""
        if len(text) > _TYPED:
            return PASTED
        parts = split(text)
        own, end = "", 0
        for part, lane in zip(parts, lanes_of_text(text, parts, Lane.USER), strict=True):
            own += text[end : part.end] if lane is Lane.USER else "\0"
            end = part.end
        shown = " ".join(self.get(candidate).text.strip("… ").split())
        return origin if shown in " ".join(own.split()) else PASTED

    def weigh(self, candidate: Candidate) -> float:
        """Return the factor of a candidate's score that depends on its text and the question."""
        passage = self.get(candidate)
        fit = answers.FITS if any(pattern.search(passage.text) for pattern in self._wanted) else 1.0
        return (1 + passage.worth) * min(1.0, passage.form) * fit * self.weigh_kind(candidate)

    def weigh_kind(self, candidate: Candidate) -> float:
        """Return the factor of a candidate's score that depends on the kind of its text."""
        if self.sources.text(candidate) is None:
            return 1.0
        if candidate.tier == SESSION:
            text = self.read(candidate)
            return answers.weigh_length(text, candidate.voice, self.asked) * answers.weigh_end(text)
        return 1.0 if candidate.tier == FACT else answers.weigh_section(self.sources.heading(candidate))

    def measure_relevance(self, candidate: Candidate, matched: Collection[str]) -> float:
        """Return the relevance of a candidate, from 0 to 1.

        It is the share of the question that the candidate contains, with a weight for each word, or the similarity of
        its meaning if that is larger. `matched` has the words of the question that occur in the text or beside it.
        """
        weights = {word: weight for word, weight in self._weights.items() if not is_stop_word(word)}
        own = self.get(candidate).held
        held = sum(
            weight if word in own else weight * _BESIDE
            for word, weight in weights.items()
            if word in own or word in matched
        )
        return max(held / sum(weights.values()) if weights else 0.0, self.near.get(candidate.id, 0.0))
