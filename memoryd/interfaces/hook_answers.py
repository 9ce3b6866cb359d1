"""Answer the requests of hooks on the control socket, one after the other.

A hook is the agent's own access to its memory, like `memory_search`: a model reads the answer, not a person. So an
agent in private mode gets an answer without a grant, and the log names the session of each use.

The socket answers only the user of the daemon, which protects the memory. A person with that user's rights could pose
as the agent, but could open its files as well. The command refuses to run on a terminal.
"""

import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from memoryd.agent_choice import choose, is_within
from memoryd.app import App
from memoryd.config import Agent
from memoryd.daemon.loop import Loop
from memoryd.daemon.timers import LookTimer
from memoryd.database import reads, sqlite, turns
from memoryd.errors import ConfigError, MemorydError, NotFoundError
from memoryd.finding import access_grants
from memoryd.finding.recall import Narrowing
from memoryd.gauge.estimate import CHARACTERS_PER_TOKEN
from memoryd.gauge.fill import fill_of
from memoryd.interfaces.control import Verb
from memoryd.interfaces.hook import DIALECTS
from memoryd.reading.scrubbing import Scrubber
from memoryd.recall.injection import RECENT_FILE, Budget, Injection, Part
from memoryd.recall.query import parse
from memoryd.recall.ranking import SESSION
from memoryd.recall.relevance import is_about
from memoryd.requests import access, projects
from memoryd.requests import context as contexts
from memoryd.requests.context import Asker, InjectionMaterial
from memoryd.running import now_files
from memoryd.running.hook_events import HookEvent, HookEventKind, session_of
from memoryd.scrub.policy import Policy
from memoryd.worker.client import Worker

PROMPT_TOKENS = 500  # the most tokens that are added to a prompt
PROMPT_HITS = 3
_LOOKED_AT = 10  # search hits from which `PROMPT_HITS` are chosen
# Authors of texts that a prompt may get although the agent did not search. Tool output is not among them, because it is
# outside text. None stands for files and facts.
_UNASKED = frozenset({None, "user", "assistant", "subagent"})
_INDEX_SECONDS = 0.5  # for indexing new texts, because the agent waits
_PLAIN_ID = re.compile(r"[0-9a-fA-F-]{32,36}|ses_[0-9A-Za-z]{10,40}")  # ids that agents generate: short, never secret
_SESSIONS = 200  # the most sessions whose injected texts are kept
_PROJECTS = 4  # the last projects of an agent for which texts are prepared
_LOOK_SECONDS = 60.0  # between two preparations without a change, because the date may have changed
_AT_ONCE = 5.0  # seconds in which a user's hook and a project's hook may report the same start
_SHAPES = tuple(dict.fromkeys((dialect.files, dialect.units) for dialect in DIALECTS.values()))


class _InjectionRequest(NamedTuple):
    agent_id: str
    files: bool
    units: int | None
    asker: Asker = Asker()


class _LastInjection(NamedTuple):
    text: str
    at: float  # monotonic clock, in seconds
    source: str | None = None  # how the session started; None after text for a prompt


class HookAnswerer:
    """Answer hooks. Cache the last texts, so that unchanged text is not scanned and counted again."""

    def __init__(self, app: App, loop: Loop) -> None:
        self._app = app
        self._loop = loop
        self._last: dict[_InjectionRequest, tuple[InjectionMaterial, Policy, Budget, Injection]] = {}
        self._suggested: dict[tuple[str, str], None] = {}  # pairs of a session and the name of a notice, oldest first
        self._sessions: dict[str, _LastInjection] = {}  # by the agent's session id, least recently used first
        self._settings, self._looks = app.settings, self._look_timer()
        self._asking = 0  # the number of requests in progress

    def verbs(self) -> dict[str, Verb]:
        """Return the functions for the verbs of hooks, by verb."""
        return {"context": self.context, "prompt": self.prompt, "announce": self.announce}

    def context(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the agent's memory as `text`; empty if the session belongs to no agent.

        The fields of the request:
        - `cwd`: the folder of the session;
        - `workspace`: the workspace of the only agent that may answer, or None;
        - `session`: the session's id;
        - `source`: how the session started, if the text stays in its history;
        - `tool`: the agent program;
        - `files`: False if the tool loads `MEMORY.md` itself;
        - `units`: the most UTF-16 code units that the tool takes, or None.
        """
        agent = self._agent(request)
        if agent is None:
            return {"text": ""}
        made = self._inject(agent, request)
        if self._is_second(request, made.text):
            return {"text": ""}
        self._note(request, made.text, request.get("source"))
        self._log(agent, request, made)
        if _session(request)[1] is not None:  # load the scanner now: the prompt of a script follows within 0.1 s
            threading.Thread(target=self._keep_ready, name="ready", daemon=True).start()
        return {"text": made.text}

    def _is_second(self, request: Mapping[str, Any], text: str) -> bool:
        """Return True if another hook of the same start already got this text. Codex runs every hook that it finds."""
        told, source = self._sessions.get(_session(request)[1] or ""), request.get("source")
        if told is None or source is None or (told.source, told.text) != (source, text):
            return False
        return self._app.clock.monotonic() - told.at < _AT_ONCE

    def prompt(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return, as `text`, memories that match a prompt and that the session does not hold yet.

        The request has the fields of `context`, and also `prompt`, the session's `transcript`, and `keeps`. With
        `keeps`, the tool keeps injected text, so no text is injected twice.
        """
        agent, text = self._agent(request), request.get("prompt")
        if agent is None and self._app.settings.discover and isinstance(request.get("cwd"), str):
            self._loop.look_for_project()
        if agent is None or not isinstance(text, str):
            return {"text": ""}
        found = [*self._find_about(agent, request, text), *self._suggest(agent, request)]
        if not found:
            return {"text": ""}
        app, units = self._app, _read_request(agent, request, None).units
        remembered = contexts.redact_material(InjectionMaterial((), (), tuple(found), ()), app.scrubber.redact)
        budget = Budget(PROMPT_TOKENS, PROMPT_TOKENS, PROMPT_TOKENS, units)
        made = contexts.fit_material(remembered, budget, _estimate_tokens)
        self._note(request, self._known_to(agent, request) + (made.text if request.get("keeps", True) else ""))
        self._log(agent, request, made)
        return {"text": made.text}

    def _known_to(self, agent: Agent, request: Mapping[str, Any]) -> str:
        """Return the text that a session already got.

        If the daemon has restarted since, return the text that a session gets at its start.
        """
        known = self._sessions.get(_session(request)[1] or "")
        return known.text if known else self._inject(agent, request).text

    def _own(self, agent: Agent, request: Mapping[str, Any]) -> str | None:
        """Return the stored id of the session that asks, or None if memoryd has not read it yet."""
        return session_of(self._app.engine, agent.id, *_session(request))

    def _note(self, request: Mapping[str, Any], text: str, source: str | None = None) -> None:
        if (session := _session(request)[1]) is not None:
            self._sessions.pop(session, None)
            # Put it last, so that the least recently used session is dropped first.
            self._sessions[session] = _LastInjection(text, self._app.clock.monotonic(), source)
            if len(self._sessions) > _SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    def _find_about(self, agent: Agent, request: Mapping[str, Any], text: str) -> list[Part]:
        app = self._app
        until = app.clock.monotonic() + _INDEX_SECONDS
        hits = app.recall.search(agent, text, Narrowing(limit=_LOOKED_AT), lambda: app.clock.monotonic() < until)
        query, own = parse(text), f"{SESSION}:{self._own(agent, request)}"
        said = [hit for hit in hits if hit.path != own and hit.said_by in _UNASKED]
        about = [hit for hit in said if is_about(hit.snippet, query, text)][:PROMPT_HITS]
        new = contexts.list_new_parts(contexts.parts_of(about), self._known_to(agent, request))
        return [part for part in new if is_about(part.text, query, text)]

    def _suggest(self, agent: Agent, request: Mapping[str, Any]) -> list[Part]:
        """Return notices that a session gets only once: a limit is near, or somebody asks to read the memory."""
        own = self._own(agent, request)
        row = None if own is None else sqlite.read(self._app.engine, turns.session_row, own)
        settings = self._app.settings
        is_full = row is not None and fill_of(row, agent.context_window).ratio >= settings.sleep.threshold
        is_long = now_files.is_near_limit(settings, self._app.clock, agent.workspace)
        near = {name: name for name, is_near in (("the context", is_full), ("the NOW file", is_long)) if is_near}
        asked = self._take_new(own or agent.id, dict(access.list_notices(settings, agent)))
        new = self._take_new(own or agent.id, near)
        text = f"{' and '.join(new)} of this session will soon be full: memory_consolidate writes down what was said."
        near_full = [text[0].upper() + text[1:]] if new else []
        return [*contexts.make_parts(contexts.ASKED, asked), *contexts.make_parts("memoryd", near_full)]

    def _take_new(self, session: str, texts: Mapping[str, str]) -> list[str]:
        """Return the texts whose names the session has not had yet, and note that it has them."""
        new = {name: text for name, text in texts.items() if (session, name) not in self._suggested}
        self._suggested.update(dict.fromkeys((session, name) for name in new))
        while len(self._suggested) > _SESSIONS:
            del self._suggested[next(iter(self._suggested))]
        return [*new.values()]

    def _log(self, agent: Agent, request: Mapping[str, Any], made: Injection) -> None:
        session = _session(request)[1]
        if session is None or _PLAIN_ID.fullmatch(session) is None:
            session = self._own(agent, request)  # the stored id was scanned for secrets when it was read
        told = {"tool": request.get("tool"), "session": session}
        self._app.log.info("injected", agent=agent.id, tokens=made.tokens, left_out=len(made.left_out), **told)

    def refresh(self) -> None:
        """Prepare the answers to the next requests while no agent waits.

        The scanner takes longer to start than an agent waits. So it stays loaded while a session with injected text is
        live.
        """
        is_in_use = self.is_in_use()
        if self._settings is not self._app.settings:
            self._settings, self._looks = self._app.settings, self._look_timer()
        is_busy = self._loop.counts or self._app.ingest.backlog  # preparing would start a second child process
        if (is_in_use or not is_busy) and self._looks.is_due(self._app.clock.monotonic()):
            self._prepare()
        if is_in_use:
            self._keep_ready()

    def _look_timer(self) -> LookTimer:
        app = self._app
        # An edit of a memory file changes the index file. An agent answers an access request by editing a file.
        consents = [agent.workspace / access_grants.PATH for agent in app.settings.agents]
        written = [app.database, app.recall.indexer.index.path, *consents]
        return LookTimer(written, 0, app.clock.monotonic(), anyway=_LOOK_SECONDS)

    def is_in_use(self) -> bool:
        """Return True if a session got injected text less than `sessions.idle_end` ago."""
        since = self._app.clock.monotonic() - self._app.settings.sessions.idle_end.total_seconds()
        return any(told.at > since for told in list(self._sessions.values()))

    def _prepare(self) -> None:
        app, agents = self._app, {agent.id: agent for agent in self._app.settings.agents if agent.enabled}
        gather = cache(lambda agent_id, asker: self._gather(agents[agent_id], asker))
        first = [
            _InjectionRequest(agent.id, files, units, asker)
            for agent in agents.values()
            for asker in self._list_askers(agent)
            for files, units in _SHAPES
        ]

        changed: dict[_InjectionRequest, InjectionMaterial] = {}
        clean: dict[_InjectionRequest, InjectionMaterial] = {}
        for asked in dict.fromkeys([*self._last, *first]):
            with self._left_to_the_asker(asked):
                selected, remembered = self._select(asked, gather(asked.agent_id, asked.asker))
                if self._find_last(selected, remembered) is None:
                    changed[selected] = remembered
        if changed:
            self._give_way(app.worker)
        policy = app.scrubber.policy
        for asked, remembered in changed.items():
            with self._left_to_the_asker(asked):
                clean[asked] = contexts.redact_material(remembered, app.scrubber.redact)
        if clean:
            self._give_way(app.scrubber)
        for asked, material in clean.items():
            with self._left_to_the_asker(asked):
                self._fit(asked, changed[asked], policy, material)
        for agent in agents.values():
            access.settle_grants(app.settings, agent)

    @contextmanager
    def _left_to_the_asker(self, asked: _InjectionRequest) -> Iterator[None]:
        """Suppress the errors of the block, and drop the cached answer that it could not prepare.

        The next refresh tries again, and a hook that asks meanwhile gets the error.
        """
        try:
            yield
        except (KeyError, MemorydError) as error:
            self._last.pop(asked, None)
            self._looks.at = 0
            self._app.log.debug("not precomputed", agent=asked.agent_id, error_type=type(error).__name__)

    def _give_way(self, child: Worker | Scrubber) -> None:
        """End an idle child process before the other one starts, unless a request, a session or a run may need it.

        Each child process takes 50 to 60 MB.
        """
        if not (self._asking or self.is_in_use() or self._loop.running):
            child.tick(math.inf)

    def _keep_ready(self) -> None:
        """Start the scanner, because an agent may soon need it."""
        try:
            self._app.scrubber.begin([""]).result()
        except MemorydError as error:
            self._app.log.debug("not kept ready", error_type=type(error).__name__)

    def _list_askers(self, agent: Agent) -> list[Asker]:
        """Return who may ask next: new sessions, and the last session if a person resumes it.

        A new session may be in any of the last projects of an agent that has several, or in a new one.
        """
        with reads.open_reader(self._app.database) as reader:
            roots = list(projects.list_roots(reader, agent))
            last = reads.last_sessions(reader, agent.id, None, 1)
        several = [*roots[:_PROJECTS], projects.OTHER] if len(roots) > 1 else []
        resumed = [Asker(row["id"], projects.find_root(row["folder"] or "", agent)) for row in last]
        return [*(Asker(root=root) for root in (None, *several)), *resumed]

    def _gather(self, agent: Agent, asker: Asker) -> InjectionMaterial:
        return contexts.gather(self._app.settings, agent, self._app.clock.now(), asker)

    def _inject(self, agent: Agent, request: Mapping[str, Any]) -> Injection:
        asked, scrubber = _read_request(agent, request, self._own(agent, request)), self._app.scrubber
        self._asking += 1
        try:
            asked, remembered = self._select(asked, self._gather(agent, asked.asker))
            if (last := self._find_last(asked, remembered)) is not None:
                return last
            scan = scrubber.begin([""])
            self._app.worker.count([""])  # start the second child process too, because an agent waits
            scan.result()
            policy = scrubber.policy  # read before use, because a reload may change it
            return self._fit(asked, remembered, policy, contexts.redact_material(remembered, scrubber.redact))
        finally:
            self._asking -= 1

    def _select(
        self, asked: _InjectionRequest, gathered: InjectionMaterial
    ) -> tuple[_InjectionRequest, InjectionMaterial]:
        """Return the request with the asker that was found, and the part of the material that it may get."""
        if asked.asker != gathered.asker:
            self._last.pop(asked, None)
            asked = asked._replace(asker=gathered.asker)
        if not asked.files:  # the agent loads these files itself
            parts = tuple(one for one in gathered.parts if one.name in {RECENT_FILE, contexts.ASKED})
            gathered = gathered._replace(parts=parts, unreadable=())
        return asked, gathered

    def _find_last(self, asked: _InjectionRequest, remembered: InjectionMaterial) -> Injection | None:
        """Return the cached answer if material, policy and budget are unchanged; else None."""
        last, budget = self._last.get(asked), contexts.budget_of(self._app.settings, units=asked.units)
        return last[3] if last is not None and last[:3] == (remembered, self._app.scrubber.policy, budget) else None

    def _fit(
        self, asked: _InjectionRequest, remembered: InjectionMaterial, policy: Policy, clean: InjectionMaterial
    ) -> Injection:
        budget = contexts.budget_of(self._app.settings, units=asked.units)
        made = contexts.fit_material(clean, budget, self._app.worker.count)
        self._last[asked] = remembered, policy, budget, made
        return made

    def announce(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Pass on the `event` of a session, which the request names by transcript or id. The loop handles it soon.

        Raises:
            ConfigError: There is no such event.
        """
        event = next((one for one in HookEventKind if one == request.get("event")), None)
        if event is None:
            raise ConfigError("there is no such event", hint=", ".join(HookEventKind))
        transcript, session = _session(request)
        agent, folder = self._agent(request), request.get("cwd")
        if agent is None and not (self._app.settings.discover and isinstance(folder, str)):
            return {}
        if session is not None and (told := self._sessions.pop(session, None)) and event is HookEventKind.PRE_COMPACT:
            self._sessions[session] = told._replace(source=None)
        at, agent_id = self._app.clock.monotonic(), "" if agent is None else agent.id
        self._loop.announce(HookEvent(agent_id, event, transcript, session, at, folder=folder))
        return {}

    def _agent(self, request: Mapping[str, Any]) -> Agent | None:
        """Return the agent for the folder of the session, or None if no agent works there.

        Raises:
            NotFoundError: The request names a workspace that no enabled agent has.
        """
        wanted, cwd = request.get("workspace"), request.get("cwd")
        if wanted is None:
            return choose(self._app.settings, cwd)
        for agent in self._app.settings.agents:
            if agent.enabled and str(agent.workspace) == wanted:
                return agent if is_within(agent, cwd) else None
        raise NotFoundError("no agent works in this workspace", hint="run memoryd connect again")


def _read_request(agent: Agent, request: Mapping[str, Any], own: str | None) -> _InjectionRequest:
    units, folder = request.get("units"), request.get("cwd")
    # Without a folder, the project is unknown. The session then gets only texts that belong to no project.
    root = projects.find_root(folder, agent) if isinstance(folder, str) and folder.startswith("/") else projects.OTHER
    files = bool(request.get("files", True))
    return _InjectionRequest(agent.id, files, units if isinstance(units, int) else None, Asker(own, root))


def _estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Estimate the tokens of each text as a quarter of its bytes, which also holds for Chinese.

    A tokenizer takes 58 MB and loads more slowly than an agent waits.
    """
    return [-(-len(text.encode(errors="replace")) // CHARACTERS_PER_TOKEN) for text in texts]


def _session(request: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the transcript and the session id of a request, or None for each that it lacks."""
    transcript, session = request.get("transcript"), request.get("session")
    return transcript if isinstance(transcript, str) else None, session if isinstance(session, str) else None
