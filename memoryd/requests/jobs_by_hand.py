"""Carry out requests about jobs: run, dry run, cancel, answer a proposal, end a session."""

from typing import Any, NamedTuple

from sqlalchemy import Engine

from memoryd.app import open_app
from memoryd.changing import ledger_runs
from memoryd.changing.guard_check import HUMAN
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.counted import count_noun
from memoryd.database import backups, reads, runs, sqlite
from memoryd.errors import NotFoundError, RefusedError
from memoryd.files import locked_folder, log
from memoryd.requests import daemon_client, opening, permission, waiting
from memoryd.running import dreaming, evaluating, extraction, modes, queueing, refining, rollover, sandbox, sleeping
from memoryd.running.kinds import check_kind
from memoryd.running.queueing import agent_key

SLEEP = "sleep"


def set_paused(settings: Settings, agent_id: str, *, paused: bool) -> None:
    """Pause or resume an agent. A running daemon notices it when it next checks the queue.

    Raises:
        NotFoundError: The daemon does not know the agent yet.
    """
    with opening.open_to_change(settings) as (engine, _), sqlite.begin_write(engine) as connection:
        if not runs.set_paused(connection, agent_id, paused=paused):
            raise NotFoundError(f"the daemon does not know the agent {agent_id!r} yet", hint=opening.RELOAD)


class JobRequest(NamedTuple):
    """Hold the options of a job that a person asks for."""

    session_id: str | None = None  # only this session (sleep, facts)
    # Also process ended sessions (sleep). Run even if nothing is new (dream), the core is small (refine), or the same
    # input was rejected (dream, refine, dedup).
    force: bool = False
    lookback_days: int | None = None  # days, including today (dream); None: as configured
    mode: str | None = None  # the limit of changes (refine); None: as configured
    before: str | None = None  # also take NOW files that began before this time, even open ones (rollover)
    scheduled: bool = False  # whether a scheduler such as cron asks (rollover)


def run_job(settings: Settings, kind: str, agent: str, asked: JobRequest) -> list[dict[str, Any]]:
    """Run a job and wait; return the rows of its runs. A dream returns only its own row, not those of its sleeps.

    Raises:
        RefusedError: The kind has no modes, or this caller may not start it.
    """
    check_kind(kind)
    require_mode(kind, asked.mode)
    if kind == rollover.KIND:
        permission.require(settings, settings.get_agent(agent), "consolidate", "owner", f"job run {kind}")
    rows = waiting.run_now(
        settings,
        agent,
        lambda engine, clock: _queue_runs(settings, engine, clock, kind, agent, asked),
        fresh=kind in {dreaming.KIND, SLEEP, extraction.KIND, rollover.KIND},
        settled=kind in {dreaming.KIND, refining.KIND, ledger_runs.DEDUP},
    )
    return rows[-1:] if kind == dreaming.KIND else rows


def queue_job(settings: Settings, kind: str, agent_id: str) -> list[str]:
    """Queue a job for the daemon without waiting; return the ids of its runs."""
    check_kind(kind)

    queued = waiting.queue_beside(
        settings, agent_id, lambda engine, clock: _queue_runs(settings, engine, clock, kind, agent_id, JobRequest())
    )
    daemon_client.ask(settings.state_dir, "wake")
    return queued


def require_mode(kind: str, mode: str | None) -> None:
    """Raise a RefusedError if a mode is given for a job without modes."""
    if mode is not None and kind != refining.KIND:
        raise RefusedError(f"{kind!r} jobs have no modes", hint=f"leave --mode out; {refining.KIND} has them")


def _refine(engine: Engine, clock: Clock, agent_id: str, key: str, mode: str | None, *, force: bool) -> str:
    open_run = sqlite.read(engine, runs.open_by_key, key)
    if open_run is not None and refining.is_called(runs.get_run(engine, open_run)):
        hint = "wait until it is over, or end it: memoryd job cancel"
        raise RefusedError("the agent refines its core itself at the moment", open_run, hint)
    options = {"mode": mode} if mode is not None else {}
    return waiting.request(engine, clock, agent_id, refining.KIND, options | {"force": force}, key=key)


def run_dry(settings: Settings, kind: str, agent: Agent, asked: JobRequest) -> list[dict[str, Any]]:
    """Return what a job would do with the turns read so far. Nothing is written, and no model is asked."""
    check_kind(kind)
    require_mode(kind, asked.mode)
    _require_read(settings)
    with locked_folder.make_trial(settings.state_dir, agent.workspace) as place:
        backups.copy_database(reads.database_path(settings), place.state / reads.DATABASE)
        tried = sandbox.settings_of(settings, agent, place)
        with log.configure(place.state, level=settings.log.level), open_app(tried) as app:
            app.runner.proposes = False
            opening.require_known(app.engine, agent.id)
            queued = _queue_runs(tried, app.engine, app.clock, kind, agent.id, asked)
            return [sandbox.run_dry(app.runner, run_id, place.workspace) for run_id in queued]


def _require_read(settings: Settings) -> None:
    if not (path := reads.database_path(settings)).exists():
        raise NotFoundError("nothing has been read yet", str(path), "memoryd run --once")


def _queue_runs(
    settings: Settings, engine: Engine, clock: Clock, kind: str, agent_id: str, asked: JobRequest
) -> list[str]:
    chosen = None
    if asked.session_id is not None:
        chosen = str(reads.ask(reads.database_path(settings), reads.find_session, asked.session_id, agent_id)["id"])
    key = agent_key(kind, agent_id)
    if kind == refining.KIND:
        return [_refine(engine, clock, agent_id, key, asked.mode, force=asked.force)]
    if kind == extraction.KIND:
        queued = extraction.ask_now(engine, clock, agent_id, chosen)
        return queued or [_explain_nothing(engine, clock, agent_id, chosen, kind)]
    if kind == SLEEP:
        return queue_sleeps(engine, clock, agent_id, chosen, force=asked.force)
    if kind == dreaming.KIND:
        flushed = dreaming.flush(engine, settings, clock, agent_id, "manual", HUMAN)
        options = {"force": asked.force, "lookback_days": asked.lookback_days, "flushed": flushed}
        return [*flushed, waiting.request(engine, clock, agent_id, kind, options, key=key)]
    if kind == rollover.KIND and asked.before is not None:
        flushed = [] if asked.scheduled else dreaming.flush(engine, settings, clock, agent_id, "manual", HUMAN)
        about: dict[str, Any] = {"before": asked.before, "scheduled": asked.scheduled}
        return [*flushed, waiting.request(engine, clock, agent_id, kind, about, key=key)]
    forced = {"force": True} if asked.force and kind == ledger_runs.DEDUP else None
    return [waiting.request(engine, clock, agent_id, kind, forced, key=key)]


def answer(settings: Settings, run_id: str, verb: str) -> dict[str, Any]:
    """Accept or reject a proposal, and wait; return the row of the run.

    Raises:
        RefusedError: The run is not an open proposal, or this caller may not edit.
    """
    (row,) = waiting.rows_of(settings, [run_id])
    if row["state"] != runs.PROPOSED:
        what = f"the run is {row['state']}, not a proposal that waits"
        raise RefusedError(what, row["id"], "memoryd status lists them")
    permission.require(settings, settings.get_agent(row["agent_id"]), "edit", "owner", f"job {verb}")
    options = {**row["options"], "run": row["id"], "of": row["kind"]}
    key = f"answer:{row['id']}"
    return waiting.carried_out(settings, row["agent_id"], verb, options, key, session_id=row["session_id"])


def trust(settings: Settings, agent: Agent, kind: str) -> bool:
    """Let a held job continue as configured; return False if it was not held."""
    if kind not in modes.KINDS:
        raise NotFoundError(f"no job kind {kind!r} can be held back", hint=f"kinds: {', '.join(modes.KINDS)}")
    with opening.open_to_change(settings) as (engine, _), sqlite.begin_write(engine) as connection:
        return evaluating.let_go(connection, agent.id, kind, Clock().text())


def evaluate(settings: Settings, agent: Agent, days: int) -> dict[str, Any]:
    """Search for answers to the user's questions of the last days, with and without the core. Return only numbers."""
    _require_read(settings)
    with opening.open_beside(settings) as engine:
        return evaluating.as_row(evaluating.of_agent(engine, settings, agent, Clock().now(), days))


def queue_sleeps(
    engine: Engine, clock: Clock, agent_id: str, session_id: str | None, *, force: bool, reason: str | None = None
) -> list[str]:
    """Queue sleeps for an agent's sessions or for one session.

    Returns the ids of the runs. If no session has new turns, it is the id of one skipped run that says so. `reason` is
    the heading of the daily blocks; by default it follows from the state of each session.
    """
    rows = queueing.list_candidates(engine, agent_id, ended=force or session_id is not None)
    queued = []
    for row in (one for one in rows if session_id in {None, one["id"]}):
        usual = sleeping.TRIMMED if row["state"] == "active" else sleeping.NOTES
        options = {"reason": reason or usual, "upto": None}
        queued.append(queueing.request_by_hand(engine, clock, SLEEP, row, options=options))
    found = [run_id for run_id in queued if run_id is not None]
    return found or [_explain_nothing(engine, clock, agent_id, session_id)]


def _explain_nothing(engine: Engine, clock: Clock, agent_id: str, session_id: str | None, kind: str = SLEEP) -> str:
    is_of_all = session_id is None and kind == SLEEP
    over = len(queueing.list_candidates(engine, agent_id, ended=True)) if is_of_all else 0
    why = f"no {'live ' if is_of_all else ''}session has turns past its watermark"
    if over:
        why += f"; --force takes {count_noun(over, 'session')} that {'is' if over == 1 else 'are'} over"
    return sqlite.write(engine, queueing.skip, clock, kind, agent_id, "manual", why, actor=HUMAN)


def cancel(settings: Settings, run_id: str) -> dict[str, Any]:
    """Cancel a run and return its row.

    Raises:
        RefusedError: The run is writing its files, waits for an answer, or has ended.
    """
    full = waiting.rows_of(settings, [run_id])[0]["id"]
    with opening.open_to_change(settings) as (engine, _):
        was = runs.cancel(engine, full, Clock().text())
    if was == "committing":
        raise RefusedError("the run is writing its files and is completed in any case", where=full)
    if was == runs.PROPOSED:
        raise RefusedError("the run has proposed something", full, "memoryd job reject drops it")
    if was in runs.FINAL and was != "cancelled":
        raise RefusedError(f"the run has ended already: {was}", where=full)
    return waiting.rows_of(settings, [full])[0]


def end_session(settings: Settings, session_id: str) -> dict[str, Any]:
    """End a session by hand and let it sleep. Return the row of the sleep; empty for a session of a subagent."""
    row = reads.ask(reads.database_path(settings), reads.find_session, session_id)
    with opening.open_to_change(settings) as (engine, _):
        sleeping.end(engine, row["id"])
    if row["parent_id"] is not None:
        return {}
    return run_job(settings, SLEEP, str(row["agent_id"]), JobRequest(row["id"], force=True))[0]
