"""Create memoryd's folders: its own, closed to others, and the one in a workspace, ignored by git."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from memoryd.config import Settings
from memoryd.errors import MemorydError, StateError
from memoryd.files import git_exclude
from memoryd.files.durable import MovedError, replace, sync_folder
from memoryd.files.open_folder import FolderEntry, OpenFolder, follow_folder, require_plain
from memoryd.files.regular import as_state_error, read
from memoryd.files.temporary import list_leftovers, make_name

LEAST_ROOM = 64 * 1024  # bytes: less than a transaction may need


def why_not_writable(folder: Path) -> str | None:
    """Return why nobody can write on the disk of a folder; None if no reason is known.

    This asks the file system by statvfs(3), because a full disk has no room for the row of an alarm about it.
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


def make_folder(folder: OpenFolder, name: str) -> OpenFolder:
    """Open one folder of a workspace, and create it if it is missing, with the mode of the folder above."""
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
    """Open a relative path with all its folders for the length of a `with`, and create missing ones."""
    *between, name = PurePosixPath(relative).parts
    with contextlib.ExitStack() as opened:
        for part in between:
            folder = opened.enter_context(make_folder(folder, part))
        yield folder / name


def make_private_dir(path: Path, owner: int = -1) -> Path:
    """Make a folder that only its owner may enter (0700), or make an existing one so.

    With an `owner` other than -1, this user gets it from the caller, and the folders above it that were missing too.
    """
    with as_state_error("cannot be made a private folder", path):
        for missing in reversed([path, *path.parents]):
            if not missing.exists():
                with contextlib.suppress(FileExistsError):
                    missing.mkdir(mode=0o700)
                    if owner != -1:
                        os.chown(missing, owner, -1, follow_symlinks=False)
                with follow_folder(missing.parent) as above:  # else a power failure takes the folder and all work in it
                    sync_folder(above)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
        if owner != -1 and path.lstat().st_uid == os.geteuid():
            os.chown(path, owner, -1, follow_symlinks=False)
    return path


def make_memory_folders(settings: Settings) -> None:
    """Create the memory folders of the agents whose memory is in the state folder."""
    for agent in settings.agents:
        if agent.memory == "state":
            make_private_dir(settings.state_dir / "agents")
            make_private_dir(agent.workspace)


def continuum_folder(workspace: OpenFolder) -> OpenFolder:
    """Open the workspace's `.continuum/memory/`, and create it at first use.

    A new one appears with a `.gitignore` of `*` already inside, so that no `git add` can catch it before. A folder that
    somebody else made gets the same file, unless it has one already or git tracks files in it: that is its owner's
    choice.
    """
    with make_folder(workspace, ".continuum") as outer:
        entry = outer / "memory"
        with as_state_error("cannot be made", entry):
            if not entry.exists():
                _make_ignored(entry)
            # A process that is still making one sees it vanish and uses the existing one.
            for left in list_leftovers(outer):
                if left.target == entry.name and left.kind == "new":
                    with contextlib.suppress(OSError, StateError):
                        left.entry.remove_folder()
            made = outer.folder(entry.name)
        ignored = made / ".gitignore"
        if not ignored.exists() and not _is_tracked(workspace.path):
            with contextlib.suppress(MemorydError):  # on a read-only disk the folder can still be read
                replace(ignored, b"*\n", None)
        return made


@cache  # called only while the folder has no `.gitignore`
def _is_tracked(workspace: Path) -> bool:
    return ".continuum/memory/" in git_exclude.list_tracked(workspace)


def _make_ignored(entry: FolderEntry) -> None:
    ready = make_name(entry, "new")
    try:
        ready.make_folder()  # may vanish at once: the first process removes the unfinished folders of others
        with ready.folder.folder(ready.name) as folder:
            replace(folder / ".gitignore", b"*\n", None)
        ready.rename(entry)  # fails on a folder with content: then another process was first
    except (OSError, MemorydError):
        if not entry.exists():
            raise  # else another process was first
    finally:
        with contextlib.suppress(OSError, StateError):
            ready.remove_folder()
    sync_folder(entry.folder)


def backup(folder: OpenFolder, run_id: str, name: str, data: bytes) -> Path:
    """Keep the old bytes of a file a run is about to rewrite, as `folder/backup/RUN/NAME` (0600), on disk.

    The same bytes again are left alone; other bytes of the same name (the run planned anew) get `NAME.2`, `NAME.3`, …

    Raises:
        ValueError: `run_id` or `name` is not a plain file name.
        StateError: a part of the path is a link or no folder, or cannot be written.
    """
    for part in (run_id, name):
        require_plain(part)  # before anything is created
    with _private(folder, "backup") as backups, _private(backups, run_id) as place:
        with as_state_error("cannot be cleared", place.path):
            for left in list_leftovers(place):  # leftovers of this run, if it was stopped here
                left.entry.unlink()
        return _keep(place, name, data)


def _private(folder: OpenFolder, name: str) -> OpenFolder:
    entry = folder / name
    with as_state_error("cannot be made", entry):
        with contextlib.suppress(FileExistsError):
            entry.make_folder(private=True)
        # Synced although it exists: its writer may have been stopped before.
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
                return replace(entry, data, None, mode=0o600).path
        number += 1
