"""List the sources of transcripts, and declare what a reader of one kind of transcript needs from `Ingest`.

Documents, databases and unscanned turns have readers of their own. The protocol lets them use `Ingest` without a
circular import.
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
    """Hold one pattern of transcripts of one agent."""

    agent: Agent
    pattern: sources.Pattern
    format: str
    project: Path | None
    watched: bool = True  # False: memoryd itself writes these files, so they need no watcher


def sources_of(settings: Settings) -> list[SourcePattern]:
    """List the patterns of all enabled agents, including their NOW files and recorded sessions."""
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
    """Declare what the reader of one kind of transcript uses of `Ingest`."""

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
        """Add a transcript to the backlog, ordered by its last change."""

    def place(self, cursor: Cursor, path: str, stat: ranges.Stat, *, same: bool = False) -> None:
        """Record where a transcript is, and its size and times. With `same`, the row need not be stored."""

    def set_fate(self, cursor: Cursor, name: str) -> None:
        """Record the fate of a transcript, such as `appended`."""

    def without_secrets(self, identity: Identity) -> Identity:
        """Return the identity of a session with secrets in its ids and path redacted."""

    def take(self, cursor: Cursor, result: CursorReading) -> None:
        """Add the results of a reading to the batch."""

    def is_wanted(self, source: SourcePattern, cursor: Cursor, identity: Identity) -> bool:
        """Return True if a source that matches the file wants the session."""

    def pass_over(self, cursor: Cursor, why: str) -> None:
        """Note why a transcript is skipped and log it once."""

    def session_for(self, cursor: Cursor, identity: Identity) -> str:
        """Return the id of a transcript's session, and create the session if needed."""
