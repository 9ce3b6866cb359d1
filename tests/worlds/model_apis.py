"""A model on the loopback for real agent programs: it speaks their APIs, and says what it is told to say.

It answers Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's generateContent, streamed where
that is asked for. What it answers next stands in `script`: a text, or the call of a tool by the end of its name.
Requests that offer no tools, as for a title of the session, are answered without it.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

USAGE = 100  # tokens that a request is said to have
MOST_ASKED = 40  # of requests: then a tool that is not offered is given up


class Use(NamedTuple):
    """A call of a tool."""

    tool: str  # the end of its name
    arguments: dict
    tokens: int = USAGE  # that the request has which is answered by it, as far as the program is told

    def found(self, names):
        """The tool among those offered; ahead of one that the program has itself, that of memoryd."""
        own = [one for one in names if one[1].endswith(self.tool)]
        return next((one for one in own if "memoryd" in f"{one[0]}{one[1]}"), own[0] if own else None)


class Said(NamedTuple):
    """An answer: a text, or the call of a tool as its id, namespace, name and arguments."""

    number: int  # programs take two messages of one id for one
    text: str = ""
    call: tuple | None = None
    tokens: int = USAGE


class Request(NamedTuple):
    path: str
    body: dict

    def tools(self):
        """The names of all tools that are offered, as the API has them, with their namespace."""
        for one in self.body.get("tools") or []:
            if "functionDeclarations" in one:
                yield from ((None, each["name"]) for each in one["functionDeclarations"])
            elif one.get("type") == "namespace":
                yield from ((one["name"], each["name"]) for each in one["tools"])
            else:
                yield None, one.get("function", one).get("name", one.get("type"))

    def text(self):
        """All of it, as one text in which words can be looked for."""
        return json.dumps(self.body, ensure_ascii=False)

    def strings(self):
        """Each string in it."""
        left = [self.body]
        while left:
            one = left.pop()
            if isinstance(one, str):
                yield one
            elif isinstance(one, dict | list):
                left += one.values() if isinstance(one, dict) else one


class ModelServer:
    """Listens as long as it is entered.

    Attributes:
        asked: the requests for an answer, in order.
        script: what is answered to those that offer tools.
        meanwhile: the tool that is called as long as one that is to be called is not offered yet.
    """

    def __init__(self):
        self.asked = []
        self.script = deque()
        self.meanwhile = None
        self._ids = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Ours", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self._lock = threading.Lock()

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def says(self, request):
        """What is answered."""
        names = list(request.tools())
        with self._lock:
            self.asked.append(request)
            said = self.script[0] if self.script and names else "Understood."
            found = None if isinstance(said, str) else said.found(names)
            if found is None and isinstance(said, Use) and self.meanwhile is not None and len(self.asked) < MOST_ASKED:
                said, found = self.meanwhile, self.meanwhile.found(names)
            elif self.script and names:
                self.script.popleft()
        number = next(self._ids)
        if isinstance(said, str):
            return Said(number, said)
        if found is None:
            return Said(number, f"There is no tool {said.tool}.")
        return Said(number, "", (f"call_{number}", *found, said.arguments), said.tokens)


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._json({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})

    do_HEAD = do_GET  # noqa: N815 - so the library calls it

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        if path.endswith(("/count_tokens", ":countTokens")):
            self._json({"input_tokens": USAGE, "totalTokens": USAGE})
        elif path.endswith("/messages"):
            self._send(*anthropic(body, self.model.says(Request(path, body))))
        elif path.endswith("/responses"):
            self._send(*responses(body, self.model.says(Request(path, body))))
        elif path.endswith("/chat/completions"):
            self._send(*chat(body, self.model.says(Request(path, body))))
        elif path.endswith("enerateContent"):
            self._send(*gemini(path, self.model.says(Request(path, body))))
        else:
            self._json({})

    def _json(self, value):
        self._send(json.dumps(value).encode(), "application/json")

    def _send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


def _stream(events, *, named):
    lines = []
    for one in events:
        name = f"event: {one['type']}\n" if named else ""
        lines.append(f"{name}data: {one if isinstance(one, str) else json.dumps(one)}\n\n")
    return "".join(lines).encode(), "text/event-stream"


def anthropic(body, said):
    """An answer of the Messages API: docs.anthropic.com/en/api/messages-streaming."""
    number, text, call, tokens = said
    block = {"type": "text", "text": text} if call is None else _tool_use(call)
    message = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model", "scripted"),
        "content": [block], "stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": 5},
    }  # fmt: skip
    if not body.get("stream"):
        return json.dumps(message).encode(), "application/json"
    if call is None:
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    else:
        begun = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return _stream(
        [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": begun},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ],
        named=True,
    )


def _tool_use(call):
    call_id, _, name, arguments = call
    return {"type": "tool_use", "id": f"toolu_{call_id}", "name": name, "input": arguments}


def responses(body, said):
    """An answer of the Responses API: platform.openai.com/docs/api-reference/responses-streaming."""
    number, text, call, tokens = said
    if call is None:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
    else:
        call_id, space, name, arguments = call
        item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name,
                "arguments": json.dumps(arguments), "status": "completed"}  # fmt: skip
        if space is not None:
            item["namespace"] = space
    usage = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
    whole = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": body.get("model"),
             "output": [item], "status": "completed", "usage": usage}  # fmt: skip
    if not body.get("stream"):
        return json.dumps(whole).encode(), "application/json"
    events = [
        {"type": "response.created", "response": whole | {"output": [], "status": "in_progress", "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    ]
    if call is None:
        where = {"item_id": f"msg_{number}", "output_index": 0, "content_index": 0}
        events.append({"type": "response.output_text.delta", **where, "delta": text})
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return _stream([one | {"sequence_number": number} for number, one in enumerate(events)], named=True)


def chat(body, said):
    """An answer of Chat Completions: platform.openai.com/docs/api-reference/chat-streaming."""
    number, text, call, tokens = said
    message = {"role": "assistant", "content": text}
    if call is not None:
        call_id, _, name, arguments = call
        function = {"name": name, "arguments": json.dumps(arguments)}
        message |= {
            "content": None,
            "tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}],
        }
    why = "stop" if call is None else "tool_calls"
    usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
    about = {"id": f"chat_{number}", "created": 0, "model": body.get("model", "scripted")}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": why}
        whole = about | {"object": "chat.completion", "choices": [choice], "usage": usage}
        return json.dumps(whole).encode(), "application/json"
    parts = about | {"object": "chat.completion.chunk"}
    return _stream(
        [
            parts | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            parts | {"choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
            parts | {"choices": [], "usage": usage},
            "[DONE]",
        ],
        named=False,
    )


def gemini(path, said):
    """An answer of generateContent: ai.google.dev/api/generate-content."""
    _, text, call, tokens = said
    part = {"text": text} if call is None else {"functionCall": {"name": call[2], "args": call[3]}}
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 5, "totalTokenCount": tokens + 5}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
    if ":stream" in path:
        return _stream([whole], named=False)
    return json.dumps(whole).encode(), "application/json"
