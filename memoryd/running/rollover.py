"""Roll the last sessions over: write `RECENT.md`, and each session's part of the archive that it links to.

Both are rendered from the sessions' summaries. A session gets its entry when it has ended and its last sleep is
done, and a new one when its summary changes. Sessions that were over when memoryd first saw them do not sleep: if they
are among the last ones, the offline backend fills the summary, and nothing goes into a daily file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine, RowMapping

from memoryd.changing.plan import OutdatedError
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import runs, sqlite, summaries, turns
from memoryd.database.runs import Run
from memoryd.errors import AwayError
from memoryd.files import regular
from memoryd.jobs import sleep
from memoryd.jobs.evidence import parse_moment
from memoryd.jobs.job import Ask, Done, Edit, KeepSummary, NoteTold, NothingToDo, Reply, WriteFile, drive
from memoryd.running import modes, queueing, sleeping
from memoryd.running.answering import OFFLINE, RunQuestion
from memoryd.running.runner import REDECIDED_MAX, Runner
from memoryd.running.second_reader import keep_whole
from memoryd.text.private import is_private
from memoryd.tiers import archive, recent
from memoryd.tiers.archive import PastSession
from memoryd.tiers.session_summary import Section, SessionSummary, parse_points

KIND = "rollover"
_LOOKED_AT = 50  # sessions beside those to tell: some may be empty
_SUMMED_UP = 4  # sessions in one run, for each that is told


# --- when -------------------------------------------------------------------------------------------------------------


def consider(engine: Engine, settings: Settings, clock: Clock, agent_id: str) -> str | None:
    """Queue a rollover if an agent's files do not match its last sessions; return the run's id, else None.

    The same is asked once. Where sessions are to be summed up it waits a while, since old ones are read one by one.
    """
    if not _may_run(settings, agent_id):
        return None
    with sqlite.begin_read(engine) as connection:
        last = summaries.list_last(connection, agent_id, _LOOKED_AT + settings.sessions.recent_sessions)
        changed = [f"{row['id']} {row['summed_up_by']}" for row in summaries.list_changed(connection, agent_id)]
    new, delay = [], timedelta(0)
    for row in _take_last(settings, clock, last):
        if row["summary"] is None:
            new.append(f"{row['id']} {row['last_seq']}")
            delay = settings.facts.debounce
        elif row["told"] is None and row["state"] == "ended" and _is_asleep(settings, clock, row):
            new.append(f"{row['id']} {row['summed_up_by']}")
    if not new and not changed:
        return None
    key = f"{KIND}:{agent_id}:{hashlib.sha256(repr(sorted([*new, *changed])).encode()).hexdigest()[:16]}"
    with sqlite.begin_write(engine) as connection:
        if runs.was_asked(connection, KIND, agent_id, key, clock.text(ahead=-queueing.ASK_AGAIN)):
            return None
        due = clock.text(ahead=delay)
        return queueing.queue(connection, clock, KIND, agent_id, key, trigger="session-end", scheduled_for=due)


def consider_session(engine: Engine, settings: Settings, clock: Clock, session_id: str) -> str | None:
    """Consider the agent of a session that is over; return the id of the run that was queued."""
    row = sqlite.read(engine, turns.session_row, session_id)
    is_over = row is not None and row["state"] == "ended"
    return consider(engine, settings, clock, row["agent_id"]) if row is not None and is_over else None


def consider_all(engine: Engine, settings: Settings, clock: Clock) -> int:
    """Consider each agent; return how many runs were queued."""
    return sum(consider(engine, settings, clock, agent.id) is not None for agent in settings.agents)


def request(engine: Engine, settings: Settings, clock: Clock, agent_id: str) -> None:
    """Queue a rollover after something was forgotten, so that the next session moves up."""
    if _may_run(settings, agent_id):
        with sqlite.begin_write(engine) as connection:
            queueing.queue(connection, clock, KIND, agent_id, f"{KIND}:{agent_id}", trigger="recovery")


def _may_run(settings: Settings, agent_id: str) -> bool:
    is_on = any(agent.id == agent_id and agent.enabled for agent in settings.agents)
    return is_on and settings.modes.rollover != modes.OFF


def _take_last(settings: Settings, clock: Clock, rows: Iterable[RowMapping]) -> list[RowMapping]:
    """Return the sessions that may be among the last: with a summary that says something, or still to be summed up."""
    found: list[RowMapping] = []
    for row in rows:
        if len(found) < settings.sessions.recent_sessions and (
            _is_left(settings, clock, row) if row["summary"] is None else _says_something(parse_points(row["summary"]))
        ):
            found.append(row)
    return found


def _says_something(summary: SessionSummary) -> bool:
    return any(point.section in {Section.ASKED, Section.DECIDED} for point in summary.points)


def _is_asleep(settings: Settings, clock: Clock, row: RowMapping) -> bool:
    """Return True if no sleep of the session is to come."""
    is_history = sleeping.is_history(row, settings.sessions.idle_end, clock.now())
    return row["slept_upto"] >= row["last_seq"] or (is_history and settings.ingest.history == "index")


def _is_left(settings: Settings, clock: Clock, row: RowMapping) -> bool:
    """Return True if a session without a summary was over when it was first seen, and no sleep is to sum it up."""
    is_history = sleeping.is_history(row, settings.sessions.idle_end, clock.now())
    return is_history and settings.modes.sleep != modes.OFF and _is_asleep(settings, clock, row)


# --- what -------------------------------------------------------------------------------------------------------------


def carry_out(runner: Runner, run: Run) -> None:
    """Write the files of the last sessions; retry if somebody edits one meanwhile.

    Raises:
        AwayError: they change all the time.
    """
    workspace = runner.workspace_of(run)
    writer = runner.writer(workspace)
    for _ in range(REDECIDED_MAX):
        try:
            runner.commit(run, _decide(runner, run, workspace), writer)
        except OutdatedError as error:
            runner.log.info("decided again", run=run.id, kind=run.kind, agent=run.agent_id, why=error.what)
        else:
            return
    raise AwayError("the files change all the time", str(workspace), "the run is tried again")


class _LastSessions(NamedTuple):
    """Hold what a run reports."""

    last: Sequence[PastSession]
    changed: Sequence[PastSession]  # others whose part in the archive is outdated
    built: Sequence[KeepSummary]
    told: Sequence[NoteTold]


def _decide(runner: Runner, run: Run, workspace: Path) -> Done | NothingToDo:
    found = _gather(runner, run, workspace)
    writes = list(_list_writes(runner, workspace, found))
    rows: tuple[Edit, ...] = (*found.built, *found.told)
    counts = {"sessions": len(found.last), "offline": len(found.built), "files": len(writes)}
    if writes:
        return Done((*writes, *rows), {KIND: counts})
    why = "the files are up to date" if found.last else "no session has a summary with a request yet"
    return NothingToDo(why, rows, {KIND: counts})


def _gather(runner: Runner, run: Run, workspace: Path) -> _LastSessions:
    settings, clock = runner.settings, runner.clock
    with sqlite.begin_read(runner.engine) as connection:
        rows = summaries.list_last(connection, run.agent_id, _LOOKED_AT + settings.sessions.recent_sessions)
        changed = {row["id"]: row for row in summaries.list_changed(connection, run.agent_id)}
    last: list[PastSession] = []
    built: list[KeepSummary] = []
    told: list[NoteTold] = []
    for row in rows:
        if len(last) == settings.sessions.recent_sessions:
            break
        text, by = row["summary"], row["summed_up_by"]
        if (
            text is None
            and len(built) < _SUMMED_UP * settings.sessions.recent_sessions
            and _is_left(settings, clock, row)
        ):
            runner.go_on(run)
            built.append(_sum_up(runner, run, workspace, row))
            text, by = built[-1].summary, None
        summary = parse_points(text or "")
        if _says_something(summary):
            last.append(_past(row, summary, runner))
            told.append(NoteTold(row["id"], by))
            changed.pop(row["id"], None)
    others = [_past(row, parse_points(row["summary"]), runner) for row in changed.values()]
    told += [NoteTold(row["id"], row["summed_up_by"]) for row in changed.values()]
    return _LastSessions(last, others, built, told)


def _past(row: RowMapping, summary: SessionSummary, runner: Runner) -> PastSession:
    zone = runner.settings.zone
    ended = (parse_moment(row["last_turn_at"]) or runner.clock.now()).astimezone(zone)
    started = (parse_moment(row["started_at"]) or ended).astimezone(zone)
    return PastSession(row["id"], min(started, ended), ended, summary)


def _sum_up(runner: Runner, run: Run, workspace: Path, row: RowMapping) -> KeepSummary:
    """Return the summary of a session that has not slept, by the offline backend; empty if it comes to nothing."""
    source = runner.source(workspace)
    with sqlite.begin_read(runner.engine) as connection:
        said = turns.stored_turns(connection, row["id"])
    offline = replace(runner.settings, llm=replace(runner.settings.llm, provider=OFFLINE))

    def answer(ask: Ask) -> Reply:
        if ask.job != sleep.CONSUMER:
            return Reply("", "stop", OFFLINE)  # what it only quotes needs no reader
        asked = RunQuestion(run, ask, offline, runner.worker, keep_whole, runner.step)
        return runner.answerer.answer(asked)

    end = drive(sleep.decide(sleeping.make_inputs(source, run, row, said, ("", ()))), answer)
    edits = end.edits if isinstance(end, Done) else ()
    kept = next((edit for edit in edits if isinstance(edit, KeepSummary)), None)
    return kept or KeepSummary(row["id"], "", ())


def _list_writes(runner: Runner, workspace: Path, found: _LastSessions) -> Iterable[WriteFile]:
    """Yield the files that change."""
    parts: dict[tuple[str, date], dict[str, bytes | None]] = {}
    for one in (*found.last, *found.changed):
        part = archive.render_part(one) if one.summary.points else None
        parts.setdefault((one.file, one.started.date()), {})[one.name] = part
    today = runner.clock.now().astimezone(runner.settings.zone).date()
    for (name, day), held in sorted(parts.items()):
        path = f"{archive.FOLDER}/{name}"
        old = regular.read_in(workspace, path)
        if old is not None or any(held.values()):
            yield from _write(path, old, archive.put_parts(old, day, held, today))
    path = f"{archive.FOLDER}/{recent.NAME}"
    old = regular.read_in(workspace, path)
    if old is not None or found.last:
        most = runner.settings.sessions
        file = recent.write_file(found.last, most.recent_sessions, most.recent_max_lines)
        yield from _write(path, old, recent.render(file))


def _write(path: str, old: bytes | None, new: bytes) -> Iterable[WriteFile]:
    if new != old and not is_private(path, old or b""):  # a person's own now
        yield WriteFile(path, old, new)
