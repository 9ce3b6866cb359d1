"""Replacement: which newer statements end which older ones, and which only sound like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs import consolidation
from memoryd.ledger.replacement import claims, is_replaced

REPLACED = [
    ("User: We moved from MySQL to Postgres because of JSON.", "User: We use MySQL."),
    ("User: We moved the queue from RabbitMQ to Kafka last week (2026-11-09/15).", "The queue runs on RabbitMQ."),
    ("User: The queue was migrated from RabbitMQ to Kafka.", "The queue runs on RabbitMQ."),
    ("User: We switched CI from Jenkins to GitHub Actions.", "Our CI runs on Jenkins."),
    ("User: We upgraded from Python 3.11 to Python 3.12.", "We use Python 3.11."),
    ("User: We moved the database from MySQL to Postgres.", "User: We use MySQL."),
    ("User: We moved reports from Excel to Metabase for sales.", "We use Excel for sales reports."),
    ("User: We replaced Jenkins with Buildkite.", "We use Jenkins."),
    ("User: We no longer use MySQL, we use Postgres.", "User: We use MySQL."),
    ("User: I moved from Oslo to Bergen.", "User: I live in Oslo."),
    ("User: I live in Bergen now.", "User: I live in Oslo."),
    ("User: I've moved to Bergen (2026-11-12).", "The user lives in Oslo."),
    ("User: My favourite editor is Helix.", "User: My favourite editor is Vim."),
    ("User: My name is Jo.", "User's name is Joanna."),
    ("Anna: I live in Bergen.", "Anna: I live in Oslo."),
    ("Anna: We moved from MySQL to Postgres.", "Ben: We use MySQL."),
    ("User: Our deadline is now 5 May.", "User: Our deadline is 1 May."),
]
UNTOUCHED = [
    ("User: We moved from MySQL to Postgres.", "We use MySQL for analytics."),
    ("User: We moved from MySQL to Postgres for analytics.", "We use MySQL."),
    ("User: We moved the queue from RabbitMQ to Kafka.", "We use RabbitMQ."),
    ("User: We moved from Go to Rust.", "We use Go and Python."),
    ("User: We upgraded from Python 3.11 to Python 3.12.", "We use Python 3.11 on the server."),
    ("User: We moved from Postgres 15 to Postgres 16.", "We use Postgres 15.2."),
    ("User: We moved from MySQL to Postgres.", "We never use MySQL."),
    ("User: We moved from MySQL to Postgres.", "We moved from MySQL to Postgres in May."),
    ("User: We should move from MySQL to Postgres.", "User: We use MySQL."),
    ("User: We will have moved from MySQL to Postgres by May.", "User: We use MySQL."),
    ("User: We haven't moved from MySQL to Postgres.", "User: We use MySQL."),
    ("User: It is not true that we moved from MySQL to Postgres.", "User: We use MySQL."),
    ("User: I wish we moved from MySQL to Postgres.", "User: We use MySQL."),
    ("User: If we moved from MySQL to Postgres, it would be slow.", "We use MySQL."),
    ("User: Have we moved from MySQL to Postgres?", "We use MySQL."),
    ("User: He said we moved from MySQL to Postgres.", "We use MySQL."),
    ("User: I moved from Oslo to Bergen.", "User: I was born in Oslo."),
    ("User: I moved from Oslo to Bergen.", "User: I work in Oslo."),
    ("User: I moved from Oslo to Bergen.", "User: My mother lives in Oslo."),
    ("User: We moved from Oslo to Bergen.", "User: I live in Oslo."),
    ("User: Ann moved from Oslo to Bergen.", "I live in Oslo."),
    ("User: My mother moved from Oslo to Bergen.", "I live in Oslo."),
    ("Anna: I live in Bergen.", "Ben: I live in Oslo."),
    ("Anna: I live in Bergen.", "User: I live in Oslo."),
    ("Anna: I moved from Oslo to Bergen.", "Ben: I live in Oslo."),
    ("User: My sister is Kate.", "User: My sister is Ann."),
    ("User: My sister is now Kate.", "User: My brother is Ann."),
    ("User: My dog's name is Max.", "My dog's name is Rex."),
    ("User: The deadline is 5 May.", "User: The deadline is 1 May."),
    ("User: The port is now 8081.", "The port of the API is 8080."),
    ("User: My favourite editor is Helix.", "User: My favourite editor is Helix."),
    ("User: My favourite editor is not Vim.", "User: My favourite editor is Vim."),
    ("User: Use pnpm instead of npm.", "User: We use npm."),
]


@pytest.mark.parametrize(("newer", "older"), REPLACED)
def test_what_is_so_no_longer_is_known_by_the_words_that_say_so(newer, older):
    assert is_replaced(older, newer)
    assert consolidation.replaces(older, newer)


@pytest.mark.parametrize(("newer", "older"), UNTOUCHED)
def test_what_only_sounds_like_it_ends_nothing(newer, older):
    assert not is_replaced(older, newer)


WORDS = st.sampled_from(
    ["We", "I", "my", "moved", "from", "to", "A", "B", "the", "editor", "is", "now", "not", "live", "in", "use", "?"]
)
TEXT = st.one_of(st.lists(WORDS, max_size=9).map(" ".join), st.text(max_size=40))


@given(TEXT, TEXT)
def test_nothing_replaces_itself_and_what_is_replaced_differs_in_a_value(newer, older):
    assert not is_replaced(newer, newer)
    if is_replaced(older, newer):
        assert any(claim.ends for claim in claims(newer))
        assert newer != older
