"""`index.db` as a file: private, made anew whatever is wrong with it, erased beyond recovery."""

import json
import random
import stat
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from recall_world import World
from structlog.testing import capture_logs

from memoryd.database.library import load_library
from memoryd.errors import StateError
from memoryd.index.database import SIDES, VERSION, RebuiltError
from memoryd.ledger.facts import NewFact


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    made.write("MEMORY.md", "- a kumquat tree\n- another\n")
    for number in range(40):
        made.turn(f"word{number} kumquat", session=f"s{number % 3}")
    made.facts().create([NewFact("Likes kumquat jam", "preference", 0.9)])
    yield made
    made.close()


def everything(world):
    return [(hit.path, hit.first_line, hit.snippet) for hit in world.search("kumquat", limit=100)]


def parts(world):
    return [path for side in SIDES if (path := world.index.path.with_name("index.db" + side)).exists()]


def test_it_is_private_and_holds_no_text(world):
    everything(world)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in parts(world))
    assert not any(b"a kumquat tree" in path.read_bytes() for path in parts(world))


def test_a_key_that_is_the_digest_is_stored_once_and_read_all_the_same(world):
    world.recall.indexer.refresh(world.agent)
    with world.index.begin_read() as tables:
        (turn, *_), (chunk, *_) = (
            tables._rows(
                "SELECT d.source, d.digest, d.key FROM document d, source s WHERE (s.id, s.tier) = (source, ?)", tier
            )
            for tier in ("session", "core")
        )
        assert (turn[2], tables.list_held(turn[0])[0].key) == (None, turn[1])
        assert tables.list_held(chunk[0])[0].key == chunk[2] != chunk[1]


@pytest.mark.parametrize("seed", range(12))
def test_bad_bytes_anywhere_are_no_error_and_nothing_wrong_is_shown(world, seed):
    right = everything(world)
    world.index.close()
    path = world.index.path
    data = bytearray(path.read_bytes())
    chance = random.Random(seed)
    at = 0 if seed == 0 else chance.randrange(len(data))
    size = min((200, 16, 1)[seed % 3], len(data) - at)
    data[at : at + size] = bytes(byte ^ chance.randrange(1, 256) for byte in data[at : at + size])
    path.write_bytes(data)
    assert sorted(everything(world)) == sorted(right)
    assert world.recall.indexer.problems(world.agent) == []


@pytest.mark.parametrize("data", [b"", b"no database", b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_file_that_is_none_is_made_anew(world, data):
    right = everything(world)
    world.index.close()
    for path in parts(world):
        path.write_bytes(data)
    assert everything(world) == right


def test_one_of_another_version_is_made_anew(world):
    right = everything(world)
    world.index.close()
    connection = load_library().connect(str(world.index.path))
    connection.execute(f"PRAGMA user_version={VERSION + 1}")
    connection.close()
    assert everything(world) == right


def test_tables_that_hold_what_was_never_put_there_are_made_anew(world):
    right = everything(world)
    connection = load_library().connect(str(world.index.path))
    for change in ("UPDATE document SET digest = 5", "UPDATE source SET tags = 'x'", "UPDATE agent SET waiting = '{'",
                   "UPDATE agent SET turn_id = 1e308", "UPDATE agent SET waiting = '[9e99]'",
                   "UPDATE document SET day = 'never'", "DROP TABLE document", "DROP TABLE words_1"):  # fmt: skip
        connection = load_library().connect(str(world.index.path))
        connection.execute(change)
        connection.commit()
        connection.close()
        assert everything(world) == right, change


def test_what_is_wrong_is_told_in_the_log(world):
    everything(world)
    world.index.close()
    world.index.path.write_bytes(b"no database at all, and long enough to be read as a page" * 100)
    with capture_logs() as logged:
        everything(world)
    assert [one["event"] for one in logged if one["log_level"] == "error"] == ["index rebuilt"]
    assert "kumquat" not in json.dumps([str(one) for one in logged])


def test_one_that_another_process_has_made_anew_is_opened_anew(world):
    right = everything(world)
    other = world.opened()
    world.search("kumquat", recall=other)
    other.indexer.index._wipe("a test")
    assert everything(world) == right
    assert [hit.path for hit in world.search("kumquat", recall=other, limit=100)] == [path for path, _, _ in right]
    other.indexer.index.close()


def test_it_is_opened_and_read_while_another_process_writes(world):
    everything(world)
    other = world.opened()
    with world.index.begin_write(), other.indexer.index.begin_read() as tables:
        assert tables.agents() == [world.agent.id]
    other.indexer.index.close()


def test_where_it_cannot_be_written_the_error_says_so(world, monkeypatch):
    world.index.path.mkdir()
    with monkeypatch.context() as refusing:
        refusing.setattr(Path, "rename", Mock(side_effect=OSError(30, "Read-only file system")))
        with pytest.raises(StateError, match="index"):
            everything(world)
    everything(world)
    link = world.state.parent / "elsewhere"
    link.write_bytes(b"")
    world.index.path.unlink()
    world.index.path.symlink_to(link)
    everything(world)
    assert link.read_bytes() == b""
    assert len(list(world.state.glob("index.db.moved-*"))) == 2


def test_an_agent_is_erased_beyond_recovery_and_the_others_stay(tmp_path):
    world = World(tmp_path, "a", "b")
    for name in ("a", "b"):
        world.turn(f"zqxsecret{name} said", session=f"s-{name}", agent=name)
        world.search("said", agent=name)
    assert any(b"zqxsecreta" in path.read_bytes() for path in parts(world))
    world.index.erase("a")
    assert not any(b"zqxsecreta" in path.read_bytes() for path in parts(world))
    assert world.paths("zqxsecretb", agent="b") == {"session:s-b"}
    assert world.paths("zqxsecreta", agent="a") == {"session:s-a"}  # it is still there to be found
    world.index.erase(None)
    assert not any(b"zqxsecret" in path.read_bytes() for path in parts(world))
    world.close()


def test_a_file_that_was_read_before_a_forget_does_not_come_in_behind_it(world):
    world.write("MEMORY.md", "- a quince tree\n")
    kept, redact, seen = world.recall.indexer, world.recall.indexer.redact, []

    def meanwhile(texts):
        seen.append(texts)
        if any("quince" in text for text in texts):  # as `forget` does it: the file first, then the index
            world.write("MEMORY.md", "- another\n")
            world.index.erase(world.agent.id)
        return redact(texts)

    replace(kept, redact=meanwhile).refresh(world.agent, lambda: not seen)

    def keys():
        with world.index.begin_read() as tables:
            number = tables.find_number(world.agent.id)
            return [one.key for one in tables.list_held(tables.sources(number, "core")["MEMORY.md"].id)]

    found = keys()
    world.index.erase(world.agent.id)
    kept.refresh(world.agent)
    assert found == keys()


def test_what_others_read_while_it_is_erased_is_gone_as_well(world):
    everything(world)
    other = world.opened().indexer.index
    with other.begin_read() as tables:
        tables.agents()
        world.index.erase("demo")
        assert not any(b"kumquat" in path.read_bytes() for path in parts(world))
    other.close()


def test_a_transaction_within_another_is_a_defect_and_no_damage(world):
    world.turn("a kumquat tree")
    assert world.places("kumquat")
    with world.index.begin_read(), pytest.raises(RuntimeError, match="within another"), world.index.begin_read():
        pass
    assert world.index.why_damaged() is None
    assert world.places("kumquat")


def test_an_index_from_which_much_was_removed_is_made_anew(world, monkeypatch):
    monkeypatch.setattr("memoryd.index.tables.FEW", 10)
    everything(world)
    for number in range(60):
        world.write("MEMORY.md", f"- a kumquat tree {number}\n")
        world.search("kumquat")
    with world.index.begin_read() as tables:
        live, removed = tables._rows("SELECT live, removed FROM agent")[0]
        assert live == tables._rows("SELECT count(*) FROM document")[0][0]
    world.turn("one more")
    world.search("kumquat")
    with world.index.begin_read() as tables:
        assert tables._rows("SELECT removed FROM agent")[0][0] < removed


def test_a_damaged_one_says_so_to_who_is_at_work_and_is_empty_then(world):
    everything(world)
    with pytest.raises(RebuiltError), world.index.begin_write() as tables:
        tables._rows("SELECT * FROM no_such_table")
    with world.index.begin_read() as tables:
        assert tables.agents() == []
