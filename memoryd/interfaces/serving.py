"""Run the daemon in the foreground with its control socket and hooks, or run one round of it."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from memoryd import config
from memoryd.app import App, open_app
from memoryd.config import Agent, Settings
from memoryd.daemon.loop import Loop
from memoryd.daemon.once import run_once
from memoryd.database import reads
from memoryd.errors import MemorydError, RefusedError, StateError
from memoryd.files.trust import is_owner
from memoryd.finding.recall import Meaning, Narrowing
from memoryd.interfaces import page
from memoryd.interfaces.control import Control, Verb
from memoryd.interfaces.hook_answers import HookAnswerer
from memoryd.reading.new_agents import Discoverer
from memoryd.requests import context as contexts
from memoryd.requests import daemon_client, fleet, meanings, searching, status
from memoryd.running import alarms, sleeping
from memoryd.version import __version__
from memoryd.worker import heap

AHEAD_SECONDS = 8.0  # delay after the start before hook answers are prepared, so that waiting work comes first


def serve_forever(settings: Settings, relog: Callable[[Settings], None], patience: timedelta) -> bool:
    """Run the daemon until it must stop.

    Returns False if a thread hangs that the process must not wait for.
    """
    heap.keep_small()
    with open_app(settings, patience=patience) as app:
        loop = Loop(app, relog)
        hooked = HookAnswerer(app, loop)
        loop.is_hooked = hooked.is_in_use
        if (link := app.link) is not None:
            loop.heed = lambda: link.heed(lambda asked: fleet.carry_out(app.settings, asked))
        ahead = app.clock.monotonic() + AHEAD_SECONDS
        loop.beside.append(lambda: hooked.refresh() if app.clock.monotonic() >= ahead else None)
        path = settings.state_dir / daemon_client.SOCKET
        with (
            page.serve_beside(settings, app.log.bind(part="admin")),
            Control(path, _verbs(app, loop), app.clock.monotonic, app.log.bind(part="control"), hooked.verbs()),
        ):
            return loop.run()


def _verbs(app: App, loop: Loop) -> dict[str, Verb]:
    """Return the functions for the verbs of the control socket, by verb."""

    def show_status(request: Mapping[str, Any]) -> dict[str, Any]:
        _require_same(app, request)
        with reads.open_reader(app.database) as reader:
            return status.status(app.settings, reader, everything=request.get("everything") is True, live=ping(request))

    def ping(_request: Mapping[str, Any]) -> dict[str, Any]:
        told = {"pid": os.getpid(), "version": __version__, "waits_for_disk": not loop.disk_is_well}
        return told | {"unread": Counter(waiting.agent_id for waiting in app.ingest.list_unread())}

    def wake(_request: Mapping[str, Any]) -> dict[str, Any]:
        loop.look_now()
        return {}

    def inspect(_request: Mapping[str, Any]) -> dict[str, Any]:
        app.keeper.is_asked = True
        loop.prune.hurry(0)
        loop.wake.set()
        return {}

    def session_end(request: Mapping[str, Any]) -> dict[str, Any]:
        row = reads.ask(app.database, reads.find_session, str(request["id"]))
        sleeping.end(app.engine, row["id"])
        loop.look_now(row["id"])
        return {"session": row["id"]}

    def take(request: Mapping[str, Any]) -> dict[str, Any]:
        agent = app.settings.find_agent(str(request["agent"]))
        return {"agrees": agent is None or loop.core.take(agent, settled=False)}

    def read(request: Mapping[str, Any]) -> dict[str, Any]:
        loop.read(str(request["path"]))
        return {}

    def embed(request: Mapping[str, Any]) -> dict[str, Any]:
        if app.recall.meaning is None:
            return meanings.as_json(Meaning(why="the daemon searches by words alone"))
        return meanings.as_json(app.recall.meaning(str(request["text"]))())

    return {
        "embed": embed, "import": take, "inject": partial(_inject, app), "inspect": inspect, "ping": ping,
        "read": read, "search": partial(_search, app), "status": show_status, "wake": wake, "session_end": session_end,
    }  # fmt: skip


def _search(app: App, request: Mapping[str, Any]) -> dict[str, Any]:
    """Search for a person who may see all of an agent's memory, and return `hits`."""
    agent = _get_open_agent(app, request)
    text, narrowing = request["text"], Narrowing.from_json(request["narrowing"])
    searching.check(text, narrowing)
    return {"hits": [asdict(hit) for hit in searching.search_with(app.recall, app.scrubber, agent, text, narrowing)]}


def _inject(app: App, request: Mapping[str, Any]) -> dict[str, Any]:
    """Build the text for the start of a session. The caller must be a person who may see all of the agent's memory."""
    agent, query = _get_open_agent(app, request), request["query"]
    found = () if query is None else app.recall.search(agent, query, Narrowing(limit=contexts.HITS))
    remembered = contexts.gather_for_folder(app.settings, agent, request["folder"], found)
    clean = contexts.redact_material(remembered, app.scrubber.redact)
    budget = contexts.budget_of(app.settings, request["max_tokens"])
    return contexts.fit_material(clean, budget, app.worker.count)._asdict()


def _get_open_agent(app: App, request: Mapping[str, Any]) -> Agent:
    """Return the agent that a request names.

    Raises:
        RefusedError: The agent is in private mode, or this user does not own its workspace.
    """
    _require_same(app, request)
    agent = app.settings.get_agent(request["agent"])
    if agent.privacy != "open" or not is_owner(agent.workspace):
        raise RefusedError("a person sees this agent's memory by the command")
    return agent


def _require_same(app: App, request: Mapping[str, Any]) -> None:
    """Raise a StateError if the caller has another version or other settings. It then works without the daemon."""
    here = {"version": __version__, "settings": [str(app.settings.source), app.settings.sha256]}
    if request.get("same") not in (None, here):
        raise StateError("the daemon has another version or other settings")


def _add_projects(app: App) -> list[str] | None:
    """Add agents for new projects to the configuration, if `discover` asks for them, and return their ids.

    A new source may also go to an agent that is there. Then there are no ids. The result is None if nothing was added.
    """
    before = {one.id for one in app.settings.agents}
    try:
        if app.settings.discover and Discoverer(app.log.bind(part="discovery")).add_new(app.settings, app.clock):
            return [one.id for one in config.load(app.settings.source).agents if one.id not in before]
    except MemorydError as error:
        app.runner.set_alarm(alarms.CONFIG, f"new projects got no agent: {error}")
    return None


def serve_once(settings: Settings, patience: timedelta, added: Sequence[str] | None = None) -> dict[str, Any]:
    """Read everything, run everything that is due, and end.

    Returns the fields of `run_once`, with `left_as_history` (sessions not imported), `failed` (runs), `alarms` and
    `new_agents`, the ids of agents for new projects. `added` are the ids of new agents that are already in `settings`.
    """
    with open_app(settings, patience=patience) as app:
        fresh = None if added is not None else _add_projects(app)
        if fresh is None:
            done = run_once(app)
            with reads.open_reader(app.database) as reader:
                left = sum(status.left_as_history(settings, reader, agent) for agent in settings.agents)
                ended = [reads.job_run(reader, run_id) for run_id in dict.fromkeys(done["runs"])]
                opened = reads.list_alarms(reader)
            failed = [
                {name: row[name] for name in ("id", "kind", "agent_id", "error")} for row in ended if row["error"]
            ]
            return done | {"left_as_history": left, "failed": failed, "alarms": opened, "new_agents": list(added or ())}
    return serve_once(config.load(settings.source), patience, fresh)
