"""Note which rows of people and jobs have changed, for the journal beside the database, and read them.

Triggers put the table and the primary key of each changed row into `changed_row`, in the transaction of the change, so
that no write can bypass them. The present row goes into the journal, from which it is restored after a loss. Turns,
sessions and cursors are not among these tables, because they are read again from the transcripts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from memoryd.database import query

# Each table with its primary key, in the order of writing: an agent before its rows.
JOURNALED: Mapping[str, tuple[str, ...]] = {
    "agent": ("id",),
    "memory": ("id",),
    "audit": ("id",),
    "content": ("sha256",),
    "profile_section": ("agent_id", "section"),
    "grant": ("id",),
    "core_file": ("agent_id",),
    "job_mode": ("agent_id", "kind"),
    "job_run": ("id",),
}
# A waiting or running run is queued again by its cause; its heartbeat need not be stored.
_ONLY = {"job_run": "(NEW.finished_at IS NOT NULL OR NEW.state = 'proposed')"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
Row = dict[str, Any]
Image = tuple[str, list[Any], Row | None]  # table, primary key, the row; None: it was deleted


def _trigger(table: str, act: str) -> str:
    row = "OLD" if act == "DELETE" else "NEW"
    key = ", ".join(f'{row}."{name}"' for name in JOURNALED[table])
    when = f" WHEN {_ONLY[table]}" if table in _ONLY and act != "DELETE" else ""
    insert = f"INSERT INTO changed_row (name, pk) VALUES ('{table}', json_array({key}))"  # noqa: S608
    return f'CREATE TRIGGER {table}_{_DONE[act]} AFTER {act} ON "{table}"{when} BEGIN {insert}; END'


_DONE = {"INSERT": "inserted", "UPDATE": "updated", "DELETE": "deleted"}
TRIGGERS = tuple(_trigger(table, act) for table in JOURNALED for act in _DONE)


def last_seq(connection: Connection) -> int:
    """Return the number of the last change; one row always stays, so that a number never comes twice."""
    return query.fetch_number(connection, "SELECT max(seq) FROM changed_row")


def first_seq(connection: Connection) -> int:
    """Return the number of the first change that is still noted; 1 if there is none."""
    return query.fetch_number(connection, "SELECT coalesce(min(seq), 1) FROM changed_row")


def set_last(connection: Connection, seq: int) -> None:
    """Record that all changes up to this number are in the database, and in the journal."""
    query.run(connection, "DELETE FROM changed_row")
    query.run(connection, "INSERT INTO changed_row (seq, name, pk) VALUES (?, '', '[]')", seq)


def drop_told(connection: Connection, seq: int) -> None:
    """Remove the notes of changes that the journal has, all but the last."""
    query.run(connection, "DELETE FROM changed_row WHERE seq < ?", seq)


def read_since(connection: Connection, seq: int) -> list[Image]:
    """Return the rows that changed after a number, each once, as they are now."""
    sql = "SELECT name, pk FROM changed_row WHERE seq > ? AND name <> '' ORDER BY seq"
    found = dict.fromkeys((name, key) for name, key in query.fetch_rows(connection, sql, seq))
    return [(name, json.loads(key), read_row(connection, name, json.loads(key))) for name, key in found]


def read_row(connection: Connection, table: str, key: list[Any], side: str = "") -> Row | None:
    """Return a row by its primary key; `side` names an attached database, with a dot."""
    which = " AND ".join(f'"{name}" = ?' for name in JOURNALED[table])
    rows = query.fetch_mappings(connection, f'SELECT * FROM {side}"{table}" WHERE {which}', *key)  # noqa: S608
    return dict(rows[0]) if rows else None


def is_change(entry: Mapping[str, Any]) -> bool:
    """Return True if a line of the journal has the form of one that memoryd writes."""
    match entry:
        case {"of": int(), "seq": int(seq), "rows": list()}:
            return 0 <= seq < 1 << 63 and isinstance(entry.get("from", 0), int)
    return False


def list_images(entries: Iterable[Mapping[str, Any]]) -> list[Image]:
    """Return the rows of lines of the journal, without those of tables that only a newer version has."""
    return [(image[0], image[1], image[2]) for one in entries for image in one["rows"] if _is_image(image)]


def _is_image(image: object) -> bool:
    match image:
        case [str(table), list(key), None | dict()] if table in JOURNALED:
            return len(key) == len(JOURNALED[table]) and all(map(_is_value, key))
    return False


def _is_value(value: object) -> bool:
    """Return True if a column of SQLite accepts the value."""
    if isinstance(value, str):
        return not _SURROGATE.search(value)
    return -1 << 63 <= value < 1 << 63 if isinstance(value, int) else value is None or isinstance(value, float)


def _read_columns(connection: Connection, table: str) -> tuple[set[str], set[str]]:
    """Return the columns of a table, and those that each row must have."""
    found = query.fetch_rows(connection, f'PRAGMA table_info("{table}")')
    required = {name for _, name, _, is_set, default, key in found if key or (is_set and default is None)}
    return {name for _, name, *_ in found}, required


def fit_tables(connection: Connection, images: Iterable[Image]) -> list[Image]:
    """Return images in the form of their tables, because a newer version may have written other columns.

    Unknown columns are left out, and so are rows without a required value.
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
    """Write the rows of these images; return how many rows the tables of this version cannot hold.

    A replaced row fires no trigger of a deletion, so that a damaged entry of the audit can be repaired as well.
    """
    query.run(connection, "PRAGMA defer_foreign_keys = ON")
    fitting = fit_tables(connection, images)
    left_out = len(images) - len(fitting)
    for table, key, row in fitting:
        if read_row(connection, table, key) == row:
            continue
        if row is None:
            which = " AND ".join(f'"{name}" = ?' for name in JOURNALED[table])
            query.run(connection, f'DELETE FROM "{table}" WHERE {which}', *key)  # noqa: S608
        else:
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))
            sql = f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608
            try:
                query.run(connection, sql, *row.values())
            except IntegrityError:  # such as a missing required value: SQLite undoes only that statement
                left_out += 1
    return left_out


def add_missing_agents(connection: Connection) -> None:
    """Add a row for each agent that rows refer to, where its own was lost; the configuration then completes it."""
    referring = ("memory", "profile_section", "grant", "core_file", "job_mode", "job_run")
    found = " UNION ".join(f'SELECT agent_id FROM "{table}"' for table in referring)  # noqa: S608
    told = "id, '', 0, 0, strftime('%Y-%m-%dT%H:%M:%fZ')"
    sql = f"SELECT {told} FROM (SELECT agent_id AS id FROM ({found})) WHERE id NOT IN (SELECT id FROM agent)"  # noqa: S608
    query.run(connection, f"INSERT INTO agent (id, workspace, enabled, paused, seen_at) {sql}")


def is_waiting(table: str, row: Row | None) -> bool:
    """Return True for a run that is not over: neither the journal nor a copy has its present state."""
    return table == "job_run" and row is not None and row["finished_at"] is None and row["state"] != "proposed"


def find_differing(connection: Connection, good: str) -> Iterator[tuple[str, list[Any]]]:
    """Find the rows that differ from an attached copy of the same schema, by name, on either side."""
    for table, keys in JOURNALED.items():
        only = " WHERE " + _ONLY[table].replace("NEW.", "") if table in _ONLY else ""
        named = ", ".join(f'"{name}"' for name in keys)
        here, there = (f'SELECT * FROM {side}."{table}"{only}' for side in ("main", good))  # noqa: S608
        sql = f"SELECT {named} FROM ({here} EXCEPT {there}) UNION SELECT {named} FROM ({there} EXCEPT {here})"  # noqa: S608
        for row in query.fetch_rows(connection, sql):
            yield table, list(row)
