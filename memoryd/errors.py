"""Define the errors by who must act. Every error says what happened, where, and what to do."""

import errno
import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_MACHINE = frozenset({
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ESTALE),
})  # fmt: skip

_HINTS = MappingProxyType({
    errno.ENOSPC: "free some space on this disk",
    errno.EDQUOT: "free some of this user's quota",
    errno.EFBIG: "raise the limit on file sizes",
    errno.ENOENT: "make its folder first, or correct the path",
    errno.ENOTDIR: "a part of the path is a file, not a folder: correct the path",
    errno.EROFS: "mount the disk read-write again, after a look at the kernel log",
    errno.EACCES: "check owner and mode of the file and its folder",
    errno.EPERM: "check owner, mode and attributes of the file and its folder",
    errno.EIO: "check the disk and the kernel log",
    errno.EMFILE: "raise the limit on open files: ulimit -n",
})  # fmt: skip
# Each part of SQLite's messages, with the same in plain words and the remedy.
_DATABASE = MappingProxyType({
    "disk is full": ("the disk is full", "free some space on the disk of state_dir"),
    "disk I/O error": ("the disk cannot be read or written", "check the disk, this user's quota and the kernel log"),
    "readonly database": ("the database is read-only", "check owner and mode of the files in state_dir, and its mount"),
    "unable to open": ("the database cannot be opened", "check owner and mode of state_dir, and its mount"),
    "is locked": ("another program holds the database", "try it again; if it lasts, end the program that has it open"),
})  # fmt: skip


class MemorydError(Exception):
    """Report an error that a person can act on.

    Args:
        what: what went wrong, in one sentence.
        where: the file, line, key or id, or empty.
        hint: the remedy, or empty if there is none.
    """

    code = "failed"
    exit_code = 1
    # Results that an operation has in spite of its error.
    data: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(MemorydError):
    """Report a mistake in the configuration or the command line."""

    code = "config"
    exit_code = 2


class NotFoundError(MemorydError):
    """Report that the named thing does not exist."""

    code = "not_found"
    exit_code = 3


class RefusedError(MemorydError):
    """Report that a guard refused, or that a part of the product is missing."""

    code = "refused"
    exit_code = 4


class LockedError(MemorydError):
    """Report that another daemon holds the state folder."""

    code = "locked"
    exit_code = 5


class StillLockedError(LockedError):
    """Report that another daemon held the folder for the whole waiting time, so that a service manager tries again.

    The exit code is `EX_TEMPFAIL` of sysexits.h(3head).
    """

    exit_code = 75


class StateError(MemorydError):
    """Report that the database, the disk or the workspace cannot be used, so that the operator must act."""

    code = "state"


class AwayError(StateError):
    """Report that a run lacks something for the moment, such as a workspace on an unmounted disk."""


# A message about a file. A message with a quotation has other characters.
_PLAIN_WORDS = re.compile(r"[a-z][a-zA-Z /-]{1,60}")


def describe(error: BaseException) -> str:
    """Describe an error without content, for rows, logs and hints. Only this function may use an error's own words.

    Messages of memoryd and of the operating system hold no content. Messages of other libraries often quote their
    input, so only their type and place are returned.
    """
    if isinstance(error, MemorydError):
        return str(error)
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror} ({error.filename or 'no path'})"
    error = getattr(error, "orig", None) or error  # SQLAlchemy and the index wrap errors
    name = type(error).__name__
    if name in {"DatabaseError", "OperationalError"} and _PLAIN_WORDS.fullmatch(str(error)):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
    return f"{name}{place}"


def is_out_of_files(error: BaseException) -> bool:
    """Return True if this process or the machine cannot open more files."""
    cause = error.__cause__ or error
    return isinstance(cause, OSError) and cause.errno in {errno.EMFILE, errno.ENFILE}


def hint_at(number: int | None) -> str:
    """Return the remedy for an error number of the system, or an empty string if none is known."""
    return _HINTS.get(number or 0, "")


def is_disk_trouble(error: BaseException) -> bool:
    """Return True if the machine caused the error: a full or failing disk, no free descriptors, no permission.

    Another program's long lock of the database also counts, because it ends by itself.
    """
    error = _cause_of(error)
    if isinstance(error, OSError) and error.errno in _MACHINE:
        return True
    return _is_of_database(error) and any(sign in str(error) for sign in _DATABASE)


def explain_trouble(error: BaseException, where: str = "memoryd.db") -> StateError | None:
    """Return the machine's trouble as an error that a person can act on, or None if the cause is another.

    `where` names the database for an error of the database.
    """
    error = _cause_of(getattr(error, "orig", None) or error)  # SQLAlchemy and the index wrap errors
    if isinstance(error, OSError):
        return StateError(os.strerror(error.errno or 0), str(error.filename or ""), hint_at(error.errno))
    if not _is_of_database(error):
        return None
    # SQLite also reports an I/O error if a full disk has no room for the shared memory of the log.
    said = "disk is full" if "disk I/O error" in str(error) and _is_on_full_disk(where) else str(error)
    found = next((told for sign, told in _DATABASE.items() if sign in said), None)
    return None if found is None else StateError(found[0], where, found[1])


def _cause_of(error: BaseException) -> BaseException:
    cause = error.__cause__
    return cause if cause is not None and (isinstance(cause, OSError) or _is_of_database(cause)) else error


def _is_on_full_disk(path: str) -> bool:
    try:
        return os.statvfs(os.path.dirname(path)).f_bavail == 0  # noqa: PTH120 - pathlib is slow to load
    except OSError:
        return False


def _is_of_database(error: BaseException) -> bool:
    return type(error).__name__ == "OperationalError"
