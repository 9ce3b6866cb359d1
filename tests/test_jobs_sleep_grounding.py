"""Grounding, duplicates, dates and prose: the small judgements that every kept line has passed."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs import duplicates
from memoryd.ledger import dates
from memoryd.ledger.grounding import Ground, Source
from memoryd.text import prose

DAY = date(2025, 3, 4)  # a Tuesday
GROUND = Ground(
    [
        Source(
            'I moved from **Lisbon** to Oslo yesterday with my 2 cats, see [notes](docs/move.md) and "the long list".',
            DAY,
            "User",
        ),
        Source("Never use tabs in src/app.py. We chose uv because pip was slow.", DAY, "User"),
    ]
)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("User: moved from Lisbon to Oslo yesterday (2025-03-03).", None),
        ("User: moved from Lisbon to Oslo (2025-03-05).", "date"),
        ("User: moved from Madrid to Oslo.", "name"),
        ("User: has 3 cats.", "number"),
        ("User: has 2 cats; see `docs/move.md`.", None),
        ("User: see docs/other.md.", "path"),
        ("User: wrote to anna@example.org.", "e-mail"),
        ('User: keeps "the long list".', None),
        ('User: keeps "the short list".', "quote"),
        ("Moved to Oslo.", None),
        ("Refactored the app.", None),  # a verb form may begin a sentence
        ("Anna moved to Oslo.", "name"),
        ("Oslonian cats.", "name"),
        ("User: runs useFastMode.", "identifier"),
    ],
)
def test_names_numbers_dates_paths_and_quotations_must_stand_in_the_source(text, missing):
    found = GROUND.missing(text)
    assert (found.kind if found else None) == missing


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("User: never use tabs in src/app.py", True),
        ("User never uses tabs", True),
        ("User: use tabs in src/app.py", False),
        ("User: never use spaces", False),
        ("User: we chose uv because pip was slow", True),
        ("User: we chose pip because uv was slow and never use tabs", False),
        ("User:", False),
    ],
)
def test_what_steers_an_agent_must_be_the_users_own_words(text, held):
    assert GROUND.quotes(text) is held


def test_wide_scripts_are_compared_by_pairs():
    ground = Ground([Source("请记住:以后都不要用制表符。我住在上海。", DAY, "User")])
    assert ground.quotes("User: 以后都不要用制表符")
    assert not ground.quotes("User: 以后都要用空格键")


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("yesterday", "2025-03-03"),
        ("Tomorrow", "2025-03-05"),
        ("last night", "2025-03-03"),
        ("last week", "2025-02-24/02"),
        ("next month", "2025-04"),
        ("last year", "2024"),
        ("last Tuesday", "2025-02-25"),
        ("next Monday", "2025-03-10"),
        ("last weekend", "2025-03-01/02"),
        ("next weekend", "2025-03-08/09"),
        ("three days ago", "2025-03-01"),
        ("2 months ago", "2025-01"),
        ("昨天", "2025-03-03"),
        ("昨日", "2025-03-03"),
        ("gestern", "2025-03-03"),
    ],
)
def test_relative_dates(text, iso):
    assert [found.iso for found in dates.find(text, DAY)] == [iso]
    assert dates.annotate(f"We met {text}.", DAY) == f"We met {text} ({iso})."


@pytest.mark.parametrize(
    "text", ["100 years ago", "200 years ago (1825)", "a while ago", "yesteryear", "500 days ago", "morgen", "at last"]
)
def test_rough_dates_are_left_alone(text):
    assert "(20" not in dates.annotate(text, DAY)


@given(st.text(), st.dates())
def test_any_text_on_any_day_can_be_dated(text, day):
    marked = dates.annotate(f"{text} last week, 3 years ago, next weekend", day)
    assert dates.annotate(marked, day).count("(") <= marked.count("(") + 3


LONG = "The weekly planning meeting about harvest, storage, transport, prices, weather, seeds, machines, loans happens"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("User: I live in Oslo.", "- user:  i LIVE in oslo", True),
        (
            "The build takes about four minutes on the new machine now",
            "Build takes about four minutes on the new machine now",
            True,
        ),
        (f"{LONG} room 10", f"{LONG} room 11", False),
        (f"{LONG} with Anna", f"{LONG} with Berta", False),
        (f"{LONG} today", f"{LONG} daily", True),
        ("The colour of the door is purple", "The colour of the door is cyan", False),
        ("The meeting of the whole team is at 10", "The meeting of the whole team is at 11", False),
        (
            "The importer always does run in the test suite on main",
            "The importer always doesn't run in the test suite on main",
            False,
        ),
        ("Anna: I live in Oslo", "Ben: I live in Oslo", False),
        ("Cafe\u0301 Central", "Caf\u00e9 Central", True),
    ],
)
def test_what_says_the_same(one, other, same):
    assert duplicates.Known([one]).says(other) is same
    assert duplicates.Known([other]).says(one) is same


@given(st.lists(st.text(min_size=1)), st.text())
def test_a_text_says_what_it_says(texts, text):
    assert not duplicates.Known().says(text)
    known = duplicates.Known(texts)
    assert all(known.says(one) for one in texts if duplicates.fold(one).strip(" .!;。-*"))


WORD_LIST = """
use tabs Tabs never the a about minutes 10 11 PostgreSQL cafe\u0301 caf\u00e9 Stra\u00dfe STRASSE \u4e0d\u8981\u7528
\u6771\u4eac\u90fd don't User: - * # . ... wholly different tokens of the night build
"""
WORDS = st.sampled_from(WORD_LIST.split())
SENTENCE = st.lists(WORDS, max_size=14).map(" ".join)


@given(st.lists(SENTENCE, max_size=6), st.data())
def test_texts_are_known_as_if_each_were_compared(texts, data):
    words = data.draw(st.sampled_from([*texts, "use tabs"])).split()
    at = data.draw(st.integers(0, len(words)))
    said = " ".join([*words[:at], *data.draw(st.lists(WORDS, max_size=2)), *words[at + data.draw(st.integers(0, 2)) :]])
    bare, keys = duplicates._bare(said), duplicates._keys(said)
    same = any(duplicates._same(said, bare, keys, text) for text in texts)
    assert duplicates.Known(texts).says(said) is (bool(bare) and same)


LOG = "\n".join(f"CREATE refs/tags/v0.{n} at {n}abc" for n in range(9))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Fix it.\n```python\nx = 1\n```\nThanks", ["Fix it.", "Thanks"]),
        ("open ```\nx = 1\n", ["open ```", "x = 1"]),
        ("~~~\nnever closed\nat all", []),
        ("## Heading\n**Changes:**\n- **one** of [two](http://x/y)\n1. three", ["one of two", "three"]),
        ("| a | b |\n|---|---|\nbelow", ["below"]),
        (f"Why is this so slow?\n{LOG}\nPlease look.", ["Why is this so slow?", "Please look."]),
        ("❯ make test\n$ git push --force\nIt failed.", ["It failed."]),  # noqa: RUF001
        ("time=2026-05-04T19:26 level=INFO msg=x ref=1 n=2", []),
    ],
)
def test_prose_is_what_people_say(text, lines):
    assert prose.lines(text) == lines


def test_words_count_wide_scripts_too():
    assert prose.words("three plain words") == 3
    assert prose.words("我住在上海的老城区里面") == 7
    assert prose.words("") == 0
