"""After the database had to be made anew: the watermarks come back by content, as their turns are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoryd.database import sqlite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Engine

    from memoryd.engine.cursor import Found


class Restorer:
    """Knows, from the side journal, which records had been consumed by whom."""

    def __init__(self, entries: Sequence[Mapping[str, Any]], now: str) -> None:
        self.now = now
        self.marks: dict[tuple[str, str, int], set[str]] = {}
        for entry in entries:
            key = (str(entry.get("agent")), str(entry.get("record_id")), int(entry.get("part", 0)))
            self.marks.setdefault(key, set()).add(str(entry.get("consumer")))

    def __call__(self, connection: Connection, agent_id: str, new: Sequence[Found], seqs: Sequence[int]) -> None:
        """Set the watermarks that stood on these turns; part of the transaction that stores them."""
        for found, seq in zip(new, seqs, strict=True):
            for consumer in self.marks.get((agent_id, found.turn.record_id, found.turn.part), ()):
                connection.exec_driver_sql(
                    "INSERT INTO watermark (session_id, consumer, seq, moved_at) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT (session_id, consumer) DO UPDATE SET seq = max(seq, excluded.seq)",
                    (found.cursor.session_id, consumer, seq, self.now),
                )


def is_new(engine: Engine) -> bool:
    """Say whether this database has read nothing yet."""
    with sqlite.reading(engine) as connection:
        return connection.exec_driver_sql("SELECT 1 FROM transcript LIMIT 1").first() is None
