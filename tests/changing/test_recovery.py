"""What people made comes back after a loss, and what they took out does not."""

import hashlib
import json
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from daily import one_each, one_in
from scratch import STARTED, Scratch, filler, in_process, message, recent, said

from memoryd import config
from memoryd.changing import forgetting, recovery
from memoryd.changing.recovery import ALARM, Keeper
from memoryd.daemon.once import run_once
from memoryd.database import backups, changes, query, sqlite
from memoryd.database.library import load_library
from memoryd.errors import StateError, describe
from memoryd.files.journal import Journal
from memoryd.files.log import get_logger
from memoryd.index.database import Index
from memoryd.interfaces import backup
from memoryd.running import queueing
from memoryd.running.core_watch import CoreWatch

NOW = STARTED + timedelta(minutes=40)
PLACE = "The spare key lies under the blue flowerpot in Uppsala."


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("made") / "scratch")
    scratch.append([*said(at=recent()), message("user", PLACE, at=recent()), filler(at=recent())])
    scratch.json("run", "--once")
    scratch.json("facts", "add", "Wears size 43 shoes.")
    shutil.copytree(scratch.root, scratch.root.with_name("pristine"))
    return scratch


@pytest.fixture
def scratch(made):
    return made.copied(made.root.with_name("pristine"))


def facts(scratch):
    return sorted(one["content"] for one in scratch.json("facts", "list"))


def lose(scratch):
    for path in scratch.state.glob("memoryd.db*"):
        path.unlink()


def rows(scratch):
    return {
        name: scratch.query(f'SELECT * FROM "{name}" ORDER BY 1')  # noqa: S608
        for name in ("memory", "audit", "content", "core_file")
    }


@pytest.mark.parametrize("copies", [True, False], ids=["with a copy", "by the journal alone"])
def test_a_lost_database_comes_back_with_its_facts_and_its_history(scratch, copies):
    before = rows(scratch)
    if not copies:
        shutil.rmtree(scratch.state / "backups")
        Journal(scratch.state / "journal.jsonl", sealed=True).rewrite(lambda lines: lines)
    core = scratch.core
    lose(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == ["Wears size 43 shoes."]
    after = rows(scratch)
    for name in ("memory", "core_file") if copies else ("memory",):
        assert [row for row in after[name] if row in before[name]] == before[name] or not copies
    assert scratch.core == core
    told = scratch.query("SELECT kind, text FROM alarm WHERE cleared_at IS NULL")
    assert [(kind, text.count("was gone")) for kind, text in told] == [(ALARM, 1)]
    if copies:
        assert scratch.json("verify") == {"ok": True, "problems": []}
    else:
        assert "before the journal begins" in told[0][1]


def flip(scratch, old, new):
    """Change bytes of the database file, as a failing disk does."""
    with closing(load_library().connect(str(scratch.state / "memoryd.db"))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = scratch.state / "memoryd.db"
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [(b"Wears size 43", b"Wears size 73"), (b"under the blue", b"under the flue")])
def test_flipped_bits_are_repaired_and_told_as_soon_as_asked_on_the_day_of_a_copy(scratch, old, new):
    before = facts(scratch), scratch.query("SELECT text FROM turn")
    hits = scratch.json("search", old.decode())
    flip(scratch, old, new)
    scratch.json("search", old.decode())  # it removes a damaged text from the index
    (problem, *_) = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
    assert "the daemon repairs it" in problem["hint"]
    with in_process(scratch) as app:
        app.keeper.is_asked = True
        app.keeper.keep(app.engine, app.settings, app.clock)
        assert not app.keeper.is_asked
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert "damaged" in told or "differed" in told
    assert (facts(scratch), scratch.query("SELECT text FROM turn")) == before
    assert scratch.json("search", old.decode()) == hits
    assert scratch.json("verify") == {"ok": True, "problems": []}


def check(scratch):
    with in_process(scratch) as app:
        app.keeper.is_asked = True
        app.keeper.keep(app.engine, app.settings, app.clock)


def test_a_repaired_text_is_found_even_if_memoryd_is_stopped_right_after_the_repair(scratch, monkeypatch):
    hits = scratch.json("search", "under the blue")
    flip(scratch, b"under the blue", b"under the flue")
    scratch.json("search", "under the blue")
    erase, erased = Index.erase, []

    def erase_once(index, agent_id):
        erased.append(agent_id)
        if len(erased) > 1:
            raise KeyboardInterrupt
        erase(index, agent_id)

    with monkeypatch.context() as patched:
        patched.setattr(Index, "erase", erase_once)
        with pytest.raises(KeyboardInterrupt):
            check(scratch)
    assert len(erased) > 1
    assert scratch.json("search", "under the blue") == hits


def test_a_state_folder_that_is_gone_is_told_for_a_day_where_memoryd_has_written_before(scratch):
    scratch.json("session", "end", "one")
    shutil.rmtree(scratch.state)
    scratch.json("save", "A command sees it first.")
    for _ in range(2):
        scratch.json("run", "--once")
        told = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
        assert told == [(f"demo: {recovery.UNKNOWN}",)]
    with (scratch.state / "journal.jsonl").open("ab") as file:
        file.write(b"torn\n")  # the alarm after the loss names this line
    scratch.json("run", "--once")
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert told.startswith(f"demo: {recovery.UNKNOWN}; damaged in the journal: 1 line")
    with in_process(scratch, lambda: datetime.now(UTC) + timedelta(hours=49)) as app:
        run_once(app)
    assert scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM) == []


def test_a_database_behind_its_journal_gets_what_it_lost(scratch):
    old = (scratch.state / "memoryd.db").read_bytes()
    scratch.json("facts", "add", "Drinks oolong tea.")
    before = facts(scratch)
    (scratch.state / "memoryd.db").write_bytes(old)
    (problem,) = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
    assert problem["what"] == "the database is older than its journal"
    scratch.json("run", "--once")
    assert facts(scratch) == before
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_what_the_disk_refused_reaches_the_journal_later(scratch, monkeypatch):
    log = get_logger("memoryd.test")
    engine = sqlite.connect(scratch.state / "memoryd.db", Keeper(scratch.state, log).tell)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("memoryd.files.journal.extend", refuse)
        sqlite.write(engine, query.run, "UPDATE agent SET paused = 1")
    engine.dispose()
    scratch.json("run", "--once")
    lose(scratch)
    scratch.json("run", "--once")
    assert scratch.query("SELECT paused FROM agent") == [(1,)]


def test_a_backup_of_before_brings_nothing_back_that_was_forgotten(scratch, tmp_path):
    scratch.json("backup", str(tmp_path / "b"))
    (fact,) = (one["id"] for one in scratch.json("facts", "list"))
    scratch.json("forget", "--yes", "session:one")
    scratch.json("forget", "--yes", fact)
    scratch.json("restore", str(tmp_path / "b"))
    words = ("flowerpot in Uppsala", "size 43 shoes")
    assert [one for one in words if any(one.encode() in path.read_bytes() for path in files_of(scratch))] == []
    assert facts(scratch) == []
    scratch.json("run", "--once")
    assert [one for one in words if any(one.encode() in path.read_bytes() for path in files_of(scratch))] == []


def edit(scratch, text):
    path = scratch.workspace / "MEMORY.md"
    path.write_text(f"{scratch.core}- {text}\n", encoding="utf-8")
    with in_process(scratch) as app:
        assert CoreWatch(app.runner).take(app.settings.agents[0])


def session(scratch, name):
    scratch.append([*said(at=recent()), message("user", PLACES[name], at=recent()), filler(at=recent())], name)
    scratch.json("run", "--once")


PLACES = {"two": "Never deploy service Kestrel on Fridays.", "three": "Always call the service Merlin before noon."}


def last_sleep(scratch):
    return scratch.query("SELECT id FROM job_run WHERE kind = 'sleep' ORDER BY finished_at DESC LIMIT 1")[0][0]


def renew_copies(scratch):
    with in_process(scratch) as app:
        app.keeper.copy(app.engine, app.clock.now())


STEPS = {
    "edit": lambda scratch: edit(scratch, "Never touch the Otterfile."),
    "edit again": lambda scratch: edit(scratch, "Use tabs in the Lynxfile."),
    "run": lambda scratch: scratch.json("run", "--once"),
    "two": lambda scratch: session(scratch, "two"),
    "three": lambda scratch: session(scratch, "three"),
    "forget one": lambda scratch: scratch.json("forget", "--yes", "session:one"),
    "forget two": lambda scratch: scratch.json("forget", "--yes", "session:two"),
    "forget fact": lambda scratch: scratch.json("forget", "--yes", scratch.json("facts", "list")[0]["id"]),
    "roll back": lambda scratch: scratch.json("rollback", last_sleep(scratch)),
    "day": renew_copies,
}


@pytest.mark.parametrize(
    ("earlier", "later"),
    one_in(
        2,
        [
            ("", "edit, forget fact, edit again"),
            ("", "edit, forget one"),
            ("", "edit, day, two, roll back, forget one, run"),
            ("", "edit, day"),
            ("two", "edit, forget one, edit again, forget two, three"),
            ("edit", "roll back, forget one, run, edit again"),
            ("two, edit", "forget one, roll back, edit again"),
            ("forget one, two", "edit, day, three, forget two"),
        ],
    ),
)
def test_a_backup_older_than_the_journal_gives_the_state_before_the_restore(scratch, tmp_path, earlier, later):
    for step in filter(None, earlier.split(", ")):
        STEPS[step](scratch)
    scratch.json("backup", str(tmp_path / "b"))
    for step in later.split(", "):
        STEPS[step](scratch)
    before, core, told = rows(scratch), scratch.core, scratch.dailies()
    for _ in range(2):
        scratch.json("restore", str(tmp_path / "b"))
        scratch.json("run", "--once")
        after = rows(scratch)
        assert [row for name in before for row in before[name] if row not in after[name]] == []
        assert after["memory"] == before["memory"]
        assert (scratch.core, scratch.dailies()) == (core, told)
        assert scratch.json("verify") == {"ok": True, "problems": []}


@pytest.mark.parametrize(("journal", "copies"), one_each(["gone", "torn", "whole"], [False, True]))
def test_a_restore_needs_neither_journal_nor_copies_where_the_database_is_sound(scratch, tmp_path, journal, copies):
    scratch.json("backup", str(tmp_path / "b"))
    edit(scratch, "Never touch the Otterfile.")
    scratch.json("forget", "--yes", "session:one")
    damage(scratch, journal, copies=copies)
    before = rows(scratch)
    told = scratch.json("restore", str(tmp_path / "b"))["told"]
    assert told == [
        "the database was older than its journal, as after a restore; later changes of 4 memories came back"
    ]
    assert scratch.query("SELECT text FROM alarm WHERE cleared_at IS NULL") == []  # nothing is missing
    assert [path for path in files_of(scratch) if PLACE.encode() in path.read_bytes()] == []
    assert rows(scratch) == before
    assert scratch.json("run", "--once")
    assert scratch.json("verify") == {"ok": True, "problems": []}


def damage(scratch, journal, *, copies):
    path = scratch.state / "journal.jsonl"
    if journal == "torn":
        path.write_bytes(path.read_bytes()[:300])
    if journal == "gone":
        path.unlink()
    if not copies:
        shutil.rmtree(scratch.state / "backups")


GAP = "memories, facts, flags, access and audit from before the journal begins"


@pytest.mark.parametrize(
    ("journal", "copies", "expected"),
    [
        ("whole", True, "later changes of 4 memories came back"),
        ("whole", False, f"later changes of 3 memories came back; not restored: {GAP}"),
        ("torn", True, "not restored: the content of 1 damaged line of the journal"),
        ("gone", True, "the journal was missing; what changed after the newest copy is lost"),
    ],
)
def test_what_no_copy_has_is_said_where_the_replaced_database_is_damaged(scratch, tmp_path, journal, copies, expected):
    scratch.json("backup", str(tmp_path / "b"))
    edit(scratch, "Never touch the Otterfile.")
    scratch.json("forget", "--yes", "session:one")
    damage(scratch, journal, copies=copies)
    before = rows(scratch)
    lose(scratch)
    told = " ".join(scratch.json("restore", str(tmp_path / "b"))["told"])
    assert expected in told, told
    assert (rows(scratch)["memory"] == before["memory"]) == copies


def test_a_backup_brings_back_what_a_loss_has_taken_and_no_poorer_copy_takes_it_again(scratch, tmp_path):
    before = rows(scratch)
    scratch.json("backup", str(tmp_path / "b"))
    shutil.rmtree(scratch.state / "backups")
    lose(scratch)
    Journal(scratch.state / "journal.jsonl", sealed=True).rewrite(lambda lines: lines[:1])
    scratch.json("facts", "add", "Lives in Tampere.")
    assert facts(scratch) == ["Lives in Tampere."]
    with in_process(scratch) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
    scratch.json("restore", str(tmp_path / "b"))
    assert "Wears size 43 shoes." in facts(scratch)
    with in_process(scratch, lambda: datetime.now(UTC) + timedelta(days=2)) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert [row for row in before["memory"] if row not in rows(scratch)["memory"]] == []


def test_a_rollback_before_a_restore_stays_carried_out_and_the_session_sleeps_again(scratch, tmp_path):
    scratch.json("backup", str(tmp_path / "b"))
    scratch.json("rollback", last_sleep(scratch))
    scratch.json("restore", str(tmp_path / "b"))
    assert scratch.json("verify") == {"ok": True, "problems": []}
    assert "PostgreSQL" not in scratch.core
    scratch.json("session", "end", "one")
    assert "PostgreSQL" in scratch.core
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_a_damaged_row_is_told_where_the_copy_lacks_an_entry_of_the_audit(scratch):
    triggers = [one for one in changes.TRIGGERS if one.startswith(("CREATE TRIGGER audit", "CREATE TRIGGER memory"))]
    for one in triggers:
        scratch.change(f"DROP TRIGGER {one.split()[2]}")
    values = "at, agent_id, actor, run_id, operation, memory_id, \"before\", \"after\", 'x', 'y'"
    scratch.change(f"INSERT INTO audit SELECT id + 900, {values} FROM audit ORDER BY id DESC LIMIT 1")  # noqa: S608
    scratch.change("UPDATE memory SET importance = 0.125")
    for one in triggers:
        scratch.change(one)
    with in_process(scratch, lambda: datetime.now(UTC) + timedelta(days=2)) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert "differed from a copy that lacks some history" in told


@pytest.mark.parametrize("copies", [True, False], ids=["with a copy", "without a copy"])
def test_rows_that_cannot_be_read_cost_only_themselves_and_the_next_run_repairs_and_tells_them(scratch, copies):
    scratch.json("facts", "add", "Lives in Graz.")
    fact = scratch.query("SELECT id FROM memory WHERE content LIKE 'Wears%'")[0][0]
    triggers = [one for one in changes.TRIGGERS if one.startswith("CREATE TRIGGER memory")]
    for one in triggers:
        scratch.change(f"DROP TRIGGER {one.split()[2]}")
    scratch.change("UPDATE memory SET sources = 'x' || sources WHERE kind = 'core' OR content LIKE 'Wears%'")
    for one in triggers:
        scratch.change(one)
    if not copies:
        shutil.rmtree(scratch.state / "backups")
        (scratch.state / "journal.jsonl").unlink()
    assert facts(scratch) == ["Lives in Graz."]
    assert "Lives in Graz." in str(scratch.json("context"))
    for _ in range(2):
        scratch.json("run", "--once")
        ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
        assert ("could not be read" in told) is not copies  # with one, they are repaired before anything reads them
        assert fact in told
        assert ("were repaired" in told) == copies
        assert facts(scratch) == ["Lives in Graz.", "Wears size 43 shoes."][: 1 + copies]
        made = [backups.made_at(one) for one in backups.list_copies(scratch.state)]
    scratch.json("run", "--once")
    assert [backups.made_at(one) for one in backups.list_copies(scratch.state)] == made, "the same finding, no new copy"


def test_bullets_that_only_lost_copies_had_are_imported_again_from_the_file(scratch):
    scratch.json("session", "end", "one")
    scratch.json("update", "--append", "The first office is in Graz.")
    shutil.rmtree(scratch.state / "backups")
    scratch.json("run", "--once")  # a new copy, and a journal that begins there
    scratch.json("update", "--append", "The second office is in Linz.")
    shutil.rmtree(scratch.state / "backups")
    lose(scratch)
    scratch.json("run", "--once")
    held = {row for (row,) in scratch.query("SELECT content FROM memory WHERE kind = 'core' AND deleted_at IS NULL")}
    assert {"The first office is in Graz.", "The second office is in Linz."} <= held


def test_a_copy_of_another_database_mends_nothing(scratch):
    """Only its number tells this copy from one of this database."""
    (copy,) = backups.list_copies(scratch.state)
    with closing(load_library().connect(str(copy))) as other:
        other.execute("PRAGMA application_id = 7")
        other.execute("UPDATE memory SET importance = 0.125")
        other.commit()
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()[:32]
    copy.rename(copy.with_name(f"{copy.stem.rpartition('-')[0]}-{digest}.db"))
    assert backups.find_good(scratch.state) is not None
    before = scratch.query("SELECT * FROM memory")
    with in_process(scratch, lambda: datetime.now(UTC) + timedelta(days=2)) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert scratch.query("SELECT * FROM memory") == before
    assert scratch.query("SELECT text FROM alarm WHERE kind = ?", ALARM) == []


@pytest.mark.parametrize("many", one_in(3, [12, 1, 25]))
def test_a_backup_after_a_loss_loses_no_memory_however_much_came_later(scratch, tmp_path, many):
    before = rows(scratch)
    scratch.json("backup", str(tmp_path / "b"))
    shutil.rmtree(scratch.state / "backups")
    lose(scratch)
    Journal(scratch.state / "journal.jsonl", sealed=True).rewrite(lambda lines: lines[:1])
    for number in range(many):
        scratch.json("facts", "add", f"Lives in town number {number * 37} near lake {number}.")
    assert scratch.json("restore", str(tmp_path / "b"))["told"] == [recovery.PARTED]
    assert rows(scratch) == before
    with in_process(scratch, lambda: datetime.now(UTC) + timedelta(days=2)) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
    scratch.json("facts", "add", "Drinks oolong tea.")
    lose(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == ["Drinks oolong tea.", "Wears size 43 shoes."]
    assert scratch.json("verify") == {"ok": True, "problems": []}


@pytest.mark.parametrize("many", one_in(2, [4, 1]))
@pytest.mark.parametrize("lost", ["nothing", "journal", "copies", "database"])
def test_a_backup_of_another_machine_that_went_on_by_itself_stays_whole(scratch, tmp_path, many, lost):
    saved = tmp_path / "saved"
    shutil.copytree(scratch.state, saved)
    scratch.json("facts", "add", "The cat is called Minka.")
    scratch.json("backup", str(tmp_path / "b"))
    before = rows(scratch)
    shutil.rmtree(scratch.state)
    shutil.copytree(saved, scratch.state)
    for number in range(many):
        scratch.json("facts", "add", f"Lives in town number {number * 37} near lake {number}.")
    damage(scratch, "gone" if lost == "journal" else "whole", copies=lost != "copies")
    if lost == "database":
        lose(scratch)
    assert scratch.json("restore", str(tmp_path / "b"))["told"] == [recovery.PARTED]
    assert rows(scratch) == before
    scratch.json("facts", "add", "Drinks oolong tea.")
    with in_process(scratch, lambda: datetime.now(UTC) + timedelta(days=2)) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert facts(scratch) == ["Drinks oolong tea.", "The cat is called Minka.", "Wears size 43 shoes."]
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_a_restore_that_is_stopped_halfway_brings_no_forgotten_text_back(scratch, tmp_path, monkeypatch):
    scratch.json("backup", str(tmp_path / "b"))
    scratch.json("forget", "--yes", "session:one")

    def stop(*_):
        raise StateError("the power is gone")

    with monkeypatch.context() as stopped:
        stopped.setattr("memoryd.running.runner.Runner.recover", stop)
        with pytest.raises(StateError, match=r"the backup is in place.*the power is gone") as told:
            backup.restore(config.load(scratch.config), tmp_path / "b")
    assert told.value.where.startswith(f"{scratch.state}/memoryd.replaced-")
    assert [path for path in files_of(scratch) if PLACE.encode() in path.read_bytes()] == []
    assert scratch.query("SELECT count(*) FROM session_summary") == [(0,)]


def test_a_restore_that_is_stopped_halfway_still_redacts_what_was_redacted(scratch, tmp_path, monkeypatch):
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"  # a token of GitHub by its form
    scratch.append([message("user", f"The key is {secret}.", at=recent(1))])
    scratch.json("run", "--once")
    scratch.json("backup", str(tmp_path / "b"))
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.json("scrub", "--again")

    def stop(*_):
        raise StateError("the power is gone")

    with monkeypatch.context() as stopped:
        stopped.setattr("memoryd.running.runner.Runner.recover", stop)
        with pytest.raises(StateError):
            backup.restore(config.load(scratch.config), tmp_path / "b")
    assert scratch.query("SELECT count(*) FROM job_run WHERE kind = 'scrub' AND state = 'queued'") == [(1,)]
    scratch.json("run", "--once")
    assert scratch.query("SELECT count(*) FROM turn WHERE instr(text, '[REDACTED:')") == [(1,)]


def test_many_restores_keep_as_many_copies_as_are_wanted_and_the_newest_is_of_the_restored_state(tmp_path):
    scratch = Scratch(tmp_path / "scratch", retention={"backups": 2})
    scratch.json("run", "--once")
    scratch.json("backup", str(tmp_path / "b"))
    for _ in range(3):
        scratch.json("restore", str(tmp_path / "b"))
    newest, _ = backups.list_copies(scratch.state)
    engine = sqlite.connect(scratch.state / "memoryd.db")
    with sqlite.begin_read(engine, newest) as connection:
        assert list(changes.find_differing(connection)) == []
    engine.dispose()


def test_a_copy_that_nobody_can_read_stops_no_start(scratch):
    (copy,) = backups.list_copies(scratch.state)
    copy.write_bytes(b"no database" * 1000)
    assert backups.read_seq(copy) == 0
    copy.unlink()
    assert backups.read_seq(copy) == 0


def test_the_search_for_watermarks_of_rollbacks_uses_the_index_of_the_audit(scratch):
    plan = " ".join(map(str, scratch.query(f"EXPLAIN QUERY PLAN {recovery._TAKEN_BACK}")))
    assert "audit_by_memory (agent_id=? AND memory_id=?)" in plan


def files_of(scratch):
    return [path for path in scratch.root.rglob("*") if path.is_file() and scratch.sessions not in path.parents]


def test_copies_are_made_each_day_and_the_oldest_go(tmp_path):
    scratch = Scratch(tmp_path / "scratch", retention={"backups": 2})
    for day in range(4):
        with in_process(scratch, lambda day=day: NOW + timedelta(days=day)) as app:
            run_once(app)
            run_once(app)
    found = backups.list_copies(scratch.state)
    assert [backups.made_at(one).date() for one in found] == [(NOW + timedelta(days=n)).date() for n in (3, 2)]
    lines = Journal(scratch.state / "journal.jsonl", sealed=True).entries()
    assert lines[0]["from"] == backups.read_seq(found[-1])
    found[0].write_bytes(found[0].read_bytes()[:-1])
    (check,) = (one for one in scratch.json("doctor")["checks"] if one["name"] == "copies")
    assert (check["level"], "1 newer are damaged" in check["text"]) == ("warn", True)


def test_an_error_of_sqlite_is_told_without_what_it_quotes():
    class OperationalError(Exception):
        pass

    quoting = OperationalError("Could not decode to UTF-8 column 'text' with text 'my secret'")
    assert "secret" not in describe(quoting)
    assert describe(OperationalError("database disk image is malformed")) == "database disk image is malformed"


def test_a_rewrite_of_the_journal_removes_what_a_stopped_one_left(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl", sealed=True)
    journal.append({"seq": 1}, {"seq": 2})
    left = tmp_path / ".memoryd-new-0123456789abcdef-journal.jsonl.tmp"
    others = tmp_path / ".memoryd-new-0123456789abcdef-other.tmp"
    for path in (left, others):
        path.write_text("half", encoding="utf-8")
    journal.rewrite(lambda entries: entries[1:])
    assert journal.entries() == [{"seq": 2}]
    assert (left.exists(), others.exists()) == (False, True)


def widen(entries):
    """Give each row of a memory a column that no table has."""
    images = [image for entry in entries for image in entry["rows"] if image[0] == "memory" and image[2]]
    assert images
    for _, _, row in images:
        row["flavour"] = "vanilla"
    return entries


def test_a_row_of_the_journal_with_more_than_its_table_has_is_taken_without_that(scratch):
    """A newer version may have written a column more; what no version writes, such as a list, is no change."""
    known = facts(scratch)
    Journal(scratch.state / "journal.jsonl", sealed=True).rewrite(widen)
    lose(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == known


@pytest.mark.parametrize("copies", [True, False])
def test_rows_that_only_a_newer_version_can_hold_are_left_out_and_counted(scratch, copies):
    known, journal = facts(scratch), Journal(scratch.state / "journal.jsonl", sealed=True)
    (fact,) = (row for one in journal.entries() for table, _, row in one["rows"] if table == "memory" and row)
    unknown = [
        ["mood", ["x"], {"id": "x"}], ["memory", ["x"], {}], ["memory", ["x"], {"flavour": "vanilla"}],
        ["memory", ["x"], {"id": ["x"]}], ["memory", [["x"]], None], ["memory", [1 << 63], None],
        ["memory", ["\ud800"], None], ["memory", ["x"], {**fact, "id": "x", "agent_id": None}],
        ["memory", ["x"], {**fact, "id": "x", "content": 1 << 63}],
    ]  # fmt: skip
    journal.rewrite(lambda entries: [*entries[:-1], {**entries[-1], "rows": [*unknown, *entries[-1]["rows"]]}])
    if not copies:
        shutil.rmtree(scratch.state / "backups")
    lose(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == known
    ((text,),) = scratch.query("SELECT text FROM alarm WHERE kind = ?", ALARM)
    assert f"{len(unknown)} rows that a newer version of memoryd wrote" in text


def test_a_database_that_starts_without_its_agents_row_is_restored(scratch):
    """Its memories refer to it; the configuration brings it back."""
    journal = Journal(scratch.state / "journal.jsonl", sealed=True)

    def lose_agents(entries):
        return [{**one, "rows": [row for row in one["rows"] if row[0] != "agent"]} for one in entries]

    journal.rewrite(lose_agents)
    shutil.rmtree(scratch.state / "backups")
    lose(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == ["Wears size 43 shoes."]


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_what_damaged_lines_held_is_said_to_be_missing_where_the_database_is_lost(scratch, copies, whole):
    path = scratch.state / "journal.jsonl"
    before, after = (b'"crc": ', b'"crc": 1') if whole else (b"size 43", b"size 44")
    path.write_bytes(path.read_bytes().replace(before, after))
    if not copies:
        shutil.rmtree(scratch.state / "backups")
    lose(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == []
    ((text,),) = scratch.query("SELECT text FROM alarm WHERE kind = ?", ALARM)
    assert text.startswith("the database was gone; memoryd restored it from the journal and ")
    assert "damaged line" in text
    assert "the database has" not in text


def test_the_comparison_of_the_night_overlooks_a_column_that_only_the_journal_has(scratch):
    Journal(scratch.state / "journal.jsonl", sealed=True).rewrite(widen)
    with in_process(scratch, lambda: NOW + timedelta(days=1)) as app:
        run_once(app)
    assert len(backups.list_copies(scratch.state)) == 2
    assert scratch.query("SELECT text FROM alarm WHERE kind = ?", ALARM) == []


GIVEN = (
    "INSERT INTO \"grant\" VALUES ('g', 'demo', 0, 'why', 60, '2026-01-01T00:00:00Z',"
    " '2026-01-01T00:00:00Z', '2036-01-01T00:00:00Z', 'given', '', '', NULL)"
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CREATE TRIGGER evil AFTER INSERT ON memory BEGIN UPDATE memory SET content = 'EVIL'; END",
            "has parts that differ from memoryd's schema: trigger 'evil'",
        ),
        ("CREATE TABLE evil (id)", "has parts that differ from memoryd's schema: table 'evil'"),
        ("ALTER TABLE memory ADD COLUMN evil", "has parts that differ from memoryd's schema: column 'memory.evil'"),
        ("DROP TRIGGER audit_stays", "lacks parts of memoryd's schema: trigger 'audit_stays'"),
        ("DROP TABLE verdict", "lacks parts of memoryd's schema: table 'verdict'"),
        ("DROP TABLE content", "lacks parts of memoryd's schema: table 'content'"),
        ("DROP INDEX audit_order", "lacks parts of memoryd's schema: index 'audit_order'"),
        ("ALTER TABLE turn DROP COLUMN usage", "lacks parts of memoryd's schema: column 'turn.usage'"),
        (GIVEN, "the grant does not match the audit"),
    ],
)
def test_what_others_changed_in_the_schema_or_in_the_grants_is_named(scratch, sql, expected):
    scratch.change(sql)
    (problem,) = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
    assert problem["what"].startswith(expected)


def test_commands_say_that_a_lost_database_can_be_restored(scratch):
    lose(scratch)
    error = scratch.json("status", code=1)
    assert error["message"].endswith("the database is gone")
    assert "memoryd run --once" in error["hint"]
    scratch.json("run", "--once")
    assert facts(scratch) == ["Wears size 43 shoes."]


# Bytes of a row that flip while memoryd is stopped, and the query that shows them.
FLIPS = {
    "text": ("UPDATE memory SET content = 'Use spaces in the Makefile.' WHERE kind = 'core'", "memory"),
    "end": ("UPDATE memory SET deleted_at = updated_at, ended_as = 'dropped' WHERE kind = 'core'", "memory"),
    "pause": ("UPDATE agent SET paused = 1", "agent"),
    "audit": ("UPDATE audit SET actor = 'nobody'", "audit"),
}


def spoil(scratch, sql, table):
    """Change rows of a table as a failing disk does: no trigger sees it."""
    (*triggers,) = scratch.query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", table)
    for name, _ in triggers:
        scratch.change(f"DROP TRIGGER {name}")
    scratch.change(sql)
    for _, made in triggers:
        scratch.change(made)


@pytest.mark.parametrize(("flip", "how"), one_each(FLIPS, [("run", "--once"), ("facts", "add", "Lives in Graz.")]))
def test_what_flips_while_memoryd_is_stopped_is_repaired_before_anything_trusts_it(scratch, flip, how):
    scratch.json("session", "end", "one")
    scratch.json("update", "--append", "The first office is in Graz.")
    before, core = rows(scratch) | {"agent": scratch.query("SELECT id, paused FROM agent")}, scratch.core
    spoil(scratch, *FLIPS[flip])
    path = scratch.workspace / "MEMORY.md"
    path.write_text(f"{core}- A line that is imported next.\n", encoding="utf-8")
    scratch.json(*how)
    after = rows(scratch) | {"agent": scratch.query("SELECT id, paused FROM agent")}
    assert [row for name in ("memory", "audit", "agent") for row in before[name] if row not in after[name]] == []
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert f"of {FLIPS[flip][1]} differed from copy and journal, and were repaired" in told
    scratch.json("run", "--once")
    assert len(core.splitlines()) + 1 == len(scratch.core.splitlines())
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_a_row_that_goes_back_to_its_state_in_the_copy_is_repaired(scratch):
    scratch.json("facts", "add", "Lives in Graz.")
    shutil.rmtree(scratch.state / "backups")
    scratch.json("run", "--once")
    (one,) = [one["id"] for one in scratch.json("facts", "list") if "Graz" in one["content"]]
    scratch.json("facts", "delete", one)
    scratch.json("pause")
    before = scratch.query("SELECT * FROM memory WHERE id = ?", one)
    spoil(scratch, "UPDATE memory SET deleted_at = NULL, ended_as = NULL WHERE content LIKE '%Graz%'", "memory")
    spoil(scratch, "UPDATE agent SET paused = 0", "agent")
    scratch.json("run", "--once")
    assert scratch.query("SELECT * FROM memory WHERE id = ?", one) == before
    assert scratch.query("SELECT paused FROM agent") == [(1,)]
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert f"1 row of memory differed from copy and journal, and were repaired: {one}" in told


def test_a_damaged_newest_copy_is_removed_and_an_older_one_repairs_the_rows(scratch):
    scratch.json("session", "end", "one")
    scratch.json("update", "--append", "The first office is in Graz.")
    (good,) = backups.list_copies(scratch.state)
    damaged = good.with_name(good.name.replace("memoryd-2", "memoryd-3", 1))
    damaged.write_bytes(good.read_bytes()[:5000])
    before, core = rows(scratch)["memory"], scratch.core
    spoil(scratch, *FLIPS["end"])
    (scratch.workspace / "MEMORY.md").write_text(f"{core}- A line that is imported next.\n", encoding="utf-8")
    scratch.json("run", "--once")
    assert [row for row in before if row not in rows(scratch)["memory"]] == []
    assert not damaged.exists()
    assert len(core.splitlines()) + 1 == len(scratch.core.splitlines())
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_without_its_trigger_a_deletion_is_not_taken_for_damage(scratch):
    scratch.json("facts", "add", "Lives in Graz.")
    scratch.json("run", "--once")
    scratch.change("DROP TRIGGER memory_updated")
    (one,) = [one["id"] for one in scratch.json("facts", "list") if "Graz" in one["content"]]
    scratch.run("--json", "facts", "delete", one)  # makes it again first
    scratch.json("run", "--once")
    assert "Lives in Graz." not in facts(scratch)
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert told == "missing in the database and rebuilt: trigger 'memory_updated'"


def test_an_index_that_is_damaged_while_memoryd_is_stopped_hides_no_memory_from_an_import(scratch):
    scratch.json("session", "end", "one")
    scratch.json("update", "--append", "The first office is in Graz.")
    before = rows(scratch)["memory"]
    sql = "UPDATE sqlite_master SET sql = replace(sql, 'deleted_at IS NULL', 'deleted_at = 7') WHERE name = ?"
    with closing(load_library().connect(str(scratch.state / "memoryd.db"), isolation_level=None)) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'memory_by_text'").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(sql, ("memory_by_text",))
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute("REINDEX memory_by_text")  # empty
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'memory_by_text'", (made,))
    scratch.json("run", "--once")
    assert rows(scratch)["memory"] == before
    ((told,),) = scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", ALARM)
    assert told == "the indexes of the database were damaged and were rebuilt"


def test_an_inspection_that_fails_is_told_and_tried_again_while_work_goes_on(scratch, monkeypatch):
    spoil(scratch, *FLIPS["pause"])

    def refuse(*_):
        raise OSError(28, "No space left on device")

    sql = "SELECT text FROM alarm WHERE kind = 'inspection' AND cleared_at IS NULL"
    with monkeypatch.context() as full:
        full.setattr("memoryd.database.changes.find_differing", refuse)
        with in_process(scratch) as app:
            assert app.keeper.is_asked
            for _ in range(2):
                app.keeper.keep(app.engine, app.settings, app.clock)
                assert app.keeper.is_asked
            ((told,),) = scratch.query(sql)
            assert "tried again" in told
            full.undo()
            app.keeper.keep(app.engine, app.settings, app.clock)
            assert not app.keeper.is_asked
    assert scratch.query(sql) == []


def test_a_run_that_forgets_takes_no_turns_from_those_that_were_read(scratch):
    with in_process(scratch) as app:
        (session,) = scratch.query("SELECT id FROM session")[0]
        given = (forgetting.KIND, "demo")
        sqlite.write(app.engine, queueing.queue, app.clock, *given, trigger="manual", options={"session": session})
    scratch.append([message("user", "One more line.", at=recent(1))])
    assert "read 1 new turn, carried out 1 run" in scratch.run("run", "--once").stdout
    assert scratch.query("SELECT count(*) FROM turn WHERE text <> ''") == [(0,)]
