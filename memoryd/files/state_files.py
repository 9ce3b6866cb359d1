"""List the files of a state folder by kind: how much of the disk they use, and which are old.

database   memoryd.db with its -wal and -shm
index      index.db with the same; it is rebuilt if it is missing
log        log/, with rotated files
copies     backups/, one for each of the last days; memoryd.db.damaged-TIME… and memoryd.replaced-TIME/, which another
           database replaced; trial-…/, copies for a dry run
other      the journals, sessions that programs passed in, the lock, the socket
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from memoryd.files.locked_folder import TRIAL
from memoryd.files.log import log_path, name_rotated
from memoryd.files.log_line import KEPT_FILES

KINDS = ("database", "index", "log", "copies", "other")
_DATABASE = re.compile(r"memoryd\.db(-wal|-shm|-journal)?")
_INDEX = re.compile(r"index\.db(-wal|-shm|-journal)?")
_COPY = re.compile(r"memoryd\.(?:db\.damaged|replaced)-(\d{8}T\d{6})\S*")
_BLOCK = 512  # bytes; unit of st_blocks, see stat(2)


def disk_use(folder: Path) -> int:
    """Return the bytes on disk of all files below a folder; a file that disappears meanwhile counts as 0."""
    return sum(_size(path) for path in folder.rglob("*"))


def measure_uses(state_dir: Path) -> dict[str, int]:
    """Return the bytes on disk of each kind of file."""
    total = dict.fromkeys(KINDS, 0)
    for path in _entries(state_dir):
        total[_kind(path.name)] += _size(path) + (0 if path.is_symlink() else disk_use(path))
    return total


def old_logs(state_dir: Path, before: datetime) -> list[Path]:
    """Return the rotated log files whose last line is older than `before`."""
    found = (name_rotated(log_path(state_dir), number) for number in range(1, KEPT_FILES))
    return [path for path in found if _get_mtime(path) < before.timestamp()]


def old_copies(state_dir: Path, before: datetime) -> list[Path]:
    """Return the databases that were put aside before a time, according to their names, with their side files."""
    found = ((path, _COPY.fullmatch(path.name)) for path in _entries(state_dir))
    return sorted(path for path, name in found if name and _stamp(name[1]) < before)


def remove(paths: list[Path]) -> list[str]:
    """Delete files and folders in the state folder; return the names of those that could be deleted."""
    gone = []
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            gone.append(path.name)
    return gone


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from folder.iterdir()


def _kind(name: str) -> str:
    if _DATABASE.fullmatch(name):
        return "database"
    if _INDEX.fullmatch(name):
        return "index"
    is_copy = _COPY.fullmatch(name) or name.startswith(TRIAL) or name == "backups"
    return "log" if name == "log" else "copies" if is_copy else "other"


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.lstat().st_blocks * _BLOCK
    return 0


def _get_mtime(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime
    return float("inf")  # no such file, so there is nothing to delete


def _stamp(text: str) -> datetime:
    with contextlib.suppress(ValueError):
        return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return datetime.max.replace(tzinfo=UTC)  # somebody else chose this name, so the file must not be deleted
