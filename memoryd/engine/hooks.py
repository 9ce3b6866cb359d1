"""The user's own commands, told of what happened. Their failure is recorded and never fails a run."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class HookResult:
    """How a hook ended: `ok`, or why not (never its output, which may hold content)."""

    ok: bool
    why: str = ""


def run_hook(command: str, text: str, *, agent_id: str, session_id: str | None) -> HookResult:
    """Run a hook command by the shell with `text` on its standard input.

    The environment has `MEMORYD_AGENT` and `MEMORYD_SESSION` added.
    """
    environment = {**os.environ, "MEMORYD_AGENT": agent_id, "MEMORYD_SESSION": session_id or ""}
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=TIMEOUT_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return HookResult(ok=False, why=f"took longer than {TIMEOUT_SECONDS} s")
    except OSError as error:
        return HookResult(ok=False, why=error.strerror or "could not be started")
    return HookResult(ok=True) if done.returncode == 0 else HookResult(ok=False, why=f"exit code {done.returncode}")
