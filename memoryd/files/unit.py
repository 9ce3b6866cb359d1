"""Write and remove the file of a service manager, and keep a file that was there before."""

from pathlib import Path
from typing import NamedTuple

from memoryd.files.durable import exchange, replace
from memoryd.files.open_folder import FolderEntry, OpenFolder, follow_folder
from memoryd.files.regular import as_state_error, read


class PlacedFile(NamedTuple):
    """Hold the result of writing or removing a file."""

    changed: bool
    backup: Path | None  # where the earlier file is kept; None if there was none


def place_file(path: Path, data: bytes, now: str) -> PlacedFile:
    """Write `data` to `path` (0644 minus the umask). An earlier file with other content is kept beside it."""
    with as_state_error("cannot be made", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _open_parent(path.parent) as folder:
        return _change(folder / path.name, data, data, now)


def remove(path: Path, ours: bytes, now: str) -> PlacedFile:
    """Remove a file. If its content is not `ours`, a copy stays beside it."""
    if not path.parent.exists():
        return PlacedFile(changed=False, backup=None)
    with _open_parent(path.parent) as folder:
        return _change(folder / path.name, None, ours, now)


def _change(entry: FolderEntry, new: bytes | None, ours: bytes, now: str) -> PlacedFile:
    """Write a file, or remove it if `new` is None. An earlier file with other content than `ours` is kept beside it."""
    old = read(entry)
    if old == new:
        return PlacedFile(changed=False, backup=None)
    backup = None if old in {None, ours} else _keep(entry, old or b"", now)
    exchange(entry, old, new)
    return PlacedFile(changed=True, backup=backup)


def _open_parent(path: Path) -> OpenFolder:
    # A person's own configuration folder may be a link.
    with as_state_error("cannot be opened", path):
        return follow_folder(path)


def _keep(entry: FolderEntry, old: bytes, now: str) -> Path:
    """Keep the old content under a name whose suffix the service manager ignores; return the path."""
    stem = f"{entry.name}.before-{now.replace(':', '').replace('-', '')}"
    number = 1
    while (kept := entry.get_sibling(stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    return replace(kept, old, None).path
