"""Search over files, turns and facts: what is found is what is there at this moment, of this agent, nothing else."""

import os
import random
import signal
import threading
from contextlib import closing
from datetime import date, timedelta

import forks
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import WORLDS
from recall_world import AT, NOW, World

from memoryd.clock import utc_now
from memoryd.database import audit, sqlite
from memoryd.database.library import load_library
from memoryd.database.reads import DatabaseReader, open_reader
from memoryd.errors import ConfigError, StateError
from memoryd.finding.indexing import BATCH, SEGMENTS
from memoryd.finding.recall import Narrowing
from memoryd.index.matches import Counts, SearchFilter
from memoryd.index.tables import SCHEMA, Tables
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.facts import NewFact
from memoryd.recall import documents
from memoryd.recall.query import parse


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


DAY = "# Daily Memory: 2026-05-03\n\n## Note (10:00)\n\nThe kumquat harvest was poor.\n\n## Note (11:00)\n\nTea.\n"


def test_a_part_of_an_archive_with_times_is_found_and_not_indexed_again(world):
    part = "### Session f2d1f8f117a5\n\n**Date Range**: 2026-04-01 09:00 - 10:00\n\nThe kumquat froze.\n"
    world.write(".continuum/memory/MEMORY-2026-04-01.md", f"# April\n\n{part}")
    for _ in range(2):
        assert [hit.snippet for hit in world.search("kumquat")] == ["The kumquat froze."]
        with world.index.begin_read() as tables:
            assert tables.matches(tables.find_number("demo"))._all().last <= 3


def test_headings_of_the_archive_without_a_line_below_them_are_no_hits(world):
    entry = "- [Jam](MEMORY-2026-04-01.md#jam) - The kumquat froze."
    index = f"# Long-term Memory Index\n\n## Architecture Decisions\n\n{entry}\n\n## Development Patterns\n"
    world.write(".continuum/memory/MEMORY.md", index)
    world.write(".continuum/memory/RECENT.md", "# RECENT - Last 3 Sessions\n")
    world.write("memory/2026-05-03.md", "# Daily Memory: 2026-05-03\n\n- The architecture has one layer.\n")
    found = world.search("architecture decisions") + world.search("development patterns") + world.search("recent")
    assert [hit.path for hit in found] == ["memory/2026-05-03.md"]
    world.write(".continuum/memory/MEMORY.md", f"{index}\nMy own pattern: small steps.\n")
    assert [hit.snippet for hit in world.search("development patterns")] == ["My own pattern: small steps."]


def test_every_source_is_found_with_its_tier_and_its_lines(world):
    world.write("MEMORY.md", "# Memory\n\n## Garden\n\n- Ottilie grows kumquat trees\n- another\n")
    world.write("memory/2026-05-03.md", DAY)
    world.write(".continuum/memory/RECENT.md", "# RECENT - Last 3 Sessions\n\n**Focus**: kumquat jam\n")
    world.write(".continuum/memory/MEMORY-2026-04-01.md", "---\ntags: [fruit, jam]\n---\n# April\n\nkumquat frost\n")
    world.turn("where do I put the kumquat seeds?")
    world.facts().create([NewFact("Likes kumquat marmalade", "preference", 0.9)])
    found = {hit.tier: hit for hit in world.search("kumquats")}
    assert set(found) == {"core", "daily", "recent", "archive", "session", "fact"}
    core, daily = found["core"], found["daily"]
    assert (core.path, core.first_line, core.last_line) == ("MEMORY.md", 1, 5)
    assert core.snippet == "- Ottilie grows kumquat trees"
    assert (daily.path, daily.first_line, daily.last_line) == ("memory/2026-05-03.md", 1, 6)
    assert (daily.day, daily.why) == ("2026-05-03", "kumquats; recent")
    assert (found["session"].path, found["session"].first_line) == ("session:s1", 1)
    assert found["fact"].path == f"fact:{found['fact'].id}"
    for tier, hit in found.items():
        assert {one.tier for one in world.search("kumquat", tier=tier)} == {tier}
        assert hit.score > 0
    assert world.paths("kumquat", tags={"Jam"}) == {".continuum/memory/MEMORY-2026-04-01.md"}
    assert world.paths("kumquat", tags={"preference"}) == {found["fact"].path}


def test_a_turn_is_found_with_whose_words_it_is(world):
    for origin in ("user", "assistant", "tool"):
        world.turn(f"a kumquat of the {origin}", origin=origin)
    world.write("MEMORY.md", "- kumquat\n")
    assert {hit.snippet: hit.said_by for hit in world.search("kumquat")} == {
        "a kumquat of the user": "user",
        "a kumquat of the assistant": "assistant",
        "a kumquat of the tool": "tool",
        "- kumquat": None,
    }


def test_what_a_person_pasted_is_not_found_as_their_words(world):
    log = "\n".join(f"2026-05-03T09:3{n}:02Z INFO  policy: never ask before deleting kumquat {n}" for n in range(4))
    world.turn(f"The harvest stopped, any idea?\n\n{log}", origin="user")
    world.turn("- First the kumquat, then the lime.\n- **Never** the other way round.", origin="user")
    said_by = {hit.first_line: hit.said_by for hit in world.search("kumquat never")}
    assert said_by == {1: "user (pasted)", 2: "user"}


def test_what_is_no_evidence_is_not_found(world):
    word = "kumquat"
    for name in ("memory/dreams/2026-05-03.md", "memory/x.md.private", "memory/notes.private", "notes.md",
                 ".continuum/memory/backup/run/MEMORY.md", ".continuum/memory/consolidation.log", "memory/.hidden.md",
                 ".continuum/memory/NOW-2026-05-03T10-00.md"):  # fmt: skip
        world.write(name, f"{word} in {name}\n")
    outside = world.workspace.parent / "outside.md"
    outside.write_text(f"{word} outside\n")
    (world.workspace / "memory" / "link.md").symlink_to(outside)
    os.link(outside, world.workspace / "memory" / "hard.md")
    os.mkfifo(world.workspace / "memory" / "fifo.md")
    (world.workspace / "memory" / "folder.md").mkdir()
    world.turn(f"{word} as it was remembered", origin="injected")
    world.turn("", withheld="lost")
    assert world.search(word) == []
    (world.workspace / "memory" / "fifo.md").unlink()


def test_a_folder_that_is_a_link_leads_nowhere(world):
    elsewhere = world.workspace.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "2026-05-03.md").write_text("kumquat\n")
    (world.workspace / "memory").rmdir()
    (world.workspace / "memory").symlink_to(elsewhere)
    assert world.search("kumquat") == []


def test_a_changed_or_deleted_text_is_never_returned(world):
    path = world.write("memory/2026-05-03.md", DAY)
    assert world.paths("kumquat") == {"memory/2026-05-03.md"}
    before = path.stat()
    path.write_text(DAY.replace("kumquat", "loquats"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # same size and time: only its text tells
    assert world.search("kumquat") == []
    assert world.paths("loquats") == {"memory/2026-05-03.md"}
    path.unlink()
    assert world.search("loquats") == []


def test_what_changes_between_the_look_and_the_answer_is_looked_for_again(world, monkeypatch):
    path = world.write("memory/2026-05-03.md", DAY)
    world.turn("the kumquat is yellow")
    world.search("kumquat")
    indexer, changes = world.recall.indexer, []
    refresh = type(indexer).refresh

    def late(self, agent, **more):
        refresh(self, agent, **more)
        if not changes:  # somebody edits at the worst moment, once
            changes.append(1)
            path.write_text("# Other\n\nabout a pomelo\n\nand a kumquat tree\n")
            world.sql("UPDATE turn SET text = 'the [REDACTED:fruit] is yellow'")

    monkeypatch.setattr(type(indexer), "refresh", late)
    hits = world.search("kumquat")
    assert [(hit.path, hit.snippet) for hit in hits] == [("memory/2026-05-03.md", "about a pomelo and a kumquat tree")]


def test_lines_move_with_what_is_written_above_and_only_what_is_new_is_indexed(world):
    world.write("memory/2026-05-03.md", DAY)
    seen = []
    world.redact = lambda texts: seen.extend(texts) or list(texts)
    world.recall = world.opened()
    assert world.places("tea") == [("memory/2026-05-03.md", 7)]
    assert len(seen) == 2
    world.write(
        "memory/2026-05-03.md", "# Daily Memory: 2026-05-03\n\n## Note (09:00)\n\nEarly.\n\n" + DAY.split("\n", 2)[2]
    )
    seen.clear()
    assert world.places("tea") == [("memory/2026-05-03.md", 11)]
    assert [text.split("\n\n")[-2] for text in seen if "Early" in text] == ["Early."]
    assert not any("Tea" in text for text in seen)


def test_a_turn_is_found_by_its_neighbours_but_after_those_that_say_it(world):
    for text in (
        "hello there",
        "do you like the opera?",
        "yes, very much",
        "which one?",
        "Rigoletto",
        "unrelated talk",
    ):
        world.turn(text)
    assert world.places("opera")[0][1] == 2
    assert {line for _, line in world.places("opera")} == {1, 2, 3, 4}
    hit = next(one for one in world.search("opera") if one.first_line == 3)
    assert hit.why == "beside it: opera"
    world.turn("La Traviata is my favourite opera")  # a new neighbour of what was indexed already
    assert {line for _, line in world.places("favourite")} == {5, 6, 7}
    world.turn("opera tomorrow", session="s2")
    assert world.paths("tomorrow") == {"session:s2"}


def test_tool_output_is_found_and_weighs_less(world):
    world.turn("compile it", role="user")
    world.turn("error E1234 in parser", role="tool", kind="tool_result")
    for _ in range(6):
        world.turn("filler", session="s2")
    world.turn("error E1234 in parser", session="s3")
    assert world.places("E1234") == [("session:s3", 1), ("session:s1", 2)]


def test_what_an_agent_looked_for_in_this_memory_is_nothing_that_is_found(world):
    """Its calls are named as the programs name them: by itself, or with the server's name ahead."""
    world.turn("We moved the parser to Rust.")
    for tool in ("memory_search", "mcp__memoryd__memory_search", "mcp__memoryd__memory_get"):
        world.turn('call {"query": "parser"}', role="assistant", kind="tool_call", tool=tool)
    world.turn("grep parser", role="assistant", kind="tool_call", tool="Bash")
    found = {hit.first_line for hit in world.recall.search(world.agent, "parser")}
    assert found == {1, 5}


def test_a_turn_is_found_by_its_day(world):
    world.turn("we met", at="2026-03-08T10:00:00.000Z")
    world.turn("we met", session="s2", at="2026-04-09T10:00:00.000Z")
    assert world.places("March 2026")[0] == ("session:s1", 1)
    assert world.paths("met", after=date(2026, 4, 1)) == {"session:s2"}
    assert world.paths("met", before=date(2026, 3, 8)) == {"session:s1"}


def test_a_long_turn_is_found_wherever_it_says_it_and_once(world):
    world.turn("start kumquat " + "filler " * 4000 + "the end is a pomelo " + "filler " * 4000 + " kumquat")
    (hit,) = world.search("pomelo")
    assert "the end is a pomelo" in hit.snippet
    assert len(world.search("kumquat")) == 1


def test_what_a_transcript_took_back_is_no_longer_found_until_it_is_said_again(world):
    world.turn("a kumquat")
    world.turn("a durian")
    assert world.search("kumquat")
    world.sql("UPDATE turn SET text = '', withheld = 'retracted' WHERE seq = 1")
    assert not world.search("kumquat")
    assert world.search("durian")
    world.sql("UPDATE turn SET withheld = 'unscanned' WHERE seq = 1")
    assert not world.search("kumquat")
    world.sql("UPDATE turn SET text = 'a kumquat', withheld = NULL WHERE seq = 1")
    assert world.search("kumquat")


def test_a_turn_whose_text_comes_later_is_found_then(world):
    world.turn("before it")
    world.turn("", withheld="unscanned")
    world.turn("after it")
    assert world.search("kumquat") == []
    world.sql("UPDATE turn SET text = 'a kumquat', withheld = NULL WHERE seq = 2")
    assert {line for _, line in world.places("kumquat")} == {1, 2, 3}


def test_another_database_in_its_place_is_noticed(world):
    world.turn("kumquat old")
    assert world.places("kumquat")
    world.sql("DELETE FROM turn")
    world.turn("pomelo new", session="s9")
    world.write("MEMORY.md", "- stays here\n")
    assert world.search("kumquat") == []
    assert world.paths("pomelo") == {"session:s9"}
    assert world.paths("stays") == {"MEMORY.md"}


def test_facts_follow_the_ledger(world):
    store = world.facts()
    fact = store.create([NewFact("Likes kumquats", "preference", 0.9)]).outcomes[0].fact
    assert world.paths("kumquats") == {f"fact:{fact.id}"}
    store.update(fact.id, content="Likes pomelos")
    assert world.search("kumquats") == []
    assert world.paths("pomelos") == {f"fact:{fact.id}"}
    store.delete(fact.id)
    assert world.search("pomelos") == []


def test_one_agent_never_finds_what_is_anothers_nor_is_ranked_by_it(tmp_path):
    world = World(tmp_path, "a", "b")
    for name, word in (("a", "kumquat"), ("b", "pomelo")):
        world.write("MEMORY.md", f"- {word} tree in the garden\n", agent=name)
        world.turn(f"{word} and others", session=f"s-{name}", agent=name)
        world.facts(name).create([NewFact(f"Likes {word}", "preference", 0.9)])
    alone = world.search("kumquat garden", agent="a")
    assert {hit.tier for hit in alone} == {"core", "session", "fact"}
    assert world.search("pomelo", agent="a") == world.search("kumquat", agent="b") == []
    for number in range(50):  # words of b's that would make a's rarer or commoner
        world.turn(f"kumquat garden {number}", session="s-b", agent="b")
    world.search("kumquat", agent="b")
    assert world.search("kumquat garden", agent="a") == alone
    world.close()


def test_feedback_weighs_and_is_audited(world):
    store = world.facts()
    made = store.create([NewFact(f"Likes tea number {word}", "preference", 0.9) for word in ("one", "two", "three")])
    ids = [one.fact.id for one in made.outcomes]
    for _ in range(30):
        world.turn("nothing of it", session="other")
    last = world.search("likes tea")[-1].id

    def rate(verdict):
        with sqlite.begin_write(world.engine) as connection:
            audit.note(connection, [(f"feedback {verdict}", last, "{}")], AuditStamp(NOW, "demo", "human"))

    for _ in range(2):
        rate("good")
    best = world.search("likes tea")[0]
    assert (best.id, best.why.rpartition("; ")[2]) == (last, "feedback +2")
    for _ in range(4):
        rate("bad")
    assert world.search("likes tea")[-1].id == last
    assert set(ids) == {hit.id for hit in world.search("likes tea") if hit.tier == "fact"}


def test_a_recent_day_comes_before_an_old_one_and_near_copies_come_last(world):
    old, new = (AT.date() - timedelta(days=days) for days in (300, 1))
    for day in (old, new):
        world.write(f"memory/{day}.md", f"# Daily Memory: {day}\n\nkumquat harvest\n")
    for number in range(20):
        world.turn(f"filler {number}")
    assert [path for path, _ in world.places("kumquat")] == [f"memory/{new}.md", f"memory/{old}.md"]
    world.write("memory/2026-05-02.md", "\n".join(f"## Part {n}\n\nkumquat harvest\n" for n in range(12)))
    world.write("memory/long.md", "A kumquat harvest is a thing that takes many more words to tell about here\n")
    assert "memory/long.md" in {path for path, _ in world.places("kumquat harvest", limit=5)}
    parts = ("the north of the farm", "pickers from town", "a late frost", "prices in May", "jam in the old kitchen")
    told = "".join(f"## Part {n}\n\nkumquat harvest: {part}\n\n" for n, part in enumerate(parts))
    world.write("memory/2026-05-02.md", told)
    assert [path for path, _ in world.places("kumquat harvest", limit=5)][1:] == ["memory/2026-05-02.md"] * 4


def test_what_is_quoted_comes_first(world):
    for text in ("bird early early bird-less early", "an early bird", "bird song", "late"):
        world.turn(text, session=f"s{len(text)}")
    assert world.places('"early bird"')[0] == ("session:s13", 1)


def test_a_newer_statement_passes_an_older_one_but_not_what_is_quoted(world):
    told = [
        NewFact("My morning tea in the kitchen is green tea."),
        NewFact("My morning tea is warm from the kettle."),
    ]
    old, new = (one.fact for one in world.facts().create(told).outcomes)
    world.sql("UPDATE memory SET created_at = '2026-04-01T09:00:00.000Z' WHERE id = ?", old.id)
    assert [hit.id for hit in world.search("my morning tea")] == [new.id, old.id]
    hits = world.search('morning tea kettle "green tea"')
    assert [hit.id for hit in hits] == [old.id, new.id]
    assert 0.8 * hits[0].score <= hits[1].score <= hits[0].score, "without the phrase it would pass"


def test_secrets_of_a_persons_file_are_neither_indexed_nor_shown(tmp_path):
    world = World(tmp_path, redact=lambda texts: [text.replace("hunter2", "[REDACTED:x]") for text in texts])
    private = "<private>\n\n- Zelda lives in room 441\n\n</private>\n"
    world.write("MEMORY.md", f"- the password of the kumquat shop is hunter2\n{private}")
    (hit,) = world.search("kumquat")
    assert hit.snippet == "- the password of the kumquat shop is [REDACTED:x]"
    assert world.search("hunter2") == world.search("Zelda") == []
    world.close()
    assert not any(word in path.read_bytes() for word in (b"hunter2", b"Zelda") for path in world.state.iterdir())


def test_what_cannot_be_scanned_is_not_indexed_until_it_can(tmp_path):
    state = {"broken": True}

    def redact(texts):
        if state["broken"] and texts:
            raise StateError("could not be scanned for secrets")
        return list(texts)

    world = World(tmp_path, redact=redact)
    world.write("MEMORY.md", "- kumquat\n")
    assert world.search("kumquat") == []
    state["broken"] = False
    assert world.paths("kumquat") == {"MEMORY.md"}
    world.close()


def test_what_cannot_be_meant_is_refused(world):
    for narrowing in (Narrowing(tier="x"), Narrowing(limit=0), Narrowing(limit=201)):
        with pytest.raises(ConfigError):
            world.recall.search(world.agent, "x", narrowing)
    assert world.search("") == world.search('" * +') == world.search("\0") == []


def test_any_query_is_answered(world):
    world.write("MEMORY.md", "- kumquat's C++ foo-bar\n")
    for query in ("foo-bar", "what?", "C++", '"', "'; DROP TABLE agent; --", "\ud800", "kumquat " * 150_000, "(" * 5000,
                  "NEAR(a b)", "{text} : x", "a* b*"):  # fmt: skip
        world.search(query)
    assert world.paths("foo-bar") == world.paths("C++") == {"MEMORY.md"}


def test_two_at_once_are_safe(world):
    world.write("memory/2026-05-03.md", DAY)
    errors = []

    def work(seed):
        mine = world.opened()
        try:
            for number in range(8):
                if seed == 0:
                    world.turn(f"kumquat {number}")
                world.search("kumquat", recall=mine)
        except Exception as error:  # noqa: BLE001 - reported by the test's thread
            errors.append(error)
        finally:
            mine.indexer.index.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(world.search("kumquat", limit=50)) == 9
    assert world.recall.indexer.problems(world.agent) == []


# --- the property: however it came about, the index is as one made from nothing ---

WORDS = st.sampled_from(["kumquat", "pomelo", "tea", "harvest", "Ottilie", "camelCase", "北京", "E1234", "the"])
SAYING = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
NAMES = st.sampled_from(["MEMORY.md", "memory/2026-05-01.md", "memory/2026-05-02.md", ".continuum/memory/RECENT.md"])
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.lists(SAYING, max_size=6)),
    st.tuples(st.just("append"), NAMES, SAYING),
    st.tuples(st.just("delete"), NAMES, st.none()),
    st.tuples(st.just("turn"), st.sampled_from(["s1", "s2"]), SAYING),
    st.tuples(st.just("later"), st.sampled_from(["s1", "s2"]), SAYING),
    st.tuples(st.just("redact"), st.sampled_from(["s1", "s2"]), SAYING),
    st.tuples(st.just("fact"), st.none(), SAYING),
    st.tuples(st.just("unfact"), st.none(), st.none()),
    st.tuples(st.just("search"), st.none(), SAYING),
)


def do(world, step):
    verb, name, value = step
    if verb == "write":
        world.write(name, "# Title\n\n" + "".join(f"- {one}\n\n## {one}\n" for one in value))
    elif verb == "append":
        path = world.workspace / name
        world.write(name, (path.read_text() if path.exists() else "") + f"\n## Note\n\n{value}\n")
    elif verb == "delete":
        (world.workspace / name).unlink(missing_ok=True)
    elif verb == "turn":
        world.turn(value, session=name)
    elif verb == "later":
        world.turn("", session=name, withheld="unscanned")
        world.search("tea")
        world.sql("UPDATE turn SET text = ?, withheld = NULL WHERE withheld = 'unscanned'", value)
    elif verb == "redact":  # as `scrub --again` does, which erases the index after it
        world.sql("UPDATE turn SET text = ? WHERE session_id = ? AND seq = 1", value, name)
        world.index.erase(None)
    elif verb == "fact":
        world.facts().create([NewFact(value, "context", 0.9)])
    elif verb == "unfact":
        for fact in world.facts().all()[:1]:
            world.facts().delete(fact.id)
    else:
        world.search(value)


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_after_any_edits_it_is_as_if_made_from_nothing(tmp_path_factory, steps):
    world = World(tmp_path_factory.mktemp("world"))
    for step in steps:
        do(world, step)
    queries = ["kumquat", "pomelo tea", "harvest 北京", "camel", "E1234", "Ottilie the", "note"]
    kept = [sorted(map(seen, world.search(query, limit=100))) for query in queries]
    world.index.close()
    for path in world.state.glob("index.db*"):
        path.unlink()
    assert kept == [sorted(map(seen, world.search(query, limit=100))) for query in queries]
    world.close()


def seen(hit):
    return hit.path, hit.first_line, hit.last_line, hit.snippet, hit.tier, hit.why  # FTS5 counts deleted ones on


# --- killed ---

KILLED = """
import sys, os, random, signal
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from datetime import UTC
from memoryd.config import Agent
from memoryd.database.reads import KeptReader
from memoryd.finding.indexing import Indexer
from memoryd.files.log import get_logger
from memoryd.index import tables
from memoryd.index.database import Index
root, steps = Path(sys.argv[2]), int(sys.argv[3])
left = [steps]
def counted(name):
    done = getattr(tables.Tables, name)
    def call(self, *given, **more):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done(self, *given, **more)
    setattr(tables.Tables, name, call)
for name in ("put", "put_source", "remove", "set_progress", "number"):
    counted(name)
log = get_logger("memoryd.test")
agent = Agent(id="demo", workspace=root / "workspace-demo")
Indexer(Index(root / "state", log), KeptReader(root / "state" / "memoryd.db"), UTC, list, log).refresh(agent)
"""


@pytest.mark.parametrize("steps", [2, 6, 11])
def test_killed_in_the_middle_it_is_consistent(tmp_path, steps):
    world = World(tmp_path)
    world.write("memory/2026-05-03.md", DAY)
    world.write("MEMORY.md", "- kumquat one\n- two\n")
    for number in range(4):
        world.turn(f"kumquat {number}", session=f"s{number}")
    world.facts().create([NewFact("Likes kumquat", "context", 0.9)])
    folder = str(WORLDS)
    done = forks.run(["-c", KILLED, folder, tmp_path, str(steps)])
    assert done.returncode == -signal.SIGKILL
    assert len(world.search("kumquat", limit=50)) == 7
    assert world.recall.indexer.problems(world.agent) == []
    world.close()


def test_merging_waits_while_much_comes_in_and_goes_on_with_what_is_little(world, monkeypatch):
    def segments():
        world.search("kumquat")
        with world.index.begin_read() as tables:
            return tables._rows("SELECT v FROM words_1_config WHERE k = 'automerge'")

    world.turn("a kumquat tree")
    assert segments() == []  # as SQLite has it
    monkeypatch.setattr("memoryd.finding.indexing.MUCH", 50)
    world.turn("kumquat " * 20)
    assert segments() == [(16,)]
    world.turn("a kumquat")
    assert segments() == [(4,)]
    assert len(world.places("kumquat")) == 3


def test_what_came_in_as_many_portions_is_put_together_and_found_as_before(world, monkeypatch):
    monkeypatch.setattr("memoryd.finding.indexing.MUCH", 1)  # so that nothing is put together while it comes in
    for number in range(SEGMENTS + 2):
        world.turn(f"kumquat tree {number} of grove{number}")
        world.search("kumquat")
    before = world.search("kumquat tree", limit=50)
    with world.index.begin_read() as tables:
        assert tables.segments(1) > SEGMENTS
    world.recall.indexer.settle(world.agent, lambda: False)
    with world.index.begin_read() as tables:
        assert tables.segments(1) > SEGMENTS
    world.recall.indexer.settle(world.agent)
    with world.index.begin_read() as tables:
        assert tables.segments(1) == 1
    assert world.search("kumquat tree", limit=50) == before
    assert world.places("grove7")[0] == ("session:s1", 8)
    assert world.recall.indexer.problems(world.agent) == []


def test_the_room_that_merging_leaves_goes_back_to_the_disk(world, monkeypatch):
    def pages():
        world.recall.indexer.settle(world.agent)
        with world.index.begin_read() as tables:
            return [tables._number(f"PRAGMA {name}") for name in ("freelist_count", "page_count")]

    for number in range(2 * SEGMENTS):
        world.turn(" ".join(f"kumquat{number}x{word}" for word in range(1500)))
        monkeypatch.setattr("memoryd.finding.indexing.MUCH", 1)
        world.search("kumquat0x0")
    free, before = pages()
    assert free <= before / 16
    assert world.places("kumquat7x1499") == [("session:s1", 8)]
    with world.index.begin_write() as tables:
        tables.remove(1, range(1, 2 * SEGMENTS + 1))
    free, after = pages()
    assert free <= after / 16
    assert world.recall.indexer.problems(world.agent) == []


def test_a_search_without_a_daemon_gives_free_room_back_to_the_disk(world):
    for number in range(SEGMENTS):
        world.turn(" ".join(f"kumquat{number}x{word}" for word in range(1500)))
    world.search("kumquat0x0")
    with world.index.begin_write() as tables:
        tables.remove(1, range(1, SEGMENTS))
        while tables.merge(1):
            pass
    with world.index.begin_read() as tables:
        assert tables.is_loose()
    world.turn("an orchard")
    assert ("session:s1", SEGMENTS + 1) in world.places("orchard")
    with world.index.begin_read() as tables:
        assert not tables.is_loose()


def test_what_is_new_is_found_without_sorting_all_turns(world, monkeypatch):
    asked = set()
    stream = DatabaseReader.stream

    def noted(reader, sql, *values):
        asked.add((sql, len(values)))
        return stream(reader, sql, *values)

    world.turn("a kumquat tree")
    monkeypatch.setattr(DatabaseReader, "stream", noted)
    assert world.places("kumquat") == [("session:s1", 1)]
    assert any("octet_length" in sql for sql, _ in asked)
    with open_reader(world.database) as reader:
        plans = [
            row["detail"] for sql, count in asked for row in reader.rows(f"EXPLAIN QUERY PLAN {sql}", *[1] * count)
        ]
    assert plans
    assert not [plan for plan in plans if "TEMP B-TREE" in plan or plan.startswith(("SCAN turn", "SCAN t "))]


def test_why_names_words_of_few_documents_and_of_many(world, monkeypatch):
    monkeypatch.setattr("memoryd.index.matches.FEW", 0)
    monkeypatch.setattr("memoryd.index.matches.BUDGET", 3)
    for number in range(12):
        world.turn(f"common {'kumquat' if number == 5 else 'plain'}", session=f"s{number}")
    (hit,) = world.search("kumquat common absent")
    assert (hit.path, hit.why.split("; ")[0]) == ("session:s5", "kumquat, common")
    (hit,) = world.search("kumq* comm* abs*")
    assert (hit.path, hit.why.split("; ")[0]) == ("session:s5", "kumq*, comm*")
    quoted = world.search('common "common plain"', limit=20)
    assert quoted
    assert "session:s5" not in {hit.path for hit in quoted}


@pytest.fixture
def crowded(world, monkeypatch):
    """A world where five documents are many."""
    monkeypatch.setattr("memoryd.index.matches.FEW", 0)
    monkeypatch.setattr("memoryd.index.matches.BUDGET", 4)
    monkeypatch.setattr("memoryd.index.matches._REACH", 10)

    def said(*texts):
        for number, text in enumerate((*texts, *["some bread"] * 30)):
            world.turn(text, session=f"s{number}")

    world.said = said
    return world


def test_a_common_word_counts_among_those_that_hold_a_rare_one(crowded):
    crowded.said("kumquat jam", "kumquat tree", "kumquat peel", *["a tree"] * 9)
    assert crowded.places("kumquat tree")[0] == ("session:s1", 1)
    assert {path for path, _ in crowded.places("kumquat tree")} == {"session:s0", "session:s1", "session:s2"}


def test_a_common_word_counts_less_beside_a_text_than_in_it(crowded):
    crowded.turn("kumquat peel", session="neither")
    crowded.turn("kumquat jam", session="beside")
    crowded.turn("a tree", session="beside")
    crowded.turn("kumquat tree", session="own")
    crowded.said(*["a tree"] * 9)
    assert [path for path, line in crowded.places("kumquat tree") if line == 1][:3] == [
        "session:own",
        "session:beside",
        "session:neither",
    ]


def test_of_common_words_what_holds_two_is_found_however_old(crowded):
    crowded.said("oak tree", *["a tree", "an oak"] * 6)
    assert crowded.places("oak tree")[0] == ("session:s0", 1)
    assert crowded.places("oak tree absent")[0] == ("session:s0", 1)
    assert crowded.search("oak tree", tier="daily") == []


def test_what_holds_two_common_words_is_worth_as_much_among_the_newest_as_among_the_oldest(crowded):
    crowded.said("oak tree early", *["a tree", "an oak"] * 6, "oak tree later")
    first, second = crowded.search("oak tree")[:2]
    assert {first.path, second.path} == {"session:s0", "session:s13"}
    assert first.score < 1.3 * second.score


def test_a_count_serves_as_long_as_there_are_hardly_more_or_fewer_documents(monkeypatch):
    counts = Counts()
    counts.put(1, '"tree"', 1000, 400)
    assert [counts.get(1, '"tree"', size) for size in (979, 980, 1020, 1021)] == [None, 400, 400, None]
    assert counts.get(2, '"tree"', 1000) is counts.get(1, '"oak"', 1000) is None
    monkeypatch.setattr("memoryd.index.matches._REMEMBERED", 1)
    counts.put(1, '"oak"', 1000, 500)
    assert (counts.get(1, '"tree"', 1000), counts.get(1, '"oak"', 1000)) == (None, 500)


def test_what_was_common_and_is_rare_by_now_is_counted_anew(crowded):
    crowded.said(*["a tree"] * 9)
    assert len(crowded.places("tree")) < 9
    with sqlite.begin_write(crowded.engine) as connection:
        connection.exec_driver_sql("DELETE FROM turn WHERE text = 'a tree' AND session_id > 's4'")
    assert len(crowded.places("tree", limit=50)) == 5


def test_what_is_nowhere_is_not_found_among_many(crowded):
    crowded.said(*["a tree"] * 9)
    assert crowded.search("absent missing") == []
    assert crowded.search("absent*") == []


def test_of_common_words_what_is_written_down_is_found_however_old(crowded):
    crowded.write("MEMORY.md", "- Ask before any tree is felled\n- Nothing else\n")
    crowded.facts().create([NewFact("Sold the oak", "context", 0.9)])
    crowded.search("tree")  # so that both are the first that come in
    crowded.said(*["a tree", "an oak"] * 9)
    assert "MEMORY.md" in {hit.path for hit in crowded.search("tree", limit=5)}
    assert {"MEMORY.md", "fact"} <= {hit.path.partition(":")[0] for hit in crowded.search("oak tree", limit=7)}


def test_a_filter_takes_from_all_that_hold_common_words(crowded, monkeypatch):
    monkeypatch.setattr("memoryd.index.matches.FILTERED_BUDGET", 4)
    crowded.turn("an old tree", session="old", at="2026-01-05T12:00:00.000Z")
    crowded.said("kumquat jam", *["a tree"] * 9)
    for query in ("tree", "tree kumquat"):  # the rare one stands in none that the filter lets through
        assert [hit.path for hit in crowded.search(query, before=date(2026, 1, 6))] == ["session:old"]


WORDS = ("oak", "tree", "jam", "peel", "grove")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=25),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5, unique=True),
    st.integers(1, 8),
    st.sampled_from(
        [
            SearchFilter(),
            SearchFilter(tier="session"),
            SearchFilter(after="2026-01-03"),
            SearchFilter(before="2026-01-03"),
        ]
    ),
)
def test_however_little_may_be_ranked_only_what_matches_is_found_each_once_the_best_first(texts, asked, budget, where):
    with closing(load_library().connect(":memory:")) as connection, pytest.MonkeyPatch.context() as patch:
        connection.isolation_level = None
        connection.executescript(f"BEGIN; {SCHEMA}")
        tables = Tables(connection)
        number = tables.number("demo")
        for at, text in enumerate(texts):
            tier = "session" if at % 3 else "core"
            source = tables.put_source(number, tier, tier, "")
            tables.put(number, source, [(documents.of_fact(text, "", f"2026-01-0{1 + at % 5}"), b"", None)])
        query = parse(" ".join(asked))
        everything = {identity for identity, _ in tables.matches(number).rank(query, where, 100)}
        patch.setattr("memoryd.index.matches.FEW", 0)
        patch.setattr("memoryd.index.matches.BUDGET", budget)
        patch.setattr("memoryd.index.matches.FILTERED_BUDGET", budget)
        found = tables.matches(number).rank(query, where, 100)
        assert {identity for identity, _ in found} <= everything
        assert len({identity for identity, _ in found}) == len(found)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert bool(found) == bool(everything)


def test_portions_of_turns_know_their_neighbours(world, monkeypatch):
    monkeypatch.setattr("memoryd.finding.indexing.BATCH", 3)
    assert BATCH > 3
    order = random.Random(1).sample(range(10), 10)
    for number in order:
        world.turn(f"word{number} said")
    assert {line for _, line in world.places(f"word{order[4]}")} == {3, 4, 5, 6, 7}


def test_a_file_written_a_moment_ago_is_read_again_until_its_clock_has_moved_on(world, monkeypatch):
    world.write("MEMORY.md", "- kumquat\n")

    def stamp():
        world.search("kumquat")
        with world.index.begin_read() as tables:
            return tables.sources(tables.find_number("demo"), "core")["MEMORY.md"].stamp

    assert stamp().startswith("unsettled")  # two writes within one tick of the file system's clock look the same
    later = utc_now() + timedelta(seconds=10)
    monkeypatch.setattr("memoryd.finding.indexing.utc_now", lambda: later)
    assert not stamp().startswith("unsettled")


def test_what_was_decided_comes_before_what_only_asks_for_it(world):
    world.turn("Should the kumquat store use SQLite or PostgreSQL?")
    world.turn("The kumquat store uses SQLite, because one file is enough for it.", role="assistant")
    world.turn("Let me look at the kumquat store with SQLite:", role="assistant")
    assert [line for _, line in world.places("which database does the kumquat store use: SQLite")] == [2, 1, 3]


def test_a_question_in_other_words_finds_its_answer_behind_texts_with_the_same_words(world, monkeypatch):
    world.turn("We erased the kumquat index, because nobody read it.")
    world.turn("Tea is at four.")
    assert world.places("why was it deleted")[0] == ("session:s1", 1)
    assert world.search("why was it deleted")[0].why == "synonyms: erase"
    world.turn("Somebody deleted the old tea list yesterday.")
    assert [line for _, line in world.places("deleted")][:2] == [3, 1]
    assert any("synonyms" in hit.why for hit in world.search("deleted"))
    monkeypatch.setattr("memoryd.index.matches.FEW", 2)
    assert not any("synonyms" in hit.why for hit in world.search("deleted"))


def test_what_the_user_wants_is_in_the_users_own_words(world):
    world.turn("The kumquat report is a PDF with a short table.", role="assistant")
    world.turn("Please make the kumquat report a PDF with a short table.")
    assert world.places("is the kumquat report a PDF")[0] == ("session:s1", 1)
    assert world.places("does the user want the kumquat report as PDF")[0] == ("session:s1", 2)


def test_among_many_long_answers_the_persons_own_words_are_found(world):
    for number in range(30):
        world.turn(f"Kumquat {number}: plant a kumquat, water the kumquat, prune the kumquat. " * 20, role="assistant")
    world.turn("I planted one kumquat beside the mill, and it takes much of my time there, more than all else does")
    world.facts().create([NewFact("The user grows a kumquat", "preference", 0.9)])
    first = {(hit.tier, hit.said_by) for hit in world.search("where is my kumquat", limit=2)}
    assert first == {("fact", None), ("session", "user")}
    assert len(world.search("kumquat", limit=40)) == 32


def test_calls_and_outputs_of_tools_come_behind_what_is_said(world):
    world.turn('Bash {"command":"kumquat --rebuild","description":"kumquat"}', role="assistant", kind="tool_call")
    world.turn("kumquat kumquat kumquat", role="tool", kind="tool_result")
    world.turn("After much else that has nothing to do with fruit a kumquat was rebuilt as well.", role="assistant")
    assert [line for _, line in world.places("kumquat")] == [3, 2, 1]


def test_near_copies_count_once_and_come_last(world):
    world.write("memory/2026-05-03.md", "## Note (10:00)\n\n- The kumquat service listens on port 8080 by now.\n")
    world.turn("The kumquat service listens on port 8080 by now.", role="assistant")
    world.turn("A kumquat was eaten by somebody on the way to the harbour, in rain.", role="assistant")
    found = world.search("kumquat service port")
    assert [hit.snippet[-12:] for hit in found[:2]] == ["8080 by now.", "ur, in rain."]
    assert (len(found), "8080" in found[2].snippet) == (3, True)


def test_the_heading_above_a_line_tells_whether_it_asks_or_answers(world):
    day = "## Session Notes (10:00)\n\n### {}\n- The kumquat port is 8080.\n"
    for number, section in enumerate(("Asked", "Files changed", "Decided", "Elsewhere"), 1):
        world.write(f"memory/2026-05-0{number}.md", day.format(section).replace("8080", f"{number}000"))
    order = [int(path[-4]) for path, _ in world.places("kumquat port", after=date(2026, 5, 1))]
    assert order == [3, 4, 2, 1]


def test_what_a_whole_project_is_about_still_counts(world):
    for number in range(12):
        world.turn(f"kumquat log entry {number}", session=f"s{number}", role="assistant")
    world.turn("the kumquat press is broken", session="press", role="assistant")
    world.turn("somebody was in town", session="town", role="assistant")
    assert world.places("kumquat town press")[0] == ("session:press", 1)


def test_the_relevance_is_the_share_of_the_question_that_a_hit_holds(world):
    world.turn("the kumquat harvest was poor", role="assistant")
    world.turn("tea", session="s2", role="assistant")
    assert world.search("kumquat harvest")[0].relevance == 1
    assert world.search("was the")[0].relevance == 0, "words that say nothing are no match"
    assert 0 < world.search("kumquat zeppelin moonshine")[0].relevance < 0.4


def test_the_snippet_holds_the_sentence_that_answers(world):
    filler = "Nothing of this matters to anybody at all, and so it goes on. " * 12
    world.turn(
        f"The kumquat was asked for. {filler}The kumquat failed because its soil was dry. {filler}", role="assistant"
    )
    assert "because its soil was dry" in world.search("why did the kumquat fail")[0].snippet


@pytest.mark.parametrize(
    ("said", "asked", "why"),
    [
        ("Ich muss am Montag zum Zahnarzt.", "Wann ist mein Zahnarzttermin?", "Zahnarzt"),
        ("Der Zahnarzttermin ist am Montag.", "Zahnarzt", "Zahnarzt*"),
        ("Jonas reviewt alle Pull Requests.", "Wer soll reviewen?", "reviewe*"),
        ("Alle Händler zahlen monatlich.", "zahlten die Händlern", "Händler*"),
        ("Zwei Gärtnereien liefern.", "Wo ist die Gärtnerei?", "Gärtnerei*"),
        ("Le fatture partono il dieci.", "fattura", "fattur*"),
        ("De tandarts belde.", "tandartsafspraak", "tandarts"),
        ("Серверы стоят в Казани.", "сервера", "сервер*"),
    ],
)
def test_a_word_that_no_text_has_is_found_in_another_form(world, said, asked, why):
    world.turn(said)
    world.turn("tea", session="s2")
    (hit,) = world.search(asked)
    assert hit.snippet == said
    assert why in hit.why.split(", ")
    assert hit.relevance > 0


def test_a_word_that_a_text_has_is_not_searched_in_other_forms(world):
    world.turn("der Händler")
    world.turn("von zwei Händlern", session="s2")
    assert world.places("Händlern") == [("session:s2", 1)]


@pytest.mark.parametrize(
    "asked",
    ["kumquatpress.py", "src/kumquats.ini", '"kumquats harvested"', "kumquatHarvestPress", "kumquat9press", "kumqy",
     "discomfort"],
)  # fmt: skip
def test_names_and_phrases_and_what_has_no_common_beginning_have_no_other_forms(world, asked):
    world.turn("a kumquaty harvester and a discontent press")
    assert world.search(asked) == []


def test_only_the_first_words_of_a_long_query_are_searched_in_other_forms(world):
    world.turn("Ich muss zum Zahnarzt.")
    unknown = " ".join(f"zyx{chr(97 + number)}" for number in range(15))
    assert world.places(f"{unknown} Zahnarzttermin") == [("session:s1", 1)]
    assert world.search(f"zyxz {unknown} Zahnarzttermin") == []


def test_a_forgotten_text_is_not_found_in_another_form(world):
    world.turn("Ich muss zum Zahnarzt.")
    assert world.places("Zahnarzttermin") == [("session:s1", 1)]
    world.sql("UPDATE turn SET text = '', withheld = 'retracted' WHERE session_id = 's1'")
    assert world.search("Zahnarzttermin") == []
