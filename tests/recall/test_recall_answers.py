"""How well a sentence answers, by its form alone."""

import pytest

from memoryd.recall.answers import (
    ANNOUNCES,
    ASKS,
    CALL,
    FITS,
    GUESSES,
    NARRATES,
    OUTPUT,
    PERSON,
    TELLS,
    WISHES,
    list_wanted,
    weigh_end,
    weigh_form,
    weigh_section,
    weigh_turn,
)


@pytest.mark.parametrize(
    ("sentence", "weight"),
    [
        ("Can you rename the file?", ASKS),
        ("oh, please rename the file", ASKS),
        ("- User: Could we use SQLite", ASKS),
        ("文件要改名吗", ASKS),
        ("Now let me look at the file.", ANNOUNCES),
        ("Here is the file:", ANNOUNCES),
        ("我将修改文件。", ANNOUNCES),
        ("The file is probably too long.", GUESSES),
        ("The file is short because nobody wrote to it.", TELLS),
        ("We decided on SQLite.", TELLS),
        ("The file has a name.", 1.0),
        ("Use the file.", 1.0),
    ],
)
def test_the_form_of_a_sentence(sentence, weight):
    assert weigh_form(sentence) == weight


def test_an_order_is_a_request_of_the_person_and_advice_of_others():
    assert weigh_form("Use the file.", by_user=True) == ASKS
    assert weigh_form("Use the file.", by_user=True, is_answer=True) == 1.0


@pytest.mark.parametrize(
    ("question", "fits", "fits_not"),
    [
        ("why is it slow", "It is slow because it sorts.", "It is slow."),
        ("为什么很慢", "因为要排序。", "很慢。"),
        ("how many tests are there", "There are 12 tests.", "There are tests."),
        ("where is the log", "The log is /var/log/x.", "The log is long."),
        ("when was it sold", "It was sold on Friday.", "It was sold."),
        ("what is it", "", "It is slow because it sorts: 12."),
    ],
)
def test_what_a_question_wants(question, fits, fits_not):
    wanted = list_wanted(question)
    assert not fits or weigh_form(fits, wanted) == FITS
    assert weigh_form(fits_not, wanted) < FITS


def test_the_rest_of_a_text():
    assert (weigh_end("I see. Let me fix it:"), weigh_end("It is fixed.")) == (NARRATES, 1.0)
    assert weigh_turn("assistant", "tool_call") == CALL
    assert weigh_turn("tool", "tool_result") == OUTPUT
    assert (weigh_turn("user", "message"), weigh_turn("user", "message", about_person=True)) == (WISHES, PERSON)
    assert weigh_section("### Asked") < weigh_section("## Note (10:00)") == 1 < weigh_section("### Decided")
