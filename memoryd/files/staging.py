"""Replace files by complete new ones from a folder beside them, and keep the old ones."""

import os
from collections.abc import Sequence
from pathlib import Path

from memoryd.files.durable import sync_folder
from memoryd.files.open_folder import follow_folder
from memoryd.files.regular import as_state_error

PREFIX = ".memoryd-staging-"


def exchange_files(staged: Path, folder: Path, names: Sequence[str], sides: Sequence[str], kept: str) -> Path | None:
    """Move staged files into `folder`; keep the replaced ones in its new subfolder `kept`.

    An existing file is at no moment missing, because it first gets its second name. Files of `sides` do not belong to
    the new ones, so they are moved away first.

    Args:
        staged: the folder with the new files.
        folder: the folder to change.
        names: names of the files.
        sides: names of side files, such as a write-ahead log.
        kept: name of the subfolder.

    Returns:
        The subfolder; None if nothing was replaced.

    Raises:
        StateError: the disk reports an error. Files that were replaced before are in the subfolder.
    """
    place = folder / kept
    there = [name for name in (*sides, *names) if (folder / name).exists()]
    with as_state_error("cannot be exchanged", folder):
        if there:
            place.mkdir(mode=0o700)
        for name in there:
            if name in sides:
                (folder / name).rename(place / name)
            else:
                os.link(folder / name, place / name, follow_symlinks=False)
        for name in names:
            if (staged / name).exists():
                (staged / name).replace(folder / name)
        for changed in (place, folder) if there else (folder,):
            with follow_folder(changed) as opened:
                sync_folder(opened)
    return place if there else None
