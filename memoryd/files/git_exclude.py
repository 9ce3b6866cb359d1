"""Ask git what it tracks, and keep memory out of it by lines in `.git/info/exclude`, which other people do not get."""

import contextlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from memoryd.errors import MemorydError
from memoryd.files.durable import replace
from memoryd.files.open_folder import follow_folder
from memoryd.files.regular import as_state_error, compute_digest, read

NAMES = ("MEMORY.md", "memory/", ".continuum/memory/")
AIDER = (".aider.conf.yml",)
_HEAD = "# Written by `memoryd init`:"
_SECONDS = 10


def add(workspace: Path, names: Sequence[str] = NAMES, *, even_tracked: bool = False) -> None:
    """Exclude files of a workspace, except memory that git tracks. Outside a git repository, do nothing."""
    if (found := _read_exclude(workspace)) is None:
        return
    path, prefix, text = found
    tracked = [] if even_tracked else list_tracked(workspace)
    lines = [f"/{prefix}{name}\n" for name in names if name not in tracked]
    if lines := [line for line in lines if line.strip() not in text.split("\n")]:
        lead = "" if not text or text.endswith("\n") else "\n"
        headed = text if f"{_HEAD}\n" in text else f"{text}{lead}{_HEAD}\n"
        _write(path, text, headed.replace(f"{_HEAD}\n", "".join([f"{_HEAD}\n", *lines]), 1))


def find_root(workspace: Path) -> str | None:
    """Return the top folder of the workspace's repository; None if it is in none, or git is not installed."""
    told = _git(workspace, "rev-parse", "--show-toplevel")
    return None if told is None else told.removesuffix("\n")


def list_tracked(workspace: Path) -> list[str]:
    """Return those of `NAMES` under which git tracks a file."""
    tracked = (_git(workspace, "ls-files", "-z", "--", *NAMES) or "").split("\0")
    return [name for name in NAMES if any(one.startswith(name) for one in tracked)]


def is_tracked(path: Path) -> bool:
    """Return True if git tracks a file.

    Asks git only in a work tree, and again only after the index of git has changed. If git does not answer, return
    False.
    """
    tree = next((above for above in path.parents if (above / ".git").exists()), None)
    if tree is None:
        return False
    index = tree / ".git/index"  # that of a second work tree is elsewhere, so its changes count at the next start
    return _ask_tracked(path, index.stat().st_mtime_ns if index.exists() else 0)


@lru_cache(maxsize=4096)
def _ask_tracked(path: Path, _changed: int) -> bool:
    # Root may work in a folder of another user. Without this option, git refuses such a folder.
    return bool(_git(path.parent, "-c", "safe.directory=*", "ls-files", "-z", "--", f":(literal){path.name}"))


def list_ignored(workspace: Path) -> list[str]:
    """Return those of `NAMES` that git ignores."""
    # A file in the folder is checked, because the folder may ignore all its content by a `.gitignore` of its own.
    asked = [f"{name}RECENT.md" if name.endswith("/") else name for name in NAMES]
    found = (_git(workspace, "check-ignore", "--", *asked) or "").splitlines()
    return [name for name, one in zip(NAMES, asked, strict=True) if one in found]


def remove(workspace: Path, names: Sequence[str] = NAMES, *, even_there: bool = False) -> None:
    """Remove the lines again, except those of files that still exist, because git would then offer them for a commit.

    With `even_there`, those lines are removed as well.
    """
    if (found := _read_exclude(workspace)) is None:
        return
    path, prefix, text = found
    head, found_head, below = text.partition(f"{_HEAD}\n")
    lines = below.splitlines(keepends=True)
    gone = {f"/{prefix}{name}\n" for name in names if even_there or not (workspace / name).exists()}
    # Below the head are the lines for all workspaces of the repository, and then the lines of other authors.
    ours = [line.rstrip("\n").endswith((*NAMES, *AIDER)) for line in lines]
    count = ours.index(False) if False in ours else len(lines)
    kept = [line for line in lines[:count] if line not in gone]
    if found_head and len(kept) < count:
        _write(path, text, "".join([head, *([found_head, *kept] if kept else []), *lines[count:]]))


def find_fault(workspace: Path) -> MemorydError | None:
    """Return why lines cannot be added to the file; None if they can, or if there is no repository."""
    try:
        _read_exclude(workspace)
    except MemorydError as error:
        return error
    return None


def _read_exclude(workspace: Path) -> tuple[Path, str, str] | None:
    """Return the path of the file, the workspace's path in the repository as a pattern, and the text of the file.

    The pattern has a slash at its end. The result is None outside a git repository.
    """
    told = _git(workspace, "rev-parse", "--git-path", "info/exclude", "--show-prefix")
    if told is None:
        return None
    path, _, prefix = told.partition("\n")
    # A pattern cannot contain a line break, but a `?` matches one.
    pattern = re.sub(r"([\\*?\[])", r"\\\1", prefix.removesuffix("\n")).replace("\n", "?")
    return workspace / path, pattern, _read(workspace / path)


def _git(workspace: Path, *words: str) -> str | None:
    # fsmonitor is off, because the repository could name a program for git to start.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(workspace), *words]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        return os.fsdecode(done.stdout) if done.returncode == 0 else None
    return None


def _read(path: Path) -> str:
    if not (path.parent.exists() or path.parent.is_symlink()):
        return ""
    with as_state_error("cannot be read", path), follow_folder(path.parent) as folder:
        return (read(folder / path.name) or b"").decode("utf-8", "surrogateescape")


def _write(path: Path, old: str, new: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with follow_folder(path.parent) as folder:
        digest = compute_digest(old.encode("utf-8", "surrogateescape")) if (folder / path.name).exists() else None
        replace(folder / path.name, new.encode("utf-8", "surrogateescape"), digest)
