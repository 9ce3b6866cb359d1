"""Run a refinement in which the agent itself calls the tools, through the Model Context Protocol.

The instructions of the MCP server tell the agent when a refinement is due. Its first call that changes memory is its
consent and begins the run. If no refinement is due, such a call is an error. A search begins nothing and is always
answered.

All calls belong to one run, which carries out a call and waits for the next. So guards, limits and circuit breaker are
the same as with a model that memoryd asks. No other refinement runs meanwhile, and one rollback reverts everything. If
the agent makes no call for a while, the refinement counts as unfinished.
"""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.changing.commit import StaleRunError
from memoryd.changing.guard_check import AGENT_TOOL
from memoryd.clock import Clock, moment_of, text_of
from memoryd.config import Settings
from memoryd.database import memories, query, runs, sqlite
from memoryd.database.runs import Run
from memoryd.errors import RefusedError
from memoryd.jobs import refinement_tools
from memoryd.jobs.job import ToolCall
from memoryd.jobs.refinement import CANCELLED, show_found
from memoryd.jobs.refinement_tools import Misuse, SearchCall
from memoryd.ledger.memory import MemoryKind
from memoryd.running import queueing, refining
from memoryd.running.proposed_refining import PENDING
from memoryd.running.queueing import agent_key
from memoryd.running.refining import AGENT, KIND, Refiner, is_called
from memoryd.running.runner import Runner
from memoryd.running.second_reader import SecondReader

CLAIMS = "claims"  # key of the verdicts on new texts, between two calls
PATIENCE = timedelta(minutes=10)  # how long the run waits for the next call
BEGINNING = frozenset(
    {refinement_tools.CONSOLIDATE, refinement_tools.UPDATE, refinement_tools.DELETE}
)  # calls that count as consent to a refinement
_OTHERWISE = (
    "change memories with memory_update; a person protects one with memoryd core protect, and asks for a refinement"
    " with memoryd job run refine"
)


def size_if_due(connection: Connection, settings: Settings, agent_id: str, since: str) -> int | None:
    """Return the tokens of a core that its agent should refine; None if it should not.

    A refinement is due if the core is larger than its target and the agent has not refined it since the last scheduled
    time. It is also due if the core has grown beyond its trigger again. It is not due if refinements are off or a
    proposal waits for an answer.

    Args:
        connection: of the state database.
        settings: the configuration.
        agent_id: the agent.
        since: last scheduled time of a refinement; UTC.
    """
    tokens = memories.core_tokens(connection, agent_id)
    is_small = tokens <= settings.refine.target_tokens
    if settings.modes.refine == "off" or is_small or runs.proposal_of(connection, agent_id, KIND):
        return None
    left = _left_by_last(connection, agent_id, since)
    return tokens if left is None or left <= settings.refine.trigger_tokens < tokens else None


def _left_by_last(connection: Connection, agent_id: str, since: str) -> int | None:
    """Return the tokens of the core after the agent's own last refinement since `since`; None if there was none."""
    sql = (
        'SELECT receipt FROM job_run WHERE agent_id = ? AND kind = ? AND "trigger" = ? AND created_at >= ?'
        " AND receipt IS NOT NULL ORDER BY created_at DESC, rowid DESC LIMIT 1"
    )
    end = query.fetch_object(connection, sql, agent_id, KIND, AGENT, since).get(KIND, {}).get("end")
    return None if end is None else int(end["tokens"])


def found_in(connection: Connection, agent_id: str, arguments: str) -> dict[str, Any]:
    """Return the answer to a search outside a refinement.

    Args:
        connection: of the state database.
        agent_id: the agent whose core is searched.
        arguments: of the call, a JSON object.
    """
    core = {one.id: one for one in memories.read_live(connection, agent_id, MemoryKind.CORE)}
    asked = refinement_tools.read(ToolCall("", refinement_tools.SEARCH, arguments), core, refinement_tools.NORMAL)
    if not isinstance(asked, SearchCall):
        return {"error": asked.why, "allowed": asked.allowed} if isinstance(asked, Misuse) else {}
    return show_found(core, refining.search(list(core.values()), asked.query, asked.after, asked.before))


def goes_on(connection: Connection, agent_id: str) -> bool:
    """Return True while an agent's own refinement waits for a call or carries one out."""
    sql = 'SELECT 1 FROM job_run WHERE id = ? AND "trigger" = ? AND state <> ?'
    run_id = runs.open_by_key(connection, agent_key(KIND, agent_id))
    return query.has_row(connection, sql, run_id, AGENT, runs.PROPOSED)


def hand_over(
    connection: Connection, clock: Clock, settings: Settings, agent_id: str, tool: str, arguments: str, since: str
) -> str:
    """Pass a call to the agent's refinement, or begin the refinement that is due; return the run's id.

    Args:
        connection: the caller's write transaction.
        clock: tells the time.
        settings: the configuration.
        agent_id: the agent that calls.
        tool: name of the called tool.
        arguments: of the call: a JSON object, without secrets.
        since: last scheduled time of a refinement; UTC.

    Raises:
        RefusedError: another refinement waits or runs, or this call may not begin one.
    """
    text, now = json.dumps({"tool": tool, "arguments": arguments}), clock.text()
    proposal = runs.proposal_of(connection, agent_id, KIND)
    if proposal is not None:
        hint = "that is for a person to answer: memoryd job accept, or reject"
        raise RefusedError("the result of the last refinement waits for an answer", proposal, hint)
    waiting = runs.open_by_key(connection, agent_key(KIND, agent_id))
    if waiting is not None:
        kept = _read_options(connection, waiting)
        text = json.dumps(json.loads(text) | {name: kept[name] for name in (PENDING, CLAIMS) if name in kept})
        if not runs.hand_over(connection, waiting, text, now):
            raise RefusedError("a refinement is under way already", waiting, "try it again when it is over")
        return waiting
    if settings.modes.refine == "off":
        raise RefusedError("modes.refine is off", agent_id, "only a person may ask for one: memoryd job run refine")
    if size_if_due(connection, settings, agent_id, since) is None:
        raise RefusedError("no refinement is due, so nothing was done", tool, _OTHERWISE)
    if tool not in BEGINNING:
        hint = f"a refinement is due: {', '.join(sorted(BEGINNING))} begin it; else {_OTHERWISE}"
        raise RefusedError("no refinement has begun, so nothing was done", tool, hint)
    by: dict[str, Any] = {"trigger": AGENT, "actor": AGENT_TOOL, "options": {"by": AGENT}}
    run_id = queueing.queue(connection, clock, KIND, agent_id, agent_key(KIND, agent_id), **by)
    assert run_id is not None  # noqa: S101 - no run of its key is open, see above
    runs.give_text(connection, run_id, text)
    return run_id


def given_to(engine: Engine, run: Run) -> dict[str, Any] | None:
    """Return the stored state from which an agent's own refinement continues; None for any other run."""
    with sqlite.begin_read(engine) as connection:
        has_begun = is_called(run) and KIND in runs.read_receipt(connection, run.id)
        return _read_options(connection, run.id) if has_begun else None


def give_up(engine: Engine, agent_id: str, now: str, why: str) -> None:
    """End an agent's own refinement that waits for a call, and drop its unwritten changes."""
    with sqlite.begin_write(engine) as connection:
        waiting = runs.open_by_key(connection, agent_key(KIND, agent_id))
        if waiting is not None and PENDING in _read_options(connection, waiting):
            runs.withdraw(connection, waiting, now, why)


def _read_options(connection: Connection, run_id: str) -> dict[str, Any]:
    return query.fetch_object(connection, "SELECT reply FROM job_run WHERE id = ?", run_id)


def answer_of(connection: Connection, run_id: str) -> dict[str, Any] | None:
    """Return the answer to the last call if its refinement waits for another call; otherwise None."""
    sql = "SELECT reply FROM job_run WHERE id = ? AND state = 'queued' AND why = ?"
    return query.fetch_object(connection, sql, run_id, runs.WAITS).get("answer")


def carry_out(runner: Runner, run: Run) -> None:
    """Carry out a refinement: by the agent's own call, or by questions to the agent's own model."""
    refiner_of(runner, run).carry_out(take_call if is_called(run) else refining.Refiner.ask_model)
    runner.clear_alarms_of(run)


def refiner_of(runner: Runner, run: Run) -> Refiner:
    """Return the `Refiner` of a run, with the second reader that judges its texts."""
    engine, settings = runner.engine, runner.settings
    reader = SecondReader(runner, run, runner.unless_stopping)
    given = given_to(engine, run)
    proposes = runner.is_proposing(run) if given is None else PENDING in given
    if proposes and given is None:  # if changes were written, the run must end in the mode in which it began
        proposes = not sqlite.read(engine, refining.count_changes, run).changes
    workspace = runner.workspace_of(run)
    limits = refining.limits_of(refining.mode_of(run, settings.refine), settings)
    writer = replace(runner.writer(workspace), limits=limits)
    source = runner.source(workspace, reader.find_answer)
    return refining.Refiner(runner, source, writer, run, reader, proposes=proposes)


def take_call(refiner: Refiner) -> None:
    """Carry out one call of the agent, and then end the run or let it wait for the next call."""
    given = json.loads(runs.given_text(refiner.writer.engine, refiner.run) or "{}")
    refiner.go_on_from(given.get(PENDING, ()))
    session, told = replace(refiner.restore_session(), claims=tuple(given.get(CLAIMS, ()))), refiner.receipt().get(KIND)
    refiner.keep()
    over = None if "tool" in given else "the agent did not go on"
    if told is not None and "doing" in told:  # the process ended after a change was made and before it was reported
        over = refining.STOPPED
    if told is not None and refiner.heeds_cancel():
        over = CANCELLED
    if over is not None:
        refiner.finish(session.end(over))
        return
    if told is None:
        inputs = refiner.begin_run()
        if inputs is None:
            return
        session = inputs.session
    talk = refiner.talk(session)
    (answer,) = refiner.converse(talk, talk.take([ToolCall("", given["tool"], given["arguments"])])) or ("{}",)
    limit = moment_of(refiner.run.created_at) + refiner.source.settings.refine.max_time
    session = talk.session.end("out of time") if refiner.source.clock.now() > limit else talk.session
    if refiner.heeds_cancel():
        session = session.end(CANCELLED)
    if session.ended is not None:
        refiner.finish(session)
        return
    # Values about earlier calls that the next call needs; the run report does not have them.
    memo = {"ids": sorted(session.ids), "floor": session.floor, "last": list(session.last)}
    receipt = {**refiner.kept, **refiner.report_reading(), KIND: session.row() | memo}
    due = text_of(min(refiner.source.clock.now() + PATIENCE, limit))
    text = json.dumps({"answer": json.loads(answer), CLAIMS: session.claims, **refiner.describe_pending()})
    if not sqlite.write(refiner.writer.engine, runs.wait_for_more, refiner.run, text=text, receipt=receipt, due=due):
        raise StaleRunError("the run was cancelled, or belongs to another claim by now", where=refiner.run.id)
