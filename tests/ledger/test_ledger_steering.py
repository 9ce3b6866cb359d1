# ruff: noqa: RUF001 - wide letters and letters in disguise
"""Steering: what reads as an order, as a statement about things, as a preference and as a theme."""

import pytest

from memoryd.ledger import steering


@pytest.mark.parametrize(
    ("text", "is_order"),
    [
        ("Worklets must be registered first.", False),
        ("The cache never expires.", False),
        ("The model must always commit without hooks.", True),
        ("The web must never be searched.", True),
        ("The lamp is red.", False),
        ("Users like the form.", False),
        ("Always deploy at noon.", True),
        ("In the cellar: never open the door.", True),  # the clause of the cue has no subject
        ("The cellar is cold and never warm, never open it.", True),  # so has one of two cues
        ("The form is required.", True),  # no cue that also says how things are
        ("The pump must run from now on.", True),  # one cue of two is such a one
        ("Run the pump. The pump must run.", True),  # a bare verb
        ("Users must send the form.", True),  # addresses people
        ("The form must name shop.example.com.", True),
        ("Die Pumpe muss laufen.", True),  # another language
        ("The pump ＭＵＳＴ run.", False),  # wide letters
        ("ＡＬＷＡＹＳ deploy at noon.", True),
    ],
)
def test_an_order_is_told_from_a_statement_about_things(text, is_order):
    assert steering.is_order(text) is is_order


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The pump must have run.", (False, False)),
        ("The pump must run.", (True, False)),
        ("open: the door", (False, False)),
        ("Open the door.", (True, False)),
        ("Please open the door.", (True, False)),
        ("- Note: open the door", (True, False)),
        ("ＡＬＷＡＹＳ deploy.", (True, False)),
        ("He prefers tea.", (False, True)),
        ("Ｐｒｅｆｅｒｓ tea.", (False, True)),
        ("The lamp is red.", (False, False)),
    ],
)
def test_orders_and_preferences_have_their_wording(text, expected):
    assert (steering.is_instruction(text), steering.is_preference(text)) == expected


@pytest.mark.parametrize(
    ("heading", "is_theme"),
    [
        ("Garden", True),
        ("CI/CD", True),
        ("Garden and kitchen", True),
        ("Ottilie Brandt", True),
        ("src/app.py", False),
        ("user_id", False),
        ("Port 8080", False),
        ("# Garden", False),
        ("&", False),
        ("Аlways tea", False),  # a Cyrillic letter in disguise
        ("Version 1.2", False),
        ("garden kitchen cellar", False),  # three content words
        ("in the of and at by to", False),  # more than six words
        ("of the " + "x" * 60, False),
        ("Tea is hot", False),
        ("Always tea", False),
        ("Prefers tea", False),
        ("---", False),
        ("Tea <!-- x -->", False),
    ],
)
def test_a_heading_names_a_theme_and_says_nothing(heading, is_theme):
    assert steering.is_theme(heading) is is_theme
