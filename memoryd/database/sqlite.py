"""The one SQLite library of the process, and how connections to the state database behave.

SQLite before 3.51.3 (but for 3.50.7 and 3.44.6) can lose commits when two connections checkpoint a WAL at the same
instant (https://sqlite.org/wal.html, "the WAL-reset bug"). Two SQLite libraries in one process drop each other's POSIX
locks (https://sqlite.org/howtocorrupt.html §2.2.1). So one is chosen here, once, and checked.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import create_engine, event

from memoryd.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from sqlalchemy import Connection, Engine

BUSY_TIMEOUT_MS = 10_000
_CANDIDATES = ("pysqlite3.dbapi2", "sqlite3")


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Say whether this SQLite version can corrupt a WAL database used by two connections."""
    if version >= (3, 51, 3):
        return False
    return not ((3, 50, 7) <= version < (3, 51, 0) or (3, 44, 6) <= version < (3, 45, 0))


def library() -> ModuleType:
    """Return the SQLite binding of this process.

    Raises:
        StateError: no installed binding carries a SQLite without the WAL-reset bug.
    """
    seen: list[str] = []
    for name in _CANDIDATES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if not has_wal_reset_bug(module.sqlite_version_info):
            return module
        seen.append(f"{name} {module.sqlite_version}")
    raise StateError(
        "the SQLite library here has the WAL-reset corruption bug",
        where=", ".join(seen) or "no SQLite binding",
        hint="install the pysqlite3 wheel, or a Python whose SQLite is 3.51.3 or newer",
    )


def other_libraries() -> list[str]:
    """Name the SQLite bindings loaded beside the chosen one; anything but an empty list is a defect."""
    chosen = library().__name__.split(".")[0]
    return [name for name in ("sqlite3", "pysqlite3", "apsw") if name != chosen and name in sys.modules]


def connect(path: Path, *, read_only: bool = False) -> Engine:
    """Open an engine on the database file: WAL, synchronous=FULL, explicit transactions.

    `NORMAL` is not enough: a renamed Markdown file can survive a power cut while the row that recorded it does not.
    """
    module = library()
    query = "?mode=ro&uri=true" if read_only else "?uri=true"
    engine = create_engine(
        f"sqlite:///file:{quote(str(path))}{query}",
        module=module,
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _on_connect(dbapi: Any, _record: object) -> None:
        dbapi.isolation_level = None  # SQLAlchemy says BEGIN itself, so that reads are inside the transaction too
        cursor = dbapi.cursor()
        if not read_only:
            cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA cache_size=-4096")
        cursor.execute("PRAGMA journal_size_limit=16777216")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        mode = "IMMEDIATE" if connection.get_execution_options().get("write") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open one write transaction; committed at the end, rolled back by any exception."""
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open one read transaction: every query in it sees the same state."""
    with engine.connect() as connection, connection.begin():
        yield connection
