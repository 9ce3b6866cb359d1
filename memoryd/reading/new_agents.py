"""Add agents to the configuration for the projects found on this machine: one agent for each folder."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from memoryd import config, config_edit
from memoryd.agent_choice import folders_of
from memoryd.agent_programs import PROGRAMS, escape
from memoryd.clock import Clock
from memoryd.config import Agent, Settings
from memoryd.config_edit import NewAgent, NewSource
from memoryd.errors import RefusedError
from memoryd.files import foreign_config, git_exclude, sources, trust
from memoryd.files.durable import MovedError
from memoryd.files.log import Log
from memoryd.reading import discovery
from memoryd.reading.discovery import FoundProject
from memoryd.transcripts.lines import clean

_SLUG = re.compile(r"[^a-z0-9]+")
_TRIES = 4  # attempts that may fail, before the last one


class Machine(NamedTuple):
    """Hold the folders and variables that determine where programs keep transcripts and configuration."""

    home: Path
    environ: Mapping[str, str]
    state_dir: Path
    source: Path  # the configuration file, which may not exist yet


class FoundOffer(NamedTuple):
    """Hold the decision about the sessions of one program in one project."""

    found: FoundProject
    agent: str | None = None  # the agent that already reads them
    why_not: str | None = None  # why they cannot get an agent, as text for people

    @property
    def is_new(self) -> bool:
        return self.agent is None and self.why_not is None


def judge(found: Sequence[FoundProject], settings: Settings | None, home: Path) -> list[FoundOffer]:
    """Return the decision for each project: an agent has it, it cannot get one, or it is new."""
    return [_judge(one, settings, home) for one in found]


def _judge(found: FoundProject, settings: Settings | None, home: Path) -> FoundOffer:
    if found.program not in config.KNOWN_FORMATS:
        return FoundOffer(found, why_not="its sessions are not read yet")
    if found.folder is None:
        return FoundOffer(found, why_not="its sessions do not say where they ran")
    for agent in settings.agents if settings is not None else ():
        if _has(agent, found, home):
            return FoundOffer(found, agent=agent.id)
    if not os.path.isdir(found.folder):  # noqa: PTH112 - false too for a name that is too long
        return FoundOffer(found, why_not="the folder is gone: create it, then run memoryd init again")
    if str(found.folder) != clean(str(found.folder)):
        return FoundOffer(found, why_not="its name is not UTF-8")
    if (fault := trust.find_fault(found.folder)) is not None:
        return FoundOffer(found, why_not=f"{fault.what}: {fault.hint}")
    if (unwritten := git_exclude.find_fault(found.folder)) is not None:
        return FoundOffer(found, why_not=str(unwritten))
    return FoundOffer(found)


def _has(agent: Agent, found: FoundProject, home: Path) -> bool:
    """Return True if an agent already reads these sessions.

    An agent of the home folder does not own the projects in it.
    """
    folder = found.folder or Path()
    for source in agent.transcripts:
        top = source.project
        is_project = top is None or folder == top or (folder.is_relative_to(top) and not home.is_relative_to(top))
        pattern = sources.make_pattern(source.pattern, source.root)
        if is_project and any(map(pattern.matches, found.paths)):
            return True
    return False


def write(
    candidates: Sequence[FoundOffer], machine: Machine, now: str, *, discover: Sequence[str], memory: str
) -> Settings:
    """Add agents for projects to the configuration, exclude their memory from git, and return the new settings.

    If there is no configuration, it is created. A project that another process has given to an agent meanwhile is
    skipped.

    Args:
        candidates: the projects to add.
        machine: where the configuration is.
        now: UTC, ISO 8601.
        discover: programs whose later projects get agents automatically.
        memory: `workspace` or `state`: where new agents keep their memory.

    Raises:
        ConfigError: agents cannot be added to the file in its present form.
        MovedError: other processes keep changing the file.
        StateError: the file cannot be written, or belongs to another user.
    """
    for _ in range(_TRIES):
        # A person or the daemon may change the file at the same time. Then it is read again and nothing is overwritten.
        with contextlib.suppress(MovedError):
            return _write(candidates, machine, now, discover=discover, memory=memory)
    return _write(candidates, machine, now, discover=discover, memory=memory)


def _write(
    candidates: Sequence[FoundOffer], machine: Machine, now: str, *, discover: Sequence[str], memory: str
) -> Settings:
    old = foreign_config.read(machine.source)
    settings = None if old is None else config.load(machine.source, machine.environ, old)
    text = config_edit.begin(machine.state_dir, ()) if old is None else old.decode()
    if discover:
        text = config_edit.set_discover(text, sorted({*discover, *(settings.discover if settings else ())}))
    agents = settings.agents if settings is not None else ()
    added = _list_added(candidates, agents, machine)
    text, taken = _add(text, agents, added, machine, is_in_state=memory == "state")
    data = text.encode()
    made = config.load(machine.source, machine.environ, data)
    if {agent.id for agent in made.agents} != taken:
        raise RefusedError("no agent can be added without loss", str(machine.source), "add the agents by hand")
    # Git comes first: after a crash in between, the next run would treat an agent in the file as done.
    for agent in made.agents:
        if agent.memory == "workspace" and agent.workspace in added:
            git_exclude.add(agent.workspace)
    if data != old:
        foreign_config.write(machine.source, data, old, machine.state_dir / foreign_config.KEPT, now)
    return made


def _list_added(
    candidates: Sequence[FoundOffer], agents: Sequence[Agent], machine: Machine
) -> dict[Path, list[NewSource]]:
    """Return the sources that no agent has yet, by folder."""
    added: dict[Path, list[NewSource]] = {}
    for one in candidates:
        if one.found.folder is not None and not any(_has(agent, one.found, machine.home) for agent in agents):
            added.setdefault(one.found.folder, []).extend(_list_sources(one.found, machine))
    return added


def _add(
    text: str, agents: Sequence[Agent], added: Mapping[Path, list[NewSource]], machine: Machine, *, is_in_state: bool
) -> tuple[str, set[str]]:
    """Return the configuration's text with these sources added, and the ids of all agents.

    A folder that already has an agent gets its sources there; any other folder gets a new agent.
    """
    fresh = []
    taken = {agent.id for agent in agents}
    own = (machine.state_dir.resolve(), machine.source.resolve())
    for folder, listed in added.items():
        known = [number for number, agent in enumerate(agents) if folder in (agent.folder, *folders_of(agent))]
        if known:
            had = {(source.format, source.path) for source in agents[known[0]].transcripts}
            if missing := [one for one in listed if (one.format, one.path) not in had]:
                text = config_edit.add_sources(text, known[0], missing)
            continue
        taken.add(name := _name(folder, taken))
        # If the folder contains memoryd's own state, as a home folder does, it cannot be a workspace.
        fresh.append(NewAgent(name, folder, is_in_state or any(path.is_relative_to(folder) for path in own), listed))
    return config_edit.add_agents(text, fresh) if fresh else text, taken


def _list_sources(found: FoundProject, machine: Machine) -> list[NewSource]:
    assert found.folder is not None  # noqa: S101 - only projects with a folder are candidates
    if found.program == discovery.AIDER:
        return [NewSource(escape(found.paths[0]), found.program, found.folder)]
    program = PROGRAMS[found.program]
    root = program.find_root(machine.home, machine.environ)
    for patterns in (program.list_patterns(root, found.folder), program.list_patterns(root)):
        matchers = [sources.make_pattern(pattern) for pattern in patterns]
        if all(any(one.matches(path) for one in matchers) for path in found.paths):
            break
    return [NewSource(pattern, found.program, found.folder) for pattern in patterns]


def _name(folder: Path, taken: set[str]) -> str:
    """Return an unused agent id from a folder's name; if needed, with its parents' names or a number."""
    slugs = (_SLUG.sub("-", part.lower()).strip("-") for part in folder.parts[-3:])
    parts = [*filter(None, slugs)] or ["all"]
    tried = ["-".join(parts[-length:])[:60].strip("-") for length in range(1, len(parts) + 1)]
    numbered = (f"{tried[-1]}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (*tried, *numbered) if name not in taken)


class Discoverer:
    """Look for new projects while the daemon runs. The beginning of each transcript is read only once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._seen: set[str] = set()
        self._refused: set[Path | None] = set()  # folders that were logged already

    def add_new(self, settings: Settings, clock: Clock) -> bool:
        """Add agents for new projects to the configuration; return True if there were any."""
        machine = Machine(Path.home(), os.environ, settings.state_dir, settings.source)
        found = discovery.find_projects(machine.home, machine.environ, settings.discover, self._seen)
        offers = judge(found, settings, machine.home)
        for one in offers:
            if one.why_not is not None and one.found.folder not in self._refused:
                self._refused.add(one.found.folder)
                self._log.info("project without agent", path=one.found.folder, why=one.why_not)
        if not any(one.is_new for one in offers):
            return False
        try:
            memory = "state" if {agent.memory for agent in settings.agents} == {"state"} else "workspace"
            fresh = [one for one in offers if one.is_new]
            write(fresh, machine, clock.text(), discover=(), memory=memory)
        except BaseException:
            self._seen.clear()
            raise
        self._log.info("projects found", agents=len(fresh))
        return True
