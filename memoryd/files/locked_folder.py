"""Create a private folder that is locked while it is in use, and removed afterwards.

If a killed process has left such a folder, another process removes it later.
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
    """Create a new empty folder (0700) in `parent` whose name begins with `prefix`; remove it at the end."""
    with as_state_error("cannot be made", parent / f"{prefix}*"):
        folder, fd = _make_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def remove_left(parent: Path, prefix: str) -> list[Path]:
    """Remove such folders that no process uses; return those that are in use or cannot be removed."""
    stay = []
    for folder in sorted(parent.glob(f"{prefix}*")):
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
