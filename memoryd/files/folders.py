"""Create memoryd's folders: private ones, and the folder in a workspace that git ignores."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from memoryd.config import Settings
from memoryd.errors import MemorydError, StateError, hint_at
from memoryd.files import git_exclude
from memoryd.files.durable import MovedError, replace, sync_folder
from memoryd.files.open_folder import FolderEntry, OpenFolder, follow_folder, require_plain
from memoryd.files.regular import as_state_error, read

LEAST_ROOM = 64 * 1024  # bytes; a transaction may need more than this


def find_disk_fault(folder: Path, *, is_held_up: bool = False) -> tuple[str, str] | None:
    """Return why the disk of a folder cannot be written, and the remedy; None if it can.

    This writes a small file and removes it, because nothing else shows a used-up quota. Stored alarms are not enough,
    because a full disk cannot store one.
    `is_held_up` says that another process could not write.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(LEAST_ROOM))
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:  # else this process alone may be kept from writing
            return os.strerror(error.errno), hint_at(error.errno)
    return ("the daemon reported it", "look at memoryd status") if is_held_up else None


def make_folder(folder: OpenFolder, name: str) -> OpenFolder:
    """Open a folder in another one. If it is missing, create it with the mode of the folder above."""
    entry = folder / name
    with as_state_error("cannot be made", entry):
        try:
            return folder.folder(name)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                entry.make_folder()
                sync_folder(folder)
        return folder.folder(name)


@contextlib.contextmanager
def made_way(folder: OpenFolder, relative: str) -> Iterator[FolderEntry]:
    """Yield the entry of a relative path. Its folders are open meanwhile, and missing ones are created."""
    *between, name = PurePosixPath(relative).parts
    with contextlib.ExitStack() as opened:
        for part in between:
            folder = opened.enter_context(make_folder(folder, part))
        yield folder / name


def make_private_dir(path: Path, owner: int = -1) -> Path:
    """Create a private folder (0700), or make an existing one private; return its path.

    With an `owner` other than -1, the folder and the created folders above it get this user as their owner.
    """
    with as_state_error("cannot be made a private folder", path):
        for missing in reversed([path, *path.parents]):
            if not missing.exists():
                with contextlib.suppress(FileExistsError):
                    missing.mkdir(mode=0o700)
                    if owner != -1:
                        os.chown(missing, owner, -1, follow_symlinks=False)
                with follow_folder(missing.parent) as above:  # a power failure must not undo it
                    sync_folder(above)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
        if owner != -1 and path.lstat().st_uid == os.geteuid():
            os.chown(path, owner, -1, follow_symlinks=False)
    return path


def make_memory_folders(settings: Settings) -> None:
    """Create the memory folders of agents whose memory is in the state folder."""
    for agent in settings.agents:
        if agent.memory == "state":
            make_private_dir(settings.state_dir / "agents")
            make_private_dir(agent.workspace)


def continuum_folder(workspace: OpenFolder) -> OpenFolder:
    """Open the workspace's `.continuum/memory/`; create it if it is missing.

    A new folder gets a `.gitignore` with `*` before it gets its name, so that no `git add` can include its content. An
    existing folder without this file gets it too, unless git tracks files in it, because that is its owner's choice.
    """
    with make_folder(workspace, ".continuum") as outer:
        entry = outer / "memory"
        with as_state_error("cannot be made", entry):
            if not entry.exists():
                _make_ignored(entry)
            # A process that is still creating one notices the removal, and uses the existing folder.
            for left in outer.leftovers():
                if left.target == entry.name and left.kind == "new":
                    with contextlib.suppress(OSError, StateError):
                        left.entry.remove_folder()
            made = outer.folder(entry.name)
        ignored = made / ".gitignore"
        if not ignored.exists() and not _is_tracked(workspace.path):
            with contextlib.suppress(MemorydError):  # a folder on a read-only disk can still be read
                replace(ignored, b"*\n", None)
        return made


@cache  # called only if the folder has no `.gitignore`
def _is_tracked(workspace: Path) -> bool:
    return ".continuum/memory/" in git_exclude.list_tracked(workspace)


def _make_ignored(entry: FolderEntry) -> None:
    ready = entry.make_temporary("new")
    try:
        ready.make_folder()  # another process that was first may remove this folder
        with ready.folder.folder(ready.name) as folder:
            replace(folder / ".gitignore", b"*\n", None)
        ready.rename(entry)  # fails if another process was first and the folder has content
    except (OSError, MemorydError):
        if not entry.exists():
            raise  # otherwise another process was first
    finally:
        with contextlib.suppress(OSError, StateError):
            ready.remove_folder()
    sync_folder(entry.folder)


def backup(folder: OpenFolder, run_id: str, name: str, data: bytes) -> Path:
    """Keep the old bytes of a file that a run will rewrite as `folder/backup/RUN/NAME` (0600), on disk.

    If the run plans again, the same bytes are kept once, and other bytes get the name `NAME.2`, `NAME.3` …

    Returns:
        The path of the copy.

    Raises:
        ValueError: `run_id` or `name` is not a plain file name.
        StateError: a part of the path is a link or not a folder, or cannot be written.
    """
    for part in (run_id, name):
        require_plain(part)  # checked before anything is created
    with _private(folder, "backup") as backups, _private(backups, run_id) as place:
        with as_state_error("cannot be cleared", place.path):
            for left in place.leftovers():  # left by this run, if it was stopped here
                left.entry.unlink()
        return _keep(place, name, data)


def _private(folder: OpenFolder, name: str) -> OpenFolder:
    entry = folder / name
    with as_state_error("cannot be made", entry):
        with contextlib.suppress(FileExistsError):
            entry.make_folder(private=True)
        # An existing folder is synced too, because its creator may have been stopped before the sync.
        sync_folder(folder)
        return folder.folder(name)


def _keep(place: OpenFolder, name: str, data: bytes) -> Path:
    number = 1
    while True:
        entry = place / (name if number == 1 else f"{name}.{number}")
        there = read(entry)
        if there == data:
            return entry.path
        if there is None:
            with contextlib.suppress(MovedError):
                return replace(entry, data, None, mode=0o600)
        number += 1
