"""Find transcripts by glob patterns. Links are not followed, and folders of tools are not entered."""

import fnmatch
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memoryd.text.private import is_private

IGNORED_FOLDERS = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Hold a glob on absolute paths: `*` and `?` within a name, `**` across folders, `[…]` for sets."""

    text: str
    root: Path  # deepest folder without a wildcard
    below: tuple[str, ...]  # globs of the names below the root
    without: str | None = None  # a folder below the root that is not entered

    @property
    def deep(self) -> bool:
        """Return True if it can match files in folders below the root."""
        return len(self.below) > 1

    def leaves_out(self, path: str) -> bool:
        """Return True if the path is the excluded folder or in it."""
        return self.without is not None and f"{path}/".startswith(f"{self.without}/")

    def covers(self, path: str) -> bool:
        """Return True if this absolute path is in a folder that may have matching files, whatever its own name."""
        return not self.leaves_out(path) and _is_below(self.root, path.rpartition("/")[0], self.below[:-1])

    def matches(self, path: str) -> bool:
        """Return True if this absolute path matches.

        Names that end in `.private`, and files in such folders, never match.
        """
        if self.leaves_out(path) or is_private(path.removeprefix(f"{self.root}/")):
            return False
        return _is_below(self.root, path, self.below)


def make_pattern(text: str, below: Path | None = None, *, without: Path | None = None) -> Pattern:
    """Return the pattern of an absolute glob, or of a glob below the folder `below`, whose own name has no wildcards.

    The folder `without` is excluded from wildcards, but a pattern may name a folder in it.
    """
    plain = below.parts if below is not None else ()
    parts = (*plain, *Path(text).parts)
    fixed = len(plain)
    while fixed < len(parts) - 1 and not _MAGIC.search(parts[fixed]):
        fixed += 1
    root = Path(*parts[:fixed])
    globs = parts[fixed:] if parts[-1] != "**" else (*parts[fixed:], "*")
    return Pattern(str(Path(*parts)), root, globs, None if without is None else _as_met(root, without))


def _is_below(root: Path, path: str, globs: tuple[str, ...]) -> bool:
    names, above = tuple(path.split("/"))[1:], root.parts[1:]
    return names[: len(above)] == above and _fit(names[len(above) :], globs)


def _fit(names: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    if not globs:
        return not names
    if globs[0] == "**":
        return any(_fit(names[at:], globs[1:]) for at in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], globs[0]) and _fit(names[1:], globs[1:])


def _as_met(root: Path, folder: Path) -> str | None:
    """Return the path of a folder as a walk from the root reaches it; None if it does not."""
    for start, end in ((root, folder), (Path(os.path.realpath(root)), Path(os.path.realpath(folder)))):
        if end.is_relative_to(start):
            return str(root / end.relative_to(start))
    return None


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Hold the result of a walk: the matching files, and (path, reason) of those that could not be used."""

    paths: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def walk(wanted: Pattern) -> FoundFiles:
    """Return the regular files that match. Links are not followed; folders that disappear meanwhile are skipped."""
    paths: list[str] = []
    refused: list[tuple[str, str]] = []
    for entry in _entries(wanted, refused):
        if wanted.matches(entry.path):
            if entry.is_symlink():
                refused.append((entry.path, "is a symbolic link, which is not followed"))
            else:
                paths.append(entry.path)
    paths.sort()
    return FoundFiles(tuple(paths), tuple(refused))


def _entries(wanted: Pattern, refused: list[tuple[str, str]]) -> Iterator[os.DirEntry[str]]:
    depth = None if "**" in wanted.below else len(wanted.below) - 1  # of the folders that may match; None: any
    stack = [] if str(wanted.root) == wanted.without else [(str(wanted.root), 0)]
    while stack:
        folder, level = stack.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except PermissionError:
            refused.append((folder, "is a folder that may not be entered: check its owner and mode"))
            continue
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused.append((folder, f"is a folder that cannot be listed: {os.strerror(error.errno or 0)}"))
            continue
        for entry in listed:
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if not is_folder:
                yield entry
            elif (
                entry.name not in IGNORED_FOLDERS and entry.path != wanted.without and (depth is None or level < depth)
            ):
                stack.append((entry.path, level + 1))


def count_folders(root: Path) -> int:
    """Return the number of folders that a recursive watch of a folder covers: no links and no unreadable ones."""
    count = 0
    stack = [str(root)]
    while stack:
        with suppress(OSError), os.scandir(stack.pop()) as entries:
            stack.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
            count += 1
    return count


def find_inode(folder: str, device: int, inode: int) -> str | None:
    """Return the path of the file with this inode in a folder, to find a rotated transcript; None if there is none."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_meant = entry.inode() == inode and entry.is_file(follow_symlinks=False)
            if is_meant and entry.stat(follow_symlinks=False).st_dev == device:
                return entry.path
    return None
