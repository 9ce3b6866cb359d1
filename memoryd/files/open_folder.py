"""Hold folders open, and access their files through the open folder instead of a path.

Each call with a path looks the path up again. A process that may write a folder on the way can redirect the second call
to another place. Agents and people may write in a workspace, so its files are accessed safely. `open_folder` opens one
folder after the other and follows no link. Then each file is opened, created, renamed and removed relative to the
descriptor of its folder. If a folder is moved meanwhile, the descriptor still refers to it. A link in its place has no
effect.

Links on the path of a workspace are resolved once, when the configuration is read. A link that appears there later is
refused, until the configuration is read again.

Temporary files have names that a later process recognises and nobody can predict. A killed writer leaves files named
`.memoryd-new-…tmp` or `.memoryd-swap-…tmp`. A "new" file is memoryd's, perhaps incomplete. A "swap" file is memoryd's
before the exchange; afterwards it is the old file or somebody's edit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple, Self

from memoryd.errors import StateError

_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
# Linux can open a folder that may be entered but not listed. Other systems need read permission.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | _FOLDER | os.O_NOFOLLOW
_TEMP_NAME = re.compile(r"\.memoryd-(new|swap)-[0-9a-f]{16}-(.+)\.tmp", re.DOTALL)


class Descriptor:
    """Hold an open descriptor. Whoever opens it must close it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OpenFolder(Descriptor):
    """Hold an open folder."""

    def __init__(self, fd: int, path: Path | str) -> None:
        super().__init__(fd)
        self._text = str(path)

    @property
    def path(self) -> Path:
        """Return the path by which the folder was opened, only for display."""
        return Path(self._text)

    def __str__(self) -> str:
        return self._text

    def __truediv__(self, name: str) -> FolderEntry:
        """Return the entry `name` of this folder; it need not exist.

        Raises:
            ValueError: `name` is not a plain file name.
        """
        require_plain(name)
        return FolderEntry(self, name)

    def folder(self, name: str) -> OpenFolder:
        """Open a folder in this folder.

        Raises:
            FileNotFoundError: it does not exist.
            StateError: it is a link or not a folder.
            OSError: it may not be opened.
        """
        require_plain(name)
        fd = _open_next(self.fd, name, self._text, os.O_RDONLY | _FOLDER | os.O_NOFOLLOW)
        return OpenFolder(fd, f"{self._text}/{name}")

    def names(self) -> list[str]:
        """Return the names in the folder, sorted."""
        return sorted(os.listdir(self.fd))  # noqa: PTH208 - a path has no descriptor

    def leftovers(self) -> list[Leftover]:
        """Return the temporary files that stopped writers left in the folder, sorted by name.

        Raises:
            OSError: the folder cannot be listed.
        """
        named = [(name, _TEMP_NAME.fullmatch(name)) for name in self.names()]
        return [Leftover(self / name, match[1], match[2]) for name, match in named if match]


class FolderEntry(NamedTuple):
    """Name a file in an open folder. All functions that read or write files of a workspace take one."""

    folder: OpenFolder
    name: str

    @property
    def path(self) -> Path:
        """Return the path of the file, only for display."""
        return self.folder.path / self.name

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    def get_sibling(self, name: str) -> FolderEntry:
        """Return another entry in the same folder."""
        return self.folder / name

    def make_temporary(self, kind: str) -> FolderEntry:
        """Return a new name in the same folder that `leftovers` recognises. `kind` is `new` or `swap`."""
        import secrets  # imported late: it loads OpenSSL, which takes too long for a hook

        return self.folder / f".memoryd-{kind}-{secrets.token_hex(8)}-{self.name}.tmp"

    def has_only_temporary_names(self, status: os.stat_result) -> bool:
        """Return True if all other names of a file are temporary names of memoryd in the same folder.

        If the system cannot exchange two names, a writer creates such a second name for a moment. A killed writer
        leaves it.
        """
        beside = [left.entry for left in self.folder.leftovers() if left.target == self.name]
        return status.st_nlink <= 1 + sum(one.is_file(status) for one in beside)

    def is_file(self, status: os.stat_result) -> bool:
        """Return True if the entry is the file with this status."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(self.lstat(), status)
        return False

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Return a descriptor of the file that is closed on exec. A link is not followed."""
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.folder.fd)

    def lstat(self) -> os.stat_result:
        """Return the status of the file; a link is not followed."""
        return os.stat(self.name, dir_fd=self.folder.fd, follow_symlinks=False)

    def exists(self) -> bool:
        """Return True if a file, folder or link of this name exists."""
        with contextlib.suppress(FileNotFoundError):
            return bool(self.lstat())
        return False

    def make_folder(self, *, private: bool = False) -> None:
        """Create a folder with owner and mode of the folder above; with `private`, the mode is 0700.

        Others may not write to it, even if they may write to the folder above.
        """
        os.mkdir(self.name, 0o700, dir_fd=self.folder.fd)
        above = os.fstat(self.folder.fd)
        with self.folder.folder(self.name) as made:
            if os.geteuid() == 0 and above.st_uid != 0:
                give_to(made.fd, above)
            if not private:
                os.fchmod(made.fd, stat.S_IMODE(above.st_mode) & 0o2775 | 0o700)

    def rename(self, to: FolderEntry) -> None:
        """Rename the file, and replace a file that has the new name."""
        os.rename(self.name, to.name, src_dir_fd=self.folder.fd, dst_dir_fd=to.folder.fd)

    def link(self, to: FolderEntry) -> None:
        """Give the file a second name, which must be free."""
        os.link(self.name, to.name, src_dir_fd=self.folder.fd, dst_dir_fd=to.folder.fd, follow_symlinks=False)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove this name of a file."""
        try:
            os.unlink(self.name, dir_fd=self.folder.fd)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_folder(self) -> None:
        """Remove a folder and its files.

        Raises:
            OSError: it has folders in it.
        """
        with self.folder.folder(self.name) as folder:
            for name in folder.names():
                (folder / name).unlink()
        os.rmdir(self.name, dir_fd=self.folder.fd)


def require_plain(name: str) -> None:
    """Check that a name stays within its folder.

    Raises:
        ValueError: it is empty, is `.` or `..`, or has a slash or NUL.
    """
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise ValueError(f"not a plain file name: {name!r}")


def give_to(fd: int, owner: os.stat_result) -> None:
    """Give an open file or folder the owner and group in `owner`, if this process may do so."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (owner.st_uid, owner.st_gid):
        with contextlib.suppress(PermissionError):  # only root may
            os.fchown(fd, owner.st_uid, owner.st_gid)


def open_folder(path: Path) -> OpenFolder:
    """Open a folder of any user, from the root of the file system, without following links.

    Raises:
        FileNotFoundError: a part of the path is missing.
        StateError: a part of the path is a link or not a folder.
        OSError: a part of it may not be entered or opened.
    """
    *between, name = path.absolute().parts[1:] or (".",)
    here = ""
    fd = os.open("/", _PASS)
    try:
        for part in between:
            below = _open_next(fd, part, here, _PASS)
            os.close(fd)
            fd, here = below, f"{here}/{part}"
        return OpenFolder(_open_next(fd, name, here, os.O_RDONLY | _FOLDER | os.O_NOFOLLOW), path)
    finally:
        os.close(fd)


def _open_next(fd: int, name: str, above: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=fd)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
            raise _no_folder(f"{above}/{name}", fd, name) from error
        raise


def _no_folder(path: str, fd: int, name: str) -> StateError:
    try:
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError:
        is_link = False
    what = "is a symbolic link, not a folder" if is_link else "is not a folder"
    hint = "move it away; memoryd does not follow links" + (" made after its configuration was read" if is_link else "")
    return StateError(what, path, hint)


def follow_folder(path: Path) -> OpenFolder:
    """Open a folder of this user, such as the state folder. Links on its path are followed.

    Raises:
        FileNotFoundError: it does not exist.
        OSError: it is not a folder, or may not be opened.
    """
    return OpenFolder(os.open(path, os.O_RDONLY | _FOLDER), path)


class Leftover(NamedTuple):
    """Hold a temporary file of a writer that was stopped."""

    entry: FolderEntry
    kind: str  # new | swap
    target: str  # name of the file for which it was made
