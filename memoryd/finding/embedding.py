"""Embed texts and questions with a small model in child processes, without delaying a search by words.

Texts are embedded in the background, each text once. A vector is deleted with its document, and rebuilt for another
model. A question waits only a limited time for its vector; without one, the search uses words only. A text that the
model cannot process is skipped, and words still find it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial

from memoryd.config import Agent, Settings
from memoryd.errors import MemorydError
from memoryd.files.log import Log
from memoryd.finding.indexing import Indexer
from memoryd.finding.passages import SourceTexts
from memoryd.finding.recall import Meaning
from memoryd.index.database import RebuiltError
from memoryd.worker.client import ClosedError, LostError, Worker
from memoryd.worker.embedder import CHARACTERS, list_missing

PATIENCE = timedelta(milliseconds=300)  # the longest wait for a question's vector, twenty times the usual duration
BATCH = 16
_REST_SECONDS = 300.0  # the pause after a failure of the model
_HARMLESS = "memory"  # if the child also dies on this text, no text is to blame for the failure


def is_wanted(settings: Settings) -> bool:
    """Return True if search by meaning is on, and its optional packages are installed."""
    return settings.search.embeddings == "auto" and not list_missing()


@dataclass(slots=True)
class Embedder:
    """Embed questions and texts."""

    model: str  # the name of the model, with its version
    questions: Worker  # a separate process, so that a question does not wait for texts
    texts: Worker
    monotonic: Callable[[], float]
    log: Log
    batch: int = BATCH  # the number of texts in one request and one transaction
    _asking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="meaning"))
    _rests_until: float = 0.0

    def ask(self, text: str, patience: timedelta = PATIENCE) -> Callable[[], Meaning]:
        """Start to embed a question; return a function that waits for the result.

        The function returns the vector, or the reason why there is none in time. A model that is still loading goes on,
        for the next question.
        """
        if self.monotonic() < self._rests_until:
            return partial(Meaning, why="the model failed a moment ago")
        asked = self._asking.submit(self.questions.embed, [text[:CHARACTERS]])
        until = self.monotonic() + patience.total_seconds()
        return cache(lambda: self._answer(asked, until))

    def _answer(self, asked: Future[list[bytes | None]], until: float) -> Meaning:
        try:
            (vector,) = asked.result(max(0.0, until - self.monotonic()))
        except TimeoutError:
            asked.cancel()
            return Meaning(why="the model is still being loaded, or busy", is_late=True)
        except LostError:
            return Meaning(why="the model failed on this question")
        except MemorydError as error:
            self._rest(error)
            return Meaning(why="the model failed")
        return Meaning(vector, self.model, "" if vector is not None else "the model knows no word of it")

    def fill(self, indexer: Indexer, agent: Agent, go_on: Callable[[], bool]) -> None:
        """Embed an agent's texts that have no vector yet, newest first, in portions, until `go_on` returns False."""
        with suppress(RebuiltError):  # the texts must be indexed again first
            while go_on() and self.monotonic() >= self._rests_until and self._fill_some(indexer, agent):
                pass

    def _fill_some(self, indexer: Indexer, agent: Agent) -> bool:
        """Embed one portion of texts; return True if there may be more."""
        with indexer.index.begin_read() as tables, ExitStack() as opened:
            number = tables.find_number(agent.id)
            if number is None:
                return False
            is_current = tables.model(number) == self.model
            found = tables.list_lacking_vectors(number, self.batch) if is_current else []
            texts = SourceTexts(agent, opened.enter_context(indexer.database.reading_any()))
            shown = [texts.show_text(one) for one in found]
        if not is_current:
            with indexer.index.begin_write() as tables:
                tables.set_model(agent.id, self.model)
            return True
        if not found:
            return False
        try:
            vectors = self._embed(shown)
        except ClosedError:
            return False
        except MemorydError as error:
            self._rest(error)
            return False
        with indexer.index.begin_write() as tables:
            if tables.find_number(agent.id) == number:
                tables.put_vectors(
                    number, [(one.id, one.digest, vector) for one, vector in zip(found, vectors, strict=True)]
                )
        return True

    def _embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return the vectors of texts.

        If the child dies, each text is tried alone, and a text on which the child dies gets None.
        """
        try:
            return self.texts.embed(texts)
        except LostError:
            if len(texts) > 1:
                return [vector for text in texts for vector in self._embed([text])]
            self.texts.embed([_HARMLESS])
            self.log.warning("a text could not be embedded", characters=len(texts[0]))
            return [None]

    def _rest(self, error: MemorydError) -> None:
        self._rests_until = self.monotonic() + _REST_SECONDS
        self.log.warning("search by words alone for a while", why=str(error))

    def tick(self, now_monotonic: float) -> None:
        """Stop the child processes if they have been idle for long enough."""
        self.questions.tick(now_monotonic)
        self.texts.tick(now_monotonic)

    def close(self) -> None:
        """Stop the child processes for good; pending questions get no vector."""
        self.questions.close()
        self.texts.close()
