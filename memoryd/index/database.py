"""Open the search index `index.db`; all of its content is also elsewhere, so a damaged index is rebuilt.

Each agent has its own FTS5 table, so a search of one agent neither reads another agent's rows nor is ranked by them.
The tables keep no text (https://sqlite.org/fts5.html, §4.4.2), only the positions of words. The shown text is read from
its file or row. Vectors of meanings are in the same file, if there is a model for them.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.database import library
from memoryd.database.library import NOT_DAMAGE, file_id, load_library, own_uri, read_code
from memoryd.errors import MemorydError, StateError, describe
from memoryd.files.folders import make_private_dir
from memoryd.files.locks import Lock
from memoryd.files.log import Log
from memoryd.files.regular import as_state_error
from memoryd.index.matches import Counts, SearchFilter
from memoryd.index.tables import SCHEMA, DamagedError, FaultError, Tables
from memoryd.recall.ranking import Candidate

if TYPE_CHECKING:
    from memoryd.index.vectors import Vectors

NAME = "index.db"
SIDES = ("", "-wal", "-shm", "-journal")
VERSION = 10  # the version of tables and content; an index of another version is rebuilt
_LOCK = "index.lock"
_PATIENCE = timedelta(seconds=30)
_LOG_PATIENCE_MS = 200
_DAMAGED = "the search index was damaged and is rebuilt"
_SMALL = 8 << 20  # bytes; a larger file is not checked at each opening, but by the daemon


class RebuiltError(MemorydError):
    """Report that the index was damaged and is now empty, so that the caller must fill it and search again."""

    code = "rebuilt"


class Index:
    """Give access to the index of a state folder; safe to use from several threads, and beside other processes."""

    def __init__(self, state_dir: Path, log: Log) -> None:
        """Store the settings; nothing is opened yet."""
        self.path = state_dir / NAME
        self._log = log
        self.told: Callable[[str], None] = lambda _what: None  # called if the index was damaged
        self._lock = threading.RLock()
        self._connection: Any = None
        self._file: tuple[int, int] | None = None
        self._vectors: Vectors | None = None
        self._counts = Counts()

    def find_nearest(
        self, tables: Tables, number: int, vector: bytes, where: SearchFilter, limit: int
    ) -> list[Candidate]:
        """Return the documents whose vectors are nearest to `vector`, the nearest first."""
        from memoryd.index.vectors import Vectors  # imported late: it loads numpy

        self._vectors = self._vectors or Vectors()
        return tables.read_candidates(number, self._vectors.find_nearest(tables, number, vector, where, limit))

    def begin_read(self) -> AbstractContextManager[Tables]:
        """Begin a read transaction.

        Raises:
            RebuiltError: the index was damaged and is now empty.
            StateError: the index cannot be used.
        """
        return self._transaction("DEFERRED")

    def begin_write(self) -> AbstractContextManager[Tables]:
        """Begin a write transaction, which an exception rolls back; raises the same errors as `begin_read`."""
        return self._transaction("IMMEDIATE")

    def erase(self, agent_id: str | None) -> None:
        """Remove all rows of an agent, or of all agents for None, beyond recovery: rewrite the file, and empty its log.

        Texts that may still be found come back with the next refresh.
        """
        if not self.path.exists():
            return
        with suppress(RebuiltError), self._lock:  # a rebuilt index has no rows to remove
            with self.begin_write() as tables:
                for one in tables.agents() if agent_id is None else [agent_id]:
                    tables.drop(one)
            with self._damage():
                self._connection.execute("VACUUM")
                is_empty = self.empty_log()
            if not is_empty:  # another process reads it, so the file is removed with its log
                self._wipe("other processes were reading the rows to erase")

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        with self._lock:
            connection, self._connection, self._file = self._connection, None, None
            self._vectors, self._counts = None, Counts()
            if connection is not None:
                with suppress(load_library().Error):
                    connection.close()

    def empty_log(self) -> bool:
        """Empty the write-ahead log and the cache; return False if another process is using the index."""
        with self._lock:
            self._open()
            return library.empty_log(self._connection, _LOG_PATIENCE_MS)

    def why_damaged(self) -> str | None:
        """Check the whole index; remove a damaged one and return the fault, or return None if it is sound."""
        try:
            with self.begin_read() as tables:
                tables.require_sound()
        except RebuiltError as error:
            return error.what
        return None

    # --- how it is opened -----------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, how: str) -> Iterator[Tables]:
        with self._lock:
            self._open()
            if self._connection.in_transaction:  # SQLite would report this error like damage
                raise RuntimeError("one transaction of the index within another")
            with self._damage():
                self._connection.execute(f"BEGIN {how}")
                try:
                    yield Tables(self._connection, self._counts)
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection is not None and self._connection.in_transaction:
                        with suppress(load_library().Error):
                            self._connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Raise RebuiltError after damage, and StateError after any other error of SQLite."""
        try:
            yield
        except (load_library().DatabaseError, UnicodeDecodeError, DamagedError, FaultError) as error:
            if _is_damage(error):
                self._wipe(describe(error))
                what = f"{_DAMAGED}: {describe(error)}"
                self.told(what)
                raise RebuiltError(what, str(self.path)) from error
            hint = "it is tried again; memoryd doctor looks at the disk"
            raise StateError(f"the index cannot be used: {describe(error)}", str(self.path), hint) from error

    def _open(self) -> None:
        if self._connection is not None and self._file == file_id(self.path):
            return
        self.close()  # the file is a new one, because another process has rebuilt the index
        make_private_dir(self.path.parent)
        with Lock(self.path.parent / _LOCK, _PATIENCE):
            why = self._try_open()
            if why is not None:
                with as_state_error("cannot be rebuilt", self.path):
                    self._remove(why)
                why = self._try_open()
            if why is not None:
                raise StateError(f"the index cannot be made: {why}", str(self.path), "check the disk")

    def _try_open(self) -> str | None:
        """Open the index; return None, or the reason why it must be rebuilt."""
        module = load_library()
        connection = None
        try:
            own_uri(self.path)  # before the file is created
            is_new = not self.path.exists()
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            connection = library.connect(self.path)
            number = connection.execute("PRAGMA user_version").fetchone()[0]
            if not is_new and number != VERSION:
                connection.close()
                return f"it is of version {number}, not {VERSION}" if number else "it was left unfinished"
            if is_new:  # in an existing file, this statement would only wait for other writers
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA cache_size=-16384")
            connection.execute("PRAGMA journal_size_limit=16777216")
            if is_new:
                connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
            elif self.path.stat().st_size <= _SMALL:
                Tables(connection).require_sound()
            else:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except OSError as error:
            raise StateError(
                f"the index cannot be opened: {error.strerror}", str(self.path), "check the state folder"
            ) from error
        except StateError as error:  # it is not a file
            return error.what
        except (module.DatabaseError, UnicodeDecodeError, DamagedError, FaultError) as error:
            if connection is not None:
                connection.close()
            if not _is_damage(error):
                raise library.as_trouble(error, "the index cannot be opened", self.path) from error
            self.told(f"{_DAMAGED}: {describe(error)}")
            return describe(error)
        self._connection, self._file = connection, file_id(self.path)
        return None

    def _wipe(self, why: str) -> None:
        """Remove the index, unless another process has already done so."""
        file = self._file
        self.close()
        with Lock(self.path.parent / _LOCK, _PATIENCE):
            if file == file_id(self.path):
                self._remove(why)

    def _remove(self, why: str) -> None:
        self._log.error("index rebuilt", path=self.path, why=why)
        for path in (self.path.with_name(NAME + side) for side in SIDES):
            try:
                library.require_file(path)
                path.unlink(missing_ok=True)
            except StateError:  # a folder or a link of somebody, so it is kept
                library.move_away(path)


def _is_damage(error: Exception) -> bool:
    return read_code(error.orig if isinstance(error, FaultError) else error) not in NOT_DAMAGE
