"""Keep copies of the database in its folder: `backups/memoryd-TIME-SHA256.db`. Each new copy is checked.

The name has the first half of the file's SHA-256, so that later damage to a copy is detected. A copy is made at one
moment with SQLite's backup API (https://sqlite.org/backup.html). A plain copy of the file would lack the data that is
still in the write-ahead log. Closing the file after a plain copy would also release the locks of its other users in
this process.
"""

import hashlib
import os
import re
import shutil
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path

from memoryd.database import parts
from memoryd.database.library import BUSY_TIMEOUT_MS, as_trouble, load_library, move_away, own_uri
from memoryd.database.reads import newest_schema
from memoryd.errors import StateError, describe

FOLDER = "backups"
_NAME = re.compile(r"memoryd-(\d{8}T\d{6}\.\d{6})Z-([0-9a-f]{32})\.db")
_UNFINISHED = "unfinished.db"


def copy_database(source: Path, target: Path) -> None:
    """Copy the database to the new file `target` (mode 0600), while others may write to the database.

    Raises:
        StateError: there is no database, or it cannot be copied.
    """
    if not source.exists():
        raise StateError("there is no database yet", str(source), "start the daemon: memoryd run")
    module = load_library()
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        with (
            closing(module.connect(f"{own_uri(source)}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as reading,
            closing(module.connect(str(target), timeout=BUSY_TIMEOUT_MS / 1000)) as writing,
        ):
            reading.backup(writing)  # one step is one read transaction, so no writer has to wait
            writing.execute("PRAGMA journal_mode=DELETE")  # so that the copy has no side files
    except module.Error as error:
        raise as_trouble(error, "the database cannot be copied", source) from error


def check(path: Path) -> None:
    """Check a database that no process uses.

    Raises:
        StateError: it is damaged, is not memoryd's, or was written by a newer memoryd.
    """
    module = load_library()
    try:
        with closing(module.connect(f"{own_uri(path)}?mode=ro", uri=True)) as connection:
            fault = parts.find_fault(connection.execute)
            number = connection.execute("PRAGMA user_version").fetchone()[0]
    except (module.Error, UnicodeDecodeError) as error:
        raise StateError(f"the database {parts.DAMAGED}", str(path), "take another backup") from error
    if fault:
        raise StateError(f"the database {fault}", str(path), "take another backup")
    if not 0 < number <= newest_schema():
        raise StateError(
            f"the database has schema {number}, this memoryd knows 1 to {newest_schema()}",
            str(path),
            "use the newer memoryd" if number > 0 else "take another backup",
        )


def settle(path: Path) -> None:
    """Move the write-ahead log into the database file. No other process may use them.

    If one of them is damaged, both stay as they are.
    """
    module = load_library()
    with (
        suppress(module.Error),  # damaged: then its parts are kept as they are
        closing(module.connect(own_uri(path), uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as connection,
    ):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


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


def is_of_day(copy: Path, day: date, zone: tzinfo) -> bool:
    """Return True if a copy was made on this local day, also if the clock had gone back before."""
    with suppress(OSError):  # it was removed meanwhile
        return datetime.fromtimestamp(copy.stat().st_mtime, zone).date() == day <= made_at(copy).astimezone(zone).date()
    return False


def why_bad(copy: Path) -> str | None:
    """Return the fault of a copy as text for people; None if the copy is good."""
    name = _NAME.fullmatch(copy.name)
    try:
        if name is None or name[2] != _digest(copy):
            return f"the file {parts.DAMAGED} after it was written"
        check(copy)
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


def require_folder(state_dir: Path) -> Path:
    """Return the path of the folder of the copies, which may be absent; raise StateError if it is a link to nothing."""
    folder = state_dir / FOLDER
    if folder.is_symlink() and not os.path.exists(folder):  # noqa: PTH110 - a disk that reports an error is also absent
        raise StateError("is a link to nothing", str(folder), "mount the disk of the copies, or remove the link")
    return folder


def make(database: Path, now: datetime) -> Path:
    """Copy the database, check the copy, and return its path.

    Raises:
        StateError: the database cannot be copied, or the copy is damaged.
        OSError: the disk reports an error.
    """
    folder = require_folder(database.parent)
    if not folder.is_dir() and os.path.lexists(folder):
        move_away(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / _UNFINISHED
    target.unlink(missing_ok=True)
    try:
        copy_database(database, target)
        check(target)
        os.utime(target, (now.timestamp(), now.timestamp()))
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
