"""Declare the readers of whole files and of foreign databases: sources that are not lines to which one appends.

A document is rewritten as a whole, and a row of a database is changed in place while the agent speaks. So both give
records with ids, and a record is given only when it is finished: its program says so, or the next one follows, or it
has been left alone. What was given before is known by its id, so each reading may begin anywhere.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import orjson

from memoryd.transcripts.format import Identity, Reader
from memoryd.transcripts.lines import JsonScanner, Pass, Record
from memoryd.transcripts.turn import Turn

Rows = Callable[..., list[tuple[Any, ...]]]  # runs one query, given as SQL and its values


class DocumentFile(NamedTuple):
    """Hold the present state of one whole file."""

    data: bytes
    path: PurePosixPath
    beside: Mapping[str, bytes] = {}  # the other files of the same transcript, by their path from its folder
    age: float = 0.0  # seconds since any of them was changed


UNPACK = "memoryd_unpack"  # the SQL function that decompresses a value; NULL for what cannot be
RESTED_SECONDS = 60.0  # after which the last record of a file is finished


class FoundRecord(NamedTuple):
    """Hold the turns of one record, and the bytes by which a change of it is noticed."""

    turns: Sequence[Turn]
    first_byte: int  # of the record in its file; both are 0 for a row or a record in another file
    last_byte: int
    sha256: bytes


@dataclass(slots=True)
class SessionRecords:
    """Hold the results of one reading of one session."""

    identity: Identity
    found: list[FoundRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # names of skipped records; never content
    held: bool = False  # an unfinished record waits: read again later
    live: dict[str, bool] = field(default_factory=dict)  # record id → whether it was resumed or retracted, at last

    def add(self, turns: Sequence[Turn], record: Record) -> None:
        """Add the turns of a record that is written as these bytes of the file."""
        if turns:
            digest = sha256(record.data).digest()
            self.found.append(FoundRecord(turns, record.first_byte, record.last_byte, digest))


class DocumentFormat(Reader):
    """Read one format of whole files. It never raises on any bytes."""

    @abstractmethod
    def sniff(self, head: bytes, path: PurePosixPath) -> bool:
        """Return True if a file with this name and beginning is of this format."""

    @abstractmethod
    def read(self, document: DocumentFile) -> SessionRecords | str | None:
        """Return the session; the reason why it holds none; or None while the file is not complete."""

    def list_companions(self, path: PurePosixPath, found: Iterable[str]) -> Sequence[str]:
        """List other files of the transcript, from the file's folder; `x/` stands for all JSON files of that folder.

        Args:
            path: of the file.
            found: those found so far: their names may name more.
        """
        del path, found
        return ()


class SessionStretch(NamedTuple):
    """Hold what was read of one session of a database."""

    records: SessionRecords
    done: AbstractSet[str]  # ids of the rows that were taken or passed over
    position: int  # number of the row up to which none has to be read again
    mark: str  # id of that row
    more: bool  # there are finished rows that were not read yet


class DatabaseFormat(Reader):
    """Read one layout of tables. Rows are numbered by SQLite's `rowid`, which grows with each insertion."""

    tables: Mapping[str, frozenset[str]]  # the tables it needs with their columns
    events: str  # the table in which a new row means news, with the columns `rowid` and `session_id`

    @abstractmethod
    def identify(self, rows: Rows, session_id: str) -> Identity:
        """Return whose session this is."""

    @abstractmethod
    def mark_of(self, rows: Rows, session_id: str, position: int) -> str | None:
        """Return the id of the row of the session with this number; None without one."""

    @abstractmethod
    def read(self, rows: Rows, identity: Identity, start: StretchStart) -> SessionStretch:
        """Return the next finished records of a session, in the order in which they were said."""


class StretchStart(NamedTuple):
    """Say where the reading of a session goes on."""

    session_id: str  # as the database has it
    position: int
    done: AbstractSet[str]  # rows past the position that need no second reading
    now: float  # seconds since 1970
    meetings: Pass  # the reader's knowledge of the earlier rows
    counted: int = 0  # up to which row it knows them


def end_of(position: int, listed: Mapping[int, str], done: AbstractSet[str]) -> tuple[int, str]:
    """Return the last row before the first one that is not done, with its id; the old position if there is none.

    Args:
        position: up to which all rows are done.
        listed: ids of all rows past it, by their numbers.
        done: ids of those that are done.
    """
    mark = ""
    for number in sorted(listed):
        if listed[number] not in done:
            break
        position, mark = number, listed[number]
    return position, mark


def parse_object(data: object) -> dict[str, Any]:
    """Return the JSON object that is written in a text; an empty one for anything else."""
    if not isinstance(data, str | bytes):
        return {}
    try:
        value = orjson.loads(data)
    except ValueError:
        try:
            value = json.loads(data)  # accepts lone surrogates and long numbers, which orjson refuses
        except (ValueError, RecursionError):
            return {}
    return value if type(value) is dict else {}


def parse_document(data: bytes) -> tuple[dict[str, Any], list[Record]] | None:
    """Return a file that is one JSON object, or one array, and the records of its list.

    Args:
        data: the whole file. The list of an object is its member `messages`; an array is the list itself.

    Returns:
        The other members, and each object of the list with the bytes it was written as; None while the file is not
        complete.
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
    """Read what stands between two brackets, from the first one on; return where they end.

    Args:
        scanner: of the text.
        at: the place of the opening bracket.
        close: the other one.
        read: reads an item from its place on and returns where it ends.

    Raises:
        ValueError: it is not complete.
        RecursionError: it is nested too deeply.
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
