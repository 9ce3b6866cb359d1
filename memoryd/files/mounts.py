"""Find the type of a path's file system in the kernel's table of mounts. Without such a table, it is unknown."""

import re
from pathlib import Path

# File systems that are shared with other machines, and report no events when those machines write …
REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "afs", "ceph", "glusterfs", "vboxsf", "sshfs"}
)
# … and those on which a WAL database does not work, because all its users must share memory
# (https://sqlite.org/wal.html). The other remote ones serve one machine, and support its locks.
_NO_WAL = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "sshfs"})
_MOUNT = re.compile(r"^\S+ \S+ \S+ \S+ (?P<point>\S+) .* - (?P<type>\S+) ")


def read_mounts(table: str | None = None) -> dict[Path, str]:
    """Return the type of the file system at each mount point; `table` replaces the kernel's table in tests."""
    if table is None:
        try:
            table = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:
            return {}
    found = {}
    for match in map(_MOUNT.match, table.splitlines()):
        if match:
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), match["point"])
            found[Path(point)] = match["type"]
    return found


def file_system(path: Path, mounted: dict[Path, str]) -> str | None:
    """Return the type of a path's file system; None if it is unknown."""
    point = max((point for point in mounted if path.is_relative_to(point)), key=lambda p: len(p.parts), default=None)
    return None if point is None else mounted[point]


def is_remote(kind: str | None) -> bool:
    """Return True if a file system of this type does not report all changes."""
    return kind is not None and (kind in REMOTE or kind.startswith("fuse."))


def is_no_place_for_wal(kind: str | None) -> bool:
    """Return True if a WAL database does not work on a file system of this type."""
    return kind is not None and kind.removeprefix("fuse.") in _NO_WAL
