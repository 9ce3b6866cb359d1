"""Connect to the fleet's PostgreSQL with a pool of connections that survives an outage; check and migrate its schema.

The migrations of procrastinate come before those of memoryd.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from memoryd.config import Settings
from memoryd.errors import RefusedError, StateError, describe
from memoryd.fleet.extra import procrastinate, psycopg, psycopg_pool

# The wait for a connection. A daemon must not hang if the server is away.
PATIENCE_SECONDS = 3.0
STATEMENT_SECONDS = 30
AWAY = "the fleet's database cannot be reached"
MIGRATIONS = Path(__file__).with_name("migrations")
# This PostgreSQL advisory lock prevents two hosts from migrating at the same time.
_LOCK = 7_346_201_150
_TABLE = (
    "CREATE TABLE IF NOT EXISTS fleet_migration"
    " (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
)
# The pool warns at each attempt, but the alarm and the error report an outage once.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


class FleetAwayError(StateError):
    """Report that PostgreSQL cannot be reached, so that the caller tries again later."""


class Database:
    """Lend connections to one fleet's database. It is safe to use from several threads."""

    def __init__(self, settings: Settings, most: int = 8, *, is_lazy: bool = False) -> None:
        """Keep the settings. `open` connects.

        Args:
            settings: they name the database and the host.
            most: the number of connections at one time.
            is_lazy: commits return before the server has written them to disk. A host uses this, because it sends again
                what a crash of the server has lost.

        Raises:
            RefusedError: no fleet is configured.
        """
        if settings.fleet.database is None:
            raise RefusedError("no fleet is configured", str(settings.source), "set fleet.database and fleet.host")
        self.url: str = settings.fleet.database
        self.host: str = settings.fleet.host or ""
        self._is_checked = False
        self._pool = psycopg_pool.ConnectionPool(
            self.url,
            min_size=1,
            max_size=most,
            timeout=PATIENCE_SECONDS,
            # After this time, each caller tries again, so the pauses do not grow.
            reconnect_timeout=PATIENCE_SECONDS,
            open=False,
            check=psycopg_pool.ConnectionPool.check_connection,
            kwargs=connect_options(self.host, is_lazy=is_lazy),
        )

    def open(self) -> Self:
        """Begin to connect, without a wait for the server."""
        self._pool.open(wait=False)
        return self

    def close(self) -> None:
        """Close all connections."""
        self._pool.close(timeout=PATIENCE_SECONDS)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Any]:
        """Begin a transaction, and commit it at the end.

        Raises:
            FleetAwayError: the server cannot be reached, or the connection was lost before the commit was confirmed.
            StateError: the schema belongs to another version, or the server refused a statement.
        """
        try:
            with self._pool.connection() as connection:
                if not self._is_checked:
                    require_schema(connection)
                    self._is_checked = True
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise FleetAwayError(AWAY, self.place, "memoryd tries again") from error
        except psycopg.Error as error:
            hint = "check that its user may use the tables, then memoryd fleet migrate"
            raise StateError(f"the fleet's database refused: {describe(error)}", self.place, hint) from error

    @property
    def place(self) -> str:
        """Return the server and the database as people know them."""
        return self.url.partition("?")[0]

    def fetch(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute one statement in a transaction of its own, and return its rows."""
        with self.begin() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []


def connect_options(host: str, *, is_lazy: bool = False) -> dict[str, Any]:
    """Return the options of every connection."""
    limits = f"-c statement_timeout={STATEMENT_SECONDS}s -c idle_in_transaction_session_timeout={STATEMENT_SECONDS}s"
    limits += " -c synchronous_commit=off" if is_lazy else ""
    return {
        "connect_timeout": int(PATIENCE_SECONDS),
        "application_name": f"memoryd {host}".strip(),
        "options": limits,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def list_files() -> dict[str, Path]:
    """Return the files of all migrations by name, in the order of their application."""
    theirs = Path(procrastinate.schema.SchemaManager.get_migrations_path())
    own = {path.name: path for path in sorted(MIGRATIONS.glob("*.sql"))}
    return {f"procrastinate/{path.name}": path for path in sorted(theirs.glob("*.sql"))} | own


def _list_applied(connection: Any) -> set[str]:
    """Return the names of the migrations that the database has. A new database has none."""
    if connection.execute("SELECT to_regclass('fleet_migration')").fetchone()[0] is None:
        return set()
    return {name for (name,) in connection.execute("SELECT name FROM fleet_migration").fetchall()}


def require_schema(connection: Any) -> None:
    """Check that the database has exactly the migrations that this version knows.

    Raises:
        StateError: a migration is missing, or is of a newer version.
    """
    known, applied = list_files(), _list_applied(connection)
    if missing := [name for name in known if name not in applied]:
        what = f"the fleet's schema lacks {len(missing)} migrations, first {missing[0]}"
        raise StateError(what, "fleet.database", "memoryd fleet migrate")
    if newer := sorted(applied - set(known)):
        what = f"the fleet's schema is of a newer memoryd: it has {newer[-1]}"
        raise StateError(what, "fleet.database", "update memoryd on this host")


def migrate(url: str) -> list[str]:
    """Apply all missing migrations in one transaction, and return their names.

    Raises:
        StateError: the database cannot be reached or changed.
    """
    try:
        with psycopg.connect(url, **connect_options("migrate")) as connection:
            return _apply_missing(connection)
    except psycopg.Error as error:
        hint = "check that the server runs and that this user may create tables"
        raise StateError(f"the fleet's schema was not changed: {describe(error)}", "fleet.database", hint) from error


def _apply_missing(connection: psycopg.Connection) -> list[str]:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    connection.execute(_TABLE)
    applied = _list_applied(connection)
    missing = {name: path for name, path in list_files().items() if name not in applied}
    is_new = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()[0] is None
    # A new database gets procrastinate's whole schema. Its migrations only bring older schemas to that state.
    if is_new:
        connection.execute(procrastinate.schema.SchemaManager.get_schema())
    for name, path in missing.items():
        if not (is_new and name.startswith("procrastinate/")):
            connection.execute(path.read_text(encoding="utf-8"))
        connection.execute("INSERT INTO fleet_migration (name) VALUES (%s)", [name])
    return [*missing]
