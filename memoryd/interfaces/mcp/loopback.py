"""Serve HTTP on this machine only, to clients that have the token and never to a page in a browser.

A page of any site can send requests to the loopback. By DNS rebinding, it can even read the answers. But it cannot
change `Host`, the name that it was loaded from. It cannot omit `Origin` from a request that changes something either.
So memoryd checks the host first, then the origin, then the token, and reads no body before that.
"""

import hmac
import os
import socket

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memoryd.errors import ConfigError, MemorydError
from memoryd.files.log import Log
from memoryd.requests.rate import Bucket

PATH = "/mcp"
# The address for each name, so that no name server is asked about localhost.
_NUMERIC = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "[::1]": "::1"}
NAMES = tuple(_NUMERIC)
LARGEST_BODY = 2 * 1024 * 1024
MOST_AT_ONCE = 64  # requests with a valid token
WRONG_TOKENS = 10  # accepted in a burst; after that, every request is refused …
WRONG_TOKENS_PER_SECOND = 1.0  # … except this many each second


def listen(address: str) -> socket.socket:
    """Listen on a loopback address, such as `127.0.0.1:8765`; port 0 chooses a free port.

    Raises:
        ConfigError: The address has no valid port or is not a loopback address.
        MemorydError: The port cannot be used.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError("this is not an address with a port", address, "--http 127.0.0.1:8765")
    if host not in _NUMERIC:
        raise ConfigError(
            "memory is served to this machine alone", address, "127.0.0.1:PORT, [::1]:PORT or localhost:PORT"
        )
    numeric = _NUMERIC[host]
    family = socket.AF_INET6 if ":" in numeric else socket.AF_INET
    try:
        return socket.create_server((numeric, int(port)), family=family, backlog=64)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise MemorydError(f"cannot be listened on: {why}", address, "choose another port") from error


class Loopback:
    """Wrap an ASGI application and pass on only requests with the right host, origin and token."""

    def __init__(self, inner: ASGIApp, port: int, token: str, log: Log, bucket: Bucket | None = None) -> None:
        """Accept requests to `port` with `token`."""
        self._inner = inner
        self._hosts = frozenset(f"{name}:{port}".encode() for name in NAMES)
        self._origins = frozenset(f"http://{name}:{port}".encode() for name in NAMES)
        self._token = token.encode()
        self._log = log
        # One limit for all clients, because on the loopback all of them have the same address.
        self._wrong = bucket or Bucket(WRONG_TOKENS, WRONG_TOKENS_PER_SECOND)
        self._answering = 0
        self._telling = Bucket(20, 0.2)  # a client that tries very often must not fill the log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the reason for the refusal."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        status, why = self._refusal(scope) if scope["type"] == "http" else (403, "only http is spoken here")
        if not status:
            self._answering += 1
            try:
                await self._inner(scope, receive, send)
            finally:
                self._answering -= 1
            return
        if self._telling.take():
            self._log.warning("mcp request refused", status=status, why=why)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {"cache-control": "no-store", "connection": "close"}
        headers |= {"www-authenticate": "Bearer"} if status == 401 else {}
        headers |= {"retry-after": "1"} if status in {429, 503} else {}
        await JSONResponse({"error": why}, status, headers)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str]:
        """Return the HTTP status and the reason of a refusal; status 0 if the request may pass."""
        hosts = _all(scope, b"host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 421, "this is another host"
        origins = _all(scope, b"origin")
        if len(origins) > 1 or not self._origins.issuperset(origins):
            return 403, "requests of this origin are not answered"
        if self._wrong.is_empty():
            return 429, "too many wrong tokens: wait a second"
        given = _all(scope, b"authorization")
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if not hmac.compare_digest(token.strip(), self._token) or scheme.lower() != b"bearer":
            if given:  # a request without a token only asks whether one is needed
                self._wrong.take()
            return 401, "the token is needed: Authorization: Bearer …"
        if self._answering >= MOST_AT_ONCE:
            return 503, "too much is asked at once: wait a second"
        return (0, "") if scope["path"] == PATH else (404, f"only {PATH} is here")


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key.lower() == name]
