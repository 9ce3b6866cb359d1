"""Report to the service manager: ready, alive, current work, stopping.

The protocol is sd_notify(3): a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`. That is a path or,
after an `@`, a name in Linux's abstract namespace. Without the variable, this module does nothing.

The watchdog ping must not come from a separate thread, which would continue while the daemon hangs. The loop sends it
between two tasks, after the database has answered.
"""

import contextlib
import math
import socket
from collections.abc import Callable, MutableMapping

NOTIFY_SECONDS = 5.0
EXTEND_SECONDS = 60.0


class Readiness:
    """Send messages to the service manager. Only the loop's thread may use it.

    `address` is the socket's path or `@name`; None without a service manager. `watchdog` is the time in seconds after
    which the manager restarts a daemon that sends no ping; None without a watchdog.
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
        """Return True if there is a service manager."""
        return self._address is not None

    def ready(self) -> None:
        """Report that the daemon works, after the first scan or a reload."""
        self.is_ready = True
        self._tell("READY=1")

    def notify_reloading(self) -> None:
        """Report that settings are being reloaded, until `ready` is called."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._monotonic() * 1_000_000:.0f}")

    def notify_stopping(self) -> None:
        """Report that the daemon ends."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """Report the current work in one line if it has changed. The text must contain only counts and states."""
        if text != self._status:
            self._status = text
            self._tell(f"STATUS={text}")

    def progress(self, probe: Callable[[], object]) -> None:
        """Note that the loop has completed a task, and send a ping if one is due.

        `probe` asks the database. It is called only for a due ping, and the ping is not sent if it raises.
        """
        now = self._monotonic()
        if not self.is_ready and now >= self._next_extension:
            # The first scan of years of transcripts may take longer than the manager waits. Each report extends that
            # time.
            self._next_extension = now + NOTIFY_SECONDS
            self._tell(f"EXTEND_TIMEOUT_USEC={EXTEND_SECONDS * 1_000_000:.0f}")
        if self._period is not None and now >= self._next_ping:
            probe()
            self._next_ping = self._monotonic() + self._period
            self._tell("WATCHDOG=1")

    def next_at(self) -> float:
        """Return when the next ping is due, on the monotonic clock, or infinity if there is no watchdog."""
        return math.inf if self._period is None or self._address is None else self._next_ping

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # A manager that is gone or whose queue is full must not stop the daemon. It only misses this message.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.settimeout(0)
            line.sendto("\n".join(lines).encode(), name)


def from_environment(environ: MutableMapping[str, str], pid: int, monotonic: Callable[[], float]) -> Readiness:
    """Read the service manager's variables and remove them, so that child processes do not inherit them.

    A watchdog for another process is ignored.
    """
    address = environ.pop("NOTIFY_SOCKET", None)
    period = environ.pop("WATCHDOG_USEC", "")
    meant = environ.pop("WATCHDOG_PID", str(pid))
    is_on = period.isascii() and period.isdigit() and int(period) > 0 and meant == str(pid)
    valid = address if address and address[0] in "/@" else None
    return Readiness(valid, int(period) / 1_000_000 if is_on else None, monotonic)
