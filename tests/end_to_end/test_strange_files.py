"""A sleep that finds no regular file under the name of a memory file: it is told, left alone, and made up for."""

import os
import stat
from datetime import timedelta

import pytest
from scratch import STARTED, Scratch, filler, in_process, said

DAILY = "memory/2026-03-04.md"
THEIRS = "alias theirs=somebody-else\n"


@pytest.fixture
def scratch(tmp_path):
    made = Scratch(tmp_path / "scratch")
    (made.workspace / "memory").mkdir()
    made.append([*said(), filler()])
    return made


def sleep(scratch, minutes=45):
    from memoryd.daemon.once import run_once

    with in_process(scratch, lambda: STARTED + timedelta(minutes=minutes)) as app:
        run_once(app)
    return scratch.query("SELECT state, error FROM job_run")


def link(path, other):
    path.symlink_to(other)


def second_name(path, other):
    path.hardlink_to(other)


def fifo(path, _other):
    os.mkfifo(path)


def folder(path, _other):
    path.mkdir()


def device(path, _other):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: reading it never ends
    except PermissionError:
        pytest.skip("only root may make a device")


def take_away(path):
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("name", ["MEMORY.md", DAILY])
@pytest.mark.parametrize("make", [link, second_name, fifo, folder, device])
def test_it_is_told_and_left_alone_and_made_up_for(scratch, make, name):
    other = scratch.root / ".bashrc"
    other.write_text(THEIRS, encoding="utf-8")
    path = scratch.workspace / name
    make(path, other)
    before, bytes_before = path.lstat(), other.stat()
    ((state, error),) = sleep(scratch)
    assert state == "queued"  # to be tried again
    assert str(path) in error
    assert "memoryd left it alone" in error
    after = path.lstat()
    assert (after.st_ino, after.st_mode, after.st_ctime_ns) == (before.st_ino, before.st_mode, before.st_ctime_ns)
    assert other.read_text(encoding="utf-8") == THEIRS
    assert other.stat().st_mtime_ns == bytes_before.st_mtime_ns
    others = [one for one in (scratch.workspace / "MEMORY.md", scratch.workspace / DAILY) if one != path]
    assert [one.exists() for one in others] == [False]  # all or nothing
    take_away(path)
    assert [state for state, _ in sleep(scratch, 55)] == ["succeeded"]
    assert "PostgreSQL 16" in scratch.core
    assert "## Trimmed Context" in scratch.dailies()["2026-03-04.md"]
    assert other.read_text(encoding="utf-8") == THEIRS
    kept = "".join(one.read_text("utf-8", "replace") for one in scratch.workspace.rglob("*") if one.is_file())
    assert THEIRS.strip() not in kept


def test_modes_and_line_ends_of_peoples_files_stay(scratch):
    core, daily = scratch.workspace / "MEMORY.md", scratch.workspace / DAILY
    old = b"\xef\xbb\xbf# Mine\r\n\r\n- one\r\n- two, with caf\x65\xcc\x81\r\n\r\nno newline at the end"
    core.write_bytes(old)
    daily.write_bytes(b"# Daily Memory: 2026-03-04\r\n\r\nby hand\r\n")
    core.chmod(0o640)
    daily.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(core, 65_534, 65_533)
    owners = [(one.stat().st_uid, one.stat().st_gid) for one in (core, daily)]
    assert [state for state, _ in sleep(scratch)] == ["succeeded"]
    assert core.read_bytes().startswith(old)
    added = core.read_bytes().removeprefix(old)
    assert b"PostgreSQL" in added
    assert added.count(b"\n") == added.count(b"\r\n")
    assert daily.read_bytes().startswith(b"# Daily Memory: 2026-03-04\r\n\r\nby hand\r\n\n## Trimmed Context")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (core, daily)] == [0o640, 0o604]
    assert [(one.stat().st_uid, one.stat().st_gid) for one in (core, daily)] == owners
