"""Compare the parts of a database (tables, columns, indexes, triggers) with those that memoryd's schema has.

Damage or a person can remove a part, or add a foreign one. Foreign triggers would run inside this process.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from memoryd.database import reads
from memoryd.database.library import load_library

# The SQL of a table differs if a migration has added its columns, so only its beginning and its columns are compared.
_PARTS = (
    "WITH own AS (SELECT * FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
    " SELECT type, name, iif(type = 'table', upper(substr(sql, 1, 12)), sql) FROM own UNION ALL SELECT 'column',"
    " own.name || '.' || c.name, concat_ws(' ', c.type, c.\"notnull\", c.dflt_value, c.pk, c.hidden)"
    " FROM own JOIN pragma_table_xinfo(own.name) c WHERE own.type = 'table'"
)
DAMAGED, LOST = "was damaged", "has lost"
Execute = Callable[[str], Iterable[Any]]
Parts = dict[tuple[str, str], str]  # (kind, name) → declaration


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


def list_foreign(execute: Execute, number: int = 0) -> list[str]:
    """Return the parts of a database that this version of the schema (0: the newest) does not have, for people."""
    return _name_parts(_subtract(_read_parts(execute), _read_own(number or reads.newest_schema())))


def list_missing(execute: Execute, kind: str = "") -> list[str]:
    """Return what a database lacks of the newest schema, for people; with `kind`, only parts of this kind."""
    return _name_parts(_find_missing(execute, kind))


def list_lost(execute: Execute, number: int = 0) -> list[str]:
    """Return the tables and columns of this version (0: the newest) that a database does not have at all."""
    here = _read_parts(execute)
    own = _read_own(number or reads.newest_schema()).items()
    return _name_parts({part: sql for part, sql in own if part[0] in {"table", "column"} and part not in here})


def find_fault(execute: Execute) -> str:
    """Return the fault of a database, for people; empty if the file is sound and has all tables and columns."""
    if [tuple(row) for row in execute("PRAGMA quick_check")] != [("ok",)]:
        return DAMAGED
    number = next(iter(execute("PRAGMA user_version")))[0]
    lost = list_lost(execute, number) if 0 < number <= reads.newest_schema() else []
    return f"{LOST} {', '.join(lost)}" if lost else ""


def make_again(execute: Execute, kind: str) -> list[str]:
    """Make missing indexes or triggers again, and replace changed ones; return their names, for people."""
    missing = _find_missing(execute, kind)
    for (_, name), sql in missing.items():
        execute(f"DROP {kind} IF EXISTS main.{name}")  # an attached copy has the same names
        execute(sql)
    return _name_parts(missing)


def remove_triggers(execute: Execute, number: int) -> list[str]:
    """Remove foreign triggers; return their names and their SQL, for people."""
    found = _subtract(_read_parts(execute), _read_own(number))
    foreign = {name: sql for (kind, name), sql in found.items() if kind == "trigger"}
    for name in foreign:
        execute('DROP TRIGGER main."{}"'.format(name.replace('"', '""')))
    return [f"trigger {name!r} is not memoryd's and was removed: {sql}" for name, sql in foreign.items()]


def _find_missing(execute: Execute, kind: str) -> Parts:
    found = _subtract(_read_own(reads.newest_schema()), _read_parts(execute))
    return {part: sql for part, sql in found.items() if kind in {"", part[0]}}


def _name_parts(found: Parts) -> list[str]:
    """Return the kinds and names of parts. The columns of a listed table are left out."""
    tables = {name for kind, name in found if kind == "table"}
    return sorted(f"{kind} {name!r}" for kind, name in found if kind != "column" or name.split(".")[0] not in tables)


def _subtract(some: Parts, others: Parts) -> Parts:
    """Return the parts that others lack, or declare differently."""
    return {part: sql for part, sql in some.items() if _plain(sql) != _plain(others.get(part))}


def _plain(sql: str | None) -> str | None:
    return sql and " ".join(sql.replace('"', "").split())


@cache  # to run all migrations takes as long as the rest of a small `verify`
def _read_own(number: int) -> Parts:
    """Return the parts that memoryd creates up to this version of the schema."""
    steps = (read_newest(),) if number == reads.newest_schema() else read_migrations()
    with closing(load_library().connect(":memory:")) as made:
        for statement in (one for step in steps if step.number <= number for one in step.statements):
            made.execute(statement)
        return _read_parts(made.execute)


def _read_parts(execute: Execute) -> Parts:
    """Return all parts of a database, also the columns of its tables."""
    return {(kind, name): sql for kind, name, sql in execute(_PARTS)}
