"""Search by meaning: what says the same in other words is found, by vectors that live and go with their texts."""

import random
import threading
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recall_world import World
from structlog.testing import capture_logs
from tiny_model import KINDS, TinyModel, vector

from memoryd.database.library import load_library
from memoryd.errors import StateError
from memoryd.finding.embedding import BATCH, Embedder
from memoryd.index import vectors
from memoryd.index.matches import SearchFilter
from memoryd.ledger.facts import NewFact
from memoryd.worker.client import ClosedError, LostError, WorkerError


class Meant(World):
    """A world whose search goes by meaning as well."""

    def __init__(self, root, *agents, redact=list):
        super().__init__(root, *agents, redact=redact)
        self.model = TinyModel()
        self.clock = 0.0
        self.embedder = Embedder("tiny 1", self.model, self.model, lambda: self.clock, self.log)
        self.recall = replace(self.recall, meaning=lambda text: self.embedder.ask(text, timedelta(seconds=10)))

    def fill(self, agent=None):
        chosen = self.agents[agent] if agent else self.agent
        self.recall.indexer.refresh(chosen)
        self.embedder.fill(self.recall.indexer, chosen, lambda: True)

    def coverage(self, agent="demo"):
        with self.index.begin_read() as tables:
            return tables.coverage(agent)

    def near(self, text, recall=None, where=None, limit=10):
        """Where the texts are that mean what is nearest."""
        index = (recall or self.recall).indexer.index
        with index.begin_read() as tables:
            number = tables.find_number(self.agent.id)
            found = index.find_nearest(tables, number, vector(text), where or SearchFilter(), limit)
        return [(one.path, one.first_line, round(one.score, 5)) for one in found]


@pytest.fixture
def world(tmp_path):
    made = Meant(tmp_path)
    yield made
    made.close()


def test_what_says_it_in_other_words_is_found_and_says_why(world):
    world.write("MEMORY.md", "- the automobile is in the shed\n- Ottilie likes tea\n")
    world.turn("my kitten sleeps all day")
    world.facts().create([NewFact("Sees a physician on Mondays", "context", 0.9)])
    (hit,) = world.search("kitten")
    assert hit.why == "kitten; no text is embedded yet"
    assert world.model.texts == [], "without anything to compare it with nobody is asked"
    world.fill()
    assert world.coverage() == (4, 4, "tiny 1")
    (car,) = world.search("garage engine")
    assert (car.path, car.first_line, car.why) == ("MEMORY.md", 1, "by meaning 1")
    assert car.snippet == "- the automobile is in the shed"
    assert world.paths("feline") == {"session:s1"}
    assert {hit.tier for hit in world.search("doctor")} == {"fact"}
    both = world.search("kitten")[0]
    assert both.why == "kitten; by words 1, by meaning 1"
    assert 0 < both.score <= 1
    assert world.search("zebra") == [], "what is near to nothing finds nothing"


def test_a_text_that_is_new_is_found_by_words_until_it_is_embedded(world):
    world.write("MEMORY.md", "- the automobile is in the shed\n")
    world.fill()
    world.write("memory/2026-05-03.md", "## Note (10:00)\n\nthe omnibus was sold\n")
    assert [hit.path for hit in world.search("omnibus")] == ["memory/2026-05-03.md", "MEMORY.md"]
    assert all(hit.why.endswith("not all texts are embedded yet") for hit in world.search("omnibus"))
    world.fill()
    assert world.search("omnibus")[0].why == "omnibus; by words 1, by meaning 2; recent"


def test_what_is_narrowed_by_tier_and_day_is_so_for_meaning(world):
    world.write("MEMORY.md", "- the automobile is in the shed\n")
    for day in ("2026-04-01", "2026-05-01"):
        world.write(f"memory/{day}.md", "## Note (10:00)\n\nthe omnibus was sold\n")
    world.fill()
    assert world.paths("garage", tier="core") == {"MEMORY.md"}
    assert world.paths("garage", tier="session") == set()
    assert (
        world.near("garage", where=SearchFilter("daily", "2026-04-02"))
        == world.near("garage", where=SearchFilter("daily"))[1:]
    )
    before = world.near("garage", where=SearchFilter(before="2026-04-30"))
    assert {path for path, *_ in before} == {"memory/2026-04-01.md", "MEMORY.md"}, "what has no day is not left out"


def test_tool_output_is_found_by_words_alone(world):
    world.turn("engine.log", role="tool", origin="tool", kind="tool_result")
    world.turn("look at the car")
    world.fill()
    assert world.coverage()[:2] == (1, 1)
    assert world.places("omnibus") == [("session:s1", 2)]


def test_only_what_may_be_shown_is_embedded(tmp_path):
    world = Meant(tmp_path, redact=lambda texts: [text.replace("hunter2", "[REDACTED:x]") for text in texts])
    world.write("MEMORY.md", "- the garage door opens with hunter2\n")
    world.fill()
    assert any("[REDACTED:x]" in text for text in world.model.texts)
    assert not any("hunter2" in text for text in world.model.texts)
    world.close()


def test_a_text_is_embedded_once_however_often_its_neighbours_change(world):
    for number in range(6):
        world.turn(f"the cat number{number}")
        world.fill()
    world.write("MEMORY.md", "- a car\n- a doctor\n")
    world.fill()
    world.write("MEMORY.md", "- tea\n- a car\n- a doctor\n")
    world.fill()
    assert sorted(world.model.texts) == sorted([*(f"the cat number{one}" for one in range(6)), "- a car\n",
                                                "- a doctor\n", "- tea\n"])  # fmt: skip


def test_a_vector_goes_with_its_text(world):
    world.write("MEMORY.md", "- the automobile is in the shed\n- a doctor\n")
    world.fill()
    world.write("MEMORY.md", "- a doctor\n")
    assert world.paths("omnibus") == set()
    with world.index.begin_read() as tables:
        assert tables._rows("SELECT count(*) FROM vectors_1") == [(1,)]


def test_what_is_forgotten_is_in_no_byte_of_the_index(world):
    text = "the automobile is in the shed"
    world.turn(text)
    world.turn("a doctor")
    world.fill()
    files = [world.index.path.with_name(f"index.db{side}") for side in ("", "-wal")]
    assert any(vector(text) in path.read_bytes() for path in files if path.exists())
    world.sql("UPDATE turn SET text = '' WHERE seq = 1")
    world.index.erase("demo")
    assert not any(vector(text) in path.read_bytes() for path in files if path.exists())
    assert world.paths("omnibus") == set()
    world.fill()
    assert world.paths("omnibus") == set()
    assert world.paths("clinic") == {"session:s1"}


def test_what_was_read_before_it_was_forgotten_does_not_come_in_behind_it(world):
    world.turn("the automobile is in the shed")
    world.recall.indexer.refresh(world.agent)

    def meanwhile(_texts):
        world.sql("UPDATE turn SET text = 'a doctor' WHERE seq = 1")
        world.index.erase("demo")
        world.recall.indexer.refresh(world.agent)
        world.model.fails = lambda texts: None

    world.model.fails = meanwhile
    world.fill()
    assert world.paths("omnibus") == set()
    assert world.paths("clinic") == {"session:s1"}


def test_an_index_that_begins_anew_meanwhile_comes_to_no_harm(world):
    world.turn("the automobile is in the shed")
    world.recall.indexer.refresh(world.agent)

    def meanwhile(_texts):
        world.index.erase("demo")
        world.recall.indexer.refresh(world.agent)
        world.model.fails = lambda texts: None

    world.model.fails = meanwhile
    with capture_logs() as logged:
        world.fill()
    assert [one["event"] for one in logged if one["log_level"] == "error"] == []
    assert world.coverage()[:2] == (1, 1)
    assert world.paths("omnibus") == {"session:s1"}


def test_a_full_disk_is_not_taken_for_a_model_that_fails(world):
    world.turn("the automobile is in the shed")
    world.fill()
    world.turn("another car")
    world.recall.indexer.refresh(world.agent)
    world.index._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(StateError, match="index"):
        world.embedder.fill(world.recall.indexer, world.agent, lambda: True)
    world.index._connection.execute("PRAGMA query_only = 0")
    world.fill()
    assert world.coverage()[:2] == (2, 2)


def test_a_vector_is_not_that_of_the_text_that_stood_there_before(world):
    path = world.write("MEMORY.md", "- the automobile is in the shed\n")

    def meanwhile(_texts):
        path.write_text("- a doctor\n", encoding="utf-8")
        world.recall.indexer.refresh(world.agent)  # its document has the id of the other one
        world.model.fails = lambda texts: None

    world.model.fails = meanwhile
    world.fill()
    assert world.paths("omnibus") == set()
    assert world.paths("clinic") == {"MEMORY.md"}


def test_another_model_makes_all_anew_and_is_not_compared_with_the_old(world):
    world.turn("the automobile is in the shed")
    world.fill()
    world.embedder.model = "tiny 2"
    assert world.paths("omnibus") == set(), "its vectors are of another model"
    world.fill()
    assert world.coverage() == (1, 1, "tiny 2")
    assert world.paths("omnibus") == {"session:s1"}


def test_agents_are_apart(tmp_path):
    world = Meant(tmp_path, "a", "b")
    for name, text in (("a", "the automobile"), ("b", "a kitten")):
        world.turn(text, session=f"s-{name}", agent=name)
        world.fill(name)
    assert world.paths("omnibus", agent="a") == {"session:s-a"}
    assert world.paths("omnibus", agent="b") == set()
    world.index.erase("a")
    assert world.paths("feline", agent="b") == {"session:s-b"}
    world.close()


def test_a_text_the_model_dies_of_is_passed_over_and_told_without_content(world):
    for number in range(BATCH + 3):
        world.turn(f"cat {number}" if number != 5 else "poison feline")

    def fails(texts):
        if any("poison" in text for text in texts):
            raise LostError("the worker died")

    world.model.fails = fails
    with capture_logs() as logged:
        world.fill()
    assert world.coverage()[:2] == (BATCH + 3, BATCH + 3)
    warned = [(one["event"], one["characters"]) for one in logged if one["log_level"] == "warning"]
    assert warned == [("a text could not be embedded", 13)]
    found = {hit.first_line: hit.why for hit in world.search("kitten feline", limit=50)}
    assert found[6].startswith("feline; by words 1")
    assert "by meaning" not in found[6]
    assert len(found) == BATCH + 3
    (hit,) = world.search("poison", tier="session", limit=1)
    assert hit.why == "poison; the model failed on this question"


def test_a_model_that_fails_leaves_search_by_words_and_is_asked_again_later(world):
    world.turn("the automobile is in the shed")
    world.fill()

    def fails(_texts):
        raise WorkerError("cannot be started")

    world.model.fails = fails
    assert world.search("automobile")[0].why == "automobile; the model failed"
    assert world.search("automobile")[0].why == "automobile; the model failed a moment ago"
    world.turn("another car")
    world.fill()
    assert world.coverage()[:2] == (1, 2)
    world.model.fails = lambda texts: None
    world.clock += 1000
    world.fill()
    assert len(world.search("automobile")) == 2


def test_a_model_that_dies_of_everything_passes_nothing_over(world):
    for number in range(3):
        world.turn(f"car {number}")

    def fails(_texts):
        raise LostError("the worker died")

    world.model.fails = fails
    world.fill()
    assert world.coverage()[:2] == (0, 3)
    world.model.fails = lambda texts: None
    world.clock += 1000
    world.fill()
    assert world.coverage()[:2] == (3, 3)


def test_a_question_waits_only_so_long(world):
    world.turn("the automobile is in the shed")
    world.fill()
    go_on = threading.Event()
    world.model.fails = lambda texts: go_on.wait(30)
    patient = world.recall
    world.recall = replace(patient, meaning=lambda text: world.embedder.ask(text, timedelta()))
    (hit,) = world.search("automobile")
    assert hit.why == "automobile; the model is still being loaded, or busy"
    assert world.search("omnibus") == []
    go_on.set()
    world.recall = patient
    assert world.paths("omnibus") == {"session:s1"}


def test_a_stopped_worker_ends_it_without_a_word(world):
    world.turn("a car")

    def fails(_texts):
        raise ClosedError("the worker has been stopped")

    world.model.fails = fails
    world.fill()
    assert world.embedder._rests_until == 0


def test_a_phrase_is_before_what_only_means_the_same(world):
    world.turn("the automobile and the omnibus and the engine in the garage")
    world.turn("we sold the red car to Ottilie", session="s2")
    world.fill()
    found = world.search('"red car" automobile omnibus engine garage')
    assert [hit.path for hit in found] == ["session:s2", "session:s1"]


def test_damaged_vectors_are_made_anew(world):
    world.turn("the automobile is in the shed")
    for change in ("UPDATE vectors_1 SET vector = x'00'", "UPDATE vectors_1 SET vector = 5", "DROP TABLE vectors_1",
                   "UPDATE document SET day = 'never'"):  # fmt: skip
        world.fill()
        world.index.close()
        connection = load_library().connect(str(world.index.path))
        connection.execute(change)
        connection.commit()
        connection.close()
        assert world.paths("automobile") == {"session:s1"}, change
        world.fill()
        assert world.paths("omnibus") == {"session:s1"}, change


WORDS = sorted(word for kind in KINDS for word in kind)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    st.lists(
        st.tuples(st.sampled_from(["turn", "file", "fill", "look"]), st.integers(0, 2),
                  st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)),
        max_size=20,
    )
)  # fmt: skip
def test_what_is_held_in_memory_is_what_is_read_anew(tmp_path_factory, steps):
    world = Meant(tmp_path_factory.mktemp("world"))
    for what, number, words in [*steps, ("fill", 0, WORDS[:1]), ("look", 0, WORDS[:3])]:
        if what == "turn":
            world.turn(" ".join(words), session=f"s{number}")
        elif what == "file":
            world.write(f"memory/2026-05-0{number + 1}.md", "".join(f"## {word}\n\n{word}\n\n" for word in words))
        elif what == "fill":
            world.fill()
        else:
            world.recall.indexer.refresh(world.agent)
            other = world.opened()
            question = " ".join(words)
            assert world.near(question, limit=200) == world.near(question, recall=other, limit=200)
            other.indexer.index.close()
    assert world.coverage().done == world.coverage().wanted
    world.close()


def test_what_is_held_follows_neighbours_that_come_and_an_index_that_begins_anew(world):
    def check():
        world.fill()
        other = world.opened()
        for question in ("kitten", "omnibus", "physician", "fruit"):
            assert world.near(question) == world.near(question, recall=other)
        other.indexer.index.close()

    world.turn("a physician")
    check()
    world.index.erase("demo")
    world.sql("UPDATE turn SET text = 'an orchard'")
    check()
    for text in ("the cat", "my car", "cat feline", "a doctor", "the kumquat harvest"):
        world.turn(text)
        check()
    world.index.erase("demo")
    world.sql("UPDATE turn SET text = 'an orchard' WHERE seq = 1")
    check()
    world.turn("my kitten")
    check()


def test_among_many_the_nearest_that_a_filter_allows_are_found(world):
    for number in range(60):
        world.turn(f"{WORDS[number % len(WORDS)]} w{number}", session=f"s{number % 7}")
    world.fill()
    right = world.near("kitten w7", limit=5)
    chance, same = random.Random(7), vector("kitten w7")
    with world.index.begin_write() as tables:  # as if as many more texts were there, every second of another day
        source = tables.put_source(1, "session:many", "session", "")
        for number in range(3000):
            day, means = ("2020-01-01", same) if number % 2 else (None, chance.randbytes(len(same)))
            tables._change(
                "INSERT INTO document (source, first_line, last_line, piece, digest, key, lacks, day, voice)"
                " VALUES (?, ?, ?, 0, x'', x'', 0, ?, 0)", source, number, number, day,
            )  # fmt: skip
            tables._change("INSERT INTO vectors_1 (document, vector) SELECT max(id), ? FROM document", means)
    found = world.near("kitten w7", where=SearchFilter(after="2026-01-01"), limit=50)
    assert [one for one in found if one[0] != "session:many"][:5] == right
    assert all(first_line % 2 == 0 for path, first_line, _ in found if path == "session:many")


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(min_size=64, max_size=64)), min_size=1, max_size=24))
def test_vectors_lean_the_same_however_they_are_cut_into_blocks(rows):
    groups = np.array(sorted(group for group, _ in rows), np.int64)
    whole = np.array([list(memoryview(data).cast("b")) for _, data in rows], np.int8)
    cut = whole.copy()
    vectors._lean(whole, groups)
    with patch.object(vectors, "_BLOCK", 3):
        vectors._lean(cut, groups)
    assert (whole == cut).all()


def test_a_turn_leans_towards_its_neighbours_and_no_further():
    own = np.zeros((7, 64), np.int8)
    own[3, 0], own[[0, 1, 2, 4, 5, 6], 1] = 100, 100
    vectors._lean(own, np.array([0, 0, 0, 0, 0, 1, 1], np.int64))
    assert own[3, 0] == 127
    assert own[3, 1] == round(127 * vectors.LEAN)
    assert [row[0] > 0 for row in own] == [False, True, True, True, True, False, False]


def test_a_passage_with_the_kind_of_answer_that_is_asked_for_is_first(world):
    world.turn("The ferries leave the harbour each day. The crew is old.")
    world.turn("The ferries leave the harbour each day. Then 7 come in.")
    assert "7" in world.search("how many ferries leave the harbour")[0].snippet
    assert "7" not in world.search("ferries leave the harbour")[0].snippet
