"""Hold several workers, so that one job's wait for a model delays neither other jobs nor the counting of tokens."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from memoryd.worker.client import ClosedError, Worker


class Pool:
    """Lend workers to threads. A new worker is made if all others are lent, and each child ends when it is idle."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._closed = False

    @contextlib.contextmanager
    def one(self) -> Iterator[Worker]:
        """Lend a worker, preferably the one that was used last.

        Raises:
            ClosedError: The pool was closed.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("the workers have been stopped", "", "memoryd is ending")
            worker = self._idle.pop() if self._idle else self._make()
            if worker not in self._all:
                self._all.append(worker)
        try:
            yield worker
        finally:
            with self._lock:
                self._idle.append(worker)

    def tick(self, now_monotonic: float) -> None:
        """Stop the children that have been idle long enough."""
        for worker in list(self._all):
            worker.tick(now_monotonic)

    def close(self) -> None:
        """Stop all workers for good. Callers that wait for one get an error."""
        with self._lock:
            self._closed = True
        for worker in list(self._all):
            worker.close()
