"""Back up the state folder into one file, and restore it. Workspaces are not part of it."""

from pathlib import Path
from typing import Any

from sqlalchemy.exc import DatabaseError

from memoryd.app import LOCK, open_app, recover_database
from memoryd.changing import restore as watermarks
from memoryd.changing.recovery import Keeper
from memoryd.changing.restore import WATERMARKS
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import backups, query, schema, sqlite, texts
from memoryd.database.reads import DATABASE
from memoryd.errors import MemorydError, StateError, describe, is_disk_trouble
from memoryd.files import archive, journal
from memoryd.files.folders import make_private_dir
from memoryd.files.locked_folder import STAGING, exchange_files, hold_folder
from memoryd.files.locks import Lock
from memoryd.files.log import get_logger
from memoryd.version import __version__

NAMES = (DATABASE, WATERMARKS)
SIDES = (f"{DATABASE}-wal", f"{DATABASE}-shm")
_QUEUED = "SELECT id FROM job_run WHERE \"trigger\" = 'restore' AND state = 'queued'"


def backup(settings: Settings, path: Path) -> dict[str, Any]:
    """Write the database and the journal of the state folder into a new archive. A daemon may run meanwhile.

    Returns `path`, the size in `bytes`, and the fields of the archive's manifest.
    """
    state = settings.state_dir
    with hold_folder(state, STAGING) as folder:
        backups.copy_database(state / DATABASE, folder / DATABASE)
        files = {DATABASE: folder / DATABASE}
        # Copy the journal after the database. It may then list more processed turns than the database, but never fewer.
        if (state / WATERMARKS).exists():
            journal.unite(folder / WATERMARKS, [state / WATERMARKS])
            files[WATERMARKS] = folder / WATERMARKS
        manifest = archive.write(path, files, {"version": __version__, "made_at": Clock().text()})
    return {"path": str(path), "bytes": path.stat().st_size, **manifest}


def restore(settings: Settings, path: Path) -> dict[str, Any]:
    """Replace the database and the journal of the state folder by those of an archive. Keep a copy of the old ones.

    Checks everything before it changes anything. The result also includes this machine's own journal, which lists the
    memory written into workspaces after the backup. So no job writes that memory twice. What people and jobs changed or
    removed since then comes back from it before the function returns.

    Returns `path`, `kept` (the copy of the old files, or None), `told` (lines for people about later changes that came
    back), and the fields of the archive's manifest.
    """
    state, clock = make_private_dir(settings.state_dir), Clock()
    keeper = Keeper(state, get_logger(part="recovery"))
    with Lock(state / LOCK), hold_folder(state, STAGING) as folder:
        manifest = archive.unpack(path, folder, NAMES)
        backups.check(folder / DATABASE)
        schema.require_ours(folder / DATABASE)
        _copy_present(settings, keeper, state / DATABASE)
        journal.unite(folder / WATERMARKS, [folder / WATERMARKS, state / WATERMARKS])
        # Later changes come back, and forgotten texts are removed, before the backup has its place. So a restore that
        # is stopped leaves the old state or the complete new one.
        engine = recover_database(settings, folder / DATABASE, keeper, clock)
        texts.rewrite_file(engine)  # all of it is in one file then
        engine.dispose()
        backups.settle(state / DATABASE)
        kept = exchange_files(folder, state, NAMES, SIDES, f"memoryd.replaced-{clock.now():%Y%m%dT%H%M%S.%fZ}")
    try:  # remove again what only a scan of everything can remove
        with open_app(settings) as app:
            for run_id in sqlite.read(app.engine, query.fetch_column, _QUEUED):
                run = app.runner.run_next(only=run_id)
                if run is None or run.state != "succeeded":
                    keeper.found.append(f"text to remove is still there: run {run_id} did not end (memoryd job list)")
            app.keeper.copy(app.engine, clock.now(), settings.retention.backups)
    except (MemorydError, OSError, DatabaseError) as error:
        what = f"the old files are here, and the backup is in place, but its restore did not end: {describe(error)}"
        raise StateError(what, str(kept or state), "repair the cause, then: memoryd run --once") from error
    return {"path": str(path), "kept": None if kept is None else str(kept), "told": keeper.found, **manifest}


def _copy_present(settings: Settings, keeper: Keeper, database: Path) -> None:
    """Check, repair and copy the database to be replaced; its later changes come back from this copy.

    A damaged or missing database cannot be copied. Then an older copy and the journal have to do.
    """
    engine = sqlite.connect(database)
    try:
        backups.check(database)
        schema.migrate(engine)
        keeper.found = keeper.inspect(engine, Clock().text())
        watermarks.reconcile(engine, journal.Journal(settings.state_dir / WATERMARKS, sealed=True), Clock().text())
        keeper.copy(engine, Clock().now(), settings.retention.backups)
    except (StateError, OSError, DatabaseError) as error:
        # A missing file cannot be opened, and damage can look like a read-only file.
        if is_disk_trouble(error) and not any(one in str(error.__cause__) for one in ("unable to open", "readonly")):
            raise
    finally:
        engine.dispose()
