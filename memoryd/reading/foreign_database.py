"""Read another program's SQLite database, while that program writes to it.

memoryd never writes, copies or checkpoints such a database, and never delays its owner's writes:

- If a write-ahead log exists, the owner has the database open, or has crashed. Then each query is a short read
  transaction that includes the log, so it sees everything that is committed. SQLite's protocol for readers uses the
  index `-shm`. The connection cannot checkpoint (`mode=ro`).
- Otherwise the file is complete. It is read without locks (`immutable=1`), so SQLite creates no files beside it. The
  result is valid only if the file has not changed in the meantime.

https://sqlite.org/wal.html#readers, https://sqlite.org/uri.html
"""

from pathlib import Path
from typing import Any, Self

from memoryd.database.library import file_uri, load_library
from memoryd.errors import StateError, describe
from memoryd.files import ranges
from memoryd.reading.packed import unpack
from memoryd.transcripts.whole import UNPACK

LOG = "-wal"
BESIDE = (LOG, "-shm", "-journal")
MAGIC = b"SQLite format 3\0"
_PATIENCE_SECONDS = 1.0  # a reader waits only while SQLite recovers the log of a crashed owner
_PAGES_KB = 2048
_LARGEST = 8 << 20  # bytes of one value


class ForeignDatabase:
    """Hold a read-only connection to a database. It is opened for one check."""

    def __init__(self, path: Path) -> None:
        """Open the connection.

        Raises:
            StateError: the database cannot be read, or a crash of its owner left an unfinished change.
        """
        self.path = path
        self._seen = None if _exists(path, LOG) else ranges.observe(path)
        if self._seen is not None and _exists(path, "-journal"):
            hint = "start that program once"
            raise StateError("has an unfinished change, as after a crash of its program", str(path), hint)
        self._library = load_library()
        options = "mode=ro" if self._seen is None else "mode=ro&immutable=1"
        try:
            self._connection: Any = self._library.connect(
                f"{file_uri(path)}?{options}", uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None
            )
        except self._library.Error as error:
            raise self._as_error(error) from error
        self._connection.text_factory = _decode_text
        self._connection.create_function(UNPACK, 1, _unpack, deterministic=True)
        # The schema belongs to another program. Functions in its views and indexes must not run in this process.
        for pragma in ("query_only=1", "trusted_schema=0", f"cache_size=-{_PAGES_KB}"):
            try:
                self.rows(f"PRAGMA {pragma}")
            except StateError:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in a read transaction of its own.

        Raises:
            StateError: the database is damaged, encrypted or locked.
        """
        try:
            return list(self._connection.execute(sql, values).fetchall())
        except (self._library.Error, OverflowError) as error:
            raise self._as_error(error) from error

    def list_tables(self) -> dict[str, frozenset[str]]:
        """Return the columns of each real table.

        Views and virtual tables are left out, because they could run any function.
        """
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND lower(sql) NOT LIKE 'create virtual%'"
        return {
            name: frozenset(column for (column,) in self.rows("SELECT name FROM pragma_table_info(?)", name))
            for (name,) in self.rows(sql)
        }

    def is_sound(self) -> bool:
        """Return True if what was read is consistent: it was read with the log, or the file has not changed since."""
        return self._seen is None or (self._seen == ranges.observe(self.path) and not _exists(self.path, *BESIDE))

    def _as_error(self, error: Exception) -> StateError:
        hint = "check its owner and mode, and whether its program can open it"
        return StateError(f"cannot be read as a database: {describe(error)}", str(self.path), hint)


def observe_with_log(path: Path, stat: ranges.Stat) -> ranges.Stat:
    """Return the state of a database, combined with that of its write-ahead log. A commit may change only the log."""
    log = ranges.observe(Path(f"{path}{LOG}"))
    if log is None:
        return stat
    size, mtime, ctime = stat.size + log.size, max(stat.mtime_ns, log.mtime_ns), max(stat.ctime_ns, log.ctime_ns)
    return stat._replace(size=size, mtime_ns=mtime, ctime_ns=ctime)


def _exists(path: Path, *suffixes: str) -> bool:
    return any(ranges.observe(Path(f"{path}{suffix}")) is not None for suffix in suffixes)


def _unpack(data: object) -> str | None:
    """Return the text of zstd-compressed bytes; None if they are something else or too large."""
    content = unpack(data, _LARGEST) if isinstance(data, bytes) else None
    return None if content is None else _decode_text(content)


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
