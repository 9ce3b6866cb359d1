"""`doctor`: each thing it looks at, made wrong once."""

import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from scratch import Scratch, said

from memoryd import app, config
from memoryd.database import library
from memoryd.errors import StateError
from memoryd.files import mounts
from memoryd.interfaces import doctor
from memoryd.worker import embedder

NOW = datetime.now(UTC)
TABLE = """\
22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:40 / /srv/net rw - nfs4 server:/x rw
31 27 0:41 / /srv/net/a\\040b rw - tmpfs tmpfs rw
32 27 0:42 / /mnt/far rw - fuse.sshfs me@there:/ rw
no mount at all
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("read") / "scratch")
    made.append(said())
    assert made.run("run", "--once").returncode == 0
    shutil.copytree(made.root, made.root.with_name("pristine"))
    return made


@pytest.fixture
def scratch(read):
    return read.copied(read.root.with_name("pristine"))


def found(scratch, name, now=None):
    """What doctor says under a name that is not ok; levels and texts."""
    data = doctor.doctor(config.load(scratch.config), now or datetime.now(UTC))
    return [(one["level"], one["text"]) for one in data["checks"] if one["name"] == name and one["level"] != "ok"]


def alone(scratch):
    """What it says in a process of its own: in this one the tests have loaded another SQLite."""
    return json.loads(scratch.run("--json", "doctor", cwd=scratch.root).stdout)["data"]


def test_a_sound_installation_has_nothing_that_fails(scratch):
    data = alone(scratch)
    assert data["ok"] is True
    names = {check["name"] for check in data["checks"]}
    assert {"sqlite", "database", "clock", "file system", "watches", "space", "permissions", "model"} <= names
    assert all(check["hint"] for check in data["checks"] if check["level"] != "ok" and check["name"] != "alarm")


def test_it_works_before_the_first_start(tmp_path):
    assert alone(Scratch(tmp_path / "fresh"))["ok"] is True


def test_what_fails_is_an_exit_status_of_one_and_says_what_to_do(scratch):
    (scratch.state / "memoryd.db").chmod(0o644)
    done = scratch.run("doctor")
    assert done.returncode == 1
    assert "fail  permissions  others may" in done.stdout
    assert "→ chown -R" in done.stdout
    assert scratch.run("--json", "doctor").returncode == 1


def test_an_open_workspace_fails(scratch):
    scratch.workspace.chmod(0o777)
    assert [level for level, _ in found(scratch, "permissions")] == ["fail"]


def test_an_sqlite_with_the_bug_fails(scratch, monkeypatch):
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _version: True)
    monkeypatch.setitem(sys.modules, "sqlite3", None)  # would be tried as well, and then stay for other tests
    assert found(scratch, "sqlite")[0][0] == "fail"


@pytest.mark.parametrize("now", [datetime(1970, 1, 1, tzinfo=UTC), datetime(2106, 2, 7, tzinfo=UTC)])
def test_a_clock_that_cannot_be_right_fails(scratch, now):
    assert "fail" in {level for level, _ in found(scratch, "clock", now)}


def test_a_clock_that_went_back_is_told(scratch):
    texts = [text for _, text in found(scratch, "clock", datetime.now(UTC) - timedelta(days=1))]
    assert any("but the state folder was written at" in text for text in texts)


def test_turns_of_the_future_are_told(scratch):
    scratch.change("UPDATE session SET last_turn_at = '2099-01-01T00:00:00.000Z'")
    assert any("in the future" in text for _, text in found(scratch, "clock"))


def test_what_a_stopped_or_contested_write_left_is_told(scratch):
    (scratch.workspace / "MEMORY.md.conflict-0123abcd").write_text("x", encoding="utf-8")
    temp = scratch.workspace / ".memoryd-new-0123456789abcdef-MEMORY.md.tmp"
    temp.write_text("x", encoding="utf-8")
    (scratch.state / "memoryd.db.damaged-20260101T000000Z").touch(mode=0o600)
    assert len(found(scratch, "leftovers")) == 2, "a write of this minute may still be at work"
    os.utime(temp, (0, 0))
    assert len(found(scratch, "leftovers")) == 3


def test_a_proposal_whose_run_is_not_there_is_told(scratch):
    known = scratch.json("job", "run", "dedup")["id"]
    folder = scratch.workspace / "memory" / "proposals"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (known, "run-20260101T000000-abcdef", "mine"):
        (folder / f"{name}.md").write_text("# Proposal\n", encoding="utf-8")
    ((level, text),) = found(scratch, "proposals")
    assert (level, "run-20260101T000000-abcdef.md is of a run that is not in the database" in text) == ("warn", True)


@pytest.mark.long
def test_open_alarms_are_told(scratch):
    sql = "INSERT INTO alarm (kind, agent_id, subject, since, text) VALUES ('disk', 'demo', '', ?, 'full')"
    scratch.change(sql, "2026-01-02T03:04:05.678Z")
    now = datetime(2026, 1, 2, 5, 30, tzinfo=UTC)
    assert found(scratch, "alarm", now) == [("warn", "disk of demo since 2 h ago: full")]
    assert [scratch.run("doctor", *check, cwd=scratch.root).returncode for check in ((), ("--check",))] == [0, 1]
    told = scratch.run("doctor", cwd=scratch.root).stdout.splitlines()
    assert told[0] == "Not well: 1 alarm, 1 warning."
    assert [line.split()[0] for line in told[1:] if "→" not in line] == ["warn"] * 2 + ["ok"] * (len(told) - 5)
    assert f"→ df -h {scratch.state}" in "".join(told)


def test_a_full_disk_fails(scratch, monkeypatch):
    monkeypatch.setattr(doctor, "NO_SPACE", 1 << 62)
    assert {level for level, _ in found(scratch, "space")} == {"fail"}


def test_too_few_watches_are_told(scratch, monkeypatch, tmp_path):
    (tmp_path / "max_user_watches").write_text("1\n", encoding="ascii")
    monkeypatch.setattr(doctor, "_INOTIFY", tmp_path)
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    assert [level for level, _ in found(scratch, "watches")] == ["warn"]


def test_the_kind_of_a_file_system_is_known_by_its_mount():
    mounted = mounts.read_mounts(TABLE)
    kinds = {path: mounts.file_system(Path(path), mounted) for path in ("/x", "/srv/net/y", "/srv/net/a b/c", "/srv/n")}
    assert kinds == {"/x": "ext4", "/srv/net/y": "nfs4", "/srv/net/a b/c": "tmpfs", "/srv/n": "ext4"}
    assert mounts.file_system(Path("/x"), {}) is None
    assert [mounts.is_no_place_for_wal(kind) for kind in ("nfs", "fuse.sshfs", "overlay", "9p", None)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert [mounts.is_remote(kind) for kind in ("nfs", "fuse.sshfs", "9p", "ext4", None)] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "level"), [("nfs4", "fail"), ("overlay", "warn"), ("9p", "warn")])
def test_a_state_folder_on_such_a_disk_is_told_and_on_a_network_disk_not_opened(scratch, monkeypatch, kind, level):
    monkeypatch.setattr(mounts, "read_mounts", lambda: {Path("/"): kind})
    assert found(scratch, "file system")[0][0] == level
    if level == "fail":
        with pytest.raises(StateError, match="WAL"):
            app.open_app(config.load(scratch.config))


def test_nothing_of_what_was_said_is_told(scratch):
    assert "PostgreSQL" not in scratch.run("doctor").stdout


def test_whether_search_goes_by_meaning_is_told(scratch, monkeypatch):
    def told():
        data = doctor.doctor(config.load(scratch.config), datetime.now(UTC))
        return [one["text"] for one in data["checks"] if one["name"] == "meaning"]

    monkeypatch.setattr(embedder, "find_spec", lambda name: None if name == "onnxruntime" else name)
    scratch.write_config(search={"embeddings": "auto"})
    assert told() == ["search goes by words alone: onnxruntime not installed"]
    assert "in the clone of memoryd: pip install '.[embeddings]'" in scratch.run("doctor").stdout
    monkeypatch.setattr(embedder, "find_spec", lambda name: name)
    scratch.json("search", "words")
    done = scratch.json("status")["agents"][0]["embedded"]
    assert done["done"] == 0 < done["of"]
    assert told() == [
        f"search goes by meaning as well: {embedder.MODEL}", f"of demo 0 of {done['of']} texts are embedded",
    ]  # fmt: skip
    assert f"meaning  search knows the meaning of 0 of {done['of']} texts" in scratch.run("status").stdout
    scratch.write_config(search={"embeddings": "off"})
    assert told() == ["search.embeddings is off: search goes by words alone"]
    assert scratch.json("status")["agents"][0]["embedded"] is None


def test_a_pattern_that_matches_no_file_is_a_warning_before_the_first_start_too(tmp_path):
    fresh = Scratch(tmp_path / "fresh")
    told = f"of demo: no file matches {fresh.agents[0]['transcripts'][0]['path']} yet"
    assert found(fresh, "transcripts") == [("warn", told)]
    fresh.append(said())
    assert found(fresh, "transcripts") == []
    fresh.agents[0]["enabled"] = False
    (fresh.sessions / "one.jsonl").unlink()
    fresh.write_config()
    assert found(fresh, "transcripts") == []


def test_why_no_transcript_is_read_is_in_doctor_and_status(tmp_path):
    scratch = Scratch(tmp_path / "elsewhere")
    scratch.agents[0]["transcripts"][0] |= {"format": "claude-code", "project": str(tmp_path / "project")}
    scratch.write_config()
    line = {"type": "user", "sessionId": "s1", "uuid": "u1", "cwd": "/elsewhere", "timestamp": "2025-03-04T10:00:00Z"}
    scratch.append([line | {"message": {"role": "user", "content": "Move the orders to Lisbon."}}])
    assert scratch.run("run", "--once").returncode == 0
    told = "1 of 1 not read (recorded in another project)"
    assert found(scratch, "transcripts") == [("warn", f"of demo: {told}")]
    assert "1 transcript, 1 not read (recorded in another project)," in scratch.run("status").stdout
    assert scratch.json("status")["agents"][0]["not_read_why"] == {"recorded in another project": 1}
