"""Damage of any file of the state folder: nothing of turns, facts, flags and access is lost or doubled, and it is told.

`MEMORYD_SEEDS` says how many damages; 100 in a soak.
"""

import json
import os
import random
import shutil
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from facts_world import store_on
from scratch import STARTED, Scratch, filler, in_process, message, said

from memoryd.changing import forgetting, ledger_runs, verify
from memoryd.changing.recovery import ALARM
from memoryd.daemon.once import run_once
from memoryd.database import grants, packing, query, runs, sqlite
from memoryd.database.library import load_library
from memoryd.database.reads import open_reader
from memoryd.errors import StateError
from memoryd.files import journal, regular
from memoryd.index.database import RebuiltError
from memoryd.ledger.facts import NewFact
from memoryd.ledger.operation import Protect

FIRST = STARTED + timedelta(minutes=40)
SECOND = FIRST + timedelta(minutes=5)
NEXT_DAY = FIRST + timedelta(days=1)
SEEDS = int(os.environ.get("MEMORYD_SEEDS", "100" if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else "10"))
QUIET = dict.fromkeys(("sleep", "facts", "rollover", "dream", "refine", "dedup"), "off")
ERASED = "violet walrus"
WORDS = "Die Bestellungen bleiben in PostgreSQL, weil die Berichte Fensterfunktionen brauchen: Größe zählt. "
MADE = {
    "facts": "SELECT id, content, category, confidence, constitutional, deleted_at FROM memory ORDER BY id",
    "audit": "SELECT * FROM audit ORDER BY id",
    "states": "SELECT sha256, text FROM content ORDER BY sha256",
    "access": 'SELECT * FROM "grant" ORDER BY id',
    "runs": "SELECT id, kind, state, receipt FROM job_run WHERE finished_at IS NOT NULL ORDER BY id",
    "agents": "SELECT id, paused FROM agent ORDER BY id",
}
TURNS = "SELECT session_id, record_id, role, origin, plain(CAST(text AS BLOB), text_crc) FROM turn ORDER BY 1, seq"


def act(app, number):
    """What a person does: a fact, a flag, access."""
    store = store_on(app.engine, app.settings.agents[0].workspace, app.clock)
    made = store.create([NewFact(f"Fact {number} is about {word}.") for word in ("tea", "rye", "Köln")]).outcomes
    with sqlite.begin_write(app.engine) as connection:
        store._write(connection, [Protect(made[0].fact.id)], {"protected": 1}, app.clock.text())
        query.run(connection, "UPDATE agent SET paused = 1")
        asked = grants.Grant(f"grant_{number}", "demo", 1000, "to help", 3600, app.clock.text())
        grants.write(connection, asked, "request", "human", app.clock.text())
        given = replace(asked, state="given", expires_at="2027-01-01T00:00:00.000Z")
        grants.write(connection, given, "grant", "agent-tool", app.clock.text())


def carry_out(app, kind, **options):
    """Carry out a run that a person asks for; its id."""
    run_id, now = runs.new_run_id(app.clock.now()), app.clock.text()
    row = {"id": run_id, "kind": kind, "agent_id": "demo", "actor": "human", "trigger": "manual"}
    with sqlite.begin_write(app.engine) as connection:
        assert runs.enqueue(connection, row | {"created_at": now, "scheduled_for": now, "options": options})
    assert app.runner.run_next(only=run_id).state in {"succeeded", "skipped"}
    return run_id


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """One copy, with acts before and after it, and no daemon."""
    made = dict.fromkeys(("sleep", "rollover", "dream", "refine"), "auto")
    scratch = Scratch(tmp_path_factory.mktemp("damage") / "scratch", modes=QUIET | made)
    scratch.append([*said(), filler()], "slept")
    scratch.append([message("user", f"We decided to print a {ERASED} on each parcel.", 1)], "gone")
    scratch.append([message("user", f"{WORDS * 4}{number}", number) for number in range(20)])
    with in_process(scratch, lambda: FIRST) as app:
        run_once(app)
        act(app, 1)
        carry_out(app, "rollover")
        carry_out(app, "refine")
        carry_out(app, ledger_runs.ROLLBACK, run=carry_out(app, "dream"))
        ((gone,),) = scratch.query("SELECT id FROM session WHERE id LIKE 'gone-%'")
        carry_out(app, forgetting.KIND, session=gone)  # with the one copy that there is then
    scratch.write_config(modes=QUIET)
    scratch.append([message("user", f"{WORDS * 2}{number}", number) for number in range(20, 24)])
    with in_process(scratch, lambda: SECOND) as app:
        act(app, 2)
        run_once(app)
    scratch.json("search", "Bestellungen")
    shutil.copytree(scratch.root, scratch.root.with_name("pristine"))
    return scratch


@pytest.fixture
def scratch(world):
    return world.copied(world.root.with_name("pristine"))


def held(scratch):
    with closing(load_library().connect(str(scratch.state / "memoryd.db"))) as connection:
        packing.register(connection)
        found = {name: connection.execute(sql).fetchall() for name, sql in MADE.items()}
        found["turns"] = connection.execute(TURNS).fetchall()
        return found


def start(scratch, now=NEXT_DAY):
    """A start and all that is due on the next day; what verify says then."""
    with in_process(scratch, lambda: now) as app:
        run_once(app)
        app.ingest.unscanned.expect()
        app.ingest.read_waiting()
        with open_reader(app.database) as reader:
            return verify.list_problems(app.settings, reader)


def alarms(scratch):
    return scratch.query("SELECT kind, text FROM alarm WHERE cleared_at IS NULL")


def check_all_is_there(scratch, before):
    after = held(scratch)
    for name in ("turns", "facts", "access", "agents"):
        assert after[name] == before[name], name
    assert not [path for path in scratch.state.rglob("*") if path.is_file() and ERASED.encode() in path.read_bytes()]
    for name in ("audit", "states", "runs"):
        assert set(map(repr, before[name])) <= set(map(repr, after[name])), name


def flip(path, at, mask=0xFF):
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


@pytest.mark.parametrize("mask", [0x80, 0x01], ids=["no UTF-8", "another letter"])
def test_a_flipped_bit_in_a_text_costs_one_row_until_a_copy_or_the_transcript_gives_it_back(scratch, mask):
    before = held(scratch)
    path = scratch.state / "memoryd.db"
    flip(path, path.read_bytes().rindex(b"Fensterfunktionen"), mask)
    damaged = [number for number, row in enumerate(held(scratch)["turns"]) if row != before["turns"][number]]
    assert len(damaged) == 1
    assert held(scratch)["turns"][damaged[0]][-1] == ""
    told = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
    assert [one["what"] for one in told] == ["the text does not match its checksum"]
    assert told[0]["where"].startswith("turn ")
    assert scratch.json("search", "Bestellungen")
    assert "Bestellungen" not in scratch.log().__repr__()
    assert start(scratch) == []
    check_all_is_there(scratch, before)
    ((kind, text),) = alarms(scratch)
    assert (kind, "the text of 1 turn was damaged" in text) == (ALARM, True)
    with in_process(scratch, lambda: NEXT_DAY + timedelta(days=1)) as app:
        run_once(app)
    assert alarms(scratch) == []


DAMAGED = {
    "database": lambda state: state / "memoryd.db",
    "journal": lambda state: state / "journal.jsonl",
    "watermarks": lambda state: state / "watermarks.jsonl",
    "index": lambda state: state / "index.db",
    "copy": lambda state: next(iter(sorted((state / "backups").glob("*.db")))),
}


def damage(path, draw):
    """One of the ways in which a disk loses bytes."""
    data = path.read_bytes()
    at = draw.randrange(len(data))
    how = draw.choice(["flip", "flip", "zeros", "cut", "gone"])
    if how == "flip":
        flip(path, at, 1 << draw.randrange(8))
    elif how == "zeros":
        path.write_bytes(data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :])
    elif how == "cut":
        path.write_bytes(data[:at])
    else:
        path.unlink()
    if how != "gone" and path.read_bytes() == data:  # zeros were zeros
        flip(path, at)
    return how


def is_harmless(scratch, before):
    """Return True if the damage is where nothing is: a free page, the room between two rows."""
    try:
        is_sound = scratch.query("PRAGMA integrity_check") == [("ok",)]
        return is_sound and held(scratch) == before
    except (load_library().DatabaseError, UnicodeDecodeError):
        return False


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_damaged_nothing_is_lost_or_doubled_and_it_is_told(scratch, seed):
    draw = random.Random(seed)
    before = held(scratch)
    name = draw.choice([*DAMAGED, "database", "database"])
    path = DAMAGED[name](scratch.state)
    how = damage(path, draw)
    must_tell = name == "database" and not is_harmless(scratch, before)
    must_tell |= name in {"journal", "copy", "watermarks"} and (how, name) not in {
        ("gone", "copy"),
        ("gone", "watermarks"),
    }
    problems = start(scratch)
    check_all_is_there(scratch, before)
    assert scratch.query("PRAGMA integrity_check") == [("ok",)]
    assert scratch.json("search", "Bestellungen"), (name, how)
    assert not must_tell or alarms(scratch), (name, how)
    assert problems == [], (name, how)


def test_a_database_that_lost_its_last_bytes_is_restored(scratch):
    before = held(scratch)
    path = scratch.state / "memoryd.db"
    os.truncate(path, path.stat().st_size - 300)
    assert start(scratch) == []
    check_all_is_there(scratch, before)
    assert [kind for kind, _ in alarms(scratch)].count("database") == 1


def test_a_damaged_search_index_is_rebuilt_and_an_alarm_names_it(scratch):
    assert scratch.json("search", "Bestellungen")
    path = scratch.state / "index.db"
    path.write_bytes(b"no database at all, and long enough to be read as a page" * 100)
    with in_process(scratch, lambda: SECOND) as app:
        with suppress(RebuiltError):
            app.recall.indexer.refresh(app.settings.agents[0])
        run_once(app)
    ((kind, text),) = alarms(scratch)
    assert (kind, "the search index was damaged and is rebuilt" in text) == ("damage", True)
    assert scratch.json("search", "Bestellungen")


@pytest.mark.parametrize("name", ["journal.jsonl", "watermarks.jsonl"])
def test_what_is_no_file_in_the_place_of_a_journal_is_told_and_not_waited_for(scratch, name):
    (scratch.state / name).unlink()
    os.mkfifo(scratch.state / name)
    with pytest.raises(StateError, match="is a FIFO"):
        start(scratch)


def test_what_is_no_file_in_the_place_of_a_copy_is_passed_over(scratch):
    os.mkfifo(scratch.state / "backups" / f"memoryd-20990101T000000.000000Z-{'0' * 32}.db")
    before = held(scratch)
    assert start(scratch) == []
    check_all_is_there(scratch, before)


@pytest.mark.parametrize("name", ["index.db", "index.db-wal"])
@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_file_in_the_place_of_the_index_is_moved_away_and_told_until_it_is_removed(scratch, name, put):
    (scratch.state / "elsewhere").write_text("Mine.", encoding="utf-8")
    path = scratch.state / name
    path.unlink(missing_ok=True)
    put(path)
    assert scratch.json("search", "tabs")
    assert not (path.is_symlink() or path.exists()) or path.is_file()
    (moved,) = scratch.state.glob("index.db*.moved-*")
    assert (scratch.state / "elsewhere").read_text(encoding="utf-8") == "Mine."
    scratch.json("run", "--once")
    (alarm,) = scratch.json("status")["alarms"]
    assert (alarm["kind"], alarm["subject"]) == ("database", moved.name)
    moved.rename(scratch.root / "away")
    scratch.json("run", "--once")
    assert scratch.json("status")["alarms"] == []


@pytest.mark.parametrize("name", ["memoryd.db", "memoryd.db-wal"])
@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_file_in_the_place_of_a_database_is_told_and_not_waited_for(scratch, name, put):
    path = scratch.state / name
    path.unlink(missing_ok=True)
    put(path)
    told = scratch.json("run", "--once", code=1)
    assert "not a regular file" in told["message"]
    assert path.is_symlink() or not path.is_file()


def test_a_journal_of_any_size_is_rewritten(tmp_path):
    path = tmp_path / "journal.jsonl"
    with path.open("wb") as file:
        file.truncate(regular.MAX_BYTES)  # one damaged line
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    one = journal.Journal(path, sealed=True)
    one.append({"kept": 1})
    one.rewrite(lambda entries: [*entries, {"kept": 2}])
    assert [entry["kept"] for entry in one.entries()] == [1, 2]
    assert one.count_damaged() == 0


@pytest.mark.parametrize(
    "forged",
    [{"no": 1}, {"seq": "x", "rows": 5}, {"seq": 10**30, "rows": []}, {"rows": [["memory"]]}]
    + [{"rows": [[table, ["x"], {"a": 1}]]} for table in ("nosuch", "memory; DROP TABLE memory")]
    + [{"rows": [["memory", ["x"], {'a" FROM b --': 1}]]}],
)
def test_a_forged_line_of_the_journal_is_damage(scratch, forged):
    before = held(scratch)
    acts = journal.Journal(scratch.state / "journal.jsonl", sealed=True)
    last = acts.entries()[-1]
    acts.append(forged if "no" in forged else {"of": last["of"], "seq": last["seq"] + 1, "from": 0} | forged)
    (scratch.state / "memoryd.db").unlink()
    assert start(scratch) == []
    check_all_is_there(scratch, before)
