"""Declare the interface of a format's reader, which recognises the format and turns records into turns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memoryd.transcripts import lines
from memoryd.transcripts.fields import read_version
from memoryd.transcripts.lines import FileCut, Pass, Record
from memoryd.transcripts.turn import Turn

DRIFTED = "its schema is not known"  # part of the reason why a file of a configured format is not read
UNHEARD = "role/"  # begins the name of a skipped message of an unknown role, or of one with a part of an unknown type
UNKNOWN_PARENT = "unknown"  # the parent of a subagent whose file does not name one

Values = Sequence[dict[str, Any]]


class Identity(NamedTuple):
    """Hold the session that a transcript belongs to."""

    session_id: str  # the agent's own id of the session
    parent_session_id: str | None = None  # for a subagent, the session that started it
    cwd: str | None = None  # the recorded folder; None if unknown
    sidechain: bool = False  # whether the whole file is a subagent's
    started_at: str | None = None  # UTC, ISO 8601 with Z


class RecordTurns(NamedTuple):
    """Hold the result of reading one record."""

    turns: Sequence[Turn] = ()
    skipped: str | None = None  # the name of a skipped record or part, never content
    retracted: Sequence[str] = ()  # ids of records that the agent has removed from the conversation
    resumed: Sequence[str] = ()  # ids of removed records that are part of it again
    session: Identity | None = None  # the session of these turns, if one file holds many sessions


class Unsupported(NamedTuple):
    """Hold why a file that may look like a transcript is not read."""

    name: str  # the agent, or the kind of file
    why: str


class Reader(ABC):
    """Define the reader of one format. A reader has no state and does no input or output."""

    name: str  # the name in the configuration
    program: str | None = None  # the name of the program that writes it; None if many programs do

    def is_known(self, skipped: str) -> bool:
        """Return True if the reader skips records of this name on purpose."""
        return not skipped.startswith(UNHEARD)


class LineFormat(Reader):
    """Read lines that are only appended. A reader never raises, whatever the lines contain."""

    many_sessions = False  # whether each record names its session in `RecordTurns.session`
    version_key = ""  # the member of a record that holds the version of the program

    def sniff(self, records: Values, path: PurePosixPath) -> bool:
        """Return True if records from the beginning of a file have this format."""
        return any(map(self.is_own, records))

    def is_own(self, value: dict[str, Any]) -> bool:
        """Return True if only this format has such a record; a format that `sniff` recognises by the path has none."""
        return False

    @abstractmethod
    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Return the session of a file, or None if the records read so far do not tell."""

    @abstractmethod
    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one record. `meetings` is the pass over this file (`lines.Pass`).

        The `usage` of a turn is the size of the context before its own text. If the agent's number includes the text,
        an empty turn after it carries the number.
        """

    def cut(self, data: bytes, base: int, *, last: bool) -> FileCut:
        """Divide whole lines into records.

        Args:
            data: Whole lines with their line ends; the last line of a file may have none.
            base: The offset of `data` in the file.
            last: Whether nothing follows, so that an unfinished record is taken as it is.
        """
        return lines.cut(data, base, last=last)

    def version_of(self, value: dict[str, Any]) -> str | None:
        """Return the version of the program that wrote this record, or None if the record does not give it."""
        return read_version(value.get(self.version_key))

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """Return the folder that the agent works in, or None if the record does not name it."""
        cwd = value.get("cwd")
        return cwd if type(cwd) is str and cwd else None

    def root_file(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path of a file that holds only the path of the transcript's project, or None."""
        return None


def first_of(get: Callable[[dict[str, Any]], str | None], records: Values) -> str | None:
    """Return the first result of `get` that is not empty, or None if there is none."""
    return next((found for found in map(get, records) if found), None)
