"""Append to files with one `O_APPEND` write, so that text of other writers is never overwritten.

If a writer is stopped, only a part of its block may be in the file. `missing_part` returns the rest.
"""

import os

from memoryd.errors import NotFoundError
from memoryd.files.descriptor import Step, extend, no_step, sync
from memoryd.files.durable import open_to_append, sync_folder
from memoryd.files.open_folder import Descriptor, FolderEntry
from memoryd.files.regular import as_state_error, open_regular, read


def append(entry: FolderEntry, block: bytes, create: bytes | None = None, step: Step = no_step) -> int:
    """Append `block` to a file in one write, and wait until it is on disk.

    If the disk takes only a part, the rest is appended by another write. After an error, `missing_part` finds out what
    is missing. If there is no file, it is created with the content `create`.

    Returns:
        The offset at which the block begins.

    Raises:
        NotFoundError: there is no file, and `create` is None.
        StateError: it is not a regular file with one name, the disk is full, permission is missing, or fsync failed.
    """
    with as_state_error("cannot be appended to", entry):
        try:
            fd = open_to_append(entry, create, step)
        except FileNotFoundError as error:
            raise NotFoundError("does not exist", str(entry.path)) from error
        with Descriptor(fd):
            return extend(fd, block, step)


def sync_file(entry: FolderEntry, step: Step = no_step) -> None:
    """Wait until the content and the name of an existing file are on disk."""
    with as_state_error("cannot be synced", entry):
        with Descriptor(open_regular(entry)) as opened:
            step("before:fsync-append")
            sync(opened.fd)
            step("after:fsync-append")
        sync_folder(entry.folder, step)


def fill_hole(entry: FolderEntry, block: bytes, offset: int) -> None:
    """Fill in the bytes of an append that a power failure left as NUL bytes.

    This happens if the file grew before its data was on disk. Only NUL bytes in the place of the block are overwritten,
    because nobody writes such text.
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
    """Return the part of `block` that `data` lacks after an append at `offset` was stopped.

    It is empty if the block is complete. It is the rest of the block if the file ends in the middle of it. It is the
    whole block if nothing of it is there, or if others have written after a part of it, because a block must stay
    together.
    """
    # If the file is shorter than `offset`, a person has shortened it, and the block can be anywhere.
    if data.find(block, offset if len(data) >= offset else 0) >= 0:
        return b""
    return block.removeprefix(data[offset:])
