"""Create (0600), connect to and remove a Unix socket in a private folder."""

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

_LONGEST = 100  # bytes of a path that every system's sockaddr_un has room for


def listen(path: Path, backlog: int) -> socket.socket:
    """Listen under a name; the caller holds the folder's lock, so an existing socket belongs to an ended process."""
    from memoryd.files.regular import as_state_error  # a client has no use for it

    with as_state_error("cannot be listened on", path):
        remove(path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(made.fileno(), 0o600)  # the name gets this mode where the system allows; …
            with _shorten_path(path) as name:
                made.bind(name)
            path.chmod(0o600)  # … the folder keeps others out until it has
            made.listen(backlog)
            made.settimeout(0)
        except BaseException:
            made.close()
            raise
    return made


def connect(path: Path | str, timeout: float) -> socket.socket | None:
    """Connect to the socket of a name; return None if no process listens."""
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
    """Remove the name of a socket."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StateError("is not a socket", str(path), "move it away")
        path.unlink()


@contextlib.contextmanager
def _shorten_path(path: Path | str) -> Iterator[str]:
    """Return the path, or on Linux a short name for it through an open handle of its folder."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)
