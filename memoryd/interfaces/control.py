"""The control socket, `state_dir/memoryd.sock`: a quick word with the daemon. Losing it costs only time.

One JSON object a line, 64 KiB there and 1 MiB back at most: `{"verb": "ping"}` → `{"ok": true, "data": {…}}` or
`{"ok": false, "error": {"code": …, "message": …, "hint": …}}`. Verbs are `ping`, `status`, `wake` (look at the queue
now), `session_end` with an `id`, `import` (take over an edited MEMORY.md) with an `agent`, and those of agents' hooks,
`context` and `announce`.

One thread serves all clients and never waits for any of them: who does not finish a line, or does not read the answer,
within five seconds is dropped, and so is every other user but root, and whoever comes when too many are there already.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memoryd.errors import MemorydError
from memoryd.files import socket_file
from memoryd.interfaces.asking import MAX_ANSWER, MAX_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from memoryd.files.log import Log

MAX_CLIENTS = 32
SLOW_SECONDS = 5.0
_READ = 16 * 1024
_ROUND_SECONDS = 1.0


@dataclass(slots=True)
class _Client:
    line: socket.socket
    until: float
    received: bytearray = field(default_factory=bytearray)
    answer: bytearray = field(default_factory=bytearray)


class Control:
    """Serves the socket as long as it is entered."""

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
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, _Client] = {}
        self._server: socket.socket | None = None
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._server = socket_file.listen(self._path, MAX_CLIENTS)
        except MemorydError as error:
            self._log.warning("no control socket: commands are seen a little later", why=str(error))
            return self
        self._selector.register(self._server, selectors.EVENT_READ)
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._server is not None:
            self._stop.send(b".")
            self._thread.join(SLOW_SECONDS)
            self._server.close()
            try:
                socket_file.remove(self._path)
            except (OSError, MemorydError) as why:  # a failed disk: the next start takes the name over
                self._log.warning("the control socket's name was left", error_type=type(why).__name__)
        self._selector.close()
        self._stop.close()
        self._stopped.close()

    # --- the server's thread ----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(_ROUND_SECONDS):
                if key.fileobj is self._stopped:
                    for client in list(self._clients.values()):
                        self._drop(client)
                    return
                if key.fileobj is self._server:
                    self._accept()
                else:
                    self._tend(self._clients[key.fd])
            now = self._monotonic()
            for client in [one for one in self._clients.values() if one.until < now]:
                self._drop(client)

    def _accept(self) -> None:
        assert self._server is not None  # noqa: S101 - it was selected
        try:
            line, _ = self._server.accept()
        except OSError:
            return  # it went, or there are no descriptors left: the next one comes when there are
        if len(self._clients) >= MAX_CLIENTS or not _is_ours(line):
            line.close()
            return
        line.settimeout(0)
        self._clients[line.fileno()] = _Client(line, self._monotonic() + SLOW_SECONDS)
        self._selector.register(line, selectors.EVENT_READ)

    def _drop(self, client: _Client) -> None:
        del self._clients[client.line.fileno()]
        self._selector.unregister(client.line)
        client.line.close()

    def _tend(self, client: _Client) -> None:
        try:
            alive = self._send(client) if client.answer else self._receive(client)
        except BlockingIOError:
            return
        except OSError:
            alive = False
        if not alive:
            self._drop(client)

    def _receive(self, client: _Client) -> bool:
        data = client.line.recv(_READ)
        client.received += data
        frame, end, rest = client.received.partition(b"\n")
        if len(frame) > MAX_FRAME or not data:
            return False
        if end:
            client.received = rest
            client.answer += self._answered(bytes(frame))
            client.until = self._monotonic() + SLOW_SECONDS
            return self._send(client)
        return True

    def _send(self, client: _Client) -> bool:
        """Send what there is to send; one answer ends the talk, so that nobody keeps a place."""
        self._selector.modify(client.line, selectors.EVENT_WRITE)
        del client.answer[: client.line.send(client.answer)]
        return bool(client.answer)

    def _answered(self, frame: bytes) -> bytes:
        try:
            answer = {"ok": True, "data": self._done(frame)}
        except MemorydError as error:
            told = {"code": error.code, "message": str(error), "hint": error.hint}
            answer = {"ok": False, "error": told}
        except Exception as error:  # noqa: BLE001 - one bad request must not end the service for all
            self._log.warning("control request failed", error_type=type(error).__name__)
            answer = {"ok": False, "error": {"code": "failed", "message": type(error).__name__, "hint": ""}}
        line = json.dumps(answer).encode() + b"\n"
        if len(line) <= MAX_ANSWER:
            return line
        told = {"code": "too_long", "message": "the answer is too long for this socket", "hint": "memoryd --json …"}
        return json.dumps({"ok": False, "error": told}).encode() + b"\n"

    def _done(self, frame: bytes) -> Any:
        try:
            request = json.loads(frame)
        except (ValueError, RecursionError):
            raise MemorydError("this is no JSON", hint='{"verb": "ping"}') from None
        if not isinstance(request, dict) or not isinstance(request.get("verb"), str):
            raise MemorydError("this is no request", hint='{"verb": "ping"}')
        if request["verb"] not in self._verbs:
            raise MemorydError("there is no such verb", hint=", ".join(self._verbs))
        return self._verbs[request["verb"]](request)


def _is_ours(line: socket.socket) -> bool:
    """Whether the other end is this user or root. Where the system does not say, the folder's mode alone decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid in {0, os.geteuid()}
