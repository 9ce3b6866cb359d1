"""Decide when a session sleeps, and gather the input of its sleep.

A session is checked when its agent will compact soon, when its context reaches the threshold, and when it ends. The due
sleep is a queued row of the job table, with a key of session and watermark. So however often the session is checked,
the same turns are processed once.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path

from sqlalchemy import Connection, Engine

from memoryd.changing.writer import Writer
from memoryd.clock import Clock, moment_of, text_of
from memoryd.config import Settings
from memoryd.database import query, runs, sqlite, turns
from memoryd.database.history import KIND as HISTORY
from memoryd.database.runs import Run
from memoryd.errors import MemorydError
from memoryd.files import regular
from memoryd.files.log import Log
from memoryd.gauge import live
from memoryd.gauge.fill import fill_of
from memoryd.gauge.sleepiness import Reason, Situation, decide_sleep
from memoryd.jobs import evidence
from memoryd.jobs.claims import Judges
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.job import NothingToDo
from memoryd.jobs.reader import ReaderAnswer
from memoryd.jobs.sleep import CONSUMER, SleepInputs
from memoryd.offline.cue_judge import CueJudge
from memoryd.reading.scrubbing import Scrubber
from memoryd.running import queueing
from memoryd.running.queueing import ASK_AGAIN, list_candidates
from memoryd.scrub.hidden import mask_hidden
from memoryd.tiers import core
from memoryd.transcripts.codex import Codex
from memoryd.transcripts.registry import program_of
from memoryd.transcripts.turn import StoredTurn
from memoryd.worker.client import Worker

TRIMMED = "Trimmed Context"
RECOVERY = "Context Overflow Recovery"
SUMMARY = "Daily Summary"
NOTES = "Session Notes"
REASONS = (TRIMMED, RECOVERY, SUMMARY, NOTES)  # headings of the blocks that sleeps add to daily files
COUNT_CHUNK = 2000
CLOCKS_DIFFER = timedelta(minutes=10)
DAYS_MAX = 40
# The core is full at this many times `dream.max_bullets`. Dreams cannot shrink it fast, because of the deletion limit.
_FULL = 4
_END = "UPDATE session SET state = 'ended', ended_at = last_turn_at WHERE id = ?"


@dataclass(frozen=True, slots=True)
class GatherContext:
    """Hold what a job needs to gather its inputs."""

    engine: Engine
    settings: Settings
    worker: Worker
    scrubber: Scrubber
    clock: Clock
    workspace: Path
    writer: Writer
    model_is_up: bool  # False: the agent has no model, or it is known to be down
    known: Callable[[str], ReaderAnswer | None]  # returns a second reader's earlier answer by the key of the question


@dataclass(frozen=True, slots=True)
class SleepDecision:
    """Hold the result of checking a session."""

    run_id: str | None = None  # of a newly queued run
    again_at: str | None = None  # UTC; time of the next useful check


def window_of(settings: Settings, agent_id: str) -> int | None:
    """Return the context window that is configured for an agent, in tokens; None if there is none."""
    return next((agent.context_window for agent in settings.agents if agent.id == agent_id), None)


# --- counting ---------------------------------------------------------------------------------------------------------


def fill_tokens(engine: Engine, worker: Worker, session_id: str, *, after: int) -> None:
    """Count and store the tokens of a session's turns after the number `after`, where they are missing."""
    while True:
        waiting = sqlite.read(engine, turns.list_uncounted, session_id, after=after, limit=COUNT_CHUNK)
        if not waiting:
            return
        counted = worker.count([text for _, text in waiting])
        turns.fill_tokens(engine, [(turn_id, n) for (turn_id, _), n in zip(waiting, counted, strict=True)])


def needs_counting(row: query.Row) -> bool:
    """Return True if the tokenizer is needed for a live session, because its agent records no token usage."""
    state = live.Gauge(**json.loads(row["gauge"]))
    return row["state"] == "active" and not state.context and row["counted_seq"] < row["last_seq"]


def session_needs_counting(engine: Engine, session_id: str) -> bool:
    """Return True if the tokenizer is needed now for the context usage of a session."""
    row = sqlite.read(engine, turns.session_row, session_id)
    return row is not None and needs_counting(row)


def count_or_estimate(engine: Engine, worker: Worker, log: Log, session_id: str) -> None:
    """Count the tokens of a session's context. If the tokenizer fails, they are estimated.

    Then the stored count is empty, which marks the context usage as an estimate.
    """
    try:
        count_live(engine, worker, session_id)
    except MemorydError as error:
        log.warning("tokens not counted", session=session_id, why=str(error))
        sql = "UPDATE session SET counted_tokens = NULL, counted_seq = last_seq WHERE id = ?"
        sqlite.write(engine, query.run, sql, session_id)


def count_live(engine: Engine, worker: Worker, session_id: str) -> None:
    """Count the tokens in the context of a session without usage figures, and store the sum on its row."""
    row = sqlite.read(engine, turns.session_row, session_id)
    if row is None or not needs_counting(row):
        return
    since = live.Gauge(**json.loads(row["gauge"])).since_seq - 1
    fill_tokens(engine, worker, session_id, after=since)
    with sqlite.begin_write(engine) as connection:
        total = turns.added_since(connection, session_id, after=since, tokens_per_byte=0)
        sql = "UPDATE session SET counted_tokens = ?, counted_seq = ? WHERE id = ?"
        query.run(connection, sql, total, row["last_seq"], session_id)


# --- deciding ---------------------------------------------------------------------------------------------------------


def is_history(row: query.Row, idle_end: timedelta, now: datetime) -> bool:
    """Return True if a session had ended before memoryd first saw the agent, and has no new turns since.

    If `seen_at` is in the future, the clock was wrong, and the session does not count as history.
    """
    return moment_of(row["seen_at"]) <= now and moment_of(row["last_turn_at"]) <= moment_of(row["seen_at"]) - idle_end


def is_left_alone(connection: Connection, settings: Settings, clock: Clock, row: query.Row) -> bool:
    """Return True if a session is history that becomes memory only on request, or by an open import."""
    return is_history(row, settings.sessions.idle_end, clock.now()) and (
        settings.ingest.history == "index"
        or runs.open_by_key(connection, queueing.agent_key(HISTORY, row["agent_id"])) is not None
    )


def end_idle(engine: Engine, settings: Settings, clock: Clock) -> list[str]:
    """End active sessions without a turn for `sessions.idle_end`; return their ids.

    A last turn in the future has a wrong time. Then the time counts when the session's transcripts last changed.
    """
    now = clock.now()
    limit = text_of(now - settings.sessions.idle_end)
    sql = (
        "SELECT id FROM session s WHERE state = 'active' AND (last_turn_at <= ? OR (last_turn_at > ? AND"
        " (SELECT max(fate_at) FROM transcript t WHERE t.session_id = s.id) <= ?))"
    )
    ids = sqlite.read(engine, query.fetch_column, sql, limit, text_of(now + CLOCKS_DIFFER), limit)
    if ids:
        sql = f"{_END} AND state = 'active'"
        sqlite.write(engine, query.change_each, sql, [(session_id,) for session_id in ids])
    return ids


def consider(engine: Engine, settings: Settings, clock: Clock, session_id: str) -> SleepDecision:
    """Queue a sleep of a session if it is due; return the result of the check."""
    with sqlite.begin_read(engine) as connection:
        row = turns.session_row(connection, session_id)
        if row is None or not _may_run(settings, row):
            return SleepDecision()
        mark = turns.read_watermark(connection, session_id, CONSUMER)
        if runs.open_by_key(connection, queueing.key_of(CONSUMER, session_id, mark)) is not None:
            return SleepDecision()  # the end of that run leads to another check
        plan = _plan(connection, settings, clock, row, mark)
    if isinstance(plan, SleepDecision):
        return plan
    reason, trigger, upto = plan
    run_id = request(engine, clock, row, reason=reason, trigger=trigger, upto=upto)
    return SleepDecision(run_id, None if run_id else _asks_again_at(engine, clock, row["id"], mark))


def before_compaction(engine: Engine, settings: Settings, clock: Clock, session_id: str) -> str | None:
    """Queue a sleep before the agent compacts; return the run's id, or None if there is nothing to do.

    Context usage and cooldown are ignored, because the turns will leave the agent's context in a moment.
    """
    with sqlite.begin_read(engine) as connection:
        row = turns.session_row(connection, session_id)
        if row is None or not _may_run(settings, row):
            return None
        mark = turns.read_watermark(connection, session_id, CONSUMER)
        if not turns.count_unslept(connection, session_id, after=mark, upto=row["last_seq"]):
            return None
    return request(engine, clock, row, reason=TRIMMED, trigger="hook")


def end(engine: Engine, session_id: str) -> None:
    """Mark a session as ended at the time of its last turn. A new turn makes it active again."""
    sqlite.write(engine, query.run, _END, session_id)


def _asks_again_at(engine: Engine, clock: Clock, session_id: str, mark: int) -> str | None:
    key = queueing.key_of(CONSUMER, session_id, mark)
    at = sqlite.read(engine, runs.gave_up_at, key, text_of(clock.now() - ASK_AGAIN))
    return None if at is None else text_of(moment_of(at) + ASK_AGAIN + timedelta(seconds=1))


def _may_run(settings: Settings, row: query.Row) -> bool:
    # The session of a subagent is not the agent's own memory. Its result is in the parent's transcript.
    if settings.modes.sleep == "off" or row["parent_id"] is not None:
        return False
    return any(agent.id == row["agent_id"] and agent.enabled for agent in settings.agents)


def _plan(
    connection: Connection, settings: Settings, clock: Clock, row: query.Row, mark: int
) -> tuple[str, str, int | None] | SleepDecision:
    if row["last_seq"] <= mark or is_left_alone(connection, settings, clock, row):
        return SleepDecision()
    if row["state"] == "ended":
        return (NOTES, "session-end", None)
    compacted = turns.last_compaction(connection, row["id"])
    if compacted > mark and turns.count_unslept(connection, row["id"], after=mark, upto=compacted):
        return (RECOVERY, "recovery", compacted)
    verdict = _sleepiness(connection, settings, clock, row, mark, compacted)
    if verdict is Reason.FULL:
        return (TRIMMED, "threshold", None)
    if verdict is Reason.COOLDOWN:
        return SleepDecision(again_at=text_of(moment_of(row["slept_at"]) + settings.sleep.cooldown))
    return SleepDecision()


def _sleepiness(
    connection: Connection, settings: Settings, clock: Clock, row: query.Row, mark: int, compacted: int
) -> Reason:
    fill = fill_of(row, window_of(settings, row["agent_id"]))
    if fill.ratio < settings.sleep.threshold * 0.999:
        # This common case needs no count of the turns since the last sleep.
        return Reason.BELOW
    gauge = live.Gauge(**json.loads(row["gauge"]))
    situation = Situation(
        tokens=fill.live.tokens,
        window=fill.window.tokens,
        messages=turns.count_unslept(connection, row["id"], after=mark),
        added=turns.added_since(connection, row["id"], after=mark, tokens_per_byte=live.tokens_per_byte(gauge)),
        watermark=mark,
        compaction=compacted,
        slept_at=moment_of(row["slept_at"]) if row["slept_at"] else None,
    )
    return decide_sleep(settings.sleep, situation, clock.now())


def request(
    engine: Engine, clock: Clock, row: query.Row, trigger: str, *, reason: str, upto: int | None = None, **by: str
) -> str | None:
    """Queue a sleep over a session's turns after its watermark.

    Returns None if such a run is open, or if one failed for good a short time ago.
    """
    return queueing.request(engine, clock, CONSUMER, row, trigger, options={"reason": reason, "upto": upto}, **by)


def count_turns(engine: Engine) -> int:
    """Return the number of stored turns with a text, or with one that was withheld, forgotten or expired."""
    sql = "SELECT count(*) FROM turn WHERE text <> '' OR withheld IS NOT NULL"
    return sqlite.read(engine, query.fetch_number, sql)


def list_unfinished(engine: Engine, settings: Settings, clock: Clock) -> set[str]:
    """Return the ids of sessions that may be due without new turns, for example after a start."""
    flush = settings.ingest.history == "flush"
    return {
        row["id"]
        for agent in settings.agents
        for kind in queueing.OF_TURNS
        for row in list_candidates(engine, agent.id, kind, ended=True)
        if flush or not is_history(row, settings.sessions.idle_end, clock.now())
    }


def flush_live(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str) -> None:
    """Queue a sleep of each live session of each agent, once for this scheduled time.

    A skipped run uses the scheduled time and says how many were queued. Agents that were first seen later are left out.
    After a crash in between, this is repeated; the keys of the runs prevent duplicates.
    """
    for agent, name in queueing.agents_of_slot(engine, settings, CONSUMER, slot, at):
        found = [
            request(engine, clock, row, reason=SUMMARY, trigger=trigger) for row in list_candidates(engine, agent.id)
        ]
        count = sum(map(bool, found))
        why = f"{count} live sessions were queued" if count else "no live session has new turns"
        sqlite.write(engine, queueing.skip, clock, CONSUMER, agent.id, trigger, why, slot=name)


# --- gathering --------------------------------------------------------------------------------------------------------


def gather(source: GatherContext, run: Run) -> SleepInputs | NothingToDo:
    """Return the frozen input of one sleep of a session, or the reason for none."""
    session_id = run.session_id or ""
    with sqlite.begin_read(source.engine) as connection:
        row = turns.session_row(connection, session_id)
        if row is None:
            return NothingToDo("the session is not known")
        mark = turns.read_watermark(connection, session_id, CONSUMER)
        upto = int(run.options.get("upto") or row["last_seq"])
        since = turns.last_compaction(connection, session_id, upto=upto)
        # The agent's present context begins at its last compaction. A recovery processes the turns before it.
        before = turns.last_compaction(connection, session_id, upto=since - 1) if since == upto else since
    if run.options.get("upto") is None:
        # Stored before the model is asked, so that another attempt asks the same question and can use a stored reply.
        runs.pin(source.engine, run, {"upto": upto})
    fill_tokens(source.engine, source.worker, session_id, after=min(mark, before))
    with sqlite.begin_read(source.engine) as connection:
        covered = turns.stored_turns(connection, session_id, after=mark, upto=upto)
        earlier = turns.stored_turns(connection, session_id, upto=mark)
        held = turns.stored_turns(connection, session_id, after=before, upto=upto, main_only=True)
        # Without a sleep, the summary is a rollover's, and its content is not in a daily file yet.
        summary = turns.running_summary(connection, session_id) if mark else None
        unscanned = turns.count_unscanned(connection, session_id, after=mark, upto=upto)
    timed = check_times(set_aside_scheduled(covered, earlier), row)
    inputs = make_inputs(source, run, row, timed, files_of_people(source, timed))
    if upto < row["last_seq"]:
        inputs = replace(inputs, branch=None)  # the row has the branch at the end of the session
    live, past = check_times(held, row), check_times(set_aside_scheduled(earlier), row)
    return replace(inputs, live=live, previous_summary=summary, earlier=past, unscanned=unscanned)


def make_inputs(
    source: GatherContext, run: Run, row: query.Row, covered: Sequence[StoredTurn], known: tuple[str, tuple[str, ...]]
) -> SleepInputs:
    """Return the input of a first sleep over turns of a session. `known` has the daily files and the core."""
    settings = source.settings
    return SleepInputs(
        agent_id=run.agent_id,
        session_id=row["id"],
        program=program_of(row["format"]),
        folder=row["folder"],
        branch=row["branch"],
        reason=run.options.get("reason", NOTES),
        turns=set_aside_scheduled(check_times(covered, row)),
        live=(),
        previous_summary=None,
        core=known[1],
        is_full=len(known[1]) >= _FULL * settings.dream.max_bullets,
        daily=known[0],
        window=fill_of(row, window_of(settings, run.agent_id)).window.tokens,
        budget=settings.sleep.budget,
        keep_recent=settings.sleep.keep_recent,
        strategy=settings.sleep.strategy,
        tz=settings.zone,
        count_tokens=source.worker.count,
        now=source.clock.now(),
        instructions=read_instructions("sleep"),
        judges=make_judges(source),
    )


def make_judges(source: GatherContext) -> Judges:
    """Return what is needed to judge the claims in a reply."""
    return Judges(CueJudge(), read_instructions("verify"), read_instructions("repair"), source.known)


def files_of_people(source: GatherContext, covered: Sequence[StoredTurn]) -> tuple[str, tuple[str, ...]]:
    """Return the daily files and the bullets of `MEMORY.md`, with secrets redacted, because a model gets them."""
    bullets = [bullet.text for bullet in core.parse(regular.read_in(source.workspace, "MEMORY.md") or b"").bullets]
    days, *known = source.scrubber.redact([_dailies(source, covered), *bullets])
    return days, tuple(known)


def _dailies(source: GatherContext, covered: Sequence[StoredTurn]) -> str:
    """Return the daily files of today and of the days of these turns."""
    said = (at for turn in covered if (at := evidence.parse_moment(turn.at)))
    days = {at.astimezone(source.settings.zone).date() for at in (source.clock.now(), *said)}
    texts = []
    for day in sorted(days)[-DAYS_MAX:]:
        data = regular.read_in(source.workspace, f"memory/{day.isoformat()}.md")
        texts.append(mask_hidden(data or b"").decode("utf-8", "replace"))
    return "\n".join(texts)


def check_times(found: Sequence[StoredTurn], row: query.Row) -> tuple[StoredTurn, ...]:
    """Return the turns, without invalid times.

    Old versions of Codex wrote no time for a message. Then the start of the session is used.
    """
    begin = row["started_at"] if row["format"] == Codex.name else None
    return tuple(turn if evidence.parse_moment(turn.at) else turn._replace(at=begin) for turn in found)


def read_instructions(job: str) -> str:
    """Return the prompt of a job."""
    return resources.files("memoryd.jobs").joinpath(f"{job}.md").read_text("utf-8")
