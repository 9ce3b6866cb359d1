"""Declare the reader of one line format: it recognises the format and turns records into turns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memoryd.transcripts import lines
from memoryd.transcripts.lines import FileCut, Pass, Record
from memoryd.transcripts.turn import Turn

DRIFTED = "its schema is not known"  # in the reason for not reading a file that its agent's format should be
UNHEARD = "role/"  # what begins the name of something passed over that is a message by its shape, not by its role
UNKNOWN_PARENT = "unknown"  # of a subagent whose file does not name the session that started it

Values = Sequence[dict[str, Any]]


class Identity(NamedTuple):
    """Hold whose session a transcript is."""

    session_id: str  # the agent's own id of it
    parent_session_id: str | None = None  # of a subagent: the session that started it
    cwd: str | None = None  # the recorded folder; None while unknown
    sidechain: bool = False  # the whole file is a subagent's
    started_at: str | None = None  # UTC, ISO 8601 with Z


class RecordTurns(NamedTuple):
    """Hold the results of one record."""

    turns: Sequence[Turn] = ()
    skipped: str | None = None  # name of the skipped record or part; never content
    retracted: Sequence[str] = ()  # ids of records that are no longer part of the conversation: the agent left them
    resumed: Sequence[str] = ()  # ids of retracted records that are part of it again
    session: Identity | None = None  # the owner of these turns, if one file holds many sessions


class Unsupported(NamedTuple):
    """Hold why a file is not read that might be taken for a transcript."""

    name: str  # the agent or the kind of file
    why: str


class Reader(ABC):
    """Define the interface of the reader of one format. A reader holds no state and does no IO."""

    name: str  # used in the configuration
    program: str | None = None  # the common name of the program that writes it; None if many do

    def is_known(self, skipped: str) -> bool:
        """Return True if the reader skips records of this name on purpose."""
        return not skipped.startswith(UNHEARD)


class LineFormat(Reader):
    """Read lines that are only appended. A reader never raises, whatever the lines say."""

    many_sessions = False  # each record says in its `session` which one it belongs to

    def sniff(self, records: Values, path: PurePosixPath) -> bool:
        """Return True if records from the beginning of a file are of this format."""
        del path
        return any(map(self.is_own, records))

    @abstractmethod
    def is_own(self, value: dict[str, Any]) -> bool:
        """Return True if only this format has such a record."""

    @abstractmethod
    def identify(self, records: Values, path: PurePosixPath) -> Identity | None:
        """Return whose session this is; None as long as the records do not tell."""

    @abstractmethod
    def turns(self, record: Record, identity: Identity, meetings: Pass) -> RecordTurns:
        """Return the turns of one record.

        A turn's `usage` is the size of the context before its own text; where the agent's figure includes the text, it
        comes on an empty turn after it. Turns with an empty text carry only that.
        """

    def cut(self, data: bytes, base: int, *, last: bool) -> FileCut:
        """Take whole lines apart into records.

        Args:
            data: whole lines, each with its line end but for the last one of a file.
            base: offset of `data` in the file.
            last: nothing follows, so that what looks unfinished is taken as it is.
        """
        return lines.cut(data, base, last=last)

    def version_of(self, value: dict[str, Any]) -> str | None:
        """Return the version of the program that wrote this record, if the record gives it."""
        del value
        return None

    def cwd_of(self, value: dict[str, Any]) -> str | None:
        """Return the folder that the agent works in, if the record names it."""
        cwd = value.get("cwd")
        return cwd if type(cwd) is str and cwd else None

    def root_file(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the file beside a transcript that holds nothing but the path of its project, if the agent has one."""
        del path
        return None


def first_of(get: Callable[[dict[str, Any]], str | None], records: Values) -> str | None:
    """Return the first result that is not empty, record by record."""
    return next((found for found in map(get, records) if found), None)
