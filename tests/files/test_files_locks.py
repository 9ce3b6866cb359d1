"""The lock: exclusive, freed by any death of its holder, and honest about who has it."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import signal
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memoryd.errors import LockedError, StateError
from memoryd.files import locks
from memoryd.files.locks import Lock
from memoryd.files.open_folder import open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def holder_process(path: Path) -> Iterator[int]:
    """Another process that has the lock until it is killed."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        Lock(path).acquire()
        os.write(tell, b"x")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"x"
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(tell)


def test_a_second_holder_is_refused_with_the_first_ones_pid(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder_process(path) as pid:
        with pytest.raises(LockedError, match=f"process {pid}") as caught:
            Lock(path).acquire()
        assert caught.value.exit_code == 5
        assert Lock(path).holder() == pid


def test_a_file_that_names_the_holder_already_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for said in (f"{os.getpid()}\n", "12345678901\n"):
        path.write_text(said, encoding="utf-8")
        os.utime(path, (1, 1))
        with Lock(path) as lock:
            assert lock.holder() == os.getpid()
            assert path.read_text(encoding="utf-8") == f"{os.getpid()}\n"
        assert (path.stat().st_mtime == 1) is (said == f"{os.getpid()}\n")


def test_kill_frees_it_and_nobody_is_named_then(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder_process(path):
        pass
    assert Lock(path).holder() is None
    with Lock(path) as lock:
        assert lock.holder() == os.getpid()
    assert lock.holder() is None
    assert path.exists()


def test_two_locks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    first = Lock(tmp_path / "lock")
    with first:
        with pytest.raises(LockedError):
            Lock(tmp_path / "lock").acquire()
        with pytest.raises(LockedError, match="already"):
            first.acquire()
    first.release()
    Lock(tmp_path / "lock").acquire()


def test_a_waiter_gets_it_when_it_is_given_back(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    waiter = threading.Thread(target=second.acquire, args=(timedelta(seconds=30),))
    waiter.start()
    first.release()
    waiter.join()
    assert second.holder() == os.getpid()
    second.release()


def test_a_file_deleted_by_somebody_is_locked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    lock = Lock(path)
    opened = os.open
    deleted = []

    def open_then_lose(*args: object, **kwargs: object) -> int:
        fd = opened(*args, **kwargs)  # type: ignore[arg-type]
        if not deleted:
            path.unlink()
            deleted.append(True)
        return fd

    monkeypatch.setattr(os, "open", open_then_lose)
    with lock:
        monkeypatch.undo()
        with pytest.raises(LockedError):
            Lock(path).acquire()


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_cannot_be_a_lock_is_said(tmp_path: Path, make: object) -> None:
    make(tmp_path / "lock")  # type: ignore[operator]
    with pytest.raises(StateError):
        Lock(tmp_path / "lock").acquire()
    with pytest.raises(StateError):
        Lock(tmp_path / "no folder" / "lock").acquire()
    assert Lock(tmp_path / "no file").holder() is None


def open_descriptors() -> int:
    """Count them; what an earlier test left behind may be closed at any time, so later there may be fewer."""
    gc.collect()
    fds = Path("/proc/self/fd")
    return len(list(fds.iterdir())) if fds.exists() else 0


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = open_descriptors()
    lock = Lock(tmp_path / "lock")
    for _ in range(20):
        with lock, pytest.raises(LockedError):
            Lock(lock.path).acquire()
        lock.holder()
    assert open_descriptors() <= before


def test_a_disk_without_room_for_the_pid_holds_nobody_up(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    before, limits = open_descriptors(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        for _ in range(3):
            with Lock(path) as lock:
                assert lock.holder() == 0
                with pytest.raises(LockedError, match="another process"):
                    Lock(path).acquire()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert open_descriptors() <= before
    with Lock(path) as lock:
        assert lock.holder() == os.getpid()


def test_a_file_system_without_locks_is_said_and_nothing_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    lock = Lock(tmp_path / "lock")
    with lock:
        pass
    before = open_descriptors()
    monkeypatch.setattr(fcntl, "flock", flock)
    for ask in (lock.acquire, lock.holder):
        with pytest.raises(StateError, match="cannot be locked"):
            ask()
    assert open_descriptors() <= before


def test_a_folder_that_fails_while_it_is_locked_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_to(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(locks, "give_to", give_to)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with open_folder(tmp_path) as folder:
        before = open_descriptors()
        with pytest.raises(StateError, match="cannot be locked"):
            Lock(folder / "lock").acquire()
        assert open_descriptors() <= before
