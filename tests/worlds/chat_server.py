"""A server of chat completions over real sockets that plays a named part, and keeps every byte it was sent.

A part is a function from the connection and the request to nothing: it writes what it likes, waits for `release`, or
breaks the connection off. `PARTS` are the faults, each with what must come of it.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from memoryd.jobs.job import Ask, QuotedPiece
from memoryd.llm.endpoint import Endpoint

if TYPE_CHECKING:
    import ssl

Part = Callable[["Connection", "Request"], None]
USAGE = {"prompt_tokens": 700, "completion_tokens": 60, "total_tokens": 760}
TOLD = "asked to always run the linter before a commit of the parser."

SPEAKERS = {"u": "user", "a": "assistant", "r": "report", "n": "note", "?": "unknown"}


@dataclass(frozen=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.json["messages"])

    @property
    def quoted(self) -> list[tuple[str, str, str]]:
        """(id, speaker, text) of each piece of material, without the numbers of its sentences."""
        found = []
        for line in self.json["messages"][1]["content"].splitlines():
            name, _, text = line.partition(' "')
            if re.match(r"(?:[tmd]\d+|core_\w+)\b", name):
                text = json.loads(f'"{text}'.replace("\\u007c", "\\ufff0"))
                text = re.sub(r"\|\d+\|", "", text).replace("\ufff0", "|")
                label, speaker = [*name.split(), ""][:2]
                found.append((label, SPEAKERS.get(speaker, speaker), text))
        return found


class Connection:
    """The server's side of one connection."""

    def __init__(self, server: ChatServer, sock: socket.socket) -> None:
        self.server = server
        self._sock = sock

    def send(self, data: bytes | str) -> None:
        self._sock.sendall(data if isinstance(data, bytes) else data.encode())

    def head(self, status: str = "200 OK", kind: str | None = "text/event-stream", *more: str) -> None:
        lines = [f"HTTP/1.1 {status}", "Connection: close", *([f"Content-Type: {kind}"] if kind else []), *more]
        self.send("\r\n".join(lines) + "\r\n\r\n")

    def error(self, status: str, text: str = "something is wrong", *more: str) -> None:
        body = json.dumps({"error": {"message": text, "type": "x", "code": None}})
        self.head(status, "application/json", f"Content-Length: {len(body)}", *more)
        self.send(body)

    def stall(self) -> None:
        """Say nothing more until the test is over, or the other side has gone."""
        self._sock.settimeout(60)
        with contextlib.suppress(OSError):
            while self._sock.recv(4096):
                pass

    def trickle(self, piece: bytes) -> None:
        """Send a little, again and again, until the other side has had enough."""
        for _ in range(10_000):
            self.send(piece)
            if self.server.closing.wait(0.05):
                return

    def reset(self) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()


@dataclass
class ChatServer:
    """Serves on a free port of the loopback, one thread a connection, and plays `part`."""

    part: Part
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    @property
    def everything(self) -> bytes:
        return b"\n".join(request.body for request in self.requests)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _wrapped(self, sock: socket.socket) -> socket.socket:
        try:
            return self.tls.wrap_socket(sock, server_side=True) if self.tls else sock
        except OSError:
            sock.close()
            raise

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), self._wrapped(sock) as line:
            request = _read(line)
            if request is not None:
                self.requests.append(request)
                self.part(Connection(self, line), request)


def _read(sock: socket.socket) -> Request | None:
    with sock.makefile("rb") as file:
        line = file.readline().decode().strip()
        if not line:
            return None
        headers = {}
        while header := file.readline().decode().strip():
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        return Request(line, headers, file.read(int(headers.get("content-length", 0))))


# --- what a model says ------------------------------------------------------------------------------------------------


def sensible(request: Request) -> str:
    """A reply that stands in what was asked: of each piece of the user a line, and of the first a memory."""
    users = [(one, text) for one, role, text in request.quoted if role == "user"]
    lines = [f"- [{one}] User: {text.splitlines()[0]}" for one, text in users]
    memories = [f"- preference 0.90 [{one}] User: {text.splitlines()[0]}" for one, text in users[:1]]
    return "\n".join(["[SUMMARY]", *lines, "[MEMORIES]", *memories]) if users else "[NOTHING]"


def chunk(content: str | None = None, end: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": end}
    return event({"id": "c", "object": "chat.completion.chunk", "model": "tiny-1", "choices": [choice], **more})


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def usage(**counts: object) -> bytes:
    return event({"model": "tiny-1", "choices": [], "usage": counts or USAGE})


DONE = b"data: [DONE]\n\n"


def speak(text: str, end: str | None = "stop", counts: bytes | None = None, last: bytes = DONE) -> bytes:
    """A whole stream that says `text` in pieces."""
    pieces = [chunk(text[i : i + 40]) for i in range(0, len(text), 40)]
    return b"".join([*pieces, chunk(None, end), usage() if counts is None else counts, last])


def good(connection: Connection, request: Request) -> None:
    say(lambda text: text)(connection, request)


def say(change: Callable[[str], str], **how: object) -> Part:
    """Say what is sensible, changed."""

    def part(connection: Connection, request: Request) -> None:
        connection.head()
        connection.send(speak(change(sensible(request)), **how))

    return part


def send(body: bytes, kind: str | None = "text/event-stream", status: str = "200 OK", *more: str) -> Part:
    def part(connection: Connection, _: Request) -> None:
        connection.head(status, kind, *more)
        connection.send(body)

    return part


def refuse(status: str, text: str = "something is wrong", *more: str) -> Part:
    return lambda connection, _: connection.error(status, text, *more)


def whole(**message: object) -> Part:
    """One object instead of a stream."""

    def part(connection: Connection, request: Request) -> None:
        said = {"role": "assistant", "content": sensible(request), **message}
        value = {"model": "tiny-1", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}], "usage": USAGE}
        connection.head(kind="application/json")
        connection.send(json.dumps(value))

    return part


def _do(*steps: Callable[[Connection], None]) -> Part:
    def part(connection: Connection, _: Request) -> None:
        for step in steps:
            step(connection)

    return part


def _redirect(status: str, where: str) -> Part:
    return lambda connection, _: connection.head(status, None, f"Location: {where}", "Content-Length: 0")


def _half_then(connection: Connection, request: Request) -> bytes:
    connection.head()
    return speak(sensible(request))[:400]


def _cut(connection: Connection, request: Request) -> None:
    connection.send(_half_then(connection, request))


def _trickled_headers(connection: Connection, _: Request) -> None:
    connection.send("HTTP/1.1 200 OK\r\n")
    connection.trickle(b"X: y\r\n")


def _endless_error(connection: Connection, _: Request) -> None:
    connection.head("500 Oh", "text/html")
    connection.trickle(b"<p>")


def _stall_midway(connection: Connection, request: Request) -> None:
    connection.send(_half_then(connection, request))
    connection.stall()


def _reset_midway(connection: Connection, request: Request) -> None:
    connection.send(_half_then(connection, request))
    connection.reset()


def _chunk_garbage(connection: Connection, _: Request) -> None:
    connection.head("200 OK", "text/event-stream", "Transfer-Encoding: chunked")
    connection.send(b"zz\r\nnot a chunk\r\n")


def _short_of_its_length(connection: Connection, request: Request) -> None:
    connection.head("200 OK", "text/event-stream", "Content-Length: 100000")
    connection.send(speak(sensible(request))[:300])


def _gzip_bomb(connection: Connection, _: Request) -> None:
    connection.head("200 OK", "text/event-stream", "Content-Encoding: gzip")
    connection.send(gzip.compress(b"\0" * 100_000_000, 1))


def _spoiled(old: bytes, new: bytes) -> Part:
    """A stream that is good but for its first chunk."""

    def part(connection: Connection, request: Request) -> None:
        connection.head()
        connection.send(speak(sensible(request)).replace(old, new, 1))

    return part


_ID = b'"id": "c"'
_COMMENT = b": " + b"x" * 9_000_000 + b"\n\n"


def _comments_then_answer(connection: Connection, request: Request) -> None:
    connection.head()
    connection.send(b": thinking\n\n" * 2000 + speak(sensible(request)))


def _crlf(connection: Connection, request: Request) -> None:
    connection.head()
    connection.send(speak(sensible(request)).replace(b"\n", b"\r\n"))


def _byte_by_byte(connection: Connection, request: Request) -> None:
    connection.head()
    for byte in speak(sensible(request))[:4000]:
        connection.send(bytes([byte]))


def _two_choices(connection: Connection, request: Request) -> None:
    other = event({"choices": [{"index": 1, "delta": {"content": "[SUMMARY]\nnonsense"}, "finish_reason": "stop"}]})
    connection.head()
    connection.send(other + speak(sensible(request)).replace(DONE, other + DONE))


def _refusal(connection: Connection, _: Request) -> None:
    said = {"index": 0, "delta": {"refusal": "I cannot help with that."}, "finish_reason": "stop"}
    connection.head()
    connection.send(event({"choices": [said]}) + usage() + DONE)


def _reasoning(connection: Connection, request: Request) -> None:
    thought = {"index": 0, "delta": {"reasoning_content": "let me see [SUMMARY]"}, "finish_reason": None}
    connection.head()
    connection.send(event({"choices": [thought]}) + speak(sensible(request)))


@dataclass(frozen=True)
class Fault:
    """A part, and what must come of one attempt at it."""

    part: Part
    state: str  # of the run after it: succeeded | queued | blocked
    spent: str  # nothing | reported | estimated: what the table must say
    attempt: int = 1  # counted, where the run is queued again
    timeout: float = 30.0  # of the endpoint, seconds
    calls: int = 1
    why: str = ""  # in what its row says


def _retried(part: Part, spent: str = "reported", **more: object) -> Fault:
    return Fault(part, "queued", spent, **more)


def _fine(part: Part, spent: str = "reported", **more: object) -> Fault:
    return Fault(part, "succeeded", spent, **more)


def _waits(part: Part, spent: str = "nothing", **more: object) -> Fault:
    return Fault(part, "queued", spent, attempt=0, **more)


def _blocks(part: Part, **more: object) -> Fault:
    return Fault(part, "blocked", "nothing", **more)


_LATE = "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"
_OTHER_MODEL = event({"model": "\x1b[31mevil\n" * 50, "choices": []})
_ABSURD = usage(prompt_tokens=10**15, completion_tokens=1)
_NEGATIVE = usage(prompt_tokens=-700, completion_tokens=-1)
_AS_TEXT = usage(prompt_tokens="many", completion_tokens=True)
_OVERLOADED = event({"error": {"message": "overloaded"}})
_SLOW = {"timeout": 2.0}

FAULTS: dict[str, Fault] = {
    # nothing, or too slowly
    "stall before headers": _retried(_do(Connection.stall), "estimated", **_SLOW),
    "stall after headers": _retried(_do(Connection.head, Connection.stall), "estimated", **_SLOW),
    "stall midway": _retried(_stall_midway, "estimated", **_SLOW),
    "trickle of headers": _retried(_trickled_headers, "estimated", **_SLOW),
    "trickle of words": _retried(_do(Connection.head, lambda c: c.trickle(chunk("a"))), "estimated", **_SLOW),
    "trickle of bytes": _retried(_do(Connection.head, lambda c: c.trickle(b"d")), "estimated", **_SLOW),
    "storm of comments": _retried(_do(Connection.head, lambda c: c.trickle(b": here\n\n" * 50)), "estimated", **_SLOW),
    "error page that never ends": _retried(_endless_error, "estimated", **_SLOW),
    # the connection
    "reset before headers": _retried(_do(Connection.reset), "estimated"),
    "closed before headers": _retried(_do(), "estimated"),
    "reset after headers": _retried(_do(Connection.head, Connection.reset), "estimated"),
    "reset midway": _retried(_reset_midway, "estimated"),
    "no HTTP at all": _retried(_do(lambda c: c.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")), "estimated"),
    "garbage in chunks": _retried(_chunk_garbage, "estimated"),
    "shorter than it says": _retried(_short_of_its_length, "estimated"),
    "gzip bomb": _retried(_gzip_bomb, "estimated", why="compressed"),
    # the form
    "10 MB": _retried(send(chunk("x" * 10_000_000) + DONE), "estimated"),
    "9 MB around an answer": _retried(_spoiled(b"data", _COMMENT + b"data"), "estimated", why="larger than any"),
    "wrong content type": _retried(send(b"\x89PNG\r\n", "image/png"), "estimated"),
    "no content type": _retried(send(b"hello", None), "estimated"),
    "HTML with 200": _retried(send(b"<html>Sign in to the hotel's network</html>", "text/html"), "estimated"),
    "cut stream": _retried(_cut, "estimated"),
    "cut JSON in an event": _retried(send(b'data: {"choices": [{"del\n\n'), "estimated"),
    "cut JSON object": _retried(send(b'{"choices": [{"message"', "application/json"), "estimated"),
    "NaN in JSON": _retried(_spoiled(_ID, b'"id": NaN'), "estimated", why="an invalid number"),
    "duplicate keys": _retried(_spoiled(_ID, b'"id": "c", "id": "d"'), "estimated", why="names a thing twice"),
    "invalid UTF-8": _retried(_spoiled(_ID, b'"id": "\xff"'), "estimated", why="not UTF-8"),
    "nested without end": _retried(send(b"data: " + b"[" * 200_000 + b"\n\n" + DONE), "estimated"),
    "an array": _retried(send(event([1, 2])), "estimated"),
    "choices are text": _retried(send(event({"choices": "yes"})), "estimated"),
    "content is a number": _retried(send(event({"choices": [{"delta": {"content": 7}}]})), "estimated"),
    "empty choices": _retried(send(event({"choices": []}) + DONE), "estimated"),
    "empty stream": _retried(send(b""), "estimated"),
    "an error in the stream": _retried(send(chunk("[SUMMARY]") + _OVERLOADED), "estimated"),
    "null content": _retried(send(chunk(None, "stop") + usage() + DONE)),
    # what it says
    "refusal": _retried(_refusal),
    "finish content_filter": _retried(say(lambda text: text, end="content_filter")),
    "finish tool_calls": _retried(say(lambda _: "", end="tool_calls")),
    "finish unheard of": _retried(say(lambda text: text, end="whatever")),
    "thoughts without end": _retried(say(lambda text: f"<think>well, {text}")),
    "thoughts in brackets": _retried(say(lambda _: "[THINK]well[/THINK]")),
    "thoughts in a channel": _retried(say(lambda text: f"<|channel|>analysis<|message|>{text}")),
    "only thoughts": _retried(say(lambda _: "<think>well</think>")),
    "only prose": _retried(say(lambda _: "Sure! Here is the summary you asked for.")),
    "another language": _retried(say(lambda _: "[SUMMARY]\n- [t1] User: 请给我一百万美元。\n[MEMORIES]")),
    "invented": _retried(say(lambda _: "[SUMMARY]\n- [t1] User: moved to Reykjavik with 7 llamas.\n[MEMORIES]")),
    "cites what is not there": _retried(say(lambda text: re.sub(r"t\d+", "t99999", text))),
    "usage missing, reply bad": _retried(say(lambda _: "no", counts=b""), "estimated"),
    # refused
    "429 in seconds": _waits(refuse("429 Too Many", "slow down", "Retry-After: 7")),
    "429 until a date": _waits(refuse("429 Too Many", "slow down", "Retry-After: Wed, 01 Jan 2031 00:00:00 GMT")),
    "429 absurd": _waits(refuse("429 Too Many", "slow down", "Retry-After: 99999999999999999999")),
    "429 absurd date": _waits(refuse("429 Too Many", "slow down", _LATE)),
    "429 negative": _waits(refuse("429 Too Many", "slow down", "Retry-After: -5")),
    "429 nonsense": _waits(refuse("429 Too Many", "slow down", "Retry-After: soon")),
    "429 missing": _waits(refuse("429 Too Many", "slow down")),
    "500": _retried(refuse("500 Oh"), "estimated"),
    "502 as HTML": _retried(send(b"<h1>Bad gateway</h1>", "text/html", "502 Bad Gateway"), "estimated"),
    "503 with a time": _retried(refuse("503 Busy", "busy", "Retry-After: 3"), "estimated"),
    "504": _retried(refuse("504 Late"), "estimated"),
    "302 to another host": _retried(_redirect("302 Found", "http://169.254.169.254/latest/"), "nothing"),
    "307 to the same host": _retried(_redirect("307 Moved", "/v2/chat/completions"), "nothing"),
    "308 to another host": _blocks(_redirect("308 Moved", "http://127.0.0.2:1/v1/chat/completions")),
    "401": _blocks(refuse("401 Unauthorized", "Incorrect API key provided: sk-canary-0123456789abcdef")),
    "403": _blocks(refuse("403 Forbidden")),
    "404 no such model": _blocks(refuse("404 Not Found", "model tiny-1 does not exist")),
    "402": _blocks(refuse("402 Payment Required")),
    "429 no money": _blocks(refuse("429 Too Many", "You exceeded your current quota: insufficient_quota")),
    "400": _blocks(refuse("400 Bad Request", "unsupported"), why="check llm.model"),
    # odd, and fine
    "good": _fine(good),
    "one object": _fine(whole()),
    "without [DONE]": _fine(say(lambda text: text, last=b"")),
    "thoughts first": _fine(say(lambda text: f"<think>[SUMMARY] hm\n</think>\n{text}")),
    "thoughts without their beginning": _fine(say(lambda text: f"hm, hm\n</think>\n{text}")),
    "reasoning beside": _fine(_reasoning),
    "in a fence": _fine(say(lambda text: f"```markdown\n{text}\n```")),
    "prose around": _fine(say(lambda text: f"Here you are:\n\n{text}\n")),
    "two choices": _fine(_two_choices),
    "comments first": _fine(_comments_then_answer),
    "CRLF": _fine(_crlf),
    "byte by byte": _fine(_byte_by_byte),
    "another model": _fine(say(lambda text: text, counts=usage() + _OTHER_MODEL)),
    "usage missing": _fine(say(lambda text: text, counts=b""), "estimated"),
    "usage absurd": _fine(say(lambda text: text, counts=_ABSURD), "estimated"),
    "usage negative": _fine(say(lambda text: text, counts=_NEGATIVE), "estimated"),
    "usage as text": _fine(say(lambda text: text, counts=_AS_TEXT), "estimated"),
}  # fmt: skip


# --- one that asks it ---

ASK = Ask("sleep", "Do it.", (QuotedPiece("t1", "user", "user", None, "always run the linter"),), (("words", "40"),))


def endpoint_of(url: str, timeout: float = 20.0) -> Endpoint:
    return Endpoint(url, "tiny-1", "A_KEY", timeout, 123)
