"""Run the self-test: every night, a made-up fact goes all the way from a transcript to a search, in a sandbox.

The sandbox has its own database, index and workspace, and the real code, configuration and model. A step that loses
real memories loses this one too, and its right answer is known. An alarm names the step, until a test succeeds. The
model's tokens are reserved and counted like all others. If they are missing several nights in a row, an alarm reports
that too.
"""

import zlib
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.changing.core_import import CORE_FILE
from memoryd.clock import Clock, text_of
from memoryd.config import Agent, Settings
from memoryd.database import query, readers, runs, sqlite, turns
from memoryd.database.runs import Run
from memoryd.errors import MemorydError, StateError
from memoryd.files import locked_folder, regular
from memoryd.jobs.sleep import CONSUMER
from memoryd.reading import recording
from memoryd.running import dreaming, queueing, sandbox, sleeping
from memoryd.running.answering import OFFLINE, endpoint_of
from memoryd.running.modes import AUTO, OFF
from memoryd.running.runner import Runner
from memoryd.running.sandbox import Opener, Sandbox

KIND = "canary"
TOKENS = 30_000  # reserved for one test: two questions about two messages, also for a model that reasons
MOST_GROUNDED = 3  # skipped tests in a row before an alarm is raised
QUESTION = "when was the northern warehouse bought"  # asked in a search, like in a later session
_DAYS = 2  # days that the dream reads, because midnight may come in between


class SelfTestFailedError(MemorydError):
    """Report that the fact was lost. `stage` is the stage that lost it."""

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(why, where=stage)
        self.stage = stage


class SpentError(MemorydError):
    """Report that there are not enough tokens for the test. No stage was tested."""


@dataclass(frozen=True, slots=True)
class SelfTestFact:
    """Hold the fact of a self-test: its unique name and its day."""

    name: str
    day: date

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of the session. They state a dated event, which only a dream adds to the core."""
        user = f"The northern warehouse {self.name} was bought on {self.day}."
        assistant = f"Noted: the northern warehouse {self.name} was bought on {self.day}."
        return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def fact_of(run_id: str, day: date) -> SelfTestFact:
    """Return a fact with a name made from the run's id, so that a search cannot find the fact of an earlier run."""
    return SelfTestFact(f"Kestrel-{10_000 + zlib.crc32(run_id.encode()) % 90_000}", day)


# --- when -------------------------------------------------------------------------------------------------------------


def queue(engine: Engine, settings: Settings, clock: Clock, slot: str, at: datetime, trigger: str) -> None:
    """Queue a self-test of each model that dreams, once for `slot` and after its dreams."""
    if not settings.dream.canary:
        return
    asked: set[str] = set()
    for agent in settings.agents:
        with sqlite.begin_read(engine) as connection:
            is_ready = agent.enabled and runs.knows_agent(connection, agent.id)
            is_ready = is_ready and turns.agent_seen_at(connection, agent.id) <= text_of(at)
            if not is_ready or runs.is_paused(connection, agent.id):
                continue
        model = model_of(settings, agent.id)
        if model is None or model in asked:
            continue
        asked.add(model)
        name = f"{KIND}:{model}:{slot}"  # named after the model, because agents of a fleet start at different times
        more = {"slot": name, "scheduled_for": clock.text(ahead=timedelta(seconds=1))}
        sqlite.write(engine, queueing.queue, clock, KIND, agent.id, trigger=trigger, **more)


def model_of(settings: Settings, agent_id: str) -> str | None:
    """Return the name of the model that answers for an agent; None if no model is configured."""
    if settings.llm.provider == OFFLINE:
        return OFFLINE
    try:
        return endpoint_of(settings, agent_id).name
    except StateError:
        return None


def list_models(settings: Settings) -> set[str]:
    """Return the names of the models to test; empty if the self-test or dreams are off."""
    if not settings.dream.canary or settings.modes.dream == OFF:
        return set()
    found = {model_of(settings, agent.id) for agent in settings.agents if agent.enabled}
    return {one for one in found if one is not None}


def is_grounded(connection: Connection, model: str) -> bool:
    """Return True if the last self-tests of a model were all skipped for lack of tokens."""
    sql = (
        "SELECT state FROM job_run WHERE kind = ? AND json_extract(receipt, '$.canary.model') = ?"
        " ORDER BY finished_at DESC, id DESC LIMIT ?"
    )
    states = query.fetch_column(connection, sql, KIND, model, MOST_GROUNDED)
    return len(states) == MOST_GROUNDED and set(states) == {"skipped"}


# --- the test ---------------------------------------------------------------------------------------------------------


def carry_out(runner: Runner, run: Run) -> None:
    """Carry out a self-test. A failed one is not retried, because the next night's test shows whether it was chance."""
    if runner.opened is None:
        runner.end(run, "skipped", why="a sandbox does not test itself")
        return
    model = model_of(runner.settings, run.agent_id) or ""
    try:
        told = _test_stages(runner, run, runner.opened)
    except SpentError as error:
        runner.end(run, "skipped", why=error.what, receipt={KIND: {"model": model}})
        if sqlite.read(runner.engine, is_grounded, model):
            text = f"{MOST_GROUNDED} in a row could not be made: {error.what}; {error.hint}"
            runner.set_alarm(KIND, text, "", model)
    except SelfTestFailedError as error:
        runner.go_on(run)  # raises an error if memoryd is stopping, because a stop removes the sandbox's files
        runner.end(run, "failed", error=str(error), receipt={KIND: {"model": model, "fell": error.stage}})
        text = f"a made-up fact did not come through the {error.stage}: {error.what}; job show {run.id}"
        runner.set_alarm(KIND, text, "", model)
    else:
        runner.end(run, "succeeded", receipt={KIND: {"model": model, **told}})
        runner.set_alarm(KIND, None, "", model)


def _test_stages(runner: Runner, run: Run, opened: Opener) -> dict[str, Any]:
    """Send a fact through all stages; return the values of the run report.

    `opened` opens an installation with other settings in this process.

    Raises:
        SelfTestFailedError: the fact was lost.
        SpentError: the day has too few tokens left.
    """
    settings = runner.settings
    agent = settings.find_agent(run.agent_id)
    if agent is None:
        raise StateError("the agent is not in the configuration", run.agent_id)
    reserved = None if settings.llm.provider == OFFLINE else _reserve(runner, run)
    told: dict[str, Any] = {"stages": []}
    with locked_folder.make_trial(settings.state_dir, None) as place:
        tried = _settings(settings, agent, place)
        with opened(tried) as app:
            readers.share(runner.engine, app.engine)
            try:
                fact = fact_of(run.id, runner.clock.now().astimezone(settings.zone).date())
                stages = {"transcript": _write, "ingest": _ingest, "sleep": _sleep, "dream": _dream, "search": _search}
                for stage, step in stages.items():
                    runner.go_on(run)
                    began = runner.clock.monotonic()
                    try:
                        step(app, fact)
                    except SelfTestFailedError:
                        raise
                    except (MemorydError, OSError) as error:
                        why = error.what if isinstance(error, MemorydError) else type(error).__name__
                        raise SelfTestFailedError(stage, why) from error
                    told["stages"].append({"stage": stage, "seconds": round(runner.clock.monotonic() - began, 3)})
            finally:
                readers.share(app.engine, runner.engine)
                if reserved is not None:
                    sandbox.settle(runner.engine, reserved, app.engine)
    return told


def _settings(settings: Settings, agent: Agent, place: locked_folder.TrialFolders) -> Settings:
    tokens = min(TOKENS, settings.llm.daily_tokens)
    modes = {"sleep": AUTO, "dream": AUTO, "facts": OFF, "dedup": OFF}
    tried = sandbox.settings_to_read(settings, replace(agent, privacy="open"), place, **modes)
    return replace(tried, llm=replace(settings.llm, daily_tokens=tokens, run_tokens=tokens))


def _write(app: Sandbox, fact: SelfTestFact) -> None:
    agent = app.settings.agents[0]
    done = recording.record(app.settings.state_dir, agent.id, fact.messages, app.runner.scrubber, app.clock)
    if done.added != len(fact.messages):
        raise SelfTestFailedError("transcript", "not all of the session was written")


def _ingest(app: Sandbox, fact: SelfTestFact) -> None:
    app.ingest.scan()
    app.ingest.flush()
    texts = sqlite.read(app.engine, query.fetch_column, "SELECT plain(CAST(text AS BLOB), text_crc) FROM turn")
    if not {one["content"] for one in fact.messages} <= set(texts):
        raise SelfTestFailedError("ingest", f"{len(texts)} turns were read, and not those of the session")


def _sleep(app: Sandbox, fact: SelfTestFact) -> None:
    agent = app.settings.agents[0]
    for row in queueing.list_candidates(app.engine, agent.id, ended=True):
        options = {"reason": sleeping.SUMMARY, "upto": None}
        _carry_out(app, "sleep", queueing.request_by_hand(app.engine, app.clock, CONSUMER, row, options=options))
    if not any(fact.name in _text(app, f"memory/{path.name}") for path in (agent.workspace / "memory").glob("*.md")):
        raise SelfTestFailedError("sleep", "the fact is not in the daily file")


def _dream(app: Sandbox, fact: SelfTestFact) -> None:
    agent_id, options = app.settings.agents[0].id, {"force": True, "lookback_days": _DAYS}
    by: dict[str, Any] = {"trigger": "manual", "actor": "human", "options": options}
    _carry_out(app, "dream", str(sqlite.write(app.engine, queueing.queue, app.clock, dreaming.KIND, agent_id, **by)))
    if fact.name not in _text(app, CORE_FILE):
        raise SelfTestFailedError("dream", f"the fact is not in {CORE_FILE}")


def _search(app: Sandbox, fact: SelfTestFact) -> None:
    hits = app.recall.search(app.settings.agents[0], QUESTION)
    if not any(fact.name in hit.snippet for hit in hits if hit.path == CORE_FILE):
        raise SelfTestFailedError("search", f"the fact is not among {len(hits)} hits")


def _carry_out(app: Sandbox, stage: str, run_id: str | None) -> None:
    if run_id is None:
        raise SelfTestFailedError(stage, "no run was queued")
    row = sandbox.carry_out(app.runner, run_id)
    if row["state"] != "succeeded":
        why = row["error"] or row["why"] or "no reason is given"
        raise SelfTestFailedError(stage, f"its run ended as {row['state']}: {why}")


def _text(app: Sandbox, relative: str) -> str:
    return (regular.read_in(app.settings.agents[0].workspace, relative) or b"").decode("utf-8", "replace")


# --- tokens -----------------------------------------------------------------------------------------------------------


def _reserve(runner: Runner, run: Run) -> int:
    """Reserve the tokens of a test, and return the reservation's id.

    Raises:
        SpentError: the day has too few tokens left.
    """
    settings = runner.settings
    got = sandbox.reserve(runner.engine, settings, runner.clock, run.agent_id, run.id, TOKENS)
    if got is not None:
        return got
    if settings.llm.daily_tokens < TOKENS:
        what = f"llm.daily_tokens, {settings.llm.daily_tokens:,}, is below the {TOKENS:,} that the self-test reserves"
        raise SpentError(what, run.agent_id, "raise it, or set dream.canary: false")
    raise SpentError(f"of llm.daily_tokens, {TOKENS:,} are not left today", run.agent_id, "the next night tries again")
