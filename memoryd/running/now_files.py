"""Find the NOW files that are due for a rollover, and what must be kept of them.

A file is due when its session has ended, when it is too long or too old, or when somebody asks. It is cleared only if
the database has all its bytes: the hash of the last reading must be that of the present file.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from sqlalchemy import Connection

from memoryd.changing import now_folder
from memoryd.changing.now_folder import NowSession
from memoryd.clock import Clock, moment_of
from memoryd.config import Settings
from memoryd.database import query, turns
from memoryd.files import regular
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.job import WriteFile
from memoryd.tiers import now
from memoryd.tiers.archive import FOLDER, SaidEntry
from memoryd.tiers.now import NowHeader
from memoryd.transcripts import now_file
from memoryd.transcripts.lines import clean
from memoryd.transcripts.turn import Origin, Role, StoredTurn

_NEAR = 0.9  # share of a limit
_SPEAKERS = {Role.USER: "User", Role.ASSISTANT: "Agent", Role.TOOL: "Tool"}
# The end of the path is compared, because a dry run has its copy of the workspace in another folder.
_READ = (
    "SELECT session_id FROM transcript WHERE agent_id = ?1 AND substr(path, -length(?2)) = ?2 AND prefix_sha256 = ?3"
    " AND session_id IS NOT NULL"
)


class DueNowFile(NamedTuple):
    """Hold a NOW file that is due for a rollover."""

    session_id: str
    header: NowHeader | None
    writes: tuple[WriteFile, ...]  # writes the cleared file, and a file that continues its session


def list_files(workspace: Path) -> list[NowSession]:
    """Return the NOW files that people and agents write, oldest first, without private ones."""
    return [one for one in now_folder.list_files(workspace) if not (one.is_private or one.is_capture)]


def list_due(
    connection: Connection, settings: Settings, clock: Clock, agent_id: str, asked_before: datetime | None = None
) -> list[DueNowFile]:
    """Return an agent's NOW files that are due and completely read.

    With `asked_before`, files that began before this time are due as well.
    """
    workspace = settings.get_agent(agent_id).workspace
    found = []
    for file in list_files(workspace):
        is_asked = asked_before is not None and (file.began is None or file.began < asked_before)
        is_long = not file.end and file.is_due(settings, clock.now())
        is_wanted = bool(file.end) or is_asked or is_long
        if is_wanted and not now.is_fresh(file.document) and not now.is_cleared(file.document):
            row = _find_read(connection, agent_id, file)
            if row is not None:
                is_live = is_long and not is_asked and row["state"] == "active"
                writes = tuple(_list_writes(workspace, clock, file, is_live))
                found.append(DueNowFile(row["id"], file.document.header, writes))
    return found


def is_near_limit(settings: Settings, clock: Clock, workspace: Path) -> bool:
    """Return True if an open NOW file has reached nine tenths of the limit of lines or age."""
    return any(
        file.is_due(settings, clock.now(), _NEAR)
        for file in list_files(workspace)
        if not file.end and not now.is_fresh(file.document)
    )


def list_stale(settings: Settings, agent_id: str, before: datetime) -> list[NowSession]:
    """Return an agent's NOW files that began before a time and were never rolled over."""
    return [
        file
        for file in list_files(settings.get_agent(agent_id).workspace)
        if file.document.body.strip() and (file.began is None or file.began < before)
    ]


def list_gone(settings: Settings, clock: Clock, agent_id: str) -> list[WriteFile]:
    """Return the deletions of NOW files that were cleared longer ago than `sessions.now_keep`."""
    workspace = settings.get_agent(agent_id).workspace
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
    """Return the stored messages of a session, because its NOW file is cleared."""
    return tuple(
        SaidEntry(_SPEAKERS.get(turn.role, "Note"), _said_by_tool(turn) if turn.role is Role.TOOL else turn.text)
        for turn in set_aside_scheduled(turns.stored_turns(connection, session_id))
        if turn.origin is not Origin.INJECTED and turn.text.strip()
    )


def _said_by_tool(turn: StoredTurn) -> str:
    """Return the text of a tool's entry without the markup of its first line."""
    first, _, rest = turn.text.partition("\n")
    if not first.startswith(now_file.TOOL_MARK):
        return turn.text
    return f"{first.removeprefix(now_file.TOOL_MARK).removesuffix(']')}\n{rest}"


def _rests_since(workspace: Path, file: NowSession, late: datetime) -> bool:
    """Return True if a file was last changed before a time; the end of its session may be much older."""
    try:
        return (workspace / file.path).stat().st_mtime < late.timestamp()
    except FileNotFoundError:  # deleted after it was listed
        return False


def _find_read(connection: Connection, agent_id: str, file: NowSession) -> query.Row | None:
    """Return the session row of a file if its present content was completely read; otherwise None."""
    session_id = query.fetch_text(connection, _READ, agent_id, f"/{file.path}", regular.compute_digest(file.data))
    row = turns.session_row(connection, session_id) if session_id else None
    # The last line is not read yet if it has no line end. Then the file must stay.
    rest = clean(file.data.rpartition(b"\n")[2].decode(errors="replace")).strip()
    if row is None or not rest or any(rest in turn.text for turn in turns.stored_turns(connection, row["id"])):
        return row
    return None


def _list_writes(workspace: Path, clock: Clock, file: NowSession, is_live: bool) -> Iterator[WriteFile]:  # noqa: FBT001
    at = clock.text()
    closed = now.close(file.data, at, file.header.session_id)
    yield WriteFile(file.path, file.data, now.clear(closed))
    last = now.parse(closed).header
    if is_live and last is not None:
        begun = replace(
            last, session_id=f"sess_{token_hex(8)}", timestamp_start=at, timestamp_end=None, duration_minutes=None,
            parent_session=last.session_id,
        )  # fmt: skip
        name = now_folder.find_free_name(moment_of(at), lambda name: (workspace / FOLDER / name).exists())
        yield WriteFile(f"{FOLDER}/{name}", None, now.render_header(begun))
