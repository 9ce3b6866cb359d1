"""Append to files with one `O_APPEND` write, so that lines of other writers are never overwritten.

A writer that was stopped may leave part of its block: `missing_part` returns the missing rest.
"""

import os

from memoryd.errors import NotFoundError
from memoryd.files.descriptor import Step, extend, no_step, sync
from memoryd.files.durable import open_to_append, sync_folder
from memoryd.files.open_folder import Descriptor, FolderEntry
from memoryd.files.regular import as_state_error, open_regular, read


def append(entry: FolderEntry, block: bytes, create: bytes | None = None, step: Step = no_step) -> int:
    """Add `block` at the end of a file in one write, and wait until the disk has it.

    A short write (a full disk) is continued by a further append; what an error leaves unwritten, `missing_part` tells
    later. Where there is no file it appears with `create` already in it. Returns the offset at which the block begins.

    Raises:
        NotFoundError: there is no file, and `create` is None.
        StateError: no regular file of one name, disk full, no permission, or a failed fsync.
    """
    with as_state_error("cannot be appended to", entry):
        try:
            fd = open_to_append(entry, create, step)
        except FileNotFoundError as error:
            raise NotFoundError("does not exist", str(entry.path)) from error
        with Descriptor(fd):
            return extend(fd, block, step)


def sync_file(entry: FolderEntry, step: Step = no_step) -> None:
    """Make the bytes of an existing file, and its name, survive a power failure."""
    with as_state_error("cannot be synced", entry):
        with Descriptor(open_regular(entry)) as opened:
            step("before:fsync-append")
            sync(opened.fd)
            step("after:fsync-append")
        sync_folder(entry.folder, step)


def fill_hole(entry: FolderEntry, block: bytes, offset: int) -> None:
    """Complete an append that a power failure left as a hole: the file had grown, but its last bytes were missing.

    Only NUL bytes in the place of the block's own bytes are overwritten, because nobody's text consists of them.
    """
    found = (read(entry) or b"")[offset : offset + len(block)]
    there = found.rstrip(b"\0")
    if len(there) == len(found) or not block.startswith(there):
        return
    with as_state_error("cannot be repaired", entry), Descriptor(open_regular(entry, os.O_WRONLY)) as opened:
        position = len(there)
        while position < len(found):
            position += os.pwrite(opened.fd, block[position : len(found)], offset + position)
        sync(opened.fd)


def missing_part(data: bytes, block: bytes, offset: int) -> bytes:
    """Return the part of `block` that `data` still lacks, after an append at `offset` was stopped.

    Empty: it is there. The rest: a torn write ended inside it. All of it: nothing is there, or others wrote in
    between, and a block is never stitched together around other people's lines.
    """
    # A file shorter than planned was shortened by a person since, and the block may be anywhere in it.
    if data.find(block, offset if len(data) >= offset else 0) >= 0:
        return b""
    return block.removeprefix(data[offset:])
