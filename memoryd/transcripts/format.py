"""What a reader of one line format is: recognise it, say whose session it is, turn records into turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
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


class RecordTurns(NamedTuple):
    """What one record yields."""

    turns: Sequence[Turn] = ()
    skipped: str | None = None  # name of what the reader passes over, of which all or a part is this; never content


class Unsupported(NamedTuple):
    """A file that is known not to be readable here, so that nobody takes it for something else."""

    name: str  # the agent or the kind of file
    why: str


class LineFormat(ABC):
    """A reader of one format. It holds no state, does no IO, and never raises on any JSON object."""

    name: str  # used in the configuration
    program: str | None = None  # what people call the program that writes it; None where many do

    @abstractmethod
    def sniff(self, records: Values, path: PurePosixPath) -> bool:
        """Return whether records from the beginning of a file are of this format."""

    @abstractmethod
    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Whose session this is; None while the records read so far do not tell."""

    @abstractmethod
    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one record.

        A turn's `usage` is the size of the context before its own text; where the agent's figure includes the text, it
        comes on an empty turn after it. Turns with an empty text carry only that.
        """

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """Return the folder this record says the agent works in."""
        cwd = value.get("cwd")
        return cwd if type(cwd) is str and cwd else None


def first_of(get: Callable[[dict[str, Any]], str | None], records: Values) -> str | None:
    """Return what the first record gives that gives anything."""
    return next((found for found in map(get, records) if found), None)
