"""Reading whole files of a workspace, where people and programs may have put anything under the expected name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from memoryd.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024


def digest(data: bytes) -> str:
    """The sha256 of `data`, in hex."""
    return hashlib.sha256(data).hexdigest()


def read(path: Path, limit: int = MAX_BYTES) -> bytes | None:
    """The bytes of a regular file; None where there is none.

    Raises:
        StateError: it is a symbolic link, FIFO, device or folder, larger than `limit` bytes, or cannot be read.
    """
    with as_state_error("cannot be read", path):
        try:
            fd = open_regular(path)
        except FileNotFoundError:
            return None
        try:
            return _read_all(fd, path, limit)
        finally:
            os.close(fd)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file. Never follows a link in the last place, never waits for a FIFO's other end.

    Raises:
        StateError: it is no regular file.
        OSError: as `os.open`, FileNotFoundError among them.
    """
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO}:
            raise _not_regular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_regular(path)
    return fd


def _read_all(fd: int, path: Path, limit: int) -> bytes:
    chunks: list[bytes] = []
    left = limit + 1
    while left and (chunk := os.read(fd, min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    if not left:
        raise StateError(f"is larger than {limit} bytes", str(path), "move part of it elsewhere; memoryd left it alone")
    return b"".join(chunks)


def _not_regular(path: Path) -> StateError:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    try:
        kind = kinds.get(stat.S_IFMT(path.lstat().st_mode), "a device")
    except OSError:
        kind = "something else"
    return StateError(f"is {kind}, not a regular file", str(path), "put a regular file there; memoryd left it alone")


@contextlib.contextmanager
def as_state_error(what: str, path: Path) -> Iterator[None]:
    """Turn what the system refuses into an error that says what, where and what to do."""
    try:
        yield
    except OSError as error:
        hints = {
            errno.ENOSPC: "free some space on this disk",
            errno.EDQUOT: "free some of this user's quota",
            errno.EFBIG: "raise the limit on file sizes",
            errno.EROFS: "the disk is mounted read-only",
            errno.EACCES: "check owner and mode of the file and its folder",
            errno.EPERM: "check owner, mode and attributes of the file and its folder",
            errno.EIO: "check the disk and the kernel log",
        }
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise StateError(f"{what}: {reason}", str(path), hints.get(error.errno or 0, "")) from error
