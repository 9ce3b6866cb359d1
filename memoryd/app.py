"""Build the whole app in one place, from the settings, a clock and all parts that read or write files."""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from memoryd.changing import forgetting, recovery, rescrub
from memoryd.changing.recovery import CaughtUp, Erasing, Keeper
from memoryd.changing.restore import WATERMARKS, Restorer
from memoryd.clock import Clock
from memoryd.database import alarms, query, reads, schema
from memoryd.database.library import file_id
from memoryd.database.reads import KeptReader
from memoryd.database.schema import OpenedDatabase
from memoryd.errors import LockedError, StateError, StillLockedError
from memoryd.files import locked_folder, mounts, trust
from memoryd.files.folders import make_memory_folders, make_private_dir
from memoryd.files.journal import Journal
from memoryd.files.locks import Lock
from memoryd.files.log import get_logger
from memoryd.files.ranges import OpenFiles
from memoryd.finding.embedding import Embedder, is_wanted
from memoryd.finding.indexing import Indexer
from memoryd.finding.recall import Recall
from memoryd.index.database import Index
from memoryd.reading.ingest import Ingest
from memoryd.reading.scrubbing import Scrubber
from memoryd.running import alarms as alarming
from memoryd.running import owner, queueing
from memoryd.running.answering import Answerer
from memoryd.running.kinds import KINDS
from memoryd.running.runner import Runner
from memoryd.tiers import archive, consolidation_log
from memoryd.worker.client import Worker
from memoryd.worker.embedder import MODEL
from memoryd.worker.pool import Pool

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from sqlalchemy import Connection, Engine

    from memoryd.config import Settings
    from memoryd.files.log import Log
    from memoryd.fleet.link import Link

LOCK = "memoryd.lock"
_STANDING = "SELECT agent_id, id FROM memory WHERE id IN (SELECT value FROM json_each(?)) AND ended_as IS NOT 'erased'"
# An agent asks from time to time, and loading the model takes a second.
QUESTIONS_IDLE = timedelta(minutes=10)


@dataclass(slots=True)
class App:
    """Hold everything that works on one state folder, and the folder's lock while it is open."""

    settings: Settings
    clock: Clock
    log: Log
    lock: Lock
    engine: Engine
    worker: Worker
    scrubber: Scrubber
    ingest: Ingest
    runner: Runner
    recall: Recall
    embedder: Embedder
    database: Path
    database_id: tuple[int, int] | None
    keeper: Keeper
    link: Link | None = None  # the link to a fleet
    is_borrowing: bool = False  # its child processes belong to another app

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close everything. The lock is released last."""
        if not self.is_borrowing:
            self.worker.close()
            self.scrubber.close()
            self.runner.answerer.models.close()
            if self.link is not None:
                self.link.close()
        self.embedder.close()
        self.ingest.files.close()
        self.recall.indexer.close()
        self.engine.dispose()
        self.lock.release()


def open_app(
    settings: Settings, clock: Clock | None = None, patience: timedelta = timedelta(), *, lender: App | None = None
) -> App:
    """Take the state folder's lock, open its database, recover after a crash, and build the parts.

    `patience` is how long to wait for another daemon to release the lock. A `lender` is an app whose child processes
    are used as well.

    Raises:
        LockedError: another daemon holds the folder. It is StillLockedError if that lasts for all of `patience`.
        StateError: the folder or the database cannot be used.
        ConfigError: others could write the configuration or a workspace.
    """
    clock = clock or Clock()
    log = get_logger()
    trust.require(settings)
    make_private_dir(settings.state_dir)
    make_memory_folders(settings)
    _require_local_disk(settings.state_dir)
    lock = Lock(settings.state_dir / LOCK)
    _take(lock, patience, log)
    try:
        locked_folder.remove_left(settings.state_dir)
        return _build(settings, clock, log, lock, lender)
    except BaseException:
        lock.release()
        raise


def _take(lock: Lock, patience: timedelta, log: Log) -> None:
    try:
        lock.acquire()
    except LockedError as error:
        if not patience:
            raise
        log.info("waiting for the state folder", seconds=patience, why=str(error))
        try:
            lock.acquire(patience)
        except LockedError as still:
            raise StillLockedError(still.what, still.where, still.hint) from still


def _require_local_disk(state_dir: Path) -> None:
    kind = mounts.file_system(state_dir.resolve(), mounts.read_mounts())
    if mounts.is_no_place_for_wal(kind):
        raise StateError(
            f"is on {kind}, where a SQLite database in WAL mode is corrupted",
            str(state_dir),
            "put state_dir on a local disk; the workspaces may stay where they are",
        )


def _build(settings: Settings, clock: Clock, log: Log, lock: Lock, lender: App | None) -> App:
    path = settings.state_dir / reads.DATABASE
    keeper = Keeper(settings.state_dir, log.bind(part="recovery"))
    index = Index(settings.state_dir, log.bind(part="index"))
    keeper.erase_index = index.erase
    index.told = keeper.found.append
    engine = recover_database(settings, path, keeper, clock)
    journal = Journal(settings.state_dir / WATERMARKS, sealed=True)
    worker, scrubber, models = (
        _children(settings, log) if lender is None else (lender.worker, lender.scrubber, lender.runner.answerer.models)
    )
    link = _join_fleet(settings, engine, clock, log) if lender is None else lender.link
    if link is not None and not settings.fleet.is_trial and lender is None:
        settings = link.hold(settings)
    ingest = Ingest(engine, settings, clock, log.bind(part="ingest"), OpenFiles(), scrubber)
    if entries := journal.entries():
        ingest.restored = Restorer(entries, clock.text())
    indexer = Indexer(index, KeptReader(path, stays=True), settings.zone, scrubber.redact_own, log.bind(part="index"))
    runner = Runner(
        engine=engine, settings=settings, worker=worker, scrubber=scrubber,
        answerer=Answerer(engine, models, worker, scrubber, clock, log.bind(part="answering"), link),
        clock=clock, owner=owner.name_process(), log=log.bind(part="runner"), journal=journal, kinds=KINDS,
        renamed=ingest.forget, erase_index=index.erase, renew_copies=lambda: keeper.copy(engine, clock.now()),
        new_id=lambda: secrets.token_hex(4),
    )  # fmt: skip
    runner.recover()
    alarming.clear_at_start(runner)
    alarming.review(runner)
    embedder = Embedder(
        MODEL,
        Worker(settings.state_dir, idle=QUESTIONS_IDLE, name="embedder of questions"),
        Worker(settings.state_dir, name="embedder"),
        clock.monotonic,
        log.bind(part="embedding"),
    )
    recall = Recall(indexer, clock.now, embedder.ask if is_wanted(settings) else None)
    app = App(
        settings, clock, log, lock, engine, worker, scrubber, ingest, runner, recall, embedder, path,
        file_id(path), keeper, link, is_borrowing=lender is not None,
    )  # fmt: skip
    if lender is None:
        runner.opened = lambda settings: open_app(settings, clock, lender=app)
    return app


def recover_database(settings: Settings, path: Path, keeper: Keeper, clock: Clock) -> Engine:
    """Open a database, bring it up to date from the copies and the journal, and set alarms about damage.

    `path` is the database of the state folder, or one that will replace it. Then a person expects it to be older, and
    only what is missing is an alarm. The caller must hold the folder's lock.
    """
    opened = schema.open_database(path, now=clock.text(), told=keeper.tell)
    keeper.found += opened.mended

    def prepare(connection: Connection, erasing: Erasing) -> None:
        with closing(Index(settings.state_dir, keeper.log)) as index:
            index.erase(None)
        if rescrub.KIND in erasing and settings.agents:
            queueing.queue(connection, clock, rescrub.KIND, settings.agents[0].id, rescrub.KIND, trigger="restore")
        for agent_id, memory_id in query.fetch_rows(connection, _STANDING, erasing.get(forgetting.KIND, [])):
            queueing.queue(
                connection, clock, forgetting.KIND, agent_id, trigger="restore", options={"memory": memory_id}
            )

    caught_up = keeper.catch_up(opened.engine, opened, prepare)
    keeper.compare(opened.engine, clock.text())
    if path.parent == settings.state_dir or keeper.found or caught_up.list_lacking():
        _tell_loss(settings, opened, caught_up, keeper, clock)
    else:
        keeper.found += filter(None, [str(caught_up)])
    return opened.engine


def _join_fleet(settings: Settings, engine: Engine, clock: Clock, log: Log) -> Link | None:
    """Return the link to the fleet, or None if none is configured. Only then is `fleet` imported."""
    if settings.fleet.database is None:
        return None
    from memoryd.fleet.link import Link

    return Link(settings, engine, clock, log.bind(part="fleet"))


def _tell_loss(settings: Settings, opened: OpenedDatabase, caught_up: CaughtUp, keeper: Keeper, clock: Clock) -> None:
    """Set the alarm for a database that was damaged, missing or older than its journal, and list the differences."""
    if opened.moved_aside is not None:
        what = f"the database {opened.fault} and is kept as {opened.moved_aside.name}; {caught_up}"
        alarms.set_alarm(opened.engine, alarming.DATABASE, what, clock.text(), subject=opened.moved_aside.name)
        keeper.log.error("damage", what=what)
    elif caught_up.is_lost:
        keeper.found.append(f"the database was gone; {caught_up}")
    elif told := str(caught_up):
        keeper.found.append(told)
    elif opened.is_new:
        marks = {one.id: one.workspace / archive.FOLDER / consolidation_log.NAME for one in settings.agents}
        keeper.found += [f"{name}: {recovery.UNKNOWN}" for name, mark in marks.items() if mark.exists()]
    if keeper.found:
        alarms.set_alarm(opened.engine, recovery.ALARM, "; ".join(keeper.found), clock.text())


def _children(settings: Settings, log: Log) -> tuple[Worker, Scrubber, Pool]:
    """Start the child processes. A scan has its own process, so that it never waits for a model call."""
    scrubber = Scrubber(Worker(settings.state_dir, name="scanner"), log.bind(part="scrub"))
    return Worker(settings.state_dir), scrubber, Pool(lambda: Worker(settings.state_dir, name="model"))
