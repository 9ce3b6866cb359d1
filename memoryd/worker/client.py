"""Run the parent's side of the worker: a child process that exists only while there is work for it."""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd import errors
from memoryd.errors import MemorydError, StateError
from memoryd.scrub.finding import ScrubbedText
from memoryd.text.portions import group_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from memoryd.jobs.job import Ask, Reply
    from memoryd.llm.endpoint import Endpoint
    from memoryd.llm.failure import Failure
    from memoryd.scrub.policy import Policy

COUNT_DEADLINE = timedelta(seconds=60)
SCANNER_DEADLINE = timedelta(seconds=120)  # for starting the child and compiling the rules, once for each user
RELOAD_DEADLINE = timedelta(seconds=12)  # for starting the child again, when the rules are compiled
# The daemon's loop waits for scans, and its watchdog waits for the loop. So no wait may take nearly half of a
# watchdog's period.
SCAN_DEADLINE = timedelta(seconds=6)  # plus the time for the size of a batch
SCAN_AGAIN_DEADLINE = timedelta(seconds=2)  # the same for a part of texts that were lost before
SCAN_DEADLINE_PER_MB = timedelta(seconds=1)
SCAN_PATIENCE = timedelta(seconds=12)  # for the losses in one call; enough to find one bad text
SCAN_PARTS = 64  # parts of a lost batch; after two more losses, one bad text in 4096 is found
ALONE = 0  # the size of a text that was lost although it was scanned alone
EMBED_DEADLINE = timedelta(seconds=30)  # for starting the child and loading the model
EMBED_DEADLINE_PER_TEXT = timedelta(seconds=5)  # fifty times the time of the slowest text
MOST_REMEMBERED = 50_000
BATCH_CHARACTERS = 4_000_000
SCAN_CHARACTERS = 1_000_000
STOP_DEADLINE = timedelta(seconds=5)
MODEL_GRACE = timedelta(seconds=15)  # for starting the child, loading the library and resolving the host
_RETRY_SECONDS = 0.05

# The child runs the package of its parent, wherever that is. It imports nothing from the current folder, which may be a
# workspace that others can write to.
_BOOT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import memoryd
del sys.path[0]
import runpy
runpy.run_module("memoryd.worker", run_name="__main__", alter_sys=False)
"""
_log = logging.getLogger(__name__)


class WorkerError(StateError):
    """Report that the worker cannot be started, died twice on one request, or did not answer in time."""

    code = "worker"


class ClosedError(WorkerError):
    """Report that the worker was stopped for good because the process is ending. The request is not the cause."""


class LostError(WorkerError):
    """Report that the child died during the request or was killed for being late. The request may be the cause."""


class _ScanPart(NamedTuple):
    """Hold texts that are scanned at once, by their indexes, and the deadline without the time for their size."""

    places: Sequence[int]
    deadline: timedelta


class _GoneError(Exception):
    """Report that the child died before it answered."""


# Classes that an answer may contain, besides plain values and memoryd's errors.
_VALUES = frozenset(
    [("memoryd.jobs.job", name) for name in ("Reply", "ToolCall")]
    + [("memoryd.llm.failure", name) for name in ("Failure", "Trouble")]
    + [("memoryd.scrub.finding", name) for name in ("ScrubbedText", "Finding")]
)


class _Answer(pickle.Unpickler):
    """Unpickle an answer of the child. The child reads untrusted text, so only the listed classes are allowed."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _VALUES:
            return super().find_class(module, name)
        if module == "memoryd.errors" and issubclass(error := getattr(errors, name, object), MemorydError):
            return error
        if (module, name) == ("builtins", "getattr"):  # the first releases of Python 3.11 pickle an enum this way
            return lambda kind, member: kind[member]
        raise pickle.UnpicklingError("the worker answered with something else")


def _receive(connection: Connection) -> Any:
    data = connection.recv_bytes()
    try:
        return _Answer(io.BytesIO(data)).load()
    except Exception as error:  # bytes that are not an answer may raise anything
        raise pickle.UnpicklingError("the worker's answer cannot be read") from error


class Worker(AbstractContextManager["Worker"]):
    """Start the child when it is needed, send it one request at a time, and stop it when it is idle.

    Several threads may use a worker and take turns. `close` it, or use it as a context manager.
    """

    def __init__(self, state_dir: Path, idle: timedelta = timedelta(seconds=30), name: str = "worker") -> None:
        """Configure the worker without starting it.

        Args:
            state_dir: The state folder.
            idle: How long an idle child stays.
            name: The purpose that `ps` shows.
        """
        self._state_dir = state_dir
        self._name = name
        self._ready: int | None = None  # the process id of the child that has loaded the scanner's rules
        self._load_deadline = SCANNER_DEADLINE
        self._sizes: dict[bytes, int] = {}  # by the hash of a lost text, the size of the parts to scan it in
        self._idle = idle
        self._turn = threading.Lock()
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._used_at = time.monotonic()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the process id of the child, or None if there is none."""
        child = self._child
        return None if child is None else child[0].pid

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        tokens: list[int] = []
        # In portions, so that each process holds only one portion twice.
        for batch in group_items(texts, [len(text) for text in texts], BATCH_CHARACTERS):
            tokens += self._ask(("count", batch), COUNT_DEADLINE)
        return tokens

    def scan(
        self, texts: Sequence[str], policy: Policy, progress: Callable[[], None] = lambda: None
    ) -> list[ScrubbedText | None]:
        """Return each text redacted by the policy, or None for a text that could not be scanned.

        If the child fails, dies or is late, the batch is divided to find the text that is the cause, so that the
        others are scanned. That may take `SCAN_PATIENCE`. Texts that are not scanned in that time are None too. A later
        call with them continues where this one ended. Texts that could not be scanned alone come last. `progress` is
        called after each part that was scanned or lost.
        """
        if policy.secrets == "off" and policy.pii == "off":
            from memoryd.scrub import scan as rules

            return [*rules.scan(texts, policy, lambda _: ())]
        results: list[ScrubbedText | None] = [None] * len(texts)
        patience = SCAN_PATIENCE.total_seconds()
        waiting = deque(self._first_parts(texts))
        while waiting and patience > 0:
            part = waiting.popleft()
            begun = time.monotonic()
            scanned = self._scan_part([texts[place] for place in part.places], policy, part.deadline)
            if scanned is None:
                patience -= time.monotonic() - begun
                waiting.extend(self._split_lost(texts, part.places))
            else:
                for place, result in zip(part.places, scanned, strict=True):
                    results[place] = result
                    if self._sizes:
                        self._sizes.pop(hash_text(texts[place]), None)
            progress()
        if waiting:
            _log.warning("%d texts are left unscanned for now", sum(len(part.places) for part in waiting))
        return results

    def _first_parts(self, texts: Sequence[str]) -> Iterator[_ScanPart]:
        """Yield new texts in batches, then parts of texts that were lost before.

        Texts that could not be scanned alone come last.
        """
        known = {
            place: size
            for place, text in enumerate(texts if self._sizes else ())
            if (size := self._sizes.get(hash_text(text))) is not None
        }
        new = [place for place in range(len(texts)) if place not in known]
        for batch in group_items(new, [len(texts[place]) for place in new], SCAN_CHARACTERS):
            yield _ScanPart(batch, SCAN_DEADLINE)
        for size in sorted(set(known.values()), reverse=True):
            yield from _parts([place for place, its in known.items() if its == size], max(size, 1))

    def _split_lost(self, texts: Sequence[str], places: Sequence[int]) -> Iterator[_ScanPart]:
        """Return the parts in which lost texts are scanned again, in this call or a later one."""
        size = ALONE if len(places) == 1 else -(-len(places) // SCAN_PARTS)
        if len(self._sizes) > MOST_REMEMBERED:
            self._sizes.clear()
        self._sizes |= {hash_text(texts[place]): size for place in places}
        if size == ALONE:
            _log.warning("a text of %d characters could not be scanned", len(texts[places[0]]))
            return iter(())
        return _parts(places, size)

    def _scan_part(self, texts: list[str], policy: Policy, deadline: timedelta) -> list[ScrubbedText] | None:
        """Return the scanned texts, or None if the child failed, died or was late."""
        self._load(policy)
        deadline += SCAN_DEADLINE_PER_MB * (sum(map(len, texts)) / 1e6)
        try:
            answer = self._ask(("scan", texts, policy), deadline, again=len(texts) == 1)
        except LostError:
            return None
        if answer is None:
            return None
        count, found = answer
        if count != len(texts):
            raise WorkerError("the scanner has not looked at every text")
        return [found.get(at, ScrubbedText(text, ())) for at, text in enumerate(texts)]

    def _load(self, policy: Policy) -> None:
        """Load the rules in a request of its own, so that a failure is not blamed on a text.

        Raises:
            WorkerError: The rules cannot be loaded.
        """
        if self._ready is not None and self._ready == self.pid:
            return
        deadline, self._load_deadline = self._load_deadline, RELOAD_DEADLINE
        try:
            self._ask(("scan", [], policy), deadline)
        except LostError as error:
            raise WorkerError("the scanner's rules cannot be loaded", error.what, "see the log") from error
        self._ready = self.pid

    def answer(self, ask: Ask, backend: str, deadline: timedelta) -> Reply:
        """Return the answer of a backend that needs only the question, such as the offline backend.

        Raises:
            WorkerError: The worker did not answer.
            MemorydError: The backend failed.
        """
        result: Reply = self._ask(("answer", backend, _without_notes(ask)), deadline)
        return result

    def answer_of(self, endpoint: Endpoint, ask: Ask) -> Reply | Failure:
        """Return the answer of a model to a question, or the failure. The model is asked once, even if the child dies.

        Raises:
            WorkerError: The child cannot be started, died, or was killed at the deadline; the question may have cost
                money.
            MemorydError: The backend failed.
        """
        deadline = timedelta(seconds=endpoint.timeout) + MODEL_GRACE
        result: Reply | Failure = self._ask(("answer", "openai", _without_notes(ask), endpoint), deadline, again=False)
        return result

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return the meaning of each text as a vector of signed bytes, or None for a text without words."""
        deadline = EMBED_DEADLINE + EMBED_DEADLINE_PER_TEXT * len(texts)
        vectors: list[bytes | None] = self._ask(("embed", list(texts)), deadline, again=False)
        return vectors

    def tick(self, now_monotonic: float) -> None:
        """Stop the child if it has been idle long enough. Never wait for a child that is working."""
        if self._turn.acquire(blocking=False):
            try:
                if now_monotonic - self._used_at >= self._idle.total_seconds():
                    self._stop()
            finally:
                self._turn.release()

    def close(self) -> None:
        """Stop the child for good. A caller that waits for its work gets an error."""
        self._closed = True
        while not self._turn.acquire(timeout=_RETRY_SECONDS):  # repeated, because the child may have been starting
            child = self._child
            if child is not None:
                child[0].kill()
        try:
            self._stop()
        finally:
            self._turn.release()

    def _ask(self, request: tuple[Any, ...], deadline: timedelta, *, again: bool = True) -> Any:
        """Send an operation with its arguments and return the result. `again` repeats it once if the child dies.

        Raises:
            LostError: The child died or was late.
            ClosedError: The worker was closed.
        """
        with self._turn:
            self._refuse_if_closed()
            try:
                answer = self._ask_once(request, deadline)
            except _GoneError as error:
                self._refuse_if_closed()
                if not again:
                    raise LostError("the worker died", f"operation {request[0]}", "see the log") from error
                _log.warning("worker died; asking a new one")
                try:
                    answer = self._ask_once(request, deadline)
                except _GoneError as twice:
                    raise LostError("the worker died twice", f"operation {request[0]}", "see the log") from twice
            self._used_at = time.monotonic()
        if isinstance(answer, MemorydError):
            raise answer
        return answer

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ClosedError(
                "the worker has been stopped", "", "memoryd is ending; the work is done at its next start"
            )

    def _ask_once(self, request: tuple[Any, ...], deadline: timedelta) -> Any:
        if self._child is None or self._child[0].poll() is not None:
            self._stop()
            self._child = self._start()
        child, connection = self._child
        late_at = time.monotonic() + deadline.total_seconds()
        timer = threading.Timer(deadline.total_seconds(), child.kill)  # which ends every wait for its socket
        timer.daemon = True
        timer.start()
        try:
            connection.send(request)
            return _receive(connection)
        # The child ended, or its bytes are not an answer.
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._stop()
            self._refuse_if_closed()
            if time.monotonic() >= late_at:
                what = f"the worker had not answered after {deadline.total_seconds():g} s"
                raise LostError(what, f"operation {request[0]}", "the machine may be overloaded") from error
            raise _GoneError from error
        finally:
            timer.cancel()

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        from multiprocessing import Pipe  # imported late, because some processes never ask

        root = str(Path(__file__).resolve().parents[2])
        # A process that ignores the environment's modules starts children that ignore them too.
        closed = "-I" if sys.flags.isolated else "-P"
        command = [sys.executable, closed, "-c", _BOOT, root, str(self._state_dir), self._name]
        ours = None
        try:
            ours, theirs = Pipe()
            with theirs:
                child = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
        except OSError as error:
            if ours is not None:
                ours.close()
            raise WorkerError(f"cannot be started: {error.strerror}", sys.executable) from error
        # The thread has no state and ends with the child's output.
        threading.Thread(target=_drain, args=(child,), name="worker-output", daemon=True).start()
        return child, ours

    def _stop(self) -> None:
        if self._child is None:
            return
        (child, connection), self._child = self._child, None
        connection.close()
        try:
            child.wait(STOP_DEADLINE.total_seconds())
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def __exit__(self, *_: object) -> None:
        self.close()


def _without_notes(ask: Ask) -> Ask:
    """Return a question without the job's own notes, which are not for the backend."""
    return replace(ask, about=None)


def _parts(places: Sequence[int], size: int) -> Iterator[_ScanPart]:
    return (_ScanPart(places[at : at + size], SCAN_AGAIN_DEADLINE) for at in range(0, len(places), size))


def hash_text(text: str) -> bytes:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _drain(child: subprocess.Popen[bytes]) -> None:
    """Read the child's output, so that its pipe never fills up.

    Only the size is logged, because it may contain content.
    """
    if child.stdout is not None:
        with child.stdout as pipe:
            size = sum(len(line) for line in pipe)
        if size:
            _log.warning("worker wrote %d bytes to its output", size)
