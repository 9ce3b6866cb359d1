"""Connect to a model: checked addresses, firm deadlines, a limited answer, no proxies and no redirects.

The libraries do not offer all of these limits, so this module sets them at the socket.

- A read timeout limits one read, but not many small ones.
- A host name is checked when it is resolved, not when it was configured.
- Proxies of the environment are ignored, also for https. Whoever sets them could see or choose where the key is sent,
  and the address behind a proxy cannot be checked.
- Redirects are not followed.
- Compressed answers are refused, because memoryd never requests them.
"""

import socket
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2

from memoryd.addresses import AddressError, check_address
from memoryd.llm.endpoint import Deadlines

MOST_BYTES = 8_000_000  # the most bytes of an answer, with headers and events
_PLAIN = ("", "identity")


@dataclass(slots=True)
class Watch:
    """Watch one call: its deadlines, and the reason if memoryd ended it."""

    deadlines: Deadlines
    scheme: str
    began: float = field(default_factory=time.monotonic)
    sent: bool = False  # a part of the question was sent
    answering: bool = False  # the answer has begun; its reader sets this
    received: int = 0  # bytes
    ended: str = ""  # the reason why memoryd ended the call; empty if it did not
    refused: str = ""  # the reason why the address must not be asked; empty if it may be

    def patience(self) -> float:
        """Return the seconds that the next read may take; 0 or less after a deadline."""
        elapsed = time.monotonic() - self.began
        whole = self.deadlines.whole - elapsed
        return min(whole, self.deadlines.idle if self.answering else self.deadlines.first_byte - elapsed)

    def note_late(self) -> None:
        """Record as the reason of the end which deadline has passed."""
        if time.monotonic() - self.began >= self.deadlines.whole:
            self.ended = f"the model had not finished after {self.deadlines.whole:g} s"
        elif self.answering:
            self.ended = f"the model's answer stopped for {self.deadlines.idle:g} s"
        else:
            self.ended = f"the model had not begun to answer after {self.deadlines.first_byte:g} s"


class _WatchedStream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the watch knows better
        try:
            # Without a deadline here, an answer of a few bytes at a time could continue forever.
            data = self._inner.read(max_bytes, max(0.001, self._watch.patience()))
        except httpcore2.ReadTimeout:
            self._watch.note_late()
            raise
        if self._watch.patience() <= 0:
            self._watch.note_late()
            raise httpcore2.ReadTimeout
        self._watch.received += len(data)
        if self._watch.received > MOST_BYTES:
            self._watch.ended = "the answer is larger than any answer can be"
            raise httpcore2.ReadError
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - as above
        self._watch.sent = True
        try:
            self._inner.write(buffer, max(0.001, self._watch.patience()))
        except httpcore2.WriteTimeout:
            self._watch.note_late()
            raise

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        try:
            inner = self._inner.start_tls(ssl_context, server_hostname, timeout)
        except httpcore2.ConnectError as error:
            if _is_untrusted(error):
                self._watch.refused = "has a certificate that is not trusted here, or is not its own"
            raise
        return _WatchedStream(inner, self._watch)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


class _CheckedBackend(httpcore2.NetworkBackend):
    """Connect only to addresses that were checked; the name is not resolved again."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the watch's deadline is the one
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        error: Exception = httpcore2.ConnectError("no address")
        for address in self._addresses(host, port):
            left = self._watch.deadlines.connect - (time.monotonic() - self._watch.began)
            try:
                stream = self._inner.connect_tcp(address, port, max(0.001, left), local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = failed
            else:
                return _WatchedStream(stream, self._watch)
        raise error

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("the name does not resolve") from error
        allowed: list[str] = []
        for *_, place in found:
            try:
                check_address(ip_address(str(place[0]).partition("%")[0]), scheme=self._watch.scheme)
            except AddressError as error:
                self._watch.refused = error.what
            else:
                allowed.append(str(place[0]))
        if allowed:
            self._watch.refused = ""
        return allowed


class _Transport(httpx2.HTTPTransport):
    # The parent's `__init__` is not called, because it accepts no network backend.
    def __init__(self, watch: Watch, context: ssl.SSLContext | None) -> None:
        self._watch = watch
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context, max_connections=1, http1=True, http2=False, network_backend=_CheckedBackend(watch)
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = super().handle_request(request)
        if response.headers.get("content-encoding", "").strip().lower() not in _PLAIN:
            response.close()
            self._watch.ended = "the answer is compressed, but memoryd did not request that"
            raise httpx2.DecodingError("compressed", request=request)
        response.encoding = "utf-8"  # whatever the answer names: Python also takes "zlib" and "undefined" for a charset
        return response


def make_client(watch: Watch) -> httpx2.Client:
    """Return the HTTP client for one call."""
    wait = httpx2.Timeout(watch.deadlines.whole, connect=watch.deadlines.connect)
    # Loading the system's certificates takes longer than everything else, and plain http needs none.
    transport = _Transport(watch, httpx2.create_ssl_context() if watch.scheme == "https" else None)
    return httpx2.Client(transport=transport, trust_env=False, follow_redirects=False, timeout=wait)
