"""What a session taught about the user goes into the fact store and the profile, in one transaction, guards permitting.

The store is read in the transaction that writes it: what others stored meanwhile is seen, and what says the same
letter by letter stays one fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoryd.database import audit, memories, profile
from memoryd.engine import gate
from memoryd.ledger import forgetting
from memoryd.ledger.facts import NewFact, Store, fact_of
from memoryd.ledger.guards import Door, Guard, Refusal
from memoryd.ledger.memory import Ending, Kind, draw_id, hash_of
from memoryd.ledger.operation import Delete
from memoryd.ledger.profile import Entry, Section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from memoryd.jobs.job import EditFacts, LearnedFact
    from memoryd.ledger.facts import Created, Limits
    from memoryd.ledger.guards import Limits as GuardLimits
    from memoryd.ledger.memory import Memory, Source
    from memoryd.ledger.operation import Change


@dataclass(frozen=True, slots=True)
class Hand:
    """What facts are written with."""

    now: str
    new_hex: Callable[[], str]
    limits: Limits
    guards: GuardLimits
    actor: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Carried:
    """What was done, what the guards refused, and which facts went because the store was full."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    evicted: tuple[str, ...]


def carry_out(
    connection: Connection,
    agent_id: str,
    edit: EditFacts,
    cited: Callable[[Iterable[int]], tuple[Source, ...]],
    hand: Hand,
) -> Carried:
    """Write facts and sections of the profile, and audit them."""
    live = {memory.id: memory for memory in memories.live(connection, agent_id, Kind.FACT)}
    graves = memories.tombstones(connection, agent_id)
    wanted, refusals = _wanted(edit.learned, live, graves)
    going = {one for learned in wanted for one in learned.replaces} | set(edit.forgotten)
    store = Store(fact_of(memory) for memory in live.values() if memory.id not in going or memory.constitutional)
    news = [NewFact(one.content, one.category, one.confidence, cited(one.sources), note=one.note) for one in wanted]
    created = store.create(
        news,
        hand.limits,
        hand.now,
        lambda taken: draw_id(Kind.FACT, hand.new_hex, taken),
        memories.Taken(connection),
        {memory.id for memory in live.values() if memory.constitutional},
    )
    ends = _ends(edit, wanted, created, live)
    passed = gate.judge(
        connection,
        agent_id,
        [*created.operations, *ends],
        door=Door.EXTRACTION,
        now=hand.now,
        new_hex=hand.new_hex,
        limits=hand.guards,
        said_anew={hash_of(one.content) for one in wanted if one.said_anew},
    )
    audit.record(connection, passed.changes, at=hand.now, agent_id=agent_id, actor=hand.actor, run_id=hand.run_id)
    _write_profile(connection, agent_id, edit, cited, hand)
    done = {change.memory_id for change in passed.changes}
    evicted = tuple(fact.id for fact in created.evicted if fact.id in done)
    return Carried(passed.changes, (*refusals, *passed.refusals), evicted)


def _wanted(
    learned: Sequence[LearnedFact], live: dict[str, Memory], graves: Mapping[str, str]
) -> tuple[list[LearnedFact], list[Refusal]]:
    """Set aside what the guards would refuse, before a full store lets a fact go for it."""
    wanted: list[LearnedFact] = []
    refusals: list[Refusal] = []
    for one in learned:
        protected = tuple(old for old in one.replaces if old in live and live[old].constitutional)
        if forgetting.forgotten_since(one.content, graves) is not None and not one.said_anew:
            refusals.append(Refusal(Guard.TOMBSTONE, (), "it was forgotten on purpose"))
        elif protected:
            refusals.append(Refusal(Guard.CONSTITUTIONAL, protected, "the memory is protected"))
        else:
            wanted.append(one)
    return wanted, refusals


def _ends(edit: EditFacts, wanted: Sequence[LearnedFact], created: Created, live: dict[str, Memory]) -> list[Delete]:
    """The ends of facts that were replaced or taken back; one that has ended meanwhile is left alone."""
    evicted = {fact.id for fact in created.evicted}
    ends: dict[str, Delete] = {}
    for learned, outcome in zip(wanted, created.outcomes, strict=True):
        if outcome.fact is None or outcome.fact.id in evicted:
            continue
        for old in learned.replaces:
            if old in live and old != outcome.fact.id:
                ends.setdefault(old, Delete(old, Ending.SUPERSEDED, (outcome.fact.id,)))
    for old in edit.forgotten:
        if old in live and old not in evicted:
            ends.setdefault(old, Delete(old, Ending.DELETED))
    return list(ends.values())


def _write_profile(
    connection: Connection,
    agent_id: str,
    edit: EditFacts,
    cited: Callable[[Iterable[int]], tuple[Source, ...]],
    hand: Hand,
) -> None:
    states = [
        (
            "profile",
            *profile.write(
                connection,
                agent_id,
                Section(one.section),
                Entry(one.text, hand.now),
                sources=cited(one.sources),
                run_id=hand.run_id,
                new_hex=hand.new_hex,
            ),
        )
        for one in edit.sections
    ]
    audit.note(connection, states, at=hand.now, agent_id=agent_id, actor=hand.actor, run_id=hand.run_id)
