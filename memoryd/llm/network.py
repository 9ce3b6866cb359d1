"""Connect to a model: checked addresses, firm deadlines, a limited answer, no proxies and no redirects.

The libraries lack some of these limits, so this module adds them.

- A read timeout limits one read, but not many small ones. So the body of an answer has a deadline and a largest size.
  `h11` limits the size of the head. The process that started the worker limits its time, but not that of a probe.
- A host name is checked when it is resolved, not when it was configured.
- Proxies of the environment are ignored, also for https. Whoever sets them could see or choose where the key is sent,
  and the address behind a proxy cannot be checked.
- Redirects are not followed.
- Compressed answers are refused, because memoryd never requests them.
"""

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2

from memoryd.addresses import AddressError, check_address
from memoryd.llm.endpoint import Deadlines
from memoryd.llm.failure import Trouble

MOST_BYTES = 8_000_000  # the most bytes of the body of an answer
_PLAIN = ("", "identity")


class EndedError(httpx2.TransportError):
    """Report that memoryd ended the call or refused to make it. `what` is the reason, in memoryd's words."""

    def __init__(self, trouble: Trouble, what: str) -> None:
        super().__init__(what)
        self.trouble = trouble
        self.what = what


class _LimitedStream(httpx2.SyncByteStream):
    """Pass the bytes of an answer on, until there are too many or the time for the whole call is over."""

    def __init__(self, inner: Any, began: float, whole: float) -> None:
        self._inner = inner
        self._began = began
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        received = 0
        for chunk in self._inner:
            received += len(chunk)
            if received > MOST_BYTES:
                raise EndedError(Trouble.BAD_REPLY, "the answer is larger than 8 MB, the limit")
            if time.monotonic() - self._began >= self._whole:
                raise EndedError(Trouble.UNAVAILABLE, f"the model had not finished after {self._whole:g} s")
            yield chunk

    def close(self) -> None:
        self._inner.close()


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


class _CheckedBackend(httpcore2.SyncBackend):
    """Connect only to addresses that were checked; the name is not resolved again."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        until = time.monotonic() + (timeout or 0)
        error: Exception = httpcore2.ConnectError("no address")
        for address in self._addresses(host, port):
            left = max(0.001, until - time.monotonic())
            try:
                return super().connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = failed
        raise error

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("the name does not resolve") from error
        allowed: list[str] = []
        refused = ""
        for *_, place in found:
            try:
                check_address(ip_address(str(place[0]).partition("%")[0]), scheme=self._scheme)
            except AddressError as error:
                refused = error.what
            else:
                allowed.append(str(place[0]))
        if refused and not allowed:
            raise EndedError(Trouble.BLOCKED, refused)
        return allowed


class _Transport(httpx2.HTTPTransport):
    # The parent's `__init__` is not called, because it accepts no network backend.
    def __init__(self, deadlines: Deadlines, scheme: str) -> None:
        self._deadlines = deadlines
        # Loading the system's certificates takes longer than everything else, and plain http needs none.
        context = httpx2.create_ssl_context() if scheme == "https" else None
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context, max_connections=1, http1=True, http2=False, network_backend=_CheckedBackend(scheme)
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        began = time.monotonic()
        request.headers["accept-encoding"] = "identity"
        try:
            response = super().handle_request(request)
        except httpx2.ConnectError as error:
            if _is_untrusted(error):
                what = "has a certificate that is not trusted here, or is not its own"
                raise EndedError(Trouble.BLOCKED, what) from error
            raise
        if response.headers.get("content-encoding", "").strip().lower() not in _PLAIN:
            response.close()
            raise EndedError(Trouble.BAD_REPLY, "the answer is compressed, but memoryd did not request that")
        response.stream = _LimitedStream(response.stream, began, self._deadlines.whole)
        return response


def make_client(deadlines: Deadlines, scheme: str) -> httpx2.Client:
    """Return the HTTP client for one call."""
    wait = httpx2.Timeout(deadlines.silence, connect=deadlines.connect)
    return httpx2.Client(transport=_Transport(deadlines, scheme), trust_env=False, follow_redirects=False, timeout=wait)
