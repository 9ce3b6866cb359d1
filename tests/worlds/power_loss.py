"""One job and the power cut: every state that the disk may be in then, as far as the operating system's promises go.

    power_loss.py MODULE:NAME FOLDER [--most N] [--seed S]

The job runs once under strace, which records each call that changes a file or a folder, with its bytes. For each moment
of that log the disk is rebuilt as a cut may leave it, by the rules of Pillai et al., "All File Systems Are Not Created
Equal" (OSDI 2014), in their strictest form: what was written to a file and not fsynced since may be there, missing or
torn; what was changed in a folder and not fsynced since may be there or missing, in its order; nothing is ordered
between two files or folders. A file whose name was never made durable is gone with its fsynced bytes.

What nobody relies on after a cut (the log, locks, the tests' list of questions) is never fsynced, so that it would
double the states of each moment: it is lost or torn for itself at one moment of sixteen, and else all there or missing
with the rest. Amid the pages that SQLite writes to one file in a row no cut is tried, see `is_amid_pages`.

On each such disk the job is started once more. What that came to is printed as one line of JSON. The shared memory of
SQLite's log is never on the disk: it is made anew at each opening. Files of people (those that the job does not write)
stay as they are, inode and all.
"""

import argparse
import importlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from syscall_sweep import Job, Server, tell

CHANGES = (
    "openat", "write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync", "rename", "renameat", "renameat2",
    "link", "linkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat",
)  # fmt: skip
VERBOSE = ["-xx", "-s", "50000000", "-e", f"trace={','.join(CHANGES)}"]
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)(.*)$")
_PART = re.compile(r'\s*(?:"((?:\\x[0-9a-f]{2})*)"|(AT_FDCWD|-?\d+)<([^>]*)>|([^,]+))')
EXCHANGE = ("RENAME_EXCHANGE",)
RELIED_ON_BY_NOBODY = re.compile(r"(?:^|/)(?:asked|log(?:/.*)?|[^/]*\.lock)$")
PAGES = re.compile(r"\.db(?:-wal|-journal)?$")
EACH = 16


@dataclass(frozen=True, slots=True)
class Change:
    """One recorded call: what it does to which file or folder; paths are below the root, "" is the root itself."""

    kind: str  # write truncate sync make link unlink rename exchange folder
    path: str
    other: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Inode:
    """A file or folder as it changes: what is durable, and what is not yet, in order."""

    is_folder: bool
    durable: list[Change] = field(default_factory=list)
    pending: list[Change] = field(default_factory=list)
    content: bytes = b""  # of a file that was there before the job


def text(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def arguments(given: str) -> list[tuple[str, bytes]]:
    """The arguments of a call, as (`text`, bytes), (`fd`, its path) or (`word`, itself)."""
    found = []
    for quoted, fd, place, word in _PART.findall(given):
        if fd:
            path = text(place) if place.startswith("\\x") else place.encode()
            found.append(("fd", path))
        elif word:
            found.append(("word", word.strip().encode()))
        else:
            found.append(("text", text(quoted)))
    return [one for one in found if one[1] or one[0] == "text"]


class Recorder:
    """strace's log → changes below the root."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.offsets: dict[str, int] = {}  # of descriptors that append or write on, by path
        self.sizes: dict[str, int] = {}

    def below(self, path: str) -> str | None:
        if path == self.root:
            return ""
        return path.removeprefix(self.root + "/") if path.startswith(self.root + "/") else None

    def named(self, folder: bytes, name: bytes) -> str | None:
        place = name.decode("utf-8", "surrogateescape")
        return self.below(place if place.startswith("/") else f"{folder.decode()}/{place}")

    def read(self, log: Path) -> Iterator[Change]:
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            called = _CALL.match(line)
            if called and int(called[3]) >= 0:
                yield from self.change(called[1], arguments(called[2]), int(called[3]), called[2])

    def change(self, name: str, given: list[tuple[str, bytes]], result: int, words: str) -> Iterator[Change]:
        if name in {"write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync"}:
            path = self.below(given[0][1].decode("utf-8", "surrogateescape"))
            if path is not None:
                yield from self._on_file(name, path, given, result)
            return
        paths = []
        folder = self.root.encode()
        for kind, value in given:
            if kind == "fd":
                folder = value
            elif kind == "text":
                paths.append(self.named(folder, value))
        if not paths or paths[0] is None:
            return
        yield from self._on_name(name, paths, words)

    def _on_file(self, name: str, path: str, given: list[tuple[str, bytes]], result: int) -> Iterator[Change]:
        if name in {"fsync", "fdatasync"}:
            yield Change("sync", path)
        elif name == "pwrite64":
            offset = int(given[3][1])
            self.sizes[path] = max(self.sizes.get(path, 0), offset + result)
            yield Change("write", path, offset=offset, data=given[1][1][:result])
        elif name == "write":
            # The project's own writes begin in an empty file or append: both are at its end.
            offset = self.sizes.get(path, 0)
            self.sizes[path] = offset + result
            yield Change("write", path, offset=offset, data=given[1][1][:result])
        elif name == "ftruncate":
            self.sizes[path] = int(given[1][1])
            yield Change("truncate", path, offset=int(given[1][1]))

    def _on_name(self, name: str, paths: list[str | None], words: str) -> Iterator[Change]:
        path = paths[0]
        assert path is not None
        if name == "openat":
            if "O_CREAT" in words and path not in self.sizes:
                self.sizes[path] = 0
                yield Change("make", path)
            elif "O_TRUNC" in words:
                self.sizes[path] = 0
                yield Change("truncate", path)
        elif name in {"mkdir", "mkdirat"}:
            yield Change("folder", path)
        elif name in {"unlink", "unlinkat", "rmdir"}:
            self.sizes.pop(path, None)
            yield Change("unlink", path)
        else:
            other = paths[1]
            assert other is not None, "nothing leaves the root"
            if any(word in words for word in EXCHANGE):
                self.sizes[path], self.sizes[other] = self.sizes.get(other, 0), self.sizes.get(path, 0)
                yield Change("exchange", path, other)
            else:
                link = name.startswith("link")
                self.sizes[other] = self.sizes.get(path, 0) if link else self.sizes.pop(path, 0)
                yield Change("link" if link else "rename", path, other)


class Disk:
    """Which inode each name means, what of each is durable; a cut makes a tree of it."""

    def __init__(self, tree: dict[str, bytes | None]) -> None:
        self.names: dict[str, int] = {}  # as the running system sees them
        self.inodes: dict[int, Inode] = {}
        self.start: dict[str, int] = {}
        for path, content in tree.items():
            self.names[path] = self._new(is_folder=content is None, content=content or b"")
        self.start = dict(self.names)
        self.numbers: dict[int, tuple[int, ...]] = {}  # id of a change of names → its two inodes and their two folders

    def _new(self, *, is_folder: bool, content: bytes = b"") -> int:
        number = len(self.inodes)
        self.inodes[number] = Inode(is_folder, content=content)
        return number

    def apply(self, change: Change) -> None:
        if change.kind == "sync":
            inode = self.inodes[self.names[change.path]]
            inode.durable += inode.pending
            inode.pending = []
        elif change.kind in {"write", "truncate"}:
            self.inodes[self.names[change.path]].pending.append(change)
        else:
            self._rename(change)

    def _rename(self, change: Change) -> None:
        folders = [self.names[parent(path)] for path in (change.path, change.other or change.path)]
        if change.kind in {"make", "folder"}:
            self.names[change.path] = self._new(is_folder=change.kind == "folder")
            about = (self.names[change.path], -1)
        elif change.kind == "unlink":
            about = (self.names.pop(change.path), -1)
        else:
            about = (self.names[change.path], self.names.get(change.other, -1))
            if change.kind == "exchange":
                self.names[change.path], self.names[change.other] = about[1], about[0]
            else:
                self.names[change.other] = about[0]
            if change.kind == "rename":
                self._move_below(change.path, change.other)
                del self.names[change.path]
        self.numbers[id(change)] = (*about, *folders)
        for folder in set(folders):
            self.inodes[folder].pending.append(change)

    def _move_below(self, old: str, new: str) -> None:
        for path in [path for path in self.names if path.startswith(old + "/")]:
            self.names[new + path.removeprefix(old)] = self.names.pop(path)

    def unsynced(self) -> list[int]:
        return [number for number, inode in self.inodes.items() if inode.pending]

    def relied_on(self, numbers: list[int]) -> list[int]:
        """Leave out the log, locks and the like."""
        idle = {number for path, number in self.names.items() if RELIED_ON_BY_NOBODY.search(path)}
        return [number for number in numbers if number not in idle]

    def tree(self, kept: dict[int, str]) -> dict[str, bytes | None]:
        """What is there after the cut; `kept` says of each inode's pending changes: `all`, `none`, `half` or `torn`."""
        entries: dict[int, dict[str, int]] = {}
        for path, number in self.start.items():
            if path:
                entries.setdefault(self.start[parent(path)], {})[path.rpartition("/")[2]] = number
        for number, inode in self.inodes.items():
            if inode.is_folder:
                folder = entries.setdefault(number, {})
                for change in [*inode.durable, *part_of(inode.pending, kept.get(number, "none"))]:
                    self._enter(folder, change, number)
        found: dict[str, bytes | None] = {}
        self._walk(self.start[""], "", entries, kept, found)
        return found

    def _enter(self, folder: dict[str, int], change: Change, number: int) -> None:
        first, second, holds, takes = self.numbers[id(change)]
        name, other = change.path.rpartition("/")[2], change.other.rpartition("/")[2]
        if change.kind in {"make", "folder"}:
            folder[name] = first
        elif change.kind == "unlink":
            folder.pop(name, None)
        elif change.kind == "exchange":
            folder[name], folder[other] = second, first
        else:
            if number == takes:
                folder[other] = first
            if number == holds and change.kind == "rename":
                folder.pop(name, None)

    def _walk(self, number, path, entries, kept, found) -> None:
        for name, child in entries.get(number, {}).items():
            below = f"{path}/{name}" if path else name
            inode = self.inodes[child]
            if inode.is_folder:
                found[below] = None
                self._walk(child, below, entries, kept, found)
            elif not name.endswith("-shm"):
                found[below] = content(inode, kept.get(child, "none"))


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def part_of(pending: list[Change], how: str) -> list[Change]:
    return {"all": pending, "none": [], "half": pending[: len(pending) // 2], "torn": pending}[how]


def content(inode: Inode, how: str) -> bytes:
    data = bytearray(inode.content)
    pending = part_of(inode.pending, how)
    for change in [*inode.durable, *pending]:
        written = change.data
        if how == "torn" and pending and change is pending[-1]:
            written = written[: len(written) // 2] + bytes(len(written) - len(written) // 2)  # grown, and not filled
        if change.kind == "truncate":
            data = data[: change.offset] + bytes(max(0, change.offset - len(data)))
        else:
            data += bytes(max(0, change.offset - len(data)))
            data[change.offset : change.offset + len(written)] = written
    return bytes(data)


def cuts(
    disk: Disk, changes: list[Change], moments: Container[int] | None = None
) -> Iterator[tuple[int, str, dict[str, bytes | None]]]:
    """Each moment, or each of some, and what a cut at it may leave: all, nothing, and each thing for itself."""
    for number in range(len(changes) + 1):
        unsynced = disk.unsynced()
        everything, nothing = dict.fromkeys(unsynced, "all"), dict.fromkeys(unsynced, "none")
        choices = [("all", everything), ("none", nothing)]
        for one in unsynced if number % EACH == 0 else disk.relied_on(unsynced):
            choices += [(f"{how} {one}", everything | {one: how}) for how in ("none", "half", "torn")]
            choices += [(f"only {how} {one}", nothing | {one: how}) for how in ("all", "half", "torn")]
        for how, kept in choices if moments is None or number in moments else ():
            yield number, how, disk.tree(kept)
        if number < len(changes):
            disk.apply(changes[number])


def is_amid_pages(changes: list[Change], number: int) -> bool:
    """Whether a change is one of many writes in a row to one file, and neither the first nor the last of them.

    SQLite alone acts between them. It promises the same whichever of them are there, and at the last one half of them
    and a torn one are tried: so three quarters of all states would be of one kind.
    """
    three = changes[max(number - 1, 0) : number + 2]
    alike = len(three) == 3 and {(one.kind, one.path) for one in three} == {("write", three[1].path)}
    return alike and PAGES.search(three[1].path) is not None


def tree_of(root: Path) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {"": None}
    for path in sorted(root.rglob("*")):
        found[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return found


def rebuild(root: Path, template: dict[str, bytes | None], tree: dict[str, bytes | None]) -> None:
    """Make the folder hold this tree; what neither the template nor the job changed is left alone, inode and all."""
    for path in sorted(root.rglob("*"), reverse=True):
        name = str(path.relative_to(root))
        if name not in tree:
            path.rmdir() if path.is_dir() else path.unlink()
    for name, data in tree.items():
        path = root / name
        if data is None:
            path.mkdir(mode=0o700, exist_ok=True)
        elif template.get(name) != data or not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
            path.chmod(0o600)


def available() -> str | None:
    """Tell why nothing can be recorded on this machine; None where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"ptrace is not allowed: {tried.stderr.strip()[:200]}"


def trace(server: Server, log: Path) -> int:
    """Run the job once in a child whose calls strace writes down, with their bytes and results; its exit code."""
    out, into = os.pipe()

    def wait() -> None:
        os.close(into)
        os.read(out, 1)  # ends when the parent closes the other end
        os.close(out)

    pid = server.start(0, wait)
    os.close(out)
    with subprocess.Popen(
        ["strace", "-p", str(pid), "-o", str(log), "-y", *VERBOSE], stderr=subprocess.PIPE, text=True
    ) as strace:
        said = strace.stderr.readline() if strace.stderr else ""
        if "attached" not in said:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            sys.exit(f"strace cannot attach: {said}")
        os.close(into)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        strace.communicate()
    return code


def states(
    server: Server, most: int | None, seed: int
) -> tuple[list[tuple[int, str, dict[str, bytes | None]]], dict[str, bytes | None], int]:
    """The different states, or some at so many moments; the tree before, and how many changes there were."""
    server.lay_out()
    before = tree_of(server.root)
    recorder = Recorder(server.root)
    recorder.sizes = {name: len(data) for name, data in before.items() if data is not None}
    log = server.root.parent / "calls"
    code = trace(server, log)
    if code != 0:
        sys.exit(f"the job failed: {server.stderr.read_text()}")
    changes = [change for change in recorder.read(log) if not change.path.endswith("-shm")]
    after = {name: data for name, data in tree_of(server.root).items() if not name.endswith("-shm")}
    disk = Disk(before)
    seen: set[frozenset[tuple[str, int]]] = set()
    found = []
    random.seed(seed)
    moments = [number for number in range(len(changes) + 1) if not is_amid_pages(changes, number)]
    if most is not None:
        moments = random.sample(moments, min(most, len(moments)))
    # Thousands of states differ in a few files: each content is held once.
    contents: dict[bytes, bytes] = {}
    for number, how, tree in cuts(disk, changes, moments):
        held = {name: None if data is None else contents.setdefault(data, data) for name, data in tree.items()}
        known = frozenset(
            (name, id(data))
            for name, data in held.items()
            if number % EACH == 0 or not RELIED_ON_BY_NOBODY.search(name)
        )
        if known not in seen:
            seen.add(known)
            found.append((number, how, held))
    replayed = disk.tree(dict.fromkeys(disk.unsynced(), "all")) | {"": None}
    wrong = sorted(name for name in {*replayed, *after} if replayed.get(name, b"?") != after.get(name, b"?"))
    if wrong:
        sys.exit(f"the log does not explain {wrong}")
    return found, before, len(changes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, help="only so many states …")
    parser.add_argument("--seed", type=int, default=0, help="… which this number chooses")
    given = parser.parse_args()
    module, _, name = given.job.partition(":")
    job: Job = getattr(importlib.import_module(module), name)
    server = Server(job, given.folder)
    server.warm_up()
    found, before, changes = states(server, given.most, given.seed)
    server.plain(1)
    tell(how="undisturbed", states=len(found), changes=changes, after=job.state(server.root))
    chosen = found if given.most is None else random.sample(found, min(given.most, len(found)))
    for number, how, tree in chosen:
        server.lay_out()
        rebuild(server.root, before, tree)
        again = server.plain(1)
        trouble = server.stderr.read_text(encoding="utf-8", errors="replace").strip()
        after = job.state(server.root) if again == 0 else None
        tell(how=how, number=number, again=again, trouble=trouble, after=after)
    shutil.rmtree(server.root)


if __name__ == "__main__":
    main()
