"""Configure SQLAlchemy's connections to the state database."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event

from memoryd.database import library, packing
from memoryd.database.library import BUSY_TIMEOUT_MS, own_uri
from memoryd.errors import StateError

LOG_PATIENCE_MS = 100
P = ParamSpec("P")
T = TypeVar("T")


def connect(path: Path, told: Callable[[Engine], None] | None = None) -> Engine:
    """Open an engine on the database file: WAL, synchronous=FULL, explicit transactions.

    `NORMAL` is not enough: a renamed Markdown file can survive a power cut while the row that recorded it does not.
    An engine belongs to the process that made it: in a forked one each transaction raises StateError. `told` is called
    after each write transaction.
    """
    # A waiting writer asks SQLite now and then. Beside many threads that write all the time, it may wait for seconds.
    turn = {"turn": threading.RLock(), "told": told}
    url = URL.create("sqlite", database=str(path))
    # The connection used last is used next. If they took turns, five of them would hold the same pages five times.
    engine = create_engine(
        url,
        module=library.load_library(),
        creator=lambda: library.connect(path),
        execution_options=turn,
        pool_use_lifo=True,
    )

    @event.listens_for(engine, "connect")
    def _on_connect(dbapi: Any, _record: object) -> None:
        packing.register(dbapi)
        dbapi.execute("PRAGMA journal_mode=WAL")
        dbapi.execute("PRAGMA synchronous=FULL")
        dbapi.execute("PRAGMA foreign_keys=ON")
        dbapi.execute("PRAGMA secure_delete=ON")  # FAST leaves text if erasing it needs a page write
        dbapi.execute("PRAGMA cache_size=-4096")
        dbapi.execute("PRAGMA journal_size_limit=16777216")

    made_by = os.getpid()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        if os.getpid() != made_by:  # https://sqlite.org/howtocorrupt.html §2.6
            raise StateError("a database connection was carried across a fork", where=str(path))
        mode = "IMMEDIATE" if connection.get_execution_options().get("write") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def empty_log(engine: Engine) -> bool:
    """Remove deleted data from the write-ahead log; return False if a reader prevents it: the next call does it."""
    with closing(engine.raw_connection()) as raw:
        return library.empty_log(raw.dbapi_connection, LOG_PATIENCE_MS)


@contextmanager
def begin_write(engine: Engine, beside: Path | None = None) -> Iterator[Connection]:
    """Open one write transaction; committed at the end, rolled back by any exception.

    `beside` is another database, which no process writes, to read from under the name `good`.
    """
    turn = engine.get_execution_options()["turn"]
    has_turn = turn.acquire(timeout=BUSY_TIMEOUT_MS / 1000)  # without the lock SQLite decides, as between processes
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
    raw: Any = connection.connection.dbapi_connection  # outside of a transaction, as SQLite wants it
    raw.execute("ATTACH ? AS good", (f"{own_uri(beside)}?mode=ro&immutable=1",))
    try:
        yield
    finally:
        raw.execute("DETACH good")


class _TriedError(Exception):
    """Undo a transaction at its end."""


@contextmanager
def begin_trial(engine: Engine) -> Iterator[Connection]:
    """Open one write transaction that is undone: the effect of a change is read inside it."""
    with suppress(_TriedError), begin_write(engine) as connection:
        yield connection
        raise _TriedError


@contextmanager
def undo_after(connection: Connection) -> Iterator[None]:
    """Run inside a write transaction and undo everything at the end."""
    savepoint = connection.begin_nested()
    try:
        yield
    finally:
        savepoint.rollback()


@contextmanager
def begin_read(engine: Engine, beside: Path | None = None) -> Iterator[Connection]:
    """Open one read transaction: every query in it sees the same state; `beside` as for `begin_write`."""
    with engine.connect() as connection, _attach(connection, beside), connection.begin():
        yield connection


def read(engine: Engine, query: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
    """Return the result of a function in a separate read transaction; the result must not need the connection."""
    with begin_read(engine) as connection:
        return query(connection, *args, **named)


def write(engine: Engine, change: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
    """Return the result of a function in a separate write transaction."""
    with begin_write(engine) as connection:
        return change(connection, *args, **named)
