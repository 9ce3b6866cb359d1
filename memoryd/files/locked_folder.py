"""Create a private folder that is locked while in use and removed afterwards.

If a killed process has left one that nobody holds, the next process that looks removes it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memoryd.files.open_folder import Descriptor
from memoryd.files.regular import as_state_error


@contextmanager
def hold_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a new empty folder (0700) below `parent`, with a name that begins with `prefix`."""
    with as_state_error("cannot be made", parent / f"{prefix}*"):
        folder, fd = _make_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def remove_left(parent: Path, prefix: str) -> list[Path]:
    """Remove the folders that no process holds; return those that stay: in use, or not removable."""
    stay = []
    for folder in sorted(parent.glob(f"{prefix}*")):
        try:
            with Descriptor(_open_locked(folder)) as opened:
                fcntl.flock(opened.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        except FileNotFoundError:  # its own process was faster
            continue
        except OSError:  # in use; or no folder: it belongs to somebody else
            stay.append(folder)
    return stay


def _make_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Create a folder, and return it with a descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # another process took it for a leftover, before it was locked
            fd = _open_locked(folder)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, fd
            os.close(fd)


def _open_locked(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
