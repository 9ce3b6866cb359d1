"""Open SQLAlchemy engines on the state database, and run transactions."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event

from memoryd.database import library, packing, query
from memoryd.database.library import BUSY_TIMEOUT_MS, own_uri
from memoryd.errors import StateError

LOG_PATIENCE_MS = 100
P = ParamSpec("P")
T = TypeVar("T")


def connect(path: Path, told: Callable[[Engine], None] | None = None) -> Engine:
    """Return an engine on the database file, with WAL, synchronous=FULL and explicit transactions.

    `synchronous=NORMAL` is not enough: after a power cut, a renamed Markdown file could exist without the row that
    recorded it. An engine can be used only in the process that created it. After a fork, each transaction raises
    StateError.

    Args:
        path: path of the database.
        told: called after each write transaction.
    """
    # SQLite makes a waiting writer poll, so it could wait for seconds beside busy threads. This lock gives threads
    # turns.
    turn = {"turn": threading.RLock(), "told": told}
    # LIFO keeps few connections busy: each connection has its own cache of the same pages.
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        module=library.load_library(),
        creator=lambda: library.connect(path),
        execution_options=turn,
        pool_use_lifo=True,
    )

    @event.listens_for(engine, "connect")
    def _on_connect(dbapi: Any, _record: object) -> None:
        packing.register(dbapi)
        dbapi.execute("PRAGMA page_size=2048")  # only changes a new database; larger pages leave more space unused
        dbapi.execute("PRAGMA journal_mode=WAL")
        dbapi.execute("PRAGMA synchronous=FULL")
        dbapi.execute("PRAGMA foreign_keys=ON")
        dbapi.execute("PRAGMA secure_delete=ON")  # FAST would leave deleted text if erasing it needed a page write
        dbapi.execute("PRAGMA cache_size=-4096")
        dbapi.execute("PRAGMA journal_size_limit=16777216")

    made_by = os.getpid()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        if os.getpid() != made_by:  # see §2.6 of https://sqlite.org/howtocorrupt.html
            raise StateError("a database connection was carried across a fork", where=str(path))
        query.fetch_rows(connection, "BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN")

    return engine


def empty_log(engine: Engine) -> bool:
    """Remove deleted data from the write-ahead log; return False if a reader prevents it.

    Then a later call can succeed.
    """
    with closing(engine.raw_connection()) as raw:
        return library.empty_log(raw.dbapi_connection, LOG_PATIENCE_MS)


@contextmanager
def begin_write(engine: Engine, beside: Path | None = None) -> Iterator[Connection]:
    """Open one write transaction. It is committed at the end, and rolled back after an exception.

    `beside` is the path of another database that no process writes. It is attached read-only under the name `good`.
    """
    turn = engine.get_execution_options()["turn"]
    has_turn = turn.acquire(timeout=BUSY_TIMEOUT_MS / 1000)  # otherwise SQLite's own lock decides, as between processes
    try:
        write = engine.connect().execution_options(write=True)
        with write as connection, _attach(connection, beside), connection.begin():
            yield connection
        if told := engine.get_execution_options()["told"]:
            told(engine)
    finally:
        if has_turn:
            turn.release()


@contextmanager
def _attach(connection: Connection, beside: Path | None) -> Iterator[None]:
    if beside is None:
        yield
        return
    raw: Any = connection.connection.dbapi_connection  # SQLite can attach a database only outside a transaction
    raw.execute("ATTACH ? AS good", (f"{own_uri(beside)}?mode=ro&immutable=1",))
    try:
        yield
    finally:
        if raw.in_transaction:  # its commit has failed
            raw.rollback()
        raw.execute("DETACH good")


@contextmanager
def undo_after(connection: Connection) -> Iterator[None]:
    """Open a savepoint in a write transaction that is always rolled back at its end."""
    savepoint, driver = connection.begin_nested(), connection.connection
    try:
        yield
    finally:
        if driver.in_transaction:  # a full disk has ended the transaction
            savepoint.rollback()


@contextmanager
def begin_trial(engine: Engine) -> Iterator[Connection]:
    """Open one write transaction that is always rolled back, to see the effect of a change."""
    with begin_write(engine) as connection, undo_after(connection):
        yield connection


@contextmanager
def begin_read(engine: Engine, beside: Path | None = None) -> Iterator[Connection]:
    """Open one read transaction: all queries in it see the same state. `beside` is attached as in `begin_write`."""
    with engine.connect() as connection, _attach(connection, beside), connection.begin():
        yield connection


def read(engine: Engine, look: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
    """Call a function in a read transaction of its own and return its result, which must not need the connection."""
    with begin_read(engine) as connection:
        return look(connection, *args, **named)


def write(engine: Engine, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
    """Call a function in a write transaction of its own and return its result."""
    with begin_write(engine) as connection:
        return change(connection, *args, **named)
