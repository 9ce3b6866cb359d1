"""Restore watermarks and keys of forgotten texts from a journal after the database was lost.

The journal names the last record that each consumer has processed. When turns are read again, they get their watermarks
from it. The same applies if the transaction that moved a watermark was lost (with a `-wal` file) but its turns were
not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.database import erasure, query, sqlite
from memoryd.database.erasure import Forgotten
from memoryd.files.journal import Journal
from memoryd.reading.cursor import FoundTurn

WATERMARKS, ACTS = JOURNALS = ("watermarks.jsonl", "journal.jsonl")
Mark = tuple[str, str, str, int]  # (agent, consumer, record id, part)

MARKS = (
    "SELECT t.agent_id, w.consumer, t.record_id, t.part FROM watermark w"
    " JOIN turn t ON t.session_id = w.session_id AND t.seq = w.seq"
)
# Returns the watermark that a mark stands for, as (session, consumer, seq), if the stored one is lower.
_BEHIND = (
    "SELECT t.session_id, ?2, t.seq FROM turn t"
    " LEFT JOIN watermark w ON w.session_id = t.session_id AND w.consumer = ?2"
    " WHERE t.agent_id = ?1 AND t.record_key = key_of(?3) AND t.part = ?4 AND coalesce(w.seq, 0) < t.seq LIMIT 1"
)
_RAISE = (
    "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session_id, consumer) DO UPDATE SET seq = max(seq, excluded.seq)"
)


class Restorer:
    """Set watermarks from the journal when turns are stored again."""

    def __init__(self, entries: Sequence[Mapping[str, Any]], now: str) -> None:
        self.now = now
        self.consumers: dict[tuple[str, str, int], set[str]] = {}
        for agent, consumer, record_id, part in marks_of(entries):
            self.consumers.setdefault((agent, record_id, part), set()).add(consumer)

    def __call__(self, connection: Connection, agent_id: str, new: Sequence[FoundTurn], seqs: Sequence[int]) -> None:
        """Set the watermarks of turns of one agent, in the transaction that stores the turns."""
        for found, seq in zip(new, seqs, strict=True):
            for consumer in self.consumers.get((agent_id, found.turn.record_id, found.turn.part), ()):
                query.run(connection, _RAISE, found.cursor.session_id, consumer, seq, self.now)


def marks_of(entries: Sequence[Mapping[str, Any]]) -> list[Mark]:
    """Return the marks in journal entries, without retracted marks and damaged lines."""
    found: dict[Mark, None] = {}
    for entry in entries:
        match {"part": 0, **entry}:
            case {"agent": str(agent), "consumer": str(consumer), "record_id": str(record_id), "part": int(part)}:
                found.pop(mark := (agent, consumer, record_id, part), None)
                if entry.get("undone") is not True:
                    found[mark] = None
    return list(found)


def forgotten_in(entries: Sequence[Mapping[str, Any]]) -> Forgotten:
    """Return the keys of forgotten texts in journal entries, without damaged lines."""
    found: Forgotten = {}
    for entry in entries:
        match entry:
            case {"agent": str(agent), "session": str(session_id), "forgotten": dict(keys)}:
                counted = {key: times for key, times in keys.items() if isinstance(times, int)}
                found.setdefault((agent, session_id), {}).update(counted)
    return found


def renew(engine: Engine, journal: Journal) -> None:
    """Rewrite the journal of watermarks from an undamaged database."""
    stored = sorted(map(tuple, sqlite.read(engine, query.fetch_rows, MARKS)))
    journal.rewrite(lambda _: list(map(entry_of, stored)))
    tell_forgotten(engine, journal)


def tell_forgotten(engine: Engine, journal: Journal) -> None:
    """Append the keys of forgotten texts that the journal does not have yet."""
    told = forgotten_in(journal.entries())
    stored = sqlite.read(engine, erasure.read_forgotten)
    for (agent, session_id), keys in stored.items():
        known = told.get((agent, session_id), {})
        new = {key: times for key, times in keys.items() if known.get(key) != times}
        if new:
            journal.append({"agent": agent, "session": session_id, "forgotten": new})


def retract(connection: Connection, journal: Journal, agent_id: str, session_id: str, consumer: str, seq: int) -> None:
    """Retract a consumer's marks behind turn `seq` of a session, by appending to the journal."""
    told = set(marks_of(journal.entries()))
    sql = "SELECT record_id, part FROM turn WHERE session_id = ? AND seq > ? ORDER BY seq"
    for record_id, part in query.fetch_rows(connection, sql, session_id, seq):
        mark = (agent_id, consumer, record_id, part)
        if mark in told:
            journal.append(entry_of(mark) | {"undone": True})


def reconcile(engine: Engine, journal: Journal, now: str) -> None:
    """Complete the journal and the watermarks from each other after a start."""
    entries = journal.entries()
    told = set(marks_of(entries))
    with sqlite.begin_read(engine) as connection:
        stored = set(map(tuple, query.fetch_rows(connection, MARKS)))
        ahead = [(*row, now) for mark in told - stored for row in query.fetch_rows(connection, _BEHIND, *mark)]
    if ahead:
        sqlite.write(engine, query.change_each, _RAISE, ahead)
    for mark in sorted(stored - told):
        journal.append(entry_of(mark))
    tell_forgotten(engine, journal)


def entry_of(mark: Mark) -> dict[str, Any]:
    """Return a mark in the form of a journal entry."""
    agent, consumer, record_id, part = mark
    return {"agent": agent, "consumer": consumer, "record_id": record_id, "part": part}
