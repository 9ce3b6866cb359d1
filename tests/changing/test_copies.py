"""Copies of the database: nothing else takes the place of their folder, and no clock displaces them."""

import os
import shutil
import stat

import pytest
from scratch import Scratch, filler, recent, said

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
        folder.symlink_to(scratch.root / "nowhere")
    scratch.json("run", "--once")
    (moved,) = scratch.state.glob("backups.moved-*")
    kinds = {"file": stat.S_IFREG, "fifo": stat.S_IFIFO, "link": stat.S_IFLNK}
    assert stat.S_IFMT(moved.lstat().st_mode) == kinds[what]
    assert len(backups.list_copies(scratch.state)) == 1
    (told,) = alarms(scratch, alarming.DATABASE)
    assert told == f"something else was in the place of backups; it is now {moved.name}, and memoryd made backups anew"
    moved.unlink()
    scratch.json("run", "--once")
    assert alarms(scratch, alarming.DATABASE) == []
