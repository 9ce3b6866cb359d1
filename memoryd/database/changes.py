"""Record which rows have changed, so that they can be written to the journal beside the database.

Triggers write the table and the primary key of each changed row to `changed_row`, in the transaction of the change. So
no write can bypass them. The journal gets the present row, and a lost row is restored from it. Turns, sessions and
cursors are not journaled, because they can be read again from the transcripts.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from memoryd.database import query

# Each table with its primary key. The order matters for writing: an agent comes before its rows.
JOURNALED: Mapping[str, tuple[str, ...]] = {
    "agent": ("id",), "memory": ("id",), "audit": ("id",), "content": ("sha256",),
    "profile_section": ("agent_id", "section"), "grant": ("id",), "core_file": ("agent_id",),
    "job_mode": ("agent_id", "kind"), "job_run": ("id",),
}  # fmt: skip
# Waiting and running runs are left out: their cause queues them again, and heartbeats are not worth storing.
_ONLY = {"job_run": "(NEW.finished_at IS NOT NULL OR NEW.state = 'proposed')"}
_IN_BOTH = "SELECT name FROM pragma_table_info(?1, 'main') INTERSECT SELECT name FROM pragma_table_info(?1, 'good')"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LASTING = frozenset({"agent", "memory", "audit", "content"})  # no row of these tables is ever deleted
Image = tuple[str, list[Any], query.Row | None]  # table, primary key, and the row; the row is None if it was deleted


def _trigger(table: str, act: str) -> str:
    row = "OLD" if act == "DELETE" else "NEW"
    key = ", ".join(f'{row}."{name}"' for name in JOURNALED[table])
    when = f" WHEN {_ONLY[table]}" if table in _ONLY and act != "DELETE" else ""
    insert = f"INSERT INTO changed_row (name, pk) VALUES ('{table}', json_array({key}))"  # noqa: S608
    return f'CREATE TRIGGER {table}_{_DONE[act]} AFTER {act} ON "{table}"{when} BEGIN {insert}; END'


_DONE = {"INSERT": "inserted", "UPDATE": "updated", "DELETE": "deleted"}
TRIGGERS = tuple(_trigger(table, act) for table in JOURNALED for act in _DONE)


def last_seq(connection: Connection) -> int:
    """Return the number of the last change. `drop_told` keeps its row, so that no number is used twice."""
    return query.fetch_number(connection, "SELECT max(seq) FROM changed_row")


def first_seq(connection: Connection) -> int:
    """Return the number of the first change that is still recorded; 1 if there is none."""
    return query.fetch_number(connection, "SELECT coalesce(min(seq), 1) FROM changed_row")


def record(connection: Connection, images: Iterable[Image]) -> None:
    """Record that rows have changed, as the triggers do."""
    sql = "INSERT INTO changed_row (name, pk) VALUES (?, ?)"
    query.change_each(connection, sql, ((table, json.dumps(key)) for table, key, _ in images))


def set_last(connection: Connection, seq: int) -> None:
    """Record that the database and the journal both have all changes up to this number."""
    query.run(connection, "DELETE FROM changed_row")
    query.run(connection, "INSERT INTO changed_row (seq, name, pk) VALUES (?, '', '[]')", seq)


def drop_told(connection: Connection, seq: int) -> None:
    """Delete the records of changes before `seq`. The caller passes the last change that the journal has."""
    query.run(connection, "DELETE FROM changed_row WHERE seq < ?", seq)


def read_since(connection: Connection, seq: int) -> list[Image]:
    """Return the rows that changed after `seq`, each once, in their present form."""
    sql = "SELECT name, pk FROM changed_row WHERE seq > ? AND name <> '' ORDER BY seq"
    found = dict.fromkeys((name, key) for name, key in query.fetch_rows(connection, sql, seq))
    return [(name, json.loads(key), read_row(connection, name, json.loads(key))) for name, key in found]


def list_untold(connection: Connection, seq: int, lines: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return (table, JSON of the key) of the rows whose last change after `seq` is in none of these lines."""
    told = {(image[0], json.dumps(image[1])): one["seq"] for one in lines for image in list_images([one])}
    last = query.fetch_rows(connection, "SELECT name, pk, max(seq) FROM changed_row WHERE name <> '' GROUP BY 1, 2")
    keyed = [((name, json.dumps(json.loads(key))), number) for name, key, number in last]
    return {key for key, number in keyed if number > max(seq, told.get(key, 0))}


def read_row(connection: Connection, table: str, key: list[Any], side: str = "") -> query.Row | None:
    """Return a row by its primary key; None if there is none.

    `side` is the prefix of an attached database, such as `good.`.
    """
    which = " AND ".join(f'"{name}" = ?' for name in JOURNALED[table])
    rows = query.fetch_mappings(connection, f'SELECT * FROM {side}"{table}" WHERE {which}', *key)  # noqa: S608
    return dict(rows[0]) if rows else None


def is_change(entry: Mapping[str, Any]) -> bool:
    """Return True if a line of the journal has the form that memoryd writes."""
    match entry:
        case {"of": int(), "seq": int(seq), "rows": list()}:
            return 0 <= seq < 1 << 63 and isinstance(entry.get("from", 0), int)
    return False


def list_images(entries: Iterable[Mapping[str, Any]]) -> list[Image]:
    """Return the rows in lines of the journal, without rows of tables that only a newer version has."""
    return [(image[0], image[1], image[2]) for one in entries for image in one["rows"] if _is_image(image)]


def _is_image(image: object) -> bool:
    match image:
        case [str(table), list(key), None | dict()] if table in JOURNALED:
            return len(key) == len(JOURNALED[table]) and all(map(_is_value, key))
    return False


def _is_value(value: object) -> bool:
    """Return True if SQLite can store the value."""
    if isinstance(value, str):
        return not _SURROGATE.search(value)
    return -1 << 63 <= value < 1 << 63 if isinstance(value, int) else value is None or isinstance(value, float)


def _read_columns(connection: Connection, table: str) -> tuple[set[str], set[str]]:
    """Return the columns of a table, and those that must have a value."""
    found = query.fetch_rows(connection, f'PRAGMA table_info("{table}")')
    required = {name for _, name, _, is_set, default, key in found if key or (is_set and default is None)}
    return {name for _, name, *_ in found}, required


def fit_tables(connection: Connection, images: Iterable[Image]) -> list[Image]:
    """Return images that the tables of this version can hold. A newer version may have written other columns.

    Unknown columns are dropped. Rows without a required value are left out.
    """
    fitting: list[Image] = []
    columns = {name: _read_columns(connection, name) for name in JOURNALED}
    for table, key, row in images:
        known, required = columns[table]
        fit = row and {name: value for name, value in row.items() if name in known and _is_value(value)}
        if fit is None or fit.keys() >= required:
            fitting.append((table, key, fit))
    return fitting


def apply(connection: Connection, images: Sequence[Image]) -> int:
    """Write the rows of images to the database; return how many rows the tables of this version cannot hold.

    A replacement fires no trigger for deletion, so even damaged audit entries can be repaired.
    """
    query.run(connection, "PRAGMA defer_foreign_keys = ON")
    fitting = fit_tables(connection, images)
    left_out = len(images) - len(fitting)
    for table, key, image in fitting:
        here = read_row(connection, table, key)
        row = image and (here or {}) | image  # the image lacks a column that was lost when it was written
        if here == row:
            continue
        if row is None:
            which = " AND ".join(f'"{name}" = ?' for name in JOURNALED[table])
            query.run(connection, f'DELETE FROM "{table}" WHERE {which}', *key)  # noqa: S608
        else:
            names = _join_names(row)
            marks = ", ".join("?" * len(row))
            sql = f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608
            try:
                query.run(connection, sql, *row.values())
            except IntegrityError:  # for example a missing required value: SQLite undoes only this statement
                left_out += 1
    return left_out


def add_missing_agents(connection: Connection) -> None:
    """Add a row for each agent whose row was lost but whose other rows exist. The configuration completes it later."""
    referring = ("memory", "profile_section", "grant", "core_file", "job_mode", "job_run")
    found = " UNION ".join(f'SELECT agent_id FROM "{table}"' for table in referring)  # noqa: S608
    told = "id, '', 0, 0, strftime('%Y-%m-%dT%H:%M:%fZ')"
    sql = f"SELECT {told} FROM (SELECT agent_id AS id FROM ({found})) WHERE id NOT IN (SELECT id FROM agent)"  # noqa: S608
    query.run(connection, f"INSERT INTO agent (id, workspace, enabled, paused, seen_at) {sql}")


def is_wrong(table: str, row: query.Row | None, image: query.Row | None) -> bool:
    """Return True if a row differs from its image.

    Neither the journal nor a copy has the present state of an unfinished run. An image with other columns is of another
    version.
    """
    if row is not None and image is not None and image.keys() != row.keys():
        return False
    is_waiting = table == "job_run" and row is not None and row["finished_at"] is None and row["state"] != "proposed"
    return row != image and not is_waiting


def is_unrecorded(connection: Connection, image: Image, tables: Collection[str]) -> bool:
    """Return True if a row may differ from an image because these tables lacked a trigger."""
    table, key, _ = image
    return table in tables and not (table in _LASTING and read_row(connection, table, key) is None)


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def find_differing(connection: Connection) -> Iterator[tuple[str, list[Any]]]:
    """Yield (table, primary key) of the rows that differ between the database and its copy, attached as `good`."""
    for table, keys in JOURNALED.items():
        only = " WHERE " + _ONLY[table].replace("NEW.", "") if table in _ONLY else ""
        named = _join_names(keys)
        both = _join_names(query.fetch_column(connection, _IN_BOTH, table))  # one side may have a foreign column
        here, there = (f'SELECT {both} FROM {side}."{table}"{only}' for side in ("main", "good"))  # noqa: S608
        sql = f"SELECT {named} FROM ({here} EXCEPT {there}) UNION SELECT {named} FROM ({there} EXCEPT {here})"  # noqa: S608
        for row in query.fetch_rows(connection, sql):
            yield table, list(row)
