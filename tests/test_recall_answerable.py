"""How many mechanical questions a memory answers, and what of a loss is explained."""

from dream_world import Ledger, memory

from memoryd.engine.core_search import searching
from memoryd.recall import answerable
from memoryd.recall.answerable import MOST_OF_DAYS, MOST_OF_MEMORIES

OLD = {
    "a": "The database Postgres 14 runs on the host Marvin.",
    "b": "Ottilie Brandt likes green tea with honey.",
    "c": "The nightly build takes 42 minutes on server.example.org.",
}
DAYS = ["The office moved to Bergen in May 2026."]


def score(old, new, days, let_go):
    """Ask by the search that users have."""
    with search(old) as before, search(new) as after:
        return answerable.score(answerable.Known(old, before), answerable.Known(new, after), days, let_go)


def search(texts):
    ledger = Ledger.of(*(memory(number, text) for number, text in enumerate(texts.values(), 1)))
    return searching(ledger.file, ledger.live, {})


def test_the_same_memory_answers_the_same():
    found = score(OLD, OLD, DAYS, ())
    assert found.questions > found.before == found.after >= 8
    assert (found.unexplained, found.drop) == (0, 0.0)


def test_what_the_days_say_is_answered_once_it_is_remembered():
    found = score(OLD, {**OLD, "d": DAYS[0]}, DAYS, ())
    assert found.after == found.questions > found.before


def test_a_lost_number_or_name_is_a_drop_and_another_order_is_none():
    assert score(OLD, dict(reversed(OLD.items())), (), ()).drop == 0.0
    for text in ("The database Postgres runs on the host Marvin.", "The database Postgres 14 runs on a host."):
        assert score(OLD, OLD | {"a": text}, (), ()).drop > 0.02


def test_a_number_written_otherwise_is_no_drop_but_another_one_is():
    old = {"a": "The store holds 42,000 boxes.", "b": "The fair opens on 2026-05-04 in Bergen."}
    same = {"a": "The store holds 42000 boxes.", "b": "The fair opens on 4 May 2026 in Bergen."}
    assert score(old, same, (), ()).drop == 0.0
    assert score(old, same | {"a": "The store holds 43000 boxes."}, (), ()).drop > 0.02
    assert score(old, same | {"b": "The fair opens on 5 May 2026 in Bergen."}, (), ()).drop > 0.02


def test_what_was_let_go_explains_its_own_questions_and_no_others():
    left = {key: text for key, text in OLD.items() if key != "b"}
    assert score(OLD, left, (), ()).unexplained == score(OLD, left, (), {"a"}).unexplained > 0
    assert score(OLD, left, (), {"b"}).drop == 0.0


def test_numbers_tell_texts_apart_that_say_the_same_otherwise():
    shelves = {str(n): f"Shelf number {n} of the store holds {n * 7 + 3} boxes." for n in range(60)}
    found = score(shelves, shelves, (), ())
    assert found.before == found.questions
    gone = {key: text for key, text in shelves.items() if key != "30"}
    assert score(shelves, gone, (), ()).unexplained == score(shelves, gone, (), {"1"}).unexplained > 0
    assert score(shelves, gone, (), {"30"}).unexplained == 0


def test_of_many_texts_the_same_part_is_asked_about_each_time_and_many_days_hide_no_loss():
    many = {str(n): f"Crate {n} stands in hall {n % 97} since day {n * 3}." for n in range(3 * MOST_OF_MEMORIES)}
    found = score(many, many, (), ())
    assert found.questions == found.before == found.after == MOST_OF_MEMORIES
    days = [f"Ship {n} lay at pier {n % 89}." for n in range(3 * MOST_OF_DAYS)]
    told = score(many, many, days, ())
    assert (told.questions, told.before >= MOST_OF_MEMORIES) == (MOST_OF_MEMORIES + MOST_OF_DAYS, True)
    left = {key: text for key, text in many.items() if int(key) % 10}
    assert 0.05 < score(many, left, days, ()).drop < 0.2
    assert score(many, left, days, many.keys() - left.keys()).drop < 0.02


def test_scripts_without_spaces_are_asked_about_too():
    old = {"a": "データベースは東京のサーバーで動いている", "b": "会議は毎週月曜日に開かれる"}
    assert score(old, old, (), ()).before == 2
    assert score(old, {"a": old["a"]}, (), ()).drop == 0.5


def test_one_memory_that_only_slips_behind_something_new_is_not_lost_but_two_are():
    old = {f"{n}": f"The canoe {n} is red." for n in range(1, 6)}
    before = score(old, old, (), ())
    one = score(old, {"x": "The canoe 8 is red.", **old}, (), ())
    assert (before.after, one.after, one.unexplained) == (before.before, before.before - 1, 0)
    two = score(old, {"x": "The canoe 8 is red.", "y": "The canoe 9 is red.", **old}, (), ())
    assert two.unexplained == 1
    changed = score(old, old | {"5": "The canoe 7 is red."}, (), ())
    assert changed.unexplained == before.before - changed.after
    assert changed.unexplained
