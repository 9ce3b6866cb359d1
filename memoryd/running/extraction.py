"""Decide when to extract facts from a session, and gather the input of the question.

A session is due when it has been quiet for `facts.debounce`, or at the latest after ten times that. The due question is
a queued row of the job table, with a key of session and watermark. So a restart neither repeats nor forgets it.
"""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection, Engine

from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import memories, profile, query, runs, sqlite, turns
from memoryd.database.runs import Run
from memoryd.jobs.exchanges import set_aside_scheduled
from memoryd.jobs.facts import CONSUMER, FactsInputs
from memoryd.jobs.job import NothingToDo
from memoryd.jobs.joint import JointInputs
from memoryd.ledger.facts import ProfileEntry, Store, fact_of
from memoryd.ledger.memory import Memory, MemoryKind
from memoryd.running import modes, queueing, sleeping
from memoryd.running.queueing import list_candidates
from memoryd.running.sleeping import GatherContext
from memoryd.transcripts.registry import program_of

KIND = "facts"
# Finds a sleep that has already processed the facts of a session.
_SERVED = (
    "SELECT 1 FROM watermark w JOIN job_run r ON r.id = w.run_id"
    " WHERE w.session_id = ? AND w.consumer = ? AND r.kind = 'sleep'"
)
LONGEST_WAIT = 10  # as a multiple of the debounce, for a session that is never quiet


def consider(engine: Engine, settings: Settings, clock: Clock, session_id: str) -> str | None:
    """Queue the question about a session with new turns, or postpone the one that waits already.

    Returns:
        The id of a newly queued run; None if none was queued.
    """
    if settings.modes.facts == "off":
        return None
    with sqlite.begin_read(engine) as connection:
        row = turns.session_row(connection, session_id)
        if row is None or not _may_be_asked_about(connection, settings, clock, row):
            return None
        mark = turns.read_watermark(connection, session_id, CONSUMER)
        waiting = runs.open_by_key(connection, queueing.key_of(KIND, session_id, mark))
        if waiting is None and row["facts_look"] == _look(connection, row, row["last_seq"]):
            return None
    delay = timedelta(0) if row["state"] == "ended" else settings.facts.debounce
    if waiting is not None:
        longest = settings.facts.debounce * LONGEST_WAIT
        runs.put_off(engine, waiting, clock.text(ahead=delay), longest=longest.total_seconds())
        return None
    trigger = "session-end" if row["state"] == "ended" else "threshold"
    return queueing.request(engine, clock, KIND, row, trigger, scheduled_for=clock.text(ahead=delay))


def _may_be_asked_about(
    connection: Connection, settings: Settings, clock: Clock, row: query.Row, *, imported: bool = False
) -> bool:
    # The sessions of subagents are left out, because the agent wrote their instructions, not the user.
    if row["parent_id"] is not None or row["last_seq"] <= turns.read_watermark(connection, row["id"], CONSUMER):
        return False
    if not imported and sleeping.is_left_alone(connection, settings, clock, row):
        return False
    return any(agent.id == row["agent_id"] and agent.enabled for agent in settings.agents)


def _look(connection: Connection, row: query.Row, upto: int) -> str:
    """Return the state of a session as far as it matters here; if it is unchanged, a new check is useless."""
    unscanned = turns.count_unscanned(connection, row["id"], after=0, upto=row["last_seq"])
    return f"{upto} {row['state']} {unscanned}"


def ask_now(engine: Engine, clock: Clock, agent_id: str, session_id: str | None) -> list[str]:
    """Queue the questions that a person asks for, about one session or all; return the ids of the runs."""
    rows = [row for row in list_candidates(engine, agent_id, KIND, ended=True) if session_id in {None, row["id"]}]
    found = [queueing.request_by_hand(engine, clock, KIND, row) for row in rows]
    return [run_id for run_id in found if run_id is not None]


def hurry_questions(engine: Engine, clock: Clock, but: Sequence[str] = ()) -> list[str]:
    """Make the questions due at once that only wait for a quiet session; return the ids of their runs.

    The runs in `but` still wait.
    """
    return sqlite.write(engine, runs.make_due, KIND, clock.text(), but)


# --- gathering --------------------------------------------------------------------------------------------------------


def gather(source: GatherContext, run: Run) -> FactsInputs | NothingToDo:
    """Return the frozen input of one question, or the reason for none.

    It has redacted turns only, and none after a turn that is not scanned yet.
    """
    session_id = run.session_id or ""
    with sqlite.begin_read(source.engine) as connection:
        row = turns.session_row(connection, session_id)
        if row is None:
            return NothingToDo("the session is not known")
        mark = turns.read_watermark(connection, session_id, CONSUMER)
        upto = int(run.options.get("upto") or row["last_seq"])
        drain = bool(run.options.get("drain", row["state"] == "ended"))
        look = _look(connection, row, upto)
        if upto <= mark and query.has_row(connection, _SERVED, session_id, CONSUMER):
            return NothingToDo("the sleep has extracted them")
    sqlite.write(source.engine, query.run, "UPDATE session SET facts_look = ? WHERE id = ?", look, session_id)
    if run.options.get("upto") is None:
        # Stored before the model is asked, so that another attempt asks the same question and can use a stored reply.
        runs.pin(source.engine, run, {"upto": upto, "drain": drain})
    inputs = _read_inputs(source, row, mark, upto, drain=drain)
    return inputs or NothingToDo("the next turn has not been scanned for secrets yet")


def gather_sleep(source: GatherContext, run: Run) -> JointInputs | NothingToDo:
    """Return the input of a sleep, together with that of the facts if one question can serve both jobs.

    A job that only proposes is asked separately, because a person answers its proposal separately.
    """
    slept = sleeping.gather(source, run)
    if isinstance(slept, NothingToDo):
        return slept
    modes_of = [modes.mode_of(source.engine, source.settings, run.agent_id, kind) for kind in queueing.OF_TURNS]
    if not slept.turns or not source.model_is_up or {*modes_of} != {modes.AUTO}:
        return JointInputs(slept)
    upto = slept.turns[-1].seq
    with sqlite.begin_read(source.engine) as connection:
        row = turns.session_row(connection, slept.session_id)
        mark = turns.read_watermark(connection, slept.session_id, CONSUMER)
        is_due = row is not None and _may_be_asked_about(
            connection, source.settings, source.clock, row, imported="import" in run.options
        )
    if row is None or not is_due or mark >= upto:
        return JointInputs(slept)
    found = _read_inputs(source, row, mark, upto, drain=row["state"] == "ended" and upto == row["last_seq"])
    return JointInputs(slept, found, sleeping.read_instructions("joint"))


def _read_inputs(source: GatherContext, row: query.Row, mark: int, upto: int, *, drain: bool) -> FactsInputs | None:
    """Return the input for the turns after a watermark; None if the first of them is not scanned yet."""
    session_id, agent_id = row["id"], row["agent_id"]
    with sqlite.begin_read(source.engine) as connection:
        blind = turns.first_unscanned(connection, session_id, after=mark, upto=upto)
        covered = turns.stored_turns(connection, session_id, after=mark, upto=upto if blind is None else blind - 1)
        earlier = turns.stored_turns(connection, session_id, upto=mark)
        live = memories.read_live(connection, agent_id, MemoryKind.FACT)
        sections = profile.read(connection, agent_id)
        graves = memories.read_tombstones(connection, agent_id)
    if blind is not None and not covered:
        return None
    days, known = sleeping.files_of_people(source, sleeping.check_times(covered, row))
    clean = source.scrubber.redact([one.text for one in sections.values()])
    settings = source.settings
    return FactsInputs(
        agent_id=agent_id,
        session_id=session_id,
        turns=sleeping.check_times(set_aside_scheduled(covered, earlier), row),
        earlier=sleeping.check_times(set_aside_scheduled(earlier), row),
        folder=row["folder"],
        program=program_of(row["format"]),
        known=tuple(Store(map(fact_of, live)).all()),
        said_at={memory.id: _said_at(memory) for memory in live},
        profile={
            section: ProfileEntry(text, entry.updated_at)
            for (section, entry), text in zip(sections.items(), clean, strict=True)
        },
        tombstones=graves,
        core=known,
        daily=days,
        min_confidence=settings.facts.min_confidence,
        drain=drain,
        tz=settings.zone,
        now=source.clock.now(),
        instructions=sleeping.read_instructions(KIND),
        judges=sleeping.make_judges(source),
    )


def _said_at(memory: Memory) -> str:
    """Return when a fact was said; for a changed fact, when it was changed."""
    return memory.updated_at if memory.updated_at > memory.created_at else memory.origin_at or memory.created_at
