"""Synonyms: each word of a group stands for the others, and nothing that is searched already is searched twice."""

import pkgutil

from hypothesis import given
from hypothesis import strategies as st

from memoryd.recall.query import parse
from memoryd.recall.synonyms import list_synonyms
from memoryd.text.wording import find_stem

LINES = (pkgutil.get_data("memoryd.recall", "synonyms.txt") or b"").decode().splitlines()[1:]
GROUPS = [line.split() for line in LINES]


def test_each_line_is_a_group_of_different_lower_case_words():
    assert len(GROUPS) == len(set(LINES)) > 400
    for group in GROUPS:
        assert len(set(group)) == len(group) > 1
        assert all(word.isalnum() and word == word.lower() for word in group)


@given(st.lists(st.sampled_from(GROUPS).flatmap(st.sampled_from), min_size=1, max_size=6))
def test_the_other_words_of_its_groups_stand_for_a_word_in_any_form(words):
    found = {term.text for term in list_synonyms(parse(" ".join(map(str.title, words))).terms)}
    asked = {find_stem(term.text.lower()) for term in parse(" ".join(words)).terms}
    wanted = {other for group in GROUPS if asked & set(map(find_stem, group)) for other in group}
    assert found == {word for word in wanted if find_stem(word) not in asked}


def test_phrases_names_and_other_words_have_no_synonyms():
    assert list_synonyms(parse('"remove the bug" fix_it kumquats').terms) == ()
    assert "delete" in {term.text for term in list_synonyms(parse("removed").terms)}
