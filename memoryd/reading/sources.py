"""List the sources of transcripts, and declare what the reader of one file needs from the whole reading.

Separate classes read files that are rewritten as a whole, and turns that wait for the scanner. They use the reading
that they belong to through this protocol, so that no file of this package imports another one in a circle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine

from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.files import ranges, sources
from memoryd.files.log import Log
from memoryd.reading import recording
from memoryd.reading.cursor import Cursor, CursorReading
from memoryd.reading.cursors import Cursors
from memoryd.reading.scrubbing import Scrubber
from memoryd.reading.store import IngestBatch
from memoryd.transcripts.format import Identity
from memoryd.transcripts.messages import Messages

NOW_PATTERN = ".continuum/memory/NOW-*.md"


@dataclass(frozen=True, slots=True)
class SourcePattern:
    """Hold one pattern of one agent."""

    agent: Agent
    pattern: sources.Pattern
    format: str
    project: Path | None
    watched: bool = True  # a change of it is noticed only by watching


def sources_of(settings: Settings) -> list[SourcePattern]:
    """List the patterns of all enabled agents, always with NOW files and recorded sessions."""
    found = []
    for agent in settings.agents:
        if not agent.enabled:
            continue
        now_files = sources.make_pattern(NOW_PATTERN, agent.workspace, without=settings.state_dir)
        found.append(SourcePattern(agent, now_files, "now", None))
        handed_over = sources.make_pattern("*.jsonl", recording.folder_of(settings.state_dir, agent.id))
        found.append(SourcePattern(agent, handed_over, Messages.name, None, watched=False))
        for source in agent.transcripts:
            pattern = sources.make_pattern(source.pattern, source.root, without=settings.state_dir)
            found.append(SourcePattern(agent, pattern, source.format, source.project))
    return found


class WholeReading(Protocol):
    """Give the reader of one kind of transcript its access to the whole reading; `Ingest` implements it."""

    engine: Engine
    settings: Settings
    clock: Clock
    log: Log
    files: ranges.OpenFiles
    scrubber: Scrubber
    cursors: Cursors
    batch: IngestBatch
    changed: set[str]
    unread: set[str]
    stopping: bool
    progress: Callable[[], None]

    def hint(self, path: str) -> None:
        """Check one path now."""

    def flush(self) -> None:
        """Store everything read so far."""

    def forget_documents(self, session_ids: set[str]) -> None:
        """Forget which documents of these sessions were read."""

    def look_again(self, path: str, seconds: float) -> None:
        """Schedule another check of a path in some seconds."""

    def wait(self, source: SourcePattern, path: str) -> None:
        """Let a transcript wait, after those that were written later."""

    def place(self, cursor: Cursor, path: str, stat: ranges.Stat, *, same: bool = False) -> None:
        """Record the place and the state of the transcript."""

    def set_fate(self, cursor: Cursor, name: str) -> None:
        """Record the fate of a transcript."""

    def without_secrets(self, identity: Identity) -> Identity:
        """Return the owner of the session without secrets."""

    def take(self, cursor: Cursor, result: CursorReading) -> None:
        """Add the results of a reading to the batch to be stored."""

    def is_wanted(self, source: SourcePattern, cursor: Cursor, identity: Identity) -> bool:
        """Return True if a source that matches the file wants the session."""

    def session_for(self, cursor: Cursor, identity: Identity) -> str:
        """Find or create the session of a transcript."""
