"""Open the scanner for a request, which redacts the texts that the request stores or shows."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from memoryd.config import Settings
from memoryd.files.log import get_logger
from memoryd.reading.scrubbing import Scrubber
from memoryd.worker.client import Worker


@contextmanager
def open_scrubber(settings: Settings, worker: Worker | None = None) -> Iterator[Scrubber]:
    """Open the scrubber in `worker`, or in its own. The child process starts with the first text to redact."""
    own = worker or Worker(settings.state_dir, name="scanner")
    with closing(Scrubber(own, get_logger(part="scrub"))) as scrubber:
        scrubber.configure(settings)
        yield scrubber


def redact(settings: Settings, texts: Sequence[str]) -> list[str]:
    """Return the texts without their secrets. The scanner runs only for this call."""
    with open_scrubber(settings) as scrubber:
        return scrubber.redact(texts)
