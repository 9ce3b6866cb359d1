"""Identify a process by boot, pid and start time, because pids are reused.

The row of a running run names its process in this way.
"""

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def name_process() -> str:
    """Return the name of the present process."""
    return _name(os.getpid())


def is_elsewhere(owner: str) -> bool:
    """Return True if another process has this name and is still running.

    The present process asks before it takes a run, so an exception has ended what it began earlier.
    """
    parts = owner.rsplit(":", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return False
    pid = int(parts[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return pid != os.getpid() and _name(pid) == owner


def _name(pid: int) -> str:
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
        # Field 22 of /proc/PID/stat (proc(5)) is the start time in ticks since boot. Field 2, the name of the program,
        # may contain spaces.
        started = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        boot, started = "-", "-"
    return f"{boot}:{pid}:{started}"
