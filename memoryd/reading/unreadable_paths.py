"""Transcripts that cannot be read: said once, and taken back when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.database import alarms
from memoryd.reading.scrubbing import UnscannedError, hash_name

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from sqlalchemy import Connection, Engine

    from memoryd.clock import Clock
    from memoryd.files.log import Log
    from memoryd.reading.scrubbing import Scrubber

KIND = "unreadable"


class UnreadablePaths:
    """What is reported of which path of which agent; it outlives the process as alarms."""

    def __init__(self, engine: Engine, clock: Clock, log: Log, scrubber: Scrubber) -> None:
        self.engine = engine
        self.clock = clock
        self.log = log
        self.scrubber = scrubber
        self._reported: dict[tuple[str, str], str] = {}

    def load(self, connection: Connection) -> None:
        """Read what an earlier process reported and nobody took back."""
        opened = (one for one in alarms.list_open(connection) if one.kind == KIND)
        self._reported = {(one.agent_id, one.subject): one.text for one in opened}

    def report(self, agent_id: str, path: str, why: str) -> None:
        """Say that a path cannot be read."""
        subject = self._show_path(path)
        why = make_printable(why).replace(make_printable(path), subject)
        if self._reported.get((agent_id, subject)) == why:
            return
        alarms.set_alarm(self.engine, KIND, why, self.clock.text(), agent_id, subject)
        self._reported[agent_id, subject] = why
        self.log.warning("transcript cannot be read", agent=agent_id, path=subject, why=why)

    def take_back(self, agent_id: str, path: str) -> None:
        """Say that it can be read, or is there no more."""
        key = agent_id, self._show_path(path)
        if key not in self._reported:
            return
        alarms.set_alarm(self.engine, KIND, None, self.clock.text(), *key)
        del self._reported[key]

    def review(self, met: AbstractSet[tuple[str, str]]) -> None:
        """After a scan: take back what was not met on it, except what cannot even be looked for."""
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
        """A path as it may be shown: one that holds a secret is masked, one that could not be scanned is its hash."""
        text = make_printable(path)
        try:
            return self.scrubber.redact_path(text)
        except UnscannedError:
            return hash_name(text)


def make_printable(path: str) -> str:
    """A path as text: bytes of a name that are no UTF-8 are shown as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
