"""Run the daemon's loop: the one place that waits. Hints, timers and finished runs wake it.

Each round reads changed transcripts, stores turns, checks the changed sessions, starts due runs, and does maintenance.
The database is the schedule, and the loop holds no plan of its own.
"""

import contextlib
import math
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from memoryd import config
from memoryd.agent_choice import choose
from memoryd.app import App
from memoryd.changing.captures import Captures
from memoryd.config import Settings
from memoryd.config_sections import list_fixed
from memoryd.counted import count_noun
from memoryd.daemon import readiness, rest, schedule, scheduled_times
from memoryd.daemon.timers import LookTimer, Timer
from memoryd.daemon.watch import OUT_OF_FILES, Watcher
from memoryd.database import alarms, library, query, runs, sqlite
from memoryd.database.runs import Run
from memoryd.errors import MemorydError, StateError, describe, is_disk_trouble, is_out_of_files
from memoryd.files import trust
from memoryd.files.folders import make_memory_folders
from memoryd.finding import embedding
from memoryd.reading.new_agents import Discoverer
from memoryd.running import alarms as alarming
from memoryd.running import extraction, history, hook_events, owner, retention, rollover, sleeping
from memoryd.running.core_watch import CoreWatch
from memoryd.running.hook_events import HookEvent
from memoryd.version import __version__
from memoryd.worker.client import ClosedError

TICK_SECONDS = 5.0
QUEUE_SECONDS = 1.0  # a fallback for commands that cannot use the control socket
CHECK_SECONDS = 300.0
PRUNE_SECONDS = 3600.0
DISCOVER_SECONDS = 60.0
CAPTURE_SECONDS = 5.0
REFUSED_SECONDS = 3600.0
POLL_SECONDS = 2.0
DRAIN_SECONDS = 4.0  # for questions that only wait for a quiet session, when the daemon stops
STOP_SECONDS = 8.0  # for runs to end by themselves; then the workers are killed …
KILLED_SECONDS = 4.0  # … and the runs have this long to end
TROUBLED_SECONDS = 1.0
SLICE_SECONDS = 0.25  # of reading history between two checks of live sessions
MAX_THREADS = 64
PROJECT_SECONDS = 0.4  # between two checks whether a new project has its agent
MOST_LOOKS = 25  # checks of a transcript for a hook event; some transcripts stay half read
SUSPENDED_SECONDS = 10.0
COUNT_SECONDS = 20.0  # after this time of reading a backlog, tokens are counted in parallel
CHORES, INDEXING, DISCOVERY = "chore", "indexing", "discovery"  # kinds of tasks
_DAEMON = ("id", "pid", "owner", "version", "started_at", "watching", "watching_note")  # the columns of its row


class Wake:
    """Wake the loop. Unlike an `Event`, this works from a signal handler that interrupts the loop."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()  # its `put` may be called in a signal handler

    def set(self) -> None:
        """Wake the thread that waits, or the next one that waits."""
        self._calls.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until `set` is called, at most so many seconds; several calls wake once."""
        with contextlib.suppress(Empty):
            self._calls.get(timeout=max(seconds, 0.0))
        for _ in range(self._calls.qsize()):
            self._calls.get()


@dataclass(slots=True)
class Hints:
    """Collect the paths that watchers report, each with the time of its first report. Any thread may add paths."""

    wake: Wake
    monotonic: Callable[[], float]
    paths: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    rescan: bool = False

    def add(self, path: str) -> None:
        """Note a path."""
        with self.lock:
            fresh = path not in self.paths
            self.paths.setdefault(path, self.monotonic())
        if fresh:
            self.wake.set()

    def all(self) -> None:
        """Ask for a complete scan."""
        self.rescan = True
        self.wake.set()

    def take(self, settled_at: float) -> list[str]:
        """Remove and return the paths that were first reported no later than `settled_at`."""
        with self.lock:
            ready = [path for path, since in self.paths.items() if since <= settled_at]
            for path in ready:
                del self.paths[path]
        return ready

    def next_at(self) -> float:
        """Return the time of the oldest report, or infinity if there is none."""
        with self.lock:
            return min(self.paths.values(), default=math.inf)


class Loop:
    """Run the daemon until it must stop."""

    def __init__(self, app: App, relog: Callable[[Settings], None]) -> None:
        self.app = app
        self.relog = relog
        self.readiness = readiness.from_environment(os.environ, os.getpid(), app.clock.monotonic)
        app.ingest.progress = self._go_on
        self.wake = Wake()
        self.reads_first = self.is_reading_first = False  # whether transcripts are read before any run starts
        self.clock = app.clock
        self.hints = Hints(self.wake, app.clock.monotonic)
        self.watcher = Watcher(app.log.bind(part="watch"), self.read, self.hints.all)
        self.pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="run")  # `jobs.workers` may change
        self.counting = ThreadPoolExecutor(1, thread_name_prefix="count")
        self.running: set[Future[Run | None]] = set()
        self.counts: dict[str, Future[None]] = {}
        # Work that may wait for up to a minute, for a disk, a hook or the user's command, runs on other threads, one
        # task of each kind at a time. A stop waits for them.
        self.tasks: dict[str, Future[object]] = {}
        self.captures = Captures()
        self.discoverer = Discoverer(app.log.bind(part="discovery"))
        # Returns True while a session with injected text is live, because its hooks need the scanner.
        self.is_hooked: Callable[[], bool] = lambda: False
        self.heed: Callable[[], None] | None = None  # carries out the fleet's requests to this host
        self.index_is_checked = False
        self.reconsider: dict[str, str] = {}
        self.uncounted: set[str] = set()  # sessions whose tokens are counted after the history is read
        self.reads_since: float | None = None  # when the present backlog was first seen; None without one
        self.announced: list[HookEvent] = []
        # Functions that are called at each tick, on another thread.
        self.beside: list[Callable[[], None]] = [partial(rest.empty_logs, app)]
        self.core = CoreWatch(app.runner)
        self.teller = alarming.AlarmHook(app.runner)
        self.disk_is_well = True
        self.stop_asked = self.hurried = self.interrupted = self.reload_asked = False
        now = self.clock.monotonic()
        self.importer = history.Importer(app.runner, app.ingest)
        self.tick = Timer(TICK_SECONDS, now)
        self.imports = LookTimer([app.database], QUEUE_SECONDS, now, anyway=TICK_SECONDS)
        self.queue = LookTimer([app.database], QUEUE_SECONDS, now, anyway=TICK_SECONDS)
        self.slots = LookTimer([app.database], 0, now, anyway=CHECK_SECONDS)
        self.used_slots: list[schedule.Due] = []
        self.check = Timer(CHECK_SECONDS, now, first=2.0)
        self.discover = Timer(DISCOVER_SECONDS, now)
        self.capture = Timer(CAPTURE_SECONDS, now)
        self.prune = Timer(PRUNE_SECONDS, now, first=10.0)
        app.keeper.is_asked = True  # a start inspects the whole database
        self.scan = Timer(0, now)
        self.last_turn = now

    # --- life -------------------------------------------------------------------------------------------------------

    def _is_busy(self, kind: str) -> bool:
        return kind in self.tasks and not self.tasks[kind].done()

    def _start(self, kind: str, task: Callable[[], object]) -> None:
        """Start a task on another thread, unless one of its kind is running. First log the failure of the last one."""
        if self._is_busy(kind):
            return
        if kind in self.tasks and (error := self.tasks[kind].exception()) is not None:
            self.app.log.error("task failed", task=kind, error_type=type(error).__name__, why=describe(error))
        self.tasks[kind] = self.pool.submit(task)

    def run(self) -> bool:
        """Run until `SIGTERM` or `SIGINT`.

        Returns False if a thread did not end in time. The process must not wait for it.

        Raises:
            StateError: The database was removed. A service manager restarts the daemon.
            KeyboardInterrupt: The signal was `SIGINT`, and everything has ended in order.
        """
        self._listen()
        try:
            self._configure(self.app.settings)
            self._note_start()
            self._reconsider_all()
            self._start(CHORES, self.app.runner.tell_pending)
            while not self.stop_asked:
                self._turn()
        except ClosedError:
            if not self.stop_asked:
                raise
        except Exception:
            self._check_files()  # if the files are gone, nothing works, and the error is not a defect of memoryd
            raise
        finally:
            ended = self._stop()
        if self.interrupted:
            raise KeyboardInterrupt
        return ended

    def look_now(self, session_id: str | None = None) -> None:
        """Check the queue at once, and the session if one is named. Any thread may call this."""
        if session_id is not None:
            self.app.ingest.changed.add(session_id)
        self.queue.at = self.imports.at = 0
        self.wake.set()

    def announce(self, announcement: HookEvent) -> None:
        """Handle a hook event after its transcript has settled and was read. Any thread may call this."""
        if announcement.transcript is not None:
            self.read(announcement.transcript)
        self.announced.append(announcement)
        self.wake.set()

    def look_for_project(self) -> None:
        """Look for new projects soon, because a folder without an agent is in use. Any thread may call this."""
        self.discover.hurry(TICK_SECONDS)
        self.tick.hurry(0)
        self.wake.set()

    def _listen(self) -> None:
        def stop(number: int, _frame: FrameType | None) -> None:
            self.hurried = self.stop_asked  # the second signal: running work returns to the queue at once
            self.stop_asked = True
            self.interrupted = number == signal.SIGINT
            self.app.ingest.stopping = True
            self.wake.set()
            # The loop itself may be waiting for a scan. Turns that are not scanned are read again at the next start.
            killer = threading.Timer(0 if self.hurried else STOP_SECONDS, self.app.scrubber.close)
            killer.daemon = True
            killer.start()

        def reload(_number: int, _frame: FrameType | None) -> None:
            self.reload_asked = True
            self.wake.set()

        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, stop)
            signal.signal(signal.SIGINT, stop)
            signal.signal(signal.SIGHUP, reload)

    def _configure(self, settings: Settings) -> None:
        for warning in settings.warnings:
            self.app.log.warning("configuration", why=warning)
        watched = [source for source in self.app.ingest.sources if source.watched]
        self.watcher.configure(watched, settings.ingest.polling)
        self._set_scan()

    def _set_scan(self) -> None:
        seconds = self.app.settings.ingest.rescan.total_seconds()
        if self.watcher.method == "polling":
            seconds = min(seconds, POLL_SECONDS)
        self.scan = Timer(seconds, self.clock.monotonic())

    def _note_start(self) -> None:
        with sqlite.begin_write(self.app.engine) as connection:
            sql = query.make_upsert("daemon", _DAEMON, "id")
            by = owner.name_process(), __version__, self.clock.text()
            query.run(connection, sql, 1, os.getpid(), *by, self.watcher.method, self.watcher.polling_why)
        self.app.log.info("started", pid=os.getpid(), version=__version__, watching=self.watcher.method)

    def _stop(self) -> bool:
        self.readiness.notify_stopping()
        self.app.log.info("stopping", running=len(self.running))
        self.watcher.stop()
        self._drain()
        self.app.runner.stopping = True
        self.counting.shutdown(wait=False, cancel_futures=True)
        self.pool.shutdown(wait=False, cancel_futures=True)
        threads: list[Future[Any]] = [*self.running, *self.counts.values(), *self.tasks.values()]
        if self.app.link is not None:
            self.app.link.asker.close()  # a run that waits for a reply receives it at the next start
        if not self._wait_until_ended(threads, STOP_SECONDS, unless=lambda: self.hurried):
            self.app.worker.close()
            self.app.embedder.close()
            self.app.runner.answerer.models.close()
            self._wait_until_ended(threads, KILLED_SECONDS)
        try:
            self.app.ingest.flush()
            if left := self.app.runner.abandon():
                self.app.log.warning("runs interrupted", runs=left)
        except Exception as error:  # noqa: BLE001 - the next start reads and recovers what could not be written
            self.app.log.warning("not all could be stored", error_type=type(error).__name__)
        self.app.log.info("stopped")
        return self._wait_until_ended(threads, 0)

    def _drain(self) -> None:
        """Ask the questions that only wait for a quiet session, while a stop has time.

        The others wait for the next start.
        """
        if self.hurried or not self.stop_asked:
            return
        try:
            due = extraction.hurry_questions(self.app.engine, self.clock)
        except Exception as error:  # noqa: BLE001 - what waits is stored and is asked at the next start
            self.app.log.warning("questions left waiting", error_type=type(error).__name__)
            return
        asked: list[Future[Any]] = [self.pool.submit(self.app.runner.run_next, run_id) for run_id in due]
        self.running.update(asked)
        self._wait_until_ended(asked, DRAIN_SECONDS, unless=lambda: self.hurried)

    def _wait_until_ended(
        self, threads: list[Future[Any]], seconds: float, unless: Callable[[], bool] = lambda: False
    ) -> bool:
        until = self.clock.monotonic() + seconds
        while any(not future.done() for future in threads) and self.clock.monotonic() < until and not unless():
            self.wake.wait(0.1)
        return all(future.done() for future in threads)

    # --- one round --------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self.wake.wait(self._timeout())
        now = self.clock.monotonic()
        if now - self.last_turn > SUSPENDED_SECONDS + TICK_SECONDS:
            self.hints.rescan = True  # the process was stopped or the machine slept, so changes may have been missed
        if self.reload_asked:
            self.reload_asked = False
            self._reload()
        try:
            self._ingest(now)
            self._carry_out(now)
            self._consider(self._find_changed_keys())
            self._launch(now)
            if not self.hints.rescan and self.imports.is_due(now) and self.importer.tend():
                self.imports.at = self.queue.at = 0
            if self.tick.is_due(now):
                self._tend(now)
            self._note_disk(well=True)
            self._feed()
        except Exception as error:
            if is_out_of_files(error):
                self.app.ingest.files.spare()
            elif not is_disk_trouble(error):
                raise
            else:
                self._note_disk(well=False)
        if self.app.ingest.files.is_short:
            self._spare_files()
        self._tell_manager()
        self.last_turn = self.clock.monotonic()

    def _feed(self) -> None:
        """Report progress to the watchdog after each check and round.

        A check covers one transcript or session.
        """
        self.readiness.progress(lambda: sqlite.read(self.app.engine, query.has_row, "SELECT 1 FROM daemon"))

    def _go_on(self) -> None:
        """Report progress and start due runs.

        A round with a thousand transcripts takes long, and runs should not wait.
        """
        self._feed()
        if not self.stop_asked:
            self._launch(self.clock.monotonic())

    def _tell_manager(self) -> None:
        if self.stop_asked or not self.readiness.is_heard:
            return
        if not self.disk_is_well:
            self.readiness.progress(lambda: None)  # the daemon waits for a full disk, and a restart would not help
        elif not self.readiness.is_ready:
            self.readiness.ready()
        transcripts = sum(not cursor.is_gone for cursor in self.app.ingest.cursors.all())
        state = "ready" if self.disk_is_well else "waiting for the disk"
        self.readiness.status(
            f"{state}: {count_noun(len(self.app.settings.agents), 'agent')}, {count_noun(transcripts, 'transcript')},"
            f" {count_noun(len(self.running), 'run')} at work, watching by {self.watcher.method}"
        )

    def _timeout(self) -> float:
        now = self.clock.monotonic()
        settle = self.app.settings.ingest.settle.total_seconds()
        due = [self.tick.at, self.queue.at, self.scan.at, self.imports.at, self.readiness.next_at()]
        due += self.app.ingest.again.values()
        due += [since + settle for since in (self.hints.next_at(), *(one.at for one in self.announced))]
        if self.hints.rescan or self.app.ingest.backlog:
            due.append(now)
        # Failed work is still due. Without this pause, the loop would repeat it at full speed until the disk works.
        return max(0.0 if self.disk_is_well else TROUBLED_SECONDS, min(due) - now)

    def read(self, path: str) -> None:
        """Read a changed path soon. Any thread may call this."""
        if path.endswith("/"):
            self.hints.all()  # a folder appeared or disappeared: the scan finds its content
            self.reads_first |= path == "/"  # a caller wants everything read before it queues a run
        elif self.app.ingest.means(path):
            self.hints.add(path)

    def _ingest(self, now: float) -> None:
        self.is_reading_first, self.reads_first = self.reads_first, False
        try:
            self._read_changed(now)
        finally:
            self.is_reading_first = False

    def _read_changed(self, now: float) -> None:
        ingest = self.app.ingest
        is_scan = self.hints.rescan or self.scan.is_due(now)
        if is_scan:
            self.hints.rescan = False
            self.scan.at = now + self.scan.seconds
            ingest.find()
        again = [path for path, at in ingest.again.items() if at <= now]
        for path in again:
            del ingest.again[path]
        hinted = {*self.hints.take(now - self.app.settings.ingest.settle.total_seconds()), *again}
        for path in hinted:
            ingest.hint(path)
        if hinted or not ingest.backlog:
            ingest.flush()
        if is_scan or ingest.backlog:
            ingest.read_waiting(SLICE_SECONDS)  # live sessions, runs and requests come before the next slice
        self._note_reading(now)

    def _note_reading(self, now: float) -> None:
        """Note when reading a backlog began. At its end, or after 20 seconds, start the postponed counts of tokens."""
        began, self.reads_since = self.reads_since, (self.reads_since or now) if self.app.ingest.backlog else None
        if not self.uncounted or self._reads_history():
            return
        # Only after a long read, because the child that counts tokens takes as much memory as the scanner.
        if began is not None and now - began > QUEUE_SECONDS and not self.is_hooked():
            self.app.scrubber.tick(math.inf)
        self.reconsider.update(dict.fromkeys(self.uncounted, ""))
        self.uncounted.clear()

    def _reads_history(self) -> bool:
        """Return True during the first seconds of reading a backlog.

        Counting waits only that long, because the backlog may include a live session.
        """
        return self.reads_since is not None and self.clock.monotonic() - self.reads_since < COUNT_SECONDS

    def _carry_out(self, now: float) -> None:
        app = self.app
        settle = app.settings.ingest.settle.total_seconds()
        for one in [one for one in self.announced if one.at <= now - settle]:
            self.announced.remove(one)
            agent_id = self._agent_of(one)
            session_id = hook_events.session_of(app.engine, agent_id, one.transcript, one.session)
            if session_id in app.ingest.unread and one.looks < MOST_LOOKS:
                self.announced.append(one._replace(at=now, looks=one.looks + 1))
            elif session_id is None and app.settings.discover and one.looks < MOST_LOOKS:
                self._wait_for_project(one, now)
            elif session_id is None:
                app.log.info("hook event of a session that is not read", agent=agent_id, what=one.event.value)
            else:
                run_id = hook_events.carry_out(app.engine, app.settings, app.clock, one, session_id)
                app.ingest.changed.add(session_id)
                self.queue.at = 0
                app.log.info("announced", agent=agent_id, what=one.event.value, session=session_id, run=run_id)

    def _agent_of(self, event: HookEvent) -> str:
        """Return the agent of an event; empty if it has none yet.

        Its folder may have become a project after the event.
        """
        agent = choose(self.app.settings, event.folder) if self.app.settings.discover and event.folder else None
        return event.agent_id if agent is None else agent.id

    def _wait_for_project(self, event: HookEvent, now: float) -> None:
        """Keep an event of a session with an unknown project or program until discovery has found it."""
        if event.looks == 0:
            self.discover.at = self.tick.at = 0
        elif event.transcript is not None:
            self.read(event.transcript)
        self.announced.append(event._replace(at=now + PROJECT_SECONDS, looks=event.looks + 1))

    def _find_changed_keys(self) -> list[str]:
        ingest = self.app.ingest
        if ingest.changed:  # end idle sessions first, so that the tokens of old sessions are not counted
            ingest.changed.update(sleeping.end_idle(self.app.engine, self.app.settings, self.app.clock))
        ready = ingest.changed - ingest.unread
        ingest.changed -= ready
        now = self.clock.text()
        ready |= {session_id for session_id, at in self.reconsider.items() if at <= now}
        for session_id in [one for one, future in self.counts.items() if future.done()]:
            del self.counts[session_id]
            ready.add(session_id)
        # Removed one by one when they are considered, so that an error in between loses none.
        self.reconsider.update(dict.fromkeys(ready, ""))
        return sorted(ready)

    def _consider(self, session_ids: Iterable[str]) -> None:
        app = self.app
        for session_id in session_ids:
            if session_id in self.counts:
                self.reconsider[session_id] = app.clock.text(ahead=timedelta(seconds=QUEUE_SECONDS))
                continue
            if sleeping.session_needs_counting(app.engine, session_id):
                if self._reads_history():
                    self.uncounted.add(session_id)
                    self.reconsider.pop(session_id, None)
                    continue
                future = self.counting.submit(sleeping.count_or_estimate, app.engine, app.worker, app.log, session_id)
                future.add_done_callback(lambda _: self.wake.set())
                self.counts[session_id] = future
                self.reconsider.pop(session_id, None)
                continue
            considered = sleeping.consider(app.engine, app.settings, app.clock, session_id)
            self.reconsider.pop(session_id, None)
            if considered.again_at is not None:
                self.reconsider[session_id] = considered.again_at
            asked = extraction.consider(app.engine, app.settings, app.clock, session_id)
            rolled = rollover.consider_session(app.engine, app.settings, app.clock, session_id)
            wished = rollover.consider_asked(app.engine, app.settings, app.clock, session_id)
            if any((considered.run_id, asked, rolled, wished)):
                self.queue.at = 0
            self._go_on()

    def _reconsider_all(self) -> None:
        for session_id in sleeping.list_unfinished(self.app.engine, self.app.settings, self.clock):
            self.reconsider[session_id] = ""
        rollover.consider_all(self.app.engine, self.app.settings, self.clock)

    def _launch(self, now: float) -> None:
        done = {future for future in self.running if future.done()}
        self.running -= done
        worked = [self._finish_run(future) for future in done]
        if self.reads_first or self.is_reading_first:
            self.queue.at = 0
            return
        if not self.queue.is_due(now) and not any(worked):
            return
        runner = self.app.runner
        due = sqlite.read(self.app.engine, runs.count_takeable, self.clock.text(), runner.takeable_agents())
        for _ in range(min(due, self.app.settings.jobs.workers - len(self.running))):
            future = self.pool.submit(runner.run_next)
            future.add_done_callback(lambda _: self.wake.set())
            self.running.add(future)

    def _finish_run(self, future: Future[Run | None]) -> bool:
        """Return True if the future carried out a run. Then the next run may start at once."""
        error = future.exception()
        if error is not None:
            self.app.log.error("runner failed", error_type=type(error).__name__)
            return False
        run = future.result()
        self.imports.at = 0
        if run is not None and rollover.consider(self.app.engine, self.app.settings, self.clock, run.agent_id):
            self.queue.at = 0
        if run is not None and run.session_id is not None:
            self.app.ingest.changed.add(run.session_id)
            self.wake.set()
        return run is not None

    # --- tending ----------------------------------------------------------------------------------------------------

    def _tend(self, now: float) -> None:
        app = self.app
        self._check_files()
        app.ingest.changed.update(sleeping.end_idle(app.engine, app.settings, app.clock))
        app.runner.beat()
        # In this order, because `is_due` also sets the next time.
        if not self._is_busy(CHORES) and self.prune.is_due(now):
            drop = app.recall.indexer.drop_sessions
            self._start(CHORES, lambda: self._keep(drop))
        self._start(CHORES, app.runner.settle if app.runner.is_unsettled_due() else self._look_at_core)
        self._start(INDEXING, self._index)
        self._start_embedding()
        app.worker.tick(now)
        app.scrubber.tick(now)
        app.embedder.tick(now)
        app.runner.answerer.tend(now)
        self._run_schedules()
        before = (self.watcher.method, self.watcher.polling_why)
        self.watcher.tend()
        if self.check.is_due(now):
            self.watcher.check_limits()
            alarming.review(app.runner)
        if app.settings.discover and not self._is_busy(DISCOVERY) and self.discover.is_due(now):
            self._start(DISCOVERY, self._discover)
        if app.settings.sessions.capture and self.capture.is_due(now):
            self._start("capture of sessions", lambda: self.captures.write_all(app.engine, app.settings, self.clock))
        self._tend_link()
        self._tell_alarms()
        if (self.watcher.method, self.watcher.polling_why) != before:
            self._note_watching()

    def _tend_link(self) -> None:
        link = self.app.link
        if link is None:
            return
        if link.is_changed:
            self._apply(link.restrict(self.app.settings))
        self._start("update of the fleet", lambda: link.tick(self.app.settings))
        if self.heed is not None:
            self._start("request of the fleet", self.heed)

    def _tell_alarms(self) -> None:
        if self.teller.is_wanted():
            self._start("report of alarms", self.teller.tell)

    def _index(self) -> None:
        if not self.index_is_checked:
            self.index_is_checked = True
            self.app.recall.indexer.index.why_damaged()
        runner, indexer = self.app.runner, self.app.recall.indexer
        for agent in self.app.settings.agents:
            if agent.enabled and not runner.stopping:
                indexer.refresh(agent, lambda: not runner.stopping)
                indexer.settle(agent, lambda: not runner.stopping)

    def _start_embedding(self) -> None:
        if self.app.recall.meaning is not None:
            self._start("embedding", self._embed)

    def _embed(self) -> None:
        for agent in self.app.settings.agents:
            if agent.enabled:
                self.app.embedder.fill(
                    self.app.recall.indexer,
                    agent,
                    lambda: self.app.recall.meaning is not None and not self.app.runner.stopping,
                )

    def _discover(self) -> None:
        try:
            if self.discoverer.add_new(self.app.settings, self.clock):
                self.reload_asked = True
                self.wake.set()
        except MemorydError as error:
            self.discover.at += REFUSED_SECONDS  # wait an hour, or until the configuration is reloaded
            self.app.runner.set_alarm(alarming.CONFIG, f"new projects got no agent: {error}")
            raise

    def _keep(self, drop: Callable[[str, Sequence[str]], None]) -> None:
        app = self.app
        try:
            app.keeper.keep(app.engine, app.settings, app.clock)
        finally:
            if app.keeper.is_asked:  # the inspection failed
                self.prune.hurry(CHECK_SECONDS)
        app.ingest.unscanned.expect()  # damaged texts are read again from their transcripts
        retention.prune(app.engine, app.settings, app.clock, app.log, drop)

    def _look_at_core(self) -> None:
        with contextlib.ExitStack() as chores:  # an error in one task does not stop the others
            for chore in reversed(self.beside):
                chores.callback(chore)
            self.core.look()

    def _run_schedules(self) -> None:
        app = self.app
        due = schedule.list_due(app.settings, app.clock.now())
        # In a fleet, each agent has its own time after a scheduled time, so this is checked at each tick.
        if not self.slots.is_due(self.clock.monotonic()) and due == self.used_slots and app.link is None:
            return
        self.used_slots = []  # empty until all succeed, so that the next tick tries again
        for slot in due:
            scheduled_times.queue_ready(app, slot)
        scheduled_times.look_at_cores(app)
        self.used_slots = due

    def _note_watching(self) -> None:
        self._set_scan()
        sql = "UPDATE daemon SET watching = ?, watching_note = ?"
        sqlite.write(self.app.engine, query.run, sql, self.watcher.method, self.watcher.polling_why)

    def _check_files(self) -> None:
        app = self.app
        if app.lock.is_lost():
            name, where, hint = "lock", app.lock.path, "restart memoryd, and see that only one daemon runs"
        elif library.file_id(app.database) != app.database_id:
            name, where, hint = "database", app.database, "put it back, or restart memoryd"
        else:
            return
        error = StateError(f"the {name} file was deleted or replaced while in use", str(where), hint)
        app.log.error("stopping", why=str(error))
        raise error

    def _spare_files(self) -> None:
        """Poll, keep fewer files open, and raise an alarm, because the process has too many open files."""
        self.app.ingest.files.is_short = False
        self.watcher.spare()
        self._set_scan()
        try:
            alarms.set_alarm(self.app.engine, alarming.FILES, OUT_OF_FILES, self.clock.text())
            self._note_watching()
        except Exception as error:  # noqa: BLE001 - it needs a free descriptor too; the next shortage stores it
            self.app.log.warning("alarm not stored", kind=alarming.FILES, error_type=type(error).__name__)

    def _note_disk(self, *, well: bool) -> None:
        """Pause ingest and raise an alarm while the disk is full or fails. Transcripts wait, and nothing is lost."""
        if well == self.disk_is_well:
            return
        if not well:
            self.app.log.error("ingest paused", why="the state folder cannot be written")
            self.scan.at = self.clock.monotonic() + TICK_SECONDS
        text = "the state folder cannot be written; ingest waits"
        try:
            alarms.set_alarm(self.app.engine, alarming.DISK, None if well else text, self.clock.text())
        except Exception as error:  # noqa: BLE001 - the alarm is about this disk, so storing it may fail
            self.app.log.warning("alarm not stored", kind=alarming.DISK, error_type=type(error).__name__)
            if well:
                return  # the alarm must be cleared first: the next stored batch tries again
            if self.teller.is_wanted():
                self.teller.unstored[alarming.DISK] = text
                self._tell_alarms()
        self.disk_is_well = well
        if well:
            self.app.log.info("ingest goes on")

    def _reload(self) -> None:
        self.readiness.notify_reloading()
        try:
            self._take_settings()
        finally:
            if self.readiness.is_ready:
                self.readiness.ready()

    def _take_settings(self) -> None:
        app = self.app
        try:
            fresh = config.load(app.settings.source)
            if fresh.state_dir != app.settings.state_dir:
                raise StateError("state_dir cannot change while memoryd runs", hint="stop it first")
            if list_fixed(fresh.fleet) != list_fixed(app.settings.fleet):
                raise StateError(
                    "the fleet and the host's name cannot change while memoryd runs", hint="stop memoryd first"
                )
            trust.require(fresh)
            make_memory_folders(fresh)
        except MemorydError as error:
            app.log.error("configuration not reloaded", why=str(error))  # noqa: TRY400 - the error says where
            alarms.set_alarm(app.engine, alarming.CONFIG, str(error), self.clock.text())
            return
        alarms.set_alarm(app.engine, alarming.CONFIG, None, self.clock.text())
        self._apply(fresh if app.link is None else app.link.restrict(fresh))
        app.log.info("configuration reloaded", path=fresh.source)

    def _apply(self, fresh: Settings) -> None:
        app = self.app
        app.settings = app.runner.settings = fresh
        self.slots.at = 0
        app.recall = replace(
            app.recall,
            indexer=replace(app.recall.indexer, zone=fresh.zone),
            meaning=app.embedder.ask if embedding.is_wanted(fresh) else None,
        )
        self.relog(fresh)
        app.ingest.configure(fresh)
        self._configure(fresh)
        app.runner.answerer.renew()
        app.runner.tend_proposals()
        alarming.review(app.runner)
        self._reconsider_all()
        self.hints.all()
        self.discover.at = 0
