"""memoryd restores missing parts of the schema, removes foreign triggers and names other foreign parts."""

import contextlib
import json
import shutil

import pytest
from scratch import Scratch, filler, in_process, message, recent, said

from memoryd.changing.recovery import ALARM, UNINSPECTED
from memoryd.daemon.once import run_once
from memoryd.database import backups, parts, query, schema, sqlite
from memoryd.database.library import load_library
from memoryd.files.journal import Journal
from memoryd.running import alarms as alarming

CHANGED_TRIGGER = "DROP TRIGGER turn_text_added"
SHOES, GRAZ = "Wears size 43 shoes.", "Lives in Graz."


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("made") / "scratch")
    scratch.append([*said(at=recent()), filler(at=recent())])
    scratch.json("run", "--once")
    scratch.json("facts", "add", SHOES)
    shutil.copytree(scratch.root, scratch.root.with_name("pristine"))
    return scratch


@pytest.fixture
def scratch(made):
    return made.copied(made.root.with_name("pristine"))


def facts(scratch):
    return sorted(one["content"] for one in scratch.json("facts", "list"))


def alarms(scratch, kind=ALARM):
    return [text for (text,) in scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", kind)]


def is_whole(scratch):
    return scratch.json("verify") == {"ok": True, "problems": []}


LOSSES = {
    "memories": ("DROP TABLE memory", "table 'memory'"),
    "changes": ("DROP TABLE changed_row", "table 'changed_row'"),
    "alarms": ("DROP TABLE alarm", "table 'alarm'"),
    "verdicts": ("DROP TABLE verdict", "table 'verdict'"),
    "column": ("ALTER TABLE turn DROP COLUMN usage", "column 'turn.usage'"),
}


@pytest.mark.parametrize("how", [("run", "--once"), ("facts", "add", GRAZ)], ids=["run", "command"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_database_that_has_lost_a_part_is_restored_from_a_copy_that_has_it(scratch, loss, how):
    sql, part = LOSSES[loss]
    scratch.change(sql)
    scratch.json(*how)
    assert facts(scratch) == sorted([SHOES, *([GRAZ] if GRAZ in how else [])])
    (told,) = alarms(scratch, alarming.DATABASE)
    assert told.startswith(f"the database has lost {part} and is kept as memoryd.db.damaged-")
    assert "memoryd restored it from the journal and the copy" in told
    assert len(list(scratch.state.glob("memoryd.db.damaged-*"))) == 1
    scratch.json("run", "--once")
    assert is_whole(scratch)


def test_a_part_that_no_copy_has_is_an_error_that_names_the_commands_and_changes_nothing(scratch):
    backup = scratch.root / "backup.tar.gz"
    scratch.json("backup", str(backup))
    scratch.change("DROP TABLE verdict")
    (copy,) = backups.list_copies(scratch.state)
    with load_library().connect(str(copy)) as connection:
        connection.execute("DROP TABLE verdict")
    digest = backups._digest(copy)
    copy.rename(copy.with_name(copy.name[:-35] + digest + ".db"))
    error = scratch.json("run", "--once", code=1)
    assert error["message"].endswith("the database has lost table 'verdict', and no good copy has it")
    assert "memoryd restore" in error["hint"]
    assert not list(scratch.state.glob("memoryd.db.damaged-*"))
    scratch.json("restore", str(backup))
    assert facts(scratch) == [SHOES]


def test_copies_that_lack_a_part_are_kept_and_named(scratch):
    (copy,) = backups.list_copies(scratch.state)
    with contextlib.closing(load_library().connect(str(copy))) as connection:
        connection.execute("DROP TABLE verdict")
    copy = renamed(copy)
    with in_process(scratch) as app:
        app.keeper.is_asked = True
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert copy in backups.list_copies(scratch.state)
    (told,) = alarms(scratch)
    assert f"the copy {copy.name} was kept: " in told
    assert told.endswith("has lost table 'verdict' (take another backup)")
    scratch.json("run", "--once")
    assert len(backups.list_copies(scratch.state)) == 2


def test_a_value_that_the_journal_lacks_stays_as_it_is_in_the_copy(scratch):
    (one,) = [one["id"] for one in scratch.json("facts", "list")]
    scratch.change("UPDATE memory SET note = 'kept'")
    scratch.json("run", "--once")
    shutil.rmtree(scratch.state / "backups")
    with in_process(scratch) as app:
        app.keeper.keep(app.engine, app.settings, app.clock)
        scratch.change("ALTER TABLE memory DROP COLUMN note")
        sqlite.write(app.engine, query.run, "UPDATE memory SET importance = 0.5 WHERE id = ?", one)
    scratch.json("run", "--once")
    assert scratch.query("SELECT note, importance FROM memory WHERE id = ?", one) == [("kept", 0.5)]


def test_a_daemon_that_lost_its_list_of_changes_goes_on_and_says_what_to_do(scratch):
    with in_process(scratch) as app:
        scratch.change("DROP TABLE changed_row")
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert "restart memoryd, which restores it" in alarms(scratch, UNINSPECTED)[0]


def test_without_a_backup_the_database_begins_anew_from_the_journal_as_the_error_says(scratch):
    scratch.change("DROP TABLE verdict")
    shutil.rmtree(scratch.state / "backups")
    hint = scratch.json("run", "--once", code=1)["hint"]
    place = scratch.state / "memoryd.db"
    assert f"mv {place} {place}.old" in hint
    place.rename(f"{place}.old")
    scratch.json("run", "--once")
    assert SHOES in facts(scratch)


def test_a_part_that_is_lost_while_memoryd_runs_is_told_with_the_remedy_and_copied_nowhere(scratch):
    with in_process(scratch) as app:
        scratch.change("DROP TABLE memory")
        copies = backups.list_copies(scratch.state)
        app.keeper.keep(app.engine, app.settings, app.clock)
        assert app.keeper.is_asked
        assert backups.list_copies(scratch.state) == copies
    (told,) = alarms(scratch, UNINSPECTED)
    assert "the database has lost table 'memory' (restart memoryd, which restores it)" in told
    assert "see memoryd verify" in scratch.json("facts", "list", code=1)["message"]
    verified = scratch.run("verify").stdout
    assert "table 'memory'" in verified
    assert "memoryd run --once" in verified
    scratch.json("run", "--once")
    assert facts(scratch) == [SHOES]
    assert alarms(scratch, UNINSPECTED) == []


def test_a_copy_that_lacks_a_part_is_not_kept(scratch):
    scratch.change("DROP TABLE verdict")
    with pytest.raises(Exception, match="has lost table 'verdict'"):
        backups.make(scratch.state / "memoryd.db", recent())
    assert len(list((scratch.state / "backups").iterdir())) == 1


def test_a_start_that_is_stopped_before_the_copy_is_in_place_goes_on(scratch, monkeypatch):
    scratch.change("DROP TABLE memory")

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(backups, "take", stop)
        with pytest.raises(KeyboardInterrupt):
            schema.open_database(scratch.state / "memoryd.db", now="2026-03-04T10:00:00.000Z")
    scratch.json("run", "--once")
    assert facts(scratch) == [SHOES]
    assert is_whole(scratch)


def test_an_index_that_is_gone_is_made_again(scratch):
    scratch.change("DROP INDEX memory_by_text")
    scratch.change("DROP INDEX alarm_open")
    scratch.json("facts", "add", GRAZ)
    assert alarms(scratch) == ["missing in the database and rebuilt: index 'alarm_open', index 'memory_by_text'"]
    assert is_whole(scratch)


@pytest.mark.parametrize("number", [1, 12])
def test_a_database_of_an_old_version_loses_a_foreign_trigger_and_is_brought_up_to_date(tmp_path, number):
    scratch = Scratch(tmp_path / "scratch")
    scratch.state.mkdir()
    with load_library().connect(str(scratch.state / "memoryd.db")) as connection:
        for step in parts.read_migrations()[:number]:
            for statement in step.statements:
                connection.execute(statement)
        connection.execute("CREATE TRIGGER evil AFTER INSERT ON alarm BEGIN DELETE FROM alarm; END")
        connection.execute(f"PRAGMA user_version = {number}")
    scratch.json("run", "--once")
    (told,) = alarms(scratch)
    assert "trigger 'evil' is not memoryd's and was removed" in told
    assert is_whole(scratch)


def test_the_sql_of_a_table_as_bytes_is_no_damage(scratch):
    """One bit of a row of the schema makes the same text a blob; SQLite reads it all the same."""
    with contextlib.closing(load_library().connect(scratch.state / "memoryd.db")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = CAST(sql AS BLOB) WHERE name = 'memory'")
        connection.commit()
    before = facts(scratch)
    assert is_whole(scratch)
    scratch.json("run", "--once")
    assert (facts(scratch), alarms(scratch)) == (before, [])


def test_a_trigger_with_a_name_of_sqlites_own_is_named(scratch):
    with contextlib.closing(load_library().connect(scratch.state / "memoryd.db")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql = "CREATE TRIGGER sqlite_evil AFTER INSERT ON agent BEGIN DELETE FROM memory; END"
        connection.execute("INSERT INTO sqlite_master VALUES ('TRIGGER', 'sqlite_evil', 'agent', 0, ?)", (sql,))
        connection.commit()
    assert "sqlite_evil" in scratch.run("verify").stdout


STRANGE = {
    "module": ("table", "notes", "CREATE VIRTUAL TABLE notes USING vec0(embedding float[4])"),
    "letters": ("view", "notes", "CREATE VIEW notes AS SELECT 1 /* f\xfcr mich */"),
}


def add_strange(path, kind, name, sql):
    """Add an entry to the schema as another program may have left it."""
    with contextlib.closing(load_library().connect(str(path))) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        values = (kind, name, name, sql.encode("latin-1"))
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, 0, CAST(? AS TEXT))", values)


def renamed(copy):
    return copy.rename(copy.with_name(f"{copy.name[:-35]}{backups._digest(copy)}.db"))


@pytest.mark.parametrize("what", STRANGE)
def test_what_sqlite_cannot_read_of_somebody_else_is_no_damage_of_memoryd(scratch, what):
    (copy,) = backups.list_copies(scratch.state)
    for path in (scratch.state / "memoryd.db", copy):
        add_strange(path, *STRANGE[what])
    copy = renamed(copy)
    assert backups.why_bad(copy) is None
    for _ in range(2):
        scratch.json("run", "--once")
        assert facts(scratch) == [SHOES]
        assert "'notes'" in alarms(scratch, schema.FOREIGN)[0]
    assert copy in backups.list_copies(scratch.state)
    assert not list(scratch.state.glob("memoryd.db.damaged-*"))


def test_an_index_that_the_rows_do_not_allow_stays_missing_and_is_named(scratch):
    scratch.change("DROP INDEX alarm_open")
    row = "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('mine', '', '', '2026-03-04', 'x')"
    for _ in range(2):
        scratch.change(row)
    for _ in range(2):
        scratch.json("run", "--once")
        assert "the database has rows that these indexes forbid: alarm_open" in alarms(scratch, schema.FOREIGN)[0]
    assert not list(scratch.state.glob("memoryd.db.damaged-*"))
    scratch.change("DELETE FROM alarm WHERE kind = 'mine'")
    scratch.json("run", "--once")
    assert alarms(scratch) == ["missing in the database and rebuilt: index 'alarm_open'"]
    assert is_whole(scratch)


def test_an_inspection_of_a_running_daemon_makes_an_index_again(scratch):
    with in_process(scratch) as app:
        scratch.change("DROP INDEX memory_by_text")
        app.keeper.is_asked = True
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert alarms(scratch) == ["missing in the database and rebuilt: index 'memory_by_text'"]
    assert is_whole(scratch)


# --- triggers ---


@pytest.mark.parametrize("sql", ["DROP INDEX turn_withheld", CHANGED_TRIGGER, "DROP TRIGGER turn_text_changed"])
def test_a_database_of_an_old_version_gets_back_what_its_migrations_drop(tmp_path, sql):
    scratch = Scratch(tmp_path / "scratch")
    scratch.state.mkdir()
    with contextlib.closing(load_library().connect(str(scratch.state / "memoryd.db"))) as connection, connection:
        for statement in (one for step in parts.read_migrations()[:15] for one in step.statements):
            connection.execute(statement)
        connection.execute(sql)
        if sql == CHANGED_TRIGGER:
            connection.execute("CREATE TRIGGER turn_text_added AFTER INSERT ON turn BEGIN SELECT 1; END")
        connection.execute("PRAGMA user_version = 15")
    scratch.json("run", "--once")
    assert sql.split()[-1] in alarms(scratch)[0]
    assert is_whole(scratch)


def test_a_trigger_with_a_name_of_sqlite_is_removed(scratch):
    sql = (
        "CREATE TRIGGER sqlite_x AFTER INSERT ON memory BEGIN UPDATE memory SET content = 'EVIL' WHERE id = NEW.id; END"
    )
    with contextlib.closing(load_library().connect(str(scratch.state / "memoryd.db"))) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_x', 'memory', 0, ?)", (sql,))
    scratch.json("facts", "add", GRAZ)
    assert facts(scratch) == sorted([SHOES, GRAZ])
    assert sql in alarms(scratch)[0]
    assert is_whole(scratch)


def test_the_size_of_the_texts_is_counted_anew_after_a_trigger_was_gone(scratch):
    with in_process(scratch) as app:
        scratch.change("DROP TRIGGER turn_text_added")
        scratch.append([message("user", "I moved to Graz.", at=recent())], name="two")
        run_once(app)
    scratch.json("run", "--once")
    sums = "SELECT count(*), sum(octet_length(text)), sum(typeof(text) = 'blob') FROM turn WHERE text <> ''"
    assert scratch.query("SELECT turns, bytes, compressed FROM vault_size") == scratch.query(sums)


def test_a_trigger_that_is_gone_is_made_again_and_rows_that_changed_meanwhile_are_kept_and_named(scratch):
    scratch.json("facts", "add", GRAZ)
    scratch.json("run", "--once")
    (one,) = [one["id"] for one in scratch.json("facts", "list") if one["content"] == GRAZ]
    scratch.change("DROP TRIGGER memory_updated")
    scratch.change("UPDATE memory SET content = 'Lives in Linz.' WHERE id = ?", one)
    for _ in range(2):
        scratch.json("run", "--once")
        assert "Lives in Linz." in facts(scratch)
    (told,) = alarms(scratch)
    assert "missing in the database and rebuilt: trigger 'memory_updated'" in told
    assert f"1 row may be newer than the journal; not repaired: {one}" in told
    scratch.json("facts", "delete", one)
    scratch.change("DROP TABLE verdict")  # a loss, after which the journal has what was kept
    scratch.json("run", "--once")
    assert facts(scratch) == [SHOES]


def test_without_its_triggers_a_table_that_was_emptied_still_comes_back(scratch):
    (made,) = scratch.query("SELECT sql FROM sqlite_master WHERE name = 'content'")[0]
    before = scratch.query("SELECT * FROM content ORDER BY sha256")
    scratch.change("DROP TABLE content")
    scratch.change(made)
    scratch.json("run", "--once")
    assert [row for row in before if row not in scratch.query("SELECT * FROM content")] == []
    (told,) = alarms(scratch)
    assert "rows of content differed from copy and journal, and were repaired" in told
    assert is_whole(scratch)


def test_a_start_that_is_killed_after_a_trigger_is_back_reverts_no_row(scratch, monkeypatch):
    (one,) = [one["id"] for one in scratch.json("facts", "list")]
    scratch.json("run", "--once")
    scratch.change("DROP TRIGGER memory_updated")
    scratch.change("UPDATE memory SET content = 'Wears size 44 shoes.' WHERE id = ?", one)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("memoryd.app._tell_loss", stop)
        with pytest.raises(KeyboardInterrupt):
            in_process(scratch)
    scratch.json("run", "--once")
    assert facts(scratch) == ["Wears size 44 shoes."]
    assert any("trigger 'memory_updated'" in text for text in alarms(scratch))


EVIL = (
    "CREATE TRIGGER evil AFTER INSERT ON memory BEGIN DELETE FROM memory; END",
    'CREATE TRIGGER "e\'v" AFTER UPDATE ON alarm BEGIN DELETE FROM alarm; END',
    "CREATE TRIGGER worse AFTER INSERT ON alarm BEGIN DELETE FROM alarm; END",
)


def test_a_trigger_of_somebody_else_does_not_run_and_its_text_is_told(scratch):
    for sql in EVIL:
        scratch.change(sql)
    scratch.json("facts", "add", GRAZ)
    assert facts(scratch) == sorted([SHOES, GRAZ])
    (told,) = alarms(scratch)
    assert all(sql in told for sql in EVIL)
    assert is_whole(scratch)


def test_a_changed_trigger_of_memoryd_is_replaced(scratch):
    scratch.change("DROP TRIGGER memory_updated")
    scratch.change("CREATE TRIGGER memory_updated AFTER UPDATE ON memory BEGIN DELETE FROM changed_row; END")
    scratch.json("facts", "add", GRAZ)
    assert facts(scratch) == sorted([SHOES, GRAZ])
    assert is_whole(scratch)


def test_an_inspection_of_a_running_daemon_removes_a_trigger_of_somebody_else(scratch):
    with in_process(scratch) as app:
        for sql in EVIL:
            scratch.change(sql)
        app.keeper.is_asked = True
        app.keeper.keep(app.engine, app.settings, app.clock)
    (told,) = alarms(scratch)
    assert all(sql in told for sql in EVIL)
    assert scratch.query("SELECT name FROM sqlite_master WHERE name = 'evil'") == []


def test_a_column_of_somebody_else_stops_no_repair(scratch):
    scratch.change("DROP TRIGGER memory_updated")
    scratch.change("ALTER TABLE memory ADD COLUMN extra TEXT DEFAULT 'x'")
    scratch.change("UPDATE memory SET content = 'EVIL' WHERE content = ?", SHOES)
    scratch.json("run", "--once")
    assert alarms(scratch, UNINSPECTED) == []
    assert "trigger 'memory_updated'" in alarms(scratch)[0]
    assert "memory.extra" in alarms(scratch, schema.FOREIGN)[0]


def test_tables_and_views_of_somebody_else_stay_and_are_named_until_they_are_gone(scratch):
    scratch.change("CREATE TABLE mine (id)")
    scratch.change("CREATE VIEW shown AS SELECT * FROM memory")
    for _ in range(2):
        scratch.json("facts", "list")
        scratch.json("run", "--once")
        (told,) = alarms(scratch, schema.FOREIGN)
        assert "table 'mine', view 'shown'" in told
    scratch.change("DROP TABLE mine")
    scratch.change("DROP VIEW shown")
    scratch.json("run", "--once")
    assert alarms(scratch, schema.FOREIGN) == []


# --- damaged lines of the journal, and no copies ---


def spoil(scratch, sql):
    """Change rows of memories as a failing disk does: no trigger sees it."""
    triggers = scratch.query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'memory'")
    for name, _ in triggers:
        scratch.change(f"DROP TRIGGER {name}")
    scratch.change(sql)
    for _, made in triggers:
        scratch.change(made)


def id_of(scratch, text):
    return next(one["id"] for one in scratch.json("facts", "list") if one["content"] == text)


def damage_line(scratch, text):
    """Damage the line of the journal that adds a fact."""
    path = scratch.state / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    number = max(number for number, line in enumerate(lines) if text.encode() in line)
    lines[number] = lines[number].replace(b'"crc": ', b'"crc": 1')
    path.write_bytes(b"".join(lines))


def test_a_damaged_line_of_the_journal_costs_only_the_rows_that_it_has(scratch):
    for text in (GRAZ, "Likes rye bread.", "Plays the oboe."):
        scratch.json("facts", "add", text)
    shoes, rye, oboe = (id_of(scratch, text) for text in (SHOES, "Likes rye bread.", "Plays the oboe."))
    damage_line(scratch, "Likes rye bread.")
    spoil(scratch, "UPDATE memory SET content = 'x' || content WHERE content NOT LIKE '%Graz%'")
    scratch.json("facts", "list")
    scratch.json("run", "--once")
    assert facts(scratch) == sorted([GRAZ, "Plays the oboe.", SHOES, "xLikes rye bread."])
    (told,) = alarms(scratch)
    assert f"4 rows may be newer than the journal; not repaired: {rye}" in told
    assert "of memory differed from copy and journal, and were repaired" in told
    assert (shoes in told, oboe in told) == (True, True)


def test_a_damaged_line_of_the_journal_reverts_no_change_that_only_it_has(scratch):
    scratch.json("facts", "add", GRAZ)
    scratch.json("run", "--once")
    shutil.rmtree(scratch.state / "backups")
    scratch.json("run", "--once")  # a copy that has the fact
    scratch.json("facts", "edit", id_of(scratch, GRAZ), "--content", "Lives in Linz.")
    scratch.json("facts", "add", "Plays the oboe.")
    damage_line(scratch, "Lives in Linz.")
    spoil(scratch, "UPDATE memory SET content = 'Wears size 34 shoes.' WHERE content LIKE 'Wears%'")
    for _ in range(2):
        scratch.json("run", "--once")
        assert facts(scratch) == sorted(["Lives in Linz.", "Plays the oboe.", SHOES])
    assert is_whole(scratch)


def test_a_repair_that_leaves_out_the_row_of_an_agent_adds_one(scratch):
    scratch.json("facts", "add", GRAZ)
    path = scratch.state / "journal.jsonl"
    text = path.read_text(encoding="utf-8").splitlines(keepends=True)
    number = max(number for number, line in enumerate(text) if '["agent"' in line)
    text[number] = text[number].replace('"crc": ', '"crc": 1')
    with in_process(scratch) as app:
        path.write_text("".join(text), encoding="utf-8")
        triggers = scratch.query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'agent'")
        for name, _ in triggers:
            scratch.change(f"DROP TRIGGER {name}")
        scratch.change("DELETE FROM agent")
        spoil(scratch, "DELETE FROM memory WHERE content LIKE '%Graz%'")
        for _, made in triggers:
            scratch.change(made)
        for _ in range(2):
            app.keeper.is_asked = True
            app.keeper.keep(app.engine, app.settings, app.clock)
            assert alarms(scratch, UNINSPECTED) == []
    assert facts(scratch) == sorted([SHOES, GRAZ])


def test_without_copies_the_journal_repairs_the_rows_that_it_has(scratch):
    scratch.json("facts", "add", GRAZ)
    shutil.rmtree(scratch.state / "backups")
    spoil(scratch, "UPDATE memory SET content = 'x' || content WHERE content LIKE '%Graz%'")
    scratch.json("facts", "add", "Plays the oboe.")
    assert facts(scratch) == sorted([GRAZ, "Plays the oboe.", SHOES])
    (told,) = alarms(scratch)
    assert "1 row of memory differed from copy and journal, and were repaired" in told


def test_without_copies_an_older_journal_reverts_nothing(scratch):
    journal = scratch.state / "journal.jsonl"
    scratch.json("facts", "add", GRAZ)
    older = journal.read_bytes()
    fact = id_of(scratch, GRAZ)
    scratch.json("facts", "edit", fact, "--content", "Lives in Linz.")
    shutil.rmtree(scratch.state / "backups")
    scratch.json("run", "--once")  # the copy has this change, so the database drops its record
    scratch.json("facts", "add", "Plays the oboe.")
    shutil.rmtree(scratch.state / "backups")
    journal.write_bytes(older)
    scratch.json("run", "--once")
    assert facts(scratch) == sorted(["Lives in Linz.", "Plays the oboe.", SHOES])


def test_without_copies_rows_of_an_older_version_in_the_journal_replace_nothing(scratch):
    def narrow(entries):
        for _, _, row in (image for one in entries for image in one["rows"] if image[0] == "memory"):
            row.pop("confidence")
        return entries

    before = scratch.query("SELECT * FROM memory ORDER BY id")
    Journal(scratch.state / "journal.jsonl", sealed=True).rewrite(narrow)
    shutil.rmtree(scratch.state / "backups")
    scratch.json("facts", "add", GRAZ)
    assert [row for row in before if row not in scratch.query("SELECT * FROM memory")] == []
    assert alarms(scratch) == []


# --- parts that somebody has changed in place ---

CHANGE = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ?"


def edit_schema(scratch, sql, *values):
    """Edit a row of the schema as text, as a person with another program can."""
    with contextlib.closing(load_library().connect(scratch.state / "memoryd.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        assert connection.execute(sql, values).rowcount
        (number,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(f"PRAGMA schema_version = {number + 1}")


@pytest.mark.parametrize("kind", ["TRIGGER", "Trigger", "trigger"])
def test_a_foreign_trigger_in_any_spelling_is_gone_when_it_is_reported_as_removed(scratch, kind):
    sql = "CREATE TRIGGER sqlite_evil AFTER INSERT ON memory BEGIN UPDATE memory SET content = 'EVIL'; END"
    edit_schema(scratch, "INSERT INTO sqlite_master VALUES (?, 'sqlite_evil', 'memory', 0, ?)", kind, sql)
    scratch.json("run", "--once")
    assert "trigger 'sqlite_evil' is not memoryd's and was removed" in alarms(scratch)[0]
    assert scratch.query("SELECT * FROM sqlite_master WHERE name = 'sqlite_evil'") == []
    scratch.json("facts", "add", GRAZ)
    assert facts(scratch) == sorted([SHOES, GRAZ])
    assert is_whole(scratch)


def test_a_mark_inside_a_literal_of_a_trigger_is_a_change_and_around_a_name_it_is_none(scratch):
    edit_schema(scratch, CHANGE, 'NEW."id"', "NEW.id", "memory_inserted")
    assert is_whole(scratch)
    edit_schema(scratch, CHANGE, "('memory'", "('mem\"ory'", "memory_updated")
    assert "trigger 'memory_updated'" in scratch.run("verify").stdout
    scratch.json("run", "--once")
    assert "missing in the database and rebuilt: trigger 'memory_updated'" in alarms(scratch)[0]
    assert is_whole(scratch)


DECLARED = "content VARCHAR NOT NULL"
CHANGES = {
    "check": ("memory", DECLARED, f"{DECLARED} CHECK(content NOT LIKE 'Never%')"),
    "letters": ("memory", DECLARED, f"{DECLARED} COLLATE NOCASE"),
    "ignored": ("memory", DECLARED, f"{DECLARED} ON CONFLICT IGNORE"),
    "key": (
        "audit",
        "memory_id VARCHAR NOT NULL",
        "memory_id VARCHAR NOT NULL REFERENCES memory(id) ON DELETE CASCADE",
    ),
    "no key": ("memory", ",\n  FOREIGN KEY(agent_id) REFERENCES agent (id)", ""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_constraint_of_a_table_is_named_with_what_helps(scratch, what):
    table, old, new = CHANGES[what]
    backup = scratch.root / "backup.tar.gz"
    scratch.json("backup", str(backup))
    edit_schema(scratch, CHANGE, old, new, table)
    for _ in range(2):
        (problem,) = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
        assert problem["what"] == f"has parts that differ from memoryd's schema: declaration of '{table}'"
        assert "restore a backup" in problem["hint"]
        scratch.json("run", "--once")
        assert alarms(scratch, schema.FOREIGN) == [f"the database {problem['what']}"]
    scratch.json("restore", str(backup))
    scratch.json("run", "--once")
    assert is_whole(scratch)


def test_an_error_of_a_changed_table_names_the_command_that_shows_it(scratch):
    edit_schema(scratch, CHANGE, *CHANGES["check"][1:], "memory")
    assert "memoryd verify" in scratch.json("facts", "add", "Never drives to Graz.", code=1)["hint"]


def test_a_database_whose_number_is_of_an_older_schema_is_restored_from_a_copy(scratch):
    scratch.json("facts", "add", GRAZ)
    scratch.change("PRAGMA user_version = 16")
    scratch.json("run", "--once")
    (told,) = alarms(scratch, alarming.DATABASE)
    assert "says that it has schema 16, but has column 'session.branch' of a newer one" in told
    assert facts(scratch) == sorted([SHOES, GRAZ])
    assert is_whole(scratch)


# --- rows that somebody has deleted ---


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("DELETE FROM memory", "a memory of the audit has no row"),
        ("DELETE FROM agent", "with a deleted row of 'agent'"),
        ("CREATE INDEX mine ON session (id); DELETE FROM session", "with a deleted row of 'session'"),
        ("DELETE FROM agent; DELETE FROM memory", "a memory of the audit has no row"),
    ],
)
def test_rows_that_another_program_deleted_are_named(scratch, sql, found):
    for statement in sql.split(";"):
        scratch.change(statement)
    problems = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
    assert any(found in one["what"] for one in problems)
    assert all("restore a backup" in one["hint"] for one in problems if found in one["what"])


def test_a_folder_of_copies_that_is_a_link_to_nothing_is_named(scratch):
    folder = scratch.state / "backups"
    shutil.rmtree(folder)
    folder.symlink_to(scratch.root / "absent")
    (problem,) = json.loads(scratch.run("--json", "verify").stdout)["data"]["problems"]
    assert (problem["what"], problem["where"]) == ("is a link to nothing", str(folder))
    assert "mount the disk" in problem["hint"]
