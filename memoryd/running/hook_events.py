"""Handle hook events of an agent's session: it will be compacted soon, or it has ended.

An event comes before the last lines are in the transcript. So memoryd first waits until the transcript has settled and
was read. A lost event only costs time, because memoryd notices both without it.
"""

import os
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import Engine

from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import query, sqlite
from memoryd.running import sleeping

_BY_PATH = (
    "SELECT session_id FROM transcript WHERE agent_id = ? AND path IN (?, ?) AND session_id IS NOT NULL"
    " ORDER BY id DESC LIMIT 1"
)


class HookEventKind(StrEnum):
    """Name the hook events."""

    PRE_COMPACT = "pre-compact"
    SESSION_END = "session-end"


class HookEvent(NamedTuple):
    """Hold one hook event of one session."""

    agent_id: str  # empty if no agent has the folder yet
    event: HookEventKind
    transcript: str | None  # path, as the agent names it
    session: str | None  # id, as the agent names it
    at: float  # monotonic, seconds
    looks: int = 0  # how often the event has waited for more of the transcript
    folder: str | None = None  # folder of the session


def session_of(engine: Engine, agent_id: str, transcript: str | None, session: str | None) -> str | None:
    """Return the session that an agent names by transcript or id; None if memoryd has not read it yet."""
    path = transcript or ""
    queries = (
        (_BY_PATH, agent_id, path, os.path.realpath(path)),
        ("SELECT id FROM session WHERE agent_id = ? AND id = ?", agent_id, session or ""),
    )
    with sqlite.begin_read(engine) as connection:
        return next((found for sql, *values in queries if (found := query.fetch_text(connection, sql, *values))), None)


def carry_out(engine: Engine, settings: Settings, clock: Clock, announcement: HookEvent, session_id: str) -> str | None:
    """Handle an event; return the id of a queued run, or None."""
    if announcement.event is HookEventKind.PRE_COMPACT:
        return sleeping.before_compaction(engine, settings, clock, session_id)
    sleeping.end(engine, session_id)
    return sleeping.consider(engine, settings, clock, session_id).run_id
