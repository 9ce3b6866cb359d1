"""Store the audit as rows. Entries are appended in the transaction of the change, and read as a stream.

Some objects, such as a watermark or a file, have no row with their last state. For these, `note` takes the state before
the change from the audit itself. So the chain of states has no gap.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from memoryd.database import memories, query
from memoryd.database.reads import AUDIT
from memoryd.ledger import audit, erosion
from memoryd.ledger.audit import AuditEntry, AuditEvent, AuditStamp
from memoryd.ledger.erosion import Drop
from memoryd.ledger.memory import Memory, from_json, to_json
from memoryd.ledger.operation import Change

_INSERT = f"INSERT INTO audit ({AUDIT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608


def append(connection: Connection, events: Sequence[AuditEvent], texts: Mapping[str, str]) -> None:
    """Append events to the audit, and store their states.

    Args:
        connection: a write transaction.
        events: events of one agent, in order.
        texts: the text of each state, by its digest.
    """
    if not events:
        return
    agent_id = events[0].agent_id
    last = query.fetch_text(connection, "SELECT hash FROM audit WHERE agent_id = ? ORDER BY id DESC LIMIT 1", agent_id)
    last_id = query.fetch_number(connection, "SELECT max(id) FROM audit")
    query.change_each(connection, _INSERT, audit.link_events(events, last_hash=last, first_id=last_id + 1))
    query.change_each(connection, "INSERT OR IGNORE INTO content (sha256, text) VALUES (?, ?)", texts.items())


def record(connection: Connection, changes: Sequence[Change], stamp: AuditStamp) -> None:
    """Write changed memories to their rows, and audit the changes."""
    memories.write(connection, (change.after for change in changes))
    append(connection, *audit.events_of(changes, stamp))


def note(connection: Connection, states: Sequence[tuple[str, str, str | None]], stamp: AuditStamp) -> None:
    """Audit changes of objects that are not memories.

    Args:
        connection: a write transaction.
        states: (operation, name of the object, new state) in order; the state is None if the object is gone.
        stamp: who changed the objects, and when.
    """
    events: list[AuditEvent] = []
    texts: dict[str, str] = {}
    lasts: dict[str, str | None] = {}
    for operation, name, state in states:
        before = lasts[name] if name in lasts else last_state(connection, stamp.agent_id, name)
        after = None if state is None else audit.compute_digest(state)
        if state is not None and after is not None:
            texts[after] = state
        events.append(AuditEvent(*stamp, operation, name, before, after))
        lasts[name] = after
    append(connection, events, texts)


def record_redaction(connection: Connection, rowid: int, *, at: str, actor: str) -> None:
    """Audit that the text of a memory was redacted, and erase its earlier states, which have the old text.

    The new state gets a new salt. With the old salt, a guess of the old text could be verified.
    """
    row = query.fetch_mappings(connection, "SELECT * FROM memory WHERE rowid = ?", rowid)[0]
    memory = replace(memories.of_row(row), salt=secrets.token_hex(16))
    state = to_json(memory)
    memories.write(connection, [memory])
    note(connection, [("redact", memory.id, state)], AuditStamp(at, memory.agent_id, actor))
    erase_states(connection, memory.agent_id, memory.id)


def erase_states(connection: Connection, agent_id: str, name: str) -> None:
    """Erase the stored states of an object except the last one."""
    sql = (
        'UPDATE content SET text = NULL WHERE sha256 IS NOT ?1 AND sha256 IN (SELECT "before" FROM audit'
        " WHERE agent_id = ?2 AND memory_id = ?3"
        ' UNION SELECT "after" FROM audit WHERE agent_id = ?2 AND memory_id = ?3)'
    )
    query.run(connection, sql, last_state(connection, agent_id, name), agent_id, name)


def erase(connection: Connection, digests: Sequence[str]) -> None:
    """Erase the stored states that have these digests."""
    sql = "UPDATE content SET text = NULL WHERE sha256 IN (SELECT value FROM json_each(?))"
    query.run(connection, sql, tuple(digests))


def kept_states(connection: Connection, agent_id: str) -> Iterator[tuple[str, str, str]]:
    """Return the stored states of an agent's audit, in order, as (name of the object, digest, text)."""
    sql = (
        'SELECT a.memory_id, c.sha256, c.text FROM audit a JOIN content c ON c.sha256 = a."after"'
        " WHERE a.agent_id = ? AND c.text IS NOT NULL ORDER BY a.id"
    )
    return ((row[0], row[1], row[2]) for row in query.iterate(connection, sql, agent_id))


def last_of(connection: Connection, agent_id: str) -> int:
    """Return the id of an agent's newest audit entry; 0 if there is none."""
    return query.fetch_number(connection, "SELECT max(id) FROM audit WHERE agent_id = ?", agent_id)


def last_state(connection: Connection, agent_id: str, name: str) -> str | None:
    """Return the digest of the last audited state of an object; None if it is not in the audit or has no state."""
    sql = 'SELECT "after" FROM audit WHERE agent_id = ? AND memory_id = ? ORDER BY id DESC LIMIT 1'
    return query.fetch_text(connection, sql, agent_id, name)


def read_entries(connection: Connection, agent_id: str) -> Iterator[AuditEntry]:
    """Return an agent's audit entries, in order. They are read from the database while the caller iterates."""
    rows = query.iterate(connection, f"SELECT {AUDIT} FROM audit WHERE agent_id = ? ORDER BY id", agent_id)  # noqa: S608
    return (AuditEntry(*row) for row in rows)


def make_text_reader(connection: Connection) -> Callable[[str], str | None]:
    """Return a function that maps a digest to its state, or to None if the state was erased or never stored."""
    return lambda sha256: query.fetch_text(connection, "SELECT text FROM content WHERE sha256 = ?", sha256)


def list_drops(connection: Connection, agent_id: str, since: str, *, but: str) -> list[Drop]:
    """Return the losses of an agent's core after `since`, without those by the actor `but` and those by a rollback.

    A replacement of the whole file counts for any actor, because it may leave out memories by mistake. If the state
    before a change was erased, only the end of the memory can be found. It counts with the text after the change.
    """
    sql = (
        "SELECT a.id, a.at, a.memory_id, b.text, n.text FROM memory m CROSS JOIN audit a"
        ' ON a.agent_id = m.agent_id AND a.memory_id = m.id LEFT JOIN content b ON b.sha256 = a."before"'
        " LEFT JOIN content n ON n.sha256 = a.\"after\" WHERE m.agent_id = ? AND m.kind = 'core' AND m.updated_at > ?"
        " AND a.at > ? AND a.\"before\" IS NOT NULL AND a.operation != 'rollback'"
        " AND (a.actor != ? OR a.run_id IN (SELECT id FROM job_run WHERE kind = 'replace'))"
        " AND n.text IS NOT NULL AND json_extract(b.text, '$.content_hash', '$.deleted_at')"
        " IS NOT json_extract(n.text, '$.content_hash', '$.deleted_at') ORDER BY a.id"
    )
    found = []
    for entry_id, at, memory_id, before, text in query.fetch_rows(connection, sql, agent_id, since, since, but):
        after = from_json(text)
        was = replace(after, deleted_at=None) if before is None else from_json(before)
        heirs = erosion.list_successors(memory_id, lambda one: _state_after(connection, agent_id, one, entry_id))  # noqa: B023
        drop = erosion.find_drop(after.deleted_at or at, was, after, heirs)
        found += [] if drop is None else [drop]
    return found


def _state_after(connection: Connection, agent_id: str, memory_id: str, entry_id: int) -> Memory | None:
    """Return a memory in its state right after an audit entry.

    If that state was erased, return the last state. None means that the memory does not exist.
    """
    sql = (
        'SELECT coalesce(b.text, n.text) FROM audit a LEFT JOIN content b ON b.sha256 = a."before"'
        ' LEFT JOIN content n ON n.sha256 = a."after" WHERE a.agent_id = ? AND a.memory_id = ? AND a.id > ?'
        " ORDER BY a.id LIMIT 1"
    )
    state = query.fetch_text(connection, sql, agent_id, memory_id, entry_id)
    if state is not None:
        return from_json(state)
    return memories.by_ids(connection, agent_id, [memory_id]).get(memory_id)
