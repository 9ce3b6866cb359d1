"""Start, continue and end sessions in NOW files, without a daemon or a database.

The current session is the newest open one. Text is redacted before it is written. The agent's files are locked only
during a change. An entry is one append, and only the header is rewritten.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from memoryd.changing import now_folder
from memoryd.changing.now_folder import NowSession
from memoryd.clock import text_of, utc_now
from memoryd.config import Agent, Settings
from memoryd.errors import ConfigError, NotFoundError
from memoryd.files import appends, durable, folders, regular
from memoryd.files.open_folder import FolderEntry, OpenFolder
from memoryd.files.workspace import lock_workspace
from memoryd.requests import scanner
from memoryd.text.private import is_private
from memoryd.text.tags import find_tags
from memoryd.tiers import now
from memoryd.tiers.now import NowHeader
from memoryd.transcripts import now_file
from memoryd.transcripts.now_file import EXIT, EXIT_AND_CONSOLIDATE

ROLES = ("user", "agent", "tool")
PRIVATE = "private: true"
_MOST_TAGS = 50
_ATTEMPTS = 5  # how often to try a change of the header while an agent writes into the file


def describe(one: NowSession) -> dict[str, Any]:
    """Return a session as a dict for programs."""
    found = one.header
    return {
        "session": found.session_id, "path": one.path, "parent_session": found.parent_session,
        "started_at": found.timestamp_start, "ended_at": found.timestamp_end,
        "duration_minutes": found.duration_minutes, "project_path": found.project_path, "tags": list(found.tags),
        "related_tasks": list(found.related_tasks), "private": one.is_private,
    }  # fmt: skip


# --- what there is ----------------------------------------------------------------------------------------------------


def list_sessions(agent: Agent) -> list[NowSession]:
    """Return the sessions that have a NOW file, oldest first."""
    return [one for one in now_folder.list_files(agent.workspace) if not one.is_capture]


def _read_sessions(folder: OpenFolder) -> list[NowSession]:
    return [one for one in now_folder.read_files(folder) if not one.is_capture]


def _newest_open(found: Sequence[NowSession]) -> NowSession | None:
    return next((one for one in reversed(found) if one.is_open), None)


def _choose(found: Sequence[NowSession], session_id: str) -> NowSession:
    """Return a session by its id or its file name.

    If its file was closed early, return the session that continues it.
    """
    names = {session_id, f"{session_id}.md"}
    chosen = next((one for one in found if one.header.session_id in names or one.name in names), None)
    if chosen is None:
        raise NotFoundError(f"no NOW file is of a session {session_id!r}", hint="memoryd session list shows them")
    for later in found:  # the continuation begins when the earlier file was closed
        link, following = chosen.header, later.header
        if following.parent_session == link.session_id and following.timestamp_start == link.timestamp_end is not None:
            chosen = later
    return chosen


# --- changes ----------------------------------------------------------------------------------------------------------


def start(
    settings: Settings,
    agent: Agent,
    *,
    tags: Sequence[str] = (),
    tasks: Sequence[str] = (),
    project: str | Path | None = None,
    private: bool = False,
) -> dict[str, Any]:
    """Start a session and return it. Its parent is the newest earlier session, open or ended.

    `project` is the folder that it is about, by default the agent's.
    """
    folder, *words = scanner.redact(settings, [str(project or agent.folder), *tags, *tasks])
    about, extra = words[len(tags) :], (PRIVATE,) if private else ()
    named = tuple(dict.fromkeys(tag for word in words[: len(tags)] if (tag := word.strip().lstrip("#@"))))
    header = NowHeader("", None, project_path=folder, tags=named, related_tasks=tuple(about), extra=extra)
    with _lock_files(settings, agent) as place:
        return describe(_begin(place, header, _read_sessions(place), utc_now()))


def append(
    settings: Settings,
    agent: Agent,
    role: str,
    text: str,
    *,
    tool: str | None = None,
    summary: str | None = None,
    session_id: str | None = None,
) -> dict[str, Any]:
    """Append an entry to a session and return the session. If none is open, start one.

    A user's `/exit` ends the session instead. If the file is then too long or too old, it is closed, and a new session
    continues it; its id is in `continued_in`.

    Raises:
        ConfigError: There is no such role, or no text.
        NotFoundError: There is no session with this id, or none to exit.
        StateError: The file cannot be written.
    """
    if role not in ROLES:
        raise ConfigError(f"{role!r} is no role", "role", f"one of {', '.join(ROLES)}")
    if not text.strip():
        raise ConfigError("there is no text", "session append", "give the text, or - and the text on standard input")
    if role == "user" and text.strip() in {EXIT, EXIT_AND_CONSOLIDATE}:
        return end(settings, agent, session_id=session_id, consolidate=text.strip() == EXIT_AND_CONSOLIDATE)
    folder, text, tool, summary = scanner.redact(settings, [str(agent.folder), text, tool or "", summary or ""])
    with _lock_files(settings, agent) as place:
        found, at = _read_sessions(place), utc_now()
        chosen = _newest_open(found) if session_id is None else _choose(found, session_id)
        if chosen is None or not chosen.is_open:
            new = NowHeader("", None, project_path=folder) if chosen is None else _next_header(chosen.header)
            chosen = _begin(place, new, found, at)
        entry = place / chosen.name
        appends.append(entry, now.seam(chosen.data) + now.render_entry(role, text, tool, summary))
        tags = () if role == "tool" else find_tags(text)
        data = _change(entry, lambda data: _add_tags(data, tags))
        written = NowSession(chosen.name, data, now.parse(data))
        if not written.is_due(settings, at):
            return describe(written) | {"continued_in": None}
        closed = _close(place, chosen, at)
        later = _begin(place, _next_header(closed.header), [closed], at)
        return describe(closed) | {"continued_in": later.header.session_id}


def end(
    settings: Settings, agent: Agent, *, session_id: str | None = None, consolidate: bool = False
) -> dict[str, Any]:
    """End a session, by default the current one, and return it. A session that has ended stays unchanged.

    Raises:
        NotFoundError: There is no session with this id, or none is open.
        StateError: The file cannot be written.
    """
    with _lock_files(settings, agent) as place:
        found = _read_sessions(place)
        chosen = _newest_open(found) if session_id is None else _choose(found, session_id)
        if chosen is None:
            raise NotFoundError("no session is open", agent.id, "memoryd session start starts one")
        told = describe(_close(place, chosen, utc_now()))
    if consolidate:
        from memoryd.requests import consolidating

        told["consolidation"] = consolidating.consolidate(settings, agent)
    return told


@contextmanager
def _lock_files(settings: Settings, agent: Agent) -> Iterator[OpenFolder]:
    folders.make_memory_folders(settings)
    with lock_workspace(agent.workspace) as opened:
        _clear_leftovers(opened.continuum)
        yield opened.continuum


def _clear_leftovers(folder: OpenFolder) -> None:
    """Remove leftovers of a killed writer if the NOW file has all of their text."""
    for left in folder.leftovers():
        if now_file.is_now_path(PurePosixPath(left.target)):
            entry = folder / left.target
            old, data = regular.read(left.entry) or b"", regular.read(entry) or b""
            if left.kind == "new" or now.parse(data).body.startswith(now.parse(old).body):
                durable.settle(entry, regular.compute_digest(old), regular.compute_digest(data))


def _next_header(last: NowHeader) -> NowHeader:
    """Return the header of a session that continues another one, with the same subject and the same privacy."""
    kept = tuple(line for line in last.extra if is_private("", f"---\n{line}\n---\n".encode()))
    return replace(last, timestamp_end=None, duration_minutes=None, parent_session=last.session_id, extra=kept)


def _begin(folder: OpenFolder, header: NowHeader, found: Sequence[NowSession], at: datetime) -> NowSession:
    """Create the file of a new session. Its name has a number only if the plain name is taken."""
    parent = header.parent_session or (found[-1].header.session_id if found else None)
    new_id = f"sess_{secrets.token_hex(8)}"
    made = replace(header, session_id=new_id, timestamp_start=text_of(at), parent_session=parent)
    data = now.render_header(made)
    while True:
        name = now_folder.find_free_name(at, lambda name: (folder / name).exists())
        with suppress(durable.MovedError):  # another process has just taken the name
            durable.replace(folder / name, data, None)
            break
    return NowSession(name, data, now.parse(data))


def _close(folder: OpenFolder, chosen: NowSession, at: datetime) -> NowSession:
    data = _change(folder / chosen.name, lambda data: now.close(data, text_of(at), chosen.header.session_id))
    return NowSession(chosen.name, data, now.parse(data))


def _change(entry: FolderEntry, change: Callable[[bytes], bytes], attempts: int = _ATTEMPTS) -> bytes:
    """Rewrite a file by a function, and return the new bytes. Entries that others append meanwhile are kept.

    Raises:
        NotFoundError: The file does not exist any more.
        MovedError: The file changed at each attempt.
    """
    data = regular.read(entry)
    if data is None:
        raise NotFoundError("the NOW file is gone", str(entry.path), "memoryd session start starts a session")
    changed = change(data)
    try:
        if changed != data:
            durable.replace(entry, changed, regular.compute_digest(data))
    except durable.MovedError:
        if attempts == 1:
            raise
        return _change(entry, change, attempts - 1)
    return changed


def _add_tags(data: bytes, tags: Sequence[str]) -> bytes:
    header = now.parse(data).header
    new = [tag for tag in tags if header is not None and tag not in header.tags]
    if header is None or not new or len(header.tags) >= _MOST_TAGS:
        return data
    return now.set_fields(data, {"tags": (*header.tags, *new)[:_MOST_TAGS]})
