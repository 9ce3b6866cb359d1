"""Writes that are whole or absent, and that never cost anyone else's bytes.

A rewrite prepares the new file beside the old one, exchanges the two names in one system call and only then looks at
what came out: an edit made in the last microsecond is in the swapped-out file, so it is seen, put back, and the
caller plans anew. An append is one `O_APPEND` write, so that lines of other writers are never overwritten.

A killed writer leaves files named `.memoryd-new-…tmp` (ours, perhaps half written) or `.memoryd-swap-…tmp` (ours
before the exchange, the old file or somebody's edit after it). `settle` tells them apart and clears them away.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from memoryd.errors import MemorydError, NotFoundError, StateError
from memoryd.files.regular import as_state_error, digest, open_regular, read

if TYPE_CHECKING:
    from pathlib import Path

Step = Callable[[str], None]

_CHUNK = 1024 * 1024
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_TEMP_NAME = re.compile(r"\.memoryd-(new|swap)-[0-9a-f]{16}-(.+)\.tmp", re.DOTALL)

# Every name `step` is called with, in order, so that a test can stop at each of them.
_FOLDER = ("before:fsync-folder", "after:fsync-folder")
_TEMP = ("before:create", "after:create", "before:write", "after:write", "before:fsync", "after:fsync")
PLACE_STEPS = (*_TEMP, "before:place", "after:place", *_FOLDER)
REPLACE_STEPS = (
    *(*_TEMP, "before:mark", "after:mark", "before:swap", "after:swap", *_FOLDER),
    *("before:unlink", "after:unlink"),
)
APPEND_STEPS = ("before:append", "after:append", "before:fsync-append", "after:fsync-append")


class MovedError(MemorydError):
    """The file is not the one the plan was made from. Whoever asked must look again; nothing was overwritten."""

    code = "moved"


class Replaced(NamedTuple):
    """What a rewrite did."""

    path: Path
    before: str | None  # sha256 of the bytes replaced; None: the file is new
    after: str  # sha256 of the bytes now there


class _Ours(NamedTuple):
    digest: str
    size: int


class Leftover(NamedTuple):
    """A temporary file of a writer that was stopped."""

    path: Path
    kind: str  # new | swap
    target: str  # name of the file it was made for


def no_step(_name: str) -> None:
    """Nobody watches."""


# ── rewriting ────────────────────────────────────────────────────────────────────────────────────────────────────


def replace(path: Path, new: bytes, expected: str | None, step: Step = no_step, mode: int = 0o644) -> Replaced:
    """Make `new` the content of `path`, if what is there is what was expected.

    Mode, owner and extended attributes of the old file are kept. On disk when this returns: data, then name.

    Args:
        path: the file; its folder must exist.
        new: all of its bytes.
        expected: sha256 of the bytes to be replaced, None where the file must not exist yet.
        step: called with a stable name before and after every system call that changes something.
        mode: of a new file, less the umask.

    Raises:
        MovedError: the file is another one than expected. It has its own bytes, the new ones are nowhere.
        StateError: no regular file, disk full, no permission, failed fsync. The old bytes are in place, except after
            a failed fsync of the folder, when either may survive a power cut.
    """
    with as_state_error("cannot be written", path):
        old = _expected_file(path, expected)
        temp = _write_temp(path, new, old, mode, step)
        if expected is None:
            _place(temp, path, step)
        else:
            _swap(temp, path, expected, _Ours(digest(new), len(new)), step)
    return Replaced(path, expected, digest(new))


def _expected_file(path: Path, expected: str | None) -> os.stat_result | None:
    """The old file's attributes; refuses early, before anything is written."""
    data = read(path)
    if (None if data is None else digest(data)) != expected:
        raise _moved(path)
    return None if data is None else path.lstat()


def _moved(path: Path, more: str = "") -> MovedError:
    return MovedError("was changed by somebody else meanwhile" + more, str(path), "plan again on its new content")


def temp_path(path: Path, kind: str) -> Path:
    """A fresh name beside `path` that `leftovers` recognises; kind: new | swap."""
    return path.with_name(f".memoryd-{kind}-{secrets.token_hex(8)}-{path.name}.tmp")


def _write_temp(path: Path, new: bytes, old: os.stat_result | None, mode: int, step: Step) -> Path:
    temp = temp_path(path, "new")
    step("before:create")
    fd = os.open(
        temp, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode if old is None else 0o600
    )
    try:
        step("after:create")
        if old is not None:
            _copy_attributes(path, old, fd)
        _fill(fd, new, step)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    return temp


def _fill(fd: int, new: bytes, step: Step) -> None:
    step("before:write")
    _write_all(fd, new)
    step("after:write")
    os.lseek(fd, 0, os.SEEK_SET)
    if hashlib.sha256(b"".join(iter(lambda: os.read(fd, _CHUNK), b""))).digest() != hashlib.sha256(new).digest():
        raise OSError(errno.EIO, "what was read back is not what was written")
    step("before:fsync")
    _fsync(fd)
    step("after:fsync")


def _write_all(fd: int, data: bytes) -> int:
    """Write all of `data`, a short write being continued; returns how many bytes the first write took."""
    first = written = os.write(fd, data) if data else 0
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
    return first


def _fsync(fd: int) -> None:
    # A failed fsync is never tried again: the kernel has already marked the lost pages clean (USENIX ATC '20,
    # "Can Applications Recover from fsync Failures?"), so a second one would lie.
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone does not reach the platter
    if full is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)


def _copy_attributes(path: Path, old: os.stat_result, fd: int) -> None:
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):  # only root may give files away; the rest is kept all the same
            os.fchown(fd, old.st_uid, old.st_gid)
    if sys.platform == "linux":
        for name in _xattrs(path):
            with contextlib.suppress(OSError):  # security.* and system.* may be the kernel's alone
                os.setxattr(fd, name, os.getxattr(path, name, follow_symlinks=False))
    os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _xattrs(path: Path) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:
        return []


def _place(temp: Path, path: Path, step: Step) -> None:
    """Give a new file its name, if nobody else took it."""
    try:
        step("before:place")
        _rename_no_replace(temp, path)
        step("after:place")
    except FileExistsError as error:
        raise _moved(path) from error
    finally:
        temp.unlink(missing_ok=True)
    sync_folder(path.parent, step)


def _rename_no_replace(temp: Path, path: Path) -> None:
    if not _renameat2(temp, path, _RENAME_NOREPLACE):
        os.link(temp, path, follow_symlinks=False)
        temp.unlink()


def _swap(temp: Path, path: Path, expected: str, ours: _Ours, step: Step) -> None:
    """Exchange, verify what came out, and only then let go of it."""
    step("before:mark")
    ready = temp_path(path, "swap")
    temp.rename(ready)  # from here on a leftover may be somebody's edit, and its name says so
    step("after:mark")
    step("before:swap")
    out = _exchange(ready, path)
    step("after:swap")
    _verify_swapped(out, path, expected, ours)
    sync_folder(path.parent, step)
    # Looked at twice: a writer that had the old file open has had the time of an fsync to finish its write.
    size = _verify_swapped(out, path, expected, ours)
    step("before:unlink")
    _let_go(out, size, path)
    step("after:unlink")


def _exchange(ready: Path, path: Path) -> Path:
    """Put `ready` in the place of `path`; returns where the old file lies now."""
    try:
        if _renameat2(ready, path, _RENAME_EXCHANGE):
            return ready
        # Without an exchange: a second name holds on to the old file. What remains open is a rename by somebody
        # else between these two calls.
        aside = temp_path(path, "swap")
        os.link(path, aside, follow_symlinks=False)
        ready.replace(path)
    except OSError as error:
        ready.unlink(missing_ok=True)
        if isinstance(error, FileNotFoundError):
            raise _moved(path) from error
        raise
    return aside


def _read_now(path: Path) -> bytes | None:
    """What lies at `path`; None for anything that is no readable regular file, which no plan expects."""
    try:
        return read(path)
    except StateError:
        return None


def _digest_now(path: Path) -> str | None:
    data = _read_now(path)
    return None if data is None else digest(data)


def _verify_swapped(out: Path, path: Path, expected: str, ours: _Ours) -> int:
    """Size of what came out, if it is what was expected; else it gets its place back."""
    data = _read_now(out)
    if data is None or digest(data) != expected:
        kept = _put_back(out, path, ours)
        sync_folder(path.parent)
        raise _moved(path, f"; a second edit is in {kept.name}" if kept else "")
    return len(data)


def _put_back(out: Path, path: Path, ours: _Ours) -> Path | None:
    """Give somebody's file its place again. What others appended to our version meanwhile is appended to theirs.

    Returns:
        Where our version was kept, if somebody edited it in another way than appending.
    """
    mine = _exchange(out, path)
    sync_folder(path.parent)  # takes a moment, in which writers that hold our version open end their lines
    data = _read_now(mine)
    if data is not None and digest(data[: ours.size]) == ours.digest:
        _let_go(mine, ours.size, path)
        return None
    kept = path.with_name(f"{path.name}.conflict-{secrets.token_hex(4)}")
    mine.rename(kept)
    return kept


def _let_go(version: Path, size: int, path: Path) -> None:
    """Unlink a version that has lost its place, and append to `path` what was appended to it behind `size`.

    Read after the unlink, when nobody new can open it: what remains is a writer that opened it before the exchange
    and has not written yet.
    """
    fd = open_regular(version)
    try:
        version.unlink()
        late = b"".join(iter(lambda: os.read(fd, _CHUNK), b""))[size:]
    finally:
        os.close(fd)
    if late:
        append(path, late, b"")


@functools.cache
def _system_renameat2() -> Callable[..., int] | None:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Linux' rename with flags, see renameat2(2). False: this system or file system has none."""
    call = _system_renameat2() if sys.platform == "linux" else None
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(target))


def sync_folder(folder: Path, step: Step = no_step) -> None:
    """Make the names in a folder survive a power cut.

    Raises:
        OSError: the disk says no.
    """
    step("before:fsync-folder")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    step("after:fsync-folder")


def sync_file(path: Path, step: Step = no_step) -> None:
    """Make bytes that are in a file already, and its name, survive a power cut.

    Raises:
        StateError: it is no regular file, or the disk says no.
    """
    with as_state_error("cannot be synced", path):
        fd = open_regular(path)
        try:
            step("before:fsync-append")
            _fsync(fd)
            step("after:fsync-append")
        finally:
            os.close(fd)
        sync_folder(path.parent, step)


# ── after a kill ─────────────────────────────────────────────────────────────────────────────────────────────────


def leftovers(folder: Path) -> list[Leftover]:
    """The temporary files that stopped writers left in a folder, sorted by name."""
    with as_state_error("cannot be listed", folder):
        named = [(path, _TEMP_NAME.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [Leftover(path, match[1], match[2]) for path, match in named if match]


def settle(path: Path, before: str | None, after: str) -> list[Path]:
    """Clear away what a stopped `replace(path, …)` left; no other writer of memoryd may be at work on `path`.

    An edit that the stopped exchange had swapped out gets its place back. Look at `path` afresh afterwards: it then
    holds `before`, `after`, or somebody's edit.

    Args:
        path: the file that was to be rewritten.
        before: sha256 of the bytes the rewrite expected, None where it made a new file.
        after: sha256 of the bytes it was to put there.

    Returns:
        Files that hold a second edit which could not be put back because the first has the place: for a person.

    Raises:
        StateError: the folder cannot be read or changed.
    """
    kept: list[Path] = []
    with as_state_error("cannot be settled", path):
        for left in leftovers(path.parent):
            if left.target == path.name:
                kept += _settle_one(left, path, before, after)
        sync_folder(path.parent)
    return kept


def _settle_one(left: Leftover, path: Path, before: str | None, after: str) -> list[Path]:
    # A second name of the file itself is what a stop before the fallback's rename leaves.
    there = os.path.lexists(path)
    twin = there and os.path.samestat(left.path.lstat(), path.lstat())
    if left.kind == "new" or twin or _digest_now(left.path) in {before, after}:
        left.path.unlink()
        return []
    if not there:
        _rename_no_replace(left.path, path)
        return []
    kept = _put_back(left.path, path, _Ours(after, path.lstat().st_size))
    return [] if kept is None else [kept]


# ── appending ────────────────────────────────────────────────────────────────────────────────────────────────────


def append(path: Path, block: bytes, create: bytes | None = None, step: Step = no_step) -> int:
    """Add `block` at the end of a file in one write, and wait until the disk has it.

    A short write (a full disk) is continued by a further append; what an error leaves unwritten, `missing_part`
    tells later.

    Args:
        path: the file; its folder must exist.
        block: the bytes to add.
        create: the first bytes of the file where it does not exist yet; it appears with them already in it.
        step: called with a stable name before and after every system call that changes something.

    Returns:
        The offset at which the block begins.

    Raises:
        NotFoundError: there is no file, and `create` is None.
        StateError: no regular file, disk full, no permission, or a failed fsync.
    """
    with as_state_error("cannot be appended to", path):
        try:
            fd = _open_append(path, create, step)
        except FileNotFoundError as error:
            raise NotFoundError("does not exist", str(path)) from error
        try:
            return _append(fd, block, step)
        finally:
            os.close(fd)


def _open_append(path: Path, create: bytes | None, step: Step) -> int:
    flags = os.O_RDWR | os.O_APPEND
    try:
        return open_regular(path, flags)
    except FileNotFoundError:
        if create is None:
            raise
    with contextlib.suppress(MovedError):  # somebody else made it first: then theirs is the file
        replace(path, create, None, step)
    return open_regular(path, flags)


def _append(fd: int, block: bytes, step: Step) -> int:
    step("before:append")
    written = _append_some(fd, block)
    offset = os.lseek(fd, 0, os.SEEK_CUR) - written
    while written < len(block):
        written += _append_some(fd, block[written:])
    step("after:append")
    step("before:fsync-append")
    _fsync(fd)
    step("after:fsync-append")
    return offset


def _append_some(fd: int, data: bytes) -> int:
    """Append as much of `data` as one write takes, and read it back: what is torn is not built upon."""
    written = os.write(fd, data) if data else 0
    offset = os.lseek(fd, 0, os.SEEK_CUR) - written  # O_APPEND leaves the position behind what it wrote
    if written and (offset < 0 or os.pread(fd, written, offset) != data[:written]):
        raise OSError(errno.EIO, "what was read back is not what was written")
    return written


def fill_hole(path: Path, block: bytes, offset: int) -> None:
    """Finish an append that a power cut left as a hole: the file had grown, its last bytes were not there yet.

    Only NUL bytes are written over, where the block's own bytes belong: nobody else's text is made of them.

    Raises:
        StateError: no regular file, disk full, no permission, or a failed fsync.
    """
    found = (read(path) or b"")[offset : offset + len(block)]
    there = found.rstrip(b"\0")
    if len(there) == len(found) or not block.startswith(there):
        return
    with as_state_error("cannot be mended", path):
        fd = open_regular(path, os.O_WRONLY)
        try:
            position = len(there)
            while position < len(found):
                position += os.pwrite(fd, block[position : len(found)], offset + position)
            _fsync(fd)
        finally:
            os.close(fd)


def find_block(data: bytes, block: bytes, offset: int) -> int | None:
    """Where `block` lies in `data`, at or after `offset`; None where it does not."""
    found = data.find(block, offset)
    return None if found < 0 else found


def missing_part(data: bytes, block: bytes, offset: int) -> bytes:
    """What of `block` still has to be appended to `data`, after an append planned for `offset` was stopped.

    Empty: it is there. The rest: a torn write ended inside it. All of it: nothing is there, or others wrote in
    between, and a block is never stitched together around other people's lines.
    """
    # A file shorter than planned was shortened by a person since, and the block may lie anywhere in it.
    if find_block(data, block, offset if len(data) >= offset else 0) is not None:
        return b""
    return block.removeprefix(data[offset:])
