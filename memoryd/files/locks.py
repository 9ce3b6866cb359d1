"""Lock files with `flock`, so that a lock ends with its holder. The file stays, with the pid of the holder.

The kernel releases the lock however the process ends, so it never becomes stale. The pid is only information for
people.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Self

from memoryd.errors import LockedError, StateError
from memoryd.files.open_folder import Descriptor, FolderEntry, give_to
from memoryd.files.regular import as_state_error

_POLL_SECONDS = 0.01
# `holder` takes the lock for a moment to see whether it is free. So `acquire` waits at least this long.
_GRACE = timedelta(milliseconds=50)


class Lock:
    """Hold a lock by a lock file. As a context manager, it waits up to `patience` for the present holder.

    Two `Lock` objects for one path exclude each other, even in one process. A process made by `fork` shares the lock.
    """

    def __init__(self, place: Path | FolderEntry, patience: timedelta = timedelta()) -> None:
        """Store the settings; nothing is opened yet.

        `place` is a path in one of memoryd's own folders, or an entry of an open folder.
        """
        self._folder: int | None = None
        if isinstance(place, FolderEntry):
            self.path, self._name, self._folder = place.path, place.name, place.folder.fd
        else:
            self.path, self._name = place, str(place)
        self._fd: int | None = None
        self._patience = patience

    def is_lost(self) -> bool:
        """Return True if the lock file was deleted or replaced.

        Then another process may hold a lock on the new file.
        """
        return self._fd is not None and not self._still_named(self._fd)

    def acquire(self, timeout: timedelta = timedelta()) -> None:
        """Take the lock, waiting up to `timeout` for its holder.

        Raises:
            LockedError: another holder, or this object, has it; the error names the pid.
            StateError: the file cannot be created or opened, or its file system does not support locks.
        """
        if self._fd is not None:
            raise LockedError("is held by this process already", str(self.path))
        until = time.monotonic() + max(timeout, _GRACE).total_seconds()
        while (fd := self._try()) is None:
            if time.monotonic() >= until:
                raise self._make_locked_error()
            time.sleep(_POLL_SECONDS)
        self._fd = fd
        with contextlib.suppress(OSError):  # a full disk must not prevent the lock
            said = f"{os.getpid()}\n".encode()
            if os.pread(fd, 32, 0) != said:  # truncating a file may take as long as a transaction
                os.ftruncate(fd, 0)
                os.pwrite(fd, said, 0)

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def holder(self) -> int | None:
        """Return the pid of the present holder; None if there is none, 0 if the pid is unknown."""
        with self._convert_errors():
            try:
                fd = self._open(os.O_RDONLY)
            except FileNotFoundError:
                return None
        with Descriptor(fd):
            return None if self._flock(fd, fcntl.LOCK_SH) else _pid_in(fd)

    def _try(self) -> int | None:
        """Return a descriptor that holds the lock on the present file at the path; None if another process holds it."""
        kept = False
        with self._convert_errors():
            fd = self._open(os.O_RDWR | os.O_CREAT)
            try:
                if self._folder is not None and os.geteuid() == 0:  # otherwise the user could not use it
                    give_to(fd, os.fstat(self._folder))
                kept = self._flock(fd, fcntl.LOCK_EX) and self._still_named(fd)
            finally:
                if not kept:
                    os.close(fd)
        return fd if kept else None

    def _open(self, flags: int) -> int:
        fd = os.open(self._name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=self._folder)
        status = os.fstat(fd)
        # The pid is written into the file. A file with a second name could be somebody else's.
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return fd
        os.close(fd)
        raise StateError(
            "is not a regular file of one name", str(self.path), "move it away; memoryd creates a new lock"
        )

    def _flock(self, fd: int, how: int) -> bool:
        with self._convert_errors():
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                    raise
                return False
        return True

    def _still_named(self, fd: int) -> bool:
        # If the file was replaced between open and flock, a lock on the old inode would exclude nobody.
        with contextlib.suppress(FileNotFoundError):
            there = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            return os.path.samestat(os.fstat(fd), there)
        return False

    def _make_locked_error(self) -> LockedError:
        pid = self.holder()
        who = f"process {pid}" if pid else "another process"
        return LockedError(
            f"is held by {who}",
            str(self.path),
            "wait for it to end, or stop it; a running daemon does such work by itself",
        )

    def _convert_errors(self) -> AbstractContextManager[None]:
        hint = "the folder must exist and be writable, and its file system must support locks"
        return as_state_error("cannot be locked", self.path, hint)

    def __enter__(self) -> Self:
        self.acquire(self._patience)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _pid_in(fd: int) -> int:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else 0
