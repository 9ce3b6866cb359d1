"""Ingest, one fault at a time: what writers, rotation, crashes and file systems do to a transcript."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from daily import one_in
from ingest_world import SESSION, World, claude, copy_of, lines, message
from places import ROOT, WORLDS

from memoryd.errors import StateError
from memoryd.files import ranges
from memoryd.reading import cursor as reading
from memoryd.reading import ingest as ingesting
from memoryd.reading.ingest import Ingest
from memoryd.transcripts import fate

LOG = "log.jsonl"


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as made:
        yield made


@pytest.fixture
def disk_world():
    """A world on a disk, which uses the number of an inode again sooner than a file system in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, World(Path(folder)) as made:
        yield made


def claudes(first: int, last: int) -> bytes:
    return lines(claude(number, f"text {number}") for number in range(first, last + 1))


def texts(first: int, last: int) -> list[str]:
    return [f"text {number}" for number in range(first, last + 1)]


# --- lines --------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["claude", "messages"])
def test_a_file_cut_at_every_byte_with_a_restart_between_gives_each_record_once(world, shape):
    data = claudes(1, 3) if shape == "claude" else lines(map(message, ("text 1", "text 1", "text 3")))
    for cut in range(len(data) + 1):
        name = f"{cut:08d}-0000-4000-8000-000000000000.jsonl"
        path = world.write(name, data[:cut])
    world.poll()
    for row in world.transcripts().values():
        cut = int(Path(row["path"]).name[:8])
        assert row["offset"] == data[:cut].rfind(b"\n") + 1
    world.restart()
    for cut in range(len(data) + 1):
        world.append(f"{cut:08d}-0000-4000-8000-000000000000.jsonl", data[cut:])
    world.poll()
    if shape == "claude":
        assert Counter(world.texts()) == Counter(texts(1, 3))  # the copies share their ids
        assert {row["offset"] for row in world.transcripts().values()} == {len(data)}
    else:
        assert Counter(world.texts()) == {"text 1": 2 * (len(data) + 1), "text 3": len(data) + 1}
    assert path.exists()


def test_a_half_line_that_is_never_finished_is_reported_once_and_costs_no_neighbour(world):
    world.write(LOG, claudes(1, 1) + b'{"type":"user","te' + claudes(2, 3))
    world.poll()
    world.restart()
    world.append(LOG, claudes(4, 4))
    world.poll()
    assert world.texts() == texts(1, 4)
    (span,) = world.query("SELECT first_byte, last_byte, reason FROM bad_span")
    begin = len(claudes(1, 1))
    assert (span["first_byte"], span["last_byte"]) == (begin, begin + len(b'{"type":"user","te'))


def test_a_last_line_without_an_end_is_taken_once_the_file_has_rested_also_after_a_restart(world):
    world.write(LOG, claudes(1, 1) + claude(2, "text 2"))
    world.poll()
    assert world.texts() == texts(1, 1)
    world.restart()
    world.poll()
    assert world.texts() == texts(1, 1)
    world.later(120)
    world.poll()
    assert world.texts() == texts(1, 2)
    world.append(LOG, b"\n" + claudes(3, 3))
    world.poll()
    assert world.texts() == texts(1, 3)
    world.check_spans()


def test_a_file_that_an_earlier_process_read_to_its_end_is_opened_once_more_only(world, monkeypatch):
    world.write(LOG, claudes(1, 3))
    world.poll()
    world.restart()
    world.later(120)
    opened = []
    real = Ingest._look_closer
    monkeypatch.setattr(Ingest, "_look_closer", lambda *told: (opened.append(told[-1]), real(*told)))
    world.poll()
    assert len(opened) == 1
    world.later(120)
    world.poll()
    assert len(opened) == 1
    world.append(LOG, claudes(4, 4))
    world.poll()
    assert len(opened) == 2
    assert world.texts() == texts(1, 4)


def test_a_session_keeps_the_branch_of_the_last_record_that_says_without_secrets(world):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    for given, kept in (({"gitBranch": "fix/a"}, "fix/a"), ({}, "fix/a"), ({"gitBranch": "HEAD"}, None)):
        record = json.loads(claude(len(world.texts()) + 1, "text")) | given
        world.append(LOG, lines([json.dumps(record).encode()]))
        world.poll()
        assert [row["branch"] for row in world.query("SELECT branch FROM session")] == [kept]
    record = json.loads(claude(9, "text")) | {"gitBranch": f"x/{token}"}
    world.append(LOG, lines([json.dumps(record).encode()]))
    world.poll()
    (row,) = world.query("SELECT branch FROM session")
    assert row["branch"]
    assert token not in row["branch"]


def test_a_file_larger_than_one_stretch_is_read_to_its_end_without_growing(world, monkeypatch):
    monkeypatch.setattr(ingesting, "READ_LIMIT", 1000)
    monkeypatch.setattr(reading, "CHUNK", 500)
    log = world.write(LOG, claudes(1, 20))
    world.ingest.hint(str(log))
    world.ingest.flush()
    assert 0 < len(world.texts()) < 20
    assert world.ingest.unread == {"log"}
    world.restart()
    world.poll()
    assert world.texts() == texts(1, 20)
    assert world.ingest.unread == set()


@pytest.mark.parametrize("size", [1, 40, 300, 1023, 1024, 1025, 1100])
def test_files_smaller_than_a_fingerprint_are_read(world, size):
    record = message("x" * max(0, size - len(message("")) - 1)) + b"\n"
    world.write(LOG, record)
    world.poll()
    world.restart()
    world.append(LOG, message("more") + b"\n")
    world.poll()
    assert world.texts()[-1] == "more"
    assert len(world.texts()) == (2 if len(record) > len(message("")) + 1 else 1)
    world.check_spans()


def test_bytes_that_are_no_json_never_stop_a_file(world):
    strange = [
        b'{"role":"user","content":"\xff\xfe broken"}', b'{"role":"user","content":"a\\ud800b"}',
        '{"role":"user","content":"a\u2028b\u0085c"}'.encode(), b'{"role":"user","content":"a\\u0000b"}',
        b'{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"role":"user","content":"n","n":' + b"9" * 5000 + b"}", b'{"role":"user","content":"nan","x":NaN}',
        b'{"role":"user","content":"first","content":"last"}', b"\0" * 300, b"null", b"[1]", b'"text"', b"{",
        b'{"role":"user","content":"cwd","cwd":"\\ud800/x"}',
    ]  # fmt: skip
    world.write(LOG, lines([message("begin"), *strange, message("end")]))
    world.poll()
    stored = world.texts()
    assert stored[0] == "begin"
    assert stored[-1] == "end"
    assert "a\u2028b\u0085c" in stored
    assert "last" in stored
    assert "a\ufffdb" in stored
    assert {row["reason"] for row in world.query("SELECT reason FROM bad_span")} >= {"not JSON", "NUL bytes"}
    world.check_spans()


def test_a_truncation_under_a_writer_leaves_a_hole_that_is_passed_over_and_reported(world, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 4000)
    monkeypatch.setattr(reading, "CHUNK", 1000)
    path = world.write(LOG, claudes(1, 50))
    world.poll()
    with path.open("r+b", buffering=0) as writer:
        writer.seek(0, os.SEEK_END)
        hole = writer.tell()
        os.truncate(path, 0)
        world.poll()
        writer.write(claudes(51, 52))
        world.poll()
    assert world.texts() == texts(1, 52)
    (span,) = world.query("SELECT first_byte, last_byte, reason FROM bad_span")
    assert (span["first_byte"], span["last_byte"], span["reason"]) == (0, hole, "NUL bytes")
    world.check_spans()


HUGE = """
    import resource, sys
    from pathlib import Path
    from ingest_world import World, claude
    root = Path(sys.argv[1])
    with World(root) as world:
        with world.path("log.jsonl").open("wb") as file:
            if sys.argv[2] == "first":
                file.write(claude(1, "before") + b"\\n")
            file.write(b'{"type":"user","message":{"role":"user","content":"')
            for _ in range(64):
                file.write(b"x" * (1 << 20))
            file.write(b'"}}\\n' + claude(2, "after") + b"\\n")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        world.poll()
        rows = world.rows()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        print([row.text if len(row.text) < 10 else "excerpt" for row in rows])
        assert all(len(row.text) < 20_000 for row in rows)
        world.check_spans()
        world.restart()
        world.path("log.jsonl").open("ab").write(claude(3, "later") + b"\\n")
        world.poll()
        assert len(world.rows()) == len(rows) + 1
"""


@pytest.mark.parametrize("place", one_in(2, ["begins", "first"]))
def test_a_line_of_64_mib_costs_bounded_memory_and_no_neighbour(tmp_path, place):
    script = tmp_path / "huge.py"
    script.write_text(textwrap.dedent(HUGE))
    limit = 600 << 20
    done = subprocess.run(
        [sys.executable, script, tmp_path, place], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(WORLDS), str(ROOT)]), "PYTHONWARNINGS": ""},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    grown, stored = done.stdout.splitlines()
    assert stored == str((["before"] if place == "first" else []) + ["excerpt", "after"])
    assert int(grown) < 48 << 10  # KiB


# --- what files become --------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_cut_and_grown_past_the_offset_is_read_from_its_start(world, restart):
    path = world.write(LOG, claudes(1, 5))
    world.poll()
    if restart:
        world.restart()
    os.truncate(path, 0)
    world.append(LOG, claudes(6, 20))
    world.poll()
    assert Counter(world.texts()) == Counter(texts(1, 20))
    assert world.transcript(LOG)["fate"] == "regrown"
    world.check_spans()


def reuse(world: World, name: str, data: bytes, inode: int) -> Path:
    """A new file with the inode number that an old one had."""
    fillers = [world.path(f"filler {number}") for number in range(500)]
    for filler in fillers:
        filler.write_bytes(data)
        if filler.stat().st_ino == inode:
            return filler.rename(world.path(name))
    pytest.skip("this file system does not use inodes again soon")


def test_a_new_file_under_a_used_inode_is_read_from_its_start(disk_world):
    path = disk_world.write(LOG, claudes(1, 5))
    disk_world.poll()
    disk_world.files.close()
    inode = path.stat().st_ino
    path.unlink()
    reuse(disk_world, LOG, claudes(6, 20), inode)
    disk_world.poll()
    assert Counter(disk_world.texts()) == Counter(texts(1, 20))


@pytest.mark.parametrize("name", ["b.jsonl", "a.jsonl.1", "notes.txt"])
def test_another_file_under_the_inode_of_a_deleted_one_has_a_session_of_its_own(disk_world, name):
    old = disk_world.write("a.jsonl", lines([message("one"), message("two")]))
    disk_world.poll()
    disk_world.files.close()
    inode = old.stat().st_ino
    old.unlink()
    new = reuse(disk_world, name, lines([message("three"), message("four"), message("five")]), inode)
    disk_world.hint(new)
    disk_world.poll()
    fresh = ["three", "four", "five"] if name != "notes.txt" else []
    assert disk_world.texts() == ["one", "two", *fresh]
    assert len({row.session_id for row in disk_world.rows()}) == (2 if fresh else 1)
    assert disk_world.transcript("a.jsonl")["fate"] == "deleted"


def test_files_that_begin_alike_are_told_apart(world):
    head = lines([claude(0, "h" * 2000)])
    for number in range(1, 21):
        world.write(f"{number}.jsonl", head + claudes(number, number))
    world.poll()
    assert Counter(world.texts()) == Counter(["h" * 2000, *texts(1, 20)])


def test_an_edit_of_the_same_length_keeps_both_texts_and_is_read_once(world):
    data = claudes(1, 5)
    path = world.write(LOG, data)
    world.poll()
    before = path.stat()
    path.write_bytes(data.replace(b"text 3", b"TEXT 3"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    world.poll()
    world.restart()
    world.poll()
    assert Counter(world.texts()) == Counter([*texts(1, 5), "TEXT 3"])
    assert world.transcript(LOG)["fate"] == "edited"
    assert {row.generation for row in world.rows() if row.text != "text 3"} == {2}
    world.check_spans()


def test_an_edit_that_is_taken_back_is_nothing_new(world):
    data = claudes(1, 3)
    for version in (data, data.replace(b"text 2", b"TEXT 2"), data, data.replace(b"text 2", b"TEXT 2")):
        world.write(LOG, version)
        world.poll()
    assert Counter(world.texts()) == Counter([*texts(1, 3), "TEXT 2"])
    assert {row.text: row.generation for row in world.rows()}["TEXT 2"] == 4
    world.check_spans()


def test_a_record_written_anew_with_the_same_text_keeps_its_row_and_gets_its_new_place(world):
    world.write(LOG, claudes(1, 3))
    world.poll()
    world.write(LOG, claudes(1, 3).replace(b'"cwd":"/home/ann/shop"', b'"cwd":"/home/ann/else"'))
    world.poll()
    assert world.texts() == texts(1, 3)
    assert {row.generation for row in world.rows()} == {2}
    world.check_spans()


def test_an_edit_before_an_append_to_a_large_file_is_found_when_it_rests(world, monkeypatch):
    monkeypatch.setattr(fate, "ALWAYS_VERIFY_BYTES", 100)
    data = claudes(1, 60)
    world.write(LOG, data[:-100])
    world.poll()
    world.append(LOG, data[-100:])
    world.later(1)  # else a look within the same clock tick would be doubted
    world.poll()
    world.write(LOG, data.replace(b"text 33", b"TEXT 33") + claudes(61, 61))
    world.poll()
    assert "TEXT 33" not in world.texts()  # head and marker are as they were: this is the price of not hashing always
    world.later(120)
    world.poll()
    assert Counter(world.texts()) == Counter([*texts(1, 61), "TEXT 33"])
    world.check_spans()


def test_history_that_is_written_again_is_not_new(world):
    history = claudes(1, 5000)
    world.write(LOG, history)
    world.poll()
    world.ingest.changed.clear()
    world.append(LOG, history)
    world.poll()
    assert len(world.rows()) == 5000
    assert world.ingest.changed == set()  # so nothing looks at the session again, and nothing is spent


def test_a_fork_adds_only_what_it_does_not_share(world):
    world.write("a.jsonl", claudes(1, 5))
    world.poll()
    copy_of(world.path("a.jsonl"), world.path("b.jsonl"))
    world.append("b.jsonl", claudes(6, 7))
    world.append("a.jsonl", claudes(8, 8))
    world.poll()
    assert Counter(world.texts()) == Counter(texts(1, 8))
    assert {row.text: row.session_id for row in world.rows()}["text 6"] == "b"
    world.check_spans()


def test_text_stays_when_its_transcript_is_deleted_and_what_is_written_last_is_still_read(world):
    path = world.write(LOG, claudes(1, 2))
    world.poll()
    world.append(LOG, claudes(3, 3) + claude(4, "text 4"))
    path.unlink()
    world.poll()
    world.poll()
    assert world.texts() == texts(1, 4)
    assert world.transcript(LOG)["fate"] == "deleted"
    assert world.transcript(LOG)["size"] >= world.transcript(LOG)["offset"], "else `verify` reports it for ever"
    assert world.alarms() == []
    assert len(world.files) == 0
    world.restart()
    world.write(LOG, claudes(5, 5))
    world.poll()
    assert world.texts() == texts(1, 5)
    assert world.transcript(LOG)["fate"] == "recreated"


def test_a_deleted_file_that_comes_back_elsewhere_goes_on(world):
    data = lines([message("one"), message("one")])
    path = world.write("a.jsonl", data)
    world.poll()
    target = world.path("sub/b.jsonl")
    target.parent.mkdir()
    path.rename(target)
    world.hint(path)  # the hint of the old name may come first
    world.append("sub/b.jsonl", message("two") + b"\n")
    world.hint(target)
    world.restart()
    world.poll()
    assert world.texts() == ["one", "one", "two"]
    assert len(world.query("SELECT id FROM session")) == 1


def test_a_rotated_file_is_read_to_its_end_under_its_new_name(world):
    path = world.write(LOG, lines([message("one")]))
    world.poll()
    old = path.rename(world.path(LOG + ".1"))
    world.write(LOG, lines([message("three")]))
    world.poll()
    with old.open("ab") as late:
        late.write(message("two") + b"\n")
    world.hint(old)
    world.restart()
    with old.open("ab") as late:
        late.write(message("more") + b"\n")
    world.poll()
    assert Counter(world.texts()) == Counter(["one", "two", "three", "more"])
    first, second = (world.transcript(name)["session_id"] for name in (LOG + ".1", LOG))
    assert first != second


def test_two_files_that_change_names_keep_their_sessions(world):
    one = world.write("a.jsonl", lines([message("a 1"), message("a 2")]))
    two = world.write("b.jsonl", lines([message("b 1")]))
    world.poll()
    sessions = {row.text[0]: row.session_id for row in world.rows()}
    two.rename(world.path("c.tmp"))
    one.rename(two)
    world.path("c.tmp").rename(one)
    world.append("b.jsonl", message("a 3") + b"\n")
    world.append("a.jsonl", message("b 2") + b"\n")
    world.poll()
    world.restart()
    world.poll()
    assert Counter(world.texts()) == Counter(["a 1", "a 2", "a 3", "b 1", "b 2"])
    assert {row.text[0]: row.session_id for row in world.rows()} == sessions
    world.check_spans()


def test_a_file_saved_by_an_editor_with_a_backup_beside_it_goes_on(world):
    path = world.write(LOG, lines([message("one"), message("one")]))
    world.poll()
    path.rename(world.path(LOG + "~"))
    path.write_bytes(lines([message("one"), message("one"), message("two")]))
    world.poll()
    assert world.texts() == ["one", "one", "two"]
    assert world.transcript(LOG)["fate"] == "rewritten"


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_is_read_once_under_all_its_names(world, restart):
    path = world.write("a.jsonl", lines([message("one"), message("one")]))
    world.path("b.jsonl").hardlink_to(path)
    world.poll()
    if restart:
        world.restart()
    path.unlink()
    world.append("b.jsonl", message("two") + b"\n")
    world.poll()
    assert world.texts() == ["one", "one", "two"]


def test_a_link_in_the_place_of_a_transcript_is_not_followed_and_said_until_it_is_gone(world, tmp_path):
    path = world.write(LOG, claudes(1, 1))
    world.poll()
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(claudes(2, 3))
    path.unlink()
    path.symlink_to(outside)
    world.poll()
    world.hint(path)
    assert world.texts() == texts(1, 1)
    (alarm,) = world.alarms()
    assert alarm["kind"] == "unreadable"
    assert "symbolic link" in alarm["text"]
    world.restart()
    path.unlink()
    world.poll()
    assert world.alarms() == []


def test_a_name_that_is_no_text_is_reported_and_stops_nobody(world):
    name = os.fsencode(world.sessions) + b"/\xff\xfe.jsonl"
    Path(os.fsdecode(name)).write_bytes(claudes(1, 1))
    world.write(LOG, claudes(2, 2))
    world.poll()
    assert world.texts() == texts(2, 2)
    assert [alarm["kind"] for alarm in world.alarms()] == ["unreadable"]


UNREADABLE = """
    import sys
    from pathlib import Path
    from ingest_world import World, claude
    with World(Path(sys.argv[1])) as world:
        path = world.write("log.jsonl", claude(1, "one") + b"\\n")
        path.chmod(0)
        folder = world.path("sub")
        world.write("sub/b.jsonl", claude(2, "two") + b"\\n")
        folder.chmod(0)
        world.poll()
        world.poll()
        assert world.texts() == [], world.texts()
        assert len(world.alarms()) == 2, world.alarms()
        world.restart()
        path.chmod(0o600)
        folder.chmod(0o700)
        world.poll()
        assert sorted(world.texts()) == ["one", "two"], world.texts()
        assert world.alarms() == [], world.alarms()
        folder.chmod(0)
        world.poll()
        assert world.transcript("sub/b.jsonl")["fate"] == "new"
        folder.chmod(0o700)
        world.append("sub/b.jsonl", claude(3, "three") + b"\\n")
        world.poll()
        assert len(world.texts()) == 3
"""


def test_what_may_not_be_read_is_reported_and_read_once_it_may(tmp_path):
    script = tmp_path / "unreadable.py"
    script.write_text(textwrap.dedent(UNREADABLE))
    command = [sys.executable, "-B", str(script), str(tmp_path / "world")]
    (tmp_path / "world").mkdir()
    if os.geteuid() == 0:
        for folder in (tmp_path, *tmp_path.parents):
            if folder.name.startswith(("pytest-", "popen-")) or folder == tmp_path:
                folder.chmod(folder.stat().st_mode | 0o055)
        (tmp_path / "world").chmod(0o777)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    path = os.pathsep.join([str(WORLDS), str(ROOT)])
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
        )
    except FileNotFoundError:
        pytest.skip("needs setpriv")
    if any(word in done.stderr for word in ("failed to execute", "ModuleNotFoundError", "loading shared libraries")):
        pytest.skip("nobody may not run this Python")
    assert done.returncode == 0, done.stderr


# --- failures in the middle ---------------------------------------------------


@pytest.mark.parametrize("shape", ["claude", "messages"])
@pytest.mark.parametrize("fails_at", range(1, 12))
def test_a_disk_that_fails_while_a_file_is_read_costs_only_another_look(world, monkeypatch, fails_at, shape):
    monkeypatch.setattr(reading, "CHUNK", 300)
    data = claudes(1, 8) if shape == "claude" else lines(message(f"text {n}") for n in range(1, 9))
    world.write(LOG, data[:200])
    world.poll()
    world.restart()
    world.append(LOG, data[200:])
    left = iter(range(fails_at - 1))
    read = ranges.Handle.chunks

    def failing(handle, first, length):
        if next(left, None) is None:
            raise StateError("cannot be read: Input/output error", str(handle.path))
        return read(handle, first, length)

    with monkeypatch.context() as patched:
        patched.setattr(ranges.Handle, "chunks", failing)
        world.ingest.scan()
    world.poll()
    assert world.texts() == texts(1, 8)
    assert world.alarms() == []
    world.check_spans()


class FullError(OSError):
    pass


def full(*_):
    raise FullError(errno.ENOSPC, "full")


@pytest.mark.parametrize("shape", [claude, lambda _, text: message(text)])
def test_what_could_not_be_stored_is_read_again(world, shape):
    world.write(LOG, lines(shape(number, f"text {number}") for number in (1, 2)))
    world.poll()
    world.append(LOG, shape(3, "text 3") + b"\n")
    world.write("new.jsonl", shape(4, "text 4") + b"\n")
    world.ingest.restored = full
    for _ in range(3):
        with pytest.raises(FullError):
            world.poll()
    world.ingest.restored = None
    world.poll()
    assert Counter(world.texts()) == Counter(texts(1, 4))
    assert len(world.query("SELECT id FROM session")) == 2


def test_a_database_that_cannot_even_be_read_after_a_failure_loses_nothing(world, monkeypatch):
    world.write(LOG, lines([message("one"), message("one")]))
    world.poll()
    world.append(LOG, message("two") + b"\n")
    world.ingest.restored = full
    with monkeypatch.context() as patched:
        patched.setattr("memoryd.database.turns.transcripts_of", full)
        for _ in range(2):
            with pytest.raises(FullError):
                world.poll()
    world.ingest.restored = None
    world.poll()
    assert world.texts() == ["one", "one", "two"]


def test_equal_lines_without_ids_are_counted_right_when_the_file_was_renamed_meanwhile(world):
    path = world.write(LOG, lines([message("yes"), message("no")]))
    world.poll()
    world.restart()
    world.append(LOG, message("yes") + b"\n")
    path.rename(world.path("other.jsonl"))
    world.write(LOG, lines([message("something else")]))
    world.poll()
    assert Counter(world.texts()) == Counter(["yes", "no", "yes", "something else"])


# --- whose, and what ----------------------------------------------------------


def in_folder(number: int, folder: str | None) -> bytes:
    value = json.loads(claude(number, f"text {number}"))
    if folder is None:
        del value["cwd"]
    else:
        value["cwd"] = folder
    return json.dumps(value).encode() + b"\n"


def test_a_project_keeps_others_out_also_when_the_file_gets_another_name(tmp_path):
    with World(tmp_path, {"project": Path("/home/ann/shop")}) as world:
        world.write("in.jsonl", in_folder(1, "/home/ann/shop/web"))
        path = world.write("out.jsonl", in_folder(2, "/home/ann/shop2"))
        world.write("up.jsonl", in_folder(3, "/home/ann/shop/../secret"))
        world.write("later.jsonl", in_folder(4, None))
        world.poll()
        assert world.texts() == ["text 1"]
        assert world.transcript("out.jsonl")["note"] == "recorded in another project"
        path.rename(world.path("out.jsonl.1"))
        world.append("later.jsonl", in_folder(5, "/home/ann/shop"))
        world.poll()
        world.restart()
        world.poll()
        assert Counter(world.texts()) == Counter(["text 1", "text 4", "text 5"])


def test_lines_that_never_name_a_folder_are_of_the_project_of_their_source(tmp_path):
    with World(tmp_path, {"project": tmp_path / "chat"}) as world:
        world.write("plain.jsonl", lines([message("Call me Jo.")]))
        world.write("claude.jsonl", in_folder(1, None))
        world.poll()
        assert world.texts() == ["Call me Jo."]
        assert world.transcript("plain.jsonl")["note"] is None


def test_a_first_line_without_a_time_makes_no_old_session_a_new_one(world):
    timed = json.loads(message("Never deploy on a Friday.")) | {"timestamp": "2026-01-02T03:04:05Z"}
    system = json.loads(message("You are an assistant.")) | {"role": "system"}
    world.write("old.jsonl", lines([json.dumps(one).encode() for one in (system, timed)]))
    world.poll()
    assert world.query("SELECT turns, last_turn_at FROM session") == [
        {"turns": 2, "last_turn_at": "2026-01-02T03:04:05.000Z"}
    ]


def test_a_session_without_times_has_that_of_its_file_however_old(world):
    path = world.write("old.jsonl", lines([message("Never deploy on a Friday.")]))
    os.utime(path, (0, 0))
    world.poll()
    assert world.query("SELECT last_turn_at FROM session") == [{"last_turn_at": "1970-01-01T00:00:00.000Z"}]


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", 1e11, "in two days"])
def test_a_time_more_than_a_day_ahead_is_unknown_and_the_file_has_the_time(world, at):
    at = (world.clock.now() + timedelta(days=2)).isoformat() if at == "in two days" else at
    ahead = json.dumps(json.loads(message("Never deploy on a Friday.")) | {"timestamp": at}).encode()
    path = world.write("ahead.jsonl", lines([ahead]))
    os.utime(path, (0, 0))
    world.poll()
    since = "1970-01-01T00:00:00.000Z"
    assert world.query("SELECT started_at, last_turn_at FROM session") == [{"started_at": since, "last_turn_at": since}]
    assert world.query("SELECT at FROM turn") == [{"at": None}]
    world.append("ahead.jsonl", lines([ahead.replace(b"Friday", b"Monday")]))
    os.utime(path, (9e9, 9e9))  # a file time that is ahead becomes the time of reading
    world.poll()
    (session,) = world.query("SELECT turns, last_turn_at FROM session")
    assert session["turns"] == 2
    assert "1970" < session["last_turn_at"] <= world.clock.text()


def test_a_time_within_a_day_ahead_is_kept(world):
    at = (world.clock.now() + timedelta(hours=20)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    world.write("zone.jsonl", lines([json.dumps(json.loads(message("text 1")) | {"timestamp": at}).encode()]))
    world.poll()
    assert world.query("SELECT last_turn_at FROM session") == [{"last_turn_at": at}]


def test_a_now_file_that_ends_ahead_ends_when_it_is_read(tmp_path):
    with World(tmp_path, {"pattern": "sessions/NOW-*.md"}) as world:
        times = "timestamp_start: 2099-01-01T00:00:00Z\ntimestamp_end: 2099-01-01T01:00:00Z"
        world.write("NOW-1.md", f"---\nsession_id: one\n{times}\n---\n\n## user\n\nNever deploy.\n".encode())
        world.poll()
        world.later(120)
        world.poll()
        (session,) = world.query("SELECT started_at, last_turn_at, ended_at FROM session")
        assert all(at is None or at <= world.clock.text() for at in session.values()), session
        assert session["ended_at"] is not None


def test_two_sources_with_one_pattern_and_two_projects_take_both(tmp_path):
    sources = ({"project": Path("/home/ann/shop")}, {"project": Path("/home/ann/blog")})
    with World(tmp_path, *sources) as world:
        for number, folder in enumerate(("/home/ann/blog", "/home/ann/shop", "/home/ann/diary")):
            world.write(f"{number}.jsonl", in_folder(number, folder))
        world.poll()
        assert Counter(world.texts()) == Counter(["text 0", "text 1"])


def test_new_settings_let_in_what_was_kept_out_and_leave_alone_what_is_no_longer_named(tmp_path):
    with World(tmp_path, {"project": Path("/home/ann/shop")}, {"pattern": "other/*.jsonl"}) as world:
        world.write("out.jsonl", in_folder(1, "/home/ann/diary"))
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "b.jsonl").write_bytes(claudes(2, 2))
        world.poll()
        assert world.texts() == ["text 2"]
        world.sources = ({"project": None},)
        world.ingest.configure(world.settings())
        with (tmp_path / "other" / "b.jsonl").open("ab") as file:
            file.write(claudes(3, 3))
        world.poll()
        world.hint(tmp_path / "other" / "b.jsonl")
        world.restart()
        world.poll()
        assert world.texts() == ["text 2", "text 1"]


def test_formats_are_told_by_content_and_what_is_not_read_is_noted(world):
    world.write("claude.jsonl", claudes(1, 1))
    world.write("plain.jsonl", lines([message("plain")]))
    world.write("codex.jsonl", b'{"type":"event_msg","payload":{"type":"user_message","message":"typed"}}\n')
    world.write("trace.jsonl", b'{"traceSchema":"t"}\n')
    world.write("base.jsonl", b"SQLite format 3\0" + bytes(100))
    world.write("empty.jsonl", b"")
    world.write("late.jsonl", b'{"kind":"unknown","why":"%s"}\n' % (b"x" * 100) * 1000)
    world.append("late.jsonl", message("late") + b"\n")
    world.poll()
    found = {Path(path).stem: row for path, row in world.transcripts().items()}
    assert found["claude"]["format"] == "claude-code"
    assert found["plain"]["format"] == "messages"
    assert found["codex"]["format"] == "codex"
    assert "trajectory" in found["trace"]["note"]
    assert "sqlite" in found["base"]["note"]
    assert found["empty"]["format"] is None
    assert Counter(world.texts()) == Counter(["text 1", "plain", "typed", "late"])


def test_a_file_whose_format_cannot_be_told_yet_is_read_from_its_start_once_it_can(world):
    path = world.write(LOG, b'{"kind":"unknown"}\n')
    for byte in message("now") + b"\n":
        world.poll()
        with path.open("ab") as file:
            file.write(bytes([byte]))
    world.poll()
    assert world.texts() == ["now"]
    assert world.transcript(LOG)["generation"] == 1


def test_two_agents_on_the_same_transcripts_each_have_all_of_them_also_by_a_hint(tmp_path):
    with World(tmp_path, agents=("ann", "ben")) as world:
        path = world.write(LOG, claudes(1, 2))
        world.hint(path)
        assert world.texts("ann") == world.texts("ben") == texts(1, 2)
        world.append(LOG, claudes(3, 3))
        world.poll()
        assert world.texts("ann") == world.texts("ben") == texts(1, 3)
        assert {row["agent_id"]: row["id"] for row in world.query("SELECT * FROM session")} == {
            "ann": "log", "ben": "log~2",
        }  # fmt: skip


def test_a_disabled_agent_is_left_alone_and_caught_up_with_later(tmp_path):
    with World(tmp_path, agents=("ann", "ben")) as world:
        path = world.write(LOG, claudes(1, 1))
        world.poll()
        world.disabled = {"ben"}
        world.ingest.configure(world.settings())
        world.append(LOG, claudes(2, 2))
        world.poll()
        world.hint(path)
        assert (world.texts("ann"), world.texts("ben")) == (texts(1, 2), texts(1, 1))
        assert world.transcript(LOG, "ben")["fate"] == "new"
        world.disabled = set()
        world.ingest.configure(world.settings())
        world.poll()
        assert world.texts("ben") == texts(1, 2)


def test_a_quiet_transcript_is_read_while_another_one_is_flooded(world, monkeypatch):
    monkeypatch.setattr(ingesting, "READ_LIMIT", 2000)
    monkeypatch.setattr(reading, "CHUNK", 500)
    flood = world.write("a.jsonl", lines(message(f"flood {number}") for number in range(2000)))
    quiet = world.write("b.jsonl", lines([message("quiet")]))
    world.ingest.hint(str(flood))
    world.ingest.hint(str(quiet))
    world.ingest.flush()
    stored = world.texts()
    assert "quiet" in stored
    assert len(stored) < 200
    world.settle()
    assert len(world.texts()) == 2001


def test_a_transcript_is_known_by_its_session_and_not_by_the_order_of_its_times(world):
    world.write(f"{SESSION}.jsonl", claudes(1, 3).replace(b"03:04:05", b"01:00:00", 1))
    world.poll()
    (session,) = world.query("SELECT id, turns, last_turn_at FROM session")
    assert session == {"id": SESSION, "turns": 3, "last_turn_at": "2026-01-02T03:04:05.000Z"}


# --- what one file must not do to the others ----------------------------------


@pytest.mark.parametrize("stamp", [10**10, -(10**9), -(10**18)])
def test_a_file_with_any_time_is_read_like_the_others(world, stamp):
    world.write("a.jsonl", lines([message("first")]))
    path = world.write("b.jsonl", lines([message("second")]))
    world.write("c.jsonl", lines([message("third")]))
    os.utime(path, (stamp, stamp))
    world.poll()
    assert sorted(world.texts()) == ["first", "second", "third"]
    assert world.alarms() == []


def test_whatever_goes_wrong_with_one_transcript_is_reported_and_the_others_are_read(world, monkeypatch):
    path = world.write("b.jsonl", lines([message("bad")]))
    world.write("c.jsonl", lines([message("good")]))
    prepare = world.ingest._prepare

    def failing(source, cursor, handle, size):
        if cursor.path == str(path):
            raise ZeroDivisionError("quoted words")
        return prepare(source, cursor, handle, size)

    monkeypatch.setattr(world.ingest, "_prepare", failing)
    world.poll()
    assert world.texts() == ["good"]
    (alarm,) = world.alarms()
    assert alarm["subject"] == str(path)
    assert "ZeroDivisionError at test_ingest.py" in alarm["text"]
    assert "quoted" not in alarm["text"]
    monkeypatch.undo()
    world.append("b.jsonl", lines([message("more")]))
    world.poll()
    assert world.texts() == ["good", "bad", "more"]
    assert world.alarms() == []


def test_a_transcript_that_cannot_be_stored_is_reported_once_and_the_others_are_stored(world):
    path = world.write("b.jsonl", lines([message("bad")]))
    world.write("a.jsonl", lines([message("good")]))
    place = world.ingest.cursors.place

    def poisoned(cursor, path_, stat):
        place(cursor, path_, stat)
        if path_ == str(path) and stat.size < 50:
            cursor.generation = 1 << 70

    world.ingest.cursors.place = poisoned
    world.poll()
    assert world.texts() == ["good"]
    (alarm,) = world.alarms()
    assert (alarm["subject"], "OverflowError" in alarm["text"]) == (str(path), True)
    world.poll()
    assert world.alarms() == [alarm]
    world.append("b.jsonl", lines([message("more and more")]))
    world.poll()
    assert world.texts() == ["good", "bad", "more and more"]
    assert world.alarms() == []


def test_the_state_folder_is_never_a_transcript_of_a_pattern_that_reaches_it(tmp_path):
    with World(tmp_path, {"pattern": "**/*.jsonl"}) as world:
        world.write("a.jsonl", lines([message("state")]))
        world.poll()
        assert world.texts() == []
        assert not world.ingest.means(str(world.path("a.jsonl")))


def test_a_project_named_by_a_link_is_the_folder_behind_it(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    for project, recorded in ((link, real), (real, link), (link, link)):
        root = tmp_path / f"{project.name}-{recorded.name}"
        root.mkdir()
        with World(root, {"project": project}) as world:
            said = {"role": "user", "content": "hi", "cwd": str(recorded / "part")}
            world.write("a.jsonl", lines([json.dumps(said).encode()]))
            world.poll()
            assert world.texts() == ["hi"]


@pytest.mark.parametrize("name", ["we[ird]", "sta*r", "que?"])
def test_a_workspace_whose_name_looks_like_a_pattern_is_read(tmp_path, name):
    (tmp_path / name).mkdir()
    with World(tmp_path / name) as world:
        world.write("a.jsonl", lines([message("hi")]))
        folder = world.root / "ann/.continuum/memory"
        folder.mkdir(parents=True)
        now = folder / "NOW-2026-01-02T03-04.md"
        now.write_text("## User: ho\n")
        os.utime(now, (10**9, 10**9))
        world.poll()
        assert sorted(world.texts()) == ["hi", "ho"]


def test_files_of_one_name_in_two_projects_are_two_sessions_unless_the_name_is_an_id(world):
    for number, name in enumerate(("a/main.jsonl", "b/main.jsonl", f"a/{SESSION}.jsonl", f"b/{SESSION}.jsonl")):
        world.write(name, lines([claude(number, f"text {number}", session="main")]))
    world.poll()
    sessions = {row.text: row.session_id for row in world.rows()}
    assert sessions["text 0"] != sessions["text 1"]
    assert sessions["text 2"] == sessions["text 3"] == SESSION


def test_one_reading_of_tiny_lines_takes_no_more_than_a_few_thousand(world, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 1 << 10)
    monkeypatch.setattr(reading, "MOST_TURNS", 100)
    log = world.write("a.jsonl", lines([message("x")]) * 1000)
    world.ingest.hint(str(log))
    world.ingest.flush()
    assert 100 <= len(world.rows()) < 200
    world.settle()
    assert len(world.rows()) == 1000


# --- answers in dialogs -------------------------------------------------------

ASKED = {"question": "Which?", "options": [{"label": "tabs"}], "multiSelect": False}


def call(number: int, tool: str, call_id: str = "toolu_1") -> bytes:
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
    message = {"id": f"msg_{number}", "role": "assistant", "content": [block]}
    return json.dumps({"type": "assistant", "uuid": f"c{number}", "sessionId": SESSION, "message": message}).encode()


def answer(number: int, answered: str = "tabs", call_id: str = "toolu_1") -> bytes:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "User has answered your questions: …"}
    given = {"questions": [ASKED], "answers": {"Which?": answered}}
    record = {"type": "user", "uuid": f"r{number}", "sessionId": SESSION, "toolUseResult": given}
    return json.dumps({**record, "message": {"role": "user", "content": [block]}}).encode()


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize(
    ("tool", "call_id", "found"),
    [
        ("AskUserQuestion", "toolu_1", ("user", "user", "choice", "AskUserQuestion")),
        ("mcp__evil__ask", "toolu_1", ("system", "unknown", "message", None)),
        ("AskUserQuestion", "toolu_2", ("system", "unknown", "message", None)),
    ],
)
def test_an_answer_is_the_persons_only_if_the_session_made_the_call(world, parted, tool, call_id, found):
    world.write(LOG, lines([call(1, tool, call_id)]))
    if parted:
        world.poll()
    world.append(LOG, lines([answer(1)]))
    world.poll()
    (row,) = world.query("SELECT role, origin, kind, tool_name, text FROM turn WHERE part = 1")
    assert tuple(row.values()) == (*found, 'asked "Which?", chose "tabs"')


def test_an_answer_comes_behind_the_parts_that_its_record_always_had(world):
    world.write(LOG, lines([call(1, "AskUserQuestion"), answer(1)]))
    world.poll()
    rows = world.query("SELECT record_id, part, kind FROM turn ORDER BY seq")
    assert [tuple(row.values()) for row in rows] == [
        ("c1", 0, "tool_call"),
        ("r1", 0, "tool_result"),
        ("r1", 1, "choice"),
    ]
