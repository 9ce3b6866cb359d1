"""Rewrites and appends: whole or absent, and nobody else's bytes are ever lost."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from steps import APPEND_STEPS, PLACE_STEPS, REPLACE_STEPS

from memoryd.errors import NotFoundError, StateError
from memoryd.files import appends, durable, regular
from memoryd.files.appends import missing_part
from memoryd.files.durable import MovedError
from memoryd.files.open_folder import open_folder
from memoryd.files.regular import compute_digest

if TYPE_CHECKING:
    from collections.abc import Callable

OLD = b"# Memory\r\n\r\n- one\r\n" + b"x" * 10_000
NEW = b"\xef\xbb\xbf# Memory\n\n- one\n- two\n" + b"y" * 20_000
EDIT = b"- an edit by a person\n"


# What is tested takes a name in an open folder; here it is given a path, whose folder is opened for the call.


def replace(path: Path, *arguments: Any, **named: Any) -> Path:
    with open_folder(path.parent) as folder:
        return durable.replace(folder / path.name, *arguments, **named)


def append(path: Path, *arguments: Any) -> int:
    with open_folder(path.parent) as folder:
        return appends.append(folder / path.name, *arguments)


def fill_hole(path: Path, block: bytes, offset: int) -> None:
    with open_folder(path.parent) as folder:
        appends.fill_hole(folder / path.name, block, offset)


def read(path: Path, limit: int = regular.MAX_BYTES) -> bytes | None:
    with open_folder(path.parent) as folder:
        return regular.read(folder / path.name, limit)


def settle(path: Path, before: str | None, after: str) -> list[str]:
    with open_folder(path.parent) as folder:
        return [entry.name for entry in durable.settle(folder / path.name, before, after)]


def leftovers(path: Path) -> list[str]:
    with open_folder(path) as folder:
        return [left.kind for left in folder.leftovers()]


@pytest.fixture(params=["exchange", "fallback"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the system's exchange and as on a system that has none."""
    if request.param == "fallback":
        monkeypatch.setattr(durable, "_system_renameat2", lambda: None)
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "MEMORY.md"
    made.write_bytes(OLD)
    return made


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a child process; returns its wait status."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            work()
            os._exit(0)
        os._exit(1)
    return os.waitpid(pid, 0)[1]


def die_at(name: str, before: Callable[[], object] = lambda: None) -> Callable[[str], None]:
    def step(now: str) -> None:
        if now == name:
            before()
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def at(name: str, do: Callable[[], object]) -> Callable[[str], None]:
    def step(now: str) -> None:
        if now == name:
            do()

    return step


def append_in_place(path: Path) -> None:
    with path.open("ab") as file:
        file.write(EDIT)


def save_by_rename(path: Path) -> None:
    other = path.with_name("editor-save")
    other.write_bytes(path.read_bytes() + EDIT)
    other.replace(path)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.usefixtures("either")
def test_replace_puts_the_new_bytes_and_leaves_nothing_behind(path: Path) -> None:
    seen: list[str] = []
    done = replace(path, NEW, compute_digest(OLD), seen.append)
    assert done == path
    assert path.read_bytes() == NEW
    assert names(path.parent) == ["MEMORY.md"]
    assert tuple(seen) == REPLACE_STEPS


@pytest.mark.usefixtures("either")
def test_the_old_version_is_gone_for_good_when_a_rewrite_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut must not bring it back: the next start would take it for somebody's edit."""
    synced: list[list[str]] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            synced.append(sorted(os.listdir(fd)))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    replace(path, NEW, compute_digest(OLD))
    assert synced[-1] == names(path.parent)


def test_a_new_file_appears_whole_and_takes_nobody_elses_name(tmp_path: Path) -> None:
    path = tmp_path / "new.md"
    seen: list[str] = []
    assert replace(path, NEW, None, seen.append) == path
    assert path.read_bytes() == NEW
    assert tuple(seen) == PLACE_STEPS
    with pytest.raises(MovedError):
        replace(path, OLD, None)
    theirs = tmp_path / "theirs.md"
    with pytest.raises(MovedError):
        replace(theirs, NEW, None, at("before:place", lambda: theirs.write_bytes(EDIT)))
    assert theirs.read_bytes() == EDIT
    assert names(tmp_path) == ["new.md", "theirs.md"]


def test_another_content_than_expected_is_left_alone(path: Path) -> None:
    with pytest.raises(MovedError):
        replace(path, NEW, compute_digest(b"what it was"))
    with pytest.raises(MovedError):
        replace(path.with_name("gone.md"), NEW, compute_digest(OLD))
    assert names(path.parent) == ["MEMORY.md"]
    assert path.read_bytes() == OLD


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("step", REPLACE_STEPS)
@pytest.mark.parametrize("edit", [append_in_place, save_by_rename])
def test_an_edit_at_any_step_survives(path: Path, step: str, edit: Callable[[Path], None]) -> None:
    with contextlib.suppress(MovedError):
        replace(path, NEW, compute_digest(OLD), at(step, lambda: edit(path)))
    assert path.read_bytes() in {OLD + EDIT, NEW + EDIT}
    assert names(path.parent) == ["MEMORY.md"]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("step", REPLACE_STEPS[: REPLACE_STEPS.index("after:fsync-folder")])
def test_a_writer_that_holds_the_old_file_open_is_heard(path: Path, step: str) -> None:
    with path.open("ab", buffering=0) as held:
        with pytest.raises(MovedError):
            replace(path, NEW, compute_digest(OLD), at(step, lambda: held.write(EDIT)))
        assert path.read_bytes() == OLD + EDIT
    assert names(path.parent) == ["MEMORY.md"]


def test_a_line_that_comes_after_the_last_look_is_passed_on(path: Path) -> None:
    with path.open("ab", buffering=0) as held:
        replace(path, NEW, compute_digest(OLD), at("before:unlink", lambda: held.write(EDIT)))
    assert path.read_bytes() == NEW + EDIT


def test_appends_to_both_versions_at_once_end_in_one_file(path: Path) -> None:
    def both() -> None:
        held.write(EDIT)
        append_in_place(path)

    with path.open("ab", buffering=0) as held, pytest.raises(MovedError):
        replace(path, NEW, compute_digest(OLD), at("after:swap", both))
    assert path.read_bytes() == OLD + EDIT + EDIT
    assert names(path.parent) == ["MEMORY.md"]


def test_an_edit_of_our_version_is_kept_beside_an_append_to_the_old_one(path: Path) -> None:
    def both() -> None:
        held.write(EDIT)
        path.write_bytes(b"rewritten")

    with path.open("ab", buffering=0) as held, pytest.raises(MovedError, match="conflict-"):
        replace(path, NEW, compute_digest(OLD), at("after:swap", both))
    assert path.read_bytes() == OLD + EDIT
    (kept,) = path.parent.glob("MEMORY.md.conflict-*")
    assert kept.read_bytes() == b"rewritten"


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("step", REPLACE_STEPS)
def test_killed_at_any_step_the_file_is_old_or_new_and_can_be_settled(path: Path, step: str) -> None:
    status = in_child(lambda: replace(path, NEW, compute_digest(OLD), die_at(step)))
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert path.read_bytes() in {OLD, NEW}
    assert settle(path, compute_digest(OLD), compute_digest(NEW)) == []
    assert names(path.parent) == ["MEMORY.md"]
    if path.read_bytes() == OLD:
        replace(path, NEW, compute_digest(OLD))
    assert path.read_bytes() == NEW


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("step", REPLACE_STEPS)
@pytest.mark.parametrize("edit", [append_in_place, save_by_rename])
def test_edited_and_killed_at_any_step_the_edit_survives(path: Path, step: str, edit: Callable[[Path], None]) -> None:
    in_child(lambda: replace(path, NEW, compute_digest(OLD), die_at(step, lambda: edit(path))))
    settle(path, compute_digest(OLD), compute_digest(NEW))
    assert path.read_bytes() in {OLD + EDIT, NEW + EDIT}
    assert leftovers(path.parent) == []


def test_an_edit_swapped_out_by_a_killed_writer_gets_its_place_back(path: Path) -> None:
    def edit_late(name: str) -> None:
        if name == "before:swap":
            append_in_place(path)

    in_child(
        lambda: replace(path, NEW, compute_digest(OLD), lambda name: (edit_late(name), die_at("after:swap")(name))[0])
    )
    assert path.read_bytes() == NEW
    assert leftovers(path.parent) == ["swap"]
    settle(path, compute_digest(OLD), compute_digest(NEW))
    assert path.read_bytes() == OLD + EDIT
    assert names(path.parent) == ["MEMORY.md"]


@pytest.mark.parametrize("step", PLACE_STEPS)
def test_a_new_file_killed_at_any_step_is_absent_or_whole(tmp_path: Path, step: str) -> None:
    path = tmp_path / "new.md"
    in_child(lambda: replace(path, NEW, None, die_at(step)))
    settle(path, None, compute_digest(NEW))
    assert read(path) in {None, NEW}
    assert leftovers(tmp_path) == []


def test_mode_owner_and_attributes_stay(path: Path) -> None:
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 12345, 54321)
    with contextlib.suppress(OSError):  # the test's own file system may have no extended attributes
        os.setxattr(path, "user.memoryd-test", b"kept")
    before = path.stat()
    marked = os.listxattr(path)
    replace(path, NEW, compute_digest(OLD))
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listxattr(path) == marked


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o755, 0o644), (0o770, 0o660), (0o777, 0o664)])
def test_a_new_file_follows_its_folder_and_no_umask(tmp_path: Path, folder: int, file: int) -> None:
    tmp_path.chmod(folder)
    umask = os.umask(0o027)
    try:
        replace(tmp_path / "a", b"a", None)
        replace(tmp_path / "b", b"b", None, mode=0o600)
    finally:
        os.umask(umask)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [file, 0o600]


def make_symlink(path: Path) -> None:
    path.with_name("target").write_bytes(OLD)
    path.symlink_to("target")


@pytest.mark.parametrize("make", [make_symlink, Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "MEMORY.md"
    make(path)
    before = names(tmp_path)
    for act in (lambda: read(path), lambda: replace(path, NEW, compute_digest(OLD)), lambda: append(path, EDIT, b"")):
        with pytest.raises(StateError, match="not a regular file"):
            act()
    assert names(tmp_path) == before
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_bytes() == OLD


def test_a_symlink_put_there_in_the_last_moment_is_put_back(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(EDIT)

    def link() -> None:
        path.unlink()
        path.symlink_to("target")

    with pytest.raises(MovedError):
        replace(path, NEW, compute_digest(OLD), at("before:swap", link))
    assert path.is_symlink()
    assert target.read_bytes() == EDIT


def test_reading_is_bounded(path: Path) -> None:
    assert read(path, limit=len(OLD)) == OLD
    with pytest.raises(StateError, match="larger"):
        read(path, limit=len(OLD) - 1)
    assert read(path.with_name("missing")) is None


@pytest.mark.parametrize("room", [0, 1, 9_999, 19_000])
def test_a_full_disk_leaves_the_old_file_and_no_rubbish(path: Path, room: int) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        with pytest.raises(StateError, match="File too large"):
            replace(path, NEW, compute_digest(OLD))

    assert in_child(limited) == 0
    assert path.read_bytes() == OLD
    assert names(path.parent) == ["MEMORY.md"]


def test_a_torn_append_is_reported_and_can_be_finished(path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(OLD) + 5, len(OLD) + 5))
        with pytest.raises(StateError, match="File too large"):
            append(path, EDIT)

    assert in_child(limited) == 0
    assert path.read_bytes() == OLD + EDIT[:5]
    append(path, missing_part(path.read_bytes(), EDIT, len(OLD)))
    assert path.read_bytes() == OLD + EDIT


def test_what_is_missing_of_a_block() -> None:
    assert missing_part(b"old", b"block", 3) == b"block"
    assert missing_part(b"oldblock and more", b"block", 3) == b""
    assert missing_part(b"oldtheirs block", b"block", 3) == b""
    assert missing_part(b"oldblo", b"block", 3) == b"ck"
    assert missing_part(b"oldbloTHEIRS", b"block", 3) == b"block"
    assert missing_part(b"block", b"block", 3) == b"block"
    assert missing_part(b"block", b"block", 30) == b""


@pytest.mark.parametrize(
    ("left", "mended"),
    [
        (b"old" + b"bl\0\0\0", b"oldblock"),
        (b"old" + b"\0\0", b"oldbl"),
        (b"old" + b"bl\0\0\0" + b"- theirs", b"oldblock- theirs"),
        (b"old" + b"BL\0\0\0", b"oldBL\0\0\0"),
        (b"old" + b"blo", b"oldblo"),
        (b"old" + b"block", b"oldblock"),
        (b"\0\0\0", b"\0\0\0"),
    ],
)
def test_a_hole_that_a_power_cut_left_is_filled_with_what_belongs_there(
    tmp_path: Path, left: bytes, mended: bytes
) -> None:
    path = tmp_path / "2026-01-02.md"
    path.write_bytes(left)
    fill_hole(path, b"block", 3)
    assert path.read_bytes() == mended
    path.unlink()
    fill_hole(path, b"block", 3)
    assert not path.exists()


def test_an_append_says_where_it_landed(tmp_path: Path) -> None:
    path = tmp_path / "2026-01-02.md"
    seen: list[str] = []
    assert append(path, b"one\n", b"title\n", seen.append) == 6
    assert append(path, b"two\n", b"title\n") == 10
    assert path.read_bytes() == b"title\none\ntwo\n"
    assert tuple(seen) == PLACE_STEPS + APPEND_STEPS
    with pytest.raises(NotFoundError):
        append(tmp_path / "other.md", b"one\n")


@pytest.mark.parametrize("step", [*PLACE_STEPS[:-4], "before:place"])
def test_somebody_else_makes_the_file_first(tmp_path: Path, step: str) -> None:
    path = tmp_path / "day.md"

    def theirs() -> None:
        path.write_bytes(EDIT)

    assert append(path, b"block\n", b"title\n", at(step, theirs)) == len(EDIT)
    assert path.read_bytes() == EDIT + b"block\n"


@pytest.mark.parametrize("step", [*PLACE_STEPS, *APPEND_STEPS])
def test_an_append_killed_at_any_step_is_finished_once(tmp_path: Path, step: str) -> None:
    path = tmp_path / "day.md"
    in_child(lambda: append(path, b"block\n", b"title\n", die_at(step)) and None)
    settle(path, None, compute_digest(b"title\n"))
    if rest := missing_part(read(path) or b"", b"block\n", 0):
        append(path, rest, b"title\n")
    assert path.read_bytes() == b"title\nblock\n"
    assert names(tmp_path) == ["day.md"]


def test_nine_writers_at_once_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "day.md"
    path.write_bytes(b"title\n")
    writers = []
    for number in range(8):
        pid = os.fork()
        if pid == 0:
            for line in range(500):
                fd = os.open(path, os.O_WRONLY | os.O_APPEND)
                os.write(fd, b"%d:%d\n" % (number, line))
                os.close(fd)
            os._exit(0)
        writers.append(pid)
    offsets = {line: append(path, b"ours:%d\n" % line) for line in range(100)}
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in writers)
    data = path.read_bytes()
    theirs = {b"%d:%d" % (number, line) for number in range(8) for line in range(500)}
    assert set(data.split(b"\n")) == theirs | {b"ours:%d" % line for line in range(100)} | {b"title", b""}
    assert all(data.startswith(b"ours:%d\n" % line, offset) for line, offset in offsets.items())
    assert data.count(b"\n") == 4101
