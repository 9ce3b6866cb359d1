"""Erase the texts of turns, summaries, replies and audited states; keep the rows with counts, spans and hashes.

All of it happens in the transaction that ends the memories concerned. Data derived from these rows, such as an index of
them, must lose them by the same ids.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, RowMapping

from memoryd.database import audit, query, runs, texts
from memoryd.database.turns import FORGOTTEN
from memoryd.ledger import audit as chain
from memoryd.ledger.forgetting import OPERATION
from memoryd.ledger.text_removal import AppendedBlock
from memoryd.transcripts import now_file
from memoryd.transcripts.turn import Role

Forgotten = dict[tuple[str, str], dict[str, int]]  # (agent, session) → how often each text was met, by its key
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


def list_family(connection: Connection, agent_id: str, session_id: str) -> list[str]:
    """List a session and its subagents' sessions, at all levels."""
    sql = (
        "WITH RECURSIVE below(id, native_id) AS (SELECT id, native_id FROM session WHERE agent_id = ?1 AND id = ?2"
        " UNION SELECT s.id, s.native_id FROM session s JOIN below b ON s.parent_id IN (b.id, b.native_id)"
        " WHERE s.agent_id = ?1) SELECT id FROM below ORDER BY id <> ?2, id"
    )
    return query.fetch_column(connection, sql, agent_id, session_id)


def count_erased(connection: Connection, sessions: Sequence[str]) -> dict[str, int]:
    """Count what `erase_sessions` would erase."""
    asked = {
        "turns": f"SELECT count(*) FROM turn WHERE {_OF_SESSIONS} AND text <> ''",  # noqa: S608
        "summaries": f"SELECT count(*) FROM session_summary WHERE {_OF_SESSIONS}",  # noqa: S608
        "replies": f"SELECT count(*) FROM job_run WHERE {_OF_SESSIONS} AND {_HAS_REPLY}",  # noqa: S608
    }
    return {name: query.fetch_number(connection, sql, tuple(sessions)) for name, sql in asked.items()}


def read_blocks(
    connection: Connection, agent_id: str, sessions: Sequence[str]
) -> tuple[list[AppendedBlock], list[AppendedBlock]]:
    """Return the blocks that runs appended to daily files for these or forgotten sessions, and all other blocks."""
    ours: list[AppendedBlock] = []
    others: list[AppendedBlock] = []
    for _, owners, gone, files in _find_appending_runs(connection, agent_id, sessions):
        found = [AppendedBlock(one["path"], *_find_last_state(one)) for one in files if "appended" in one]
        (ours if owners and owners == gone else others).extend(found)
    return ours, others


def _find_last_state(block: Mapping[str, Any]) -> tuple[str, int]:
    """Return hash and size of an appended block as memoryd left it last."""
    sha256, size = [(block["appended"], block["bytes"]), *block.get("left", ())][-1]
    return sha256, size


def find_shared_runs(connection: Connection, agent_id: str, sessions: Sequence[str]) -> list[str]:
    """Return the runs with text that may belong to these sessions or to others."""
    found = _find_appending_runs(connection, agent_id, sessions)
    return [run_id for run_id, owners, gone, _ in found if owners != gone and not owners.isdisjoint(sessions)]


def _find_appending_runs(
    connection: Connection, agent_id: str, sessions: Sequence[str]
) -> Iterator[tuple[str, set[str], set[str], list[dict[str, Any]]]]:
    """Return the runs that wrote files: their sessions, which of those are given or forgotten, and the files.

    A run of a tool belongs to the sessions in which the tool may have been called.
    """
    sql = "SELECT memory_id, max(id) FROM audit WHERE agent_id = ? AND operation = ? GROUP BY memory_id"
    forgotten_at = {row[0]: row[1] for row in query.fetch_rows(connection, sql, agent_id, OPERATION)}
    runs = query.fetch_rows(
        connection,
        "SELECT r.id, r.session_id, json_extract(r.receipt, '$.witnesses'), json_extract(r.receipt, '$.files'),"
        " (SELECT max(a.id) FROM audit a WHERE a.run_id = r.id) FROM job_run r"
        " WHERE r.agent_id = ? AND json_extract(r.receipt, '$.files') IS NOT NULL",
        agent_id,
    )
    for run_id, session_id, witnesses, files, last in runs:
        owners = set(json.loads(witnesses or "[]")) if session_id is None else {session_id}
        gone = {one for one in owners if one in sessions or forgotten_at.get(chain.SESSION + one, 0) > (last or 0)}
        yield run_id, owners, gone, json.loads(files)


def read_summaries(connection: Connection, sessions: Sequence[str]) -> list[str]:
    """Read the running summaries of sessions."""
    sql = f"SELECT summary FROM session_summary WHERE {_OF_SESSIONS}"  # noqa: S608
    return query.fetch_column(connection, sql, tuple(sessions))


def read_other_summaries(connection: Connection, agent_id: str, sessions: Sequence[str]) -> list[str]:
    """Read the running summaries of an agent's other sessions; none where no session is forgotten."""
    if not sessions:
        return []
    sql = (
        "SELECT summary FROM session_summary WHERE session_id IN (SELECT id FROM session WHERE agent_id = ?)"
        " AND session_id NOT IN (SELECT value FROM json_each(?))"
    )
    return query.fetch_column(connection, sql, agent_id, list(sessions))


def erase(connection: Connection, agent_id: str, what: Mapping[str, Any], now: str) -> None:
    """Erase everything that an intent names.

    These are the texts of `sessions`, and the replies of models in `replies`, which are sessions as well. For `names`,
    as in the audit, all but the last state is erased. `states` are digests of further states to erase.
    """
    erase_sessions(connection, what["sessions"])
    sql = f"SELECT id FROM job_run WHERE {_OF_SESSIONS} AND state IN {_OPEN}"  # noqa: S608
    for run_id in query.fetch_column(connection, sql, what["sessions"]):
        runs.withdraw(connection, run_id, now, "its session was forgotten")
    erase_replies(connection, [*what["sessions"], *what["replies"]])
    erase_judgements(connection, agent_id)
    # The stored earlier version is not searched text within text: the summary begins from the start.
    sql = "UPDATE session_summary SET earlier = NULL WHERE session_id IN (SELECT id FROM session WHERE agent_id = ?)"
    query.run(connection, sql, agent_id)
    for name in what["names"]:
        audit.erase_states(connection, agent_id, name)
    audit.erase(connection, what["states"])


def erase_replies(connection: Connection, sessions: Sequence[str]) -> None:
    """Erase the replies of models in runs over sessions, and the verdicts on their claims."""
    replied = dict.fromkeys(("reply", "refused", "claims"))
    _set(connection, "job_run", replied, _OF_SESSIONS, tuple(sessions))


def erase_judgements(connection: Connection, agent_id: str) -> None:
    """Erase the claims of runs over several sessions, in any wording, and all verdicts on claims."""
    if _set(connection, "job_run", {"claims": None}, "agent_id = ? AND session_id IS NULL", agent_id):
        query.run(connection, "DELETE FROM verdict WHERE agent_id = ?", agent_id)


def _set(connection: Connection, table: str, values: Mapping[str, object], which: str, *given: object) -> bool:
    """Set columns of rows; return False if the table has none of them, because an old database may lack them."""
    there = texts.list_columns(connection, table)
    known = {name: value for name, value in values.items() if name in there}
    if known:
        sets = ", ".join(f"{name} = ?" for name in known)
        query.run(connection, f"UPDATE {table} SET {sets} WHERE {which}", *known.values(), *given)  # noqa: S608
    return bool(known)


def erase_sessions(connection: Connection, sessions: Sequence[str]) -> None:
    """Erase the texts of the turns of sessions, and their summaries."""
    given = tuple(sessions)
    rows = query.fetch_mappings(connection, f"{_TURNS} WHERE t.{_OF_SESSIONS} AND t.text <> ''", given)
    _keep_keys(connection, ((row, row["text"], "") for row in rows))
    _set(connection, "turn", {"text": "", "withheld": FORGOTTEN}, _OF_SESSIONS, given)
    _set(connection, "session", {"branch": None}, _IS_SESSION, given)
    query.run(connection, f"DELETE FROM session_summary WHERE {_OF_SESSIONS}", given)  # noqa: S608


def erase_known(connection: Connection) -> None:
    """Erase forgotten texts from the turns of a database that was restored from an older copy."""
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


def turn_was_cut(connection: Connection, rowid: int, old: str) -> None:
    """Record that part of a turn's text was removed, so that its record does not restore it."""
    _set(connection, "turn", {"withheld": FORGOTTEN}, "rowid = ?", rowid)
    row = query.run(connection, f"{_TURNS} WHERE t.rowid = ?", rowid).mappings().one()
    _keep_keys(connection, [(row, old, row["text"])])


def _keep_keys(connection: Connection, cuts: Iterable[tuple[RowMapping, str, str]]) -> None:
    """Store the keys of forgotten texts of turns, each given with its text before and after.

    Lines of a NOW file can be recognised only by these keys. A record without its own id becomes another one when its
    bytes are written differently.
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
    """Return the key that identifies a turn's text."""
    return sha256(f"{role}\n{at}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def forgotten_by(connection: Connection, agent_id: str) -> set[str]:
    """Return the keys of all texts that an agent has forgotten."""
    return set(query.fetch_column(connection, "SELECT text_key FROM forgotten_text WHERE agent_id = ?", agent_id))


def read_forgotten(connection: Connection) -> Forgotten:
    """Return how often each forgotten text occurred, for all agents."""
    rows = query.fetch_rows(connection, "SELECT agent_id, session_id, text_key, times FROM forgotten_text")
    found: Forgotten = {}
    for agent_id, session_id, key, times in rows:
        found.setdefault((agent_id, session_id), {})[key] = times
    return found


def copy_forgotten(connection: Connection, told: Forgotten) -> None:
    """Copy what another database had forgotten; existing keys stay."""
    rows = [(session, key, agent, times) for (agent, session), keys in told.items() for key, times in keys.items()]
    query.change_each(connection, f"{_KEEP} DO NOTHING", rows)


def forgotten_of(connection: Connection, session_id: str) -> Counter[str]:
    """Return how often each forgotten text of a session occurred, by its key."""
    rows = query.fetch_rows(connection, "SELECT text_key, times FROM forgotten_text WHERE session_id = ?", session_id)
    return Counter({row[0]: row[1] for row in rows})
