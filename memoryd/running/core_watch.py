"""Watch the `MEMORY.md` of each agent, and import an edit when the file no longer changes.

A file has settled when two checks, `settle` apart, find the same content. A file that is empty or much shorter than its
memories is checked once more, because an editor may empty a file and then write it slowly. If an editor replaces the
file, its inode changes, and the checks begin again.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from memoryd.changing import ledger_runs
from memoryd.changing.core_import import CORE_FILE, CoreImport, UnfinishedError, bring, digest_of, is_shortened
from memoryd.config import Agent
from memoryd.database import audit, memories, runs, sqlite
from memoryd.errors import MemorydError
from memoryd.files import late_edits, regular
from memoryd.files.workspace import lock_workspace
from memoryd.ledger.memory import MemoryKind
from memoryd.running import queueing
from memoryd.running.alarms import LATE
from memoryd.running.runner import EMPTIED, PROTECTED, Runner

_Stat = tuple[int, ...] | None
CONFLICT = "conflict"
CONTINUUM = ".continuum/memory"
GRACE_SECONDS = 30.0  # an editor that writes to a replaced file for longer than this is ignored


class _Look(NamedTuple):
    stat: _Stat
    since: float  # monotonic
    times: int


@dataclass(slots=True)
class CoreWatch:
    """Check each `MEMORY.md` for edits, and hold the last known state of each file."""

    runner: Runner
    looks: dict[str, _Look] = field(default_factory=dict)
    done: dict[str, _Stat] = field(default_factory=dict)

    def look(self) -> None:
        """Check each agent's file once, and import it if it has changed and settled."""
        self.look_late()
        for agent in self.runner.settings.agents:
            if agent.enabled and not self.runner.stopping:
                self._try(self._look, agent, "core file not imported")

    def look_late(self) -> None:
        """Import what editors wrote to replaced versions of files.

        Raise an alarm if that conflicts with the new version.
        """
        for agent in self.runner.settings.agents:
            if any(agent.workspace.glob(f"{CONTINUUM}/.late-*")):
                self._try(self._look_late, agent, "late edits not looked for")

    def _try(self, look: Callable[[Agent], None], agent: Agent, warning: str) -> None:
        """Call `look` for an agent; log an error, so that the other agents are still checked."""
        try:
            look(agent)
        except (MemorydError, OSError) as error:
            self.runner.log.warning(warning, agent=agent.id, why=type(error).__name__)

    def _look_late(self, agent: Agent) -> None:
        now = self.runner.clock.now().timestamp()
        with lock_workspace(agent.workspace) as place:
            for one in late_edits.list_kept(place.continuum):
                # After a clock was set back, the age can be negative. Then the versions must not stay forever.
                is_over = not 0 <= late_edits.get_age(one, now) < GRACE_SECONDS
                conflict = late_edits.settle(one, place.workspace / one.name, is_over=is_over)
                if conflict is not None:
                    text = f"{one.name} was written by somebody who had an older version open: {conflict.name}"
                    self.runner.set_alarm(LATE, text, agent.id, conflict.name)

    def _look(self, agent: Agent) -> None:
        stat = _stat(agent.workspace / CORE_FILE)
        if agent.id in self.done and self.done[agent.id] == stat:
            return
        now = self.runner.clock.monotonic()
        before = self.looks.get(agent.id)
        if before is None or before.stat != stat:
            self.looks[agent.id] = _Look(stat, now, 1)
            return
        if now - before.since < self.runner.settings.ingest.settle.total_seconds():
            return
        if before.times == 1 and self._is_shortened(agent):
            self.looks[agent.id] = _Look(stat, now, 2)
            return
        if self.take(agent):
            self.done[agent.id] = stat
            del self.looks[agent.id]

    def _is_shortened(self, agent: Agent) -> bool:
        data = regular.read_in(agent.workspace, CORE_FILE)
        with sqlite.begin_read(self.runner.engine) as connection:
            if memories.read_agreed_hash(connection, agent.id) == digest_of(data):
                return False  # memoryd itself wrote this content
            return is_shortened(data, memories.read_live(connection, agent.id, MemoryKind.CORE))

    def take(self, agent: Agent, *, settled: bool = True) -> bool:
        """Import an agent's file; return False if the import must wait."""
        runner = self.runner
        if not (agent.workspace.is_dir() and sqlite.read(runner.engine, runs.knows_agent, agent.id)):
            return False
        try:
            with lock_workspace(agent.workspace) as place:
                # Checked under the lock: a run with an intent must be completed first, because its plan is based on
                # this ledger.
                with sqlite.begin_read(runner.engine) as connection:
                    if runs.agent_has_intent(connection, agent.id):
                        return False
                    entry = audit.last_of(connection, agent.id)
                brought = bring(runner.writer(agent.workspace), place.workspace, agent.id, settled=settled)
        except UnfinishedError as error:
            runner.set_alarm(CONFLICT, f"MEMORY.md {error.what}", agent.id)
            return False
        if brought.agrees:
            self._report(agent, brought)
            if brought.changes:
                self._tell_of_loss(agent.id, brought, entry)
        return brought.agrees

    def _tell_of_loss(self, agent_id: str, brought: CoreImport, entry: int) -> None:
        """Raise an alarm if an edit removed most of the core, because that looks like an accident."""
        ended = sum(not change.after.is_live for change in brought.changes)
        if not ended or not is_shortened(brought.data, brought.before):
            self.runner.set_alarm(EMPTIED, None, agent_id)
            return
        back = f"memoryd rollback --to {entry} --agent {agent_id}"
        held = len(brought.before)
        text = f"an edit of MEMORY.md took {ended} of {held} memories away; if that was not meant: {back}"
        self.runner.set_alarm(EMPTIED, text, agent_id)

    def _report(self, agent: Agent, brought: CoreImport) -> None:
        self.runner.set_alarm(CONFLICT, None, agent.id)
        if brought.changes:
            self.runner.log.info("core file imported", agent=agent.id, changes=len(brought.changes))
        if brought.put_back:
            ids = ", ".join(f"{one.memory_id} was {one.was}" for one in brought.put_back)
            text = f"an edit of MEMORY.md touched protected memories, put back: {ids}"
            self.runner.set_alarm(PROTECTED, text, agent.id)
            key = queueing.agent_key(ledger_runs.IMPORT, agent.id)
            wanted = (self.runner.clock, ledger_runs.IMPORT, agent.id, key)
            sqlite.write(self.runner.engine, queueing.queue, *wanted, trigger="recovery")
        elif brought.changes:
            self.runner.set_alarm(PROTECTED, None, agent.id)


def _stat(path: Path) -> _Stat:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
