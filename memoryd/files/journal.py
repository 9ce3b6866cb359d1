"""Write append-only files of JSON lines in the state folder.

Two of them are beside the database. `watermarks.jsonl` has, by record id, what jobs have processed and people have
forgotten. `journal.jsonl` has the rows of people and jobs. They are read when the database is lost or damaged, so each
line has a checksum. Other files are transcripts of sessions that programs have passed to memoryd.
"""

import fcntl
import json
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memoryd.files.descriptor import extend, fill
from memoryd.files.durable import sync_folder
from memoryd.files.open_folder import Descriptor, FolderEntry, follow_folder
from memoryd.files.regular import as_state_error, open_regular, read_all

Entry = dict[str, Any]
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_CRC = "crc"


class Journal:
    """Append to a file with one JSON object a line, and read it without damaged lines. Safe beside other processes."""

    def __init__(self, path: Path, *, sealed: bool = False, is_entry: Callable[[Entry], bool] = lambda _: True) -> None:
        """Store the settings; nothing is opened yet.

        Args:
            path: path of the file.
            sealed: True if each line gets a checksum.
            is_entry: returns False for a line that is damaged in spite of its checksum.
        """
        self.path = path
        self._is_entry = is_entry
        self._line = _seal if sealed else _line
        self._lock = threading.Lock()
        self._size = -1  # size of the file when `_last` was its last entry
        self._last: Entry | None = None

    def append(self, *entries: Mapping[str, Any]) -> None:
        """Append entries, and wait until they are on disk."""
        with self._hold() as fd:
            self._extend(fd, entries)

    def append_after(self, make: Callable[[Entry | None], Mapping[str, Any] | None]) -> None:
        """Append what `make` returns for the last entry (None: append nothing).

        No other process can append in between.
        """
        with self._hold() as fd:
            size = os.fstat(fd).st_size
            if size != self._size:
                self._last = next(iter(self.entries()[-1:]), None)
            if (entry := make(self._last)) is not None:
                self._extend(fd, [entry])
                self._last = dict(entry)
            self._size = os.fstat(fd).st_size

    def rewrite(self, make: Callable[[list[Entry]], list[Entry]]) -> None:
        """Replace all entries by what `make` returns for them. Damaged lines are dropped."""
        if not self.path.exists():
            return
        with self._hold(), as_state_error("cannot be written", self.path), follow_folder(self.path.parent) as folder:
            found = make(self.read()[0])
            for left in folder.leftovers():  # writers hold this lock, so a writer of such a file was stopped
                if left.target == self.path.name:
                    left.entry.unlink()
            _put(folder / self.path.name, map(self._line, found))
            self._size = -1

    def entries(self) -> list[Entry]:
        """Return all undamaged entries, oldest first."""
        return self.read()[0]

    def count_damaged(self) -> int:
        """Return the number of damaged lines."""
        return self.read()[1]

    def read(self) -> tuple[list[Entry], int]:
        """Return all undamaged entries, oldest first, and the number of damaged lines."""
        try:
            found, damaged = _parse(_load(self.path))
        except FileNotFoundError:
            return [], 0
        kept = list(filter(self._is_entry, found))
        return kept, damaged + len(found) - len(kept)

    def _extend(self, fd: int, entries: Iterable[Mapping[str, Any]]) -> None:
        size = os.fstat(fd).st_size
        is_torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        extend(fd, b"\n" * is_torn + b"".join(map(self._line, entries)))

    @contextmanager
    def _hold(self) -> Iterator[int]:
        """Open and lock the file. If another process has just replaced it, open the new file."""
        with self._lock:
            while True:
                with Descriptor(os.open(self.path, _FLAGS, 0o600)) as one:
                    fcntl.flock(one.fd, fcntl.LOCK_EX)
                    with suppress(FileNotFoundError):
                        if os.path.samestat(os.fstat(one.fd), self.path.lstat()):
                            yield one.fd
                            return


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True).encode() + b"\n"


def _seal(entry: Mapping[str, Any]) -> bytes:
    return _line({**entry, _CRC: _checksum(entry)})


def _checksum(plain: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(plain, sort_keys=True).encode())


def _parse(data: bytes) -> tuple[list[Entry], int]:
    """Return the entries and the number of damaged lines. Lines of the first version have no checksum."""
    found: list[Entry] = []
    damaged = 0
    is_old = True
    for line in filter(None, data.split(b"\n")):
        entry = None
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
        crc = entry.pop(_CRC, None) if isinstance(entry, dict) else None
        if isinstance(entry, dict) and (is_old if crc is None else crc == _checksum(entry)):
            found.append(entry)
            is_old = is_old and crc is None
        else:
            damaged += 1
    return found, damaged


def unite(target: Path, sources: Iterable[Path]) -> None:
    """Write the entries of some journals into a new one (0600), each once, in order. Missing journals are skipped."""
    with as_state_error("cannot be written", target), follow_folder(target.parent) as folder:
        lines = [_seal(one) for source in sources if source.exists() for one in _parse(_load(source))[0]]
        _put(folder / target.name, dict.fromkeys(lines))


def _put(entry: FolderEntry, lines: Iterable[bytes]) -> None:
    """Replace a journal by a new file with these lines. The caller holds its lock."""
    new = entry.make_temporary("new")
    try:
        with Descriptor(new.open(os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)) as opened:
            fill(opened.fd, b"".join(lines))
        new.rename(entry)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(entry.folder)


def _load(path: Path) -> bytes:
    """Return the bytes of a journal of any size, without following a link or blocking on a FIFO.

    Raises:
        FileNotFoundError: there is no journal.
        StateError: it is not a regular file.
    """
    with follow_folder(path.parent) as folder, Descriptor(open_regular(folder / path.name)) as opened:
        return read_all(opened.fd, path, sys.maxsize)
