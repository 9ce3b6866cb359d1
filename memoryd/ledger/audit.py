"""The audit: what changed, before and after, as a chain of hashes for each agent.

An entry holds digests only; the states they are of lie elsewhere and may be erased without breaking the chain. The
hash of an entry covers the hash of the one before it, so that no entry can be changed, dropped, put in or moved
without the next one telling (the linked time-stamps of Haber and Stornetta, 1991).

What is changed is named by `memory_id`: a memory by its id, a watermark as `watermark:SESSION:CONSUMER`, a file as
`file:PATH`, a section of the profile as `profile:SECTION`, a permission to read as `grant:ID`, a run that was rolled
back as `run:ID`, a proposal that was rejected as `proposal:RUN`, a session that was forgotten as `session:ID`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from memoryd.ledger.memory import canonical, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memoryd.ledger.operation import Change


class Event(NamedTuple):
    """A change to be audited. `before` and `after` are digests of states; None where there is no such state."""

    at: str  # UTC, ISO 8601 with Z
    agent_id: str
    actor: str
    run_id: str | None
    operation: str
    memory_id: str
    before: str | None
    after: str | None


class Entry(NamedTuple):
    """One row of the audit. A NamedTuple, since checking reads hundreds of thousands."""

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


class Erased(Enum):
    """A state whose text is gone."""

    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Problem:
    """An entry that cannot be what was written."""

    entry_id: int
    memory_id: str
    what: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """Where the audit ends.

    Attributes:
        states: by `memory_id`, the last state; None where it is gone again, `Erased` where its text is erased.
        altered: digests whose kept text is not what was digested.
    """

    states: dict[str, str | Erased | None] = field(default_factory=dict)
    altered: tuple[str, ...] = ()


def genesis(agent_id: str) -> str:
    """What the first entry of an agent has as the hash before it."""
    return digest(f"memoryd audit of {agent_id}")


def digest(text: str) -> str:
    """Hex sha256 of a state."""
    return hashlib.sha256(text.encode()).hexdigest()


def watermark(session_id: str, consumer: str) -> str:
    """How the audit names a watermark."""
    return f"watermark:{session_id}:{consumer}"


def file(path: str) -> str:
    """How the audit names a file; the path is relative to the workspace."""
    return f"file:{path}"


def profile(section: str) -> str:
    """How the audit names a section of the profile."""
    return f"profile:{section}"


def grant(grant_id: str) -> str:
    """How the audit names a person's permission to read."""
    return f"grant:{grant_id}"


def session(session_id: str) -> str:
    """How the audit names a session that was forgotten."""
    return f"session:{session_id}"


def rejection(run_id: str) -> str:
    """How the audit names the fact that what a run proposed was rejected."""
    return f"proposal:{run_id}"


def rolled_back(run_id: str) -> str:
    """How the audit names the fact that a run was rolled back."""
    return f"run:{run_id}"


def event_of(
    *,
    at: str,
    agent_id: str,
    actor: str,
    run_id: str | None,
    operation: str,
    memory_id: str,
    before: str | None,
    after: str | None,
) -> tuple[Event, dict[str, str]]:
    """The event of a change between two states, and the states by their digests, to be kept."""
    texts = {digest(text): text for text in (before, after) if text is not None}
    sides = [None if text is None else digest(text) for text in (before, after)]
    return Event(at, agent_id, actor, run_id, operation, memory_id, sides[0], sides[1]), texts


def events_of(
    changes: Iterable[Change], *, at: str, agent_id: str, actor: str, run_id: str | None
) -> tuple[list[Event], dict[str, str]]:
    """The events of changes of memories in order, and all their states by digest."""
    events: list[Event] = []
    texts: dict[str, str] = {}
    for change in changes:
        event, states = event_of(
            at=at,
            agent_id=agent_id,
            actor=actor,
            run_id=run_id,
            operation=change.operation,
            memory_id=change.memory_id,
            before=None if change.before is None else to_json(change.before),
            after=to_json(change.after),
        )
        events.append(event)
        texts.update(states)
    return events, texts


# ── the chain ────────────────────────────────────────────────────────────────────────────────────────────────────


def link(events: Iterable[Event], *, last_hash: str | None, first_id: int) -> Iterator[Entry]:
    """Events of one agent as entries that go on with its chain.

    Args:
        events: in order, all of one agent.
        last_hash: of the agent's last entry; None where it has none.
        first_id: id of the first new entry; the ids of one agent's entries only ever grow.
    """
    previous = last_hash
    for number, event in enumerate(events, first_id):
        before = genesis(event.agent_id) if previous is None else previous
        previous = _hash(before, event)
        yield Entry(number, *event, before, previous)


def _hash(prev_hash: str, event: Sequence[str | None]) -> str:
    return digest(canonical([prev_hash, *event]))


def check(entries: Iterable[Entry]) -> Iterator[Problem]:
    """What is wrong with the chain: the first problem lies at the first bad entry.

    Each entry whose own hash is wrong is named, each that does not follow from the one before it, and each whose
    `before` is not what the same memory was left as. An end that was cut off cannot be seen here; it shows where the
    replayed states are compared with the live rows.

    Args:
        entries: by id, of one agent or of several mixed.
    """
    hashes: dict[str, str] = {}
    lasts: dict[tuple[str, str], str | None] = {}
    for entry in entries:
        prev = hashes.get(entry.agent_id) or genesis(entry.agent_id)
        if entry.hash != _hash(entry.prev_hash, entry[1:9]):
            yield Problem(entry.id, entry.memory_id, "the entry is not what was written: its hash does not fit it")
        if entry.prev_hash != prev:
            yield Problem(entry.id, entry.memory_id, "the entry before it was changed, dropped or put in")
        key = (entry.agent_id, entry.memory_id)
        if entry.before != lasts.get(key, entry.before):
            yield Problem(entry.id, entry.memory_id, "its state before is not the one it was left in")
        hashes[entry.agent_id] = entry.hash
        lasts[key] = entry.after


def replay(entries: Iterable[Entry], texts: Callable[[str], str | None]) -> Replayed:
    """The states that the audit of one agent leads to.

    Args:
        entries: of one agent, by id.
        texts: gives the state of a digest; None where it is erased. Asked once for each last state.
    """
    lasts = {entry.memory_id: entry.after for entry in entries}
    states: dict[str, str | Erased | None] = {}
    altered: list[str] = []
    for memory_id, last in lasts.items():
        text = None if last is None else texts(last)
        if last is not None and text is not None and digest(text) != last:
            altered.append(last)
        states[memory_id] = text if last is None or text is not None else Erased.ERASED
    return Replayed(states, tuple(altered))


def state(**values: str | int | None) -> str:
    """The canonical state of what is no memory: a watermark, a file, a run."""
    return canonical(values)


def values_of(text: str) -> dict[str, str | int | None]:
    """What `state` was made from."""
    values: dict[str, str | int | None] = json.loads(text)
    return values
