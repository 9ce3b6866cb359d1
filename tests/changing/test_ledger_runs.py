"""The ledger at work on a real workspace: imports, protection, duplicates, the time machine, verify."""

import json
import secrets
from datetime import timedelta
from functools import partial
from unittest.mock import patch

import pytest
from edited_world import NOW, OLD, World, through
from scratch import Scratch, filler, in_process, message, said

from memoryd.changing import authorship, commit, dedup, ledger_runs
from memoryd.clock import text_of
from memoryd.daemon.once import run_once
from memoryd.database import audit, query, sqlite
from memoryd.errors import RefusedError
from memoryd.files.durable import MovedError
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Add, apply
from memoryd.requests import waiting


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "scratch")
    with made.open():
        through(made.app)
        yield made


# --- import ---


def test_a_file_seen_for_the_first_time_becomes_memories_in_its_order(world):
    world.take()
    assert [(one.content, one.heading) for one in world.live()] == [
        ("an old one", ""),
        ("another old one, about tea", ""),
        ("never deploy on a Friday", "Rules"),
    ]
    assert {row[0] for row in world.audited()} == {"human"}
    assert world.text() == OLD
    assert world.problems() == []


def test_an_edit_keeps_identities_and_is_audited_as_the_persons(world):
    world.take()
    before = {memory.content: memory.id for memory in world.live()}
    world.write(OLD.replace("- an old one\n", "- a new one\n").replace("about tea", "about green tea"))
    world.take()
    after = {memory.content: memory.id for memory in world.live()}
    assert after["another old one, about green tea"] == before["another old one, about tea"]
    assert after["never deploy on a Friday"] == before["never deploy on a Friday"]
    assert "an old one" not in after
    assert world.problems() == []
    assert world.watch.take(world.agent)
    count = len(world.audited())
    world.take()
    assert len(world.audited()) == count  # nothing changed, nothing is audited


def test_a_file_is_imported_when_two_looks_agree_and_a_shortened_one_a_look_later(world):
    clock = [0.0]
    object.__setattr__(world.app.clock, "monotonic", lambda: clock[0])

    def look():
        clock[0] += 1
        world.watch.look()
        return len(world.live())

    assert [look(), look()] == [0, 3]
    world.write("- an old one\n")
    assert [look(), look(), look()] == [3, 3, 1]
    world.path.write_bytes(b"")  # truncated …
    assert [look(), look()] == [1, 1]
    world.path.write_bytes(b"- an old one\n- more\n")  # … and written
    assert [look(), look()] == [1, 2]
    assert world.scratch.query("SELECT count(*) FROM memory WHERE ended_as = 'deleted' AND content = 'an old one'") == [
        (0,)
    ]


@pytest.mark.parametrize(
    "begun",
    [
        "<<<<<<< HEAD\n- mine\n=======\n- theirs\n>>>>>>> branch\n",
        "- an old one\n<private>\n- mine\n",
        "- a <private> tag hides what stands in it\n",
    ],
)
def test_what_somebody_began_and_did_not_end_waits_with_an_alarm(world, begun):
    world.take()
    conflicted = OLD.replace("- an old one\n", begun)
    world.write(conflicted)
    world.take()
    assert world.alarms() == ["conflict"]
    assert len(world.live()) == 3
    world.scratch.append([*said(), filler()])
    run_once(world.app)
    assert world.text() == conflicted
    assert "waiting" in world.alarms()
    world.write(OLD)
    world.take()
    assert "conflict" not in world.alarms()


def test_a_job_takes_an_edit_over_before_it_writes(world):
    world.take()
    tea = world.id_of("another old one, about tea")
    world.write(OLD.replace("about tea", "about green tea"))
    world.sleep()
    assert world.id_of("another old one, about green tea") == tea
    assert world.problems() == []


def test_what_the_agents_own_tool_wrote_is_the_agents_and_says_where_it_did(world):
    world.take()
    at = NOW + timedelta(seconds=1)
    other = world.path.parent.with_name("by another name")
    other.symlink_to(world.path.parent)
    long = "- of a long call\n- of its end" + " and on" * 1000
    calls = [
        ("Write", {"file_path": str(other / "MEMORY.md"), "content": long}),
        ("Edit", {"file_path": str(world.path), "old_string": "x", "new_string": "- the agent's own line\n"}),
        ("Write", {"file_path": str(world.path.with_name("other.md")), "content": "- of another file, MEMORY.md\n"}),
        ("Write", {"file_path": "MEMORY.md", "content": "- never written\n"}),
    ]
    blocks = [{"type": "tool_use", "id": f"c{n}", "name": name, "input": i} for n, (name, i) in enumerate(calls)]
    refused = [{"type": "tool_result", "tool_use_id": "c3", "content": "The user doesn't want to proceed"}]
    world.scratch.append([message("assistant", blocks, at=at), message("user", refused, at=at)])
    run_once(world.app)
    world.write(
        f"{OLD}- the agent's own line\n- a person's\n- of another file, MEMORY.md\n- never written\n- of a long call\n"
    )
    world.take()
    told = world.scratch.query(
        "SELECT m.content, a.actor, m.sources <> '[]' FROM memory m JOIN audit a ON a.memory_id = m.id"
        " WHERE m.heading = 'Rules' ORDER BY m.position"
    )
    assert told == [
        ("never deploy on a Friday", "human", 0),
        ("the agent's own line", "agent-tool", 1),
        ("a person's", "human", 0),
        ("of another file, MEMORY.md", "human", 0),
        ("never written", "human", 0),
        ("of a long call", "agent-tool", 1),
    ]
    (source,) = next(one.sources for one in world.live() if one.sources)
    assert (source.origin, source.transcript.endswith("one.jsonl"), source.last_byte > source.first_byte) == (
        "assistant", True, True)  # fmt: skip
    assert world.problems() == []


LINE = 'Deploys: it\'s `make ship`, never "make all"'
FORMS = {"LINE": LINE, "SINGLE": LINE.replace("'", "'\\''"), "DOUBLE": LINE.replace('"', '\\"')}
PATCH = "*** Begin Patch\n*** Update File: MEMORY.md\n@@\n old\n"


@pytest.mark.parametrize(
    ("tool", "given", "actor"),
    [
        ("Bash", {"command": "cat >> MEMORY.md <<'EOF'\n- an aside\n- LINE\nEOF"}, "agent-tool"),
        ("Bash", {"command": "echo '- SINGLE' | tee -a ./MEMORY.md"}, "agent-tool"),
        ("Bash", {"command": 'printf "- an aside\\n- DOUBLE\\n" >> MEMORY.md'}, "agent-tool"),
        ("Bash", {"command": 'sed -i "$ a - DOUBLE" MEMORY.md'}, "agent-tool"),
        ("shell", {"command": ["bash", "-lc", "echo '- SINGLE' >> MEMORY.md"]}, "agent-tool"),
        ("Bash", {"command": "python3 -c \"open('MEMORY.md', 'a').write('- DOUBLE\\n')\""}, "agent-tool"),
        ("apply_patch", f"{PATCH}+- LINE\n*** End Patch", "agent-tool"),
        ("exec_command", {"cmd": f"apply_patch <<'E'\n{PATCH}+- LINE\n*** End Patch\nE"}, "agent-tool"),
        ("apply_patch", f"{PATCH} - LINE\n-- LINE\n+- x\n*** End Patch", "human"),
        ("Bash", {"command": "echo '- SINGLE' >> NOTES.md"}, "human"),
        ("Bash", {"command": "echo '- more SINGLEs' >> MEMORY.md"}, "human"),
        ("Write", {"file_path": "NOTES.md", "content": "MEMORY.md\n- LINE"}, "human"),
        ("edit", {"filePath": "MEMORY.md", "oldString": "x", "newString": "- LINE"}, "agent-tool"),
        ("edit", {"filePath": "NOTES.md", "oldString": "x", "newString": "MEMORY.md\n- LINE"}, "human"),
    ],
)
def test_what_a_command_or_a_patch_wrote_is_the_agents(world, tool, given, actor):
    world.take()
    for name, form in FORMS.items():
        given = json.loads(json.dumps(given).replace(name, json.dumps(form)[1:-1]))
    call = {"type": "tool_use", "id": "c", "name": tool, "input": given}
    world.scratch.append([message("assistant", [call], at=NOW + timedelta(seconds=1))])
    run_once(world.app)
    world.write(f"{OLD}- {LINE}\n")
    world.take()
    told = world.scratch.query(
        "SELECT a.actor FROM memory m JOIN audit a ON a.memory_id = m.id WHERE m.content = ?", LINE
    )
    assert told == [(actor,)]


def test_whether_the_agent_was_working(world):
    world.take()
    calls = [{"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "make"}}]
    world.scratch.append(
        [message("user", "Build it.", at=NOW), message("assistant", calls, at=NOW + timedelta(hours=2))]
    )
    run_once(world.app)

    def worked(first: int, last: int, agent: str = "demo") -> bool:
        since, until = (text_of(NOW + timedelta(hours=hours)) for hours in (first, last))
        with sqlite.begin_read(world.app.engine) as connection:
            return authorship.was_working(connection, agent, since, until)

    assert worked(1, 3)
    assert not worked(0, 1)
    assert not worked(3, 4)
    assert not worked(1, 3, "another")


# --- protection ---


def test_a_protected_bullet_that_an_edit_takes_away_goes_back_and_is_reported(world):
    world.take()
    rule = world.id_of("never deploy on a Friday")
    assert world.own("protect", rule)["state"] == "succeeded"
    assert world.text() == OLD  # not told in the file
    world.write(OLD.replace("- never deploy on a Friday\n", ""))
    world.take()
    assert world.text().rstrip("\n") == OLD.rstrip("\n")
    assert world.id_of("never deploy on a Friday") == rule
    assert world.alarms() == ["constitutional"]
    assert ("memoryd", "put back", rule) in world.audited()
    backups = list(world.scratch.workspace.glob(".continuum/memory/backup/*/MEMORY.md"))
    assert [path.read_bytes().decode() for path in backups] == [OLD.replace("- never deploy on a Friday\n", "")]
    assert world.problems() == []


def test_a_protected_bullet_that_an_edit_rewords_goes_back_and_other_edits_stand(world):
    world.take()
    rule = world.id_of("never deploy on a Friday")
    world.own("protect", rule)
    world.write(OLD.replace("never deploy", "always deploy").replace("- an old one\n", "- an old one\n- mine\n"))
    world.take()
    assert world.text() == OLD.replace("- an old one\n", "- an old one\n- mine\n")
    assert world.problems() == []


def test_an_unprotected_one_may_be_removed_and_restored(world):
    world.take()
    rule = world.id_of("never deploy on a Friday")
    world.own("protect", rule)
    world.own("unprotect", rule)
    world.write(OLD.replace("- never deploy on a Friday\n", ""))
    world.take()
    assert [one.id for one in world.live() if one.id == rule] == []
    assert world.own("restore", rule)["state"] == "succeeded"
    assert world.text().rstrip("\n") == OLD.rstrip("\n")
    assert world.problems() == []


def test_what_cannot_be_done_is_declined_and_not_tried_again(world):
    world.take()
    row = world.own("protect", "core_ffffffff")
    assert (row["state"], row["attempt"]) == ("declined", 1)
    assert world.alarms() == []


# --- duplicates ---


def add(world, operations):
    with sqlite.begin_write(world.app.engine) as connection:
        now = world.app.clock.text()
        changes = apply({}, operations, agent_id="demo", now=now, new_hex=lambda: secrets.token_hex(4))
        audit.record(connection, changes, AuditStamp(now, "demo", "memoryd"))


def test_of_equal_bullets_and_facts_one_stays_and_no_text_is_told(world):
    words = "the very same thing"
    world.write(f"- {words}\n- other\n- {words}\n\nmine\n\n- {words.upper()}\n")
    world.take()
    add(world, [Add(MemoryKind.FACT, words), Add(MemoryKind.FACT, words), Add(MemoryKind.FACT, "alone")])
    row = world.do(ledger_runs.DEDUP)
    assert row["state"] == "succeeded"
    assert row["receipt"]["dedup"] == {"core": 1, "fact": 1, "journal": 0}
    assert words not in str(row)
    assert world.text() == f"- {words}\n- other\n\nmine\n\n- {words.upper()}\n"
    assert world.scratch.query("SELECT count(*) FROM memory WHERE kind = 'fact' AND deleted_at IS NULL") == [(2,)]
    assert world.scratch.query("SELECT DISTINCT ended_as FROM memory WHERE deleted_at IS NOT NULL") == [("superseded",)]
    assert world.problems() == []
    assert world.do(ledger_runs.DEDUP)["state"] == "skipped"


def test_a_protected_copy_stays_whichever_is_older(world):
    world.write("- same\n- same\n")
    world.take()
    younger = world.live()[1].id
    world.own("protect", younger)
    world.do(ledger_runs.DEDUP)
    assert [one.id for one in world.live()] == [younger]
    assert world.text() == "- same\n"


def test_a_copy_that_somebody_has_added_to_since_is_none_any_more(world, monkeypatch):
    world.write("- green tea\n- green tea\n")
    world.take()
    found = dedup.run

    def edited_behind(*arguments, **named):
        done = found(*arguments, **named)
        world.write("- green tea\n- green tea\nand words of mine\n")
        return done

    monkeypatch.setattr(dedup, "run", edited_behind)
    assert world.do(ledger_runs.DEDUP)["state"] == "succeeded"
    assert world.text() == "- green tea\n- green tea\nand words of mine\n"
    assert len(world.live()) == 2
    assert world.problems() == []


# --- the time machine ---


def test_a_run_is_rolled_back_exactly_and_a_second_time_is_nothing(world):
    world.take()
    before = (world.rows(), world.text(), world.scratch.query("SELECT * FROM watermark"))
    run_id = world.sleep()
    assert world.text() != OLD
    row = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert row["state"] == "succeeded", row
    rows = [one for one in world.rows() if one[8] != "undone"]
    assert (rows, world.text(), world.scratch.query("SELECT * FROM watermark")) == before
    assert all("Trimmed" not in text for text in world.scratch.dailies().values())
    assert world.problems() == []
    again = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert (again["state"], again["why"]) == ("skipped", "it was rolled back before")


def test_a_watermark_that_was_rolled_back_does_not_come_back_at_the_next_start(world):
    run_id = world.sleep()
    assert world.scratch.query("SELECT seq FROM watermark") == [(7,)]
    world.do(ledger_runs.ROLLBACK, run=run_id)
    world.app.close()
    with world.open():
        assert world.scratch.query("SELECT seq FROM watermark") == []


def test_a_rollback_is_rolled_back(world):
    world.take()
    run_id = world.sleep()
    slept = (world.rows(), world.text(), world.scratch.query("SELECT * FROM watermark"))
    first = world.do(ledger_runs.ROLLBACK, run=run_id)
    second = world.do(ledger_runs.ROLLBACK, run=first["id"])
    assert second["state"] == "succeeded", second
    assert (world.rows(), world.text(), world.scratch.query("SELECT * FROM watermark")) == slept
    assert world.problems() == []


def test_the_blocks_that_a_rollback_had_cut_come_back_with_what_was_appended_since(world):
    world.take()
    path = world.scratch.workspace / "memory" / "2026-03-04.md"
    path.parent.mkdir()
    path.write_bytes(b"# Daily Memory: 2026-03-04\n\nmine, with no newline")
    run_id = world.sleep()
    slept = path.read_bytes()
    first = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert path.read_bytes() == b"# Daily Memory: 2026-03-04\n\nmine, with no newline"
    with path.open("ab") as file:
        file.write(b"\n\nmine, later\n")
    assert world.do(ledger_runs.ROLLBACK, run=first["id"])["state"] == "succeeded"
    assert path.read_bytes() == slept + b"\n\nmine, later\n"


def test_of_a_file_that_a_run_made_nothing_is_left(world):
    world.path.unlink()
    run_id = world.sleep()
    assert world.text()
    assert world.do(ledger_runs.ROLLBACK, run=run_id)["state"] == "succeeded"
    assert not world.path.exists()
    assert world.problems() == []


def test_a_change_is_taken_back_whole_whichever_of_its_entries_is_named(world):
    world.take()
    run_id = world.sleep()
    ids = [row[0] for row in world.scratch.query("SELECT id FROM audit WHERE run_id = ? ORDER BY id", run_id)]
    slept = (world.rows(), world.text(), world.scratch.dailies())
    assert len(ids) > 2
    for number in ids:
        assert world.do(ledger_runs.ROLLBACK, to=number)["state"] == "skipped"
        assert (world.rows(), world.text(), world.scratch.dailies()) == slept


def test_a_later_edit_elsewhere_stays_and_one_of_the_same_memory_refuses(world):
    world.take()
    run_id = world.sleep()
    ours = [one for one in world.live() if one.sources]
    world.write(world.text().replace("- an old one\n", "- an old one\n- mine, later\n"))
    world.take()
    row = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert row["state"] == "succeeded", row
    assert "- mine, later\n" in world.text()
    assert all(one.content not in world.text() for one in ours)
    assert world.problems() == []


def test_a_memory_changed_since_refuses_the_rollback_with_the_list(world):
    world.take()
    run_id = world.sleep()
    ours = next(one for one in world.live() if one.sources)
    world.write(world.text().replace(ours.content, ours.content + " indeed"))
    world.take()
    before = (world.rows(), world.text())
    row = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert row["state"] == "declined"
    assert ours.id in row["why"]
    assert (world.rows(), world.text()) == before


def test_everything_behind_an_entry_of_the_audit_is_taken_back(world):
    world.take()
    ((mark,),) = world.scratch.query("SELECT max(id) FROM audit")
    before = (world.rows(), world.text())
    world.sleep()
    world.write(world.text().replace("- an old one\n", ""))
    world.take()
    row = world.do(ledger_runs.ROLLBACK, to=mark)
    assert row["state"] == "succeeded", row
    rows = [one for one in world.rows() if one[8] != "undone"]
    assert rows == before[0]
    assert sorted(line for line in world.text().splitlines() if line.startswith("- ")) == sorted(
        line for line in OLD.splitlines() if line.startswith("- ")
    )
    assert world.problems() == []


def test_a_rollback_takes_away_the_files_that_the_run_had_made(world):
    world.path.unlink()
    world.take()
    run_id = world.sleep()
    assert world.path.exists()
    (daily,) = world.scratch.workspace.glob("memory/*.md")
    row = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert row["state"] == "succeeded", row
    assert (world.path.exists(), daily.exists()) == (False, False)
    assert world.problems() == []
    again = world.do(ledger_runs.ROLLBACK, run=row["id"])
    assert again["state"] == "succeeded", again
    assert world.path.exists()


def test_a_file_the_run_had_made_stays_where_somebody_has_written_to_it(world):
    world.path.unlink()
    world.take()
    run_id = world.sleep()
    (daily,) = world.scratch.workspace.glob("memory/*.md")
    with daily.open("a") as file:
        file.write("\nmine\n")
    world.path.write_text("Words of mine.\n\n" + world.text())
    world.take()
    assert world.do(ledger_runs.ROLLBACK, run=run_id)["state"] == "succeeded"
    assert "Trimmed" not in daily.read_text()
    assert daily.read_text().endswith("\nmine\n")
    assert "Words of mine." in world.text()


def test_a_rollback_gives_a_session_its_summary_and_its_last_sleep_back(world):
    world.take()

    def kept():
        return world.scratch.query("SELECT t.summary, plain(t.messages, NULL), s.slept_at FROM session s LEFT JOIN"
            " session_summary t ON t.session_id = s.id")  # fmt: skip

    ((mark,),) = world.scratch.query("SELECT max(id) FROM audit")
    world.sleep()
    one = kept()
    world.scratch.append([message("user", "We moved the orders to the host named Marvin.", 31), filler(minute=32)])
    object.__setattr__(world.app.clock, "now", lambda: NOW + timedelta(minutes=20))
    (second,) = run_once(world.app)["runs"]
    two = kept()
    assert one != two
    back = world.do(ledger_runs.ROLLBACK, run=second)
    assert kept() == one
    world.do(ledger_runs.ROLLBACK, run=back["id"])
    assert kept() == two
    assert world.do(ledger_runs.ROLLBACK, to=mark or 0)["state"] == "succeeded"
    assert kept() == [("", "[]", None)]


# --- verify ---


TAMPERINGS = {
    "a row": ("UPDATE memory SET content = 'something else' WHERE id = ?", "memory {}"),
    "a flag": ("UPDATE memory SET constitutional = 1 WHERE id = ?", "memory {}"),
    "a row taken away": ("DELETE FROM memory WHERE id = ?", "memory {}"),
    "a state": ("UPDATE content SET text = text || ' ' WHERE text LIKE '%' || ? || '%'", "content "),
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_tampering_is_named(world, how):
    world.take()
    memory_id = world.id_of("an old one")
    sql, where = TAMPERINGS[how]
    world.scratch.change(sql, memory_id)
    found = world.problems()
    assert any(one["where"].startswith(where.format(memory_id)) for one in found), found
    assert "an old one" not in str(found)


def test_an_entry_changed_behind_the_triggers_is_named(world):
    world.take()
    for sql in ("DROP TRIGGER audit_stays", "UPDATE audit SET actor = 'somebody' WHERE id = 2"):
        world.scratch.change(sql)
    assert [one["where"].split()[:2] for one in world.problems()] == [["memoryd.db"], ["audit", "2"]]


def test_a_block_of_a_daily_file_that_was_changed_or_lost_is_named_and_what_others_add_is_not(world):
    run_id = world.sleep()
    (daily,) = world.scratch.workspace.glob("memory/*.md")
    whole = daily.read_bytes()
    daily.write_bytes(b"mine\n" + whole + b"\n## Mine\n\nmore\n")
    assert world.problems() == []
    daily.write_bytes(whole.replace(b"Ottilie", b"Otto"))
    assert [one["where"] for one in world.problems()] == [f"{daily} (run {run_id})"]
    daily.unlink()
    (told,) = world.problems()
    assert "gone" in told["what"]
    assert "Ottilie" not in str(told)
    daily.write_bytes(whole)
    assert world.problems() == []


def test_a_bullet_the_ledger_does_not_know_is_a_problem(world):
    world.take()
    world.write(OLD + "- unknown\n")
    assert [one["where"] for one in world.problems()] == [str(world.path)]


def test_the_file_keeps_its_mode_when_something_goes_back(world):
    world.take()
    rule = world.id_of("never deploy on a Friday")
    world.own("protect", rule)
    world.write("- mine\r\n")
    world.path.chmod(0o640)
    world.take()
    assert world.text() == "- mine\r\n\r\n## Rules\r\n\r\n- never deploy on a Friday\r\n"
    assert world.path.stat().st_mode & 0o777 == 0o640
    assert rule in {one.id for one in world.live()}


# --- secrets ---

TOKEN = "ghp_" + "x7K2mQ9vB4nT8wZ1cR5yL3pD6sF0hJgAeUiO"


def test_a_secret_that_a_person_keeps_in_the_file_stays_there_and_is_not_stored(world):
    text = OLD + f"- the deploy token is {TOKEN}\n"
    world.write(text)
    world.take()
    assert world.problems() == []
    entries = len(world.audited())
    world.write(text + "- and this\n")
    world.take()
    assert len(world.audited()) == entries + 2  # the new bullet and the file, nothing about the redacted one
    world.sleep()
    assert world.problems() == []
    assert f"- the deploy token is {TOKEN}\n- and this\n" in world.text()
    stored = [path for path in world.scratch.state.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert [path.name for path in stored] == []
    world.do(ledger_runs.DEDUP)
    assert TOKEN in world.text()


def test_a_memory_that_is_redacted_later_is_audited_and_its_earlier_states_are_erased(world):
    world.take()
    memory_id = world.id_of("an old one")
    with sqlite.begin_write(world.app.engine) as connection:
        ((rowid,),) = connection.exec_driver_sql("SELECT rowid FROM memory WHERE id = ?", (memory_id,)).all()
        connection.exec_driver_sql(
            "UPDATE memory SET content = '[REDACTED:x]', content_hash = 'h' WHERE rowid = ?", (rowid,)
        )
        audit.record_redaction(connection, rowid, at=world.app.clock.text(), actor="memoryd")
    assert ("memoryd", "redact", memory_id) in world.audited()
    assert world.scratch.query("SELECT count(*) FROM content WHERE text LIKE '%\"an old one\"%'") == [(0,)]
    assert [one for one in world.problems() if "MEMORY.md" not in one["where"]] == []


def test_a_job_does_not_take_a_file_that_is_being_saved_for_the_whole(world):
    world.take()
    before = {one.id for one in world.live()}
    world.path.write_bytes(b"")  # truncated, and not written yet
    world.sleep()
    assert before < {one.id for one in world.live()}
    ours = world.text()
    assert "- an old one\n" not in ours
    world.write(OLD + "\n" + ours)  # the editor writes what it had
    world.take()
    assert before < {one.id for one in world.live()}
    assert world.problems() == []


def test_a_file_that_was_emptied_for_good_is_taken_over_though_a_job_wrote_to_it_meanwhile(world):
    world.take()
    before = {one.id for one in world.live()}
    world.path.write_bytes(b"")
    world.sleep()
    world.take()
    assert not before & {one.id for one in world.live()}
    assert world.problems() == []


def test_a_rollback_does_not_go_by_rows_that_somebody_changed_by_hand(world):
    world.take()
    run_id = world.sleep()
    ours = next(one for one in world.live() if one.sources)
    world.scratch.change("UPDATE memory SET importance = 0.123 WHERE id = ?", ours.id)
    before = world.text()
    row = world.do(ledger_runs.ROLLBACK, run=run_id)
    assert row["state"] == "queued"
    assert "does not match the audit" in row["error"]
    assert world.text() == before


# --- accidents ---


@pytest.mark.parametrize("left", [None, "# Memory\n"])
def test_a_file_that_was_lost_is_told_of_with_the_way_back(world, left):
    world.take()
    before = world.live()
    assert len(before) > 1
    world.path.unlink()
    if left is not None:
        world.write(left)
    world.take()
    assert world.live() == []
    ((text,),) = world.scratch.query("SELECT text FROM alarm WHERE kind = 'emptied' AND cleared_at IS NULL")
    assert f"took {len(before)} of {len(before)} memories away" in text
    number = int(text.partition("--to ")[2].split()[0])
    assert world.do(ledger_runs.ROLLBACK, to=number)["state"] == "succeeded"
    assert [one.id for one in world.live()] == [one.id for one in before]
    world.write(world.text() + "- one more\n")
    world.take()
    assert world.scratch.query("SELECT 1 FROM alarm WHERE kind = 'emptied' AND cleared_at IS NULL") == []
    assert world.problems() == []


def test_what_a_job_cannot_do_by_itself_is_a_failure_that_is_tried_again_and_told(world):
    def step(name):
        if name == "before:answer":
            raise RefusedError("no backend of this name", "llm.provider")

    world.app.runner.step = step
    run_id = world.sleep()
    ((state, error),) = world.scratch.query("SELECT state, error FROM job_run WHERE id = ?", run_id)
    assert state in {"queued", "dead"}
    assert "no backend of this name" in error


def test_an_edit_is_taken_over_before_duplicates_are_looked_for(tmp_path):
    scratch = Scratch(tmp_path / "scratch", ingest={"settle": "20ms"})
    path = scratch.workspace / "MEMORY.md"
    path.write_text("- said twice\n", encoding="utf-8")
    with in_process(scratch) as app:
        run_once(app)
        assert scratch.query("SELECT content FROM memory WHERE deleted_at IS NULL") == [("said twice",)]
    scratch.write_config(ingest={"settle": "60s"})  # "a moment ago" on a busy machine too
    with in_process(scratch) as app:
        path.write_text("- said twice\n- said twice\n", encoding="utf-8")
        asked = waiting.request(app.engine, app.clock, "demo", ledger_runs.DEDUP)
        app.runner.run_next(only=asked)
        ((state, error),) = scratch.query("SELECT state, error FROM job_run WHERE id = ?", asked)
        assert (state, "MEMORY.md was edited a moment ago" in error) == ("queued", True)
    scratch.write_config(ingest={"settle": "20ms"})
    # By hand, where no daemon runs, the command itself waits until it has settled.
    done = scratch.json("job", "run", "dedup")
    assert (done["id"], done["state"], done["receipt"]["dedup"]["core"]) == (asked, "succeeded", 1)
    assert path.read_text(encoding="utf-8") == "- said twice\n"


def test_a_run_that_is_asked_for_again_as_before_is_the_same_run(tmp_path):
    with in_process(Scratch(tmp_path / "scratch")) as app:
        run_once(app)
        ask = partial(waiting.request, app.engine, app.clock, "demo", "dream", key="dream:demo")
        asked = ask({"force": True, "flushed": ["run-a"]})
        with sqlite.begin_write(app.engine) as connection:
            query.run(connection, "UPDATE job_run SET state = 'running' WHERE id = ?", asked)
        assert ask({"force": True, "flushed": []}) == asked
        with pytest.raises(RefusedError, match="with other options"):
            ask({"force": True, "lookback_days": 3})


def test_the_log_is_emptied_of_a_plan_that_was_made_in_vain(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    (scratch.workspace / "MEMORY.md").write_text("- lives in Graz\n", encoding="utf-8")
    with in_process(scratch) as app, patch.object(sqlite, "empty_log") as emptied:
        run_once(app)
        ((memory_id,),) = scratch.query("SELECT id FROM memory")
        emptied.reset_mock()
        for operation, moved in (("protect", []), ("unprotect", [MovedError("was changed")])):
            options = {"operations": [[operation, memory_id]]}
            asked = waiting.request(app.engine, app.clock, "demo", ledger_runs.EDIT, options)
            with patch.object(commit, "_apply_files", side_effect=[*moved, None]):
                app.runner.run_next(only=asked)
            assert scratch.query("SELECT state FROM job_run WHERE id = ?", asked) == [("succeeded",)]
            assert emptied.call_count == len(moved)


def test_run_once_takes_an_edit_over_that_was_made_a_moment_ago(tmp_path):
    scratch = Scratch(tmp_path / "scratch")
    path = scratch.workspace / "MEMORY.md"
    with in_process(scratch) as app:
        path.write_text("- written a moment ago\n", encoding="utf-8")
        run_once(app)
        assert scratch.query("SELECT content FROM memory") == [("written a moment ago",)]
        assert scratch.query("SELECT kind FROM alarm") == []
