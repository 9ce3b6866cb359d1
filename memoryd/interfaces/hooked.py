"""What the daemon answers to the hooks of agents, in the thread of the control socket.

A hook is the agent's own way to its memory, as `memory_search` is: who listens at the other end of it is a model, not a
person. So it is answered for a siloed agent as well, without a grant; that it was is in the log, by session. What keeps
others away is the socket, which answers nobody but the user the daemon runs as. A person of that user could play the
agent, as they could read the files of its workspace; the command refuses to do so on a terminal.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd.engine.announcements import Announcement, Event
from memoryd.errors import ConfigError, MemorydError, NotFoundError
from memoryd.interfaces import context as contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memoryd.app import App
    from memoryd.config import Agent
    from memoryd.daemon.loop import Loop
    from memoryd.recall.injection import Budget, Injection
    from memoryd.scrub.policy import Policy


class _Asked(NamedTuple):
    agent_id: str
    files: bool
    units: int | None


class Hooked:
    """Answers hooks; remembers what it told last, so that what has not changed is not scanned and counted anew."""

    def __init__(self, app: App, loop: Loop) -> None:
        self._app = app
        self._loop = loop
        self._last: dict[_Asked, tuple[contexts.Remembered, Policy, Budget, Injection]] = {}

    def verbs(self) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
        """What may be asked."""
        return {"context": self.context, "announce": self.announce}

    def context(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Give an agent its memory; no text where the session is of a project that is none of its.

        The request has its `workspace`, the `cwd` of the session, its id as `session`, the `tool`, whether `files` are
        wanted, and how many UTF-16 `units` the tool takes at most.

        Raises:
            NotFoundError: no agent works there.
            MemorydError: the memory cannot be read, or not without its secrets.
        """
        agent = self._agent(request)
        if not is_within(agent, request.get("cwd")):
            return {"text": ""}
        units = request.get("units")
        asked = _Asked(agent.id, bool(request.get("files", True)), units if isinstance(units, int) else None)
        made = self._told(agent, asked)
        told = {name: request.get(name) for name in ("tool", "session")}
        self._app.log.info("injected", agent=agent.id, tokens=made.tokens, left_out=len(made.left_out), **told)
        return {"text": made.text}

    def refresh(self) -> None:
        """Work out anew what was told before and has changed, while nobody waits: to start a scanner takes a second."""
        agents = {agent.id: agent for agent in self._app.settings.agents}
        for asked in list(self._last):
            try:
                self._told(agents[asked.agent_id], asked)
            except (KeyError, MemorydError) as error:  # then it is worked out, and told, when somebody asks
                del self._last[asked]
                self._app.log.debug("not worked out ahead", agent=asked.agent_id, error_type=type(error).__name__)

    def _told(self, agent: Agent, asked: _Asked) -> Injection:
        app = self._app
        remembered, policy = contexts.gather(app.settings, agent, app.clock.now()), app.scrubber.policy
        if not asked.files:
            remembered = remembered._replace(parts=(), unreadable=())
        budget = contexts.budget_of(app.settings, units=asked.units)
        last = self._last.get(asked)
        if last is not None and last[:3] == (remembered, policy, budget):
            return last[3]
        clean = contexts.redacted(remembered, app.scrubber.redact)
        made = contexts.told(clean, budget, lambda texts: app.worker.count(texts).tokens)
        self._last[asked] = remembered, policy, budget, made
        return made

    def announce(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Take an `event` of a session, named by its `transcript` or its id; what it asks for is done soon after.

        Raises:
            NotFoundError: no agent works there.
            ConfigError: there is no such event.
        """
        agent = self._agent(request)
        if request.get("event") not in set(Event):
            raise ConfigError("there is no such event", hint=", ".join(Event))
        transcript, session = (
            one if isinstance(one, str) else None for one in map(request.get, ("transcript", "session"))
        )
        event = Event(request["event"])
        self._loop.announce(Announcement(agent.id, event, transcript, session, self._app.clock.monotonic()))
        return {}

    def _agent(self, request: Mapping[str, Any]) -> Agent:
        wanted = request.get("workspace")
        for agent in self._app.settings.agents:
            if agent.enabled and str(agent.workspace) == wanted:
                return agent
        raise NotFoundError("no agent works in this workspace", hint="memoryd connect, once more")


def is_within(agent: Agent, cwd: object) -> bool:
    """Whether a session in a folder is one of this agent's: of any project, or of those its transcripts are read of."""
    projects = [source.project for source in agent.transcripts]
    if None in projects or not projects:
        return True
    if not isinstance(cwd, str) or not cwd:
        return False
    folder = Path(cwd).resolve()
    return any(folder.is_relative_to(project.resolve()) for project in projects if project is not None)
