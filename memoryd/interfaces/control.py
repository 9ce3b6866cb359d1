"""Serve the control socket, `state_dir/memoryd.sock`: short requests to the daemon.

The daemon also works without the socket, but notices commands later.

Protocol: one JSON object per line. A request has at most 64 KiB, an answer at most 1 MiB. `{"verb": "ping"}` gets
`{"ok": true, "data": {…}}` or `{"ok": false, "error": {"code": …, "message": …, "hint": …}}`. The verbs are:
- `ping`, `status`, `search`;
- `inject`: return the text for the start of a session;
- `wake`: look at the queue at once;
- `session_end` with an `id`;
- `import` with an `agent`: import an edited MEMORY.md;
- `context`, `prompt` and `announce`, for the hooks of agents.

Each client has its own thread, so a slow client delays no other. Requests of hooks share one lock and all other
requests share another. So the start of an agent never waits for a request of a person.

A client is dropped if it sends no full line within five seconds, if it does not read the answer within five seconds, or
if its process belongs to another user (except root). If too many clients have not sent their line, the oldest one is
dropped, first one of the same process. So a new client, such as a hook, always finds a place.
"""

import contextlib
import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from memoryd.errors import MemorydError
from memoryd.files import socket_file
from memoryd.files.log import Log
from memoryd.requests.daemon_client import MAX_ANSWER, MAX_FRAME

MAX_CLIENTS = 32
MAX_OF_PEER = 8  # clients of one process that have not sent their line yet
SLOW_SECONDS = 5.0
_READ = 16 * 1024

Verb = Callable[[Mapping[str, Any]], Any]  # answers a request; the result must be JSON


# The types of required fields of requests; all other required fields are texts or null.
_TYPES = {"agent": str, "text": str, "narrowing": dict, "tags": list, "limit": int, "max_tokens": int | None}


class _Request(dict[str, Any]):
    """Hold an object of a request. A required field that is missing or has a wrong type raises an error."""

    def __getitem__(self, key: str) -> Any:
        if key not in self or not isinstance(self.get(key), _TYPES.get(key, str | None)):
            raise MemorydError("the request lacks this field, or its type is wrong", key)
        return super().__getitem__(key)


class Control:
    """Serve the control socket inside a `with` block. `hooks` are the verbs with a lock of their own."""

    def __init__(
        self,
        path: Path,
        verbs: Mapping[str, Verb],
        monotonic: Callable[[], float],
        log: Log,
        hooks: Mapping[str, Verb] = {},
    ) -> None:
        self._path = path
        self._verbs = {**verbs, **hooks}
        self._monotonic = monotonic
        self._log = log
        self._places = threading.BoundedSemaphore(MAX_CLIENTS)  # for clients that have sent a whole line
        self._half_open: dict[socket.socket, int] = {}  # all other clients with their process ids, oldest first
        self._guard = threading.Lock()
        self._turn, hooks_turn = threading.Lock(), threading.Lock()
        self._hook_turns = dict.fromkeys(hooks, hooks_turn)
        self._waiting: set[socket.socket] = set()  # clients that have no answer yet
        self._is_over = False
        self._server: socket.socket | None = None
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._server = socket_file.listen(self._path, 4 * MAX_CLIENTS)
        except MemorydError as error:
            self._log.warning("no control socket: commands are seen a little later", why=str(error))
            return self
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._stop.send(b".")
            self._thread.join(SLOW_SECONDS)
            self._server.close()
            self._is_over = True  # from here on, no waiting request is answered
            for line in list(self._waiting):
                with contextlib.suppress(OSError):  # the client is gone already
                    line.shutdown(socket.SHUT_RDWR)
            for turn in {self._turn, *self._hook_turns.values()}:
                if turn.acquire(timeout=SLOW_SECONDS):  # let the request that is being answered finish
                    turn.release()
            try:
                socket_file.remove(self._path)
            except (OSError, MemorydError) as why:  # the disk failed; the next start replaces the file
                self._log.warning("the control socket's name was left", error_type=type(why).__name__)
        self._stop.close()
        self._stopped.close()

    def _serve(self) -> None:
        assert self._server is not None  # noqa: S101 - `__enter__` has set it
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while self._stopped not in [key.fileobj for key, _ in selector.select()]:
                with contextlib.suppress(OSError):  # the client is gone, or no file descriptor is free: accept the next
                    self._accept(self._server.accept()[0])

    def _accept(self, line: socket.socket) -> None:
        pid, uid = _peer_of(line)
        if uid not in {0, os.geteuid()}:
            line.close()
            return
        with self._guard:
            of_peer = [one for one, peer in self._half_open.items() if peer == pid]
            crowd = of_peer if pid and len(of_peer) >= MAX_OF_PEER else list(self._half_open)
            if crowd is of_peer or len(crowd) >= MAX_CLIENTS:
                del self._half_open[crowd[0]]
                with contextlib.suppress(OSError):  # the client is gone already
                    crowd[0].shutdown(socket.SHUT_RDWR)
            self._half_open[line] = pid
        self._waiting.add(line)
        until = self._monotonic() + SLOW_SECONDS
        try:
            threading.Thread(target=self._tend, args=(line, until), name="control", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            self._waiting.discard(line)
            self._half_open.pop(line, None)
            line.close()

    def _tend(self, line: socket.socket, until: float) -> None:
        """Answer one request and close the connection, so that no client occupies a thread for long."""
        has_place = False
        try:
            with line, contextlib.suppress(OSError):
                frame = self._receive_line(line, until)
                has_place = frame is not None and self._places.acquire(blocking=False)
                with self._guard:
                    self._half_open.pop(line, None)
                if frame is not None and has_place:
                    with self._turn_of(frame):
                        self._waiting.discard(line)  # before `_is_over` is read, so `__exit__` cuts off no answer
                        if self._is_over:
                            return
                        answer = self._answer_frame(frame)
                    line.settimeout(SLOW_SECONDS)
                    line.sendall(answer)
        finally:
            self._waiting.discard(line)
            with self._guard:
                self._half_open.pop(line, None)
            if has_place:
                self._places.release()

    def _receive_line(self, line: socket.socket, until: float) -> bytes | None:
        """Receive one line; return None if it is too long or the client closes before the line end."""
        received = b""
        while b"\n" not in received:
            line.settimeout(max(until - self._monotonic(), 0.001))
            received += (data := line.recv(_READ))
            if not data or len(received.partition(b"\n")[0]) > MAX_FRAME:
                return None
        return received.partition(b"\n")[0]

    def _turn_of(self, frame: bytes) -> threading.Lock:
        """Return the lock for a request. A request that cannot be read gets the lock of the ordinary requests."""
        with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError):
            return self._hook_turns[json.loads(frame)["verb"]]
        return self._turn

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
        request = None
        with contextlib.suppress(ValueError, RecursionError):
            request = json.loads(frame, object_hook=_Request)
        if not isinstance(request, _Request):
            raise MemorydError("this is not a request", hint='{"verb": "ping"}')
        if (answer := self._verbs.get(request["verb"])) is None:
            raise MemorydError("there is no such verb", hint=", ".join(self._verbs))
        return answer(request)


def _peer_of(line: socket.socket) -> tuple[int, int]:
    """Return the process id and the user id at the other end of the socket.

    If the system does not report them, return 0 and this user's id. The mode of the folder then decides who may
    connect.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return 0, os.geteuid()
    pid, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, uid
