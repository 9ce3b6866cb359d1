"""Remove sessions from the files about past sessions: `RECENT.md`, the archive and its index."""

import re
from collections.abc import Collection, Iterator

from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder
from memoryd.tiers import archive, archive_index, now, recent

_KEPT = r"(?=\Z|[.~-])"  # this also matches copies, which have a longer name
_RECENT = re.compile(re.escape(recent.NAME) + _KEPT)
_INDEX = re.compile(re.escape(archive_index.NAME) + _KEPT)
_ARCHIVE = re.compile(archive.NAME.pattern + _KEPT)


def drop_sessions(name: str, data: bytes, sessions: Collection[str]) -> bytes:
    """Return the bytes of such a file, or of a copy, without these sessions; other files are returned unchanged."""
    header = now.parse(data).header if name.startswith("NOW-") else None
    if header is not None and header.session_id in sessions:
        return b""  # a copy of the NOW file, made by a rollover
    names = {archive.name_of(one) for one in sessions}
    if _RECENT.match(name):
        return recent.drop_entries(data, names)
    if _INDEX.match(name) and data.startswith(archive_index.TITLE.encode()):
        return archive_index.drop_lines(data) if names else data  # a rollover writes the others again
    return archive.drop_parts(data, names) if _ARCHIVE.match(name) else data


def drop_tags(name: str, data: bytes, tags: Collection[str]) -> bytes:
    """Return the bytes of such a file, or of a copy, without forgotten tags; other files are returned unchanged."""
    if _INDEX.match(name) and data.startswith(archive_index.TITLE.encode()):
        return archive_index.drop_lines(data) if tags else data  # a theme in it may be one of the tags
    return archive.drop_tags(data, tags) if _ARCHIVE.match(name) else data


def list_drops(continuum: OpenFolder, sessions: Collection[str]) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Yield the files that mention these sessions, as (path, old bytes, new bytes).

    An archive file without any other text is removed: its new bytes are None.
    """
    for name in _list_names(continuum) if sessions else ():
        if name in {recent.NAME, archive_index.NAME} or archive.LINK.match(f"{name}#"):
            data = regular.read_below(continuum, name)
            left = drop_sessions(name.rpartition("/")[2], data or b"", sessions)
            if data is not None and left != data:
                is_empty = archive.LINK.match(f"{name}#") and not archive.has_content(left)
                yield f"{archive.FOLDER}/{name}", data, None if is_empty else left


def _list_names(continuum: OpenFolder) -> list[str]:
    names = continuum.names()
    if archive.MOVED in names:
        with continuum.folder(archive.MOVED) as moved:
            names = [*names, *(f"{archive.MOVED}/{name}" for name in moved.names())]
    return sorted(names)
