"""One job, killed or failed at each of its system calls that touch its folder: a fork server under `strace --inject`.

    syscall_sweep.py MODULE:NAME FOLDER HOW[/K]… [--seed S]

HOW is `kill`; an error number's name (`EIO`, `ENOSPC`, `EDQUOT`: that call fails once; with a `+`: every call that
writes fails from there on); `short` (a `write` takes half of what it was given); or `lie` (a `write` says it took
eight bytes and took none); with `/K` each K-th of its points only. NAME is a `Job`. It is carried out once undisturbed,
which warms the server up; then once for each point: the folder is laid out anew, a forked child waits for `strace -p`,
runs into its fault, and a second child runs undisturbed. What each point came to is printed as one line of JSON.

No `-P` filter is used: every call is counted and the points are chosen by path afterwards, so that temporary files
need no predictable names. The log of each run tells whether the fault hit the call it was meant for.
"""

import argparse
import contextlib
import gc
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PATIENCE = 90  # seconds until a child that hangs is ended, which its exit code tells
NEVER = 0
TRIES = 3  # a call of the interpreter's own, now and then, moves the count
WRITES = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "fallocate")
NAMES = ("rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat")
REMOVALS = ("unlink", "unlinkat", "rmdir")
CALLS = ("openat", *WRITES, *NAMES, *REMOVALS, "chmod", "fchmod", "flock")
COUNTING = ("-s", "0", "-e", f"trace={','.join(CALLS)}")
RANDOM = re.compile(r"\d{8}T\d{6}\.\d+Z|[0-9a-f]{16}|run-\d{8}T\d{6}-[0-9a-f]{6}")
LIE = 8


@dataclass(frozen=True, slots=True)
class Job:
    """What is swept. Each function gets the same folder; all of it is carried out by one thread.

    Attributes:
        prepare: lays the folder out, once.
        run: the job from start to end, as often as it is called; the second argument tells how many runs came before.
        state: what the job came to, as JSON without ids and times: equal to that of an undisturbed run.
        glance: what a disturbed run left, as JSON: read without changing anything.
        is_state: whether a call's path (below the folder) is one whose calls are points.
    """

    prepare: Callable[[Path], None]
    run: Callable[[Path, int], None]
    state: Callable[[Path], Any]
    glance: Callable[[Path], Any]
    is_state: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """One system call of the undisturbed run."""

    name: str
    number: int  # the how-many-eth of its name, from 1
    path: str  # below the folder, without times and random parts
    creates: bool


def available() -> str | None:
    """Tell why no sweep is possible on this machine; None where it is."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-qq", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return None if tried.returncode == 0 else f"ptrace is not allowed: {tried.stderr.strip()[:200]}"


class Server:
    """Forks a child for each run of the job over one folder."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.template = folder / "template"
        self.root = folder / "point"  # always the same, since what is stored may name it
        self.log = folder / "calls"
        self.stderr = folder / "stderr"
        job.prepare(self.root)
        self.root.rename(self.template)

    def lay_out(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root)

    def warm_up(self) -> None:
        """Import what the job imports, here and not in each child."""
        self.lay_out()
        self.job.run(self.root, 0)
        gc.collect()
        gc.freeze()

    def traced(self, inject: list[str], short: int = NEVER, watching: tuple[str, ...] | list[str] = COUNTING) -> int:
        """Run the job in a child under strace; its exit code, negative for a signal."""
        gate = os.pipe()
        pid = self._fork(0, gate, short)
        os.close(gate[0])
        command = ["strace", "-p", str(pid), "-o", str(self.log), "-y", *watching]
        for one in inject:
            command += ["-e", f"inject={one}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            said = strace.stderr.readline()
            if "attached" not in said:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                sys.exit(f"strace cannot attach: {said}")
            os.close(gate[1])  # the child, which waits for this, runs
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            strace.communicate()
        return code

    def plain(self, runs: int) -> int:
        """Run the job in a child that nobody disturbs."""
        return os.waitstatus_to_exitcode(os.waitpid(self._fork(runs), 0)[1])

    def _fork(self, runs: int, gate: tuple[int, int] | None = None, short: int = NEVER) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            errors = os.open(self.stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(errors, 2)
            signal.alarm(PATIENCE)
            if short:
                os.write = _half(short, self._is_point)
            if gate is not None:
                os.close(gate[1])
                os.read(gate[0], 1)
                os.close(gate[0])
            self.job.run(self.root, runs)
            code = 0
        except BaseException:  # noqa: BLE001 - the child must never return into its parent's code
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):  # its disk may be the one that fails; the exit code tells all the same
                sys.stderr.flush()
            os._exit(code)

    def _is_point(self, fd: int) -> bool:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        return path.startswith(str(self.root)) and self.job.is_state(path.removeprefix(str(self.root)))

    def calls(self) -> list[Call]:
        """Read the log of an undisturbed run: all calls, in order."""
        return _read(self.log, str(self.root))

    def hit(self, call: Call) -> bool:
        """Say whether the last run met the very call it was to fail at."""
        found = [one for one in self.calls() if (one.name, one.number) == (call.name, call.number)]
        return bool(found) and found[0].path == call.path


def _half(number: int, is_point: Callable[[int], bool]) -> Callable[[int, Any], int]:
    """A write that is short the NUMBER-th time: strace can say that less was written, but not write less."""
    whole = os.write
    count = Counter[str]()

    def write(fd: int, data: Any) -> int:
        count["write"] += is_point(fd)
        return whole(fd, memoryview(data)[: len(data) // 2] if count["write"] == number else data)

    return write


def _read(log: Path, root: str) -> list[Call]:
    counted = Counter[str]()
    found = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        name, bracket, rest = line.partition("(")
        if not bracket or name not in CALLS:
            continue
        counted[name] += 1
        asked, _, _ = rest.rpartition(" = ")  # the descriptor that came back is missing where the call failed
        # A name that is given relative to an open folder, `7</root/workspace>, "MEMORY.md"`, is told as one path.
        asked = re.sub(r'>, "([^"/][^"]*)"', r"/\1>", asked)
        paths = re.findall(re.escape(root) + r'([^"<>]*)', asked)
        path = " ".join(RANDOM.sub("*", path) for path in paths)
        found.append(Call(name, counted[name], path if paths else "-", "O_CREAT" in rest))
    return found


def points_of(calls: list[Call], how: str, is_state: Callable[[str], bool]) -> list[int]:
    """Choose the indices of the calls at which this fault can happen."""
    chosen = []
    for index, call in enumerate(calls):
        if call.path == "-" or not is_state(call.path):
            continue
        if how in {"short", "lie"}:
            possible = call.name == "write"
        elif how.startswith("E") and how.rstrip("+") != "EIO":  # a full disk still reads, unlinks and closes
            possible = call.name in WRITES + NAMES or (call.name == "openat" and call.creates)
        else:
            possible = how == "kill" or call.name != "flock"
        if possible:
            chosen.append(index)
    return chosen


def injections(calls: list[Call], index: int, how: str) -> list[str]:
    """Say the fault at one call in the words of strace."""
    call = calls[index]
    if how == "kill":
        return [f"{call.name}:signal=SIGKILL:when={call.number}"]
    if how == "lie":
        return [f"{call.name}:retval={LIE}:when={call.number}"]
    if not how.endswith("+"):
        return [f"{call.name}:error={how}:when={call.number}"]
    before = Counter(one.name for one in calls[:index])
    failing = {*WRITES, *NAMES, call.name} | (set(REMOVALS) if how == "EIO+" else set())
    return [f"{name}:error={how[:-1]}:when={before[name] + 1}+" for name in sorted(failing)]


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def one_point(server: Server, calls: list[Call], index: int, how: str) -> None:
    call, hit = calls[index], False
    for _ in range(TRIES):
        server.lay_out()
        if how == "short":
            points = points_of(calls, how, server.job.is_state)
            code = server.traced([], short=points.index(index) + 1)
        else:
            code = server.traced(injections(calls, index, how))
        if hit := server.hit(call):
            break
        # The interpreter made more or fewer calls than before: take the number from a new log.
        others = undisturbed(server)
        if (moved := _find_same(call, calls, others)) is not None:
            calls, index, call = others, moved, others[moved]
    said = server.stderr.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    between = server.job.glance(server.root)
    again = server.plain(1)
    trouble = server.stderr.read_text(encoding="utf-8", errors="replace").strip()
    after = server.job.state(server.root) if again == 0 else None
    tell(
        how=how, index=index, **asdict(call), hit=hit, code=code, said=said[-1:], between=between, again=again,
        trouble=trouble, after=after,
    )  # fmt: skip


def _find_same(call: Call, calls: list[Call], others: list[Call]) -> int | None:
    """Find a call in the log of another run: the how-many-eth of its name on this path it was."""
    before = sum((one.name, one.path) == (call.name, call.path) for one in calls[: calls.index(call)])
    same = [index for index, one in enumerate(others) if (one.name, one.path) == (call.name, call.path)]
    return same[before] if before < len(same) else None


def undisturbed(server: Server) -> list[Call]:
    """Run the job until two runs in a row make the same calls: the interpreter has some of its own, now and then."""
    before: list[Call] = []
    for _ in range(TRIES + 1):
        server.lay_out()
        server.traced([])
        calls = server.calls()
        if calls == before:
            break
        before = calls
    return calls


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("folder", type=Path)
    parser.add_argument("hows", nargs="+", metavar="HOW[/K]")
    parser.add_argument("--seed", type=int, default=0, help="chooses the first of each K-th points")
    parser.add_argument("--only", type=int, help="only the point of this index")
    given = parser.parse_args()
    module, _, name = given.job.partition(":")
    server = Server(getattr(importlib.import_module(module), name), given.folder)
    server.warm_up()
    server.lay_out()
    code = server.traced([])
    calls = server.calls()  # what moves in later runs, each point looks up for itself
    every = {how: int(each or 1) for how, _, each in (one.partition("/") for one in given.hows)}
    points = {how: points_of(calls, how, server.job.is_state) for how in every}
    again = server.plain(1)
    count = {how: len(found) for how, found in points.items()}
    tell(how="undisturbed", code=code, again=again, points=count, after=server.job.state(server.root))
    for how, each in every.items():
        first = random.Random(given.seed).randrange(each)
        for index in points[how][first::each] if given.only is None else [given.only]:
            one_point(server, calls, index, how)


if __name__ == "__main__":
    main()
