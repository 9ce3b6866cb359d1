"""Write the facts and profile sections that a job learned from a session, as far as the guards allow.

One transaction reads the store and writes, so it includes facts that others have just stored. Equal texts stay one
fact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from memoryd.changing import guard_check
from memoryd.changing.guard_check import ACTOR
from memoryd.changing.writer import Writer
from memoryd.database import audit, memories, profile, turns
from memoryd.database.runs import Run
from memoryd.jobs.job import EditFacts, LearnedFact
from memoryd.ledger import forgetting
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.facts import FactBatch, NewFact, ProfileEntry, ProfileSection, Store, fact_of
from memoryd.ledger.guards import Caller, Guard, Refusal
from memoryd.ledger.memory import Ending, Memory, MemoryKind, hash_of
from memoryd.ledger.operation import Change, Delete


@dataclass(frozen=True, slots=True)
class LearnedResult:
    """Hold the written changes, the refusals, and the ids of facts that ended because the store was full."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    evicted: tuple[str, ...]


def carry_out(connection: Connection, writer: Writer, run: Run, edit: EditFacts) -> LearnedResult:
    """Write the facts and profile sections of an edit, and audit them; return what was written and refused."""
    agent_id, now = run.agent_id, writer.now()
    cited = partial(turns.build_sources, connection, edit.session_id)
    live = {memory.id: memory for memory in memories.read_live(connection, agent_id, MemoryKind.FACT)}
    wanted, refusals = _drop_refused(edit.learned, live, memories.read_tombstones(connection, agent_id))
    going = {one for learned in wanted for one in learned.replaces} | set(edit.forgotten)
    store = Store(fact_of(memory) for memory in live.values() if memory.id not in going or memory.constitutional)
    news = [NewFact(one.content, one.category, one.confidence, cited(one.sources), note=one.note) for one in wanted]
    protected = {memory.id for memory in live.values() if memory.constitutional}
    created = store.create(news, writer.facts, now, writer.new_id, memories.TakenIds(connection), protected)
    passed = guard_check.judge(
        connection,
        writer,
        agent_id,
        [*created.operations, *_ends(edit, wanted, created, live)],
        Caller.EXTRACTION,
        said_anew={hash_of(one.content) for one in wanted if one.said_anew},
    )
    stamp = AuditStamp(now, agent_id, ACTOR, run.id)
    audit.record(connection, passed.changes, stamp)
    for one in edit.sections:
        section, entry = ProfileSection(one.section), ProfileEntry(one.text, now)
        profile.write(connection, stamp, section, entry, cited(one.sources), writer.new_id)
    done = {change.memory_id for change in passed.changes}
    evicted = tuple(fact.id for fact in created.evicted if fact.id in done)
    return LearnedResult(passed.changes, (*refusals, *passed.refusals), evicted)


def _drop_refused(
    learned: Sequence[LearnedFact], live: dict[str, Memory], graves: Mapping[str, str]
) -> tuple[list[LearnedFact], list[Refusal]]:
    """Return the facts that may be stored, and the refusals of the others.

    This comes before the store is filled, so that no fact is ended to make room for a refused one.
    """
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


def _ends(edit: EditFacts, wanted: Sequence[LearnedFact], created: FactBatch, live: dict[str, Memory]) -> list[Delete]:
    """Return the deletions of replaced and retracted facts that have not ended yet."""
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
