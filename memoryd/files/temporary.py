"""Name temporary files so that a later process recognises them and nobody can predict a name.

A killed writer leaves files named `.memoryd-new-…tmp` or `.memoryd-swap-…tmp`. A "new" file is memoryd's, perhaps
incomplete. A "swap" file is memoryd's before the exchange; afterwards it is the old file or somebody's edit.
"""

import os
import re
from typing import NamedTuple

from memoryd.files.open_folder import FolderEntry, OpenFolder

_TEMP_NAME = re.compile(r"\.memoryd-(new|swap)-[0-9a-f]{16}-(.+)\.tmp", re.DOTALL)


class Leftover(NamedTuple):
    """Hold a temporary file of a writer that was stopped."""

    entry: FolderEntry
    kind: str  # new | swap
    target: str  # name of the file for which it was made


def make_name(entry: FolderEntry, kind: str) -> FolderEntry:
    """Return a new name beside `entry` that `list_leftovers` recognises. `kind` is `new` or `swap`."""
    import secrets  # imported late: it loads OpenSSL, which takes too long for a hook

    return entry.get_sibling(f".memoryd-{kind}-{secrets.token_hex(8)}-{entry.name}.tmp")


def list_leftovers(folder: OpenFolder) -> list[Leftover]:
    """Return the temporary files that stopped writers left in a folder, sorted by name.

    Raises:
        OSError: the folder cannot be listed.
    """
    named = [(name, _TEMP_NAME.fullmatch(name)) for name in folder.names()]
    return [Leftover(folder / name, match[1], match[2]) for name, match in named if match]


def is_twin(entry: FolderEntry, status: os.stat_result) -> bool:
    """Return True if all other names of a file are temporary names of memoryd in the same folder.

    If the system cannot exchange two names, a writer creates such a second name for a moment. A killed writer leaves
    it.
    """
    beside = [left.entry for left in list_leftovers(entry.folder) if left.target == entry.name]
    return status.st_nlink <= 1 + sum(_is_same(one, status) for one in beside)


def _is_same(entry: FolderEntry, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.lstat(), status)
    except FileNotFoundError:
        return False
