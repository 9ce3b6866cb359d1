"""Create, connect to and remove a Unix socket (0600) in a private folder."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING

from memoryd.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LONGEST = 100  # bytes; a path of this length fits into `sockaddr_un` on each system


def listen(path: Path, backlog: int) -> socket.socket:
    """Create a socket and listen. The caller holds the folder's lock, so an existing socket is of an ended process."""
    from memoryd.files.regular import as_state_error  # imported late, because clients do not need it

    with as_state_error("cannot be listened on", path):
        remove(path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(made.fileno(), 0o600)  # some systems use this mode for the name too …
            with _shorten_path(path) as name:
                made.bind(name)
            path.chmod(0o600)  # … on others, the private folder protects it until here
            made.listen(backlog)
            made.settimeout(0)
        except BaseException:
            made.close()
            raise
    return made


def connect(path: Path | str, timeout: float) -> socket.socket | None:
    """Return a connection to the socket; None if no process listens."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout)
    try:
        with _shorten_path(path) as name:
            made.connect(name)
    except OSError:
        made.close()
        return None
    return made


def remove(path: Path) -> None:
    """Remove the socket's file, if it exists.

    Raises:
        StateError: it is not a socket.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StateError("is not a socket", str(path), "move it away")
        path.unlink()


@contextlib.contextmanager
def _shorten_path(path: Path | str) -> Iterator[str]:
    """Yield the path, or if it is too long, a short path to the same file through an open descriptor (on Linux)."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)
