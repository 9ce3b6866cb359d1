"""Commands that run jobs or change state: by the daemon where one runs, else in this process under its lock."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memoryd.app import DATABASE, LOCK, open_app
from memoryd.changing import feedback as feedbacks
from memoryd.changing import ledger_runs, rescrub, saving, time_machine
from memoryd.changing.core_import import CORE_FILE, digest_of
from memoryd.changing.facts import FactStore
from memoryd.changing.gate import AGENT_TOOL, HUMAN
from memoryd.clock import Clock, text_of
from memoryd.counted import counted
from memoryd.daemon import slots
from memoryd.daemon.once import await_settled, read_all
from memoryd.database import query, reads, runs, snapshot, sqlite
from memoryd.errors import LockedError, MemorydError, NotFoundError, RefusedError, StateError
from memoryd.files import log, regular, trial
from memoryd.files.locks import Lock
from memoryd.files.log import get_logger
from memoryd.interfaces import asking
from memoryd.interfaces.recall import scrubbing
from memoryd.jobs import knife
from memoryd.ledger.facts import Limits as FactLimits
from memoryd.ledger.guards import Limits as GuardLimits
from memoryd.running import (
    called_refining,
    dreaming,
    evaluating,
    extraction,
    modes,
    queueing,
    refining,
    rehearsal,
    sandbox,
    sleeping,
)
from memoryd.running.core_watch import CoreWatch
from memoryd.running.runner import check_kind
from memoryd.tiers import core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from memoryd.app import App
    from memoryd.config import Agent, Settings
    from memoryd.ledger.rollback import Plan
    from memoryd.reading.scrubbing import Scrubber

T = TypeVar("T")
RELOAD = "reload it: SIGHUP, or stop and start it"
POLL_SECONDS = 0.1
MADE_SECONDS = 10.0
KNOWN_SECONDS = 1.0
SLEEP = "sleep"
WAITING = ("queued", "running", "interrupted")
UNDONE = frozenset({"failed", "dead", "blocked", "interrupted", "queued", "cancelled"})


def set_paused(settings: Settings, agent_id: str, *, paused: bool) -> None:
    """Pause or resume an agent; a running daemon sees it at its next look at the queue."""
    with _changing(settings) as (engine, _), sqlite.writing(engine) as connection:
        if not runs.set_paused(connection, agent_id, paused=paused):
            raise NotFoundError(f"the daemon does not know the agent {agent_id!r} yet", hint=RELOAD)


@contextmanager
def _changing(settings: Settings) -> Iterator[tuple[Engine, App | None]]:
    """The database, beside a running daemon, or with the app under its lock where none runs."""
    try:
        app = open_app(settings)
    except LockedError:
        with beside(settings) as engine:
            yield engine, None
    else:
        with app:
            yield app.engine, app


@contextmanager
def beside(settings: Settings) -> Iterator[Engine]:
    """The database, open beside whoever holds the lock; one that is just being made is waited for."""
    path = database(settings)

    def connect() -> Engine:
        with reads.open_reader(path):  # refuses a database of another version
            return sqlite.connect(path)

    engine = _retried(connect, reads.NotMadeError, MADE_SECONDS)  # who holds the folder makes it at this moment
    try:
        yield engine
    finally:
        engine.dispose()


def _retried(function: Callable[[], T], error: type[MemorydError], seconds: float) -> T:
    """Call a function until it does not raise this error, for so long at most."""
    late = time.monotonic() + seconds
    while True:
        try:
            return function()
        except error:
            if time.monotonic() > late:
                raise
            time.sleep(POLL_SECONDS)


@contextmanager
def _reading(settings: Settings) -> Iterator[Connection]:
    with beside(settings) as engine, sqlite.reading(engine) as connection:
        yield connection


class Asked(NamedTuple):
    """How a job is asked for by hand."""

    session_id: str | None = None  # this session only (sleep, facts)
    # Sessions that are over as well (sleep); though nothing is new (dream), the core is small (refine), or the same was
    # rejected: by dream, refine and dedup.
    force: bool = False
    lookback_days: int | None = None  # so many days, ending today (dream); None for the configured number
    mode: str | None = None  # how far it may go (refine); None for the configured one


def run_job(settings: Settings, kind: str, agent_id: Callable[[], str], asked: Asked) -> list[dict[str, Any]]:
    """Run a job and wait for it; returns the rows of its runs, of a dream without the sleeps that its receipt names."""
    check_kind(kind)
    require_mode(kind, asked.mode)
    agent = agent_id()

    rows = run_now(
        settings,
        agent,
        lambda engine, clock: _queued(settings, engine, clock, kind, agent, asked),
        fresh=kind in {dreaming.KIND, SLEEP, extraction.KIND},
        settled=kind in {dreaming.KIND, refining.KIND, ledger_runs.DEDUP},
    )
    return rows[-1:] if kind == dreaming.KIND else rows


def require_mode(kind: str, mode: str | None) -> None:
    """Make sure that a mode is given only to what has one."""
    if mode is not None and kind != refining.KIND:
        raise RefusedError(f"{kind!r} jobs have no modes", hint=f"leave --mode out; {refining.KIND} has them")


def _refine(engine: Engine, clock: Clock, agent_id: str, mode: str | None, *, force: bool) -> str:
    waiting = sqlite.read(engine, runs.open_by_key, refining.key_of(agent_id))
    if waiting is not None and refining.is_called(runs.get_run(engine, waiting)):
        hint = "wait until it is over, or end it: memoryd job cancel"
        raise RefusedError("the agent refines its core itself at the moment", waiting, hint)
    options = {"mode": mode} if mode is not None else {}
    return request(engine, clock, agent_id, refining.KIND, options | {"force": force}, key=refining.key_of(agent_id))


def rehearse(settings: Settings, kind: str, agent: Agent, asked: Asked) -> list[dict[str, Any]]:
    """Find out what a job would do now, of what was read so far; nothing is written and no model asked."""
    check_kind(kind)
    require_mode(kind, asked.mode)
    if not database(settings).exists():
        raise NotFoundError("nothing has been read yet", str(database(settings)), "memoryd run --once")
    with trial.place(settings.state_dir, agent.workspace) as place:
        snapshot.copy(database(settings), place.state / DATABASE)
        tried = sandbox.settings_of(settings, agent, place)
        close = log.configure(place.state, level=settings.log.level, text=False, terminal=None)
        try:
            with open_app(tried) as app:
                app.runner.proposes = False
                _require_known(app.engine, agent.id)
                queued = _queued(tried, app.engine, app.clock, kind, agent.id, asked)
                return [rehearsal.rehearse(app.runner, run_id, place.workspace) for run_id in queued]
        finally:
            close()


def _queued(settings: Settings, engine: Engine, clock: Clock, kind: str, agent_id: str, asked: Asked) -> list[str]:
    if kind == refining.KIND:
        return [_refine(engine, clock, agent_id, asked.mode, force=asked.force)]
    if kind == extraction.KIND:
        chosen = None if asked.session_id is None else _session_id(engine, agent_id, asked.session_id)
        queued = extraction.ask_now(engine, clock, agent_id, chosen)
        return queued or [_nothing(engine, clock, agent_id, chosen, kind)]
    if kind == SLEEP:
        return queue_sleeps(engine, clock, agent_id, asked.session_id, force=asked.force)
    if kind == dreaming.KIND:
        flushed = dreaming.flush(engine, settings, clock, agent_id, "manual", HUMAN)
        options = {"force": asked.force, "lookback_days": asked.lookback_days, "flushed": flushed}
        return [*flushed, request(engine, clock, agent_id, kind, options, key=dreaming.key_of(agent_id))]
    forced = {"force": True} if asked.force and kind == ledger_runs.DEDUP else None
    return [request(engine, clock, agent_id, kind, forced, key=f"{kind}:{agent_id}")]


def run_now(
    settings: Settings,
    agent_id: str,
    queue: Callable[[Engine, Clock], list[str]],  # puts them into the job table; returns their ids
    *,
    fresh: bool = False,  # the transcripts are to be read first
    settled: bool = False,  # an edit of `MEMORY.md` is to be imported first, for which a daemon makes the runs wait
    # Does so instead of `queue` where another process or thread is to carry them out.
    beside: Callable[[Engine, Clock], list[str]] | None = None,
) -> list[dict[str, Any]]:
    """Have runs carried out, by the daemon or here, and wait for them; returns their rows."""
    queued: list[str] = []
    while True:
        try:
            app = open_app(settings)
        except LockedError:
            if not queued:
                queued = _queue_beside(settings, agent_id, beside or queue)
                asking.ask(settings.state_dir, "wake")
            rows = _wait(settings, queued)
            if rows is not None:
                return rows
            continue  # who held the lock is gone, and was no daemon: then the work is done here
        with app:
            if not queued:
                if fresh:
                    read_all(app)
                _require_known(app.engine, agent_id)
                if settled:
                    await_settled(app, next(agent for agent in settings.agents if agent.id == agent_id))
                queued = queue(app.engine, app.clock)
            for run_id in queued:
                app.runner.run_next(only=run_id)
        return _rows(settings, queued)


def carried_out(
    settings: Settings,
    agent_id: str,
    kind: str,
    options: dict[str, Any] | None,
    key: str | None = None,
    *,
    fresh: bool = False,
    **more: str | None,
) -> dict[str, Any]:
    """Have one run carried out as `run_now` does, of what `request` takes; returns its row."""

    def queue(engine: Engine, clock: Clock) -> list[str]:
        return [request(engine, clock, agent_id, kind, options, key=key, **more)]

    return run_now(settings, agent_id, queue, fresh=fresh)[0]


def failure_of(row: dict[str, Any]) -> MemorydError | None:
    """Return the error to show to the person who asked for the run; None if the run ended well."""
    if row["state"] == "declined":
        return RefusedError(str(row["why"]), where=row["id"])
    if row["state"] in UNDONE:
        return MemorydError(f"the run ended as {row['state']}: {row['error'] or row['why']}", where=row["id"])
    return None


def require_done(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a run that ended well; raise the error of any other run (`failure_of`)."""
    if error := failure_of(row):
        raise error
    return row


def require_accepted(row: dict[str, Any]) -> dict[str, Any]:
    """As `require_done`, for a run of which all was asked for by a person or a tool: nothing of it may be refused."""
    refused = row["receipt"].get("refused", ())
    if refused:
        why = row["why"] or "; ".join(f"{one['guard']}: {one['why']}" for one in refused)
        raise RefusedError(str(why), where=row["id"])
    return require_done(row)


def answer(settings: Settings, run_id: str, verb: str) -> dict[str, Any]:
    """Accept or reject a proposal, and wait for it; returns the row of the run that does it."""
    (row,) = _rows(settings, [run_id])
    if row["state"] != runs.PROPOSED:
        raise RefusedError(f"the run is {row['state']}, no proposal that waits", row["id"], "memoryd status lists them")
    options = {**row["options"], "run": row["id"], "of": row["kind"]}
    key = f"answer:{row['id']}"
    return carried_out(settings, row["agent_id"], verb, options, key, session_id=row["session_id"])


def trust(settings: Settings, agent: Agent, kind: str) -> bool:
    """Let a kind of job that is held back go on as configured; False where it was not held."""
    if kind not in modes.KINDS:
        raise NotFoundError(f"no job kind {kind!r} can be held back", hint=f"kinds: {', '.join(modes.KINDS)}")
    with _changing(settings) as (engine, _), sqlite.writing(engine) as connection:
        return evaluating.let_go(connection, agent.id, kind, Clock().text())


def evaluate(settings: Settings, agent: Agent, days: int) -> dict[str, Any]:
    """Put the user's own questions of the last days to memory with and without its core; numbers alone."""
    if not database(settings).exists():
        raise NotFoundError("nothing has been read yet", str(database(settings)), "memoryd run --once")
    with beside(settings) as engine:
        return evaluating.as_row(evaluating.of_agent(engine, settings, agent, Clock().now(), days))


def request(
    engine: Engine,
    clock: Clock,
    agent_id: str,
    kind: str,
    options: dict[str, Any] | None = None,
    *,
    key: str | None = None,  # what makes two runs the same; by default those of a kind without options are
    text: str | None = None,  # what a tool gives it to write, without its secrets
    session_id: str | None = None,
) -> str:
    """Queue a run that a person or a tool asks for; one of its key that waits already becomes theirs, as asked."""
    key = key or (f"{kind}:{agent_id}" if options is None else None)
    actor, trigger = (HUMAN, "manual") if text is None else (AGENT_TOOL, "agent")
    row = queueing.row_of(clock, kind, agent_id, trigger, actor=actor, key=key, session_id=session_id)
    run_id = str(row["id"])
    with sqlite.writing(engine) as connection:
        if not runs.enqueue(connection, row | {"options": options or {}}):
            waiting = runs.open_by_key(connection, key or "")
            if waiting is None:
                raise StateError("the run could not be queued", kind, "memoryd verify says whether all is well")
            run_id = waiting
            _require_same(connection, run_id, options or {})
        if text is not None:
            runs.give_text(connection, run_id, text)
    if text is None:
        runs.hurry(engine, run_id, clock.text())
    return run_id


def _require_same(connection: Connection, run_id: str, options: Mapping[str, Any]) -> None:
    """Make a run that waits what is asked for; one that is under way must be that already, if anything is asked."""
    waiting = json.loads(query.text(connection, "SELECT options FROM job_run WHERE id = ?", run_id) or "{}")
    if {name: one for name, one in waiting.items() if one} == {name: one for name, one in options.items() if one}:
        return
    asked = [name for name, one in options.items() if one and name != "flushed"]  # done ahead of it, not asked of it
    if not runs.ask_anew(connection, run_id, options) and asked:
        hint = "wait until it is over, or end it: memoryd job cancel"
        raise RefusedError("the same job is under way, with other options", run_id, hint)


def database(settings: Settings) -> Path:
    """The state database's file."""
    return settings.state_dir / DATABASE


def catch_up(settings: Settings, agent: Agent) -> None:
    """Bring the ledger to what an agent's `MEMORY.md` says, by the daemon where one runs; a file being saved waits."""
    path = database(settings)
    if not path.exists():
        return
    known = reads.ask(path, reads.agreed, agent.id)
    data = regular.read_in(agent.workspace, CORE_FILE)
    if known == digest_of(data) or (known is None and not data):
        return
    try:
        with open_app(settings) as app:
            CoreWatch(app.runner).take(agent, settled=False)
            waiting = sqlite.read(app.engine, runs.open_by_key, queueing.import_key(agent.id))
            if waiting is not None:
                app.runner.run_next(only=waiting)
    except LockedError:
        asking.ask(settings.state_dir, "import", agent=agent.id)


@contextmanager
def state(settings: Settings, agent: Agent) -> Iterator[tuple[Engine, Scrubber]]:
    """The database and what redacts texts, beside a running daemon or under its lock.

    For changes that one transaction makes whole, either way.
    """
    with _changing(settings) as (engine, app):
        _require_known(engine, agent.id)
        with nullcontext(app.scrubber) if app else scrubbing(settings) as scrubber:
            yield engine, scrubber


def save(settings: Settings, agent: Agent, text: str, *, witnessed: bool = False) -> dict[str, Any]:
    """Write a note into the day's file, and wait for it; returns the row of its run.

    `witnessed`: the agent itself calls; a line says nothing in the user's name unless they typed it.
    """
    return _write(settings, agent, saving.SAVE, text, witnessed=witnessed)


def update(
    settings: Settings,
    agent: Agent,
    *,
    append: str | None = None,
    replace: str | None = None,
    witnessed: bool = False,
) -> dict[str, Any]:
    """Add a memory to `MEMORY.md`, or make it another text, and wait for it; returns the row of the run.

    `witnessed`: an added memory that only the user's word can bring in goes to the day's file, a new text with such a
    memory is refused.
    """
    catch_up(settings, agent)
    if replace is not None:
        if core.is_open(replace.encode(errors="replace")):
            raise RefusedError("a <private> that nothing closes hides all below it", "the new text", "close it")
        return _write(settings, agent, saving.REPLACE, replace, witnessed=witnessed)
    return _write(settings, agent, saving.UPDATE, append or "", witnessed=witnessed)


# What the shells of agents have in their environment: Claude Code, Codex, Gemini CLI, OpenCode, OpenClaw.
_AGENT_SHELLS = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_CI", "GEMINI_CLI", "OPENCODE", "OPENCLAW_SHELL")


def _write(settings: Settings, agent: Agent, kind: str, text: str, *, witnessed: bool = False) -> dict[str, Any]:
    witnessed = witnessed or any(os.environ.get(name) for name in _AGENT_SHELLS)  # a command of its own is no person's
    with scrubbing(settings) as scrubber:
        (clean,) = scrubber.redact([text])  # ahead of the row: nothing is stored that was not scanned
    now = Clock().now()
    local = now.astimezone(settings.zone)
    options: dict[str, Any] = {"day": local.date().isoformat(), "clock": f"{local:%H:%M}"}
    if witnessed:
        options["witness"] = {"since": text_of(now - settings.sessions.idle_end)}
    return require_accepted(carried_out(settings, agent.id, kind, options, fresh=witnessed, text=clean))


def call_knife(
    settings: Settings, agent: Agent, tool: str, arguments: str
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Have a tool of the agent's own refinement carried out; returns the row of its run, and what came of the call.

    There is no row where a search was answered without a refinement, and no answer where the refinement is over: then
    the row says how.
    """
    catch_up(settings, agent)
    if tool == knife.SEARCH:
        with _reading(settings) as connection:
            if not called_refining.goes_on(connection, agent.id):  # one that goes on answers by itself
                return None, called_refining.found_in(connection, agent.id, arguments)
    with scrubbing(settings) as scrubber:
        (clean,) = scrubber.redact([arguments])

    def queue(engine: Engine, clock: Clock) -> list[str]:
        since = text_of(slots.refinement_slot(settings, clock.now()))
        return [sqlite.write(engine, called_refining.hand_over, clock, settings, agent.id, tool, clean, since)]

    row = run_now(settings, agent.id, queue)[0]
    with _reading(settings) as connection:
        return row, called_refining.answer_of(connection, row["id"])


def core_size_if_due(settings: Settings, agent: Agent) -> int | None:
    """Tokens of a core that its agent should refine; None where no refinement is due."""
    if not database(settings).exists():
        return None
    since = text_of(slots.refinement_slot(settings, Clock().now()))
    with _reading(settings) as connection:
        return called_refining.size_if_due(connection, settings, agent.id, since)


def feedback(settings: Settings, agent: Agent, memory_id: str, verdict: str) -> str:
    """Record a word on a memory; a unique beginning of its id is enough. Returns the id."""
    full = str(reads.ask(database(settings), reads.find_memory, agent.id, memory_id)["id"])
    with state(settings, agent) as (engine, _):
        feedbacks.give(engine, agent.id, full, verdict, actor=HUMAN, now=Clock().text())
    return full


@contextmanager
def fact_store(settings: Settings, agent: Agent) -> Iterator[FactStore]:
    """The fact store of an agent."""
    with state(settings, agent) as (engine, scrubber):
        yield FactStore(
            engine,
            agent.id,
            agent.workspace,
            Clock(),
            FactLimits(settings.facts.min_confidence, settings.facts.max_facts),
            GuardLimits(settings.guards.retention_floor, settings.guards.erosion_percent),
            scrubber.redact,
            get_logger(part="facts"),
        )


def scrub_again(settings: Settings, agent_id: str | None) -> dict[str, Any]:
    """Redact again what is stored, and wait for it; returns the row of its run."""
    if settings.scrub.secrets == settings.scrub.pii == "off":
        raise RefusedError("scrub.secrets and scrub.pii are off", str(settings.source), "say what is to be redacted")
    if not settings.agents:
        raise RefusedError("there are no agents", str(settings.source), "name the agents whose memory is meant")
    agent = agent_id or settings.agents[0].id
    options = {"agents": None if agent_id is None else [agent_id]}
    return carried_out(settings, agent, rescrub.KIND, options, f"{rescrub.KIND}:{agent_id or ''}")


def planned_rollback(settings: Settings, agent_id: str, options: dict[str, Any]) -> Plan:
    """What a rollback would do."""
    target = ledger_runs.target_of(options)
    with _reading(settings) as connection:
        ledger_runs.require_done(connection, target)
        return time_machine.plan(connection, agent_id, target, Clock().text())


def _require_known(engine: Engine, agent_id: str) -> None:
    if not sqlite.read(engine, runs.knows_agent, agent_id):
        raise NotFoundError(f"the daemon does not know the agent {agent_id!r} yet", hint=RELOAD)


def _queue_beside(settings: Settings, agent_id: str, queue: Callable[[Engine, Clock], list[str]]) -> list[str]:
    with beside(settings) as engine:
        # Who has just made the database may be about to write its agents down.
        _retried(lambda: _require_known(engine, agent_id), NotFoundError, KNOWN_SECONDS)
        return queue(engine, Clock())


def queue_sleeps(engine: Engine, clock: Clock, agent_id: str, session_id: str | None, *, force: bool) -> list[str]:
    """Queue sleeps over an agent's sessions, or one of them; returns their runs, or one that says why there is none."""
    rows = queueing.candidates(engine, agent_id, ended=force or session_id is not None)
    if session_id is not None:
        chosen = _session_id(engine, agent_id, session_id)
        rows = [row for row in rows if row["id"] == chosen]
    queued = []
    for row in rows:
        reason = sleeping.TRIMMED if row["state"] == "active" else sleeping.NOTES
        options = {"reason": reason, "upto": None}
        queued.append(queueing.request_by_hand(engine, clock, SLEEP, row, options=options))
    found = [run_id for run_id in queued if run_id is not None]
    return found or [_nothing(engine, clock, agent_id, session_id)]


def _session_id(engine: Engine, agent_id: str, wanted: str) -> str:
    """Complete a session's id of an agent; a unique beginning is enough."""
    sql = (
        "SELECT id FROM session WHERE agent_id = ?1 AND (id = ?2 OR substr(id, 1, length(?2)) = ?2)"
        " ORDER BY id <> ?2, id LIMIT 2"
    )
    rows = sqlite.read(engine, query.rows, sql, agent_id, wanted)
    if not rows or (len(rows) > 1 and rows[0][0] != wanted):
        what = f"{wanted!r} begins several sessions' ids" if rows else f"there is no session {wanted!r}"
        raise NotFoundError(what, hint="memoryd session list shows them")
    return str(rows[0][0])


def _nothing(engine: Engine, clock: Clock, agent_id: str, session_id: str | None, kind: str = SLEEP) -> str:
    run_id = runs.new_run_id(clock.now())
    is_of_all = session_id is None and kind == SLEEP
    over = len(queueing.candidates(engine, agent_id, ended=True)) if is_of_all else 0
    why = f"no {'live ' if is_of_all else ''}session has turns past its watermark"
    if over:
        why += f"; --force takes {counted(over, 'session')} that {'is' if over == 1 else 'are'} over"
    sqlite.write(engine, runs.skip, run_id, agent_id, "manual", clock.text(), why, actor="human", kind=kind)
    return run_id


def _wait(settings: Settings, run_ids: Sequence[str]) -> list[dict[str, Any]] | None:
    """Wait until runs have ended; one that failed and waits for its next attempt has ended for this command."""
    lock = Lock(settings.state_dir / LOCK)
    while True:
        holder = lock.holder()
        rows = _rows(settings, run_ids)
        if not any(row["state"] in WAITING and not _waits_for_another(row) for row in rows):
            return rows
        if holder is None:
            return None
        time.sleep(POLL_SECONDS)


def await_read(settings: Settings, agent_id: str, path: str, size: int, until: float) -> str | None:
    """Have a transcript read up to a byte by whoever holds the lock, which may be another thread of this process.

    Returns its session; None where it is not read so far and nobody holds the lock, or it is too late.
    """
    asking.ask(settings.state_dir, "read", path=path)
    lock = Lock(settings.state_dir / LOCK)
    while True:
        holder = lock.holder()
        read = reads.ask(database(settings), reads.read_until, agent_id, path)
        if read is not None and read[1] >= size:
            return read[0]
        if holder is None or time.monotonic() >= until:
            return None
        time.sleep(POLL_SECONDS)


def _waits_for_another(row: Mapping[str, Any]) -> bool:
    """Whether a run waits for its next attempt, or for an agent's next call, and so has ended for who asked for it."""
    return row["state"] == "queued" and bool(row["error"] or row["why"] == called_refining.WAITS)


def _rows(settings: Settings, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    with reads.open_reader(database(settings)) as reader:
        return [reads.job_run(reader, run_id) for run_id in run_ids]


def cancel(settings: Settings, run_id: str) -> dict[str, Any]:
    """Cancel a run."""
    full = _rows(settings, [run_id])[0]["id"]
    with _changing(settings) as (engine, _):
        was = runs.cancel(engine, full, Clock().text())
    if was == "committing":
        raise RefusedError("the run is writing its files and is completed in any case", where=full)
    if was == runs.PROPOSED:
        raise RefusedError("the run has proposed something", full, "memoryd job reject drops it")
    if was in runs.FINAL and was != "cancelled":
        raise RefusedError(f"the run has ended already: {was}", where=full)
    return _rows(settings, [full])[0]


def end_session(settings: Settings, session_id: str) -> dict[str, Any]:
    """End a session by hand; what it said since its last sleep is flushed. Returns the run's row, empty if none."""
    row = reads.ask(database(settings), reads.find_session, session_id)
    with _changing(settings) as (engine, _):
        sleeping.end(engine, row["id"])
    if row["parent_id"] is not None:
        return {}
    return run_job(settings, SLEEP, lambda: str(row["agent_id"]), Asked(row["id"], force=True))[0]
