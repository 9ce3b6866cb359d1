"""What can go wrong, by who must act. Every error says what happened, where, and what to do."""

from __future__ import annotations

import errno
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MACHINE = frozenset({
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ESTALE),
})  # fmt: skip


class MemorydError(Exception):
    """An error a person can act on.

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
    """The person who wrote the configuration or the command line must act."""

    code = "config"
    exit_code = 2


class NotFoundError(MemorydError):
    """The named thing does not exist."""

    code = "not_found"
    exit_code = 3


class RefusedError(MemorydError):
    """A guard or a missing part of the product says no."""

    code = "refused"
    exit_code = 4


class LockedError(MemorydError):
    """Another daemon holds the state folder."""

    code = "locked"
    exit_code = 5


class StillLockedError(LockedError):
    """Another daemon held the state folder for as long as was to be waited for: a service manager tries again.

    The status is `EX_TEMPFAIL` of sysexits.h(3head).
    """

    exit_code = 75


class StateError(MemorydError):
    """The operator must act: the database, the disk or the workspace is not usable."""

    code = "state"


class AwayError(StateError):
    """What a run needs is not there now, through no fault of the run: a workspace on a disk that is not mounted."""


def is_disk_trouble(error: BaseException) -> bool:
    """Say whether the machine, not the run, is at fault: a full or failing disk, no descriptors, no permission.

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
