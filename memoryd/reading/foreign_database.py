"""Read another program's SQLite database, while that program writes it.

Such a database is never written, copied or checkpointed, and no write of its owner ever waits:

- If a write-ahead log is beside it, its owner has it open, or has crashed. Then each query is one short read
  transaction with the log, which sees everything that is committed. A copy of the file alone would lack this. SQLite's
  protocol for readers uses the index `-shm`, and the connection cannot checkpoint (`mode=ro`).
- Otherwise the file is complete. It is read without any lock (`immutable=1`), so no file appears beside it. The result
  counts only if the file has not changed afterwards.

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
_PATIENCE_SECONDS = 1.0  # readers wait only while a crashed owner's log is being recovered
_PAGES_KB = 2048
_LARGEST = 8 << 20  # bytes of one value


class ForeignDatabase:
    """Hold a read-only connection for one check of a database."""

    def __init__(self, path: Path) -> None:
        """Connect.

        Raises:
            StateError: it cannot be read, or a crashed owner left it in the middle of a change.
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
        # Its schema belongs to its owner: functions in its views and indexes must not run here.
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
        """Return the rows of one query, in a read transaction of its own.

        Raises:
            StateError: the database is damaged, encrypted or locked.
        """
        try:
            return list(self._connection.execute(sql, values).fetchall())
        except (self._library.Error, OverflowError) as error:
            raise self._as_error(error) from error

    def list_tables(self) -> dict[str, frozenset[str]]:
        """Return the real tables and their columns: a view or a virtual table could run anything."""
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND lower(sql) NOT LIKE 'create virtual%'"
        return {
            name: frozenset(column for (column,) in self.rows("SELECT name FROM pragma_table_info(?)", name))
            for (name,) in self.rows(sql)
        }

    def is_sound(self) -> bool:
        """Return True if the result counts: nobody changed the file meanwhile, or the log kept the change apart."""
        return self._seen is None or (self._seen == ranges.observe(self.path) and not _exists(self.path, *BESIDE))

    def _as_error(self, error: Exception) -> StateError:
        hint = "check its owner and mode, and whether its program can open it"
        return StateError(f"cannot be read as a database: {describe(error)}", str(self.path), hint)


def observe_with_log(path: Path, stat: ranges.Stat) -> ranges.Stat:
    """Return the state of a database together with its write-ahead log's: a commit changes only that."""
    log = ranges.observe(Path(f"{path}{LOG}"))
    if log is None:
        return stat
    size, mtime, ctime = stat.size + log.size, max(stat.mtime_ns, log.mtime_ns), max(stat.ctime_ns, log.ctime_ns)
    return stat._replace(size=size, mtime_ns=mtime, ctime_ns=ctime)


def _exists(path: Path, *suffixes: str) -> bool:
    return any(ranges.observe(Path(f"{path}{suffix}")) is not None for suffix in suffixes)


def _unpack(data: object) -> str | None:
    """Return the text of zstd-compressed bytes; None for anything else and for what is too large."""
    content = unpack(data, _LARGEST) if isinstance(data, bytes) else None
    return None if content is None else _decode_text(content)


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
