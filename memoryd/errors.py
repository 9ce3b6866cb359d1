"""Define the errors, by who must act. Every error says what happened, where, and what to do."""

from __future__ import annotations

import errno
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MACHINE = frozenset({
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ESTALE),
})  # fmt: skip


class MemorydError(Exception):
    """Report an error that a person can act on.

    Args:
        what: what went wrong, one sentence.
        where: file, line, key or id it happened at; empty where there is none.
        hint: what to do about it; empty where nothing can be done.
    """

    code = "failed"
    exit_code = 1
    data: Mapping[str, Any] = MappingProxyType({})  # what could be told all the same

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
    """Report that another daemon held the folder for the whole waiting time: a service manager tries again.

    The status is `EX_TEMPFAIL` of sysexits.h(3head).
    """

    exit_code = 75


class StateError(MemorydError):
    """Report that the database, the disk or the workspace cannot be used; the operator must act."""

    code = "state"


class AwayError(StateError):
    """Report that something a run needs is missing now, such as a workspace on an unmounted disk."""


_PLAIN_WORDS = re.compile(r"[a-z][a-zA-Z /-]{1,60}")  # what SQLite says of a file; what quotes anything has more


def describe(error: BaseException) -> str:
    """Describe an error for rows, logs and hints without content: the one place that may use an error's own words.

    Ours and the operating system's are written for that. Another's often quote what they were given: it is told by its
    type and place.
    """
    if isinstance(error, MemorydError):
        return str(error)
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror} ({error.filename or 'no path'})"
    error = getattr(error, "orig", None) or error  # what SQLAlchemy and the index wrap
    name = type(error).__name__
    if name in {"DatabaseError", "OperationalError"} and _PLAIN_WORDS.fullmatch(str(error)):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
    return f"{name}{place}"


def is_out_of_files(error: BaseException) -> bool:
    """Return True if this process, or the machine, may open no more files."""
    cause = error.__cause__ or error
    return isinstance(cause, OSError) and cause.errno in {errno.EMFILE, errno.ENFILE}


def is_disk_trouble(error: BaseException) -> bool:
    """Return True if the machine is at fault, not the run: a full or failing disk, no descriptors, no permission.

    Another program's long hold on the database is of this kind, too: it passes.
    """
    cause = error.__cause__
    if isinstance(cause, OSError) or (cause is not None and type(cause).__name__ == "OperationalError"):
        error = cause
    if isinstance(error, OSError) and error.errno in _MACHINE:
        return True
    return type(error).__name__ == "OperationalError" and any(
        sign in str(error)
        for sign in ("database or disk is full", "disk I/O error", "readonly database", "unable to open", "is locked")
    )
