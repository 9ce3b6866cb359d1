"""Search over one core, as it is or as a dream is going to leave it: what the recall gate asks.

The file is cut and its words are indexed as those of any `MEMORY.md` are, but in memory, where nobody else finds them;
the question and the order of the hits are those of `Recall.search` by words, of this file alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

from memoryd.engine.indexing import CORE, CORE_FILE
from memoryd.engine.recall import LEAST, said_hash
from memoryd.index.database import in_memory
from memoryd.index.tables import Where
from memoryd.recall import documents, ranking
from memoryd.recall.chunks import below_headings, chunks
from memoryd.recall.query import parse
from memoryd.recall.ranking import Candidate, Known
from memoryd.scrub.hidden import masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memoryd.index.tables import Tables
    from memoryd.ledger.memory import Memory
    from memoryd.recall.answerable import Search

_AGENT = "core"
_ABOUT = CORE_FILE.removesuffix(".md")


@contextmanager
def searching(file: bytes, memories: Iterable[Memory], votes: Mapping[str, int]) -> Iterator[Search]:
    """A search over a core, as long as it is open.

    Args:
        file: `MEMORY.md`.
        memories: the live core of the ledger.
        votes: what was said of memories by `feedback`, by id: good less bad.
    """
    with in_memory() as tables:
        yield _CoreSearch(tables, file, memories, votes)


class _CoreSearch:
    """The documents of one core."""

    def __init__(self, tables: Tables, file: bytes, memories: Iterable[Memory], votes: Mapping[str, int]) -> None:
        self._tables = tables
        self._number = tables.number(_AGENT)
        self._votes = votes
        self._memories = {one.content_hash: one for one in memories}
        self._known: dict[int, Known | None] = {}
        found = [one for one in chunks(masked(file), apart=True) if one.text.strip()]
        made = [documents.of_chunk(one, one.text, _ABOUT, None) for one in found]
        source = tables.put_source(self._number, CORE_FILE, CORE, "")
        tables.put(self._number, source, [(one, b"", None) for one in made])
        self._texts = {at: below_headings(one.text) for at, one in enumerate(found, 1)}  # as `put` numbers them

    def __call__(self, question: str, limit: int) -> list[str]:
        query = parse(question)
        if not query.terms:
            return []
        best = self._tables.best(self._number, query, Where(), max(LEAST, limit))
        phrases = query.phrases
        quoting = frozenset(self._tables.holding(self._number, phrases, [one for one, _ in best]) if phrases else ())
        if not phrases:
            best = best[: ranking.reach([score for _, score in best], limit, has_votes=bool(self._votes))]
        ranked = ranking.rank([self._candidate(*one) for one in best], self._known_of, date.min, quoting)
        return [self._texts[one.candidate.id] for one in ranked[:limit]]

    def _candidate(self, identity: int, score: float) -> Candidate:
        # Where it stands says nothing of its rank: all are of one file.
        return Candidate(identity, score, CORE_FILE, CORE, 0, 0, 0, b"", None, None)

    def _known_of(self, candidate: Candidate) -> Known | None:
        if candidate.id not in self._known:
            memory = self._memories.get(said_hash(self._texts[candidate.id]) or "")
            self._known[candidate.id] = (
                None if memory is None else Known(memory.id, memory.importance, self._votes.get(memory.id, 0))
            )
        return self._known[candidate.id]
