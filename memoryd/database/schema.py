"""Opening the database: create, migrate, refuse what is newer, move aside what is damaged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from memoryd.database import sqlite
from memoryd.database.library import library
from memoryd.errors import StateError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection, Engine

_SIDE_FILES = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema."""

    number: int
    name: str
    statements: tuple[str, ...]


def migrations() -> tuple[Migration, ...]:
    """Read the numbered migrations that come with the package, in order."""
    folder = resources.files("memoryd.database").joinpath("migrations")
    found = []
    for entry in folder.iterdir():
        if not entry.name.endswith(".sql"):
            continue
        statements = tuple(part.strip() for part in entry.read_text("utf-8").split(";\n") if part.strip())
        found.append(Migration(int(entry.name[:4]), entry.name, tuple(s.rstrip(";") for s in statements)))
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(engine: Engine) -> int:
    """Bring the schema up to date, each step in one transaction with the number that records it.

    Returns:
        The schema's number.

    Raises:
        StateError: the database was written by a newer memoryd.
    """
    steps = migrations()
    newest = steps[-1].number
    with sqlite.reading(engine) as connection:
        number = _number(connection)
    if number > newest:
        raise StateError(
            f"the database has schema {number}, this memoryd knows up to {newest}",
            where=str(engine.url.database),
            hint="run the newer memoryd, or give this one a state_dir of its own",
        )
    for step in steps:
        with sqlite.writing(engine) as connection:
            if _number(connection) >= step.number:
                continue
            for statement in step.statements:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(f"PRAGMA user_version = {step.number}")
    return newest


def _number(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


@dataclass(frozen=True, slots=True)
class Opened:
    """An open database, and where a damaged one was put, if there was one."""

    engine: Engine
    moved_aside: Path | None


def open_database(path: Path, *, now: str) -> Opened:
    """Open the state database for reading and writing; the caller holds the lock of the state folder.

    A damaged file is moved aside under a name with the time, never deleted; the new one starts empty, and the cursors
    are rebuilt from the transcripts' own content.

    Args:
        path: the database file; its folder exists.
        now: the time, for the name of a file moved aside.
    """
    moved = None
    if path.exists() and not _is_sound(path):
        moved = _move_aside(path, now)
    previous = os.umask(0o077)
    try:
        engine = sqlite.connect(path)
        migrate(engine)
    finally:
        os.umask(previous)
    _make_private(path)
    return Opened(engine, moved)


def _is_sound(path: Path) -> bool:
    module = library()
    try:
        connection = module.connect(str(path), timeout=10)
        try:
            rows = connection.execute("PRAGMA quick_check").fetchall()
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            connection.close()
    except module.OperationalError as error:
        # Busy or unreadable is not damaged: moving it aside would take it from under its user.
        raise StateError("the database cannot be opened", where=str(path), hint=str(error)) from error
    except module.DatabaseError:
        return False
    return bool(rows == [("ok",)])


def _move_aside(path: Path, now: str) -> Path:
    stamp = now.replace(":", "").replace("-", "")
    target = path.with_name(f"{path.name}.damaged-{stamp}")
    count = 1
    while target.exists():
        count += 1
        target = path.with_name(f"{path.name}.damaged-{stamp}-{count}")
    for suffix in ("-wal", "-shm", ""):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(target.with_name(target.name + suffix))
    return target


def _make_private(path: Path) -> None:
    for suffix in _SIDE_FILES:
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.chmod(0o600)
