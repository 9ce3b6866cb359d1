"""Search by meaning compares a question with every vector that a filter allows."""

from types import SimpleNamespace

import numpy as np

from memoryd.index.matches import SearchFilter
from memoryd.index.tables import Vector
from memoryd.index.vectors import LEAST, Vectors

SIZE, MANY = 64, 3_000
ROUNDED = 0.01  # vectors are rounded to integers
GENERATOR = np.random.default_rng(7)
LARGE = np.where(np.arange(SIZE) < SIZE // 4, 100, 1).astype(np.int8)
ASKED = GENERATOR.integers(-127, 128, SIZE, dtype=np.int8)


def tables_of(rows):
    """Return tables that hold `rows`, in portions of one thousand."""

    def read(_number, since):
        fresh = {row.source for row in rows if row.id > since}
        found = [row for row in rows if row.source in fresh]
        return (found[at : at + 1_000] for at in range(0, len(found), 1_000))

    return SimpleNamespace(newest_vector=lambda _number: max(row.id for row in rows), vectors=read)


def rows_of(vectors, first=1):
    return [Vector(at, at, "core", None, one.tobytes()) for at, one in enumerate(vectors, first)]


def cosine(one, other):
    one, other = one.astype(float), other.astype(float)
    return one @ other / np.sqrt((one @ one) * (other @ other))


def test_the_nearest_of_many_are_those_by_cosine():
    others = GENERATOR.integers(-127, 128, (MANY, SIZE), dtype=np.int8)
    # Only a few large values make it near. Most of its signs differ.
    led = np.where(np.arange(SIZE) < SIZE // 4, np.sign(LARGE) * 127, -np.sign(LARGE)).astype(np.int8)
    held = [*others, led]
    found = Vectors().find_nearest(tables_of(rows_of(held)), 1, LARGE.tobytes(), SearchFilter(), 20)
    near = {at: cosine(one, LARGE) for at, one in enumerate(held, 1)}
    assert all(abs(near[at] - score) < ROUNDED for at, score in found.items())
    last = sorted(near.values(), reverse=True)[19]
    assert {at for at, score in near.items() if score > max(last, LEAST) + ROUNDED} <= found.keys()
    assert min(near[at] for at in found) > last - ROUNDED
    assert len(held) in found


def test_the_vectors_of_a_source_that_changed_replace_its_older_ones():
    known = Vectors()
    rows = rows_of([ASKED, -ASKED])
    assert list(known.find_nearest(tables_of(rows), 1, ASKED.tobytes(), SearchFilter(), 5)) == [1]
    rows = [Vector(3, 1, "core", None, (-ASKED).tobytes()), rows[1], Vector(4, 9, "core", None, ASKED.tobytes())]
    assert list(known.find_nearest(tables_of(rows), 1, ASKED.tobytes(), SearchFilter(), 5)) == [4]
