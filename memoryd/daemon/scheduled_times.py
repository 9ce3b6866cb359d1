"""Queue runs when their scheduled time (slot) is reached."""

from dataclasses import replace
from datetime import datetime, timedelta

from memoryd.app import App
from memoryd.changing import ledger_runs
from memoryd.config import Agent, Settings
from memoryd.daemon import schedule
from memoryd.daemon.schedule import Due
from memoryd.running import dreaming, evaluating, queueing, refinement_due, refining, rollover, self_test, sleeping

MOST_MISSED = 400
LATE = timedelta(minutes=2)


UNSCHEDULED = timedelta(days=7)  # between two refinements of a core that is too large, if they have no schedule
_ASKS = {rollover.KIND: rollover.queue, ledger_runs.DEDUP: queueing.queue_dedup, refining.KIND: refinement_due.queue}


def queue_ready(app: App, slot: Due, *, is_late: bool = False) -> int:
    """Queue the runs of a scheduled time for the agents whose own time has come; return how many were queued.

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
    queued = 0
    for agents, trigger in ((late, "catch-up"), (on_time, "schedule")):
        if agents:
            queued += queue(app, slot, trigger, replace(app.settings, agents=tuple(agents)))
    return queued


def queue(app: App, slot: Due, trigger: str, settings: Settings | None = None) -> int:
    """Queue the runs of a scheduled time once; return how many were queued. `settings` may hold only some agents."""
    settings = settings or app.settings
    if slot.kind == dreaming.KIND:
        missed = _count_missed(app, slot)
        queued = dreaming.queue(app.engine, settings, app.clock, slot.slot, slot.at, trigger, missed)
        queued += self_test.queue(app.engine, settings, app.clock, slot.slot, slot.at, trigger)
        return queued + evaluating.queue(app.engine, settings, app.clock, slot.slot)
    ask = _ASKS.get(slot.kind, sleeping.flush_live)
    return ask(app.engine, settings, app.clock, slot.slot, slot.at, trigger)


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


def look_at_cores(app: App) -> int:
    """Queue a refinement of each core that is too large; return how many were queued."""
    return refinement_due.consider(
        app.engine, app.settings, app.clock, app.log, lambda: refinement_slot(app.settings, app.clock.now())
    )


def refinement_slot(settings: Settings, now: datetime) -> datetime:
    """Return the last scheduled time of the refinement, or the time a week ago if it has no schedule."""
    due = [slot.at for slot in schedule.list_due(settings, now) if slot.kind == refining.KIND]
    return due[0] if due else now - UNSCHEDULED
