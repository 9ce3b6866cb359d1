"""Carry out requests that change memory: notes, memories, facts, ratings, refinement calls, redaction."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

from sqlalchemy import Engine

from memoryd.changing import ledger_runs, rescrub, time_machine
from memoryd.changing.facts import FactStore
from memoryd.changing.guard_check import HUMAN
from memoryd.changing.writer import Writer
from memoryd.clock import Clock, text_of
from memoryd.config import Agent, Settings
from memoryd.daemon import scheduled_times
from memoryd.database import audit, memories, reads, sqlite
from memoryd.errors import NotFoundError, RefusedError
from memoryd.files.log import get_logger
from memoryd.files.workspace import open_workspace
from memoryd.jobs import refinement_tools
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.guards import GuardLimits
from memoryd.ledger.memory import to_json
from memoryd.ledger.rollback import RollbackPlan, name_copy
from memoryd.requests import opening, permission, scanner, waiting
from memoryd.requests.permission import Caller
from memoryd.running import called_refining
from memoryd.text.neutral import neutralize
from memoryd.tiers import core


def save(settings: Settings, agent: Agent, text: str, *, by: Caller = "owner") -> dict[str, Any]:
    """Write a note into the daily file and wait; return the run and its files.

    `by` is the caller. A line of the agent counts as the user's words only if the user typed it.
    """
    permission.require(settings, agent, "edit", by, "save")
    return _write(settings, agent, ledger_runs.SAVE, text, by)


def update(
    settings: Settings, agent: Agent, *, append: str | None = None, replace: str | None = None, by: Caller = "owner"
) -> dict[str, Any]:
    """Add a memory to `MEMORY.md` or replace its text, and wait; return the run and its files.

    `by` is the caller. If a memory that the agent adds needs the user's words, it goes into the daily file instead. A
    new text of the file with such a memory is refused.

    Raises:
        RefusedError: A guard or a permission does not allow it, or a `<private>` mark is not closed.
    """
    permission.require(settings, agent, "edit", by, "update")
    opening.catch_up(settings, agent)
    if replace is None:
        return _write(settings, agent, ledger_runs.UPDATE, append or "", by)
    if core.is_open(replace.encode(errors="replace")):
        raise RefusedError("a <private> that nothing closes hides all below it", "the new text", "close it")
    return _write(settings, agent, ledger_runs.REPLACE, replace, by)


def _write(settings: Settings, agent: Agent, kind: str, text: str, by: Caller) -> dict[str, Any]:
    is_agents = by == "agent" or permission.is_agents_shell()
    (clean,) = scanner.redact(settings, [text])  # before the row is stored, because every stored text must be scanned
    now = Clock().now()
    local = now.astimezone(settings.zone)
    options: dict[str, Any] = {"day": local.date().isoformat(), "clock": f"{local:%H:%M}"}
    if is_agents:
        options["witness"] = {"since": text_of(now - settings.sessions.idle_end)}
    elif sys.stdin is not None and sys.stdin.isatty():  # a script that an agent starts usually has no terminal
        options["terminal"] = True
    done = waiting.carried_out(settings, agent.id, kind, options, fresh=is_agents, text=clean)
    row = waiting.require_accepted(done)
    files = [item["path"] for item in row["receipt"].get("files", ())]
    lacks = row["receipt"].get("unsupported")
    told = {"run": row["id"], "state": row["state"], "why": row["why"], "files": files}
    unowned = {"unowned": True} if kind == ledger_runs.SAVE and not options.keys() & {"witness", "terminal"} else {}
    return told | unowned | ({"unsupported": lacks} if lacks else {}) | ({"redacted": True} if clean != text else {})


def call_refinement_tool(
    settings: Settings, agent: Agent, tool: str, arguments: str
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Run one tool of the agent's own refinement; return the row of its run and the answer of the call.

    The row is None if a search was answered without a refinement. The answer is None if the refinement has ended; the
    row then has the reason.
    """
    if tool in refinement_tools.CUTS:
        what: permission.Action = "protect" if tool == refinement_tools.PROTECT else "edit"
        permission.require(settings, agent, what, "agent", tool)
    opening.catch_up(settings, agent)
    if tool == refinement_tools.SEARCH:
        with opening.open_connection(settings) as connection:
            if not called_refining.goes_on(connection, agent.id):  # otherwise the running refinement answers the search
                return None, called_refining.found_in(connection, agent.id, arguments)
    (clean,) = scanner.redact(settings, [arguments])

    def queue(engine: Engine, clock: Clock) -> list[str]:
        since = text_of(scheduled_times.refinement_slot(settings, clock.now()))
        return [sqlite.write(engine, called_refining.hand_over, clock, settings, agent.id, tool, clean, since)]

    row = waiting.run_now(settings, agent.id, queue)[0]
    with opening.open_connection(settings) as connection:
        return row, called_refining.answer_of(connection, row["id"])


def core_size_if_due(settings: Settings, agent: Agent) -> int | None:
    """Return the tokens of a core that its agent should refine, or None if no refinement is due or allowed."""
    if not reads.database_path(settings).exists() or not permission.is_allowed(settings, "edit", "agent"):
        return None
    since = text_of(scheduled_times.refinement_slot(settings, Clock().now()))
    with opening.open_connection(settings) as connection:
        return called_refining.size_if_due(connection, settings, agent.id, since)


def record_feedback(settings: Settings, agent: Agent, memory_id: str, verdict: str) -> str:
    """Record a rating of a memory, and return its full id. A unique beginning of the id is enough.

    The rating, `good` or `bad`, is audited and affects the ranking, but does not change the memory.

    Raises:
        NotFoundError: the agent has no such memory.
        RefusedError: the memory has ended.
    """
    permission.require(settings, agent, "edit", "owner", f"feedback {verdict}")
    full = str(reads.ask(reads.database_path(settings), reads.find_memory, agent.id, memory_id)["id"])
    with opening.open_state(settings, agent) as (engine, _), sqlite.begin_write(engine) as connection:
        memory = memories.by_ids(connection, agent.id, [full])[full]
        if not memory.is_live:
            raise RefusedError(f"the memory has ended ({memory.ended_as})", full, "memoryd core restore")
        stamp = AuditStamp(Clock().text(), agent.id, HUMAN)
        audit.note(connection, [(f"feedback {verdict}", full, to_json(memory))], stamp)
    return full


@contextmanager
def fact_store(settings: Settings, agent: Agent, asked: str | None) -> Iterator[FactStore]:
    """Open the fact store of an agent. `asked` names the change in the audit; None opens it for reading.

    Raises:
        RefusedError: The caller may not make this change.
    """
    if asked is not None:
        permission.require(settings, agent, "edit", "owner", asked)
    with opening.open_state(settings, agent) as (engine, scrubber):
        writer = Writer(
            engine,
            agent.workspace,
            Clock().text,
            lambda: token_hex(4),
            limits=GuardLimits(settings.guards.retention_floor, settings.guards.erosion_percent),
            redact=scrubber.redact,
            facts=settings.facts,
        )
        yield FactStore(writer, agent.id, get_logger(part="facts"))


def scrub_again(settings: Settings, agent_id: str | None) -> dict[str, Any]:
    """Scan all stored texts again and redact them; return the row of the run. `agent_id` limits it to one agent.

    Raises:
        RefusedError: Redaction is off, or there are no agents.
    """
    if settings.scrub.secrets == settings.scrub.pii == "off":
        raise RefusedError("scrub.secrets and scrub.pii are off", str(settings.source), "say what is to be redacted")
    if not settings.agents:
        raise RefusedError("there are no agents", str(settings.source), "name the agents whose memory is meant")
    agent = agent_id or settings.agents[0].id
    options = {"agents": None if agent_id is None else [agent_id]}
    return waiting.carried_out(settings, agent, rescrub.KIND, options, f"{rescrub.KIND}:{agent_id or ''}")


def change_core(
    settings: Settings, agent: Agent, verb: str, memory_id: str, text: str | None = None
) -> tuple[str, str]:
    """Protect, unprotect, restore, delete or edit a memory for a person, and wait; return its id and the run's id.

    `text` is the new text of an edited memory.

    Raises:
        RefusedError: The text is empty, the memory is already in the wanted state, or a guard does not allow it.
    """
    action: permission.Action = "protect" if verb in {"protect", "unprotect"} else "edit"
    permission.require(settings, agent, action, "owner", f"core {verb}")
    if text is not None:
        (text,) = scanner.redact(settings, [neutralize(text)])
        if not text:
            raise RefusedError("the text is empty", memory_id, "delete the memory, if that is meant")
    opening.catch_up(settings, agent)
    memory = reads.ask(reads.database_path(settings), reads.find_memory, agent.id, memory_id)
    if (memory["deleted_at"] is None) == (verb == "restore"):
        what = "is live, there is nothing to restore" if verb == "restore" else f"has ended ({memory['ended_as']})"
        raise RefusedError(f"the memory {what}", where=memory["id"], hint="run memoryd core history for details")
    if verb == "restore":
        with opening.open_connection(settings) as connection:
            if copies := memories.list_later_copies(connection, agent.id, memory["id"]):
                raise RefusedError(name_copy(memory["id"], copies[0]))
    options = {"operations": [[verb, memory["id"]]]}
    done = waiting.carried_out(settings, agent.id, ledger_runs.EDIT, options, text=text)
    return memory["id"], waiting.require_accepted(done)["id"]


def find_rollback(
    settings: Settings, agent: Agent, run_id: str | None, audit_id: int | None, memory_id: str | None
) -> dict[str, Any]:
    """Return the options of a rollback of an agent's run, or of everything after an audit entry.

    The last edit of `MEMORY.md` is imported first.

    Raises:
        NotFoundError: There is no such run or entry, or it is another agent's.
    """
    opening.catch_up(settings, agent)
    with reads.open_reader(reads.database_path(settings)) as reader:
        if run_id is None:
            return {"to": reads.audit_upto(reader, int(audit_id or 0), agent.id)[0]}
        row = reads.job_run(reader, run_id)
        if row["agent_id"] != agent.id:
            raise NotFoundError(f"this is not the agent {agent.id!r}'s", where=run_id)
        # The run that answered a proposal made its changes.
        options = {"run": row["receipt"].get("accepted_by") or row["receipt"].get("rejected_by") or row["id"]}
        if memory_id is not None:
            options["memory"] = reads.find_memory(reader, agent.id, memory_id)["id"]
        return options


def rollback(settings: Settings, agent: Agent, options: dict[str, Any]) -> dict[str, Any]:
    """Carry out a rollback, and wait; return the row of its run."""
    permission.require(settings, agent, "edit", "owner", "rollback")
    return waiting.require_accepted(waiting.carried_out(settings, agent.id, ledger_runs.ROLLBACK, options))


def preview_rollback(settings: Settings, agent: Agent, options: dict[str, Any]) -> tuple[RollbackPlan, dict[str, Any]]:
    """Return the plan of a rollback, and its effects as ids, numbers and files, without carrying it out.

    Raises:
        MemorydError: The target cannot be rolled back, for example because its run has not ended.
    """
    target = ledger_runs.target_of(options)
    with opening.open_connection(settings) as connection, open_workspace(agent.workspace) as place:
        ledger_runs.require_done(connection, target)
        plan = time_machine.plan(connection, agent.id, target, Clock().text())
        files = time_machine.list_files(connection, agent.id, target, plan, place) if plan.steps else []
        return plan, time_machine.as_row(plan) | {"files": files}
