"""Rewrite files completely or not at all, without loss of anyone else's bytes.

A rewrite prepares the new file beside the old one, exchanges the two names in one system call, and then checks the old
file. If somebody edited it in the last microsecond, the edit is in that file. It is put back, and the caller plans
again. `settle` recognises the leftovers of a killed writer by name and content, and removes them.
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
from memoryd.files.open_folder import Descriptor, FolderEntry, OpenFolder, give_to
from memoryd.files.regular import as_state_error, compute_digest, open_regular, read, read_all
from memoryd.files.temporary import Leftover, list_leftovers, make_name

Keep = Callable[["FolderEntry", bytes], bool]

_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class MovedError(MemorydError):
    """Report that the file has changed since the plan. Nothing was overwritten; the caller must plan again."""

    code = "moved"


class FileReplacement(NamedTuple):
    """Hold the result of a rewrite."""

    path: Path
    before: str | None  # sha256 of the bytes replaced; None: the file is new
    after: str  # sha256 of the bytes now there


class _OwnWrite(NamedTuple):
    digest: str
    size: int


class _OldFile(NamedTuple):
    """Hold the attributes that the new file takes over from the old one."""

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
) -> FileReplacement:
    """Make `new` the content of a file, if its present content is the expected one.

    Mode, owner and extended attributes of the old file are kept. A new file gets those of its folder, whatever the
    umask, but others may not write it; `mode` sets another mode. On return, data and name are on disk. `expected` is
    the sha256 of the bytes to replace, None if the file must not exist yet. `keep` puts the replaced file aside, given
    its place and its bytes; it returns False if it cannot.

    Raises:
        MovedError: the file has other content. It keeps its bytes, and the new ones are nowhere.
        StateError: no regular file of one name, disk full, no permission, failed fsync. The old bytes are in place,
            except after a failed fsync of the folder, when either may survive a power failure.
    """
    with as_state_error("cannot be written", entry):
        old = _expected_file(entry, expected)
        temp = _write_temp(entry, new, old, mode, step)
        if expected is None:
            _place(temp, entry, step)
        else:
            _swap(temp, entry, expected, _OwnWrite(compute_digest(new), len(new)), step, keep)
    return FileReplacement(entry.path, expected, compute_digest(new))


def exchange(entry: FolderEntry, old: bytes | None, new: bytes | None, step: Step = no_step) -> None:
    """Make `new` the content of a file that holds `old`, as `replace` and `remove` do; None: there is no file."""
    expected = None if old is None else compute_digest(old)
    if new is None:
        remove(entry, expected or "", step)
    else:
        replace(entry, new, expected, step)


def remove(entry: FolderEntry, expected: str, step: Step = no_step) -> None:
    """Remove a file, if its present content is the expected one.

    Raises:
        MovedError: the file has other content; it stays.
        StateError: no regular file of one name, or the folder cannot be changed.
    """
    with as_state_error("cannot be removed", entry):
        found = read(entry)
        if found is None or compute_digest(found) != expected:
            raise _make_moved_error(entry)
        aside = make_name(entry, "swap")  # as in an exchange: the leftover of a stop is checked before it is removed
        step("before:remove")
        entry.rename(aside)
        step("after:remove")
        out = _read_now(aside)
        if out is None or compute_digest(out) != expected:
            try:
                _rename_no_replace(aside, entry)
            except FileExistsError:
                aside.rename(entry.get_sibling(f"{entry.name}.conflict-{secrets.token_hex(4)}"))
            raise _make_moved_error(entry)
        aside.unlink()
        sync_folder(entry.folder, step)


def _expected_file(entry: FolderEntry, expected: str | None) -> _OldFile | None:
    """Return the old file's attributes; refuse before anything is written."""
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
    temp = make_name(entry, "new")
    step("before:create")
    fd = temp.open(os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        step("after:create")
        if old is not None:
            _copy_attributes(old, fd)
        else:
            above = os.fstat(entry.folder.fd)
            if os.geteuid() == 0:  # root serves other users' workspaces: its new files there belong to them
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
            with contextlib.suppress(OSError):  # security.* and system.* may belong to the kernel alone
                os.setxattr(fd, name, value)
    os.fchmod(fd, stat.S_IMODE(old.status.st_mode))


def _xattrs(fd: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # the file system may have none
            for name in os.listxattr(fd):
                with contextlib.suppress(OSError):
                    found[name] = os.getxattr(fd, name)
    return found


def _place(temp: FolderEntry, entry: FolderEntry, step: Step) -> None:
    """Give a new file its name, if it is still free."""
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
    """Exchange the files, verify the old one, and only then delete it."""
    step("before:mark")
    ready = make_name(entry, "swap")
    temp.rename(ready)  # from here on a leftover may be somebody's edit, and its name says so
    step("after:mark")
    step("before:swap")
    out = _exchange(ready, entry)
    step("after:swap")
    _verify_swapped(out, entry, expected, ours)
    sync_folder(entry.folder, step)
    # Checked twice: a writer that had the old file open had the time of an fsync to finish its write.
    old = _verify_swapped(out, entry, expected, ours)
    step("before:unlink")
    if keep is None or not keep(out, old):
        _let_go(out, len(old), entry)
    step("after:unlink")
    sync_folder(entry.folder)  # else a power failure brings the old version back, which would look like an edit


def _exchange(ready: FolderEntry, entry: FolderEntry) -> FolderEntry:
    """Put `ready` in the place of `entry`; returns where the old file lies now."""
    try:
        if _renameat2(ready, entry, _RENAME_EXCHANGE):
            return ready
        # Without an exchange: a second name keeps the old file. The remaining gap is a rename by somebody else between
        # these two calls.
        aside = make_name(entry, "swap")
        entry.link(aside)
        ready.rename(entry)
    except OSError as error:
        ready.unlink(missing_ok=True)
        if isinstance(error, FileNotFoundError):
            raise _make_moved_error(entry) from error
        raise
    return aside


def _read_now(entry: FolderEntry) -> bytes | None:
    """Return the current content; None if it is not a readable regular file, which no plan expects."""
    try:
        return read(entry)
    except StateError:
        return None


def _digest_now(entry: FolderEntry) -> str | None:
    data = _read_now(entry)
    return None if data is None else compute_digest(data)


def _verify_swapped(out: FolderEntry, entry: FolderEntry, expected: str, ours: _OwnWrite) -> bytes:
    """Return the old version if it is the expected one; else restore it."""
    data = _read_now(out)
    if data is None or compute_digest(data) != expected:
        kept = _put_back(out, entry, ours)
        sync_folder(entry.folder)
        raise _make_moved_error(entry, f"; a second edit is in {kept.name}" if kept else "")
    return data


def _put_back(out: FolderEntry, entry: FolderEntry, ours: _OwnWrite) -> FolderEntry | None:
    """Restore somebody's file, and append to it what others appended to our version meanwhile.

    Returns the place of our version, if somebody edited it in another way than by appending.
    """
    mine = _exchange(out, entry)
    sync_folder(entry.folder)  # takes a moment, in which writers that hold our version open end their lines
    data = _read_now(mine)
    if data is not None and compute_digest(data[: ours.size]) == ours.digest:
        _let_go(mine, ours.size, entry)
        return None
    kept = entry.get_sibling(f"{entry.name}.conflict-{secrets.token_hex(4)}")
    mine.rename(kept)
    return kept


def _let_go(version: FolderEntry, size: int, entry: FolderEntry) -> None:
    """Unlink a replaced version, and append to `entry` what was appended to that version after `size`.

    The version is read after the unlink, when nobody new can open it. The remaining gap is a writer that opened it
    before the exchange and has not written yet.
    """
    with Descriptor(open_regular(version)) as opened:
        version.unlink()
        late = read_all(opened.fd, version.path)[size:]
    if late:
        append_late(entry, late)


def append_late(entry: FolderEntry, data: bytes) -> None:
    """Append the bytes to a file that were written to its older version."""
    with Descriptor(open_to_append(entry, b"")) as opened:
        extend(opened.fd, data)


def open_to_append(entry: FolderEntry, create: bytes | None, step: Step = no_step) -> int:
    """Return a descriptor of a regular file, opened with `O_RDWR | O_APPEND`.

    If there is no file, it appears with `create` already in it.

    Raises:
        FileNotFoundError: there is no file, and `create` is None.
        StateError: no regular file of one name, or it cannot be created.
        OSError: as `os.open`.
    """
    flags = os.O_RDWR | os.O_APPEND
    try:
        return open_regular(entry, flags)
    except FileNotFoundError:
        if create is None:
            raise
    with contextlib.suppress(MovedError):  # another process created the file first; use that file
        replace(entry, create, None, step)
    return open_regular(entry, flags)


@functools.cache
def _system_renameat2() -> Callable[..., int] | None:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None


def _renameat2(source: FolderEntry, target: FolderEntry, flags: int) -> bool:
    """Rename with flags as Linux does, see renameat2(2). Return False if the system or file system cannot."""
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
    """Make the names in a folder survive a power failure."""
    step("before:fsync-folder")
    os.fsync(folder.fd)
    step("after:fsync-folder")


# ── after a kill ─────────────────────────────────────────────────────────────────────────────────────────────────


def settle(entry: FolderEntry, before: str | None, after: str) -> list[FolderEntry]:
    """Remove what a stopped `replace(entry, …)` left; no other writer of memoryd may work on the file.

    An edit that the stopped exchange had swapped out gets its place back. Read the file again afterwards: it then holds
    `before`, `after`, or somebody's edit. Returns files with a second edit that could not be put back because the first
    has the place; a person must look at them.
    """
    kept: list[FolderEntry] = []
    with as_state_error("cannot be recovered", entry):
        for left in list_leftovers(entry.folder):
            if left.target == entry.name:
                kept += _settle_one(left, entry, before, after)
        sync_folder(entry.folder)
    return kept


def _settle_one(left: Leftover, entry: FolderEntry, before: str | None, after: str) -> list[FolderEntry]:
    # A second name of the file itself is the leftover of a stop before the fallback's rename.
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
