"""Exchange files through a folder beside them; it holds complete new files and keeps the old ones."""

import os
from collections.abc import Sequence
from pathlib import Path

from memoryd.files.durable import sync_folder
from memoryd.files.open_folder import follow_folder
from memoryd.files.regular import as_state_error

PREFIX = ".memoryd-staging-"


def exchange_files(staged: Path, folder: Path, names: Sequence[str], sides: Sequence[str], kept: str) -> Path | None:
    """Put staged files into `folder`; what they replace is kept in its new subfolder `kept`.

    At no moment is one of `names` missing that was there: the old file gets its second name first. Files of `sides`
    must not be there beside the new ones: they are moved away first. Returns the subfolder, None where nothing was
    there.

    Raises:
        StateError: the disk says no; what is kept so far is in the subfolder.
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
