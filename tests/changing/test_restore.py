"""A restore keeps out what was forgotten and loses nothing, wherever it is stopped and whatever else is lost."""

import errno
import os
import shutil
import signal
from unittest.mock import patch

import pytest
from daily import one_each, one_in
from scratch import Scratch, filler, message, recent, said

from memoryd import config
from memoryd.changing import recovery
from memoryd.database import backups
from memoryd.errors import StateError
from memoryd.files.journal import Journal
from memoryd.interfaces import backup

PLACE = "The spare key lies under the blue flowerpot in Uppsala."
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"  # a token of GitHub by its form


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("made") / "scratch")
    scratch.append([*said(at=recent()), message("user", PLACE, at=recent()), filler(at=recent())])
    scratch.json("run", "--once")
    scratch.json("facts", "add", "Wears size 43 shoes.")
    scratch.json("backup", str(scratch.root / "b"))
    shutil.copytree(scratch.root, scratch.root.with_name("pristine"))
    return scratch


@pytest.fixture
def scratch(made):
    return made.copied(made.root.with_name("pristine"))


def restore(scratch):
    return backup.restore(config.load(scratch.config), scratch.root / "b")["told"]


def facts(scratch):
    return sorted(one["content"] for one in scratch.json("facts", "list"))


def find(scratch, *words):
    """The files of state and workspace that have one of the words, but for transcripts and the backup."""
    spared = (scratch.sessions, scratch.root / "b")
    files = [path for path in scratch.root.rglob("*") if path.is_file() and not {path, *path.parents} & {*spared}]
    return [path for path in files if any(word.encode() in path.read_bytes() for word in words)]


def lose(scratch, *names):
    for path in [one for name in names for one in scratch.state.glob(name)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def kill(scratch, at):
    """Kill a restore, in a process of its own, where it calls the function `at`."""
    pid = os.fork()
    if not pid:
        with patch(at, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)):
            restore(scratch)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


CALLS = (
    "memoryd.interfaces.backup.recover_database", "memoryd.database.texts.rewrite_file",
    "memoryd.interfaces.backup.exchange_files", "memoryd.files.locked_folder.os.link",
    "memoryd.files.locked_folder.follow_folder",
    "memoryd.interfaces.backup.open_app", "memoryd.running.runner.Runner.recover",
)  # fmt: skip


@pytest.mark.parametrize(("at", "keep"), one_each(CALLS, [1, 7]))
def test_a_restore_that_was_killed_and_is_repeated_loses_nothing_and_brings_nothing_back(scratch, at, keep):
    scratch.write_config(retention={"backups": keep})
    scratch.json("facts", "add", "Drinks oolong tea.")
    scratch.json("forget", "--yes", "session:one")
    scratch.json("facts", "add", "Likes herons.")
    before = facts(scratch), scratch.query("SELECT * FROM audit")
    kill(scratch, at)
    restore(scratch)
    assert (facts(scratch), scratch.query("SELECT * FROM audit")) == before
    assert find(scratch, PLACE) == []
    assert scratch.json("verify") == {"ok": True, "problems": []}


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (("memoryd.db*", "journal.jsonl", "backups"), "what changed after the newest copy is lost"),
        (("memoryd.db*", "journal.jsonl"), "what changed after the newest copy is lost"),
        (("watermarks.jsonl",), "later changes of 3 memories came back"),
    ],
)
def test_a_forgotten_session_stays_forgotten_whatever_else_is_lost(scratch, lost, told):
    scratch.json("forget", "--yes", "session:one")
    lose(scratch, *lost)
    assert told in restore(scratch)[0]
    assert scratch.query("SELECT count(*) FROM alarm WHERE cleared_at IS NULL") == [("lost" in told,)]
    assert find(scratch, PLACE) == []


def test_a_journal_of_watermarks_that_was_lost_names_forgotten_texts_again(scratch):
    scratch.json("forget", "--yes", "session:one")
    told = [one for one in Journal(scratch.state / "watermarks.jsonl", sealed=True).entries() if "forgotten" in one]
    lose(scratch, "watermarks.jsonl")
    scratch.json("run", "--once")
    assert [
        one for one in Journal(scratch.state / "watermarks.jsonl", sealed=True).entries() if "forgotten" in one
    ] == told


@pytest.mark.parametrize("what", ["session:two", "fact"])
def test_what_was_forgotten_after_a_redaction_stays_forgotten(scratch, what):
    """Its key is the one of the redacted text, and the backup has the text from before."""
    scratch.append([message("user", f"The heron nest is at pier nine, and the key is {SECRET}.", at=recent(1))], "two")
    scratch.json("run", "--once")
    if what == "fact":
        scratch.json("facts", "add", "The heron nest is at pier nine, and the key is")
    (scratch.root / "b").unlink()
    scratch.json("backup", str(scratch.root / "b"))
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.json("scrub", "--again")
    (fact,) = [one["id"] for one in scratch.json("facts", "list") if "heron" in one["content"]] or [what]
    scratch.json("forget", "--yes", fact)
    assert find(scratch, "heron nest", SECRET) == []
    restore(scratch)
    assert find(scratch, "heron nest", SECRET) == []


def test_a_row_that_was_damaged_since_does_not_come_back_damaged(scratch):
    scratch.json("facts", "add", "Drinks oolong tea.")
    path = scratch.state / "memoryd.db"
    backups.settle(path)
    path.write_bytes(path.read_bytes().replace(b"size 43 shoes", b"size 99 shoes"))
    assert "1 row of memory differed from copy and journal" in restore(scratch)[0]
    assert facts(scratch) == ["Drinks oolong tea.", "Wears size 43 shoes."]
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_a_database_of_an_older_version_gives_its_later_changes_too(scratch):
    scratch.json("facts", "add", "Drinks oolong tea.")
    lose(scratch, "backups", "journal.jsonl")
    scratch.change("ALTER TABLE session DROP COLUMN branch")
    scratch.change("PRAGMA user_version = 16")
    restore(scratch)
    assert facts(scratch) == ["Drinks oolong tea.", "Wears size 43 shoes."]


def refuse(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("at", ["memoryd.database.backups.copy_database", "memoryd.files.archive.os.fsync"])
def test_a_full_disk_stops_a_restore_before_it_replaces_anything(scratch, at):
    scratch.json("facts", "add", "Drinks oolong tea.")
    with patch(at, refuse(errno.ENOSPC)), pytest.raises((StateError, OSError), match="No space left") as told:
        restore(scratch)
    if "archive" in at:
        assert told.value.where.startswith(f"{scratch.state}/")
    assert list(scratch.state.glob("memoryd.replaced-*")) == []
    assert facts(scratch) == ["Drinks oolong tea.", "Wears size 43 shoes."]


def test_a_database_that_cannot_be_rewritten_stops_a_restore_too(scratch):
    with (
        patch("memoryd.interfaces.backup.texts.rewrite_file", refuse(errno.ENOSPC)),
        pytest.raises(OSError, match="space"),
    ):
        restore(scratch)
    assert list(scratch.state.glob("memoryd.replaced-*")) == []


def test_a_memory_that_only_the_replaced_history_has_forgotten_is_forgotten_again(scratch):
    scratch.json("backup", str(scratch.root / "saved"))
    scratch.json("facts", "add", "The cat is called Minka.")
    (scratch.root / "b").unlink()
    scratch.json("backup", str(scratch.root / "b"))
    lose(scratch, "memoryd.db*", "journal.jsonl", "backups")
    (scratch.root / "b").rename(scratch.root / "other")
    (scratch.root / "saved").rename(scratch.root / "b")
    restore(scratch)
    (fact,) = [one["id"] for one in scratch.json("facts", "list")]
    scratch.json("forget", "--yes", fact)
    scratch.json("facts", "add", "Drinks oolong tea.")
    (scratch.root / "first").mkdir()  # only this history has the row of the first agent, which redacts for all
    scratch.agents.insert(0, scratch.agent("first", scratch.root / "first"))
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.json("scrub", "--again")
    (scratch.root / "other").replace(scratch.root / "b")
    assert restore(scratch) == [recovery.PARTED]
    assert [one["content"] for one in scratch.json("facts", "list", "--agent", "demo")] == ["The cat is called Minka."]
    assert find(scratch, "size 43") == []
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_a_restore_says_if_a_text_to_remove_is_still_there(scratch):
    scratch.write_config(scrub={"secrets": "redact"})
    scratch.json("scrub", "--again")
    with patch("memoryd.changing.rescrub.Rescrub.run", refuse(errno.EIO)):
        told = restore(scratch)
    assert "text to remove is still there" in told[-1]


def test_a_new_database_beside_a_journal_of_watermarks_knows_what_was_forgotten(scratch):
    scratch.json("forget", "--yes", "session:one")
    known = scratch.query("SELECT * FROM forgotten_text")
    lose(scratch, "memoryd.db*", "journal.jsonl", "backups")
    scratch.json("run", "--once")
    assert sorted(scratch.query("SELECT * FROM forgotten_text")) == sorted(known) != []
    assert find(scratch, PLACE) == []


def begin_anew(scratch):
    lose(scratch, "memoryd.db*", "journal.jsonl", "backups", "watermarks.jsonl")
    scratch.json("run", "--once")
    scratch.json("facts", "add", "The cat is called Minka.")


def alarms(scratch):
    return scratch.query("SELECT text FROM alarm WHERE cleared_at IS NULL")


@pytest.mark.parametrize("lost", [(), ("memoryd.db*",), ("memoryd.db*", "backups"), ("journal.jsonl",)])
def test_a_database_that_was_begun_anew_is_not_dropped_silently(scratch, lost):
    begin_anew(scratch)
    lose(scratch, *lost)
    assert restore(scratch) == [recovery.PARTED]
    assert alarms(scratch) == [(recovery.PARTED,)]
    assert "after a restore, only what the text names is needed" in scratch.run("status").stdout
    assert facts(scratch) == ["Wears size 43 shoes."]
    assert scratch.json("verify") == {"ok": True, "problems": []}


@pytest.mark.parametrize("lost", one_in(2, [(), ("memoryd.db*",), ("memoryd.db*", "backups")]))
def test_a_fact_that_was_forgotten_after_a_restore_of_another_history_stays_forgotten(scratch, lost):
    begin_anew(scratch)
    restore(scratch)
    assert restore(scratch) == []  # nothing happened since
    begin_anew(scratch)
    restore(scratch)
    (fact,) = [one["id"] for one in scratch.json("facts", "list")]
    scratch.json("forget", "--yes", fact)
    lose(scratch, *lost)
    assert restore(scratch) == [recovery.PARTED]
    assert facts(scratch) == find(scratch, "size 43") == []
    assert scratch.json("verify") == {"ok": True, "problems": []}


def test_a_restore_that_needs_nothing_of_a_new_database_says_nothing(scratch):
    lose(scratch, "*")
    assert restore(scratch) == alarms(scratch) == []
    assert restore(scratch) == alarms(scratch) == []
    assert facts(scratch) == ["Wears size 43 shoes."]


def test_lines_of_the_journal_that_were_damaged_beside_a_lost_database_are_told(scratch):
    count = len((scratch.state / "journal.jsonl").read_bytes().splitlines())
    scratch.json("facts", "add", "Drinks oolong tea.")
    lose(scratch, "memoryd.db*", "backups")
    path = scratch.state / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:count], *(one.replace(b'"seq"', b'"sfq"') for one in lines[count:])]))
    told = f"not restored: the content of {len(lines) - count} damaged line"
    assert [one.partition("s of")[0] for one in restore(scratch)] == [told]
    assert [one.partition("s of")[0] for (one,) in alarms(scratch)] == [told]


@pytest.mark.parametrize("lost", [("journal.jsonl",), ("journal.jsonl", "memoryd.db*")])
def test_what_no_copy_has_is_told_where_the_journal_is_gone_too(scratch, lost):
    told = "the journal was missing; what changed after the newest copy is lost"
    scratch.json("facts", "add", "Drinks oolong tea.")
    backups.settle(scratch.state / "memoryd.db")
    with (scratch.state / "memoryd.db").open("rb+") as file:
        file.write(b"x" * 100)
    lose(scratch, *lost)
    shutil.copytree(scratch.state, scratch.root / "saved")
    assert restore(scratch) == [told]
    assert alarms(scratch) == [(told,)]
    shutil.rmtree(scratch.state)
    (scratch.root / "saved").rename(scratch.state)
    scratch.json("run", "--once")
    assert told in " ".join(text for (text,) in alarms(scratch))
