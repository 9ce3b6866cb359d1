"""What goes through the pipes between the daemon and its worker: one JSON object a line, each way.

    → {"do": "count", "texts": ["…"]}                    ← {"ok": true, "tokens": [1], "how": "tiktoken"}
    → {"do": "answer", "backend": "offline", "ask": {…}}  ← {"ok": true, "reply": {…}}
    → {"do": "answer", "backend": "openai", "ask": {…}, "endpoint": {…}}
                                                         ← {"ok": true, "failure": {…}}, or a reply
    → {"do": "scan", "texts": ["…"], "policy": {…}}      ← {"ok": true, "failed": [2],
                                                            "changed": [[0, "…", [["rule", 3, 9]], false]]}
    → {"do": "embed", "texts": ["…", ""]}                ← {"ok": true, "vectors": ["base64", null]}
                                                         ← {"ok": false, "code": "state", "what": "…", …}

UTF-8, as orjson writes it at the speed a backfill needs. A message that holds a lone surrogate, which UTF-8 has no form
for, is written in ASCII with escapes by the standard library, so that it passes unharmed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

import orjson

from memoryd.jobs.job import Ask, Exchange, Quoted, Reply, Tool, ToolCall
from memoryd.llm.failure import Failure, Trouble
from memoryd.scrub.finding import Finding, Scrubbed
from memoryd.scrub.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

Message = dict[str, Any]


def send(pipe: IO[bytes], message: Message) -> None:
    """Write one message."""
    try:
        line = orjson.dumps(message)
    except orjson.JSONEncodeError:
        line = json.dumps(message).encode()
    pipe.write(line + b"\n")
    pipe.flush()


def receive(pipe: IO[bytes]) -> Message | None:
    """Read one message; None where the other side is gone, in the middle of a line too."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError:
        message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a message is an object")  # noqa: TRY004 - the sender's error, as malformed JSON is
    return message


def ask_to_json(ask: Ask) -> Message:
    """A question as JSON, without the `state` of its job, which is no concern of a backend."""
    return {
        "job": ask.job,
        "instructions": ask.instructions,
        "material": [asdict(quoted) for quoted in ask.material],
        "context": [list(pair) for pair in ask.context],
        "tools": [asdict(tool) for tool in ask.tools],
        "earlier": [asdict(one) for one in ask.earlier],
        "text": ask.text,
    }


def ask_from_json(data: Message) -> Ask:
    """The question that `ask_to_json` wrote."""
    return Ask(
        job=data["job"],
        instructions=data["instructions"],
        material=tuple(Quoted(**quoted) for quoted in data["material"]),
        context=tuple((name, text) for name, text in data["context"]),
        tools=tuple(Tool(**tool) for tool in data["tools"]),
        earlier=tuple(
            Exchange(one["text"], tuple(ToolCall(**call) for call in one["calls"]), tuple(one["results"]))
            for one in data["earlier"]
        ),
        text=data["text"],
    )


def result_to_json(result: Reply | Failure) -> Message:
    """An answer, or why there is none, as JSON."""
    return {"reply" if isinstance(result, Reply) else "failure": asdict(result)}


def result_from_json(data: Message) -> Reply | Failure:
    """What `result_to_json` wrote."""
    if "reply" in data:
        return reply_from_json(data["reply"])
    given = data["failure"]
    return Failure(**{**given, "trouble": Trouble(given["trouble"])})


def reply_from_json(data: Message) -> Reply:
    """The reply that `dataclasses.asdict` made these values of."""
    return Reply(**{**data, "calls": tuple(ToolCall(**call) for call in data.get("calls", ()))})


def policy_from_json(data: Message) -> Policy:
    """The policy that `policy_to_json` wrote."""
    return Policy(**{**data, "allow": tuple(data["allow"])})


def scrubbed_to_json(texts: Sequence[str], scrubbed: Sequence[Scrubbed | None]) -> Message:
    """What became of texts, as JSON; those that did not change are left out."""
    changed = [
        (place, result.text, result.findings, result.dropped)
        for place, result in enumerate(scrubbed)
        if result is not None and (result.findings or result.text != texts[place])
    ]
    return {"changed": changed, "failed": [place for place, result in enumerate(scrubbed) if result is None]}


def scrubbed_from_json(texts: Sequence[str], data: Message) -> list[Scrubbed | None]:
    """What `scrubbed_to_json` wrote of these texts."""
    results: list[Scrubbed | None] = [Scrubbed(text, ()) for text in texts]
    for place, text, findings, dropped in data["changed"]:
        results[place] = Scrubbed(text, tuple(Finding(*finding) for finding in findings), dropped)
    for place in data["failed"]:
        results[place] = None
    return results
