"""What a reader of one line format is: recognise it, say whose session it is, turn records into turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from memoryd.transcripts.lines import Pass, Record
    from memoryd.transcripts.turn import Turn

UNHEARD = "role/"  # what begins the name of something passed over that is a message by its shape, not by its role

Values = Sequence[dict[str, Any]]


class Identity(NamedTuple):
    """Whose session a transcript is."""

    session_id: str  # the agent's own id of it
    parent_session_id: str | None = None  # of a subagent: the session that started it
    cwd: str | None = None  # the recorded folder; None while unknown
    sidechain: bool = False  # the whole file is a subagent's
    started_at: str | None = None  # UTC, ISO 8601 with Z


class Reading(NamedTuple):
    """What one record yields."""

    turns: Sequence[Turn] = ()
    skipped: str | None = None  # name of what the reader passes over, of which all or a part is this; never content


class Unsupported(NamedTuple):
    """A file that is known not to be readable here, so that nobody takes it for something else."""

    name: str  # the agent or the kind of file
    why: str


class LineFormat(Protocol):
    """A reader of one format. It holds no state, does no IO, and never raises on any JSON object."""

    @property
    def name(self) -> str:
        """The name used in the configuration."""
        ...

    @property
    def program(self) -> str | None:
        """What people call the program that writes it; None where many do."""
        ...

    def sniff(self, records: Values, path: PurePosixPath) -> bool:
        """Whether records from the beginning of a file are of this format."""
        ...

    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Whose session this is; None while the records read so far do not tell."""
        ...

    def turns(self, record: Record, identity: Identity, meetings: Pass) -> Reading:
        """The turns of one record.

        A turn's `usage` is the size of the context before its own text; where the agent's figure includes the text, it
        comes on an empty turn after it. Turns with an empty text carry only that.
        """
        ...

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """The folder this record says the agent works in."""
        ...
