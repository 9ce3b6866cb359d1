"""Fusion of an order by words with one by meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.recall.ranking import Candidate, RankedCandidate, fuse, iterate_copies_last


def ranked(number, score=1.0, path="session:s", piece=0):
    return RankedCandidate(Candidate(number, score, path, "session", number, number, piece, b"", None, None), score)


def falling(numbers):
    """Candidates in this order, with scores like cosines."""
    return [ranked(number, 0.9 - 0.02 * place) for place, number in enumerate(numbers)]


ORDERS = st.lists(st.integers(1, 30), unique=True, max_size=20)


def fused(words, meaning, quoting=frozenset()):
    """The candidates in one order; the scores of `meaning` are their cosines."""
    return fuse(words, meaning, {one.candidate.id: one.score for one in meaning}, quoting)


def ids(found):
    return [one.candidate.id for one in found]


@given(ORDERS, ORDERS, st.frozensets(st.integers(1, 30)))
def test_each_thing_is_there_once_with_its_places(words, meaning, quoting):
    found = fused(falling(words), falling(meaning), quoting)
    assert sorted(ids(found)) == sorted({*words, *meaning})
    for one in found:
        number = one.candidate.id
        assert one.by_words == (words.index(number) + 1 if number in words else None)
        assert one.by_meaning == (meaning.index(number) + 1 if number in meaning else None)
        assert 0 < one.score <= 1
    keys = [(one.candidate.id not in quoting, -one.score) for one in found]
    assert keys == sorted(keys)


@given(ORDERS, ORDERS)
def test_who_is_before_another_in_both_is_before_it(words, meaning):
    order = ids(fused(falling(words), falling(meaning)))
    for at, later in enumerate(order):
        for earlier in order[:at]:
            assert not all(
                later in one and (earlier not in one or one.index(later) < one.index(earlier))
                for one in (words, meaning)
            )


@given(ORDERS)
def test_one_order_alone_stays_as_it_is(order):
    assert ids(fused(falling(order), [])) == order
    assert ids(fused([], falling(order))) == order


def test_words_weigh_more_than_meaning():
    assert ids(fused(falling([1, 3]), falling([2, 4]))) == [1, 3, 2, 4]


def test_of_hits_with_nearly_the_same_words_the_one_with_the_nearer_meaning_is_first():
    words, meaning = [ranked(1, 9.0), ranked(2, 8.5), ranked(3, 2.0)], [ranked(3, 0.7), ranked(2, 0.6), ranked(1, 0.4)]
    assert ids(fused(words, meaning)) == [2, 1, 3]


def test_a_factor_of_the_scores_counts_once():
    """A rating raises the scores in both orders, but the cosine stays the same."""
    words, meaning = [ranked(1, 9.0), ranked(2, 6.0)], [ranked(1, 0.75), ranked(2, 0.5)]
    found = fuse(words, meaning, {1: 0.5, 2: 0.5}, frozenset())
    assert found[0].score / found[1].score == pytest.approx(9 / 6)


def test_what_is_best_by_words_and_says_the_same_has_a_score_of_one():
    assert fused([ranked(1, 7.0)], [ranked(1, 1.0)])[0].score == 1


def test_pieces_of_a_turn_are_one_thing():
    whole = RankedCandidate(Candidate(7, 1.0, "session:s", "session", 1, 1, 2, b"", None, None), 1.0)
    (one,) = fused([ranked(1)], [whole])
    assert (one.candidate.id, one.by_words, one.by_meaning) == (1, 1, 1)


def test_an_earlier_question_is_no_answer_to_itself_and_a_statement_with_its_words_is():
    texts = {1: "How long is the throttle now?", 2: "The throttle is 30 minutes.", 3: "how long is the throttle"}
    found = iterate_copies_last(map(ranked, texts), lambda one: (texts[one.id], ""), "how long is the throttle")
    assert ids(found) == [2, 3, 1]
