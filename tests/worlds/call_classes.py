"""What two system calls of one run have in common: the files that a kill before them leaves, the place in the program.

For `syscall_sweep.py`, which need not sweep what it has swept.
"""

import hashlib
import json
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import memoryd

PACKAGE = str(Path(memoryd.__file__).parent)
INNER, OUTER = 6, 5  # lines of the program: those that lead to a call, and those that tell which command it is
AWAIT = 0.02  # seconds for the other thread's word; it has none while the call's own thread holds the interpreter
RACY = 50_000_000  # nanoseconds within which a file may change twice with the same times


class Files:
    """The files of a folder, as a digest that is equal while nothing has changed that a restart could see.

    The shared memory of SQLite's log counts by its name alone: the first to open a database creates it again. Times do
    not count: a run looks at those of transcripts alone, which no run changes.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._read: dict[tuple[int, ...], str] = {}

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self._list(self.root)).encode()).hexdigest()

    def _list(self, folder: str) -> list[object]:
        found: list[object] = []
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_dir(follow_symlinks=False):
                    found.append((entry.name, entry.stat().st_mode, self._list(entry.path)))
                else:
                    mode = entry.stat(follow_symlinks=False).st_mode
                    content = "" if entry.name.endswith("-shm") else self._content(entry.path)
                    found.append((entry.name, mode, content))
        return found

    def _content(self, path: str) -> str:
        about = Path(path).stat()
        key = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        is_racy = time.time_ns() - about.st_ctime_ns < RACY
        if is_racy or key not in self._read:
            self._read[key] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return self._read[key]


class Place(NamedTuple):
    """Where the program is: the lines that lead to a call, the innermost first; its command and the kind of its run."""

    lines: tuple[str, ...]
    phase: tuple[str, ...]


NOWHERE = Place((), ())


class Places:
    """Where the program is while its call waits for an answer: a second thread of the child tells its parent.

    That thread starts before the filter is installed, so that none of its own calls waits.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asked = 0
        self._last = NOWHERE

    def start(self) -> None:
        """Begin to tell, in the child, of the thread that calls this."""
        threading.Thread(target=self._tell, args=(threading.get_ident(),), daemon=True).start()

    def _tell(self, thread: int) -> None:
        while number := self._theirs.recv(16):
            frame = sys._current_frames().get(thread)
            lines, kind = [], ""
            while frame is not None:
                if frame.f_code.co_filename.startswith(PACKAGE):
                    lines.append(f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}")
                    kind = kind or getattr(frame.f_locals.get("run"), "kind", "")
                frame = frame.f_back
            self._theirs.send(json.dumps([int(number), lines, kind]).encode())

    def ask(self) -> Place:
        """Where the program is now; while SQLite closes a database and holds the interpreter, where it was before."""
        self._asked += 1
        self._ours.send(str(self._asked).encode())
        while select.select([self._ours], [], [], AWAIT)[0]:
            number, lines, kind = json.loads(self._ours.recv(1 << 20))
            if number == self._asked:
                self._last = Place(tuple(lines[:INNER]), (*lines[-OUTER:], kind))
                return self._last
        return Place(("held", *self._last.lines), self._last.phase)
