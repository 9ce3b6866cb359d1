"""Define the Python API, `memoryd.Memory`. Python imports this module at the first use of that name."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from memoryd.config import Agent, Settings
from memoryd.database import memories, reads
from memoryd.errors import ConfigError
from memoryd.finding.excerpt import Excerpt, LineRange
from memoryd.finding.recall import LIMIT, Hit, Narrowing
from memoryd.gauge.sleepiness import is_full
from memoryd.jobs import chat as compression
from memoryd.ledger.category import Category
from memoryd.ledger.facts import Fact, FactBatch, FactOutcome, NewFact, ProfileSection, Store, fact_of
from memoryd.recall.injection import Injection
from memoryd.requests import (
    access,
    blame,
    consolidating,
    context,
    flushing,
    folder_settings,
    forgetting,
    jobs_by_hand,
    lists,
    memory_changes,
    opening,
    searching,
    sessions,
)
from memoryd.requests.blame import Traced
from memoryd.requests.flushing import FlushResult
from memoryd.transcripts import chat
from memoryd.worker.client import Worker


@dataclass(frozen=True, slots=True)
class JobResult:
    """Hold the outcome of a dream or a refinement. It contains no text of memories."""

    run: str
    # The state in `memoryd job show`: `succeeded`; `skipped` if nothing is new; `declined` if the guards refused
    # everything. With any other state, memoryd tries again or a person must act.
    state: str
    why: str | None  # the error, or the reason that the run gives; None without either
    receipt: Mapping[str, Any]  # counts, files, refusals


class Memory:
    """Give access to the memory of the agent that works in a folder.

        memory = memoryd.Memory("~/agent")
        memory.facts.add("Prefers trains to planes.", "preference", 0.9)
        for fact in memory.facts.search("trains"): ...

    This works beside a running daemon. Without one, each change takes the daemon's lock for a moment.

    The rules of the command line decide who may see content. The owner sees the content of an open agent. In private
    mode, nobody does without an access grant. Otherwise a read raises a RefusedError.
    """

    def __init__(self, workspace: str | os.PathLike[str], config_file: str | os.PathLike[str] | None = None) -> None:
        """Find the agent in the configuration. If no configuration names this folder, use the default settings.

        The state of a folder without a configuration is in the user's state folder (`platformdirs.user_state_dir`). A
        configuration that names the folder later has its own `state_dir`.

        Args:
            workspace: The agent's folder.
            config_file: The configuration; by default it is found as on the command line.

        Raises:
            ConfigError: The configuration has mistakes, or the folder cannot have defaults.
            NotFoundError: No agent of the given configuration works in this folder.
        """
        folder = Path(workspace).expanduser().resolve()
        given = None if config_file is None else Path(config_file).expanduser()
        self._settings: Settings = folder_settings.load(folder, given)
        self._agent: Agent = folder_settings.find_agent(self._settings, folder)
        self.facts = MemoryFacts(self._settings, self._agent)
        self.core = MemoryCore(self._settings, self._agent)
        self.sessions = MemorySessions(self._settings, self._agent)

    def flush(
        self,
        messages: Sequence[Mapping[str, Any]],
        on_summary: Callable[[str], object] | None = None,
        *,
        reason: str | None = None,
    ) -> FlushResult:
        """Store messages as a session of the agent, without their secrets, and wait until a sleep has processed it.

        Messages of earlier calls are recognised. The same messages change nothing. A list that has grown adds its new
        messages, also after `compress`. Any other list becomes a new session.

        Args:
            messages: Messages of a chat API, `{"role": …, "content": …}`.
            on_summary: Called once with the text of each new daily block. An exception in it reverts nothing: memoryd
                warns and returns it among the `errors`.
            reason: The heading of the daily block: `Trimmed Context` (the default), `Context Overflow Recovery`,
                `Daily Summary` or `Session Notes`. A sleep that is already queued keeps its own heading.

        Raises:
            ValueError: A message has no valid form, or the reason is unknown.
            RefusedError: The agent is not enabled, or `on_summary` is given and this person has no access to content.
            StateError: The messages could not be scanned for secrets and are not stored, or they are stored but could
                not be read yet.
        """
        checked = chat.check(messages)
        if on_summary is not None:
            access.require(self._settings, self._agent, "python: flush")
        return flushing.flush(self._settings, self._agent, checked, on_summary, reason)

    def consolidate(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Roll over all sessions so far, including open NOW files, and wait, as `memoryd consolidate` does.

        Returns the run, its state and its files. With `dry_run`, it returns only the diffs, under `would`.
        """
        return consolidating.consolidate(self._settings, self._agent, dry_run=dry_run)

    def recover(self, hours: float = 24, *, consolidate: bool = False) -> dict[str, Any]:
        """Return the NOW files older than `hours` that were never rolled over. `consolidate` rolls them over."""
        return consolidating.recover(self._settings, self._agent, hours, consolidate=consolidate)

    def compress(
        self,
        messages: Sequence[Mapping[str, Any]],
        budget: int,
        strategy: str = "hybrid",
        *,
        summary: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return a shorter list of messages that fits a token budget. Nothing is stored.

        The list keeps the order, all system messages and the newest other message. The newest `sleep.keep_recent`
        messages have priority. A tool call and its results stay together or are dropped together. Results without their
        call are dropped.

        Args:
            messages: Messages of a chat API, `{"role": …, "content": …}`; they stay unchanged.
            budget: Tokens, counted with tiktoken's o200k_base, plus four for each message.
            strategy: `sliding-window` (the newest messages, without a gap), `progressive-summary` (only
                `sleep.keep_recent`, with the summary for the rest), `importance-based` (the highest weight per
                token), or `hybrid` (the default).
            summary: A text that replaces the dropped messages, such as the texts of `flush`. It becomes the first
                system message and may fill half of the free budget. Without it, `progressive-summary` asks the
                configured backend for a summary. An empty text means no summary.

        Raises:
            ValueError: A message has no valid form, the strategy is unknown, or the budget is not positive or too small
                for the system messages and the newest other message; the error says by how much.
            RefusedError: The token limit of the day leaves nothing for the summary.
            MemorydError: The model did not answer.
        """
        with Worker(self._settings.state_dir) as worker:
            summarize = partial(flushing.summarize, self._settings, self._agent)
            keep = self._settings.sleep.keep_recent
            return compression.compress(messages, budget, strategy, keep, summary, worker.count, summarize)

    def deep_dream(self, lookback_days: int | None = None, *, force: bool = False) -> JobResult:
        """Merge the daily files into the core by a dream, and wait.

        Live sessions sleep first, so that the dream includes their day.

        Args:
            lookback_days: The number of calendar days, including today; by default `dream.lookback_days`.
            force: Dream even if the daily files hold nothing new since the last dream.

        Raises:
            ValueError: The number of days is not between 1 and 3650.
        """
        if lookback_days is not None and not 1 <= lookback_days <= 3650:
            raise ValueError(f"lookback_days is {lookback_days}: give 1 (only today) to 3650")
        return self._run("dream", jobs_by_hand.JobRequest(force=force, lookback_days=lookback_days))

    def sleep_due(self, tokens: int, window: int) -> bool:
        """Return True if a session should sleep that fills `tokens` tokens of a context window of `window` tokens.

        Raises:
            ValueError: The tokens are negative, or the window is not positive.
        """
        if tokens < 0 or window < 1:
            raise ValueError(f"{tokens} of {window} tokens: give 0 or more of 1 or more")
        return is_full(self._settings.sleep, tokens, window)

    def refine(self, mode: str | None = None, *, force: bool = False) -> JobResult:
        """Condense the core with the agent's model, and wait.

        Args:
            mode: `normal`, `dedup` or `strict`; by default `refine.mode`.
            force: Refine even if the core is small, or if a refinement of the same core was rejected.

        Raises:
            ValueError: The mode is unknown.
            RefusedError: The agent itself is refining its core at the moment.
        """
        if mode not in {None, "normal", "dedup", "strict"}:
            raise ValueError(f"unknown mode {mode!r}; one of normal, dedup, strict")
        return self._run("refine", jobs_by_hand.JobRequest(force=force, mode=mode))

    def _run(self, kind: str, asked: jobs_by_hand.JobRequest) -> JobResult:
        row = jobs_by_hand.run_job(self._settings, kind, self._agent.id, asked)[0]
        return JobResult(row["id"], row["state"], row["error"] or row["why"], row["receipt"])

    def rollback(
        self, run: str | None = None, *, to: int | None = None, memory: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Revert a run, one change of a run, or everything since an entry of the audit.

        Args:
            run: The id of a run, or a unique beginning of it.
            to: The id of an audit entry; everything after it is reverted.
            memory: Revert only the last change of this memory in the run.
            dry_run: Only return what would be reverted.

        Returns:
            The data of `memoryd rollback --json`: ids and numbers, never a text.

        Raises:
            ValueError: Not exactly one of `run` and `to` is given, or `memory` without `run`.
            NotFoundError: This agent has no such run or audit entry.
            RefusedError: The guards do not allow it.
        """
        if (run is None) == (to is None) or (memory is not None and run is None):
            raise ValueError("give run, run and memory, or to")
        options = memory_changes.find_rollback(self._settings, self._agent, run, to, memory)
        if dry_run:
            return memory_changes.preview_rollback(self._settings, self._agent, options)[1]
        return memory_changes.rollback(self._settings, self._agent, options)

    def forget(self, target: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Erase a memory or a session from everything that memoryd wrote. This cannot be undone.

        Args:
            target: The id of a memory or a session, or a unique beginning of it.
            dry_run: Only report what would be erased.

        Returns:
            The data of `memoryd forget --json` without `lines` and texts. It has ids, reasons and counts.

        Raises:
            NotFoundError: This agent has no such id.
            RefusedError: A protected memory would have to be erased.
        """
        _, options = forgetting.find_target(self._settings, target, lambda _: self._agent)
        if dry_run:
            return forgetting.planned_forgetting(self._settings, self._agent, options)[0]
        return forgetting.forget(self._settings, self._agent, options)

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
        """Return the remembered texts that match a query, most relevant first.

        Args:
            query: Any text: words, `"phrases"`, `prefix*`, names such as `snake_case`.
            tier: core, daily, recent, archive, fact or session; by default all tiers.
            tags: Tags that a hit must all have: of a memory, of a file's front matter, or `#tag` in its text.
            after: The first day.
            before: The last day.
            limit: The most hits, from 1 to 200.

        Raises:
            ConfigError: The query has no word, the tier is unknown, the limit is invalid, or `after` and `before` are
                not dates (`datetime.date`) in this order.
        """
        narrowing = Narrowing(tier, frozenset(tags), after, before, limit)
        return searching.search(self._settings, self._agent, query, narrowing, "python: search")

    def get(self, path: str, first: int = 1, lines: int | None = None) -> Excerpt:
        """Return lines of a memory file, of a session, of a fact, or of a memory.

        Args:
            path: A path in the workspace, `session:ID`, `fact:ID`, or the id of a memory. The id of a core memory
                returns its lines of `MEMORY.md`.
            first: The first line, counted from 1; for a session, the number of a turn.
            lines: The most lines; by default all.

        Raises:
            RefusedError: The path leads out of the workspace.
            NotFoundError: There is no such file or id, or it ends before `first`.
            StateError: The path is not a regular file, or the file has several hard links.
        """
        return searching.get(self._settings, self._agent, path, LineRange(first, lines), "python: get")

    def blame(self, target: str) -> Traced:
        """Return the turns that a line of memory came from, and each later change.

        Args:
            target: `MEMORY.md:12`, `memory/2026-03-04.md:7`, `RECENT.md:9`, or the id of a memory.

        Raises:
            ConfigError: The target is neither a line nor an id.
            NotFoundError: There is no such file, line or memory.
        """
        return blame.blame(self._settings, self._agent, target, "python: blame")

    def save(self, text: str) -> dict[str, Any]:
        """Write a note into the day's file; returns `{"run", "state", "why", "files"}`."""
        return memory_changes.save(self._settings, self._agent, text)

    def update(self, *, append: str | None = None, replace: str | None = None) -> dict[str, Any]:
        """Add a memory to `MEMORY.md`, or replace the whole text of the file.

        Memories that the new text leaves out end, if the guards allow it.

        Raises:
            ValueError: Both arguments are given, or neither.
            RefusedError: A guard refused the change; nothing changed.
        """
        if (append is None) == (replace is None):
            raise ValueError("give append or replace")
        return memory_changes.update(self._settings, self._agent, append=append, replace=replace)

    def context(self, max_tokens: int | None = None, query: str | None = None) -> Injection:
        """Return the text for the start of a session: `text`, `tokens` and `left_out`.

        Args:
            max_tokens: The limit for the whole text; by default only the configured budgets apply.
            query: A query as in `search`. The best results follow the files, within their budget.

        Raises:
            ConfigError: `max_tokens` is invalid.
        """
        if max_tokens is not None and not 0 <= max_tokens <= 10_000_000:
            raise ConfigError(f"a text has no {max_tokens} tokens", "max_tokens", "give 0 to 10,000,000")
        access.require(self._settings, self._agent, "python: context")
        return context.inject(self._settings, self._agent, max_tokens, query)


class _OfAgent:
    def __init__(self, settings: Settings, agent: Agent) -> None:
        """Keep the settings and the agent for the calls."""
        self._settings = settings
        self._agent = agent


class MemorySessions(_OfAgent):
    """Keep sessions in NOW files: `memoryd.Memory(…).sessions`. Calls for one session return its description."""

    def start(
        self, *, tags: Sequence[str] = (), tasks: Sequence[str] = (), project: str | None = None, private: bool = False
    ) -> dict[str, Any]:
        """Start a session. The newest earlier session becomes its parent."""
        return sessions.start(self._settings, self._agent, tags=tags, tasks=tasks, project=project, private=private)

    def append(self, role: str, text: str, **more: str) -> dict[str, Any]:
        """Append a message of the `user`, the `agent` or a `tool`. `more`: `tool`, `summary` and `session_id`."""
        return sessions.append(self._settings, self._agent, role, text, **more)

    def end(self, session_id: str | None = None, *, consolidate: bool = False) -> dict[str, Any]:
        """End a session, by default the current one. With `consolidate`, also roll over the ended sessions."""
        return sessions.end(self._settings, self._agent, session_id=session_id, consolidate=consolidate)

    def list(self) -> list[dict[str, Any]]:
        """Return the sessions that have a NOW file, the oldest first."""
        return [sessions.describe(one) for one in sessions.list_sessions(self._agent)]


class MemoryFacts(_OfAgent):
    """Give access to the facts about the user: `memoryd.Memory(…).facts`.

    An unknown id raises a KeyError, and an invalid value a ValueError. A protected fact, or a read without access,
    raises a RefusedError.
    """

    def all(self) -> list[Fact]:
        """Return all facts, most certain first."""
        return self._store("facts").all()

    def get(self, fact_id: str) -> Fact:
        """Return the fact with this id."""
        return self._store("facts").get(fact_id)

    def search(self, query: str, limit: int = 20) -> list[Fact]:
        """Return facts with any word of `query` in content or category.

        Facts with more of the words come first; of equal ones, the more certain fact.
        """
        return self._store("facts").search(query, limit)

    def add(self, content: str, category: str = Category.CONTEXT, confidence: float = 1.0) -> FactOutcome:
        """Store a fact and return it. If an equal fact exists, return that one unchanged, with `created` False."""
        return self.create([NewFact(content, category, confidence)]).outcomes[0]

    def create(self, batch: Sequence[NewFact]) -> FactBatch:
        """Store facts, all or none.

        Returns the outcome of each, and the facts that ended because the store was full.
        """
        with memory_changes.fact_store(self._settings, self._agent, "facts add") as store:
            return store.create(batch)

    def update(
        self, fact_id: str, content: str | None = None, category: str | None = None, confidence: float | None = None
    ) -> None:
        """Change only the given fields of a fact."""
        with memory_changes.fact_store(self._settings, self._agent, "facts edit") as store:
            store.update(fact_id, content, category, confidence)

    def delete(self, fact_id: str) -> None:
        """Delete a fact. A job stores it again only if the user repeats it."""
        with memory_changes.fact_store(self._settings, self._agent, "facts delete") as store:
            store.delete(fact_id)

    def profile(self) -> dict[str, str]:
        """Return the texts of the six sections of the user's profile; an empty section has an empty text."""
        access.require(self._settings, self._agent, "python: profile")
        return {row["id"]: row["text"] for row in lists.list_profile(self._settings, self._agent)}

    def write_profile(self, section: str, text: str) -> None:
        """Write a section of the profile; an empty text removes it. Raises ValueError for an unknown section."""
        with memory_changes.fact_store(self._settings, self._agent, "profile edit") as store:
            store.write_section(ProfileSection(section), text)

    def dump(self, *, deerflow: bool = False) -> str:
        """Return facts and profile as JSON, in memoryd's own format or as a `memory.json` of DeerFlow."""
        access.require(self._settings, self._agent, "python: facts")
        with memory_changes.fact_store(self._settings, self._agent, None) as store:
            return store.dump(deerflow=deerflow)

    def bring(self, text: str) -> FactBatch:
        """Import the JSON text of `dump`, all or nothing. Equal facts stay unchanged."""
        with memory_changes.fact_store(self._settings, self._agent, "facts import") as store:
            return store.bring(text)

    def _store(self, what: str) -> Store:
        access.require(self._settings, self._agent, f"python: {what}")
        rows = reads.ask_for_list(self._settings, reads.read_live, self._agent.id, "fact")
        return Store(map(fact_of, memories.of_sound_rows(rows)))


class MemoryCore(_OfAgent):
    """Give access to the bullets of `MEMORY.md` with their ids: `memoryd.Memory(…).core`."""

    def list(self) -> list[dict[str, Any]]:
        """Return the live core memories in the order of the file, as `memoryd core list --json` does."""
        access.require(self._settings, self._agent, "python: core")
        opening.catch_up(self._settings, self._agent)
        return reads.ask_for_list(self._settings, reads.core_memories, self._agent.id)

    def list_ended(self) -> Sequence[dict[str, Any]]:
        """Return the core memories that have ended, newest end first, each with the reason in `ended_as`."""
        return self._list_memories("python: core ended", kind="core", ended=True)

    def journal(self) -> Sequence[dict[str, Any]]:
        """Return the journal: reports to the agent about changes of its memory."""
        return self._list_memories("python: journal", kind="journal")

    def limits(self) -> dict[str, Any]:
        """Return when the core is refined and how much of its deletion limit is used (`memoryd core limits --json`)."""
        return lists.list_thresholds(self._settings, self._agent)

    def _list_memories(self, what: str, *, kind: str, ended: bool = False) -> Sequence[dict[str, Any]]:
        access.require(self._settings, self._agent, what)
        return lists.list_memories(self._settings, self._agent, lists.MemoryQuery(ended, kind, limit=10_000))

    def history(self, memory_id: str) -> Sequence[dict[str, Any]]:
        """Return every change of a memory, as `memoryd core history --json` does.

        A unique beginning of the id is enough.
        """
        access.require(self._settings, self._agent, "python: core history")
        opening.catch_up(self._settings, self._agent)
        return reads.ask(reads.database_path(self._settings), reads.read_history, self._agent.id, memory_id)

    def protect(self, memory_id: str) -> str:
        """Protect a memory: no job, tool or edit of the file can change or remove it. Return its id."""
        return memory_changes.change_core(self._settings, self._agent, "protect", memory_id)[0]

    def unprotect(self, memory_id: str) -> str:
        """Remove the protection of a memory. Return its id."""
        return memory_changes.change_core(self._settings, self._agent, "unprotect", memory_id)[0]

    def restore(self, memory_id: str) -> str:
        """Restore a memory that has ended, also in `MEMORY.md`. Return its id."""
        return memory_changes.change_core(self._settings, self._agent, "restore", memory_id)[0]
