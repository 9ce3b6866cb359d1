"""Compute scheduled times. APScheduler computes when a cron line fires, and the job table records the used times.

Each tick of the loop computes what is due from the configuration and the time. The last time at which a cron line
fired, as local wall-clock time, is a scheduled time (slot), and is used once. So a run that was due while the machine
was off is caught up once. An hour that a clock change repeats does not repeat its run.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from memoryd.config import Settings
from memoryd.cron import parse_cron

REPEATED_MAX = 200  # minutes; no clock change repeats more than two hours
LOOK_BACK = (timedelta(hours=2), timedelta(days=2), timedelta(days=9), timedelta(days=40), timedelta(days=400))


@dataclass(frozen=True, slots=True)
class Due:
    """Hold a scheduled time that has been reached."""

    kind: str
    at: datetime  # aware, in the configured time zone
    gap: timedelta = timedelta()  # until the schedule fires again

    @property
    def slot(self) -> str:
        """Return the scheduled time as local wall-clock time. It is the same in both passes through a repeated hour."""
        return self.at.strftime("%Y-%m-%dT%H:%M")


def trigger_of(line: str, zone: ZoneInfo) -> CronTrigger:
    """Parse a cron line into a trigger in a time zone."""
    return CronTrigger(**parse_cron(line), timezone=zone)


def list_triggers(settings: Settings) -> dict[str, CronTrigger]:
    """Return the trigger of each kind of job that has a schedule."""
    modes = settings.modes
    lines = {
        "sleep": settings.sleep.schedule,
        "rollover": settings.sessions.schedule if modes.rollover != "off" else None,
        "dedup": settings.dedup.schedule if modes.dedup != "off" else None,
        "dream": settings.dream.schedule if modes.dream != "off" else None,
        "refine": settings.refine.schedule if modes.refine != "off" else None,
    }
    return {kind: trigger_of(line, settings.zone) for kind, line in lines.items() if line}


def fires_between(trigger: CronTrigger, after: datetime, before: datetime, most: int) -> int:
    """Count how often a trigger fires after one time and before another; stop at `most`."""
    missed = takewhile(lambda moment: moment < before, _list_fires(trigger, after.astimezone(UTC)))
    return sum(1 for _ in islice(missed, most))


def last_fire(trigger: CronTrigger, now: datetime) -> datetime | None:
    """Return when a trigger fired last, at or before `now`, or None if it did not fire in the last 400 days."""
    now = now.astimezone(UTC)
    for back in LOOK_BACK:
        found = max(takewhile(lambda moment: moment <= now, _list_fires(trigger, now - back)), default=None)
        if found is not None:
            return found.astimezone(trigger.timezone)
    return None


def _list_fires(trigger: CronTrigger, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a trigger fires after a time in UTC."""
    moment = _fires_after(trigger, after)
    while moment is not None:
        yield moment
        moment = _fires_after(trigger, moment)


def _fires_after(trigger: CronTrigger, after: datetime) -> datetime | None:
    """Return when a trigger fires next, strictly after a time in UTC, or None if it never does.

    APScheduler counts in wall-clock time. Inside an hour that a clock change repeats, it returns the first pass again
    and again. So this function checks the answer and, if necessary, asks again from outside that hour. At a clock
    change of half an hour, APScheduler skips the next day unless it is asked from later on the day of the change.
    """
    start = after + timedelta(seconds=1)
    for _ in range(REPEATED_MAX):
        asked = [
            trigger.get_next_fire_time(None, begin.astimezone(trigger.timezone))
            for begin in (start, start + timedelta(hours=12))
        ]
        moments: list[datetime] = [found.astimezone(UTC) for found in asked if found is not None]
        if not moments:
            return None
        if later := [moment for moment in moments if moment > after]:
            return min(later)
        start += timedelta(minutes=1)
    return None


def list_due(settings: Settings, now: datetime) -> list[Due]:
    """Return the newest scheduled time of each schedule. Most of them have been used, which the job table records."""
    found = []
    for kind, trigger in list_triggers(settings).items():
        if (at := last_fire(trigger, now)) is not None:
            after = _fires_after(trigger, at.astimezone(UTC)) if settings.fleet.database is not None else None
            found.append(Due(kind, at.astimezone(settings.zone), timedelta() if after is None else after - at))
    return found


def delay_of(settings: Settings, gap: timedelta, agent_id: str) -> timedelta:
    """Return how long after its schedule an agent of a fleet runs: always the same share of `fleet.spread`.

    The delay is less than `gap`, the time until the schedule fires again. Otherwise the agent would never run.
    """
    if settings.fleet.database is None:
        return timedelta()
    digest = hashlib.sha256(f"{settings.fleet.host}/{agent_id}".encode()).digest()
    return min(settings.fleet.spread, gap) * (int.from_bytes(digest[:8]) / 2**64)


def own_times(settings: Settings, now: datetime) -> Callable[[str], dict[str, datetime]]:
    """Return a function from an agent's id to the next time of each scheduled kind, including its delay in a fleet."""
    coming = {kind: _fires_after(trigger, now.astimezone(UTC)) for kind, trigger in list_triggers(settings).items()}
    next_at = {kind: at.astimezone(settings.zone) for kind, at in coming.items() if at is not None}
    last = {due.kind: due for due in list_due(settings, now)}

    def of_agent(agent_id: str) -> dict[str, datetime]:
        found = {}
        for kind, at in next_at.items():
            delay = delay_of(settings, last[kind].gap if kind in last else timedelta(), agent_id)
            waits = kind in last and last[kind].at + delay > now
            found[kind] = (last[kind].at if waits else at) + delay
        return found

    return of_agent
