"""Hold what the benchmarks of search share: conversations in a database, measures, and other searches to compare with.

The other searches are FTS5 (porter, bm25) over four units of text, and bm25s if that package is installed
(`pip install bm25s PyStemmer`; memoryd does not use it).
"""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple

from memoryd.config import Agent
from memoryd.database import schema, sqlite
from memoryd.database.reads import KeptReader
from memoryd.files.log import get_logger
from memoryd.finding.indexing import Indexer
from memoryd.finding.recall import Narrowing, Recall
from memoryd.index.database import Index
from memoryd.recall.words import STOP_WORDS

if TYPE_CHECKING:
    from sqlalchemy import Connection

NOW = "2026-01-01T00:00:00.000Z"
DEPTH = 20
UNITS = ("turns", "windows with dates", "user's messages", "exchanges")
EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")
ADVERSARIAL = 5
_WORD = re.compile(r"[^\W_]+")


class Said(NamedTuple):
    """Hold one turn: the id that questions use, the speaker, and the text."""

    id: str
    role: str
    text: str


@dataclass(frozen=True)
class Session:
    """Hold a conversation at one time."""

    id: str
    at: datetime
    turns: list[Said]


@dataclass(frozen=True)
class Question:
    """Hold a question with the turns that answer it."""

    text: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class History:
    """Hold all sessions of one agent, and the questions about them."""

    agent_id: str
    sessions: list[Session]
    questions: list[Question] = field(default_factory=list)


def list_locomo_sessions(conversation: dict[str, Any]) -> Iterator[tuple[int, datetime, list[dict[str, Any]]]]:
    """Yield number, time and turns of the sessions of one of LoCoMo's conversations, in order."""
    numbers = sorted(int(key.removeprefix("session_")) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        rows = conversation[f"session_{number}"]
        if rows:
            at = datetime.strptime(f"{conversation[f'session_{number}_date_time']} +0000", "%I:%M %p on %d %B, %Y %z")
            yield number, at, rows


def show_turn(row: dict[str, Any]) -> str:
    """Return the text of a turn of LoCoMo, with the caption of a shared photo."""
    return (row.get("text") or "") + (f" [shares a photo: {row['blip_caption']}]" if row.get("blip_caption") else "")


def list_locomo_evidence(one: dict[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the questions of categories 1 to 4, each with the turns that it names."""
    for row in one["qa"]:
        if row["category"] != ADVERSARIAL:
            told = (EVIDENCE.findall(str(item)) for item in row.get("evidence", []))
            yield row["question"], frozenset(f"D{a}:{b}" for found in told for a, b in found)


def fill(connection: Connection, history: History) -> dict[tuple[str, int], str]:
    """Store a history; return the id that the questions use for each turn, by session and number."""
    agent_id, names = history.agent_id, {}
    connection.exec_driver_sql("INSERT INTO agent VALUES (?, '/w', 1, 0, ?)", (agent_id, NOW))
    for session in history.sessions:
        key, count = f"{agent_id}-{session.id}", len(session.turns)
        connection.exec_driver_sql(
            "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
            " gauge, counted_seq) VALUES (?, ?, ?, 'messages', 'ended', ?, ?, ?, ?, '{}', 0)",
            (key, agent_id, key, NOW, NOW, count, count),
        )
        rows = []
        for seq, said in enumerate(session.turns, 1):
            names[key, seq] = said.id
            stamp = (session.at + timedelta(seconds=seq)).isoformat()
            rows.append((agent_id, key, seq, f"{key}-{seq}", said.role, said.role, said.text, stamp))
        connection.exec_driver_sql(
            "INSERT INTO turn (agent_id, session_id, seq, transcript_id, generation, record_key, part, role, origin,"
            " kind, text, at, sidechain, first_byte, last_byte, sha256)"
            " VALUES (?, ?, ?, 1, 1, ?, 0, ?, ?, 'message', ?, ?, 0, 0, 0, x'')",
            rows,
        )
    return names


def score(ranked: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    """Return the measures of one question."""
    at = {k: len(evidence & set(ranked[:k])) for k in (5, 10, 20)}
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(ranked[:10]) if one in evidence)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(evidence))))
    return {f"R@{k}": n / len(evidence) for k, n in at.items()} | {
        "nDCG@10": gain / ideal, "hit@10": float(at[10] > 0)
    }  # fmt: skip


def read_memory(what: str) -> float:
    """Return the memory of this process in MB: VmRSS is the present value, VmHWM the peak. It is 0 if unknown."""
    status = Path("/proc/self/status")
    found = re.search(rf"{what}:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else 0.0


def run_apart(work: Callable[[], Tally | None]) -> Tally | None:
    """Do work in a child process, so that its memory can be measured."""
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(work()))
    child.start()
    writer.close()  # only the child holds the other end, so that its death ends the reading
    try:
        return reader.recv()  # before the child is joined, because a pipe holds only 64 KiB
    except EOFError:
        return None
    finally:
        child.join()


class Tally:
    """Add up the measures and the cost of one search over many questions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scores: list[dict[str, float]] = []
        self._wall: list[float] = []
        self._busy: list[float] = []
        self._before = read_memory("VmRSS")
        self._memory = 0.0

    def ask(self, search: Callable[[str], Sequence[str]], questions: Sequence[Question]) -> None:
        """Ask each question once."""
        for question in questions:
            begun = time.perf_counter(), time.process_time()
            ranked = search(question.text)
            self._wall.append((time.perf_counter() - begun[0]) * 1000)
            self._busy.append((time.process_time() - begun[1]) * 1000)
            self.scores.append(score(ranked, question.evidence))
        self._memory = read_memory("VmHWM") - self._before

    def tell(self) -> str:
        """Return the measures as one line."""
        told = "  ".join(f"{name} {mean(one[name] for one in self.scores):.3f}" for name in self.scores[0])
        wall, busy = (quantiles(one, n=100) for one in (self._wall, self._busy))
        return (
            f"{self.name:32} {len(self.scores)} questions  {told}  p50 {wall[49]:.1f} ms  p99 {wall[98]:.1f} ms"
            f"  CPU {busy[49]:.1f} and {busy[98]:.1f} ms  {self._memory:.0f} MB"
        )


@contextmanager
def open_recall(folder: Path) -> Iterator[Recall]:
    """Open the search of a state folder."""
    log = get_logger("memoryd.bench")
    index = Index(folder, log)
    reader = KeptReader(folder / "memoryd.db", stays=True)
    yield Recall(Indexer(index, reader, UTC, list, log), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    index.close()
    reader.close()


def store(folder: Path, histories: Sequence[History]) -> dict[str, dict[tuple[str, int], str]]:
    """Store histories in a folder and index them; return the names of their turns."""
    engine = schema.open_database(folder / "memoryd.db", now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        names = {one.agent_id: fill(connection, one) for one in histories}
    engine.dispose()
    with open_recall(folder) as recall:
        for one in histories:
            recall.indexer.refresh(Agent(id=one.agent_id, workspace=folder / "none"))
            recall.indexer.settle(Agent(id=one.agent_id, workspace=folder / "none"))
    return names


def ask_memoryd(
    folder: Path, histories: Sequence[History], names: dict[str, dict[tuple[str, int], str]], name: str = "memoryd"
) -> Tally:
    """Ask memoryd the questions about histories that a folder holds."""
    tally = Tally(name)
    with open_recall(folder) as recall:
        for one in histories:
            agent = Agent(id=one.agent_id, workspace=folder / "none")
            recall.search(agent, "open the database")
            tally.ask(partial(search_turns, recall, agent, names[agent.id]), one.questions)
    return tally


def search_turns(recall: Recall, agent: Agent, names: dict[tuple[str, int], str], text: str) -> list[str]:
    """Return the ids of the turns that memoryd finds."""
    hits = recall.search(agent, text, Narrowing(limit=DEPTH))
    places = ((hit.path.removeprefix("session:"), hit.first_line) for hit in hits)
    return [names.get(place, f"{place}") for place in places]


class Fts5:
    """Search with FTS5 (porter stems) over one unit of text; a hit stands for the turns of its unit, in their order."""

    def __init__(self, units: Sequence[tuple[list[str], str]]) -> None:
        self._ids = [ids for ids, _ in units]
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE d USING fts5(t, tokenize = 'porter unicode61')")
        texts = ((at, text) for at, (_, text) in enumerate(units))
        self._database.executemany("INSERT INTO d (rowid, t) VALUES (?, ?)", texts)

    def search(self, text: str) -> list[str]:
        """Return the ids of the turns found, best first."""
        words = _WORD.findall(text.lower())
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(w for w in words if w not in STOP_WORDS) or words)
        rows = self._database.execute(
            "SELECT rowid FROM d WHERE d MATCH ? ORDER BY bm25(d), rowid LIMIT ?", (match, DEPTH)
        )
        return list(dict.fromkeys(one for (at,) in rows for one in self._ids[at]))


class Bm25s:
    """Search turns with the package bm25s."""

    def __init__(self, units: Sequence[tuple[list[str], str]]) -> None:
        import bm25s
        import Stemmer

        self._ids = [ids[0] for ids, _ in units]
        stemmer = Stemmer.Stemmer("english")
        self._split = lambda texts: bm25s.tokenize(
            texts, stopwords=list(STOP_WORDS), stemmer=stemmer, show_progress=False
        )
        self._index = bm25s.BM25()
        self._index.index(self._split([text for _, text in units]), show_progress=False)

    def search(self, text: str) -> list[str]:
        """Return the ids of the turns found, best first."""
        found, worth = self._index.retrieve(self._split([text]), k=min(DEPTH, len(self._ids)), show_progress=False)
        return [self._ids[at] for at, one in zip(found[0], worth[0], strict=True) if one > 0]


def cut_units(history: History, unit: str) -> list[tuple[list[str], str]]:
    """Return the texts of a history in one unit, each with its turns."""
    units = []
    for session in history.sessions:
        texts = [said.text for said in session.turns]
        for at, said in enumerate(session.turns):
            if unit == "turns" or (unit == "user's messages" and said.role == "user"):
                units.append(([said.id], said.text))
            elif unit == "windows with dates":
                units.append(([said.id], "\n".join((f"{session.at:%d %B %Y}", *texts[max(0, at - 1) : at + 2]))))
            elif unit == "exchanges":
                if said.role == "user" or not at:
                    units.append(([], ""))
                ids, text = units[-1]
                units[-1] = ([*ids, said.id], f"{text}\n{said.text}")
    return units


def ask_other(name: str, unit: str, kind: Callable[..., Any], histories: Sequence[History]) -> Tally | None:
    """Ask one of the other searches; return None if it is not installed."""
    tally = Tally(name)
    try:
        for one in histories:
            tally.ask(kind(cut_units(one, unit)).search, one.questions)
    except ImportError:
        print(f"{name:32} skipped: not installed", flush=True)
        return None
    return tally


def ask_others(histories: Sequence[History]) -> Iterator[Tally]:
    """Ask each of the other searches, in a separate process."""
    kinds: list[tuple[str, str, Callable[..., Any]]] = [(f"FTS5, {unit}", unit, Fts5) for unit in UNITS]
    for name, unit, kind in (*kinds, ("bm25s, turns", "turns", Bm25s)):
        tally = run_apart(partial(ask_other, name, unit, kind, histories))
        if tally is not None:
            yield tally
