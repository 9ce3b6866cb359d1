"""Write append-only files of JSON lines in the state folder.

The one beside the database holds watermarks by record id. It is read only when the database had to be made anew: the
transcripts give the turns back, and this says which of them had been consumed, so that no memory is made twice. Others
are transcripts: of sessions that programs handed over.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from memoryd.files.descriptor import extend
from memoryd.files.durable import replace
from memoryd.files.open_folder import Descriptor, follow_folder
from memoryd.files.regular import as_state_error, compute_digest, read


class Journal:
    """Append to and read a file of one JSON object per line; skip damaged lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def append(self, *entries: Mapping[str, Any]) -> None:
        """Add entries and sync them."""
        line = b"".join(json.dumps(entry, sort_keys=True).encode() + b"\n" for entry in entries)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with self._lock, Descriptor(os.open(self.path, flags, 0o600)) as journal:
            size = os.fstat(journal.fd).st_size
            is_torn = size > 0 and os.pread(journal.fd, 1, size - 1) != b"\n"
            extend(journal.fd, b"\n" * is_torn + line)

    def change(self, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replace entries by their changed form; drop damaged lines."""
        with self._lock, follow_folder(self.path.parent) as folder:
            journal = folder / self.path.name
            old = read(journal)
            if old is None:
                return
            new = b"".join(json.dumps(changed(entry), sort_keys=True).encode() + b"\n" for entry in _entries(old))
            replace(journal, new, compute_digest(old), mode=0o600)

    def entries(self) -> list[dict[str, Any]]:
        """Read all entries, oldest first."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return _entries(data)


def _entries(data: bytes) -> list[dict[str, Any]]:
    found = []
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def unite(target: Path, sources: Iterable[Path]) -> None:
    """Write the lines of some journals into one (0600), each line once, in order; a missing journal has none."""
    with as_state_error("cannot be written", target), follow_folder(target.parent) as folder:
        lines = [line for source in sources for line in (_read(source) or b"").split(b"\n") if line]
        entry = folder / target.name
        old = read(entry)
        data = b"".join(line + b"\n" for line in dict.fromkeys(lines))
        replace(entry, data, None if old is None else compute_digest(old), mode=0o600)


def _read(path: Path) -> bytes | None:
    with follow_folder(path.parent) as folder:
        return read(folder / path.name)
