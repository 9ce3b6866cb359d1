"""`memoryd scrub --again`: what was stored before a rule was there is redacted wherever memoryd has put it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import shutil
import signal
import stat
from typing import TYPE_CHECKING, Any

import forks
import pytest
from planted_secrets import planted
from scratch import Model, Scratch, filler, in_process, message, recent, said, until
from sqlmodel import SQLModel

from memoryd import app
from memoryd.changing import full_scan
from memoryd.changing.written_blocks import find_written_blocks
from memoryd.daemon.once import read_all
from memoryd.database import library, sqlite, tables, texts
from memoryd.database.texts import COLUMNS
from memoryd.errors import StateError
from memoryd.files import durable
from memoryd.files.locks import Lock
from memoryd.reading.scrubbing import hash_name
from memoryd.requests import jobs_by_hand
from memoryd.running import retry

if TYPE_CHECKING:
    from pathlib import Path

    from memoryd.files.open_folder import FolderEntry

pytestmark = pytest.mark.long
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"

SECRET = next(one for one in planted("stored long ago") if one.name == "github-classic").secret
RUN = "run-20260101T000000-abcdef"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A session that slept while nothing was redacted, and a copy of its folder."""
    made = Scratch(tmp_path_factory.mktemp("rescrub") / "scratch", ingest={"settle": "20ms"}, scrub={"secrets": "off"})
    made.append([
        *said(),
        message("user", f"We decided to use the key {SECRET} for the deployment of the shop.", 10),
        message("assistant", f"The key {SECRET} is in the settings of the deployment now.", 11),
        filler(),
    ])  # fmt: skip
    own = made.workspace / ".continuum" / "memory"
    for path, data in {
        made.workspace / "MEMORY.md": f"# Ours\r\n\r\n- a `<private>` tag\r\n- the key is {SECRET}\r\n- last".encode(),
        own / "backup" / RUN / "MEMORY.md": f"- the key was {SECRET}\n".encode(),
        made.workspace / "memory" / "2026-01-01.md": f"caf\xe9 {SECRET} \n".encode("latin-1"),
        made.workspace / "memory" / "other.txt": f"{SECRET} in a file of others".encode(),
        own / "NOW-2026-01-02T03-04.md": f"## User: {SECRET}\n".encode(),
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (made.workspace / "MEMORY.md").chmod(0o640)
    made.json("job", "run", "sleep", "--force")
    assert SECRET in made.core
    assert SECRET in (made.workspace / "memory" / "2026-03-04.md").read_text(encoding="utf-8")
    made.write_config(scrub={"secrets": "redact"})
    pristine = made.root.with_name("pristine")
    shutil.copytree(made.root, pristine)
    return made, pristine


@pytest.fixture
def scratch(place, workers, monkeypatch):
    made, pristine = place
    # The children of commands that are carried out in this process; a daemon has its own.
    monkeypatch.setattr(app, "Worker", workers.lend)
    return made.copied(pristine)


def kept_by_others(path: Path) -> bool:
    return "/sessions/" in str(path) or path.name.startswith("NOW-") or path.name == "other.txt"


def holders(scratch: Scratch) -> list[str]:
    return [
        str(path.relative_to(scratch.root))
        for path in sorted(scratch.root.rglob("*"))
        if path.is_file() and not kept_by_others(path) and SECRET.encode() in path.read_bytes()
    ]


def plant_everywhere(scratch: Scratch) -> None:
    """In every column that is said to hold text of others."""
    scratch.change("UPDATE turn SET text = 'It said this.' WHERE typeof(text) = 'blob'")  # as long ago
    for table, columns in COLUMNS.items():
        for column, kind in columns.items():
            if kind is texts.ColumnKind.TEXT:
                scratch.change(f'UPDATE "{table}" SET "{column}" = "{column}" || ?', f" {SECRET}")  # noqa: S608
            elif kind is texts.ColumnKind.JSON:
                scratch.change(f'UPDATE "{table}" SET "{column}" = ?', json.dumps([{"a": f"x {SECRET}"}]))  # noqa: S608
    scratch.change("UPDATE turn SET text_crc = NULL")
    scratch.change("UPDATE job_run SET options = '{}', receipt = ?", json.dumps({"note": f"x {SECRET}"}))
    scratch.change("UPDATE turn SET record_key = ? || id, tool_call_id = ?", f"{SECRET} ", f"call {SECRET}")
    scratch.change(
        "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('old', '', ?, 'x', ?)",
        SECRET,
        f"about {SECRET}",
    )


def test_every_column_that_holds_text_is_accounted_for():
    assert tables.TurnRow.__tablename__ in COLUMNS
    declared = {
        table.name: {column.name for column in table.columns if str(column.type).startswith("VARCHAR")}
        for table in SQLModel.metadata.sorted_tables
    }
    assert {name: set(columns) for name, columns in COLUMNS.items()} == declared


def test_nothing_is_left_in_any_byte(scratch):
    plant_everywhere(scratch)
    log = scratch.state / "log" / "memoryd.jsonl"
    log.write_bytes(log.read_bytes() + f'{{"at":"x","path":"/srv/{SECRET}"}}\n'.encode())
    (scratch.workspace / "memory" / ".memoryd-swap-0123456789abcdef-2026-01-01.md.tmp").write_bytes(
        f"caf\xe9 {SECRET} \n".encode("latin-1")
    )
    done = scratch.json("scrub", "--again")
    assert holders(scratch) == []
    assert done["texts"] > 20
    assert done["files"] >= 4
    assert (done["unscanned"], done["left"]) == (0, [])
    assert SECRET.encode() in (scratch.workspace / ".continuum" / "memory" / "NOW-2026-01-02T03-04.md").read_bytes()
    ids = {row[0] for row in scratch.query("SELECT record_id FROM turn")}
    assert hash_name(f"{SECRET} 1") in ids
    assert all(json.loads(line) for line in log.read_text().splitlines())
    again = scratch.json("scrub", "--again")
    assert (again["texts"], again["files"]) == (0, 0)
    assert scratch.json("job", "run", "sleep", "--force")["state"] in {"skipped", "succeeded"}


def test_what_was_read_is_known_again_when_it_is_redacted(scratch):
    turns = scratch.query("SELECT count(*) FROM turn")
    scratch.json("scrub", "--again")
    for path in (
        scratch.sessions / "one.jsonl",
        scratch.workspace / ".continuum" / "memory" / "NOW-2026-01-02T03-04.md",
    ):
        path.write_bytes(path.read_bytes() + b"\n")
        path.rename(path.with_name(f"{path.name}~"))
        path.write_bytes(path.with_name(f"{path.name}~").read_bytes())
    scratch.json("run", "--once")
    assert scratch.query("SELECT count(*) FROM turn") == turns
    assert holders(scratch) == []


def test_all_but_the_secret_stays_as_it_was(scratch):
    core, latin = scratch.workspace / "MEMORY.md", scratch.workspace / "memory" / "2026-01-01.md"
    before = core.read_bytes()
    scratch.json("scrub", "--again")
    mark = b"[REDACTED:"
    after = core.read_bytes()
    assert after.count(mark) == before.count(SECRET.encode())
    assert after.startswith(b"# Ours\r\n\r\n- a `<private>` tag\r\n- the key is [REDACTED:")
    assert stat.S_IMODE(core.stat().st_mode) == 0o640
    head, _, tail = latin.read_bytes().partition(mark)
    assert (head, tail.partition(b"]")[2]) == ("caf\xe9 ".encode("latin-1"), b" \n")


def test_what_stays_of_a_block_keeps_its_author(scratch):
    path = "memory/2026-03-04.md"

    def written() -> list[tuple[str, bool, bool]]:
        data = (scratch.workspace / path).read_bytes()
        engine = sqlite.connect(scratch.state / "memoryd.db")
        with sqlite.begin_read(engine) as connection:
            found = find_written_blocks(connection, "demo", path, data)
        engine.dispose()
        blocks = [data[one.first : one.end] for one in found]
        return [
            (one.run_id, b"[REDACTED:" in raw, b"the deployment of the shop" in raw)
            for one, raw in zip(found, blocks, strict=True)
        ]

    ((run_id, *_),) = written()
    scratch.json("scrub", "--again")
    assert written() == [(run_id, True, True)]


def test_a_session_is_known_by_its_new_name(scratch):
    scratch.change("PRAGMA foreign_keys = OFF")
    old = f"sess-{SECRET}"
    was = scratch.query("SELECT session_id FROM watermark ORDER BY seq DESC")[0][0]
    for table, column in (
        ("session", "id"), ("turn", "session_id"), ("transcript", "session_id"), ("watermark", "session_id"),
        ("session_summary", "session_id"), ("job_run", "session_id"),
    ):  # fmt: skip
        scratch.change(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', old, was)  # noqa: S608
    scratch.json("scrub", "--again")
    assert holders(scratch) == []
    assert (hash_name(old),) in scratch.query("SELECT id FROM session")
    assert (hash_name(old),) in scratch.query("SELECT session_id FROM watermark")
    assert scratch.query("PRAGMA foreign_key_check") == []
    scratch.append([message("user", "and one thing more", 50)])
    scratch.json("run", "--once")
    assert scratch.query("SELECT session_id FROM turn ORDER BY id DESC LIMIT 1") == [(hash_name(old),)]


def test_under_a_daemon_the_daemon_does_it_and_reads_on(scratch):
    with scratch.daemon():
        done = scratch.json("scrub", "--again")
        assert done["texts"] > 0
        assert scratch.query("SELECT kind, state FROM job_run WHERE id = ?", done["run"]) == [("scrub", "succeeded")]
        scratch.append([message("user", "and one thing more", at=recent())])
        until(lambda: scratch.query("SELECT 1 FROM turn WHERE text = 'and one thing more'"), why="it reads on")
    assert holders(scratch) == []


def test_a_state_that_was_put_aside_is_looked_through_as_well(scratch, tmp_path):
    scratch.json("backup", str(tmp_path / "state.tar"))
    scratch.json("restore", str(tmp_path / "state.tar"))
    assert any("memoryd.replaced-" in path for path in holders(scratch))
    (scratch.state / "memoryd.db.damaged-20260101T000000Z").write_bytes(b"\0")
    done = scratch.json("scrub", "--again")
    assert holders(scratch) == []
    assert done["left"] == [str(scratch.state / "memoryd.db.damaged-20260101T000000Z")]


def test_an_edit_that_a_person_makes_meanwhile_is_kept(scratch, monkeypatch):
    core = scratch.workspace / "MEMORY.md"
    edits = [f"\r\n- an edit with {SECRET}\r\n", "\r\n- another\r\n"]
    real = durable.replace

    def replace(entry: FolderEntry, new: bytes, expected: str | None, *more: Any, **how: Any) -> Any:
        if entry.path == core and edits:
            with core.open("ab") as file:
                file.write(edits.pop().encode())
        return real(entry, new, expected, *more, **how)

    monkeypatch.setattr(full_scan.durable, "replace", replace)
    with in_process(scratch) as app:
        assert app.runner.run_next(only=queued(app)).state == "succeeded"
    assert edits == []
    assert b"- another\r\n" in core.read_bytes()
    assert b"- an edit with [REDACTED:" in core.read_bytes()
    assert SECRET.encode() not in core.read_bytes()


def queued(app: Any) -> str:
    with sqlite.begin_write(app.engine) as connection:
        connection.exec_driver_sql(
            'INSERT INTO job_run (id, kind, agent_id, actor, "trigger", state, options, created_at, scheduled_for,'
            " attempt, fence, cancel_requested, tokens_in, tokens_out, receipt)"
            " VALUES ('s', 'scrub', 'demo', 'human', 'manual', 'queued', '{}', ?, ?, 0, 0, 0, 0, 0, '{}')",
            (app.clock.text(), app.clock.text()),
        )
    return "s"


def test_what_a_killed_backup_left_goes(scratch):
    left = scratch.state / ".memoryd-staging-0123456789abcdef"
    left.mkdir()
    (left / "memoryd.db").write_bytes(b"a copy")
    assert scratch.json("scrub", "--again")["left"] == []
    assert not left.exists()


def test_killed_at_any_moment_it_is_done_by_the_next(scratch):
    plant_everywhere(scratch)
    moments = ("texts.change", "durable.replace", "texts.rewrite_file", "Rescrub._journal")
    for moment in moments if SOAK else moments[::3]:
        code = (
            "import os, sys; from memoryd.database import texts; from memoryd.files import durable;"
            "from memoryd.changing import rescrub; from memoryd.changing.rescrub import Rescrub;"
            f"{moment} = lambda *_, **__: os.kill(os.getpid(), 9);"
            "from memoryd.interfaces.cli import main; main(sys.argv[1:])"
        )
        done = forks.run(["-c", code, "--config", str(scratch.config), "scrub", "--again"])
        assert done.returncode == -signal.SIGKILL, (moment, done.stderr)
    scratch.json("scrub", "--again")
    assert holders(scratch) == []
    assert not list(scratch.root.rglob("*.tmp"))
    assert scratch.query("PRAGMA integrity_check") == [("ok",)]
    assert scratch.query("PRAGMA foreign_key_check") == []


def test_without_a_policy_or_a_word_it_is_refused(scratch):
    assert scratch.json("scrub", code=2)["code"] == "config"
    scratch.write_config(scrub={"secrets": "off"})
    assert scratch.json("scrub", "--again", code=4)["code"] == "refused"


def test_a_tag_in_a_persons_file_hides_no_secret(scratch):
    core = scratch.workspace / "MEMORY.md"
    core.write_text(f"- about <private> tags, the key is {SECRET}\n- <private>{SECRET}</private> and {SECRET}\n")
    assert scratch.json("scrub", "--again")["left"] == []
    text = core.read_text()
    assert SECRET not in text
    assert text.startswith("- about <private> tags, the key is [REDACTED:")
    assert "private" not in text.replace("<private>", "").replace("</private>", "")


def test_two_alarms_that_only_a_secret_told_apart_become_one(scratch):
    other = next(one for one in planted("another") if one.name == "github-classic").secret
    assert other != SECRET
    for secret in (SECRET, other):
        scratch.change(
            "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('unreadable', '', ?, 'x', 'y')",
            f"/srv/{secret}/one.jsonl",
        )
    scratch.json("scrub", "--again")
    assert holders(scratch) == []
    rows = scratch.query("SELECT subject, cleared_at IS NULL FROM alarm WHERE text = 'y' ORDER BY id")
    assert [subject.startswith("/srv/[REDACTED:") for subject, _ in rows] == [True, True]
    assert sorted(is_open for _, is_open in rows) == [0, 1]


def test_a_row_that_changes_meanwhile_is_read_again(scratch, monkeypatch):
    real, edits = texts.change, [f"edited, {SECRET}"]

    def change(connection: Any, table: str, row: Any, *more: Any) -> bool:
        if table == "turn" and edits:
            connection.exec_driver_sql(
                "UPDATE turn SET text = ?, text_crc = NULL WHERE rowid = ?", (edits.pop(), row["rowid"])
            )
        return real(connection, table, row, *more)

    monkeypatch.setattr(texts, "change", change)
    with in_process(scratch) as app:
        assert app.runner.run_next(only=queued(app)).state == "succeeded"
    assert edits == []
    assert scratch.query("SELECT text FROM turn WHERE text LIKE 'edited, [REDACTED:%'")
    assert not scratch.query("SELECT text FROM turn WHERE instr(text, ?)", SECRET)


def plant_sessions(scratch: Scratch, **agents: str) -> None:
    """Sessions with these ids, of these agents."""
    for session_id, agent_id in agents.items():
        scratch.change(
            "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
            " gauge, counted_seq)"
            " SELECT ?, ?, 'x', format, 'ended', seen_at, seen_at, 0, 0, '{}', 0 FROM session LIMIT 1",
            f"{session_id}-{SECRET}",
            agent_id,
        )


def test_under_one_agents_name_the_sessions_of_others_keep_theirs(scratch):
    plant_sessions(scratch, ours="demo", theirs="other")
    scratch.json("scrub", "--again", "--agent", "demo")
    ids = {row[0] for row in scratch.query("SELECT id FROM session")}
    assert f"theirs-{SECRET}" in ids
    assert hash_name(f"ours-{SECRET}") in ids


def test_what_others_wrote_to_a_version_without_a_name_is_looked_through(scratch):
    own = scratch.workspace / ".continuum" / "memory"
    clean, old = b"- nothing in it\n", f"- {SECRET}\n".encode()
    for place in (scratch.workspace, scratch.workspace / "memory"):
        (place / ("MEMORY.md" if place == scratch.workspace else "2026-01-01.md")).touch()
    for path in (
        scratch.workspace / "MEMORY.md.conflict-0123abcd",
        scratch.workspace / "memory" / "2026-01-01.md.conflict-0123abcd",
    ):
        path.write_bytes(old)
    kept = [
        own / f".late-{hashlib.sha256(known).hexdigest()}-{len(known)}-{'0' * 16}-MEMORY.md"
        for known in (clean, old, b"x")
    ]
    for path, data in zip(kept, (clean, old + f"- late {SECRET}\n".encode(), old), strict=True):
        path.write_bytes(data)
    assert scratch.json("scrub", "--again")["left"] == []
    assert holders(scratch) == []
    assert "- late [REDACTED:" in scratch.core
    assert [path.exists() for path in kept] == [True, False, False]


def test_an_intent_that_cannot_be_carried_through_is_left_to_a_person(scratch):
    scratch.change("INSERT INTO intent (run_id, agent_id, made_at, plan) VALUES ('r-gone', 'gone', 'x', '{}')")
    done = scratch.json("scrub", "--again")
    assert done["left"] == [f"{scratch.state / 'memoryd.db'}: intent of run r-gone of gone"]
    assert scratch.json("scrub", "--again", "--agent", "demo")["left"] == []


def test_ids_are_told_before_anything_else_is_done(scratch, monkeypatch):
    plant_sessions(scratch, first="demo", second="demo")
    events: list[str] = []
    real = texts.rename_session

    def rename(*given: Any) -> None:
        real(*given)
        events.append("renamed")

    monkeypatch.setattr(texts, "rename_session", rename)
    with in_process(scratch) as app:
        app.runner.renamed = lambda: events.append("told")
        assert app.runner.run_next(only=queued(app)).state == "succeeded"
    assert events[:4] == ["renamed", "told"] * 2


def test_nobody_waits_while_it_scans(scratch, monkeypatch):
    holders_met = []
    lock = Lock(scratch.workspace / ".continuum" / "memory" / ".lock")
    real = Model.scan

    def scan(self: Model, *given: Any) -> Any:
        holders_met.append(lock.holder())
        return real(self, *given)

    monkeypatch.setattr(Model, "scan", scan)
    with in_process(scratch) as app:
        assert app.runner.run_next(only=queued(app)).state == "succeeded"
    assert len(holders_met) > 4
    assert set(holders_met) == {None}
    assert SECRET not in scratch.core


def test_asked_for_again_it_does_not_wait_for_its_next_attempt(scratch):
    with in_process(scratch) as app:
        queued(app)
    scratch.change("UPDATE job_run SET \"key\" = 'scrub:', scheduled_for = '2999', error = 'x' WHERE id = 's'")
    done = scratch.json("scrub", "--again")
    assert done["run"] == "s"
    assert scratch.query("SELECT state FROM job_run WHERE id = 's'") == [("succeeded",)]


def test_of_nobody_it_is_refused(scratch):
    scratch.agents.clear()
    scratch.write_config()
    assert scratch.json("scrub", "--again", code=4)["code"] == "refused"


def test_what_a_person_keeps_in_a_file_is_in_no_byte_of_the_state_after_a_sleep(tmp_path):
    scratch = Scratch(tmp_path / "scratch", ingest={"settle": "20ms"}, scrub={"secrets": "redact"})
    scratch.append([*said(), filler()])
    data = f"# Notes\n\n- the key is {SECRET}\n- another line\n".encode()
    (scratch.workspace / "MEMORY.md").write_bytes(data)
    with in_process(scratch) as app:
        read_all(app)
        for run_id in jobs_by_hand.queue_sleeps(app.engine, app.clock, "demo", None, force=True):
            assert app.runner.run_next(only=run_id).state == "succeeded"
        files = sorted(scratch.state.glob("memoryd.db*"))
        assert len(files) == 3  # with its log
        for path in files:
            held = path.read_bytes()
            assert base64.b64encode(data)[:-4] not in held, path.name
            assert SECRET.encode() not in held, path.name
    assert scratch.core.startswith(data.decode())
    assert len(scratch.core) > len(data)


def test_a_disk_too_full_to_write_the_database_anew_costs_no_attempt(scratch):
    with in_process(scratch) as app:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
        try:
            with pytest.raises(StateError, match="cannot be rewritten") as caught:
                texts.rewrite_file(app.engine)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "others use it" not in str(caught.value)
        verdict = retry.decide(caught.value, attempt=5, attempts=5)
        assert verdict == retry.RetryAfter(retry.FIRST_DELAY * 16, refund=True)
        texts.rewrite_file(app.engine)


def test_a_reader_that_stays_costs_no_attempt(scratch, monkeypatch):
    monkeypatch.setattr(library, "BUSY_TIMEOUT_MS", 1)  # of connections that are opened from now on
    with in_process(scratch) as app, sqlite.begin_read(app.engine) as reader:
        reader.exec_driver_sql("SELECT count(*) FROM turn").all()
        with pytest.raises(StateError, match="its log cannot be emptied") as caught:
            texts.rewrite_file(app.engine)
        assert isinstance(retry.decide(caught.value, attempt=5, attempts=5), retry.RetryAfter)


def test_a_file_in_utf_16_keeps_all_but_its_secret_and_what_is_no_text_is_named(scratch):
    folder = scratch.workspace / "memory"
    folder.mkdir(exist_ok=True)
    text = f"# Notes\r\n\r\n- the key is {SECRET} äö\r\n- mine\r\n"
    wide, odd = folder / "2026-01-01.md", folder / "2026-01-02.md"
    wide.write_bytes(text.encode("utf-16"))
    odd.write_bytes(text.encode("utf-16-be"))
    before = odd.read_bytes()
    scratch.write_config(scrub={"secrets": "redact"})
    with in_process(scratch) as app:
        run = app.runner.run_next(only=queued(app))
    assert run.state == "succeeded"
    assert wide.read_bytes().decode("utf-16") == text.replace(SECRET, "[REDACTED:github-token]")
    assert odd.read_bytes() == before
    ((receipt,),) = scratch.query("SELECT receipt FROM job_run WHERE id = ?", run.id)
    assert str(odd) in json.loads(receipt)["left"]
