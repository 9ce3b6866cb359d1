"""Keep copies of the database in its folder: `backups/memoryd-TIME-SHA256.db`. Each new copy is checked.

The name has the first half of the file's SHA-256, so that later damage to a copy is detected.
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
    """List the copies in a state folder, newest first."""
    with suppress(OSError):
        return sorted(
            (one for one in (state_dir / FOLDER).iterdir() if _NAME.fullmatch(one.name) and one.is_file()), reverse=True
        )
    return []


def made_at(copy: Path) -> datetime:
    """Return when a copy was made, according to its name."""
    name = _NAME.fullmatch(copy.name)
    return datetime.strptime(name[1] if name else "", "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)


def why_bad(copy: Path) -> str | None:
    """Return the fault of a copy as text for people; None if the copy is good."""
    name = _NAME.fullmatch(copy.name)
    try:
        if name is None or name[2] != _digest(copy):
            return "is not what was written"
        snapshot.check(copy)
    except (OSError, StateError) as error:
        return describe(error)
    return None


def read_seq(copy: Path) -> int:
    """Return the number of the last change in a copy; 0 if it cannot be read, or its older schema has no numbers."""
    module = load_library()
    with (
        suppress(module.Error, UnicodeDecodeError, StateError),
        closing(module.connect(f"{own_uri(copy)}?mode=ro&immutable=1", uri=True)) as connection,
    ):
        return int(connection.execute("SELECT max(seq) FROM changed_row").fetchone()[0] or 0)
    return 0


def find_good(state_dir: Path) -> Path | None:
    """Return the newest good copy; None if there is none."""
    return next((one for one in list_copies(state_dir) if why_bad(one) is None), None)


def make(database: Path, now: datetime) -> Path:
    """Copy the database, check the copy, and return its path.

    Raises:
        StateError: the database cannot be copied, or the copy is damaged.
        OSError: the disk reports an error.
    """
    folder = database.parent / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / _UNFINISHED
    target.unlink(missing_ok=True)
    try:
        snapshot.copy(database, target)
        snapshot.check(target)
        if copies := list_copies(database.parent):  # keep the newest last by name, even if the clock was wrong
            now = max(now, made_at(copies[0]) + timedelta(microseconds=1))
        name = f"memoryd-{now.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z-{_digest(target)}.db"
        target.replace(folder / name)
    finally:
        target.unlink(missing_ok=True)
    _sync(folder)
    return folder / name


def take(copy: Path, database: Path) -> None:
    """Restore a missing database from a copy. It gets its final name only after it is completely written."""
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
