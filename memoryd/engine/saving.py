"""What agents' tools write: a note for the day's file, a new core memory, a new text for `MEMORY.md`.

Each is a run, so that it waits its turn, is guarded, audited and can be taken back like any other. What it is to write
lies where replies of models do, out of sight, and is gone when the run has ended.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from memoryd.database import memories, runs, sqlite
from memoryd.engine import gate
from memoryd.engine.core_import import bullets_of
from memoryd.engine.retry import AwayError
from memoryd.engine.time_machine import Revision
from memoryd.errors import RefusedError
from memoryd.jobs.job import AppendDaily, Done, NothingToDo, Operate
from memoryd.ledger.guards import Door
from memoryd.ledger.matching import match
from memoryd.ledger.memory import Ending, Kind, draw_id, hash_of
from memoryd.ledger.neutral import neutral, neutral_lines
from memoryd.ledger.operation import Add, Delete
from memoryd.tiers import core

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from memoryd.database.runs import Run
    from memoryd.engine.commit import Revise, Writer
    from memoryd.engine.core_import import Brought
    from memoryd.files.open_folder import OpenFolder
    from memoryd.ledger.operation import Operation

SAVE = "save"  # a block of the day's file
UPDATE = "update"  # one bullet more
REPLACE = "replace"  # all of MEMORY.md
KINDS = (SAVE, UPDATE, REPLACE)
NOTE = "Note"  # the block's heading


@dataclass(frozen=True, slots=True)
class Decided:
    """What the commit of a run is to do.

    Attributes:
        step: its edits.
        revise: what becomes of `MEMORY.md` as a whole.
        settled: it is whole, however little it holds.
        texts: what it brings in besides the edits.
    """

    step: Done | NothingToDo
    revise: Revise | None = None
    settled: bool = False
    texts: tuple[str, ...] = ()


def decide(writer: Writer, run: Run) -> Decided:
    """Say what a run is to write.

    Raises:
        RefusedError: there is nothing in it.
    """
    text = runs.given_text(writer.engine, run) or ""
    if run.kind == REPLACE:
        return Decided(Done((Operate((), Door.TOOL),)), _replaced(writer, run.agent_id, text), texts=(text,))
    clean = neutral_lines(text) if run.kind == SAVE else neutral(text)
    if not clean:
        raise RefusedError("there is no text to keep", run.id, "write at least one word")
    if run.kind == SAVE:
        day = date.fromisoformat(run.options["day"])
        return Decided(Done((AppendDaily(day, NOTE, run.options["clock"], clean),)))
    with sqlite.reading(writer.engine) as connection:
        if memories.by_text(connection, run.agent_id, Kind.CORE, hash_of(clean)):
            return Decided(NothingToDo("the core says that already"))
    return Decided(Done((Operate((Add(Kind.CORE, clean),), Door.TOOL),)))


def _replaced(writer: Writer, agent_id: str, text: str) -> Revise:
    """What makes `MEMORY.md` this text: omission means the end of a memory, guards permitting."""
    data = text.encode(errors="replace")
    bullets = bullets_of(core.parse(data), writer.redact)

    def revise(connection: Connection, _folders: tuple[OpenFolder, OpenFolder], brought: Brought) -> Revision:
        if not brought.agrees:
            raise AwayError(
                "MEMORY.md was edited a moment ago", str(writer.workspace), "it is taken over first; this waits for it"
            )
        live = memories.live(connection, agent_id, Kind.CORE)
        taken = memories.Taken(connection)
        found = match(live, bullets, lambda: draw_id(Kind.CORE, writer.new_id, taken))
        if found.put_back:
            why = "; ".join(f"{one.memory_id} is {one.was}" for one in found.put_back)
            raise RefusedError(
                f"constitutional: the memory is protected: {why}",
                "MEMORY.md",
                "memoryd core unprotect, if that is meant",
            )
        passed = gate.judge(
            connection,
            agent_id,
            list(_omitted(found.operations)),
            door=Door.TOOL,
            now=writer.now(),
            new_hex=lambda: secrets.token_hex(4),
            limits=writer.limits,
        )
        gate.require_passed(passed)
        return Revision(changes=passed.changes, core=data, actor=gate.AGENT_TOOL)

    return revise


def _omitted(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """What a new text leaves out was replaced by it; nobody said that it be forgotten."""
    for one in operations:
        is_left_out = isinstance(one, Delete) and one.ended_as is Ending.DELETED
        yield Delete(one.id, Ending.REPLACED, one.successors) if is_left_out and isinstance(one, Delete) else one
