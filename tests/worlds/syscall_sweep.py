"""One job, killed or failed at each of its system calls that touch its folder: a server that forks a child for each.

    syscall_sweep.py MODULE:NAME FOLDER HOW[/K|%K]… [--seed S]

HOW is `kill`; an error number's name (`EIO`, `ENOSPC`, `EDQUOT`: that call fails once; with a `+`: every call that
writes fails from there on); `short` (a `write` takes half of what it was given); or `lie` (a `write` says it took
eight bytes and took none); with `/K` each K-th of its points only; with `%K` the first point of each kind, and each
K-th of the others. NAME is a `Job`. It is carried out once undisturbed, which warms the server up; then once for each
point: the folder is copied from the template, a forked child runs into its fault, and a second child runs undisturbed.
What each point came to is printed as one line of JSON.

A point is the how-many-eth call of its name on its path, from which times and random parts are left out. So it is the
same call in each run, though the interpreter makes some calls of its own now and then.

Some points tell the same as others, so that the first of their kind stands for them:

* Of kills: those that find the same files, byte for byte. A process that is killed leaves nothing else: its locks and
  what it held in memory are gone, and the page cache stays, so that an `fsync`, a `flock` or an `openat` that creates
  nothing leaves what was there before it. One of each kind is swept, the others never. Measured: all 204 others of
  SLEEP and all 196 of LEDGER came to what the first of their kind came to.
* Of calls that fail: the same call on the same path (a date is any date), made by the same six lines of the program;
  and the same call on the same path in the same command and the same kind of run. Each of both is swept at least once:
  each fault that the program can meet, and each file in each thing that a person asks for. The others, as when the next
  command opens the same database, are swept by sample, others each time: the program does about the fault what it did
  before, but other work comes after. Measured by EIO at each call of LEDGER, which cannot repeat what failed: it came
  to something else at 36 calls in three stretches; of these, 31 are the first of a kind, and each stretch has some.
"""

import argparse
import contextlib
import errno
import gc
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import syscall_watch
from call_classes import Files, Place, Places
from syscall_watch import GO_ON, KILL, NAMES, REMOVALS, WRITES, Answer

PATIENCE = 90  # seconds until a child that hangs is ended, which its exit code tells
NEVER = 0
RANDOM = re.compile(r"\d{8}T\d{6}\.\d+Z|[0-9a-f]{16}|run-\d{8}T\d{6}-[0-9a-f]{6}")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
LIE = 8
ATTEMPTS = 3


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
class Point:
    """One system call of the undisturbed run."""

    name: str
    number: int  # the how-many-eth of its name on its path, from 1
    path: str  # below the folder, without times and random parts
    creates: bool


class Watched:
    """The calls of one run, each answered: all go on until the fault's point is met."""

    def __init__(self, fault: "Fault | None" = None) -> None:
        self.fault = fault
        self.points: list[Point] = []
        self.has_hit = False
        self._counted = Counter[tuple[str, str]]()

    @property
    def names(self) -> Iterable[str]:
        """The calls that have to be looked at: the fewer, the faster the child."""
        if self.fault is None:
            return syscall_watch.CALLS
        return {self.fault.point.name, *(WRITES + NAMES + REMOVALS if self.fault.how.endswith("+") else ())}

    def __call__(self, call: syscall_watch.Call) -> Answer:
        path = RANDOM.sub("*", call.path)
        self._counted[call.name, path] += 1
        point = Point(call.name, self._counted[call.name, path], path, call.creates)
        self.points.append(point)
        if self.fault is None:
            return GO_ON
        if not self.has_hit and self.fault.point == point:
            self.has_hit = True
            return self.fault.answer
        return self.fault.later(call.name) if self.has_hit else GO_ON


class Recorded(Watched):
    """What the calls of an undisturbed run have in common.

    Such a run takes seconds, in which the program may do some work that it puts off otherwise: so the points are those
    of another run.
    """

    def __init__(self, folder: Files | None, places: Places | None) -> None:
        super().__init__()
        self.files: dict[Point, str] = {}  # that the call finds
        self.places: dict[Point, Place] = {}
        self._folder = folder
        self._places = places

    def __call__(self, call: syscall_watch.Call) -> Answer:
        answer = super().__call__(call)
        if call.path != "-":
            if self._folder:
                self.files[self.points[-1]] = self._folder.digest()
            if self._places:
                self.places[self.points[-1]] = self._places.ask()
        return answer


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at one point, and from there on."""

    how: str
    point: Point

    @property
    def answer(self) -> Answer:
        if self.how == "kill":
            return KILL
        if self.how in {"short", "lie"}:
            return LIE if self.how == "lie" else GO_ON
        return -getattr(errno, self.how.rstrip("+"))

    def later(self, name: str) -> Answer:
        """A disk that fails from there on takes no writes; one that is full still removes."""
        if not self.how.endswith("+"):
            return GO_ON
        failing = name in WRITES + NAMES or name == self.point.name or (self.how == "EIO+" and name in REMOVALS)
        return self.answer if failing else GO_ON


class Server:
    """Forks a child for each run of the job over one folder."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.template = folder / "template"
        self.root = folder / "point"  # always the same, since what is stored may name it
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

    def watched(self, decide: Watched, short: int = NEVER, before: Callable[[], None] = lambda: None) -> int:
        """Run the job in a child whose calls are answered; its exit code, negative for a signal."""
        return syscall_watch.watch(
            lambda: self._carry_out(0, short), decide, str(self.root), decide.names, before=before
        )

    def plain(self, runs: int) -> int:
        """Run the job in a child that nobody disturbs."""
        return os.waitstatus_to_exitcode(os.waitpid(self.start(runs), 0)[1])

    def start(self, runs: int, wait: Callable[[], object] = lambda: None) -> int:
        """Start a child that waits for something and then runs the job; its process id."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                wait()
                self._carry_out(runs)
                code = 0
            finally:
                os._exit(code)
        return pid

    def _carry_out(self, runs: int, short: int = NEVER) -> None:
        """What a child does: its errors go to a file, and a failure is an exception."""
        errors = os.open(self.stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(errors, 2)
        signal.alarm(PATIENCE)
        if short:
            os.write = _half(short, self._is_point)
        try:
            self.job.run(self.root, runs)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            with contextlib.suppress(OSError):  # its disk may be the one that fails; the exit code tells all the same
                sys.stderr.flush()

    def _is_point(self, fd: int) -> bool:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        return path.startswith(str(self.root)) and self.job.is_state(path.removeprefix(str(self.root)))


def _half(number: int, is_point: Callable[[int], bool]) -> Callable[[int, Any], int]:
    """A write that is short the NUMBER-th time: an answer can say that less was written, but not write less."""
    whole = os.write
    count = Counter[str]()

    def write(fd: int, data: Any) -> int:
        count["write"] += is_point(fd)
        return whole(fd, memoryview(data)[: len(data) // 2] if count["write"] == number else data)

    return write


def points_of(calls: list[Point], how: str, is_state: Callable[[str], bool]) -> list[int]:
    """Choose the indices of the calls at which this fault can happen.

    Of pages that are written to one file in a row only the first and the last: SQLite alone acts between them.
    """
    chosen = []
    for index, call in enumerate(calls):
        if call.path == "-" or not is_state(call.path) or _is_amid_pages(calls[index - 1 : index + 2]):
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


def _is_amid_pages(three: list[Point]) -> bool:
    """Whether a call, with its two neighbours, is one of many writes of pages to one file, and at no end of them."""
    return len(three) == 3 and {(one.name, one.path) for one in three} == {("pwrite64", three[1].path)}


def kinds_of(run: Recorded, calls: list[Point], points: list[int], how: str) -> list[int]:
    """Choose of these points the first of each kind, as the head of this module tells."""
    seen: set[Hashable] = set()
    chosen = []
    for index in points:
        call = calls[index]
        about = call.name, call.creates, DATE.sub("*", call.path)
        kinds: set[Hashable] = {(call,)}  # what that run did not have is of a kind of its own
        if how == "kill" and call in run.files:
            kinds = {run.files[call]}
        elif how != "kill" and call in run.places:
            kinds = {(about, run.places[call].lines), (about, run.places[call].phase)}
        if not kinds <= seen:
            chosen.append(index)
        seen |= kinds
    return chosen


def sample(points: list[int], kinds: list[int], each: int, of_repeats: int, seed: int) -> list[int]:
    """Choose each so manieth point; or the first of each kind, and each so manieth of the others."""
    chance = random.Random(seed)
    if not of_repeats:
        return points[chance.randrange(each) :: each]
    repeats = sorted({*points} - {*kinds})
    return sorted([*kinds, *repeats[chance.randrange(of_repeats) :: of_repeats]])


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def one_point(server: Server, calls: list[Point], index: int, how: str) -> None:
    short = points_of(calls, how, server.job.is_state).index(index) + 1 if how == "short" else NEVER
    for _ in range(ATTEMPTS):  # on a busy machine a run may do less or more than the one that was recorded
        server.lay_out()
        watched = Watched(Fault(how, calls[index]))
        code = server.watched(watched, short)
        if watched.has_hit:
            break
    said = server.stderr.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    between = server.job.glance(server.root)
    again = server.plain(1)
    trouble = server.stderr.read_text(encoding="utf-8", errors="replace").strip()
    after = server.job.state(server.root) if again == 0 else None
    tell(
        how=how, index=index, **asdict(calls[index]), hit=watched.has_hit, code=code, said=said[-1:], between=between,
        again=again, trouble=trouble, after=after,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("folder", type=Path)
    parser.add_argument("hows", nargs="+", metavar="HOW[/K|%K]")
    parser.add_argument("--seed", type=int, default=0, help="chooses the first of each K-th points")
    parser.add_argument("--only", type=int, help="only the point of this index")
    given = parser.parse_args()
    module, _, name = given.job.partition(":")
    asked_for = {how: (int(each or 1), int(rest or 0)) for how, each, rest in map(_read_how, given.hows)}
    server = Server(getattr(importlib.import_module(module), name), given.folder)
    server.warm_up()
    server.lay_out()
    watched = Watched()
    code = server.watched(watched)
    calls = watched.points
    server.lay_out()
    places = Places() if any(rest and how != "kill" for how, (_, rest) in asked_for.items()) else None
    run = Recorded(Files(server.root) if "kill" in asked_for else None, places)
    code = server.watched(run, before=places.start if places else lambda: None) or code
    possible = {how: points_of(calls, how, server.job.is_state) for how in asked_for}
    kinds = {how: kinds_of(run, calls, found, how) for how, found in possible.items()}
    again = server.plain(1)
    count = {how: len(found) for how, found in possible.items()}
    different = {how: len(found) for how, found in kinds.items() if places or how == "kill"}
    after = server.job.state(server.root)
    tell(how="undisturbed", code=code, again=again, points=count, kinds=different, after=after)
    for how, (each, rest) in asked_for.items():
        points = kinds[how] if how == "kill" else possible[how]
        chosen = sample(points, kinds[how], each, rest, given.seed)
        for index in chosen if given.only is None else [given.only]:
            one_point(server, calls, index, how)


def _read_how(text: str) -> tuple[str, str, str]:
    how, each, rest = re.fullmatch(r"([^/%]+)(?:/(\d+))?(?:%(\d+))?", text).groups()
    return how, each, rest


if __name__ == "__main__":
    main()
