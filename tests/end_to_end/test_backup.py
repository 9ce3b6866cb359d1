"""Backup and restore: round trip beside a daemon, damage, foreign archives, and what is kept."""

import io
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest
from scratch import Scratch, filler, message, recent, said, until

from memoryd import config
from memoryd.errors import LockedError, MemorydError, StateError
from memoryd.interfaces import backup


@pytest.fixture(scope="module")
def slept(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("slept") / "scratch")
    made.append([*said(at=recent()), filler(at=recent())])
    assert made.run("run", "--once").returncode == 0
    shutil.copytree(made.root, made.root.with_name("pristine"))
    return made


@pytest.fixture
def scratch(slept):
    return slept.copied(slept.root.with_name("pristine"))


def settings_of(scratch):
    return config.load(scratch.config)


def everything(scratch):
    tables = [name for (name,) in scratch.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
    tables.remove("changed_row")  # numbers of changes that the journal has
    return {name: sorted(map(repr, scratch.query(f'SELECT * FROM "{name}"'))) for name in tables}  # noqa: S608


def test_the_state_comes_back_as_it_was_and_what_was_there_is_kept(scratch, tmp_path):
    file = tmp_path / "state.tar.gz"
    told = scratch.json("backup", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(told["files"]) == {"memoryd.db", "watermarks.jsonl"}
    before, journal = everything(scratch), (scratch.state / "watermarks.jsonl").read_bytes()
    scratch.append([message("user", "One more thing for later.", at=recent(1))])
    scratch.run("run", "--once")
    later = everything(scratch)
    assert later != before
    kept = Path(scratch.json("restore", str(file))["kept"])
    assert everything(scratch) == before
    assert (scratch.state / "watermarks.jsonl").read_bytes().startswith(journal)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert {path.name for path in kept.iterdir()} == {"memoryd.db", "watermarks.jsonl"}
    assert not [path for path in scratch.state.iterdir() if "staging" in path.name]
    (kept / "memoryd.db").replace(scratch.state / "memoryd.db")
    assert everything(scratch) == later


def test_a_restored_state_goes_on_and_writes_nothing_twice(scratch, tmp_path):
    scratch.json("backup", str(tmp_path / "b"))
    before = (scratch.core, scratch.dailies())
    scratch.json("restore", str(tmp_path / "b"))
    with scratch.daemon():
        until(lambda: scratch.query("SELECT count(*) FROM turn") == [(7,)], why="it reads")
    assert (scratch.core, scratch.dailies()) == before


def test_a_session_that_slept_again_after_a_rollback_does_not_sleep_a_third_time(scratch, tmp_path):
    scratch.json("backup", str(tmp_path / "old"))
    scratch.json("rollback", scratch.query("SELECT id FROM job_run WHERE kind = 'sleep'")[0][0])
    scratch.json("session", "end", "one")
    before = (scratch.core, scratch.dailies())
    assert "PostgreSQL" in scratch.core
    scratch.json("backup", str(tmp_path / "new"))
    for name in ("old", "new"):
        scratch.json("restore", str(tmp_path / name))
        for path in scratch.state.glob("memoryd.db*"):
            path.unlink()
        shutil.rmtree(scratch.state / "backups")
        scratch.json("run", "--once")
        scratch.json("session", "end", "one")
        assert (scratch.core, scratch.dailies()) == before


def test_a_secret_that_was_taken_out_since_the_backup_is_gone_when_the_restore_ends(scratch, tmp_path):
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"  # a token of GitHub by its form
    scratch.append([message("user", f"The key is {secret}.", at=recent(1))])
    scratch.json("run", "--once")
    file = tmp_path / "state.tar.gz"
    scratch.json("backup", str(file))
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.json("scrub", "--again")
    kept = Path(scratch.json("restore", str(file))["kept"])
    files = [path for path in (*scratch.state.rglob("*"), *kept.rglob("*")) if path.is_file()]
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
    assert scratch.query("SELECT count(*) FROM turn WHERE instr(text, '[REDACTED:')") == [(1,)]


def test_a_backup_beside_a_daemon_and_none_is_restored_beside_it(scratch, tmp_path):
    with scratch.daemon() as process:
        scratch.json("backup", str(tmp_path / "b"))
        error = scratch.json("restore", str(tmp_path / "b"), code=5)
        assert str(process.pid) in error["message"]


def test_a_backup_is_not_overwritten(scratch, tmp_path):
    (tmp_path / "b").write_text("mine", encoding="utf-8")
    assert scratch.json("backup", str(tmp_path / "b"), code=1)["code"] == "state"
    assert (tmp_path / "b").read_text(encoding="utf-8") == "mine"
    (tmp_path / "c").symlink_to(tmp_path / "d")
    assert scratch.json("backup", str(tmp_path / "c"), code=1)["code"] == "state"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]


def test_any_umask_leaves_it_private(scratch, tmp_path):
    old = os.umask(0)
    try:
        backup.backup(settings_of(scratch), tmp_path / "b")
        backup.restore(settings_of(scratch), tmp_path / "b")
    finally:
        os.umask(old)
    loose = [path for path in (tmp_path / "b", *scratch.state.rglob("*")) if path.stat().st_mode & 0o077]
    assert not loose


@pytest.fixture
def packed(scratch, tmp_path):
    backup.backup(settings_of(scratch), tmp_path / "b")
    return tmp_path / "b"


def refused(scratch, file):
    """Restoring it is refused and nothing is changed."""
    before = {path: path.read_bytes() for path in sorted(scratch.state.rglob("*")) if path.is_file()}
    with pytest.raises(StateError):
        backup.restore(settings_of(scratch), file)
    after = {path: path.read_bytes() for path in sorted(scratch.state.rglob("*")) if path.is_file()}
    assert {path.name for path in after} - {path.name for path in before} <= {"memoryd.lock"}
    assert all(after[path] == data for path, data in before.items() if path.name != "memoryd.lock")


def test_a_damaged_archive_is_refused_wherever_it_is_damaged(scratch, packed):
    data = packed.read_bytes()
    for number in range(8):
        at = len(data) * number // 8
        for broken in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            packed.write_bytes(broken)
            try:
                backup.restore(settings_of(scratch), packed)
            except MemorydError:
                continue
            assert everything(scratch)  # a flipped bit in the gzip header's time: the content's hashes agree


def members(file):
    with tarfile.open(file) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def pack(file, entries):
    with tarfile.open(file, "w:gz") as tar:
        for member, data in entries:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def info(name, kind=tarfile.REGTYPE, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def with_manifest(held, change):
    manifest = json.loads(held["manifest.json"])
    change(manifest)
    return [(info("manifest.json"), json.dumps(manifest).encode())]


EVIL = ["../memoryd.db", "../evil", "memoryd.db/../../x", "memoryd.lock", "log/memoryd.jsonl"]


@pytest.mark.parametrize("name", EVIL)
def test_a_member_that_leads_elsewhere_is_refused(scratch, packed, name):
    held = members(packed)
    told = {"bytes": 4, "sha256": "0" * 64}
    pack(packed, [*with_manifest(held, lambda one: one["files"].update({name: told})), (info(name), b"evil")])
    refused(scratch, packed)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_member_that_is_no_file_is_refused(scratch, packed, kind):
    held = members(packed)
    pack(packed, [(info("manifest.json"), held["manifest.json"]), (info("memoryd.db", kind, "/etc/passwd"), b"")])
    refused(scratch, packed)


def test_a_changed_file_with_its_old_hash_and_a_bomb_are_refused(scratch, packed):
    held = members(packed)
    changed = held["memoryd.db"][:-1] + b"!"
    pack(packed, [(info("manifest.json"), held["manifest.json"]), (info("memoryd.db"), changed)])
    refused(scratch, packed)
    pack(packed, [(info("manifest.json"), held["manifest.json"]), (info("memoryd.db"), bytes(20_000_000))])
    refused(scratch, packed)


def test_a_damaged_or_newer_database_in_a_sound_archive_is_refused(scratch, packed, tmp_path):
    import hashlib

    held = members(packed)
    data = held["memoryd.db"]
    newer = data[:60] + (10_000).to_bytes(4, "big") + data[64:]  # the user version, https://sqlite.org/fileformat.html
    for broken in (data[: len(data) // 2], b"no database" * 1000, newer, data[:4096] + bytes(4096) + data[8192:]):
        told = {"bytes": len(broken), "sha256": hashlib.sha256(broken).hexdigest()}

        def change(manifest, told=told):
            manifest["files"] = {"memoryd.db": told}

        pack(packed, [*with_manifest(held, change), (info("memoryd.db"), broken)])
        refused(scratch, packed)


def test_a_restore_waits_for_nobody(scratch, packed):
    from memoryd.files.locks import Lock

    with Lock(scratch.state / "memoryd.lock"), pytest.raises(LockedError):
        backup.restore(settings_of(scratch), packed)


def test_status_tells_the_disk_it_uses(scratch):
    used = scratch.json("status")["disk"]["state_bytes"]
    assert used >= (scratch.state / "memoryd.db").stat().st_blocks * 512


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TRIGGER spy AFTER INSERT ON turn BEGIN DELETE FROM fact; END",
        "CREATE TABLE loot (text)",
        "CREATE VIEW session_view AS SELECT 1",
    ],
)
def test_a_database_with_foreign_objects_is_not_restored(scratch, tmp_path, planted):
    scratch.change(planted)
    scratch.json("backup", str(tmp_path / "b"))
    name = planted.split()[2]
    scratch.change(f"DROP {planted.split()[1]} {name}")
    error = scratch.json("restore", str(tmp_path / "b"), code=1)
    assert "differ from memoryd's schema" in error["message"]
    assert name in error["message"]
