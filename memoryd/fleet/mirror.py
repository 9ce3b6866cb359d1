"""Copy a host's job table, alarms and context usage to the fleet: numbers, names and times, never content.

Each row is sent when it changes, which a digest of the row shows. After an error, the host reads the fleet's digests
again. So the copy continues after days offline, and both tables become equal.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from memoryd.clock import Clock, text_of
from memoryd.config import Settings
from memoryd.database import alarms, query, runs, sqlite
from memoryd.fleet.connection import Database
from memoryd.gauge.fill import fill_of
from memoryd.version import __version__

COLUMNS = (
    "id", "kind", "agent_id", "actor", "trigger", "state", "scheduled_for", "started_at", "finished_at", "attempt",
    "tokens_in", "tokens_out",
)  # fmt: skip
BATCH = 500
# Seconds between two comparisons of all rows, which also find deleted rows.
WHOLE_SECONDS = 3600.0
_NAMES = ", ".join(f'"{name}"' for name in COLUMNS)
_MOVING = json.dumps([*runs.OPEN, runs.PROPOSED])
_ALL = f"SELECT rowid AS place, {_NAMES} FROM job_run WHERE coalesce(finished_at, '9') >= ?"  # noqa: S608
_CHANGED = (
    f"SELECT rowid AS place, {_NAMES} FROM job_run"  # noqa: S608
    " WHERE rowid > ? OR state IN (SELECT value FROM json_each(?)) OR id IN (SELECT value FROM json_each(?))"
)
_THEIRS = ["agent" if name == "agent_id" else name for name in (*COLUMNS, "digest")]
_WRITE = (
    f"INSERT INTO fleet_run (host, {', '.join(_THEIRS)}) VALUES (%s{', %s' * len(_THEIRS)})"  # noqa: S608
    f" ON CONFLICT (host, id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _THEIRS)}"
)
_SESSIONS = (
    "SELECT s.* FROM session s JOIN agent a ON a.id = s.agent_id WHERE s.state = 'active' AND s.parent_id IS NULL"
    " ORDER BY s.last_turn_at DESC LIMIT 500"
)


@dataclass(slots=True)
class Mirror:
    """Send what has changed on this host. Call `forget` if it is unclear what has arrived."""

    engine: Engine
    database: Database
    clock: Clock
    # The digests of the rows that the fleet has, or None if they are unknown.
    known: dict[str, int] | None = None
    # Ids of the rows that had not ended, or were proposals without an answer, when the rows were last read.
    moving: set[str] = field(default_factory=set)
    place: int = 0  # row id of the newest row that was read
    whole_at: float = 0.0
    told: str = ""

    def forget(self) -> None:
        """Make the next `send` compare all rows."""
        self.known, self.told = None, ""

    def send(self, settings: Settings) -> int:
        """Send all changes, and return the number of sent rows."""
        now = self.clock.monotonic()
        try:
            is_whole = self.known is None or now >= self.whole_at
            if self.known is None:
                sql = "SELECT id, digest FROM fleet_run WHERE host = %s"
                self.known = dict(self.database.fetch(sql, self.database.host))
            sent = self._send_runs(self.known, settings, is_whole=is_whole)
            self._tell(settings)
        except BaseException:
            self.forget()
            raise
        if is_whole:
            self.whole_at = now + WHOLE_SECONDS
        return sent

    def _send_runs(self, known: dict[str, int], settings: Settings, *, is_whole: bool) -> int:
        if is_whole:
            oldest = text_of(self.clock.now() - settings.fleet.keep)
            rows = sqlite.read(self.engine, query.fetch_mappings, _ALL, oldest)
        else:
            moving = json.dumps([*self.moving])
            rows = sqlite.read(self.engine, query.fetch_mappings, _CHANGED, self.place, _MOVING, moving)
        digests = {row["id"]: compute_digest(row) for row in rows}
        changed = [row for row in rows if known.get(row["id"]) != digests[row["id"]]]
        for start in range(0, len(changed), BATCH):
            self._write(known, changed[start : start + BATCH], digests)
        if is_whole and (gone := [one for one in known if one not in digests]):
            self.database.fetch("DELETE FROM fleet_run WHERE host = %s AND id = ANY(%s)", self.database.host, gone)
            for one in gone:
                del known[one]
        self.place = max((row["place"] for row in rows), default=self.place)
        self.moving = {row["id"] for row in rows if row["finished_at"] is None or row["state"] == runs.PROPOSED}
        return len(changed)

    def _write(self, known: dict[str, int], rows: Sequence[dict[str, Any]], digests: dict[str, int]) -> None:
        host = self.database.host
        values = [(host, *(row[name] for name in COLUMNS), digests[row["id"]]) for row in rows]
        with self.database.begin() as connection, connection.cursor() as cursor:
            cursor.executemany(_WRITE, values)
        known.update((row["id"], digests[row["id"]]) for row in rows)

    def _tell(self, settings: Settings) -> None:
        """Send a heartbeat of this host, with its status if that has changed."""
        told = json.dumps(describe_host(self.engine, settings), sort_keys=True)
        is_new = told != self.told
        sql = (
            "UPDATE fleet_host SET seen_at = clock_timestamp(), version = %s, told = coalesce(%s::jsonb, told)"
            " WHERE host = %s"
        )
        self.database.fetch(sql, __version__, told if is_new else None, self.database.host)
        self.told = told


def compute_digest(row: dict[str, Any]) -> int:
    """Return a number that changes when a mirrored column changes."""
    data = json.dumps([row[name] for name in COLUMNS]).encode()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], signed=True)


def describe_host(engine: Engine, settings: Settings) -> dict[str, Any]:
    """Return the status of a host, without texts that an agent may have named.

    Texts of alarms and ids of sessions are left out.
    """
    paused = dict(sqlite.read(engine, query.fetch_rows, "SELECT id, paused FROM agent"))
    windows = {agent.id: agent.context_window for agent in settings.agents}
    sessions = []
    for row in sqlite.read(engine, query.fetch_mappings, _SESSIONS):
        fill = fill_of(row, windows.get(row["agent_id"]))
        sessions.append({
            "agent": row["agent_id"], "tokens": fill.live.tokens, "window": fill.window.tokens,
            "ratio": round(fill.ratio, 4), "gauge": fill.live.exactness, "last_turn_at": row["last_turn_at"],
        })  # fmt: skip
    return {
        "agents": [
            {"id": agent.id, "enabled": agent.enabled, "paused": bool(paused.get(agent.id)), "held_by": agent.held_by}
            for agent in settings.agents
        ],
        "alarms": [
            {"kind": one.kind, "agent": one.agent_id or None, "since": one.since}
            for one in sqlite.read(engine, alarms.list_open)
        ],
        "sessions": sessions,
    }
