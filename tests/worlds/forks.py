"""Children of workers that begin as forks of the test's process, without what takes time.

A new child imports memoryd and loads the vocabulary, or the rules of the scanner: that takes a second. A fork has all
of that, and is otherwise a process like any other. What is to be shown of a start itself, and a daemon's own workers,
take new processes; for the first there is the fixture `new_children`.

A fork lets go of the files that are open here. So it must open no database: SQLite keeps a list of its open files, and
of those the fork would have the list without the files.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from functools import cache

from memoryd.worker.client import Worker

new_child = Worker._start
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGVTALRM)
_CONNECTION = 3


class Fork:
    """An action in a fork of this process; for its starter as a `subprocess.Popen`."""

    stdout = None

    def __init__(self, action, connection=None):
        self.returncode = None
        self._turn = threading.Lock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the fork has none of them
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                _let_go(connection)
                action()
                code = 0
            except SystemExit as ended:
                code = ended.code or 0
            except BaseException:  # noqa: BLE001 - the fork must never return into its parent's code
                traceback.print_exc()
            finally:
                with contextlib.suppress(OSError):
                    sys.stderr.flush()
                os._exit(code)

    def poll(self):
        with self._turn:
            if self.returncode is None and (found := os.waitpid(self.pid, os.WNOHANG))[0]:
                self.returncode = os.waitstatus_to_exitcode(found[1])
        return self.returncode

    def wait(self, timeout=None):
        end = time.monotonic() + (timeout or 600)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
            time.sleep(0.002)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _let_go(connection):
    """Let go of what a new process would not have: handlers of signals, open files, garbage whose end closes files."""
    gc.freeze()
    signal.set_wakeup_fd(-1)
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(_CONNECTION):
        os.dup2(nothing, number)
    if connection is not None:
        os.dup2(connection.fileno(), _CONNECTION)
    os.closerange(_CONNECTION + (connection is not None), 65_536)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115


@cache
def operations():
    """What a child needs to count and to answer, loaded here once."""
    from memoryd.llm import openai_chat  # noqa: F401
    from memoryd.offline import backend  # noqa: F401
    from memoryd.worker.tokens import TokenCounter

    counter = TokenCounter()
    counter.count(["once"])
    return counter


@cache
def _formats(folder):
    """The rules of the scanner, as they are compiled in a folder."""
    from memoryd.scrub import scan
    from memoryd.scrub.policy import Policy
    from memoryd.worker.scanner import KnownFormats

    formats = KnownFormats(folder)
    scan.scan(["once"], Policy(secrets="redact"), formats.find)
    return formats


def fork_child(worker):
    """Start a worker's child as a fork: in the place of `Worker._start`."""
    from multiprocessing import Pipe

    from memoryd.worker.scanner import cache_folder

    if worker._name not in {"worker", "model", "scanner"}:  # what an embedder loads is not loaded here
        return new_child(worker)
    counter = operations()
    formats = _formats(cache_folder(worker._state_dir)) if worker._name == "scanner" else None
    ours, theirs = Pipe()
    with theirs:
        child = Fork(lambda: _serve(worker._state_dir, counter, formats), theirs)
    return child, ours


def _serve(state_dir, counter, formats):
    from multiprocessing.connection import Connection

    from memoryd.worker import __main__ as served

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(served.NICENESS)
    table = served.list_operations(state_dir) | {"count": counter.count}
    if formats is not None:
        table["scan"].__self__._formats = formats
    served.serve(Connection(_CONNECTION), table)


def install():
    """Let workers of this process fork their children."""
    Worker._start = fork_child
