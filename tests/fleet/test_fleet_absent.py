"""A host without a fleet imports nothing of it, and says how to get it."""

import asyncio
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from scratch import Scratch, said

FLEET = ("memoryd.fleet", "psycopg", "psycopg_pool", "procrastinate")
LOOK = (
    "import sys; from memoryd.interfaces.cli import main\n"
    "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
    f"print(sorted(name for name in sys.modules if name.startswith({FLEET!r})))"
)
WITHOUT = "import sys\nfor name in ('psycopg', 'psycopg_pool', 'procrastinate'): sys.modules[name] = None\n"


def python(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_run_without_a_fleet_imports_nothing_of_it(tmp_path):
    scratch = Scratch(tmp_path)
    scratch.append(said())
    done = python(LOOK, "--config", scratch.config, "run", "--once")
    assert done.stdout.splitlines()[-1] == "[]", done.stdout
    assert "carried out" in done.stdout


def test_help_works_without_the_packages():
    done = python(WITHOUT + "from memoryd.interfaces.cli import main; main(sys.argv[1:])", "fleet", "--help")
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("migrate", "worker", "pip install '.[fleet]'"))


@pytest.mark.parametrize("command", [("fleet", "migrate"), ("run", "--once")])
def test_without_the_packages_the_error_says_how_to_install_them(tmp_path, command):
    scratch = Scratch(tmp_path, fleet={"database": "postgresql://nobody@127.0.0.1:1/none", "host": "a"})
    code = WITHOUT + "from memoryd.interfaces.cli import main; main(sys.argv[1:])"
    done = python(code, "--json", "--config", scratch.config, *command)
    assert done.returncode == 4, done.stderr
    assert "pip install '.[fleet]'" in done.stdout


def test_the_log_of_an_outage_names_the_database():
    pytest.importorskip("psycopg_pool")
    pytest.importorskip("procrastinate")
    from memoryd.fleet.worker import FleetWorker

    class LostWorker(FleetWorker):
        async def _work(self):
            os.kill(os.getpid(), signal.SIGTERM)
            raise OSError

    told = []
    log = SimpleNamespace(warning=lambda event, **more: told.append((event, more)))
    database = SimpleNamespace(place="postgresql://memoryd@db.example/fleet")
    models = SimpleNamespace(close=lambda: None)
    asyncio.run(LostWorker(None, log, 1, database, None, models, None).run())
    more = {"database": database.place, "error_type": "OSError"}
    assert told == [("the database of the fleet is away", more)]
