"""One table of all hosts, leases of workspaces, and requests that a host heeds under its own rules."""

from dataclasses import asdict
from datetime import timedelta

import pytest
from scratch import called, in_process, said, until

from memoryd.clock import Clock, utc_now
from memoryd.daemon.once import run_once
from memoryd.database import sqlite
from memoryd.running import queueing

pytestmark = pytest.mark.fleet
OFFLINE = {"provider": "offline"}


@pytest.fixture
def host(fleet):
    """A host that works offline and sends its rows."""
    return make_host(fleet, "host-a")


def make_host(world, name, **settings):
    scratch = world.scratch(name, llm=OFFLINE, ingest={"history": "flush"}, sessions={"idle_end": "1s"}, **settings)
    scratch.append(said())
    return scratch


def own_rows(app):
    from memoryd.fleet.mirror import COLUMNS

    with sqlite.begin_read(app.engine) as connection:
        rows = connection.exec_driver_sql("SELECT * FROM job_run").mappings()
        return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def fleets_rows(fleet, host="host-a"):
    from memoryd.fleet.mirror import COLUMNS

    rows = [row for (row,) in fleet.fetch("SELECT to_jsonb(r) FROM fleet_run r WHERE host = %s", host)]
    return sorted(tuple(row[name.removesuffix("_id")] for name in COLUMNS) for row in rows)


# --- one table ---


def test_the_fleets_table_is_the_hosts_and_only_changes_travel(fleet, host):
    with in_process(host) as app:
        run_once(app)
        assert own_rows(app) == fleets_rows(fleet)
        assert own_rows(app)
        assert app.link.mirror.send(app.settings) == 0
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("UPDATE job_run SET state = 'dead' WHERE kind = 'sleep'")
        app.link.mirror.forget()  # as after days offline
        assert app.link.mirror.send(app.settings) >= 1
        assert own_rows(app) == fleets_rows(fleet)
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("DELETE FROM watermark")
            connection.exec_driver_sql("DELETE FROM job_run WHERE kind = 'sleep'")
        app.link.mirror.forget()
        app.link.mirror.send(app.settings)
        assert own_rows(app) == fleets_rows(fleet)


def test_no_content_gets_into_the_fleets_tables(fleet, host):
    with in_process(host) as app:
        run_once(app)
    stored = fleet.everything_stored()
    assert "host-a" in stored
    assert not [word for word in ("Ottilie", "PostgreSQL 16", "tabs", str(host.workspace)) if word in stored]


def test_a_row_that_changes_while_it_is_open_travels_at_once(fleet, host):
    with in_process(host) as app:
        run_once(app)
        with sqlite.begin_write(app.engine) as connection:
            queueing.queue(connection, app.clock, "dream", "demo", trigger="manual")
        assert app.link.mirror.send(app.settings) == 1
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("UPDATE job_run SET state = 'running', attempt = 1 WHERE state = 'queued'")
        assert app.link.mirror.send(app.settings) == 1
        assert own_rows(app) == fleets_rows(fleet)


def test_the_answer_to_a_proposal_travels_at_once(fleet, host):
    from memoryd.database import runs

    host.write_config(modes={"sleep": "propose"})
    with in_process(host) as app:
        run_once(app)
        ((proposal,),) = host.query("SELECT id FROM job_run WHERE state = 'proposed'")
        sqlite.write(app.engine, runs.take_proposal_back, proposal, "nobody can answer it")
        assert app.link.mirror.send(app.settings) == 1
        assert own_rows(app) == fleets_rows(fleet)


def test_status_shows_all_hosts_or_one(fleet, host):
    other = make_host(fleet, "host-b")
    for one in (host, other):
        with in_process(one) as app:
            run_once(app)
    told = host.json("fleet", "status")
    assert [one["host"] for one in told["hosts"]] == ["host-a", "host-b"]
    assert {row["host"] for row in told["runs"]} == {"host-a", "host-b"}
    assert {row["host"] for row in host.json("fleet", "status", "--host", "host-b")["runs"]} == {"host-b"}
    assert "host-b" in called(["--config", str(host.config), "fleet", "status"]).stdout


def test_old_rows_leave_the_fleet_and_stay_on_the_host(fleet, host):
    from memoryd.fleet import worker

    with in_process(host) as app:
        run_once(app)
        count = len(own_rows(app))
        fleet.fetch("UPDATE fleet_run SET finished_at = '2020-01-01T00:00:00.000Z'")
        assert worker.prune(app.link.database, timedelta(days=90)) == count
        assert not fleets_rows(fleet)
        assert len(own_rows(app)) == count


def test_a_host_that_is_gone_for_long_loses_its_rows_and_no_other_host_does(fleet, host):
    from memoryd.fleet import worker

    for one in (host, make_host(fleet, "host-b")):
        with in_process(one) as app:
            run_once(app)
    fleet.fetch("UPDATE fleet_host SET seen_at = '2020-01-01' WHERE host = 'host-a'")
    with in_process(make_host(fleet, "host-c")) as app:
        worker.prune(app.link.database, timedelta(days=90))
    assert {host for (host,) in fleet.fetch("SELECT DISTINCT host FROM fleet_run")} == {"host-b"}
    assert "host-a" not in {host for (host,) in fleet.fetch("SELECT host FROM fleet_host")}


def test_two_daemons_with_one_name_are_told(fleet, host):
    twin = make_host(fleet, "twin", fleet=fleet.fleet | {"host": "host-a"})
    with in_process(host) as app, in_process(twin) as other:
        app.link.tick(app.settings)
        for _ in range(2):
            other.link.tick(other.settings)
        assert ("fleet",) in twin.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")
        assert not host.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")


# --- leases ---


def share(host, fleet, name):
    """Another host on the same workspace."""
    other = make_host(fleet, name)
    other.agents[0]["workspace"] = str(host.workspace)
    other.write_config()
    return other


def test_one_host_holds_a_workspace_and_the_other_leaves_it_alone(fleet, host):
    other = share(host, fleet, "host-b")
    with in_process(host) as first, in_process(other) as second:
        assert [agent.held_by for agent in first.settings.agents] == [None]
        assert [agent.held_by for agent in second.settings.agents] == ["host-a"]
        assert run_once(second) == {"turns": 0, "runs": []}
        assert run_once(first)["runs"]
        assert other.query("SELECT kind, agent_id FROM alarm WHERE cleared_at IS NULL") == [("held", "demo")]


def test_what_needs_the_other_host_is_refused_and_not_left_waiting(fleet, host):
    other = share(host, fleet, "host-b")
    with in_process(host) as first, in_process(other) as second:
        run_once(first)
        run_once(second)
        for beside in (True, False):
            if not beside:
                second.close()
            for command in (("save", "the orders are blue"), ("job", "run", "dream")):
                done = called(["--json", "--config", str(other.config), *command])
                assert done.returncode == 4, done.stdout
                assert "host-a works on the workspace" in done.stdout
        assert not other.query("SELECT kind FROM job_run")


def test_a_workspace_whose_file_others_may_read_is_leased_all_the_same(fleet, host):
    """As a clone, a copy or a shared disk leaves it."""
    other = share(host, fleet, "host-b")
    with in_process(host):
        pass
    (host.workspace / ".continuum/memory/.workspace-id").chmod(0o644)
    with in_process(host), in_process(other) as second:
        assert [agent.held_by for agent in second.settings.agents] == ["host-a"]


def test_a_namesake_gives_up_no_lease_of_the_other(fleet, host):
    twin = share(host, fleet, "twin")
    twin.write_config(fleet=fleet.fleet | {"host": "host-a"})
    with in_process(host):
        with in_process(twin):
            pass
        assert fleet.fetch("SELECT host FROM fleet_lease") == [("host-a",)]


def test_a_workspace_goes_over_when_its_host_leaves_or_is_lost(fleet, host):
    other = share(host, fleet, "host-b")
    with in_process(other) as second:
        assert second.settings.agents[0].enabled
        with in_process(host) as first:
            assert not first.settings.agents[0].enabled
            fleet.fetch("UPDATE fleet_lease SET until = clock_timestamp() - interval '1 s'")  # host-b is lost
            first.link.tick(first.settings)
            assert first.link.is_changed
            assert first.link.restrict(first.settings).agents[0].enabled
            assert not host.query("SELECT kind FROM alarm WHERE cleared_at IS NULL")
            second.link._renew_at = 0
            second.link.tick(second.settings)
            assert second.link.held == {"demo": "host-a"}
    with in_process(other) as second:  # host-a has left and given its lease up
        assert second.settings.agents[0].enabled


def test_a_trial_takes_no_lease(fleet, host):
    with in_process(host) as app:
        run_once(app)
    before = fleet.fetch("SELECT * FROM fleet_lease")
    assert host.run("job", "run", "dream", "--dry-run").returncode == 0
    assert fleet.fetch("SELECT * FROM fleet_lease") == before == []


# --- requests ---

RULES = {"access": {"consolidate": ["owner", "agent", "fleet"], "edit": ["owner", "agent", "fleet"]}}


def heed(app):
    from memoryd.requests import fleet as requests

    app.link.tick(app.settings)
    app.link.heed(lambda asked: requests.carry_out(app.settings, asked))


def outcomes(fleet):
    return [row[0] for row in fleet.fetch("SELECT outcome FROM fleet_request ORDER BY asked_at")]


def paused(host):
    return host.query("SELECT paused FROM agent") == [(1,)]


@pytest.fixture
def asked(fleet, host):
    """A host that runs and has been asked, by another host, to pause its agent."""

    def ask(app, *what):
        app.link.tick(app.settings)
        sender = fleet.scratch("host-z", llm=OFFLINE) if not (fleet.root / "host-z").exists() else None
        sender = sender or type(host).at(fleet.root / "host-z")
        done = called(["--json", "--config", str(sender.config), "fleet", "ask", "host-a", *what])
        assert done.returncode == 0, done.stdout

    return ask


def test_a_host_refuses_what_its_own_rules_do_not_allow_and_audits_it(fleet, host, asked):
    with in_process(host) as app:
        run_once(app)
        asked(app, "pause", "--agent", "demo")
        heed(app)
    assert not paused(host)
    assert "the fleet may not" in outcomes(fleet)[0]
    assert host.query("SELECT count(*) FROM audit WHERE operation = 'refused'") == [(1,)]


def test_a_host_does_what_it_allows_once_and_audits_who_asked(fleet, host, asked):
    host.write_config(**RULES)
    with in_process(host) as app:
        run_once(app)
        asked(app, "pause", "--agent", "demo")
        heed(app)
        assert paused(host)
        assert outcomes(fleet) == ["paused"]
        (actor,) = host.query("SELECT actor FROM audit WHERE operation = 'admin fleet pause (blind)'")[0]
        assert actor.startswith("admin:fleet/")
        assert actor.endswith("@host-z")
        with sqlite.begin_write(app.engine) as connection:
            connection.exec_driver_sql("UPDATE agent SET paused = 0")
        # Somebody who may write PostgreSQL puts the request there again, under another id.
        fleet.fetch("INSERT INTO fleet_request (id, host, body) SELECT 'again', host, body FROM fleet_request")
        heed(app)
        assert not paused(host)
        assert "carried out before" in outcomes(fleet)[1]


def test_a_daemon_runs_and_rolls_back_what_another_host_asks_for(fleet, host):
    host.write_config(**RULES)
    other = fleet.scratch("host-z", llm=OFFLINE)
    before = host.dailies()

    def ask(*what):
        known = len(outcomes(fleet))
        done = called(["--json", "--config", str(other.config), "fleet", "ask", "host-a", *what])
        assert done.returncode == 0, done.stdout
        until(lambda: [*outcomes(fleet), None][known] is not None, why="the host has answered")
        return outcomes(fleet)[known]

    with host.daemon():
        until(lambda: ("succeeded",) in fleet.fetch("SELECT state FROM fleet_run WHERE kind = 'sleep'"), why="it slept")
        assert host.dailies() != before
        ((slept,),) = fleet.fetch("SELECT id FROM fleet_run WHERE kind = 'sleep'")
        assert ask("rollback", "--run", slept).startswith("rolled back by run-")
        assert not any("PostgreSQL 16" in text for text in host.dailies().values())
        assert ask("run", "--agent", "demo", "--kind", "dedup").startswith("queued run-")
        (queued,) = outcomes(fleet)[1].split()[1:]
        until(
            lambda: host.query("SELECT 1 FROM job_run WHERE id = ? AND finished_at IS NOT NULL", queued), why="it ran"
        )
        assert "not done" in ask("cancel", "--run", queued)


def test_a_writer_of_the_database_alone_asks_for_nothing(fleet, host, asked):
    from memoryd.fleet.requests import HostRequest
    from memoryd.fleet.sealing import Seal

    host.write_config(**RULES)
    with in_process(host) as app:
        run_once(app)
        app.link.tick(app.settings)
        forged = HostRequest("f", "rollback", "root@host-z", Clock().text(), run="run-x")
        body = Seal([]).wrap("request host-a", asdict(forged))
        fleet.fetch("INSERT INTO fleet_request (id, host, body) VALUES ('f', 'host-a', %s)", body)
        asked(app, "pause", "--agent", "demo")
        fleet.fetch("INSERT INTO fleet_host (host, version, state) VALUES ('host-b', '1', 's')")
        fleet.fetch("UPDATE fleet_request SET host = 'host-b' WHERE id <> 'f'")  # moved to another host …
        app.link.database.host = "host-b"
        heed(app)
        assert "made for another purpose" in outcomes(fleet)[1]
        app.link.database.host = "host-a"
        heed(app)
    assert "not encrypted with its key" in outcomes(fleet)[0]
    assert not paused(host)


def test_a_request_of_yesterday_holds_no_longer(fleet, host, asked):
    host.write_config(**RULES)
    with in_process(host) as app:
        run_once(app)
        asked(app, "pause", "--agent", "demo")
        app.link.clock = Clock(lambda: utc_now() + timedelta(hours=25))
        heed(app)
    assert "valid for one day" in outcomes(fleet)[0]
    assert not paused(host)


def test_a_clock_that_is_minutes_off_changes_nothing(fleet, host, asked):
    host.write_config(**RULES)
    with in_process(host) as app:
        run_once(app)
        asked(app, "pause", "--agent", "demo")
        app.link.clock = Clock(lambda: utc_now() - timedelta(minutes=7))
        heed(app)
    assert paused(host)


def test_a_fleet_without_a_key_takes_no_requests(fleet, host):
    keyless = {"fleet": {"database": fleet.uri, "host": "host-a"}}
    scratch = make_host(fleet, "keyless", **keyless)
    with in_process(scratch) as app:
        run_once(app)
        app.link.tick(app.settings)
        done = called(["--json", "--config", str(scratch.config), "fleet", "ask", "host-a", "pause", "--agent", "demo"])
    assert done.returncode == 4
    assert "has no key" in done.stdout


# --- the admin page ---


def test_the_admin_page_shows_all_hosts_and_asks_them(fleet, host):
    from admin_world import Client, free_port

    host.write_config(**RULES)
    other = make_host(fleet, "host-b", admin={"listen": f"127.0.0.1:{free_port()}"})
    with in_process(other) as app:
        run_once(app)
    with in_process(host) as app:
        run_once(app)
        client = Client(other)
        page = client.get("/fleet").text
        assert all(word in page for word in ("host-a", "host-b", 'href="/fleet"', "Roll back run-"))
        assert "host-b</td><td><code>run-" not in client.get("/fleet?host=host-a").text
        told = client.do("fleet", host="host-a", verb="pause", about="demo")
        assert told[0] == "ok", told
        heed(app)
    assert paused(host)
    assert "paused" in client.get("/fleet").text
    assert other.query("SELECT count(*) FROM audit WHERE operation LIKE 'admin fleet pause%'") == [(1,)]
