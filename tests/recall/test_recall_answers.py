"""How well a sentence answers, by its form alone."""

import pytest

from memoryd.recall.answers import (
    ANNOUNCES,
    ASKS,
    FITS,
    GUESSES,
    NARRATES,
    TELLS,
    WONDERS,
    find_asked,
    list_wanted,
    weigh_end,
    weigh_form,
    weigh_length,
    weigh_section,
    weigh_voice,
)
from memoryd.recall.documents import Speaker


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


def test_a_request_of_the_user_is_what_the_user_wants():
    assert weigh_form("Please use a file, because it is short.", by_user=True) == 1.0
    assert weigh_form("Use a file, because it is short.", by_user=True) == 1.0
    assert weigh_form("Should we use a file?", by_user=True) == WONDERS
    assert weigh_form("Please use a file, because it is short.") == ASKS
    assert weigh_form("Use a file, because it is short.") == TELLS


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
    assert weigh_section("### Asked") < weigh_section("## Note (10:00)") == 1 < weigh_section("### Decided")


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("which colour do I like", Speaker.PERSON),
        ("Can you suggest a database for my app?", Speaker.PERSON),
        ("what did I tell you about the mill", Speaker.PERSON),
        ("我喜欢什么颜色", Speaker.PERSON),
        ("Welche Farbe mag ich?", Speaker.PERSON),
        ("what did you suggest for the mill", Speaker.AGENT),
        ("which colours have you listed for my house", Speaker.AGENT),
        ("what was your last recommendation", Speaker.AGENT),
        ("how do I run the tests", None),
        ("why is the mill slow", None),
        ("我们用什么数据库", None),
    ],
)
def test_whose_words_a_question_asks_for(question, asked):
    assert find_asked(question) == asked


def test_the_person_is_asked_about_in_the_persons_words_or_what_was_distilled_from_them():
    by_worth = sorted(Speaker, key=lambda one: -weigh_voice(one, Speaker.PERSON))
    assert set(by_worth[:2]) == {Speaker.PERSON, Speaker.DISTILLED}
    assert weigh_voice(Speaker.PERSON, Speaker.AGENT) < weigh_voice(Speaker.AGENT, Speaker.AGENT)
    assert weigh_voice(Speaker.PERSON, None) == weigh_voice(Speaker.AGENT, None) > weigh_voice(Speaker.OUTPUT, None)
    assert weigh_voice(Speaker.OUTPUT, None) > weigh_voice(Speaker.CALL, None)


def test_a_long_answer_is_worth_less_unless_it_is_what_was_asked_for():
    text = "word " * 1000
    assert weigh_length(text, Speaker.AGENT, None) < weigh_length("word " * 100, Speaker.AGENT, None) == 1
    assert weigh_length(text, Speaker.AGENT, Speaker.AGENT) == weigh_length(text, Speaker.PERSON, None) == 1
