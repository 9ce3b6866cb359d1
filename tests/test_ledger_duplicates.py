"""Duplicates by hash: the oldest stays, protected ones all stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.ledger.duplicates import Copy, redundant

COPIES = st.lists(
    st.builds(
        Copy,
        st.sampled_from(["core", "fact"]),
        st.sampled_from(["aa", "bb"]),
        st.booleans(),
        st.sampled_from(["1", "2"]),
        st.uuids().map(str),
    ),
    max_size=12,
    unique_by=lambda copy: copy.id,
)


def in_order(copies):
    return sorted(copies, key=lambda one: (one.kind, one.digest, not one.constitutional, one.created_at, one.id))


@given(COPIES)
def test_one_of_each_text_stays_the_oldest_and_every_protected_one(copies):
    gone = {one.id: one.kept for one in redundant(in_order(copies))}
    for copy in copies:
        equal = [one for one in copies if (one.kind, one.digest) == (copy.kind, copy.digest)]
        protected = [one for one in equal if one.constitutional]
        best = min(protected or equal, key=lambda one: (one.created_at, one.id))
        assert (copy.id in gone) == (not copy.constitutional and copy != best)
        assert gone.get(copy.id, best.id) == best.id


def test_copies_out_of_order_are_refused():
    copies = [
        Copy("core", "aa", constitutional=flag, created_at="1", id=name) for flag, name in ((False, "x"), (True, "y"))
    ]
    with pytest.raises(ValueError, match="order"):
        list(redundant(copies))
    assert list(redundant(reversed(copies))) == [("x", "y")]
