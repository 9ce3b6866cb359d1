"""Write NOW files from the transcripts of sessions, for people who want to read along (`sessions.capture`).

A file is written from the stored turns and never read back, so it can be rewritten at any time. A file that somebody
has edited stays as it is.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine

from memoryd.changing import now_folder
from memoryd.changing.now_folder import NowSession
from memoryd.clock import Clock, moment_of
from memoryd.config import Agent, Settings
from memoryd.database import query, sqlite, turns
from memoryd.files import durable
from memoryd.files.workspace import lock_workspace
from memoryd.tiers import now
from memoryd.tiers.archive import FOLDER
from memoryd.tiers.now import NowHeader
from memoryd.transcripts.now_file import CAPTURE
from memoryd.transcripts.turn import Origin, Role, StoredTurn

_ROLES = {Role.USER: "user", Role.ASSISTANT: "agent", Role.TOOL: "tool"}
_SESSIONS = (
    "SELECT s.*, t.told FROM session s LEFT JOIN session_summary t ON t.session_id = s.id WHERE s.agent_id = ?"
    " AND s.format <> 'now' AND s.parent_id IS NULL AND s.turns > 0 AND s.last_turn_at >= ?"
    " ORDER BY s.started_at, s.id"
)


class Captures:
    """Keep the NOW files up to date; a session without new turns is not read."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[object, ...]] = {}

    def write_all(self, engine: Engine, settings: Settings, clock: Clock) -> int:
        """Update the files of all agents; return how many were written or removed."""
        if not settings.sessions.capture:
            return 0
        agents = [agent for agent in settings.agents if agent.enabled and agent.workspace.is_dir()]
        return sum(self._write(engine, settings, clock, agent) for agent in agents)

    def _write(self, engine: Engine, settings: Settings, clock: Clock, agent: Agent) -> int:
        since = clock.text(ahead=-settings.sessions.now_keep - timedelta(days=1))
        # Sessions that ended long before memoryd first saw them are left out.
        rows = [
            row
            for row in sqlite.read(engine, query.fetch_mappings, _SESSIONS, agent.id, since)
            if moment_of(row["last_turn_at"]) > moment_of(row["seen_at"]) - settings.sessions.idle_end
        ]
        states = {row["id"]: (row["last_seq"], row["state"], row["told"]) for row in rows}
        held = {one.header.session_id: one for one in now_folder.list_files(agent.workspace) if one.is_capture}
        late = clock.now() - settings.sessions.now_keep
        changes: list[tuple[str, bytes | None, bytes | None]] = []
        cleared = [one for one in held.values() if now.is_cleared(one.document)]
        changes += [(one.name, one.data, None) for one in cleared if one.end is not None and moment_of(one.end) < late]
        changes += [
            change
            for row in rows
            if self._written.get(row["id"]) != states[row["id"]]
            for change in _list_changes(engine, agent.workspace, row, held.get(row["id"]))
        ]
        for name, before, after in changes:
            with lock_workspace(agent.workspace) as place:
                durable.exchange(place.continuum / name, before, after)
        self._written |= states
        return len(changes)


def _list_changes(
    engine: Engine, workspace: Path, row: query.Row, old: NowSession | None
) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Yield the changes of a session's file as (name, old bytes, new bytes); none if somebody has edited it."""
    new = _render(engine, row)
    if old is None and row["told"] is None:
        began = moment_of(row["started_at"] or row["last_turn_at"])
        yield now_folder.find_free_name(began, lambda name: (workspace / FOLDER / name).exists()), None, new
    elif old is not None and now.parse(new).body.startswith(now.parse(old.data).body):  # nobody has edited it
        wanted = new if row["told"] is None else now.clear(new)
        if wanted != old.data:
            yield old.name, old.data, wanted


def _render(engine: Engine, row: query.Row) -> bytes:
    """Return the bytes of a session's whole file."""
    said = sqlite.read(engine, turns.stored_turns, row["id"], main_only=True)
    start, end = row["started_at"] or row["last_turn_at"], row["ended_at"] if row["state"] == "ended" else None
    data = now.render_header(NowHeader(row["id"], start, project_path=row["folder"], memory_type=CAPTURE))
    return (now.close(data, end, row["id"]) if end else data) + b"".join(_render_turns(said))


def _render_turns(said: Sequence[StoredTurn]) -> Iterator[bytes]:
    for turn in said:
        role = _ROLES.get(turn.role)
        if role is not None and turn.origin is not Origin.INJECTED and turn.text.strip():
            yield now.render_entry(role, turn.text, turn.tool_name)
