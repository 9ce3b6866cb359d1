"""One line for the log by a process that cannot afford the log's libraries: the same file, the same shape."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LONGEST = 1024


def append(state_dir: str, level: str, logger: str, event: str, **values: str | float | None) -> None:
    """Append a line to the log of a state folder. Never raises; what cannot be logged is not."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
    told = {name: one[:_LONGEST] if isinstance(one, str) else one for name, one in values.items()}
    # As ASCII: whatever a name holds, it stays on its line and means nothing to a terminal.
    line = json.dumps({"at": at, "level": level, "logger": logger, "event": event, **told}).encode()
    with contextlib.suppress(OSError):
        file = os.open(os.path.join(state_dir, "log", "memoryd.jsonl"), _FLAGS, 0o600)  # noqa: PTH118 - dear to load
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode):
                torn = status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n"
                os.write(file, (b"\n" if torn else b"") + line + b"\n")
        finally:
            os.close(file)
