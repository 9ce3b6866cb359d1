"""Makes the declared tables in a new database.

In a process of its own: SQLModel takes memory that the daemon would keep, and is needed once in a database's life.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import memoryd
from memoryd.database import sqlite
from memoryd.errors import StateError

DEADLINE_SECONDS = 120


def create(path: Path, number: int) -> None:
    """Make the tables in an empty database, and record the schema's number.

    Raises:
        StateError: the process could not do it.
    """
    root = str(Path(memoryd.__file__).resolve().parent.parent)
    command = [sys.executable, "-P", "-m", "memoryd.database.create", str(path), str(number)]
    environment = {**os.environ, "PYTHONPATH": root}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    except OSError:  # this user may not start the interpreter again: then it is done here
        _make(path, number)
        return
    except subprocess.TimeoutExpired as error:
        raise StateError("the database cannot be made", str(path), "the machine may be overloaded") from error
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise StateError("the database cannot be made", str(path), told[-1] if told else "")


def _make(path: Path, number: int) -> None:
    from memoryd.database.tables import METADATA

    engine = sqlite.connect(path)
    with sqlite.writing(engine) as connection:
        # A database that a stopped migration left half-way is the numbered steps' to finish.
        if connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").first() is None:
            METADATA.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {number}")
    engine.dispose()


if __name__ == "__main__":
    _make(Path(sys.argv[1]), int(sys.argv[2]))
