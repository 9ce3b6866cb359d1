"""Read and write the tables of the index in one transaction: agents, their sources, documents and words."""

import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from memoryd.database.library import load_library
from memoryd.errors import MemorydError, describe
from memoryd.index.matches import FEW, Counts, Matches, SearchFilter
from memoryd.recall.documents import COLUMNS, IndexDocument, Speaker
from memoryd.recall.query import Query, Term
from memoryd.recall.ranking import Candidate

SCHEMA = (pkgutil.get_data(__name__, "schema.sql") or b"").decode()
# Created with the first embedding model.
_LACKS = "CREATE INDEX IF NOT EXISTS document_lacks ON document (id) WHERE lacks"
_WORDS = (
    "CREATE VIRTUAL TABLE words_{n} USING fts5({columns}, content='', contentless_delete=1,"
    " tokenize='porter unicode61 remove_diacritics 2')"
)
# AUTOINCREMENT never reuses an id, so a vector in memory cannot belong to another document.
_VECTORS = (
    "CREATE TABLE vectors_{n} (id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL UNIQUE,"
    " vector BLOB NOT NULL)"
)
_HASH_BYTES = 12 << 20  # the bytes of words in memory before they are written; a larger value means fewer merges
_SEGMENTS = 4  # this many segments of one size are merged step by step …
_FILLING_SEGMENTS = 16  # … and this many while much text arrives, because merging would take a fifth of the time
_MERGED_PAGES = 250  # the pages of 4 KiB that one step merges, in about 20 ms
_FREE = 1 / 16  # if a larger share of the pages is free, as after a merge, they are given back to the disk
_MOST_SEGMENTS = 128  # this many segments of one size are merged at once, which delays a change
_PLACE = "s.path, s.tier, d.first_line, d.last_line, d.piece, d.digest, d.day, d.shown, s.tags, d.voice"
_SPEAKERS = dict(enumerate(Speaker))
_WIDTH = 200  # the scores of this many of the best documents are multiplied by the weight of their author
_PORTION = 4096  # the number of vectors in one portion


class DamagedError(MemorydError):
    """Report that the index has data that memoryd never wrote."""


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Hold a file, a session or a fact in the state in which it is indexed."""

    id: int
    stamp: str


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """Hold the place and the key of an indexed document."""

    id: int
    first_line: int
    last_line: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """Hold how far an agent's turns and facts are indexed."""

    turn_id: int = 0  # the row id of the last turn that was indexed
    turn_mark: str = ""  # a digest of that turn, to detect another database
    audit_mark: str = ""  # the last hash of the agent's audit when its facts were indexed
    waiting: tuple[int, ...] = ()  # the row ids of turns whose text was missing


class FaultError(Exception):
    """Wrap an error of SQLite, so that it is not confused with an error of another open database."""

    def __init__(self, error: Exception) -> None:
        super().__init__(describe(error))
        self.orig = error


class Vector(NamedTuple):
    """Hold a stored vector, with the place of its document."""

    id: int
    source: int
    tier: str
    day: str | None
    vector: bytes


class Coverage(NamedTuple):
    """Hold the number of an agent's texts that have a vector, and the number that should have one."""

    done: int
    wanted: int
    model: str  # the name and version of the model that made the vectors


class Tables:
    """Read and write the index in one transaction."""

    def __init__(self, connection: Any, counts: Counts | None = None) -> None:
        self._connection = connection
        self._counts = counts or Counts()
        self._matching: dict[int, Matches] = {}
        # Vectors of removed documents, by (number of the agent, digest, piece).
        self._loose: dict[tuple[int, bytes, int], bytes] = {}

    def _rows(self, sql: str, *values: object) -> list[Any]:
        """Return all rows of a query; its values follow one by one, or by name in one dictionary."""
        given = values[0] if values and isinstance(values[0], dict) else values
        with _faults():
            return list(self._connection.execute(sql, given).fetchall())

    def _rows_of(self, sql: str, ids: Iterable[int]) -> list[Any]:
        """Return all rows of a query; `ids` are the values of its last operator, `IN`."""
        return self._rows(f"{sql} (SELECT value FROM json_each(?))", json.dumps(list(ids)))  # noqa: S608

    def _number(self, sql: str, *values: object) -> int:
        return int(self._rows(sql, *values)[0][0])

    def _change(self, sql: str, *values: object) -> Any:
        with _faults():
            return self._connection.execute(sql, values).lastrowid

    def _change_many(self, sql: str, values: object) -> None:
        with _faults():
            self._connection.executemany(sql, values)

    # --- agents ---------------------------------------------------------------------------------------------------

    def number(self, agent_id: str) -> int:
        """Return the number of an agent's tables, and create them if they are missing."""
        found = self.find_number(agent_id)
        if found is not None:
            return found
        number = int(self._change("INSERT INTO agent (id) VALUES (?)", agent_id))
        self._change(_WORDS.format(n=number, columns=", ".join(COLUMNS)))
        self._change(_VECTORS.format(n=number))
        self._change(
            f"INSERT INTO words_{number} (words_{number}, rank) VALUES ('hashsize', {_HASH_BYTES}),"  # noqa: S608
            f" ('crisismerge', {_MOST_SEGMENTS}), ('usermerge', 2)"
        )
        return number

    def expect(self, number: int, *, much: bool) -> None:
        """Set whether much text follows; then the merging of segments waits, and later changes do it step by step."""
        most = _FILLING_SEGMENTS if much else _SEGMENTS
        rows = self._rows(f"SELECT v FROM words_{number}_config WHERE k = 'automerge'")  # noqa: S608
        if (rows[0][0] if rows else _SEGMENTS) != most:
            self._change(f"INSERT INTO words_{number} (words_{number}, rank) VALUES ('automerge', ?)", most)  # noqa: S608

    def segments(self, number: int) -> int:
        """Return the number of segments with an agent's words; each search must read all of them."""
        return self._number(
            f"WITH RECURSIVE found (id) AS (SELECT min(segid) FROM words_{number}_idx UNION ALL"  # noqa: S608
            f" SELECT (SELECT min(segid) FROM words_{number}_idx WHERE segid > id) FROM found WHERE id)"
            " SELECT count(id) FROM found"
        )

    def merge(self, number: int) -> bool:
        """Merge some of an agent's segments; return True if more can be merged (https://sqlite.org/fts5.html, §6.7)."""
        before = self._connection.total_changes
        self._change(f"INSERT INTO words_{number} (words_{number}, rank) VALUES ('merge', ?)", _MERGED_PAGES)  # noqa: S608
        return bool(self._connection.total_changes - before > 1)

    def give_back(self) -> bool:
        """Give some of the free pages back to the disk, if there are many; return True if there may be more."""
        return self.is_loose() and bool(self._rows(f"PRAGMA incremental_vacuum({_MERGED_PAGES})"))

    def is_loose(self) -> bool:
        """Return True if the file has many free pages."""
        return self._number("PRAGMA freelist_count") > _FREE * self._number("PRAGMA page_count")

    def find_number(self, agent_id: str) -> int | None:
        """Return the number of an agent's tables; None if there are none."""
        rows = self._rows("SELECT number FROM agent WHERE id = ?", agent_id)
        return int(rows[0][0]) if rows else None

    def progress(self, agent_id: str) -> Progress:
        """Return how far an agent is indexed.

        Raises:
            DamagedError: the stored value is invalid.
        """
        rows = self._rows("SELECT turn_id, turn_mark, audit_mark, waiting FROM agent WHERE id = ?", agent_id)
        if not rows:
            return Progress()
        try:
            turn_id, mark, audit_mark, waiting = rows[0]
            found = Progress(int(turn_id), str(mark), str(audit_mark), tuple(map(int, json.loads(waiting))))
        except (TypeError, ValueError, OverflowError) as error:
            raise DamagedError("the progress of an agent cannot be read") from error
        if any(not 0 <= one < 1 << 63 for one in (found.turn_id, *found.waiting)):  # no row can have such an id
            raise DamagedError("the progress of an agent cannot be read")
        return found

    def set_progress(self, agent_id: str, progress: Progress) -> None:
        """Store how far an agent is indexed."""
        self._change(
            "UPDATE agent SET turn_id = ?, turn_mark = ?, audit_mark = ?, waiting = ? WHERE id = ?",
            progress.turn_id, progress.turn_mark, progress.audit_mark, json.dumps(progress.waiting), agent_id,
        )  # fmt: skip

    def drop(self, agent_id: str) -> None:
        """Remove an agent's tables and all of its rows."""
        number = self.find_number(agent_id)
        if number is None:
            return
        self._change(f"DROP TABLE words_{number}")
        self._change(f"DROP TABLE vectors_{number}")
        self._change("DELETE FROM document WHERE source IN (SELECT id FROM source WHERE agent = ?)", number)
        self._change("DELETE FROM source WHERE agent = ?", number)
        self._change("DELETE FROM agent WHERE number = ?", number)

    def agents(self) -> list[str]:
        """Return the ids of the indexed agents."""
        return [str(row[0]) for row in self._rows("SELECT id FROM agent ORDER BY id")]

    # --- sources and documents ------------------------------------------------------------------------------------

    def sources(self, number: int | None, *tiers: str) -> dict[str, IndexSource]:
        """Return an agent's sources of these tiers, by path; an agent without tables (None) has no sources."""
        rows = self._rows(
            "SELECT path, id, stamp FROM source WHERE agent = ? AND tier IN (SELECT value FROM json_each(?))",
            number,
            json.dumps(tiers),
        )
        return {path: IndexSource(source_id, stamp) for path, source_id, stamp in rows}

    def put_source(self, number: int, path: str, tier: str, stamp: str, tags: Iterable[str] = ()) -> int:
        """Store the state of a source, and return its id.

        This is not an upsert, because FTS5 writes all its buffers before such a statement.
        """
        values = (tier, stamp, json.dumps(sorted(tags)))
        rows = self._rows("SELECT id, tier, stamp, tags FROM source WHERE agent = ? AND path = ?", number, path)
        if not rows:
            sql = "INSERT INTO source (tier, stamp, tags, agent, path) VALUES (?, ?, ?, ?, ?)"
            return int(self._change(sql, *values, number, path))
        if rows[0][1:] != values:
            self._change("UPDATE source SET tier = ?, stamp = ?, tags = ? WHERE id = ?", *values, rows[0][0])
        return int(rows[0][0])

    def remove_source(self, number: int, source_id: int) -> None:
        """Remove a source and its documents."""
        self.remove(number, [one.id for one in self.list_held(source_id)])
        self._change("DELETE FROM source WHERE id = ?", source_id)

    def list_held(self, source_id: int, first_line: int = 0, last_line: int = 2**62) -> list[IndexedDocument]:
        """Return the documents of a source whose first line is in this range."""
        rows = self._rows(
            "SELECT id, first_line, last_line, coalesce(key, digest) FROM document"
            " WHERE source = ? AND first_line BETWEEN ? AND ?",
            source_id, first_line, last_line,
        )  # fmt: skip
        return [IndexedDocument(*row) for row in rows]

    def put(self, number: int, source_id: int, documents: Sequence[tuple[IndexDocument, bytes, str | None]]) -> None:
        """Add documents, each with its key and, if it differs from the source, the text to show."""
        first = self._number("SELECT coalesce(max(id), 0) + 1 FROM document")
        rows = [
            (first + at, source_id, one.first_line, one.last_line, one.piece, one.digest,
             None if key == one.digest else key, one.day, shown, 1 if one.is_said else None, int(one.voice))
            for at, (one, key, shown) in enumerate(documents)
        ]  # fmt: skip
        self._change_many(
            "INSERT INTO document (id, source, first_line, last_line, piece, digest, key, day, shown, lacks, voice)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        if self._loose:
            known = [(one.digest, self._loose.get((number, one.digest, one.piece))) for one, _, _ in documents]
            self.put_vectors(number, [(first + at, *one) for at, one in enumerate(known) if one[1] is not None])
        self._change_many(
            f"INSERT INTO words_{number} (rowid, {', '.join(COLUMNS)}) VALUES (?{', ?' * len(COLUMNS)})",  # noqa: S608
            [(first + at, *one.columns) for at, (one, _, _) in enumerate(documents)],
        )
        self._change("UPDATE agent SET live = live + ? WHERE number = ?", len(documents), number)

    def move(self, places: Iterable[tuple[int, int, int]]) -> None:
        """Store the present lines of documents, given as (first line, last line, id)."""
        self._change_many("UPDATE document SET first_line = ?, last_line = ? WHERE id = ?", list(places))

    def remove(self, number: int, ids: Iterable[int]) -> None:
        """Remove documents; a text that comes back in the same transaction gets its vector again."""
        values = [(one,) for one in ids]
        self._loose |= {
            (number, digest, piece): vector
            for digest, piece, vector in self._rows_of(
                f"SELECT d.digest, d.piece, v.vector FROM vectors_{number} v JOIN document d ON d.id = v.document"  # noqa: S608
                " WHERE v.document IN",
                (one for (one,) in values),
            )
        }
        self._change_many(f"DELETE FROM vectors_{number} WHERE document = ?", values)  # noqa: S608
        self._change_many(f"DELETE FROM words_{number} WHERE rowid = ?", values)  # noqa: S608
        self._change_many("DELETE FROM document WHERE id = ?", values)
        sql = "UPDATE agent SET live = live - ?1, removed = removed + ?1 WHERE number = ?2"
        self._change(sql, len(values), number)

    def is_worn(self, agent_id: str) -> bool:
        """Return True if so many documents were removed that ranking suffers, because FTS5 still counts their words."""
        return self._rows("SELECT removed > ? AND removed > live FROM agent WHERE id = ?", FEW, agent_id) == [(1,)]

    # --- vectors --------------------------------------------------------------------------------------------------

    def set_model(self, agent_id: str, model: str) -> None:
        """Set the embedding model of an agent, and delete the vectors of other models."""
        number = self.number(agent_id)
        if self._rows("SELECT 1 FROM agent WHERE number = ? AND model = ?", number, model):
            return
        self._change(_LACKS)
        self._change(f"DELETE FROM vectors_{number}")  # noqa: S608
        sql = "UPDATE document SET lacks = 1 WHERE lacks = 0 AND source IN (SELECT id FROM source WHERE agent = ?)"
        self._change(sql, number)
        self._change("UPDATE agent SET model = ? WHERE number = ?", model, number)

    def model(self, number: int) -> str:
        """Return the embedding model of an agent's vectors; empty if there is none."""
        return str(self._rows("SELECT model FROM agent WHERE number = ?", number)[0][0])

    def list_lacking_vectors(self, number: int, limit: int) -> list[Candidate]:
        """Return up to `limit` documents that need a vector, newest first."""
        rows = self._rows(
            f"SELECT d.id, 0.0, {_PLACE} FROM document d INDEXED BY document_lacks CROSS JOIN source s"  # noqa: S608
            " ON s.id = d.source WHERE d.lacks AND s.agent = ? ORDER BY d.id DESC LIMIT ?",
            number, limit,
        )  # fmt: skip
        return [_candidate(row) for row in rows]

    def put_vectors(self, number: int, vectors: Iterable[tuple[int, bytes, bytes | None]]) -> None:
        """Store vectors, given as (document, digest of its text, vector).

        A document whose text has changed is skipped. If the vector is None, the document counts as done without one.
        """
        for identity, digest, vector in vectors:
            if not self._rows("SELECT 1 FROM document WHERE id = ? AND digest = ? AND lacks", identity, digest):
                continue
            if vector is not None:
                sql = f"INSERT INTO vectors_{number} (document, vector) VALUES (?, ?)"  # noqa: S608
                self._change(sql, identity, vector)
            self._change("UPDATE document SET lacks = 0 WHERE id = ?", identity)

    def newest_vector(self, number: int) -> int:
        """Return the largest id of a vector; 0 if there is none."""
        return self._number(f"SELECT coalesce(max(id), 0) FROM vectors_{number}")  # noqa: S608

    def vectors(self, number: int, since: int = 0) -> Iterator[list[Vector]]:
        """Yield, in portions, all vectors of the sources that have a vector newer than `since`, by source and line."""
        sql = (
            f"SELECT v.id, d.source, s.tier, d.day, v.vector FROM document d JOIN vectors_{number} v"  # noqa: S608
            " ON v.document = d.id JOIN source s ON s.id = d.source WHERE s.agent = ?"
        )
        values: list[object] = [number]
        if since:
            newer = f"SELECT n.source FROM vectors_{number} w JOIN document n ON n.id = w.document WHERE w.id > ?"  # noqa: S608
            sql += f" AND d.source IN ({newer})"
            values.append(since)
        size = 0
        with _faults():
            cursor = self._connection.execute(f"{sql} ORDER BY d.source, d.first_line, d.piece", values)
            while rows := cursor.fetchmany(_PORTION):
                portion = [_vector(row) for row in rows]
                size = size or len(portion[0].vector)
                if any(len(one.vector) != size for one in portion):
                    raise DamagedError("vectors are of several sizes")
                yield portion

    def read_candidates(self, number: int, scores: Mapping[int, float]) -> list[Candidate]:
        """Return the documents of vectors with their scores, best first; `scores` is by the id of the vector."""
        rows = self._rows_of(
            f"SELECT d.id, v.id, {_PLACE} FROM vectors_{number} v JOIN document d ON d.id = v.document"  # noqa: S608
            " JOIN source s ON s.id = d.source WHERE v.id IN",
            scores,
        )
        found = [_candidate((row[0], -scores[row[1]], *row[2:])) for row in rows]
        return sorted(found, key=lambda one: (-one.score, one.id))

    def coverage(self, agent_id: str) -> Coverage:
        """Return the number of an agent's texts that have a vector, and the number that should have one."""
        ((done, wanted, model),) = self._rows(
            "SELECT count(*) FILTER (WHERE d.lacks = 0), count(d.lacks), a.model FROM agent a"
            " JOIN source s ON s.agent = a.number JOIN document d ON d.source = s.id WHERE a.id = ?",
            agent_id,
        )
        return Coverage(int(done), int(wanted), str(model or ""))

    # --- searches -------------------------------------------------------------------------------------------------

    def find(
        self, number: int, query: Query, where: SearchFilter, limit: int, weigh: Callable[[Speaker], float]
    ) -> list[Candidate]:
        """Return the best matching documents, best first; those with the quoted phrases come before all others.

        `weigh` returns the factor of a score by the author of the document.
        """
        scores = dict(self.matches(number).rank(query, where, max(_WIDTH, limit)))
        phrases = query.phrases
        quoting = self.matches(number).find_holding(phrases, list(scores)) if phrases else set()
        rows = self._rows_of("SELECT id, voice FROM document WHERE id IN", scores)
        weights = {voice: weigh(speaker) for voice, speaker in _SPEAKERS.items()}
        try:
            weighed = [(one not in quoting, -scores[one] * weights[voice], one) for one, voice in rows]
        except KeyError as error:
            raise DamagedError("a document cannot be read") from error
        best = {one: score for _, score, one in sorted(weighed)[:limit]}
        sql = f"SELECT d.id, 0.0, {_PLACE} FROM document d JOIN source s ON s.id = d.source WHERE d.id IN"  # noqa: S608
        rows = self._rows_of(sql, best)
        found = {row[0]: _candidate((row[0], best[row[0]], *row[2:])) for row in rows}
        return [found[one] for one in best if one in found]

    def match_terms(self, number: int, terms: Sequence[Term], ids: Sequence[int]) -> dict[int, set[str]]:
        """Return the terms that each of these documents contains in any column, by the document's id."""
        found: dict[int, set[str]] = {one: set() for one in ids}
        for term in terms if ids else ():
            for one in self.matches(number).find_holding((term,), ids):
                found[one].add(term.text)
        return found

    def matches(self, number: int) -> Matches:
        """Return the `Matches` of an agent; within a transaction, it is always the same object."""
        if number not in self._matching:
            self._matching[number] = Matches(self._rows, number, self._counts)
        return self._matching[number]

    def counts(self, agent_id: str) -> dict[str, int]:
        """Return the number of an agent's documents by tier."""
        rows = self._rows(
            "SELECT s.tier, count(*) FROM document d JOIN source s ON s.id = d.source"
            " JOIN agent a ON a.number = s.agent WHERE a.id = ? GROUP BY s.tier",
            agent_id,
        )
        return {str(tier): int(count) for tier, count in rows}

    def require_sound(self) -> None:
        """Check all pages of the file, and the words of all agents.

        Raises:
            DamagedError: the index is damaged.
        """
        rows = [row[0] for row in self._rows("PRAGMA integrity_check(1)")]
        if rows != ["ok"]:
            raise DamagedError(str(rows[0]))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    # The error may also concern invalid bytes in a message, or an id that is too large.
    except (load_library().DatabaseError, UnicodeDecodeError, OverflowError) as error:
        raise FaultError(error) from error


def _vector(row: Sequence[Any]) -> Vector:
    found = Vector(*row)
    if not isinstance(found.vector, bytes) or not found.vector or len(found.vector) % 64:
        raise DamagedError("a vector cannot be read")
    _require_day(found.day)
    return found


def _candidate(row: Sequence[Any]) -> Candidate:
    identity, score, path, tier, first, last, piece, digest, day, shown, tags, voice = row
    whole = (identity, first, last, piece)
    texts = (path, tier, tags)
    is_sound = all(isinstance(one, int) for one in whole) and all(isinstance(one, str) for one in texts)
    if not is_sound or not isinstance(digest, bytes) or not isinstance(shown, str | None) or voice not in _SPEAKERS:
        raise DamagedError("a document cannot be read")
    _require_day(day)
    return Candidate(
        identity, -float(score), path, tier, first, last, piece, digest, day, shown, _tags(tags), _SPEAKERS[voice]
    )


@lru_cache(maxsize=1024)
def _require_day(day: object) -> None:
    try:
        if day is not None:
            date.fromisoformat(day)  # type: ignore[arg-type]  # this checks the form
    except (TypeError, ValueError) as error:
        raise DamagedError("a document cannot be read") from error


@lru_cache(maxsize=1024)
def _tags(text: str) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(text)))
    except (TypeError, ValueError) as error:
        raise DamagedError("a document cannot be read") from error
