"""The worker process: does what is heavy, one request after the other, and ends when its parent does.

    python -m memoryd.worker STATE_DIR [NAME]

Requests come on stdin and answers go to stdout, see `protocol`. Nothing else may reach stdout, and no content may
reach stderr: of an unexpected error only its type and place are told.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from memoryd.errors import MemorydError, RefusedError
from memoryd.llm.endpoint import Endpoint
from memoryd.worker.embedder import Embedder
from memoryd.worker.protocol import (
    Message,
    ask_from_json,
    policy_from_json,
    receive,
    result_to_json,
    scrubbed_to_json,
    send,
)
from memoryd.worker.scanner import Scanner
from memoryd.worker.tokens import TokenCounter

NICENESS = 5  # the person's own programs come first

# Each backend is a module with `answer`, imported when it is first asked: the second costs 40 MB.
BACKENDS = {"offline": "memoryd.llm.offline", "openai": "memoryd.llm.openai_chat"}

Operation = Callable[[Message], Message]


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    os.nice(NICENESS)
    requests, answers = _private_pipes()
    serve(requests, answers, operations(Path(sys.argv[1])))


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes, taken away from whatever a library may print or read."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def operations(state_dir: Path) -> dict[str, Operation]:
    """What the worker can do, by name."""
    counter = TokenCounter(state_dir)

    def count(request: Message) -> Message:
        tokens, how = counter.count(request["texts"])
        return {"tokens": tokens, "how": how}

    scanner = Scanner(state_dir)

    def scan(request: Message) -> Message:
        texts = request["texts"]
        return scrubbed_to_json(texts, scanner.scan(texts, policy_from_json(request["policy"])))

    embedder = Embedder()

    def embed(request: Message) -> Message:
        return {"vectors": embedder.embed(request["texts"])}

    return {"count": count, "answer": _answer, "scan": scan, "embed": embed}


def _answer(request: Message) -> Message:
    backend = request["backend"]
    if backend not in BACKENDS:
        raise RefusedError(f"no backend named {backend!r}", "llm.provider", f"one of: {', '.join(BACKENDS)}")
    answer: Any = importlib.import_module(BACKENDS[backend]).answer
    where = [Endpoint(**request["endpoint"])] if "endpoint" in request else []
    return result_to_json(answer(ask_from_json(request["ask"]), *where))


def serve(requests: IO[bytes], answers: IO[bytes], table: dict[str, Operation]) -> None:
    """Answer requests in their order until there are no more."""
    while (request := receive(requests)) is not None:
        try:
            answer = {"ok": True, **table[request["do"]](request)}
        except MemorydError as error:
            answer = {"ok": False, "code": error.code, "what": error.what, "where": error.where, "hint": error.hint}
        except Exception as error:  # noqa: BLE001 - a request that fails must not take the next ones with it
            answer = {"ok": False, "code": "failed", "what": _place_of(error), "where": "worker", "hint": ""}
        send(answers, answer)


def _place_of(error: Exception) -> str:
    # Never the error's own text: it may quote what was being worked on.
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name} line {last.lineno}"


if __name__ == "__main__":
    main()
