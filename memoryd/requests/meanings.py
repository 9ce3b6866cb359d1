"""Embed the queries of a search, with the daemon's model or, without a daemon, with a model in this process."""

import base64
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from memoryd.config import Settings
from memoryd.files.log import get_logger
from memoryd.finding.embedding import Embedder, is_wanted
from memoryd.finding.recall import Meaning
from memoryd.requests import daemon_client
from memoryd.worker.client import Worker
from memoryd.worker.embedder import CHARACTERS, MODEL

OWN_PATIENCE = timedelta(seconds=15)  # how long to wait for a model of this process, including its start
OWN_IDLE = timedelta(minutes=1)
DAEMON_PATIENCE_SECONDS = 5.0  # how long the daemon may take to load its model
_POLL_SECONDS = 0.2


@contextmanager
def open_meanings(settings: Settings) -> Iterator[Callable[[str], Callable[[], Meaning]] | None]:
    """Open a function that starts embedding a query and returns a function for the result.

    Yields None if search goes by words only.
    """
    if not is_wanted(settings):
        yield None
        return
    with closing(_OwnModel(settings.state_dir)) as own:
        yield lambda text: cache(lambda: _of_daemon(settings.state_dir, text) or own.ask(text))


class _OwnModel:
    """Hold a model for this process. It is unloaded when idle, because a server may run for days."""

    def __init__(self, state_dir: Path) -> None:
        worker = Worker(state_dir, idle=OWN_IDLE, name="embedder of questions")
        self._embedder = Embedder(MODEL, worker, worker, time.monotonic, get_logger(part="embedding"))
        self._rest = threading.Timer(0, self._tick)

    def ask(self, text: str) -> Meaning:
        """Return the embedding of a query, or the reason why there is none."""
        self._rest.cancel()
        meaning = self._embedder.ask(text, OWN_PATIENCE)()
        self._rest = threading.Timer(OWN_IDLE.total_seconds(), self._tick)
        self._rest.daemon = True
        self._rest.start()
        return meaning

    def _tick(self) -> None:
        self._embedder.tick(time.monotonic())

    def close(self) -> None:
        """Unload the model."""
        self._rest.cancel()
        self._embedder.close()


def _of_daemon(state_dir: Path, text: str) -> Meaning | None:
    """Ask the daemon for an embedding; return None if it does not answer."""
    until = time.monotonic() + DAEMON_PATIENCE_SECONDS
    while True:
        answer = daemon_client.ask(state_dir, "embed", text=text[:CHARACTERS])
        if answer is None or not answer.get("ok"):
            return None
        meaning = from_json(answer.get("data"))
        if meaning.vector is not None or not meaning.is_late or time.monotonic() > until:
            return meaning
        time.sleep(_POLL_SECONDS)


def as_json(meaning: Meaning) -> dict[str, Any]:
    """Encode the embedding of a query for the control socket."""
    vector = None if meaning.vector is None else base64.b64encode(meaning.vector).decode()
    return {"vector": vector, "model": meaning.model, "why": meaning.why, "late": meaning.is_late}


def from_json(data: Any) -> Meaning:
    """Decode the output of `as_json`. Any other value counts as no embedding."""
    try:
        vector = None if data["vector"] is None else base64.b64decode(data["vector"])
        return Meaning(vector, str(data["model"]), str(data["why"]), bool(data["late"]))
    except (KeyError, TypeError, ValueError):
        return Meaning(why="the daemon's answer cannot be read")
