"""Queue runs. Every run enters the job table through this module."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.changing import ledger_runs
from memoryd.clock import Clock, text_of
from memoryd.config import Agent, Settings
from memoryd.database import query, runs, sqlite, turns
from memoryd.running import modes

OF_TURNS = ("sleep", "facts")  # kinds of runs that process the turns of sessions
ASK_AGAIN = timedelta(hours=24)  # pause after a run over the same turns failed for good or was cancelled


def queue(
    connection: Connection,
    /,
    clock: Clock,
    kind: str,
    agent_id: str,
    key: str | None = None,
    *,
    trigger: str,
    **more: Any,
) -> str | None:
    """Queue a run that is due now.

    Args:
        connection: a write transaction.
        clock: tells the time, which is a part of the run's id.
        kind: kind of the run.
        agent_id: the agent.
        key: only one run with the same key can be open.
        trigger: schedule, manual, agent, threshold, recovery …
        more: other columns: `slot`, session_id, options, scheduled_for, created_at, actor (default: memoryd).

    Returns:
        The id of the run; None if a run with its key is open, or if its scheduled time was used.
    """
    now, run_id = clock.text(), runs.new_run_id(clock.now())
    row = {"id": run_id, "kind": kind, "agent_id": agent_id, "key": key, "trigger": trigger, "actor": "memoryd"}
    return run_id if runs.enqueue(connection, row | {"created_at": now, "scheduled_for": now} | more) else None


def skip(connection: Connection, /, clock: Clock, kind: str, agent_id: str, trigger: str, why: str, **more: str) -> str:
    """Record a run that had nothing to do, with the reason; a given `slot` counts as used. Return its id."""
    run_id = runs.new_run_id(clock.now())
    row = {"id": run_id, "kind": kind, "agent_id": agent_id, "actor": "memoryd", "trigger": trigger, "why": why}
    runs.skip(connection, row | more, clock.text())
    return run_id


# --- the schedule -----------------------------------------------------------------------------------------------------


def agents_of_slot(
    engine: Engine, settings: Settings, kind: str, slot: str, at: datetime
) -> Iterator[tuple[Agent, str]]:
    """Yield each enabled agent that has not used this scheduled time yet, with the value for `job_run.slot`.

    Agents that were first seen after `at`, and those for which the kind is off, are left out.
    """
    for agent in (one for one in settings.agents if one.enabled):
        name = f"{kind}:{agent.id}:{slot}"
        with sqlite.begin_read(engine) as connection:
            is_known = runs.knows_agent(connection, agent.id) and not runs.slot_is_used(connection, name)
            if not is_known or turns.agent_seen_at(connection, agent.id) > text_of(at):
                continue
        if modes.mode_of(engine, settings, agent.id, kind) != modes.OFF:
            yield agent, name


def queue_dedup(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str) -> None:
    """Queue a dedup of each agent, once for this scheduled time."""
    for agent, name in agents_of_slot(engine, settings, ledger_runs.DEDUP, slot, at):
        sqlite.write(engine, queue, clock, ledger_runs.DEDUP, agent.id, trigger=trigger, slot=name)


def agent_key(kind: str, agent_id: str) -> str:
    """Return the key that allows only one open run of a kind for each agent."""
    return f"{kind}:{agent_id}"


# --- turns of a session -----------------------------------------------------------------------------------------------


def key_of(kind: str, session_id: str, mark: int) -> str:
    """Return the key of a run over a session's turns after a watermark, so that it is queued only once."""
    return f"{kind}:{session_id}:{mark}"


def request(
    engine: Engine, clock: Clock, kind: str, row: dict[str, Any], trigger: str, *, actor: str = "memoryd", **more: Any
) -> str | None:
    """Queue a run over a session's turns after its watermark.

    Returns None if such a run is open, or if one failed for good a short time ago.
    """
    with sqlite.begin_write(engine) as connection:
        key = key_of(kind, row["id"], turns.read_watermark(connection, row["id"], kind))
        if runs.open_by_key(connection, key) is not None:
            return None
        if actor != "human" and runs.gave_up_at(connection, key, text_of(clock.now() - ASK_AGAIN)):
            return None
        of_session: dict[str, Any] = {"session_id": row["id"], **more}
        return queue(connection, clock, kind, row["agent_id"], key, trigger=trigger, actor=actor, **of_session)


def request_by_hand(engine: Engine, clock: Clock, kind: str, row: dict[str, Any], **more: Any) -> str | None:
    """Queue a run over a session's turns for a person. If one waits already, make it due at once and return it."""
    run_id = request(engine, clock, kind, row, "manual", actor="human", **more)
    if run_id is None and (run_id := open_run(engine, kind, row["id"])) is not None:
        runs.hurry_run(engine, run_id, clock.text())
    return run_id


def open_run(engine: Engine, kind: str, session_id: str) -> str | None:
    """Return the open run over a session's turns after its watermark; None if there is none."""
    with sqlite.begin_read(engine) as connection:
        mark = turns.read_watermark(connection, session_id, kind)
        return runs.open_by_key(connection, key_of(kind, session_id, mark))


def list_candidates(engine: Engine, agent_id: str, kind: str = "sleep", *, ended: bool = False) -> list[dict[str, Any]]:
    """List an agent's own sessions with turns after the watermark of a kind, newest first.

    With `ended`, sessions that have ended are included.
    """
    sql = (
        "SELECT s.* FROM session s LEFT JOIN watermark w ON w.session_id = s.id AND w.consumer = ?"
        " WHERE s.agent_id = ? AND s.parent_id IS NULL AND s.last_seq > coalesce(w.seq, 0)"
        " AND (s.state = 'active' OR ?) ORDER BY s.last_turn_at DESC, s.id"
    )
    return list(sqlite.read(engine, query.fetch_mappings, sql, kind, agent_id, ended))
