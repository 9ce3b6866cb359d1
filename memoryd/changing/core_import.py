"""Import edits of `MEMORY.md` into the memory store, and audit each change.

The content of the file counts as the person's words. At the first import, all bullets become memories. Later edits also
count as the person's, except those that the agent's own tools are known to have made (`authorship`). Edits of protected
memories are not imported: the next commit restores these bullets in the file.

A file is not imported while somebody may be about to save it. This is the case if it has git's conflict markers, was
written a moment ago, or is empty or much shorter than the text of the ledger. A commit then continues without the
import if possible. The import follows when the file no longer changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from sqlalchemy import Connection

from memoryd.changing import authorship
from memoryd.changing.guard_check import HUMAN
from memoryd.changing.writer import Writer
from memoryd.clock import moment_of
from memoryd.database import audit, memories, sqlite
from memoryd.errors import AwayError
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder
from memoryd.files.workspace import lock_workspace
from memoryd.ledger import audit as chain
from memoryd.ledger.matching import PutBack, match
from memoryd.ledger.memory import Memory, MemoryKind, Source, draw_id, unite_groups
from memoryd.ledger.operation import Change, apply
from memoryd.text.conflicts import is_conflicted
from memoryd.text.private import is_private
from memoryd.tiers import core

CORE_FILE = "MEMORY.md"
SHORTENED = 0.5  # share of the ledger's characters; a file below it looks half-saved
_WAITS = "memoryd waits to write until then"
OPERATION = "import"  # name of the operation in the audit


RESOLVE = "memoryd resolve FILE shows both sides"


class UnfinishedError(AwayError):
    """Report an unfinished edit of the file; memoryd waits until its author has finished it."""


@dataclass(frozen=True, slots=True)
class CoreImport:
    """Hold the content of the file, and the result of its import."""

    data: bytes | None
    agrees: bool  # ledger and file have the same content, except for `put_back`
    put_back: tuple[PutBack, ...] = ()  # protected bullets to restore in the file
    changes: tuple[Change, ...] = ()
    before: tuple[Memory, ...] = ()  # the live core before the import


def digest_of(data: bytes | None) -> str:
    """Return the sha256 of the file's content; a missing file counts as empty."""
    return regular.compute_digest(data or b"")


def bring(writer: Writer, folder: OpenFolder, agent_id: str, *, settled: bool = False) -> CoreImport:
    """Import the file into the memory store; the caller holds the agent's lock.

    If the file may be half-saved, nothing is imported, and `agrees` of the result is False.

    Args:
        writer: the tools of the commit.
        folder: the workspace.
        agent_id: the agent.
        settled: True if the caller knows that the file has not changed for a while, so that it is complete.

    Raises:
        UnfinishedError: the file is marked private, or has an unresolved merge or an unclosed private part.
        StateError: the file cannot be read.
    """
    data = regular.read(folder / CORE_FILE)
    with sqlite.begin_read(writer.engine) as connection:
        known = memories.read_agreed_hash(connection, agent_id)
        if known == digest_of(data):
            return CoreImport(data, agrees=True)
        live = memories.read_live(connection, agent_id, MemoryKind.CORE)
    if data is None and not live and known is None:
        return CoreImport(data, agrees=True)
    where = str(folder.path / CORE_FILE)
    if is_private(CORE_FILE, data or b""):
        raise UnfinishedError("is marked private, so it is not read", where, f"remove the mark; {_WAITS}")
    if is_conflicted(data or b""):
        raise UnfinishedError("holds a merge that nobody has solved yet", where, f"{RESOLVE}; {_WAITS}")
    if core.is_open(data or b""):  # otherwise all bullets below it would count as deleted
        hint = f"close it, or put the word in backticks; {_WAITS}"
        raise UnfinishedError("has a <private> tag that is not closed", where, hint)
    if not settled and (_is_fresh(folder, writer) or is_shortened(data, live)):
        return CoreImport(data, agrees=False)
    return _import(writer, agent_id, data, folder.path / CORE_FILE)


def take_over(writer: Writer, agent_id: str) -> CoreImport:
    """Import an edit of `MEMORY.md`, so that the following work reads an up-to-date memory store.

    Raises:
        AwayError: the file was edited a moment ago.
    """
    with lock_workspace(writer.workspace) as place:
        brought = bring(writer, place.workspace, agent_id)
    if not brought.agrees:
        raise AwayError("MEMORY.md was edited a moment ago", str(writer.workspace / CORE_FILE), "the run waits for it")
    return brought


def _is_fresh(folder: OpenFolder, writer: Writer) -> bool:
    """Return True if the file was written a moment ago.

    A time in the future comes from another clock and does not count.
    """
    entry = folder / CORE_FILE
    age = moment_of(writer.now()).timestamp() - entry.lstat().st_mtime if entry.exists() else -1.0
    return 0 <= age < writer.settle_seconds


def is_shortened(data: bytes | None, live: Sequence[Memory]) -> bool:
    """Return True if the file has much less text than the memory store, as during a save or after a loss."""
    held = sum(len(bullet.text) for bullet in core.parse(data or b"").bullets)
    return held < SHORTENED * sum(len(memory.content) for memory in live)


def _is_new(change: Change) -> bool:
    before, after = change.before, change.after
    return after.is_live and (before is None or before.content != after.content)


def _is_own(change: Change, own: Mapping[str, tuple[Source, ...]]) -> bool:
    """Return True if the change adds a text that the agent's own tools wrote."""
    return _is_new(change) and core.normalize(change.after.content) in own


def _cite_sources(change: Change, own: Mapping[str, tuple[Source, ...]], said_at: str | None) -> Change:
    """Return a change; if it adds a text, with the text's sources, and with `said_at` as its time.

    Texts of the first import stay without a time, so that they count as older than all texts with a time.
    """
    if not _is_new(change):
        return change
    sources = unite_groups(change.after.sources, own.get(core.normalize(change.after.content), ()))
    return replace(change, after=replace(change.after, sources=sources, origin_at=said_at or change.after.origin_at))


def _import(writer: Writer, agent_id: str, data: bytes | None, path: Path) -> CoreImport:
    bullets = bullets_of(core.parse(data or b""), writer.redact)
    writer.step("before:import")
    with sqlite.begin_write(writer.engine) as connection:
        live = memories.read_live(connection, agent_id, MemoryKind.CORE)
        taken = memories.TakenIds(connection)
        found = match(live, bullets, lambda: draw_id(MemoryKind.CORE, writer.new_id, taken))
        now = writer.now()
        changes = apply(
            {memory.id: memory for memory in live},
            found.operations,
            agent_id=agent_id,
            now=now,
            new_hex=writer.new_id,
            taken=taken,
        )
        texts = {core.normalize(change.after.content) for change in changes if change.after.is_live}
        own = authorship.own_bullets(connection, agent_id, path, texts) if texts else {}
        is_first = memories.read_agreed_hash(connection, agent_id) is None
        changes = [_cite_sources(change, own, None if is_first else now) for change in changes]
        for actor, group in groupby(changes, lambda change: authorship.TOOL if _is_own(change, own) else HUMAN):
            audit.record(connection, list(group), chain.AuditStamp(now, agent_id, actor))
        if not found.put_back:
            agree(connection, digest_of(data), OPERATION, chain.AuditStamp(now, agent_id, HUMAN))
    writer.step("after:import")
    return CoreImport(data, agrees=True, put_back=found.put_back, changes=tuple(changes), before=tuple(live))


def agree(connection: Connection, sha256: str, operation: str, stamp: chain.AuditStamp) -> None:
    """Record and audit that the file with this sha256 and the memory store agree."""
    memories.set_agreed(connection, stamp.agent_id, sha256, stamp.at)
    state = chain.dump_state(path=CORE_FILE, sha256=sha256)
    audit.note(connection, [(operation, chain.FILE + CORE_FILE, state)], stamp)


def bullets_of(file: core.CoreFile, redact: Callable[[Sequence[str]], list[str]]) -> list[core.Bullet]:
    """Return the bullets of a file with secrets redacted, as in the memory store."""
    found = file.bullets
    clean = redact([text for bullet in found for text in (bullet.text, bullet.heading)])
    return [
        bullet._replace(text=text, heading=heading)
        for bullet, text, heading in zip(found, clean[::2], clean[1::2], strict=True)
    ]
