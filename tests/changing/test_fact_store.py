"""The fact store on a real database: batches, a writer beside it, a full store, what the owner does and takes back."""

import json
import subprocess
from contextlib import ExitStack, contextmanager

import forks
import pytest
from facts_world import NOW, store_in
from places import WORLDS
from scratch import Scratch, recent, said
from sqlalchemy.exc import IntegrityError

from memoryd.changing import verify
from memoryd.database import memories, reads, runs, sqlite
from memoryd.errors import RefusedError, StateError
from memoryd.ledger.facts import NewFact
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.portable import MalformedError


@pytest.fixture
def store(tmp_path):
    return store_in(tmp_path)


def contents(store):
    return {fact.content for fact in store.all()}


def audited(store):
    with sqlite.begin_read(store.engine) as connection:
        return connection.exec_driver_sql("SELECT operation, actor, run_id IS NOT NULL FROM audit ORDER BY id").all()


def test_what_is_created_is_there_trimmed_audited_and_a_run_without_content(store):
    created = store.create([NewFact("  likes tea ", "preference", 0.9), NewFact("lives in Bern")])
    assert [one.created for one in created.outcomes] == [True, True]
    assert contents(store) == {"likes tea", "lives in Bern"}
    assert [tuple(row) for row in audited(store)] == [("add", "human", 1), ("add", "human", 1)]
    with sqlite.begin_read(store.engine) as connection:
        (row,) = connection.exec_driver_sql("SELECT * FROM job_run").mappings()
    assert (row["kind"], row["state"], row["actor"]) == ("edit", "succeeded", "human")
    assert "tea" not in json.dumps(dict(row))
    assert json.loads(row["receipt"]) == {"facts": {"created": 2}}


def test_a_run_that_cannot_be_recorded_is_an_error(store):
    more = {"actor": "human", "now": NOW, "receipt": {}}
    with sqlite.begin_write(store.engine) as connection:
        runs.note_done(connection, "run_1", "edit", "demo", **more)
    with pytest.raises(IntegrityError), sqlite.begin_write(store.engine) as connection:
        runs.note_done(connection, "run_1", "edit", "demo", **more)


def test_one_that_says_the_same_is_the_one_there_unchanged_and_leaves_no_trace(store):
    (first,) = store.create([NewFact("Likes  Café", "preference", 0.6)]).outcomes
    again = store.create([NewFact("likes cafe\u0301", "goal", 1.0), NewFact("LIKES CAFÉ")]).outcomes
    assert [(one.fact, one.created, one.why) for one in again] == [(first.fact, False, "duplicate")] * 2
    assert store.all() == [first.fact]
    assert len(audited(store)) == 1


def test_a_batch_with_one_bad_fact_stores_nothing(store):
    for bad in (
        NewFact(" "),
        NewFact("a", "mood"),
        NewFact("a", confidence=1.1),
        NewFact("a", confidence=float("nan")),
    ):
        with pytest.raises(ValueError, match="fact"):
            store.create([NewFact("good"), bad])
    assert store.all() == []
    assert audited(store) == []


def test_the_threshold_is_inclusive_and_a_full_store_lets_the_least_sure_go(tmp_path):
    store = store_in(tmp_path, min_confidence=0.5, max_facts=2)
    created = store.create([NewFact("a", confidence=0.5), NewFact("b", confidence=0.49), NewFact("c", confidence=0.8)])
    assert [one.created for one in created.outcomes] == [True, False, True]
    created = store.create([NewFact("d", confidence=0.6)])
    assert [fact.content for fact in created.evicted] == ["a"]
    assert contents(store) == {"c", "d"}
    # An evicted fact leaves no tombstone.
    with sqlite.begin_read(store.engine) as connection:
        assert memories.read_tombstones(connection, "demo") == {}


def test_an_update_changes_what_is_given_alone_and_an_unknown_id_is_a_key_error(store):
    (fact,) = (one.fact for one in store.create([NewFact("a", "goal", 0.7)]).outcomes)
    changed = store.update(fact.id, confidence=0.2)
    assert (changed.content, changed.category, changed.confidence) == ("a", "goal", 0.2)
    assert changed.created_at == fact.created_at
    assert store.get(fact.id) == changed
    with pytest.raises(ValueError, match="category"):
        store.update(fact.id, category="mood")
    for act in (lambda: store.update("fact_00000000", content="b"), lambda: store.delete("fact_00000000")):
        with pytest.raises(KeyError):
            act()
    assert store.all() == [changed]


def test_the_owner_may_store_again_what_was_deleted(store):
    (one,) = store.create([NewFact("a")]).outcomes
    store.delete(one.fact.id)
    assert store.all() == []
    with sqlite.begin_read(store.engine) as connection:
        assert len(memories.read_tombstones(connection, "demo")) == 1
    (again,) = store.create([NewFact("a")]).outcomes
    assert again.created
    assert again.fact.id != one.fact.id


def test_a_protected_fact_is_neither_changed_nor_let_go(tmp_path):
    store = store_in(tmp_path, max_facts=1, min_confidence=0)
    (one,) = store.create([NewFact("a", confidence=0.1)]).outcomes
    with sqlite.begin_write(store.engine) as connection:
        connection.exec_driver_sql("UPDATE memory SET constitutional = 1")
    for act in (lambda: store.delete(one.fact.id), lambda: store.update(one.fact.id, content="b")):
        with pytest.raises(RefusedError, match="protected"):
            act()
    store.create([NewFact("b", confidence=0.9)])
    assert contents(store) == {"a", "b"}


def test_while_a_run_stands_between_its_plan_and_its_rows_nothing_is_written(store):
    with sqlite.begin_write(store.engine) as connection:
        runs.note_done(connection, "r", "sleep", "demo", actor="memoryd", now=NOW, receipt={})
        connection.exec_driver_sql("INSERT INTO intent VALUES ('r', 'demo', ?, '{}')", (NOW,))
    with pytest.raises(StateError, match="recovered"):
        store.create([NewFact("a")])
    assert store.all() == []


def test_another_agents_facts_are_never_seen(tmp_path):
    ours, theirs = store_in(tmp_path), store_in(tmp_path, "other")
    (one,) = theirs.create([NewFact("a secret of the other")]).outcomes
    assert ours.all() == ours.search("secret") == []
    for act in (lambda: ours.get(one.fact.id), lambda: ours.delete(one.fact.id), lambda: ours.get("../other")):
        with pytest.raises(KeyError):
            act()
    assert ours.create([NewFact("a secret of the other")]).outcomes[0].created


WRITING = """
import sys
sys.path.append(sys.argv[1])
from pathlib import Path
from facts_world import store_in
from memoryd.ledger.facts import NewFact
store, number = store_in(Path(sys.argv[2]), max_facts=1000), sys.argv[3]
print("ready", flush=True)
sys.stdin.read()
for start in range(0, 60, 6):
    store.create([NewFact(f"Fact {one}") for one in range(start, start + 6)] + [NewFact(f"own {number} {start}")])
"""


def test_two_processes_that_store_the_same_facts_store_each_once(tmp_path):
    store = store_in(tmp_path, max_facts=1000)
    words = ["-c", WRITING, WORLDS, tmp_path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        children = [stack.enter_context(forks.start([*words, number], **pipes)) for number in ("1", "2")]
        assert [child.stdout.readline() for child in children] == [b"ready\n"] * 2
        for child in children:
            child.stdin.close()
        assert [child.wait(60) for child in children] == [0, 0]
    assert len(store.all()) == 60 + 20
    assert len(contents(store)) == 80
    assert problems(store, tmp_path) == []


@contextmanager
def reader_of(folder):
    with reads.open_reader(folder / "memoryd.db") as reader:
        yield reader


def problems(_store, folder):
    with reader_of(folder) as reader, reader.session() as session:
        return [*verify._rows(reader, session, "demo"), *verify._chain(reader)]


def test_an_export_is_read_back_with_times_and_sources_and_the_profile(tmp_path):
    store = store_in(tmp_path / "one")
    text = json.dumps(
        {
            "version": "1.0",
            "user": {"workContext": {"summary": "Builds engines.", "updatedAt": "2025-01-01T00:00:00Z"}},
            "facts": [
                {"id": "fact_0000000a", "content": "likes tea", "category": "preference", "confidence": 0.8,
                 "createdAt": "2025-02-03T04:05:06Z", "source": "thread-7"},
            ],
        }
    )  # fmt: skip
    brought = store.bring(text)
    assert [one.created for one in brought.outcomes] == [True]
    assert [str(one) for one in brought.sections] == ["work"]
    (fact,) = store.all()
    assert (fact.id, fact.source, fact.created_at[:19]) == ("fact_0000000a", "thread-7", "2025-02-03T04:05:06")
    other = store_in(tmp_path / "two")
    for deerflow in (False, True):
        assert store.bring(store.dump(deerflow=deerflow)).sections == ()
        other.bring(store.dump(deerflow=deerflow))
    assert other.all() == store.all()
    assert other.profile() == store.profile()
    assert problems(store, tmp_path / "one") == []


def test_a_fact_of_any_length_makes_the_round_trip(tmp_path):
    store, other = store_in(tmp_path / "one"), store_in(tmp_path / "two")
    long = "A long story of the user's boat. " * 3000
    store.create([NewFact(long, "context"), NewFact("likes tea")])
    for deerflow in (False, True):
        other.bring(store.dump(deerflow=deerflow))
        assert contents(other) == {long.strip(), "likes tea"}
    assert problems(other, tmp_path / "two") == []


def test_no_secret_in_any_text_of_an_imported_fact_is_stored(tmp_path):
    scratch = Scratch(tmp_path / "s", scrub={"secrets": "redact"})
    secret = "sk_live_" + "KBn4dSpEsLB62iyWGdiZ9XQ3"
    fact = {"content": f"The key is {secret}.", "category": "knowledge", "confidence": 0.9, "source": secret}
    file = scratch.root / "facts.json"
    file.write_text(json.dumps([fact]), encoding="utf-8")
    scratch.run("facts", "import", str(file))
    assert secret not in scratch.run("--json", "facts", "list").stdout
    assert [path for path in scratch.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] == []


def test_a_malformed_import_takes_nothing_in(store):
    good = {"content": "fine"}
    for bad in ("{", "[]]", '{"facts": 1}', json.dumps([good, {"content": ""}]), json.dumps([good, 7])):
        with pytest.raises(MalformedError):
            store.bring(bad)
    assert store.all() == []


def test_a_changed_row_of_the_profile_is_told_by_verify(tmp_path):
    store = store_in(tmp_path)
    store.bring(json.dumps({"facts": [], "profile": {"work": {"summary": "Builds engines."}}}))
    assert problems(store, tmp_path) == []
    with sqlite.begin_write(store.engine) as connection:
        connection.exec_driver_sql("UPDATE profile_section SET text = 'Sells engines.'")
    assert [one["where"] for one in problems(store, tmp_path)] == ["profile work"]


def test_facts_written_are_live_rows_of_their_kind(store):
    store.create([NewFact("a")])
    with sqlite.begin_read(store.engine) as connection:
        (memory,) = memories.read_live(connection, "demo", MemoryKind.FACT)
    assert memory.id.startswith("fact_")
    assert memory.created_at == NOW


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("facts") / "scratch")
    made.append(said(at=recent()))
    made.json("run", "--once")
    return made


FACT = {"id", "content", "category", "confidence", "createdAt", "source"}


def test_the_commands_create_list_change_delete_and_take_back(scratch):
    added = scratch.json("facts", "add", " prefers trains ", "--category", "preference", "--confidence", "0.9")
    assert added["created"] is True
    assert set(added["fact"]) == FACT
    fact_id = added["fact"]["id"]
    assert scratch.json("facts", "add", "PREFERS TRAINS")["created"] is False
    assert scratch.json("facts", "edit", fact_id[:9], "--confidence", "0.5")["confidence"] == 0.5
    assert [row["content"] for row in scratch.json("facts", "list", "--query", "trains")] == ["prefers trains"]
    assert scratch.json("facts", "list", "--category", "goal") == []
    assert scratch.json("facts", "delete", fact_id)["id"] == fact_id
    assert fact_id not in {row["id"] for row in scratch.json("facts", "list")}
    (last, *_) = scratch.json("job", "list", "--kind", "edit")
    scratch.json("rollback", last["id"])
    assert fact_id in {row["id"] for row in scratch.json("facts", "list")}
    assert scratch.json("verify")["ok"] is True
    scratch.json("facts", "delete", fact_id)


def test_what_the_commands_refuse(scratch):
    assert scratch.json("facts", "delete", "fact_ffffffff", code=3)["code"] == "not_found"
    assert scratch.json("facts", "edit", "x", "--content", "y", code=3)["code"] == "not_found"
    assert scratch.json("facts", "add", " ", code=2)["code"] == "config"
    assert scratch.json("facts", "add", "a", "--confidence", "1.5", code=2)["code"] == "config"
    assert scratch.json("facts", "add", "a", "--confidence", "0.1", code=4)["code"] == "refused"
    assert scratch.json("facts", "edit", "x", code=2)["code"] == "config"
    assert scratch.json("facts", "import", "/nowhere", code=3)["code"] == "not_found"
    (scratch.root / "none.json").write_text("[]")
    assert "nothing to import" in scratch.run("facts", "import", str(scratch.root / "none.json")).stdout


def test_the_beginning_of_an_id_is_that_of_a_live_fact(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    scratch.json("run", "--once")
    gone = scratch.json("facts", "add", "collects stamps")["fact"]["id"]
    scratch.json("facts", "delete", gone)
    kept = scratch.json("facts", "add", "collects coins")["fact"]["id"]
    assert scratch.json("facts", "edit", "fact_", "--confidence", "0.7")["id"] == kept, "the only live one"
    assert scratch.json("facts", "delete", gone, code=3)["code"] == "not_found"
    scratch.json("facts", "add", "collects maps")
    assert "several" in scratch.json("facts", "delete", "fact_", code=3)["message"]


def test_a_secret_in_a_fact_is_redacted_before_it_is_stored(scratch):
    scratch.write_config(scrub={"secrets": "redact"})
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    added = scratch.json("facts", "add", f"the token is {token}")
    assert token not in added["fact"]["content"]
    assert all(token.encode() not in path.read_bytes() for path in scratch.state.rglob("*") if path.is_file())
    scratch.json("facts", "delete", added["fact"]["id"])


def test_the_commands_work_beside_a_daemon_too(scratch, tmp_path):
    with scratch.daemon():
        added = scratch.json("facts", "add", "keeps bees")
        file = tmp_path / "facts.json"
        file.write_text(scratch.run("facts", "export").stdout)
        scratch.json("facts", "delete", added["fact"]["id"])
        assert scratch.json("facts", "import", str(file))["created"] == 1
    # The row of the deleted one keeps its id for ever.
    (bees,) = scratch.json("facts", "list", "--query", "bees")
    assert bees["id"] != added["fact"]["id"]
