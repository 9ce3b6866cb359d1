"""Queue runs when their scheduled time (slot) is reached, and refinements also when a core has become too large.

If a core is too large and cannot be refined, an alarm says why.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from memoryd.app import App
from memoryd.changing import ledger_runs
from memoryd.clock import Clock, text_of
from memoryd.config import Agent, Settings
from memoryd.daemon import schedule
from memoryd.daemon.schedule import Due
from memoryd.database import alarms, memories, runs, sqlite
from memoryd.jobs.refine import AGENT_DECLINED, UNCLEAR
from memoryd.running import dreaming, evaluating, modes, queueing, refining, rollover, self_test, sleeping

MOST_MISSED = 400
LATE = timedelta(minutes=2)
UNSCHEDULED = timedelta(days=7)  # between two refinements of a core that is too large, if they have no schedule
ALARM = "core"


def _queue_refinements(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str) -> None:
    """Queue a refinement of each agent, once for this scheduled time.

    If an agent is paused or already refining, a skipped run uses the scheduled time and has the reason.
    """
    for agent, name in queueing.agents_of_slot(engine, settings, refining.KIND, slot, at):
        with sqlite.begin_write(engine) as connection:
            is_paused = runs.is_paused(connection, agent.id)
            if is_paused or not _enqueue(connection, clock, agent.id, trigger=trigger, slot=name):
                why = "the agent is paused" if is_paused else "a refinement waits or runs already"
                queueing.skip(connection, clock, refining.KIND, agent.id, trigger, why, slot=name)


def _enqueue(connection: Connection, /, clock: Clock, agent_id: str, **more: str) -> bool:
    key = queueing.agent_key(refining.KIND, agent_id)
    return queueing.queue(connection, clock, refining.KIND, agent_id, key, **more) is not None


_ASKS = {rollover.KIND: rollover.queue, ledger_runs.DEDUP: queueing.queue_dedup, refining.KIND: _queue_refinements}


def queue_ready(app: App, slot: Due, *, is_late: bool = False) -> None:
    """Queue the runs of a scheduled time for the agents whose own time has come.

    Args:
        app: The app with the agents.
        slot: The scheduled time.
        is_late: Whether all runs count as caught up, not only those past their agent's time.
    """
    late: list[Agent] = []
    on_time: list[Agent] = []
    for agent in app.settings.agents:
        since = app.clock.now() - slot.at - schedule.delay_of(app.settings, slot.gap, agent.id)
        if since >= timedelta():
            (late if is_late or since >= LATE else on_time).append(agent)
    for agents, trigger in ((late, "catch-up"), (on_time, "schedule")):
        if agents:
            queue(app, slot, trigger, replace(app.settings, agents=tuple(agents)))


def queue(app: App, slot: Due, trigger: str, settings: Settings) -> None:
    """Queue the runs of a scheduled time once. `settings` may hold only some agents."""
    if slot.kind == dreaming.KIND:
        dreaming.queue(app.engine, settings, app.clock, slot.slot, slot.at, trigger, _count_missed(app, slot))
        self_test.queue(app.engine, settings, app.clock, slot.slot, slot.at, trigger)
        evaluating.queue(app.engine, settings, app.clock, slot.slot)
        return
    ask = _ASKS.get(slot.kind, sleeping.flush_live)
    ask(app.engine, settings, app.clock, slot.slot, slot.at, trigger)


def _count_missed(app: App, slot: Due) -> int:
    """Count the scheduled times of the dream that were missed since the last used one."""
    last = dreaming.last_slot(app.engine, [agent.id for agent in app.settings.agents])
    line = app.settings.dream.schedule
    if last is None or line is None:
        return 0
    zone = app.settings.zone
    trigger = schedule.trigger_of(line, zone)
    after = datetime.fromisoformat(last).replace(tzinfo=zone, fold=1)  # a repeated hour repeats no scheduled time
    return schedule.fires_between(trigger, after, slot.at, MOST_MISSED)


def look_at_cores(app: App) -> None:
    """Check the size of each core: queue a refinement if it is too large, and raise or clear the alarm.

    A core that was asked about since the last scheduled time is not asked about again.
    """
    engine, settings, clock = app.engine, app.settings, app.clock
    for agent in settings.agents:
        with sqlite.begin_read(engine) as connection:
            if not runs.knows_agent(connection, agent.id):
                continue
            tokens = memories.core_tokens(connection, agent.id)
            last = runs.last_of_kind(connection, agent.id, refining.KIND)
        over = agent.enabled and tokens > settings.refine.trigger_tokens
        is_on = over and modes.mode_of(engine, settings, agent.id, refining.KIND) != modes.OFF
        text = _explain_alarm(settings, tokens, last, is_on=is_on) if over else None
        if alarms.set_alarm(engine, ALARM, text, clock.text(), agent.id):
            app.log.warning("alarm", kind=ALARM, agent=agent.id, text=text)
        if not is_on:
            continue
        since = text_of(refinement_slot(settings, clock.now()))
        with sqlite.begin_read(engine) as connection:
            asked = runs.asked_since(connection, agent.id, refining.KIND, since)
            waits = asked or runs.is_paused(connection, agent.id)
        if not waits:
            sqlite.write(engine, _enqueue, clock, agent.id, trigger="threshold")


def _explain_alarm(settings: Settings, tokens: int, last: tuple[str, str, str] | None, *, is_on: bool) -> str | None:
    """Return the text of the alarm about a core that is too large; None if a refinement may still help."""
    size = f"the core has {tokens:,} tokens, over refine.trigger_tokens, {settings.refine.trigger_tokens:,}"
    if not is_on:
        return f"{size}, and modes.refine is off: memoryd job run refine condenses it"
    if last is None or last[0] != "declined":
        return None
    _, at, why = last
    again = "memoryd job run refine"
    if why in {AGENT_DECLINED, UNCLEAR}:
        return f"{size}, and it was not refined on {at[:10]} ({why}): {again} asks the agent again"
    if why.startswith(runs.REJECTED):
        again = f"shorten MEMORY.md by hand, or {again} --force proposes it again"
    return f"{size}, and what was proposed on {at[:10]} was not done ({why}): {again}"


def refinement_slot(settings: Settings, now: datetime) -> datetime:
    """Return the last scheduled time of the refinement, or the time a week ago if it has no schedule."""
    due = [slot.at for slot in schedule.list_due(settings, now) if slot.kind == refining.KIND]
    return due[0] if due else now - UNSCHEDULED
