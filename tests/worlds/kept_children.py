"""Children of workers that commands of this process leave behind for the next command: each takes a second to start.

Only what a plain command would start is kept: a test that changes the environment gets children of its own.
"""

import atexit
import contextlib
import os
from datetime import timedelta
from unittest.mock import patch

from memoryd.worker.client import Worker

_start, _close = Worker._start, Worker.close
_idle = []  # children and the connections to them


def _environment():
    """What a child would take over; a fork of this process has children of its own."""
    theirs = ("PYTEST_", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")  # nothing that a child looks at
    return os.getpid(), {name: value for name, value in os.environ.items() if not name.startswith(theirs)}


USUAL = _environment()


def _take(worker):
    while _idle and _environment() == USUAL:
        child, connection = _idle.pop()
        if child.poll() is None:
            return child, connection
        connection.close()
    return _start(worker)


def _keep(worker, grace=timedelta()):
    if _environment() == USUAL and worker._turn.acquire(blocking=False):
        try:
            if worker._child is not None and worker._child.poll() is None:
                _idle.append((worker._child, worker._connection))
                worker._child = worker._connection = None
        finally:
            worker._turn.release()
    _close(worker, grace)


@contextlib.contextmanager
def kept_children():
    """Let workers use children that others left, and leave theirs."""
    with patch.object(Worker, "_start", _take), patch.object(Worker, "close", _keep):
        yield


@atexit.register
def _end_all():
    if os.getpid() == USUAL[0]:
        for child, connection in _idle:
            connection.close()
            child.wait()
