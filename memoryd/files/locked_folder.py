"""Create a private folder that is locked while it is in use, and removed afterwards.

If a killed process has left such a folder, another process removes it later. New files are staged in such a folder, and
then replace the old ones together, which are kept.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from memoryd.files.durable import sync_folder
from memoryd.files.open_folder import Descriptor, follow_folder
from memoryd.files.regular import as_state_error, read_in

STAGING = ".memoryd-staging-"
TRIAL = "trial-"
# The files that jobs write.
_ROLLED_OVER = ("RECENT", "MEMORY*", "archive/MEMORY*", "NOW-*")
COPIED = ("MEMORY.md", "memory/*.md", *(f".continuum/memory/{name}.md" for name in _ROLLED_OVER))


@contextmanager
def hold_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a new empty folder (0700) in `parent` whose name begins with `prefix`; remove it at the end."""
    with as_state_error("cannot be made", parent / f"{prefix}*"):
        folder, fd = _make_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def remove_left(parent: Path) -> list[Path]:
    """Remove such folders that no process uses; return those that are in use or cannot be removed."""
    stay = []
    for folder in sorted(folder for prefix in (TRIAL, STAGING) for folder in parent.glob(f"{prefix}*")):
        try:
            with Descriptor(_open_locked(folder)) as opened:
                fcntl.flock(opened.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        except FileNotFoundError:  # its own process has removed it
            continue
        except OSError:  # it is in use, or belongs to somebody else
            stay.append(folder)
    return stay


def _make_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Create and lock a folder; return it with the descriptor that holds the lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # before it was locked, another process may have removed it as a leftover
            fd = _open_locked(folder)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, fd
            os.close(fd)


def _open_locked(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def exchange_files(staged: Path, folder: Path, names: Sequence[str], sides: Sequence[str], kept: str) -> Path | None:
    """Move staged files into `folder`; keep the replaced ones in its new subfolder `kept`.

    An existing file is at no moment missing, because it first gets its second name. Files of `sides` do not belong to
    the new ones, so they are moved away first.

    Args:
        staged: the folder with the new files.
        folder: the folder to change.
        names: names of the files.
        sides: names of side files, such as a write-ahead log.
        kept: name of the subfolder.

    Returns:
        The subfolder; None if nothing was replaced.

    Raises:
        StateError: the disk reports an error. Files that were replaced before are in the subfolder.
    """
    place = folder / kept
    there = [name for name in (*sides, *names) if (folder / name).exists()]
    with as_state_error("cannot be exchanged", folder):
        if there:
            place.mkdir(mode=0o700)
        for name in there:
            if name in sides:
                (folder / name).rename(place / name)
            else:
                os.link(folder / name, place / name, follow_symlinks=False)
        for name in names:
            if (staged / name).exists():
                (staged / name).replace(folder / name)
        for changed in (place, folder) if there else (folder,):
            with follow_folder(changed) as opened:
                sync_folder(opened)
    return place if there else None


class TrialFolders(NamedTuple):
    """Hold the folders of a trial run. They are empty except for the copies."""

    state: Path
    workspace: Path


@contextmanager
def make_trial(state_dir: Path, workspace: Path | None) -> Iterator[TrialFolders]:
    """Create the folders inside the private state folder, and remove them at the end.

    Without a `workspace`, nothing is copied.
    """
    with hold_folder(state_dir, TRIAL) as folder:
        made = TrialFolders(folder / "state", folder / "workspace")
        made.state.mkdir(mode=0o700)
        (made.workspace / "memory").mkdir(parents=True, mode=0o700)
        if workspace is not None:
            _copy(workspace, made.workspace)
        yield made


def _copy(workspace: Path, to: Path) -> None:
    found = sorted(path for pattern in COPIED for path in workspace.glob(pattern))
    for relative in (path.relative_to(workspace) for path in found):
        data = read_in(workspace, str(relative))
        if data is not None:
            (to / relative).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (to / relative).write_bytes(data)
