"""A place to try something out: a private folder with copies of a workspace's memory files, gone when it is over.

It is locked while it is in use. One that a killed process has left, which nobody holds, is removed by the next who
opens the state folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memoryd.files import regular

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "trial-"
CORE_FILE = "MEMORY.md"


class Place(NamedTuple):
    """The folders of a trial, both empty but for the copies."""

    state: Path
    workspace: Path


@contextmanager
def place(state_dir: Path, workspace: Path) -> Iterator[Place]:
    """Make the place, inside the private state folder, and take it away again.

    Raises:
        StateError: a memory file cannot be read.
    """
    folder, fd = _made(state_dir)
    try:
        made = Place(folder / "state", folder / "workspace")
        made.state.mkdir(mode=0o700)
        (made.workspace / "memory").mkdir(parents=True, mode=0o700)
        dailies = sorted(path.relative_to(workspace) for path in workspace.glob("memory/*.md"))
        for relative in (Path(CORE_FILE), *dailies):
            data = regular.read_in(workspace, str(relative))
            if data is not None:
                (made.workspace / relative).write_bytes(data)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def remove_stale(state_dir: Path) -> list[Path]:
    """Remove the places that no process holds any more; returns those that stay: in use, or not to be removed."""
    stay = []
    for folder in sorted(state_dir.glob(f"{PREFIX}*")):
        try:
            fd = _opened(folder)
        except FileNotFoundError:
            continue
        except OSError:  # no folder: somebody else's
            stay.append(folder)
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        except FileNotFoundError:  # its own process was quicker
            pass
        except OSError:
            stay.append(folder)
        finally:
            os.close(fd)
    return stay


def _made(state_dir: Path) -> tuple[Path, int]:
    """A new folder and a descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=state_dir))
        with suppress(FileNotFoundError):  # taken for a left one, before it was locked
            fd = _opened(folder)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, fd
            os.close(fd)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
