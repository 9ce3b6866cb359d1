"""Run the worker process: do heavy work, one request after the other, and end when the parent does.

    python -m memoryd.worker STATE_DIR [NAME]

Its standard input is a socket. A request is the name of an operation with its arguments, and the answer is its result
or an error. Both are encoded as `multiprocessing` encodes objects, because the two processes run the same code as the
same user. No content may reach the other streams. So an unexpected error is reported only with its type and place.
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

NICENESS = 5  # the user's own programs have priority

# Modules with a function `answer`, imported at the first question. The second one takes 40 MB.
BACKENDS = {"offline": "memoryd.offline.backend", "openai": "memoryd.llm.openai_chat"}


def main() -> None:
    """Serve requests until the parent closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    with contextlib.suppress(PermissionError):  # a service manager may forbid it, which does no harm
        os.nice(NICENESS)
    heap.keep_small()
    connection = Connection(os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is what is wanted
        os.dup2(nothing.fileno(), 0)  # a library may read standard input
    serve(connection, list_operations(Path(sys.argv[1])))


def list_operations(state_dir: Path) -> dict[str, Callable[..., Any]]:
    """Return the functions of the worker's operations, by name."""
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
    """Answer requests in order until the connection closes."""
    while True:
        try:
            name, *arguments = connection.recv()
        except (EOFError, OSError):  # the parent closed the connection, perhaps during a request
            return
        try:
            answer = table[name](*arguments)
        except MemorydError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - a request that fails must not take the next ones with it
            answer = MemorydError(_place_of(error), "worker")
        try:
            connection.send(answer)
        except OSError:  # the parent is gone
            return
        except Exception as error:  # noqa: BLE001 - the answer cannot be pickled, and nothing was sent
            connection.send(MemorydError(_place_of(error), "worker"))


def _place_of(error: Exception) -> str:
    # Never the error's own text, which may quote the request.
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name} line {last.lineno}"


if __name__ == "__main__":
    main()
