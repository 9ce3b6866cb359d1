"""Set memoryd up in one step: `memoryd init`.

It finds agents and projects, writes the configuration and the connections, and starts the service. A second run adds
new agents and projects. `--remove` removes all that earlier runs wrote, but no memory.
"""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from memoryd import config, config_edit, config_file
from memoryd.agent_programs import AIDER_HISTORY, PROGRAMS
from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.counted import count_noun
from memoryd.errors import ConfigError, MemorydError, NotFoundError, StateError
from memoryd.files import foreign_config, git_exclude
from memoryd.interfaces import connect as connecting
from memoryd.interfaces import service as services
from memoryd.interfaces.call import Call, user_folder
from memoryd.interfaces.output import render_table
from memoryd.reading import discovery, new_agents
from memoryd.reading.discovery import AIDER, FoundProject
from memoryd.reading.new_agents import FoundOffer, Machine
from memoryd.requests import daemon_client

_UP_SECONDS = 30.0
_POLL_SECONDS = 0.1
_ALL = frozenset({"all", "yes", "y"})
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class InitAnswers(NamedTuple):
    """Hold the answers that the command line already gives."""

    is_yes: bool
    projects: Sequence[str]  # the folders of the projects to use; empty: ask, or use all
    memory: str
    service: bool | None  # None: ask, or yes without a terminal


def init(call: Call, answers: InitAnswers) -> None:
    """Find agents and projects, ask which to use, and write configuration, connections and service.

    Raises:
        ConfigError: There is no terminal to ask on, or the configuration has mistakes.
        NotFoundError: There is no agent program on this machine, or a named folder does not exist.
        StateError: A program could not be connected; everything else is done.
    """
    machine, settings = _look_around(call)
    candidates = new_agents.judge(discovery.find_projects(machine.home, machine.environ), settings, machine.home)
    installed = _list_installed(machine, is_first=settings is None)
    call.output.say(_render_candidates(candidates, machine.home))
    if settings is not None and _has_nothing_to_do(call, candidates, answers):
        told = f"nothing is new or written. Edit {machine.source}, or connect again with memoryd init --yes"
        call.output.result({"config": str(machine.source), "agents": [agent.id for agent in settings.agents]}, told)
        return
    is_all, chosen = _choose(call, candidates, answers, installed)
    if not is_all and not _has_agents(chosen, settings):
        call.output.say("nothing is written; to choose again, run memoryd init")
        return
    with_service = _wants_service(answers)
    discover = installed if is_all else ()
    made = new_agents.write(chosen, machine, Clock().text(), discover=discover, memory=answers.memory)
    call.output.say(f"{'written  ' if settings != made else 'unchanged'} {machine.source}")
    tools = {one.found.program for one in (*candidates, *chosen) if one.agent is not None or one in chosen}
    connected, failed = _connect_all(call, made, machine, tools.union(discover))
    data = {
        "config": str(machine.source),
        "found": [_as_data(one) for one in candidates],
        "agents": [agent.id for agent in made.agents],
        "connected": connected,
        "failed": failed,
        "service": _start_service(call, made) if with_service else None,
    }
    hint = "fix what the message names, or make the change by hand; then run memoryd init again"
    error = StateError("not connected", "; ".join(failed.values()), hint) if failed else None
    call.output.result(data, "\n".join(_list_next(made, chosen, data)), error)


def _look_around(call: Call) -> tuple[Machine, Settings | None]:
    """Return the machine and its settings, or None for the settings if there is no configuration yet."""
    named = call.config or (Path(os.environ["MEMORYD_CONFIG"]) if os.environ.get("MEMORYD_CONFIG") else None)
    source = (named.expanduser() if named else user_folder("config") / config_file.FILE).absolute()
    settings = config.load(source) if source.exists() else None
    state_dir = settings.state_dir if settings is not None else user_folder("state")
    return Machine(Path.home(), os.environ, state_dir, source), settings


def _list_installed(machine: Machine, *, is_first: bool) -> list[str]:
    """Return the programs that have a folder on this machine and whose sessions this version reads.

    Raises:
        NotFoundError: This is the first run, and there is no such program.
    """
    roots = {one.name: one.find_root(machine.home, machine.environ) for one in PROGRAMS.values()}
    installed = [name for name, root in roots.items() if name in config.KNOWN_FORMATS and root.is_dir()]
    if is_first and not installed:
        hint = "use an agent program once, or set the variable that names its folder"
        raise NotFoundError("no agent program was found", ", ".join(map(str, roots.values())), hint)
    return installed


# --- the choice -------------------------------------------------------------------------------------------------------


def _choose(
    call: Call, candidates: Sequence[FoundOffer], answers: InitAnswers, installed: Sequence[str]
) -> tuple[bool, list[FoundOffer]]:
    """Return whether later projects are accepted too, and the candidates that are accepted now.

    Raises:
        ConfigError: There is no terminal to ask on.
    """
    fresh = [one for one in candidates if one.is_new]
    if answers.projects:
        return False, _choose_named(candidates, answers.projects, installed)
    if answers.is_yes:
        return True, fresh
    if not _can_ask(call):
        hint = "memoryd init --yes uses all projects; --project DIR uses one, and can be repeated"
        raise ConfigError("there is no terminal to ask on", hint=hint)
    while fresh:
        text = click.prompt("Which projects to use? all, none, or numbers such as 1,3-5", default="all")
        with contextlib.suppress(ValueError):
            return text.strip() in _ALL, [fresh[number - 1] for number in _parse_numbers(text, len(fresh))]
        call.output.say(f"enter all, none, or numbers from 1 to {len(fresh)}")
    return True, []


def _has_nothing_to_do(call: Call, candidates: Sequence[FoundOffer], answers: InitAnswers) -> bool:
    """Return True if nothing is new and nobody can be asked whether to repeat the connections."""
    is_told = answers.is_yes or bool(answers.projects)
    return not is_told and not _can_ask(call) and not any(one.is_new for one in candidates)


def _has_agents(chosen: Sequence[FoundOffer], settings: Settings | None) -> bool:
    return bool(chosen or (settings and (settings.agents or settings.discover)))


def _choose_named(
    candidates: Sequence[FoundOffer], projects: Sequence[str], installed: Sequence[str]
) -> list[FoundOffer]:
    """Return the new candidates of the named projects. A project without a session is offered for every program.

    Raises:
        NotFoundError: A named folder does not exist.
    """
    folders = {discovery.find_project_folder(Path(path), Path.home()) for path in projects}
    chosen = [one for one in candidates if one.is_new and one.found.folder in folders]
    now = datetime.now(UTC)
    for folder in sorted(folders - {one.found.folder for one in candidates if one.why_not is None}):
        if not folder.is_dir():
            raise NotFoundError("no such folder", str(folder), "name the folder of a project")
        chosen += [FoundOffer(FoundProject(name, folder, 0, 0, now, now, ())) for name in installed]
        if (history := folder / AIDER_HISTORY).is_file():
            chosen.append(FoundOffer(FoundProject(AIDER, folder, 1, history.stat().st_size, now, now, (str(history),))))
    return chosen


def _parse_numbers(text: str, most: int) -> list[int]:
    """Return the numbers from 1 to `most` that an answer names. Any other answer raises a ValueError."""
    words = re.split(r"[\s,]+", text.strip())
    if text.strip() in _ALL:
        return list(range(1, most + 1))
    if words in (["none"], ["no"], ["n"]):
        return []
    numbers = set()
    for word in words:
        if (found := _RANGE.fullmatch(word)) is None:
            raise ValueError(word)
        numbers |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    if not numbers <= set(range(1, most + 1)):
        raise ValueError(text)
    return sorted(numbers)


def _wants_service(answers: InitAnswers) -> bool:
    if answers.service is not None:
        return answers.service
    return answers.is_yes or not _has_terminal() or click.confirm("Run memoryd in the background?", default=True)


def _can_ask(call: Call) -> bool:
    return not call.output.json and _has_terminal()


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _render_candidates(candidates: Sequence[FoundOffer], home: Path) -> str:
    if not candidates:
        return "No sessions were found yet."
    rows, number = [], 0
    for one in candidates:
        number += one.is_new
        found = one.found
        folder = "?" if found.folder is None else str(found.folder)
        if found.folder is not None and found.folder.is_relative_to(home):
            folder = f"~/{found.folder.relative_to(home)}".removesuffix("/.")
        rows.append({
            "": str(number) if one.is_new else "-", "agent": found.program, "project": folder,
            "sessions": found.sessions, "size": _show_size(found.size), "first": f"{found.first:%Y-%m-%d}",
            "changed": f"{found.last:%Y-%m-%d}", "note": one.why_not or (f"agent {one.agent}" if one.agent else ""),
        })  # fmt: skip
    return render_table(rows, tuple(rows[0]))


def _show_size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _as_data(one: FoundOffer) -> dict[str, Any]:
    found = one.found._asdict() | {"folder": None if one.found.folder is None else str(one.found.folder)}
    found |= {"first": one.found.first.isoformat(), "last": one.found.last.isoformat()}
    return {**found, "agent": one.agent, "why_not": one.why_not}


# --- connections and service ------------------------------------------------------------------------------------------


def _connect_all(
    call: Call, settings: Settings, machine: Machine, programs: set[str], *, remove: bool = False
) -> tuple[list[str], dict[str, str]]:
    """Connect programs, or remove their connections. Return the changed ones, and the error for each that failed."""
    changed: list[str] = []
    failed: dict[str, str] = {}
    for name in sorted(programs & connecting.TOOLS.keys()):
        for place in _list_places(name, settings, machine):
            try:
                done = connecting.connect(name, place, Clock().text(), write=True, remove=remove)
            except MemorydError as error:
                failed[name] = str(error)
                continue
            for one in done["files"]:
                if one["changed"]:
                    kept = f" (before: {one['backup']})" if one["backup"] else ""
                    call.output.say(f"{'removed  ' if remove else 'connected'} {name}: {one['path']}{kept}")
            if done["written"]:
                changed.append(name)
                for step in done["next"]:
                    call.output.say(f"then      {step}")
    return changed, failed


def _list_places(name: str, settings: Settings, machine: Machine) -> list[connecting.ConnectTarget]:
    """Return the places in which to connect a program.

    A program with hooks is connected once for the user. Aider loads a file, so it is connected in each of its projects.
    """
    only = settings.agents[0] if len(settings.agents) == 1 else None
    if not connecting.TOOLS[name].loads:
        return [connecting.ConnectTarget(settings, only, machine.home, machine.environ, None)]
    own = [agent for agent in settings.agents if any(source.format == name for source in agent.transcripts)]
    return [connecting.ConnectTarget(settings, one, machine.home, machine.environ, one.folder) for one in own]


def _start_service(call: Call, settings: Settings) -> str:
    """Start the daemon as a service, or as a process without a service manager.

    Returns `service`, `process`, or `reloaded` if a daemon was running already.

    Raises:
        StateError: The daemon does not answer in `_UP_SECONDS`.
    """
    if pid := daemon_client.ask_data(settings.state_dir, "ping").get("pid"):
        os.kill(pid, signal.SIGHUP)
        call.output.say(f"reloaded  the running daemon (pid {pid})")
        return "reloaded"
    made = services.plan_service(settings, launchd=sys.platform == "darwin", system=False)
    if has_manager := services.has_manager():
        told = services.install(made, settings)
        call.output.say(f"installed {told['path']}")
        if told["note"]:
            call.output.say(f"          {told['note']}")
        services.call_manager(made.start)
    else:
        services.start_process(settings)
    until = time.monotonic() + _UP_SECONDS
    # It answers a ping before it has noted its start, and until then no status shows that it runs.
    while not (daemon := daemon_client.ask_data(settings.state_dir, "status").get("daemon")):
        if time.monotonic() > until:
            raise StateError("the daemon does not answer", str(settings.state_dir), "memoryd run shows why")
        time.sleep(_POLL_SECONDS)
    call.output.say(f"started   the daemon (pid {daemon['pid']})")
    if not has_manager:
        call.output.say("          there is no service manager: after each boot, start the daemon with memoryd run")
    return "service" if has_manager else "process"


def _list_next(settings: Settings, chosen: Sequence[FoundOffer], data: dict[str, Any]) -> list[str]:
    sessions, size = sum(one.found.sessions for one in chosen), sum(one.found.size for one in chosen)
    lines = []
    if data["service"] is None:
        lines.append("next      memoryd run, or memoryd service install, starts the daemon")
    if sessions:
        waits = f"{count_noun(sessions, 'earlier session')} ({_show_size(size)})"
        how = "the daemon" if settings.ingest.history == "flush" else "memoryd import"
        lines.append(f"history   {how} writes {waits} into memory; memoryd job list shows the runs")
    if settings.discover:
        lines.append(f"later     each new project of {', '.join(settings.discover)} gets an agent")
    restart = ", ".join(data["connected"])
    ready = "then " if data["service"] is None else "ready"
    return [*lines, f"{ready}     restart {restart or 'your agent'} in a project: the new session gets its memory"]


# --- removal ----------------------------------------------------------------------------------------------------------


def _stop_service(call: Call, settings: Settings) -> None:
    made = services.plan_service(settings, launchd=sys.platform == "darwin", system=False)
    if services.is_installed(made, settings):
        services.uninstall(made)
        if services.has_manager():  # without a manager, no service runs; the daemon is stopped below
            services.call_manager(made.stop)
        call.output.say(f"removed   {made.path}")
    if pid := daemon_client.ask_data(settings.state_dir, "ping").get("pid"):
        os.kill(pid, signal.SIGTERM)
        call.output.say(f"stopped   the daemon (pid {pid})")


def remove(call: Call) -> None:
    """Remove the connections, the service and the agents that `init` wrote. Memory stays.

    Raises:
        NotFoundError: There is no configuration.
        StateError: A connection cannot be removed; the configuration then stays as well.
    """
    machine, settings = _look_around(call)
    if settings is None:
        raise NotFoundError("there is no configuration, so nothing to remove", str(machine.source))
    removed, failed = _connect_all(call, settings, machine, set(connecting.TOOLS), remove=True)
    if failed:
        raise StateError("not disconnected", "; ".join(failed.values()), "fix the cause, then run it again")
    _stop_service(call, settings)
    old = machine.source.read_bytes()
    left = config_edit.remove_added(old.decode())
    data = None if left is None else left.encode()
    if data != old:
        kept = foreign_config.write(machine.source, data, old, machine.state_dir / foreign_config.KEPT, Clock().text())
        call.output.say(f"removed   {machine.source if data is None else 'agents'} (before: {kept})")
    still = set() if data is None else {agent.id for agent in config.load(machine.source).agents}
    gone = [agent for agent in settings.agents if agent.id not in still]
    for agent in gone:
        git_exclude.remove(agent.workspace)
    folders = [str(agent.workspace) for agent in gone]
    told = {"config": str(machine.source), "disconnected": removed, "agents": [agent.id for agent in gone]}
    text = "".join(f"\n          {folder}" for folder in folders)
    call.output.result(
        told | {"memory": folders, "state_dir": str(settings.state_dir)},
        f"kept: your memory (MEMORY.md, memory/, .continuum/) and the state:{text}\n          {settings.state_dir}",
    )
