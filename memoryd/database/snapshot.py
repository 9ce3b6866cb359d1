"""Copy the database at one moment with SQLite's backup API (https://sqlite.org/backup.html), and check the copy.

A plain copy of the file would lack the data that is still in the write-ahead log. Closing the file after a plain copy
would also release the locks of its other users in this process.
"""

import os
from contextlib import closing, suppress
from pathlib import Path

from memoryd.database.library import BUSY_TIMEOUT_MS, as_trouble, load_library, own_uri
from memoryd.database.reads import newest_schema
from memoryd.errors import StateError


def copy(source: Path, target: Path) -> None:
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
    """Move the write-ahead log into the database file. No other process may use them.

    If one of them is damaged, both stay as they are.
    """
    module = load_library()
    with (
        suppress(module.Error),  # damaged: then its parts are kept as they are
        closing(module.connect(own_uri(path), uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as connection,
    ):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
