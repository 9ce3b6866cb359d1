"""Find and repair values that their columns do not declare. SQLite stores a value of any type in any column.

Such a value would end each reader of its table. So the row is repaired before anything reads it. Other rows stay.
"""

import json
from functools import cache
from typing import NamedTuple

from sqlalchemy import Connection

from memoryd.database import packing, parts, query
from memoryd.database.parts import Column, Execute

_TYPES = {"VARCHAR": "'text'", "INTEGER": "'integer'", "BOOLEAN": "'integer'", "FLOAT": "'real'", "BLOB": "'blob'"}
_STORED_AS_BYTES = packing.PACKED | {"turn.record_key"}
_FORMS = {  # each reading of a session needs these texts to be a time or an object of JSON
    "session.seen_at": "datetime(seen_at) IS NULL",
    "session.last_turn_at": "datetime(last_turn_at) IS NULL",
    "session.gauge": "iif(json_valid(gauge), json_type(gauge), '') <> 'object'",
    "transcript.skipped": "iif(json_valid(skipped), json_type(skipped), '') <> 'object'",
}
_NOW = "strftime('%Y-%m-%dT%H:%M:%fZ')"
# The row of a session stays for its turns, so a required value that no copy has is replaced by one of these.
_OF_SESSION = {
    "agent_id": "(SELECT agent_id FROM turn WHERE session_id = one.id)", "native_id": "one.id", "format": "'auto'",
    "state": "'ended'", "seen_at": _NOW, "last_turn_at": _NOW, "gauge": "'{}'", "counted_seq": "0", "turns": "0",
    "last_seq": "0",
}  # fmt: skip
_COUNT = "(SELECT count(*), coalesce(max(seq), 0) FROM turn WHERE session_id = session.id)"
# The change is not a person's or a job's, so it does not belong in the journal.
_UNRECORD = "UPDATE changed_row SET name = '', pk = '[]' WHERE name = ? AND iif(json_valid(pk), json(pk) = json(?), 0)"
# Without its cursor, the transcript is read again, and only the missing turn is added.
_READ_AGAIN = (
    "DELETE FROM transcript WHERE id = (SELECT transcript_id FROM turn WHERE id = ?)",
    "UPDATE session SET turns = max(0, turns - 1) WHERE id = (SELECT session_id FROM turn WHERE id = ?)",
)


class BadRow(NamedTuple):
    """Name a row, and its columns that have a value of another type, or lack a required one."""

    table: str
    rowid: int
    key: list[object]
    columns: list[str]

    def __str__(self) -> str:
        return f"{self.table} {' '.join(map(str, self.key))} ({', '.join(self.columns)})"


def find_bad(execute: Execute) -> list[BadRow]:
    """Return the rows with a value that its column does not declare. Columns of other programs are not checked."""
    queries = ((table, _make_query(table, tuple(columns))) for table, columns in parts.read_columns(execute).items())
    return [BadRow(table, rowid, key, names.split()) for table, sql in queries for rowid, names, *key in execute(sql)]


@cache  # making all of them takes as long as running them in a small database
def _make_query(table: str, columns: tuple[Column, ...]) -> str:
    keys = ", ".join(f'"{one.name}"' for one in columns if one.in_key)
    bad = ", ".join(f"iif({_test(table, one)}, '{one.name}', NULL)" for one in columns)
    return f"SELECT rowid, concat_ws(' ', {bad}) AS bad, {keys} FROM \"{table}\" WHERE bad <> ''"  # noqa: S608


def _test(table: str, column: Column) -> str:
    """Return the SQL condition that is true for a value which the column does not declare."""
    others = ", 'blob'" * (f"{table}.{column.name}" in _STORED_AS_BYTES) + ", 'null'" * (not column.is_required)
    form = _FORMS.get(f"{table}.{column.name}", "0")
    return f'(typeof("{column.name}") NOT IN ({_TYPES[column.type]}{others}) OR {form})'


def mend(connection: Connection, *, is_alike: bool) -> list[BadRow]:
    """Repair all bad values, and return their rows. No trigger sees it, because the journal may have better rows.

    A value comes from the attached copy if `is_alike`. Otherwise it becomes NULL. A row that requires a value is
    deleted, so that its source writes it again.
    """
    query.run(connection, "PRAGMA defer_foreign_keys = ON")
    triggers = query.fetch_rows(connection, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    for name, _ in triggers:
        query.run(connection, f'DROP TRIGGER main."{name}"')
    found = find_bad(connection.exec_driver_sql)
    for row in found:
        _mend_row(connection, row, is_alike=is_alike)
    for table, rowid, *_ in find_bad(connection.exec_driver_sql):
        for sql in _READ_AGAIN if table == "turn" else ():
            query.run(connection, sql, rowid)
        query.run(connection, f'DELETE FROM "{table}" WHERE rowid = ?', rowid)  # noqa: S608
    for _, sql in triggers:
        query.run(connection, sql)
    return found


def _mend_row(connection: Connection, row: BadRow, *, is_alike: bool) -> None:
    columns = parts.read_columns(connection.exec_driver_sql)[row.table]
    keys = [one.name for one in columns if one.in_key and one.name not in row.columns]
    is_known = len(keys) == sum(one.in_key for one in columns)
    same = " AND ".join([*(f'g."{name}" = one."{name}"' for name in keys), *["g.rowid = one.rowid"] * (not is_known)])
    for column in (one for one in columns if one.name in row.columns):
        copied = f'SELECT "{column.name}" FROM good."{row.table}" g WHERE {same} AND NOT {_test(row.table, column)}'  # noqa: S608
        other = _OF_SESSION.get(column.name, "NULL") if row.table == "session" else "NULL"
        value = f"coalesce(({copied if is_alike else 'NULL'}), {other})"
        sql = f'UPDATE OR IGNORE "{row.table}" AS one SET "{column.name}" = {value} WHERE rowid = ?'  # noqa: S608
        query.run(connection, sql, row.rowid)
    if row.table == "session" and {"turns", "last_seq"} & {*row.columns}:  # a copy has older ones
        query.run(connection, f"UPDATE session SET (turns, last_seq) = {_COUNT} WHERE rowid = ?", row.rowid)  # noqa: S608
    if is_known:
        query.run(connection, _UNRECORD, row.table, json.dumps(row.key))
