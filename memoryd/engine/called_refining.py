"""A refinement whose agent calls the tools itself, one after the other, through the Model Context Protocol.

It is one run all the while: each call is handed to it, it is carried out, and waits for the next. So the same guards,
limits and breaker hold as where a model is asked, nobody else refines meanwhile, and one rollback takes it back. An
agent that does not go on for a while has left it unfinished.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from memoryd.database import memories, runs, sqlite
from memoryd.engine import refining, sleeping
from memoryd.engine.clock import moment_of, text_of
from memoryd.engine.commit import StaleRunError
from memoryd.engine.proposed_refining import PENDING
from memoryd.errors import RefusedError
from memoryd.gauge.estimate import CHARACTERS_PER_TOKEN
from memoryd.jobs import refine
from memoryd.jobs.job import Found, NothingToDo, ToolCall
from memoryd.jobs.knife import Look

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from memoryd.config import Settings
    from memoryd.database.runs import Run
    from memoryd.engine.clock import Clock
    from memoryd.engine.refining import Refiner
    from memoryd.jobs.refinement import Session

AGENT = "agent"  # who calls, as the run's options name it
WAITS = "waits for the agent's next call"
PATIENCE = timedelta(minutes=10)  # for the next call


def is_called(run: Run) -> bool:
    """Whether it is the agent itself that refines."""
    return run.options.get("by") == AGENT


def size_if_due(connection: Connection, settings: Settings, agent_id: str) -> int | None:
    """Tokens of a core that is larger than it should be; None where there is nothing to refine, or it is off."""
    tokens = memories.core_tokens(connection, agent_id, CHARACTERS_PER_TOKEN)
    is_wanted = settings.modes.refine != "off" and proposal_of(connection, agent_id) is None
    return tokens if is_wanted and tokens > settings.refine.target_tokens else None


def proposal_of(connection: Connection, agent_id: str) -> str | None:
    """The refinement of an agent that waits for a person's answer; None where none does."""
    return next((one.id for one in runs.proposals(connection, agent_id) if one.kind == refining.KIND), None)


def hand_over(
    connection: Connection, clock: Clock, settings: Settings, agent_id: str, tool: str, arguments: str
) -> str:
    """Give a call to the agent's refinement, which begins where there is none; returns the run's id.

    Args:
        connection: of the caller's transaction.
        clock: tells the time.
        settings: the configuration.
        agent_id: whose it is.
        tool: its name.
        arguments: a JSON object, without secrets.

    Raises:
        RefusedError: another refinement waits or runs, or none may begin but by a person's hand.
    """
    text, now = json.dumps({"tool": tool, "arguments": arguments}), clock.text()
    proposal = proposal_of(connection, agent_id)
    if proposal is not None:
        hint = "that is for a person to answer: memoryd job accept, or reject"
        raise RefusedError("what the last refinement came to waits for an answer", proposal, hint)
    waiting = runs.open_by_key(connection, refining.key_of(agent_id))
    if waiting is not None:
        kept = _given(connection, waiting)
        if PENDING in kept:
            text = json.dumps(json.loads(text) | {PENDING: kept[PENDING]})
        if not runs.hand_over(connection, waiting, text, WAITS, now):
            raise RefusedError("a refinement is under way already", waiting, "try it again when it is over")
        return waiting
    if settings.modes.refine == "off":
        raise RefusedError("modes.refine is off", agent_id, "only a person may ask for one: memoryd job run refine")
    row: dict[str, Any] = {"id": sleeping.new_run_id(clock), "kind": refining.KIND, "agent_id": agent_id}
    row |= {"actor": "agent-tool", "trigger": "agent", "key": refining.key_of(agent_id), "options": {"by": AGENT}}
    runs.enqueue(connection, row | {"created_at": now, "scheduled_for": now})
    runs.give_text(connection, row["id"], text)
    return str(row["id"])


def given_to(engine: Engine, run: Run) -> dict[str, Any] | None:
    """What an agent's own refinement that has begun goes on from; None of any other."""
    with sqlite.reading(engine) as connection:
        has_begun = is_called(run) and refining.KIND in runs.receipt(connection, run.id)
        return _given(connection, run.id) if has_begun else None


def give_up(engine: Engine, agent_id: str, now: str, why: str) -> int:
    """End an agent's own refinement, which waits for its next call, with all that was not to be written yet."""
    with sqlite.writing(engine) as connection:
        waiting = runs.open_by_key(connection, refining.key_of(agent_id))
        if waiting is None or PENDING not in _given(connection, waiting):
            return 0
        runs.withdraw(connection, waiting, now, why)
        return 1


def _given(connection: Connection, run_id: str) -> dict[str, Any]:
    text = connection.exec_driver_sql("SELECT reply FROM job_run WHERE id = ?", (run_id,)).scalar_one()
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def answer_of(connection: Connection, run_id: str) -> dict[str, Any] | None:
    """What came of the last call, where its refinement goes on."""
    text = connection.exec_driver_sql(
        "SELECT reply FROM job_run WHERE id = ? AND state = 'queued' AND why = ?", (run_id, WAITS)
    ).scalar_one_or_none()
    found: dict[str, Any] | None = None if text is None else json.loads(text)["answer"]
    return found


def carry_out(refiner: Refiner) -> None:
    """Carry out the call that was handed over, and let the run wait for the next, or end it."""
    refiner.in_good_order(lambda: _carry_out(refiner))


def _carry_out(refiner: Refiner) -> None:
    given = json.loads(runs.given_text(refiner.writer.engine, refiner.run) or "{}")
    refiner.go_on_from(given.get(PENDING, ()))
    session, is_cut_off = refiner.restored(), refiner.is_cut_off()
    refiner.keep()
    if refiner.has_begun() and refiner.heeds_cancel():
        refiner.finish(session.end(refining.CANCELLED))
        return
    if is_cut_off or "tool" not in given:
        refiner.finish(session.end(refining.STOPPED if is_cut_off else "the agent did not go on"))
        return
    if not refiner.has_begun():
        unwanted = refiner.unwanted()
        if unwanted is not None:
            refiner.end("skipped", unwanted)
            return
        refiner.end_duplicates()
        first = refine.begin(refiner.gather())
        if isinstance(first, NothingToDo):
            refiner.end("skipped", first.why)
            return
        session = refiner.gather().session
    session, answer = _called(refiner, session, ToolCall("", given["tool"], given["arguments"]))
    limit = moment_of(refiner.run.created_at) + refiner.source.settings.refine.max_time
    if refiner.source.clock.now() > limit:
        session = session.end("out of time")
    if refiner.heeds_cancel():
        session = session.end(refining.CANCELLED)
    if session.ended is not None:
        refiner.finish(session)
        return
    told = {**refiner.kept, refining.KIND: session.row() | _memo(session)}
    due = text_of(min(refiner.source.clock.now() + PATIENCE, limit))
    text = json.dumps({"answer": json.loads(answer), **refiner.pending()})
    with sqlite.writing(refiner.writer.engine) as connection:
        if not runs.wait_for_more(connection, refiner.run, text=text, receipt=told, why=WAITS, due=due):
            raise StaleRunError("the run was cancelled, or belongs to another claim by now", where=refiner.run.id)


def _memo(session: Session) -> dict[str, Any]:
    """What the next call needs to know of the earlier ones, beside what is told of them."""
    return {"ids": sorted(session.ids), "floor": session.floor, "last": list(session.last)}


def _called(refiner: Refiner, session: Session, call: ToolCall) -> tuple[Session, str]:
    core = {memory.id: memory for memory in refiner.core()}
    session, asked = session.call(call, core, refiner.today())
    if isinstance(asked, str):
        return session, asked
    if isinstance(asked, Look):
        hits = refining.search(list(core.values()), asked.query, asked.after, asked.before)
        return session.found(call.name, core, Found(tuple(hits)))
    done = refiner.apply(session.operate(asked, core), session, call.name)
    return session.applied(call.name, asked, core, done)
