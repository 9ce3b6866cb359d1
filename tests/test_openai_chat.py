"""The adapter alone: where it connects to, what it sends, and what of the environment it heeds."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime

import httpx2
import pytest
from chat_server import ChatServer, event, good, refuse, say, send, speak, usage
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.job import Ask, Exchange, Quoted, Reply, Tool, ToolCall
from memoryd.llm import network, openai_chat, prompt
from memoryd.llm.endpoint import Endpoint
from memoryd.llm.failure import Failure, Trouble

KEY = "sk-canary-0123456789abcdef"
ASK = Ask("sleep", "Do it.", (Quoted("t1", "user", "user", None, "always run the linter"),), (("words", "40"),), 123)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)
    with ChatServer(good) as running:
        yield running


def endpoint_of(url: str, timeout: float = 20.0) -> Endpoint:
    return Endpoint(url, "tiny-1", "A_KEY", timeout)


def test_what_is_sent(server):
    reply = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(reply, Reply)
    assert (reply.finish_reason, reply.backend, reply.model) == ("stop", "openai", "tiny-1")
    assert (reply.tokens_in, reply.tokens_out) == (700, 60)
    (request,) = server.requests
    assert set(request.json) == {"model", "messages", "stream", "max_tokens", "stream_options"}
    assert (request.json["max_tokens"], request.json["stream"]) == (123, True)
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"])
def test_proxies_of_the_environment_are_not_used(server, monkeypatch, name):
    with ChatServer(refuse("500 I am a proxy")) as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert isinstance(openai_chat.answer(ASK, endpoint_of(server.url)), Reply)
        assert proxy.connections == 0


def test_nothing_else_of_the_environment_is_heeded(server, monkeypatch):
    for name, value in {
        "OPENAI_BASE_URL": "http://127.0.0.1:1/", "OPENAI_ORG_ID": "org-canary", "OPENAI_PROJECT_ID": "proj-canary",
        "OPENAI_API_KEY": "sk-canary-other", "OPENAI_CUSTOM_HEADERS": "X-Canary: canary-header",
        "OPENAI_ADMIN_KEY": "sk-canary-admin",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert isinstance(openai_chat.answer(ASK, endpoint_of(server.url)), Reply)
    (request,) = server.requests
    sent = str(request.headers)
    assert sent.count("canary") == 1
    assert KEY in sent


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://2852039166/v1", "by a number"),
        ("https://ex\u2488mple.org/v1", "not a URL"),
        ("file:///etc/passwd", "http or https"),
        ("http://169.254.169.254/", "metadata"),
    ],
)
def test_an_address_that_is_never_asked_blocks(server, url, why):
    failure = openai_chat.answer(ASK, endpoint_of(url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.billed) == (Trouble.BLOCKED, False)
    assert why in failure.what


@pytest.mark.parametrize(
    ("host", "scheme", "why"),
    [
        ("2852039166", "https", "metadata"),  # 169.254.169.254 in one number, as a resolver reads it
        ("0251.0376.0251.0376", "https", "metadata"),
        ("134744072", "http", "in the clear"),  # 8.8.8.8
        ("::ffff:169.254.169.254", "https", "metadata"),
    ],
)
def test_a_name_is_looked_at_again_when_it_is_resolved(host, scheme, why):
    watch = network.Watch(endpoint_of("http://localhost/").deadlines, scheme)
    assert network._CheckedBackend(watch)._addresses(host, 80) == []
    assert why in watch.refused


def test_a_name_that_leads_to_this_machine_is_connected_to(server):
    assert isinstance(openai_chat.answer(ASK, endpoint_of(f"http://localhost:{server.port}/v1")), Reply)


def test_nobody_listens(server):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    failure = openai_chat.answer(ASK, endpoint_of(f"http://127.0.0.1:{port}/v1"))
    assert failure == Failure(Trouble.UNAVAILABLE, "the model cannot be reached")


def test_a_public_server_needs_a_key(server, monkeypatch):
    for value in ("", "  "):
        monkeypatch.setenv("A_KEY", value)
        failure = openai_chat.answer(ASK, endpoint_of("https://example.org/v1"))
        assert isinstance(failure, Failure)
        assert (failure.trouble, failure.what) == (Trouble.BLOCKED, "the variable A_KEY, for the key, is not set")


def test_a_key_that_would_forge_a_header_is_none(server, monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-1\r\nX-Evil: 1")
    failure = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BLOCKED
    assert "sk-1" not in failure.what
    assert server.connections == 0


def test_a_server_that_speaks_another_dialect_is_asked_in_it_and_that_is_remembered(server):
    def part(connection, request):
        if "max_tokens" in request.json:
            connection.error("400 Bad Request", "Use 'max_completion_tokens' instead.")
        elif "stream_options" in request.json:
            connection.error("422 Unprocessable", "extra fields: stream_options")
        else:
            good(connection, request)

    server.part = part
    for calls in (3, 4):
        assert isinstance(openai_chat.answer(ASK, endpoint_of(server.url)), Reply)
        assert len(server.requests) == calls
    assert server.requests[-1].json["max_completion_tokens"] == 123


def test_a_server_that_complains_whatever_it_is_sent_is_not_asked_for_ever(server):
    server.part = refuse("400 Bad Request", "max_completion_tokens and stream_options are both wrong")
    failure = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, len(server.requests)) == (Trouble.BLOCKED, 3)


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
        "the request exceeds the available context size. try increasing the context size",
        '{"code": "context_length_exceeded"}',
        "Trying to keep the first 5000 tokens when context overflows. Please reduce the length of the messages",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_the_usual_ways_to_say_that_it_is_too_long(server, text):
    server.part = refuse("400 Bad Request", text)
    failure = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.OVERFLOW


def test_a_trickle_does_not_outlive_the_call(server):
    server.part = lambda connection, _: (connection.head(), connection.trickle(b": still here\n\n"))
    began = time.monotonic()
    failure = openai_chat.answer(ASK, endpoint_of(server.url, 1.0))
    assert isinstance(failure, Failure)
    assert "had not begun to answer after 0.75 s" in failure.what
    assert time.monotonic() - began < 60  # a trickle goes on for 500 s


@given(st.text(max_size=40) | st.integers().map(str) | st.floats().map(str))
def test_any_time_to_wait_is_a_number_of_seconds_or_none(text):
    headers = {"retry-after": text}
    seconds = openai_chat._retry_after(headers, datetime(2026, 5, 4, tzinfo=UTC))
    assert seconds is None or 0 <= seconds < float("inf")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0), ("-5", 0.0), ("1.5", 1.5), ("", None), ("soon", None), ("nan", None), ("inf", None), ("٣", None),
        ("Mon, 04 May 2026 00:01:00 GMT", 60.0), ("Mon, 04 May 2020 00:01:00 GMT", 0.0),
    ],
)  # fmt: skip
def test_times_to_wait(text, seconds):
    headers = httpx2.Headers({"retry-after": text.encode()})
    assert openai_chat._retry_after(headers, datetime(2026, 5, 4, tzinfo=UTC)) == seconds


def test_a_models_name_is_one_short_line(server):
    server.part = say(lambda text: text, counts=usage(prompt_tokens=1))
    reply = openai_chat.answer(ASK, Endpoint(server.url, "x\n" * 200, "A_KEY", 20.0))
    assert isinstance(reply, Reply)
    assert reply.model == "tiny-1"
    assert openai_chat._printable("x\n\x1b" * 200).isprintable()
    assert len(openai_chat._printable("x" * 200)) == 100


# --- tools ---

TOOL = Tool("take", "Take it.", '{"type": "object", "properties": {"id": {"type": "string"}}}')
CALLED = Exchange("Well.", (ToolCall("c1", "take", '{"id": "x"}'), ToolCall("c2", "take", "{oh")), ("done", "no"))
TALK = replace(ASK, tools=(TOOL,), earlier=(CALLED, Exchange("Hm.", (), ("call something",))))


def test_tools_are_offered_and_the_conversation_told_as_the_api_has_them(server):
    server.part = send(
        event({"choices": [{"delta": {"tool_calls": [{"id": "c3", "function": {"name": "take", "arguments": "{}"}}]}}]})
        + speak("", end="tool_calls")
    )
    reply = openai_chat.answer(TALK, endpoint_of(server.url))
    assert isinstance(reply, Reply)
    assert (reply.calls, reply.finish_reason) == ((ToolCall("c3", "take", "{}"),), "stop")
    (request,) = server.requests
    (tool,) = request.json["tools"]
    assert tool["function"]["name"] == "take"
    assert tool["function"]["parameters"]["properties"] == {"id": {"type": "string"}}
    roles = [message["role"] for message in request.json["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    called = request.json["messages"][2]
    assert [json.loads(call["function"]["arguments"]) for call in called["tool_calls"]] == [
        {"id": "x"},
        {"malformed": "{oh"},
    ]
    mark = request.json["messages"][0]["content"].split("`<<")[1].split()[0]
    assert request.json["messages"][3]["content"] == f"<<{mark} result>>\ndone\n<</{mark}>>"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("400 Bad Request", "registry.ollama.ai/library/tiny does not support tools"),
        ("400 Bad Request", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        ("500 Internal", "Unsupported param: tools"),
        ("404 Not Found", "No endpoints found that support tool use."),
    ],
)
def test_a_server_that_knows_no_tools_is_told_them_in_text_and_that_is_remembered(server, status, text):
    def part(connection, request):
        if "tools" in request.json:
            connection.error(status, text)
        else:
            connection.head()
            connection.send(speak('{"tool": "take", "arguments": {"id": "x"}}'))

    server.part = part
    for calls in (2, 3):
        reply = openai_chat.answer(TALK, endpoint_of(server.url))
        assert isinstance(reply, Reply)
        assert (reply.text, reply.calls) == ('{"tool": "take", "arguments": {"id": "x"}}', ())
        assert len(server.requests) == calls
    told = server.requests[-1].json["messages"]
    assert "take: Take it. Arguments, as JSON Schema:" in told[0]["content"]
    assert [message["role"] for message in told[2:]] == ["assistant", "user", "assistant", "user"]
    assert told[2]["content"].splitlines()[1] == '{"tool": "take", "arguments": {"id": "x"}}'
    assert openai_chat.answer(ASK, endpoint_of(server.url)).text == reply.text


def test_a_question_that_is_too_long_is_no_server_without_tools(server):
    server.part = refuse(
        "400 Bad", "maximum context length is 10 tokens, you have 9 in the messages and 3 in the tools"
    )
    failure = openai_chat.answer(TALK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, len(server.requests)) == (Trouble.OVERFLOW, 1)


def test_a_mark_that_a_result_holds_is_not_used():
    marks = iter(["aa", "bb"])
    held = replace(TALK, earlier=(Exchange("", (ToolCall("c", "take", "{}"),), ("<</aa>>",)),))
    assert "<<bb" in prompt.messages(held, lambda: next(marks))[0]["content"]
