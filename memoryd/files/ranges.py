"""Read byte ranges of files that other programs append to, rename and delete.

A transcript that was read stays open for a while. So it can be read to its end after it was renamed or deleted, and no
new file can get its inode number in this time.
"""

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from memoryd.errors import NotFoundError, StateError, is_out_of_files
from memoryd.files.open_folder import Descriptor, open_folder
from memoryd.files.regular import as_state_error, open_regular

_CHUNK = 1024 * 1024
_FEW = 4
_TIME_MAX = (1 << 63) - 1  # nanoseconds; the database cannot store times after 2262


class Stat(NamedTuple):
    """Hold the state of a file as the file system reports it."""

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
    """Return a file's time within the limits of the database, because any program can set any time."""
    return max(-_TIME_MAX, min(time_ns, _TIME_MAX))


def observe(path: Path) -> Stat | None:
    """Return the state of the regular file at `path`; None if there is none.

    Raises:
        StateError: it is a link, a folder, a FIFO or a device, or may not be accessed.
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
    """Hold an open file, which may be renamed meanwhile. Whoever opens it must close it."""

    def __init__(self, path: Path) -> None:
        """Open the regular file at `path`.

        Raises:
            NotFoundError: there is no file.
            StateError: it is not a regular file, or cannot be opened.
        """
        with as_state_error("cannot be read", path):
            try:
                with open_folder(path.parent) as folder:
                    super().__init__(open_regular(folder / path.name, shared=True))
            except FileNotFoundError as error:
                raise NotFoundError("does not exist", str(path)) from error
        self.path = path
        self.dev, self.ino = self.observe()[:2]

    def observe(self) -> Stat:
        """Return the present state of the open file."""
        return _stat(os.fstat(self.fd))

    def read(self, first: int, length: int) -> bytes:
        """Return `length` bytes from offset `first`, or fewer at the end of the file."""
        return b"".join(self.chunks(first, length))

    def chunks(self, first: int, length: int) -> Iterator[bytes]:
        """Yield the bytes that `read` returns, in pieces of at most 1 MiB."""
        while length > 0:
            with as_state_error("cannot be read", self.path):
                piece = os.pread(self.fd, min(length, _CHUNK), first)
            if not piece:
                return
            yield piece
            first += len(piece)
            length -= len(piece)

    def sha256_range(self, first: int, length: int) -> str | None:
        """Return the hex sha256 of exactly `length` bytes from offset `first`; None if the file ends before."""
        hasher = hashlib.sha256()
        for piece in self.chunks(first, length):
            hasher.update(piece)
            length -= len(piece)
        return None if length else hasher.hexdigest()


class OpenFiles:
    """Keep the last read files open, by device and inode. The file that was used longest ago is closed first.

    A file is never closed while it is borrowed. Safe to use from several threads.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self.is_short = False  # True: the system ran out of descriptors, so few files are kept open
        self._open: OrderedDict[tuple[int, int], Handle] = OrderedDict()
        self._lent: dict[tuple[int, int], int] = {}
        self._mutex = threading.Lock()

    @contextmanager
    def borrow(self, path: Path) -> Iterator[Handle]:
        """Yield the file at `path`, and open it if necessary."""
        with ExitStack() as lent:
            with self._mutex:
                seen = observe(path)
                known = None if seen is None else self._open.get((seen.dev, seen.ino))
                handle = known or self._add(self._open_file(path))
                self._lend(handle, lent)
            yield handle

    @contextmanager
    def borrow_known(self, dev: int, ino: int) -> Iterator[Handle | None]:
        """Yield a file that was read before, whatever its name is; None if it is not open any more."""
        with ExitStack() as lent:
            with self._mutex:
                handle = self._open.get((dev, ino))
                if handle is not None:
                    self._lend(handle, lent)
            yield handle

    def forget(self, dev: int, ino: int) -> None:
        """Close a file that is not needed any more, when nobody borrows it."""
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
        # The name may have changed to a file that is already open.
        known = self._open.setdefault((handle.dev, handle.ino), handle)
        if known is not handle:
            handle.close()
        return known

    def _lend(self, handle: Handle, until: ExitStack) -> None:
        key = (handle.dev, handle.ino)
        self._open.move_to_end(key)
        self._lent[key] = self._lent.get(key, 0) + 1
        until.callback(self._take_back, key)
        self._close_unlent(self.capacity)

    def _take_back(self, key: tuple[int, int]) -> None:
        with self._mutex:
            self._lent[key] -= 1
            if not self._lent[key]:
                del self._lent[key]
            self._close_unlent(self.capacity)

    def _close_unlent(self, down_to: int) -> None:
        for key in [key for key in self._open if key not in self._lent][: max(0, len(self._open) - down_to)]:
            self._open.pop(key).close()
