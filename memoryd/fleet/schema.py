"""List the migrations of the fleet's schema, and compare them with those of a database.

Those of procrastinate come before those of memoryd.
"""

from pathlib import Path
from typing import Any

from memoryd.errors import StateError
from memoryd.fleet.extra import procrastinate

FOLDER = Path(__file__).with_name("migrations")


def list_files() -> dict[str, Path]:
    """Return the files of all migrations by name, in the order of their application."""
    theirs = Path(procrastinate.schema.SchemaManager.get_migrations_path())
    own = {path.name: path for path in sorted(FOLDER.glob("*.sql"))}
    return {f"procrastinate/{path.name}": path for path in sorted(theirs.glob("*.sql"))} | own


def list_applied(connection: Any) -> set[str]:
    """Return the names of the migrations that the database has. A new database has none."""
    if connection.execute("SELECT to_regclass('fleet_migration')").fetchone()[0] is None:
        return set()
    return {name for (name,) in connection.execute("SELECT name FROM fleet_migration").fetchall()}


def require_schema(connection: Any) -> None:
    """Check that the database has exactly the migrations that this version knows.

    Raises:
        StateError: a migration is missing, or is of a newer version.
    """
    known, applied = list_files(), list_applied(connection)
    if missing := [name for name in known if name not in applied]:
        what = f"the fleet's schema lacks {len(missing)} migrations, first {missing[0]}"
        raise StateError(what, "fleet.database", "memoryd fleet migrate")
    if newer := sorted(applied - set(known)):
        what = f"the fleet's schema is of a newer memoryd: it has {newer[-1]}"
        raise StateError(what, "fleet.database", "update memoryd on this host")
