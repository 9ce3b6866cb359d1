"""Write into an open file completely, read the bytes back, and sync them to disk."""

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable

Step = Callable[[str], None]


_CHUNK = 1024 * 1024


def no_step(_name: str) -> None:
    """Do nothing: the default of a step callback."""


def fill(fd: int, data: bytes, step: Step = no_step) -> None:
    """Write an empty file that nobody else has open."""
    step("before:write")
    written = 0
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
    step("after:write")
    os.lseek(fd, 0, os.SEEK_SET)
    if hashlib.sha256(b"".join(iter(lambda: os.read(fd, _CHUNK), b""))).digest() != hashlib.sha256(data).digest():
        raise OSError(errno.EIO, "what was read back is not what was written")
    step("before:fsync")
    sync(fd)
    step("after:fsync")


def extend(fd: int, block: bytes, step: Step = no_step) -> int:
    """Add to a file that was opened with `O_RDWR | O_APPEND`: in one write, unless the disk takes only part of it.

    Returns the offset at which the block begins.
    """
    step("before:append")
    written = _extend_some(fd, block)
    offset = os.lseek(fd, 0, os.SEEK_CUR) - written
    while written < len(block):
        written += _extend_some(fd, block[written:])
    step("after:append")
    step("before:fsync-append")
    sync(fd)
    step("after:fsync-append")
    return offset


def _extend_some(fd: int, data: bytes) -> int:
    """Append as much of `data` as one write takes, and read it back, so that nothing follows a torn write."""
    written = os.write(fd, data) if data else 0
    offset = os.lseek(fd, 0, os.SEEK_CUR) - written  # O_APPEND leaves the position behind what it wrote
    if written and (offset < 0 or os.pread(fd, written, offset) != data[:written]):
        raise OSError(errno.EIO, "what was read back is not what was written")
    return written


def sync(fd: int) -> None:
    """Wait until the disk has the content of the file.

    Raises:
        OSError: it has not. This is never tried again: the kernel has already marked the lost pages clean (USENIX
            ATC '20, "Can Applications Recover from fsync Failures?"), so a second call would lie.
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone does not reach the platter
    if full is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)
