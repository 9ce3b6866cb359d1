"""Choose the one SQLite library of the process.

SQLite before 3.51.3 (except 3.50.7 and 3.44.6) can lose commits when two connections checkpoint a WAL at the same
instant (https://sqlite.org/wal.html, "the WAL-reset bug"). Two SQLite libraries in one process release each other's
POSIX locks (https://sqlite.org/howtocorrupt.html §2.2.1). So this module chooses and checks one library for all.
"""

import importlib
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from memoryd.errors import StateError, describe, explain_trouble

BUSY_TIMEOUT_MS = 10_000
MOVED = ".moved-"  # in the name of what was moved away
# Primary result codes (https://sqlite.org/rescode.html) that do not mean a damaged file: PERM BUSY LOCKED NOMEM
# READONLY INTERRUPT IOERR FULL CANTOPEN PROTOCOL NOLFS AUTH. After such an error, the file must stay in place.
NOT_DAMAGE = frozenset({3, 5, 6, 7, 8, 9, 10, 13, 14, 15, 22, 23})
_CANDIDATES = ("pysqlite3.dbapi2", "sqlite3")


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Return True if this SQLite version can corrupt a WAL database that two connections use."""
    if version >= (3, 51, 3):
        return False
    return not ((3, 50, 7) <= version < (3, 51, 0) or (3, 44, 6) <= version < (3, 45, 0))


def load_library() -> ModuleType:
    """Return the SQLite module that this process uses.

    Raises:
        StateError: each installed SQLite has the WAL-reset bug, or none is installed.
    """
    seen: list[str] = []
    for name in _CANDIDATES:
        with suppress(ImportError):
            module = importlib.import_module(name)
            if not has_wal_reset_bug(module.sqlite_version_info):
                return module
            seen.append(f"{name} {module.sqlite_version}")
    raise StateError(
        "the SQLite library here has the WAL-reset corruption bug",
        where=", ".join(seen) or "no SQLite binding",
        hint="install the pysqlite3 wheel, or a Python whose SQLite is 3.51.3 or newer",
    )


def read_code(error: BaseException) -> int:
    """Return the primary result code of an error of SQLite, or 0 if it has none."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def other_libraries() -> list[str]:
    """Return the names of other SQLite modules that are loaded in this process; any of them is a defect."""
    chosen = load_library().__name__.split(".")[0]
    return [name for name in ("sqlite3", "pysqlite3", "apsw") if name != chosen and name in sys.modules]


def file_id(path: Path) -> tuple[int, int] | None:
    """Return an identity of the file that changes when the file is replaced; None if there is no file."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        return found.st_dev, found.st_ino
    return None


def file_uri(path: Path) -> str:
    """Return the path as a URI for SQLite."""
    return f"file:{quote(str(path))}"


def own_uri(path: Path) -> str:
    """Return the path of one of memoryd's own databases as a URI for SQLite.

    Raises:
        StateError: the database or one of its side files is a link, a FIFO or a folder. SQLite would block on a FIFO.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        require_file(path.with_name(path.name + suffix))
    return file_uri(path)


def connect(path: Path, how: str = "") -> Any:
    """Open one of memoryd's own databases for use by any thread. The caller must execute BEGIN.

    `how` is appended to the URI, such as `?mode=ro`.

    Raises:
        StateError: see `own_uri`.
    """
    # SQLAlchemy would parse `#`, `?` and `%` of a path as syntax of its URL, and open another file.
    uri, timeout, module = own_uri(path) + how, BUSY_TIMEOUT_MS / 1000, load_library()
    # Without an adapter, the module searches for one at each value of these types, which doubles the time of an insert.
    module.register_adapter(bytes, bytes)
    module.register_adapter(type(None), {}.get)  # returns None for None
    return module.connect(uri, uri=True, timeout=timeout, check_same_thread=False, isolation_level=None)


def empty_log(connection: Any, patience_ms: int) -> bool:
    """Empty the write-ahead log and the cache; return False if others use the log for longer than `patience_ms`.

    This is safe at any time: the log's content is moved into the database first.
    """
    connection.execute(f"PRAGMA busy_timeout={patience_ms}")
    try:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute("PRAGMA shrink_memory")
    except load_library().OperationalError:  # for example a full disk
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    return not busy


def read_mappings(cursor: Any) -> list[dict[str, Any]]:
    """Return the rows of a cursor as mappings from column names to values."""
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def as_trouble(error: Exception, what: str, path: Path) -> StateError:
    """Convert an error of SQLite to a StateError for people.

    It names the cause if that is a trouble of this machine, such as a full disk; otherwise it says `what`.
    """
    return explain_trouble(error, str(path)) or StateError(what, str(path), describe(error))


def move_away(path: Path) -> None:
    """Rename what somebody has put in the place of a file or folder of memoryd, because it may be needed."""
    path.rename(path.with_name(f"{path.name}{MOVED}{secrets.token_hex(4)}"))


def require_file(path: Path) -> None:
    """Check that a path is a regular file or does not exist.

    Raises:
        StateError: something else is at this path.
    """
    with suppress(OSError):  # SQLite reports the disk's error
        if not stat.S_ISREG(path.lstat().st_mode):
            hint = "move it away, and put the file back if there was one"
            raise StateError("is not a regular file", str(path), hint)
