"""Schedules: slots by local wall-clock time, used once, caught up once, unmoved by clock changes."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from daily import one_in
from hypothesis import given
from hypothesis import strategies as st
from scratch import STARTED, Scratch, filler, in_process, message, said

from memoryd import config
from memoryd.daemon import schedule
from memoryd.daemon.once import run_once
from memoryd.running import sleeping

DAY = timedelta(days=1)
# Zone, the nights of its clock changes: forward and back. Lord Howe moves by half an hour, at 02:00.
CHANGES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),
}


def settings_for(tmp_path, zone="UTC", line="0 3 * * *", **more):
    scratch = Scratch(tmp_path / f"scratch-{zone.replace('/', '-')}-{abs(hash(line))}", timezone=zone)
    scratch.write_config(
        **{
            "sleep": {"schedule": line},
            "dedup": {"schedule": None},
            "dream": {"schedule": None},
            "refine": {"schedule": None},
        }
        | more
    )
    return scratch, config.load(scratch.config)


def slots_between(settings, start, end, step=timedelta(minutes=10)):
    """The slots a daemon meets that looks every few minutes."""
    met = Counter()
    now = start
    while now <= end:
        met.update({due.slot for due in schedule.list_due(settings, now)})
        now += step
    return met


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("night", [0, 1], ids=["forward", "back"])
@pytest.mark.parametrize("line", one_in(2, ["30 2 * * *", "0 2 * * *", "45 1 * * *", "0 3 * * *", "15 3 * * *"]))
def test_a_clock_change_gives_each_local_date_one_slot(tmp_path, zone, night, line):
    _, settings = settings_for(tmp_path, zone, line)
    middle = datetime.fromisoformat(CHANGES[zone][night]).replace(hour=12, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    hour = timedelta(hours=1)
    met = slots_between(settings, middle - 3 * DAY, middle - DAY, hour)
    met |= slots_between(settings, middle - DAY, middle)
    met |= slots_between(settings, middle, middle + 2 * DAY, hour)
    dates = sorted(slot[:10] for slot in met)
    assert dates == sorted(set(dates)), met
    first, last = (datetime.fromisoformat(dates[end]).date() for end in (0, -1))
    assert len(dates) == (last - first).days + 1 >= 5, met


@given(
    st.sampled_from(sorted(CHANGES)),
    st.datetimes(min_value=datetime(2025, 1, 1), max_value=datetime(2030, 1, 1)),  # noqa: DTZ001 - made aware below
    st.integers(0, 23),
    st.integers(0, 59),
)
def test_what_fired_last_is_never_in_the_future_and_never_long_ago(zone, now, hour, minute):
    moment = now.replace(tzinfo=UTC)
    trigger = schedule.trigger_of(f"{minute} {hour} * * *", ZoneInfo(zone))
    found = schedule.last_fire(trigger, moment)
    assert found is not None
    assert timedelta() <= moment - found < DAY + timedelta(hours=2)


@pytest.mark.parametrize("zone", CHANGES)
def test_the_times_only_go_forward_through_the_night_that_is_longer(zone):
    trigger = schedule.trigger_of("*/30 * * * *", ZoneInfo(zone))
    now = datetime.fromisoformat(CHANGES[zone][1]).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    fired = [schedule._fires_after(trigger, now)]
    while fired[-1] < now + timedelta(hours=6):
        fired.append(schedule._fires_after(trigger, fired[-1]))
        assert fired[-1] > fired[-2]
    assert len(fired) >= 10


def test_weekdays_mean_what_cron_means(tmp_path):
    _, settings = settings_for(tmp_path, line="0 4 * * 0")  # cron: Sunday
    (due,) = schedule.list_due(settings, datetime(2026, 3, 4, 12, tzinfo=UTC))
    assert due.slot == "2026-03-01T04:00"
    times = schedule.own_times(settings, datetime(2026, 3, 4, 12, tzinfo=UTC))("demo")
    assert times["sleep"].strftime("%a %d") == "Sun 08"


def test_no_schedule_no_slot(tmp_path):
    scratch = Scratch(
        tmp_path / "scratch", dedup={"schedule": None}, dream={"schedule": None}, refine={"schedule": None}
    )
    settings = config.load(scratch.config)
    assert schedule.list_due(settings, STARTED) == []
    assert schedule.own_times(settings, STARTED)("demo") == {}


# --- with the job table ---


class Time:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def runs_of(scratch):
    return scratch.query('SELECT slot, "trigger", state FROM job_run ORDER BY created_at, id')


def test_the_daily_summary_of_a_live_session_comes_once_a_day(tmp_path):
    time = Time(STARTED + timedelta(minutes=20))
    scratch, _ = settings_for(tmp_path, line="0 10 * * *", sessions={"idle_end": "3d"})
    scratch.append(said())
    with in_process(scratch, time) as app:
        run_once(app)
        assert runs_of(scratch) == []  # seen after yesterday's slot, in which it had no part
        time.now = STARTED + timedelta(hours=1, minutes=1)
        for _ in range(3):
            run_once(app)
    assert sorted(slot or "" for slot, _, _ in runs_of(scratch)) == ["", "sleep:demo:2026-03-04T10:00"]
    assert list(scratch.dailies()) == ["2026-03-04.md"]
    assert scratch.dailies()["2026-03-04.md"].count("## Daily Summary (09:05)") == 1


def test_what_was_due_while_the_machine_was_off_is_caught_up_once(tmp_path):
    time = Time(STARTED + timedelta(minutes=20))
    scratch, _ = settings_for(tmp_path, line="0 10 * * *", sessions={"idle_end": "30d"})
    scratch.append(said())
    with in_process(scratch, time) as app:
        run_once(app)
    time.now = STARTED + 5 * DAY
    for _ in range(2):
        with in_process(scratch, time) as app:
            run_once(app)
    slots = [slot for slot, _, _ in runs_of(scratch) if slot]
    assert slots == ["sleep:demo:2026-03-08T10:00"]
    assert {trigger for _, trigger, _ in runs_of(scratch)} == {"catch-up"}


def test_the_repeated_hour_runs_once(tmp_path):
    zone = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=zone)
    scratch, settings = settings_for(tmp_path, "Europe/Berlin", "30 2 * * *", sessions={"idle_end": "3d"})
    time = Time(first.astimezone(UTC) - timedelta(hours=1))
    scratch.append(said(at=time.now - timedelta(minutes=5)))
    with in_process(scratch, time) as app:
        run_once(app)
        for minutes in (61, 90, 119, 121, 150, 180):
            time.now = first.astimezone(UTC) + timedelta(minutes=minutes - 60)
            text = [message("user", f"We decided to count the boxes of hall {minutes} before the winter comes.", 0)]
            scratch.append([one | {"timestamp": time.now.isoformat()} for one in text])
            app.ingest.scan()
            for due in schedule.list_due(settings, time.now):
                sleeping.flush_live(app.engine, settings, app.clock, due.slot, due.at, "schedule")
    assert [slot for slot, _, _ in runs_of(scratch) if slot] == ["sleep:demo:2026-10-25T02:30"]


def test_an_agent_added_after_a_slot_had_no_part_in_it(tmp_path):
    time = Time(STARTED + timedelta(hours=2))
    scratch, _ = settings_for(tmp_path, line="0 10 * * *")
    scratch.append([*said(), filler()])
    with in_process(scratch, time) as app:
        run_once(app)
        assert [slot for slot, _, _ in runs_of(scratch) if slot] == []
        time.now += DAY
        run_once(app)
        assert [slot for slot, _, _ in runs_of(scratch) if slot] == ["sleep:demo:2026-03-05T10:00"]


def test_every_night_the_duplicates_of_each_agent_are_looked_for_once(tmp_path):
    scratch = Scratch(tmp_path / "scratch", dedup={"schedule": "30 2 * * *"})
    night = STARTED.replace(hour=2, minute=40) + DAY
    for now, told in (
        (STARTED, []),
        (night, ["skipped"]),
        (night + DAY / 2, ["skipped"]),
        (night + DAY, ["skipped"] * 2),
    ):
        with in_process(scratch, lambda now=now: now) as app:
            run_once(app)
        rows = scratch.query("SELECT state FROM job_run WHERE kind = 'dedup' ORDER BY created_at")
        assert [state for (state,) in rows] == told
    scratch.write_config(modes={"dedup": "off"})
    with in_process(scratch, lambda: night + 2 * DAY) as app:
        run_once(app)
    assert scratch.query("SELECT count(*) FROM job_run WHERE kind = 'dedup'") == [(2,)]


# --- a fleet ---


def of_fleet(tmp_path, spread="2h", **settings):
    database = "postgresql://db/memoryd"
    scratch = Scratch(tmp_path, fleet={"database": database, "host": "host-a", "spread": spread}, **settings)
    return config.load(scratch.config)


def test_agents_of_a_fleet_run_at_times_of_their_own_within_the_spread(tmp_path):
    settings = of_fleet(tmp_path)
    (due,) = [one for one in schedule.list_due(settings, STARTED) if one.kind == "dream"]
    assert due.gap == timedelta(days=1)
    delays = [schedule.delay_of(settings, due.gap, f"agent-{number}") for number in range(1000)]
    minutes = Counter(int(delay.total_seconds() // 60) for delay in delays)
    assert max(delays) < timedelta(hours=2)
    assert max(minutes.values()) < 25  # of a thousand, about 8 in each of 120 minutes
    assert delays[7] == schedule.delay_of(of_fleet(tmp_path / "later"), due.gap, "agent-7")


def test_no_agent_is_put_off_past_the_next_time_of_its_schedule(tmp_path):
    settings = of_fleet(tmp_path, spread="2d", dream={"schedule": "*/10 * * * *"})
    (due,) = [one for one in schedule.list_due(settings, STARTED) if one.kind == "dream"]
    assert all(schedule.delay_of(settings, due.gap, str(number)) < timedelta(minutes=10) for number in range(100))


def test_an_agents_next_time_is_its_own(tmp_path):
    settings = of_fleet(tmp_path, timezone="UTC")
    at = datetime(2026, 3, 4, 3, 0, tzinfo=UTC)
    delay = schedule.delay_of(settings, timedelta(days=1), "demo")
    before = schedule.own_times(settings, at)("demo")["dream"]
    assert before == at + delay
    assert schedule.own_times(settings, at + delay)("demo")["dream"] == at + timedelta(days=1) + delay


def test_a_host_alone_keeps_the_schedule(tmp_path):
    settings = config.load(Scratch(tmp_path).config)
    assert schedule.delay_of(settings, timedelta(days=1), "demo") == timedelta()
