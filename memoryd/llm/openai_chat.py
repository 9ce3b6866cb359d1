"""Ask one question to one endpoint over OpenAI's `chat.completions`, and return its answer or failure.

The request uses only what all such servers share: messages in, a stream of chunks out, one choice. It uses no
structured output and no state on the server, and tools only if the question has some.

If a server rejects an option or does not know tools, it is asked again without them, and this process remembers that.
Tools are then described in the instructions and called in text. For any other reason, nothing is retried here. A
refused length is reported, with the server's own limit if the error names it. `running/answering.py` decides what to
do.

Failures are returned as values, and contain no text of the server.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx2
import openai

from memoryd.jobs.job import Ask, Reply, ToolCall
from memoryd.llm import network, prompt, stream
from memoryd.llm.endpoint import Endpoint, key_of
from memoryd.llm.failure import Failure, Trouble
from memoryd.text.fences import strip_fence
from memoryd.text.word_lists import compile_patterns

BACKEND = "openai"
_OPENAI_HOST = "api.openai.com"
_LONGEST_MODEL_NAME = 100
_SHORTEST_KEY = 12  # characters
_LOOKED_AT = 4000  # the characters of an error that are searched for its cause
_NO_MONEY = re.compile(r"insufficient_quota|billing|exceeded your current quota|credit balance", re.IGNORECASE)
_UNKNOWN_OPTION = frozenset({400, 422})
# Status codes of servers for a request that is too long: llama.cpp 500, Groq 413 (tokens per minute), OpenRouter 402,
# Scaleway 416.
_LENGTH = frozenset({400, 402, 413, 416, 422, 500})
# How servers report that they or the model do not support tools: Ollama, vLLM and LM Studio 400, llama.cpp 500,
# OpenRouter 404.
_NO_TOOLS = re.compile(r"\btools?\b|\btool[_ -]?(?:use|call|choice)|function[_ ]call", re.IGNORECASE)
_WITHOUT_TOOLS = frozenset({400, 404, 422, 500, 501})


@dataclass(frozen=True, slots=True)
class _EndpointDialect:
    """Hold the options that an endpoint accepts."""

    limit: str = "max_tokens"  # its name for the limit; OpenAI's newer models require `max_completion_tokens`
    reports_usage: bool = True  # the endpoint accepts `stream_options`
    takes_tools: bool = True


_dialects: dict[tuple[str, str], _EndpointDialect] = {}


def answer(ask: Ask, endpoint: Endpoint) -> Reply | Failure:
    """Ask `endpoint` once and return its reply, or the failure; tokens that the server does not report count as 0."""
    key = key_of(endpoint)
    if isinstance(key, Failure):
        return key
    url = endpoint.url
    known = (endpoint.base_url, endpoint.model)
    dialect = _dialects.get(known) or _EndpointDialect(
        "max_completion_tokens" if url.host == _OPENAI_HOST else "max_tokens"
    )
    while True:
        result = _ChatCall(ask, endpoint, key, dialect, network.Watch(endpoint.deadlines, url.scheme)).result()
        if not isinstance(result, _EndpointDialect):
            return result
        dialect = _dialects[known] = result


class _ChatCall:
    """Send one request and read its answer."""

    def __init__(self, ask: Ask, endpoint: Endpoint, key: str, dialect: _EndpointDialect, watch: network.Watch) -> None:
        self._ask = ask
        self._endpoint = endpoint
        self._key = key
        self._dialect = dialect
        self._watch = watch
        self._told = stream.Assembly()

    def result(self) -> Reply | Failure | _EndpointDialect:
        """Return the reply, the failure, or the dialect with which to ask again."""
        try:
            with network.make_client(self._watch) as client, _without_settings(), self._response(client) as response:
                self._read(response)
        except openai.APIStatusError as error:
            return self._of_status(error)
        except stream.BadReplyError as error:
            refused = self._of_length(error.said) if not self._told.characters else None
            return refused or self._failure(Trouble.BAD_REPLY, str(error))
        except httpx2.InvalidURL:
            return self._failure(Trouble.BLOCKED, "the endpoint is not a URL", billed=False)
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            return self._of_connection(error)
        told = self._told
        text = answer_of(self._hide_key("".join(told.parts)))
        if not text and not told.calls and told.finish_reason == "stop":
            return self._failure(Trouble.BAD_REPLY, "the reply is empty, or holds nothing but reasoning")
        return Reply(
            text=text,
            finish_reason=told.finish_reason,
            backend=BACKEND,
            model=_printable(self._hide_key(told.model or self._endpoint.model)),
            tokens_in=told.tokens_in or 0,
            tokens_out=told.tokens_out or 0,
            calls=tuple(ToolCall(*map(self._hide_key, (one.id, one.name, one.arguments))) for one in told.calls),
            in_text=bool(self._ask.tools) and not self._dialect.takes_tools,
        )

    def _hide_key(self, text: str) -> str:
        """Return a text of the server without the key that memoryd sent. A short key stays: it may be a plain word."""
        escaped = json.dumps(self._key)[1:-1]
        for form in {self._key, escaped, escaped.replace("/", r"\/"), quote(self._key, safe="")}:
            text = text.replace(form, "[REDACTED:model-key]") if len(form) >= _SHORTEST_KEY else text
        return text

    @contextlib.contextmanager
    def _response(self, client: httpx2.Client) -> Iterator[httpx2.Response]:
        options: dict[str, Any] = {self._dialect.limit: self._endpoint.output}
        if self._dialect.reports_usage:
            options["stream_options"] = {"include_usage": True}
        native = self._dialect.takes_tools
        if self._ask.tools and native:
            options["tools"] = prompt.build_tools(self._ask)
        sdk = openai.OpenAI(api_key=self._key, base_url=self._endpoint.base_url, max_retries=0, http_client=client)
        messages: Any = prompt.build_messages(self._ask, native=native)
        with sdk.chat.completions.with_streaming_response.create(
            model=self._endpoint.model, messages=messages, stream=True, **options
        ) as response:
            yield response.http_response

    def _read(self, response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            for _ in stream.read_events(response.iter_raw(), self._told):
                self._watch.answering = True
        elif kind == "application/json":
            stream.read_object(response.iter_raw(), self._told)
        else:
            raise stream.BadReplyError("the answer has a content type that no model uses")

    def _failure(
        self, trouble: Trouble, what: str, *, billed: bool = True, retry_after: float | None = None
    ) -> Failure:
        told = self._told
        return Failure(trouble, what, retry_after, told.tokens_in, told.tokens_out, billed, told.characters)

    def _of_connection(self, error: Exception) -> Failure:
        if self._watch.refused:
            return self._failure(Trouble.BLOCKED, f"the endpoint {self._watch.refused}", billed=False)
        if isinstance(error, httpx2.DecodingError) or isinstance(error.__cause__, httpx2.DecodingError):
            return self._failure(Trouble.BAD_REPLY, self._watch.ended)
        sent = self._watch.sent
        what = "the connection to the model broke" if sent else "the model cannot be reached"
        return self._failure(Trouble.UNAVAILABLE, self._watch.ended or what, billed=sent)

    def _of_status(self, error: openai.APIStatusError) -> Failure | _EndpointDialect:
        status = error.response.status_code
        text = error.response.text[:_LOOKED_AT]
        said = f"the endpoint answered {status}"
        if 300 <= status < 400:
            # Following a redirect could send the key or the question to another host.
            trouble = Trouble.BLOCKED if status in {301, 308} else Trouble.UNAVAILABLE
            return self._failure(trouble, f"{said}, a redirect, which is not followed", billed=False)
        if status in _LENGTH and (refused := self._of_length(text)):
            return refused
        if status == 413:
            return self._failure(Trouble.OVERFLOW, _TOO_LONG, billed=False)
        if status in _UNKNOWN_OPTION and (other := self._other_dialect(text)):
            return other
        if self._ask.tools and self._dialect.takes_tools and status in _WITHOUT_TOOLS and _NO_TOOLS.search(text):
            return replace(self._dialect, takes_tools=False)
        after = _retry_after(error.response.headers, datetime.now(UTC))
        if status == 429 and not _NO_MONEY.search(text):
            return self._failure(Trouble.BUSY, said, billed=False, retry_after=after)
        if status >= 500 or status in {408, 409, 425}:
            # A gateway error does not show whether the model was working.
            return self._failure(Trouble.UNAVAILABLE, said, billed=status >= 500, retry_after=after)
        means = _MEANS.get(status, _REFUSES).format(key=self._endpoint.api_key_env)
        return self._failure(Trouble.BLOCKED, f"{said}: {means}", billed=False)

    def _of_length(self, text: str) -> Failure | None:
        """Return the failure of a request that was refused for its length, or None for any other error."""
        found = read_refused_length(text)
        if found is None:
            return None
        trouble, most = found
        what = _TOO_MUCH if trouble is Trouble.LIMIT else _TOO_LONG
        return replace(self._failure(trouble, what, billed=False), most=most)

    def _other_dialect(self, text: str) -> _EndpointDialect | None:
        if self._dialect.limit == "max_tokens" and "max_completion_tokens" in text:
            return replace(self._dialect, limit="max_completion_tokens")
        if self._dialect.reports_usage and "stream_options" in text:
            return replace(self._dialect, reports_usage=False)
        return None


# What an error means and what to do; an alarm shows this text.
_REFUSES = "it refuses the request; check llm.model and llm.base_url, `memoryd doctor` tests them"
_MEANS = {
    401: "the key is not accepted; put a valid one into the variable {key}",
    402: "the account has no credit; add some, or choose another llm.model",
    403: "the key may not use this model; choose another llm.model, or a key that may, in the variable {key}",
    404: "there is no such model or path; correct llm.model or llm.base_url",
    429: "the account has no credit; add some, or choose another llm.model",
}
_TOO_LONG = "the question is longer than the model's context"
_TOO_MUCH = "the requested reply is too long for the model"


@contextlib.contextmanager
def _without_settings() -> Iterator[None]:
    """Keep the SDK from reading the environment, which may name another provider's address, headers or account.

    A process has only one request at a time, so nothing else needs these variables in the meantime.
    """
    taken = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(("OPENAI_", "AZURE_OPENAI_"))}
    try:
        yield
    finally:
        os.environ.update(taken)


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that the server asks to wait (RFC 9110, 10.2.3: a number or a date); None if it names none."""
    text = headers.get("retry-after", "").strip()
    with contextlib.suppress(ValueError):
        return max(0.0, float(text)) if text.isascii() and float(text) < float("inf") else None
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        at = parsedate_to_datetime(text)
        return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())
    return None


def _printable(name: str) -> str:
    return "".join(mark if mark.isprintable() else "?" for mark in name[:_LONGEST_MODEL_NAME])


# ── text of a model around its answer ─────────────────────────────────────────────────────────────────────────────────


_TAGS = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|reasoning_content|reflection|analysis|scratchpad)"
_OPENING = re.compile(
    rf"\A\s*(?:<(?P<tag>{_TAGS})>|(?P<square>\[THINK\])|(?P<kimi>◁think▷)|<\|(?P<begin>begin_of_thought)\|>|"
    r"<\|(?P<start>start_thinking)\|>)",
    re.IGNORECASE,
)
_CLOSINGS = {
    "square": r"\[/THINK\]",
    "kimi": r"◁/think▷",
    "begin": r"<\|end_of_thought\|>",
    "start": r"<\|end_thinking\|>",
}
_LEFT_OVER = re.compile(rf"\A[^\[{{]*?(?:</{_TAGS}\s*>|◁/think▷|\[/THINK\])", re.IGNORECASE)
_CHANNELS = re.compile(r"\A\s*(?:<\|start\|>\s*assistant\s*)?<\|channel\|>", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>\w+)[^<]*<\|message\|>", re.IGNORECASE)
_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>", re.IGNORECASE)


def answer_of(text: str) -> str:
    """Return the answer in `text`, without the reasoning before it and without a fence around it.

    If the reasoning never ends, the result is empty, because the start of the answer is unknown. Some models write the
    closing mark of the reasoning without an opening mark. A closing mark counts only before any `[` or `{`, so that a
    quoted mark in an answer ends nothing.
    """
    if _CHANNELS.match(text):
        text = _final(text)
    while opening := _OPENING.match(text):
        closing = _CLOSINGS.get(opening.lastgroup or "tag") or rf"</{re.escape(opening['tag'])}\s*>"
        end = re.compile(closing, re.IGNORECASE).search(text, opening.end())
        if end is None:
            return ""
        text = text[end.end() :]
    left_over = _LEFT_OVER.match(text)
    return strip_fence(text[left_over.end() :] if left_over else text).strip()


def _final(text: str) -> str:
    """Return the text of the channel `final`; empty if there is none."""
    said = ""
    for channel in _CHANNEL.finditer(text):
        if channel["name"].lower() == "final":
            end = _END.search(text, channel.end())
            said = text[channel.end() : end.start() if end else len(text)]
    return said


# ── refused lengths ───────────────────────────────────────────────────────────────────────────────────────────────────


_LEAST = 16  # tokens; a smaller number in an error is not a limit
_PATTERNS = compile_patterns(__name__, "refused_lengths.txt")


def read_refused_length(text: str) -> tuple[Trouble, int | None] | None:
    """Return which length an error refuses, and the most tokens if the text names them; None for other errors.

    `LIMIT` means that the reply alone is too long, `OVERFLOW` that question and reply together are too long.
    """
    tokens = _find_number("context of ", text)
    if tokens is not None:
        return Trouble.OVERFLOW, tokens
    tokens = _find_number("output of ", text)
    if tokens is not None or _PATTERNS["output"].search(text):
        return Trouble.LIMIT, tokens
    return (Trouble.OVERFLOW, None) if _PATTERNS["context"].search(text) else None


def _find_number(kind: str, text: str) -> int | None:
    """Return the number that the first matching pattern of a kind finds, if it can be a limit; None otherwise."""
    for pattern in (one for name, one in _PATTERNS.items() if name.startswith(kind)):
        found = pattern.search(text)
        number = int(found["n"].replace(",", "")[:12]) if found else 0
        if number >= _LEAST:
            return number
    return None
