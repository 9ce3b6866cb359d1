"""Keep replaced versions of files for a while, because a program that has one open may still write to it.

A kept version has the hidden name `.late-SHA256-SIZE-RANDOM-NAME`. Hash and size are those of its known bytes, so that
later writes are detected. NAME is the name of the original file.
"""

import errno
import fcntl
import os
import re
import secrets
import signal
from typing import NamedTuple

from memoryd.files import durable, regular
from memoryd.files.open_folder import Descriptor, FolderEntry, OpenFolder

_NAME = re.compile(r"\.late-([0-9a-f]{64})-(\d+)-[0-9a-f]{16}-(.+)", re.DOTALL)


class KeptVersion(NamedTuple):
    """Hold a replaced version of a file."""

    entry: FolderEntry
    digest: str  # sha256 of its known bytes
    size: int
    name: str  # name of the original file


def keep(version: FolderEntry, folder: OpenFolder, data: bytes, name: str) -> bool:
    """Put a replaced version into `folder`; return False if no program can write to it, or if it is on another disk."""
    if not _may_be_written(version):
        return False
    hidden = f".late-{regular.compute_digest(data)}-{len(data)}-{secrets.token_hex(8)}-{name}"
    try:
        version.rename(folder / hidden)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise
    with Descriptor(regular.open_regular(folder / hidden)) as opened:
        os.fchmod(opened.fd, 0o600)  # so that no other program can open it
    return True


def _may_be_written(version: FolderEntry) -> bool:
    """Return False if no program has the file open for writing. Only then does the kernel grant a read lease.

    See `F_SETLEASE` in fcntl(2). Without leases, which need Linux, the file system and the file's owner, it returns
    True.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return True
    with Descriptor(regular.open_regular(version)) as opened:
        try:
            # If somebody opens the file meanwhile, the kernel sends a signal. SIGURG is ignored, but SIGIO would kill.
            fcntl.fcntl(opened.fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(opened.fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(opened.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return True
    return False


def list_kept(folder: OpenFolder) -> list[KeptVersion]:
    """Return the versions that are kept in a folder, sorted by name."""
    found = [(name, _NAME.fullmatch(name)) for name in sorted(folder.names())]
    return [KeptVersion(folder / name, match[1], int(match[2]), match[3]) for name, match in found if match]


def settle(one: KeptVersion, target: FolderEntry, *, is_over: bool) -> FolderEntry | None:
    """Append to `target` what a program has appended to a kept version of it.

    With `is_over`, the version is then deleted. If a program has changed it in any other way, it is kept under a name
    with `.conflict-` for a person, and that place is returned; otherwise None.
    """
    data = regular.read(one.entry)
    if data is None:
        return None
    if regular.compute_digest(data[: one.size]) != one.digest:
        conflict = target.get_sibling(f"{one.name}.conflict-{secrets.token_hex(4)}")
        one.entry.rename(conflict)
        return conflict
    late = data[one.size :]
    # If the process is stopped between these steps, the next check finds the text at the end of the target.
    if late and not (regular.read(target) or b"").endswith(late):
        durable.append_late(target, late)
    if is_over:
        one.entry.unlink()
    elif late:
        keep(one.entry, one.entry.folder, data, one.name)
    return None


def get_age(one: KeptVersion, now: float) -> float:
    """Return the seconds since a version was replaced, according to the last change of its inode."""
    with regular.as_state_error("cannot be looked at", one.entry):
        return now - one.entry.lstat().st_ctime
