"""Read byte ranges of files that other programs append to, rename and delete.

A transcript that was read is kept open for a while, under its device and inode. So it can be read to its end after it
was renamed or deleted, and no new file can take its inode number meanwhile.
"""

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from memoryd.errors import NotFoundError, StateError, is_out_of_files
from memoryd.files.open_folder import Descriptor, open_folder
from memoryd.files.regular import as_state_error, open_regular

_CHUNK = 1024 * 1024
_FEW = 4
_TIME_MAX = (1 << 63) - 1  # nanoseconds: the year 2262, and as far before 1970; the database holds no more


class Stat(NamedTuple):
    """Hold what the file system reports about a file without opening it."""

    dev: int
    ino: int
    size: int  # bytes
    mtime_ns: int
    ctime_ns: int


def _stat(result: os.stat_result) -> Stat:
    return Stat(
        result.st_dev, result.st_ino, result.st_size, _clamp_time(result.st_mtime_ns), _clamp_time(result.st_ctime_ns)
    )


def _clamp_time(time_ns: int) -> int:
    """Limit a file's time here, for all who store or show it, because anybody may set any time."""
    return max(-_TIME_MAX, min(time_ns, _TIME_MAX))


def observe(path: Path) -> Stat | None:
    """Return the state of the regular file at `path`; None if there is none.

    Raises:
        StateError: it is a symbolic link (never followed in the last place of the path), a folder, a FIFO or a
            device, or may not be looked at. Whoever scans many files reports it and goes on with the next.
    """
    with as_state_error("cannot be read", path):
        try:
            result = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
    if not stat.S_ISREG(result.st_mode):
        what = "is a symbolic link, which is not followed" if stat.S_ISLNK(result.st_mode) else "is not a regular file"
        raise StateError(what, str(path), "name the file itself")
    return _stat(result)


class Handle(Descriptor):
    """Hold an open file, whatever its name is now. The opener closes it."""

    def __init__(self, path: Path) -> None:
        """Open the regular file at `path`."""
        with as_state_error("cannot be read", path):
            try:
                with open_folder(path.parent) as folder:
                    super().__init__(open_regular(folder / path.name, shared=True))
            except FileNotFoundError as error:
                raise NotFoundError("does not exist", str(path)) from error
        self.path = path
        self.dev, self.ino = self.observe()[:2]

    def observe(self) -> Stat:
        """Return the current state of the open file."""
        return _stat(os.fstat(self.fd))

    def read(self, first: int, length: int) -> bytes:
        """Return the bytes from offset `first`; fewer than `length` only at the end of the file."""
        return b"".join(self.chunks(first, length))

    def chunks(self, first: int, length: int) -> Iterator[bytes]:
        """Yield the same bytes in pieces of at most 1 MiB."""
        while length > 0:
            with as_state_error("cannot be read", self.path):
                piece = os.pread(self.fd, min(length, _CHUNK), first)
            if not piece:
                return
            yield piece
            first += len(piece)
            length -= len(piece)

    def sha256_range(self, first: int, length: int) -> str | None:
        """Return the sha256, in hex, of exactly `length` bytes; None if the file ends before."""
        hasher = hashlib.sha256()
        for piece in self.chunks(first, length):
            hasher.update(piece)
            length -= len(piece)
        return None if length else hasher.hexdigest()


class OpenFiles:
    """Keep the last read files open, by device and inode; close the least recently used first.

    A handle is lent for the length of a `with`, and never closed while lent. Safe to use from several threads.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self.is_short = False  # the system gave no more descriptors: from then on fewer files are kept open
        self._open: OrderedDict[tuple[int, int], Handle] = OrderedDict()
        self._lent: dict[tuple[int, int], int] = {}
        self._mutex = threading.Lock()

    @contextmanager
    def borrow(self, path: Path) -> Iterator[Handle]:
        """Return the file at `path`, opened if necessary."""
        with self._mutex:
            seen = observe(path)
            known = None if seen is None else self._open.get((seen.dev, seen.ino))
            handle = known or self._add(self._open_file(path))
            self._lend(handle)
        try:
            yield handle
        finally:
            self._take_back(handle)

    @contextmanager
    def borrow_known(self, dev: int, ino: int) -> Iterator[Handle | None]:
        """Return a file that was read before, whatever its name is now; None if it is no longer open."""
        with self._mutex:
            handle = self._open.get((dev, ino))
            if handle is not None:
                self._lend(handle)
        try:
            yield handle
        finally:
            if handle is not None:
                self._take_back(handle)

    def forget(self, dev: int, ino: int) -> None:
        """Close a file that is no longer needed, as soon as nobody borrows it."""
        with self._mutex:
            if (dev, ino) in self._open:
                self._open.move_to_end((dev, ino), last=False)
                self._close_unlent(len(self._open) - 1)

    def close(self) -> None:
        """Close all files that nobody borrows."""
        with self._mutex:
            self._close_unlent(0)

    def __len__(self) -> int:
        return len(self._open)

    def _open_file(self, path: Path) -> Handle:
        try:
            return Handle(path)
        except StateError as error:
            if not is_out_of_files(error):
                raise
        self._spare()
        return Handle(path)

    def spare(self) -> None:
        """Keep only a few files open from now on."""
        with self._mutex:
            self._spare()

    def _spare(self) -> None:
        self.is_short, self.capacity = True, _FEW
        self._close_unlent(0)

    def _add(self, handle: Handle) -> Handle:
        # Between the check and the opening, the name may have become that of a file that is already open.
        known = self._open.setdefault((handle.dev, handle.ino), handle)
        if known is not handle:
            handle.close()
        return known

    def _lend(self, handle: Handle) -> None:
        key = (handle.dev, handle.ino)
        self._open.move_to_end(key)
        self._lent[key] = self._lent.get(key, 0) + 1
        self._close_unlent(self.capacity)

    def _take_back(self, handle: Handle) -> None:
        key = (handle.dev, handle.ino)
        with self._mutex:
            self._lent[key] -= 1
            if not self._lent[key]:
                del self._lent[key]
            self._close_unlent(self.capacity)

    def _close_unlent(self, down_to: int) -> None:
        for key in [key for key in self._open if key not in self._lent][: max(0, len(self._open) - down_to)]:
            self._open.pop(key).close()
