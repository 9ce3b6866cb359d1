"""Forget a memory or a session for a person: find it, preview the result, and erase it."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from memoryd.changing import forgetting
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.database import erasure, reads, sqlite, turns
from memoryd.errors import NotFoundError
from memoryd.files.open_folder import open_folder
from memoryd.ledger.memory import ANY_PREFIX
from memoryd.requests import opening, permission, waiting
from memoryd.requests.scanner import open_scrubber

PATIENCE_SECONDS = 10.0  # how long a daemon may take to read a session before it is forgotten
_TAIL = 1 << 20  # bytes at the end of a transcript in which its last complete line must end


def find_target(settings: Settings, name: str, agent: Callable[[str | None], Agent]) -> tuple[Agent, dict[str, Any]]:
    """Return the agent and the options for a memory or a session that a person names.

    `name` is an id, `session:ID`, or a unique beginning of either. `agent` chooses the agent, given the id of the
    session's agent or None.

    Raises:
        NotFoundError: There is no such id, or it belongs to another agent.
    """
    if name.startswith(ANY_PREFIX):
        chosen = agent(None)
        opening.catch_up(settings, chosen)
        return chosen, {"memory": reads.ask(reads.database_path(settings), reads.find_memory, chosen.id, name)["id"]}
    what = "session" if name.startswith("session:") else "memory and no session"
    row = reads.ask(reads.database_path(settings), reads.find_session, name.removeprefix("session:"), None, what)
    chosen = agent(row["agent_id"])
    if chosen.id != row["agent_id"]:
        raise NotFoundError(f"this is not the agent {chosen.id!r}'s", where=row["id"])
    opening.catch_up(settings, chosen)
    return chosen, {"session": row["id"]}


def forget(settings: Settings, agent: Agent, options: dict[str, Any]) -> dict[str, Any]:
    """Forget a memory or a session, and wait. Return the run with ids, reasons and counts, never a text."""
    permission.require(settings, agent, "edit", "owner", "forget")
    agent_id = agent.id
    key = f"{forgetting.KIND}:{agent_id}:{options.get('memory') or options.get('session')}"

    def queue(engine: Engine, clock: Clock) -> list[str]:
        return [waiting.request(engine, clock, agent_id, forgetting.KIND, options, key=key)]

    def forget_beside(engine: Engine, clock: Clock) -> list[str]:
        # First read the session's messages up to now. If they were read later, they would count as new.
        if "session" in options:
            with sqlite.begin_read(engine) as connection:
                paths = turns.list_paths(connection, erasure.list_family(connection, agent_id, options["session"]))
            until = time.monotonic() + PATIENCE_SECONDS
            for path, size in [(path, _whole_lines(Path(path))) for path in paths]:
                waiting.await_read(settings, agent_id, path, size, until)
        return queue(engine, clock)

    row = waiting.run_now(settings, agent_id, queue, fresh="session" in options, beside=forget_beside)[0]
    receipt = waiting.require_accepted(row)["receipt"]
    return {"run": row["id"], **receipt[forgetting.KIND], "files": receipt["files"]}


def _whole_lines(path: Path) -> int:
    """Return the size of a transcript up to its last complete line, in bytes. An unfinished line cannot be read yet."""
    try:
        with path.open("rb") as file:
            at = file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return at + file.read().rfind(b"\n") + 1
    except OSError:
        return 0  # the file is gone or not readable, so there is nothing to wait for


def planned_forgetting(
    settings: Settings, agent: Agent, options: dict[str, Any], *, has_lines: bool = False
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what forgetting would do: ids, reasons and counts, then the redacted lines that may be a person's.

    The lines are left out unless `has_lines` is set, because nothing else here needs the scanner.
    """
    with (
        opening.open_beside(settings) as engine,
        open_folder(agent.workspace) as folder,
        sqlite.begin_read(engine) as connection,
    ):
        found = forgetting.plan(connection, agent.id, folder, forgetting.target_of(options), settings.zone, {})
        rows = forgetting.list_lines_beside(connection, found) if has_lines else []
    with open_scrubber(settings) as scrubber:
        shown = scrubber.scan_redacting([row["content"] for row in rows], private=False)
    texts = ("(not scanned)" if one is None else one.text for one in shown)
    return found.told, [row | {"content": text} for row, text in zip(rows, texts, strict=True)]
