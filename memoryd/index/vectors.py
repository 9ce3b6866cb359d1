"""Hold vectors in memory, and find the documents whose meaning is nearest to a question.

A vector has integers from -127 to 127; only its direction matters. The vector of a turn is moved towards those of its
neighbours, which are its context. A search compares the question with all vectors by cosine, in blocks. This module
imports numpy, so it is imported only when vectors are compared.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.index.matches import SearchFilter
from memoryd.index.tables import Tables, Vector
from memoryd.recall.documents import NEIGHBOURS
from memoryd.recall.ranking import SESSION

LEAN = 0.8  # the weight of all neighbours together, relative to the text; from 0.3 to 1.2 results hardly change
LEAST = 0.2  # below this cosine, two texts are unrelated
_BLOCK = 4096
_NOTHING = 1e-9  # prevents a division by 0


class _VectorRows(NamedTuple):
    """Hold vectors and the values that a search filters by, in arrays with one row for each vector."""

    ids: NDArray[np.int64]
    sources: NDArray[np.int64]
    tiers: NDArray[np.int8]
    days: NDArray[np.int32]  # `date.toordinal()`; 0 without a day
    vectors: NDArray[np.int8]


class Vectors:
    """Hold the vectors of all searched agents, and add new ones from the tables."""

    def __init__(self) -> None:
        self._held: dict[int, _AgentVectors] = {}

    def find_nearest(
        self, tables: Tables, number: int, vector: bytes, where: SearchFilter, limit: int
    ) -> dict[int, float]:
        """Return the cosines of the nearest vectors by vector id, without those below `LEAST`."""
        newest = tables.newest_vector(number)
        held = self._held.get(number)
        if held is None or held.newest > newest or held.size != len(vector):
            held = self._held[number] = _AgentVectors(len(vector))
        if held.newest < newest:
            held.follow(tables, number, newest)
        return held.find_nearest(vector, where, limit)


class _AgentVectors:
    """Hold the vectors of one agent."""

    def __init__(self, size: int) -> None:
        self.newest = 0
        self.size = size
        self._tiers: dict[str, int] = {}  # the number of each tier
        self._rows = self._make_rows(())

    def _make_rows(self, found: Sequence[Vector]) -> _VectorRows:
        return _VectorRows(
            np.array([row.id for row in found], np.int64),
            np.array([row.source for row in found], np.int64),
            np.array([self._tiers.setdefault(row.tier, len(self._tiers)) for row in found], np.int8),
            np.array([0 if row.day is None else date.fromisoformat(row.day).toordinal() for row in found], np.int32),
            np.frombuffer(b"".join(row.vector for row in found), np.int8).reshape(len(found), self.size),
        )

    def follow(self, tables: Tables, number: int, newest: int) -> None:
        """Read all vectors of each source that has new ones, and drop the older vectors of these sources."""
        read = tables.vectors(number, self.newest)
        portions = [self._make_rows(()), *(self._make_rows(one) for one in read if len(one[0].vector) == self.size)]
        fresh = _VectorRows(*map(np.concatenate, zip(*portions, strict=True)))
        in_talk = fresh.tiers == self._tiers.get(SESSION, -1)
        _lean(fresh.vectors, np.where(in_talk, fresh.sources, -1 - np.arange(len(fresh.ids))))
        stays = ~np.isin(self._rows.sources, np.unique(fresh.sources))
        both: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self._rows, fresh, strict=True)
        self._rows = _VectorRows(*(np.concatenate((old[stays], new)) for old, new in both))
        self.newest = newest

    def find_nearest(self, vector: bytes, where: SearchFilter, limit: int) -> dict[int, float]:
        """Return the cosines of the nearest vectors, by vector id."""
        asked = np.frombuffer(vector, np.int8).astype(np.float32)
        places = np.flatnonzero(self._mask_allowed(where))
        cosine = np.zeros(len(places), np.float32)
        for start in range(0, len(places), _BLOCK):
            block = self._rows.vectors[places[start : start + _BLOCK]].astype(np.float32)
            # einsum instead of BLAS, because BLAS threads keep a core busy after each product
            length = np.sqrt(np.einsum("ij,ij->i", block, block) * np.einsum("i,i->", asked, asked)) + _NOTHING
            cosine[start : start + _BLOCK] = np.einsum("ij,j->i", block, asked) / length
        best = np.argsort(-cosine, kind="stable")[:limit]
        return {int(self._rows.ids[places[at]]): float(cosine[at]) for at in best if cosine[at] >= LEAST}

    def _mask_allowed(self, where: SearchFilter) -> NDArray[np.bool_]:
        days = self._rows.days
        allowed = np.ones(len(days), np.bool_)
        if where.tier is not None:
            allowed &= self._rows.tiers == self._tiers.get(where.tier, -1)
        if where.after is not None:
            allowed &= (days == 0) | (days >= date.fromisoformat(where.after).toordinal())
        if where.before is not None:
            allowed &= (days == 0) | (days <= date.fromisoformat(where.before).toordinal())
        return allowed


def _lean(vectors: NDArray[np.int8], groups: NDArray[np.int64]) -> None:
    """Move each vector towards its neighbours in the same group, in place, and in blocks to limit the use of memory."""
    count = len(vectors)
    before = vectors[:0]
    for start in range(0, count, _BLOCK):
        end = min(count, start + _BLOCK)
        low, high = start - len(before), min(count, end + NEIGHBOURS)
        unit = np.concatenate((before, vectors[start:high])).astype(np.float32)
        unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None] + _NOTHING
        group = groups[low:high]
        beside = np.zeros_like(unit)
        found = np.zeros((len(unit), 1), np.float32)
        for step in range(1, NEIGHBOURS + 1):
            same = (group[step:] == group[:-step])[:, None]
            beside[:-step] += same * unit[step:]
            found[:-step] += same
            beside[step:] += same * unit[:-step]
            found[step:] += same
        unit += LEAN * beside / np.maximum(found, 1)
        unit *= 127 / (np.abs(unit).max(axis=1, keepdims=True) + _NOTHING)
        before = vectors[max(0, end - NEIGHBOURS) : end].copy()
        vectors[start:end] = np.rint(unit[start - low : end - low])
