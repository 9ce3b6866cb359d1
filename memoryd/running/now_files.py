"""Tell which NOW files are to be rolled over, and what a rollover leaves of them.

A file is due when its session has ended, when it is too long or too old, or when somebody asks. It is cleared only if
the database has every byte of it: what was read last has the hash of the file as it is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import NamedTuple

from sqlalchemy import Connection, RowMapping

from memoryd.clock import Clock, moment_of
from memoryd.config import Settings
from memoryd.database import query, turns
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.job import WriteFile
from memoryd.text.private import is_private
from memoryd.tiers import now
from memoryd.tiers.archive import FOLDER, SaidEntry
from memoryd.tiers.now import NowDocument, NowHeader
from memoryd.transcripts import now_file
from memoryd.transcripts.lines import clean
from memoryd.transcripts.turn import Origin, Role, StoredTurn

_NEAR = 0.9  # of a limit
_SPEAKERS = {Role.USER: "User", Role.ASSISTANT: "Agent", Role.TOOL: "Tool"}
# By the end of the path: a rehearsal has a copy of the workspace in another folder.
_READ = (
    "SELECT session_id FROM transcript WHERE agent_id = ?1 AND substr(path, -length(?2)) = ?2 AND prefix_sha256 = ?3"
    " AND session_id IS NOT NULL"
)


class KeptFile(NamedTuple):
    """Hold a NOW file of a workspace."""

    path: str  # in the workspace
    data: bytes
    document: NowDocument
    began: datetime | None

    @property
    def end(self) -> str | None:
        """Return when its session ended, if it says so."""
        return self.document.header.timestamp_end if self.document.header else None


class DueNowFile(NamedTuple):
    """Hold a file that is to be rolled over."""

    session_id: str
    header: NowHeader | None
    writes: tuple[WriteFile, ...]  # the cleared file, and the one that continues its session


def list_files(workspace: Path) -> Iterator[KeptFile]:
    """Yield the NOW files that people and agents write, without private ones, in order of their names."""
    folder = workspace / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        if not now_file.is_now_path(PurePosixPath(name)):
            continue
        try:
            data = regular.read_in(workspace, f"{FOLDER}/{name}")
        except StateError:  # a link, or what nobody may read
            continue
        document = now.parse(data or b"")
        header = document.header
        if data is None or is_private(name, data) or (header is not None and header.memory_type == now_file.CAPTURE):
            continue
        began = (header.timestamp_start if header else None) or now.read_name(name.removesuffix(".md"))[0]
        yield KeptFile(f"{FOLDER}/{name}", data, document, moment_of(began) if began else None)


def list_due(
    connection: Connection, settings: Settings, clock: Clock, agent_id: str, asked_before: datetime | None = None
) -> list[DueNowFile]:
    """List the files of an agent that are due and read; `asked_before`: also all that began before this moment."""
    workspace = _workspace_of(settings, agent_id)
    found = []
    for file in list_files(workspace):
        is_asked = asked_before is not None and (file.began is None or file.began < asked_before)
        is_long = not file.end and _is_due(settings, clock, file)
        is_wanted = bool(file.end) or is_asked or is_long
        if is_wanted and not now.is_fresh(file.document) and not now.is_cleared(file.document):
            row = _find_read(connection, agent_id, file)
            if row is not None:
                is_live = is_long and not is_asked and row["state"] == "active"
                writes = tuple(_list_writes(workspace, clock, file, is_live))
                found.append(DueNowFile(row["id"], file.document.header, writes))
    return found


def _workspace_of(settings: Settings, agent_id: str) -> Path:
    return next(agent.workspace for agent in settings.agents if agent.id == agent_id)


def is_near_limit(settings: Settings, clock: Clock, workspace: Path) -> bool:
    """Return True if an open NOW file has nine tenths of the lines or the age at which another one continues it."""
    limits = settings.sessions
    return any(
        file.data.count(b"\n") >= _NEAR * limits.now_max_lines
        or (file.began is not None and clock.now() - file.began >= _NEAR * limits.now_max_age)
        for file in list_files(workspace)
        if not file.end and not now.is_fresh(file.document)
    )


def list_stale(settings: Settings, agent_id: str, before: datetime) -> list[KeptFile]:
    """List the files of an agent that began before a moment and were never rolled over."""
    workspace = _workspace_of(settings, agent_id)
    return [
        file
        for file in list_files(workspace)
        if file.document.body.strip() and (file.began is None or file.began < before)
    ]


def list_gone(settings: Settings, clock: Clock, agent_id: str) -> list[WriteFile]:
    """List the removal of the files that were cleared and are older than `sessions.now_keep`."""
    workspace = _workspace_of(settings, agent_id)
    late = clock.now() - settings.sessions.now_keep
    return [
        WriteFile(file.path, file.data, None)
        for file in list_files(workspace)
        if file.end
        and now.is_cleared(file.document)
        and moment_of(file.end) < late
        and _rests_since(workspace, file, late)
    ]


def read_said(connection: Connection, session_id: str) -> tuple[SaidEntry, ...]:
    """Return what was said in a session that its NOW file no longer holds."""
    return tuple(
        SaidEntry(_SPEAKERS.get(turn.role, "Note"), _said_by_tool(turn) if turn.role is Role.TOOL else turn.text)
        for turn in set_aside_scheduled(turns.stored_turns(connection, session_id))
        if turn.origin is not Origin.INJECTED and turn.text.strip()
    )


def _said_by_tool(turn: StoredTurn) -> str:
    """Return a tool's entry without the marks of its first line."""
    first, _, rest = turn.text.partition("\n")
    if not first.startswith(now_file.TOOL_MARK):
        return turn.text
    return f"{first.removeprefix(now_file.TOOL_MARK).removesuffix(']')}\n{rest}"


def _rests_since(workspace: Path, file: KeptFile, late: datetime) -> bool:
    """Return True if a file was cleared before a moment: a session that was left behind ended long before that."""
    return (workspace / file.path).stat().st_mtime < late.timestamp()


def _is_due(settings: Settings, clock: Clock, file: KeptFile) -> bool:
    is_old = file.began is not None and clock.now() - file.began >= settings.sessions.now_max_age
    return is_old or file.data.count(b"\n") >= settings.sessions.now_max_lines


def _find_read(connection: Connection, agent_id: str, file: KeptFile) -> RowMapping | None:
    """Return the session of a file whose every byte was read as it is now."""
    digest = regular.compute_digest(file.data)
    session_id = query.fetch_text(connection, _READ, agent_id, f"/{file.path}", digest)
    row = turns.session_row(connection, session_id) if session_id else None
    # A last line without a line end is read later than the rest.
    rest = clean(file.data.rpartition(b"\n")[2].decode(errors="replace")).strip()
    if row is None or not rest or any(rest in turn.text for turn in turns.stored_turns(connection, row["id"])):
        return row
    return None


def _list_writes(workspace: Path, clock: Clock, file: KeptFile, is_live: bool) -> Iterator[WriteFile]:  # noqa: FBT001
    stem = PurePosixPath(file.path).stem
    at = clock.text()
    header = file.document.header
    closed = now.close(file.data, at, (header.session_id if header else "") or stem)
    yield WriteFile(file.path, file.data, now.clear(closed))
    last = now.parse(closed).header
    if is_live and last is not None:
        begun = replace(
            last, session_id=f"sess_{token_hex(8)}", timestamp_start=at, timestamp_end=None, duration_minutes=None,
            parent_session=last.session_id,
        )  # fmt: skip
        name = _free_name(workspace, moment_of(at))
        yield WriteFile(f"{FOLDER}/{name}", None, now.render_header(begun))


def _free_name(workspace: Path, at: datetime) -> str:
    names = (f"NOW-{at:%Y-%m-%dT%H-%M}{'' if number == 1 else f'-{number}'}.md" for number in range(1, 10_000))
    return next(name for name in names if not (workspace / FOLDER / name).exists())
