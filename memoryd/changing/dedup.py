"""Remove duplicates: of several memories with the same text, one stays.

Only texts with the same hash are compared, and no text gets into a report or a log. Facts and journal entries are in no
file, so they are removed in batches, each in one transaction with its audit. If the run stops between two batches, the
next run does the rest. A bullet of `MEMORY.md` is removed by a commit, together with its row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter

from sqlalchemy import Connection, Engine

from memoryd.changing import guard_check
from memoryd.changing.guard_check import ACTOR
from memoryd.changing.writer import Writer
from memoryd.database import audit, memories, query, sqlite
from memoryd.database.runs import Run
from memoryd.jobs.job import Done, NothingToDo, Operate
from memoryd.ledger.audit import AuditStamp
from memoryd.ledger.guards import Caller
from memoryd.ledger.memory import Ending, MemoryKind
from memoryd.ledger.operation import Delete

BATCH = 1000
_NONE = "no two memories have the same text"

# Texts are read only where two normalised hashes are equal. The memory that stays comes first: a protected one, or else
# the oldest; of bullets with the same time, the first in the file.
_CANDIDATES = (
    "SELECT m.content_hash, m.content, m.constitutional, m.id FROM memory m"
    " WHERE m.agent_id = ?1 AND m.kind = ?2 AND m.deleted_at IS NULL"
    " AND m.content_hash IN (SELECT content_hash FROM memory"
    " WHERE agent_id = ?1 AND kind = ?2 AND deleted_at IS NULL GROUP BY content_hash HAVING count(*) > 1)"
    " ORDER BY m.content_hash, m.content, m.constitutional DESC, m.created_at, coalesce(m.position, 0), m.id"
)


def list_duplicates(connection: Connection, agent_id: str, kind: MemoryKind) -> Iterator[tuple[str, str]]:
    """Yield pairs of ids for a kind of memory: a memory to remove, and the one that stays. Protected memories stay."""
    for _, (kept, *copies) in groupby(query.fetch_rows(connection, _CANDIDATES, agent_id, str(kind)), itemgetter(0, 1)):
        yield from ((copy, kept[-1]) for *_, is_protected, copy in copies if not is_protected)


def run(writer: Writer, run: Run) -> Done | NothingToDo:
    """End the duplicates among facts and journal entries; return the removal of bullets for the commit."""
    ended = {}
    for kind in (MemoryKind.FACT, MemoryKind.JOURNAL):
        with sqlite.begin_read(writer.engine) as connection:
            pairs = list(list_duplicates(connection, run.agent_id, kind))
        ended[str(kind)] = len(pairs)
        waiting = iter(pairs)
        while batch := list(islice(waiting, BATCH)):
            with sqlite.begin_write(writer.engine) as connection:
                passed = guard_check.judge(connection, writer, run.agent_id, _deletes(batch), Caller.DEDUP)
                audit.record(connection, passed.changes, AuditStamp(writer.now(), run.agent_id, ACTOR, run.id))
    bullets = find_duplicates(writer.engine, run.agent_id, (MemoryKind.CORE,))
    receipt = {"dedup": ended | bullets.receipt["dedup"]}
    if isinstance(bullets, NothingToDo) and any(ended.values()):
        return Done((), receipt)
    return replace(bullets, receipt=receipt)


def find_duplicates(engine: Engine, agent_id: str, kinds: Iterable[MemoryKind] = MemoryKind) -> Done | NothingToDo:
    """Return the removal of all duplicates of these kinds as one decision, without carrying it out."""
    with sqlite.begin_read(engine) as connection:
        pairs = {str(kind): list(list_duplicates(connection, agent_id, kind)) for kind in kinds}
    receipt = {"dedup": {kind: len(some) for kind, some in pairs.items()}}
    deletes = tuple(_deletes([pair for some in pairs.values() for pair in some]))
    return Done((Operate(deletes, Caller.DEDUP),), receipt) if deletes else NothingToDo(_NONE, receipt=receipt)


def still_same(connection: Connection, agent_id: str, deletes: Sequence[Delete]) -> list[Delete]:
    """Return those deletions whose memories still have equal texts, because an edit may have changed one of them."""
    held = memories.by_ids(connection, agent_id, {name for one in deletes for name in (one.id, *one.successors)})
    texts = {memory.id: memory.content for memory in held.values() if memory.is_live}
    return [one for one in deletes if one.id in texts and all(texts.get(n) == texts[one.id] for n in one.successors)]


def _deletes(pairs: list[tuple[str, str]]) -> list[Delete]:
    return [Delete(memory_id, Ending.SUPERSEDED, (kept,)) for memory_id, kept in pairs]
