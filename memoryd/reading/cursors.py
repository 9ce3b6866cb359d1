"""Hold all cursors of this process, by path and by file, and reload them after a failed transaction."""

from collections import OrderedDict
from collections.abc import Iterable

from sqlalchemy import Connection, Engine

from memoryd.database import sqlite, turns
from memoryd.files.ranges import Stat
from memoryd.reading import cursor as reading
from memoryd.reading.cursor import Cursor

OPEN_CURSORS = 512


class Cursors:
    """Hold the cursors of all agents, including those of missing files, which may come back here or elsewhere."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str], Cursor] = {}
        self._by_file: dict[tuple[str, int, int], Cursor] = {}
        self._open: OrderedDict[int, Cursor] = OrderedDict()
        self._agents: set[str] = set()
        self._lost: set[int] = set()  # ids of rows to reload

    def load(self, connection: Connection, agent_id: str) -> None:
        """Read the cursors of an agent from the database, once."""
        if agent_id not in self._agents:
            self._agents.add(agent_id)
            for row in turns.transcripts_of(connection, agent_id):
                self.add(reading.from_row(row))

    def add(self, cursor: Cursor) -> None:
        """Add a cursor. A cursor of a missing file never replaces the cursor of an existing file."""
        if _yields(self._by_path.get(_path_key(cursor)), cursor):
            self._by_path[_path_key(cursor)] = cursor
        if _yields(self._by_file.get(_file_key(cursor)), cursor):
            self._by_file[_file_key(cursor)] = cursor

    def find(self, agent_id: str, path: str) -> Cursor | None:
        """Return the cursor of a path; None if there is none."""
        return self._by_path.get((agent_id, path))

    def of_file(self, agent_id: str, stat: Stat) -> Cursor | None:
        """Return the cursor of a file by device and inode; None if there is none.

        This is only a hint, because a file system reuses inodes.
        """
        found = self._by_file.get(key := (agent_id, stat.dev, stat.ino))
        # After a failed transaction, a missing file may hide an existing one that has its inode.
        live = (one for one in self._by_path.values() if not one.is_gone and _file_key(one) == key)
        return next(live, found) if found is not None and found.is_gone else found

    def all(self) -> list[Cursor]:
        """List the cursors, one for each path."""
        return list(self._by_path.values())

    def place(self, cursor: Cursor, path: str, stat: Stat) -> None:
        """Record where a transcript is, and its size and times."""
        self._remove(cursor)
        cursor.path, cursor.device, cursor.inode = path, stat.dev, stat.ino
        cursor.size, cursor.mtime_ns, cursor.ctime_ns = stat.size, stat.mtime_ns, stat.ctime_ns
        self._by_path[_path_key(cursor)] = self._by_file[_file_key(cursor)] = cursor

    def keep_open(self, cursor: Cursor) -> None:
        """Record that a cursor was just read; if too many are open, close the one that was read longest ago."""
        self._open[id(cursor)] = cursor
        self._open.move_to_end(id(cursor))
        while len(self._open) > OPEN_CURSORS:
            _, closed = self._open.popitem(last=False)
            if closed.id is not None:
                reading.close(closed)

    def lose(self, cursors: Iterable[Cursor]) -> None:
        """Remove cursors whose changes could not be stored; `find_again` reloads them from the database."""
        for cursor in cursors:
            self._remove(cursor)
            self._open.pop(id(cursor), None)
            if cursor.id is not None:
                self._lost.add(cursor.id)

    def find_again(self, engine: Engine) -> None:
        """Reload the cursors that `lose` removed."""
        if not self._lost:
            return
        with sqlite.begin_read(engine) as connection:
            rows = [row for agent_id in self._agents for row in turns.transcripts_of(connection, agent_id)]
        for row in rows:
            if row["id"] in self._lost:
                self.add(reading.from_row(row))
        self._lost.clear()

    def _remove(self, cursor: Cursor) -> None:
        if self._by_path.get(_path_key(cursor)) is cursor:
            del self._by_path[_path_key(cursor)]
        if self._by_file.get(_file_key(cursor)) is cursor:
            del self._by_file[_file_key(cursor)]


def _yields(known: Cursor | None, cursor: Cursor) -> bool:
    return known is None or known.is_gone or not cursor.is_gone


def _path_key(cursor: Cursor) -> tuple[str, str]:
    return cursor.agent_id, cursor.path


def _file_key(cursor: Cursor) -> tuple[str, int, int]:
    return cursor.agent_id, cursor.device, cursor.inode
