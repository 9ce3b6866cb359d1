"""Show the state of a fleet, send requests to hosts, and carry out the requests of others.

A host follows its own rules. `access` must name `fleet`, each request works once, and the audit names the person and
the host that asked.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import TYPE_CHECKING, Any

from memoryd.clock import Clock
from memoryd.database import runs, sqlite
from memoryd.errors import MemorydError, NotFoundError, RefusedError
from memoryd.files.log import get_logger
from memoryd.requests import access, jobs_by_hand, lists, memory_changes, opening, permission
from memoryd.requests.access import Person
from memoryd.running import queueing

if TYPE_CHECKING:
    from memoryd.config import Agent, Settings
    from memoryd.fleet.requests import HostRequest

KIND = "fleet"  # the kind of the `job_run` row that records a request


def read_status(settings: Settings, host: str | None = None, limit: int = 20) -> dict[str, Any]:
    """Return the status of the whole fleet, or of one host."""
    from memoryd.fleet import view
    from memoryd.fleet.connection import Database

    with closing(Database(settings, most=1).open()) as database:
        return view.read_status(database, host, limit)


def ask_host(settings: Settings, host: str, action: str, **about: str | None) -> str:
    """Store a request for a host, in the name of the person who asks; return the id of the request.

    Args:
        settings: The configuration.
        host: The host that carries it out.
        action: run, pause, resume, cancel or rollback.
        about: `agent`, `kind` and `run`, as the action needs them.
    """
    from memoryd.fleet import requests
    from memoryd.fleet.connection import Database
    from memoryd.fleet.sealing import read_seal

    with closing(Database(settings, most=1).open()) as database:
        by = f"{access.current_person().name or access.find_user_name()}@{settings.fleet.host}"
        asked = requests.HostRequest(secrets.token_hex(12), action, by, Clock().text(), **about)
        requests.post(database, read_seal(settings.fleet.key_file), host, asked)
    return asked.id


def carry_out(settings: Settings, asked: HostRequest) -> str:
    """Carry out a request of the fleet under this host's rules.

    Return the outcome as text without content of memory.
    """
    with access.act_as(Person(name=f"fleet/{asked.by}", is_here=False, owns=False)):
        try:
            agent = _require_allowed(settings, asked)
        except MemorydError as error:  # the message names only hosts, agents and configuration keys
            return f"refused: {error.what}"
        try:
            return _do(settings, agent, asked)
        except MemorydError as error:  # the message may contain memory, which only this host may read
            get_logger(part="fleet").warning("request failed", request=asked.id, why=str(error))
            return f"not done: {error.code}; the log of the host says why"


def _require_allowed(settings: Settings, asked: HostRequest) -> Agent:
    """Return the agent of a request, after the request is marked as used and audited.

    Raises:
        NotFoundError: There is no such agent or action.
        RefusedError: Another host works on the workspace, the request was used before, or `access` does not allow it.
    """
    agent = _find_agent(settings, asked)
    if agent.held_by is not None:
        raise RefusedError(f"the host {agent.held_by} works on the workspace of this agent", agent.id)
    _use_up(settings, agent, asked)
    what: permission.Action = "edit" if asked.action == "rollback" else "consolidate"
    permission.require(settings, agent, what, "fleet", f"fleet {asked.action}")
    access.note_act(settings, agent, f"fleet {asked.action}", asked.run or asked.kind or agent.id, is_blind=True)
    return agent


def _do(settings: Settings, agent: Agent, asked: HostRequest) -> str:
    if asked.action in {"pause", "resume"}:
        jobs_by_hand.set_paused(settings, agent.id, paused=asked.action == "pause")
        return f"{asked.action}d"
    if asked.action == "cancel":
        return f"{asked.run} is {jobs_by_hand.cancel(settings, str(asked.run))['state']}"
    if asked.action == "run":
        return f"queued {' '.join(jobs_by_hand.queue_job(settings, str(asked.kind), agent.id))}"
    options = memory_changes.find_rollback(settings, agent, asked.run, None, None)
    return f"rolled back by {memory_changes.rollback(settings, agent, options)['id']}"


def _find_agent(settings: Settings, asked: HostRequest) -> Agent:
    is_of_run = asked.action in {"cancel", "rollback"}
    wanted = lists.get_run(settings, asked.run or "")["agent_id"] if is_of_run else asked.agent
    found = settings.find_agent(wanted or "")
    if found is None or asked.action not in {"run", "pause", "resume", "cancel", "rollback"}:
        raise NotFoundError(f"there is no agent {wanted!r}, or no such action", asked.action)
    return found


def _use_up(settings: Settings, agent: Agent, asked: HostRequest) -> None:
    """Record a request before it is carried out, so that it works only once.

    Raises:
        RefusedError: The request is already recorded.
    """
    slot, clock = f"{KIND}:{asked.id}", Clock()
    with opening.open_beside(settings) as engine, sqlite.begin_write(engine) as connection:
        opening.require_known(engine, agent.id)
        if runs.slot_is_used(connection, slot):
            raise RefusedError("the request was carried out before", asked.id)
        why, actor = f"{asked.action}, asked by {asked.by}", access.current_person().actor
        queueing.skip(connection, clock, KIND, agent.id, "manual", why, actor=actor, slot=slot)
