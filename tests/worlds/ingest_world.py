"""A small world for tests of ingest: folders, a state database, and an `Ingest` that can be started anew."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from memoryd.clock import Clock
from memoryd.config import Agent, ScrubSettings, Settings, TranscriptSource
from memoryd.database import schema, sqlite
from memoryd.files.log import get_logger
from memoryd.files.ranges import OpenFiles
from memoryd.reading.ingest import Ingest
from memoryd.reading.scrubbing import Scrubber
from memoryd.scrub.scan import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memoryd.scrub.finding import ScrubbedText
    from memoryd.scrub.policy import Policy

SESSION = "0b5c0a1e-0000-4000-8000-000000000001"


def claude(number: int, text: str, *, session: str = SESSION) -> bytes:
    """One record as Claude Code writes it, without its line end."""
    return json.dumps({
        "type": "user", "uuid": f"00000000-0000-4000-8000-{number:012d}", "sessionId": session,
        "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/home/ann/shop",
        "message": {"role": "user", "content": text},
    }, separators=(",", ":"), ensure_ascii=False).encode()  # fmt: skip


def message(text: str) -> bytes:
    """One generic record without id and time, without its line end."""
    return json.dumps({"role": "user", "content": text}, separators=(",", ":"), ensure_ascii=False).encode()


def lines(records: Iterable[bytes]) -> bytes:
    return b"".join(record + b"\n" for record in records)


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memoryd.db")
        engine = schema.open_database(path, now="2026-01-01T00:00:00.000Z").engine
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.dispose()
        return path.read_bytes()


@dataclass
class Row:
    id: int
    session_id: str
    seq: int
    record_id: str
    text: str
    transcript_id: int
    generation: int
    first_byte: int
    last_byte: int
    sha256: bytes


def _known(buffer: bytes) -> list[tuple[str, int, int]]:
    return [("github", *found.span()) for found in re.finditer(rb"\bghp_[A-Za-z0-9]{36}\b", buffer)]


class OwnRules:
    """The scanner's own rules and one known format, in this process; the library's take a second to load."""

    def scan(
        self, texts: Sequence[str], policy: Policy, progress: Callable[[], None] = lambda: None
    ) -> list[ScrubbedText | None]:
        progress()
        return [*scan(texts, policy, _known)]

    def tick(self, _: float) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """Agents with a workspace each, whose transcripts lie in `sessions`, and what memoryd makes of them."""

    def __init__(
        self,
        root: Path,
        *sources: dict[str, Any],
        agents: tuple[str, ...] = ("ann",),
        kept: int = 64,
        scanner: Any = None,
    ) -> None:
        self.root = root
        self.sessions = root / "sessions"
        self.sessions.mkdir(exist_ok=True)
        self.kept = kept
        self.offset = 0.0
        self.sources = sources or ({},)
        self.agents = agents
        self.disabled: set[str] = set()
        self.scrub = ScrubSettings()
        self.database = root / "memoryd.db"
        self.database.write_bytes(_empty_database())
        self.engine = sqlite.connect(self.database)
        self.clock = Clock(
            lambda: datetime.now(UTC) + timedelta(seconds=self.offset), lambda: time.monotonic() + self.offset
        )
        self.files = OpenFiles(kept)
        self.scanner = scanner or OwnRules()
        self.scrubber = Scrubber(self.scanner, get_logger("memoryd.test"))
        self.ingest = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settings(self) -> Settings:
        agents = tuple(self._agent(name) for name in self.agents)
        return Settings(state_dir=self.root, agents=agents, scrub=self.scrub)

    def _agent(self, name: str) -> Agent:
        workspace = self.root / name
        workspace.mkdir(exist_ok=True)
        found = [
            TranscriptSource(**{"path": "", "root": self.root, "pattern": "sessions/**/*.jsonl", **source})
            for source in self.sources
        ]
        return Agent(id=name, workspace=workspace, transcripts=tuple(found), enabled=name not in self.disabled)

    def _start(self) -> Ingest:
        return Ingest(self.engine, self.settings(), self.clock, get_logger("memoryd.test"), self.files, self.scrubber)

    def restart(self) -> None:
        """A new process: nothing is known but what the database holds, no file is open."""
        self.files.close()
        self.engine.dispose()
        self.engine = sqlite.connect(self.database)
        self.files = OpenFiles(self.kept)
        self.ingest = self._start()

    def close(self) -> None:
        self.files.close()
        self.engine.dispose()

    def path(self, name: str) -> Path:
        return self.sessions / name

    def write(self, name: str, data: bytes) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def append(self, name: str, data: bytes) -> Path:
        path = self.path(name)
        with path.open("ab") as file:
            file.write(data)
        return path

    def poll(self) -> None:
        """A whole scan, and all that it asked to be looked at again without waiting."""
        self.ingest.scan()
        self.settle()

    def settle(self) -> None:
        self.ingest.read_waiting()
        while due := [path for path, at in self.ingest.again.items() if at <= self.clock.monotonic()]:
            for path in due:
                del self.ingest.again[path]
                self.ingest.hint(path)
            self.ingest.read_waiting()

    def hint(self, *paths: Path) -> None:
        for path in paths:
            self.ingest.hint(str(path))
        self.ingest.flush()
        self.settle()

    def later(self, seconds: float) -> None:
        self.offset += seconds

    def query(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with sqlite.begin_read(self.engine) as connection:
            return [dict(row) for row in connection.exec_driver_sql(sql, values).mappings()]

    def rows(self, agent: str = "ann") -> list[Row]:
        plain = {"text": "plain(CAST(text AS BLOB), text_crc) AS text"}  # a long one is compressed
        names = ", ".join(plain.get(name, name) for name in Row.__dataclass_fields__)
        found = self.query(f"SELECT {names} FROM turn WHERE agent_id = ? AND text <> '' ORDER BY id", agent)  # noqa: S608
        return [Row(**row) for row in found]

    def texts(self, agent: str = "ann") -> list[str]:
        return [row.text for row in self.rows(agent)]

    def transcripts(self, agent: str = "ann") -> dict[str, dict[str, Any]]:
        """By path; where a path was used twice, the one that is there."""
        found = self.query("SELECT * FROM transcript WHERE agent_id = ? ORDER BY fate <> 'deleted', id", agent)
        return {row["path"]: row for row in found}

    def transcript(self, name: str, agent: str = "ann") -> dict[str, Any]:
        return self.transcripts(agent)[str(self.path(name))]

    def alarms(self) -> list[dict[str, Any]]:
        return self.query("SELECT kind, agent_id, subject, text FROM alarm WHERE cleared_at IS NULL")

    def check_spans(self) -> None:
        """The bytes of each turn lie where its row says, for the generation of its file that is there now."""
        for agent in self.agents:
            there = {row["id"]: row for row in self.transcripts(agent).values()}
            for row in self.rows(agent):
                file = there.get(row.transcript_id)
                if file is None or file["fate"] == "deleted" or row.generation != file["generation"]:
                    continue
                data = Path(file["path"]).read_bytes()[row.first_byte : row.last_byte]
                assert hashlib.sha256(data).digest() == row.sha256, (file["path"], row, data)


def copy_of(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
