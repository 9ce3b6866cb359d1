"""Keep replaced versions of files for a while, because a program that has them open may still write to them.

They have a hidden name that shows their content, so that late writes are found. The name is
`.late-SHA256-SIZE-RANDOM-NAME`: of the bytes known so far, and of the original file.
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
    """Hold a version that was replaced."""

    entry: FolderEntry
    digest: str  # sha256 of its known bytes
    size: int
    name: str  # its old name


def keep(version: FolderEntry, folder: OpenFolder, data: bytes, name: str) -> bool:
    """Put a version aside; return False if nobody can write to it any more, or it is on another disk."""
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
        os.fchmod(opened.fd, 0o600)  # nobody new may open it
    return True


def _may_be_written(version: FolderEntry) -> bool:
    """Return False if the kernel knows that no program has a file open for writing: only then it grants a read lease.

    See `F_SETLEASE` in fcntl(2). Only Linux has leases, not every file system does, and only the owner gets one.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return True
    with Descriptor(regular.open_regular(version)) as opened:
        try:
            # The kernel sends this signal if somebody opens the file between the next two calls; SIGIO would kill.
            fcntl.fcntl(opened.fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(opened.fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(opened.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return True
    return False


def list_kept(folder: OpenFolder) -> list[KeptVersion]:
    """Return the versions that were put aside in a folder, sorted by name."""
    found = [(name, _NAME.fullmatch(name)) for name in sorted(folder.names())]
    return [KeptVersion(folder / name, match[1], int(match[2]), match[3]) for name, match in found if match]


def settle(one: KeptVersion, target: FolderEntry, *, is_over: bool) -> FolderEntry | None:
    """Check a version once more, and append what was appended to it to the file that replaced it.

    If nobody will write to it any more, `is_over`, it is deleted afterwards. If somebody has written to it in another
    way than by appending, the place where it was put is returned; a person must look at it.
    """
    data = regular.read(one.entry)
    if data is None:
        return None
    if regular.compute_digest(data[: one.size]) != one.digest:
        conflict = target.get_sibling(f"{one.name}.conflict-{secrets.token_hex(4)}")
        one.entry.rename(conflict)
        return conflict
    late = data[one.size :]
    # After a stop between the two steps, the next check finds it there.
    if late and not (regular.read(target) or b"").endswith(late):
        durable.append_late(target, late)
    if is_over:
        one.entry.unlink()
    elif late:
        keep(one.entry, one.entry.folder, data, one.name)
    return None


def get_age(one: KeptVersion, now: float) -> float:
    """Return the seconds since a version was replaced, by the last change of its inode (the rename)."""
    with regular.as_state_error("cannot be looked at", one.entry):
        return now - one.entry.lstat().st_ctime
