"""Read the log back: what was logged so far, or each record as it comes, over rotation and truncation.

A line that is no record is skipped and counted; the count comes as a record of its own, so that damage is seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from memoryd.files.log import LEVELS, name_rotated
from memoryd.files.log_line import KEPT_FILES
from memoryd.files.open_folder import Descriptor

_CHUNK = 1 << 18
_FOLLOW_FROM = 1 << 16  # a person who follows wants what comes, and enough of what came to know where they are
_MAX_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Select records: from a level on, of one agent, of one run."""

    level: str = "debug"
    agent: str | None = None
    run: str | None = None

    def takes(self, record: dict[str, Any]) -> bool:
        """Return True if a record is wanted; a record of an unknown level always is."""
        return (
            LEVELS.get(str(record.get("level")), LEVELS["error"]) >= LEVELS[self.level]
            and (self.agent is None or record.get("agent") == self.agent)
            and (self.run is None or record.get("run") == self.run)
        )


class _RecordLines:
    """Split bytes into wanted records; keep an unfinished last line for the next bytes."""

    def __init__(self, wanted: LogFilter) -> None:
        self._wanted = wanted
        self._rest = b""
        self._damaged = 0

    def take(self, data: bytes) -> Iterator[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MAX_LINE:
            self._rest = b""
            self._damaged += 1
        for line in lines:
            record = _record(line)
            if record is None:
                self._damaged += bool(line.strip())
            elif self._wanted.takes(record):
                yield record

    def drop_rest(self) -> None:
        """Count the unfinished line as damaged: the file ended, or was truncated."""
        self._damaged += bool(self._rest.strip())
        self._rest = b""

    def damage(self) -> Iterator[dict[str, Any]]:
        if self._damaged:
            event = "damaged log lines were skipped"
            yield {"at": None, "level": "warning", "logger": __name__, "event": event, "count": self._damaged}
        self._damaged = 0


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def read(path: Path, wanted: LogFilter) -> Iterator[dict[str, Any]]:
    """Return the records, oldest first, those of rotated files included; none where there is no log."""
    lines = _RecordLines(wanted)
    with ExitStack() as opened:
        # All are opened before any is read, so that a rotation meanwhile neither hides nor repeats a file.
        paths = [*(name_rotated(path, number) for number in range(KEPT_FILES - 1, 0, -1)), path]
        files = [opened.enter_context(file) for file in map(_open, paths) if file is not None]
        for file in {os.fstat(file.fd).st_ino: file for file in files}.values():
            while data := os.read(file.fd, _CHUNK):
                yield from lines.take(data)
            lines.drop_rest()
    yield from lines.damage()


def follow(path: Path, wanted: LogFilter, wait: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Return the last records and then each new one, whatever file it is in.

    `wait` is called when there is nothing new; it returns False to end.
    """
    lines = _RecordLines(wanted)
    with closing(_Tail(path)) as tail:
        tail.skip_to_last(_FOLLOW_FROM)
        while True:
            moved = tail.has_moved()  # asked before the read: a file that has a successor gets no more lines
            if data := tail.read():
                yield from lines.take(data)
            elif tail.was_cut() or (moved and tail.go_on()):
                lines.drop_rest()
            else:
                yield from lines.damage()
                if not wait():
                    return


class _Tail:
    """Hold an open log file, and how far it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def skip_to_last(self, size: int) -> None:
        """Go to the first line that begins within the last `size` bytes."""
        if self._file is not None and os.fstat(self._file.fd).st_size > size:
            os.lseek(self._file.fd, -size - 1, os.SEEK_END)
            while os.read(self._file.fd, 1) not in {b"\n", b""}:
                pass

    def read(self) -> bytes:
        return b"" if self._file is None else os.read(self._file.fd, _CHUNK)

    def was_cut(self) -> bool:
        """Return True if the file is shorter than what was read of it, and go back to its start."""
        if self._file is None or os.fstat(self._file.fd).st_size >= os.lseek(self._file.fd, 0, os.SEEK_CUR):
            return False
        os.lseek(self._file.fd, 0, os.SEEK_SET)
        return True

    def has_moved(self) -> bool:
        return self._file is None or self._successor() is not None

    def go_on(self) -> bool:
        """Open the file that followed this one; return False if there is none yet."""
        while path := self._successor():
            file = _open(path)
            if file is None:
                return False
            if self._successor() == path:  # else a rotation shifted the names meanwhile: look again
                self.close()
                self._file = file
                return True
            file.close()
        return False

    def _successor(self) -> Path | None:
        if not self._path.exists() or self._is(self._path):
            return None
        rotations = (number for number in range(1, KEPT_FILES) if self._is(name_rotated(self._path, number)))
        number = next(rotations, 1)
        return name_rotated(self._path, number - 1) if number > 1 else self._path

    def _is(self, path: Path) -> bool:
        with suppress(OSError):
            return self._file is not None and os.path.samestat(os.fstat(self._file.fd), path.stat())
        return False


def _open(path: Path) -> Descriptor | None:
    try:
        file = Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file.fd).st_mode):
        return file
    file.close()
    return None
