"""Ask the daemon through its control socket. This module imports only what loads fast enough for a hook."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from memoryd.files import socket_file
from memoryd.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from memoryd.config import Settings

SOCKET = "memoryd.sock"
MAX_FRAME = 64 * 1024  # the most bytes of a request; the next limit is that of an answer
MAX_ANSWER = 1024 * 1024
PATIENCE_SECONDS = 5.0


def ask(state_dir: Path | str, verb: str, seconds: float = PATIENCE_SECONDS, **arguments: Any) -> dict[str, Any] | None:
    """Send a request to the daemon; return its answer, or None if it does not answer within `seconds`."""
    line = socket_file.connect(os.path.join(state_dir, SOCKET), seconds)  # noqa: PTH118 - pathlib is slow to load
    if line is None:
        return None
    with line:
        try:
            line.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline(MAX_ANSWER))
        except (OSError, ValueError):
            return None
    return answer if isinstance(answer, dict) else None


def ask_same(settings: Settings, verb: str, **arguments: Any) -> dict[str, Any]:
    """Ask as `ask_data` does, but only a daemon with this version and these settings."""
    same = {"version": __version__, "settings": [str(settings.source), settings.sha256]}
    return ask_data(settings.state_dir, verb, same=same, **arguments)


def ask_data(state_dir: Path, verb: str, **arguments: Any) -> dict[str, Any]:
    """Ask the daemon and return the `data` of its answer, which is empty after an error or no answer."""
    answer = ask(state_dir, verb, **arguments) or {}
    told = answer.get("data") if answer.get("ok") else None
    return told if isinstance(told, dict) else {}
