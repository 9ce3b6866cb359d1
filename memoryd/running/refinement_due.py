"""Decide when an agent's core is refined: every week, and additionally when it has become too large.

If it is too large and cannot be refined, an alarm says why.
"""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, Engine

from memoryd.clock import Clock, text_of
from memoryd.config import Settings
from memoryd.database import alarms, memories, runs, sqlite
from memoryd.files.log import Log
from memoryd.gauge.estimate import CHARACTERS_PER_TOKEN
from memoryd.jobs.refine import AGENT_DECLINED, UNCLEAR
from memoryd.running import modes, queueing, refining

ALARM = "core"


def queue(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str) -> int:
    """Queue a refinement of each agent, once for this scheduled time; return how many.

    If an agent is paused or already refining, a skipped run uses the scheduled time and has the reason.
    """
    queued = 0
    for agent, name in queueing.agents_of_slot(engine, settings, refining.KIND, slot, at):
        if modes.mode_of(engine, settings, agent.id, refining.KIND) == modes.OFF:
            continue
        with sqlite.begin_write(engine) as connection:
            is_paused = runs.is_paused(connection, agent.id)
            if not is_paused and _enqueue(connection, clock, agent.id, trigger=trigger, slot=name):
                queued += 1
            else:
                why = "the agent is paused" if is_paused else "a refinement waits or runs already"
                queueing.skip(connection, clock, refining.KIND, agent.id, trigger, why, slot=name)
    return queued


def _enqueue(connection: Connection, /, clock: Clock, agent_id: str, **more: str) -> bool:
    key = queueing.agent_key(refining.KIND, agent_id)
    return queueing.queue(connection, clock, refining.KIND, agent_id, key, **more) is not None


def consider(engine: Engine, settings: Settings, clock: Clock, log: Log, since: Callable[[], datetime]) -> int:
    """Check the size of each core: queue a refinement if it is too large, and raise or clear the alarm.

    A core that was asked about since the last scheduled time (`since`) is not asked about again. Returns how many runs
    were queued.
    """
    queued = 0
    for agent in settings.agents:
        with sqlite.begin_read(engine) as connection:
            if not runs.knows_agent(connection, agent.id):
                continue
            tokens = memories.core_tokens(connection, agent.id, CHARACTERS_PER_TOKEN)
            last = runs.last_of_kind(connection, agent.id, refining.KIND)
        over = agent.enabled and tokens > settings.refine.trigger_tokens
        is_on = over and modes.mode_of(engine, settings, agent.id, refining.KIND) != modes.OFF
        text = _explain_alarm(settings, tokens, last, is_on=is_on) if over else None
        if alarms.set_alarm(engine, ALARM, text, clock.text(), agent.id):
            log.warning("alarm", kind=ALARM, agent=agent.id, text=text)
        if not is_on:
            continue
        with sqlite.begin_read(engine) as connection:
            asked = runs.asked_since(connection, agent.id, refining.KIND, text_of(since()))
            waits = asked or runs.is_paused(connection, agent.id)
        if not waits:
            queued += sqlite.write(engine, _enqueue, clock, agent.id, trigger="threshold")
    return queued


def _explain_alarm(settings: Settings, tokens: int, last: tuple[str, str, str] | None, *, is_on: bool) -> str | None:
    """Return the text of the alarm about a core that is too large; None if a refinement may still help."""
    size = f"the core has {tokens:,} tokens, over refine.trigger_tokens, {settings.refine.trigger_tokens:,}"
    if not is_on:
        return f"{size}, and modes.refine is off: memoryd job run refine condenses it"
    if last is not None and last[0] == "declined" and last[2] not in {AGENT_DECLINED, UNCLEAR}:
        again = "memoryd job run refine"
        if last[2].startswith(runs.REJECTED):
            again = f"shorten MEMORY.md by hand, or {again} --force proposes it again"
        return f"{size}, and what was proposed on {last[1][:10]} was not done ({last[2]}): {again}"
    if last is not None and last[0] == "declined":
        return (
            f"{size}, and it was not refined on {last[1][:10]} ({last[2]}): memoryd job run refine asks the agent again"
        )
    return None
