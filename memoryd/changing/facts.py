"""Let the owner of an agent create, change, delete, export and import its facts.

Each change is one transaction that reads the store, checks the change and writes it. So two writers cannot store the
same fact twice or exceed the limit. A change is a run of kind `edit`, with counts in its report but no content. It can
be rolled back like any other run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from memoryd.changing import guard_check
from memoryd.changing.ledger_runs import EDIT
from memoryd.changing.writer import Writer
from memoryd.clock import moment_of
from memoryd.database import audit, memories, profile, runs, sqlite
from memoryd.errors import StateError
from memoryd.files.log import Log
from memoryd.files.workspace import lock_workspace
from memoryd.ledger import portable
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.facts import Fact, FactBatch, NewFact, ProfileEntry, ProfileSection, Store, fact_of
from memoryd.ledger.guards import Caller
from memoryd.ledger.memory import MemoryKind
from memoryd.ledger.operation import Operation


@dataclass(frozen=True, slots=True)
class FactStore:
    """Give access to the facts of one agent, also while a daemon and other writers run."""

    writer: Writer
    agent_id: str
    log: Log  # logs the ids of facts that a full store ended, and the reasons why facts were not stored

    def create(self, batch: Sequence[NewFact]) -> FactBatch:
        """Store facts, all or nothing; return the outcome of each, and the facts that ended because the store was full.

        Raises:
            ValueError: a content is blank, a category unknown or a confidence outside 0..1; nothing is stored.
            StateError: a run of this agent has begun to change files and must be completed first.
        """
        return self._create(self._clean(batch), {})

    def update(
        self, fact_id: str, content: str | None = None, category: str | None = None, confidence: float | None = None
    ) -> Fact:
        """Change the fields of a fact that are not None; return the fact as stored.

        Raises:
            KeyError: there is no such fact.
            ValueError: a value is invalid, or another fact already has the new content.
            RefusedError: the fact is protected.
            StateError: a run of this agent has begun to change files and must be completed first.
        """
        text = self.writer.redact([content])[0] if isinstance(content, str) else content
        with self._begin_write() as connection:
            operation, after = _store(connection, self.agent_id).update(fact_id, text, category, confidence)
            if operation is not None:
                self._write(connection, [operation], {"updated": 1}, self.writer.now())
        return after

    def delete(self, fact_id: str) -> None:
        """Delete a fact; a job stores it again only if the user repeats it.

        Raises:
            KeyError: there is no such fact.
            RefusedError: the fact is protected.
            StateError: a run of this agent has begun to change files and must be completed first.
        """
        with self._begin_write() as connection:
            operation = _store(connection, self.agent_id).delete(fact_id)
            self._write(connection, [operation], {"deleted": 1}, self.writer.now())

    def write_section(self, section: ProfileSection, text: str) -> None:
        """Write a section of the profile for the owner; an empty text removes it."""
        (clean,) = self.writer.redact([text.strip()])
        now = self.writer.now()
        with self._begin_write() as connection:
            stamp = self._write(connection, (), {"sections": 1}, now)
            if clean or section in profile.read(connection, self.agent_id):
                entry = ProfileEntry(clean, now) if clean else None
                profile.write(connection, stamp, section, entry, (), self.writer.new_id)

    def dump(self, *, deerflow: bool = False) -> str:
        """Return the facts and the profile as the text of a file, in memoryd's form or as DeerFlow's `memory.json`."""
        with sqlite.begin_read(self.writer.engine) as connection:
            facts = _store(connection, self.agent_id).all()
            held_profile = profile.read(connection, self.agent_id)
        if deerflow:
            return portable.dump_deerflow(facts, held_profile, self.writer.now())
        return portable.dump(facts, held_profile)

    def bring(self, text: str, where: str = "") -> FactBatch:
        """Import the text of a file in either format, all or nothing.

        A profile section that has a text is not replaced.

        Raises:
            MalformedError: the file is malformed.
        """
        brought = portable.load(text, where)
        texts = self.writer.redact([entry.text for entry in brought.profile.values()])
        sections = {
            section: replace(entry, text=clean)
            for (section, entry), clean in zip(brought.profile.items(), texts, strict=True)
        }
        return self._create(self._clean(brought.facts), sections)

    # --- writing --------------------------------------------------------------------------------------------------

    def _create(self, batch: Sequence[NewFact], sections: Mapping[ProfileSection, ProfileEntry]) -> FactBatch:
        with self._begin_write() as connection:
            now = self.writer.now()
            live = memories.read_live(connection, self.agent_id, MemoryKind.FACT)
            store, taken = Store(map(fact_of, live)), memories.TakenIds(connection)
            protected = {memory.id for memory in live if memory.constitutional}
            created = store.create(batch, self.writer.facts, now, self.writer.new_id, taken, protected)
            there = profile.read(connection, self.agent_id)
            new = {section: entry for section, entry in sections.items() if section not in there}
            counts = {"created": sum(one.created for one in created.outcomes), "evicted": len(created.evicted)}
            if created.operations or new:
                stamp = self._write(connection, created.operations, counts | {"sections": len(new)}, now)
                for section, entry in new.items():
                    dated = ProfileEntry(entry.text, entry.updated_at or now)
                    profile.write(connection, stamp, section, dated, (), self.writer.new_id)
        for outcome in created.outcomes:
            if outcome.why is not None:
                same = outcome.fact.id if outcome.fact is not None else None
                self.log.info("fact not stored", agent=self.agent_id, why=outcome.why, same=same)
        for fact in created.evicted:
            self.log.info("fact evicted", agent=self.agent_id, fact=fact.id)
        return replace(created, sections=tuple(new), offered=len(sections))

    def _write(
        self, connection: Connection, operations: Sequence[Operation], counts: Mapping[str, int], now: str
    ) -> AuditStamp:
        """Check operations and write them as a finished run of the owner; return its stamp for the audit.

        Raises:
            RefusedError: a guard refuses an operation.
        """
        writer = replace(self.writer, now=lambda: now)  # the stored time must be the one that the caller gets
        passed = guard_check.judge(connection, writer, self.agent_id, operations, Caller.OWNER)
        guard_check.require_passed(passed)
        run_id = runs.new_run_id(moment_of(now))
        receipt = {"facts": {name: count for name, count in counts.items() if count}}
        runs.note_done(connection, run_id, EDIT, self.agent_id, actor=guard_check.HUMAN, now=now, receipt=receipt)
        stamp = AuditStamp(now, self.agent_id, guard_check.HUMAN, run_id)
        audit.record(connection, passed.changes, stamp)
        return stamp

    @contextmanager
    def _begin_write(self) -> Iterator[Connection]:
        """Begin a write transaction while no run is between its plan and its rows.

        Raises:
            StateError: a run of this agent has begun to change files and must be completed first.
        """
        with lock_workspace(self.writer.workspace), sqlite.begin_write(self.writer.engine) as connection:
            if runs.agent_has_intent(connection, self.agent_id):
                raise StateError(
                    "the files of a run are not recovered yet",
                    self.agent_id,
                    "run memoryd status to see why, then try again",
                )
            yield connection

    def _clean(self, batch: Sequence[NewFact]) -> list[NewFact]:
        clean = iter(self.writer.redact([one.content for one in batch if isinstance(one.content, str)]))
        batch = [replace(one, content=next(clean)) if isinstance(one.content, str) else one for one in batch]
        sources = self.writer.redact([one.source or "" for one in batch])
        return [replace(one, source=source or None) for one, source in zip(batch, sources, strict=True)]


def _store(connection: Connection, agent_id: str) -> Store:
    return Store(map(fact_of, memories.read_live(connection, agent_id, MemoryKind.FACT)))
