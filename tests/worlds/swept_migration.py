"""An upgrade of a filled database of the first schema to the newest one. For `syscall_sweep.py`."""

import contextlib

from syscall_sweep import Job

ROWS = 3
NOW = "2026-03-04T10:00:00.000Z"


def prepare(root):
    """A database of the first schema with rows in every table, whatever columns it has."""
    from memoryd.database.library import load_library
    from memoryd.database.parts import read_migrations

    root.mkdir()
    with contextlib.closing(load_library().connect(root / "memoryd.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for statement in read_migrations()[0].statements:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        for table in tables(connection):
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            for number in range(ROWS):
                values = [value(name, kind, number) for _, name, kind, *_ in columns]
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608


def tables(connection):
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return sorted(name for (name,) in named if not name.startswith("sqlite_"))


def value(name, kind, number):
    """Another one in each row, so that what must be unique is."""
    if kind == "BLOB":
        return bytes([number]) * 32
    return number + 1 if kind in {"INTEGER", "BOOLEAN"} else f"{name} {number}"


def run(root, _runs_before):
    from memoryd.database.schema import open_database

    open_database(root / "memoryd.db", now=NOW).engine.dispose()


def state(root):
    """The schema, every row, and whether anything was put aside."""
    from memoryd.database.library import load_library

    with contextlib.closing(load_library().connect(root / "memoryd.db", timeout=5)) as connection:
        return {
            "sound": connection.execute("PRAGMA integrity_check").fetchall(),
            "number": connection.execute("PRAGMA user_version").fetchone()[0],
            "schema": connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall(),
            "rows": {
                table: [repr(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid")]  # noqa: S608
                for table in tables(connection)
            },
            "files": sorted(path.name for path in root.iterdir() if not path.name.endswith(("-wal", "-shm"))),
        }


def glance(_root):
    return {}


UPGRADE = Job(prepare, run, state, glance, lambda _path: True)
