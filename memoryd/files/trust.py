"""Check who else could write a file or folder that memoryd or its agents obey, or a transcript that memoryd believes.

The configuration names commands to run and folders to write. A workspace has text that agents take for their own
memory. Whoever may write them controls memoryd or the agents. So both must belong to this user or to root, and only
their owner may write them. A group with write permission is accepted if it is the owner's private group, which many
systems create for each user.
"""

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path
from shlex import quote

from memoryd.config import Settings
from memoryd.errors import ConfigError, StateError
from memoryd.files import git_exclude

_MEMORY = ("", "MEMORY.md", "memory", ".continuum", ".continuum/memory")  # parts of a workspace that are checked


def require(settings: Settings) -> None:
    """Refuse a configuration or a workspace that others could change.

    Raises:
        ConfigError: it lists all such paths.
    """
    problems = list_violations(settings)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} paths are open to others{listed}", hint="close them, then start again")


def is_owner(workspace: Path) -> bool:
    """Return True if this process runs as the owner of the workspace."""
    return not hasattr(os, "getuid") or workspace.stat().st_uid == os.getuid()


def list_violations(settings: Settings) -> list[ConfigError]:
    """Return the faults of the configuration file, its folder, and the memory folders of all enabled agents."""
    source = settings.source.resolve()
    # root works in workspaces of any owner, but runs only commands from its own configuration
    strangers = os.geteuid() == 0 and (settings.hooks.on_summary or settings.hooks.on_alarm) is None
    found = [_violation(source, stranger=strangers), _violation(source.parent, stranger=strangers, shared=True)]
    memory = [agent.workspace / name for agent in settings.agents if agent.enabled for name in _MEMORY]
    found += [_violation(path, stranger=os.geteuid() == 0) for path in memory]
    found += map(_file_violation, memory)
    return [problem for problem in found if problem is not None]


def find_fault(workspace: Path) -> ConfigError | None:
    """Return why a folder cannot be a workspace; None if it can."""
    return _violation(workspace, stranger=os.geteuid() == 0)


def require_source(path: Path, root: Path, workspace: Path, owners: Collection[int]) -> None:
    """Refuse a transcript that somebody else could have written, because it counts as words of the user and the agent.

    Args:
        path: path of the file.
        root: folder of its pattern; this folder and those in between are checked.
        workspace: workspace of the agent; files of its owner are accepted.
        owners: user ids whose files are accepted as well.

    Raises:
        StateError: it belongs to another user, or others can write it or its folder.
        FileNotFoundError: there is no such file.
    """
    taken = {0, os.geteuid(), workspace.stat().st_uid, *owners}
    uid = path.stat().st_uid
    if uid not in taken:
        owner = _name(uid).removeprefix("user ")
        hint = f"chown {os.geteuid()} {quote(str(path))}; or, if their sessions are meant, agents[].owners: [{owner}]"
        raise StateError(f"belongs to {_name(uid)}, so it is not read", str(path), hint)
    fault = _violation(path, stranger=True)
    if fault is not None:
        raise StateError(f"is not read, because it {fault.what}", str(path), fault.hint)
    for folder in (path.parent, *path.parent.parents):
        if not folder.is_relative_to(root):
            break
        fault = _violation(folder, stranger=folder.stat().st_uid in taken, shared=True)
        if fault is not None:
            raise StateError(f"is not read, because its folder {folder} {fault.what}", str(path), fault.hint)


def require_untracked(path: Path, folder: Path) -> None:
    """Refuse a new transcript in the agent's folder if git tracks it, because a clone may hold words of others.

    Raises:
        StateError: git tracks the file.
    """
    if path.is_relative_to(folder) and git_exclude.is_tracked(path):
        command = f"git -C {quote(str(path.parent))} rm --cached -- {quote(path.name)}"
        hint = f"if its sessions are yours: {command} (your file stays; the next commit takes it out of the repository)"
        raise StateError("is tracked by git, so another person may have written it; it is not read", str(path), hint)


def _violation(path: Path, *, stranger: bool, shared: bool = False) -> ConfigError | None:
    """Return the fault of one path; None if it has none.

    With `shared`, a folder is accepted in which anybody may create files but only their owners may rename or remove
    them.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    if not stranger and status.st_uid not in {0, os.geteuid()}:
        hint = f"give it back: chown {os.geteuid()} {quote(str(path))}"
        return ConfigError(f"belongs to {_name(status.st_uid)}, who could change it any time", str(path), hint)
    if shared and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return ConfigError("can be written by everybody on this machine", str(path), f"chmod o-w {quote(str(path))}")
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid):
        return ConfigError("can be written by others of its group", str(path), f"chmod g-w {quote(str(path))}")
    return None


def _file_violation(folder: Path) -> ConfigError | None:
    """Return the fault of a memory file in a folder that others can enter, because agents believe its content."""
    with contextlib.suppress(OSError):
        if folder.name == "memory" and folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            # One file of each mode and owner is enough, because looking up a group may be slow.
            kinds: dict[tuple[int, int, int], Path] = {}
            for path in sorted(folder.rglob("*")):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    kinds.setdefault((status.st_mode & 0o022, status.st_gid, status.st_uid), path)
            # Root works for other users, so it accepts their files. Anybody else accepts only their own and root's.
            is_root = os.geteuid() == 0
            fault = next(filter(None, (_violation(path, stranger=is_root) for path in kinds.values())), None)
            if fault is None or "chmod" not in str(fault.hint):
                return fault
            return ConfigError(fault.what, fault.where, f"chmod -R go-w {quote(str(folder))}")
    return None


def find_user(uid: int) -> str | None:
    """Return the login name of a user, or None for a user without a name."""
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return None


def _name(uid: int) -> str:
    return find_user(uid) or f"user {uid}"


def _is_private_group(gid: int, owner: int) -> bool:
    """Return True if only the owner and root are in a group. A group without an entry must have the owner's number."""
    uids = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid}
    try:
        members = grp.getgrgid(gid).gr_mem
    except KeyError:
        return uids <= {0, owner} and gid == owner
    for name in members:
        with contextlib.suppress(KeyError):
            uids.add(pwd.getpwnam(name).pw_uid)
    return uids <= {0, owner}
