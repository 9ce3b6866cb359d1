"""Report each transcript that cannot be read once, and clear the report when the transcript can be read."""

from collections.abc import Set as AbstractSet
from pathlib import Path

from sqlalchemy import Connection, Engine

from memoryd.clock import Clock
from memoryd.database import alarms
from memoryd.files.log import Log
from memoryd.reading.scrubbing import Scrubber, UnscannedError, hash_name

KIND = "unreadable"
UNSCANNED = "unscanned"
_WAITING = "transcripts wait, because their names or ids could not be scanned for secrets; memoryd logs names the cause"


class UnreadablePaths:
    """Hold the reported paths of each agent. They are stored as alarms, so they survive a restart."""

    def __init__(self, engine: Engine, clock: Clock, log: Log, scrubber: Scrubber) -> None:
        self.engine = engine
        self.clock = clock
        self.log = log
        self.scrubber = scrubber
        self._reported: dict[tuple[str, str], str] = {}
        self._waiting: dict[str, set[str]] = {}  # by agent: the transcripts that wait for the scanner

    def load(self, connection: Connection) -> None:
        """Load the reports that an earlier process has left open."""
        opened = alarms.list_open(connection)
        self._reported = {(one.agent_id, one.subject): one.text for one in opened if one.kind == KIND}
        self._waiting = {one.agent_id: set() for one in opened if (one.kind, one.subject) == (UNSCANNED, KIND)}

    def report(self, agent_id: str, path: str, why: str) -> None:
        """Raise the alarm that a path cannot be read, unless it was already raised with this reason."""
        subject = self._show_path(path)
        why = make_printable(why).replace(make_printable(path), subject)
        if self._reported.get((agent_id, subject)) == why:
            return
        alarms.set_alarm(self.engine, KIND, why, self.clock.text(), agent_id, subject)
        self._reported[agent_id, subject] = why
        self.log.warning("transcript cannot be read", agent=agent_id, path=subject, why=why)

    def report_waiting(self, agent_id: str, path: str) -> None:
        """Raise one alarm for all transcripts of an agent whose names or ids cannot be scanned now."""
        self._waiting.setdefault(agent_id, set()).add(path)
        alarms.set_alarm(self.engine, UNSCANNED, _WAITING, self.clock.text(), agent_id, KIND)

    def stop_waiting(self, agent_id: str, path: str) -> None:
        """Note that a transcript was scanned or is gone; clear the alarm if no other one of the agent waits."""
        waiting = self._waiting.get(agent_id, set())
        waiting.discard(path)
        if not waiting and self._waiting.pop(agent_id, None) is not None:
            alarms.set_alarm(self.engine, UNSCANNED, None, self.clock.text(), agent_id, KIND)

    def take_back(self, agent_id: str, path: str) -> None:
        """Clear the alarm of a path that can be read again or no longer exists."""
        key = agent_id, self._show_path(path)
        if key not in self._reported:
            return
        alarms.set_alarm(self.engine, KIND, None, self.clock.text(), *key)
        del self._reported[key]

    def count(self, agent_id: str) -> int:
        """Return the number of an agent's reported paths."""
        return sum(of_agent == agent_id for of_agent, _ in self._reported)

    def review(self, met: AbstractSet[tuple[str, str]]) -> None:
        """Clear the alarms of paths that no longer exist. `met` has the (agent, path) pairs that the scan found.

        A path that cannot be checked for lack of permission keeps its alarm.
        """
        for agent_id, path in [(name, path) for name, paths in self._waiting.items() for path in paths]:
            if (agent_id, path) not in met:
                self.stop_waiting(agent_id, path)
        if not self._reported:
            return
        known = {(agent_id, self._show_path(path)) for agent_id, path in met}
        for agent_id, path in [key for key in self._reported if key not in known]:
            try:
                Path(path).lstat()
            except PermissionError:
                continue
            except OSError:
                pass
            self.take_back(agent_id, path)

    def _show_path(self, path: str) -> str:
        """Return a path for display with its secrets redacted; a path that could not be scanned becomes its hash."""
        text = make_printable(path)
        try:
            return self.scrubber.redact_path(text)
        except UnscannedError:
            return hash_name(text)


def make_printable(path: str) -> str:
    """Return a path as printable text; bytes that are not UTF-8 become escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
