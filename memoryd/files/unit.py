"""Write and remove the file of a service manager, and keep a file that was there before."""

from itertools import count
from pathlib import Path
from typing import NamedTuple

from memoryd.files.durable import exchange, replace
from memoryd.files.open_folder import FolderEntry, follow_folder
from memoryd.files.regular import as_state_error, read


class PlacedFile(NamedTuple):
    """Hold the result of writing or removing a file."""

    changed: bool
    backup: Path | None  # where the earlier file is kept; None if there was none


def place_file(path: Path, ours: bytes, now: str, *, remove: bool = False) -> PlacedFile:
    """Write `ours` to `path` (0644 minus the umask), or remove the file.

    An earlier file with other content is kept beside it.
    """
    if not remove:
        with as_state_error("cannot be made", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.parent.exists():
        return PlacedFile(changed=False, backup=None)
    with as_state_error("cannot be opened", path.parent):
        folder = follow_folder(path.parent)  # a person's own configuration folder may be a link
    with folder:
        entry, new = folder / path.name, None if remove else ours
        old = read(entry)
        backup = None if old in {None, ours} else _keep(entry, old or b"", now)
        if old != new:
            exchange(entry, old, new)
        return PlacedFile(old != new, backup)


def _keep(entry: FolderEntry, old: bytes, now: str) -> Path:
    """Keep the old content under a name whose suffix the service manager ignores; return the path."""
    stem = f"{entry.name}.before-{now.replace(':', '').replace('-', '')}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    kept = next(one for one in map(entry.get_sibling, names) if not one.exists())
    return replace(kept, old, None)
