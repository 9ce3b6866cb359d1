"""The runner as a kind of run sees it: a protocol, so that no kind of run imports the runner that imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Engine

    from memoryd.changing import commit as committing
    from memoryd.changing.writer import Writer
    from memoryd.clock import Clock
    from memoryd.config import Settings
    from memoryd.database.runs import Run
    from memoryd.files.log import Log
    from memoryd.jobs.job import Done, Edit
    from memoryd.reading.scrubbing import Scrubber
    from memoryd.running.answering import Answerer
    from memoryd.worker.client import Worker


class RunContext(Protocol):
    """What a kind of run works with and asks of the runner; `runner.Runner` is the one."""

    engine: Engine
    settings: Settings
    worker: Worker
    scrubber: Scrubber
    answerer: Answerer
    clock: Clock
    log: Log
    stopping: bool

    @property
    def step(self) -> Callable[[str], None]:
        """Return the function that is called before and after each change."""

    def run_next(self, only: str | None = None) -> Run | None:
        """Take one due run and carry it out; None where nothing is due."""

    def go_on(self, run: Run) -> None:
        """Raise where a run is to stop."""

    def put(
        self,
        run: Run,
        step: Done,
        outcome: committing.Outcome,
        writer: Writer,
        notes: Sequence[Edit] = (),
    ) -> bool:
        """Put to a person what a run has decided; False where it would change nothing."""

    def note_guards(self, run: Run, done: committing.Committed) -> None:
        """Say what the guards held back in a commit."""

    def log_end(self, run: Run, state: str, why: str | None = None, **more: object) -> None:
        """Write to the log how a run ended."""
