"""A service manager's file in its place: put there, the one that was there kept, taken away again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from memoryd.files.durable import replace, sync_folder
from memoryd.files.regular import as_state_error, digest, read

if TYPE_CHECKING:
    from pathlib import Path


class Placed(NamedTuple):
    """What was done."""

    changed: bool
    backup: Path | None  # where the file lies that was there before


def place(path: Path, data: bytes, now: str) -> Placed:
    """Make `data` the content of `path` (0644 less the umask); other content that was there is kept beside it.

    Args:
        path: the file; its folders are made.
        data: all of its bytes.
        now: the time, for the name of what is kept.

    Raises:
        StateError: a link or anything but a regular file is there, or it cannot be written.
    """
    with as_state_error("cannot be made", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    old = read(path)
    if old == data:
        return Placed(changed=False, backup=None)
    backup = None if old is None else _keep(path, old, now)
    replace(path, data, None if old is None else digest(old))
    return Placed(changed=True, backup=backup)


def remove(path: Path, ours: bytes, now: str) -> Placed:
    """Take a file away; one with other content than `ours` is kept beside its place.

    Raises:
        StateError: a link or anything but a regular file is there, or it cannot be removed.
    """
    old = read(path)
    if old is None:
        return Placed(changed=False, backup=None)
    backup = None if old == ours else _keep(path, old, now)
    with as_state_error("cannot be removed", path):
        path.unlink()
        sync_folder(path.parent)
    return Placed(changed=True, backup=backup)


def _keep(path: Path, old: bytes, now: str) -> Path:
    """The name ends in no suffix that a service manager reads."""
    stem = f"{path.name}.before-{now.replace(':', '').replace('-', '')}"
    number = 1
    while os.path.lexists(kept := path.with_name(stem if number == 1 else f"{stem}-{number}")):
        number += 1
    return replace(kept, old, None).path
