"""Read, write and remove a configuration file of another program; keep its old content in the state folder.

Only a regular file of this user is changed. A link is refused, because its owner keeps the real file elsewhere on
purpose. A file of another user is refused, because that user must connect their own agent.
"""

import contextlib
import os
from itertools import count
from pathlib import Path

from memoryd.errors import StateError
from memoryd.files.durable import exchange, replace
from memoryd.files.folders import make_private_dir
from memoryd.files.open_folder import follow_folder
from memoryd.files.regular import as_state_error, compute_digest
from memoryd.files.regular import read as read_regular

KEPT = "connect"  # name of the folder in the state folder for old content


def read(path: Path) -> bytes | None:
    """Return the content of a file; None if there is no file.

    Raises:
        StateError: it cannot be opened, is not a regular file, or belongs to another user.
    """
    if not path.parent.exists():
        _require_own(next(folder for folder in path.parents if folder.exists()).stat(), path)
        return None
    with as_state_error("cannot be opened", path), follow_folder(path.parent) as folder:
        data = read_regular(folder / path.name)
        _require_own((folder / path.name).lstat() if data is not None else os.fstat(folder.fd), path)
        return data


def _require_own(status: os.stat_result, path: Path) -> None:
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise StateError("belongs to another user", str(path), "run this as that user")


def write(path: Path, new: bytes | None, old: bytes | None, keep: Path, stamp: str) -> Path | None:
    """Write `new` to a file, or remove the file if `new` is None; return where its old content is kept, or None.

    Args:
        path: the file.
        new: the new content.
        old: the content that the file must have now; None if there must be no file.
        keep: the folder for the old content.
        stamp: the time, a part of the name of the kept file.

    Raises:
        MovedError: the file has other content.
        StateError: like `read`, or it cannot be written.
    """
    read(path)
    with as_state_error("cannot be made", path.parent):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)  # writable only by its owner, even with a umask of 0
    kept = None if old is None else _keep(path, old, keep, stamp)
    with follow_folder(path.parent) as folder:
        exchange(folder / path.name, old, new)
    if new is None and path.parent.name == "memoryd":  # memoryd created this folder
        with contextlib.suppress(OSError):  # the folder has other files
            path.parent.rmdir()
            if path.parents[1].name in {"skills", "extensions"}:  # it may have created this folder too
                path.parents[1].rmdir()
    return kept


def _keep(path: Path, old: bytes, keep: Path, stamp: str) -> Path:
    make_private_dir(keep)
    with follow_folder(keep) as folder:
        stem = f"{_prefix(path)}{stamp.replace(':', '').replace('-', '')}"
        entry = next(one for number in count(1) if not (one := folder / f"{stem}-{number:03}").exists())
        return replace(entry, old, None, mode=0o600)


def _prefix(path: Path) -> str:
    """Return a prefix for kept versions that identifies the file: its name, and a digest of its path."""
    return f"{path.name}.{compute_digest(os.fsencode(path))[:12]}."


def list_kept(path: Path, keep: Path) -> list[bytes]:
    """Return the kept versions of a file, newest first."""
    if not keep.is_dir():
        return []
    with follow_folder(keep) as folder:
        names = [name for name in folder.names() if name.startswith(_prefix(path))]
        found = [read_regular(folder / name) for name in reversed(names)]
    return [data for data in found if data is not None]
