"""Databases of other programs: read beside a live writer, without a trace, each turn once and only when finished."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_world import World, lines, message
from opencode_world import SCHEMA, OpenCode
from places import WORLDS

from memoryd.agent_programs import PROGRAMS
from memoryd.database.library import load_library
from memoryd.reading import discovery, store
from memoryd.transcripts import openclaw_database, opencode

NAME = "opencode.db"
QUIET = 120.0


@pytest.fixture
def world(tmp_path):
    with World(tmp_path, {"pattern": "sessions/**/*"}) as made:
        yield made


@pytest.fixture
def program(world):
    made = OpenCode(world.path(NAME))
    yield made
    made.close()


def spoken(world: World) -> list[tuple[str, str]]:
    found = world.query("SELECT origin, text FROM turn WHERE text <> '' ORDER BY id")
    return [(row["origin"], row["text"]) for row in found]


def fingerprints(world: World) -> dict[str, str]:
    found = [path for path in world.sessions.iterdir() if path.suffix != ".db-shm"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_a_live_writer_in_a_second_process_loses_nothing_and_waits_for_nothing(world):
    count = 60
    command = [sys.executable, str(WORLDS / "opencode_world.py"), str(world.path(NAME)), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        while writer.stdout.readline() != "done\n":
            world.poll()
            if len(world.rows()) > count:
                world.restart()
        world.poll()
        for name in "xy":
            expected = [f"{who} ses_{name} {number}" for number in range(count) for who in ("prompt", "answer")]
            rows = world.query("SELECT text FROM turn WHERE session_id = ? AND text <> '' ORDER BY seq", f"ses_{name}")
            assert [row["text"] for row in rows] == expected
        assert world.alarms() == []
        writer.stdin.close()
        assert writer.wait() == 0


@pytest.mark.parametrize("state", ["open", "closed", "rollback"])
def test_a_database_is_read_without_a_trace(world, tmp_path, state):
    program = OpenCode(world.path(NAME), mode="DELETE" if state == "rollback" else "WAL")
    program.exchange(program.session(), 0)
    if state == "closed":
        program.close()
    before = fingerprints(world)
    world.poll()
    world.restart()
    world.poll()
    assert [text for _, text in spoken(world)] == ["prompt ses_a 0", "answer ses_a 0"]
    assert fingerprints(world) == before
    if state != "closed":
        program.exchange("ses_a", 1)
        world.poll()
        assert len(spoken(world)) == 4
        program.close()


def test_a_database_is_found_without_a_trace(tmp_path):
    path = tmp_path / ".local/share/opencode" / NAME
    path.parent.mkdir(parents=True)
    program = OpenCode(path)
    program.exchange(program.session(), 0)
    program.close()
    (found,) = discovery.find_sessions(PROGRAMS["opencode"], tmp_path, {})
    assert found.folder == "/home/ann/shop"
    assert list(path.parent.iterdir()) == [path]


def test_what_lies_beside_a_database_is_never_read_as_lines(world, program):
    program.exchange(program.session(), 0)
    database, log = world.path(NAME), world.path(f"{NAME}-wal")
    os.utime(database, ns=(1, 1))  # its log, which was written last, is looked at first
    log.write_bytes(log.read_bytes() + b"\n" + message("in the log") + b"\n")
    world.poll()
    assert not [path for path in world.transcripts() if path.endswith("-wal")]
    assert "in the log" not in world.texts()
    (world.sessions / "notes").mkdir()
    world.write("notes-journal", lines([message("of no database")]))
    world.poll()
    assert "of no database" in world.texts()
    assert world.alarms() == []


def test_an_answer_is_taken_when_it_is_finished_and_later_prompts_wait_for_it(world, program):
    session = program.session()
    program.prompt(session, 1, "one")
    answer = program.begin_answer(session, 2, "hal")
    program.prompt(session, 3, "queued")
    world.poll()
    assert spoken(world) == [("user", "one")]
    world.restart()
    program.end_answer(answer, "half of it")
    world.later(QUIET)  # nobody answers the queued prompt
    world.poll()
    assert spoken(world) == [("user", "one"), ("assistant", "half of it"), ("user", "queued")]


def test_an_answer_that_a_crash_left_open_is_taken_when_the_next_one_follows(world, program):
    session = program.session()
    program.begin_answer(session, 1, "cut o")
    program.prompt(session, 2, "again")
    program.begin_answer(session, 3, "she")
    world.poll()
    assert spoken(world) == [("assistant", "cut o"), ("user", "again")]


def test_the_last_answer_of_a_program_that_never_came_back_is_taken_the_next_day(world, program):
    program.begin_answer(program.session(), 1, "cut o")
    world.later(3600)
    world.poll()
    assert spoken(world) == []
    world.later(86400)
    world.poll()
    assert spoken(world) == [("assistant", "cut o")]


def test_rows_that_a_migration_wrote_in_no_order_are_read_in_theirs(world, program):
    session = program.session()
    for number in range(250):
        program.message(session, number, "user")
    rows = program.connection.execute("SELECT * FROM message ORDER BY substr(id, -1), id").fetchall()
    program.run("DELETE FROM message")
    for row in rows:
        program.run("INSERT INTO message VALUES (?, ?, ?, ?, ?)", *row)
        program.part(row[0], 0, "text", text=row[0][-3:])
    world.later(QUIET)
    world.poll()
    assert [text for _, text in spoken(world)] == [f"{number:03}" for number in range(250)]
    program.exchange(session, 1000)
    world.restart()
    world.poll()
    assert len(spoken(world)) == 252


def test_an_import_that_is_cut_short_again_and_again_goes_on_where_it_was(world, program, monkeypatch):
    monkeypatch.setattr(store, "FLUSH_TURNS", 40)
    monkeypatch.setattr(opencode, "WINDOW", 7)
    program.run("BEGIN")
    for name in "abc":
        session = program.session(name)
        for number in range(40):
            program.exchange(session, number)
    program.run("COMMIT")
    scans = 0
    while len(spoken(world)) < 240:
        world.restart()
        world.ingest.find()
        world.ingest.read_waiting(0)
        world.ingest.flush()
        if not scans:
            assert world.query("SELECT DISTINCT session_id FROM turn") == [{"session_id": "ses_c"}], (
                "the last written goes first"
            )
        scans += 1
        assert scans < 50
    assert scans > 3
    for name in "abc":
        rows = world.query("SELECT text FROM turn WHERE session_id = ? AND text <> '' ORDER BY seq", f"ses_{name}")
        expected = [f"{who} ses_{name} {number}" for number in range(40) for who in ("prompt", "answer")]
        assert [row["text"] for row in rows] == expected


@pytest.mark.parametrize("change", ["vacuum", "copy", "cut"])
def test_a_database_that_was_rebuilt_is_read_again_and_nothing_is_stored_twice(world, program, change):
    sessions = [program.session(name) for name in "ab"]
    for number in range(3):
        for session in sessions:
            program.exchange(session, number)
    world.poll()
    if change == "vacuum":
        program.run("DELETE FROM message WHERE session_id = 'ses_a' AND id <= 'msg_ses_a_000003'")
        program.run("VACUUM")
    elif change == "cut":
        program.run("DELETE FROM message WHERE id LIKE '%_000005'")
    else:
        program.run("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copyfile(world.path(NAME), world.path("copy.db"))
        world.path("copy.db").replace(world.path("other.db"))
    program.exchange("ses_a", 3)
    world.poll()
    assert Counter(text for _, text in spoken(world)).most_common(1)[0][1] == 1
    assert len(spoken(world)) == 14


def test_what_a_session_says_of_itself_is_kept(world, program):
    parent = program.session("main")
    child = program.session("child", parent=parent, folder="/home/ann/shop/lib")
    program.prompt(child, 1, "look it up")
    answer = program.begin_answer(child, 2, "")
    program.part(answer, 1, "reasoning", text="hm")
    program.part(answer, 2, "tool", tool="bash", callID="c1",
                 state={"status": "completed", "input": {"command": "ls"}, "output": "a.txt"})  # fmt: skip
    program.end_answer(answer, "found", tokens={"input": 10, "output": 5, "cache": {"read": 100, "write": 1}})
    world.poll()
    (row,) = world.query("SELECT native_id, parent_id, folder, format FROM session")
    assert row == {"native_id": child, "parent_id": parent, "folder": "/home/ann/shop/lib", "format": "opencode"}
    rows = world.query("SELECT origin, kind, text, usage, tool_call_id AS c, sidechain FROM turn ORDER BY seq")
    assert [tuple(row.values())[:5] for row in rows] == [
        ("subagent", "message", "look it up", None, None),
        ("subagent", "message", "found", None, None),
        ("subagent", "tool_call", 'bash {"command":"ls"}', None, "c1"),
        ("subagent", "message", "", 116, None),
        ("tool", "tool_result", "a.txt", None, "c1"),
    ]
    assert all(row["sidechain"] for row in rows)


def test_an_answer_in_a_dialog_is_the_persons(world, program):
    session = program.session()
    asked = {"question": "Which one?", "options": [{"label": "Red"}, {"label": "Blue"}]}
    answer = program.begin_answer(session, 1, "")
    state = {"input": {"questions": [asked]}, "output": "ok", "metadata": {"answers": [["Red", "no green please"]]}}
    program.part(answer, 1, "tool", tool="question", callID="c1", state=state)
    program.part(answer, 2, "tool", tool="mcp_ask", callID="c2", state=state)
    program.end_answer(answer, "")
    world.poll()
    assert [one for one in spoken(world) if one[0] == "user"] == [
        ("user", 'asked "Which one?", chose "Red"'),
        ("user", "no green please"),
    ]


def test_of_a_command_only_what_was_typed_behind_its_name_is_the_persons(world, program):
    session = program.session()
    mark = {"memoryd": {"arguments": '"the labels"'}}
    for number, metadata in enumerate((mark, {"memoryd": {"arguments": ""}}, {"memoryd": 7})):
        message = program.message(session, 2 * number + 1, "user")
        program.part(message, 0, "text", text=f"We always print the labels as PDF. {number}", metadata=metadata)
        program.end_answer(program.begin_answer(session, 2 * number + 2, ""), "Done.")
    world.poll()
    said = [(row["origin"], row["text"]) for row in world.query("SELECT origin, text FROM turn ORDER BY seq")]
    assert [one for one in said if one[0] == "user"] == [
        ("user", "the labels"),
        ("user", "We always print the labels as PDF. 2"),
    ]
    assert [one for one in said if one[0] == "system"] == [
        ("system", f"We always print the labels as PDF. {number}") for number in range(2)
    ]


def test_a_compaction_is_marked_and_its_figure_is_not_the_context(world, program):
    session = program.session()
    program.exchange(session, 0)
    program.part(program.message(session, 10, "user"), 0, "compaction", auto=True)
    summary = program.begin_answer(session, 11, "")
    program.end_answer(summary, "what was done", summary=True, tokens={"total": 90_000})
    program.part(program.message(session, 12, "user"), 0, "text", synthetic=True, text="Continue")
    program.exchange(session, 7)
    world.poll()
    rows = world.query("SELECT origin, kind, text, usage FROM turn ORDER BY seq")[3:-3]
    assert [tuple(row.values()) for row in rows] == [
        ("system", "compaction", "", None),
        ("assistant", "summary", "what was done", None),
        ("system", "message", "Continue", None),
    ]
    assert '"context": 1007' in world.query("SELECT gauge FROM session")[0]["gauge"]


def test_only_sessions_of_the_project_are_read(tmp_path):
    with World(tmp_path, {"pattern": "sessions/*.db", "project": tmp_path / "shop"}) as world:
        program = OpenCode(world.path(NAME))
        for name, folder in (("in", tmp_path / "shop/lib"), ("out", tmp_path / "other")):
            program.exchange(program.session(name, folder=str(folder)), 0)
        world.poll()
        assert {row["id"] for row in world.query("SELECT id FROM session")} == {"ses_in"}
        assert all("ses_in" in text for _, text in spoken(world))
        assert world.alarms() == []
        program.exchange("ses_out", 1)
        world.poll()
        assert world.alarms() == [], "another project's session is no fault of the database"
        assert world.query("SELECT note FROM transcript WHERE path LIKE '%.db'") == [{"note": None}]
        program.close()


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("CREATE TABLE cookies (a);", "no table session"),
        (SCHEMA.replace("part ", "piece "), "no table part"),
        (SCHEMA.replace("directory", "folder"), "no column directory in session"),
        ("CREATE VIEW session AS SELECT 1; CREATE VIEW message AS SELECT 1; CREATE VIEW part AS SELECT 1;", "no table"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_database_of_another_layout_is_named_and_the_others_are_read(tmp_path, schema, why, named):
    source = {"pattern": "sessions/*.db", "format": "opencode"} if named else {"pattern": "sessions/*.db"}
    with World(tmp_path, source, {"pattern": "sessions/*.jsonl"}) as world:
        OpenCode(world.path(NAME), schema=schema).close()
        world.write("chat.jsonl", message("read") + b"\n")
        world.poll()
        world.restart()
        world.poll()
        assert world.texts() == ["read"]
        assert why in world.transcript(NAME)["note"]
        assert [alarm["kind"] for alarm in world.alarms()] == (["unreadable"] if named else [])


def test_a_layout_that_an_update_changed_is_told_to_the_person(world, program):
    program.exchange(program.session(), 0)
    world.poll()
    program.run("ALTER TABLE part RENAME TO piece")
    world.poll()
    assert "no table part" in world.alarms()[0]["text"]
    program.run("ALTER TABLE piece RENAME TO part")
    program.exchange("ses_a", 1)
    world.poll()
    assert world.alarms() == []
    assert len(spoken(world)) == 4


def test_a_damaged_database_is_reported_and_read_when_it_is_whole(world):
    world.path(NAME).write_bytes(b"SQLite format 3\0" + b"\x01" * 2000)
    world.poll()
    assert [alarm["kind"] for alarm in world.alarms()] == ["unreadable"]
    world.path(NAME).unlink()
    program = OpenCode(world.path(NAME))
    program.exchange(program.session(), 0)
    world.poll()
    assert world.alarms() == []
    assert len(spoken(world)) == 2
    program.close()


def test_the_cursors_of_a_database_agree_with_what_is_verified(world, program):
    program.exchange(program.session(), 0)
    world.poll()
    assert world.query('SELECT path FROM transcript WHERE "offset" > size OR "offset" < 0') == []


def test_a_hint_about_the_log_is_one_about_the_database(world, program):
    world.poll()
    program.exchange(program.session(), 0)
    log = world.path(f"{NAME}-wal")
    assert world.ingest.means(str(log))
    world.hint(log)
    assert len(spoken(world)) == 2


def test_texts_that_could_not_be_scanned_are_read_again(world, program):
    program.exchange(program.session(), 0)
    scan = world.scanner.scan

    def fail(texts, *more):
        return [None if text.startswith("answer") else one for text, one in zip(texts, scan(texts, *more), strict=True)]

    world.scanner.scan = fail
    world.poll()
    assert spoken(world) == [("user", "prompt ses_a 0")]
    assert world.query("SELECT withheld FROM turn WHERE withheld IS NOT NULL") == [{"withheld": "unscanned"}]
    world.restart()
    world.scanner.scan = scan
    world.later(700)
    world.poll()
    assert spoken(world) == [("user", "prompt ses_a 0"), ("assistant", "answer ses_a 0")]
    assert world.query("SELECT withheld FROM turn WHERE withheld IS NOT NULL") == []


# --- OpenClaw ---

EVENTS = """
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER,
    event_zstd BLOB, PRIMARY KEY (session_id, seq)) STRICT;
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, spawned_by TEXT);
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT);
"""
SESSION = "019e44d4-6ecf-7c1d-96ab-582effc13411"


class OpenClaw:
    """Writes a session's events, one transaction each."""

    def __init__(self, world: World) -> None:
        self.connection = load_library().connect(str(world.path("agent.sqlite")), isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.executescript(EVENTS)
        self.count = 0

    def event(
        self, kind: str, parent: str | None = None, *, packed: bool = False, session: str = SESSION, **more: Any
    ) -> None:
        self.count += 1
        stamp = f"2026-09-01T10:00:{self.count:02}.000Z"
        value = {"type": kind, "id": f"e{self.count}", "parentId": parent, "timestamp": stamp, **more}
        text = json.dumps(value)
        given = (None, zstandard.compress(text.encode())) if packed else (text, None)
        self.connection.execute(
            "INSERT INTO transcript_events VALUES (?, ?, ?, 0, ?)", (session, self.count, *given)
        )  # fmt: skip

    def message(self, role: str, text: str, parent: str | None = None, **more: Any) -> None:
        content = [{"type": "text", "text": text}]
        self.event("message", parent, message={"role": role, "content": content, **more.pop("message", {})}, **more)


@pytest.fixture
def claw(world):
    made = OpenClaw(world)
    yield made
    made.connection.close()


def test_a_reading_of_events_ends_at_its_size_and_the_next_goes_on(world, claw, monkeypatch):
    monkeypatch.setattr(openclaw_database, "_LARGEST", 1)  # what unpacks to megabytes each is never held all at once
    claw.event("session", version=3)
    for number in range(20):
        claw.message("user", f"message {number}", f"e{number + 1}", packed=True)
    sizes = []
    window = openclaw_database._in_order
    monkeypatch.setattr(openclaw_database, "_in_order", lambda rows: sizes.append(len(rows)) or window(rows))
    world.poll()
    assert [text for _, text in spoken(world)] == [f"message {number}" for number in range(20)]
    assert max(sizes) == openclaw_database._PORTION


def test_events_of_openclaw_are_read_as_they_come_compressed_or_not(world, claw):
    claw.event("session", version=3, cwd="/home/ann/shop")
    claw.message("user", "fix it", "e1", packed=True)
    claw.message("assistant", "done", "e2", message={"usage": {"totalTokens": 500}, "stopReason": "stop"})
    world.poll()
    assert spoken(world) == [("user", "fix it"), ("assistant", "done")]
    world.restart()
    claw.event("compaction", "e3", summary="what was done", firstKeptEntryId="e3", tokensBefore=500)
    claw.message("user", "more", "e4")
    world.poll()
    assert spoken(world)[2:] == [("assistant", "what was done"), ("user", "more")]
    assert world.query("SELECT id, folder, format FROM session") == [
        {"id": SESSION, "folder": "/home/ann/shop", "format": "openclaw"}
    ]
    assert '"compactions": 1' in world.query("SELECT gauge FROM session")[0]["gauge"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_branch_that_openclaw_left_is_no_longer_said(world, claw, restart):
    claw.event("session", version=3, cwd="/home/ann/shop")
    claw.message("user", "stays", "e1")
    claw.message("user", "left", "e2")
    world.poll()
    if restart:
        world.restart()
    claw.message("user", "instead", "e2")
    world.poll()
    assert [text for _, text in spoken(world)] == ["stays", "instead"]


def test_a_transcript_that_openclaw_wrote_anew_loses_and_repeats_nothing(world, claw):
    claw.event("session", version=3, cwd="/home/ann/shop")
    for number in range(3):
        claw.message("user", f"text {number}", f"e{number + 1}")
    world.poll()
    rows = claw.connection.execute("SELECT * FROM transcript_events ORDER BY seq").fetchall()
    claw.connection.execute("DELETE FROM transcript_events")
    for row in [rows[0], *rows[2:]]:
        claw.connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?)", row)
    claw.message("user", "text 3", "e4")
    world.poll()
    assert Counter(text for _, text in spoken(world)) == {f"text {number}": 1 for number in range(4)}


def test_a_subagent_of_openclaw_knows_who_started_it(world, claw):
    child = SESSION.replace("0", "1")
    claw.connection.execute(
        "INSERT INTO session_windows VALUES (?, 'agent:main:subagent:1', 'agent:main:main')", (child,)
    )
    claw.connection.execute("INSERT INTO session_nodes VALUES ('agent:main:main', ?)", (SESSION,))
    claw.message("user", "look it up", session=child)
    world.poll()
    assert world.query("SELECT id, parent_id FROM session") == [{"id": child, "parent_id": SESSION}]
    assert spoken(world) == [("subagent", "look it up")]


def test_an_event_that_cannot_be_unpacked_costs_no_neighbour(world, claw):
    claw.message("user", "one")
    claw.connection.execute("INSERT INTO transcript_events VALUES (?, 50, NULL, 0, x'010203')", (SESSION,))
    bomb = zstandard.compress(b"[" * (64 << 20))
    claw.connection.execute("INSERT INTO transcript_events VALUES (?, 51, NULL, 0, ?)", (SESSION, bomb))
    claw.count = 51
    claw.message("user", "two", "e1")
    world.poll()
    assert [text for _, text in spoken(world)] == ["one", "two"]


cells = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=8), st.binary(max_size=8),
    st.sampled_from(["ses_a", "msg", '{"role":"user"}', '{"type":"text","text":"x"}', '{"role":"assistant","time":5}',
                     '{"type":"tool","state":{"output":"o","metadata":{"answers":[[1]]}},"tool":"question","callID":"c"}']),
)  # fmt: skip


@settings(max_examples=20)
@given(
    st.lists(st.tuples(cells, cells, cells, cells), max_size=6),
    st.lists(st.tuples(cells, cells, cells, cells), max_size=6),
    st.lists(st.tuples(cells, cells, cells, cells), max_size=3),
)
def test_arbitrary_tables_raise_nothing_and_are_read_once(tmp_path_factory, messages, parts, sessions):
    with World(tmp_path_factory.mktemp("tables"), {"pattern": "sessions/*"}) as world:
        connection = load_library().connect(str(world.path("agent.sqlite")), isolation_level=None)
        connection.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd)")
        connection.execute("CREATE TABLE session_windows (session_id, session_key, spawned_by)")
        connection.executemany("INSERT INTO transcript_events VALUES ('ses_a', ?, ?, ?)", [row[1:] for row in parts])
        connection.executemany("INSERT INTO session_windows VALUES (?, ?, ?)", [row[1:] for row in sessions])
        connection.close()
        connection = load_library().connect(str(world.path(NAME)), isolation_level=None)
        connection.executescript(
            "CREATE TABLE session (id, parent_id, directory, time_created);"
            "CREATE TABLE message (id, session_id, time_created, time_updated, data);"
            "CREATE TABLE part (id, message_id, time_updated, data)"
        )
        connection.executemany("INSERT INTO message VALUES (?, 'ses_a', ?, ?, ?)", messages)
        connection.executemany("INSERT INTO part VALUES (?, ?, ?, ?)", parts)
        connection.executemany("INSERT INTO session VALUES (?, ?, ?, ?)", sessions)
        connection.close()
        world.poll()
        world.later(86400)
        world.poll()
        assert world.alarms() == []
        before = world.texts()
        world.restart()
        world.poll()
        assert world.texts() == before


@settings(max_examples=20)
@given(st.binary(max_size=4096))
def test_arbitrary_bytes_behind_the_mark_of_a_database_raise_nothing(tmp_path_factory, data):
    with World(tmp_path_factory.mktemp("bytes"), {"pattern": "sessions/*"}) as world:
        world.write(NAME, b"SQLite format 3\0" + data)
        world.write("chat.jsonl", message("read") + b"\n")
        world.poll()
        assert world.texts() == ["read"]
        assert "sqlite" in world.transcript(NAME)["note"]
        assert all("Error" not in alarm["text"] for alarm in world.alarms())
