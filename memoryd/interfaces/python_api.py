"""The Python door: what an agent remembers, for programs. Imported when `memoryd.Memory` is first used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from memoryd import config
from memoryd.database import memories, reads
from memoryd.errors import ConfigError, NotFoundError
from memoryd.finding.excerpt import LineRange
from memoryd.finding.recall import LIMIT, Narrowing
from memoryd.jobs import chat as compression
from memoryd.ledger import memory
from memoryd.ledger.facts import Category, NewFact, Store, fact_of
from memoryd.requests import (
    access,
    context,
    flushing,
    forgetting,
    jobs_by_hand,
    memory_changes,
    opening,
    searching,
    waiting,
)
from memoryd.transcripts import chat
from memoryd.worker.client import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from memoryd.changing.facts import FactImport
    from memoryd.config import Agent, Settings
    from memoryd.database.reads import DatabaseReader
    from memoryd.finding.excerpt import Excerpt
    from memoryd.finding.recall import Hit
    from memoryd.ledger.facts import Fact, FactBatch, FactOutcome
    from memoryd.recall.injection import Injection
    from memoryd.requests.flushing import FlushResult


@dataclass(frozen=True, slots=True)
class DreamResult:
    """What became of a dream. Holds nothing of what it says."""

    run: str
    # As `memoryd job show` has it: `succeeded`; `skipped` where nothing is new; `declined` where the guards let nothing
    # of it through; any other says that memoryd tries again, or that a person must act.
    state: str
    why: str | None  # the reason the run gives, or its error
    receipt: Mapping[str, Any]  # counts, files, refusals


class Memory:
    """The memory of the agent that works in a folder.

        memory = memoryd.Memory("~/agent")
        memory.facts.add("Prefers trains to planes.", "preference", 0.9)
        for fact in memory.facts.search("trains"): ...

    Works beside a running daemon; without one each change takes the daemon's lock for its moment. Who may see content
    is the same as on the command line: of an open agent its owner, of a siloed one nobody but under a grant; a read by
    anybody else is a RefusedError.
    """

    def __init__(self, workspace: str | os.PathLike[str], config_file: str | os.PathLike[str] | None = None) -> None:
        """Find the agent in the configuration.

        Args:
            workspace: the agent's folder.
            config_file: the configuration; by default it is found as the command line finds it.

        Raises:
            ConfigError: there is no configuration, or it is not what it should be.
            NotFoundError: no agent of it works in this folder.
        """
        folder = Path(workspace).expanduser().resolve()
        given = None if config_file is None else Path(config_file).expanduser()
        user = Path(platformdirs.user_config_dir("memoryd"))
        self._settings: Settings = config.load(config.find(given, os.environ, Path.cwd(), user))
        found = [agent for agent in self._settings.agents if agent.workspace.resolve() == folder]
        if not found:
            hint = f"name it in {self._settings.source}"
            raise NotFoundError("no agent works in this folder", str(folder), hint)
        self._agent: Agent = found[0]
        self.facts = MemoryFacts(self._settings, self._agent)
        self.core = MemoryCore(self._settings, self._agent)

    def flush(
        self, messages: Sequence[Mapping[str, Any]], on_summary: Callable[[str], object] | None = None
    ) -> FlushResult:
        """Record messages as a session of the agent, without their secrets, and let it sleep; waits for it.

        What was flushed before is known again: the same messages once more change nothing, a list that has grown adds
        what is new, also behind what `compress` has left of it. Any other list is a session of its own.

        Args:
            messages: as a chat API takes them, `{"role": …, "content": …}`.
            on_summary: called once with the text of each daily block that is new. What it raises undoes nothing: it is
                warned of, and is among the `errors` of what is returned.

        Raises:
            ValueError: a message is none.
            RefusedError: the agent is not enabled; or `on_summary` is given and content is not for whoever runs this.
            StateError: the messages could not be scanned for secrets, and are not kept; or they are recorded and could
                not be read yet.
        """
        checked = chat.check(messages)
        if on_summary is not None:
            access.require(self._settings, self._agent, "python: flush")
        return flushing.flush(self._settings, self._agent, checked, on_summary)

    def compress(
        self,
        messages: Sequence[Mapping[str, Any]],
        budget: int,
        strategy: str = "hybrid",
        *,
        summary: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the messages that stand for a list within a budget, as a chat API takes them. Stores nothing.

        Their order stays, and so do system messages. The newest `sleep.keep_recent` come first; a tool's call and its
        results stay or go together, and results without their call go.

        Args:
            messages: as a chat API takes them, `{"role": …, "content": …}`; they are not changed.
            budget: tokens, counted with tiktoken's o200k_base, with four more for each message.
            strategy: `sliding-window` (the newest, without a gap), `progressive-summary` (only `sleep.keep_recent`,
                with the summary for the rest), `importance-based` (what weighs most for its length), or `hybrid`.
            summary: what stands for the messages that go, such as the texts that `flush` tells; as much of it as fits
                half of the room begins the list, as a message of the system's.

        Raises:
            ValueError: a message is none, the strategy is none of the four, or the budget is no positive number or less
                than the system messages alone.
        """
        with Worker(self._settings.state_dir) as worker:
            return compression.compress(
                messages,
                budget,
                strategy,
                self._settings.sleep.keep_recent,
                summary,
                lambda texts: worker.count(texts).tokens,
            )

    def deep_dream(self, lookback_days: int | None = None, *, force: bool = False) -> DreamResult:
        """Consolidate the core and the daily files into a new core; waits for it.

        Live sessions sleep first, so that their day is told.

        Args:
            lookback_days: so many calendar days, ending today; by default `dream.lookback_days`.
            force: dream though the daily files say nothing new since the last dream.

        Raises:
            ValueError: the number of days is less than one.
        """
        if lookback_days is not None and lookback_days < 1:
            raise ValueError(f"lookback_days is {lookback_days}: one day, today, is the least")
        asked = jobs_by_hand.JobRequest(force=force, lookback_days=lookback_days)
        row = jobs_by_hand.run_job(self._settings, "dream", lambda: self._agent.id, asked)[0]
        return DreamResult(row["id"], row["state"], row["error"] or row["why"], row["receipt"])

    def forget(self, target: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Erase a memory, or all that a session said, wherever memoryd has put it; there is no way back.

        Args:
            target: the id of a memory or a session, or a beginning that no other has.
            dry_run: only tell what it would come to.

        Returns:
            What `memoryd forget --json` tells: ids, reasons and counts, never a text.

        Raises:
            NotFoundError: this agent has none of this id.
            RefusedError: what would have to go is protected.
        """
        _, options = forgetting.find_target(self._settings, target, lambda _: self._agent)
        if dry_run:
            return forgetting.planned_forgetting(self._settings, self._agent, options)
        return forgetting.describe_forgotten(
            waiting.require_accepted(forgetting.forget(self._settings, self._agent.id, options))
        )

    def search(
        self,
        query: str,
        *,
        tier: str | None = None,
        tags: Iterable[str] = (),
        after: date | None = None,
        before: date | None = None,
        limit: int = LIMIT,
    ) -> list[Hit]:
        """Return what is remembered that a query is about, the most relevant first.

        Args:
            query: any text: words, `"phrases"`, `prefix*`, names such as `snake_case`.
            tier: core, daily, recent, archive, fact or session; by default all.
            tags: all of which a hit has: of a memory, of a file's front matter, or `#so` in its text.
            after: not older than this day.
            before: not younger than this day.
            limit: hits at most, 200 being the most there are.

        Raises:
            ConfigError: there is no word in the query, no such tier, the limit is none, or `after` and `before` are no
                days (`datetime.date`) or not in their order.
        """
        narrowing = Narrowing(tier, frozenset(tags), after, before, limit)
        return searching.search(self._settings, self._agent, query, narrowing, "python: search")

    def get(self, path: str, first: int = 1, lines: int | None = None) -> Excerpt:
        """Return lines of a file of the workspace, or of what a hit names: `session:ID`, `fact:ID`, the id of a memory.

        Args:
            path: from the workspace on; for the id of a core memory the lines of `MEMORY.md` are told where it stands.
            first: the first line, counted from 1; of a session the number of the turn, of a memory a line of its own.
            lines: how many at most; by default all.

        Raises:
            RefusedError: the path leads out of the workspace.
            NotFoundError: there is no such thing, or it ends before `first`.
            StateError: it is no regular file of one name.
        """
        return searching.get(self._settings, self._agent, path, LineRange(first, lines), "python: get")

    def save(self, text: str) -> dict[str, Any]:
        """Write a note into the day's file; returns `{"run", "state", "why", "files"}`."""
        return memory_changes.describe_run(memory_changes.save(self._settings, self._agent, text))

    def update(self, *, append: str | None = None, replace: str | None = None) -> dict[str, Any]:
        """Add a memory to `MEMORY.md`, or make it another text; what that leaves out ends, guards permitting.

        Raises:
            ValueError: both are given, or neither.
            RefusedError: a guard says no; nothing was changed.
        """
        if (append is None) == (replace is None):
            raise ValueError("give append or replace")
        return memory_changes.describe_run(
            memory_changes.update(self._settings, self._agent, append=append, replace=replace)
        )

    def context(self, max_tokens: int | None = None, query: str | None = None) -> Injection:
        """Return what the agent is told of its memory at its start: `text`, `tokens`, `left_out`.

        Args:
            max_tokens: of the whole text; by default the configured budgets alone count.
            query: as `search` takes it; what it finds best is told behind the files, within their budget.

        Raises:
            ConfigError: there is no such number of tokens.
        """
        if max_tokens is not None and max_tokens < 0:
            raise ConfigError(f"a text has no {max_tokens} tokens", "max_tokens", "give 0 or more")
        access.require(self._settings, self._agent, "python: context")
        return context.inject(self._settings, self._agent, max_tokens, query)


class MemoryFacts:
    """What is known about the user: `memoryd.Memory(…).facts`.

    An unknown id is a KeyError, a value that is no good a ValueError, a protected fact a RefusedError; so is a reading
    where content is not for whoever runs this.
    """

    def __init__(self, settings: Settings, agent: Agent) -> None:
        """Of one agent."""
        self._settings = settings
        self._agent = agent

    def all(self) -> list[Fact]:
        """Return the facts, the surest first."""
        return self._store("facts").all()

    def get(self, fact_id: str) -> Fact:
        """Return a fact."""
        return self._store("facts").get(fact_id)

    def search(self, query: str, limit: int = 20) -> list[Fact]:
        """Return the facts that hold any word of `query`, in content or category: most words first, then the surest."""
        return self._store("facts").search(query, limit)

    def add(self, content: str, category: str = Category.CONTEXT, confidence: float = 1.0) -> FactOutcome:
        """Store a fact; one that says the same already is returned as it is, `created` being False."""
        return self.create([NewFact(content, category, confidence)]).outcomes[0]

    def create(self, batch: Sequence[NewFact]) -> FactBatch:
        """Store facts, all or none; says what each came to, and which went because the store was full."""
        with memory_changes.fact_store(self._settings, self._agent) as store:
            return store.create(batch)

    def update(
        self, fact_id: str, content: str | None = None, category: str | None = None, confidence: float | None = None
    ) -> None:
        """Change what is given of a fact, and nothing else."""
        with memory_changes.fact_store(self._settings, self._agent) as store:
            store.update(fact_id, content, category, confidence)

    def delete(self, fact_id: str) -> None:
        """Delete a fact; it comes back only if the user says it anew."""
        with memory_changes.fact_store(self._settings, self._agent) as store:
            store.delete(fact_id)

    def dump(self, *, deerflow: bool = False) -> str:
        """Return facts and profile as JSON, memoryd's own or a `memory.json` of DeerFlow."""
        access.require(self._settings, self._agent, "python: facts")
        with memory_changes.fact_store(self._settings, self._agent) as store:
            return store.dump(deerflow=deerflow)

    def bring(self, text: str) -> FactImport:
        """Take in what `dump` gave, all or nothing. What is known already stays as it is."""
        with memory_changes.fact_store(self._settings, self._agent) as store:
            return store.bring(text)

    def _store(self, what: str) -> Store:
        access.require(self._settings, self._agent, f"python: {what}")
        return Store(map(fact_of, reads.ask(opening.get_database(self._settings), _live_facts, self._agent.id)))


def _live_facts(reader: DatabaseReader, agent_id: str) -> list[memory.Memory]:
    """Read an agent's live facts, the oldest first."""
    from sqlmodel import select

    from memoryd.database.tables import MemoryRow

    live = select(MemoryRow).where(
        MemoryRow.agent_id == agent_id, MemoryRow.kind == memory.MemoryKind.FACT, MemoryRow.deleted_at.is_(None)
    )
    with reader.session() as session:
        return [
            memories.of_row(row.model_dump()) for row in session.exec(live.order_by(MemoryRow.created_at, MemoryRow.id))
        ]


class MemoryCore:
    """The bullets of `MEMORY.md` with their identities: `memoryd.Memory(…).core`."""

    def __init__(self, settings: Settings, agent: Agent) -> None:
        """Of one agent."""
        self._settings = settings
        self._agent = agent

    def list(self) -> list[dict[str, Any]]:
        """Return the live core memories in the order of the file, as `memoryd core list --json` does."""
        access.require(self._settings, self._agent, "python: core")
        opening.catch_up(self._settings, self._agent)
        return reads.ask(opening.get_database(self._settings), reads.core_memories, self._agent.id)
