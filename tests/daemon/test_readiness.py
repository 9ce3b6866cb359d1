"""What the service manager hears of a real daemon: ready after the first scan, pings from progress only, stopping."""

import contextlib
import math
import os
import signal
import socket
import sys
import time

import forks
import pytest
from scratch import Scratch, said, until

from memoryd.daemon import readiness

pytestmark = pytest.mark.long

# The daemon as it is, but for a scan that hangs from its second time on, as a dead network disk makes it.
STUCK = """
import sys, threading
from memoryd.reading.ingest import Ingest
scan, times = Ingest.find, []
def stuck(self):
    scan(self)
    times.append(1)
    if len(times) > 1:
        threading.Event().wait()
Ingest.find = stuck
from memoryd.interfaces.cli import main
main(sys.argv[1:])
"""


class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(0)
        self.heard = []

    def listen(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                text = self.socket.recv(4096).decode()
                self.heard += [(time.monotonic(), line) for line in text.split("\n")]
        return [line for _, line in self.heard]

    def count(self, line):
        return self.listen().count(line)


@contextlib.contextmanager
def service(scratch, manager, *, watchdog=None, script=None):
    environment = os.environ | {"NOTIFY_SOCKET": manager.address}
    if watchdog:
        environment |= {"WATCHDOG_USEC": str(int(watchdog * 1_000_000))}
    with (scratch.root / "stderr.txt").open("ab") as errors:
        words = [*(["-c", script] if script else ["-m", "memoryd"]), "--config", str(scratch.config), "run"]
        process = forks.start(words, stderr=errors, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def scratch(tmp_path):
    return Scratch(tmp_path / "scratch", ingest={"settle": "20ms", "rescan": "100ms"})


@pytest.fixture(
    params=["path", pytest.param("abstract", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux"))]
)
def manager(request, tmp_path):
    name = f"@memoryd-test-{os.getpid()}-{time.monotonic_ns()}" if request.param == "abstract" else str(tmp_path / "n")
    made = Manager(name)
    yield made
    made.socket.close()


def test_ready_comes_after_the_first_scan_and_stopping_before_the_end(scratch, manager):
    scratch.append(said())
    with service(scratch, manager) as process:
        until(lambda: manager.count("READY=1"), why="it is ready")
        assert scratch.query("SELECT count(*) FROM turn") == [(6,)], "the first scan has been stored"
        until(lambda: [line for line in manager.listen() if line.startswith("STATUS=ready: 1 agent, 1 transcript,")])
        process.send_signal(signal.SIGHUP)
        until(lambda: manager.count("READY=1") >= 2, why="the reload is over")
        heard = manager.listen()
        assert any(line.startswith("MONOTONIC_USEC=") for line in heard)
        assert heard.index("RELOADING=1") < len(heard) - 1 - heard[::-1].index("READY=1")
        process.terminate()
        assert process.wait(20) == 0
    assert manager.count("STOPPING=1") == 1
    assert not manager.count("WATCHDOG=1"), "nobody asked for pings"


def test_a_daemon_at_work_pings_at_half_the_period(scratch, manager):
    with service(scratch, manager, watchdog=0.4):
        until(lambda: manager.count("WATCHDOG=1") >= 4, why="it pings")
    at = [when for when, line in manager.heard if line == "WATCHDOG=1"]
    assert len(at) >= 4


def test_a_stuck_loop_pings_no_more(scratch, manager):
    with service(scratch, manager, watchdog=0.2, script=STUCK) as process:
        until(lambda: manager.count("READY=1"), why="it is ready")
        hangs = time.monotonic() + 3  # many periods, in which a pinging thread would have pinged
        until(lambda: time.monotonic() > hangs)
        before = manager.count("WATCHDOG=1")
        later = time.monotonic() + 2
        until(lambda: time.monotonic() > later)
        assert process.poll() is None
        assert manager.count("WATCHDOG=1") == before


def told(address, watchdog=10.0):
    """A readiness on a clock of its own, and the clock."""
    clock = [100.0]
    return readiness.Readiness(address, watchdog, lambda: clock[0]), clock


def test_a_ping_is_not_sent_where_the_database_does_not_answer(manager):
    one, clock = told(manager.address)
    one.ready()

    def broken():
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - the probe's own error comes through
        one.progress(broken)
    assert not manager.count("WATCHDOG=1")
    one.progress(lambda: None)
    one.progress(lambda: None)
    assert manager.count("WATCHDOG=1") == 1
    clock[0] += 5.0
    one.progress(lambda: None)
    assert manager.count("WATCHDOG=1") == 2


def test_a_long_first_scan_asks_for_more_time(manager):
    one, clock = told(manager.address, None)
    for _ in range(11):
        one.progress(lambda: None)
        clock[0] += 1.0
    assert manager.count("EXTEND_TIMEOUT_USEC=60000000") == 3
    one.ready()
    clock[0] += 60
    one.progress(lambda: None)
    assert manager.count("EXTEND_TIMEOUT_USEC=60000000") == 3


def test_the_environment_is_taken_and_a_watchdog_of_another_process_is_not_fed():
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7", "HOME": "/"}
    assert readiness.from_environment(environ, 8, lambda: 1.0).next_at() == math.inf
    assert environ == {"HOME": "/"}
    assert readiness.from_environment({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1"}, 8, lambda: 1.0).next_at() == 1.0
    assert not readiness.from_environment({"NOTIFY_SOCKET": "tcp:1"}, 8, lambda: 1.0).is_heard


def test_a_manager_that_is_away_costs_nothing(tmp_path):
    one, _ = told(str(tmp_path / "nobody"))
    one.ready()
    one.status("x")
    one.notify_stopping()
