"""Reading ranges of files that are renamed, deleted and replaced meanwhile."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import NotFoundError, StateError
from memoryd.files.ranges import Handle, OpenFiles, observe

if TYPE_CHECKING:
    from collections.abc import Callable


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_observe_says_what_lies_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"12345")
    seen = observe(path)
    result = path.stat()
    assert seen == (result.st_dev, result.st_ino, 5, result.st_mtime_ns, result.st_ctime_ns)
    assert observe(tmp_path / "missing") is None
    assert observe(path / "below a file") is None


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("a")])
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    write(tmp_path / "a", b"secret")
    make(tmp_path / "b")
    for act in (observe, Handle):
        with pytest.raises(StateError):
            act(tmp_path / "b")
    with pytest.raises(NotFoundError):
        Handle(tmp_path / "missing")


@given(data=st.binary(max_size=200), first=st.integers(0, 250), length=st.integers(0, 250))
def test_a_range_is_a_slice(tmp_path_factory: pytest.TempPathFactory, data: bytes, first: int, length: int) -> None:
    path = write(tmp_path_factory.getbasetemp() / "slice", data)
    with Handle(path) as handle:
        piece = data[first : first + length]
        assert handle.read(first, length) == piece
        whole = len(piece) == length
        assert handle.sha256_range(first, length) == (hashlib.sha256(piece).hexdigest() if whole else None)


def test_a_long_range_comes_in_bounded_pieces(tmp_path: Path) -> None:
    data = os.urandom(2_500_000)
    with Handle(write(tmp_path / "a", data)) as handle:
        pieces = list(handle.chunks(1, len(data)))
        assert b"".join(pieces) == data[1:]
        assert max(map(len, pieces)) == 1024 * 1024
        assert handle.sha256_range(0, len(data)) == hashlib.sha256(data).hexdigest()


def test_a_deleted_or_renamed_file_can_be_read_to_its_end(tmp_path: Path) -> None:
    files = OpenFiles()
    path = write(tmp_path / "a", b"begin ")
    with files.borrow(path) as handle:
        key = (handle.dev, handle.ino)
    with path.open("ab") as writer:
        path.unlink()
        writer.write(b"end")
    write(path, b"another file")
    with files.borrow_known(*key) as known:
        assert known is not None
        assert known.read(0, 100) == b"begin end"
        assert known.observe().size == 9
    with files.borrow(path) as other:
        assert other.read(0, 100) == b"another file"
        assert (other.dev, other.ino) != key
    files.close()


def test_the_least_recently_used_is_closed_and_a_lent_one_never(tmp_path: Path) -> None:
    files = OpenFiles(capacity=2)
    paths = [write(tmp_path / str(number), b"%d" % number) for number in range(4)]
    with files.borrow(paths[0]) as first:
        for path in paths:
            with files.borrow(path):
                pass
        assert first.read(0, 1) == b"0"
        assert len(files) == 2
        files.forget(first.dev, first.ino)
        files.close()
        assert first.read(0, 1) == b"0"
    for path in (paths[1], paths[2], paths[1], paths[3]):
        with files.borrow(path) as handle:
            key = (handle.dev, handle.ino)
    seen = observe(paths[2])
    assert seen is not None
    with files.borrow_known(seen.dev, seen.ino) as gone:
        assert gone is None
    files.forget(*key)
    with files.borrow_known(*key) as forgotten:
        assert forgotten is None
    files.close()
    assert len(files) == 0


def test_threads_share_without_reading_each_others_files(tmp_path: Path) -> None:
    files = OpenFiles(capacity=2)
    paths = [write(tmp_path / str(number), b"%d" % number * 4096) for number in range(6)]
    wrong: list[Path] = []

    def work(start: int) -> None:
        for turn in range(200):
            number = (start + turn) % len(paths)
            with files.borrow(paths[number]) as handle:
                if handle.read(0, 4096) != b"%d" % number * 4096:
                    wrong.append(paths[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files.close()
    assert wrong == []
    assert len(files) == 0
