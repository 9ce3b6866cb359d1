"""Append lines to the log file: for the log, and for a process that must not load the log's libraries.

Several processes append to the file and rotate it, so it is opened for each line. A handler of the standard library
would keep it open, and would write to a file that was rotated, replaced or removed.
"""

import fcntl
import json
import os
import stat
import time
from contextlib import suppress

KEPT_FILES = 5
MAX_BYTES = 10_000_000
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LONGEST = 1024


def append_line(path: str | os.PathLike[str], line: bytes) -> None:
    """Append a line, with its line break. If the file would exceed `MAX_BYTES`, it is rotated first.

    Raises:
        OSError: it is not a regular file, or the disk is full.
    """
    while True:
        file = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # one process at a time rotates or repairs it, see `log.at_rest`
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(None, "not a regular file")
            if not _has_name(status, path) or (0 < status.st_size > MAX_BYTES - len(line) and _rotate(path)):
                continue
            os.fchmod(file, 0o600)
            if status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n":
                os.write(file, b"\n")  # a crash or a full disk has left an incomplete line
            if os.write(file, line) < len(line):
                raise OSError(None, "the disk is full")
            return
        finally:
            os.close(file)


def append(state_dir: str, level: str, logger: str, event: str, **values: str | float | None) -> None:
    """Append a record to the log of a state folder. It never raises; a record that cannot be written is lost."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
    cut = {name: one[:_LONGEST] if isinstance(one, str) else one for name, one in values.items()}
    # ASCII escapes keep any name on its line and harmless to a terminal.
    line = json.dumps({"at": at, "level": level, "logger": logger, "event": event, **cut})
    with suppress(OSError):
        append_line(os.path.join(state_dir, "log", "memoryd.jsonl"), f"{line}\n".encode())  # noqa: PTH118 - slow to load


def _has_name(status: os.stat_result, path: str | os.PathLike[str]) -> bool:
    """Return True if the open file is still at the path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(status, os.stat(path))  # noqa: PTH116 - slow to load
    return False


def _rotate(path: str | os.PathLike[str]) -> bool:
    """Rotate the log and its older files; return False if that fails, because a long log is better than none."""
    with suppress(OSError):
        for number in range(KEPT_FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{path}.{number - 1}" if number > 1 else path, f"{path}.{number}")  # noqa: PTH105 - as above
        return True
    return False
