"""The table of cursor fates: every one is reached, and none is told without the evidence it needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.transcripts.fate import READ_AGAIN, FateEvidence, find_fate, needs_prefix

HERE = FateEvidence(known=True, size=100, offset=100, same_stat=True)

CASES = {
    "new": FateEvidence(known=False, size=5),
    "unchanged": HERE,
    "unfinished": FateEvidence(known=True, size=200, offset=100, same_stat=True, unfinished=True),
    "touched": FateEvidence(known=True, size=100, offset=100, same_prefix=True),
    "appended": FateEvidence(known=True, size=200, offset=100),
    "edited": FateEvidence(known=True, size=100, offset=100, same_prefix=False),
    "truncated": FateEvidence(known=True, size=99, offset=100),
    "regrown": FateEvidence(known=True, size=200, offset=100, same_prefix=False),
    "replaced": FateEvidence(known=True, same_inode=False, size=200, offset=100, same_prefix=False),
    "rewritten": FateEvidence(known=True, same_inode=False, size=200, offset=100, same_prefix=True),
    "moved": FateEvidence(known=True, same_path=False, size=100, offset=100, same_prefix=True),
    "returned": FateEvidence(known=True, was_gone=True, size=100, offset=100, same_prefix=True),
    "recreated": FateEvidence(known=True, was_gone=True, size=100, offset=100, same_prefix=False),
}

evidences = st.builds(
    FateEvidence,
    known=st.booleans(), was_gone=st.booleans(), same_path=st.booleans(),
    same_inode=st.booleans(), size=st.integers(0, 3), offset=st.integers(0, 3), same_stat=st.booleans(),
    doubtful=st.booleans(), unfinished=st.booleans(), same_prefix=st.sampled_from([None, True, False]),
)  # fmt: skip


def test_each_fate_that_is_read_again_has_a_case() -> None:
    assert CASES.keys() >= READ_AGAIN


@pytest.mark.parametrize("name", CASES)
def test_the_table(name: str) -> None:
    assert find_fate(CASES[name]) == name


@given(evidences)
def test_bytes_that_are_known_to_have_changed_are_read_from_the_start(seen: FateEvidence) -> None:
    changed = seen.size < seen.offset or seen.same_prefix is False
    if seen.known and changed:
        assert find_fate(seen) in READ_AGAIN


@given(evidences)
def test_bytes_behind_the_offset_are_left_only_where_they_have_been_looked_at(seen: FateEvidence) -> None:
    if seen.size > seen.offset and find_fate(seen) in {"unchanged", "touched"}:
        assert seen.same_stat
        assert not seen.unfinished


@given(evidences, st.booleans(), st.integers(0, 5))
def test_a_cursor_of_an_earlier_process_is_verified_before_anything_is_believed(
    seen: FateEvidence,
    opened: bool,  # noqa: FBT001
    since: int,
) -> None:
    asked = needs_prefix(seen, opened=opened, since_verified=since)
    behaves_like_an_append = (
        seen.same_path and seen.same_inode and not seen.was_gone and not seen.doubtful and seen.size > seen.offset
    )
    if seen.known and 0 < seen.offset <= seen.size and not (behaves_like_an_append and opened):
        assert asked or (opened and seen.same_stat and seen.size == seen.offset)


@given(st.integers(2 << 20, 64 << 20), st.integers(0, 1 << 20))
def test_a_large_prefix_is_verified_again_each_time_it_has_grown_by_an_eighth(offset: int, since: int) -> None:
    seen = FateEvidence(known=True, size=offset + 1, offset=offset)
    assert needs_prefix(seen, opened=True, since_verified=since) == (since * 8 >= offset)
    assert needs_prefix(seen, opened=True, since_verified=offset // 8 + 1)
    assert needs_prefix(seen, opened=False, since_verified=0)
