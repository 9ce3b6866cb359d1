"""Erase the texts of turns, summaries, replies and audited states; keep the rows with counts, spans and hashes.

The caller erases them in the transaction that ends the memories. Data derived from the rows, such as a search index,
must be removed by the same ids.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from memoryd.database import audit, query, runs, texts
from memoryd.database.turns import FORGOTTEN
from memoryd.ledger import audit as chain
from memoryd.ledger.forgetting import OPERATION
from memoryd.ledger.text_removal import AppendedBlock
from memoryd.transcripts import now_file
from memoryd.transcripts.turn import Role

Forgotten = dict[tuple[str, str], dict[str, int]]  # (agent, session) → how often each text occurred, by key
_OF_SESSIONS = "session_id IN (SELECT value FROM json_each(?))"
_IS_SESSION = "id IN (SELECT value FROM json_each(?))"
_HAS_REPLY = "coalesce(reply, refused, claims) IS NOT NULL"
_TURNS = (
    "SELECT t.id, t.session_id, t.agent_id, s.format, t.role, t.at, plain(CAST(t.text AS BLOB), t.text_crc) AS text"
    " FROM turn t JOIN session s ON s.id = t.session_id"
)
_KEEP = (
    "INSERT INTO forgotten_text (session_id, text_key, agent_id, times) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session_id, text_key)"
)
_OPEN = "('queued', 'interrupted', 'blocked')"

_FORGOTTEN = {"text": "", "withheld": FORGOTTEN, "tool_call_id": None, "tool_name": None}


def list_family(connection: Connection, agent_id: str, session_id: str) -> list[str]:
    """List a session and the sessions of its subagents, at all levels; the session itself is first."""
    sql = (
        "WITH RECURSIVE below(id, native_id) AS (SELECT id, native_id FROM session WHERE agent_id = ?1 AND id = ?2"
        " UNION SELECT s.id, s.native_id FROM session s JOIN below b ON s.parent_id IN (b.id, b.native_id)"
        " WHERE s.agent_id = ?1) SELECT id FROM below ORDER BY id <> ?2, id"
    )
    return query.fetch_column(connection, sql, agent_id, session_id)


def count_erased(connection: Connection, sessions: Sequence[str]) -> dict[str, int]:
    """Return how many turns, summaries and replies `erase_sessions` and `erase_replies` would erase, by name."""
    asked = {
        "turns": f"SELECT count(*) FROM turn WHERE {_OF_SESSIONS} AND text <> ''",  # noqa: S608
        "summaries": f"SELECT count(*) FROM session_summary WHERE {_OF_SESSIONS}",  # noqa: S608
        "replies": f"SELECT count(*) FROM job_run WHERE {_OF_SESSIONS} AND {_HAS_REPLY}",  # noqa: S608
    }
    return {name: query.fetch_number(connection, sql, tuple(sessions)) for name, sql in asked.items()}


def read_blocks(
    connection: Connection, agent_id: str, sessions: Sequence[str]
) -> tuple[list[AppendedBlock], list[AppendedBlock]]:
    """Return the blocks of daily files that runs appended, in two lists.

    The first list has the blocks that are only about the given or forgotten sessions. The second list has all others.
    """
    ours: list[AppendedBlock] = []
    others: list[AppendedBlock] = []
    for _, owners, gone, files in _find_appending_runs(connection, agent_id, sessions):
        found = [AppendedBlock(one["path"], *_find_last_state(one)) for one in files if "appended" in one]
        (ours if owners and owners == gone else others).extend(found)
    return ours, others


def _find_last_state(block: Mapping[str, Any]) -> tuple[str, int]:
    """Return (hash, size) of an appended block in the last form that memoryd wrote."""
    sha256, size = [(block["appended"], block["bytes"]), *block.get("left", ())][-1]
    return sha256, size


def find_shared_runs(connection: Connection, agent_id: str, sessions: Sequence[str]) -> list[str]:
    """Return the ids of runs whose text may come from these sessions or from others."""
    found = _find_appending_runs(connection, agent_id, sessions)
    return [run_id for run_id, owners, gone, _ in found if owners != gone and not owners.isdisjoint(sessions)]


def _find_appending_runs(
    connection: Connection, agent_id: str, sessions: Sequence[str]
) -> Iterator[tuple[str, set[str], set[str], list[dict[str, Any]]]]:
    """Yield the runs that wrote files: id, its sessions, those of them that are given or forgotten, and its files.

    For a run of a tool, these are all sessions that may have called the tool.
    """
    sql = "SELECT memory_id, max(id) FROM audit WHERE agent_id = ? AND operation = ? GROUP BY memory_id"
    forgotten_at = {row[0]: row[1] for row in query.fetch_rows(connection, sql, agent_id, OPERATION)}
    runs = query.fetch_rows(
        connection,
        "SELECT r.id, r.session_id, json_extract(r.receipt, '$.witnesses'), json_extract(r.receipt, '$.files'),"
        " (SELECT max(a.id) FROM audit a WHERE a.run_id = r.id) FROM job_run r"
        " WHERE r.agent_id = ? AND json_type(r.receipt, '$.files') = 'array'",
        agent_id,
    )
    for run_id, session_id, witnesses, files, last in runs:
        owners = set(json.loads(witnesses or "[]")) if session_id is None else {session_id}
        gone = {one for one in owners if one in sessions or forgotten_at.get(chain.SESSION + one, 0) > (last or 0)}
        yield run_id, owners, gone, json.loads(files)


def read_summaries(connection: Connection, sessions: Sequence[str]) -> list[str]:
    """Return the running summaries of sessions."""
    sql = f"SELECT summary FROM session_summary WHERE {_OF_SESSIONS}"  # noqa: S608
    return query.fetch_column(connection, sql, tuple(sessions))


def read_other_summaries(connection: Connection, agent_id: str, sessions: Sequence[str]) -> list[str]:
    """Return the running summaries of an agent's other sessions; an empty list if `sessions` is empty."""
    if not sessions:
        return []
    sql = (
        "SELECT summary FROM session_summary WHERE session_id IN (SELECT id FROM session WHERE agent_id = ?)"
        " AND session_id NOT IN (SELECT value FROM json_each(?))"
    )
    return query.fetch_column(connection, sql, agent_id, list(sessions))


def erase(connection: Connection, agent_id: str, what: Mapping[str, Any], now: str) -> None:
    """Erase everything that an intent names.

    Args:
        connection: a write transaction.
        agent_id: the agent.
        what: `sessions` lose their texts; `replies` are sessions whose model replies are erased; `names` are objects of
            the audit that lose all states but the last; `states` are digests of further states.
        now: UTC, ISO 8601.
    """
    erase_sessions(connection, what["sessions"])
    sql = f"SELECT id FROM job_run WHERE {_OF_SESSIONS} AND state IN {_OPEN}"  # noqa: S608
    for run_id in query.fetch_column(connection, sql, what["sessions"]):
        runs.withdraw(connection, run_id, now, "its session was forgotten")
    erase_replies(connection, [*what["sessions"], *what["replies"]])
    erase_judgements(connection, agent_id)
    # Earlier summaries are not searched for the forgotten text, so all of them are erased.
    sql = "UPDATE session_summary SET earlier = NULL WHERE session_id IN (SELECT id FROM session WHERE agent_id = ?)"
    query.run(connection, sql, agent_id)
    for name in what["names"]:
        audit.erase_states(connection, agent_id, name)
    audit.erase(connection, what["states"])


def erase_replies(connection: Connection, sessions: Sequence[str]) -> None:
    """Erase the model replies of runs over these sessions, and the outcomes of their claims."""
    _set(connection, "job_run", dict.fromkeys(("reply", "refused", "claims")), _OF_SESSIONS, tuple(sessions))


def erase_judgements(connection: Connection, agent_id: str) -> None:
    """Erase the claims of an agent's runs over several sessions, and all verdicts on claims."""
    if _set(connection, "job_run", {"claims": None}, "agent_id = ? AND session_id IS NULL", agent_id):
        query.run(connection, "DELETE FROM verdict WHERE agent_id = ?", agent_id)


def _set(connection: Connection, table: str, values: Mapping[str, object], which: str, *given: object) -> bool:
    """Set columns of rows; skip columns that an old database lacks, and return False if it lacks all of them."""
    there = texts.list_columns(connection, table)
    known = {name: value for name, value in values.items() if name in there}
    if known:
        sets = ", ".join(f"{name} = ?" for name in known)
        query.run(connection, f"UPDATE {table} SET {sets} WHERE {which}", *known.values(), *given)  # noqa: S608
    return bool(known)


def erase_sessions(connection: Connection, sessions: Sequence[str]) -> None:
    """Erase the texts of the turns of sessions, their summaries and the names of their branches."""
    given = tuple(sessions)
    rows = query.fetch_mappings(connection, f"{_TURNS} WHERE t.{_OF_SESSIONS} AND t.text <> ''", given)
    _keep_keys(connection, ((row, row["text"], "") for row in rows))
    _set(connection, "turn", _FORGOTTEN, _OF_SESSIONS, given)
    _set(connection, "session", {"branch": None}, _IS_SESSION, given)
    query.run(connection, f"DELETE FROM session_summary WHERE {_OF_SESSIONS}", given)  # noqa: S608


def erase_known(connection: Connection) -> None:
    """Erase forgotten texts again in a database that was restored from an older copy."""
    keys = {(session, key) for (_, session), counted in read_forgotten(connection).items() for key in counted}
    sessions = [session for session, _ in keys]
    _set(connection, "session", {"branch": None}, _IS_SESSION, sessions)
    for row in query.fetch_mappings(connection, f"{_TURNS} WHERE t.{_OF_SESSIONS} AND t.text <> ''", sessions):
        session, text = row["session_id"], row["text"]
        left = "" if (session, text_key(row["role"], row["at"], text)) in keys else text
        if row["format"] == now_file.NAME:
            lines = left.split("\n")
            left = "\n".join(one for one in lines if (session, now_file.line_key(Role(row["role"]), one)) not in keys)
        if left != text:
            sql = "UPDATE turn SET text = ?1, text_crc = text_crc(?1), withheld = ?2 WHERE id = ?3"
            query.run(connection, sql, left, FORGOTTEN, row["id"])
        if not left:
            _set(connection, "turn", _FORGOTTEN, "id = ?", row["id"])


def turn_was_cut(connection: Connection, rowid: int, old: str) -> None:
    """Record that text was removed from a turn, so that reading its record again does not restore the text.

    `rowid` is the row of the turn, and `old` is its text before the removal.
    """
    _set(connection, "turn", {"withheld": FORGOTTEN}, "rowid = ?", rowid)
    row = query.fetch_mappings(connection, f"{_TURNS} WHERE t.rowid = ?", rowid)[0]
    _keep_keys(connection, [(row, old, row["text"])])


def _keep_keys(connection: Connection, cuts: Iterable[tuple[dict[str, Any], str, str]]) -> None:
    """Store the keys of forgotten texts. `cuts` are (row of the turn, text before, text after).

    A record without an id gets another identity if its bytes change. Then only the key recognises its text. For a NOW
    file, each removed line has its own key.
    """
    if not texts.list_columns(connection, "forgotten_text"):
        return
    found: Counter[tuple[str, str, str]] = Counter()
    for row, old, new in cuts:
        keys = [text_key(row["role"], row["at"], old)]
        if row["format"] == now_file.NAME:
            lines = Counter(old.split("\n")) - Counter(new.split("\n"))
            keys = [now_file.line_key(Role(row["role"]), line) for line in lines.elements() if line.strip()]
        found.update((row["session_id"], key, row["agent_id"]) for key in keys)
    rows = ((*key, times) for key, times in found.items())
    query.change_each(connection, f"{_KEEP} DO UPDATE SET times = times + excluded.times", rows)


def text_key(role: str, at: str | None, text: str) -> str:
    """Return the key of a turn's text: 16 hex digits of a SHA-256 over role, time and text."""
    return sha256(f"{role}\n{at}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def forgotten_by(connection: Connection, agent_id: str) -> set[str]:
    """Return the keys of all texts that an agent has forgotten."""
    return set(query.fetch_column(connection, "SELECT text_key FROM forgotten_text WHERE agent_id = ?", agent_id))


def read_forgotten(connection: Connection) -> Forgotten:
    """Return how often each forgotten text occurred, for all agents and sessions."""
    rows = query.fetch_rows(connection, "SELECT agent_id, session_id, text_key, times FROM forgotten_text")
    found: Forgotten = {}
    for agent_id, session_id, key, times in rows:
        found.setdefault((agent_id, session_id), {})[key] = times
    return found


def lacks(connection: Connection, told: Forgotten) -> bool:
    """Return True if another database has forgotten texts that this one does not know."""
    known = {(session, key) for (_, session), keys in read_forgotten(connection).items() for key in keys}
    return any((session, key) not in known for (_, session), keys in told.items() for key in keys)


def copy_forgotten(connection: Connection, told: Forgotten) -> None:
    """Add the forgotten texts of another database; keys that already exist stay as they are."""
    rows = [(session, key, agent, times) for (agent, session), keys in told.items() for key, times in keys.items()]
    query.change_each(connection, f"{_KEEP} DO NOTHING", rows)


def forgotten_of(connection: Connection, session_id: str) -> Counter[str]:
    """Return how often each forgotten text of one session occurred, by its key."""
    rows = query.fetch_rows(connection, "SELECT text_key, times FROM forgotten_text WHERE session_id = ?", session_id)
    return Counter({row[0]: row[1] for row in rows})
