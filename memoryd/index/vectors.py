"""Hold vectors in memory, and find the documents whose meaning is nearest to a question.

A vector has integers from -127 to 127; only its direction matters. The vector of a turn is moved towards those of its
neighbours, which are its context. A search first compares the signs of all vectors (Hamming distance), and then the
best ones by cosine, like Yamada, Asai and Hajishirzi (https://arxiv.org/abs/2106.00882). This module imports numpy, so
it is imported only when vectors are compared.
"""

from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.index.matches import SearchFilter
from memoryd.index.tables import Tables, Vector
from memoryd.recall.documents import NEIGHBOURS
from memoryd.recall.ranking import SESSION

LEAN = 0.8  # the weight of all neighbours together, relative to the text; from 0.3 to 1.2 results hardly change
LEAST = 0.2  # below this cosine, two texts are unrelated
_CLOSER = 1000  # at least this many vectors are compared by cosine
_BLOCK = 4096
_ROOM = 8  # 1/8 of the size of the arrays is added as free room
_WORD = 64  # the number of dimensions whose signs are in one integer
_NOTHING = 1e-9  # prevents a division by 0
_ARRAYS = ("_ids", "_sources", "_tier", "_days", "_vectors")


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
    """Hold the vectors of one agent in arrays with free room at the end; outdated ones stay in place, without an id."""

    def __init__(self, size: int) -> None:
        self.newest = 0
        self.size = size
        self._count = 0
        self._tiers: dict[str, int] = {}  # the number of each tier
        self._ids = np.empty(0, np.int64)  # the id of each vector; 0 if it is outdated
        self._sources = np.empty(0, np.int64)
        self._tier = np.empty(0, np.int8)
        self._days = np.empty(0, np.int32)  # `date.toordinal()`; 0 without a day
        self._vectors = np.empty((0, size), np.int8)
        self._signs = [np.empty(0, np.uint64) for _ in range(size // _WORD)]

    # --- updates ----------------------------------------------------------------------------------------------------

    def follow(self, tables: Tables, number: int, newest: int) -> None:
        """Read all vectors of those sources that have vectors newer than the known ones."""
        before = self._count
        for rows in tables.vectors(number, self.newest):
            if len(rows[0].vector) == self.size:
                self._add(rows)
        fresh = slice(before, self._count)
        self._ids[:before][np.isin(self._sources[:before], np.unique(self._sources[fresh]))] = 0
        in_talk = self._tier[fresh] == self._tiers.get(SESSION, -1)
        alone = -1 - np.arange(self._count - before)
        _lean(self._vectors[fresh], np.where(in_talk, self._sources[fresh], alone))
        for row, bits in zip(self._signs, _signs(self._vectors[fresh]), strict=True):
            row[fresh] = bits
        self.newest = newest
        if np.count_nonzero(self._ids[: self._count]) < self._count // 2:
            self._shrink()

    def _add(self, rows: list[Vector]) -> None:
        start, self._count = self._count, self._count + len(rows)
        if self._count > len(self._ids):
            self._resize(self._count + self._count // _ROOM + len(rows))
        new = slice(start, self._count)
        self._ids[new] = [row.id for row in rows]
        self._sources[new] = [row.source for row in rows]
        self._tier[new] = [self._tiers.setdefault(row.tier, len(self._tiers)) for row in rows]
        self._days[new] = [0 if row.day is None else date.fromisoformat(row.day).toordinal() for row in rows]
        self._vectors[new] = np.frombuffer(b"".join(row.vector for row in rows), np.int8).reshape(len(rows), -1)

    def _resize(self, room: int) -> None:
        for name in _ARRAYS:
            array = getattr(self, name)
            array.resize((room, *array.shape[1:]), refcheck=False)
        for row in self._signs:
            row.resize(room, refcheck=False)

    def _shrink(self) -> None:
        left = np.flatnonzero(self._ids[: self._count])
        for name in _ARRAYS:
            setattr(self, name, getattr(self, name)[left])
        self._signs = [row[left] for row in self._signs]
        self._count = len(left)

    # --- searches ---------------------------------------------------------------------------------------------------

    def find_nearest(self, vector: bytes, where: SearchFilter, limit: int) -> dict[int, float]:
        """Return the cosines of the nearest vectors, by vector id."""
        asked = np.frombuffer(vector, np.int8).astype(np.float32)
        allowed = self._mask_allowed(where)
        closer = max(_CLOSER, 4 * limit)
        if np.count_nonzero(allowed) > closer:
            distance = np.zeros(self._count, np.uint16)
            for row, bits in zip(self._signs, _signs(asked[None]), strict=True):
                distance += np.bitwise_count(row[: self._count] ^ bits)
            distance[~allowed] = self.size + 1
            places = np.flatnonzero(distance <= np.searchsorted(np.cumsum(np.bincount(distance)), closer))
        else:
            places = np.flatnonzero(allowed)
        chosen = self._vectors[places].astype(np.float32)
        # einsum instead of BLAS, because BLAS threads keep a core busy after each product
        cosine = np.einsum("ij,j->i", chosen, asked)
        cosine /= np.sqrt(np.einsum("ij,ij->i", chosen, chosen) * np.einsum("i,i->", asked, asked)) + _NOTHING
        best = np.argsort(-cosine, kind="stable")[:limit]
        return {int(self._ids[places[at]]): float(cosine[at]) for at in best if cosine[at] >= LEAST}

    def _mask_allowed(self, where: SearchFilter) -> NDArray[np.bool_]:
        allowed: NDArray[np.bool_] = self._ids[: self._count] != 0
        days = self._days[: self._count]
        if where.tier is not None:
            allowed &= self._tier[: self._count] == self._tiers.get(where.tier, -1)
        if where.after is not None:
            allowed &= (days == 0) | (days >= date.fromisoformat(where.after).toordinal())
        if where.before is not None:
            allowed &= (days == 0) | (days <= date.fromisoformat(where.before).toordinal())
        return allowed


def _signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the signs of vectors as bits, set for values above zero.

    Each row of the result has 64 dimensions of all vectors, as one integer for each vector.
    """
    return np.packbits(vectors > 0, axis=1).view(np.uint64).T


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
