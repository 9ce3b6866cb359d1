"""Apply the numbered migrations of the fleet's schema."""

from memoryd.errors import StateError, describe
from memoryd.fleet.connection import connect_options
from memoryd.fleet.extra import procrastinate, psycopg
from memoryd.fleet.schema import list_applied, list_files

# This PostgreSQL advisory lock prevents two hosts from migrating at the same time.
_LOCK = 7_346_201_150
_TABLE = (
    "CREATE TABLE IF NOT EXISTS fleet_migration"
    " (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
)


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
    applied = list_applied(connection)
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
