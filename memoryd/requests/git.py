"""Let people keep memory in git: opt in and out, show the state, and resolve the conflicts that merges leave."""

from pathlib import Path
from typing import Any

from memoryd.config import Agent, Settings
from memoryd.errors import NotFoundError, RefusedError
from memoryd.files import durable, folders, git_exclude, regular
from memoryd.files.open_folder import open_folder
from memoryd.files.workspace import lock_workspace
from memoryd.requests import permission, scanner
from memoryd.scrub.hidden import find_hidden
from memoryd.text.conflicts import Side, find_conflicts, resolve
from memoryd.text.private import is_private
from memoryd.tiers.archive import FOLDER

_IGNORE = f"{FOLDER}/.gitignore"
_ATTRIBUTES = f"{FOLDER}/.gitattributes"
# Paths that git ignores even if the rest of the memory is tracked.
_KEPT_OUT = "# Written by `memoryd git track`.\nbackup/\n.lock\n.workspace-id\n.late-*\n.memoryd-*\n*.private\n"
_MERGED = "consolidation.log merge=union\n"
_ALL = "*\n"


def track(settings: Settings, agent: Agent) -> dict[str, Any]:
    """Let git see an agent's memory files; commit nothing. Return the state and the `next` command.

    Raises:
        NotFoundError: The workspace is in no git work tree.
        RefusedError: A file holds a secret or is private.
    """
    permission.require(settings, agent, "edit", "owner", "git track")
    _require_repository(agent)
    if faults := list_faults(settings, agent):
        listed = "; ".join(f"{one['path']}:{one['line']} holds {one['what']}" for one in faults[:5])
        hint = "memoryd scrub --again redacts secrets; move private files out of the folder, or take the mark out"
        raise RefusedError(f"not tracked: {listed}", str(agent.workspace), hint)
    with lock_workspace(agent.workspace):
        git_exclude.remove(agent.workspace, even_there=True)
        _put(agent.workspace, _IGNORE, _KEPT_OUT)
        _put(agent.workspace, _ATTRIBUTES, _MERGED)
    names = [name for name in git_exclude.NAMES if (agent.workspace / name).exists()]
    return describe(settings, agent) | {"next": f"git add {' '.join(names)} && git commit -m 'Track memory'"}


def untrack(settings: Settings, agent: Agent) -> dict[str, Any]:
    """Hide an agent's memory files from git again. Versions that were committed stay in its history."""
    permission.require(settings, agent, "edit", "owner", "git untrack")
    _require_repository(agent)
    held = git_exclude.list_tracked(agent.workspace)
    with lock_workspace(agent.workspace):
        _put(agent.workspace, _IGNORE, _ALL)
        git_exclude.add(agent.workspace, even_tracked=True)
    return describe(settings, agent) | {"next": f"git rm -r --cached {' '.join(held)}" if held else ""}


def describe(settings: Settings, agent: Agent) -> dict[str, Any]:
    """Return whether git sees an agent's memory, what prevents tracking (`faults`), and which merges are open."""
    root = git_exclude.find_root(agent.workspace)
    return {
        "repository": root,
        "tracked": git_exclude.list_tracked(agent.workspace) if root else [],
        "ignored": git_exclude.list_ignored(agent.workspace) if root else [],
        "conflicts": _list_conflicts(agent),
        "faults": list_faults(settings, agent) if root else [],
    }


def list_faults(settings: Settings, agent: Agent) -> list[dict[str, Any]]:
    """Return the secrets and private parts in memory files: path, line and kind, never the text."""
    read = {path: regular.read_in(agent.workspace, path) or b"" for path in _list_files(agent.workspace)}
    private = [path for path, data in read.items() if is_private(path, data)]
    shown = {path: data.decode("utf-8", "replace") for path, data in read.items() if path not in private}
    clean = scanner.redact(settings, list(shown.values()))
    faults = [{"path": path, "line": 1, "what": "a private mark"} for path in private]
    for (path, text), redacted in zip(shown.items(), clean, strict=True):
        hidden = [] if find_conflicts(read[path]) else find_hidden(read[path])
        if hidden or redacted != text:
            at = read[path].count(b"\n", 0, hidden[0].first) + 1 if hidden else _first_change(text, redacted)
            faults.append({"path": path, "line": at, "what": "a private part" if hidden else "a secret"})
    return faults


def show_conflicts(agent: Agent, given: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the path of a file in the workspace, and its conflicts with line and both sides.

    Raises:
        NotFoundError: There is no such memory file, or it holds no conflict.
    """
    path = _find_file(agent, given)
    found = find_conflicts(regular.read_in(agent.workspace, path) or b"")
    if not found:
        raise NotFoundError("holds no conflict", path, "memoryd git status lists the files that do")
    sides = [(one.line, one.ours.decode("utf-8", "replace"), one.theirs.decode("utf-8", "replace")) for one in found]
    return path, [{"line": line, "ours": ours, "theirs": theirs} for line, ours, theirs in sides]


def resolve_file(settings: Settings, agent: Agent, given: str, side: Side) -> dict[str, Any]:
    """Resolve the conflicts of a memory file as a person's edit. The old bytes go to the backup folder.

    Raises:
        NotFoundError: There is no such memory file, or it holds no conflict.
        MovedError: Another process is changing the file.
    """
    permission.require(settings, agent, "edit", "owner", "resolve")
    path, found = show_conflicts(agent, given)
    with lock_workspace(agent.workspace) as place:
        data = regular.read_in(agent.workspace, path) or b""
        digest = regular.compute_digest(data)
        kept = folders.backup(place.continuum, f"resolve-{digest[:12]}", Path(path).name, data)
        with folders.made_way(place.workspace, path) as entry:
            durable.replace(entry, resolve(data, side), digest)
    return {"path": path, "conflicts": len(found), "side": str(side), "backup": str(kept)}


def _require_repository(agent: Agent) -> None:
    if git_exclude.find_root(agent.workspace) is None:
        raise NotFoundError("the workspace is in no git work tree", str(agent.workspace), "git init makes one")


def _list_conflicts(agent: Agent) -> list[dict[str, Any]]:
    read = {path: regular.read_in(agent.workspace, path) or b"" for path in _list_files(agent.workspace)}
    found = {path: [one.line for one in find_conflicts(data)] for path, data in read.items()}
    return [{"path": path, "lines": lines} for path, lines in found.items() if lines]


def _list_files(workspace: Path) -> list[str]:
    """Return the paths of the memory files that git would track, relative to the workspace."""
    found = [workspace / "MEMORY.md", *(workspace / "memory").rglob("*.md"), *(workspace / FOLDER).glob("*")]
    found += (workspace / FOLDER / "archive").glob("*.md")
    return sorted(
        str(path.relative_to(workspace))
        for path in found
        if path.is_file() and not path.is_symlink() and not path.name.startswith(".")
    )


def _find_file(agent: Agent, given: str) -> str:
    """Return the path of a file in the workspace. `given` is a path from the current folder, or the name of the file.

    Raises:
        NotFoundError: It is not a memory file of this agent.
    """
    there = _list_files(agent.workspace)
    asked = Path(given).absolute()
    names = [given, str(asked.relative_to(agent.workspace)) if asked.is_relative_to(agent.workspace) else given]
    found = [path for path in there if path in names] or [path for path in there if path.endswith(f"/{given}")]
    if not found:
        raise NotFoundError(
            "is not a memory file of this agent", given, "memoryd git status lists files with conflicts"
        )
    return found[0]


def _put(workspace: Path, path: str, text: str) -> None:
    """Write a file for git, unless a person has changed it."""
    old = regular.read_in(workspace, path)
    if old is not None and old.decode("utf-8", "replace") not in {_ALL, _KEPT_OUT, _MERGED, "*"}:
        return
    with open_folder(workspace) as folder, folders.made_way(folder, path) as entry:
        durable.exchange(entry, old, text.encode())


def _first_change(text: str, redacted: str) -> int:
    """Return the number of the first line that differs, counted from 1."""
    both = zip(text.split("\n"), redacted.split("\n"), strict=False)
    return next((number for number, (one, other) in enumerate(both, 1) if one != other), 1)
