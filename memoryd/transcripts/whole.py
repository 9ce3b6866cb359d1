"""Declare the readers of whole files and of foreign databases: sources that do not only grow at the end.

A document is rewritten as a whole, and a row of a database changes in place while the agent answers. So their records
have ids, and a record is returned only when it is finished. It is finished if its program says so, if the next record
follows, or if it has not changed for a while. A record that was returned before is recognised by its id, so a reading
may begin anywhere.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import orjson

from memoryd.text.json_values import parse_json
from memoryd.transcripts.format import Identity, Reader
from memoryd.transcripts.lines import JsonScanner, Pass, Record
from memoryd.transcripts.turn import Turn

Rows = Callable[..., list[tuple[Any, ...]]]  # runs one SQL query with its values and returns the rows


class DocumentFile(NamedTuple):
    """Hold the present state of one whole file."""

    data: bytes
    path: PurePosixPath
    beside: Mapping[str, bytes] = {}  # other files of the transcript, by path relative to its folder
    age: float = 0.0  # seconds since the last change of any of them


UNPACK = "memoryd_unpack"  # the SQL function that decompresses a value; NULL if it fails
RESTED_SECONDS = 60.0  # after this time without a change, the last record is finished


class FoundRecord(NamedTuple):
    """Hold the turns of one record, and the hash that shows a change of it."""

    turns: Sequence[Turn]
    first_byte: int  # of the record in its file; both 0 for a row or a record of another file
    last_byte: int
    sha256: bytes


@dataclass(slots=True)
class SessionRecords:
    """Hold the results of one reading of one session."""

    identity: Identity
    found: list[FoundRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # names of skipped records, never content
    held: bool = False  # whether an unfinished record is left, so that the source must be read again
    # For each record, by its id: whether it was last resumed (True) or retracted (False).
    live: dict[str, bool] = field(default_factory=dict)

    def add(self, turns: Sequence[Turn], record: Record) -> None:
        """Add the turns of a record, with its bytes in the file."""
        if turns:
            self.found.append(FoundRecord(turns, record.first_byte, record.last_byte, sha256(record.data).digest()))


class DocumentFormat(Reader):
    """Read one format of whole files. It never raises, whatever the bytes are."""

    @abstractmethod
    def sniff(self, head: bytes, path: PurePosixPath) -> bool:
        """Return True if a file with this name and beginning has this format."""

    @abstractmethod
    def read(self, document: DocumentFile) -> SessionRecords | str | None:
        """Return the session; or the reason why the file holds none; or None if the file is not complete."""

    def list_companions(self, path: PurePosixPath, found: Iterable[str]) -> Sequence[str]:
        """Return the names of other files of the transcript, relative to its folder.

        `x/` stands for all JSON files of x.

        Args:
            path: The path of the file.
            found: The files found so far, whose names may lead to more.
        """
        return ()


class SessionStretch(NamedTuple):
    """Hold the result of one reading of a session in a database."""

    records: SessionRecords
    done: AbstractSet[str]  # ids of the rows that were read or skipped
    position: int  # the rowid up to which no row must be read again
    mark: str  # the id of that row
    more: bool  # whether finished rows are left to read


class DatabaseFormat(Reader):
    """Read one layout of tables. Rows are numbered by SQLite's `rowid`, which grows with each insertion."""

    tables: Mapping[str, frozenset[str]]  # the required tables with their columns
    events: str  # the table whose new rows mean new content; it has `rowid` and `session_id`

    @abstractmethod
    def identify(self, rows: Rows, session_id: str) -> Identity:
        """Return the identity of a session."""

    @abstractmethod
    def mark_of(self, rows: Rows, session_id: str, position: int) -> str | None:
        """Return the id of the session's row with this rowid, or None if there is none."""

    @abstractmethod
    def read(self, rows: Rows, identity: Identity, start: StretchStart) -> SessionStretch:
        """Return the next finished records of a session, in the order of the conversation."""


class StretchStart(NamedTuple):
    """Hold the place where the reading of a session continues."""

    session_id: str  # the id in the database
    position: int
    done: AbstractSet[str]  # ids of later rows that need not be read again
    now: float  # seconds since 1970
    meetings: Pass  # the reader's state from the earlier rows
    counted: int = 0  # the rowid up to which `meetings` includes the rows


def end_of(position: int, listed: Mapping[int, str], done: AbstractSet[str]) -> tuple[int, str]:
    """Return the rowid and the id of the last row before the first row that is not done.

    If there is none, return the old position and an empty id.

    Args:
        position: The rowid up to which all rows are done.
        listed: The ids of all later rows, by rowid.
        done: The ids of the rows that are done.
    """
    mark = ""
    for number in sorted(listed):
        if listed[number] not in done:
            break
        position, mark = number, listed[number]
    return position, mark


def parse_object(data: object) -> dict[str, Any]:
    """Parse a text as a JSON object; return an empty dict for anything else."""
    if not isinstance(data, str | bytes):
        return {}
    try:
        value = orjson.loads(data)
    except ValueError:
        value = parse_json(data)  # accepts lone surrogates and long numbers, which orjson refuses
    return value if type(value) is dict else {}


def parse_document(data: bytes) -> tuple[dict[str, Any], list[Record]] | None:
    """Parse a file that is one JSON object or one array, and return the records of its list.

    Args:
        data: The whole file. The list of an object is its member `messages`; an array is the list itself.

    Returns:
        The other members, and each object of the list with its bytes; None if the file is not complete.
    """
    scanner = JsonScanner(data, 0)
    text, skip_space = scanner.text, scanner.skip_space
    members: dict[str, Any] = {}
    records: list[Record] = []

    def read_record(at: int) -> int:
        value, end = scanner.parse(at)
        if type(value) is dict:
            records.append(scanner.record(value, at, end))
        return end

    def read_member(at: int) -> int:
        key, at = scanner.parse(at)
        at = skip_space(at)
        if type(key) is not str or text[at : at + 1] != ":":
            raise ValueError("the object is not complete")
        at = skip_space(at + 1)
        if key == "messages" and text[at : at + 1] == "[":
            return _read_items(scanner, at, "]", read_record)
        members[key], at = scanner.parse(at)
        return at

    at = skip_space(scanner.start)
    try:
        close, read = {"[": ("]", read_record), "{": ("}", read_member)}[text[at : at + 1]]
        at = _read_items(scanner, at, close, read)
    except (KeyError, ValueError, RecursionError):
        return None
    return (members, records) if skip_space(at) == len(text) else None


def _read_items(scanner: JsonScanner, at: int, close: str, read: Callable[[int], int]) -> int:
    """Read the items between two brackets, and return the position after the closing one.

    Args:
        scanner: The scanner of the text.
        at: The position of the opening bracket.
        close: The closing bracket.
        read: Reads the item at a position and returns the position after it.

    Raises:
        ValueError: The list is not complete.
        RecursionError: It is nested too deeply.
    """
    text, skip_space = scanner.text, scanner.skip_space
    at = skip_space(at + 1)
    if text[at : at + 1] == close:
        return at + 1
    while True:
        at = skip_space(read(at))
        if text[at : at + 1] == close:
            return at + 1
        if text[at : at + 1] != ",":
            raise ValueError("the list is not complete")
        at = skip_space(at + 1)
