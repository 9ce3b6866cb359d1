"""Run the user's own commands after events. A failed command is recorded, and never makes a run fail."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

TIMEOUT_SECONDS = 60.0
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class HookResult:
    """Hold how a hook ended. `why` is the reason of a failure, without the output, which may be content."""

    ok: bool
    why: str = ""
    stopped: bool = False  # True: memoryd is stopping, so the hook will be called again

    @property
    def outcome(self) -> str:
        """Return the result in its stored form."""
        return "ok" if self.ok else f"failed: {self.why}"


def run_hook(
    command: str, text: str, names: Mapping[str, str], *, is_stopping: Callable[[], bool] = lambda: False
) -> HookResult:
    """Run a command in the shell, with `text` as its standard input and `names` in its environment.

    If it takes longer than `TIMEOUT_SECONDS`, or if memoryd is stopping, all its processes are killed.
    """
    null = subprocess.DEVNULL
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=null,
            stderr=null,
            env={**os.environ, **names},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return HookResult(ok=False, why=getattr(error, "strerror", None) or "could not be started")
    with child:
        return _wait(child, text.encode(errors="replace"), is_stopping)


def _wait(child: subprocess.Popen[bytes], text: bytes, is_stopping: Callable[[], bool]) -> HookResult:
    until = time.monotonic() + TIMEOUT_SECONDS
    given: bytes | None = text
    while True:
        try:
            child.communicate(given, timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            given = None
        else:
            code = child.returncode
            return HookResult(ok=True) if code == 0 else HookResult(ok=False, why=f"exit code {code}")
        stopped = is_stopping()
        if stopped or time.monotonic() >= until:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            why = "memoryd was stopped" if stopped else f"took longer than {TIMEOUT_SECONDS:g} s"
            return HookResult(ok=False, why=why, stopped=stopped)
