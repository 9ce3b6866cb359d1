"""Audit changes: record the state before and after each change, in one chain of hashes for each agent.

An entry holds only digests of states. The states themselves are in another table, so that a text can be erased without
breaking the chain. The hash of an entry covers the hash of the preceding entry. So nobody can change, drop, insert or
move an entry without a mismatch in the next entry (the linked time-stamps of Haber and Stornetta, 1991).

`memory_id` names the changed object. For a memory it is the id; for any other object it begins with a prefix below.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from memoryd.ledger.memory import dump_canonical, to_json
from memoryd.ledger.operation import Change

# Prefixes for names of objects that are not memories.
WATERMARK = "watermark:"  # SESSION:CONSUMER
FILE = "file:"  # the path relative to the workspace
PROFILE = "profile:"  # the name of the section
ACCESS = "access:"  # a refused request, as KIND:REQUEST
GRANT = "grant:"  # the id of a person's permission to read
SESSION = "session:"  # the id of a forgotten session
PROPOSAL = "proposal:"  # the run of a rejected proposal
RUN = "run:"  # the id of a run that was rolled back


class AuditStamp(NamedTuple):
    """Hold the author, the agent and the time of a change.

    `run_id` is None for an edit by hand or a request of a person.
    """

    at: str  # UTC, ISO 8601 with Z
    agent_id: str
    actor: str
    run_id: str | None = None


class AuditEvent(NamedTuple):
    """Hold one change for the audit; `before` and `after` are digests of states, or None if there is no state."""

    at: str  # UTC, ISO 8601 with Z
    agent_id: str
    actor: str
    run_id: str | None
    operation: str
    memory_id: str
    before: str | None
    after: str | None


class AuditEntry(NamedTuple):
    """Hold one row of the audit; a NamedTuple for speed, because a check reads hundreds of thousands of rows."""

    id: int
    at: str
    agent_id: str
    actor: str
    run_id: str | None
    operation: str
    memory_id: str
    before: str | None
    after: str | None
    prev_hash: str
    hash: str


class ErasedState(Enum):
    """Mark a state whose text was erased."""

    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Problem:
    """Report an entry of the audit that was changed after it was written, or that does not fit the chain."""

    entry_id: int
    memory_id: str
    what: str


def make_genesis(agent_id: str) -> str:
    """Return the hash that an agent's first entry links to."""
    return compute_digest(f"memoryd audit of {agent_id}")


def compute_digest(text: str) -> str:
    """Return the hex sha256 of a state."""
    return hashlib.sha256(text.encode()).hexdigest()


def name_watermark(session_id: str, consumer: str) -> str:
    """Return the name of a watermark in the audit."""
    return f"{WATERMARK}{session_id}:{consumer}"


def events_of(changes: Iterable[Change], stamp: AuditStamp) -> tuple[list[AuditEvent], dict[str, str]]:
    """Return the audit events of changes of memories, in order, and the text of each state by its digest."""
    events: list[AuditEvent] = []
    texts: dict[str, str] = {}
    for change in changes:
        states = [None if one is None else to_json(one) for one in (change.before, change.after)]
        sides = [None if one is None else compute_digest(one) for one in states]
        texts |= {side: one for side, one in zip(sides, states, strict=True) if side is not None and one is not None}
        events.append(AuditEvent(*stamp, change.operation, change.memory_id, *sides))
    return events, texts


# ── the chain ────────────────────────────────────────────────────────────────────────────────────────────────────


def link_events(events: Iterable[AuditEvent], *, last_hash: str | None, first_id: int) -> Iterator[AuditEntry]:
    """Yield the events of one agent as entries that continue its chain.

    Args:
        events: the events of one agent, in order.
        last_hash: the hash of the agent's last entry; None if there is no entry.
        first_id: the id of the first new entry; it must be larger than all ids of the agent's entries.
    """
    previous = last_hash
    for number, event in enumerate(events, first_id):
        before = make_genesis(event.agent_id) if previous is None else previous
        previous = _hash(before, event)
        yield AuditEntry(number, *event, before, previous)


def _hash(prev_hash: str, event: Sequence[str | None]) -> str:
    return compute_digest(dump_canonical([prev_hash, *event]))


def check(entries: Iterable[AuditEntry]) -> Iterator[Problem]:
    """Yield the faults of the chain, in the order of the entries.

    An entry is faulty if its hash does not match its content, or if it does not link to the preceding entry. It is also
    faulty if its `before` is not the last state of the same memory. This check cannot detect missing entries at the
    end. They show when the replayed states are compared with the live rows.

    Args:
        entries: the entries of one agent or of several, ordered by id.
    """
    hashes: dict[str, str] = {}
    lasts: dict[tuple[str, str], str | None] = {}
    for entry in entries:
        prev = hashes.get(entry.agent_id) or make_genesis(entry.agent_id)
        if entry.hash != _hash(entry.prev_hash, entry[1:9]):
            yield Problem(entry.id, entry.memory_id, "the entry was changed: its hash does not match it")
        if entry.prev_hash != prev:
            yield Problem(entry.id, entry.memory_id, "the entry before it was changed, removed or inserted")
        key = (entry.agent_id, entry.memory_id)
        if entry.before != lasts.get(key, entry.before):
            yield Problem(entry.id, entry.memory_id, "its state before is not the last recorded state")
        hashes[entry.agent_id] = entry.hash
        lasts[key] = entry.after


def replay(entries: Iterable[AuditEntry], texts: Callable[[str], str | None]) -> dict[str, str | ErasedState | None]:
    """Return the last audited state of each object of one agent, by `memory_id`.

    The state is None for an object that no longer exists.

    Args:
        entries: the entries of one agent, ordered by id.
        texts: returns the state with a digest, or None if it is erased; it is called once for each object.
    """
    lasts = {entry.memory_id: entry.after for entry in entries}
    return {memory_id: None if last is None else texts(last) or ErasedState.ERASED for memory_id, last in lasts.items()}


def dump_state(**values: str | int | None) -> str:
    """Return the canonical JSON of the state of an object that is not a memory: a watermark, a file, a run."""
    return dump_canonical(values)


def values_of(text: str) -> dict[str, str | int | None]:
    """Return the values that were passed to `dump_state`."""
    values: dict[str, str | int | None] = json.loads(text)
    return values
