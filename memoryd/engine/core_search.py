"""Search over one core, as it is or as a dream is going to leave it: what the recall gate asks.

The file is cut and its words are indexed as those of any `MEMORY.md` are, but in memory, where nobody else finds them;
the question and the order of the hits are those of `Recall.search` by words, of this file alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from memoryd.engine.indexing import CORE, CORE_FILE
from memoryd.engine.recall import LEAST, said_hash
from memoryd.index.database import in_memory
from memoryd.index.matches import Where
from memoryd.recall import documents, ranking
from memoryd.recall.chunks import below_headings, chunks
from memoryd.scrub.hidden import masked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from memoryd.index.tables import Tables
    from memoryd.ledger.memory import Memory
    from memoryd.recall.answerable import Search
    from memoryd.recall.query import Query

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
        self._boosts: dict[int, float] = {}
        found = [one for one in chunks(masked(file), apart=True) if one.text.strip()]
        made = [documents.of_chunk(one, one.text, _ABOUT, None) for one in found]
        source = tables.put_source(self._number, CORE_FILE, CORE, "")
        tables.put(self._number, source, [(one, b"", None) for one in made])
        self._texts = {at: below_headings(one.text).strip() for at, one in enumerate(found, 1)}  # as `put` numbers them

    @property
    def texts(self) -> Collection[str]:
        return self._texts.values()

    def __call__(self, query: Query, limit: int) -> list[str]:
        best = self._tables.best(self._number, query, Where(), max(LEAST, limit)) if query.terms else []
        phrases = query.phrases
        quoting = self._tables.holding(self._number, phrases, [one for one, _ in best]) if phrases and best else ()
        # All are of one file, so that it crowds out no other: what else `ranking.rank` weighs leaves their order alone.
        order = sorted((one not in quoting, -score * self._boost(one), one) for one, score in best)
        last = order[limit - 1][:2] if len(order) > limit else (True, 0.0)
        return [self._texts[one] for quotes, score, one in order if (quotes, score) <= last]

    def _boost(self, identity: int) -> float:
        if identity not in self._boosts:
            memory = self._memories.get(said_hash(self._texts[identity]) or "")
            known = None
            if memory is not None:
                known = ranking.Known(memory.id, memory.importance, self._votes.get(memory.id, 0))
            self._boosts[identity] = ranking.boost(known)
        return self._boosts[identity]
