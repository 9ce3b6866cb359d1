"""Connect to the fleet's PostgreSQL with a pool of connections that survives an outage, and check the schema."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Self

from memoryd.config import Settings
from memoryd.errors import RefusedError, StateError, describe
from memoryd.fleet.extra import psycopg, psycopg_pool
from memoryd.fleet.schema import require_schema

# The wait for a connection. A daemon must not hang if the server is away.
PATIENCE_SECONDS = 3.0
STATEMENT_SECONDS = 30
AWAY = "the fleet's database cannot be reached"
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
