"""Ingest keeps no secret: not in texts, ids or names, however the transcript comes; and loses nothing over it."""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ingest_world import OwnRules, World, claude, lines

from memoryd.changing.rescrub import Rescrub
from memoryd.config import ScrubSettings
from memoryd.database import sqlite, turns
from memoryd.files.journal import Journal
from memoryd.files.log import get_logger
from memoryd.jobs.sleep import CONSUMER
from memoryd.reading import cursor as reading
from memoryd.reading import ingest, store
from memoryd.reading.scrubbing import hash_name
from memoryd.transcripts.turn import Origin, Role, Turn, TurnKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memoryd.scrub.finding import ScrubbedText
    from memoryd.scrub.policy import Policy

SECRET = "ghp_" + "aB3dE5fG7h" * 3 + "iJ9kL1"
NOW = "NOW-2026-01-02T03-04.md"


class Failing(OwnRules):
    """Cannot scan texts that hold a word; notes what it is asked, and may be made to wait."""

    def __init__(self) -> None:
        self.word = "unscannable"
        self.asked: list[str] = []
        self.down = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def scan(self, texts: Sequence[str], policy: Policy, progress: Any = lambda: None) -> list[ScrubbedText | None]:
        assert self.may_answer.wait(30)
        self.asked += texts
        found = super().scan(texts, policy, progress)
        return [None if self.down or self.word in text else one for text, one in zip(texts, found, strict=True)]


@pytest.fixture
def scanner():
    return Failing()


@pytest.fixture
def world(tmp_path, scanner):
    with World(tmp_path, scanner=scanner) as made:
        yield made


def redacted(text: str) -> str:
    return re.sub(r"\[REDACTED:[a-z0-9-]+\]", "[…]", text)


def everything(world: World) -> bytes:
    """All bytes of the database, its log included."""
    return b"".join(path.read_bytes() for path in world.root.glob("memoryd.db*"))


def withheld(world: World) -> list[str | None]:
    return [row["withheld"] for row in world.query("SELECT withheld FROM turn ORDER BY seq")]


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_a_text_is_stored_without_its_secret(world):
    world.write("a.jsonl", lines([claude(1, f"use {SECRET} for it"), claude(2, "done")]))
    world.poll()
    assert [redacted(text) for text in world.texts()] == ["use […] for it", "done"]
    assert SECRET.encode() not in everything(world)
    world.check_spans()


def test_a_line_cut_inside_a_secret_is_redacted_when_it_is_whole(world):
    line = claude(1, f"use {SECRET} for it") + b"\n"
    cut = line.index(b"ghp_") + 20
    world.write("a.jsonl", line[:cut])
    world.poll()
    assert world.texts() == []
    world.append("a.jsonl", line[cut:])
    world.poll()
    assert [redacted(text) for text in world.texts()] == ["use […] for it"]
    assert SECRET[:20].encode() not in everything(world)


def test_ids_and_names_with_a_secret_are_kept_as_hashes_and_known_again(world):
    record = json.loads(claude(1, "hello"))
    record["uuid"] = f"id-{SECRET}"
    call = json.loads(claude(2, ""))
    call["type"] = "assistant"
    call["message"] = {
        "role": "assistant", "id": f"msg {SECRET}", "model": f"model {SECRET}",
        "content": [{"type": "tool_use", "id": f"toolu {SECRET}", "name": f"run {SECRET}", "input": {"key": SECRET}}],
    }  # fmt: skip
    path = world.write("a.jsonl", lines(json.dumps(one).encode() for one in (record, call)))
    world.poll()
    assert SECRET.encode() not in everything(world)
    assert [row["record_id"] for row in world.query("SELECT record_id FROM turn WHERE text = 'hello'")] == [
        hash_name(f"id-{SECRET}")
    ]
    count = len(world.query("SELECT id FROM turn"))
    world.restart()
    path.write_bytes(b" \n" + path.read_bytes())
    world.poll()
    assert len(world.query("SELECT id FROM turn")) == count


def test_a_type_that_is_a_secret_is_counted_as_another(world):
    world.write("a.jsonl", lines([claude(1, "one"), *(typed(name) for name in (SECRET, "x", "file-history", "x"))]))
    world.poll()
    (row,) = world.query("SELECT skipped FROM transcript")
    assert json.loads(row["skipped"]) == {"other": 1, "x": 2, "file-history": 1}
    assert SECRET.encode() not in everything(world)
    world.append("a.jsonl", lines([typed(SECRET)]))
    world.poll()
    (row,) = world.query("SELECT skipped FROM transcript")
    assert json.loads(row["skipped"])["other"] == 2


def test_a_type_is_scanned_with_the_texts_of_its_batch_so_that_it_waits_for_no_other(world, scanner, monkeypatch):
    scan, threads = scanner.scan, {}

    def scan_noted(texts, *more):
        threads.update(dict.fromkeys(texts, threading.current_thread().name))
        return scan(texts, *more)

    monkeypatch.setattr(scanner, "scan", scan_noted)
    world.write("a.jsonl", lines([claude(1, "one"), typed("file-history")]))
    world.poll()
    assert (threads["one"], threads["file-history"]) == ("scan", "scan")


def typed(name: str) -> bytes:
    return json.dumps({"type": name, "sessionId": "s"}).encode()


def rescrub(world: World, **more: Any) -> Rescrub:
    given = {
        "go_on": lambda: None,
        "journal": Journal(world.root / "journal"),
        "log": get_logger("memoryd.test"),
        **more,
    }
    return Rescrub(
        engine=world.engine, state_dir=world.root, scrubber=world.scrubber, workspaces={}, everybody=True,
        **({"stuck": list, "renamed": lambda: None} | given),
    )  # fmt: skip


def test_a_type_that_was_stored_before_is_redacted_later(world):
    world.write("a.jsonl", lines([claude(1, "one")]))
    world.poll()
    with sqlite.begin_write(world.engine) as connection:
        connection.exec_driver_sql("UPDATE transcript SET skipped = ?", (json.dumps({SECRET: 3}),))
    rescrub(world).run()
    assert world.query("SELECT skipped FROM transcript") == [{"skipped": json.dumps({hash_name(SECRET): 3})}]
    assert SECRET.encode() not in everything(world)


def test_an_id_that_changes_is_told_at_once(world):
    world.scrub = ScrubSettings(secrets="off")
    world.ingest.configure(world.settings())
    world.write(f"{SECRET}.jsonl", lines([claude(1, "one")]))
    world.poll()
    world.scrub = ScrubSettings()
    world.ingest.configure(world.settings())
    told = []

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        rescrub(world, go_on=stop, renamed=lambda: told.append(world.query("SELECT id FROM session"))).run()
    assert told == [[{"id": hash_name(SECRET)}]]


def test_session_and_folder_are_kept_without_a_secret(world, tmp_path):
    folder = tmp_path / "ann" / ".continuum" / "memory"
    folder.mkdir(parents=True)
    head = f"---\nsession_id: sess_{SECRET}\nproject_path: /srv/{SECRET}/shop\nparent_session: {SECRET}\n---\n"
    (folder / NOW).write_text(f"{head}## User: hello\n")
    world.poll()
    world.later(10)
    world.poll()
    (session,) = world.query("SELECT * FROM session")
    assert session["id"] == session["native_id"] == hash_name(f"sess_{SECRET}")
    assert redacted(session["folder"]) == "/srv/[…]/shop"
    assert SECRET.encode() not in everything(world)


def test_a_transcript_whose_name_holds_a_secret_is_not_read_and_reported_with_the_name_masked(world, monkeypatch):
    said = []
    for level in ("debug", "info", "warning", "error"):
        for log in (world.ingest.log, world.ingest.unreadable.log):
            monkeypatch.setattr(type(log), level, lambda *_, **values: said.append(repr(values)), raising=False)
    world.write(f"a-{SECRET}.jsonl", lines([claude(1, "hello")]))
    world.write("b.jsonl", lines([claude(2, "there")]))
    world.poll()
    world.poll()
    assert world.texts() == ["there"]
    (alarm,) = world.alarms()
    assert alarm["kind"] == "unreadable"
    assert redacted(alarm["subject"]) == str(world.path("a-[…].jsonl"))
    assert "secret" in alarm["text"]
    assert said
    assert SECRET not in repr(said)
    assert SECRET.encode() not in everything(world)
    world.path(f"a-{SECRET}.jsonl").rename(world.path("a.jsonl"))
    world.poll()
    assert sorted(world.texts()) == ["hello", "there"]
    assert world.alarms() == []


def test_a_policy_to_skip_keeps_the_turn_without_its_text(world):
    world.scrub = ScrubSettings(secrets="skip")
    world.ingest.configure(world.settings())
    world.write("a.jsonl", lines([claude(1, f"use {SECRET}"), claude(2, "done")]))
    world.poll()
    assert world.texts() == ["done"]
    assert withheld(world) == ["skipped", None]
    assert world.query("SELECT turns FROM session") == [{"turns": 1}]
    assert world.alarms() == []


def test_new_settings_bring_a_new_policy(world):
    world.scrub = ScrubSettings(secrets="off")
    world.ingest.configure(world.settings())
    world.write("a.jsonl", lines([claude(1, f"use {SECRET}")]))
    world.poll()
    assert world.texts() == [f"use {SECRET}"]
    world.scrub = ScrubSettings()
    world.ingest.configure(world.settings())
    world.append("a.jsonl", lines([claude(2, f"use {SECRET}")]))
    world.poll()
    assert redacted(world.texts()[1]) == "use […]"


def test_the_watchdog_is_told_of_each_part_that_was_scanned(world):
    told = []
    world.ingest.progress = lambda: told.append(len(world.rows()))
    world.write("a.jsonl", lines([claude(1, "one")]))
    source = world.ingest.sources[-1]
    world.ingest.look(source, str(world.path("a.jsonl")))
    told.clear()
    world.ingest.flush()
    assert told == [0]
    world.append("a.jsonl", lines([claude(2, "two")]))
    world.ingest.look(source, str(world.path("a.jsonl")))
    world.ingest.pass_on()
    told.clear()
    world.ingest.finish()
    assert told == [1]


# --- documents --------------------------------------------------------------------------------------------------------


def now_file(world: World, text: str) -> Path:
    folder = world.root / "ann" / ".continuum" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NOW
    path.write_text(text)
    return path


def settled(world: World) -> None:
    world.poll()
    world.later(10)
    world.poll()


@pytest.mark.parametrize("restart", [False, True])
def test_a_now_file_saved_with_half_a_secret_then_whole(world, restart):
    now_file(world, f"## User: hello\nuse {SECRET[:20]}")
    world.poll()
    world.later(1)
    world.poll()
    for _ in range(2):
        if restart:
            world.restart()
        now_file(world, f"## User: hello\nuse {SECRET}\nand then\n")
        settled(world)
    text = "\n".join(world.texts())
    assert [redacted(line) for line in text.split("\n")] == ["hello", "use […]", "and then"]
    assert SECRET.encode() not in everything(world)


def test_redacted_lines_are_known_again_after_a_restart(world):
    now_file(world, f"## User: use {SECRET}\nhello\n")
    settled(world)
    first = world.texts()
    world.restart()
    now_file(world, f"## User: use {SECRET}\nhello\nand more\n")
    settled(world)
    assert world.texts() == [*first, "and more"]


def test_lines_are_known_again_when_the_policy_has_become_stricter(world):
    world.scrub = ScrubSettings(secrets="off")
    world.ingest.configure(world.settings())
    now_file(world, f"## User: use {SECRET}\nhello\n")
    settled(world)
    first = world.texts()
    world.scrub = ScrubSettings()
    world.ingest.configure(world.settings())
    now_file(world, f"## User: use {SECRET}\nhello\nand more\n")
    settled(world)
    assert world.texts() == [*first, "and more"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_policy_to_skip_drops_the_entry_of_a_document(world, restart):
    world.scrub = ScrubSettings(secrets="skip")
    world.ingest.configure(world.settings())
    now_file(world, f"## User: hello\n\n## Agent: use {SECRET}\nfor it\n\n## User: thanks\n")
    settled(world)
    assert world.texts() == ["hello", "thanks"]
    if restart:
        world.restart()
    now_file(world, f"## User: hello\n\n## Agent: use {SECRET}\nfor it\n\n## User: thanks\nand bye\n")
    settled(world)
    assert world.texts() == ["hello", "thanks", "and bye"]


def test_a_document_that_could_not_be_read_again_is_not_given_up(world, scanner):
    path = now_file(world, "## User: hello\nunscannable\n")
    scanner.word = "no more"
    world.poll()
    world.later(10)
    source = next(one for one in world.ingest.sources if one.format == "now")
    world.ingest.look(source, str(path))
    scanner.word = "unscannable"
    world.ingest.flush()
    for seconds in (0, 100, 200, 400):
        world.later(seconds)
        world.poll()
        assert withheld(world) == ["unscanned"]
    scanner.word = "no more"
    world.later(1000)
    world.poll()
    assert world.texts() == ["hello\nunscannable"]


def test_a_document_that_says_something_else_by_now_has_lost_what_was_not_scanned(world, scanner):
    path = now_file(world, "## User: hello\nunscannable\n")
    scanner.word = "no more"
    world.poll()
    world.later(10)
    source = next(one for one in world.ingest.sources if one.format == "now")
    world.ingest.look(source, str(path))
    scanner.word = "unscannable"
    world.ingest.flush()
    now_file(world, "## User: another\n")
    for seconds in (10, 100, 200):
        world.later(seconds)
        world.poll()
    assert withheld(world)[0] == "lost"


def test_a_document_with_an_entry_that_cannot_be_scanned_is_read_when_it_can(world, scanner):
    now_file(world, "## User: hello\nunscannable\n")
    settled(world)
    assert world.texts() == []
    assert [alarm["kind"] for alarm in world.alarms()] == ["unreadable"]
    scanner.word = "no more"
    world.later(100)
    world.poll()
    assert world.texts() == ["hello\nunscannable"]
    assert world.alarms() == []


# --- what cannot be scanned -------------------------------------------------------------------------------------------


def test_what_cannot_be_scanned_is_kept_without_its_text_and_fetched_later(world, scanner):
    world.write("a.jsonl", lines([claude(1, "one"), claude(2, "unscannable two"), claude(3, "three")]))
    world.poll()
    assert world.texts() == ["one", "three"]
    assert withheld(world) == [None, "unscanned", None]
    assert b"unscannable two" not in everything(world)
    (alarm,) = world.alarms()
    assert (alarm["kind"], alarm["text"].split()[0]) == ("unscanned", "1")
    (before,) = world.query("SELECT turns, gauge FROM session")
    scanner.word = "no more"
    world.later(100)
    world.poll()
    rows = world.query("SELECT seq, text, tokens, withheld FROM turn ORDER BY seq")
    assert [row["text"] for row in rows] == ["one", "unscannable two", "three"]
    assert withheld(world) == [None, None, None]
    (after,) = world.query("SELECT turns, gauge, last_seq FROM session")
    assert (before["turns"], after["turns"], after["last_seq"]) == (2, 3, 3)
    tails = [json.loads(row["gauge"])["tail_bytes"] for row in (before, after)]
    assert tails[1] - tails[0] == len("unscannable two")
    assert world.alarms() == []
    world.check_spans()


def with_id(number: int, text: str, record_id: str) -> bytes:
    return json.dumps(json.loads(claude(number, text)) | {"uuid": record_id}).encode()


def test_while_ids_cannot_be_scanned_their_records_wait(world, scanner):
    records = lines([with_id(1, "one", "rec-1-abcdef"), with_id(2, "two", "rec-2-abcdef")])
    world.scrubber.names([str(world.path("a.jsonl")), "/home/ann/shop", "a"])
    scanner.down = True
    path = world.write("a.jsonl", records)
    world.poll()
    world.later(61)
    world.poll()
    assert world.query("SELECT id FROM turn") == []
    (told,) = world.alarms()
    assert (told["kind"], told["subject"]) == ("unscanned", "unreadable")
    scanner.down = False
    world.later(300)
    world.poll()
    world.write("b.jsonl", path.read_bytes())
    world.poll()
    assert world.query("SELECT record_id, text FROM turn ORDER BY seq") == [
        {"record_id": "rec-1-abcdef", "text": "one"},
        {"record_id": "rec-2-abcdef", "text": "two"},
    ]
    assert world.alarms() == []


def test_one_alarm_tells_that_no_name_can_be_scanned_however_many_transcripts_wait(world, scanner):
    scanner.down = True
    for number in range(5):
        world.write(f"{number}.jsonl", lines([claude(number, "one")]))
    world.poll()
    (told,) = world.alarms()
    assert (told["kind"], "transcripts wait" in told["text"]) == ("unscanned", True)
    scanner.down = False
    world.later(61)
    world.poll()
    assert len(world.texts()) == 5
    assert world.alarms() == []


def test_only_the_transcript_waits_whose_ids_cannot_be_scanned(world, scanner):
    world.write("a.jsonl", lines([with_id(1, "one", "rec-1-unscannable")]))
    world.write("b.jsonl", lines([with_id(2, "two", "rec-2-abcdef")]))
    world.poll()
    assert world.texts() == ["two"]
    scanner.word = "no more"
    world.append("b.jsonl", lines([claude(3, "three")]))
    world.poll()
    assert world.texts() == ["two", "three"]
    world.later(91)
    world.poll()
    assert sorted(world.texts()) == ["one", "three", "two"]
    world.check_spans()


def test_an_id_that_also_names_a_skipped_record_stays_out_if_its_second_scan_fails(world, monkeypatch):
    scan, asked = world.scrubber.names, []

    def scan_once(given, *more):
        asked.append(SECRET in given)
        return {SECRET: None} if SECRET in given and asked.count(True) > 1 else scan(given, *more)

    monkeypatch.setattr(world.scrubber, "names", scan_once)
    monkeypatch.setattr(ingest, "FLUSH_BYTES", 2)  # so that the turn is scanned before the batch is complete
    world.write("a.jsonl", lines([with_id(1, "one", SECRET), typed(SECRET)]))
    world.poll()
    assert asked.count(True) == 2
    assert world.query("SELECT record_id FROM turn") == [{"record_id": hash_name(SECRET)}]
    assert SECRET.encode() not in everything(world)


def test_an_empty_turn_waits_for_no_scan():
    turn = Turn("an id", 0, Role.ASSISTANT, Origin.ASSISTANT, TurnKind.MESSAGE, "")
    batch = store.IngestBatch(found=[reading.FoundTurn(reading.Cursor("ann", "/a", 1, 1), turn, 0, 1, b"")])
    batch.take_scanned([None], {"an id": "another"})
    (found,) = batch.found
    assert (found.turn.record_id, found.withheld) == ("another", None)


def test_a_compaction_that_was_passed_stays_where_it_happened(world, scanner):
    compaction = json.loads(claude(2, "")) | {
        "type": "system", "subtype": "compact_boundary", "content": "unscannable two",
    }  # fmt: skip
    world.write("a.jsonl", lines([claude(1, "one"), json.dumps(compaction).encode(), claude(3, "three")]))
    world.poll()
    (session,) = [row["id"] for row in world.query("SELECT id FROM session")]
    with sqlite.begin_write(world.engine) as connection:
        connection.exec_driver_sql(
            "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, ?, 3, 'x')", (session, CONSUMER)
        )
    scanner.word = "no more"
    world.later(100)
    world.poll()
    assert world.query("SELECT seq, kind, text FROM turn WHERE seq = 2") == [
        {"seq": 2, "kind": "compaction", "text": "unscannable two"}
    ]


def test_each_start_tries_again_and_later_tries_are_further_apart(world, scanner):
    world.write("a.jsonl", lines([claude(1, "unscannable")]))
    world.poll()
    asked = []
    for seconds in (0, 61, 61, 61, 61):
        scanner.asked.clear()
        world.later(seconds)
        world.poll()
        asked.append(scanner.asked.count("unscannable"))
    assert asked == [0, 1, 0, 1, 0]
    scanner.asked.clear()
    world.restart()
    world.poll()
    assert "unscannable" in scanner.asked


def test_a_turn_that_was_passed_while_it_had_no_text_comes_back_at_the_end(world, scanner):
    world.write("a.jsonl", lines([claude(1, "one"), claude(2, "unscannable two"), claude(3, "three")]))
    world.poll()
    (session,) = [row["id"] for row in world.query("SELECT id FROM session")]
    with sqlite.begin_write(world.engine) as connection:
        connection.exec_driver_sql(
            "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, ?, 3, 'x')", (session, CONSUMER)
        )
    scanner.word = "no more"
    world.later(100)
    world.poll()
    with sqlite.begin_read(world.engine) as connection:
        left = turns.stored_turns(connection, session, after=3)
        assert turns.count_unslept(connection, session, after=3) == 1
    assert [(turn.seq, turn.text) for turn in left] == [(4, "unscannable two")]
    assert session in world.ingest.changed
    world.check_spans()


def test_a_turn_that_an_open_run_is_about_to_pass_comes_back_at_the_end(world, scanner):
    world.write("a.jsonl", lines([claude(1, "unscannable one"), claude(2, "two")]))
    world.poll()
    (session,) = [row["id"] for row in world.query("SELECT id FROM session")]
    with sqlite.begin_write(world.engine) as connection:
        connection.exec_driver_sql(
            'INSERT INTO job_run (id, kind, agent_id, session_id, actor, "trigger", state, options, created_at,'
            " scheduled_for, attempt, fence, cancel_requested, tokens_in, tokens_out, receipt)"
            " VALUES ('r', 'sleep', 'ann', ?, 'm', 'm', 'running', '{\"upto\": 2}', 'x', 'x', 1, 1, 0, 0, 0, '{}')",
            (session,),
        )  # fmt: skip
    scanner.word = "no more"
    world.later(100)
    world.poll()
    assert [(row["seq"], row["text"]) for row in world.query("SELECT seq, text FROM turn ORDER BY seq")] == [
        (2, "two"),
        (3, "unscannable one"),
    ]


def test_a_text_that_went_before_it_could_be_scanned_is_lost_and_said_to_be(world, scanner):
    path = world.write("a.jsonl", lines([claude(1, "unscannable"), claude(2, "two")]))
    world.poll()
    path.write_bytes(lines([claude(3, "another file altogether, longer than the first was" * 5)]))
    scanner.word = "no more"
    world.later(100)
    world.poll()
    world.later(100)
    world.poll()
    assert withheld(world)[0] == "lost"
    assert world.alarms() == []


@pytest.mark.parametrize("way", ["copied", "rewritten"])
def test_a_record_that_is_met_again_brings_its_text(world, scanner, way):
    path = world.write("a.jsonl", lines([claude(1, "unscannable"), claude(2, "two")]))
    world.poll()
    scanner.word = "no more"
    data = path.read_bytes()
    if way == "copied":
        world.write("b.jsonl", data)
    else:
        path.write_bytes(b"\n" + data)
    world.poll()
    assert sorted(world.texts()) == ["two", "unscannable"]
    assert len(world.query("SELECT id FROM turn")) == 2


def test_two_versions_that_cannot_be_scanned_are_not_taken_for_other_records(world, scanner):
    path = world.write("a.jsonl", lines([claude(1, "unscannable old")]))
    world.poll()
    path.write_bytes(lines([claude(1, "unscannable new")]))
    world.poll()
    scanner.word = "no more"
    world.later(100)
    world.poll()
    assert world.texts() == ["unscannable new"]


# --- one batch is scanned while the next is read ----------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(store, "FLUSH_TURNS", 2)


def test_reading_goes_on_while_a_batch_is_scanned(world, scanner, small):
    for name in "abc":
        world.write(f"{name}.jsonl", lines([claude(ord(name), f"{name} one"), claude(1000 + ord(name), "two")]))
    source = world.ingest.sources[-1]
    for name in "abc":
        world.ingest.scrubber.name(str(world.path(f"{name}.jsonl")))
    world.ingest.scrubber.name("/home/ann/shop")
    for name in "abc":
        world.ingest.scrubber.name(name)
    scanner.may_answer.clear()
    world.ingest.look(source, str(world.path("a.jsonl")))
    assert world.rows() == []
    offset = world.ingest.cursors.find("ann", str(world.path("a.jsonl"))).offset
    assert offset
    scanner.may_answer.set()
    world.ingest.finish()
    assert [row["offset"] for row in world.query("SELECT offset FROM transcript")] == [offset]
    world.poll()
    assert len(world.rows()) == 6


def test_the_scan_of_a_batch_begins_while_it_is_read(world, scanner, monkeypatch):
    monkeypatch.setattr(ingest, "FLUSH_BYTES", 20)
    said = [["one", f"key {SECRET}"], ["three"], ["unscannable", "five and more"]]
    for name, texts in zip("abc", said, strict=True):
        path = world.write(f"{name}.jsonl", lines([claude(ord(name) + len(one), one) for one in texts]))
        world.ingest.look(world.ingest.sources[-1], str(path))
    assert (len(world.ingest.batch.scans), world.ingest.batch.begun) == (3, 5)
    world.ingest.flush()
    assert [redacted(text) for text in world.texts()] == ["one", "key […]", "three", "five and more"]
    assert withheld(world).count("unscanned") == 1


def test_the_row_of_a_cursor_is_as_it_was_when_its_batch_was_frozen(world, scanner, small):
    path = world.write("a.jsonl", lines([claude(1, "one"), claude(2, "two")]))
    source = world.ingest.sources[-1]
    world.ingest.look(source, str(path))
    size = path.stat().st_size
    world.append("a.jsonl", lines([claude(3, "three")]))
    world.ingest.look(source, str(path))
    assert world.ingest.cursors.find("ann", str(path)).offset > size
    world.ingest.finish()
    assert world.query("SELECT offset FROM transcript") == [{"offset": size}]
    assert world.texts() == ["one", "two"]
    world.restart()  # a crash with the next turn read and not stored
    world.poll()
    assert world.texts() == ["one", "two", "three"]


@pytest.mark.parametrize("trouble", [True, False], ids=["disk", "poison"])
def test_what_cannot_be_stored_takes_back_what_was_read_after_it(world, small, trouble):
    path = world.write("a.jsonl", lines([claude(1, "one"), claude(2, "two")]))
    source = world.ingest.sources[-1]
    world.ingest.look(source, str(path))
    world.append("a.jsonl", lines([claude(3, "three")]))
    world.ingest.look(source, str(path))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if trouble else ValueError

    world.ingest.restored = fail
    if trouble:
        with pytest.raises(OSError, match="No space"):
            world.ingest.flush()
    else:
        world.ingest.flush()
    assert world.texts() == []
    world.ingest.restored = None
    world.later(700)
    world.poll()
    assert world.texts() == ["one", "two", "three"]


def test_what_could_not_be_stored_is_tried_again_when_ids_have_changed(world):
    world.write("a.jsonl", lines([claude(1, "one")]))

    def fail(*_: object) -> None:
        raise ValueError

    world.ingest.restored = fail
    world.poll()
    world.ingest.restored = None
    world.poll()
    assert world.texts() == []
    world.ingest.forget()
    world.poll()
    assert world.texts() == ["one"]


def test_two_files_of_one_session_meet_while_the_first_waits_for_the_scanner(world, small):
    session = "0b5c0a1e-0000-4000-8000-000000000009"
    first = [claude(1, "one", session=session), claude(2, "two", session=session)]
    world.write(f"{session}.jsonl", lines(first))
    world.write(f"sub/{session}.jsonl", lines([*first, claude(3, "three", session=session)]))
    source = world.ingest.sources[-1]
    world.ingest.look(source, str(world.path(f"{session}.jsonl")))
    world.ingest.look(source, str(world.path(f"sub/{session}.jsonl")))
    world.ingest.flush()
    assert world.query("SELECT id, turns FROM session") == [{"id": session, "turns": 3}]
