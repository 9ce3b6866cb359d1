"""Run the worker process: do heavy work, one request after the other, and end when the parent does.

    python -m memoryd.worker STATE_DIR [NAME]

Its standard input is a socket. A request is the name of an operation and its arguments; it is answered by the result,
or by an error. Both are sent as `multiprocessing` sends objects: the two processes run the same code as the same user.
No content may reach the other streams: of an unexpected error only its type and place are told.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.errors import MemorydError, RefusedError
from memoryd.worker import heap
from memoryd.worker.embedder import EmbeddingModel
from memoryd.worker.scanner import SecretScanner
from memoryd.worker.tokens import TokenCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memoryd.jobs.job import Ask, Reply
    from memoryd.llm.endpoint import Endpoint
    from memoryd.llm.failure import Failure

NICENESS = 5  # the person's own programs come first

# Each backend is a module with `answer`, imported when it is first asked: the second costs 40 MB.
BACKENDS = {"offline": "memoryd.offline.backend", "openai": "memoryd.llm.openai_chat"}


def main() -> None:
    """Serve until the parent has closed its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    with contextlib.suppress(PermissionError):  # a service manager may forbid it; the work is the same
        os.nice(NICENESS)
    heap.keep_small()
    connection = Connection(os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is what is wanted
        os.dup2(nothing.fileno(), 0)  # whatever a library may read
    serve(connection, list_operations(Path(sys.argv[1])))


def list_operations(state_dir: Path) -> dict[str, Callable[..., Any]]:
    """Return the worker's operations, by name."""
    return {
        "count": TokenCounter().count,
        "answer": _answer,
        "scan": SecretScanner(state_dir).scan,
        "embed": EmbeddingModel().embed,
    }


def _answer(backend: str, ask: Ask, *endpoint: Endpoint) -> Reply | Failure:
    if backend not in BACKENDS:
        raise RefusedError(f"no backend named {backend!r}", "llm.provider", f"one of: {', '.join(BACKENDS)}")
    answered: Reply | Failure = importlib.import_module(BACKENDS[backend]).answer(ask, *endpoint)
    return answered


def serve(connection: Connection, table: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests in their order until there are no more."""
    while True:
        try:
            name, *arguments = connection.recv()
        except (EOFError, OSError):  # between two requests, or in one
            return
        try:
            answer = table[name](*arguments)
        except MemorydError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - a request that fails must not take the next ones with it
            answer = MemorydError(_place_of(error), "worker")
        try:
            connection.send(answer)
        except OSError:  # the parent has gone
            return
        except Exception as error:  # noqa: BLE001 - an answer that cannot be sent; nothing of it was
            connection.send(MemorydError(_place_of(error), "worker"))


def _place_of(error: Exception) -> str:
    # Never the error's own text: it may quote the content of the request.
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name} line {last.lineno}"


if __name__ == "__main__":
    main()
