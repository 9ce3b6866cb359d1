"""Keep copies of the database beside it: `backups/memoryd-TIME-SHA256.db`, each checked when it is made.

The name holds the first half of the file's SHA-256, so that a copy that was damaged later is not taken for a good one.
"""

import hashlib
import os
import re
import shutil
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memoryd.database import snapshot
from memoryd.database.library import load_library, own_uri
from memoryd.errors import StateError, describe

FOLDER = "backups"
_NAME = re.compile(r"memoryd-(\d{8}T\d{6}\.\d{6})Z-([0-9a-f]{32})\.db")
_UNFINISHED = "unfinished.db"


def list_copies(state_dir: Path) -> list[Path]:
    """List the copies, the newest first."""
    with suppress(OSError):
        return sorted(
            (one for one in (state_dir / FOLDER).iterdir() if _NAME.fullmatch(one.name) and one.is_file()), reverse=True
        )
    return []


def made_at(copy: Path) -> datetime:
    """Return when a copy was made."""
    name = _NAME.fullmatch(copy.name)
    return datetime.strptime(name[1] if name else "", "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)


def why_bad(copy: Path) -> str | None:
    """Return the fault of a copy; None if it is good."""
    name = _NAME.fullmatch(copy.name)
    try:
        if name is None or name[2] != _digest(copy):
            return "is not what was written"
        snapshot.check(copy)
    except (OSError, StateError) as error:
        return describe(error)
    return None


def read_seq(copy: Path) -> int:
    """Return the number of the last change in a copy; 0 for one of an older schema."""
    module = load_library()
    with closing(module.connect(f"{own_uri(copy)}?mode=ro&immutable=1", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT max(seq) FROM changed_row").fetchone()[0] or 0)
        except module.DatabaseError:
            return 0


def find_good(state_dir: Path) -> Path | None:
    """Return the newest copy that is good."""
    return next((one for one in list_copies(state_dir) if why_bad(one) is None), None)


def make(database: Path, now: datetime) -> Path:
    """Copy the database at this moment, check the copy, and name it.

    Raises:
        StateError: it cannot be copied, or the copy is damaged.
        OSError: the disk refuses.
    """
    folder = database.parent / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / _UNFINISHED
    target.unlink(missing_ok=True)
    try:
        snapshot.copy(database, target)
        snapshot.check(target)
        if copies := list_copies(database.parent):  # the newest is the last by name, even if a clock was wrong
            now = max(now, made_at(copies[0]) + timedelta(microseconds=1))
        name = f"memoryd-{now.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z-{_digest(target)}.db"
        target.replace(folder / name)
    finally:
        target.unlink(missing_ok=True)
    _sync(folder)
    return folder / name


def take(copy: Path, database: Path) -> None:
    """Put a copy in the place of a missing database; it gets the name only when it is complete."""
    unfinished = copy.with_name(_UNFINISHED)
    unfinished.unlink(missing_ok=True)
    shutil.copyfile(copy, unfinished)
    unfinished.chmod(0o600)
    with unfinished.open("rb+") as file:
        os.fsync(file.fileno())
    unfinished.replace(database)
    _sync(database.parent)


def remove(copies: list[Path]) -> None:
    """Delete copies."""
    for one in copies:
        one.unlink(missing_ok=True)
        _sync(one.parent)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
