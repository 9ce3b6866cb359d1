"""Write turns, sessions and cursors for the reading of transcripts, and read turns for the jobs, in SQL."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import query, reads, sqlite
from memoryd.database.packing import pack_id
from memoryd.database.vault import DAMAGED, EXPIRED
from memoryd.ledger.memory import Source, source_of
from memoryd.transcripts.turn import StoredTurn

LOOKUP_CHUNK = 400
LAST = 2**62  # larger than the number of any turn
FORGOTTEN = "forgotten"  # why a turn lacks its text or a part of it: it was forgotten, and never comes back
RETRACTED = "retracted"  # the agent left this branch of the conversation; the text may come back
_TURN_COLUMNS = (
    "agent_id", "session_id", "seq", "transcript_id", "generation", "record_key", "part", "role", "origin", "kind",
    "text", "at", "usage", "sidechain", "tool_call_id", "tool_name", "first_byte", "last_byte",
    "sha256", "withheld", "text_crc",
)  # fmt: skip
INSERT_TURNS = query.make_insert("turn", _TURN_COLUMNS)
# Matches all versions of a record: under its id, and under `id~hash`. ?3 is the id followed by `\x7f`.
_OF_RECORD = "agent_id = ?1 AND (record_key = key_of(?2) OR (record_key > ?2 || '~' AND record_key < ?3))"


class KnownTurn(NamedTuple):
    """Hold where a stored turn was last read, and why its text is missing (None: it is stored)."""

    transcript_id: int
    generation: int
    sha256: bytes
    withheld: str | None


class SeenRecords:
    """Hold which of the given records of an agent are already stored."""

    def __init__(self, connection: Connection, agent_id: str, record_ids: Sequence[str]) -> None:
        self.rows: dict[tuple[str, int], KnownTurn] = {}
        for start in range(0, len(record_ids), LOOKUP_CHUNK):
            chunk = record_ids[start : start + LOOKUP_CHUNK]
            sql = (
                "SELECT record_id, part, transcript_id, generation, sha256, withheld FROM turn"  # noqa: S608
                f" WHERE agent_id = ? AND record_key IN ({', '.join('?' * len(chunk))})"
            )
            for record_id, part, *known in query.fetch_rows(connection, sql, agent_id, *map(pack_id, chunk)):
                self.rows[record_id, part] = KnownTurn(*known)


class TurnVersion(NamedTuple):
    """Hold one stored version of a record's turn. A record that changed has several."""

    record_id: str
    text: str
    sha256: bytes
    transcript_id: int
    generation: int
    withheld: str | None


def tool_of(connection: Connection, session_id: str, call: str) -> str | None:
    """Return the name of the tool that the session called under the id `call`; None if there is no such call."""
    sql = "SELECT tool_name FROM turn WHERE session_id = ? AND kind = 'tool_call' AND tool_call_id = ? LIMIT 1"
    return query.fetch_text(connection, sql, session_id, call)


def versions_of(connection: Connection, agent_id: str, record_id: str, part: int) -> list[TurnVersion]:
    """Return all stored versions of one turn: the first under the record's id, changed ones under `id~hash`."""
    sql = (
        "SELECT record_id, plain(CAST(text AS BLOB), text_crc), sha256, transcript_id, generation, withheld"  # noqa: S608
        f" FROM turn WHERE {_OF_RECORD} AND part = ?4 ORDER BY id"
    )
    found = query.fetch_rows(connection, sql, agent_id, record_id, f"{record_id}\x7f", part)
    return [TurnVersion(*row) for row in found]


def confirm_spans(connection: Connection, rows: Sequence[tuple[int, int, int, bytes, str, str, int]]) -> None:
    """Store the new places of turns after their file was rewritten.

    Each row has first byte, last byte, generation and hash, and then agent, record id and part of the turn.
    """
    sql = (
        "UPDATE turn SET first_byte = ?, last_byte = ?, generation = ?, sha256 = ?"
        " WHERE agent_id = ? AND record_key = key_of(?) AND part = ?"
    )
    query.change_each(connection, sql, rows)


def withheld_turn(connection: Connection, agent_id: str, record_id: str, part: int) -> reads.Row | None:
    """Return a turn whose missing text may still be restored; None if there is none."""
    sql = (
        "SELECT id, session_id, seq, withheld FROM turn WHERE agent_id = ? AND record_key = key_of(?) AND part = ?"
        " AND withheld NOT IN (?, ?)"
    )
    return next(iter(query.fetch_mappings(connection, sql, agent_id, record_id, part, FORGOTTEN, EXPIRED)), None)


def find_withheld(connection: Connection, why: str) -> set[int]:
    """Return the ids of the turns whose text is missing for this reason."""
    return set(query.fetch_column(connection, "SELECT id FROM turn WHERE withheld = ?", why))


def with_places(connection: Connection, turn_ids: Sequence[int]) -> Sequence[reads.Row]:
    """Return turns with their places in their transcripts, by id."""
    sql = (
        "SELECT t.id, t.agent_id, t.record_id, t.part, t.kind, t.first_byte, t.last_byte, t.sha256, t.transcript_id,"
        " p.path, p.format, p.session_id FROM turn t JOIN transcript p ON p.id = t.transcript_id"
        " WHERE t.id IN (SELECT value FROM json_each(?)) ORDER BY t.id"
    )
    return query.fetch_mappings(connection, sql, turn_ids)


def set_withheld(connection: Connection, turn_ids: Iterable[int], why: str) -> None:
    """Record why turns lack their text. A damaged turn stays marked as damaged until its text is restored."""
    sql = "UPDATE turn SET withheld = ? WHERE id = ? AND withheld IS NOT ?"
    query.change_each(connection, sql, ((why, turn_id, DAMAGED) for turn_id in turn_ids))


def retract_record(connection: Connection, agent_id: str, session_id: str, record_id: str) -> int:
    """Erase the texts of a record that its session has retracted; return the number of its turns.

    The rows stay. If the session began as a copy of another session, the other session keeps its text.
    """
    given = agent_id, record_id, f"{record_id}\x7f", session_id
    own = f"{_OF_RECORD} AND session_id = ?4 AND withheld IS NOT 'forgotten'"
    # Turns without a stored text are not part of the count.
    counted = f"(SELECT count(*) FROM turn WHERE {own} AND text <> '')"  # noqa: S608
    query.run(connection, f"UPDATE session SET turns = max(0, turns - {counted}) WHERE id = ?4", *given)  # noqa: S608
    sql = (
        f"UPDATE turn SET text = '', tokens = NULL, withheld = ?5 WHERE {own}"  # noqa: S608
        " AND (text <> '' OR withheld IN ('unscanned', 'lost'))"
    )
    return query.run(connection, sql, *given, RETRACTED)


def resume_record(connection: Connection, agent_id: str, record_id: str) -> int:
    """Mark the turns of a retracted record so that their texts are read and scanned again; return their number."""
    sql = f"UPDATE turn SET withheld = 'unscanned' WHERE {_OF_RECORD} AND withheld = ?4"  # noqa: S608
    return query.run(connection, sql, agent_id, record_id, f"{record_id}\x7f", RETRACTED)


def give_text(connection: Connection, turn_id: int, seq: int, text: str) -> None:
    """Store the text of a turn and its place in the session. Its tokens are counted again later."""
    sql = "UPDATE turn SET text = ?1, text_crc = text_crc(?1), seq = ?2, withheld = NULL, tokens = NULL WHERE id = ?3"
    query.run(connection, sql, text, seq, turn_id)


def read_consumed(connection: Connection, session_id: str) -> int:
    """Return the number of the last turn that any job has processed, or that an open run will process."""
    return query.fetch_number(
        connection,
        "SELECT max(coalesce((SELECT max(seq) FROM watermark WHERE session_id = ?1), 0), coalesce(("
        "SELECT max(json_extract(options, '$.upto')) FROM job_run WHERE session_id = ?1"
        " AND state IN ('queued', 'running', 'interrupted', 'blocked')), 0))",
        session_id,
    )


def seq_of_record(connection: Connection, session_id: str, record_id: str) -> int:
    """Return the number of a record's first turn in a session; 0 if there is none."""
    sql = "SELECT min(seq) FROM turn WHERE session_id = ? AND record_id = ?"
    return query.fetch_number(connection, sql, session_id, record_id)


def list_ids(connection: Connection, agent_id: str) -> list[str]:
    """List the ids of an agent's sessions."""
    return query.fetch_column(connection, "SELECT id FROM session WHERE agent_id = ?", agent_id)


def stored_turns(
    connection: Connection, session_id: str, *, after: int = 0, upto: int = LAST, main_only: bool = False
) -> list[StoredTurn]:
    """Return the turns of a session with `after` < seq ≤ `upto`, in order.

    With `main_only`, turns of subagents are left out.
    """
    main = " AND sidechain = 0" if main_only else ""
    sql = f"SELECT {reads.STORED} FROM turn WHERE session_id = ? AND seq > ? AND seq <= ?{main} ORDER BY seq"  # noqa: S608
    return [reads.build_turn(row) for row in query.fetch_mappings(connection, sql, session_id, after, upto)]


def last_compaction(connection: Connection, session_id: str, *, upto: int = LAST) -> int:
    """Return the number of the last compaction in the main conversation up to `upto`; 0 if there is none."""
    sql = "SELECT max(seq) FROM turn WHERE session_id = ? AND kind = 'compaction' AND sidechain = 0 AND seq <= ?"
    return query.fetch_number(connection, sql, session_id, upto)


def list_uncounted(connection: Connection, session_id: str, *, after: int, limit: int) -> list[tuple[int, str]]:
    """List up to `limit` turns after the number `after` whose tokens are not counted yet, as (id, text)."""
    sql = (
        "SELECT id, plain(CAST(text AS BLOB), text_crc) FROM turn"
        " WHERE session_id = ? AND seq > ? AND tokens IS NULL ORDER BY seq LIMIT ?"
    )
    return [(row[0], row[1]) for row in query.fetch_rows(connection, sql, session_id, after, limit)]


def fill_tokens(engine: Engine, counts: Sequence[tuple[int, int]]) -> None:
    """Store token counts, given as (turn id, tokens)."""
    if counts:
        swapped = [(tokens, turn_id) for turn_id, tokens in counts]
        sqlite.write(engine, query.change_each, "UPDATE turn SET tokens = ? WHERE id = ?", swapped)


def count_unslept(connection: Connection, session_id: str, *, after: int, upto: int = LAST) -> int:
    """Count the messages of users and assistants that a sleep would process, with `after` < seq ≤ `upto`."""
    sql = (
        "SELECT count(*) FROM turn WHERE session_id = ? AND seq > ? AND seq <= ? AND kind IN ('message', 'choice')"
        " AND text <> '' AND role IN ('user', 'assistant') AND origin IN ('user', 'assistant') AND sidechain = 0"
    )
    return query.fetch_number(connection, sql, session_id, after, upto)


def count_unscanned(connection: Connection, session_id: str, *, after: int, upto: int) -> int:
    """Count the turns with `after` < seq ≤ `upto` whose text still has to be scanned for secrets."""
    sql = "SELECT count(*) FROM turn WHERE session_id = ? AND seq > ? AND seq <= ? AND withheld = 'unscanned'"
    return query.fetch_number(connection, sql, session_id, after, upto)


def first_unscanned(connection: Connection, session_id: str, *, after: int, upto: int) -> int | None:
    """Return the number of the first turn with `after` < seq ≤ `upto` whose text is not scanned yet; None if none."""
    sql = "SELECT min(seq) FROM turn WHERE session_id = ? AND seq > ? AND seq <= ? AND withheld = 'unscanned'"
    return query.fetch_number(connection, sql, session_id, after, upto) or None


def added_since(connection: Connection, session_id: str, *, after: int, tokens_per_byte: float) -> int:
    """Return the tokens of the main conversation after the number `after`.

    Turns that are not counted yet are estimated by `tokens_per_byte`.
    """
    sql = (
        "SELECT sum(coalesce(tokens, octet_length(plain(CAST(text AS BLOB), text_crc)) * ?)) FROM turn"
        " WHERE session_id = ? AND seq > ? AND sidechain = 0"
    )
    return query.fetch_number(connection, sql, tokens_per_byte, session_id, after)


def running_summary(connection: Connection, session_id: str) -> str | None:
    """Return a session's running summary; None if it has none."""
    return query.fetch_text(connection, "SELECT summary FROM session_summary WHERE session_id = ?", session_id)


def read_watermark(connection: Connection, session_id: str, consumer: str) -> int:
    """Return the last turn that a consumer has processed in a session; 0 if it has not begun."""
    sql = "SELECT seq FROM watermark WHERE session_id = ? AND consumer = ?"
    return query.fetch_number(connection, sql, session_id, consumer)


def session_row(connection: Connection, session_id: str) -> reads.Row | None:
    """Return one session's row; None if there is none."""
    return next(iter(query.fetch_mappings(connection, "SELECT * FROM session WHERE id = ?", session_id)), None)


def transcripts_of(connection: Connection, agent_id: str) -> Sequence[reads.Row]:
    """Return the rows of an agent's cursors."""
    return query.fetch_mappings(connection, "SELECT * FROM transcript WHERE agent_id = ? ORDER BY id", agent_id)


def forgotten_again(connection: Connection, session_id: str, sha256: bytes, part: int) -> int:
    """Count the turns of a session that have these bytes and part and whose text was forgotten."""
    sql = "SELECT count(*) FROM turn WHERE session_id = ? AND sha256 = ? AND part = ? AND withheld = ?"
    return query.fetch_number(connection, sql, session_id, sha256, part, FORGOTTEN)


def list_paths(connection: Connection, sessions: Sequence[str]) -> list[str]:
    """List the paths of the transcripts of sessions."""
    sql = "SELECT path FROM transcript WHERE session_id IN (SELECT value FROM json_each(?))"
    return query.fetch_column(connection, sql, sessions)


def agent_seen_at(connection: Connection, agent_id: str) -> str:
    """Return when an agent was first seen (UTC, ISO 8601)."""
    return str(query.fetch_text(connection, "SELECT seen_at FROM agent WHERE id = ?", agent_id))


def build_sources(connection: Connection, session_id: str, seqs: Iterable[int]) -> tuple[Source, ...]:
    """Return turns of a session in the form of a memory's sources, with their places in the transcript."""
    sql = (
        "SELECT t.session_id AS session, t.seq, t.record_id, t.part, t.origin, t.at, t.first_byte, t.last_byte,"
        " lower(hex(t.sha256)) AS sha256, p.path AS transcript FROM turn t JOIN transcript p ON p.id = t.transcript_id"
        " WHERE t.session_id = ? AND t.seq IN (SELECT value FROM json_each(?)) ORDER BY t.seq"
    )
    return tuple(source_of(row) for row in query.fetch_mappings(connection, sql, session_id, sorted(set(seqs))))
