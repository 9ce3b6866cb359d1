"""Measure the cost of a fleet: latency that it adds to a question, questions per second, and the size of its tables.

usage: bench/fleet.py [--agents 10000] [--days 90]

The script starts a PostgreSQL (the extra `fleet-test`), or uses the server of `MEMORYD_TEST_PG`. The model answers at
once, so that only the fleet takes time. Each worker is a separate process.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "worlds"), str(Path(__file__).parents[1])]

import fleet_world  # noqa: E402 - found by the line above
import pg_world  # noqa: E402
from fleet_world import MODEL, Fleet, Models  # noqa: E402

ALONE, MANY, ASKERS, WORKERS = 300, 2000, 48, 2
RUNS_A_DAY, QUESTIONS_A_DAY = 12, 10  # of an agent: see `docs/fleet.md`
SAMPLE = 200_000  # rows, from which the size of one row is computed
UNLIMITED = {"daily_tokens": 10**12, "agent_daily_tokens": 10**12, "requests_per_minute": 10**6}


def work(root: str, uri: str) -> None:
    """Answer questions with a model that needs no time, until somebody ends this process."""
    asyncio.run(Fleet(root, uri).worker(Models(), **UNLIMITED)._work())  # noqa: SLF001


def question(number: int) -> Any:
    """Return a question of a usual size, from one of many agents."""
    from memoryd.fleet.questions import FleetQuestion

    text = "The report of the nightly build names every module that was compiled. " * 300  # 21 kB
    return FleetQuestion(f"host-a/agent-{number % 1000}", MODEL, fleet_world.ask(text), 1000, 9000, 30.0)


def measure_questions(fleet: Fleet) -> None:
    """Print the latency of single questions, and the throughput of many questions at the same time."""
    asker = fleet.asker("host-a")
    command = [sys.executable, __file__, "--work", str(fleet.root), fleet.uri]
    workers = [subprocess.Popen(command) for _ in range(WORKERS)]

    def ask(number: int, name: str) -> float:
        began = time.perf_counter()
        answer = asker.ask(f"{name}-{number}", question(number))
        assert answer.text, answer
        taken = time.perf_counter() - began
        asker.forget(f"{name}-{number}")
        return taken * 1000

    try:
        for number in range(20):
            ask(number, "warm")
        taken = sorted(ask(number, "alone") for number in range(ALONE))
        sql, trips = "SELECT 1", []
        for _ in range(ALONE):
            began = time.perf_counter()
            asker.database.fetch(sql)
            trips.append((time.perf_counter() - began) * 1000)
        print(f"a transaction that does nothing, at the same load: p50 {statistics.median(trips):.2f} ms")
        print(
            f"added to a question: p50 {statistics.median(taken):.1f} ms, p99 {taken[int(ALONE * 0.99)]:.1f} ms"
            f" ({ALONE} questions of 21 kB, one after the other)"
        )
        began = time.perf_counter()
        with ThreadPoolExecutor(ASKERS) as pool:
            taken = sorted(pool.map(lambda number: ask(number, "many"), range(MANY)))
        seconds = time.perf_counter() - began
        print(
            f"questions: {MANY / seconds:.0f} a second ({MANY} by {ASKERS} threads, {WORKERS} workers;"
            f" p50 {statistics.median(taken):.0f} ms while all wait)"
        )
    finally:
        for one in workers:
            one.kill()
            one.wait()
        asker.close()
        asker.database.close()


_RUNS = """
INSERT INTO fleet_run SELECT 'host-' || (n %% 100), 'run-2026' || lpad(n::text, 12, '0') || '-abcdef', 'sleep',
 'claude-code-project-' || (n %% %(agents)s), 'memoryd', 'schedule', 'succeeded', '2026-03-04T03:00:00.000Z',
 '2026-03-04T03:00:01.000Z', '2026-03-04T03:00:09.000Z', 1, 3000, 400, n FROM generate_series(1, %(rows)s) AS n
"""
_SPEND = """
INSERT INTO fleet_spend (day, agent, model, at, reserved, tokens_in, tokens_out)
 SELECT '2026-03-04', 'host-' || (n %% 100) || '/claude-code-project-' || (n %% %(agents)s), 'tiny-1',
 clock_timestamp() - n * interval '1 s', 9000, 3000, 400 FROM generate_series(1, %(rows)s) AS n
"""
_DAYS = """
INSERT INTO fleet_day SELECT '2026-03-04', 'host-' || (n %% 100) || '/claude-code-project-' || n, 3000
 FROM generate_series(1, %(agents)s) AS n
"""


def measure_tables(fleet: Fleet, agents: int, days: int) -> None:
    """Print rows and bytes of each table for a number of agents, and the time of the usual statements at that size."""
    import psycopg

    from memoryd.fleet import budget, view, worker
    from memoryd.fleet.connection import Database

    with psycopg.connect(fleet.uri, autocommit=True) as connection:
        for sql in (_RUNS, _SPEND, _DAYS):
            connection.execute(sql, {"agents": agents, "rows": SAMPLE})
        connection.execute("VACUUM ANALYZE")
        size = {
            table: connection.execute("SELECT pg_total_relation_size(%s)", [table]).fetchone()[0] / rows
            for table, rows in (("fleet_run", SAMPLE), ("fleet_spend", SAMPLE), ("fleet_day", agents))
        }
    spend_days = worker.SPEND_KEPT.days
    for table, per_day, kept in (
        ("fleet_run", agents * RUNS_A_DAY, days),
        ("fleet_spend", agents * QUESTIONS_A_DAY, spend_days),
        ("fleet_day", agents, days),
    ):
        total = per_day * kept
        print(
            f"{table}: {per_day:,} rows a day, {size[table]:.0f} bytes each with indexes;"
            f" {total:,} rows and {total * size[table] / 1e9:.1f} GB in {kept} days"
        )
    database = Database(fleet.settings("host-a"))
    database.open()
    asked = question(1)
    limits = replace(fleet.settings("host-a").fleet, **UNLIMITED)

    def reserve() -> None:
        with database.begin() as connection:
            budget.reserve(connection, asked, limits)

    for name, act in (("status", lambda: view.read_status(database)), ("reserve", reserve)):
        act()
        began = time.perf_counter()
        for _ in range(20):
            act()
        print(f"{name}: {(time.perf_counter() - began) * 50:.1f} ms at {SAMPLE:,} runs and as many calls")
    began = time.perf_counter()
    gone = worker.prune(database, limits.keep)
    print(f"retention: {gone:,} rows deleted in {time.perf_counter() - began:.1f} s")
    database.close()


def main() -> None:
    """Measure everything on a database that is deleted afterwards."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--agents", type=int, default=10_000)
    options.add_argument("--days", type=int, default=90)
    options.add_argument("--work", nargs=2, metavar=("ROOT", "URI"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        work(*given.work)
        return
    server = pg_world.start()
    try:
        with tempfile.TemporaryDirectory() as root:
            fleet = fleet_world.make(server, root, "bench")
            measure_questions(fleet)
            measure_tables(fleet, given.agents, given.days)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
