"""Clear alarms that no run clears, and pass each open alarm to the user's own command.

No run notices that a day is over, that a model is no longer configured, or that a person has removed a file. `review`
clears alarms about such causes. `AlarmHook` passes each open alarm once to the command, on a thread of its own, so that
nothing waits for the command.

`review` also checks whether the dreams of an agent come to something. A night is one scheduled time of the dream. It
had input if a daily file was new, or if a sleep before the dream failed. It came to nothing if the dream did not
finish, or if it changed nothing and something of its reply was refused. If all is in memory already, there is nothing
to change. A night without input, a night with a paused agent and a dream by hand that succeeded end a row of nights.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from memoryd.clock import moment_of
from memoryd.config import Settings
from memoryd.database import alarms, library, memories, query, runs, sqlite
from memoryd.database.alarms import Alarm
from memoryd.ledger.operation import Disposition
from memoryd.reading import drift
from memoryd.running import dreaming, proposing, self_test
from memoryd.running.answering import OFFLINE
from memoryd.running.hooks import HookResult
from memoryd.running.runner import PROTECTED, Runner

DATABASE, DISK, FILES, CONFIG, MODEL, SPEND, LATE = (
    "database", "disk", "open-files", "config", "model", "spend", "late-edit",
)  # fmt: skip
FLEET, HELD = "fleet", "held"  # PostgreSQL is unreachable; another host works on the workspace
TRIES = 3
AGAIN_SECONDS = 120.0
_MEMORY = re.compile(r"\bcore_[0-9a-f]{8}\b")
MOST = 20  # alarms that are passed at one time
NIGHTS = "nights"
_MOVED_AWAY = re.compile(rf"(index\.db[a-z-]*|backups){re.escape(library.MOVED)}[0-9a-f]+")
MOST_NIGHTS = 3  # in a row that came to nothing, before the alarm
_WRITTEN = frozenset({"succeeded", "skipped", "declined", "cancelled", runs.PROPOSED})  # of a sleep before a dream
_CHANGED = frozenset(Disposition) - {Disposition.KEPT}


def clear_at_start(runner: Runner) -> None:
    """Clear the alarms that a successful start disproves: the configuration, the disk, and the number of open files."""
    _clear(runner, [one for one in sqlite.read(runner.engine, alarms.list_open) if one.kind in {CONFIG, DISK, FILES}])


def review(runner: Runner) -> None:
    """Clear alarms whose cause is over, and check the last nights and the transcript formats.

    It also tries again to withdraw proposals, if that failed before.
    """
    if any(one.kind == proposing.ALARM for one in clear_over(runner)):
        runner.tend_proposals()
    for path in runner.settings.state_dir.iterdir():
        if found := _MOVED_AWAY.fullmatch(path.name):
            name = found[1]
            text = f"something else was in the place of {name}; memoryd moved it to {path.name} and rebuilt {name}"
            runner.set_alarm(DATABASE, text, subject=path.name)
    _review_nights(runner)
    drift.review(runner.engine, runner.settings, runner.clock, runner.log)


def clear_over(runner: Runner) -> list[Alarm]:
    """Clear the alarms whose cause is over and that no run clears; return the alarms that were open before."""
    found = sqlite.read(runner.engine, alarms.list_open)
    _clear(runner, list(_find_over(runner, found)))
    return found


def _find_over(runner: Runner, found: list[Alarm]) -> Iterator[Alarm]:
    settings = runner.settings
    workspaces = {agent.id: agent.workspace for agent in settings.agents}
    flown = self_test.list_models(settings)
    asked = () if settings.llm.provider == OFFLINE else settings.agents
    endpoints = {self_test.model_of(settings, agent.id) for agent in asked}
    for one in found:
        workspace = workspaces.get(one.agent_id)
        is_over = (
            (one.agent_id and workspace is None)  # no daemon works for this agent
            or (one.kind == MODEL and one.subject not in endpoints)
            or (one.kind == self_test.KIND and one.subject not in flown)
            or (one.kind == SPEND and _day(runner, one.since) < _day(runner))
            or _is_unprotected(runner, one)
            or _is_gone(one, settings, workspace)
        )
        if is_over:
            yield one


def _is_unprotected(runner: Runner, one: Alarm) -> bool:
    """Return True if the alarm is about protected memories, and all of them were unprotected or forgotten since."""
    if one.kind != PROTECTED:
        return False
    named = sqlite.read(runner.engine, memories.by_ids, one.agent_id, _MEMORY.findall(one.text))
    return not any(each.constitutional and each.is_live for each in named.values())


def _day(runner: Runner, at: str | None = None) -> date:
    """Return the local day of a time (ISO 8601), or of now."""
    return (runner.clock.now() if at is None else moment_of(at)).astimezone(runner.settings.zone).date()


def _is_gone(one: Alarm, settings: Settings, workspace: Path | None) -> bool:
    """Return True if the file that an alarm names was removed, or if the fleet that it is about is not configured."""
    if one.kind in {FLEET, HELD}:
        return settings.fleet.database is None
    if one.kind == DATABASE:
        return bool(one.subject) and not os.path.lexists(settings.state_dir / one.subject)
    return one.kind == LATE and workspace is not None and not (workspace / (one.subject or "-")).exists()


def _clear(runner: Runner, found: list[Alarm]) -> None:
    for one in found:
        runner.set_alarm(one.kind, None, one.agent_id, one.subject)
    if found:
        runner.log.info("alarms are over", kinds=[one.kind for one in found])


@dataclass(slots=True)
class AlarmHook:
    """Pass each open alarm once to the command `hooks.on_alarm`. After a restart, the remaining ones are passed."""

    runner: Runner
    told: set[int] = field(default_factory=set)  # alarms that this process has passed, even if that could not be stored
    failed: dict[int, tuple[int, float]] = field(default_factory=dict)  # alarm → (failures, time of the next attempt)
    unstored: dict[str, str] = field(default_factory=dict)  # by kind: alarms that could not be stored

    def is_wanted(self) -> bool:
        """Return True if the command is configured."""
        return self.runner.settings.hooks.on_alarm is not None

    def tell(self) -> None:
        """Pass the open alarms that the command has not received yet. A failed call is repeated a few times."""
        for kind in list(self.unstored):
            self._run(kind, "", self.unstored.pop(kind))
        opened = sqlite.read(self.runner.engine, alarms.list_open)
        waiting = [one for one in opened if one.told is None and one.id not in self.told]
        now = self.runner.clock.monotonic()
        for one in [one for one in waiting if self.failed.get(one.id, (0, 0.0))[1] <= now][:MOST]:
            if self.runner.stopping or not self.is_wanted():
                return
            result = self._run(one.kind, one.agent_id, one.text)
            if result.stopped:
                return
            tries = self.failed.pop(one.id, (0, 0.0))[0] + 1
            if not result.ok and tries < TRIES:
                self.failed[one.id] = tries, self.runner.clock.monotonic() + AGAIN_SECONDS * tries
                continue
            self.told.add(one.id)
            sqlite.write(self.runner.engine, alarms.note_told, one.id, result.outcome)

    def _run(self, kind: str, agent_id: str, text: str) -> HookResult:
        return self.runner.call_hook("on_alarm", f"{kind}: {text}\n", agent_id, alarm=kind)


def _list_unchanged(connection: Connection, agent_id: str) -> list[str]:
    """Return the runs of the last nights in a row that came to nothing, newest first, at most `MOST_NIGHTS`."""
    sql = (
        "SELECT id, state, why, receipt FROM job_run WHERE agent_id = ? AND kind = ?"
        " AND (slot IS NOT NULL OR state = 'succeeded')"
        " AND state NOT IN ('queued', 'running', 'interrupted') ORDER BY id DESC LIMIT ?"
    )
    found: list[str] = []
    for run_id, state, why, receipt in query.fetch_rows(connection, sql, agent_id, dreaming.KIND, MOST_NIGHTS):
        if why == dreaming.PAUSED or not _is_unchanged(state, json.loads(receipt)):
            break
        found.append(run_id)
    return found


def _is_unchanged(state: str, receipt: Mapping[str, Any]) -> bool:
    """Return True if a night came to nothing, judged by the state and the report of its run."""
    told = receipt.get(dreaming.KIND, {})
    if state == runs.PROPOSED or "waits_for" in receipt or "proposal" in receipt:
        return False
    if state == "skipped":
        # With a report, the dream found nothing new, so only a failed sleep counts as input. Without one, an earlier
        # dream was still open.
        return not told or any(how not in _WRITTEN for how in told.get("flushed", {}).values())
    if state != "succeeded":
        return state != "cancelled"
    ends, claims = told.get("dispositions", {}), told.get("claims", {})
    is_refused = told.get("refusals") or told.get("unreadable") or any(how.startswith("refused") for how in claims)
    return bool(is_refused) and not (told.get("added") or any(ends.get(how) for how in _CHANGED))


def _review_nights(runner: Runner) -> None:
    """Raise the alarm for each agent whose last nights came to nothing; clear it for the others."""
    for agent in runner.settings.agents:
        found = sqlite.read(runner.engine, _list_unchanged, agent.id)
        text = f"on {MOST_NIGHTS} nights, the dream failed or all that it wanted was refused: {', '.join(found)}"
        runner.set_alarm(NIGHTS, text if len(found) >= MOST_NIGHTS else None, agent.id)
