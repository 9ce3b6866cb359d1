"""List the files of a state folder by kind: their disk use, and which of them are old.

database   memoryd.db with its -wal and -shm
index      index.db with the same: what search looks into, made anew where it is missing
log        log/, with the rotated files
copies     backups/, one for each of the last days; memoryd.db.damaged-TIME…, memoryd.replaced-TIME/: kept when another
           database took their place; trial-…/: what a dry run is carried out in
other      the journals, sessions that programs flushed, the lock, the socket
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from memoryd.files import trial
from memoryd.files.log import log_path, name_rotated
from memoryd.files.log_line import KEPT_FILES

KINDS = ("database", "index", "log", "copies", "other")
_DATABASE = re.compile(r"memoryd\.db(-wal|-shm|-journal)?")
_INDEX = re.compile(r"index\.db(-wal|-shm|-journal)?")
_COPY = re.compile(r"memoryd\.(?:db\.damaged|replaced)-(\d{8}T\d{6})\S*")
_BLOCK = 512  # bytes; the unit of st_blocks, see stat(2)


def disk_use(folder: Path) -> int:
    """Return the disk space of the files below a folder; a file that vanishes meanwhile takes none."""
    return sum(_size(path) for path in folder.rglob("*"))


def measure_uses(state_dir: Path) -> dict[str, int]:
    """Return the bytes on disk of each kind."""
    total = dict.fromkeys(KINDS, 0)
    for path in _entries(state_dir):
        total[_kind(path.name)] += _size(path) + (0 if path.is_symlink() else disk_use(path))
    return total


def old_logs(state_dir: Path, before: datetime) -> list[Path]:
    """List the rotated log files whose last line is older than a time."""
    found = (name_rotated(log_path(state_dir), number) for number in range(1, KEPT_FILES))
    return [path for path in found if _get_mtime(path) < before.timestamp()]


def old_copies(state_dir: Path, before: datetime) -> list[Path]:
    """List the kept databases, with their parts, that were put aside before a time, by their names."""
    found = ((path, _COPY.fullmatch(path.name)) for path in _entries(state_dir))
    return sorted(path for path, name in found if name and _stamp(name[1]) < before)


def remove(paths: list[Path]) -> list[str]:
    """Delete files and folders of the state folder; skip what cannot be deleted. Return the names of the deleted."""
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
    is_copy = _COPY.fullmatch(name) or name.startswith(trial.PREFIX) or name == "backups"
    return "log" if name == "log" else "copies" if is_copy else "other"


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * _BLOCK
    except OSError:
        return 0


def _get_mtime(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("inf")  # there is none: nothing to delete


def _stamp(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)  # somebody else gave this name: it must not be deleted
