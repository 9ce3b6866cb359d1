"""Commit a run: files and rows change together, or not at all.

There are three steps:

1. One transaction writes the `intent`: the new content of each file, each block to append with its place, and all rows.
2. The files change. A rewrite is a temporary file, an fsync, an exchange of names and an fsync of the folder. An append
is one write with `O_APPEND` and an fsync.
3. One transaction writes the rows, moves the watermarks, ends the run and removes the intent.

The process may end between any two steps. `settle` completes each remaining intent. It never overwrites text that a
person or an agent wrote in the meantime: if a file has neither its old nor its new content, its change is planned
again.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Engine

from memoryd.changing import change_log, guard_check, learned_facts
from memoryd.changing.core_import import CORE_FILE, CoreImport, agree, bring, bullets_of, digest_of
from memoryd.changing.guard_check import ACTOR
from memoryd.changing.plan import (
    OutdatedError,
    PlanBase,
    Preview,
    plan_appends,
    plan_core,
    plan_writes,
    restore_put_back,
)
from memoryd.changing.time_machine import Revision
from memoryd.changing.writer import Writer
from memoryd.database import audit, erasure, memories, profile, query, runs, sqlite, summaries
from memoryd.database.runs import Run
from memoryd.errors import MemorydError, RefusedError, StateError
from memoryd.files import appends, durable, folders, late_edits, regular
from memoryd.files.open_folder import OpenFolder
from memoryd.files.workspace import WorkspaceFolders, lock_workspace
from memoryd.jobs.job import (
    AddMemories,
    AppendDaily,
    AppendDiary,
    EditFacts,
    JobEdit,
    KeepSummary,
    MoveWatermark,
    NoteTold,
    Operate,
    WriteFile,
    edit_of_facts,
)
from memoryd.ledger import audit as chain
from memoryd.ledger import guards
from memoryd.ledger.guards import Caller
from memoryd.ledger.memory import from_json, to_json
from memoryd.ledger.operation import Change
from memoryd.ledger.text_removal import cut_of_row
from memoryd.tiers import core

SLEEP = "sleep"
RUNNING = "running"
REPLANS = 50
_WATERMARK = ("session_id", "consumer", "seq", "moved_at", "run_id")
_PUT_MARK = query.make_upsert("watermark", _WATERMARK, "session_id", "consumer")
_RAISE_MARK = (
    "INSERT INTO watermark (session_id, consumer, seq, moved_at, run_id) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (session_id, consumer) DO UPDATE SET seq = max(seq, excluded.seq),"
    " moved_at = excluded.moved_at, run_id = excluded.run_id RETURNING *"
)
_TO_FILES = AppendDaily | AppendDiary | AddMemories | Operate | WriteFile


class StaleRunError(MemorydError):
    """Report that another process has taken over the run, or that the run was cancelled; its result is dropped."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Hold the end of a run, for its row in the job table."""

    state: str  # succeeded | skipped | running (the run goes on after this commit)
    why: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    receipt: dict[str, Any] = field(default_factory=dict)
    late: Callable[[], dict[str, Any]] = dict  # returns report values that are known only after the files are written
    row: Mapping[str, str | None] = field(default_factory=dict)  # further columns, see `values` of `runs.finish`


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Hold the effects of a commit."""

    files: tuple[str, ...] = ()
    memories: int = 0
    run: Run | None = None  # None if `settle` found no intent
    refused: tuple[dict[str, Any], ...] = ()  # refusals of the guards, in the form of the run report
    put_back: tuple[str, ...] = ()  # ids of protected memories that were restored in the file
    changes: tuple[Change, ...] = ()  # changes of memories, in order


Revise = Callable[["Connection", "tuple[OpenFolder, OpenFolder]", "CoreImport"], "Revision"]


def commit(
    writer: Writer,
    run: Run,
    edits: Sequence[JobEdit],
    outcome: RunOutcome,
    *,
    revise: Revise | None = None,
    settled: bool = False,
    foreseen: Preview | None = None,
) -> CommitResult:
    """Carry out a run's edits and end the run, all or nothing.

    Args:
        writer: the tools of the commit.
        run: the run.
        edits: the edits, in order.
        outcome: the end of the run.
        revise: is called in the transaction of the plan, and returns earlier states to restore.
        settled: True if the caller knows that `MEMORY.md` is complete, however short it is.
        foreseen: the preview that a person approved; the commit must have the same effect.

    Raises:
        StaleRunError: another claim owns the run now; nothing changed.
        OutdatedError: the memories are not those on which a rewrite was decided, or the effect would differ from
            `foreseen`; nothing changed.
        StateError: a memory file cannot be read or written.
        OSError: the disk reported an error. The intent stays and is completed later.
    """
    if revise is None and not any(isinstance(edit, _TO_FILES) for edit in edits):
        # No file changes, so one transaction is enough and no intent is needed.
        rows = {"actor": ACTOR, "put_back": ()} | _intent_of(writer, edits, outcome, Preview(), ())
        return _complete(writer, run, rows, outcome, (RUNNING,))
    with lock_workspace(writer.workspace) as place:
        for replan in range(REPLANS):
            brought = bring(writer, place.workspace, run.agent_id, settled=settled)
            told = replace(outcome, receipt=outcome.receipt | ({"replans": replan} if replan else {}))
            intent = _make_intent(writer, place, run, edits, told, brought, revise, foreseen)
            try:
                _apply_files(writer, place, run.id, intent, settling=False)
            except durable.MovedError:
                sqlite.write(writer.engine, query.run, "DELETE FROM intent WHERE run_id = ?", run.id)
                continue
            return _complete(writer, run, intent, outcome, ("running", "interrupted"))
    raise StateError(
        "the file changes faster than it can be written",
        where=str(writer.workspace / CORE_FILE),
        hint="stop the program that keeps rewriting it; memoryd then retries the run",
    )


def _intent_of(
    writer: Writer, edits: Sequence[JobEdit], outcome: RunOutcome, planned: Preview, appends: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the parts that all intents have: files, rows and the end of the run."""
    return {
        "rewrites": planned.rewrites,
        "appends": appends,
        "changes": _change_rows(planned.changes),
        "rows": _rows(writer, edits),
        # Facts are in no file. They are written with the other rows, on the store as it is at that time.
        "facts": [asdict(edit) for edit in _facts_in(edits)],
        "outcome": _outcome_json(outcome, planned, appends),
    }


def enter(connection: Connection, writer: Writer, agent_id: str, entry: Operate, run_id: str | None) -> None:
    """Add an entry to an agent's journal, in the caller's transaction; the journal is in no file."""
    passed = guard_check.judge(connection, writer, agent_id, entry.operations, entry.caller)
    audit.record(connection, passed.changes, chain.AuditStamp(writer.now(), agent_id, ACTOR, run_id))


def _facts_in(edits: Sequence[JobEdit]) -> list[EditFacts]:
    return [edit for edit in edits if isinstance(edit, EditFacts)]


def _learn(connection: Connection, writer: Writer, run: Run, edits: Sequence[EditFacts]) -> learned_facts.LearnedResult:
    """Write facts and sections of the profile; return the combined result."""
    done = [learned_facts.carry_out(connection, writer, run, edit) for edit in edits]
    return learned_facts.LearnedResult(
        tuple(change for one in done for change in one.changes),
        tuple(refusal for one in done for refusal in one.refusals),
        tuple(fact_id for one in done for fact_id in one.evicted),
    )


def preview_run(writer: Writer, run: Run, edits: Sequence[JobEdit], ahead: Sequence[Change] = ()) -> Preview:
    """Return what `commit` would do with a run's edits, without doing it; edits of `MEMORY.md` are imported first.

    The plan includes `ahead`: the changes of earlier edits that are not written yet either.
    """
    with lock_workspace(writer.workspace) as place:
        brought = bring(writer, place.workspace, run.agent_id)
        file = restore_put_back(brought)
        bullets = bullets_of(file, writer.redact)
        files: dict[str, tuple[bytes | None, bytes | None]] = {}
        for append in plan_appends(place.workspace, edits):
            path = append["path"]
            old = files[path] if path in files else (regular.read_below(place.workspace, path), b"")
            files[path] = (old[0], (old[1] or old[0] or append["create"].encode()) + append["block"].encode())
        files |= {edit.path: (edit.old, edit.new) for edit in edits if isinstance(edit, WriteFile)}
        plan_writes(place.workspace, run, edits)
        with sqlite.begin_trial(writer.engine) as connection:
            planned = plan_core(connection, writer, run, edits, brought, PlanBase(file, bullets, None, ahead))
            facts = _learn(connection, writer, run, _facts_in(edits))
    if planned.rewrites:
        files = {CORE_FILE: (brought.data, base64.b64decode(planned.rewrites[0]["bytes"])), **files}
    return replace(
        planned,
        files=tuple((path, *both) for path, both in files.items()),
        changes=(*planned.changes, *facts.changes),
        refusals=(*planned.refusals, *facts.refusals),
    )


def _make_intent(
    writer: Writer,
    place: WorkspaceFolders,
    run: Run,
    edits: Sequence[JobEdit],
    outcome: RunOutcome,
    brought: CoreImport,
    revise: Revise | None,
    foreseen: Preview | None,
) -> dict[str, Any]:
    # Bullets are read before the transaction, because scanning them for secrets would block other writers. Pure
    # additions do not refer to bullets.
    names_some = revise is not None or any(isinstance(edit, Operate) for edit in edits)
    file = restore_put_back(brought)
    bullets = bullets_of(file, writer.redact) if names_some else []
    appends = plan_appends(place.workspace, edits)
    with sqlite.begin_write(writer.engine) as connection:
        revision = None if revise is None else revise(connection, (place.workspace, place.continuum), brought)
        planned = plan_core(connection, writer, run, edits, brought, PlanBase(file, bullets, revision))
        planned = replace(planned, rewrites=(*planned.rewrites, *plan_writes(place.workspace, run, edits)))
        if foreseen is not None and not planned.is_as(foreseen):
            raise OutdatedError("the memory store changed meanwhile", str(writer.workspace / CORE_FILE))
        intent = _intent_of(writer, edits, outcome, planned, appends) | {
            "fence": run.fence,
            "actor": revision.actor if revision is not None else actor_of(edits, run),
            "put_back": [one.memory_id for one in brought.put_back],
            "agrees": brought.agrees,
        }
        intent["rows"] |= _plan_reversal(revision)
        intent["log"] = change_log.plan_entry(place.workspace, run, writer.now(), intent)
        owns = "SELECT 1 FROM job_run WHERE id = ? AND fence = ? AND state = 'running' AND cancel_requested = 0"
        if not query.has_row(connection, owns, run.id, run.fence):
            raise StaleRunError("another process has taken over the run", where=run.id)
        if run.kind in runs.ANSWERS and runs.find_proposal(connection, run.options["run"]) is None:
            raise RefusedError("it was answered or withdrawn meanwhile", run.options["run"])
        sql = "INSERT INTO intent (run_id, agent_id, made_at, plan) VALUES (?, ?, ?, ?)"
        query.run(connection, sql, run.id, run.agent_id, writer.now(), json.dumps(intent, sort_keys=True))
        writer.step("before:intent")
    writer.step("after:intent")
    return intent


def actor_of(edits: Sequence[JobEdit], run: Run) -> str:
    """Return the actor for the audit: memoryd for a run's own decisions, otherwise the caller.

    A tool acts for its caller: the agent, or a person at the command line.
    """
    callers = {edit.caller for edit in edits if isinstance(edit, Operate)}
    return guard_check.HUMAN if Caller.OWNER in callers else run.actor if Caller.TOOL in callers else ACTOR


def _outcome_json(outcome: RunOutcome, planned: Preview, appends: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    receipt = dict(outcome.receipt)
    receipt["files"] = [{name: item[name] for name in ("path", "before", "after")} for item in planned.rewrites]
    receipt["files"] += [
        {name: item[name] for name in ("path", "offset", "made")}
        | {"appended": item["sha256"], "bytes": len(item["block"].encode())}
        for item in appends
    ]
    receipt["memories_added"] = sum(change.before is None for change in planned.changes)
    if planned.refusals:
        receipt["refused"] = guards.describe_refusals(planned.refusals)
    told = {name: getattr(outcome, name) for name in ("state", "why", "tokens_in", "tokens_out")}
    return {**told, "receipt": receipt, **outcome.row}


def _change_rows(changes: Sequence[Change]) -> list[list[str | None]]:
    return [
        [one.operation, one.memory_id, None if one.before is None else to_json(one.before), to_json(one.after)]
        for one in changes
    ]


def _rows(writer: Writer, edits: Sequence[JobEdit]) -> dict[str, Any]:
    now = writer.now()
    return {
        "summaries": [
            asdict(edit) | {"messages": json.dumps(asdict(edit)["messages"], ensure_ascii=False), "updated_at": now}
            for edit in edits
            if isinstance(edit, KeepSummary)
        ],
        "told": [[edit.session_id, edit.run_id] for edit in edits if isinstance(edit, NoteTold)],
        "watermarks": [asdict(edit) | {"moved_at": now} for edit in edits if isinstance(edit, MoveWatermark)],
    }


def _plan_reversal(revision: Revision | None) -> dict[str, Any]:
    """Return the reverted watermarks, profile sections and notes of a revision, in the form of an intent."""
    if revision is None:
        return {}
    lists = {"reverted": revision.marks, "sections": revision.sections, "notes": revision.notes}
    reverted = {name: list(map(list, rows)) for name, rows in lists.items()} | {"undone": list(revision.undone)}
    return reverted if revision.erasure is None else reverted | {"erasure": revision.erasure}


# --- files ------------------------------------------------------------------------------------------------------------


def _apply_files(
    writer: Writer, place: WorkspaceFolders, run_id: str, intent: Mapping[str, Any], *, settling: bool
) -> None:
    for rewrite in intent["rewrites"]:
        _apply_rewrite(writer, place, run_id, rewrite, settling=settling)
    for append in (*intent["appends"], *filter(None, [intent.get("log")])):
        _apply_append(writer, place, append, settling=settling)


def _apply_rewrite(
    writer: Writer, place: WorkspaceFolders, run_id: str, rewrite: Mapping[str, Any], *, settling: bool
) -> None:
    with folders.made_way(place.workspace, rewrite["path"]) as entry:
        old = regular.read(entry)
        found = None if old is None else regular.compute_digest(old)
        if not settling and found != rewrite["before"]:
            raise durable.MovedError("was changed by somebody else meanwhile", str(entry.path))
        if rewrite["bytes"] is None:  # the run had created the file, and is reverted
            if old is not None and found == rewrite["before"]:
                folders.backup(place.continuum, run_id, entry.name, old)
                durable.exchange(entry, old, None, writer.step)
            return
        new = base64.b64decode(rewrite["bytes"])
        if settling and found == rewrite["after"]:
            durable.sync_folder(entry.folder, writer.step)
            return
        if found != rewrite["before"]:
            new = _reapply(rewrite, old)
            if new == (old or b""):
                return
        if old is not None and "cut" not in rewrite:  # no backup may contain forgotten text
            folders.backup(place.continuum, run_id, entry.name, old)
        durable.replace(entry, new, found, writer.step, keep=_keep_of(place, rewrite))


def _keep_of(place: WorkspaceFolders, rewrite: Mapping[str, Any]) -> durable.Keep | None:
    """Return a function that keeps the replaced `MEMORY.md` for a while, because an editor may still write to it."""
    if "cut" in rewrite or rewrite["path"] != CORE_FILE:
        return None
    return lambda version, data: late_edits.keep(version, place.continuum, data, CORE_FILE)


def _reapply(rewrite: Mapping[str, Any], old: bytes | None) -> bytes:
    """Return the new content of a file that somebody has edited since the plan, with only additions and removals."""
    new = old or b""
    if rewrite["additions"]:
        new = core.add(core.parse(new), [(heading, text) for heading, text in rewrite["additions"]])
    if "cut" not in rewrite:
        return new
    cut = cut_of_row(rewrite["cut"])
    return cut.of_core(new) if rewrite["path"] == CORE_FILE else cut.of_daily(rewrite["path"], new)


def _apply_append(writer: Writer, place: WorkspaceFolders, append: Mapping[str, Any], *, settling: bool) -> None:
    block = append["block"].encode()
    with folders.made_way(place.workspace, append["path"]) as entry:
        if settling:
            create, offset = append["create"].encode(), append["offset"]
            if offset == 0 and (regular.read(entry) or b"").startswith(create):
                offset = len(create)  # the run itself created the file, so the block follows its first line
            appends.fill_hole(entry, block, offset)
            block = appends.missing_part(regular.read(entry) or b"", block, offset)
            if not block:
                appends.sync_file(entry, writer.step)
                return
        appends.append(entry, block, append["create"].encode(), writer.step)


# --- rows -------------------------------------------------------------------------------------------------------------


def _complete(
    writer: Writer, run: Run, intent: Mapping[str, Any], outcome: RunOutcome | None, states: Sequence[str]
) -> CommitResult:
    """Write the rows and end the run, in one transaction.

    Raise StaleRunError unless the run is in one of `states`. If files may have changed, the caller passes all states,
    because the run then counts as done in any case.
    """
    receipt = intent["outcome"]["receipt"]
    if outcome is not None:
        receipt.update(outcome.late())
    with sqlite.begin_write(writer.engine) as connection:
        stamp = chain.AuditStamp(writer.now(), run.agent_id, intent["actor"], run.id)
        _write_ledger(connection, intent, stamp)
        done = _learn(connection, writer, run, [edit_of_facts(one) for one in intent.get("facts", ())])
        receipt["memories_added"] += sum(change.before is None for change in done.changes)
        if done.refusals:
            receipt["refused"] = [*receipt.get("refused", ()), *guards.describe_refusals(done.refusals)]
        if done.evicted:
            receipt["evicted"] = list(done.evicted)
        _write_rows(connection, intent["rows"], stamp)
        _finish_row(connection, writer, run, intent["outcome"], states)
        query.run(connection, "DELETE FROM intent WHERE run_id = ?", run.id)
        writer.step("before:rows")
    writer.step("after:rows")
    files = [item["path"] for item in (*intent["rewrites"], *intent["appends"])]
    if files or "replans" in receipt:
        sqlite.empty_log(writer.engine)  # the log still has the intent's whole files
    refused, put_back = tuple(receipt.get("refused", ())), tuple(intent["put_back"])
    changes = (*_changes_of(intent), *done.changes)
    return CommitResult(tuple(files), receipt["memories_added"], run, refused, put_back, changes)


def _write_ledger(connection: Connection, intent: Mapping[str, Any], stamp: chain.AuditStamp) -> None:
    """Write and audit the planned memories, and audit the restored bullets and the changed files."""
    audit.record(connection, _changes_of(intent), stamp)
    here = memories.by_ids(connection, stamp.agent_id, intent["put_back"])
    states = [("put back", memory_id, to_json(here[memory_id])) for memory_id in intent["put_back"]]
    for item in intent["appends"]:
        state = chain.dump_state(path=item["path"], appended=item["sha256"], run_id=stamp.run_id)
        states.append(("append", chain.FILE + item["path"], state))
    for item in intent["rewrites"]:
        if "whole" in item:
            state = chain.dump_state(path=item["path"], sha256=item["after"], run_id=stamp.run_id)
            states.append(("write", chain.FILE + item["path"], state))
    audit.note(connection, states, stamp)
    for item in intent["rewrites"]:
        if intent["agrees"] and item["path"] == CORE_FILE:
            agree(connection, item["after"] or digest_of(None), "write", stamp)


def _changes_of(intent: Mapping[str, Any]) -> list[Change]:
    return [
        Change(operation, memory_id, None if before is None else from_json(before), from_json(after))
        for operation, memory_id, before, after in intent["changes"]
    ]


def _write_rows(connection: Connection, rows: Mapping[str, Any], stamp: chain.AuditStamp) -> None:
    for row in rows["summaries"]:
        summaries.put(connection, **row, run_id=stamp.run_id)
    summaries.note_told(connection, rows.get("told", ()))
    if rows.get("undone"):
        sessions = {session_id for session_id, *_ in rows["reverted"]}
        summaries.take_back(connection, rows["undone"], sessions, stamp.run_id, stamp.at)
    states: list[tuple[str, str, str | None]] = [tuple(note) for note in rows.get("notes", ())]
    for row in rows["watermarks"]:
        values = row | {"run_id": stamp.run_id}
        (mark,) = query.fetch_mappings(connection, _RAISE_MARK, *(values[name] for name in _WATERMARK))
        name = chain.name_watermark(mark["session_id"], mark["consumer"])
        states.append(("watermark", name, chain.dump_state(**mark)))
    for session_id, consumer, values in rows.get("reverted", ()):
        if values is None:
            query.run(connection, "DELETE FROM watermark WHERE session_id = ? AND consumer = ?", session_id, consumer)
        else:
            query.run(connection, _PUT_MARK, *(values[name] for name in _WATERMARK))
    for section, values in rows.get("sections", ()):
        profile.put(connection, stamp.agent_id, section, values)
    audit.note(connection, states, stamp)
    if "erasure" in rows:
        erasure.erase(connection, stamp.agent_id, rows["erasure"], stamp.at)


def _finish_row(
    connection: Connection, writer: Writer, run: Run, outcome: Mapping[str, Any], states: Sequence[str]
) -> None:
    if outcome["state"] == RUNNING:
        ended = runs.note_receipt(connection, run, outcome["receipt"], states=states)
    else:
        ended = runs.finish(connection, run, state=outcome["state"], now=writer.now(), values=outcome, states=states)
    if not ended:
        raise StaleRunError("another process has taken over the run", where=run.id)
    if run.kind in runs.ANSWERS:
        told, settling = runs.ANSWERS[run.kind], states == runs.STATES
        answered = runs.answer(connection, run.options["run"], state=told, by=run.id, carried_out=settling)
        if not answered and not settling:
            raise StaleRunError("the proposal is answered already", where=run.options["run"])
        if answered and run.kind == runs.REJECT:  # the audit makes a rollback of the rejection possible
            rejected = ("reject", chain.PROPOSAL + run.options["run"], chain.dump_state(rejected_by=run.id))
            audit.note(connection, [rejected], chain.AuditStamp(writer.now(), run.agent_id, guard_check.HUMAN, run.id))
    is_sleep = SLEEP in {run.kind, run.options.get("of") if run.kind == runs.ACCEPT else None}
    if outcome["state"] == "succeeded" and run.session_id is not None and is_sleep:
        query.run(connection, "UPDATE session SET slept_at = ? WHERE id = ?", writer.now(), run.session_id)


# --- after a crash ----------------------------------------------------------------------------------------------------


def open_intents(engine: Engine) -> list[tuple[str, str]]:
    """List the remaining intents as (run id, agent id), oldest first."""
    sql = "SELECT run_id, agent_id FROM intent ORDER BY made_at, run_id"
    return [(row[0], row[1]) for row in sqlite.read(engine, query.fetch_rows, sql)]


def settle(writer: Writer, run_id: str) -> CommitResult:
    """Complete a remaining intent, at whatever step its process ended.

    Raises:
        OSError: the disk reported an error again; the intent stays.
        StateError: a memory file cannot be read or written.
    """
    with lock_workspace(writer.workspace) as place:
        # The plan is read under the lock, because another process may just have completed the intent.
        plan = sqlite.read(writer.engine, query.fetch_text, "SELECT plan FROM intent WHERE run_id = ?", run_id)
        if plan is None:
            return CommitResult()
        intent = json.loads(plan)
        run = runs.get_run(writer.engine, run_id)
        kept = _clear_leftovers(place.workspace, intent)
        for _ in range(REPLANS):
            with suppress(durable.MovedError):
                _apply_files(writer, place, run_id, intent, settling=True)
                break
        else:
            raise StateError("the file changes faster than it can be written", where=str(writer.workspace))
        if not all(_is_written(place.workspace, item) for item in intent["rewrites"] if "whole" in item):
            intent["rows"]["told"] = []  # such a file was edited since, so the next rollover writes it again
        receipt = intent["outcome"]["receipt"]
        receipt["settled"] = True
        if kept:
            receipt["conflicts"] = kept
        return _complete(writer, run, intent, None, runs.STATES)


def _is_written(workspace: OpenFolder, rewrite: Mapping[str, Any]) -> bool:
    data = regular.read_below(workspace, rewrite["path"])
    return data is not None and regular.compute_digest(data) == rewrite["after"]


def _clear_leftovers(workspace: OpenFolder, intent: Mapping[str, Any]) -> list[str]:
    """Delete the temporary files of a stopped rewrite; return the names of files that keep somebody's edit."""
    found = [(item["path"], item["before"], item["after"] or digest_of(None)) for item in intent["rewrites"]]
    found += [(item["path"], None, regular.compute_digest(item["create"].encode())) for item in intent["appends"]]
    if log := intent.get("log"):
        found.append((log["path"], None, regular.compute_digest(b"")))
    kept: list[str] = []
    for path, before, after in found:
        with folders.made_way(workspace, path) as entry:
            kept += [left.name for left in durable.settle(entry, before, after)]
    return kept
