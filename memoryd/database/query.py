"""Run one SQL statement in the caller's transaction, and return its result in the form that the caller needs.

The values follow the statement one by one. A list or a tuple is passed as JSON, for `json_each`.
"""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from memoryd.database.library import load_library, read_mappings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection

Row = dict[str, Any]  # by the names of the columns


@contextmanager
def _execute(connection: Connection, sql: str, values: tuple[object, ...]) -> Iterator[Any]:
    """Give the driver's cursor after the statement. SQLAlchemy's result object takes longer than a small query."""
    given = tuple(json.dumps(one) if isinstance(one, list | tuple) else one for one in values)
    try:
        with closing(connection.connection.cursor().execute(sql, given)) as cursor:
            yield cursor
    except load_library().Error as error:
        from sqlalchemy.exc import DBAPIError

        raise DBAPIError.instance(sql, given, error, load_library().Error) from error


def run(connection: Connection, sql: str, *values: object) -> int:
    """Run a statement; return the number of rows that it changed.

    Raises:
        DBAPIError: the statement failed. All functions here raise it.
    """
    with _execute(connection, sql, values) as cursor:
        return int(cursor.rowcount)


def iterate(connection: Connection, sql: str, *values: object) -> Iterator[Any]:
    """Yield the rows as tuples; each is read from the database when the caller asks for it."""
    with _execute(connection, sql, values) as cursor:
        yield from cursor


def fetch_rows(connection: Connection, sql: str, *values: object, most: int | None = None) -> list[Any]:
    """Return the rows as tuples, at most `most` of them."""
    with _execute(connection, sql, values) as cursor:
        return list(cursor if most is None else cursor.fetchmany(most))


def fetch_mappings(connection: Connection, sql: str, *values: object) -> list[Row]:
    """Return all rows as mappings from column names to values."""
    with _execute(connection, sql, values) as cursor:
        return read_mappings(cursor)


def fetch_column(connection: Connection, sql: str, *values: object) -> list[Any]:
    """Return the first column of all rows, as a list."""
    return [row[0] for row in fetch_rows(connection, sql, *values)]


def has_row(connection: Connection, sql: str, *values: object) -> bool:
    """Return True if the query returns at least one row."""
    return bool(fetch_rows(connection, sql, *values, most=1))


def fetch_number(connection: Connection, sql: str, *values: object) -> int:
    """Return the first column of the first row as a number; 0 if there is no row or the value is NULL."""
    return int(fetch_text(connection, sql, *values) or 0)


def fetch_text(connection: Connection, sql: str, *values: object) -> str | None:
    """Return the first column of the first row as text; None if there is no row or the value is NULL."""
    return next(iter(fetch_rows(connection, sql, *values, most=1)), (None,))[0]


def fetch_object(connection: Connection, sql: str, *values: object) -> dict[str, Any]:
    """Return the JSON object in the first column of the first row; an empty object if there is no row."""
    found: dict[str, Any] = json.loads(fetch_text(connection, sql, *values) or "{}")
    return found


def make_insert(table: str, columns: Collection[str], how: str = "INSERT") -> str:
    """Return a statement that inserts a row. `how` may be, for example, `INSERT OR IGNORE`."""
    named = ", ".join(f'"{name}"' for name in columns)
    return f'{how} INTO "{table}" ({named}) VALUES ({", ".join("?" * len(columns))})'


def make_upsert(table: str, columns: Sequence[str], *keys: str, kept: Collection[str] = ()) -> str:
    """Return a statement that inserts a row, or updates the row that has the same keys.

    Args:
        table: name of the table.
        columns: the columns, in the order of the values.
        keys: the columns that identify a row.
        kept: columns that an update leaves unchanged.
    """
    sets = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in {*keys, *kept})
    return f"{make_insert(table, columns)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {sets}"


def change_each(connection: Connection, sql: str, values: Iterable[tuple[object, ...]]) -> None:
    """Run a statement once for each tuple of values; do nothing if there are none."""
    if listed := list(values):
        connection.exec_driver_sql(sql, listed)


def change_one(connection: Connection, sql: str, *values: object) -> bool:
    """Run a statement that changes rows; return True if it changed exactly one row."""
    return run(connection, sql, *values) == 1
