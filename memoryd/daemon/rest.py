"""Return disk space and memory after a while without writes."""

from pathlib import Path

from sqlalchemy.pool import QueuePool

from memoryd.app import App
from memoryd.database import sqlite
from memoryd.worker import heap

QUIET_SECONDS = 30.0


def empty_logs(app: App) -> None:
    """Empty the write-ahead logs and the caches of database and index if they were not written for 30 seconds."""
    index = app.recall.indexer.index
    database = _measure_quiet_log(app, app.database)
    is_emptied = bool(database) and sqlite.empty_log(app.engine)
    is_emptied |= bool(_measure_quiet_log(app, index.path)) and index.empty_log()
    pool = app.engine.pool
    if database is not None and isinstance(pool, QueuePool) and pool.checkedin():
        app.engine.dispose()  # each idle connection keeps its own pages and schema in memory
        is_emptied = True
    if is_emptied:
        heap.give_back()


def _measure_quiet_log(app: App, path: Path) -> int | None:
    """Return the bytes in the write-ahead log of a database, or None if it was written recently."""
    try:
        log = path.with_name(f"{path.name}-wal").stat()
    except FileNotFoundError:
        return 0
    return log.st_size if app.clock.now().timestamp() - log.st_mtime >= QUIET_SECONDS else None
