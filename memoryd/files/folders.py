"""The folders memoryd makes: its own, closed to others, and the one in a workspace, closed to git."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING

from memoryd.errors import MemorydError, StateError
from memoryd.files.durable import MovedError, leftovers, replace, sync_folder, temp_path
from memoryd.files.regular import as_state_error, read

if TYPE_CHECKING:
    from pathlib import Path

LEAST_ROOM = 64 * 1024  # bytes: less than a transaction may need


def why_not_writable(folder: Path) -> str | None:
    """Tell what keeps anybody from writing on the disk of a folder; None where nothing is known to.

    Asked of the file system by statvfs(3): a full disk has no room for the row of an alarm that says so.
    """
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return f"cannot be asked: {os.strerror(error.errno or 0)}"
    if found.f_flag & os.ST_RDONLY:
        return "is read-only"
    if found.f_blocks and found.f_bavail * found.f_frsize < LEAST_ROOM:
        return "is full"
    return "has no room for another file" if found.f_files and not found.f_favail else None


def make_folder(path: Path) -> Path:
    """Make one folder of a workspace, with the modes its owner's umask gives.

    Raises:
        StateError: something else is there, the folder above is missing, or permission is lacking.
    """
    with as_state_error("cannot be made", path):
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                sync_folder(path.parent)
        _require_folder(path)
    return path


def make_private_dir(path: Path) -> Path:
    """Make a folder that only its owner may enter (0700), or make an existing one so.

    Raises:
        StateError: something else is there, or permission is lacking.
    """
    with as_state_error("cannot be made a private folder", path):
        made = [one for one in (path, *path.parents) if not one.exists()]
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in made:  # else a power cut takes the folder away, and what was done is done twice
            sync_folder(one.parent)
        if stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
    return path


def continuum_folder(workspace: Path) -> Path:
    """The workspace's `.continuum/memory/`, made on first use.

    A new one appears with a `.gitignore` of `*` already inside, so that no `git add` can catch it without. In one
    that exists nothing is changed: whether it is tracked is then its owner's choice.

    Raises:
        StateError: the workspace is missing, a part of the path is a link or no folder, or cannot be written.
    """
    outer = workspace / ".continuum"
    folder = outer / "memory"
    with as_state_error("cannot be made", folder):
        with contextlib.suppress(FileExistsError):
            outer.mkdir()
            sync_folder(workspace)
        _require_folder(outer)
        if not os.path.lexists(folder):
            _make_ignored(folder)
        _require_folder(folder)
        # Whoever is still making one sees it vanish and takes the one that is there.
        for left in leftovers(outer):
            if left.target == folder.name and left.kind == "new":
                shutil.rmtree(left.path, ignore_errors=True)
    return folder


def _require_folder(path: Path) -> None:
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise StateError("is not a folder", str(path), "move it away; memoryd does not write through links")


def _make_ignored(folder: Path) -> None:
    ready = temp_path(folder, "new")
    ready.mkdir()
    try:
        replace(ready / ".gitignore", b"*\n", None)
        ready.rename(folder)  # fails on a folder with content: then somebody else was first
    except (OSError, MemorydError):
        if not os.path.lexists(folder):
            raise  # else somebody else was first
    finally:
        shutil.rmtree(ready, ignore_errors=True)
    sync_folder(folder.parent)


def backup(folder: Path, run_id: str, name: str, data: bytes) -> Path:
    """Keep the old bytes of a file a run is about to rewrite, as `folder/backup/RUN/NAME` (0600), on disk.

    The same bytes again are left alone; other bytes of the same name (the run planned anew) get `NAME.2`, `NAME.3`, …

    Raises:
        ValueError: `run_id` or `name` is not a plain file name.
        StateError: the folder cannot be written.
    """
    for part in (run_id, name):
        if not part or part in {".", ".."} or set(part) & {"/", "\0"}:
            raise ValueError(f"not a plain file name: {part!r}")
    place = folder / "backup" / run_id
    with as_state_error("cannot be made", place):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(place.parent)
        sync_folder(folder)
        for left in leftovers(place):  # of this run, when it was stopped here
            left.path.unlink()
    return _keep(place, name, data)


def _keep(place: Path, name: str, data: bytes) -> Path:
    number = 1
    while True:
        path = place / (name if number == 1 else f"{name}.{number}")
        there = read(path)
        if there == data:
            return path
        if there is None:
            with contextlib.suppress(MovedError):
                return replace(path, data, None, mode=0o600).path
        number += 1
