"""Serve the control socket, `state_dir/memoryd.sock`: short requests to the daemon. Losing it costs only time.

One JSON object a line, 64 KiB there and 1 MiB back at most: `{"verb": "ping"}` → `{"ok": true, "data": {…}}` or
`{"ok": false, "error": {"code": …, "message": …, "hint": …}}`. Verbs are `ping`, `status`, `wake` (look at the queue
now), `session_end` with an `id`, `import` (take over an edited MEMORY.md) with an `agent`, and those of agents' hooks,
`context` and `announce`.

Each client has a thread of its own, so a slow client delays no other; requests are answered one after the other. A
client is dropped if it does not finish a line or read the answer within five seconds, if it is another user's process
(except root's), or if too many clients are connected already.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

from memoryd.errors import MemorydError
from memoryd.files import socket_file
from memoryd.requests.daemon_client import MAX_ANSWER, MAX_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from memoryd.files.log import Log

MAX_CLIENTS = 32
SLOW_SECONDS = 5.0
_READ = 16 * 1024


class Control:
    """Serve the control socket inside a `with` block."""

    def __init__(
        self,
        path: Path,
        verbs: Mapping[str, Callable[[Mapping[str, Any]], Any]],
        monotonic: Callable[[], float],
        log: Log,
    ) -> None:
        self._path = path
        self._verbs = verbs
        self._monotonic = monotonic
        self._log = log
        self._places = threading.BoundedSemaphore(MAX_CLIENTS)
        self._answering = threading.Lock()
        self._waiting: set[socket.socket] = set()  # clients whose turn has not come
        self._is_over = False
        self._server: socket.socket | None = None
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._server = socket_file.listen(self._path, MAX_CLIENTS)
        except MemorydError as error:
            self._log.warning("no control socket: commands are seen a little later", why=str(error))
            return self
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._server is not None:
            self._stop.send(b".")
            self._thread.join(SLOW_SECONDS)
            self._server.close()
            self._is_over = True  # from here on nobody's turn comes
            for line in list(self._waiting):
                with contextlib.suppress(OSError):  # it went meanwhile
                    line.shutdown(socket.SHUT_RDWR)
            if self._answering.acquire(timeout=SLOW_SECONDS):  # whose turn it is gets the answer
                self._answering.release()
            try:
                socket_file.remove(self._path)
            except (OSError, MemorydError) as why:  # a failed disk: the next start takes the name over
                self._log.warning("the control socket's name was left", error_type=type(why).__name__)
        self._stop.close()
        self._stopped.close()

    def _serve(self) -> None:
        assert self._server is not None  # noqa: S101 - it is entered
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while self._stopped not in [key.fileobj for key, _ in selector.select()]:
                with contextlib.suppress(OSError):  # it went, or there are no descriptors left: the next one comes then
                    self._accept(self._server.accept()[0])

    def _accept(self, line: socket.socket) -> None:
        if not _is_ours(line) or not self._places.acquire(blocking=False):
            line.close()
            return
        self._waiting.add(line)
        try:
            threading.Thread(target=self._tend, args=(line,), name="control", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            self._waiting.discard(line)
            line.close()
            self._places.release()

    def _tend(self, line: socket.socket) -> None:
        """Give one answer and close the connection, so that no client keeps a thread."""
        try:
            with line, contextlib.suppress(OSError):
                frame = self._receive_line(line)
                if frame is not None:
                    with self._answering:
                        self._waiting.discard(line)  # ahead of the look, so that `__exit__` cuts off no answer
                        if self._is_over:
                            return
                        answer = self._answer_frame(frame)
                    line.settimeout(SLOW_SECONDS)
                    line.sendall(answer)
        finally:
            self._waiting.discard(line)
            self._places.release()

    def _receive_line(self, line: socket.socket) -> bytes | None:
        """Receive one line; return None if it is too long or ends without a line end."""
        until, received = self._monotonic() + SLOW_SECONDS, b""
        while b"\n" not in received:
            line.settimeout(max(until - self._monotonic(), 0.001))
            data = line.recv(_READ)
            received += data
            if not data or len(received.partition(b"\n")[0]) > MAX_FRAME:
                return None
        return received.partition(b"\n")[0]

    def _answer_frame(self, frame: bytes) -> bytes:
        try:
            line = json.dumps({"ok": True, "data": self._carry_out(frame)}).encode() + b"\n"
            if len(line) <= MAX_ANSWER:
                return line
            told = {"code": "too_long", "message": "the answer is too long for this socket", "hint": "memoryd --json …"}
        except MemorydError as error:
            told = {"code": error.code, "message": str(error), "hint": error.hint}
        except Exception as error:  # noqa: BLE001 - one bad request must not end the service for all
            self._log.warning("control request failed", error_type=type(error).__name__)
            told = {"code": "failed", "message": type(error).__name__, "hint": ""}
        return json.dumps({"ok": False, "error": told}).encode() + b"\n"

    def _carry_out(self, frame: bytes) -> Any:
        try:
            request = json.loads(frame)
        except (ValueError, RecursionError):
            raise MemorydError("this is not JSON", hint='{"verb": "ping"}') from None
        if not isinstance(request, dict) or not isinstance(request.get("verb"), str):
            raise MemorydError("this is not a request", hint='{"verb": "ping"}')
        if request["verb"] not in self._verbs:
            raise MemorydError("there is no such verb", hint=", ".join(self._verbs))
        return self._verbs[request["verb"]](request)


def _is_ours(line: socket.socket) -> bool:
    """Return True if the peer is this user or root; if the system does not report it, the folder's mode decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid in {0, os.geteuid()}
