"""Read whole files of a workspace, where people and programs may have put anything under a name."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from memoryd.errors import StateError, hint_at
from memoryd.files.open_folder import Descriptor, FolderEntry, OpenFolder, open_folder

MAX_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_NO_FILE = frozenset({errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO})
_HINT = "put a regular file there; memoryd left it alone"


def compute_digest(data: bytes) -> str:
    """Return the hex sha256 of `data`."""
    import hashlib  # imported late: it loads OpenSSL, which takes too long for a hook

    return hashlib.sha256(data).hexdigest()


def read(entry: FolderEntry, limit: int = MAX_BYTES) -> bytes | None:
    """Return the content of a regular file; None if there is no file.

    Raises:
        StateError: it is a link, FIFO, device or folder, has a second name, is larger than `limit` bytes, or cannot be
            read.
    """
    with as_state_error("cannot be read", entry), suppress(FileNotFoundError), Descriptor(open_regular(entry)) as file:
        return read_all(file.fd, entry.path, limit)
    return None


def read_below(folder: OpenFolder, relative: str) -> bytes | None:
    """Return the content of a regular file at a relative path; None if it or a folder on the way is missing.

    Raises:
        StateError: like `read`, or a part of the path is a link or not a folder.
    """
    *between, name = PurePosixPath(relative).parts
    with ExitStack() as opened:
        for part in between:
            with as_state_error("cannot be opened", folder / part):
                try:
                    folder = opened.enter_context(folder.folder(part))
                except FileNotFoundError:
                    return None
        return read(folder / name)


def read_in(workspace: Path, relative: str) -> bytes | None:
    """Return the content of a file in a workspace, like `read_below`; None if the workspace is missing too."""
    with as_state_error("cannot be read", workspace), suppress(FileNotFoundError), open_folder(workspace) as folder:
        return read_below(folder, relative)
    return None


def open_regular(entry: FolderEntry, flags: int = os.O_RDONLY, *, shared: bool = False) -> int:
    """Return a descriptor of a regular file. A link is not followed, and a FIFO does not block.

    A file with a second name elsewhere may not be meant for the workspace. It is accepted only with `shared`.

    Raises:
        StateError: it is not a regular file, or has a second name that memoryd did not create.
        OSError: like `os.open`, for example FileNotFoundError.
    """
    try:
        fd = entry.open(flags | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise _not_regular(entry.path) from error
        raise
    try:
        _require_regular(fd, entry, shared=shared)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_regular(fd: int, entry: FolderEntry, *, shared: bool) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(entry.path)
    if not shared and status.st_nlink > 1 and not entry.has_only_temporary_names(status):
        hint = "copy it, and put the copy in its place; memoryd left it alone"
        raise StateError("is a hard link: the file has another name elsewhere", str(entry.path), hint)


def read_all(fd: int, path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the rest of an open file from its position.

    Raises:
        StateError: it has more than `limit` bytes.
        OSError: the disk reports an error.
    """
    chunks: list[bytes] = []
    left = limit + 1
    while left and (chunk := os.read(fd, min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    if not left:
        raise StateError(f"is larger than {limit} bytes", str(path), "move part of it elsewhere; memoryd left it alone")
    return b"".join(chunks)


def _not_regular(path: Path) -> StateError:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    try:
        kind = kinds.get(stat.S_IFMT(path.lstat().st_mode), "a device")
    except OSError:
        kind = "something else"
    return StateError(f"is {kind}, not a regular file", str(path), _HINT)


@contextmanager
def as_state_error(what: str, where: Path | FolderEntry, hint: str = "") -> Iterator[None]:
    """Convert an OSError inside the `with` block into a StateError that says what failed, where, and what to do.

    `hint` says what to do if the number of the error does not.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise StateError(f"{what}: {reason}", str(where), hint_at(error.errno) or hint) from error
