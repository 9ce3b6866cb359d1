"""Create a private folder with copies of a workspace's memory files for a trial run, and remove it afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from memoryd.files import regular
from memoryd.files.locked_folder import hold_folder

PREFIX = "trial-"
# The files that jobs write.
_ROLLED_OVER = ("RECENT", "MEMORY*", "archive/MEMORY*", "NOW-*")
COPIED = ("MEMORY.md", "memory/*.md", *(f".continuum/memory/{name}.md" for name in _ROLLED_OVER))


class TrialFolders(NamedTuple):
    """Hold the folders of a trial run. They are empty except for the copies."""

    state: Path
    workspace: Path


@contextmanager
def make_folders(state_dir: Path, workspace: Path | None) -> Iterator[TrialFolders]:
    """Create the folders inside the private state folder, and remove them at the end.

    Without a `workspace`, nothing is copied.
    """
    with hold_folder(state_dir, PREFIX) as folder:
        made = TrialFolders(folder / "state", folder / "workspace")
        made.state.mkdir(mode=0o700)
        (made.workspace / "memory").mkdir(parents=True, mode=0o700)
        if workspace is not None:
            _copy(workspace, made.workspace)
        yield made


def _copy(workspace: Path, to: Path) -> None:
    found = sorted(path for pattern in COPIED for path in workspace.glob(pattern))
    for relative in (path.relative_to(workspace) for path in found):
        data = regular.read_in(workspace, str(relative))
        if data is not None:
            (to / relative).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (to / relative).write_bytes(data)
