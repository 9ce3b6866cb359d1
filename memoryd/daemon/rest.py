"""Give disk and memory back once nothing has been written for a while."""

from functools import partial

from memoryd.app import App
from memoryd.database import sqlite
from memoryd.worker import heap

QUIET_SECONDS = 30.0


def empty_logs(app: App) -> None:
    """Empty the write-ahead logs, and caches, of database and index that nobody has written for a while."""
    now, index = app.clock.now().timestamp(), app.recall.indexer.index
    for path, empty in ((app.database, partial(sqlite.empty_log, app.engine)), (index.path, index.empty_log)):
        try:
            log = path.with_name(f"{path.name}-wal").stat()
        except FileNotFoundError:
            continue
        if log.st_size and now - log.st_mtime >= QUIET_SECONDS and empty():
            app.engine.dispose()  # each idle connection holds pages and the schema of its own
            heap.give_back()
