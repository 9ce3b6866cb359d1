"""Copies of the database: nothing else takes the place of their folder, and no clock displaces them."""

import os
import shutil
import stat
from datetime import timedelta

import pytest
from scratch import Scratch, filler, in_process, recent, said

from memoryd.daemon.once import run_once
from memoryd.database import backups
from memoryd.running import alarms as alarming


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("made") / "scratch")
    scratch.append([*said(at=recent()), filler(at=recent())])
    scratch.json("run", "--once")
    shutil.copytree(scratch.root, scratch.root.with_name("pristine"))
    return scratch


@pytest.fixture
def scratch(made):
    return made.copied(made.root.with_name("pristine"))


def alarms(scratch, kind):
    return [text for (text,) in scratch.query("SELECT text FROM alarm WHERE kind = ? AND cleared_at IS NULL", kind)]


@pytest.mark.parametrize("what", ["file", "fifo", "link"])
def test_something_else_in_the_place_of_the_copies_is_moved_away_and_told(scratch, what):
    folder = scratch.state / "backups"
    shutil.rmtree(folder)
    if what == "file":
        folder.write_text("mine", encoding="utf-8")
    elif what == "fifo":
        os.mkfifo(folder)
    else:
        (scratch.root / "mine").write_text("mine", encoding="utf-8")
        folder.symlink_to(scratch.root / "mine")
    scratch.json("run", "--once")
    (moved,) = scratch.state.glob("backups.moved-*")
    kinds = {"file": stat.S_IFREG, "fifo": stat.S_IFIFO, "link": stat.S_IFLNK}
    assert stat.S_IFMT(moved.lstat().st_mode) == kinds[what]
    assert len(backups.list_copies(scratch.state)) == 1
    (told,) = alarms(scratch, alarming.DATABASE)
    assert told == f"something else was in the place of backups; memoryd moved it to {moved.name} and rebuilt backups"
    moved.unlink()
    scratch.json("run", "--once")
    assert alarms(scratch, alarming.DATABASE) == []


def test_a_link_to_the_copies_on_an_absent_disk_stays_and_forget_does_not_succeed_without_them(scratch):
    folder, disk = scratch.state / "backups", scratch.root / "disk"
    scratch.json("facts", "add", "Wears size 43 shoes.")
    (fact,) = [one["id"] for one in scratch.json("facts", "list") if "43" in one["content"]]
    scratch.json("run", "--once")
    folder.rename(disk)
    folder.symlink_to(disk)
    disk.rename(scratch.root / "absent")
    error = scratch.json("forget", fact, "--yes", code=1)
    assert "mount the disk of the copies, or remove the link" in str(error)
    assert "mount the disk" in scratch.json("run", "--once", code=1)["hint"]
    assert folder.is_symlink()
    assert not list(scratch.state.glob("backups.moved-*"))
    (scratch.root / "absent").rename(disk)
    scratch.json("run", "--once")
    scratch.json("forget", fact, "--yes")
    assert all(b"size 43" not in one.read_bytes() for one in backups.list_copies(scratch.state))


@pytest.mark.parametrize("name", [b"notes.moved-2024", b"index.db.moved-\xff"])
def test_a_file_of_somebody_with_a_similar_name_is_no_alarm(scratch, name):
    (scratch.state / os.fsdecode(name)).write_text("mine", encoding="utf-8")
    scratch.json("run", "--once")
    assert alarms(scratch, alarming.DATABASE) == []


def test_copies_that_somebody_copied_today_do_not_replace_the_copy_of_the_day(scratch):
    with in_process(scratch, lambda: recent() + timedelta(days=2)) as app:
        for one in backups.list_copies(scratch.state):
            os.utime(one, (app.clock.now().timestamp(),) * 2)
        run_once(app)
    assert len(backups.list_copies(scratch.state)) == 2


def test_a_copy_that_is_removed_meanwhile_is_no_copy_of_the_day(scratch, monkeypatch):
    real = backups.list_copies

    def race(folder):
        found = real(folder)
        if not raced:
            raced.append(backups.remove(found))
        return found

    raced = []
    with in_process(scratch) as app, monkeypatch.context() as patched:
        patched.setattr(backups, "list_copies", race)
        app.keeper.keep(app.engine, app.settings, app.clock)
    assert len(backups.list_copies(scratch.state)) == 1


def test_starts_with_a_clock_that_went_back_displace_no_copies(scratch):
    for day in range(4):
        with in_process(scratch, lambda day=day: recent() + timedelta(days=day)) as app:
            run_once(app)
    before = backups.list_copies(scratch.state)
    for hour in range(3):
        with in_process(scratch, lambda hour=hour: recent() - timedelta(days=365, hours=-hour / 60)) as app:
            run_once(app)
    after = backups.list_copies(scratch.state)
    assert after[1:] == before  # one copy of this day, which is the newest
    with in_process(scratch, lambda: recent() + timedelta(days=3)) as app:
        run_once(app)
    assert backups.list_copies(scratch.state) == after
