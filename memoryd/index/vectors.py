"""Vectors in memory: which documents mean what is nearest to a question.

A document's vector is the direction of what it says: whole numbers from -127 to 127, of which only the ratios count.
A turn's is leant towards those of the turns beside it, which say what it is an answer to. All are looked through: first
by the signs alone, by their Hamming distance, then the best of them by their cosine, as Yamada, Asai and Hajishirzi do
(https://arxiv.org/abs/2106.00882).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from memoryd.recall.documents import NEIGHBOURS
from memoryd.recall.ranking import SESSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoryd.index.tables import Tables, Vector, Where

LEAN = 0.8  # of what it says itself is what its neighbours do, in all; what is found hardly changes from 0.3 to 1.2
LEAST = 0.2  # of a cosine: below that two texts have nothing to do with each other
_CLOSER = 1000  # at least that are compared by their cosine
_BLOCK = 4096


@dataclass(slots=True)
class _Held:
    """The vectors of one agent, in the order of their sources and lines."""

    newest: int
    ids: NDArray[np.int64]
    sources: NDArray[np.int64]
    tiers: NDArray[np.object_]
    days: NDArray[np.int32]  # as date.toordinal, 0 where it has none
    vectors: NDArray[np.int8]
    signs: NDArray[np.uint64]


class Vectors:
    """What is held of the vectors of agents; follows the tables by the ids of their rows."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def nearest(self, tables: Tables, number: int, vector: bytes, where: Where, limit: int) -> dict[int, float]:
        """The cosine of the vectors that are nearest to one, by their ids; none of those that are not near at all."""
        import numpy as np

        held = self._current(tables, number)
        if held is None:
            return {}
        asked = np.frombuffer(vector, np.int8).astype(np.float32)
        if len(asked) != held.vectors.shape[1]:
            return {}
        places = np.flatnonzero(_allowed(held, where))
        closer = max(_CLOSER, 4 * limit)
        if len(places) > closer:
            bits = np.packbits(asked > 0).view(np.uint64)
            signs = held.signs if len(places) == len(held.ids) else held.signs[:, places]
            distance = np.zeros(len(places), np.uint16)
            for row, bit in zip(signs, bits, strict=True):
                distance += np.bitwise_count(row ^ bit)
            places = places[np.argpartition(distance, closer)[:closer]]
        chosen = held.vectors[places].astype(np.float32)
        cosine = chosen @ asked / (np.linalg.norm(chosen, axis=1) * np.linalg.norm(asked) + 1e-9)
        best = np.argsort(-cosine, kind="stable")[:limit]
        return {int(held.ids[places[at]]): float(cosine[at]) for at in best if cosine[at] >= LEAST}

    def _current(self, tables: Tables, number: int) -> _Held | None:
        held = self._held.get(number)
        newest = tables.newest_vector(number)
        if held is None or held.newest != newest:
            held = _read(tables, number, held if held is not None and held.newest < newest else None, newest)
            if held is None:
                self._held.pop(number, None)
            else:
                self._held[number] = held
        return held


def _read(tables: Tables, number: int, before: _Held | None, newest: int) -> _Held | None:
    """All that the tables hold, where what was read before still stands for the sources that have nothing new."""
    import numpy as np

    portions = [_arrays(rows) for rows in tables.vectors(number, 0 if before is None else before.newest)]
    if not portions:
        return before
    ids, sources, tiers, days, own = (np.concatenate(part) for part in zip(*portions, strict=True))
    vectors = _leant(own, np.where(tiers == SESSION, sources, -1 - np.arange(len(sources))))
    if before is not None:
        stay = ~np.isin(before.sources, sources)
        ids, sources, tiers, days, vectors = (
            np.concatenate((old[stay], new))
            for old, new in (
                (before.ids, ids), (before.sources, sources), (before.tiers, tiers), (before.days, days),
                (before.vectors, vectors),
            )
        )  # fmt: skip
    signs = np.ascontiguousarray(np.packbits(vectors > 0, axis=1).view(np.uint64).T)
    return _Held(newest, ids, sources, tiers, days, vectors, signs)


def _arrays(rows: list[Vector]) -> tuple[NDArray[Any], ...]:
    import numpy as np

    return (
        np.array([row.id for row in rows], np.int64),
        np.array([row.source for row in rows], np.int64),
        np.array([row.tier for row in rows], object),
        np.array([0 if row.day is None else date.fromisoformat(row.day).toordinal() for row in rows], np.int32),
        np.frombuffer(b"".join(row.vector for row in rows), np.int8).reshape(len(rows), -1),
    )


def _leant(own: NDArray[np.int8], groups: NDArray[np.int64]) -> NDArray[np.int8]:
    """Each vector leant towards those beside it in its group; in blocks, since they are large as fractions."""
    import numpy as np

    leant = np.empty_like(own)
    count = len(own)
    for start in range(0, count, _BLOCK):
        low, high = max(0, start - NEIGHBOURS), min(count, start + _BLOCK + NEIGHBOURS)
        unit = own[low:high].astype(np.float32)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True) + 1e-9
        group = groups[low:high]
        beside = np.zeros_like(unit)
        found = np.zeros((len(unit), 1), np.float32)
        for step in range(1, NEIGHBOURS + 1):
            same = (group[step:] == group[:-step])[:, None]
            beside[:-step] += same * unit[step:]
            found[:-step] += same
            beside[step:] += same * unit[:-step]
            found[step:] += same
        whole = unit + LEAN * beside / np.maximum(found, 1)
        whole *= 127 / (np.abs(whole).max(axis=1, keepdims=True) + 1e-9)
        end = min(count, start + _BLOCK)
        leant[start:end] = np.rint(whole[start - low : end - low]).astype(np.int8)
    return leant


def _allowed(held: _Held, where: Where) -> NDArray[np.bool_]:
    import numpy as np

    allowed = np.ones(len(held.ids), np.bool_)
    if where.tier is not None:
        allowed &= held.tiers == where.tier
    if where.after is not None:
        allowed &= (held.days == 0) | (held.days >= date.fromisoformat(where.after).toordinal())
    if where.before is not None:
        allowed &= (held.days == 0) | (held.days <= date.fromisoformat(where.before).toordinal())
    return allowed
