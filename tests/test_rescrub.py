"""`memoryd scrub --again`: what was stored before a rule was there is redacted wherever memoryd has put it."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from planted_secrets import planted
from scratch import Scratch, filler, in_process, message, recent, said, until
from sqlmodel import SQLModel

from memoryd.database import sqlite, tables, texts
from memoryd.database.texts import COLUMNS
from memoryd.engine import rescrub
from memoryd.engine.scrubbing import hashed
from memoryd.files import durable

if TYPE_CHECKING:
    from pathlib import Path

    from memoryd.files.open_folder import Entry

SECRET = next(one for one in planted("stored long ago") if one.name == "github-classic").secret
RUN = "run-20260101T000000-abcdef"


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch", ingest={"settle": "20ms"}, scrub={"secrets": "off"})
    made.append([
        *said(),
        message("user", f"We decided to use the key {SECRET} for the deployment of the shop.", 10),
        message("assistant", f"The key {SECRET} is in the settings of the deployment now.", 11),
        filler(),
    ])  # fmt: skip
    own = made.workspace / ".continuum" / "memory"
    for path, data in {
        made.workspace / "MEMORY.md": f"# Ours\r\n\r\n- use <private> tags\r\n- the key is {SECRET}\r\n- last".encode(),
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
    return made


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
    for table, columns in COLUMNS.items():
        for column, kind in columns.items():
            if kind is texts.Kind.TEXT:
                scratch.change(f'UPDATE "{table}" SET "{column}" = "{column}" || ?', f" {SECRET}")  # noqa: S608
            elif kind is texts.Kind.JSON:
                scratch.change(f'UPDATE "{table}" SET "{column}" = ?', json.dumps([{"a": f"x {SECRET}"}]))  # noqa: S608
    scratch.change("UPDATE job_run SET options = '{}', receipt = ?", json.dumps({"note": f"x {SECRET}"}))
    scratch.change("UPDATE turn SET record_id = ? || id, tool_call_id = ?", f"{SECRET} ", f"call {SECRET}")
    scratch.change(
        "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('old', '', ?, 'x', ?)",
        SECRET,
        f"about {SECRET}",
    )


def test_every_column_that_holds_text_is_accounted_for():
    assert tables.Turn.__tablename__ in COLUMNS
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
    assert hashed(f"{SECRET} 1") in ids
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
    assert after.startswith(b"# Ours\r\n\r\n- use <private> tags\r\n- the key is [REDACTED:")
    assert stat.S_IMODE(core.stat().st_mode) == 0o640
    head, _, tail = latin.read_bytes().partition(mark)
    assert (head, tail.partition(b"]")[2]) == ("caf\xe9 ".encode("latin-1"), b" \n")


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
    assert (hashed(old),) in scratch.query("SELECT id FROM session")
    assert (hashed(old),) in scratch.query("SELECT session_id FROM watermark")
    assert scratch.query("PRAGMA foreign_key_check") == []
    scratch.append([message("user", "and one thing more", 50)])
    scratch.json("run", "--once")
    assert scratch.query("SELECT session_id FROM turn ORDER BY id DESC LIMIT 1") == [(hashed(old),)]


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

    def replace(entry: Entry, new: bytes, expected: str | None, *more: Any, **how: Any) -> Any:
        if entry.path == core and edits:
            with core.open("ab") as file:
                file.write(edits.pop().encode())
        return real(entry, new, expected, *more, **how)

    monkeypatch.setattr(rescrub.durable, "replace", replace)
    with in_process(scratch) as app:
        assert app.runner.run_next(only=queued(app)).state == "succeeded"
    assert edits == []
    assert b"- another\r\n" in core.read_bytes()
    assert b"- an edit with [REDACTED:" in core.read_bytes()
    assert SECRET.encode() not in core.read_bytes()


def queued(app: Any) -> str:
    with sqlite.writing(app.engine) as connection:
        connection.exec_driver_sql(
            'INSERT INTO job_run (id, kind, agent_id, actor, "trigger", state, options, created_at, scheduled_for,'
            " attempt, fence, cancel_requested, tokens_in, tokens_out, receipt)"
            " VALUES ('s', 'scrub', 'demo', 'human', 'manual', 'queued', '{}', ?, ?, 0, 0, 0, 0, 0, '{}')",
            (app.clock.text(), app.clock.text()),
        )
    return "s"


def test_killed_at_any_moment_it_is_done_by_the_next(scratch):
    plant_everywhere(scratch)
    for moment in ("texts.change", "durable.replace", "texts.rewrite_file", "Rescrub._journal"):
        code = (
            "import os, sys; from memoryd.database import texts; from memoryd.files import durable;"
            "from memoryd.engine import rescrub; from memoryd.engine.rescrub import Rescrub;"
            f"{moment} = lambda *_, **__: os.kill(os.getpid(), 9);"
            "from memoryd.interfaces.cli import main; main(sys.argv[1:])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "--config", str(scratch.config), "scrub", "--again"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
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
