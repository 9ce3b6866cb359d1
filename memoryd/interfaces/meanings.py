"""What a question means, for a search beside the daemon: by the daemon's model, without one by one of its own."""

from __future__ import annotations

import base64
import time
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from memoryd.engine.embedding import Embedder, is_wanted
from memoryd.engine.recall import Meaning
from memoryd.files.log import Log
from memoryd.interfaces import asking
from memoryd.worker.client import Worker
from memoryd.worker.embedder import CHARACTERS, MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memoryd.config import Settings

OWN_PATIENCE = timedelta(seconds=15)  # for a model of one's own, which is loaded for this one question
DAEMON_PATIENCE_SECONDS = 5.0  # for the daemon to load its
_POLL_SECONDS = 0.2


@contextmanager
def asked(settings: Settings) -> Iterator[Callable[[str], Callable[[], Meaning]] | None]:
    """What tells the meaning of questions as long as this is entered; None where search goes by words alone."""
    if not is_wanted(settings):
        yield None
        return
    worker = Worker(settings.state_dir, name="embedder of questions")
    own = Embedder(MODEL, worker, worker, time.monotonic, Log("memoryd").bind(part="embedding"))
    try:
        yield lambda text: cache(lambda: _of_daemon(settings.state_dir, text) or own.ask(text, OWN_PATIENCE)())
    finally:
        own.close()


def _of_daemon(state_dir: Path, text: str) -> Meaning | None:
    """What the daemon says; None where none answers."""
    until = time.monotonic() + DAEMON_PATIENCE_SECONDS
    while True:
        answer = asking.ask(state_dir, "embed", text=text[:CHARACTERS])
        if answer is None or not answer.get("ok"):
            return None
        meaning = from_json(answer.get("data"))
        if meaning.vector is not None or not meaning.is_late or time.monotonic() > until:
            return meaning
        time.sleep(_POLL_SECONDS)


def as_json(meaning: Meaning) -> dict[str, Any]:
    """What a question means, for the control socket."""
    vector = None if meaning.vector is None else base64.b64encode(meaning.vector).decode()
    return {"vector": vector, "model": meaning.model, "why": meaning.why, "late": meaning.is_late}


def from_json(data: Any) -> Meaning:
    """What `as_json` wrote; of anything else, that it is none."""
    try:
        vector = None if data["vector"] is None else base64.b64decode(data["vector"])
        return Meaning(vector, str(data["model"]), str(data["why"]), bool(data["late"]))
    except (KeyError, TypeError, ValueError):
        return Meaning(why="the daemon's answer is none")
