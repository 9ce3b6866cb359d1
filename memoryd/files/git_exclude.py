"""Keep memory out of git without a change that others see: lines in the repository's own `.git/info/exclude`."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

from memoryd.errors import MemorydError
from memoryd.files.durable import replace
from memoryd.files.open_folder import follow_folder
from memoryd.files.regular import compute_digest, read

NAMES = ("MEMORY.md", "memory/", ".continuum/memory/")
_HEAD = "# Written by `memoryd init`:"
_SECONDS = 10


def add(workspace: Path) -> None:
    """List the memory of a workspace, but what git tracks already; does nothing outside of a git work tree."""
    found = _find_exclude(workspace)
    if found is None:
        return
    path, prefix = found
    tracked = _git(workspace, "ls-files", "-z", "--", *NAMES)
    names = [name for name in NAMES if not any(one.startswith(name) for one in (tracked or "").split("\0"))]
    text = _read(path)
    lines = [f"/{prefix}{name}" for name in names if f"/{prefix}{name}" not in text.split("\n")]
    if lines:
        lead = "" if not text or text.endswith("\n") else "\n"
        _write(path, text, "\n".join([f"{text}{lead}{_HEAD}", *lines, ""]))


def remove(workspace: Path) -> None:
    """Take the lines out again, but those of memory that is still there: git would offer it for a commit."""
    found = _find_exclude(workspace)
    if found is None:
        return
    path, prefix = found
    text = _read(path)
    head, found_head, below = text.partition(f"{_HEAD}\n")
    lines = below.splitlines(keepends=True)
    ours = {f"/{prefix}{name}\n": (workspace / name).exists() for name in NAMES}
    count = next((number for number, line in enumerate(lines) if line not in ours), len(lines))
    kept = [line for line in lines[:count] if ours[line]]
    if found_head and len(kept) < count:
        _write(path, text, "".join([head, *([found_head, *kept] if kept else []), *lines[count:]]))


def find_fault(workspace: Path) -> MemorydError | None:
    """Return why the file cannot be added to; None if it can, or there is none to add to."""
    found = _find_exclude(workspace)
    try:
        if found is not None:
            _read(found[0])
    except MemorydError as error:
        return error
    return None


def _find_exclude(workspace: Path) -> tuple[Path, str] | None:
    """Return the file and the pattern of the workspace's path in the work tree, with a slash at its end."""
    told = _git(workspace, "rev-parse", "--git-path", "info/exclude", "--show-prefix")
    if told is None:
        return None
    path, _, prefix = told.partition("\n")
    # No line of patterns can hold the end of a line, but a `?` stands for it.
    return workspace / path, re.sub(r"([\\*?\[])", r"\\\1", prefix.removesuffix("\n")).replace("\n", "?")


def _git(workspace: Path, *words: str) -> str | None:
    # A repository may name a program that git starts to watch its files.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(workspace), *words]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        return os.fsdecode(done.stdout) if done.returncode == 0 else None
    return None


def _read(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    with follow_folder(path.parent) as folder:
        return (read(folder / path.name) or b"").decode("utf-8", "surrogateescape")


def _write(path: Path, old: str, new: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with follow_folder(path.parent) as folder:
        before = old.encode("utf-8", "surrogateescape")
        digest = compute_digest(before) if (folder / path.name).exists() else None
        replace(folder / path.name, new.encode("utf-8", "surrogateescape"), digest)
