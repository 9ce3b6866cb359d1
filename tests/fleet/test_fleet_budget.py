"""Limits of the whole fleet: tokens of a day, requests a minute, one circuit breaker; whatever a host's clock says."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from fleet_world import ask

from memoryd.config_sections import FleetSettings
from memoryd.jobs.job import Reply
from memoryd.llm.failure import Failure, Trouble

pytestmark = pytest.mark.fleet
MODEL = "tiny-1"
REPLY = Reply("x", "stop", "openai")


@pytest.fixture
def database(fleet):
    from memoryd.fleet.connection import Database

    opened = Database(fleet.settings("host-a"), most=12)
    opened.open()
    yield opened
    opened.close()


def reserve(database, agent="a/demo", tokens=100, model=MODEL, **limits):
    from memoryd.fleet import budget
    from memoryd.fleet.questions import FleetQuestion

    asked = FleetQuestion(agent, model, ask(), 200, tokens, 30.0)
    with database.begin() as connection:
        return budget.reserve(connection, asked, FleetSettings(**limits))


def note(database, result, model=MODEL):
    from memoryd.fleet import budget

    with database.begin() as connection:
        budget.note(connection, model, result)


def spent(fleet):
    return dict(fleet.fetch("SELECT agent, tokens FROM fleet_day"))


def test_many_workers_at_once_never_exceed_the_day(fleet, database):
    with ThreadPoolExecutor(12) as pool:
        got = list(pool.map(lambda number: reserve(database, f"a/{number % 3}", daily_tokens=1050), range(40)))
    assert sum(isinstance(one, int) for one in got) == 10
    assert {one.trouble for one in got if isinstance(one, Failure)} == {Trouble.EXHAUSTED}
    assert spent(fleet)[""] == 1000


def test_one_agent_does_not_spend_the_day_of_the_others(fleet, database):
    got = [reserve(database, agent_daily_tokens=250) for _ in range(3)]
    assert [isinstance(one, int) for one in got] == [True, True, False]
    assert "fleet.agent_daily_tokens, 250" in got[2].what
    assert isinstance(reserve(database, "b/demo", agent_daily_tokens=250), int)
    assert spent(fleet) == {"a/demo": 200, "b/demo": 100, "": 300}  # what was refused took nothing


def test_a_settled_call_counts_what_it_cost_and_only_once(fleet, database):
    from memoryd.fleet import budget

    first, _killed = reserve(database), reserve(database)
    for _ in range(2):
        with database.begin() as connection:
            budget.settle(connection, first, 20, 5)
    assert spent(fleet) == {"a/demo": 125, "": 125}  # and the killed worker's reservation stays


def test_requests_a_minute_are_counted_for_each_model(fleet, database):
    got = [reserve(database, requests_per_minute=2) for _ in range(3)]
    assert got[2].trouble is Trouble.BUSY
    assert 1 <= got[2].retry_after <= 60
    assert isinstance(reserve(database, model="other", requests_per_minute=2), int)
    fleet.fetch("UPDATE fleet_spend SET at = at - interval '61 s'")
    assert isinstance(reserve(database, requests_per_minute=2), int)


def test_all_workers_share_one_circuit(database):
    for _ in range(3):
        note(database, Failure(Trouble.UNAVAILABLE, "no answer"))
    refused = reserve(database)
    assert refused.trouble is Trouble.BUSY
    assert 50 < refused.retry_after <= 60


def test_a_probe_whose_worker_is_killed_gives_way_to_another(fleet, database):
    for _ in range(3):
        note(database, Failure(Trouble.UNAVAILABLE, "no answer"))
    let_time_pass(fleet, 61)
    assert isinstance(reserve(database), int)  # the probe; its worker is killed
    assert reserve(database).trouble is Trouble.BUSY
    let_time_pass(fleet, 61)
    assert isinstance(reserve(database), int)
    note(database, REPLY)
    assert isinstance(reserve(database), int)


def test_a_refusal_blocks_until_a_worker_starts_anew(database):
    from memoryd.fleet import budget

    note(database, Failure(Trouble.BLOCKED, "the key is wrong"))
    refused = reserve(database)
    assert (refused.trouble, refused.what) == (Trouble.BLOCKED, "the key is wrong")
    budget.renew(database)
    assert isinstance(reserve(database), int)


def test_too_many_requests_hold_all_workers_as_long_as_the_server_says(database):
    note(database, Failure(Trouble.BUSY, "too many", retry_after=7.0))
    assert 1 <= reserve(database).retry_after <= 7


def let_time_pass(fleet, seconds):
    sql = "UPDATE fleet_model SET circuit = jsonb_set(circuit, '{open_until}',"
    fleet.fetch(f"{sql} to_jsonb((circuit ->> 'open_until')::float8 - {seconds}))")


def test_a_reservation_that_a_crash_took_back_is_not_acted_on(fleet, database):
    from memoryd.fleet import budget

    reservation = reserve(database)
    with database.begin() as connection:
        assert budget.confirm(connection, reservation)
    fleet.fetch("DELETE FROM fleet_spend")  # as the server comes back without it
    with database.begin() as connection:
        assert not budget.confirm(connection, reservation)


def test_no_limit_and_no_lease_goes_by_the_clock_of_a_host():
    """Workers whose clocks differ by minutes keep one limit, because no module that keeps one can tell the time."""
    from memoryd.fleet import budget, leases

    assert not {"time", "datetime", "Clock", "utc_now"} & {*vars(budget), *vars(leases)}
