"""Open the database: create or migrate it, refuse one of a newer version, or move a damaged one aside."""

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from memoryd.database import alarms, backups, parts, query, reads, sqlite
from memoryd.database.library import NOT_DAMAGE, as_trouble, load_library, own_uri, read_code, require_file
from memoryd.errors import StateError

_SIDE_FILES = ("", "-wal", "-shm")
_READONLY = 8
_RECOUNT = (
    "UPDATE vault_size SET (turns, bytes, compressed) = (SELECT count(*), coalesce(sum(octet_length(text)), 0),"
    " coalesce(sum(typeof(text) = 'blob'), 0) FROM turn WHERE octet_length(text) > 0)"
)
# SQLite carries out a trigger of the type 'TRIGGER' too, but DROP TRIGGER leaves its row.
_LOWER = (
    "PRAGMA writable_schema = ON",
    "UPDATE main.sqlite_master SET type = 'trigger' WHERE lower(type) = 'trigger' AND type <> 'trigger'",
    "PRAGMA writable_schema = OFF",
)
FOREIGN = "foreign"  # the alarm about parts of the database that are not memoryd's


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
    for step in () if number == goal else parts.read_migrations() if number else (parts.read_newest(),):
        with sqlite.begin_write(engine) as connection:
            if query.fetch_number(connection, "PRAGMA user_version") >= step.number:
                continue
            for statement in (*step.statements, f"PRAGMA user_version = {step.number}"):
                query.fetch_rows(connection, statement)
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
        foreign = parts.name_parts(parts.find_foreign(connection.execute))
    if foreign:
        hint = "use another backup, or remove the foreign parts from this one"
        raise StateError(f"has parts that differ from memoryd's schema: {', '.join(foreign[:5])}", str(path), hint)


def mend(engine: Engine, now: str) -> list[str]:
    """Remove foreign triggers, and rebuild missing indexes; return what was done, for people.

    In a database of an older version, rebuild triggers too, because its migrations need them. The same transaction
    sets the alarm that names these repairs. Another alarm names the foreign parts and missing indexes that stay.
    """
    number = sqlite.read(engine, query.fetch_number, "PRAGMA user_version")
    if not 0 < number <= reads.newest_schema():
        return []
    with sqlite.begin_write(engine) as connection:
        if found := mend_parts(connection, "index", *["trigger"] * (number < reads.newest_schema())):
            alarms.raise_alarm(connection, kind=alarms.DAMAGE, text="; ".join(found), now=now)
        foreign = ", ".join(parts.name_parts(parts.find_foreign(connection.exec_driver_sql)))
        missing = ", ".join(name for kind, name in parts.find_missing(connection.exec_driver_sql) if kind == "index")
    named = [f"the database has parts that differ from memoryd's schema: {foreign}"] * bool(foreign)
    named += [f"the database has rows that these indexes forbid: {missing}"] * bool(missing)
    alarms.set_alarm(engine, FOREIGN, "; ".join(named) or None, now)
    return found


def mend_parts(connection: Connection, *kinds: str) -> list[str]:
    """Remove foreign triggers, and rebuild missing or changed parts of these kinds; return what was done.

    An index that the rows do not allow stays missing.
    """
    found, made = [], []
    for (kind, name), sql in parts.find_foreign(connection.exec_driver_sql).items():
        if kind == "trigger" and "\ufffd" not in name:  # one whose name is not UTF-8 stays, and an alarm names it
            for statement in (*_LOWER, 'DROP TRIGGER main."{}"'.format(name.replace('"', '""'))):
                connection.exec_driver_sql(statement)
            found.append(f"trigger {name!r} is not memoryd's and was removed: {sql}")
    for (kind, name), sql in parts.find_missing(connection.exec_driver_sql).items():
        if kind in kinds:
            with suppress(IntegrityError):
                connection.exec_driver_sql(f"DROP {kind} IF EXISTS main.{name}")  # an attached copy has the same names
                connection.exec_driver_sql(sql)
                made.append(f"{kind} {name!r}")
    if any("turn_text" in one for one in made):
        connection.exec_driver_sql(_RECOUNT)
    return [*found, *[f"missing in the database and rebuilt: {', '.join(sorted(made))}"] * bool(made)]


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
    fault: str = ""  # of the damaged file, for people
    mended: Sequence[str] = ()  # what was done to the parts of the schema, for people


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
    fault = _find_fault(path) if path.exists() else ""
    if path.exists() and not path.stat().st_size:
        path.unlink()
    good = backups.find_good(path.parent) if fault or not path.exists() else None
    if fault:
        if fault != parts.DAMAGED and good is None:
            hint = f"memoryd restore BACKUP; or rebuild only from the journal: mv {path} {path}.old; memoryd run --once"
            raise StateError(f"the database {fault}, and no good copy has it", str(path), hint)
        moved = _move_aside(path, now)
    is_gone = not path.exists()
    previous = os.umask(0o077)
    try:
        if good is not None:
            backups.take(good, path)
        engine = sqlite.connect(path)
        mended = mend(engine, now)
        migrate(engine)
        engine.update_execution_options(told=told)  # an older schema may lack what it needs
    finally:
        os.umask(previous)
    files = (path.with_name(path.name + suffix) for suffix in _SIDE_FILES)
    for file in filter(Path.exists, files):
        file.chmod(0o600)
    return OpenedDatabase(engine, moved, good, is_gone and good is None, fault, mended)


def _find_fault(path: Path) -> str:
    """Return the fault of a database, for people; empty if it has none."""
    module = load_library()
    try:
        with closing(module.connect(own_uri(path), uri=True, timeout=10)) as connection:
            fault, size = parts.find_fault(connection.execute), connection.execute("PRAGMA page_size").fetchone()[0]
        # SQLite reads a page that was cut off as if zeros followed. Closing has moved the log into the file.
        return fault or parts.DAMAGED * bool(path.stat().st_size % size)
    except UnicodeDecodeError:
        return parts.DAMAGED  # damage can make a name or message invalid UTF-8
    except module.DatabaseError as error:
        code = read_code(error)
        # A damaged header can make SQLite treat a writable file as read-only.
        if code in NOT_DAMAGE and not (code == _READONLY and os.access(path, os.W_OK)):
            raise as_trouble(error, "the database cannot be opened", path) from error
        return parts.DAMAGED


def _move_aside(path: Path, now: str) -> Path:
    stamp = now.replace(":", "").replace("-", "")
    names = (f"{path.name}.damaged-{stamp}{'' if number == 1 else f'-{number}'}" for number in count(1))
    target = next(file for file in map(path.with_name, names) if not file.exists())
    for suffix in ("-wal", "-shm", ""):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(target.with_name(target.name + suffix))
    return target
