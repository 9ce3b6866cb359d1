"""Read the log: all records so far, or each new record, across rotation and truncation.

Lines that are not records are skipped and counted. The count is reported as a record of its own.
"""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from memoryd.files.log import LEVELS, name_rotated
from memoryd.files.log_line import KEPT_FILES
from memoryd.files.open_folder import Descriptor

_CHUNK = 1 << 18
_FOLLOW_FROM = 1 << 16  # bytes; a person who follows the log also wants some earlier records
_MAX_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Select records by lowest level, agent and run. None selects all."""

    level: str = "debug"
    agent: str | None = None
    run: str | None = None

    def takes(self, record: dict[str, Any]) -> bool:
        """Return True if a record is selected. A record of unknown level counts as an error."""
        return (
            LEVELS.get(str(record.get("level")), LEVELS["error"]) >= LEVELS[self.level]
            and (self.agent is None or record.get("agent") == self.agent)
            and (self.run is None or record.get("run") == self.run)
        )


class _RecordLines:
    """Split bytes into records and yield the selected ones. An unfinished last line is kept for the next bytes."""

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
        """Count the unfinished line as damaged, because the file has ended or was truncated."""
        self._damaged += bool(self._rest.strip())
        self._rest = b""

    def damage(self) -> Iterator[dict[str, Any]]:
        if self._damaged:
            event = "damaged log lines were skipped"
            yield {"at": None, "level": "warning", "logger": __name__, "event": event, "count": self._damaged}
        self._damaged = 0


def _record(line: bytes) -> dict[str, Any] | None:
    with suppress(orjson.JSONDecodeError):
        if isinstance(record := orjson.loads(line), dict):
            return record
    return None


def read(path: Path, wanted: LogFilter) -> Iterator[dict[str, Any]]:
    """Yield the records of the log and of rotated files, oldest first; none if there is no log."""
    lines = _RecordLines(wanted)
    with ExitStack() as opened:
        # All files are opened before any is read, so that a rotation neither hides nor repeats one.
        paths = [*(name_rotated(path, number) for number in range(KEPT_FILES - 1, 0, -1)), path]
        files = [opened.enter_context(file) for file in map(_open, paths) if file is not None]
        for file in {os.fstat(file.fd).st_ino: file for file in files}.values():
            yield from _take_rest(file, lines)
            lines.drop_rest()
    yield from lines.damage()


def _take_rest(file: Descriptor, lines: _RecordLines) -> Iterator[dict[str, Any]]:
    while data := os.read(file.fd, _CHUNK):
        yield from lines.take(data)


def follow(
    path: Path, wanted: LogFilter, wait: Callable[[], bool], last: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the last records of the log, and then each new one, like `tail -F`.

    A file that is rotated twice between two checks is missed.

    Args:
        path: path of the log.
        wanted: selects the records.
        wait: called when there is nothing new; returns False to end.
        last: how many earlier records to yield; None means those in the last 64 KiB.
    """
    lines = _RecordLines(wanted)
    file = _open(path)
    if file is not None and last is None:
        _skip_to_last(file, _FOLLOW_FROM)
    elif file is not None:
        yield from deque(_take_rest(file, lines), last)
    while True:
        is_current = file is not None and _is_current(file, path)  # before the read: a renamed file gets no more lines
        if file is not None and (data := os.read(file.fd, _CHUNK)):
            yield from lines.take(data)
        elif not is_current and (successor := _open(path)):
            lines.drop_rest()
            if file is not None:
                file.close()
            file = successor
        else:
            yield from lines.damage()
            if not wait():
                return


def _skip_to_last(file: Descriptor, size: int) -> None:
    """Move to the first line that begins in the last `size` bytes."""
    if os.fstat(file.fd).st_size > size:
        os.lseek(file.fd, -size - 1, os.SEEK_END)
        while os.read(file.fd, 1) not in {b"\n", b""}:
            pass


def _is_current(file: Descriptor, path: Path) -> bool:
    """Return True if the open file is still at the path, and not shorter than the part that was read."""
    with suppress(OSError):
        status = path.stat()
        return os.path.samestat(os.fstat(file.fd), status) and status.st_size >= os.lseek(file.fd, 0, os.SEEK_CUR)
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
