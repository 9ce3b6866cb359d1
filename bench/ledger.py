"""Measure the speed of the ledger: facts, the import of an edited file, the check of the audit, a million rows.

usage: bench/ledger.py
"""

from __future__ import annotations

import resource
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd import config
from memoryd.changing import core_import, dedup, verify
from memoryd.changing.facts import FactStore
from memoryd.changing.writer import Writer
from memoryd.clock import Clock
from memoryd.config import FactsSettings
from memoryd.database import audit, memories, reads, schema, sqlite
from memoryd.files.log import get_logger
from memoryd.files.open_folder import open_folder
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.facts import NewFact
from memoryd.ledger.memory import MemoryKind, hash_of
from memoryd.ledger.operation import Add, apply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

NOW = "2026-03-04T09:00:00.000Z"
FACTS, BATCH = 20_000, 500
BULLETS, EDITED = 2_000, 200
ENTRIES = 100_000
ROWS, COPIES = 1_000_000, 10_000


def new_hex() -> str:
    """Return eight random hex digits."""
    return secrets.token_hex(4)


@contextmanager
def timed() -> Iterator[list[float]]:
    """Put the seconds of the block into the list that this context returns."""
    taken: list[float] = []
    started = time.perf_counter()
    yield taken
    taken.append(time.perf_counter() - started)


def opened(folder: Path) -> Engine:
    """Open a new database with one agent."""
    engine = schema.open_database(folder / "memoryd.db", now=NOW).engine
    with sqlite.begin_write(engine) as connection:
        connection.exec_driver_sql("INSERT INTO agent VALUES ('demo', '/w', 1, 0, ?)", (NOW,))
    return engine


def add(engine: Engine, texts: list[str], kind: MemoryKind) -> None:
    """Add memories with their audit in one transaction."""
    with sqlite.begin_write(engine) as connection:
        taken = memories.TakenIds(connection)
        changes = apply({}, [Add(kind, text) for text in texts], agent_id="demo", now=NOW, new_hex=new_hex, taken=taken)
        audit.record(connection, changes, AuditStamp(NOW, "demo", "memoryd"))


def facts(folder: Path) -> None:
    """Measure facts per second, in batches."""
    writer = Writer(opened(folder), folder, Clock().text, new_hex, facts=FactsSettings(max_facts=BATCH))
    store = FactStore(writer, "demo", get_logger("memoryd.bench"))
    with timed() as taken:
        for start in range(0, FACTS, BATCH):
            store.create([NewFact(f"fact number {number}") for number in range(start, start + BATCH)])
    print(f"create facts          {FACTS / taken[0]:10,.0f} /s in batches of {BATCH}, the store full (wanted: 2,000)")


def imports(folder: Path) -> None:
    """Measure the import of an edited file."""
    engine = opened(folder)
    writer = Writer(engine, folder, lambda: NOW, new_hex)
    words = [secrets.token_hex(3) for _ in range(500)]
    lines = [" ".join(secrets.choice(words) for _ in range(12)) for _ in range(BULLETS)]
    path = folder / "MEMORY.md"
    with open_folder(folder) as workspace:
        path.write_text("".join(f"- {line}\n" for line in lines))
        core_import.bring(writer, workspace, "demo", settled=True)
        for number in range(0, BULLETS, BULLETS // EDITED):
            lines[number] += " and one thing more"
        path.write_text("".join(f"- {line}\n" for line in lines))
        with timed() as taken:
            brought = core_import.bring(writer, workspace, "demo", settled=True)
    assert len(brought.changes) == EDITED
    print(f"import {BULLETS:,} bullets  {taken[0]:10.3f} s, {EDITED} of them edited (wanted: 0.5)")


def verified(folder: Path) -> None:
    """Measure the check and the replay of the whole audit."""
    engine = opened(folder)
    for start in range(0, ENTRIES, 10_000):
        add(engine, [f"fact number {number}" for number in range(start, start + 10_000)], MemoryKind.FACT)
    engine.dispose()
    (folder / "workspace").mkdir()
    (folder / "memoryd.yaml").write_text(
        f"state_dir: {folder}\nagents: [{{id: demo, workspace: {folder / 'workspace'}}}]\n"
    )
    settings = config.load(folder / "memoryd.yaml")
    with timed() as taken, reads.open_reader(folder / "memoryd.db") as reader:
        found = verify.list_problems(settings, reader)
    assert found == []
    print(f"verify {ENTRIES:,} entries {taken[0]:8.2f} s (wanted: 10)")


def duplicates(folder: Path) -> None:
    """Measure dedup of a million rows, one in a hundred a copy. They have no audit, because dedup does not read it."""
    engine = opened(folder)
    columns = "id, agent_id, kind, content, content_hash, tags, constitutional, created_at, updated_at, derived_from"
    with sqlite.begin_write(engine) as connection:
        for start in range(0, ROWS, 50_000):
            values = []
            for number in range(start, start + 50_000):
                text = f"the same as others, {number - 1 if number % (ROWS // COPIES) == 1 else number}"
                row = (f"fact_{number:08x}", "demo", "fact", text, hash_of(text), "[]", 0, NOW, NOW, "[]", "[]")
                values.append((*row, f"{number:032x}"))
            connection.exec_driver_sql(
                f"INSERT INTO memory ({columns}, sources, salt) VALUES ({', '.join('?' * 12)})",  # noqa: S608
                values,
            )
    engine.dispose()
    script = Path(__file__)
    done = subprocess.run([sys.executable, script, "dedup", folder / "memoryd.db"], check=True, capture_output=True)
    print(done.stdout.decode(), end="")


def one_dedup(path: Path) -> None:
    """Run dedup in a separate process, so that its memory can be measured."""
    from memoryd.database.runs import Run

    engine = sqlite.connect(path)
    run = Run("run-1", "dedup", "demo", None, "memoryd", "schedule", "running", {}, 1, 1)
    with timed() as taken:
        done = dedup.run(Writer(engine, path.parent, lambda: NOW, new_hex), run)
    assert done.receipt["dedup"]["fact"] == COPIES, done.receipt
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"dedup {ROWS:,} rows {taken[0]:9.2f} s, {most:.0f} MB, {COPIES:,} copies ended (wanted: 20 s, 300 MB)")


def main() -> None:
    """Run each measurement in a separate folder."""
    if sys.argv[1:2] == ["dedup"]:
        one_dedup(Path(sys.argv[2]))
        return
    for bench in (facts, imports, verified, duplicates):
        with tempfile.TemporaryDirectory() as folder:
            bench(Path(folder))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
