"""Plan a rollback: of a run, of one change, or of everything after an entry of the audit.

- Memories and watermarks return to their audited states.
- `MEMORY.md` returns to its old bytes from the backup if it is unchanged. Otherwise only the affected bullets change.
- A block that a run appended to a daily file is removed if it is unchanged. A rollback of the rollback inserts it
  again.
- A file that the run created is deleted if it has no other content.
- A session's running summary, and the time of its last sleep, return to their earlier values.

A change stays if a later run depends on it. Forgotten text never comes back: neither a block of a forgotten session,
nor an old version that contains one.
"""

import base64
import hashlib
import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection

from memoryd.changing.core_import import CORE_FILE, CoreImport, digest_of
from memoryd.changing.guard_check import HUMAN
from memoryd.changing.session_files import list_drops
from memoryd.database import audit, erasure, memories, query, summaries
from memoryd.errors import RefusedError, StateError
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder
from memoryd.files.workspace import WorkspaceFolders
from memoryd.ledger import audit as chain
from memoryd.ledger import forgetting, rollback
from memoryd.ledger.memory import ANY_PREFIX, PREFIXES, Ending, MemoryKind, from_json, to_json
from memoryd.ledger.operation import Change
from memoryd.ledger.rollback import RollbackPlan, RollbackStep
from memoryd.ledger.text_removal import TextRemoval, lines_of
from memoryd.tiers import core, daily, diary

# Finds the runs that reverted a rollback of a run, and so restored it.
_REDONE = (
    "SELECT redo.id FROM job_run undo JOIN job_run redo ON json_extract(redo.options, '$.run') = undo.id"
    " WHERE undo.kind = 'rollback' AND json_extract(undo.options, '$.run') = ? AND redo.state = 'succeeded'"
)


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """Name what to revert: a run, one change of a run, or everything after an entry of the audit."""

    run_id: str | None = None
    audit_id: int | None = None
    memory_id: str | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """Hold the rows and files that a commit must write."""

    changes: tuple[Change, ...] = ()
    marks: tuple[tuple[str, str, dict[str, Any] | None], ...] = ()  # (session, consumer, row); None if there was none
    sections: tuple[tuple[str, dict[str, Any] | None], ...] = ()  # (section, row); the row is None if there was none
    notes: tuple[tuple[str, str, str | None], ...] = ()  # (operation, name, state) for the audit
    core: bytes | None = None  # the new bytes of `MEMORY.md`; None if they follow from the changes
    core_goes: bool = False  # the runs created the file, so it is deleted
    headings: frozenset[str] = frozenset()  # the headings of `MEMORY.md` from before the runs, which stay
    rewrites: tuple[tuple[str, bytes | None, bytes | None], ...] = ()  # other files: path, old and new bytes
    undone: tuple[str, ...] = ()  # the reverted runs, also those that had restored them; their summaries go too
    cut: TextRemoval | None = None  # text to remove also from files that are edited meanwhile; then no backup is kept
    erasure: dict[str, Any] | None = None  # see `database.erasure.erase`
    actor: str = HUMAN


def plan(connection: Connection, agent_id: str, target: RollbackTarget, now: str) -> RollbackPlan:
    """Return the plan of a rollback; journal entries stay, because they report what happened even if it is reverted.

    Raises:
        RefusedError: the run has changed nothing.
        NotFoundError: there is no such entry.
    """
    entries = list(audit.read_entries(connection, agent_id))
    texts = audit.make_text_reader(connection)
    if target.run_id is not None:
        only = None
        if target.memory_id is not None:
            only = rollback.operation_of(entries, texts, run_id=target.run_id, memory_id=target.memory_id)
        found = rollback.plan(entries, texts, run_id=target.run_id, now=now, only=only)
    else:
        found = rollback.plan_to(entries, texts, audit_id=target.audit_id or 0, now=now)
    return _without_copies(connection, agent_id, _with_journal(found))


def _without_copies(connection: Connection, agent_id: str, found: RollbackPlan) -> RollbackPlan:
    """Return the plan without ended memories whose text another memory has got since."""
    moved, there = {step.memory_id for step in found.steps}, list[tuple[str, str]]()
    for step in found.steps:
        if (
            step.memory_id.startswith(ANY_PREFIX)
            and rollback.describe_outcome(step.before, step.after) == rollback.BACK
        ):
            copies = memories.list_later_copies(connection, agent_id, step.memory_id)
            there += [(step.memory_id, live) for live in copies if live not in moved][:1]
    # The old bytes of `MEMORY.md` have these texts.
    gone = {name for name, _ in there} | {chain.FILE + CORE_FILE} if there else set()
    return replace(found, steps=tuple(one for one in found.steps if one.memory_id not in gone), there=tuple(there))


def _with_journal(found: RollbackPlan) -> RollbackPlan:
    def ends_entry(step: RollbackStep) -> bool:
        is_entry = step.memory_id.startswith(PREFIXES[MemoryKind.JOURNAL])
        return is_entry and step.after is not None and from_json(step.after).ended_as is Ending.UNDONE

    return replace(found, steps=tuple(step for step in found.steps if not ends_entry(step)))


def as_row(found: RollbackPlan) -> dict[str, Any]:
    """Return a plan as ids and numbers, without texts, for reports and commands."""
    return {
        "memories": [step.memory_id for step in found.steps if step.memory_id.startswith(ANY_PREFIX)],
        "others": [step.memory_id for step in found.steps if not step.memory_id.startswith(ANY_PREFIX)],
        "stayed": list(found.stayed),
        "there": [list(one) for one in found.there],
        "already": found.already,
        "conflicts": [
            {"memory": one.memory_id, "why": one.why, "later": [list(entry) for entry in one.later]}
            for one in found.conflicts
        ],
    }


def list_files(
    connection: Connection, agent_id: str, target: RollbackTarget, found: RollbackPlan, place: WorkspaceFolders
) -> list[dict[str, Any]]:
    """Return the files that the plan `found` would rewrite or remove, without texts."""
    brought = CoreImport(regular.read(place.workspace / CORE_FILE), agrees=True)
    revision = revise(connection, agent_id, target, found, (place.workspace, place.continuum), brought)
    core_name = chain.FILE + CORE_FILE
    is_changed = any(
        step.memory_id == core_name or rollback.describe_outcome(step.before, step.after) != rollback.AS_BEFORE
        for step in found.steps
        if step.memory_id.startswith((core_name, PREFIXES[MemoryKind.CORE]))
    )
    own = [{"path": CORE_FILE, "removed": revision.core_goes}] * is_changed
    return own + [{"path": path, "removed": new is None} for path, _, new in revision.rewrites]


def revise(
    connection: Connection, agent_id: str, target: RollbackTarget, found: RollbackPlan,
    folders: tuple[OpenFolder, OpenFolder], brought: CoreImport,
) -> Revision:  # fmt: skip
    """Return the rows and files that the plan `found` leads to."""
    workspace, continuum = folders
    steps = [step for step in found.steps if step.memory_id.startswith(ANY_PREFIX)]
    core_name = chain.FILE + CORE_FILE
    others = [step for step in found.steps if not step.memory_id.startswith(ANY_PREFIX) and step.memory_id != core_name]
    core_step = next((step for step in found.steps if step.memory_id == core_name), None)
    runs = list_reverted(connection, agent_id, target)
    undone = runs if target.memory_id is None else []
    receipts = [receipt for *_, receipt in undone]
    back = None if core_step is None else _backed_up(continuum, core_step, brought, receipts)

    files = [item for receipt in receipts for item in receipt.get("files", ())]
    forgotten = lines_of((), *erasure.read_blocks(connection, agent_id, ()))
    rewrites = {one[0]: one for one in _dailies(receipts, workspace, continuum, forgotten)}
    # Reverted summaries disappear from the files of the last sessions. The next rollover writes the remaining ones.
    # If an earlier rollback was reverted, the summary has the id of the run that restored it.
    for run_id in (reverted := [run_id for run_id, *_ in undone]):  # the loop appends to this list
        reverted += query.fetch_column(connection, _REDONE, run_id)
    rewrites = {one[0]: one for one in list_drops(continuum, summaries.list_told(connection, reverted))} | rewrites
    _check_brought_back(found, target, [item for item in files if item["path"] not in rewrites])
    is_made = any(item["path"] == CORE_FILE and "after" in item and item["before"] is None for item in files)

    def list_rows(prefix: str) -> list[tuple[str, dict[str, Any] | None]]:
        own = [(one.memory_id.removeprefix(prefix), one.after) for one in others if one.memory_id.startswith(prefix)]
        return [(name, None if after is None else dict(chain.values_of(after))) for name, after in own]

    return Revision(
        changes=tuple(_changes(connection, agent_id, steps)),
        marks=tuple((*name.rpartition(":")[::2], values) for name, values in list_rows(chain.WATERMARK)),
        sections=tuple(list_rows(chain.PROFILE)),
        notes=tuple((rollback.OPERATION, step.memory_id, step.after) for step in others),
        core=back,
        core_goes=back == b"" and is_made,
        headings=_list_headings(continuum, [item for *_, receipt in runs for item in receipt.get("files", ())]),
        rewrites=tuple(rewrites.values()),
        undone=tuple(reverted),
    )


def _check_brought_back(found: RollbackPlan, target: RollbackTarget, files: Iterable[Mapping[str, Any]]) -> None:
    """Raise a RefusedError if lines of a session are lost, but its messages would count as processed.

    `files` are the files of the reverted runs that do not change.
    """
    sessions = re.findall(f"{chain.WATERMARK}(.*):sleep\n", "".join(f"{one.memory_id}\n" for one in found.steps))
    lost = [one["path"] for one in files if "appended" not in one and one["path"].startswith("memory/")]
    if lost and target.run_id and sessions:
        hint = f"leave the rollback as it is: memoryd job run sleep --session {sessions[0]} writes it again"
        raise RefusedError("the removed lines cannot be put back, because the file was changed since", lost[0], hint)


def _list_headings(continuum: OpenFolder, files: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the headings that `MEMORY.md` had before the first of the runs, as far as a backup has them."""
    before = next((item["before"] for item in files if item["path"] == CORE_FILE and "before" in item), None)
    data = before and _read_backup(continuum, CORE_FILE, before)
    return frozenset(piece.text for piece in core.parse(data or b"").pieces if piece.kind is core.PieceKind.HEADING)


def _changes(connection: Connection, agent_id: str, steps: Sequence[RollbackStep]) -> Iterator[Change]:
    here = memories.by_ids(connection, agent_id, (step.memory_id for step in steps))
    for step in steps:
        now = here.get(step.memory_id)
        if now is None or to_json(now) != step.before or step.after is None:
            raise StateError("the row does not match the audit", step.memory_id, "run memoryd verify for details")
        yield Change(rollback.OPERATION, step.memory_id, now, from_json(step.after))


def _backed_up(
    continuum: OpenFolder, step: RollbackStep, brought: CoreImport, receipts: Sequence[Mapping[str, Any]]
) -> bytes | None:
    """Return the old bytes of `MEMORY.md`; None if the file has changed since, or if no backup has them."""
    left = None if step.before is None else chain.values_of(step.before).get("sha256")
    goal = None if step.after is None else chain.values_of(step.after).get("sha256")
    if brought.put_back or left != digest_of(brought.data):
        return None
    if goal is None:  # the audit has no earlier state of the file
        items = (item for receipt in receipts for item in receipt.get("files", ()) if item["path"] == CORE_FILE)
        return b"" if not brought.data or next(items, {"before": ""})["before"] is None else None
    return b"" if goal == digest_of(None) else _read_backup(continuum, CORE_FILE, str(goal))


def _read_backup(continuum: OpenFolder, name: str, sha256: str) -> bytes | None:
    """Return the bytes with this sha256 from the backups of a file; None if they are not there."""
    if not (continuum / "backup").exists():
        return None
    with continuum.folder("backup") as backups:
        for run_id in sorted(backups.names(), reverse=True):
            if not stat.S_ISDIR((backups / run_id).lstat().st_mode):
                continue  # a file of somebody else
            with backups.folder(run_id) as place:
                for file in place.names():
                    data = regular.read(place / file) if file.startswith(name) else None
                    if data is not None and regular.compute_digest(data) == sha256:
                        return data
    return None


def _dailies(
    receipts: Sequence[Mapping[str, Any]], workspace: OpenFolder, continuum: OpenFolder, forgotten: TextRemoval
) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Yield the daily files that change, as (path, old bytes, new bytes).

    Blocks that the runs appended are removed, and blocks that they had removed come back, without forgotten text. A
    file that the runs created is deleted if it has no other content. A file that they deleted comes back.
    """
    held: dict[str, bytes | None] = {}
    new: dict[str, bytes | None] = {}
    items = [item for receipt in receipts for item in receipt.get("files", ()) if item["path"] != CORE_FILE]
    for item in reversed(items):
        path = item["path"]
        if path not in held:
            held[path] = new[path] = regular.read_below(workspace, path)
        data, is_append = new[path], "appended" in item
        if data is not None and is_append:
            left = _without_block(data, item)
            is_empty = item.get("made") and left != held[path] and not _has_content(path, left)
            new[path] = None if is_empty else left
        elif data is not None:
            is_made = item["before"] is None and regular.compute_digest(data) == item["after"]
            new[path] = None if is_made else _with_cut(data, item, continuum, forgotten)
        elif not is_append and item["after"] is None:
            back = _read_original(continuum, item, forgotten)
            new[path] = back if back is None or _has_content(path, back) else None
    yield from ((path, held[path], data) for path, data in new.items() if data != held[path])


def _has_content(path: str, data: bytes) -> bool:
    return diary.has_content(data) if path.startswith(f"{diary.FOLDER}/") else daily.has_content(daily.parse(data))


def _without_block(data: bytes, item: Mapping[str, Any]) -> bytes:
    for sha256, size in ((item["appended"], item["bytes"]), *item.get("left", ())):  # `left` of a forgotten line
        if (at := daily.find_block(data, sha256, size)) is not None:
            return data[:at] + data[at + size :]
    return data


def _read_original(continuum: OpenFolder, item: Mapping[str, Any], forgotten: TextRemoval) -> bytes | None:
    """Return the bytes from before a rollback, without text that was forgotten since; None if no backup has them."""
    before = _read_backup(continuum, PurePath(item["path"]).name, item["before"])
    return None if before is None else forgotten.of_daily(item["path"], before)


def _with_cut(data: bytes, item: Mapping[str, Any], continuum: OpenFolder, forgotten: TextRemoval) -> bytes:
    """Return a file as it was before a rollback removed blocks from it, together with all later appends."""
    read = hashlib.sha256()
    end = 0
    for piece in re.findall(rb"\n|[^\n]+", data):  # appended text begins at the end of a line or after it
        read.update(piece)
        end += len(piece)
        if read.hexdigest() == item["after"]:
            before = _read_original(continuum, item, forgotten)
            return data if before is None else before + data[end:]
    return data


def list_reverted(connection: Connection, agent_id: str, target: RollbackTarget) -> list[tuple[str, str, Any]]:
    """Return the reverted runs in the order in which they wrote, as (id, kind, report).

    The kind of a run that accepted a proposal is that of the proposal.
    """
    last = 2**62
    if target.audit_id is not None:
        last = rollback.last_of_change(audit.read_entries(connection, agent_id), target.audit_id)
    sql = (
        "SELECT r.id, CASE r.kind WHEN 'accept' THEN json_extract(r.options, '$.of') ELSE r.kind END, r.receipt"
        " FROM job_run r JOIN audit a ON a.run_id = r.id WHERE r.agent_id = ?"
        " AND r.kind <> ? GROUP BY r.id HAVING r.id = ? OR max(a.id) > ? ORDER BY max(a.id)"
    )
    rows = query.fetch_rows(connection, sql, agent_id, forgetting.OPERATION, target.run_id, last)
    return [(run_id, kind, json.loads(receipt)) for run_id, kind, receipt in rows]


def encode_rewrite(
    path: str, before: bytes | None, after: bytes | None, cut: TextRemoval | None = None
) -> dict[str, Any]:
    """Return a rewrite in the form of an intent.

    `before` is None if there is no old file. `after` is None if the file must be deleted.
    """
    return ({} if cut is None else {"cut": asdict(cut)}) | {
        "path": path,
        "before": None if before is None else regular.compute_digest(before),
        "after": None if after is None else regular.compute_digest(after),
        "bytes": None if after is None else base64.b64encode(after).decode(),
        "additions": [],
    }


def encode_append(path: str, old: bytes | None, block: str, create: str) -> dict[str, Any]:
    """Return an append in the form of an intent: a block at the end of a file.

    Without a file (`old` is None), the new file begins with `create`.
    """
    block = f"\n{block}" if old is not None and daily.needs_newline(old) else block
    return {
        "path": path,
        "create": create,
        "offset": len(old or b""),
        "made": old is None,
        "block": block,
        "sha256": regular.compute_digest(block.encode()),
    }
