"""Copy the database at one moment by SQLite's backup API (https://sqlite.org/backup.html), and check the copy.

A plain copy of the file would miss what is still in the write-ahead log, and closing it would drop the locks of every
other user of it in this process.
"""

import os
from contextlib import closing, suppress
from pathlib import Path

from memoryd.database.library import BUSY_TIMEOUT_MS, as_trouble, load_library, own_uri
from memoryd.database.reads import newest_schema
from memoryd.errors import StateError


def copy(source: Path, target: Path) -> None:
    """Copy the database while others may write to it; `target` is a new file (0600)."""
    if not source.exists():
        raise StateError("there is no database yet", str(source), "start the daemon: memoryd run")
    module = load_library()
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        with (
            closing(module.connect(f"{own_uri(source)}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as reading,
            closing(module.connect(str(target), timeout=BUSY_TIMEOUT_MS / 1000)) as writing,
        ):
            reading.backup(writing)  # in one step: one read transaction, which keeps no writer waiting
            writing.execute("PRAGMA journal_mode=DELETE")  # so that the copy is this one file
    except module.Error as error:
        raise as_trouble(error, "the database cannot be copied", source) from error


def check(path: Path) -> None:
    """Check a database that no process uses.

    Raises:
        StateError: it is damaged, is no database of memoryd, or a newer memoryd wrote it.
    """
    module = load_library()
    try:
        with closing(module.connect(f"{own_uri(path)}?mode=ro", uri=True)) as connection:
            sound = connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
            number = connection.execute("PRAGMA user_version").fetchone()[0]
    except (module.Error, UnicodeDecodeError) as error:
        raise StateError("the database is damaged", str(path), "take another backup") from error
    if not sound:
        raise StateError("the database is damaged", str(path), "take another backup")
    if not 0 < number <= newest_schema():
        raise StateError(
            f"the database has schema {number}, this memoryd knows 1 to {newest_schema()}",
            str(path),
            "use the newer memoryd" if number > 0 else "take another backup",
        )


def settle(path: Path) -> None:
    """Move the write-ahead log into the database file, if both are sound; no other process may use them."""
    module = load_library()
    with (
        suppress(module.Error),  # damaged: then its parts are kept as they are
        closing(module.connect(own_uri(path), uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as connection,
    ):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
