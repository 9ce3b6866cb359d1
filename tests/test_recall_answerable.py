"""How many mechanical questions a memory answers, and what of a loss is explained."""

import os
import secrets

import pytest
from dream_world import Ledger, memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recall_world import NOW, World

from memoryd.database import audit, memories, sqlite
from memoryd.engine import feedback
from memoryd.engine.core_search import searching
from memoryd.engine.recall import Narrowing
from memoryd.ledger.memory import Kind
from memoryd.ledger.operation import Add, apply
from memoryd.recall import answerable
from memoryd.recall.answerable import MOST_OF_DAYS, MOST_OF_MEMORIES
from memoryd.recall.query import parse

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
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
    shelves = {str(n): f"Shelf number {n} of the store holds {n * 7 + 3} boxes." for n in range(30)}
    found = score(shelves, shelves, (), ())
    assert found.before == found.questions
    gone = {key: text for key, text in shelves.items() if key != "15"}
    assert score(shelves, gone, (), ()).unexplained == score(shelves, gone, (), {"1"}).unexplained > 0
    assert score(shelves, gone, (), {"15"}).unexplained == 0


def test_of_many_texts_the_same_part_is_asked_about_each_time_and_many_days_hide_no_loss():
    many = {str(n): f"Crate {n} stands in hall {n % 97} since day {n * 3}." for n in range(3 * MOST_OF_MEMORIES)}
    found = score(many, many, (), ())
    assert found.questions == found.before == found.after == MOST_OF_MEMORIES
    days = [f"Ship {n} lay at pier {n % 89}." for n in range(3 * MOST_OF_DAYS)]
    told = score(many, many, days, ())
    assert (told.questions, told.before >= MOST_OF_MEMORIES) == (MOST_OF_MEMORIES + MOST_OF_DAYS, True)
    left = {key: text for key, text in many.items() if int(key) % 10}
    assert 0.02 < score(many, left, days, ()).drop < 0.2
    assert score(many, left, days, many.keys() - left.keys()).drop < 0.02


def test_scripts_without_spaces_are_asked_about_too():
    old = {"a": "データベースは東京のサーバーで動いている", "b": "会議は毎週月曜日に開かれる"}
    assert score(old, old, (), ()).before == 2
    assert score(old, {"a": old["a"]}, (), ()).drop == 0.5


def before_all_others(thing, colour):
    """Memories that come first for a question about such a thing, being shorter."""
    return {f"{thing} {n}": f"{colour} {thing} tea{n}" for n in "abcde"}


def test_what_only_slips_behind_something_new_is_not_lost_but_for_more_than_came_back():
    old = {"5": "The canoe 5 is red.", "6": "The barge 6 is blue."}
    canoes, barges = before_all_others("canoe", "red"), before_all_others("barge", "blue")
    alone = score(old, old, (), ())
    one = score(old, old | canoes, (), ())
    assert (alone.after, one.after, one.unexplained) == (alone.before, alone.before - 1, 0)
    two = score(old, old | canoes | barges, (), ())
    assert (two.after, two.unexplained) == (alone.before - 2, 1)
    both = score(old | canoes, old | barges, (), canoes.keys())
    assert both.unexplained == 0
    more = score(old, old | canoes | barges | {"6": "The barge is blue."}, (), ())
    assert more.unexplained == score(old, old | {"6": "The barge is blue."}, (), ()).unexplained > 0


def test_of_many_that_are_alike_none_is_lost_by_another_order():
    """Hits that are as good as each other have no order that could be another."""
    crates = {str(n): f"Crate {n} stands in hall {n % 3} beside the ramp." for n in range(100, 130)}
    found = score(crates, dict(reversed(crates.items())), (), ())
    assert (found.before, found.unexplained) == (found.after, 0)


WORDS = ("crate", "hall", "canoe", "harbour", "Marvin", "14", "42", "getUserName", "snake_case", "a/path.py", "the")
WORDS += ("\u6771\u4eac", "tea", "teas")
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
HELD = st.tuples(SENTENCES, st.sampled_from([None, 0.0, 0.5, 0.8, 1.0]), st.integers(-1, 1))
QUESTIONS = st.lists(SENTENCES | SENTENCES.map('"{}" tea'.format) | st.just("can*"), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    made = Searched(tmp_path_factory.mktemp("searched"))
    yield made
    made.world.close()


class Searched:
    """One real index and ledger, which hold one drawn core after the other."""

    def __init__(self, root):
        self.world = World(root)

    def hold(self, held):
        """Take in a file of these bullets; returns it, and the votes."""
        self.world.index.erase(None)
        self.world.sql("DELETE FROM memory")
        added = {}
        with sqlite.writing(self.world.engine) as connection:
            adds = [Add(Kind.CORE, text, importance=importance) for text, importance, _ in held]
            changes = apply({}, adds, agent_id="demo", now=NOW, new_hex=lambda: secrets.token_hex(4))
            audit.record(connection, changes, at=NOW, agent_id="demo", actor="human", run_id=None)
            added = {one.memory_id: vote for one, (_, _, vote) in zip(changes, held, strict=True)}
        votes = {memory_id: vote for memory_id, vote in added.items() if vote}
        for memory_id, vote in votes.items():
            feedback.give(self.world.engine, "demo", memory_id, "good" if vote > 0 else "bad", now=NOW, actor="human")
        file = "# Core\n\nWhat the harbour is.\n\n## Tea\n\n" + "".join(f"- {text}\n" for text, _, _ in held)
        self.world.write("MEMORY.md", file)
        return file.encode(), votes

    def found(self, question, file):
        """What a user's search finds, as words."""
        hits = self.world.recall.search(self.world.agent, question, Narrowing(tier="core", limit=5))
        lines = file.decode().splitlines()
        found = [lines[one.first_line - 1 : one.last_line] for one in hits]
        return [" ".join(line for line in some if not line.startswith("#")).split() for some in found]


CORES = st.lists(HELD, min_size=1, max_size=70, unique_by=lambda one: one[0])


@given(held=CORES, questions=QUESTIONS)
@settings(suppress_health_check=list(HealthCheck), max_examples=300 if SOAK else 12)
def test_the_gate_finds_what_a_search_of_the_users_finds(searched, held, questions):
    file, votes = searched.hold(held)
    with sqlite.reading(searched.world.engine) as connection:
        live = memories.live(connection, "demo", Kind.CORE)
    with searching(file, live, votes) as find:
        for question in (*questions, held[0][0]):
            assert [text.split() for text in find(parse(question), 5)[:5]] == searched.found(question, file)
