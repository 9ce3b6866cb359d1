"""Distinguish the projects of one agent, so that a session gets only the state of its own project.

Two folders belong to one project if they are in one git work tree. Without a work tree, they do if they are in one
configured project or workspace. If all sessions of an agent were in one project, every session gets the state of that
project.
"""

import contextlib
import os.path
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from memoryd.clock import moment_of
from memoryd.config import Agent
from memoryd.database import reads
from memoryd.database.reads import DatabaseReader, Row
from memoryd.jobs.exchanges import is_scheduled
from memoryd.jobs.signals import says_nothing
from memoryd.ledger.foreign import Foreign
from memoryd.recall import project_state
from memoryd.recall.injection import Part
from memoryd.tiers.archive import name_of
from memoryd.tiers.session_summary import Section, parse_points
from memoryd.transcripts.registry import program_of

OTHER = ""  # stands for the root of a project without sessions
_LOOKED_AT = 8  # sessions to look at; the last one with a request gives the state
_MESSAGES = 8  # messages of each side; messages without content are skipped
_ATTRIBUTED = 500  # the most sessions whose entries in daily files and RECENT.md are assigned to projects


class Project(NamedTuple):
    """Hold a project of an agent."""

    root: str | None = None  # the root folder; None: all projects of the agent
    folders: tuple[str, ...] | None = None  # folders that its sessions recorded; None: any folder
    others: frozenset[str] = frozenset()  # sessions of other projects, by id and by name in an archive

    def has_session(self, name: str) -> bool:
        """Return False if a session is known to belong to another project."""
        return name not in self.others


def find_root(folder: str, agent: Agent) -> str:
    """Return the root folder of the project that contains `folder`; if it is empty, that of the agent's folder."""
    path = Path(os.path.realpath(str(folder or agent.folder).replace("\0", "")))
    for above in (path, *path.parents):
        with contextlib.suppress(OSError):
            if (above / ".git").exists():
                return str(above)
    tops = (Path(os.path.realpath(top)) for top in (agent.folder, *(one.project for one in agent.transcripts)) if top)
    holding = [top for top in tops if path.is_relative_to(top)]
    return str(max(holding, key=lambda top: len(top.parts), default=path))


def list_roots(reader: DatabaseReader, agent: Agent) -> dict[str, list[str]]:
    """Return the roots of an agent's projects, last used first, each with the folders that its sessions recorded."""
    roots: dict[str, list[str]] = {}
    for folder in reads.list_folders(reader, agent.id):
        roots.setdefault(find_root(folder, agent), []).append(folder)
    return roots


def find_project(reader: DatabaseReader, agent: Agent, root: str | None, *, is_known: bool = False) -> Project:
    """Return the project with this root. With `is_known`, a root without sessions stands for all projects."""
    roots = list_roots(reader, agent) if root is not None else {}
    if root is None or len(roots) < 2 or (is_known and root not in roots):
        return Project()
    folders = roots.get(root, [])
    known = reads.folders_by_session(reader, agent.id, _ATTRIBUTED)
    others = {name for one, folder in known.items() if folder not in folders for name in (one, name_of(one))}
    return Project(root if folders else OTHER, tuple(folders), frozenset(others))


def read_state(
    reader: DatabaseReader, agent: Agent, project: Project, asking: str | None, now: datetime
) -> tuple[Part | None, bool]:
    """Return the state that the last sessions left in a project, and whether the asking session came after them.

    The state is None if no recent session has a request.
    """
    rows = reads.last_sessions(reader, agent.id, project.folders, _LOOKED_AT)
    for at, row in enumerate(rows):
        before = [(_end_of(one, now).date(), parse_points(one["summary"] or "")) for one in rows[at + 1 :]]
        last = None if row["id"] == asking else _read_session(reader, row, now)
        if last and (part := project_state.make_part(last, now.date(), before)):
            return part, asking in {one["id"] for one in rows[:at]}
    return None, asking in {row["id"] for row in rows}


def _end_of(row: Row, now: datetime) -> datetime:
    return moment_of(row["last_turn_at"]).astimezone(now.tzinfo)


def _read_session(reader: DatabaseReader, row: Row, now: datetime) -> project_state.LastSession:
    said = [
        (one["seq"], project_state.SpokenMessage(origin == "user", one["text"]))
        for origin, after in (("user", 0), ("assistant", row["mark"]))  # the request may be before the mark
        for one in reads.read_messages(reader, row["id"], origin, after, _MESSAGES)
    ]
    spoken, scheduled = [], False
    for seq, one in sorted(said):
        scheduled = is_scheduled(one.text) if one.by_user else scheduled
        spoken += [] if scheduled or seq <= row["mark"] or says_nothing(one.text) else [one]
    remove = _make_remover(reader, row["id"], row["folder"]) if spoken else str
    # A session has no summary before its first sleep. Its own branch hides the branch of an earlier session.
    here = f"### {Section.STATE}\n- Branch: `{row['branch']}`" if spoken and row["branch"] else ""
    summary = parse_points(row["summary"] or here)
    return project_state.LastSession(row["id"], program_of(row["format"]), _end_of(row, now), summary, spoken, remove)


# A cache: for a long session, this takes as long as an agent may wait. The key changes with the session. Only results
# are stored, because the texts of a long session take many megabytes.
_KNOWN: OrderedDict[tuple[str, int, int, str], str] = OrderedDict()
_MOST_KNOWN = 64


def _make_remover(reader: DatabaseReader, session_id: str, folder: str | None) -> Callable[[str], str]:
    """Return a function that replaces the tokens of a text that only outside text of the session has."""
    length = reads.read_length(reader, session_id)
    foreign = cache(lambda: Foreign(reads.stored_turns(reader, session_id), folder))

    def remove(text: str) -> str:
        key = (session_id, *length, text)
        known = _KNOWN.pop(key, None)
        _KNOWN[key] = shown = foreign().remove_tokens(text) if known is None else known
        if len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.popitem(last=False)
        return shown

    return remove
