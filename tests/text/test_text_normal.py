"""Normal forms: what counts as the same text, for which purpose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reversals import REVERSED

from memoryd.text import normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User: I live in Oslo.", "- user:  i LIVE in\noslo"),
        ("* Use tabs!", "use tabs"),
        ("Cafe\u0301 Central", "caf\u00e9 CENTRAL."),
        ("Stra\u00dfe", "STRASSE"),
        ("不要用。", "不要用"),
    ],
)
def test_duplicates_have_one_form(one, other):
    assert normal.normalize(one) == normal.normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna: I live in Oslo", "Ben: I live in Oslo"),
        ("We use tabs.", "We use tabs?"),
        ("The build takes four minutes", "Build takes four minutes"),
        ("The importer does run on main", "The importer doesn't run on main"),
        ("The meeting is at 10", "The meeting is at 11"),
        ('Say "yes"', "Say yes"),
    ],
)
def test_what_differs_in_a_word_differs(one, other):
    assert normal.normalize(one) != normal.normalize(other)


@pytest.mark.parametrize(("one", "other"), REVERSED)
def test_the_same_words_in_another_order_are_not_the_same(one, other):
    assert sorted(one.casefold()) == sorted(other.casefold())
    assert normal.normalize(one) != normal.normalize(other)
    assert normal.normalize_quotation(one) != normal.normalize_quotation(other)


@given(st.text())
def test_a_form_is_its_own_form(text):
    assert normal.normalize(normal.normalize(text)) == normal.normalize(text)
    assert normal.normalize_quotation(normal.normalize_quotation(text)) == normal.normalize_quotation(text)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("“Don’t push,” she said.", '"don\'t push,"  she said', True),  # noqa: RUF001
        ("Use „Tabs“!", 'use "tabs"', True),
        ("Use `tabs`.", "Use tabs.", False),
        ("- Use tabs", "Use tabs", False),
        ("Use tabs?", "Use tabs", False),
        ("Use tabs, please", "Use tabs please", False),
    ],
)
def test_a_quotation_equals_its_source_but_for_how_it_is_set(one, other, equal):
    assert (normal.normalize_quotation(one) == normal.normalize_quotation(other)) is equal
