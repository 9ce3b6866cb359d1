"""Maintain the files about sessions by hand: check them, repair `RECENT.md`, and move archive files."""

import difflib
import re
from pathlib import Path
from typing import Any

from memoryd.changing.core_import import RESOLVE
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.errors import NotFoundError, RefusedError, StateError
from memoryd.files import appends, durable, folders, regular
from memoryd.files.workspace import lock_workspace
from memoryd.requests import permission
from memoryd.text.conflicts import is_conflicted
from memoryd.text.private import is_private
from memoryd.tiers import archive, consolidation_log, recent, validation
from memoryd.tiers.archive import FOLDER, MOVED
from memoryd.tiers.consolidation_log import LogEntry, LoggedFile
from memoryd.tiers.validation import FileProblem


def validate(agent: Agent) -> list[FileProblem]:
    """Return the faults of the files in an agent's `.continuum/memory/`. Private files are not read."""
    unread: list[FileProblem] = []
    return sorted([*validation.find_problems(_read(agent, unread)), *unread])


def repair_recent(settings: Settings, agent: Agent, *, dry_run: bool = False) -> dict[str, Any]:
    """Repair title, order, number of sessions, duplicates and links of `RECENT.md`. Return `changed` and `diff`.

    Raises:
        RefusedError: A merge of the file is not finished, or this caller may not edit memory.
    """
    permission.require(settings, agent, "edit", "owner", "repair recent")
    files = _read(agent)
    old = files.get(recent.NAME, b"")
    if is_conflicted(old):
        raise RefusedError("holds a merge that nobody has solved yet", recent.NAME, RESOLVE)
    places = {
        name: path
        for path, data in sorted(files.items(), reverse=True)
        if archive.LINK.match(f"{path}#")
        for name in archive.list_names(archive.split_parts(data))
    }
    new = recent.repair(old, settings.sessions.recent_sessions, places) if old else old
    told = {"changed": new != old, "diff": show_diff(old, new, recent.NAME)}
    if new != old and not dry_run:
        _rewrite(agent, "RECENT repaired", {recent.NAME: (old, new)})
    return told


def move_to_archive(settings: Settings, agent: Agent, given: str) -> dict[str, Any]:
    """Move a day file of the archive into the folder `archive/`, and rewrite the links to it.

    The new file is written first and the old one is removed last. So a second call completes a call that was
    interrupted.

    Raises:
        RefusedError: The file is not a day file, a merge is not finished, or this caller may not edit memory.
        NotFoundError: There is no such file.
    """
    permission.require(settings, agent, "edit", "owner", "archive")
    name = Path(given).name
    if not archive.NAME.fullmatch(name):
        hint = "give a MEMORY-YYYY-MM-DD.md of .continuum/memory/"
        raise RefusedError("is not a day file of the archive", given, hint)
    files = _read(agent)
    moved = f"{MOVED}/{name}"
    if name not in files:
        if moved in files:
            return {"path": f"{FOLDER}/{moved}", "moved": False, "files": []}
        raise NotFoundError("is not a file of this agent's archive", given, "memoryd validate shows broken links")
    if any(map(is_conflicted, files.values())):
        raise RefusedError("a merge of a memory file is not finished", agent.id, RESOLVE)
    inside = re.sub(rb"\]\((MEMORY-\d{4}-\d\d-\d\d\.md)(?=[#)])", rb"](../\1", files[name])
    changes: dict[str, tuple[bytes | None, bytes | None]] = {moved: (files.get(moved), inside)}
    for path, data in files.items():
        lead = b"" if path.startswith(f"{MOVED}/") else f"{MOVED}/".encode()
        new = re.sub(rb"\]\((?:\.\./)?" + re.escape(name.encode()) + rb"(?=[#)])", b"](" + lead + name.encode(), data)
        if path not in {name, moved} and new != data and not path.endswith(consolidation_log.NAME):
            changes[path] = (data, new)
    changes[name] = (files[name], None)
    _rewrite(agent, "Archive file moved", changes)
    return {"path": f"{FOLDER}/{moved}", "moved": True, "files": [f"{FOLDER}/{path}" for path in changes]}


def _read(agent: Agent, unread: list[FileProblem] | None = None) -> dict[str, bytes]:
    """Return the Markdown files and the log, by path in the folder. Private files are left out.

    A file that cannot be read is added to `unread`. Without that list, its error is raised.
    """
    folder = agent.workspace / FOLDER
    found: dict[str, bytes] = {}
    for path in sorted([*folder.glob("*.md"), *folder.glob(f"{MOVED}/*.md"), folder / consolidation_log.NAME]):
        name = str(path.relative_to(folder))
        try:
            data = regular.read_in(agent.workspace, f"{FOLDER}/{name}") if path.is_file() else None
        except StateError as error:
            if unread is None:
                raise
            unread.append(FileProblem(name, 1, error.what, error.hint))
            continue
        if data is not None and not is_private(name, data):
            found[name] = data
    return found


def _rewrite(agent: Agent, action: str, changes: dict[str, tuple[bytes | None, bytes | None]]) -> None:
    """Replace files, each only if it still has its old bytes.

    Keep the old bytes in the backup folder, and log the change.

    Raises:
        MovedError: A file was changed at the same time. Earlier changes stay, and a second call completes them.
    """
    now = Clock().now()
    with lock_workspace(agent.workspace) as place:
        for path, (old, new) in changes.items():
            with folders.made_way(place.continuum, path) as entry:
                if old is not None:
                    folders.backup(place.continuum, f"by-hand-{now:%Y%m%dT%H%M%S}", entry.name, old)
                durable.exchange(entry, old, new)
        files = tuple(
            LoggedFile(f"{FOLDER}/{path}", _count_lines(old), _count_lines(new)) for path, (old, new) in changes.items()
        )
        entry = place.continuum / consolidation_log.NAME
        appends.append(entry, consolidation_log.render_entry(LogEntry(now, action, files, (), "human, by hand")), b"")


def _count_lines(data: bytes | None) -> int | None:
    return None if data is None else len(_lines(data))


def show_diff(old: bytes, new: bytes, path: str) -> str:
    """Return a unified diff of the two versions of a file."""
    return "\n".join(difflib.unified_diff(_lines(old), _lines(new), f"a/{path}", f"b/{path}", lineterm=""))


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines()
