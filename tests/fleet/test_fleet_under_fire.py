"""Five daemons, three workers, two hundred agents, and `kill -9` for workers, daemons and the server at random.

Whatever is killed: each question has one effect, no limit is exceeded, no agent stays behind, and the fleet's job table
becomes those of the hosts.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from chat_server import ChatServer, good, refuse
from fleet_world import MODEL
from scratch import Scratch, message, recent

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1500)]
DAEMONS, WORKERS, AGENTS, CONCURRENCY = 5, 3, 40, 4  # agents on each host
KILLS = 24
RATE, DAILY = 400, 3_000_000
KEY = {"MEMORYD_TEST_KEY": "sk-canary-0123456789abcdef"}


class Model:
    """A scripted model with latency and 429s; it counts its replies by agent."""

    def __init__(self, seed):
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.replies, self.refused = Counter(), 0

    def __call__(self, connection, request):
        with self.lock:
            latency, is_busy = self.random.uniform(0.3, 2.0), self.random.random() < 0.1
        if connection.server.closing.wait(latency):
            return
        if is_busy:
            self.refused += 1
            refuse("429 Too Many Requests", "slowly", "Retry-After: 1")(connection, request)
            return
        good(connection, request)
        with self.lock:
            self.replies[re.search(r"marker-[\w-]+", request.prompt)[0]] += 1


class Process:
    """A process that is started again whenever it was killed, as a service manager does."""

    def __init__(self, root, *arguments):
        self.command = [sys.executable, "-m", "memoryd", "--config", str(root / "memoryd.yaml"), *arguments]
        self.errors = root / "stderr.txt"
        self.kills = 0
        self.start()

    def start(self):
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command, stdout=subprocess.DEVNULL, stderr=errors, env=os.environ | KEY, start_new_session=True
            )

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.kills += 1
        self.start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.kill()


def make_host(fleet, number):
    """A host with many agents, each with one session that is over and holds a marker of its own."""
    scratch = fleet.scratch(
        f"host-{number}",
        sessions={"idle_end": "1s"},
        ingest={"history": "flush", "rescan": "10s"},
        jobs={"workers": 8, "attempts": 50},
        modes={"facts": "off", "rollover": "off", "dream": "off", "refine": "off", "dedup": "off"},
        dream={"canary": False},
        llm={"timeout": "20s", "max_output_tokens": 1024},
    )
    scratch.agents = []
    for one in range(AGENTS):
        place = scratch.root / f"work-{one}"
        (place / "sessions").mkdir(parents=True)
        text = f"We decided to name the part marker-{number}-{one} because the old name was taken."
        records = [message("user", text, at=recent()), message("assistant", "Noted.", at=recent(4))]
        (place / "sessions" / "one.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        scratch.agents.append(scratch.agent(f"agent-{one}", place))
    scratch.write_config()
    return scratch


def make_worker(fleet, number, url):
    llm = {"provider": "openai", "model": MODEL, "base_url": url, "api_key_env": "MEMORYD_TEST_KEY", "timeout": "20s"}
    limits = {"requests_per_minute": RATE, "daily_tokens": DAILY, "host": f"worker-{number}"}
    return Scratch(fleet.root / f"worker-{number}", llm=llm, fleet=fleet.fleet | limits)


def done(hosts):
    rows = [host.query("SELECT count(*) FROM job_run WHERE kind = 'sleep' AND state = 'succeeded'") for host in hosts]
    return sum(count for ((count,),) in rows)


def wait_for(condition, seconds, why):
    end = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        with contextlib.suppress(Exception):  # a database that is being made, or a server that recovers
            if condition():
                return
        assert time.monotonic() < end, why
        pause.wait(0.5)


def test_everything_is_killed_and_nothing_is_lost(fleet, fleet_server, record_property):
    if not hasattr(fleet_server, "kill"):
        pytest.skip("the server of MEMORYD_TEST_PG cannot be killed")
    every = DAEMONS * AGENTS
    chance = random.Random(22)
    model = Model(22)
    hosts = [make_host(fleet, number) for number in range(DAEMONS)]
    with ChatServer(model) as server:
        roots = [make_worker(fleet, number, server.url).root for number in range(WORKERS)]
        began = time.monotonic()
        workers = [Process(root, "fleet", "worker", "--concurrency", str(CONCURRENCY)) for root in roots]
        daemons = [Process(host.root, "run") for host in hosts]
        server_kills = 0
        try:
            wait_for(lambda: done(hosts) >= 1, 240, "the first question is answered")
            pause = threading.Event()
            for _ in range(KILLS):
                pause.wait(chance.uniform(1, 4))
                kind = chance.choices(("worker", "daemon", "server"), (5, 4, 2))[0]
                if kind == "server":
                    server_kills += 1
                    fleet_server.kill()
                    pause.wait(chance.uniform(0.5, 3))
                    fleet_server.start()
                else:
                    chance.choice(workers if kind == "worker" else daemons).kill()
            in_time = done(hosts)
            wait_for(
                lambda: done(hosts) == DAEMONS * AGENTS, 600, f"only {in_time} questions were answered in the fire"
            )
            seconds = time.monotonic() - began
            wait_for(lambda: tables_agree(fleet, hosts), 120, "the fleet's table is the hosts'")
            wait_for(lambda: not fleet.fetch("SELECT 1 FROM fleet_question"), 60, "no question is left")
        finally:
            for one in (*daemons, *workers):
                one.stop()
    check_effects(hosts)
    check_limits(fleet)
    repeated = sum(count - 1 for count in model.replies.values())
    killed = sum(one.kills for one in workers)
    assert repeated <= killed * CONCURRENCY  # a model is asked again only where its asker was killed
    record_property(
        "covered",
        f"{every} questions in {seconds:.0f} s under {killed} kills of workers, {sum(one.kills for one in daemons)} of"
        f" daemons, {server_kills} of the server; {in_time} of them answered while these went on;"
        f" {model.refused} times 429; {repeated} replies paid twice",
    )


def tables_agree(fleet, hosts):
    """Each row of each host is in the fleet's table, and no other."""
    own = sorted(
        (f"host-{number}", *row)
        for number, host in enumerate(hosts)
        for row in host.query("SELECT id, kind, agent_id, state, attempt, tokens_in, tokens_out FROM job_run")
    )
    sql = "SELECT host, id, kind, agent, state, attempt, tokens_in, tokens_out FROM fleet_run"
    return own == sorted(fleet.fetch(sql))


def check_effects(hosts):
    """Each question had one effect: one run that succeeded, and its words once in the day's file."""
    for number, host in enumerate(hosts):
        rows = host.query("SELECT agent_id, count(*) FROM job_run WHERE state = 'succeeded' GROUP BY 1")
        assert dict(rows) == {f"agent-{one}": 1 for one in range(AGENTS)}
        assert not host.query("SELECT * FROM job_run WHERE state NOT IN ('succeeded', 'skipped')")
        for one in range(AGENTS):
            written = "".join(path.read_text() for path in host.root.glob(f"work-{one}/memory/*.md"))
            assert written.count("## Session Notes") == 1, written
            assert f"marker-{number}-{one}" in written
        assert host.json("verify")["ok"]


def check_limits(fleet):
    """No limit was exceeded at any moment, by what each call may have cost."""
    spent = "coalesce(tokens_in + tokens_out, reserved)"
    by_day = dict(fleet.fetch(f"SELECT day, sum({spent}) FROM fleet_spend GROUP BY 1"))  # noqa: S608
    assert by_day == dict(fleet.fetch("SELECT day, tokens FROM fleet_day WHERE agent = ''"))
    assert all(tokens <= DAILY for tokens in by_day.values())
    window = (
        "SELECT max(n) FROM (SELECT count(*) OVER (PARTITION BY model ORDER BY at RANGE BETWEEN interval '60 s'"
        " PRECEDING AND CURRENT ROW) AS n FROM fleet_spend) AS windows"
    )
    ((most,),) = fleet.fetch(window)
    assert most <= RATE
