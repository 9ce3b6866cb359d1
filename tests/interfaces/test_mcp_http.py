"""The door on the loopback: attacks by raw sockets, and the SDK's own client with the token."""

import asyncio
import json
import os
import stat
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_world import CALL, SAVE, Served
from rebound_page import CHROMIUM, tried
from uvicorn.server import ServerState

from memoryd.errors import ConfigError, MemorydError, StateError
from memoryd.files.log import get_logger
from memoryd.files.token_file import read_or_make
from memoryd.interfaces.mcp import serving
from memoryd.interfaces.mcp.loopback import LARGEST_BODY, MOST_AT_ONCE, Loopback, listen
from memoryd.requests.rate import Bucket

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = Served(tmp_path_factory.mktemp("http") / "scratch")
    try:
        yield made
    finally:
        made.process.terminate()
        assert made.process.wait(20) == 0
        made.process.stdout.close()


def is_refused(answer, *, but=()):
    status, text = answer
    assert 400 <= status < 500, text
    assert status not in but
    for leak in (b"access-control", b"memoryd-context", b"Frankfurt", b"protocolVersion"):
        assert leak not in text.lower() if leak.islower() else leak not in text
    return True


def test_the_sdks_client_works_with_the_token_and_not_without(served):
    async def use(token):
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(served.url, http_client=http)) as client,
        ):
            assert len((await client.list_tools()).tools) == 12
            found = (await client.call_tool("memory_search", {"query": "Frankfurt"})).structured_content
            lines = await client.call_tool("memory_get", {"path": found["hits"][0]["path"]})
            assert "Frankfurt" in lines.structured_content["text"]
            assert not (await client.call_tool("memory_save", {"text": "by http"})).is_error
            assert not (await client.call_tool("memory_update", {"append": "CI runs on db-2.internal:5433."})).is_error
            assert (await client.call_tool("memory_consent", {})).is_error
            assert len((await client.list_resources()).resources) == 3
            assert "db-2.internal" in (await client.read_resource("memory://core")).contents[0].text
            assert (await client.get_prompt("consolidate")).messages

    anyio.run(use, served.token)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever a client makes of a 401
        anyio.run(use, "wrong")


def test_a_name_that_was_rebound_reaches_nothing(served):
    port, token = served.port, f"Authorization: Bearer {served.token}"
    hosts = (
        "evil.test", f"evil.test:{port}", "localhost.", f"localhost.:{port}", f"LOCALHOST:{port}", f"127.1:{port}",
        f"0.0.0.0:{port}", f"[::]:{port}", f"127.0.0.1.evil.test:{port}", f"localhost@evil:{port}", "", "127.0.0.1",
        "localhost", f"127.0.0.1:{port}@evil.test", f"127.0.0.1:{port + 1}", f"[::ffff:127.0.0.1]:{port}",
        f"127.0.0.1:{port}0", f"127.0.0.2:{port}", f"127.0.0.1:0{port}", f"2130706433:{port}", f"127.0.0.1:{port}, x",
    )  # fmt: skip
    before = served.scratch.dailies()
    for host in hosts:
        for path in ("/", "/mcp", "/api/x"):
            assert is_refused(served.raw(f"GET {path} HTTP/1.1", f"Host: {host}", token)), host
        origin = f"Origin: http://{host}"
        assert served.post(origin, host=host)[0] == 421, host
    good = f"Host: {served.host}"
    assert is_refused(served.raw("GET /mcp HTTP/1.1", good, "Host: evil.test", token))
    assert is_refused(served.raw("GET /mcp HTTP/1.1", good, good, token))
    assert is_refused(served.raw("GET /mcp HTTP/1.1", token))
    assert served.raw("GET /mcp HTTP/1.0", token)[0] == 421
    assert is_refused(served.raw("GET http://evil.test/mcp HTTP/1.1", "Host: evil.test", token))
    assert is_refused(served.raw("GET http://evil.test/mcp HTTP/1.1", good, token))
    assert served.scratch.dailies() == before


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_page_in_a_real_browser_whose_name_was_rebound_reads_and_writes_nothing(served, tmp_path):
    """Even one that knows the token."""
    calls = len([one for one in served.scratch.log() if one["event"] == "mcp call"])
    told = tried(served.port, SAVE, served.token, tmp_path / "profile")
    assert told.pop("socket") == "no"
    assert len(told) == 10
    for name, (kind, status, text) in told.items():
        if name.startswith("rebound"):
            assert (kind, 400 <= status < 500) == ("basic", True), (name, status, text)
        else:
            assert kind in {"error", "opaque"}, (name, status)
        for leak in ("Frankfurt", "memoryd-context", "protocolVersion", served.token):
            assert leak not in text
    assert "planted" not in json.dumps(served.scratch.dailies())
    assert len([one for one in served.scratch.log() if one["event"] == "mcp call"]) == calls


def test_the_three_names_of_the_loopback_are_answered(served):
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = f"{name}:{served.port}"
        body = json.dumps(CALL | {"method": "ping"}).encode()
        for origin in ((), (f"Origin: http://{host}",)):
            status, text = served.post(*origin, host=host, body=body)
            assert status == 200, text
            assert b"access-control" not in text.lower()


def test_a_page_of_another_site_changes_nothing(served):
    before = served.scratch.dailies()
    origins = (
        "http://evil.test", "null", f"http://evil.test:{served.port}", "https://127.0.0.1", "http://127.0.0.1",
        f"https://{served.host}", f"http://{served.host}.evil.test", "file://", f"http://{served.host}/",
    )  # fmt: skip
    for origin in origins:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
            assert served.post(f"Origin: {origin}", f"Content-Type: {kind}")[0] == 403
        preflight = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
        head = ("OPTIONS /mcp HTTP/1.1", f"Host: {served.host}", f"Origin: {origin}", *preflight)
        answer = served.raw(*head)
        assert answer[0] == 403
        assert is_refused(answer)
    twice = (f"Origin: http://{served.host}", "Origin: http://evil.test")
    assert served.post(*twice)[0] == 403
    assert served.raw("GET /mcp HTTP/1.1", f"Host: {served.host}", "Sec-Fetch-Site: cross-site")[0] == 401  # an <img>
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==")
    for host, origin in ((served.host, "http://evil.test"), ("evil.test", "http://evil.test")):
        shake = ("GET /mcp HTTP/1.1", f"Host: {host}", f"Origin: {origin}", *upgrade)
        assert is_refused(served.raw(*shake))
    assert served.scratch.dailies() == before


def test_a_body_has_its_bound_and_its_kind(served):
    head = ("POST /mcp HTTP/1.1", f"Host: {served.host}", f"Authorization: Bearer {served.token}")
    kind = "Content-Type: application/json"
    assert served.raw(*head, kind, f"Content-Length: {LARGEST_BODY + 1}")[0] == 413
    assert served.post("Content-Type: text/plain")[0] == 400
    assert served.post(body=b"[" * 100_000)[0] == 400
    assert is_refused(
        served.raw("GET /other HTTP/1.1", f"Host: {served.host}", f"Authorization: Bearer {served.token}")
    )


def test_the_token_is_in_its_file_alone(served):
    assert stat.S_IMODE(served.token_file.stat().st_mode) == 0o600
    assert len(served.token) >= 43
    assert served.post(token="wrong")[0] == 401  # noqa: S106 - which is told in the log
    told = [Path(f"/proc/{served.process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    told += [path.read_bytes() for path in served.scratch.state.rglob("*.jsonl*")]
    assert len(told) > 2
    assert not any(served.token.encode() in one for one in told)


# --- without a process ------------------------------------------------------------------------------------------------


def test_tokens_are_guessed_ten_times_and_then_once_a_second(monkeypatch):
    at, passed = [0.0], []

    async def inner(scope, receive, send):
        passed.append(scope)

    door = Loopback(inner, 80, "right", get_logger("memoryd.test"), Bucket(10, 1.0, lambda: at[0]))

    def status(token, *more, host=b"127.0.0.1:80"):
        sent = []

        async def send(message):
            sent.append(message)

        async def check():
            headers = [(b"host", host), *((b"authorization", one) for one in (token, *more))]
            headers.append((b"x-forwarded-for", b"::ffff:127.0.0.%d" % (len(passed) % 250)))
            await door({"type": "http", "path": "/mcp", "headers": headers}, None, send)

        anyio.run(check)
        return sent[0]["status"] if sent else 200

    assert status(b"Bearer right") == status(b"bearer  right") == 200
    guesses = (
        b"Bearer wrong",
        b"Bearer righ",
        b"Bearer right2",
        b"Basic right",
        b"right",
        b"Bearer",
        b"Bearer \xff",
        b"",
    )
    assert [status(one) for one in guesses] == [401] * len(guesses)
    assert [status(b"Bearer wrong", b"Bearer right") for _ in range(2)] == [401] * 2
    assert {status(b"Bearer wrong", host=host) for host in (b"localhost:80", b"[::1]:80") for _ in range(50)} == {429}
    assert status(b"Bearer right") == 429  # what is not looked at is not found by guessing
    at[0] += 1
    assert status(b"Bearer right") == 200
    assert status(b"Bearer wrong") == 401
    assert status(b"Bearer right") == 429
    assert status(b"Bearer right", host=b"evil.test") == 421  # the host comes first


def test_who_never_gets_to_the_end_of_a_head_keeps_no_place(monkeypatch):
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.05)

    async def heard(said, behind=b""):
        looked = asyncio.Event()

        class Looked(serving.Impatient):
            def _look(self, answered):
                super()._look(answered)
                looked.set()

        async def application(_scope, _receive, send):
            for _ in range(2):  # an answer may take longer than a head
                looked.clear()
                await looked.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"answered"})

        config = uvicorn.Config(application, http=Looked, log_config=None)
        config.load()
        made = partial(Looked, config=config, server_state=ServerState(), app_state={})
        server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(said)
            if behind:
                assert b"answered" in await reader.readuntil(b"\r\n0\r\n\r\n")
                writer.write(behind)
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return answer

    assert asyncio.run(heard(b"POST /mcp HTTP/1.1\r\nHost: ")) == b""
    asked = b"GET /mcp HTTP/1.1\r\nHost: x\r\n"
    assert b"answered" in asyncio.run(heard(asked + b"Connection: close\r\n\r\n"))
    # Nor who was answered, and begins another request or goes on with the one that is answered.
    assert asyncio.run(heard(asked + b"\r\n", b"G")) == b""
    assert asyncio.run(heard(asked + b"Content-Length: 9\r\n\r\n", b"G")) == b""


def test_however_many_say_nothing_who_asks_is_answered(monkeypatch):
    monkeypatch.setattr(serving, "MOST_SILENT", 5)

    async def application(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})

    async def besieged():
        state = ServerState()
        config = uvicorn.Config(application, http=serving.Impatient, log_config=None)
        config.load()
        made = partial(serving.Impatient, config=config, server_state=state, app_state={})
        server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()
            silent = [await asyncio.open_connection(*address) for _ in range(12)]
            for reader, _ in silent[:7]:  # the oldest are let go
                assert await asyncio.wait_for(reader.read(), 10) == b""
            assert len(state.connections) == 5
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), 10)
            for _, one in [*silent, (reader, writer)]:
                one.close()
            return answer

    assert b"answered" in asyncio.run(besieged())


def test_of_many_requests_at_once_those_above_a_limit_are_told_to_wait():
    port, held, full = 8765, asyncio.Event(), asyncio.Barrier(MOST_AT_ONCE + 1)

    async def asked(door):
        head = [(b"host", f"127.0.0.1:{port}".encode()), (b"authorization", b"Bearer right")]
        told = []

        async def send(message):
            told.append(message)

        await door({"type": "http", "path": "/mcp", "headers": head}, None, send)
        return told[0]["status"]

    async def inner(_scope, _receive, send):
        if not held.is_set():
            await full.wait()
            await held.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def many():
        door = Loopback(inner, port, "right", get_logger("memoryd.test"))
        first = [asyncio.create_task(asked(door)) for _ in range(MOST_AT_ONCE)]
        await asyncio.wait_for(full.wait(), 10)
        late = await asyncio.wait_for(asked(door), 10)
        held.set()
        return late, set(await asyncio.gather(*first)), await asked(door)

    assert asyncio.run(many()) == (503, {200}, 200)


def test_only_this_machine_is_served():
    for address in ("0.0.0.0:0", "[::]:0", ":::0", "::1:0", "example.com:0", "localhost.:0", "127.0.0.1.evil.test:0",
                    "192.168.0.1:0", ":0", "", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:70000",
                    "127.1:0", "0:0", "*:0", "[127.0.0.1:0", "LOCALHOST:0", "127.0.0.1:\u0661"):  # fmt: skip
        with pytest.raises(ConfigError):
            listen(address).close()
    with listen("localhost:0") as one:
        assert one.getsockname()[0] == "127.0.0.1"
        with pytest.raises(MemorydError, match="cannot be listened on"):
            listen(f"127.0.0.1:{one.getsockname()[1]}").close()


def test_a_token_is_made_once_and_is_nobody_elses(tmp_path):
    path = tmp_path / "state" / "mcp.token"
    before = os.umask(0)
    try:
        token = read_or_make(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make(path) == token
    assert read_or_make(path.with_name("other.token")) != token
    path.chmod(0o640)
    with pytest.raises(StateError, match="others can read"):
        read_or_make(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(StateError, match="no token"):
        read_or_make(path)
    path.unlink()
    path.symlink_to(path.with_name("other.token"))
    with pytest.raises(StateError):
        read_or_make(path)
