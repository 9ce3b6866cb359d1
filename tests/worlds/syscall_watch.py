"""A forked child whose system calls on files its parent sees before they happen, and lets happen, fail or be its last.

By seccomp's user notification (seccomp_unotify(2)): the child gives the filter's listener to its parent, and each call
of `CALLS` waits for the parent's answer. Only these calls are stopped, so a child runs at half its speed, where a
tracer takes seven times as long.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import re
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

WRITES = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "fallocate")
NAMES = ("rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat")
REMOVALS = ("unlink", "unlinkat", "rmdir")
CALLS = ("openat", *WRITES, *NAMES, *REMOVALS, "chmod", "fchmod", "flock")
# The numbers of these calls; the second machine has none but those relative to a folder.
NUMBERS = {
    "x86_64": {
        "openat": 257, "write": 1, "pwrite64": 18, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "fallocate": 285,
        "rename": 82, "renameat": 264, "renameat2": 316, "link": 86, "linkat": 265, "mkdir": 83, "mkdirat": 258,
        "unlink": 87, "unlinkat": 263, "rmdir": 84, "chmod": 90, "fchmod": 91, "flock": 73,
    },
    "aarch64": {
        "openat": 56, "write": 64, "pwrite64": 68, "fsync": 82, "fdatasync": 83, "ftruncate": 46, "fallocate": 47,
        "renameat": 38, "renameat2": 276, "linkat": 37, "mkdirat": 34, "unlinkat": 35, "fchmod": 52, "flock": 32,
    },
}  # fmt: skip
SECCOMP = {"x86_64": 317, "aarch64": 277}
# Which arguments say what a call is about: a descriptor (`d`), a path (`p`), a path below a folder's descriptor (`at`).
ABOUT = {
    **dict.fromkeys((*WRITES, "fchmod", "flock"), ("d",)),
    **dict.fromkeys(("rename", "link"), ("p", "p")),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), ("at", "at")),
    **dict.fromkeys(("mkdir", "unlink", "rmdir", "chmod"), ("p",)),
    **dict.fromkeys(("mkdirat", "unlinkat", "openat"), ("at",)),
}
AT_FDCWD = -100
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, NEW_LISTENER = 1, 8
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of the filter's small machine, see bpf(4)
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
RECEIVE, SEND = 0xC0502100, 0xC0182101
NOTICE = struct.Struct("QIIiIQ6Q")  # id, pid, flags; number, machine, instruction, six arguments
ANSWER = struct.Struct("QqiI")  # id, value, error, flags
CONTINUE = 1
PATH_MAX = 4096

GO_ON, KILL = "go on", "kill"
Answer = str | int  # `GO_ON`; `KILL`; a negative number: the call fails with this error; another: it returns that
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One system call that is about to happen."""

    name: str
    path: str  # of the file, or of both; `-` if it is about none below the root
    creates: bool


def available() -> str | None:
    """Tell why no child can be watched on this machine; None where it can."""
    if platform.system() != "Linux" or platform.machine() not in NUMBERS:
        return f"the calls of {platform.system()} on {platform.machine()} are not known"
    try:
        code = watch(lambda: os.close(os.open(os.devnull, os.O_RDONLY)), lambda _call: -errno.EIO, "/")
    except OSError as error:
        return f"seccomp's notifications are not allowed: {error}"
    return None if code == 1 else "seccomp's notifications do not work"


def watch(
    action: Callable[[], None],
    decide: Callable[[Call], Answer],
    root: str,
    names: Iterable[str] = CALLS,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Carry an action out in a child; its exit code, negative for a signal, 1 for an exception.

    `decide` is asked before each call of these names, also for those whose path is not below the root; the child does
    what is to be done `before` it is watched.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ours.close()
            before()
            listener = _install(names)
            socket.send_fds(theirs, [b"-"], [listener])
            os.close(listener)
            theirs.close()
            action()
            code = 0
        finally:
            os._exit(code)  # also after an exception: the child must never return into its parent's code
    theirs.close()
    with ours:
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if descriptors:
        try:
            _Listener(pid, descriptors[0], root).serve(decide)
        finally:
            os.close(descriptors[0])
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not descriptors:
        raise OSError(errno.EPERM, "the child could not install its filter")
    return code


def _install(names: Iterable[str]) -> int:
    """Stop this thread from here on at each call of these names; the descriptor that tells of them."""
    numbers = NUMBERS[platform.machine()]
    wanted = sorted({numbers[name] for name in names if name in numbers})
    steps = [(LOAD_NUMBER, 0, 0, 0)]
    steps += [(JUMP_IF_EQUAL, len(wanted) - index, 0, number) for index, number in enumerate(wanted)]
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, NOTIFY)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    listener = int(LIBC.syscall(SECCOMP[platform.machine()], SET_MODE_FILTER, NEW_LISTENER, program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


class _Listener:
    """Answers for each call of one child."""

    def __init__(self, pid: int, descriptor: int, root: str) -> None:
        self.pid = pid
        self.descriptor = descriptor
        self.root = root
        self.names = {number: name for name, number in NUMBERS[platform.machine()].items()}

    def serve(self, decide: Callable[[Call], Answer]) -> None:
        """Answer until the child has ended."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        with Path(f"/proc/{self.pid}/mem").open("rb", buffering=0) as memory:
            while poll.poll()[0][1] & select.POLLIN:
                notice = bytearray(NOTICE.size)
                try:
                    fcntl.ioctl(self.descriptor, RECEIVE, notice)
                except FileNotFoundError:  # it ended meanwhile
                    continue
                number, _, _, which, _, _, *arguments = NOTICE.unpack(notice)
                answer = decide(self._call(self.names[which], arguments, memory.fileno()))
                if answer == KILL:
                    os.kill(self.pid, signal.SIGKILL)
                else:
                    self._answer(number, answer)

    def _answer(self, number: int, answer: Answer) -> None:
        told = (0, 0, CONTINUE)
        if isinstance(answer, int):
            told = (0, answer, 0) if answer < 0 else (answer, 0, 0)
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            fcntl.ioctl(self.descriptor, SEND, ANSWER.pack(number, *told))

    def _call(self, name: str, arguments: list[int], memory: int) -> Call:
        paths, position = [], 0
        for kind in ABOUT[name]:
            if kind == "d":
                path = self._link(f"fd/{arguments[position]}")
            elif kind == "p":
                path = self._join("cwd", _text_at(memory, arguments[position]))
            else:
                folder = ctypes.c_int32(arguments[position] & 0xFFFFFFFF).value
                given = _text_at(memory, arguments[position + 1])
                path = self._join("cwd" if folder == AT_FDCWD else f"fd/{folder}", given)
                position += 1
            position += 1
            if path.startswith(self.root):
                paths.append(path.removeprefix(self.root))
        creates = name == "openat" and bool(arguments[2] & os.O_CREAT)
        return Call(name, " ".join(paths) if paths else "-", creates)

    def _join(self, folder: str, given: str) -> str:
        return given if given.startswith("/") else f"{self._link(folder)}/{given}"

    def _link(self, name: str) -> str:
        try:
            return str(Path(f"/proc/{self.pid}/{name}").readlink())
        except OSError:  # a descriptor that is not open: the call itself will say so
            return ""


def _text_at(memory: int, address: int) -> str:
    """Read a path of the child, which ends at a zero; a page at a time, since the next may not be there."""
    found = b""
    while b"\0" not in found and len(found) < PATH_MAX:
        piece = os.pread(memory, PATH_MAX - (address + len(found)) % PATH_MAX, address + len(found))
        if not piece:
            break
        found += piece
    return re.split(b"\0", found, maxsplit=1)[0].decode("utf-8", "surrogateescape")
