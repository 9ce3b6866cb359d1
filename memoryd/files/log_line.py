"""Append lines to the log file, for the log itself and for a process that cannot afford the log's libraries.

Several processes append to the file and rotate it, so each line opens it again. The standard library's handlers keep it
open, and would continue to write into a file that was rotated, exchanged or removed.
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


def append_line(path: str | os.PathLike[str], line: bytes, max_bytes: int = MAX_BYTES) -> None:
    """Append a whole line, with its line break; a file that would grow beyond `max_bytes` is rotated first.

    Raises:
        OSError: the file is none of ours, or the disk is full.
    """
    while True:
        file = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # only one writer rotates or repairs it at a time, see also `log.at_rest`
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(None, "not a regular file")
            if not _has_name(status, path) or (0 < status.st_size > max_bytes - len(line) and _rotate(path)):
                continue
            os.fchmod(file, 0o600)
            if status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n":
                os.write(file, b"\n")  # a crash or a full disk broke a line: the next one starts clean
            if os.write(file, line) < len(line):
                raise OSError(None, "the disk is full")
            return
        finally:
            os.close(file)


def append(state_dir: str, level: str, logger: str, event: str, **values: str | float | None) -> None:
    """Append a record to the log of a state folder. Never raises; a record that cannot be logged is lost."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
    cut = {name: one[:_LONGEST] if isinstance(one, str) else one for name, one in values.items()}
    # As ASCII, so that any name stays on its line and has no effect on a terminal.
    line = json.dumps({"at": at, "level": level, "logger": logger, "event": event, **cut})
    with suppress(OSError):
        append_line(os.path.join(state_dir, "log", "memoryd.jsonl"), f"{line}\n".encode())  # noqa: PTH118 - slow to load


def _has_name(status: os.stat_result, path: str | os.PathLike[str]) -> bool:
    """Return True if the file is still the one at the path: nobody has moved or removed it."""
    try:
        return os.path.samestat(status, os.stat(path))  # noqa: PTH116 - slow to load
    except FileNotFoundError:
        return False


def _rotate(path: str | os.PathLike[str]) -> bool:
    """Rename the log and its older files; return False if that is refused: a long log is better than none."""
    try:
        for number in range(KEPT_FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{path}.{number - 1}" if number > 1 else path, f"{path}.{number}")  # noqa: PTH105 - as above
    except OSError:
        return False
    return True
