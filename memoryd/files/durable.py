"""Rewrite files completely or not at all, without loss of bytes that others write.

A rewrite prepares the new file beside the old one, exchanges the two names in one system call, and then checks the old
file. If somebody has edited it at the last moment, it is put back, and the caller must plan again. `settle` recognises
files that a killed writer has left by name and content, and removes them.
"""

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from memoryd.errors import MemorydError, StateError
from memoryd.files.descriptor import Step, extend, fill, no_step
from memoryd.files.open_folder import Descriptor, FolderEntry, Leftover, OpenFolder, give_to
from memoryd.files.regular import as_state_error, compute_digest, open_regular, read, read_all

Keep = Callable[["FolderEntry", bytes], bool]

_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class MovedError(MemorydError):
    """Report that the file has changed since the plan. Nothing was overwritten; the caller must plan again."""

    code = "moved"


class _OwnWrite(NamedTuple):
    digest: str
    size: int


class _OldFile(NamedTuple):
    """Hold the attributes of the old file that the new one gets."""

    status: os.stat_result
    xattrs: dict[str, bytes]


# ── rewriting ────────────────────────────────────────────────────────────────────────────────────────────────────


def replace(
    entry: FolderEntry,
    new: bytes,
    expected: str | None,
    step: Step = no_step,
    mode: int | None = None,
    keep: Keep | None = None,
) -> Path:
    """Replace the content of a file by `new`, if its present content is the expected one; return the path of the file.

    The result is on disk. The new file gets mode, owner and extended attributes of the old one. A file that did not
    exist gets mode and owner from its folder, but others may not write it.

    Args:
        entry: the file.
        new: the new content.
        expected: sha256 of the content to replace; None if there must be no file.
        step: called with a name before and after each step.
        mode: mode of a file that did not exist, instead of the one from its folder.
        keep: puts the replaced file aside, given its place and its bytes; returns False if it cannot.

    Raises:
        MovedError: the file has other content. It stays unchanged.
        StateError: it is not a regular file with one name, the disk is full, permission is missing, or fsync failed.
            The old content stays; but if the fsync of the folder failed, a power failure may leave either content.
    """
    with as_state_error("cannot be written", entry):
        temp = _write_temp(entry, new, _expected_file(entry, expected), mode, step)
        if expected is None:
            _place(temp, entry, step)
        else:
            _swap(temp, entry, expected, _OwnWrite(compute_digest(new), len(new)), step, keep)
    return entry.path


def exchange(entry: FolderEntry, old: bytes | None, new: bytes | None, step: Step = no_step) -> None:
    """Change a file from content `old` to `new`, like `replace` and `remove`. None means that there is no file."""
    expected = None if old is None else compute_digest(old)
    if new is None:
        remove(entry, expected or "", step)
    else:
        replace(entry, new, expected, step)


def remove(entry: FolderEntry, expected: str, step: Step = no_step) -> None:
    """Remove a file, if its present content is the expected one.

    Raises:
        MovedError: the file has other content; it stays.
        StateError: it is not a regular file with one name, or the folder cannot be changed.
    """
    with as_state_error("cannot be removed", entry):
        found = read(entry)
        if found is None or compute_digest(found) != expected:
            raise _make_moved_error(entry)
        aside = entry.make_temporary("swap")  # if the process is stopped here, `settle` checks this file
        step("before:remove")
        entry.rename(aside)
        step("after:remove")
        if _digest_now(aside) != expected:
            try:
                _rename_no_replace(aside, entry)
            except FileExistsError:
                aside.rename(entry.get_sibling(f"{entry.name}.conflict-{secrets.token_hex(4)}"))
            raise _make_moved_error(entry)
        aside.unlink()
        sync_folder(entry.folder, step)


def _expected_file(entry: FolderEntry, expected: str | None) -> _OldFile | None:
    """Return the attributes of the old file, or None if there is none and none is expected.

    Raises:
        MovedError: the file has other content.
    """
    try:
        fd = open_regular(entry)
    except FileNotFoundError as error:
        if expected is None:
            return None
        raise _make_moved_error(entry) from error
    with Descriptor(fd):
        if compute_digest(read_all(fd, entry.path)) != expected:
            raise _make_moved_error(entry)
        return _OldFile(os.fstat(fd), _xattrs(fd))


def _make_moved_error(entry: FolderEntry, more: str = "") -> MovedError:
    return MovedError("was changed by somebody else meanwhile" + more, str(entry.path), "plan again on its new content")


def _write_temp(entry: FolderEntry, new: bytes, old: _OldFile | None, mode: int | None, step: Step) -> FolderEntry:
    temp = entry.make_temporary("new")
    step("before:create")
    fd = temp.open(os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        step("after:create")
        if old is not None:
            _copy_attributes(old, fd)
        else:
            above = os.fstat(entry.folder.fd)
            if os.geteuid() == 0:  # root works in other users' workspaces, where new files must belong to the user
                give_to(fd, above)
            os.fchmod(fd, stat.S_IMODE(above.st_mode) & 0o664 | 0o600 if mode is None else mode)
        fill(fd, new, step)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    return temp


def _copy_attributes(old: _OldFile, fd: int) -> None:
    give_to(fd, old.status)
    if sys.platform == "linux":
        for name, value in old.xattrs.items():
            with contextlib.suppress(OSError):  # the kernel may refuse security.* and system.*
                os.setxattr(fd, name, value)
    os.fchmod(fd, stat.S_IMODE(old.status.st_mode))


def _xattrs(fd: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # the file system may not support them
            for name in os.listxattr(fd):
                with contextlib.suppress(OSError):
                    found[name] = os.getxattr(fd, name)
    return found


def _place(temp: FolderEntry, entry: FolderEntry, step: Step) -> None:
    """Give a new file its name, if the name is still free."""
    try:
        step("before:place")
        _rename_no_replace(temp, entry)
        step("after:place")
    except FileExistsError as error:
        raise _make_moved_error(entry) from error
    finally:
        temp.unlink(missing_ok=True)
    sync_folder(entry.folder, step)


def _rename_no_replace(temp: FolderEntry, entry: FolderEntry) -> None:
    if not _renameat2(temp, entry, _RENAME_NOREPLACE):
        temp.link(entry)
        temp.unlink()


def _swap(temp: FolderEntry, entry: FolderEntry, expected: str, ours: _OwnWrite, step: Step, keep: Keep | None) -> None:
    """Exchange the old and the new file, check the old one twice, and only then delete it."""
    step("before:mark")
    ready = entry.make_temporary("swap")
    temp.rename(ready)  # from here on, this file may get somebody's edit, as its name says
    step("after:mark")
    step("before:swap")
    out = _exchange(ready, entry)
    step("after:swap")
    _verify_swapped(out, entry, expected, ours)
    sync_folder(entry.folder, step)
    # Checked twice, because a writer that has the old file open may finish its write during the fsync.
    old = _verify_swapped(out, entry, expected, ours)
    step("before:unlink")
    if keep is None or not keep(out, old):
        _let_go(out, len(old), entry)
    step("after:unlink")
    sync_folder(entry.folder)  # otherwise a power failure could bring back the old version like an edit


def _exchange(ready: FolderEntry, entry: FolderEntry) -> FolderEntry:
    """Put `ready` in the place of `entry`; return the new place of the old file."""
    try:
        if _renameat2(ready, entry, _RENAME_EXCHANGE):
            return ready
        # Without an exchange of names, a second name keeps the old file. If somebody renames a file between these two
        # calls, that file is lost.
        aside = entry.make_temporary("swap")
        entry.link(aside)
        ready.rename(entry)
    except OSError as error:
        ready.unlink(missing_ok=True)
        if isinstance(error, FileNotFoundError):
            raise _make_moved_error(entry) from error
        raise
    return aside


def _read_now(entry: FolderEntry) -> bytes | None:
    """Return the present content; None if there is no readable regular file, which is never the expected content."""
    with contextlib.suppress(StateError):
        return read(entry)
    return None


def _digest_now(entry: FolderEntry) -> str | None:
    data = _read_now(entry)
    return None if data is None else compute_digest(data)


def _verify_swapped(out: FolderEntry, entry: FolderEntry, expected: str, ours: _OwnWrite) -> bytes:
    """Return the old content if it is the expected one; otherwise restore the old file.

    Raises:
        MovedError: it was not the expected one.
    """
    data = _read_now(out)
    if data is None or compute_digest(data) != expected:
        kept = _put_back(out, entry, ours)
        sync_folder(entry.folder)
        raise _make_moved_error(entry, f"; a second edit is in {kept.name}" if kept else "")
    return data


def _put_back(out: FolderEntry, entry: FolderEntry, ours: _OwnWrite) -> FolderEntry | None:
    """Restore somebody's file, and append to it what others have appended to our version.

    Returns the place of our version if somebody has edited it in any other way; otherwise None.
    """
    mine = _exchange(out, entry)
    sync_folder(entry.folder)  # this takes a moment, in which writers of our version finish their lines
    data = _read_now(mine)
    if data is not None and compute_digest(data[: ours.size]) == ours.digest:
        _let_go(mine, ours.size, entry)
        return None
    kept = entry.get_sibling(f"{entry.name}.conflict-{secrets.token_hex(4)}")
    mine.rename(kept)
    return kept


def _let_go(version: FolderEntry, size: int, entry: FolderEntry) -> None:
    """Delete a replaced version; append to `entry` what others have written to that version after `size` bytes.

    It is read after the deletion, when nobody else can open it. Text is lost only if a writer opened it before the
    exchange and writes later.
    """
    with Descriptor(open_regular(version)) as opened:
        version.unlink()
        late = read_all(opened.fd, version.path)[size:]
    if late:
        append_late(entry, late)


def append_late(entry: FolderEntry, data: bytes) -> None:
    """Append to a file the bytes that others have appended to its older version."""
    with Descriptor(open_to_append(entry, b"")) as opened:
        extend(opened.fd, data)


def open_to_append(entry: FolderEntry, create: bytes | None, step: Step = no_step) -> int:
    """Return a descriptor of a regular file that is open with `O_RDWR | O_APPEND`.

    If there is no file, it is created with the content `create`.

    Raises:
        FileNotFoundError: there is no file, and `create` is None.
        StateError: it is not a regular file with one name, or cannot be created.
        OSError: like `os.open`.
    """
    flags = os.O_RDWR | os.O_APPEND
    try:
        return open_regular(entry, flags)
    except FileNotFoundError:
        if create is None:
            raise
    with contextlib.suppress(MovedError):  # another process has created it first, so that file is used
        replace(entry, create, None, step)
    return open_regular(entry, flags)


@functools.cache
def _system_renameat2() -> Callable[..., int] | None:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None


def _renameat2(source: FolderEntry, target: FolderEntry, flags: int) -> bool:
    """Rename with flags, see renameat2(2). Return False if the system or the file system does not support it."""
    call = _system_renameat2() if sys.platform == "linux" else None
    if call is None:
        return False
    here, there = os.fsencode(source.name), os.fsencode(target.name)
    if call(source.folder.fd, here, target.folder.fd, there, flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(target.path))


def sync_folder(folder: OpenFolder, step: Step = no_step) -> None:
    """Wait until the names in a folder are on disk."""
    step("before:fsync-folder")
    os.fsync(folder.fd)
    step("after:fsync-folder")


# ── recovery after a kill ─────────────────────────────────────────────────────────────────────────────────────────────


def settle(entry: FolderEntry, before: str | None, after: str) -> list[FolderEntry]:
    """Remove what a stopped `replace(entry, …)` has left. No other writer of memoryd may work on the file.

    If the stopped exchange had replaced somebody's edit, the edit is restored. So the caller must read the file again:
    it has the content `before`, `after`, or somebody's edit.

    Returns:
        Files with a second edit that could not be restored. A person must look at them.
    """
    kept: list[FolderEntry] = []
    with as_state_error("cannot be recovered", entry):
        for left in entry.folder.leftovers():
            if left.target == entry.name:
                kept += _settle_one(left, entry, before, after)
        sync_folder(entry.folder)
    return kept


def _settle_one(left: Leftover, entry: FolderEntry, before: str | None, after: str) -> list[FolderEntry]:
    # A second name of the same file is left if the process ended before the second step of `_exchange`.
    there = entry.exists()
    twin = there and os.path.samestat(left.entry.lstat(), entry.lstat())
    if left.kind == "new" or twin or _digest_now(left.entry) in {before, after}:
        left.entry.unlink()
        return []
    if not there:
        _rename_no_replace(left.entry, entry)
        return []
    kept = _put_back(left.entry, entry, _OwnWrite(after, entry.lstat().st_size))
    return [] if kept is None else [kept]
