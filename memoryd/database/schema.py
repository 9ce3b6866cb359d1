"""Open the database: create or migrate it, refuse one of a newer version, or move a damaged one aside."""

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine

from memoryd.database import backups, query, reads, sqlite
from memoryd.database.library import NOT_DAMAGE, as_trouble, load_library, own_uri, read_code, require_file
from memoryd.errors import StateError

_SIDE_FILES = ("", "-wal", "-shm")
_READONLY = 8
# The SQL of a table differs if a migration has added its columns, so only its beginning and its columns are compared.
_OBJECTS = (
    "WITH own AS (SELECT * FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
    " SELECT type, name, iif(type = 'table', upper(substr(sql, 1, 12)), sql) FROM own UNION ALL SELECT 'column',"
    " own.name || '.' || c.name, concat_ws(' ', c.type, c.\"notnull\", c.dflt_value, c.pk, c.hidden)"
    " FROM own JOIN pragma_table_xinfo(own.name) c WHERE own.type = 'table'"
)


class Migration(NamedTuple):
    """Hold one numbered step of the schema, with its SQL statements."""

    number: int
    statements: tuple[str, ...]


def read_migrations() -> tuple[Migration, ...]:
    """Return the numbered migrations of this version, in order."""
    entries = resources.files("memoryd.database").joinpath("migrations").iterdir()
    found = (Migration(int(one.name[:4]), _statements(one)) for one in entries if one.name.endswith(".sql"))
    return tuple(sorted(found))


def read_newest() -> Migration:
    """Return the newest schema as one step, for a new database. It equals the result of all migrations."""
    return Migration(reads.newest_schema(), _statements(resources.files("memoryd.database").joinpath("schema.sql")))


def _statements(file: Traversable) -> tuple[str, ...]:
    return tuple(part.strip().rstrip(";") for part in file.read_text("utf-8").split(";\n") if part.strip())


def migrate(engine: Engine) -> int:
    """Migrate the database to the newest schema and return its number.

    An empty database gets the newest schema in one step. An older one gets the missing migrations. Each step is one
    transaction, which also writes its number.

    Raises:
        StateError: a newer memoryd wrote the database.
    """
    goal = reads.newest_schema()
    number = sqlite.read(engine, query.fetch_number, "PRAGMA user_version")
    if number > goal:
        engine.dispose()
        raise StateError(
            f"the database has schema {number}, this memoryd knows up to {goal}",
            where=str(engine.url.database),
            hint="run the newer memoryd, or give this one a state_dir of its own",
        )
    for step in () if number == goal else read_migrations() if number else (read_newest(),):
        with sqlite.begin_write(engine) as connection:
            if query.fetch_number(connection, "PRAGMA user_version") >= step.number:
                continue
            for statement in step.statements:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(f"PRAGMA user_version = {step.number}")
    if not sqlite.read(engine, query.fetch_number, "PRAGMA application_id"):
        sqlite.write(engine, set_identity, secrets.randbits(30) + 1)
    return goal


def set_identity(connection: Connection, number: int) -> None:
    """Set the number by which the journal recognises this database. Copies of the database have the same number."""
    query.run(connection, f"PRAGMA application_id = {number}")


def require_ours(path: Path) -> None:
    """Check that a database contains only memoryd's own objects. A foreign trigger would run inside this process.

    Args:
        path: path of an undamaged database of this version or an older one, which no process uses.

    Raises:
        StateError: the database has a table, column, index, view or trigger that differs from memoryd's schema.
    """
    with closing(load_library().connect(f"{own_uri(path)}?mode=ro", uri=True)) as connection:
        number = connection.execute("PRAGMA user_version").fetchone()[0]
        foreign = list_foreign(connection.execute, number)
    if foreign:
        hint = "take another backup, or remove them from it"
        raise StateError(f"has parts that differ from memoryd's schema: {', '.join(foreign[:5])}", str(path), hint)


def list_foreign(execute: Callable[[str], Iterable[Any]], number: int) -> list[str]:
    """Return the parts of a database that this version of the schema does not have, for people."""
    return _name_objects(_list_objects(execute) - _list_own(number))


def list_missing(execute: Callable[[str], Iterable[Any]], number: int) -> list[str]:
    """Return what a database lacks of this version of the schema, for people."""
    return _name_objects(_list_own(number) - _list_objects(execute))


def _name_objects(found: set[tuple[str, str, str]]) -> list[str]:
    """Return the kinds and names of objects. The columns of a listed table are left out."""
    tables = {name for kind, name, _ in found if kind == "table"}
    return sorted(f"{kind} {name!r}" for kind, name, _ in found if kind != "column" or name.split(".")[0] not in tables)


@cache  # to run all migrations takes as long as the rest of a small `verify`
def _list_own(number: int) -> set[tuple[str, str, str]]:
    """Return the objects that memoryd creates up to this version of the schema."""
    steps = (read_newest(),) if number == reads.newest_schema() else read_migrations()
    with closing(load_library().connect(":memory:")) as made:
        for statement in (one for step in steps if step.number <= number for one in step.statements):
            made.execute(statement)
        return _list_objects(made.execute)


def _list_objects(execute: Callable[[str], Iterable[Any]]) -> set[tuple[str, str, str]]:
    """Return (kind, name, declaration) of all objects in a database, also of the columns of its tables."""
    return {(kind, name, " ".join(sql.replace('"', "").split())) for kind, name, sql in execute(_OBJECTS)}


@dataclass(frozen=True, slots=True)
class OpenedDatabase:
    """Hold an open database, and what was done to open it.

    `moved_aside` is the new path of a damaged file; `restored` is the copy that replaced the database. Both are None if
    nothing was done.
    """

    engine: Engine
    moved_aside: Path | None
    restored: Path | None = None
    is_new: bool = False  # True: it was created empty


def open_database(path: Path, *, now: str, told: Callable[[Engine], None] | None = None) -> OpenedDatabase:
    """Open the state database for reading and writing. The caller must hold the lock of the state folder.

    A damaged file is renamed, never deleted. The newest good copy replaces a database that is damaged or missing.
    Without a copy, the new database is empty. The caller restores newer rows from the journal and the transcripts.

    Args:
        path: path of the database.
        now: UTC, ISO 8601; a part of the new name of a damaged file.
        told: called after each write transaction.

    Raises:
        StateError: the file cannot be opened for another reason than damage, or a newer memoryd wrote it.
    """
    require_file(path)  # the path may be a link to a disk that is absent
    moved = None
    if path.exists() and not _is_sound(path):
        moved = _move_aside(path, now)
    if path.exists() and not path.stat().st_size:
        path.unlink()
    is_gone = not path.exists()
    good = backups.find_good(path.parent) if is_gone else None
    previous = os.umask(0o077)
    try:
        if good is not None:
            backups.take(good, path)
        engine = sqlite.connect(path, told)
        migrate(engine)
    finally:
        os.umask(previous)
    for suffix in _SIDE_FILES:
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.chmod(0o600)
    return OpenedDatabase(engine, moved, good, is_gone and good is None)


def _is_sound(path: Path) -> bool:
    module = load_library()
    try:
        with closing(module.connect(own_uri(path), uri=True, timeout=10)) as connection:
            rows = connection.execute("PRAGMA quick_check").fetchall()
            number = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except UnicodeDecodeError:
        return False  # damage can make a name or message invalid UTF-8
    except module.DatabaseError as error:
        code = read_code(error)
        # A damaged header can make SQLite treat a writable file as read-only.
        if code in NOT_DAMAGE and not (code == _READONLY and os.access(path, os.W_OK)):
            raise as_trouble(error, "the database cannot be opened", path) from error
        return False
    return bool(rows == [("ok",)]) and number >= 0 and bool(number) == bool(tables)


def _move_aside(path: Path, now: str) -> Path:
    stamp = now.replace(":", "").replace("-", "")
    names = (f"{path.name}.damaged-{stamp}{'' if number == 1 else f'-{number}'}" for number in count(1))
    target = next(file for file in map(path.with_name, names) if not file.exists())
    for suffix in ("-wal", "-shm", ""):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(target.with_name(target.name + suffix))
    return target
