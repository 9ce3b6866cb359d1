"""Watch files for hints about changed transcripts. A lost hint costs only time, because the scan finds all changes.

Each root has one filtered watch. With unfiltered recursive watches, watchdog 7.1 never finishes on large trees: its own
walk creates events that overflow its queue. watchdog does not report its limit of watches, and it reports an overflow
only in its log.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from memoryd.files import mounts, sources
from memoryd.files.log import Log, on_record
from memoryd.reading.sources import SourcePattern

EVENTS: list[type[events.FileSystemEvent]] = [
    events.FileModifiedEvent, events.FileCreatedEvent, events.FileMovedEvent, events.FileDeletedEvent,
    events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent,
]  # fmt: skip


OUT_OF_FILES = "there are no more open files for this process: raise LimitNOFILE of the service, or ulimit -n"


class _Handler(events.FileSystemEventHandler):
    def __init__(self, hint: Callable[[str], None]) -> None:
        self._hint = hint

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                self._hint(os.fsdecode(path) + ("/" if event.is_directory else ""))


class Watcher:
    """Watch the roots of all patterns. watchdog's threads call `hint` with each changed path."""

    def __init__(self, log: Log, hint: Callable[[str], None], rescan: Callable[[], None]) -> None:
        self.log = log
        self.polling_why: str | None = None
        self._hint = hint
        self._rescan = rescan
        self._observer: BaseObserver | None = None
        self._watched: dict[tuple[Path, bool], tuple[ObservedWatch, tuple[int, int]]] = {}
        self._roots: dict[Path, bool] = {}
        self._policy = "auto"
        self._short = False  # fewer folders are watched than exist; counted again at the next `tend`
        self._complaint = ""
        self._unlisten = on_record("watchdog", "warning", self._on_log)

    @property
    def method(self) -> str:
        """Return how changes are noticed: `inotify`, `fsevents` or `polling`."""
        if self.polling_why is not None:
            return "polling"
        return "fsevents" if sys.platform == "darwin" else "inotify"

    def configure(self, wanted: Sequence[SourcePattern], policy: str) -> None:
        """Watch the roots of these sources, by a policy: `auto`, `always` (poll) or `never` (poll)."""
        self._stop_observer()
        self._roots = roots_of([source.pattern for source in wanted])
        self._policy = policy
        self.polling_why = "set by ingest.polling" if policy == "always" else None
        if policy == "auto" and (remote := remote_of(self._roots)):
            self.polling_why = f"{remote} is on a network file system"
        self.tend()

    def tend(self) -> None:
        """Watch roots that appeared or were replaced. If watching fails, fall back to polling."""
        observer = self._start_observer() if self.polling_why is None else None
        if observer is None:
            return
        if self._short:
            self._short = False
            if shortage := self._shortage():
                self._give_up(shortage)
                return
        # A root that was deleted and created again may have its old inode, but its watch is dead.
        dead = {emitter.watch for emitter in observer.emitters if not emitter.is_alive()}
        for root, deep in self._roots.items():
            try:
                stat = root.stat()
            except OSError:
                self._unwatch((root, deep))
                continue
            known, identity = self._watched.get((root, deep)), (stat.st_dev, stat.st_ino)
            if known is None or known[1] != identity or known[0] in dead:
                self._unwatch((root, deep))
                if not self._watch(observer, root, identity, deep=deep):
                    return
                self._rescan()

    def spare(self) -> None:
        """Poll from now on, because watches need file descriptors and none is free."""
        if self.polling_why is None:
            self._give_up(OUT_OF_FILES)

    def _start_observer(self) -> BaseObserver | None:
        if self._observer is None:
            try:
                self._observer = Observer()
                self._observer.start()
            except OSError as error:
                self._observer = None
                self._give_up(f"the system refuses file watches: {error.strerror}")
        elif not self._observer.is_alive():
            self._stop_observer()
            self._give_up("the watching thread has died")
        return self._observer

    def check_limits(self) -> None:
        """Compare the kernel's watches with the folders, because watchdog does not report its limit.

        Folders may appear during the count, so the next `tend` counts again before it falls back to polling.
        """
        self._short = self._observer is not None and self._shortage() is not None

    def _shortage(self) -> str | None:
        if self._policy == "never" or not sys.platform.startswith("linux"):
            return None
        expected = sum(sources.count_folders(root) if deep else 1 for root, deep in self._watched)
        there = _kernel_watches()
        if there >= expected:
            return None
        return f"{there} of {expected} folders are watched: raise fs.inotify.max_user_watches"

    def _watch(self, observer: BaseObserver, root: Path, identity: tuple[int, int], *, deep: bool) -> bool:
        try:
            watch = observer.schedule(_Handler(self._hint), str(root), recursive=deep, event_filter=EVENTS)
        except (FileNotFoundError, PermissionError):
            return True  # it disappeared, or the scan reports the error
        except OSError as error:
            self._give_up(f"the system refuses file watches: {error.strerror}")
            return False
        self._watched[root, deep] = (watch, identity)
        return True

    def _unwatch(self, key: tuple[Path, bool]) -> None:
        known = self._watched.pop(key, None)
        if known is not None and self._observer is not None:
            try:
                self._observer.unschedule(known[0])
            except (KeyError, OSError):
                self.log.debug("watch was gone already", path=key[0])

    def _give_up(self, why: str) -> None:
        if self._policy == "never":
            if why != self._complaint:
                self.log.error("watching does not work and polling is switched off", why=why)
            self._complaint = why
            return
        self.log.warning("falling back to polling", why=why)
        self.polling_why = why
        self._stop_observer()
        self._rescan()

    def _on_log(self, message: str) -> None:
        if "overflow" in message.lower():
            self._rescan()

    def _stop_observer(self) -> None:
        observer, self._observer = self._observer, None
        self._watched.clear()
        if observer is not None:
            observer.stop()
            observer.join(5)

    def stop(self) -> None:
        """Stop watching."""
        self._stop_observer()
        self._unlisten()


def roots_of(patterns: Sequence[sources.Pattern]) -> dict[Path, bool]:
    """Return the folders to watch, each with True if recursively. Folders inside a recursive one are left out."""
    deepest: dict[Path, bool] = {}
    for pattern in patterns:
        deepest[pattern.root] = deepest.get(pattern.root, False) or pattern.deep
    return {
        root: deep
        for root, deep in deepest.items()
        if not any(other != root and deep_other and root.is_relative_to(other) for other, deep_other in deepest.items())
    }


def remote_of(roots: dict[Path, bool]) -> str | None:
    """Return a root on a file system that does not report changes, or None if there is none."""
    mounted = mounts.read_mounts()
    return next((str(root) for root in roots if mounts.is_remote(mounts.file_system(root, mounted))), None)


def _kernel_watches() -> int:
    """Count the inotify watches of this process (proc(5), fdinfo)."""
    count = 0
    for entry in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):
            count += sum(line.startswith("inotify wd:") for line in entry.read_text("ascii").splitlines())
    return count
