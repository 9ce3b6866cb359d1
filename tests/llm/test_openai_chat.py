"""The adapter alone: where it connects to, what it sends, and what of the environment it heeds."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

import httpx2
import pytest
from chat_server import ASK, ChatServer, endpoint_of, event, good, refuse, say, send, speak, usage
from hypothesis import given
from hypothesis import strategies as st

from memoryd.jobs.job import Ask, ModelExchange, ModelTool, Reply, ToolCall
from memoryd.llm import network, openai_chat
from memoryd.llm.endpoint import Endpoint
from memoryd.llm.failure import Failure, Trouble

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)
    with ChatServer(good) as running:
        yield running


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


@pytest.mark.parametrize("charset", ["undefined", "zlib", "utf-16", "x"])
def test_an_error_in_any_charset_is_a_failure(charset, monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)

    def part(connection, _request):
        connection.head("500 Oh", f"application/json; charset={charset}", "Content-Length: 3")
        connection.send("\u00e4x")

    with ChatServer(part) as server:
        found = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(found, Failure)
    assert found.trouble is Trouble.UNAVAILABLE


@pytest.mark.parametrize("key", [KEY, 'tok/Zq81+kk"Wv\\x=='])
def test_the_key_that_was_sent_is_in_no_reply(monkeypatch, key):
    """A proxy or a model that shows request headers may echo it."""
    monkeypatch.setenv("A_KEY", key)
    forms = (key, json.dumps(key)[1:-1], quote(key, safe=""))
    arguments = json.dumps({"query": key}).replace("/", r"\/")
    call = {"index": 0, "id": key, "function": {"name": "look", "arguments": arguments}}
    delta = {"content": "end", "tool_calls": [call]}
    told = {"model": key, "choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    with ChatServer(send(speak(" ".join((*forms, "")), None, event(told)))) as server:
        reply = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(reply, Reply)
    assert not [form for form in forms if form in str(reply) or form in reply.text]
    assert reply.text.split() == ["[REDACTED:model-key]"] * 3 + ["end"]
    assert json.loads(reply.calls[0].arguments) == {"query": "[REDACTED:model-key]"}


def test_a_short_key_is_a_word_that_a_reply_may_hold(monkeypatch):
    monkeypatch.setenv("A_KEY", "ollama")
    with ChatServer(send(speak("We run ollama."))) as server:
        reply = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(reply, Reply)
    assert reply.text == "We run ollama."


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


# As the servers word it: which length, and their own limit where the error states one.
REFUSED = {
    "OpenAI, output": (
        "max_tokens is too large: 16000. This model supports at most 4096 completion tokens.",
        Trouble.LIMIT, 4096,
    ),
    "OpenAI, context": (
        ("This model's maximum context length is 8192 tokens. However, you requested 16064 tokens (64 in the messages,"
        " 16000 in the completion). Please reduce the length of the messages or completion."), Trouble.OVERFLOW, 8192,
    ),
    "OpenAI, code": ('{"code": "context_length_exceeded"}', Trouble.OVERFLOW, None),
    "vLLM, output": (
        ("'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001"
        " tokens and your request has 24235 input tokens (64000 > 64001 - 24235)."), Trouble.OVERFLOW, 64001,
    ),
    "vLLM, context": (
        ("This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your"
        " prompt contains at least 62466 input tokens, for a total of at least 128001."), Trouble.OVERFLOW, 128000,
    ),
    "vLLM, no room": ("max_tokens must be at least 1, got -186.", Trouble.OVERFLOW, None),
    "SGLang": (
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).", Trouble.OVERFLOW, 4096,
    ),
    "llama.cpp": (
        "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
        Trouble.OVERFLOW, 4096,
    ),
    "llama.cpp, before": (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        Trouble.OVERFLOW, None,
    ),
    "llama-cpp-python": ("Requested tokens (2285) exceed context window of 2048", Trouble.OVERFLOW, 2048),
    "LM Studio": (
        ("Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context"
        " length of only 4096 tokens, which is not enough."), Trouble.OVERFLOW, 4096,
    ),
    "LM Studio, n_keep": ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", Trouble.OVERFLOW, 7424),
    "LM Studio, no number": (
        ("The number of tokens to keep from the initial prompt is greater than the context length. Try to load the"
        " model with a larger context length, or provide a shorter input."), Trouble.OVERFLOW, None,
    ),
    "Ollama": ("the input length exceeds the context length", Trouble.OVERFLOW, None),
    "Groq, output": (
        ("`max_completion_tokens` must be less than or equal to `8192`, the maximum value for `max_completion_tokens`"
        " is less than the `context_window` for this model"), Trouble.LIMIT, 8192,
    ),
    "Groq, context": ("Please reduce the length of the messages or completion.", Trouble.OVERFLOW, None),
    "OpenRouter": (
        ("This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (124000"
        " of text input, 16000 in the output). Please reduce the length of either one."), Trouble.OVERFLOW, 131072,
    ),
    "Mistral, context": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        Trouble.OVERFLOW, 32768,
    ),
    "Mistral, output": (
        '{"type": "less_than_equal", "loc": ["body", "max_tokens"], "msg": "should be less than or equal to 8192"}',
        Trouble.LIMIT, 8192,
    ),
    "Anthropic, output": (
        "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
        Trouble.LIMIT, 8192,
    ),
    "Anthropic, both": (
        ("input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease input length or"
        " `max_tokens` and try again"), Trouble.OVERFLOW, 200000,
    ),
    "Anthropic, prompt": ("prompt is too long: 210000 tokens > 200000 maximum", Trouble.OVERFLOW, 200000),
    "DeepSeek": ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", Trouble.LIMIT, 8192),
    "Qwen": ("Range of max_tokens should be [1, 8192]", Trouble.LIMIT, 8192),
    "Together": (
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 900 `inputs` tokens and"
        " 16000 `max_new_tokens`"), Trouble.OVERFLOW, 4097,
    ),
    "Volcengine": (
        ("The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value,"
        " expected a value <= 12288, but got 16000 instead."), Trouble.LIMIT, 12288,
    ),
    "Gemini": (
        ("Unable to submit request because it has a maxOutputTokens value of 16000 but the supported range is from 1"
        " (inclusive) to 8193 (exclusive)."), Trouble.LIMIT, 8193,
    ),
    "at most": ("`max_completion_tokens` must be at most 4096", Trouble.LIMIT, 4096),
    "no number": ("max_tokens is too large", Trouble.LIMIT, None),
}  # fmt: skip


@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_length_is_known_in_the_words_of_each_server(server, name, status):
    text, trouble, most = REFUSED[name]
    server.part = refuse(status, text)
    failure = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.most, failure.billed) == (trouble, most, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "text", "trouble", "most"),
    [
        ("413 Too Large", "Request too large: tokens per minute (TPM): Limit 6000, Requested 16900", "overflow", 6000),
        ("413 Too Large", "<html>", "overflow", None),
        ("500 Internal", "Context size has been exceeded.", "overflow", None),
        ("402 Payment", "fewer max_tokens. You requested up to 16000 tokens, but can only afford 3000", "limit", 3000),
    ],
)
def test_lengths_are_refused_with_other_statuses_too(server, status, text, trouble, most):
    server.part = refuse(status, text)
    failure = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.most) == (trouble, most)


def test_a_length_that_is_refused_in_the_stream_is_one(server):
    server.part = send(event({"error": {"message": "Cannot truncate prompt with n_keep (9000) >= n_ctx (4096)"}}))
    failure = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.most) == (Trouble.OVERFLOW, 4096)


@pytest.mark.parametrize("text", ["Unsupported parameter: 'max_tokens'", "the model is busy", "tools are too many", ""])
def test_other_errors_are_about_no_length(text):
    assert openai_chat.read_refused_length(text) is None


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
    reply = openai_chat.answer(ASK, Endpoint(server.url, "x\n" * 200, "A_KEY", 20.0, 123))
    assert isinstance(reply, Reply)
    assert reply.model == "tiny-1"
    assert openai_chat._printable("x\n\x1b" * 200).isprintable()
    assert len(openai_chat._printable("x" * 200)) == 100


# --- tools ---

TOOL = ModelTool("take", "Take it.", '{"type": "object", "properties": {"id": {"type": "string"}}}')
CALLED = ModelExchange("Well.", (ToolCall("c1", "take", '{"id": "x"}'), ToolCall("c2", "take", "{oh")), ("done", "no"))
TALK = replace(ASK, tools=(TOOL,), earlier=(CALLED, ModelExchange("Hm.", (), ("call something",))))


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
    assert request.json["messages"][3]["content"] == '"done"'


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


THOUGHTS = {"content": "<think>take {}</think>"}, {"content": "<think>I call take"}, {"reasoning_content": "Hm."}


@pytest.mark.parametrize("ask", [ASK, TALK])
@pytest.mark.parametrize("said", [*THOUGHTS, {"content": [{"type": "thinking", "thinking": []}]}, {"content": " "}])
def test_a_reply_of_reasoning_alone_is_none(server, ask, said):
    server.part = send(event({"choices": [{"delta": said, "finish_reason": "stop"}]}))
    failure = openai_chat.answer(ask, endpoint_of(server.url))
    assert isinstance(failure, Failure)
    assert (failure.trouble, failure.billed) == (Trouble.BAD_REPLY, True)


def test_a_list_of_text_blocks_is_their_text(server):
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    server.part = send(event({"choices": [{"delta": {"content": blocks}, "finish_reason": "stop"}]}))
    reply = openai_chat.answer(ASK, endpoint_of(server.url))
    assert isinstance(reply, Reply)
    assert reply.text == "ab"


def test_a_question_with_a_text_of_its_own_is_exactly_two_messages(server):
    text = "Judge.\n```json\n[]\n```"
    server.part = send(speak("{}"))
    openai_chat.answer(Ask("verify", "Check memory claims.\n", (), text=text), endpoint_of(server.url))
    assert server.requests[0].json["messages"] == [
        {"role": "system", "content": "Check memory claims.\n"},
        {"role": "user", "content": text},
    ]
