"""Find out who else could write a file or folder that memoryd or its agents obey, or a transcript that it believes.

The configuration names commands to run and folders to write. A workspace holds text that agents take for their own
memory. A person who may write one of them controls memoryd or the agents. So both must belong to this user or to root,
and only their owner may write them. A group counts as nobody if it is its owner's private group, which many systems
give each user: nobody else is in it.
"""

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

from memoryd.config import Settings
from memoryd.errors import ConfigError, StateError

_MEMORY = ("", "MEMORY.md", "memory", ".continuum", ".continuum/memory")  # the parts of a workspace that are checked


def require(settings: Settings) -> None:
    """Refuse a configuration that others could change, and workspaces that others could write."""
    problems = list_violations(settings)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} paths are open to others{listed}", hint="close them, then start again")


def is_owner(workspace: Path) -> bool:
    """Return True if this process runs as the user who owns the workspace."""
    return not hasattr(os, "getuid") or workspace.stat().st_uid == os.getuid()


def list_violations(settings: Settings) -> list[ConfigError]:
    """Check the configuration file, its folder, and the workspaces and memory folders of all enabled agents."""
    source = settings.source.resolve()
    # root serves any owner's workspaces, but takes commands from root alone
    commands = settings.hooks.on_summary or settings.hooks.on_alarm
    strangers = os.geteuid() == 0 and commands is None
    found = [_violation(source, stranger=strangers), _violation(source.parent, stranger=strangers, shared=True)]
    memory = [agent.workspace / name for agent in settings.agents if agent.enabled for name in _MEMORY]
    found += [_violation(path, stranger=os.geteuid() == 0) for path in memory]
    found += map(_file_violation, memory)
    return [problem for problem in found if problem is not None]


def find_fault(workspace: Path) -> ConfigError | None:
    """Return why a folder cannot be a workspace; None if it can."""
    return _violation(workspace, stranger=os.geteuid() == 0)


def require_source(path: Path, root: Path, workspace: Path, owners: Collection[int]) -> None:
    """Refuse a transcript that somebody else could have written: it would speak for the user and their agent.

    Args:
        path: of the file.
        root: the folder of its pattern; it and the folders between are checked.
        workspace: of the agent; its owner's files are accepted.
        owners: numbers of other users whose files are accepted as well.

    Raises:
        StateError: it is another user's, or others can write it or its folder.
        FileNotFoundError: there is no such file.
    """
    taken = {0, os.geteuid(), workspace.stat().st_uid, *owners}
    uid = path.stat().st_uid
    if uid not in taken:
        owner = _name(uid).removeprefix("user ")
        hint = f"chown {os.geteuid()} {path}; or, if their sessions are meant, agents[].owners: [{owner}]"
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


def _violation(path: Path, *, stranger: bool, shared: bool = False) -> ConfigError | None:
    """Return the fault of one path.

    `shared`: a folder is accepted in which anybody may create files, but only their owners rename or remove them.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    if not stranger and status.st_uid not in {0, os.geteuid()}:
        hint = f"give it back: chown {os.geteuid()} {path}"
        return ConfigError(f"belongs to {_name(status.st_uid)}, who could change it any time", str(path), hint)
    if shared and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return ConfigError("can be written by everybody on this machine", str(path), f"chmod o-w {path}")
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid):
        return ConfigError("can be written by others of its group", str(path), f"chmod g-w {path}")
    return None


def _file_violation(folder: Path) -> ConfigError | None:
    """Return the fault of a file of memory in a folder that others can enter: what is in it, agents believe."""
    with contextlib.suppress(OSError):
        if folder.name == "memory" and folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            # One file of each kind is enough, since to look up a group may be slow.
            kinds: dict[tuple[int, int, int], Path] = {}
            for path in sorted(folder.rglob("*")):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    kinds.setdefault((status.st_mode & 0o022, status.st_gid, status.st_uid), path)
            # Root reads what belongs to others; for everybody else, a file of somebody else is no memory of theirs.
            is_root = os.geteuid() == 0
            fault = next(filter(None, (_violation(path, stranger=is_root) for path in kinds.values())), None)
            if fault and (fault.hint or "").startswith("chmod"):
                return ConfigError(fault.what, fault.where, f"chmod -R go-w {folder}")
            return fault
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _is_private_group(gid: int, owner: int) -> bool:
    """Return True if only the owner and root are in a group, or if it has no entry and the owner's own number."""
    uids = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid}
    try:
        members = grp.getgrgid(gid).gr_mem
    except KeyError:
        return uids <= {0, owner} and gid == owner
    for name in members:
        with contextlib.suppress(KeyError):
            uids.add(pwd.getpwnam(name).pw_uid)
    return uids <= {0, owner}
