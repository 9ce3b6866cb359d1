"""Compare the parts of a database (tables, columns, indexes, triggers) with those that memoryd's schema has.

Damage or a person can remove a part, or add a foreign one. Foreign triggers would run inside this process.
"""

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from memoryd.database import reads
from memoryd.database.library import load_library

# A migration that adds columns changes the order in the SQL of a table, so its words are compared without order. A
# virtual table has no page: SQLite can read its columns only with its module. `hex` allows for text that is not UTF-8.
_PARTS = (
    "WITH own AS (SELECT lower(type) AS type, name, sql, rootpage FROM sqlite_master"
    " WHERE lower(type) = 'trigger' OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
    " SELECT hex(type), hex(name), hex(iif(type = 'table', upper(substr(sql, 1, 12)), sql)) FROM own UNION ALL SELECT"
    " hex('column'), hex(own.name || '.' || c.name), hex(concat_ws(' ', c.type, c.\"notnull\", c.dflt_value, c.pk,"
    " c.hidden)) FROM own JOIN pragma_table_xinfo(own.name) c WHERE own.type = 'table' AND own.rootpage UNION ALL"
    " SELECT hex('declaration of'), hex(name), hex(sql) FROM own WHERE type = 'table' AND rootpage"
)
_SIGNS = re.compile(r"('[^']*')|\"|\s+")  # a literal, which is kept; a quote of a name; white space
_WORDS = re.compile(r"'[^']*'|\w+|[^\w\s\",]")
# SQLite derives all parts from this one value. Reading it takes a tenth of the time.
_SCHEMA = (
    "SELECT CAST(json_group_array(json_array(hex(type), hex(name), hex(tbl_name), rootpage <> 0, hex(sql))) AS BLOB)"
    " FROM (SELECT * FROM sqlite_master ORDER BY type, name)"
)
DAMAGED = "was damaged"
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


def find_foreign(execute: Execute) -> Parts:
    """Return the parts of a database that memoryd's schema of its version does not have, or declares differently."""
    own, here = _read_both(execute)
    return _subtract(here, own) if own else {}


def find_missing(execute: Execute) -> Parts:
    """Return the parts of memoryd's schema that a database lacks, or declares differently."""
    return _subtract(*_read_both(execute))


def list_lost(execute: Execute) -> list[str]:
    """Return the tables and columns of memoryd's schema that a database does not have at all, for people."""
    own, here = _read_both(execute)
    return name_parts({part: own[part] for part in own.keys() - here.keys() if part[0] in {"table", "column"}})


def find_fault(execute: Execute) -> str:
    """Return the fault of a database, for people; empty if the file is sound and has all tables and columns."""
    is_ok = [tuple(row) for row in execute("PRAGMA quick_check")] == [("ok",)]
    ((number, is_made),) = execute("SELECT user_version, EXISTS (SELECT 1 FROM sqlite_master) FROM pragma_user_version")
    if not is_ok or number < 0 or bool(number) != is_made:
        return DAMAGED
    if lost := list_lost(execute):
        return f"has lost {', '.join(lost)}"
    own, here = _read_both(execute)
    newest = _make_own(reads.newest_schema())[1] if own else {}
    later = newest.keys() - own.keys() & here.keys()
    return f"says that it has schema {number}, but has {', '.join(name_parts(later))} of a newer one" if later else ""


def name_parts(found: Collection[tuple[str, str]]) -> list[str]:
    """Return the kinds and names of parts, for people. The columns of a listed table are left out."""
    tables = {name for kind, name in found if kind == "table"}
    return sorted(f"{kind} {name!r}" for kind, name in found if kind != "column" or name.split(".")[0] not in tables)


def _subtract(some: Parts, others: Parts) -> Parts:
    """Return the parts that `others` lacks or declares differently. Constraints count if the columns are the same."""
    columns = (name for kind, name in some.keys() ^ others.keys() if kind == "column")
    explained = {("declaration of", name.rpartition(".")[0]) for name in columns}
    differing = ((part, sql) for part, sql in some.items() if sql != others.get(part) and part not in explained)
    return {part: sql for part, sql in differing if _plain(sql, *part) != _plain(others.get(part), *part)}


def _plain(sql: str | None, kind: str, _name: str) -> object:
    if sql and kind == "declaration of":
        return sorted(_WORDS.findall(sql))
    return sql and _SIGNS.sub(lambda one: one[1] or " "[: one[0].isspace()], sql).strip()


def _read_both(execute: Execute) -> tuple[Parts, Parts]:
    """Return the parts that memoryd creates up to the version of a database, and those that the database has.

    If the version is unknown, memoryd's parts are empty.
    """
    number = next(iter(execute("PRAGMA user_version")))[0]
    schema, own = _make_own(number) if 0 < number <= reads.newest_schema() else (None, {})
    return own, own if schema == next(iter(execute(_SCHEMA)))[0] else _read_parts(execute)


@cache  # to run all migrations takes as long as the rest of a small `verify`
def _make_own(number: int) -> tuple[bytes, Parts]:
    steps = (read_newest(),) if number == reads.newest_schema() else read_migrations()
    with closing(load_library().connect(":memory:")) as made:
        for statement in (one for step in steps if step.number <= number for one in step.statements):
            made.execute(statement)
        return made.execute(_SCHEMA).fetchone()[0], _read_parts(made.execute)


def _read_parts(execute: Execute) -> Parts:
    """Return all parts of a database, also the columns of its tables."""
    rows = ([bytes.fromhex(one).decode(errors="replace") for one in row] for row in execute(_PARTS))
    return {(kind, name): sql for kind, name, sql in rows}
