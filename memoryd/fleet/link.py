"""Link a host to its fleet: its questions, its leases, its rows, and the requests that others leave for it.

The daemon calls `tick` on a thread of its own. While PostgreSQL is away, all other work continues and one alarm is
open. Questions wait or fall back as `llm.fallback` says. The host keeps the workspaces that it held last.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Engine

from memoryd.clock import Clock
from memoryd.config import Settings
from memoryd.database import alarms
from memoryd.database.runs import Run
from memoryd.errors import MemorydError, RefusedError, StateError
from memoryd.files.log import Log
from memoryd.files.token_file import read_or_make
from memoryd.fleet import leases, requests
from memoryd.fleet.connection import AWAY, Database
from memoryd.fleet.mirror import Mirror
from memoryd.fleet.questions import LATE, FleetAsker, FleetQuestion
from memoryd.fleet.requests import HostRequest
from memoryd.fleet.sealing import read_seal
from memoryd.jobs.job import Ask, Reply
from memoryd.llm.endpoint import Endpoint
from memoryd.llm.failure import Failure
from memoryd.running.alarms import FLEET, HELD
from memoryd.running.answering import question_hash
from memoryd.version import __version__

# This file in the state folder tells apart two daemons with the same host name.
STATE = "fleet.id"
_FAILURES = 2  # in a row, before the alarm
_REGISTER = (
    "INSERT INTO fleet_host AS h (host, version, state) VALUES (%s, %s, %s) ON CONFLICT (host) DO UPDATE"
    " SET state = excluded.state, seen_at = clock_timestamp()"
    " WHERE h.state = excluded.state OR h.seen_at < clock_timestamp() - interval '60 s' RETURNING 1"
)


class Link:
    """Keep a host in its fleet. It connects at first use, and is safe to use from several threads."""

    def __init__(self, settings: Settings, engine: Engine, clock: Clock, log: Log) -> None:
        self.engine = engine
        self.clock = clock
        self.log = log
        self.database = Database(settings, is_lazy=True)
        self.seal = read_seal(settings.fleet.key_file)
        self.asker = FleetAsker(self.database, self.seal, clock.monotonic)
        self.mirror = Mirror(engine, self.database, clock)
        # Holds the agents whose workspace another host leases, with the name of that host.
        self.held: dict[str, str] = {}
        self.is_changed = False  # `held` differs from the settings in force
        self._state = settings.state_dir / STATE
        self._lock = threading.Lock()
        self._is_open = self._is_registered = self._has_leases = False
        self._failures = 0
        self._renew_at = 0.0

    def close(self) -> None:
        """Release the leases and leave the fleet. A lease that cannot be released expires by itself."""
        if not self._is_open:
            return
        self.asker.close()
        if self._has_leases:
            try:
                leases.release(self.database)
            except MemorydError as error:
                self.log.info("leases not given up", why=error.what)
        self.database.close()

    def _open(self) -> None:
        with self._lock:
            if not self._is_open:
                self._is_open = True
                self.database.open()
                self.asker.start()

    # --- questions ----------------------------------------------------------------------------------------------------

    def ask(self, run: Run, endpoint: Endpoint, ask: Ask, tokens: int) -> Reply | Failure:
        """Return a worker's answer to a question that costs at most `tokens`."""
        self._open()
        asked = FleetQuestion(self._name_agent(run), endpoint.model, ask, endpoint.output, tokens, endpoint.timeout)
        answer = self.asker.ask(self._name_question(run, endpoint, ask), asked)
        what = answer.what if isinstance(answer, Failure) else ""
        if what != AWAY:  # `tick` reports that the database is away
            alarms.set_alarm(self.engine, FLEET, LATE if what == LATE else None, self.clock.text(), subject="workers")
        return answer

    def forget(self, run: Run, endpoint: Endpoint, ask: Ask) -> None:
        """Delete an answer from the fleet, because this host has stored it or cannot use it."""
        self.asker.forget(self._name_question(run, endpoint, ask))

    def _name_agent(self, run: Run) -> str:
        return f"{self.database.host}/{run.agent_id}"

    def _name_question(self, run: Run, endpoint: Endpoint, ask: Ask) -> str:
        parts = ask.job, question_hash(ask), endpoint.model, str(endpoint.output)
        return self.seal.name(self._name_agent(run), *parts)

    # --- workspaces ---------------------------------------------------------------------------------------------------

    def hold(self, settings: Settings) -> Settings:
        """Take the leases at the start of the daemon.

        Return the settings without the agents whose workspace another host holds.
        """
        self._open()
        try:
            # Another daemon with the same name must not share or release the leases of this name.
            self._register()
            self._take_leases(settings)
        # No host can take leases without the database. For a second daemon with this name, there is an alarm.
        except MemorydError as error:
            self.log.warning("workspaces not leased", why=error.what)
        return self.restrict(settings)

    def restrict(self, settings: Settings) -> Settings:
        """Return the settings with the agents disabled whose workspace another host holds."""
        self.is_changed = False
        agents = [
            replace(agent, enabled=agent.is_wanted and agent.id not in self.held, held_by=self.held.get(agent.id))
            for agent in settings.agents
        ]
        return replace(settings, agents=tuple(agents))

    def _take_leases(self, settings: Settings) -> None:
        self._has_leases = True
        held = leases.take(self.database, leases.name_workspaces(settings.agents))
        for agent in settings.agents:
            other = held.get(agent.id)
            text = f"the host {other} works on the workspace of this agent" if other else None
            if alarms.set_alarm(self.engine, HELD, text, self.clock.text(), agent.id):
                self.log.error("workspace is held", agent=agent.id, host=other)
        self.is_changed |= held != self.held
        self.held = held

    # --- the daemon's thread ------------------------------------------------------------------------------------------

    def tick(self, settings: Settings) -> None:
        """Renew the leases and send what has changed.

        If the fleet cannot be reached, open an alarm, and close it later.
        """
        self._open()
        try:
            if not self._is_registered:
                self._register()
            if self.clock.monotonic() >= self._renew_at:
                self._take_leases(settings)
                self._renew_at = self.clock.monotonic() + leases.RENEW_SECONDS
            self.mirror.send(settings)
        except MemorydError as error:
            self._note_failure(error)
        else:
            self._failures = 0
            alarms.set_alarm(self.engine, FLEET, None, self.clock.text())

    def _note_failure(self, error: MemorydError) -> None:
        self._failures += 1
        self._is_registered = False
        self._renew_at = 0.0
        text = f"{error.what}: {error.where}; questions wait or fall back, all other work continues"
        if self._failures >= _FAILURES and alarms.set_alarm(self.engine, FLEET, text, self.clock.text()):
            self.log.error("alarm", kind=FLEET, text=text)

    def _register(self) -> None:
        values = self.database.host, __version__, read_or_make(self._state)
        if not self.database.fetch(_REGISTER, *values):
            what = f"another daemon of the fleet has the name {self.database.host}"
            raise StateError(what, "fleet.host", "give each host a name of its own")
        self._is_registered = True

    def heed(self, carry_out: Callable[[HostRequest], str]) -> None:
        """Carry out the requests to this host with `carry_out`, and store their outcomes."""
        if not self._is_registered:
            return
        try:
            for row_id, body in requests.list_waiting(self.database):
                try:
                    asked = requests.open_request(self.seal, self.database.host, body, self.clock.now())
                    outcome = carry_out(asked)
                except RefusedError as error:
                    outcome = f"refused: {error.what}"
                self.log.info("request of the fleet", request=row_id, outcome=outcome)
                requests.answer(self.database, row_id, outcome)
        except MemorydError as error:
            self.log.info("requests of the fleet wait", why=error.what)
