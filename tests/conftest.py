"""Hypothesis profiles: `default` for every day, `soak` (HYPOTHESIS_PROFILE=soak) for `make soak`.

Tests marked `soak` run only with the second, those marked `browser` then or if `-m` names them; those marked
`real_model`, `hybrid` or `fleet` only if `-m` names them.
"""

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import platformdirs
import pytest
from hypothesis import HealthCheck, settings

# No deadline: a machine that is busy is no bug. Slow generation is one, so only that check is relaxed for soaking.
# Every day the same examples, so that a change answers for its own failures; a soak draws others each time.
settings.register_profile("default", max_examples=15, deadline=None, derandomize=True)
settings.register_profile(
    "soak", max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

# Where Python is told to keep no bytecode, each daemon and command would compile memoryd anew, each worker all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The scanner's compiled rules are the user's: a test with a home of its own would take three seconds to compile them.
os.environ.setdefault("XDG_CACHE_HOME", platformdirs.user_cache_dir())

# If memory has room, the tests' files are there, which saves a fifth of the time. TMPDIR= names another folder.
MEMORY = Path("/dev/shm")  # noqa: S108 - each test gets a folder of its own below it
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 3 << 30:
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return one worker more than processors, because some tests wait; at most four, because each collects all."""
    return min(4, (os.cpu_count() or 1) + 1)


def pytest_configure(config):
    """Start commands, daemons and the children of workers as forks: a new process needs a second."""
    import forks

    from memoryd import config as configuration

    forks.install()
    # Each command of a test reads the same bytes again, which takes a tenth of the time that an app needs to start.
    configuration.read_yaml = lru_cache(64)(configuration.read_yaml)
    if not hasattr(config, "workerinput"):  # one server for all processes of a test run
        stack = contextlib.ExitStack()
        stack.enter_context(forks.server())
        config.add_cleanup(stack.close)


@pytest.fixture
def new_children(monkeypatch):
    """Let workers start their children as memoryd does: as new processes."""
    import forks

    from memoryd.worker.client import Worker

    monkeypatch.setattr(Worker, "_start", forks.new_child)


@pytest.fixture(scope="session")
def workers(tmp_path_factory):
    """The children of a `model_world`, with the key that its server takes."""
    from model_world import KEY, VARIABLE, Workers

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, KEY)
        shared = Workers(tmp_path_factory.mktemp("workers"))
        yield shared
        shared.close()


@pytest.fixture(scope="session")
def fleet_server():
    """A PostgreSQL for all tests of the fleet."""
    import pg_world

    started = pg_world.start()
    yield started
    started.stop()


@pytest.fixture
def fleet(fleet_server, tmp_path):
    """A database of that server with the schema of a fleet, and a key."""
    import fleet_world

    return fleet_world.make(fleet_server, tmp_path, f"test_{abs(hash(str(tmp_path)))}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Collect without the garbage collector, which takes half of the time, and later look at new objects only."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    is_soak = PROFILE == "soak"
    wanted = {name: name in config.option.markexpr for name in ("real_model", "hybrid", "fleet", "browser", "systemd")}
    wanted |= {"soak": is_soak, "browser": is_soak or wanted["browser"]}
    unwanted = {name for name in wanted if not wanted[name]}
    marks = {item: {mark.name for mark in item.iter_markers()} for item in items}
    left_out = [item for item in items if marks[item] & unwanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not marks[item] & unwanted]
    # The long ones first, which have a limit of their own, so that no worker is left alone with one at the end.
    items.sort(key=lambda item: "timeout" not in marks[item])


def pytest_terminal_summary(terminalreporter):
    """Say what the sweeps covered, also of tests that passed."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == "covered":
                terminalreporter.write_line(f"covered  {value}")
