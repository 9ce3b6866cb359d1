"""Duplicates by hash: the oldest stays, protected ones all stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_world import AGENT, core_memory

from memoryd.changing import dedup
from memoryd.database import memories, schema, sqlite
from memoryd.ledger.memory import MemoryKind

NOW = "2026-03-04T09:45:00.000Z"
COPIES = st.lists(
    st.builds(
        core_memory,
        st.integers(0, 2**32 - 1),
        st.sampled_from(["one", "two", "TWO"]),
        constitutional=st.booleans(),
        created_at=st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
        position=st.none() | st.integers(-2, 2),
    ),
    max_size=12,
    unique_by=lambda copy: copy.id,
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    engine = schema.open_database(tmp_path_factory.mktemp("dedup") / "memoryd.db", now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES (?, '/w', 1, 0, ?)", (AGENT, NOW))
    yield engine
    engine.dispose()


@given(COPIES)
def test_one_of_each_text_stays_the_oldest_and_every_protected_one(engine, copies):
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("DELETE FROM memory")
        memories.write(connection, copies)
        gone = dict(dedup.list_duplicates(connection, AGENT, MemoryKind.CORE))
    for copy in copies:
        equal = [one for one in copies if one.content == copy.content]
        protected = [one for one in equal if one.constitutional]
        best = min(protected or equal, key=lambda one: (one.created_at, one.position or 0, one.id))
        assert (copy.id in gone) == (not copy.constitutional and copy != best)
        assert gone.get(copy.id, best.id) == best.id
