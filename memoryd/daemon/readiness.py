"""What the service manager is told: ready, alive, what it is doing, stopping.

The protocol is that of sd_notify(3): a datagram of `NAME=value` lines on the socket that `NOTIFY_SOCKET` names, a path
or, behind an `@`, a name of Linux' abstract namespace. Without the variable nobody is told and nothing is different.

A ping is never sent from a thread of its own: it would go on though everything it vouches for hangs. The loop sends it,
between two things it has done, after the database has answered.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

NOTIFY_SECONDS = 5.0
EXTEND_SECONDS = 60.0


class Readiness:
    """The line to the service manager; used by the loop's thread.

    `address` is the socket's path or `@name`, None where there is no service manager; `watchdog` the seconds without a
    ping after which it takes the process for hung.
    """

    def __init__(self, address: str | None, watchdog: float | None, monotonic: Callable[[], float]) -> None:
        self.is_ready = False
        self._address = address
        self._period = None if watchdog is None else watchdog / 2
        self._monotonic = monotonic
        self._next_ping = monotonic()
        self._next_extension = monotonic()
        self._status = ""

    @property
    def is_heard(self) -> bool:
        """Whether there is a service manager."""
        return self._address is not None

    def ready(self) -> None:
        """Say that the first scan is done and all is in order."""
        self.is_ready = True
        self._tell("READY=1")

    def notify_reloading(self) -> None:
        """Say that settings are being read anew; `ready` ends it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._monotonic() * 1_000_000:.0f}")

    def notify_stopping(self) -> None:
        """Say that the daemon ends."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """Say in one line what the daemon is doing, if that has changed. Counts only."""
        if text != self._status:
            self._status = text
            self._tell(f"STATUS={text}")

    def progress(self, probe: Callable[[], object]) -> None:
        """Note that the loop has just got something done, and pass it on where the manager wants to hear of it.

        The probe asks the database something; it is called only when a ping is due, which is not sent if it raises.
        """
        now = self._monotonic()
        if not self.is_ready and now >= self._next_extension:
            # A first scan of years of transcripts outlasts the manager's patience with a start; each bit extends it.
            self._next_extension = now + NOTIFY_SECONDS
            self._tell(f"EXTEND_TIMEOUT_USEC={EXTEND_SECONDS * 1_000_000:.0f}")
        if self._period is not None and now >= self._next_ping:
            probe()
            self._next_ping = self._monotonic() + self._period
            self._tell("WATCHDOG=1")

    def next_at(self) -> float | None:
        """Tell when, by the monotonic clock, the next ping is due."""
        return None if self._period is None or self._address is None else self._next_ping

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # A manager that is away, or whose queue is full, must not stop what it watches; it will miss the next ping.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.settimeout(0)
            line.sendto("\n".join(lines).encode(), name)


def from_environment(environ: MutableMapping[str, str], pid: int, monotonic: Callable[[], float]) -> Readiness:
    """Read what the service manager has left in the environment, and take it out: hooks and the worker are not meant.

    A watchdog that was meant for another process is left alone.
    """
    address = environ.pop("NOTIFY_SOCKET", None)
    period = environ.pop("WATCHDOG_USEC", "")
    meant = environ.pop("WATCHDOG_PID", str(pid))
    is_on = period.isascii() and period.isdigit() and int(period) > 0 and meant == str(pid)
    valid = address if address and address[0] in "/@" else None
    return Readiness(valid, int(period) / 1_000_000 if is_on else None, monotonic)
