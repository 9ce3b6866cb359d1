"""Open the folders of an agent's workspace, and lock them while its files change."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from memoryd.files import folders, regular
from memoryd.files.locks import Lock
from memoryd.files.open_folder import OpenFolder, open_folder

LOCK_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class WorkspaceFolders:
    """Hold the open folders of a workspace, so that a change is planned on and written to the same folders."""

    workspace: OpenFolder
    continuum: OpenFolder


@contextmanager
def lock_workspace(workspace: Path) -> Iterator[WorkspaceFolders]:
    """Open the folders of a workspace, and lock them for a short change of its files.

    Raises:
        StateError: a folder cannot be opened.
        LockedError: another process has held the lock for 30 seconds.
    """
    with open_workspace(workspace) as place, lock_files(place):
        yield place


@contextmanager
def open_workspace(workspace: Path) -> Iterator[WorkspaceFolders]:
    """Open the folders of a workspace without the lock."""
    with regular.as_state_error("cannot be opened", workspace):
        folder = open_folder(workspace)
    with folder, folders.continuum_folder(folder) as continuum:
        yield WorkspaceFolders(folder, continuum)


def lock_files(place: WorkspaceFolders) -> Lock:
    """Return the lock of a workspace's files against other processes, for a `with` statement.

    The statement raises a LockedError if another process has held the lock for 30 seconds.
    """
    # The lock is in the workspace, because two daemons with two state folders may share it.
    return Lock(place.continuum / ".lock", LOCK_TIMEOUT)
