"""Write to an open file completely, check the written bytes, and sync them to disk."""

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable

Step = Callable[[str], None]


_CHUNK = 1024 * 1024


def no_step(_name: str) -> None:
    """Do nothing. This is the default of a step callback."""


def fill(fd: int, data: bytes, step: Step = no_step) -> None:
    """Write `data` to an empty file that only this process has open, check it, and sync it.

    Raises:
        OSError: the disk reports an error, or returns other bytes.
    """
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
    """Append `block` to a file that is open with `O_RDWR | O_APPEND`, check it, and sync it.

    If the disk takes only a part of it, further writes follow.

    Returns:
        The offset at which the block begins.

    Raises:
        OSError: the disk reports an error, or returns other bytes.
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
    """Append what one write accepts of `data`, and check it; return the number of bytes."""
    written = os.write(fd, data) if data else 0
    offset = os.lseek(fd, 0, os.SEEK_CUR) - written  # O_APPEND moves the position behind the written bytes
    if written and (offset < 0 or os.pread(fd, written, offset) != data[:written]):
        raise OSError(errno.EIO, "what was read back is not what was written")
    return written


def sync(fd: int) -> None:
    """Wait until the content of the file is on disk.

    Raises:
        OSError: it is not. A second call would be wrong, because the kernel has already marked the lost pages as clean
            (USENIX ATC '20, "Can Applications Recover from fsync Failures?").
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)  # on macOS, fsync alone does not write to the medium
    if full is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)
