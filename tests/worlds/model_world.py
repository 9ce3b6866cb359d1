"""A state folder, a workspace with one session, and an app whose model is a scripted server; time goes by hand."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from memoryd import config
from memoryd.app import open_app
from memoryd.clock import Clock
from memoryd.daemon.once import read_all
from memoryd.database import sqlite
from memoryd.running import sleeping
from memoryd.worker.client import Worker
from memoryd.worker.pool import Pool

if TYPE_CHECKING:
    from pathlib import Path

    from memoryd.app import App

KEY = "sk-canary-0123456789abcdef"
VARIABLE = "MEMORYD_TEST_KEY"
SAID = (
    ("user", "Always run the linter before a commit of the parser."),
    ("assistant", "Understood. I have added the linter to the hook of the parser because you asked for it."),
    ("user", "Our database is Postgres and it runs on the host named Marvin."),
    ("assistant", "The connection now goes to Marvin; the tests of the parser pass."),
)


@dataclass
class Time:
    """A clock that stands still unless it is moved."""

    at: datetime = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
    ticks: float = 1000.0

    def clock(self) -> Clock:
        return Clock(lambda: self.at, lambda: self.ticks)

    def pass_by(self, span: timedelta) -> None:
        self.at += span
        self.ticks += span.total_seconds()


class Lent:
    """Something shared, which an app uses and must not stop."""

    def __init__(self, owner: object) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> object:
        return getattr(self._owner, name)

    def tick(self, _: float) -> None:
        """The tests' time is not that of the children."""

    def close(self) -> None:
        """Its owner closes it."""


class Keyed(Worker):
    """A worker whose children have the key, whatever the test that needs the first one does to the environment."""

    def _start(self) -> subprocess.Popen[bytes]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, KEY)
            return super()._start()


class Workers:
    """Children for all tests of a module: they keep nothing of what they were asked, and are slow to start."""

    def __init__(self, folder: Path) -> None:
        owned = Keyed(folder), Pool(lambda: Keyed(folder)), Keyed(folder)
        self.counting, self.models, self.scanning = map(Lent, owned)
        self._owned = owned

    def lend(self, _folder: Path, name: str = "worker", **_more: object) -> Lent:
        """What an app takes for the worker of this name; it asks none of a model here, nor what a text means."""
        return self.scanning if name == "scanner" else self.counting

    def close(self) -> None:
        for one in self._owned:
            one.close()


@dataclass
class World:
    """One agent, one session, one daemon's worth of state."""

    root: Path
    url: str
    said: tuple[tuple[str, str], ...] = SAID
    llm: dict = field(default_factory=dict)
    time: Time = field(default_factory=Time)
    workers: Workers | None = None  # of all tests of a module; None: the app's own

    def __post_init__(self) -> None:
        self.workspace = self.root / "work"
        (self.workspace / "sessions").mkdir(parents=True)
        self.write(self.said)

    def write(self, said: tuple[tuple[str, str], ...], name: str = "one") -> None:
        lines = [
            json.dumps({"role": role, "content": text, "timestamp": f"2026-05-04T11:{i // 60:02}:{i % 60:02}Z"})
            for i, (role, text) in enumerate(said)
        ]
        (self.workspace / "sessions" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    def settings(self, **agent: object) -> config.Settings:
        llm = {
            "provider": "openai", "model": "tiny-1", "base_url": self.url, "api_key_env": VARIABLE, "timeout": "30s",
            "fallback": "wait", "max_output_tokens": 4096, "verify": "off", **self.llm,
        }  # fmt: skip
        sources = [{"path": "sessions/*.jsonl", "format": "messages"}]
        agents = [{"id": "demo", "workspace": str(self.workspace), "transcripts": sources, **agent}]
        text = json.dumps({"state_dir": str(self.root / "state"), "timezone": "UTC", "agents": agents, "llm": llm})
        path = self.root / "memoryd.yaml"
        path.write_text(text)
        return config.load(path)

    def open(self, **agent: object) -> App:
        app = open_app(self.settings(**agent), self.time.clock())
        if self.workers is not None:
            answerer = app.runner.answerer
            app.worker = app.runner.worker = app.runner.answerer.worker = self.workers.counting
            answerer.models = self.workers.models
            app.scrubber.close()  # what it began in recovering
            app.scrubber._scanner = self.workers.scanning
        return app

    @property
    def dailies(self) -> str:
        return "".join(path.read_text() for path in sorted(self.workspace.glob("memory/*.md")))

    def everything_written(self) -> bytes:
        """Every byte in the state folder and the workspace."""
        return b"\n".join(path.read_bytes() for path in self.root.rglob("*") if path.is_file())


def another(name: str) -> tuple[tuple[str, str], ...]:
    """A session like the usual one, in words of its own; records of equal content are one record."""
    return tuple((role, f"{text} That is for {name}.") for role, text in SAID)


def queue(app: App) -> list[str]:
    """Read the transcripts and queue a sleep of every session."""
    read_all(app)
    for row in sleeping.list_candidates(app.engine, "demo", ended=True):
        sleeping.request(app.engine, app.clock, row, reason=sleeping.NOTES, trigger="manual")
    return [row["id"] for row in rows(app, "SELECT id FROM job_run")]


def rows(app: App, sql: str, *values: object) -> list[dict]:
    with sqlite.begin_read(app.engine) as connection:
        return [dict(row) for row in connection.exec_driver_sql(sql, values).mappings()]


def the_run(app: App) -> dict:
    (row,) = rows(app, "SELECT * FROM job_run")
    return row


def with_llm(app: App, **changes: object) -> None:
    app.runner.settings = dataclasses.replace(
        app.runner.settings, llm=dataclasses.replace(app.runner.settings.llm, **changes)
    )
